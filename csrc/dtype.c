/* Element types: names, sizes, and the conversion of a number to one. */
#include "dtype.h"

#include <math.h>
#include <string.h>

#include "error.h"

static const struct {
  const char *name;
  size_t bytes;
} dtypes[] = {
#define XX(upper, value, text, size) {text, size},
    CRK_DTYPE_MAP(XX)
#undef XX
};

const char *crk_dtype_name(crk_dtype_t dtype) { return crk_priv_dtype_valid(dtype) ? dtypes[dtype].name : NULL; }

size_t crk_dtype_size(crk_dtype_t dtype) { return crk_priv_dtype_valid(dtype) ? dtypes[dtype].bytes : 0; }

crk_status_t crk_dtype_from_name(const char *name, crk_dtype_t *dtype) {
  CRK_REFUSE_IF(name == NULL, "crk_dtype_from_name: name is NULL");
  CRK_REFUSE_IF(dtype == NULL, "crk_dtype_from_name: dtype is NULL");
  for (int i = 0; i < CRK_DTYPE_COUNT; i++) {
    if (strcmp(name, dtypes[i].name) == 0) {
      *dtype = (crk_dtype_t)i;
      return CRK_OK;
    }
  }
  if (strcmp(name, "f8_e4m3") == 0 || strcmp(name, "fp8_e4m3") == 0) {
    *dtype = CRK_DTYPE_F8E4M3;
    return CRK_OK;
  }
  return crk_priv_error(CRK_INVALID_ARGUMENT,
                        "crk_dtype_from_name: name '%.64s' is no dtype; crk_dtype_name gives the names", name);
}

/* Returns the bits of `value`, rounded to nearest even, in a float format with one sign bit. A value that overflows
 * becomes `largest`: the bits of infinity, or of the largest finite value in a format that saturates. */
static uint32_t round_to_format(double value, int exponent_bits, int mantissa_bits, uint32_t largest, uint32_t nan) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t sign = signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0;
  const double magnitude = fabs(value);
  if (isnan(value)) {
    return nan;
  }
  if (magnitude == 0) {
    return sign;
  }
  if (isinf(value)) {
    return sign | largest;
  }
  /* frexp: magnitude = fraction * 2^exponent with fraction in [0.5, 1). 2^step is the unit in the last place of the
   * result. */
  int exponent;
  frexp(magnitude, &exponent);
  const int least = 1 - bias;
  const int step = (exponent - 1 < least ? least : exponent - 1) - mantissa_bits;
  /* ldexp is exact here, so only rint rounds, in the default mode: to nearest even. It may round up to the next power
   * of 2. The sum below is right then too, because the encodings of neighbouring numbers differ by one. */
  const uint64_t units = (uint64_t)rint(ldexp(magnitude, -step));
  const uint64_t bits = ((uint64_t)(step + mantissa_bits - least) << mantissa_bits) + units;
  return sign | (bits > largest ? largest : (uint32_t)bits);
}

/* Truncates `value` towards zero and clamps it to [least, most]; NaN becomes 0. */
static int64_t saturate(double value, int64_t least, int64_t most) {
  if (isnan(value)) {
    return 0;
  }
  if (value <= (double)least) {
    return least;
  }
  return value >= (double)most ? most : (int64_t)value;
}

void crk_priv_from_f64(crk_dtype_t dtype, double value, void *out) {
  union {
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    int64_t i64;
    float f32;
    double f64;
  } bits = {0};
  switch (dtype) {
    case CRK_DTYPE_U8:
      bits.u8 = (uint8_t)saturate(value, 0, UINT8_MAX);
      break;
    case CRK_DTYPE_U32:
      bits.u32 = (uint32_t)saturate(value, 0, UINT32_MAX);
      break;
    case CRK_DTYPE_I16:
      bits.u16 = (uint16_t)saturate(value, INT16_MIN, INT16_MAX);
      break;
    case CRK_DTYPE_I32:
      bits.u32 = (uint32_t)saturate(value, INT32_MIN, INT32_MAX);
      break;
    case CRK_DTYPE_I64:
      bits.i64 = saturate(value, INT64_MIN, INT64_MAX);
      break;
    case CRK_DTYPE_BF16:
      bits.u16 = (uint16_t)round_to_format(value, 8, 7, 0x7f80, 0x7fc0);
      break;
    case CRK_DTYPE_F16:
      bits.u16 = (uint16_t)round_to_format(value, 5, 10, 0x7c00, 0x7e00);
      break;
    case CRK_DTYPE_F32:
      bits.f32 = (float)value;
      break;
    case CRK_DTYPE_F64:
      bits.f64 = value;
      break;
    case CRK_DTYPE_F8E4M3:
      bits.u8 = (uint8_t)round_to_format(value, 4, 3, 0x7e, 0x7f);
      break;
  }
  memcpy(out, &bits, crk_dtype_size(dtype));
}
