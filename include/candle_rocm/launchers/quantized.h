/* candle_rocm/launchers/quantized.h: quantized weights: their formats, their values, and products with them.
 *
 * Quantized weights are a view of rows of blocks without gaps, aligned to 2 bytes (q8_K: 4 bytes). Their bytes are
 * those of a GGUF tensor of that type. Each function is one launch and allocates nothing, unless its comment says
 * otherwise. Views must not overlap dst. An empty dst succeeds and launches nothing.
 *
 * All fail with CRK_INVALID_ARGUMENT (a NULL, an unknown format or dtype, a row length that is not a multiple of the
 * block, a view that is not aligned), CRK_OUT_OF_BOUNDS (a view is too small), CRK_UNSUPPORTED (no kernel for the
 * format or dtype) or CRK_DEVICE. */
#ifndef CANDLE_ROCM_LAUNCHERS_QUANTIZED_H
#define CANDLE_ROCM_LAUNCHERS_QUANTIZED_H

#include "candle_rocm/device.h"
#include "candle_rocm/launchers/elementwise.h"
#include "candle_rocm/launchers/rope.h"
#include "candle_rocm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Formats and values
 * ------------------------------------------------------------------------------------------------------------------ */

/* XX(name, value, text, elements, bytes): the block formats of quantized weights, which are ggml's formats of these
 * names. `value` is GGUF's number of the type. A row of a tensor is a whole number of blocks; a block holds `elements`
 * elements in `bytes` bytes. */
#define CRK_QUANT_MAP(XX)        \
  XX(Q4_0, 2, "q4_0", 32, 18)    \
  XX(Q4_1, 3, "q4_1", 32, 20)    \
  XX(Q5_0, 6, "q5_0", 32, 22)    \
  XX(Q5_1, 7, "q5_1", 32, 24)    \
  XX(Q8_0, 8, "q8_0", 32, 34)    \
  XX(Q2_K, 10, "q2_K", 256, 84)  \
  XX(Q3_K, 11, "q3_K", 256, 110) \
  XX(Q4_K, 12, "q4_K", 256, 144) \
  XX(Q5_K, 13, "q5_K", 256, 176) \
  XX(Q6_K, 14, "q6_K", 256, 210) \
  XX(Q8_K, 15, "q8_K", 256, 292)

typedef enum crk_quant {
#define XX(name, value, text, elements, bytes) CRK_QUANT_##name = value,
  CRK_QUANT_MAP(XX)
#undef XX
} crk_quant_t;

/* The format's name, such as "q4_K"; NULL for a value that is not a format. */
CRK_API const char *crk_quant_name(crk_quant_t quant);

/* The format of a name, in capitals or not ("Q4_K", "q4_k"). Fails with CRK_INVALID_ARGUMENT. */
CRK_API crk_status_t crk_quant_from_name(const char *name, crk_quant_t *quant);

/* Elements and bytes of a block; 0 for a value that is not a format. */
CRK_API size_t crk_quant_block_elements(crk_quant_t quant);
CRK_API size_t crk_quant_block_bytes(crk_quant_t quant);

/* dst[i] = the value of element i of src, for i below `numel`, which is a multiple of the block. `dtype` of dst is F32,
 * F16 or BF16.
 *
 * Computed in f32: q4_0 as d * code - 8 * d, as in Candle's kernel; the others as in kernels/quantized/blocks.h in the
 * sources. Two steps round: the difference in q2_K, q4_K, q5_K, q4_1 and q5_1, and the product in q8_K. All other steps
 * are exact. So a value rounds at most once, and once more to dtype. */
CRK_API crk_status_t crk_dequantize(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t numel,
                                    crk_const_view_t src, crk_view_t dst);

/* dst[i][j] = src[ids[i]][j] for i below `count` and j below `hidden`, for a quantized table of `rows` rows. `ids` are
 * u32; dst is f32 and contiguous. An id of UINT32_MAX gives zeros. Any other id that is not a row gives zeros too, and
 * the next synchronisation reports it (crk_device_synchronize). Values as for crk_dequantize, but q4_0 as
 * d * (code - 8), as in Candle's kernel. */
