/* The launchers' products of quantized weights with any number of columns: kernels/common/quant_dot.h, matmat.h. */
#include "common/instance.h"
#include "common/matmat.h"

#define CRK_MUL_MAT_TILES(type)                                                                                        \
  CRK_COOPERATIVE(mul_mat_##type##_tiles, crk::fast_tile_threads,                                                      \
                  (const crk::block_##type *weights, const uint32_t *packed, void *dst, uint32_t dtype, uint64_t rows, \
                   uint64_t row_blocks, uint64_t columns, uint32_t blocks_y)) {                                        \
    crk::mul_mat_fast<crk::block_##type>(weights, packed, dst, dtype, rows, row_blocks, columns, blocks_y);            \
  }
CRK_MATRIX_BLOCKS(CRK_MUL_MAT_TILES)

CRK_MODULE(quantized_mat)
