/* dtype.h: properties of element types, and the conversion of a number to one. */
#ifndef CRK_DTYPE_H
#define CRK_DTYPE_H

#include "candle_rocm.h"

#define CRK_PLUS_ONE(...) +1
enum { CRK_DTYPE_COUNT = 0 CRK_DTYPE_MAP(CRK_PLUS_ONE) };

static inline bool crk_priv_dtype_valid(crk_dtype_t dtype) { return (unsigned)dtype < CRK_DTYPE_COUNT; }

static inline bool crk_priv_dtype_is_float(crk_dtype_t dtype) {
  return dtype >= CRK_DTYPE_BF16 && dtype <= CRK_DTYPE_F8E4M3;
}

/* Writes `value` to `out` as one element of `dtype`, in the same way as candle-core's `from_f64`: integers truncate and
 * saturate (NaN becomes 0); floats round to nearest even; F8E4M3 saturates at 448. */
void crk_priv_from_f64(crk_dtype_t dtype, double value, void *out);

#endif
