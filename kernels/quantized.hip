/* Kernels of the module `quantized`. With Candle's names: its kernels for quantized weights. For the launchers:
 * dequantization, get_rows, products with float vectors and quantization to q8_1. The launchers' integer products are
 * in quantized_vec.hip and quantized_mat.hip. This file only names the instances. */
#include "elementwise/instances.h"
#include "quantized/matmat.h"
#include "quantized/matvec.h"
#include "quantized/q8_1.h"
#include "quantized/quantized_rows.h"

/* ---- Numbers, rows of tables, products with float vectors: quantized/quantized_rows.h; q8_1: quantized/q8_1.h ---- */

#define CRK_DEQUANTIZE_NAMED(type, suffix, T, threads, share, numel)                                  \
  CRK_KERNEL(dequantize_block_##type##_##suffix, threads, (const void *src, T *dst, int32_t count)) { \
    crk::dequantize_named<crk::block_##type, share, threads>(src, dst, numel);                        \
  }
#define CRK_DEQUANTIZE_SUPER(type, suffix, T, threads)                                           \
  CRK_KERNEL(dequantize_block_##type##_##suffix, threads, (const void *src, T *dst)) {           \
    crk::dequantize_named<crk::block_##type, 256, threads>(src, dst, ~static_cast<uint64_t>(0)); \
  }
#define CRK_DEQUANTIZE_FLOATS(suffix, T)                                            \
  CRK_DEQUANTIZE_NAMED(q4_0, suffix, T, 32, 256, static_cast<uint64_t>(count) * 32) \
  CRK_DEQUANTIZE_NAMED(q4_1, suffix, T, 32, 256, static_cast<uint64_t>(count) * 32) \
  CRK_DEQUANTIZE_NAMED(q8_0, suffix, T, 32, 256, static_cast<uint64_t>(count) * 32) \
  CRK_DEQUANTIZE_NAMED(q5_0, suffix, T, 256, 512, static_cast<uint64_t>(count))     \
  CRK_DEQUANTIZE_NAMED(q5_1, suffix, T, 256, 512, static_cast<uint64_t>(count))     \
  CRK_DEQUANTIZE_SUPER(q2_K, suffix, T, 64)                                         \
  CRK_DEQUANTIZE_SUPER(q3_K, suffix, T, 64)                                         \
  CRK_DEQUANTIZE_SUPER(q4_K, suffix, T, 32)                                         \
  CRK_DEQUANTIZE_SUPER(q5_K, suffix, T, 64)                                         \
  CRK_DEQUANTIZE_SUPER(q6_K, suffix, T, 64)                                         \
  CRK_DEQUANTIZE_SUPER(q8_K, suffix, T, 32)
CRK_DEQUANTIZE_FLOATS(f32, float)
CRK_DEQUANTIZE_FLOATS(f16, crk::f16)

#define CRK_GET_ROWS_NAMED(type)                                                                    \
  CRK_KERNEL(get_rows_##type, CRK_LAUNCHED_THREADS,                                                 \
             (const void *src, const uint32_t *ids, float *dst, int64_t hidden, uint64_t stride)) { \
    crk::get_rows_named<crk::block_##type>(src, ids, dst, hidden, stride);                          \
  }
CRK_MATRIX_BLOCKS(CRK_GET_ROWS_NAMED)

#define CRK_GET_ROWS_OF_FLOATS_NAMED(suffix, T)                                           \
  CRK_KERNEL(get_rows_##suffix, CRK_LAUNCHED_THREADS,                                     \
             (const T *src, const uint32_t *ids, float *dst, int64_t hidden, uint64_t)) { \
    crk::get_rows_of_floats_named(src, ids, dst, hidden);                                 \
  }
CRK_GET_ROWS_OF_FLOATS_NAMED(f32, float)
CRK_GET_ROWS_OF_FLOATS_NAMED(f16, crk::f16)
CRK_GET_ROWS_OF_FLOATS_NAMED(bf16, crk::bf16)

CRK_COOPERATIVE(quantize_q8_1, CRK_LAUNCHED_THREADS, (const float *x, void *dst, int32_t k, int32_t padded)) {
  crk::quantize_q8_1_named(x, dst, k, padded);
}