CRK_API crk_status_t crk_get_rows(crk_device_t self, crk_quant_t quant, size_t rows, size_t hidden, size_t count,
                                  crk_const_view_t src, crk_const_view_t ids, crk_view_t dst);

/* The same for a table of floats: `dtype` of src is F32, F16 or BF16. Rows may have any length. */
CRK_API crk_status_t crk_get_rows_float(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t hidden, size_t count,
                                        crk_const_view_t src, crk_const_view_t ids, crk_view_t dst);

/* ------------------------------------------------------------------------------------------------------------------
 * Products with one or more columns
 * ------------------------------------------------------------------------------------------------------------------ */

/* Activations per block of q8_1. */
#define CRK_Q8_1_BLOCK 32

/* The most columns of crk_mul_mat_vec and its kin. */
#define CRK_MOST_VEC_COLUMNS 8

/* Bytes of `rows` rows of `k` activations as q8_1 blocks: rows * (k rounded up to a multiple of 512) / 32 * 36; 0 where
 * size_t cannot hold the number. */
CRK_API size_t crk_q8_1_bytes(size_t rows, size_t k);

/* Quantizes activations to 8 bits for the products below. Each row of `k` elements of x is padded with zeros to a
 * multiple of 512. Each 32 elements become a block of 36 bytes (ggml's q8_1): f16 d, f16 s, 32 codes. d is the largest
 * magnitude / 127. A code is x / d rounded to nearest, halves away from zero. s is the sum of the 32 numbers. `dtype`
 * of x is F32, F16 or BF16; any k. dst has crk_q8_1_bytes(rows, k) bytes and is aligned to 4.
 *
 * A NaN has no part in d and its code is 0. The sum s adds each four neighbours pairwise, then the eight sums in a
 * butterfly. Candle's kernel of this name adds the 32 numbers in a butterfly. */
CRK_API crk_status_t crk_quantize_q8_1(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t k, crk_const_view_t x,
                                       crk_view_t dst);

/* Bytes of `columns` columns of `k` activations for crk_mul_mat_vec_q8_1: columns * k / 32 * 36; 0 where size_t cannot
 * hold the number. */
CRK_API size_t crk_columns_bytes(size_t columns, size_t k);

/* The first launch of crk_mul_mat_vec: activations that several products share are quantized once. Blocks as those of
 * crk_quantize_q8_1, but s is d times the sum of the codes, k is a multiple of 32, and rows are not padded.
 * crk_mul_mat_vec_q8_1 with an x_stride of k / 32 then gives the bits of crk_mul_mat_vec. dst has
 * crk_columns_bytes(columns, k) bytes and is aligned to 4. */
CRK_API crk_status_t crk_quantize_columns(crk_device_t self, crk_dtype_t dtype, size_t columns, size_t k,
                                          crk_const_view_t x, crk_view_t dst);

/* dst = crk_gate of two contiguous tensors of `columns` rows of `k` elements, and `blocks` = crk_quantize_columns of
 * dst. `dtype` is F32, F16 or BF16. One launch where gate, up and dst are aligned to 16 bytes, else two. */
CRK_API crk_status_t crk_gate_columns(crk_device_t self, crk_gate_op_t op, crk_dtype_t dtype, size_t columns, size_t k,
                                      crk_const_view_t gate, crk_const_view_t up, crk_view_t dst, crk_view_t blocks);

/* dst[i] = the sum over j of src[i][j] * y[j], for i below `rows` and j below `k`, which is a multiple of the block.
 * The weights become numbers, and the activations are not quantized. `dtype` of y is F32, F16 or BF16; dst is f32. Sums
 * are f32: groups of 8 elements first, each multiplied by the block's scale, then the parts of 32 lanes in a
 * butterfly. */
CRK_API crk_status_t crk_dequantize_mul_mat_vec(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows,
                                                size_t k, crk_const_view_t src, crk_const_view_t y, crk_view_t dst);

