/* candle_rocm/launchers/rope.h: rotary position embeddings. */
#ifndef CANDLE_ROCM_LAUNCHERS_ROPE_H
#define CANDLE_ROCM_LAUNCHERS_ROPE_H

#include "candle_rocm/device.h"
#include "candle_rocm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* XX(name, value, root): how the d elements of a token's row form pairs, and the order of the dims of `src`.
 * ROPE: i with i + d / 2; (batch, heads, tokens, d). ROPE_I: 2 i with 2 i + 1; (batch, heads, tokens, d). ROPE_THD:
 * pairs as ROPE; (batch, tokens, heads, d). */
#define CRK_ROPE_MAP(XX)  \
  XX(ROPE, 0, "rope")     \
  XX(ROPE_I, 1, "rope_i") \
  XX(ROPE_THD, 2, "rope_thd")

typedef enum crk_rope_kind {
#define XX(name, value, root) CRK_ROPE_KIND_##name = value,
  CRK_ROPE_MAP(XX)
#undef XX
} crk_rope_kind_t;

/* The kind of a kernel root such as "rope_i". Fails with CRK_INVALID_ARGUMENT. */
CRK_API crk_status_t crk_rope_kind_from_root(const char *root, crk_rope_kind_t *op);

/* Rotates each pair (a, b) of a token by its angle: dst = (a * c - b * s, a * s + b * c). c and s are the elements of
 * `cos` and `sin` for the token and the pair (Su et al., "RoFormer", 2021). Every dtype rounds as Candle's kernels do:
 * fma(a, c, -round(b * s)) and fma(a, s, round(b * c)).
 *
 * `src_layout` has rank 4 and an even last dim d. `cos` and `sin` are (tokens, d / 2) for all batches together, or
 * (batch, tokens, d / 2) with one table per batch. They may have more tokens than `src`; the first ones are used. All
 * three are contiguous from their offsets on. `dst` is contiguous from the beginning of its view. It may be the view
 * `src` if src_layout has offset 0. Otherwise it must not overlap `src`, and it must never overlap `cos` or `sin`. One
 * launch, no scratch memory. dtypes BF16, F16, F32 and F64.
 *
 * Fails as the element-wise launchers do: CRK_INVALID_ARGUMENT for dims that do not fit each other, CRK_UNSUPPORTED for
 * other dtypes. */
CRK_API crk_status_t crk_rope(crk_device_t self, crk_rope_kind_t kind, crk_dtype_t dtype,
                              const crk_layout_t *src_layout, crk_const_view_t src, const crk_layout_t *cos_layout,
                              crk_const_view_t cos, const crk_layout_t *sin_layout, crk_const_view_t sin,
                              crk_view_t dst);

/* A tensor (batch, heads, tokens, d) and where its result goes: any layouts whose last dim is contiguous. Each stride
 * of dst passes all elements of the dims with smaller strides. So no two of its elements share memory. */
typedef struct crk_rope_rows {
  const crk_layout_t *src_layout;
  crk_const_view_t src;
  const crk_layout_t *dst_layout; /* the dims of src_layout */
  crk_view_t dst;
} crk_rope_rows_t;

/* Rotates the queries and the keys of a layer as crk_rope does, and copies its values, in one launch. The results may
 * lie in caches: dst is then the part of the cache that the new tokens take. rows[0] are the queries, rows[1] the keys,
 * rows[2] the values; all have the same batch, tokens and d. kind is ROPE or ROPE_I. cos and sin as for crk_rope. No
 * dst overlaps another dst, a src, cos or sin. One launch without scratch memory; fewer than 2^31 pairs
 * (CRK_UNSUPPORTED). Fails as crk_rope does. */
CRK_API crk_status_t crk_rope_qkv(crk_device_t self, crk_rope_kind_t kind, crk_dtype_t dtype,
                                  const crk_rope_rows_t rows[3], const crk_layout_t *cos_layout, crk_const_view_t cos,
                                  const crk_layout_t *sin_layout, crk_const_view_t sin);

/* The fewest and the most bytes of a row of crk_norm_rope_qkv, which is a power of two. */
#define CRK_NORM_ROPE_LEAST_BYTES 32
#define CRK_NORM_ROPE_MOST_BYTES  512

/* crk_rope_qkv where each head is normalised first: queries and keys become their RMS norms, as by crk_rms_norm with
 * q_alpha or k_alpha (d factors) and eps. Then all three are cast from `src_dtype` to `dtype`. Each src and alpha has
 * src_dtype; each dst, cos and sin has dtype. The results have the bits of the separate launches. src_dtype is F32 and
 * dtype F32, F16 or BF16; or both are F16, or both BF16. kind is ROPE.
 *
 * One launch without scratch memory. A row of a src is 32, 64, 128, 256 or 512 bytes. Addresses and strides are
 * multiples of 16 bytes, those of F16 or BF16 beside a src of F32 of 8 bytes. Other rows and dtypes are
 * CRK_UNSUPPORTED. Fails otherwise as crk_rope_qkv does. */
CRK_API crk_status_t crk_norm_rope_qkv(crk_device_t self, crk_dtype_t src_dtype, crk_dtype_t dtype,
                                       const crk_rope_rows_t rows[3], crk_const_view_t q_alpha,
                                       crk_const_view_t k_alpha, float eps, const crk_layout_t *cos_layout,
                                       crk_const_view_t cos, const crk_layout_t *sin_layout, crk_const_view_t sin);

/* The heads of queries, of keys or of values of one token, as crk_mul_mat_vec_rope and crk_matmul_rope make them. The
 * kind of the rotation is ROPE or ROPE_I. heads * d is less than 2^31, and may be 0. A dst overlaps no other view, from
 * its first to its last element: two caches must not lie between each other's heads. */
typedef struct crk_head_weights {
  size_t heads;
  const crk_layout_t *layout; /* of the weights, (heads * d, k); NULL if they are quantized */
  crk_const_view_t weights;
  crk_const_view_t bias; /* heads * d contiguous elements, or {NULL, 0} for none */
  crk_view_t dst; /* heads of d contiguous elements */
  size_t head_stride; /* elements of dst from one head to the next, at least d */
  bool rotates; /* false: the launch stores the heads as they are, as it does with values */
} crk_head_weights_t;

#ifdef __cplusplus
}
#endif
#endif
