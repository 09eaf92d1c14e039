/* convolution.h: shared by the launchers of convolutions, conv.c, conv_columns.c, conv_cores.c and conv_phases.c. */
#ifndef CRK_LAUNCH_CONVOLUTION_H
#define CRK_LAUNCH_CONVOLUTION_H

#include "call/windows_call.h"
#include "launch/sliding.h"

/* A convolution with checked arguments and a dst that is not empty. dst is (batch, groups, c_out, h, w). */
typedef struct crk_convolution {
  const char *where;
  crk_dtype_t dtype;
  crk_conv_t shape; /* of a group */
  bool transposed;
  uint64_t batch, groups;
  uint64_t src_group, kernel_group; /* from one group to the next, in elements of src and of the kernel */
  const void *src, *kernel; /* their first elements */
  bool kernel_is_contiguous;
  crk_view_t dst;
} crk_convolution_t;

/* The elements of dst. */
static inline uint64_t crk_priv_convolution_numel(const crk_convolution_t *convolution) {
  const crk_conv_t *s = &convolution->shape;
  return convolution->batch * convolution->groups * s->c_out * s->h_out * s->w_out;
}

/* Fewer products of input and output channels of a group are left to the kernel that computes each output by itself:
 * a matrix product would waste most of its work. For halves in windows of CRK_CONV_WIDE_WINDOW elements or more the
 * limit is CRK_CONV_LEAST_HALVES, on all devices: timed on an H200 (docs/tried.md). Not for transposed and depthwise
 * convolutions. */
enum { CRK_CONV_LEAST_CHANNELS = 64, CRK_CONV_LEAST_HALVES = 16, CRK_CONV_WIDE_WINDOW = 9 };

/* Whether crk_priv_convolve_by_products takes the convolution. It takes f16 and bf16, and f32 where the device has
 * matrix cores for it, unless channels are few or a size does not fit the kernels' 32-bit numbers. */
bool crk_priv_convolves_by_products(crk_device_t self, const crk_convolution_t *convolution);

/* Launches the convolution as a matrix product, or one per phase. Fails as crk_conv2d does. */
crk_status_t crk_priv_convolve_by_products(crk_device_t self, const crk_convolution_t *convolution);

/* Whether crk_priv_convolve_by_columns takes the convolution. It takes f32 and f64, unless channels are few or the
 * convolution is transposed. */
bool crk_priv_convolves_by_columns(const crk_convolution_t *convolution);

/* Writes the windows of `batch` images as the rows of matrices (b, h_out, w_out, c, h_k, w_k). `s` has the sizes,
 * strides and paddings; this call sets the rest. `h_padding` may wrap below 0: the windows then begin further down.
 * Fails as crk_im2col does. */
crk_status_t crk_priv_im2col(crk_device_t self, crk_im2col_t *s, uint64_t batch, uint64_t h_k, uint64_t w_k,
                             uint32_t bytes, const void *src, void *dst);

/* Writes the windows as the rows of matrices in scratch memory, and multiplies the kernel by them, a bounded part of
 * the windows at a time. Fails as crk_conv2d does. */
crk_status_t crk_priv_convolve_by_columns(crk_device_t self, const crk_convolution_t *convolution);

/* Whether the sizes of a transposed convolution fit the 32-bit numbers of its phases, and each phase has outputs. */
bool crk_priv_phases_fit(const crk_conv_t *shape);

/* The largest coordinate that a phase reads along a dim of the image, or the largest distance from there to the image's
 * other end. For phases that fit. */
uint64_t crk_priv_phases_farthest(const crk_conv_t *shape, bool is_across);

/* Describes the phases. Sets the stride and the dilation of the windows, and all that crk_conv_phases_t has beside
 * `most`. */
void crk_priv_phases_init(crk_conv_phases_t *call, const crk_conv_t *shape);

/* The bits that hold each of 0 to `most`. */
static inline uint32_t crk_priv_bits_of(uint64_t most) { return crk_priv_log2_ceil(most + 1); }

#endif
