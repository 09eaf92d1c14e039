/* The launchers' products of quantized weights with one to eight columns: kernels/common/quant_dot.h, matvec_tile.h. */
#include "common/instance.h"
#include "common/matvec_tile.h"

#define CRK_MUL_MAT_VEC_TILES(type, columns)                                                                          \
  CRK_COOPERATIVE(mul_mat_vec_##type##_x##columns, crk::vec_threads(columns),                                         \
                  (const unsigned char *weights, const crk::block_q8_1 *x, void *dst, uint32_t dtype, uint32_t count, \
                   uint32_t row_blocks, uint64_t rows, uint64_t x_stride, uint64_t dst_stride, uint32_t block_rows,   \
                   uint32_t larger)) {                                                                                \
    crk::mul_mat_vec_tiles<crk::block_##type, columns>(                                                               \
        {weights, x, dst, dtype, count, row_blocks, rows, x_stride, dst_stride}, block_rows, larger);                 \
  }
#define CRK_MUL_MAT_VEC_COLUMNS(type) \
  CRK_MUL_MAT_VEC_TILES(type, 1)      \
  CRK_MUL_MAT_VEC_TILES(type, 2)      \
  CRK_MUL_MAT_VEC_TILES(type, 4)      \
  CRK_MUL_MAT_VEC_TILES(type, 8)
CRK_MATRIX_BLOCKS(CRK_MUL_MAT_VEC_COLUMNS)

CRK_MODULE(quantized_vec)
