/* candle_rocm/launchers/matmul.h: matrix products. */
#ifndef CANDLE_ROCM_LAUNCHERS_MATMUL_H
#define CANDLE_ROCM_LAUNCHERS_MATMUL_H

#include "candle_rocm/device.h"
#include "candle_rocm/launchers/elementwise.h"
#include "candle_rocm/launchers/rope.h"
#include "candle_rocm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dst[b.., i, j] = the sum over l of lhs[b.., i, l] * rhs[b.., l, j]. lhs is (b.., m, k), rhs is (b.., k, n) and dst is
 * (b.., m, n). The layouts have the same rank, at least 2, and the same batch dims; strides of 0 broadcast a batch.
 * Strides and offsets may have any value, and no layout needs a copy: row-major, column-major, with gaps, broadcast.
 * `dst` is contiguous from the beginning of its view. dtypes BF16, F16, F32 and F64.
 *
 * Products are added up in f32 (f64 in f64), and the sum is rounded to the dtype once. The order depends on the sizes,
 * the layouts and the device, and is the same in each call. Before the rounding the error of a sum is at most
 * k * 2^-23 (f64: k * 2^-52) times the sum of the products' magnitudes. NaN and infinities propagate. A sum may
 * overflow before a later product of the other sign is added. A bf16 below 2^-126 may count as 0, and so may an f16
 * below 2^-14 on gfx90a, whose matrix cores take it for 0.
 *
 * A BLAS library computes the product where there is one (crk_device_blas) and the layouts fit it. They fit where one
 * of the last two dims of each operand has stride 1, the batch dims act as one dim, and sizes are below 2^31. This
 * library's own kernels compute all other products. They also take over where the BLAS library fails, and where it
 * would have to be opened while a handle on the GPU is captured. A product with a single row or column uses them too,
 * where they are faster for its layout, and so do large products of f32 on NVIDIA GPUs with fast TF32. Both can be
 * captured in a graph. (On these, an f32 of 2^128 - 2^116 or more counts as infinite where a tile has a sum that is NaN
 * or infinite, and so does a NaN whose upper 10 bits of mantissa are 0.)
 *
 * One launch (more only where a grid would exceed the device's limit) and no scratch memory; a BLAS library allocates
 * at its first product. Where outputs are few and k is long, this library's kernels take two launches and scratch
 * memory from crk_alloc, which is freed before the return. It is at most 4 KiB for every four SIMD units, 8 KiB for
 * f64. Before a capture, reserve this memory (crk_memory_reserve) or run the call once.
 *
 * k of 0 gives zeros. An empty dst succeeds and launches nothing. Fails with CRK_INVALID_ARGUMENT (a NULL, an unknown
 * dtype, a rank below 2 or above CRK_MAX_RANK, dims that do not fit each other, 2^62 or more elements, a view that is
 * not aligned, a dst that overlaps the span of an operand), CRK_OUT_OF_BOUNDS (a layout reaches beyond its view, or dst
 * is too small), CRK_UNSUPPORTED (another dtype), CRK_OUT_OF_MEMORY or CRK_CAPTURE (no scratch memory), or
 * CRK_DEVICE. */
CRK_API crk_status_t crk_matmul(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *lhs_layout,
                                crk_const_view_t lhs, const crk_layout_t *rhs_layout, crk_const_view_t rhs,
                                crk_view_t dst);

/* A matrix of weights, (n, k) in any layout, the place of its n results, and what is added to them. */
typedef struct crk_matmul_weights {
  const crk_layout_t *layout;
  crk_const_view_t weights;
  crk_view_t dst; /* contiguous from the beginning of the view */
  crk_const_view_t bias; /* n contiguous elements, or {NULL, 0} for none */
} crk_matmul_weights_t;

/* dst[i] = bias[i] + the sum over l of weights[i, l] * x[l], for each of `count` matrices, 1 to CRK_MOST_GROUPED: a row
 * of activations times the transposed weights of several linear layers, such as the layers of q, k and v. x is k
 * contiguous elements. dtypes BF16, F16, F32 and F64. Each sum is as exact as that of crk_matmul. The bias is added
 * before the sum is rounded to the dtype, or after that where there is more than one launch. No dst overlaps another
 * dst, x, weights or a bias.
 *
 * One launch without scratch memory, if on a GPU all weights are contiguous along k, rows have at least 1024 bytes, and
 * x and all rows are aligned to 16 bytes. Where all weights have at most 4 MiB each, 16 bytes are enough, or 16 per
 * lane of a wave if there is one matrix. Otherwise each matrix is multiplied by crk_matmul, and crk_binary adds the
 * bias.
 *
 * Fails as crk_matmul does; CRK_INVALID_ARGUMENT also for another `count`. */
CRK_API crk_status_t crk_matmul_grouped(crk_device_t self, crk_dtype_t dtype, size_t k, crk_const_view_t x,
                                        const crk_matmul_weights_t *weights, size_t count);

/* The heads of a token: products of a row x of k contiguous elements with `count` matrices, 1 to CRK_MOST_GROUPED, and
 * their rotary embeddings. Each result goes to its place in dst, which may be a row of a cache. d is even; cos and sin
 * have d / 2 contiguous elements. dtypes BF16, F16, F32 and F64, the same for all views. The results have the bits of
 * crk_matmul_grouped and crk_rope_qkv.
 *
 * One launch under the conditions of crk_matmul_grouped. Otherwise the products of crk_matmul in scratch memory, and a
 * rotation for two parts that are rotated and one that is not. Fails as crk_matmul_grouped and crk_rope_qkv do. */
CRK_API crk_status_t crk_matmul_rope(crk_device_t self, crk_dtype_t dtype, crk_rope_kind_t kind, size_t d, size_t k,
                                     crk_const_view_t x, const crk_head_weights_t *parts, size_t count,
                                     crk_const_view_t cos, crk_const_view_t sin);

/* dst[i] = op(the sum over l of gate[i, l] * x[l]) * (the sum over l of up[i, l] * x[l]): the first half of a gated
 * feed-forward layer, for a row of activations. gate and up are weights (n, k), x is k contiguous elements, and dst is
 * n contiguous elements. dtypes BF16, F16, F32 and F64. Both sums are rounded to the dtype as by crk_matmul, and go
 * through crk_gate. dst overlaps neither x nor weights.
 *
 * One launch without scratch memory under the conditions of crk_matmul_grouped, except in F64. Otherwise two products
 * and a gate, and scratch memory of 2 * n elements from crk_alloc, which is freed before the return.
 *
 * Fails as crk_matmul and crk_gate do. */
CRK_API crk_status_t crk_matmul_gate(crk_device_t self, crk_gate_op_t op, crk_dtype_t dtype, size_t k,
                                     crk_const_view_t x, const crk_layout_t *gate_layout, crk_const_view_t gate,
                                     const crk_layout_t *up_layout, crk_const_view_t up, crk_view_t dst);

/* Allows a BLAS library to round the operands of f32 products to TF32, which has 10 bits of mantissa in place of 23;
 * sums stay f32. It is off at first. The setting is of the whole process, and products that a graph has recorded keep
 * theirs. It has an effect with hipBLASLt on GPUs with such products (gfx942; gfx950 imitates them), and with cuBLAS;
 * NVIDIA GPUs then give all f32 products to cuBLAS. Other products stay as they are. The error of a sum is then at most
 * 2^-9 times the sum of the products' magnitudes. */
CRK_API void crk_matmul_allow_tf32(bool allowed);

/* Whether it is allowed. */
CRK_API bool crk_matmul_is_tf32_allowed(void);

#ifdef __cplusplus
}
#endif
#endif
