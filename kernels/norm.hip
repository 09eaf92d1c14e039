/* Kernels of the module `norm`, for the launchers: softmax, rmsnorm and layernorm along rows (reduce/norm*.h), batch
 * norm (elementwise/batch_norm.h) and group norm (reduce/group_norm.h). This file only names the instances. */
#include "elementwise/batch_norm.h"
#include "elementwise/instances.h"
#include "reduce/add_norm.h"
#include "reduce/group_norm.h"
#include "reduce/norm.h"
#include "reduce/norm_long.h"
#include "reduce/norm_rows.h"

/* A thread of a `rows1` kernel holds one pack. For `rows` and `wide` kernels, call/norm_call.h
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
    CRK_EARLY();                                                                                                   \
    crk::let_next_launch_begin();                                                                                  \
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
  CRK_RMS_NORM_ROWS(suffix, T, even_few, CRK_NORM_FEW_THREADS, held, 1, crk::even_row)  \
  CRK_NORM_ROWS(suffix, T, long, CRK_NORM_LONG_THREADS, long, crk::long_packs<T>, crk::long_packs<T>)
CRK_FLOAT_TYPES(CRK_NORM_LAUNCHED)

#define CRK_ADD_NORM(suffix, T, kind, threads, packs)                                                               \
  CRK_COOPERATIVE(add_rmsnorm_##suffix##_##kind, threads,                                                           \
                  (const T *src, T *dst, uint64_t rows, uint64_t cols, uint32_t log2_width, uint32_t beside,        \
                   uint32_t step, const T *alpha, const T *residual, T *sum, crk::block_q8_1 *blocks, float eps)) { \
    CRK_EARLY();                                                                                                    \
    crk::let_next_launch_begin();                                                                                   \
    crk::add_rms_norm_held<packs, false>(crk::row_set<T>{src, dst, rows, cols, log2_width, beside, step},           \
                                         static_cast<const T *>(nullptr), residual, sum, alpha, blocks, eps);       \
  }                                                                                                                 \
  CRK_COOPERATIVE(                                                                                                  \
      norm_add_rmsnorm_##suffix##_##kind, threads,                                                                  \
      (const T *src, T *dst, uint64_t rows, uint64_t cols, uint32_t log2_width, uint32_t beside, uint32_t step,     \
       const T *alpha, const T *residual, T *sum, crk::block_q8_1 *blocks, float eps, const T *src_alpha)) {        \
    CRK_EARLY();                                                                                                    \
    crk::let_next_launch_begin();                                                                                   \
    crk::add_rms_norm_held<packs, true>(crk::row_set<T>{src, dst, rows, cols, log2_width, beside, step}, src_alpha, \
                                        residual, sum, alpha, blocks, eps);                                         \
  }
#define CRK_ADD_NORMS(suffix, T)                                                                        \
  CRK_ADD_NORM(suffix, T, even_few, CRK_NORM_FEW_THREADS, 1)                                            \
  CRK_ADD_NORM(suffix, T, even1, CRK_LAUNCHED_THREADS, 1)                                               \
  CRK_ADD_NORM(suffix, T, even, CRK_NORM_ROW_THREADS(crk::wide_waves), CRK_NORM_PACKS(crk::wide_waves)) \
  CRK_ADD_NORM(suffix, T, even_wide, CRK_NORM_WIDE_THREADS(crk::wide_waves), CRK_NORM_PACKS(crk::wide_waves))
CRK_ADD_NORMS(f32, float)
CRK_ADD_NORMS(f16, crk::f16)
CRK_ADD_NORMS(bf16, crk::bf16)

#define CRK_BATCH_NORM(suffix, T, rows)                                                                     \
  CRK_ELEMENTWISE(batchnorm_##suffix##_##rows, CRK_LAUNCHED_THREADS,                                        \
                  (crk_batch_norm_t call, const T *x, T *dst, const T *mean, const T *var, const T *weight, \
                   const T *bias, crk::wide<T> eps, uint32_t threads)) {                                    \
    crk::batch_norm_##rows(CRK_ND_ARGUMENT(call), threads, x, dst,                                          \
                           crk::batch_norm_parameters<T>{mean, var, weight, bias, eps});                    \
  }
#define CRK_BATCH_NORMS(suffix, T) CRK_BATCH_NORM(suffix, T, even) CRK_BATCH_NORM(suffix, T, any)
CRK_FLOAT_TYPES(CRK_BATCH_NORMS)

#define CRK_GROUP_NORM(suffix, T, rows, end, silu)                                                            \
  CRK_ELEMENTWISE(groupnorm_##suffix##_##rows##end, CRK_LAUNCHED_THREADS,                                     \
                  (crk_batch_norm_t call, const T *x, T *dst, const crk::wide<T> *norms, uint32_t threads)) { \
    crk::batch_norm_##rows(CRK_ND_ARGUMENT(call), threads, x, dst, crk::row_parameters<T, silu>{norms});      \
  }
#define CRK_GROUP_NORMS(suffix, T)                                                               \
  CRK_COOPERATIVE(groupstats_##suffix, CRK_GROUP_NORM_THREADS, (crk_group_norm_t call)) {        \
    crk::group_stats<T>(CRK_ND_ARGUMENT(call));                                                  \
  }                                                                                              \
  CRK_COOPERATIVE(groupstats_##suffix##_join, CRK_GROUP_NORM_THREADS, (crk_group_norm_t call)) { \
    crk::group_stats_join<T>(CRK_ND_ARGUMENT(call));                                             \
  }                                                                                              \
  CRK_GROUP_NORM(suffix, T, even, , false)                                                       \
  CRK_GROUP_NORM(suffix, T, any, , false)                                                        \
  CRK_GROUP_NORM(suffix, T, even, _silu, true)                                                   \
  CRK_GROUP_NORM(suffix, T, any, _silu, true)
CRK_FLOAT_TYPES(CRK_GROUP_NORMS)

CRK_MODULE(norm)
