/* Kernels of the module `moe`, the launchers' mixtures of experts: integer products (moe/moe_vec_one.h, moe/moe_vec.h),
 * floating-point products (moe/moe_tile.h), the choice of experts (moe/moe_route.h, moe/moe_router.h) and the ordering
 * of tokens (moe/moe_order.h). This file only names the instances. */
/* On the CPU, products take a sixth longer where small functions are called. */
#define CRK_INLINE_ALWAYS 1
#include "elementwise/instances.h"
#include "moe/moe_order.h"
#include "moe/moe_route.h"
#include "moe/moe_router.h"
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
    CRK_EARLY();                                                                   \
    crk::moe_vec_one<crk::block_##type>(CRK_ND_ARGUMENT(call));                    \
  }
#define CRK_MOE_GATE(type)                                                       \
  CRK_COOPERATIVE(moe_gate_##type, crk::vec_threads(1), (crk_moe_gate_t call)) { \
    CRK_EARLY();                                                                 \
    crk::moe_gate<crk::block_##type>(CRK_ND_ARGUMENT(call));                     \
  }
#define CRK_MOE_VECS(type) CRK_MOE_VEC_ONE(type) CRK_MOE_GATE(type) CRK_MOE_VEC(type, 4) CRK_MOE_VEC(type, 8)
CRK_MATRIX_BLOCKS(CRK_MOE_VECS)

/* ---- Weights as numbers, in tiles of `tokens` tokens and `rows` rows of weights ---- */

#define CRK_MOE_TILE(tokens, rows, threads, name, weights, T, U)                 \
  CRK_STREAMING(name##_##tokens, threads, 2, (crk_moe_tiles_t call)) {           \
    crk::moe_tiles<tokens, rows, threads, weights, T, U>(CRK_ND_ARGUMENT(call)); \
  }
#if CRK_HALF_CORES && CRK_LARGE_SHARED
/* Numbers: fewer teams, of larger parts, because both copies go straight to shared memory. Quantized weights go through
 * registers, of which they leave too few with fewer threads. */
#define CRK_MOE_NUMBERS_TILE(tokens, rows, threads, name, weights, T, U) \
  CRK_MOE_TILE(tokens, rows, ((threads) == 256 ? 128 : (threads)), name, weights, T, U)
#define CRK_MOE_BLOCKS_TILE(tokens, rows, threads, name, weights, T, U) \
  CRK_MOE_TILE(tokens, rows, ((tokens) == 64 ? 256 : (threads)), name, weights, T, U)
#else
#define CRK_MOE_NUMBERS_TILE CRK_MOE_TILE
#define CRK_MOE_BLOCKS_TILE  CRK_MOE_TILE
#endif
#define CRK_MOE_NUMBERS(suffix, T) CRK_MOE_TILES(CRK_MOE_NUMBERS_TILE, moe_tiles_##suffix, crk::number_weights<T>, T, T)
/* A template of one argument: a macro's argument has no comma. */
#define CRK_MOE_BLOCKS(type)                                                                                  \
  template <class T>                                                                                          \
  using block_weights_##type = crk::block_weights<crk::block_##type, T>;                                      \
  CRK_MOE_TILES(CRK_MOE_BLOCKS_TILE, moe_tiles_##type##_f16, block_weights_##type<crk::f16>, crk::f16, float) \
  CRK_MOE_TILES(CRK_MOE_BLOCKS_TILE, moe_tiles_##type##_bf16, block_weights_##type<crk::bf16>, crk::bf16, float)
CRK_MOE_NUMBERS(f16, crk::f16)
CRK_MOE_NUMBERS(bf16, crk::bf16)
/* Of quantized weights that moe_numbers has made numbers of. */
#define CRK_MOE_NUMBERS_TO_F32(suffix, T) \
  CRK_MOE_TILES(CRK_MOE_NUMBERS_TILE, moe_tiles_numbers_##suffix, crk::number_weights<T>, T, float)
CRK_MOE_NUMBERS_TO_F32(f16, crk::f16)
CRK_MOE_NUMBERS_TO_F32(bf16, crk::bf16)
#define CRK_MOE_NUMBERS_OF(type, suffix, T)                                                       \
  CRK_ELEMENTWISE(moe_numbers_##type##_##suffix, CRK_MOE_NUMBERS_THREADS,                         \
                  (const crk::block_##type *weights, T *dst, uint64_t count, uint32_t threads)) { \
    crk::moe_numbers(weights, dst, count, threads);                                               \
  }
#define CRK_MOE_NUMBERS_OF_BLOCKS(type) \
  CRK_MOE_NUMBERS_OF(type, f16, crk::f16) CRK_MOE_NUMBERS_OF(type, bf16, crk::bf16)
CRK_MATRIX_BLOCKS(CRK_MOE_NUMBERS_OF_BLOCKS)
CRK_MATRIX_BLOCKS(CRK_MOE_BLOCKS)

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

/* ---- The choice of experts ---- */

#define CRK_MOE_ROUTE(share)                                                          \
  CRK_COOPERATIVE(moe_route_##share, CRK_MOE_ROUTE_THREADS, (crk_moe_route_t call)) { \
    CRK_EARLY();                                                                      \
    crk::moe_route<share>(CRK_ND_ARGUMENT(call));                                     \
  }
CRK_MOE_ROUTES(CRK_MOE_ROUTE)

#define CRK_MOE_ROUTER(suffix, share, T)                                                           \
  CRK_COOPERATIVE(moe_router_##suffix##_##share, CRK_MOE_ROUTE_THREADS, (crk_moe_router_t call)) { \
    CRK_EARLY();                                                                                   \
    crk::moe_router<share, T>(CRK_ND_ARGUMENT(call));                                              \
  }
#define CRK_MOE_ROUTERS(share)      \
  CRK_MOE_ROUTER(f32, share, float) \
  CRK_MOE_ROUTER(f16, share, crk::f16) CRK_MOE_ROUTER(bf16, share, crk::bf16)
CRK_MOE_ROUTES(CRK_MOE_ROUTERS)

CRK_MODULE(moe)
