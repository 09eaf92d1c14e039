/* Kernels of the module `moe`, the launchers' mixtures of experts: integer products (moe/moe_vec_one.h, moe/moe_vec.h),
 * floating-point products (moe/moe_tile.h) and the ordering of tokens (moe/moe_order.h). This file only names the
 * instances. */
/* On the CPU, products take a sixth longer where small functions are called. */
#define CRK_INLINE_ALWAYS 1
#include "elementwise/instances.h"
#include "moe/moe_order.h"
#include "moe/moe_tile.h"
#include "moe/moe_vec.h"
#include "moe/moe_vec_one.h"

/* ---- Quantized weights times 8-bit activations, up to `columns` tokens of an expert at once ---- */

#define CRK_MOE_VEC(type, columns)                                                                                \
  CRK_COOPERATIVE(moe_vec_##type##_##columns, CRK_LAUNCHED_THREADS,                                               \
                  (const crk::block_##type *weights, const crk::block_q8_1 *x, const int32_t *tokens,             \
                   const int32_t *experts, const float *scales, void *dst, crk_moe_t shape, crk_fault_t fault)) { \
    crk::moe_vec<crk::block_##type, columns>(weights, x, {tokens, experts, scales}, dst, shape, fault);           \
  }
#define CRK_MOE_VEC_ONE(type)                                                      \
  CRK_COOPERATIVE(moe_vec_##type##_1, crk::vec_threads(1), (crk_moe_vec_t call)) { \
    crk::moe_vec_one<crk::block_##type>(CRK_ND_ARGUMENT(call));                    \
  }
#define CRK_MOE_VECS(type) CRK_MOE_VEC_ONE(type) CRK_MOE_VEC(type, 4) CRK_MOE_VEC(type, 8)
CRK_MATRIX_BLOCKS(CRK_MOE_VECS)

/* ---- Weights as numbers, in tiles of up to `columns` tokens ---- */

#define CRK_MOE_BLOCKS(type, suffix, T, columns)                                                                \
  CRK_COOPERATIVE(moe_tiles_##type##_##suffix##_##columns, CRK_MOE_TILE_THREADS,                                \
                  (const crk::block_##type *weights, const T *x, const int32_t *tokens, const int32_t *experts, \
                   const float *scales, float *dst, crk_moe_t shape, crk_fault_t fault)) {                      \
    const crk::block_weights<crk::block_##type, T> blocks = {weights};                                          \
    crk::moe_tiles<columns>(blocks, x, crk::routes{tokens, experts, scales}, dst, shape, fault);                \
  }
#define CRK_MOE_BLOCKS_OF(type)             \
  CRK_MOE_BLOCKS(type, f16, crk::f16, 16)   \
  CRK_MOE_BLOCKS(type, f16, crk::f16, 64)   \
  CRK_MOE_BLOCKS(type, bf16, crk::bf16, 16) \
  CRK_MOE_BLOCKS(type, bf16, crk::bf16, 64)
CRK_MATRIX_BLOCKS(CRK_MOE_BLOCKS_OF)

#define CRK_MOE_NUMBERS(suffix, T, columns)                                                                          \
  CRK_COOPERATIVE(moe_tiles_##suffix##_##columns, CRK_MOE_TILE_THREADS,                                              \
                  (const T *weights, const T *x, const int32_t *tokens, const int32_t *experts, const float *scales, \
                   T *dst, crk_moe_t shape, crk_fault_t fault)) {                                                    \
    const crk::number_weights<T> numbers = {weights};                                                                \
    crk::moe_tiles<columns>(numbers, x, crk::routes{tokens, experts, scales}, dst, shape, fault);                    \
  }
CRK_MOE_NUMBERS(f16, crk::f16, 16)
CRK_MOE_NUMBERS(f16, crk::f16, 64)
CRK_MOE_NUMBERS(bf16, crk::bf16, 16)
CRK_MOE_NUMBERS(bf16, crk::bf16, 64)

/* ---- The order of tokens ---- */

CRK_COOPERATIVE(moe_counts, CRK_MOE_ORDER_THREADS,
                (const int32_t *ids, int32_t *counts, int32_t *offsets, uint64_t count, uint64_t experts)) {
  crk::moe_counts(ids, counts, offsets, count, experts);
}
CRK_COOPERATIVE(moe_starts, CRK_MOE_ORDER_THREADS,
                (const int32_t *ids, int32_t *starts, int32_t *total, crk_moe_order_t order, crk_fault_t fault)) {
  crk::moe_starts(ids, starts, total, order, fault);
}
CRK_COOPERATIVE(moe_align, CRK_MOE_ORDER_THREADS,
                (const int32_t *ids, int32_t *sorted, int32_t *block_experts, int32_t *starts, crk_moe_order_t order,
                 uint32_t blocks)) {
  crk::moe_align(ids, sorted, block_experts, starts, order, blocks);
}

CRK_MODULE(moe)