/* Products with quantized weights in integers: the common contract of crk_mul_mat_vec, crk_mul_mat_vec_q8_1 and
 * crk_mul_mat.
 *
 * The weights are `rows` rows of `k` elements. `dtype` of x and dst is F32, F16 or BF16, and all tensors are
 * contiguous. Every format except q8_K. k is a multiple of the format's block, at most 2^31 - 1; k of 0 gives zeros.
 *
 * Two launches: the activations x are quantized first, with the codes and scales of crk_quantize_q8_1. The function
 * allocates and frees scratch memory for them in stream order: 36 bytes for each 32 elements of x. In a capture this
 * memory must be reserved (crk_memory_reserve) or cached.
 *
 * Accuracy: in each block of 32 activations the products of codes are summed exactly, as integers. The blocks are then
 * summed in f32, in the kernel's own order. The error of an element is at most 1e-5 of the sum of the absolute products
 * of its blocks; it is rounded once to dtype.
 *
 * A minimum, and the offset of q4_0 and q5_0, multiplies the sum of a block's activations. That sum is d times the sum
 * of their codes. In the formats of 32 elements it is rounded to f16, as the s of the block. Candle's CUDA kernels have
 * the sum of the values before quantization as s. With it the rounding errors are up to twice as large, because the
 * offset then does not meet the numbers that the codes of the weights meet.
 *
 * Above 8 columns the activations are blocks of crk_quantize_mmq, but s is d times the sum of the codes, rounded to
 * f16. They take crk_mmq_bytes of scratch memory, for rows that are padded to a multiple of 128. Offsets are then
 * subtracted from the codes. A minimum multiplies s. The last 32 of each 128 elements of q2_K have no s; there the
 * minimum multiplies d times the sum of the codes. Scales and minima of q2_K, q4_K and q5_K are each the product of two
 * numbers of a block; they are rounded to f16 first, as in Candle's kernels.
 *
 * The order of the additions is one of three: for a single column, for 2 to 4, and for 5 to 8 columns. So an element
 * has the same bits in all products of one group. With k of up to 1024 all products of 2 to 8 columns add in the same
 * order. Above 8 columns, with k above 512 and few rows and columns for the device, the sum over k is cut into parts,
 * which a third launch adds in their order. Scratch memory for them is 4 bytes per element of dst and part. There are
 * at most k / 512 parts, rounded up; their number depends on rows, columns and k, and on the device's compute units.
 * Without parts, all products above 8 columns add in one order.
 *
 * NVIDIA GPUs multiply in another way from 65 columns on, with at least 2^22 weights, if cuBLAS is there. Weights and
 * activations are rounded to bf16, and sums are f32, in cuBLAS's order. Both roundings together are a third of that of
 * activations to 8 bits. A NaN in x then makes its column NaN, and an infinity acts as in any product of numbers.
 * Scratch memory is at most 256 MiB for the weights, 2 bytes per activation unless they are BF16, and 4 bytes per
 * element of an F16 dst. Where the memory lacks, products are made as with fewer columns.
 *
 * Activations may be too large for such blocks. If one exceeds 127 * 65504, its column is not finite. The same may be
 * so if 32 neighbours add up to more than 65504, with a format that has minima or offsets.
 *
 * Where d or dmin of a block of weights is infinite, no element of its row is finite. Where it is NaN, all are NaN. An
 * infinity in x makes its column NaN. A NaN in x counts as 0, as on Candle's CPU device. Other rows and columns are not
 * affected. */

/* dst[c][i] = the sum over j of weights[i][j] * x[c][j], for c below `columns`, at most 8. */
CRK_API crk_status_t crk_mul_mat_vec(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                                     size_t columns, crk_const_view_t weights, crk_const_view_t x, crk_view_t dst);

/* The same for activations that are quantized already: dst[c * dst_stride + i] = the sum over j of
 * weights[i][j] * x[c][j]. One launch, no scratch memory. A minimum, and the offset of q4_0 and q5_0, multiplies the s
 * of each block in the formats of 32 elements; in the others d times the sum of the codes. Column c of x is k / 32 q8_1
 * blocks (crk_quantize_q8_1). It begins c * x_stride blocks after the beginning of x. x is aligned to 4. `dtype` is
 * that of dst. With several columns x_stride is at least k / 32, and dst_stride, in elements, at least `rows`. Memory
 * between the columns is neither read nor written. */
