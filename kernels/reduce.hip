/* Reductions of rows, and what is made of them; rotary embeddings. */
#include "common/instance.h"
#include "common/norm.h"
#include "common/rope.h"

/* ---- softmax, rmsnorm, layernorm, rope: kernels/common/norm.h and rope.h ---- */

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
