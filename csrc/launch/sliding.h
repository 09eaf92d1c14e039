/* sliding.h: what the launchers of convolutions, pools and upsampling share: sizes, checks, the numbers their kernels take. */
#ifndef CRK_LAUNCH_SLIDING_H
#define CRK_LAUNCH_SLIDING_H

#include "call/sliding.h"
#include "launch/launcher.h"

/* This module's kernels among the family's slots. */
enum {
  CRK_CONV_SLOT_DIRECT = 0,
  CRK_CONV_SLOT_TRANSPOSE = CRK_CONV_SLOT_DIRECT + CRK_DTYPE_COUNT,
  CRK_CONV_SLOT_COL2IM = CRK_CONV_SLOT_TRANSPOSE + CRK_DTYPE_COUNT,
  CRK_CONV_SLOT_POOL = CRK_CONV_SLOT_COL2IM + CRK_DTYPE_COUNT, /* + op * CRK_DTYPE_COUNT */
  CRK_CONV_SLOT_BILINEAR = CRK_CONV_SLOT_POOL + 2 * CRK_DTYPE_COUNT,
  CRK_CONV_SLOT_IM2COL = CRK_CONV_SLOT_BILINEAR + CRK_DTYPE_COUNT,
  CRK_CONV_SLOT_IM2COL_TILE = CRK_CONV_SLOT_IM2COL + CRK_WIDTHS,
  CRK_CONV_SLOT_NEAREST = CRK_CONV_SLOT_IM2COL_TILE + CRK_WIDTHS,
  CRK_CONV_SLOTS = CRK_CONV_SLOT_NEAREST + CRK_WIDTHS
};
_Static_assert((int)CRK_CONV_SLOTS <= (int)CRK_FAMILY_SLOTS, "more kernels than slots");

enum { CRK_WINDOW_THREADS = 256 }; /* of a block, CRK_LAUNCHED_THREADS of the kernels */

/* Fills in the division by `size`, at least 1 and below 2^31, or 2^63 for a wide one. */
void crk_priv_divisor_init(crk_divisor_t *divisor, uint64_t size, bool wide);

/* A window that goes over a dim, and the names that errors call both by. */
typedef struct crk_window {
  const char *where, *size_name, *window_name;
  size_t size, window, stride, padding, dilation;
} crk_window_t;

/* The windows that the dim has room for. Fails with CRK_INVALID_ARGUMENT where there is none, where the window, the stride or
 * the dilation is 0, or where a number reaches 2^62. */
crk_status_t crk_priv_window_count(const crk_window_t *window, size_t *count);

/* The size of the dim that a transposed convolution makes. Fails likewise, and where the padding is more than there is. */
crk_status_t crk_priv_window_reach(const crk_window_t *window, size_t output_padding, size_t *size);

/* Checks a layout's rank; a layout that counts beyond size_t is refused too. */
crk_status_t crk_priv_check_rank(const char *where, const char *name, const crk_layout_t *layout, uint32_t rank,
                                 crk_extent_t *extent);

/* A strided source of `extent` that is read, and where it begins: `instead` where it has no element. */
crk_status_t crk_priv_check_source(const char *where, const crk_tensor_t *source, const crk_extent_t *extent,
                                   const void *instead, const void **first);

/* The product of `count` dims of dst. Fails with CRK_INVALID_ARGUMENT beyond size_t. */
crk_status_t crk_priv_dst_numel(const char *where, const size_t *dims, uint32_t count, size_t *numel);

/* Fails where `numel` elements do not fit dst, or where dst overlaps a source. */
crk_status_t crk_priv_check_dst(const char *where, crk_view_t dst, size_t numel, uint32_t bytes);
crk_status_t crk_priv_check_dst_apart(const char *where, crk_view_t dst, size_t numel, const crk_tensor_t *source,
                                      const crk_extent_t *extent, const void *first);

/* Launches `blocks` blocks of `threads` threads: one launch, or as many as the device's limit makes of it, each told its
 * `first_block`. */
crk_status_t crk_priv_launch_all_blocks(crk_device_t self, crk_function_t function, uint64_t blocks, uint32_t threads,
                                        uint64_t *first_block, void **args);

/* The four strides of a (b, c, h, w) layout, of a (b, c, w) one with h between. */
void crk_priv_image_strides(const crk_layout_t *layout, uint64_t strides[4]);

#endif