CRK_API crk_status_t crk_mul_mat_vec_q8_1(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows,
                                          size_t k, size_t columns, crk_const_view_t weights, crk_const_view_t x,
                                          size_t x_stride, crk_view_t dst, size_t dst_stride);

/* One matrix of a grouped product: weights of `rows` rows, and the arguments that crk_mul_mat_vec_q8_1 has for them. */
typedef struct crk_grouped_product {
  size_t rows;
  crk_const_view_t weights;
  crk_view_t dst;
  size_t dst_stride; /* in elements, at least `rows`; unused with one column */
  crk_const_view_t bias; /* `rows` elements of F32, added to each column's sums; or {NULL, 0} for none */
} crk_grouped_product_t;

/* crk_mul_mat_vec_q8_1 of the same activations with `count` matrices, at most CRK_MOST_GROUPED, in one launch: those of
 * queries, keys and values. All have one format and one k. The results have the bits of separate products; a bias is
 * added in f32, before the sum is rounded to the dtype. A dst overlaps no other view. */
CRK_API crk_status_t crk_mul_mat_vec_grouped(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t k,
                                             size_t columns, const crk_grouped_product_t *products, size_t count,
                                             crk_const_view_t x, size_t x_stride);

/* dst[c][i] = op(sum over j of gate[i][j] * x[c][j]) * (sum over j of up[i][j] * x[c][j]): the products and the gate of
 * a feed-forward layer. gate and up have `rows` rows of `k` elements, and dst is `columns` times `rows` elements
 * without gaps. x is crk_quantize_columns' blocks for `columns` columns, at most 8. If `blocks` is not {NULL, 0}, it
 * becomes crk_quantize_columns of dst, and `rows` is a multiple of 32. The results equal, to the bit, the
 * results of crk_mul_mat_vec_q8_1 and crk_gate.
 *
 * One launch for one column of F32 with CRK_GATE_SILU or CRK_GATE_GELU. `blocks` take a second launch if the rows are
 * too few to give the GPU work in groups of 32. Otherwise there are two launches, three for `blocks` that are not
 * aligned as crk_gate_columns asks, and scratch memory for the results of gate and up. */
CRK_API crk_status_t crk_mul_mat_vec_gate(crk_device_t self, crk_gate_op_t op, crk_quant_t quant, crk_dtype_t dtype,
                                          size_t rows, size_t k, size_t columns, crk_const_view_t gate,
                                          crk_const_view_t up, crk_const_view_t x, crk_view_t dst, crk_view_t blocks);

/* The heads of a token: products of one column with `count` matrices, 1 to CRK_MOST_GROUPED, and their rotary
 * embeddings, in one launch without scratch memory. Each result goes to its place in dst, which may be a row of a
 * cache. weights have heads * d rows of k elements, d is even, and k is not 0. x is one column of crk_quantize_columns.
 * bias, dst, cos and sin are F32; cos and sin have d / 2 contiguous elements. The results have the bits of
 * crk_mul_mat_vec_grouped and crk_rope_qkv. */
CRK_API crk_status_t crk_mul_mat_vec_rope(crk_device_t self, crk_quant_t quant, crk_rope_kind_t kind, size_t d,
                                          size_t k, const crk_head_weights_t *parts, size_t count, crk_const_view_t x,
                                          crk_const_view_t cos, crk_const_view_t sin);

/* crk_mul_mat_vec for any number of columns. Up to 8 columns it is crk_mul_mat_vec. */
CRK_API crk_status_t crk_mul_mat(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                                 size_t columns, crk_const_view_t weights, crk_const_view_t x, crk_view_t dst);

/* ------------------------------------------------------------------------------------------------------------------
 * Products with many columns
 * ------------------------------------------------------------------------------------------------------------------ */

/* The layouts of Candle's mmq blocks, in which products with many columns read activations. A block holds 128 elements
 * of a column in 144 bytes: four words, then 128 codes. XX(name, value, text); the four words are:
 * D4: four f32 d, each of 32 elements. DS4: four pairs of f16 d and f16 s, each of 32 elements. D2S6: two f16 d, each
 * of 64 elements, then six f16 s, each of 16 elements, for the first 96. */
