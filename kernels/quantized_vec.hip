/* The launchers' products of quantized weights with one to eight columns: kernels/common/quant_dot.h, matvec_fast.h. */
#include "common/instance.h"
#include "common/matvec_fast.h"

#define CRK_PACK_ACTIVATIONS(suffix, T)                                                \
  CRK_COOPERATIVE(pack_activations_##suffix, CRK_LAUNCHED_THREADS,                     \
                  (const T *x, uint32_t *packed, uint64_t blocks, uint64_t threads)) { \
    crk::pack_activations(x, packed, blocks, threads);                                 \
  }
CRK_PACK_ACTIVATIONS(f32, float)
CRK_PACK_ACTIVATIONS(f16, crk::f16)
CRK_PACK_ACTIVATIONS(bf16, crk::bf16)

#define CRK_MUL_MAT_VEC_FAST(type, columns, rows_at_once)                                                              \
  CRK_COOPERATIVE(mul_mat_vec_##type##_##columns##x##rows_at_once, CRK_LAUNCHED_THREADS,                               \
                  (const crk::block_##type *weights, const uint32_t *packed, void *dst, uint32_t dtype, uint64_t rows, \
                   uint64_t row_blocks, uint32_t count, uint64_t groups)) {                                            \
    crk::mul_mat_vec_fast<crk::block_##type, columns, rows_at_once>(weights, packed, dst, dtype, rows, row_blocks,     \
                                                                    count, groups);                                    \
  }
#define CRK_MUL_MAT_VEC_SHAPES(type) \
  CRK_MUL_MAT_VEC_FAST(type, 1, 1)   \
  CRK_MUL_MAT_VEC_FAST(type, 1, 2)   \
  CRK_MUL_MAT_VEC_FAST(type, 1, 4)   \
  CRK_MUL_MAT_VEC_FAST(type, 2, 2)   \
  CRK_MUL_MAT_VEC_FAST(type, 4, 2)   \
  CRK_MUL_MAT_VEC_FAST(type, 8, 2)
CRK_MATRIX_BLOCKS(CRK_MUL_MAT_VEC_SHAPES)

CRK_MODULE(quantized_vec)
