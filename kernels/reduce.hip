/* Kernels of the module `reduce`. Reductions: fast_sum, fast_min, fast_max, fast_argmin, fast_argmax, fast_sum_small
 * and sum (reduce/reduction.h, reduce/reduce_*.h). Norms along rows: softmax, rmsnorm and layernorm (reduce/norm*.h).
 * Rotary embeddings: rope, rope_i and rope_thd (reduce/rope*.h). This file only names the instances. */
#include "elementwise/instances.h"
#include "reduce/norm.h"
#include "reduce/norm_long.h"
#include "reduce/norm_rows.h"
#include "reduce/reduce_dense.h"
#include "reduce/reduce_even.h"
#include "reduce/reduce_rows.h"
#include "reduce/reduction.h"
#include "reduce/rope.h"
#include "reduce/rope_pairs.h"

/* ------------------------------------------------------------------------------------------------------------------
 * Sums, extremes and their positions, with Candle's arguments
 * ------------------------------------------------------------------------------------------------------------------ */

/* f16 and integers are added up in their own type, as in Candle's CUDA kernels. A narrow integer's sum is taken in 32
 * bits; its low bits are the same. Candle's CUDA kernels have no f8e4m3; here it is added up in f32. */
#define CRK_REDUCE_NAMED(root, suffix, T, ...)                                                             \
  CRK_COOPERATIVE(root##_##suffix, CRK_NAMED_THREADS,                                                      \
                  (uint64_t numel, uint64_t per_output, uint64_t rank, const uint64_t *info, const T *src, \
                   crk::__VA_ARGS__::output *dst)) {                                                       \
    crk::reduce_named<crk::__VA_ARGS__>(numel, per_output, rank, info, src, dst);                          \
  }
#define CRK_EXTREMES_NAMED(suffix, T)                                \
  CRK_REDUCE_NAMED(fast_min, suffix, T, extreme<T, false>)           \
  CRK_REDUCE_NAMED(fast_max, suffix, T, extreme<T, true>)            \
  CRK_REDUCE_NAMED(fast_argmin, suffix, T, named_position<T, false>) \
  CRK_REDUCE_NAMED(fast_argmax, suffix, T, named_position<T, true>)
CRK_ALL_TYPES(CRK_EXTREMES_NAMED)

#define CRK_SUM_CHAINS_NAMED(suffix, T) CRK_REDUCE_NAMED(fast_sum, suffix, T, sum_in<T, crk::held<T>>)
CRK_INTEGER_TYPES(CRK_SUM_CHAINS_NAMED)
CRK_REDUCE_NAMED(fast_sum, f16, crk::f16, sum_in<crk::f16, crk::f16>)
CRK_SUM_CHAINS_NAMED(f64, double)
CRK_SUM_CHAINS_NAMED(f8_e4m3, crk::f8e4m3)

#define CRK_SUM_PACKS_NAMED(suffix, T)                                                                                \
  CRK_COOPERATIVE(fast_sum_##suffix, CRK_NAMED_THREADS,                                                               \
                  (uint64_t numel, uint64_t per_output, uint64_t rank, const uint64_t *info, const T *src, T *dst)) { \
    crk::sum_named_packs(numel, per_output, rank, info, src, dst);                                                    \
  }
CRK_SUM_PACKS_NAMED(f32, float)
CRK_SUM_PACKS_NAMED(bf16, crk::bf16)

#define CRK_SUM_SMALL_NAMED(suffix, T)                                                                      \
  CRK_ELEMENTWISE(                                                                                          \
      fast_sum_small_##suffix, CRK_NAMED_THREADS,                                                           \
      (uint64_t outputs, uint64_t per_output, uint64_t rank, const uint64_t *info, const T *src, T *dst)) { \
    crk::sum_small_named<crk::sum_in<T, crk::held<T>>>(outputs, per_output, rank, info, src, dst);          \
  }
CRK_ALL_TYPES(CRK_SUM_SMALL_NAMED)

#define CRK_SUM_NAMED(suffix, T)                                                                                  \
  CRK_ELEMENTWISE(sum_##suffix, CRK_NAMED_THREADS,                                                                \
                  (uint64_t numel, uint64_t rank, uint64_t summed, const uint64_t *info, const T *src, T *dst)) { \
    crk::sum_named(numel, rank, summed, info, src, dst);                                                          \
  }
