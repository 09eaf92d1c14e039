/* Launchers of kernels/random.hip: the state of a generator, uniform numbers and normal numbers. */
#include <math.h>
#include <string.h>

#include "call/random_state.h"
#include "launch/launcher.h"

_Static_assert(sizeof(crk_random_state_t) == CRK_RANDOM_STATE_BYTES, "as the public header says");

typedef enum random_kernel { SEED, UNIFORM, NORMAL, RANDOM_KERNELS } random_kernel_t;

static const struct {
  const char *root, *where;
  uint32_t slot;
} kernels[RANDOM_KERNELS] = {
    [SEED] = {"random_seed", "crk_random_seed", CRK_SLOT_RANDOM_SEED},
    [UNIFORM] = {"random_uniform", "crk_random_uniform", CRK_SLOT_RANDOM_UNIFORM},
    [NORMAL] = {"random_normal", "crk_random_normal", CRK_SLOT_RANDOM_NORMAL},
};

/* A launch has at most this many times the threads that the device holds at once. Each thread then makes several packs
 * of 16 bytes. The blocks are so few that counting them at the end of the kernel costs nothing. */
enum { HELD_TIMES = 16 };

/* A number in the type that kernels compute in: f64 for f64, f32 for other dtypes. */
typedef union scalar {
  float f32;
  double f64;
} scalar_t;

/* ---- dtypes */

/* The value of the bits of a float of a dtype. */
static double decode(crk_dtype_t dtype, uint64_t bits) {
  float f32;
  double f64;
  switch (dtype) {
    case CRK_DTYPE_F64:
      memcpy(&f64, &bits, sizeof f64);
      return f64;
    case CRK_DTYPE_F16: {
      const int exponent = (int)(bits >> 10 & 31);
      const double mantissa = (double)(bits & 1023);
      const double magnitude = exponent == 31  ? INFINITY
                               : exponent == 0 ? ldexp(mantissa, -24)
                                               : ldexp(mantissa + 1024, exponent - 25);
      return (bits & 0x8000) != 0 ? -magnitude : magnitude;
    }
    default: {
      const uint32_t word = (uint32_t)(dtype == CRK_DTYPE_BF16 ? bits << 16 : bits);
      memcpy(&f32, &word, sizeof f32);
      return f32;
    }
  }
}

/* The bits of `value` in a dtype. */
static uint64_t encode(crk_dtype_t dtype, double value) {
  uint64_t bits = 0;
  crk_priv_from_f64(dtype, value, &bits);
  return bits;
}

/* The bits of the greatest number below the number of `bits`, which is finite. */
static uint64_t next_below(crk_dtype_t dtype, uint64_t bits) {
  const uint64_t sign = (uint64_t)1 << (8 * crk_dtype_size(dtype) - 1);
  if ((bits & ~sign) == 0) {
    return sign | 1;
  }
  return (bits & sign) != 0 ? bits + 1 : bits - 1;
}

static scalar_t scalar(crk_dtype_t dtype, double value) {
  scalar_t result;
  if (dtype == CRK_DTYPE_F64) {
    result.f64 = value;
  } else {
    result.f32 = (float)value;
  }
  return result;
}

/* ---- launches */

static crk_status_t check_state(const char *where, crk_view_t state) {
  return crk_priv_check_elements(where, "state", crk_const(state), CRK_RANDOM_STATE_BYTES / 8, 8);
}

static crk_status_t launch_draw(crk_device_t self, random_kernel_t kernel, crk_dtype_t dtype, crk_view_t dst,
                                size_t numel, const scalar_t *scalars, uint32_t scalar_count, crk_view_t state) {
  const char *where = kernels[kernel].where;
  if (numel == 0) {
    return CRK_OK;
  }
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), numel, bytes));
  CRK_TRY(check_state(where, state));
  CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, numel * bytes, "state", state.ptr, CRK_RANDOM_STATE_BYTES));
  crk_function_t function;
  const uint32_t slot = kernels[kernel].slot + (uint32_t)dtype;
  CRK_TRY(
      CRK_KERNEL_GET(self, slot, CRK_MODULE_RANDOM, &function, "%s_%s", kernels[kernel].root, crk_dtype_name(dtype)));
  const uint64_t count = numel;
  const void *args[7] = {&count};
  uint32_t given = 1;
  for (uint32_t i = 0; i < scalar_count; i++) {
    args[given++] = &scalars[i];
  }
  args[given++] = &dst.ptr;
  args[given++] = &state.ptr;
  const uint64_t most = HELD_TIMES * crk_priv_held_threads(self);
  return crk_priv_launch_threads(self, function, crk_priv_least(crk_priv_ceil_div(numel, 16 / bytes), most), args,
                                 given);
}

crk_status_t crk_random_seed(crk_device_t self, crk_view_t state, uint64_t seed) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_random_seed");
  CRK_TRY(check_state("crk_random_seed", state));
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, kernels[SEED].slot, CRK_MODULE_RANDOM, &function, "%s", kernels[SEED].root));
  const void *args[3] = {&seed, &state.ptr};
  return crk_priv_launch_threads(self, function, 1, args, 2);
}

crk_status_t crk_random_uniform(crk_device_t self, crk_dtype_t dtype, crk_view_t dst, size_t numel, double lo,
                                double hi, crk_view_t state) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_random_uniform");
  CRK_TRY(crk_priv_check_wide_float("crk_random_uniform", dtype));
  const uint64_t end_bits = encode(dtype, hi);
  const double begin = decode(dtype, encode(dtype, lo)), end = decode(dtype, end_bits);
  CRK_REFUSE_IF(!isfinite(begin), "crk_random_uniform: lo is %g, which is not a finite number in %s", lo,
                crk_dtype_name(dtype));
  CRK_REFUSE_IF(!isfinite(end), "crk_random_uniform: hi is %g, which is not a finite number in %s", hi,
                crk_dtype_name(dtype));
  CRK_REFUSE_IF(lo > hi, "crk_random_uniform: lo is %g, above hi, %g", lo, hi);
  const bool is_double = dtype == CRK_DTYPE_F64;
  const double width = is_double ? end - begin : (float)end - (float)begin;
  CRK_REFUSE_IF(!isfinite(width), "crk_random_uniform: hi - lo is %g - %g, which is not a finite number in %s", hi, lo,
                is_double ? "f64" : "f32");
  const double last = begin < end ? decode(dtype, next_below(dtype, end_bits)) : begin;
  const scalar_t scalars[] = {scalar(dtype, begin), scalar(dtype, width), scalar(dtype, last)};
  return launch_draw(self, UNIFORM, dtype, dst, numel, scalars, 3, state);
}

crk_status_t crk_random_normal(crk_device_t self, crk_dtype_t dtype, crk_view_t dst, size_t numel, double mean,
                               double std, crk_view_t state) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_random_normal");
  CRK_TRY(crk_priv_check_wide_float("crk_random_normal", dtype));
  const bool is_double = dtype == CRK_DTYPE_F64;
  CRK_REFUSE_IF(!isfinite(is_double ? mean : (float)mean),
                "crk_random_normal: mean is %g, which is not a finite number in %s", mean, is_double ? "f64" : "f32");
  CRK_REFUSE_IF(!isfinite(is_double ? std : (float)std),
                "crk_random_normal: std is %g, which is not a finite number in %s", std, is_double ? "f64" : "f32");
  const scalar_t scalars[] = {scalar(dtype, mean), scalar(dtype, std)};
  return launch_draw(self, NORMAL, dtype, dst, numel, scalars, 2, state);
}
