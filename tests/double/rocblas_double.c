/* A librocblas for the GPU that hip_double.c plays, in the same library: the few calls that the crate makes, checked as the real ones
 * check, and counted, made to fail and traced with HIP's. A product is computed at once, in f64, once the stream's work is
 * done; a stream that is being captured is refused, as a library may that needs memory. */
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hip_double.h"

#define API HIP_DOUBLE_EXPORT int

enum {
  SUCCESS = 0,
  INVALID_HANDLE = 1,
  NOT_IMPLEMENTED = 2,
  INVALID_POINTER = 3,
  INVALID_SIZE = 4,
  MEMORY_ERROR = 5,
  INTERNAL_ERROR = 6,
  INVALID_VALUE = 11
};
enum { NONE = 111, TRANSPOSE = 112 };
enum { F16 = 150, F32 = 151, F64 = 152, BF16 = 168 };
enum { MAGIC = 0x626c6173 };

typedef struct handle {
  int magic;
  void *stream;
} handle_t;

/* Begins a call: counts it and returns a rule's answer. */
#define BEGIN(name)                               \
  do {                                            \
    const int rule_ = hip_double_begin(#name);    \
    if (rule_ != SUCCESS) {                       \
      return rule_;                               \
    }                                             \
  } while (0)

static atomic_int alive;

int64_t hip_double_blas_handles(void) { return alive; }

static handle_t *live(void *handle) {
  handle_t *self = handle;
  return self != NULL && self->magic == MAGIC ? self : NULL;
}

/* Making and destroying a handle waits for the device, which no capture there survives. */
API rocblas_create_handle(void **handle) {
  BEGIN(rocblas_create_handle);
  hip_double_wait();
  handle_t *self = handle != NULL ? calloc(1, sizeof *self) : NULL;
  if (self == NULL) {
    return handle == NULL ? INVALID_POINTER : MEMORY_ERROR;
  }
  self->magic = MAGIC;
  alive++;
  *handle = self;
  return SUCCESS;
}

API rocblas_destroy_handle(void *handle) {
  BEGIN(rocblas_destroy_handle);
  handle_t *self = live(handle);
  if (self == NULL) {
    return INVALID_HANDLE;
  }
  hip_double_wait();
  self->magic = 0;
  alive--;
  free(self);
  return SUCCESS;
}

API rocblas_set_stream(void *handle, void *stream) {
  BEGIN(rocblas_set_stream);
  handle_t *self = live(handle);
  if (self == NULL) {
    return INVALID_HANDLE;
  }
  /* It asks both streams whether they are captured. */
  if (!hip_double_is_stream(self->stream) || !hip_double_is_stream(stream)) {
    return INVALID_VALUE;
  }
  self->stream = stream;
  return SUCCESS;
}

API rocblas_set_atomics_mode(void *handle, int mode) {
  BEGIN(rocblas_set_atomics_mode);
  return live(handle) == NULL ? INVALID_HANDLE : mode == 0 || mode == 1 ? SUCCESS : INVALID_VALUE;
}

static size_t size_of(int type) { return type == F64 ? 8 : type == F32 ? 4 : 2; }

/* A 16-bit float with so many bits of mantissa. */
static double half_value(uint16_t code, int mantissa) {
  const int exponents = 15 - mantissa, bias = (1 << (exponents - 1)) - 1;
  const int exponent = code >> mantissa & ((1 << exponents) - 1), fraction = code & ((1 << mantissa) - 1);
  const double sign = code >> 15 != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponents) - 1) {
    return fraction != 0 ? NAN : sign * INFINITY;
  }
  const double significand = exponent == 0 ? fraction : fraction + (1 << mantissa);
  return sign * ldexp(significand, (exponent == 0 ? 1 : exponent) - bias - mantissa);
}

