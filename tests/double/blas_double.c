/* Code that the doubles of librocblas and libhipblaslt share. A product waits for the stream's work and is then
 * computed at once, in f64. A stream that is being captured is refused, as a library that needs memory may do. Stores
 * 2^31 bytes or more beyond the beginning of d are lost, as some are in hipBLASLt
 * (https://github.com/ROCm/hipBLASLt/issues/2299). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "hip_double.h"

atomic_int hip_double_blas_handles;

static size_t size_of(int type) {
  return type == HIP_DOUBLE_F64 ? 8 : type == HIP_DOUBLE_F32 || type == HIP_DOUBLE_TF32 ? 4 : 2;
}

/* The value, rounded to `mantissa` bits of mantissa behind the leading one. */
static double rounded(double value, int mantissa) {
  int exponent = 0;
  const double fraction = frexp(value, &exponent);
  return ldexp(nearbyint(ldexp(fraction, mantissa + 1)), exponent - mantissa - 1);
}

static double get(const void *from, int type, int64_t at) {
  uint16_t code;
  float single;
  double number;
  switch (type) {
    case HIP_DOUBLE_F64:
      memcpy(&number, (const char *)from + at * 8, 8);
      return number;
    case HIP_DOUBLE_F32:
    case HIP_DOUBLE_TF32:
      memcpy(&single, (const char *)from + at * 4, 4);
      return type == HIP_DOUBLE_F32 ? single : rounded(single, 10);
    default:
      memcpy(&code, (const char *)from + at * 2, 2);
      return half_value(code, type == HIP_DOUBLE_F16 ? 10 : 7);
  }
}

static void put(void *to, int type, int64_t at, double value) {
  if ((uint64_t)at * size_of(type) > INT32_MAX) {
    return;
  }
  /* The library's sum is f32, so it rounds to f32 first. */
  const float single = (float)value;
  const uint16_t code = type == HIP_DOUBLE_F16    ? half_code(single, 10)
                        : type == HIP_DOUBLE_BF16 ? half_code(single, 7)
                                                  : 0;
  const void *const from = type == HIP_DOUBLE_F64 ? (const void *)&value
                           : size_of(type) == 4   ? (const void *)&single
                                                  : &code;
  memcpy((char *)to + at * (int64_t)size_of(type), from, size_of(type));
}

/* A dense copy of one matrix of a batch in f64: `lines` lines along k. NULL if there is no memory. */
static double *lines_of(const hip_double_matrix_t *from, int type, int64_t p, int64_t lines, int64_t k, bool k_is_inner)
{
  double *copy = malloc((size_t)(lines * k + 1) * sizeof *copy);
  const int64_t line = k_is_inner ? from->leading : 1, step = k_is_inner ? 1 : from->leading;
  for (int64_t i = 0; copy != NULL && i < lines * k; i++) {
    copy[i] = get(from->first, type, p * from->stride + i / k * line + i % k * step);
  }
  return copy;
}

bool hip_double_multiply(void *stream, int type, int64_t m, int64_t n, int64_t k, int64_t batch, const void *alpha,
                         const hip_double_matrix_t *a, const hip_double_matrix_t *b, const void *beta, void *d,
                         int64_t ldd, int64_t d_stride) {
  const int wide = type == HIP_DOUBLE_F64 ? HIP_DOUBLE_F64 : HIP_DOUBLE_F32;
  if (get(alpha, wide, 0) != 1.0 || get(beta, wide, 0) != 0.0 || !hip_double_finish(stream)) {
    return false;
  }
  bool is_done = true;
  for (int64_t p = 0; p < batch && is_done; p++) {
    double *const rows = lines_of(a, type, p, m, k, a->is_transposed);
    double *const columns = lines_of(b, type, p, n, k, !b->is_transposed);
    is_done = rows != NULL && columns != NULL;
    for (int64_t j = 0; is_done && j < n; j++) {
      for (int64_t i = 0; i < m; i++) {
        double sum = 0.0;
        for (int64_t l = 0; l < k; l++) {
          sum += rows[i * k + l] * columns[j * k + l];
        }
        put(d, type, p * d_stride + j * ldd + i, sum);
      }
    }
    free(rows);
    free(columns);
  }
  return is_done;
}