/* 32 threads per row. q5_k has no parameter for the number of rows. */
#define CRK_DEQUANTIZE_MUL_MAT_VEC_NAMED(name, type)                                           \
  CRK_COOPERATIVE(dequantize_mul_mat_vec_##name, CRK_LAUNCHED_THREADS,                         \
                  (const void *src, const float *y, float *dst, int32_t cols, int32_t rows)) { \
    const uint64_t row = crk::block_index().x * crk::block_size().y + crk::thread_index().y;   \
    crk::dequantize_mul_mat_vec<1, crk::block_##type>(src, y, dst, cols, row, rows);           \
  }
CRK_DEQUANTIZE_MUL_MAT_VEC_NAMED(q4_0_cuda, q4_0)
CRK_DEQUANTIZE_MUL_MAT_VEC_NAMED(q4_1_cuda, q4_1)
CRK_DEQUANTIZE_MUL_MAT_VEC_NAMED(q5_0_cuda, q5_0)
CRK_DEQUANTIZE_MUL_MAT_VEC_NAMED(q5_1_cuda, q5_1)
CRK_DEQUANTIZE_MUL_MAT_VEC_NAMED(q8_0_cuda, q8_0)
CRK_DEQUANTIZE_MUL_MAT_VEC_NAMED(q2_k, q2_K)
CRK_DEQUANTIZE_MUL_MAT_VEC_NAMED(q3_k, q3_K)
CRK_DEQUANTIZE_MUL_MAT_VEC_NAMED(q4_k, q4_K)
CRK_DEQUANTIZE_MUL_MAT_VEC_NAMED(q6_k, q6_K)
CRK_COOPERATIVE(dequantize_mul_mat_vec_q5_k, CRK_LAUNCHED_THREADS,
                (const void *src, const float *y, float *dst, int32_t cols)) {
  const uint64_t row = crk::block_index().x;
  crk::dequantize_mul_mat_vec<1, crk::block_q5_K>(src, y, dst, cols, row, row + 1);
}

/* For the launchers. XX(block, suffix, type): types of numbers, of table elements and of activations. */
#define CRK_NUMBER_TYPES(XX, block) XX(block, f32, float) XX(block, f16, crk::f16) XX(block, bf16, crk::bf16)

#define CRK_GET_ROWS_PARAMS(Source)                                                                      \
  (crk_fault_t fault, const Source *src, const uint32_t *ids, float *dst, uint64_t count, uint64_t rows, \
   uint64_t hidden, uint64_t sweep, uint64_t across, uint32_t width_log2)
#define CRK_NUMBERS_OF_BLOCKS(type, suffix, T)                                                                \
  CRK_KERNEL(dequantize_##type##_##suffix##_flat, CRK_LAUNCHED_THREADS,                                       \
             (const void *src, T *dst, uint64_t packs, uint32_t blocks)) {                                    \
    crk::dequantize_flat<crk::block_##type>(src, dst, packs, blocks);                                         \
  }                                                                                                           \
  CRK_COOPERATIVE(dequantize_mul_mat_vec_##type##_##suffix##_rows, CRK_LAUNCHED_THREADS,                      \
                  (const void *src, const T *y, float *dst, uint64_t cols, uint64_t rows, uint32_t blocks)) { \
    crk::dequantize_mul_mat_vec_rows<crk::block_##type>(src, y, dst, cols, rows, blocks);                     \
  }
#define CRK_BLOCKS_LAUNCHED(type, elements, bytes)                                               \
  CRK_NUMBER_TYPES(CRK_NUMBERS_OF_BLOCKS, type)                                                  \
  CRK_KERNEL(get_rows_##type##_rows, CRK_LAUNCHED_THREADS, CRK_GET_ROWS_PARAMS(unsigned char)) { \
    const crk::quantized_table<crk::block_##type> table = {src, hidden / (elements) * (bytes)};  \
    crk::get_rows(fault, table, ids, dst, count, rows, hidden, sweep, across, width_log2);       \
  }
CRK_BLOCK_MAP(CRK_BLOCKS_LAUNCHED)

