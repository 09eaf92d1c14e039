/* convolution.h: shared by the launchers of convolutions, conv.c and conv_cores.c. */
#ifndef CRK_LAUNCH_CONVOLUTION_H
#define CRK_LAUNCH_CONVOLUTION_H

#include "launch/sliding.h"

/* A convolution with checked arguments and a dst that is not empty. */
typedef struct crk_convolution {
  const char *where;
  crk_dtype_t dtype;
  crk_conv_t shape;
  uint64_t batch;
  const void *src, *kernel; /* their first elements */
  crk_view_t dst;
} crk_convolution_t;

/* Whether crk_priv_convolve_by_products takes the convolution. It takes f16 and bf16, unless channels are so few that a
 * product would waste most of its work, or a size does not fit the kernels' 32-bit numbers. */
bool crk_priv_convolves_by_products(const crk_convolution_t *convolution);

/* Launches the convolution as a matrix product. Fails as crk_conv2d does. */
crk_status_t crk_priv_convolve_by_products(crk_device_t self, const crk_convolution_t *convolution);

#endif
