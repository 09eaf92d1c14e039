/* convolution.h: shared by the launchers of convolutions, conv.c, conv_cores.c and conv_phases.c. */
#ifndef CRK_LAUNCH_CONVOLUTION_H
#define CRK_LAUNCH_CONVOLUTION_H

#include "call/windows_call.h"
#include "launch/sliding.h"

/* A convolution with checked arguments and a dst that is not empty. */
typedef struct crk_convolution {
  const char *where;
  crk_dtype_t dtype;
  crk_conv_t shape;
  bool transposed;
  uint64_t batch;
  const void *src, *kernel; /* their first elements */
  crk_view_t dst;
} crk_convolution_t;

/* Whether crk_priv_convolve_by_products takes the convolution. It takes f16 and bf16, unless channels are so few that a
 * product would waste most of its work, or a size does not fit the kernels' 32-bit numbers. */
bool crk_priv_convolves_by_products(const crk_convolution_t *convolution);

/* Launches the convolution as a matrix product, or one per phase. Fails as crk_conv2d does. */
crk_status_t crk_priv_convolve_by_products(crk_device_t self, const crk_convolution_t *convolution);

/* Whether the sizes of a transposed convolution fit the 32-bit numbers of its phases, and each phase has outputs. */
bool crk_priv_phases_fit(const crk_conv_t *shape);

/* Describes the phases. Sets the stride and the dilation of the windows, and all that crk_conv_phases_t has beside
 * `most`. */
void crk_priv_phases_init(crk_conv_phases_t *call, const crk_conv_t *shape);

/* The bits that hold each of 0 to `most`. */
static inline uint32_t crk_priv_bits_of(uint64_t most) { return crk_priv_log2_ceil(most + 1); }

#endif
