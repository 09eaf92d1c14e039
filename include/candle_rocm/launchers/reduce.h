/* candle_rocm/launchers/reduce.h: sums, extremes and their positions over some dims. */
#ifndef CANDLE_ROCM_LAUNCHERS_REDUCE_H
#define CANDLE_ROCM_LAUNCHERS_REDUCE_H

#include "candle_rocm/device.h"
#include "candle_rocm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* XX(name, value, root). `root` begins the names of Candle's kernels. */
#define CRK_REDUCE_MAP(XX)     \
  XX(SUM, 0, "fast_sum")       \
  XX(MIN, 1, "fast_min")       \
  XX(MAX, 2, "fast_max")       \
  XX(ARGMIN, 3, "fast_argmin") \
  XX(ARGMAX, 4, "fast_argmax")

typedef enum crk_reduce_op {
#define XX(name, value, root) CRK_REDUCE_##name = value,
  CRK_REDUCE_MAP(XX)
#undef XX
} crk_reduce_op_t;

/* The op of a kernel root such as "fast_sum". Fails with CRK_INVALID_ARGUMENT. */
CRK_API crk_status_t crk_reduce_op_from_root(const char *root, crk_reduce_op_t *op);

/* Reduces `layout` over some of its dims. The list reduced_dims[0 .. reduced_count] has the numbers of these dims, in
 * any order, each once. dst[o] is the op over all elements with the coordinates o in the kept dims. The outputs are in
 * row-major order of the kept dims. Without reduced dims each element is reduced by itself. All dtypes.
 *
 * `dst` is contiguous from the beginning of its view and has `dtype`. For ARGMIN and ARGMAX it is u32 and holds a
 * position among the reduced elements: their row-major order in the layout, whatever the order of reduced_dims.
 *
 * SUM: bf16, f16 and f8e4m3 are added up in f32 and rounded once; integers wrap. The order of the additions is not that
 * of Candle's kernels. It depends on the shape, the strides, the alignment, and, where several blocks share an output,
 * on the number of compute units. It does not depend on the wave width, and it is the same in each call. The error of a
 * sum of n elements is at most n / 8 + 32 half units in the last place, in f32 or f64, of the sum of their magnitudes.
 * MIN, MAX: in f32, f64 and f8e4m3 a NaN is skipped. Where all elements are NaN, MIN gives +inf and MAX -inf, and in
 * f8e4m3 the greatest and the least number. In f16 and bf16 a NaN is the result. -0 is less than +0.
 * ARGMIN, ARGMAX: the first of equal elements. A NaN is skipped, but where the first element is NaN, the result is 0,
 * as in Candle's CPU backend. At most 2^32 - 1 elements per output (CRK_UNSUPPORTED).
 *
 * One launch without scratch memory. Few outputs of many elements take two launches, and scratch memory from crk_alloc,
 * which is freed before the return. Several blocks then share an output, and each stores 4 to 16 bytes for it. There
 * are at most as many blocks as the device holds at once, of 256 threads each. A block has one output where a reduced
 * dim is contiguous, else at most 256 outputs. With 128 compute units of 2048 threads, an f32 sum takes at most 4 KiB
 * in the first case and 512 KiB in the second. Before a capture, reserve this memory (crk_memory_reserve) or run the
 * call once.
 *
 * `dst` and the elements of `src` must not overlap. Without outputs the call succeeds and launches nothing. With
 * outputs of no elements, SUM gives zeros and the others fail with CRK_INVALID_ARGUMENT.
 *
 * Fails with CRK_INVALID_ARGUMENT (a NULL, an unknown op or dtype, a rank above CRK_MAX_RANK, a reduced dim that the
 * layout does not have or that is named twice, memory that overlaps), CRK_OUT_OF_BOUNDS (the layout reaches beyond
 * `src`, or `dst` is too small), CRK_UNSUPPORTED, CRK_OUT_OF_MEMORY or CRK_CAPTURE (no scratch memory), or
 * CRK_DEVICE. */
CRK_API crk_status_t crk_reduce(crk_device_t self, crk_reduce_op_t op, crk_dtype_t dtype, const crk_layout_t *layout,
                                crk_const_view_t src, const size_t *reduced_dims, size_t reduced_count, crk_view_t dst);

#ifdef __cplusplus
}
#endif
#endif
