/* Reductions of elements on the host. Every result is the same in every run: the caller gives the sources in order. */
#include "comm/combine.h"

#include <math.h>
#include <string.h>

#include "dtype.h"

/* The value of a float format with one sign bit. With `has_infinity` its greatest exponent is for infinities and NaN;
 * else only the code with all bits set is NaN. */
static float small_float(uint32_t code, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t most = (1u << exponent_bits) - 1, fraction = code & ((1u << mantissa_bits) - 1);
  const uint32_t exponent = code >> mantissa_bits & most;
  const float sign = code >> (exponent_bits + mantissa_bits) != 0 ? -1.0f : 1.0f;
  if (has_infinity && exponent == most) {
    return fraction != 0 ? NAN : sign * INFINITY;
  }
  if (!has_infinity && exponent == most && fraction == (1u << mantissa_bits) - 1) {
    return NAN;
  }
  const uint32_t units = exponent == 0 ? fraction : fraction + (1u << mantissa_bits);
  return sign * ldexpf((float)units, (exponent == 0 ? 1 : (int)exponent) - bias - mantissa_bits);
}

static float load_float(crk_dtype_t dtype, const void *src, size_t at) {
  uint16_t half;
  uint32_t bits;
  float value;
  switch (dtype) {
    case CRK_DTYPE_BF16:
      memcpy(&half, (const char *)src + 2 * at, sizeof half);
      bits = (uint32_t)half << 16;
      memcpy(&value, &bits, sizeof value);
      return value;
    case CRK_DTYPE_F16:
      memcpy(&half, (const char *)src + 2 * at, sizeof half);
      return small_float(half, 5, 10, true);
    case CRK_DTYPE_F8E4M3:
      return small_float(((const uint8_t *)src)[at], 4, 3, false);
    default:
      memcpy(&value, (const char *)src + 4 * at, sizeof value);
      return value;
  }
}

static int64_t load_integer(crk_dtype_t dtype, const void *src, size_t at) {
  uint32_t u32;
  int32_t i32;
  int64_t i64;
  switch (dtype) {
    case CRK_DTYPE_U8:
      return ((const uint8_t *)src)[at];
    case CRK_DTYPE_U32:
      memcpy(&u32, (const char *)src + 4 * at, sizeof u32);
      return u32;
    case CRK_DTYPE_I32:
      memcpy(&i32, (const char *)src + 4 * at, sizeof i32);
      return i32;
    default:
      memcpy(&i64, (const char *)src + 8 * at, sizeof i64);
      return i64;
  }
}

/* The result in the dtype's range, as a number: the lowest bits, with the dtype's sign. */
static int64_t wrapped(crk_dtype_t dtype, int64_t value) {
  switch (dtype) {
    case CRK_DTYPE_U8:
      return (uint8_t)value;
    case CRK_DTYPE_U32:
      return (uint32_t)value;
    case CRK_DTYPE_I32:
      return (int64_t)(((uint64_t)value & 0xffffffff) ^ 0x80000000) - (int64_t)0x80000000;
    default:
      return value;
  }
}

static void store_integer(crk_dtype_t dtype, int64_t value, void *dst, size_t at) {
  const uint8_t u8 = (uint8_t)value;
  const uint32_t u32 = (uint32_t)value;
  const size_t bytes = crk_dtype_size(dtype);
  memcpy((char *)dst + at * bytes, bytes == 1 ? (const void *)&u8 : bytes == 4 ? (const void *)&u32 : &value, bytes);
}

void crk_priv_combine_first(crk_combine_t *results, crk_dtype_t dtype, const void *src, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (dtype == CRK_DTYPE_F64) {
      memcpy(&results->f64[i], (const char *)src + 8 * i, sizeof(double));
    } else if (crk_priv_dtype_is_float(dtype)) {
      results->f32[i] = load_float(dtype, src, i);
    } else {
      results->i64[i] = load_integer(dtype, src, i);
    }
  }
}

static double combine_f64(crk_comm_op_t op, double a, double b) {
  return op == CRK_COMM_OP_PROD  ? a * b
         : op == CRK_COMM_OP_MAX ? fmax(a, b)
         : op == CRK_COMM_OP_MIN ? fmin(a, b)
                                 : a + b;
}

static float combine_f32(crk_comm_op_t op, float a, float b) {
  return op == CRK_COMM_OP_PROD  ? a * b
         : op == CRK_COMM_OP_MAX ? fmaxf(a, b)
         : op == CRK_COMM_OP_MIN ? fminf(a, b)
                                 : a + b;
}

/* Sums and products have the right lowest bits, whatever the dtype. Products of many ranks stay in 64 bits. */
static int64_t combine_i64(crk_comm_op_t op, int64_t a, int64_t b) {
  const uint64_t left = (uint64_t)a, right = (uint64_t)b;
  return op == CRK_COMM_OP_MAX   ? (a > b ? a : b)
         : op == CRK_COMM_OP_MIN ? (a < b ? a : b)
                                 : (int64_t)(op == CRK_COMM_OP_PROD ? left * right : left + right);
}

void crk_priv_combine_next(crk_combine_t *results, crk_dtype_t dtype, crk_comm_op_t op, const void *src, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (dtype == CRK_DTYPE_F64) {
      double value;
      memcpy(&value, (const char *)src + 8 * i, sizeof value);
      results->f64[i] = combine_f64(op, results->f64[i], value);
    } else if (crk_priv_dtype_is_float(dtype)) {
      results->f32[i] = combine_f32(op, results->f32[i], load_float(dtype, src, i));
    } else {
      results->i64[i] = combine_i64(op, results->i64[i], load_integer(dtype, src, i));
    }
  }
}

void crk_priv_combine_store(crk_combine_t *results, crk_dtype_t dtype, crk_comm_op_t op, uint32_t ranks, void *dst,
                            size_t count) {
  const bool averages = op == CRK_COMM_OP_AVG;
  const size_t bytes = crk_dtype_size(dtype);
  for (size_t i = 0; i < count; i++) {
    if (dtype == CRK_DTYPE_F64) {
      const double value = averages ? results->f64[i] / ranks : results->f64[i];
      memcpy((char *)dst + 8 * i, &value, sizeof value);
    } else if (crk_priv_dtype_is_float(dtype)) {
      const float value = averages ? results->f32[i] / (float)ranks : results->f32[i];
      if (dtype == CRK_DTYPE_F32) {
        memcpy((char *)dst + 4 * i, &value, sizeof value);
      } else {
        crk_priv_from_f64(dtype, value, (char *)dst + bytes * i);
      }
    } else {
      const int64_t value = wrapped(dtype, results->i64[i]);
      store_integer(dtype, averages ? value / (int64_t)ranks : value, dst, i);
    }
  }
}