#define CRK_FLOATS_LAUNCHED(none, suffix, T)                                                                        \
  CRK_KERNEL(get_rows_##suffix##_rows, CRK_LAUNCHED_THREADS, CRK_GET_ROWS_PARAMS(T)) {                              \
    crk::get_rows(fault, crk::float_table<T>{src}, ids, dst, count, rows, hidden, sweep, across, width_log2);       \
  }                                                                                                                 \
  CRK_COOPERATIVE(quantize_q8_1_##suffix##_rows, CRK_QUANTIZE_THREADS,                                              \
                  (const T *x, crk::block_q8_1 *dst, uint64_t rows, uint64_t k, uint64_t padded, uint32_t blocks_x, \
                   uint32_t blocks_y, uint32_t sums)) {                                                             \
    CRK_EARLY();                                                                                                    \
    crk::quantize_q8_1_rows(x, dst, rows, k, padded, blocks_x, blocks_y, sums);                                     \
  }
CRK_NUMBER_TYPES(CRK_FLOATS_LAUNCHED, )

/* ---- mat-vec and experts: quantized/matvec.h; mat-mat: quantized/matmat.h ---- */

#define CRK_CANDLE_THREADS 128 /* blocks of (32, 4) or (32, 2) threads */

#define CRK_MUL_MAT_VEC(type, columns)                                                                          \
  CRK_COOPERATIVE(mul_mat_vec_##type##_q8_1_cuda##columns, CRK_CANDLE_THREADS,                                  \
                  (const void *weights, const void *activations, float *dst, int32_t cols, int32_t rows,        \
                   int32_t padded_cols, int32_t dst_rows)) {                                                    \
    crk::mul_mat_vec<crk::block_##type, columns>(weights, activations, dst, cols, rows, padded_cols, dst_rows); \
  }
#define CRK_MUL_MAT(type, tile_rows, tile_columns, parts)                                                           \
  CRK_COOPERATIVE(mul_mat_##type, CRK_CANDLE_THREADS,                                                               \
                  (const void *weights, const void *activations, float *dst, int32_t cols, int32_t rows,            \
                   int32_t columns, int32_t padded_cols, int32_t dst_rows)) {                                       \
    crk::mul_mat<crk::block_##type, tile_rows, tile_columns, parts>(weights, activations, dst, cols, rows, columns, \
                                                                    padded_cols, dst_rows);                         \
  }                                                                                                                 \
  CRK_MUL_MAT_VEC(type, 1)                                                                                          \
  CRK_MUL_MAT_VEC(type, 2)                                                                                          \
  CRK_MUL_MAT_VEC(type, 3)                                                                                          \
  CRK_MUL_MAT_VEC(type, 4)                                                                                          \
  CRK_MUL_MAT_VEC(type, 5)                                                                                          \
  CRK_MUL_MAT_VEC(type, 6)                                                                                          \
  CRK_MUL_MAT_VEC(type, 7)                                                                                          \
  CRK_MUL_MAT_VEC(type, 8)
CRK_MUL_MAT(q4_0, 128, 64, 1)
CRK_MUL_MAT(q4_1, 128, 64, 1)
CRK_MUL_MAT(q5_0, 64, 128, 1)
CRK_MUL_MAT(q5_1, 64, 128, 1)
CRK_MUL_MAT(q8_0, 64, 128, 1)
CRK_MUL_MAT(q2_K, 128, 64, 1)
CRK_MUL_MAT(q3_K, 128, 128, 4)
CRK_MUL_MAT(q4_K, 128, 64, 1)
CRK_MUL_MAT(q5_K, 128, 64, 1)
CRK_MUL_MAT(q6_K, 64, 64, 1)

#define CRK_INDEXED_MOE(name, type)                                                                              \
  CRK_COOPERATIVE(indexed_moe_forward_##name##_q8_1, CRK_CANDLE_THREADS,                                         \
                  (const void *weights, const void *activations, const uint32_t *ids, float *dst, int32_t n,     \
                   int32_t k, int32_t batch, int32_t topk, int32_t k_padded, int32_t input_dim)) {               \
    crk::indexed_moe<crk::block_##type>(weights, activations, ids, dst, n, k, batch, topk, k_padded, input_dim); \
  }
CRK_INDEXED_MOE(q8_0, q8_0)
CRK_INDEXED_MOE(q2k, q2_K)
CRK_INDEXED_MOE(q3k, q3_K)
CRK_INDEXED_MOE(q4k, q4_K)
CRK_INDEXED_MOE(q5k, q5_K)
CRK_INDEXED_MOE(q6k, q6_K)

CRK_MODULE(quantized)