CRK_FLOAT_TYPES(CRK_SUM_NAMED)
CRK_SUM_NAMED(u32, uint32_t)

/* ------------------------------------------------------------------------------------------------------------------
 * Sums, extremes and their positions, for the launcher
 * ------------------------------------------------------------------------------------------------------------------ */

/* Floats narrower than f32 are added up in f32, narrow integers in 32 bits. The `columns` kernels read neighbouring
 * outputs 16 bytes at a time, but at most 8 outputs per thread. */
#define CRK_REDUCE_LAUNCHED(root, suffix, T, ...)                                                                 \
  CRK_COOPERATIVE(                                                                                                \
      root##_##suffix##_rows, CRK_REDUCE_THREADS,                                                                 \
      (crk_reduce_space_t space, const T *src, crk::__VA_ARGS__::output *dst, crk::__VA_ARGS__::state *states)) { \
    crk::reduce_rows<crk::__VA_ARGS__>(CRK_ND_ARGUMENT(space), src, dst, states);                                 \
  }                                                                                                               \
  CRK_COOPERATIVE(root##_##suffix##_even, CRK_REDUCE_THREADS,                                                     \
                  (crk_reduce_even_t rows, const T *src, crk::__VA_ARGS__::output *dst)) {                        \
    crk::reduce_even_rows<crk::__VA_ARGS__>(rows, src, dst);                                                      \
  }                                                                                                               \
  CRK_COOPERATIVE(root##_##suffix##_dense, CRK_REDUCE_THREADS,                                                    \
                  (crk_reduce_dense_t rows, const T *src, crk::__VA_ARGS__::output *dst)) {                       \
    crk::reduce_dense_rows<crk::__VA_ARGS__>(rows, src, dst);                                                     \
  }                                                                                                               \
  CRK_COOPERATIVE(                                                                                                \
      root##_##suffix##_columns, CRK_REDUCE_THREADS,                                                              \
      (crk_reduce_space_t space, const T *src, crk::__VA_ARGS__::output *dst, crk::__VA_ARGS__::state *states)) { \
    crk::reduce_columns<crk::__VA_ARGS__, crk::columns_of<crk::__VA_ARGS__>>(CRK_ND_ARGUMENT(space), src, dst,    \
                                                                             states);                             \
  }                                                                                                               \
  CRK_COOPERATIVE(                                                                                                \
      root##_##suffix##_strided, CRK_REDUCE_THREADS,                                                              \
      (crk_reduce_space_t space, const T *src, crk::__VA_ARGS__::output *dst, crk::__VA_ARGS__::state *states)) { \
    crk::reduce_columns<crk::__VA_ARGS__, 1>(CRK_ND_ARGUMENT(space), src, dst, states);                           \
  }                                                                                                               \
  CRK_COOPERATIVE(root##_##suffix##_join, CRK_REDUCE_THREADS,                                                     \
                  (uint64_t outputs, uint32_t splits, uint32_t blocks, const crk::__VA_ARGS__::state *states,     \
                   crk::__VA_ARGS__::output *dst)) {                                                              \
    crk::join_states<crk::__VA_ARGS__>(outputs, splits, blocks, states, dst);                                     \
  }
#define CRK_REDUCTIONS_LAUNCHED(suffix, T)                              \
  CRK_REDUCE_LAUNCHED(fast_sum, suffix, T, sum_in<T, crk::held<T>>)     \
  CRK_REDUCE_LAUNCHED(fast_min, suffix, T, extreme<T, false>)           \
  CRK_REDUCE_LAUNCHED(fast_max, suffix, T, extreme<T, true>)            \
  CRK_REDUCE_LAUNCHED(fast_argmin, suffix, T, first_position<T, false>) \
  CRK_REDUCE_LAUNCHED(fast_argmax, suffix, T, first_position<T, true>)
CRK_ALL_TYPES(CRK_REDUCTIONS_LAUNCHED)

/* ------------------------------------------------------------------------------------------------------------------
 * softmax, rmsnorm, layernorm: reduce/norm.h; rope: reduce/rope.h
 * ------------------------------------------------------------------------------------------------------------------ */