/* Rounded to nearest even. */
static uint16_t half_code(double value, int mantissa) {
  const int exponents = 15 - mantissa, bias = (1 << (exponents - 1)) - 1;
  const uint16_t sign = signbit(value) ? 0x8000 : 0, infinity = (uint16_t)(((1 << exponents) - 1) << mantissa);
  if (isnan(value)) {
    return (uint16_t)(infinity | 1 << (mantissa - 1));
  }
  int exponent = 0;
  frexp(value, &exponent); /* of a number from 0.5 to 1 */
  exponent = value == 0.0 || exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
  if (isinf(value) || exponent > bias) {
    return sign | infinity;
  }
  const double steps = nearbyint(ldexp(fabs(value), mantissa - exponent));
  const uint32_t code = (uint32_t)((exponent + bias - 1) << mantissa) + (uint32_t)steps;
  return sign | (uint16_t)(code < infinity ? code : infinity);
}

static double get(const void *from, int type, int64_t at) {
  uint16_t code;
  float single;
  double number;
  switch (type) {
    case F64:
      memcpy(&number, (const char *)from + at * 8, 8);
      return number;
    case F32:
      memcpy(&single, (const char *)from + at * 4, 4);
      return single;
    default:
      memcpy(&code, (const char *)from + at * 2, 2);
      return half_value(code, type == F16 ? 10 : 7);
  }
}

static void put(void *to, int type, int64_t at, double value) {
  const float single = (float)value;
  /* The sum is one in f32 before it is rounded. */
  const uint16_t code = half_code(single, type == F16 ? 10 : 7);
  const void *const from = type == F64 ? (const void *)&value : type == F32 ? (const void *)&single : &code;
  memcpy((char *)to + at * (int64_t)size_of(type), from, size_of(type));
}

static bool is_type(int type) { return type == F16 || type == F32 || type == F64 || type == BF16; }

/* Matrices lie column by column: op(a) is m x k, op(b) k x n, d m x n. */
API rocblas_gemm_strided_batched_ex(void *handle, int a_operation, int b_operation, int32_t m, int32_t n, int32_t k,
                                    const void *alpha, const void *a, int a_type, int32_t lda, int64_t a_stride,
                                    const void *b, int b_type, int32_t ldb, int64_t b_stride, const void *beta,
                                    const void *c, int c_type, int32_t ldc, int64_t c_stride, void *d, int d_type,
                                    int32_t ldd, int64_t d_stride, int32_t batch, int compute_type, int algorithm,
                                    int32_t solution, uint32_t flags) {
  BEGIN(rocblas_gemm_strided_batched_ex);
  handle_t *self = live(handle);
  if (self == NULL) {
    return INVALID_HANDLE;
  }
  if ((a_operation != NONE && a_operation != TRANSPOSE) || (b_operation != NONE && b_operation != TRANSPOSE) ||
      algorithm != 0 || solution != 0 || flags != 0) {
    return INVALID_VALUE;
  }
  if (!is_type(a_type) || b_type != a_type || c_type != a_type || d_type != a_type ||
      compute_type != (a_type == F64 ? F64 : F32)) {
    return NOT_IMPLEMENTED;
  }
  if (m <= 0 || n <= 0 || k <= 0 || batch <= 0 || lda < (a_operation == NONE ? m : k) ||
      ldb < (b_operation == NONE ? k : n) || ldc < m || ldd != ldc || d_stride != c_stride ||
      (batch > 1 && d_stride < (int64_t)ldd * n)) {
    return INVALID_SIZE;
  }
  if (alpha == NULL || beta == NULL || a == NULL || b == NULL || c != d || d == NULL ||
      get(alpha, compute_type, 0) != 1.0 || get(beta, compute_type, 0) != 0.0) {
    return INVALID_POINTER;
  }
  if (!hip_double_finish(self->stream)) {
    return INTERNAL_ERROR;
  }
  const int64_t a_row = a_operation == NONE ? 1 : lda, a_k = a_operation == NONE ? lda : 1;
  const int64_t b_column = b_operation == NONE ? ldb : 1, b_k = b_operation == NONE ? 1 : ldb;
  for (int64_t p = 0; p < batch; p++) {
    for (int64_t j = 0; j < n; j++) {
      for (int64_t i = 0; i < m; i++) {
        double sum = 0.0;
        for (int64_t l = 0; l < k; l++) {
          sum += get(a, a_type, p * a_stride + i * a_row + l * a_k) * get(b, b_type, p * b_stride + j * b_column + l * b_k);
        }
        put(d, d_type, p * d_stride + j * ldd + i, sum);
      }
    }
  }
  return SUCCESS;
}
