/* Kernels of the module `quantized_vec`: the launchers' products of quantized weights with one to eight columns
 * (quantized/matvec_tile.h, quantized/matvec_few.h), gates of feed-forward layers (quantized/matvec_gate.h), and
 * rotated heads (quantized/matvec_rope.h). This file only names the instances. */
#include "elementwise/instances.h"
#include "quantized/matvec_few.h"
#include "quantized/matvec_gate.h"
#include "quantized/matvec_rope.h"

#define CRK_MUL_MAT_VEC_TILES(type, columns)                                               \
  CRK_STREAMING(mul_mat_vec_##type##_x##columns, crk::vec_threads(columns),                \
                crk::vec_waves<crk::block_##type>(columns), (crk_vec_product_t product)) { \
    CRK_EARLY();                                                                           \
    crk::mul_mat_vec_launched<crk::block_##type, columns>(CRK_ND_ARGUMENT(product));       \
  }
#define CRK_MUL_MAT_VEC_COLUMNS(type) \
  CRK_MUL_MAT_VEC_TILES(type, 1)      \
  CRK_MUL_MAT_VEC_TILES(type, 2)      \
  CRK_MUL_MAT_VEC_TILES(type, 4)      \
  CRK_MUL_MAT_VEC_TILES(type, 8)
CRK_MATRIX_BLOCKS(CRK_MUL_MAT_VEC_COLUMNS)

#define CRK_GATE_MAT_VEC(type)                                                                  \
  CRK_STREAMING(gate_mat_vec_##type, crk::vec_threads(1), crk::vec_waves<crk::block_##type>(1), \
                (crk_vec_gate_t call)) {                                                        \
    CRK_EARLY();                                                                                \
    crk::gate_mat_vec<crk::block_##type>(CRK_ND_ARGUMENT(call));                                \
  }
CRK_MATRIX_BLOCKS(CRK_GATE_MAT_VEC)

#define CRK_ROPE_MAT_VEC(name, type, interleaved)                                                 \
  CRK_STREAMING(name##_mat_vec_##type, crk::vec_threads(1), crk::vec_waves<crk::block_##type>(1), \
                (crk_vec_rope_t call)) {                                                          \
    CRK_EARLY();                                                                                  \
    crk::rope_mat_vec<crk::block_##type, interleaved>(CRK_ND_ARGUMENT(call));                     \
  }
#define CRK_ROPE_MAT_VECS(type)       \
  CRK_ROPE_MAT_VEC(rope, type, false) \
  CRK_ROPE_MAT_VEC(rope_i, type, true)
CRK_MATRIX_BLOCKS(CRK_ROPE_MAT_VECS)

CRK_MODULE(quantized_vec)
