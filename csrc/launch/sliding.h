/* sliding.h: shared by the launchers of convolutions, pools and upsampling: sizes, checks, divisors and the order of
 * blocks. Matrix products, attention and mixtures of experts use some of it too. */
#ifndef CRK_LAUNCH_SLIDING_H
#define CRK_LAUNCH_SLIDING_H

#include "call/sliding.h"
#include "launch/launcher.h"

/* Prepares the division by `size`, which is at least 1 and below 2^31, or 2^63 for a wide one (call/sliding.h).
 * crk_priv_nd_dim_init prepares the division of a crk_nd_t, which has fewer steps but cannot divide by 1. */
void crk_priv_divisor_init(crk_divisor_t *divisor, uint64_t size, bool wide);

/* The order in which `blocks` blocks work on a device with `caches` L2 caches. `wide` as for crk_priv_divisor_init. */
void crk_priv_cache_order_init(crk_cache_order_t *order, uint64_t caches, uint64_t blocks, bool wide);

/* A window that slides along a dim, and the names that errors use for both. */
typedef struct crk_window {
  const char *where, *size_name, *window_name;
  size_t size, window, stride, padding, dilation;
} crk_window_t;

/* The number of windows that fit the padded dim. Fails with CRK_INVALID_ARGUMENT if no window fits, if the window, the
 * stride or the dilation is 0, or if a number reaches 2^62. */
crk_status_t crk_priv_window_count(const crk_window_t *window, size_t *count);

/* The size of the dim that a transposed convolution makes. Fails likewise, and also where the padding is more than the
 * size. */
crk_status_t crk_priv_window_reach(const crk_window_t *window, size_t output_padding, size_t *size);

/* Fails where the layout is invalid or of another rank. */
crk_status_t crk_priv_check_rank(const char *where, const char *name, const crk_layout_t *layout, uint32_t rank,
                                 crk_extent_t *extent);

/* Fails where two elements of a dst may share memory: a stride must pass all elements of the dims with smaller ones.
 * The layout is valid. Its name is `name` with "_layout" behind it. */
crk_status_t crk_priv_check_no_sharing(const char *where, const char *name, const crk_layout_t *layout);

/* Checks a source of any layout. `extent` is the extent of its layout. Returns in `first` the address of its first
 * element, or `instead` if it has no elements. */
crk_status_t crk_priv_check_source(const char *where, const crk_tensor_t *source, const crk_extent_t *extent,
                                   const void *instead, const void **first);

/* The product of the `count` dims of dst. Fails with CRK_INVALID_ARGUMENT where it reaches 2^62. */
crk_status_t crk_priv_dst_numel(const char *where, const size_t *dims, uint32_t count, size_t *numel);

/* Fails where dst has room for fewer than `numel` elements. */
crk_status_t crk_priv_check_dst(const char *where, crk_view_t dst, size_t numel, uint32_t bytes);

/* Fails where dst overlaps a source. */
crk_status_t crk_priv_check_dst_apart(const char *where, crk_view_t dst, size_t numel, const crk_tensor_t *source,
                                      const crk_extent_t *extent, const void *first);

/* Launches `blocks` blocks of `threads` threads with `shared_bytes` of dynamic shared memory, in several launches if
 * the device's limit is lower. `first_block` is one of the kernel's arguments, to which `args` points. Each launch gets
 * the number of its first block in it. */
crk_status_t crk_priv_launch_all_blocks(crk_device_t self, crk_function_t function, uint64_t blocks, uint32_t threads,
                                        uint32_t shared_bytes, uint64_t *first_block, const void *const *args);

/* The four strides of a (b, c, h, w) layout. For a (b, c, w) layout the stride of h is 0. */
void crk_priv_image_strides(const crk_layout_t *layout, uint64_t strides[4]);

#endif