#define CRK_NORM_NAMED(suffix, T)                                                                                   \
  CRK_COOPERATIVE(softmax_##suffix, CRK_NAMED_THREADS, (const T *src, T *dst, int32_t ncols)) {                     \
    crk::softmax_named(src, dst, ncols);                                                                            \
  }                                                                                                                 \
  CRK_COOPERATIVE(rmsnorm_##suffix, CRK_NAMED_THREADS,                                                              \
                  (const T *src, T *dst, const T *alpha, int32_t ncols, int32_t block, float eps)) {                \
    crk::rmsnorm_named(src, dst, alpha, ncols, block, eps);                                                         \
  }                                                                                                                 \
  CRK_COOPERATIVE(layernorm_##suffix, CRK_NAMED_THREADS,                                                            \
                  (const T *src, T *dst, const T *alpha, const T *beta, int32_t ncols, int32_t block, float eps)) { \
    crk::layernorm_named(src, dst, alpha, beta, ncols, block, eps);                                                 \
  }
CRK_FLOAT_TYPES(CRK_NORM_NAMED)

/* The launchers' norms. A thread of a `rows1` kernel holds one pack. For `rows` and `wide` kernels, call/norm_call.h
 * gives the packs per thread and the largest block. The `even` and `whole` kernels are the same for even and whole
 * rows. Only layernorm has `whole` kernels, since only layernorm is bound by instructions. `long` holds only the end of
 * a row. */
#define CRK_SOFTMAX_ROWS(suffix, T, kind, threads, way, ...)                                                       \
  CRK_COOPERATIVE(                                                                                                 \
      softmax_##suffix##_##kind, threads,                                                                          \
      (const T *src, T *dst, uint64_t rows, uint64_t cols, uint32_t log2_width, uint32_t beside, uint32_t step)) { \
    crk::softmax_##way<__VA_ARGS__>(crk::row_set<T>{src, dst, rows, cols, log2_width, beside, step});              \
  }
#define CRK_RMS_NORM_ROWS(suffix, T, kind, threads, way, ...)                                                      \
  CRK_COOPERATIVE(rmsnorm_##suffix##_##kind, threads,                                                              \
                  (const T *src, T *dst, uint64_t rows, uint64_t cols, uint32_t log2_width, uint32_t beside,       \
                   uint32_t step, const T *alpha, float eps)) {                                                    \
    crk::rms_norm_##way<__VA_ARGS__>(crk::row_set<T>{src, dst, rows, cols, log2_width, beside, step}, alpha, eps); \
  }
#define CRK_LAYER_NORM_ROWS(suffix, T, kind, threads, way, ...)                                                      \
  CRK_COOPERATIVE(layernorm_##suffix##_##kind, threads,                                                              \
                  (const T *src, T *dst, uint64_t rows, uint64_t cols, uint32_t log2_width, uint32_t beside,         \
                   uint32_t step, const T *alpha, const T *beta, float eps)) {                                       \
    crk::layer_norm_##way<__VA_ARGS__>(crk::row_set<T>{src, dst, rows, cols, log2_width, beside, step}, alpha, beta, \
                                       eps);                                                                         \
  }
#define CRK_NORM_ROWS(...)       \
  CRK_SOFTMAX_ROWS(__VA_ARGS__)  \
  CRK_RMS_NORM_ROWS(__VA_ARGS__) \
  CRK_LAYER_NORM_ROWS(__VA_ARGS__)
/* `size` is ROW or WIDE. */
#define CRK_SOFTMAX_HELD(suffix, T, kind, size, form) \
  CRK_SOFTMAX_ROWS(suffix, T, kind, CRK_NORM_##size##_THREADS(false), held, CRK_NORM_PACKS(false), crk::form)
#define CRK_NORM_HELD(norm, suffix, T, kind, size, form)                               \
  CRK_##norm##_ROWS(suffix, T, kind, CRK_NORM_##size##_THREADS(crk::wide_waves), held, \
                    CRK_NORM_PACKS(crk::wide_waves), crk::form)
#define CRK_NORMS_HELD(suffix, T, kind, size, form)    \
  CRK_SOFTMAX_HELD(suffix, T, kind, size, form)        \
  CRK_NORM_HELD(RMS_NORM, suffix, T, kind, size, form) \
  CRK_NORM_HELD(LAYER_NORM, suffix, T, kind, size, form)
