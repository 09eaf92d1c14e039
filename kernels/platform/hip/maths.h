/* platform/maths.h for AMD GPUs. */
#ifndef CRK_PLATFORM_HIP_MATHS_H
#define CRK_PLATFORM_HIP_MATHS_H

#include "platform/hip/workarounds.h"

extern "C" {
#define CRK_OCML(name, c, ocml)                                    \
  __attribute__((device, const)) float __ocml_##ocml##_f32(float); \
  __attribute__((device, const)) double __ocml_##ocml##_f64(double);
CRK_MATHS_MAP(CRK_OCML)
CRK_MATHS_GPU_MAP(CRK_OCML)
__attribute__((device, const)) float __ocml_pow_f32(float, float);
__attribute__((device, const)) double __ocml_pow_f64(double, double);
#undef CRK_OCML
}

namespace crk {

template <class To, class From>
CRK_FN To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

CRK_FN uint32_t popcount(uint64_t word) { return static_cast<uint32_t>(__builtin_popcountll(word)); }
CRK_FN uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t from) { return __builtin_amdgcn_perm(b, a, from); }

CRK_FN float float_of_byte(uint32_t word, uint32_t i) { return static_cast<float>(word >> 8 * i & 0xff); }
using small_int = float;
CRK_FN small_int small_of_byte(uint32_t word, uint32_t i) { return float_of_byte(word, i); }

CRK_FN uint32_t mulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32); }
CRK_FN uint64_t mulhi(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
}

CRK_FN int32_t dot4(int32_t a, int32_t b, int32_t c) {
#if CRK_ARCH_DOT4 == CRK_DOT4_MIXED
  return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#elif CRK_ARCH_DOT4 == CRK_DOT4_SIGNED
  return __builtin_amdgcn_sdot4(a, b, c, false);
#else
  /* Else the bytes of activations, which all rows share, would each stay in a register of their own. */
  const int32_t right = __builtin_constant_p(b) ? b : static_cast<int32_t>(opaque(static_cast<uint32_t>(b)));
  CRK_UNROLL
  for (int i = 0; i < 32; i += 8) {
    c += static_cast<int8_t>(a >> i) * static_cast<int8_t>(right >> i);
  }
  return c;
#endif
}

/* The instruction of CRK_DOT4_MIXED can multiply unsigned bytes with signed ones. */
#if CRK_ARCH_DOT4 == CRK_DOT4_MIXED
inline constexpr int code_bits = 8;
CRK_FN int32_t dot4_codes(int32_t a, int32_t b, int32_t c) {
  return __builtin_amdgcn_sudot4(false, a, true, b, c, false);
}
#else
inline constexpr int code_bits = 7;
CRK_FN int32_t dot4_codes(int32_t a, int32_t b, int32_t c) { return dot4(a, b, c); }
#endif

