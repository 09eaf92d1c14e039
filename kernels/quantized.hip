#include "common/instance.h"
#include "common/matmat.h"

/* ---- mat-vec, mat-mat, experts: kernels/common/quant_dot.h, matvec.h, matmat.h ---- */

#define CRK_CANDLE_THREADS 128 /* blocks of (32, 4), or (32, 2) */

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
CRK_MUL_MAT(q3_K, 128, 128, 2)
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