#define CRK_NORM_LAUNCHED(suffix, T)                                                    \
  CRK_NORM_ROWS(suffix, T, rows1, CRK_LAUNCHED_THREADS, held, 1, crk::any_row)          \
  CRK_NORMS_HELD(suffix, T, rows, ROW, any_row)                                         \
  CRK_NORMS_HELD(suffix, T, wide, WIDE, any_row)                                        \
  CRK_NORM_ROWS(suffix, T, even1, CRK_LAUNCHED_THREADS, held, 1, crk::even_row)         \
  CRK_NORMS_HELD(suffix, T, even, ROW, even_row)                                        \
  CRK_NORMS_HELD(suffix, T, even_wide, WIDE, even_row)                                  \
  CRK_LAYER_NORM_ROWS(suffix, T, whole1, CRK_LAUNCHED_THREADS, held, 1, crk::whole_row) \
  CRK_NORM_HELD(LAYER_NORM, suffix, T, whole, ROW, whole_row)                           \
  CRK_NORM_HELD(LAYER_NORM, suffix, T, whole_wide, WIDE, whole_row)                     \
  CRK_NORM_ROWS(suffix, T, long, CRK_NORM_LONG_THREADS, long, crk::long_packs<T>, crk::long_packs<T>)
CRK_FLOAT_TYPES(CRK_NORM_LAUNCHED)

#define CRK_ROPE_NAMED(suffix, T)                                                                                    \
  CRK_ELEMENTWISE(rope_i_##suffix, CRK_NAMED_THREADS,                                                                \
                  (const T *src, const T *cos, const T *sin, T *dst, uint32_t bh, uint32_t td, uint32_t stride_b)) { \
    crk::rope_i_named(src, cos, sin, dst, bh, td, stride_b);                                                         \
  }                                                                                                                  \
  CRK_ELEMENTWISE(                                                                                                   \
      rope_##suffix, CRK_NAMED_THREADS,                                                                              \
      (const T *src, const T *cos, const T *sin, T *dst, uint32_t bh, uint32_t td, uint32_t d, uint32_t stride_b)) { \
    crk::rope_named(src, cos, sin, dst, bh, td, d, stride_b);                                                        \
  }                                                                                                                  \
  CRK_ELEMENTWISE(rope_thd_##suffix, CRK_NAMED_THREADS,                                                              \
                  (const T *src, const T *cos, const T *sin, T *dst, uint32_t b, uint32_t t, uint32_t h, uint32_t d, \
                   uint32_t stride_b)) {                                                                             \
    crk::rope_thd_named(src, cos, sin, dst, b, t, h, d, stride_b);                                                   \
  }
CRK_FLOAT_TYPES(CRK_ROPE_NAMED)

#define CRK_ROPE_PAIRS(root, suffix, T, way, V, H, interleaved)                                                      \
  CRK_ELEMENTWISE(root##_##suffix##_##way, CRK_LAUNCHED_THREADS,                                                     \
                  (crk_nd_t nd, const T *src, const T *cos, const T *sin, T *dst, uint64_t half, uint64_t head_step, \
                   uint32_t threads)) {                                                                              \
    crk::rope_pairs<V, H, interleaved>(CRK_ND_ARGUMENT(nd), threads, src, cos, sin, dst, half, head_step);           \
  }
#define CRK_ROPE_WAYS(root, suffix, T, interleaved)                       \
  CRK_ROPE_PAIRS(root, suffix, T, pair, 1, 1, interleaved)                \
  CRK_ROPE_PAIRS(root, suffix, T, heads1, 16 / sizeof(T), 1, interleaved) \
  CRK_ROPE_PAIRS(root, suffix, T, heads2, 16 / sizeof(T), 2, interleaved)
#define CRK_ROPE_LAUNCHED(suffix, T)    \
  CRK_ROPE_WAYS(rope, suffix, T, false) \
  CRK_ROPE_WAYS(rope_i, suffix, T, true)
CRK_FLOAT_TYPES(CRK_ROPE_LAUNCHED)

CRK_MODULE(reduce)
