/* Kernels of the module `reduce_dims`: sums, extremes and their positions over any dims, for the launcher crk_reduce
 * (reduce/reduce_*.h). This file only names the instances. */
#include "elementwise/instances.h"
#include "reduce/reduce_dense.h"
#include "reduce/reduce_even.h"
#include "reduce/reduce_rows.h"
#include "reduce/reduction.h"

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
    CRK_EARLY();                                                                                                  \
    crk::reduce_even_rows<crk::__VA_ARGS__>(rows, src, dst);                                                      \
  }                                                                                                               \
  CRK_COOPERATIVE(root##_##suffix##_dense, CRK_REDUCE_THREADS,                                                    \
                  (crk_reduce_dense_t rows, const T *src, crk::__VA_ARGS__::output *dst)) {                       \
    CRK_EARLY();                                                                                                  \
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

CRK_MODULE(reduce_dims)
