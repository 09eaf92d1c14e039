/* Kernels of the module `reduce`, with Candle's names and arguments. Reductions: fast_sum, fast_min, fast_max,
 * fast_argmin, fast_argmax, fast_sum_small and sum (reduce/reduction.h). Norms along rows: softmax, rmsnorm and
 * layernorm (reduce/norm.h). Rotary embeddings: rope, rope_i and rope_thd (reduce/rope.h). The launchers use other
 * kernels: those of reduce_dims.hip, norm.hip and rope.hip. This file only names the instances. */
#include "elementwise/instances.h"
#include "reduce/norm.h"
#include "reduce/reduction.h"
#include "reduce/rope.h"

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

CRK_MODULE(reduce)