#define CRK_MATHS_OCML(name, c, ocml)                           \
  CRK_FN float name(float x) { return __ocml_##ocml##_f32(x); } \
  CRK_FN double name(double x) { return __ocml_##ocml##_f64(x); }
CRK_MATHS_MAP(CRK_MATHS_OCML)
#undef CRK_MATHS_OCML
CRK_FN float normcdf(float x) { return __ocml_ncdf_f32(x); }
CRK_FN double normcdf(double x) { return __ocml_ncdf_f64(x); }
CRK_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
CRK_FN double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

/* The device library's result is off by one unit in the last place. One step of Newton's method improves it, in twice
 * the precision of f32. For 0, infinity and NaN the step gives NaN, and the library's result is kept. */
CRK_FN float rsqrt(float x) {
  const float r = __ocml_rsqrt_f32(x), square = x * r;
  const float rest = fma(-fma(x, r, -square), r, fma(-square, r, 1.0f));
  return rest == rest ? fma(0.5f * r, rest, r) : r;
}
CRK_FN double rsqrt(double x) { return __ocml_rsqrt_f64(x); }

/* clang 15 and 16 have no builtin for the instruction. They compile __builtin_exp2f to it. */
CRK_FN float exp2_near(float x) {
#if __has_builtin(__builtin_amdgcn_exp2f)
  return __builtin_amdgcn_exp2f(x);
#else
  return __builtin_exp2f(x);
#endif
}
CRK_FN float reciprocal_near(float x) { return __builtin_amdgcn_rcpf(x); }

CRK_FN float pow(float x, float y) { return __ocml_pow_f32(x, y); }
CRK_FN double pow(double x, double y) { return __ocml_pow_f64(x, y); }
CRK_FN float max_number(float a, float b) { return __builtin_fmaxf(a, b); }
CRK_FN float min_number(float a, float b) { return __builtin_fminf(a, b); }
CRK_FN double max_number(double a, double b) { return __builtin_fmax(a, b); }
CRK_FN double min_number(double a, double b) { return __builtin_fmin(a, b); }

/* log2(e) - log2_of_e. x * log2_of_e + x * log2_of_e_rest is right beyond the last place of f32. */
inline constexpr float log2_of_e_rest = 0x1.4ae0bep-26f;

/* exp and a division would do work that is not needed here. Beyond the bounds of `y`, e^-x is 0 or infinite anyway. The
 * bounds may lose a NaN, but the result takes it from x. The divisor is at least 1. Its reciprocal may be subnormal,
 * which the GPU would flush to 0; the reciprocal of a quarter of it never is. One step of Newton's method follows, as
 * in f16_div. */
CRK_FN float silu(float x) {
  const float y = __builtin_amdgcn_fmed3f(-x, -110.0f, 90.0f), high = y * log2_of_e,
              low = fma(y, log2_of_e_rest, fma(y, log2_of_e, -high)), whole = __builtin_rintf(high);
  const float divisor = 1.0f + __builtin_amdgcn_ldexpf(exp2_near(high - whole + low), static_cast<int>(whole));
  const float r = reciprocal_near(0.25f * divisor) * 0.25f, q = x * r;
  return __builtin_amdgcn_div_fixupf(fma(fma(-q, divisor, x), r, q), divisor, x);
}

/* The instruction keeps subnormal f16. It flushes subnormal f32, which loses nothing: sums of products of f16 are
 * multiples of 2^-48. It may take a bf16 below 2^-126 as 0. */
#if defined(CRK_HAS_DOT2_F16)
typedef _Float16 two_halves __attribute__((ext_vector_type(2)));
CRK_FN float dot2_f16(uint32_t a, uint32_t b, float c) {
  return __builtin_amdgcn_fdot2(bit_cast<two_halves>(a), bit_cast<two_halves>(b), c, false);
}
#endif
#if defined(CRK_HAS_DOT2_BF16)
typedef short two_shorts __attribute__((ext_vector_type(2)));
CRK_FN float dot2_bf16(uint32_t a, uint32_t b, float c) {
  return __builtin_amdgcn_fdot2_f32_bf16(bit_cast<two_shorts>(a), bit_cast<two_shorts>(b), c, false);
}
#endif

CRK_FN _Float16 f16_value(uint16_t code) { return bit_cast<_Float16>(code); }
CRK_FN uint16_t f16_code(_Float16 value) { return bit_cast<uint16_t>(value); }
CRK_FN float f16_decode(uint16_t code) { return static_cast<float>(f16_value(code)); }
CRK_FN uint16_t f16_encode(float x) { return f16_code(static_cast<_Float16>(x)); }
/* The pragmas are for a program's own kernels, whose compiler may contract a product and a sum. */
CRK_FN uint16_t f16_add(uint16_t a, uint16_t b) {
#pragma clang fp contract(off)
  return f16_code(f16_value(a) + f16_value(b));
}
CRK_FN uint16_t f16_sub(uint16_t a, uint16_t b) {
#pragma clang fp contract(off)
  return f16_code(f16_value(a) - f16_value(b));
}
CRK_FN uint16_t f16_mul(uint16_t a, uint16_t b) {
#pragma clang fp contract(off)
  return f16_code(f16_value(a) * f16_value(b));
}
CRK_FN uint16_t f16_fma(uint16_t a, uint16_t b, uint16_t c) {
  return f16_code(__builtin_fmaf16(f16_value(a), f16_value(b), f16_value(c)));
}

/* Divides in f32, where quotients of f16 neither overflow nor underflow. One step of Newton's method brings the error
 * to little more than half a unit, and an exact quotient is exact. Rounding to f16 after that needs no more. */
CRK_FN uint16_t f16_div(uint16_t x, uint16_t y) {
  const float a = f16_decode(x), b = f16_decode(y), r = reciprocal_near(b), q = a * r;
  return f16_encode(__builtin_amdgcn_div_fixupf(fma(fma(-q, b, a), r, q), b, a));
}

}  // namespace crk

/* Needs fma. */
#if CRK_HAS_FLOAT_PAIRS
namespace crk {

/* The vectors keep LLVM from forming other pairs, which it would copy from register to register. */
typedef float float_pair __attribute__((ext_vector_type(2)));
CRK_FN float_pair pair_of(float a, float b) { return (float_pair){a, b}; }
CRK_FN float_pair fma(float_pair a, float_pair b, float_pair c) {
#if __has_builtin(__builtin_elementwise_fma)
  return __builtin_elementwise_fma(a, b, c);
#else
  return pair_of(fma(a[0], b[0], c[0]), fma(a[1], b[1], c[1]));
#endif
}

}  // namespace crk
#else
#include "platform/generic/float_pair.h"
#endif

#endif
