/* candle_rocm/launchers/sort.h: sorted positions, and sorted elements, of each row. */
#ifndef CANDLE_ROCM_LAUNCHERS_SORT_H
#define CANDLE_ROCM_LAUNCHERS_SORT_H

#include "candle_rocm/device.h"
#include "candle_rocm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sorts each row of the last dim, which has at most 2^32 - 1 columns. Row r of `dst` becomes the positions of row r of
 * `src` in the order of their elements; `dst` is u32, contiguous, with the number of elements of `layout`. Row r of
 * `values` becomes the elements in that order, bit for bit; `values` has `dtype` and is contiguous with as many
 * elements. {NULL, 0} as `values` leaves them out. `layout` is contiguous from its offset on and has at least rank 1.
 * All dtypes.
 *
 * The sort is stable: equal elements keep their order, also when descending. -0 equals +0. A NaN of any sign and
 * payload equals every other NaN and is larger than every number: last when ascending, first when descending.
 *
 * Rows of up to 8192 columns (4096 for dtypes of 8 bytes) take one launch and no scratch memory. Longer rows take
 * several launches and scratch memory from crk_alloc, which is given back before the return. It is 16 bytes per element
 * (24 for dtypes of 8 bytes) for the rows that are sorted together, and up to 1 KiB more. Rows of up to 2^23 elements
 * in all are sorted together; a longer row is sorted alone. For a capture reserve the memory before
 * (crk_memory_reserve), or run the call once.
 *
 * `dst`, `values` and the elements of `src` must not overlap. An empty layout succeeds and launches nothing.
 * Fails with CRK_INVALID_ARGUMENT (a NULL, an unknown dtype, a layout of rank 0 or above CRK_MAX_RANK or that is not
 * contiguous, too many columns, memory that overlaps), CRK_OUT_OF_BOUNDS (a view is too small), CRK_OUT_OF_MEMORY or
 * CRK_CAPTURE (no scratch memory), or CRK_DEVICE. */
CRK_API crk_status_t crk_argsort(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_const_view_t src,
                                 bool ascending, crk_view_t dst, crk_view_t values);

#ifdef __cplusplus
}
#endif
#endif
