/* candle_rocm/launchers/indexing.h: selection, gather, scatter and addition by ids.
 *
 * Each function is one launch and allocates nothing. Ids have an integer dtype: u8, u32, i16, i32 or i64. Elements have
 * any dtype.
 *
 * The greatest value of the ids' dtype is a sentinel: index_select and gather write 0 for it, the others skip it. Any
 * other id that is negative or not below the indexed dim is out of range. It is treated as the sentinel, and no memory
 * out of bounds is touched. The next synchronisation of the handle then fails once with CRK_OUT_OF_RANGE
 * (crk_device_synchronize).
 *
 * A destination must not overlap memory that is read. An empty result succeeds and launches nothing; so does an empty
 * source of an addition. All fail as the element-wise launchers do. They also fail with CRK_INVALID_ARGUMENT for a
 * `dim` that is not below the rank, and with CRK_UNSUPPORTED for ids of a float dtype. */
#ifndef CANDLE_ROCM_LAUNCHERS_INDEXING_H
#define CANDLE_ROCM_LAUNCHERS_INDEXING_H

#include "candle_rocm/device.h"
#include "candle_rocm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dst[l, n, r] = src[l, ids[n], r], bit for bit. `l` stands for the coordinates before dim number `dim`, `r` for those
 * after it. `src` and `ids`, which has rank 1, may have any layout. `dst` is contiguous from the beginning of its view.
 * Its dims are those of src, with the length of ids in the indexed dim. The call is fastest where the dims after `dim`
 * are contiguous in `src`, like the rows of an embedding. */
CRK_API crk_status_t crk_index_select(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype,
                                      const crk_layout_t *src_layout, crk_const_view_t src,
                                      const crk_layout_t *ids_layout, crk_const_view_t ids, size_t dim, crk_view_t dst);

/* dst[l, n, r] = src[l, ids[l, n, r], r], bit for bit. `src` and `ids` have the same rank and any layout. No dim of ids
 * may be longer than that of src, except the indexed one. `dst` has the dims of ids and is contiguous from the
 * beginning of its view. */
CRK_API crk_status_t crk_gather(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype,
                                const crk_layout_t *src_layout, crk_const_view_t src, const crk_layout_t *ids_layout,
                                crk_const_view_t ids, size_t dim, crk_view_t dst);

/* dst[l, ids[l, n, r], r] = src[l, n, r] for n in order, bit for bit. Where several elements have one id, the last of
 * them stays. Elements of `dst` that no id names stay as they were. `ids` and `src` have the same dims; `dst` has these
 * dims too, except for the indexed one. All three are contiguous from their layouts' offsets. */
CRK_API crk_status_t crk_scatter(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype,
                                 const crk_layout_t *ids_layout, crk_const_view_t ids, const crk_layout_t *src_layout,
                                 crk_const_view_t src, size_t dim, const crk_layout_t *dst_layout, crk_view_t dst);

/* dst[l, ids[l, n, r], r] += src[l, n, r] for n in order, so the sums are the same in every run. f16 and bf16 round
 * after every addition. f8e4m3 adds in f32 and rounds after every addition. Integers wrap. Tensors as for
 * crk_scatter. */
CRK_API crk_status_t crk_scatter_add(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype,
                                     const crk_layout_t *ids_layout, crk_const_view_t ids,
                                     const crk_layout_t *src_layout, crk_const_view_t src, size_t dim,
                                     const crk_layout_t *dst_layout, crk_view_t dst);

/* dst[l, ids[n], r] += src[l, n, r] for n in order; sums as for crk_scatter_add. `ids` has rank 1, any stride, and the
 * length of src's indexed dim. `src` and `dst` as for crk_scatter. */
CRK_API crk_status_t crk_index_add(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype,
                                   const crk_layout_t *ids_layout, crk_const_view_t ids, const crk_layout_t *src_layout,
                                   crk_const_view_t src, size_t dim, const crk_layout_t *dst_layout, crk_view_t dst);

#ifdef __cplusplus
}
#endif
#endif