#define CRK_MMQ_MAP(XX) \
  XX(D4, 0, "D4")       \
  XX(DS4, 1, "DS4")     \
  XX(D2S6, 2, "D2S6")

typedef enum crk_mmq {
#define XX(name, value, text) CRK_MMQ_##name = value,
  CRK_MMQ_MAP(XX)
#undef XX
} crk_mmq_t;

/* The layout that crk_mul_mat_mmq needs for a format: DS4 for q4_0, q4_1, q5_1, q4_K and q5_K, D2S6 for q2_K, D4 for
 * q5_0, q8_0, q3_K and q6_K. Fails with CRK_INVALID_ARGUMENT, or CRK_UNSUPPORTED for q8_K. */
CRK_API crk_status_t crk_mmq_of_quant(crk_quant_t quant, crk_mmq_t *layout);

/* Rows that become columns of mmq blocks. Strides are in elements of x. Candle's names are in brackets. */
typedef struct crk_mmq_rows {
  size_t k; /* elements of a row [ne00] */
  size_t row_stride, channel_stride, sample_stride; /* [s01, s02, s03] */
  size_t padded_k; /* a multiple of 128, at least k: zeros follow a row's elements [ne0] */
  size_t columns, channels, samples; /* [ne1, ne2, ne3] */
} crk_mmq_rows_t;

/* Bytes of the mmq blocks of `rows`:
 * samples * channels * columns * (padded_k rounded up to a multiple of 512) / 128 * 144; 0 where `rows` is NULL or
 * size_t cannot hold the number. */
CRK_API size_t crk_mmq_bytes(const crk_mmq_rows_t *rows);

/* Quantizes rows of x to mmq blocks. In dst, block b of column j of channel c of sample s has the number
 * (s * channels + c) * columns * (padded_k rounded up to 512) / 128 + b * columns + j. It holds the elements 128 b to
 * 128 b + 127 of the row of x at s * sample_stride + c * channel_stride + r * row_stride. r is j. With `ids`, which are
 * i32, r is ids[j]; {NULL, 0} stands for no ids. `dtype` of x is F32, F16 or BF16; any k and strides. dst has
 * crk_mmq_bytes(rows) bytes and is aligned to 4.
 *
 * An id that names no row of x (with a row_stride of 0: any id except 0) leaves its blocks unchanged, and the next
 * synchronisation reports it (crk_device_synchronize).
 *
 * In each group that shares a d, let m be its largest magnitude. A code is x * (127 / m), rounded to nearest, halves
 * away from zero; d is 1 / (127 / m), in f32. A group of zeros has codes 0 and d 0. A NaN has no part in m and its code
 * is 0. With an infinity d is infinite and the codes are 0. s is the sum of the group's numbers in f32: each four
 * neighbours from the first on, then a butterfly of these sums. An f16 d or s beyond 65504 is infinite. The result
 * equals that of Candle's kernel bit for bit. */
CRK_API crk_status_t crk_quantize_mmq(crk_device_t self, crk_mmq_t layout, crk_dtype_t dtype,
                                      const crk_mmq_rows_t *rows, crk_const_view_t x, crk_const_view_t ids,
                                      crk_view_t dst);

/* dst[c * dst_stride + i] = the sum over j of weights[i][j] * column c of y, for i below `rows` and c below `columns`.
 * This is the second launch of crk_mul_mat above 8 columns, for any number of columns, but with the s that y has. One
 * launch, no scratch memory.
 *
 * A row of weights begins every `weight_stride` blocks. y is mmq blocks in the layout of the format (crk_mmq_of_quant),
 * with block b of column c at b * columns + c, and is aligned to 4; elements beyond k do not count. `dtype` of dst is
 * F32, F16 or BF16. dst_stride, in elements, is at least `rows`. k of 0 gives zeros. */
CRK_API crk_status_t crk_mul_mat_mmq(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                                     size_t columns, crk_const_view_t weights, size_t weight_stride, crk_const_view_t y,
                                     crk_view_t dst, size_t dst_stride);

#ifdef __cplusplus
}
#endif
#endif
