/* combine.h: reductions of elements on the host, for the CPU device's collectives. */
#ifndef CRK_COMBINE_H
#define CRK_COMBINE_H

#include "candle_rocm.h"

enum { CRK_COMBINE_MOST = 512 };

/* Partial results of up to CRK_COMBINE_MOST elements: f32 for BF16, F16, F8E4M3 and F32, f64 for F64, else i64. */
typedef union crk_combine {
  float f32[CRK_COMBINE_MOST];
  double f64[CRK_COMBINE_MOST];
  int64_t i64[CRK_COMBINE_MOST];
} crk_combine_t;

/* results = src */
void crk_priv_combine_first(crk_combine_t *results, crk_dtype_t dtype, const void *src, size_t count);

/* results = op(results, src); AVG adds. */
void crk_priv_combine_next(crk_combine_t *results, crk_dtype_t dtype, crk_comm_op_t op, const void *src, size_t count);

/* dst = results, in the dtype. Integers wrap, floats are rounded once. AVG divides by the number of ranks first. */
void crk_priv_combine_store(crk_combine_t *results, crk_dtype_t dtype, crk_comm_op_t op, uint32_t ranks, void *dst,
                            size_t count);

#endif
