/* What slides over what: the shapes of convolutions, pools and upsampling, and how their launchers' kernels share the work.
 * Plain C: csrc/launch/conv.c and pool.c fill them in, convolution.h, im2col.h and pool.h read them. Sizes are in elements.
 *
 * A 1-D op is a 2-D one whose images and windows are 1 high, without padding above and below. */
#ifndef CRK_WINDOWS_H
#define CRK_WINDOWS_H

#include "nd.h"

/* A convolution or a transposed one. */
typedef struct crk_conv {
  uint64_t c_in, h_in, w_in, c_out, h_out, w_out;
  uint64_t h_k, w_k; /* the window */
  uint64_t stride, h_padding, w_padding, dilation;
  uint64_t src_strides[4]; /* b, c_in, h, w */
  uint64_t kernel_strides[4]; /* c_out, c_in, h, w, whatever the order of the dims is */
} crk_conv_t;

#endif
