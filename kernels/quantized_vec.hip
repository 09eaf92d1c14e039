/* Kernels of the module `quantized_vec`: the launchers' products of quantized weights with one to eight columns
 * (quantized/matvec_tile.h, quantized/matvec_few.h). This file only names the instances. */
#include "elementwise/instances.h"
#include "quantized/matvec_few.h"

#define CRK_MUL_MAT_VEC_TILES(type, columns)                                               \
  CRK_STREAMING(mul_mat_vec_##type##_x##columns, crk::vec_threads(columns),                \
                crk::vec_waves<crk::block_##type>(columns), (crk_vec_product_t product)) { \
    crk::mul_mat_vec_launched<crk::block_##type, columns>(CRK_ND_ARGUMENT(product));       \
  }
#define CRK_MUL_MAT_VEC_COLUMNS(type) \
  CRK_MUL_MAT_VEC_TILES(type, 1)      \
  CRK_MUL_MAT_VEC_TILES(type, 2)      \
  CRK_MUL_MAT_VEC_TILES(type, 4)      \
  CRK_MUL_MAT_VEC_TILES(type, 8)
CRK_MATRIX_BLOCKS(CRK_MUL_MAT_VEC_COLUMNS)

CRK_MODULE(quantized_vec)
