/* platform/maths.h for the CPU. */
#ifndef CRK_PLATFORM_HOST_MATHS_H
#define CRK_PLATFORM_HOST_MATHS_H

namespace crk {

template <class To, class From>
CRK_FN To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace crk

#if defined(__MINGW32__) && defined(__x86_64__) && !defined(__FMA__)
#include "platform/host/exact_fma.h"
#endif

namespace crk {

/* Adds halves of growing width. Uses no builtin, since compilers have different ones. */
CRK_FN uint32_t popcount(uint64_t word) {
  word -= word >> 1 & 0x5555555555555555u;
  word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
  word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<uint32_t>((word * 0x0101010101010101u) >> 56);
}

CRK_FN uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t from) {
  const uint64_t bytes = a | static_cast<uint64_t>(b) << 32;
  uint32_t result = 0;
  for (int i = 0; i < 32; i += 8) {
    result |= static_cast<uint32_t>(bytes >> (from >> i & 7) * 8 & 0xff) << i;
  }
  return result;
}
CRK_FN float float_of_byte(uint32_t word, uint32_t i) { return static_cast<float>(word >> 8 * i & 0xff); }
using small_int = int32_t;
CRK_FN small_int small_of_byte(uint32_t word, uint32_t i) { return static_cast<int32_t>(word >> 8 * i & 0xff); }

CRK_FN uint32_t mulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32); }
CRK_FN uint64_t mulhi(uint64_t a, uint64_t b) {
  const uint64_t a0 = static_cast<uint32_t>(a), a1 = a >> 32, b0 = static_cast<uint32_t>(b), b1 = b >> 32;
  const uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + static_cast<uint32_t>(middle);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

CRK_FN int32_t dot4(int32_t a, int32_t b, int32_t c) {
  for (int i = 0; i < 32; i += 8) {
    c += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
  }
  return c;
}

/* Not every CPU multiplies unsigned bytes with signed ones. */
inline constexpr int code_bits = 7;
CRK_FN int32_t dot4_codes(int32_t a, int32_t b, int32_t c) { return dot4(a, b, c); }

CRK_MATHS_MAP(CRK_MATHS_C)

/* C's function is one instruction if the CPU has it. Else it is a call, and no loop around a call is vectorised.
 *
 * The second version computes in f64, where the product is exact. It rounds the sum to odd: of the two doubles around
 * the exact sum, it takes the one with an odd last bit. Rounding that to float gives the same as rounding once. Knuth's
 * two-sum gives the error of the sum; it needs sums in exactly f64's precision. The error is NaN if the sum is infinite
 * or NaN. */
#if CRK_HOST_CLONED || defined(__FMA__) || defined(__aarch64__) || defined(_M_ARM64) || defined(__riscv_flen) || \
    (defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0)
CRK_FN float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
#else
CRK_FN float fma(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b), addend = c;
  const double sum = product + addend, part = sum - product;
  const double error = (product - (sum - part)) + (addend - part);
  const uint64_t word = bit_cast<uint64_t>(sum), apart = (word ^ bit_cast<uint64_t>(error)) >> 63;
  const uint64_t inexact = (error > 0.0 || error < 0.0) ? ~word & 1 : 0; /* and even */
  return static_cast<float>(bit_cast<double>(word + inexact - 2 * (inexact & apart)));
}
#endif
#if defined(__MINGW32__) && defined(__x86_64__) && !defined(__FMA__)
CRK_FN double fma(double a, double b, double c) { return host::exact_fma(a, b, c); }
#else
CRK_FN double fma(double a, double b, double c) { return ::fma(a, b, c); }
#endif

/* e^t by its series, for t = (x - n) ln 2 and the integer n next to x, times 2^n by the exponent. There is no call, so
 * a loop around it is vectorised. The error in f64 is below 2^-32. The last conversion covers results beyond f32. */
CRK_FN float exp2_near(float x) {
  const double bounded = x < -160.0f ? -160.0 : x > 160.0f ? 160.0 : static_cast<double>(x), whole = bounded + 0x1.8p52;
  const double t = (bounded - (whole - 0x1.8p52)) * 0x1.62e42fefa39efp-1;
  constexpr double terms[] = {1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0};
  double sum = 0.0;
  for (const double term : terms) {
    sum = sum * t + term;
  }
  return static_cast<float>(bit_cast<double>(bit_cast<uint64_t>(sum) + (bit_cast<uint64_t>(whole) << 52)));
}
CRK_FN float reciprocal_near(float x) { return 1.0f / x; }

CRK_FN float pow(float x, float y) { return ::powf(x, y); }
#if defined(__MINGW32__) && defined(__x86_64__)
/* mingw-w64's pow needs the x87's 64-bit precision. Windows starts threads with 53 bits, and pow then has errors of up
 * to 90 units. The asm statements name the argument and the result, so that the call stays between them. */
CRK_FN double pow(double x, double y) {
  const uint16_t extended = 0x37f;
  uint16_t before;
  __asm__ volatile("fnstcw %0\n\tfldcw %2" : "=&m"(before), "+x"(x) : "m"(extended));
  double result = ::pow(x, y);
  __asm__ volatile("fldcw %1" : "+x"(result) : "m"(before));
  return result;
}
#else
CRK_FN double pow(double x, double y) { return ::pow(x, y); }
#endif
CRK_FN float rsqrt(float x) { return static_cast<float>(1.0 / ::sqrt(static_cast<double>(x))); }
CRK_FN double rsqrt(double x) { return 1.0 / ::sqrt(x); }

/* erfc(-x / sqrt(2)) / 2. The argument is a rounded product, and erfc multiplies the argument's relative error by twice
 * its square. A first-order correction removes the rounding error. */
CRK_FN double normcdf(double x) {
  const double root_half = 0x1.6a09e667f3bcdp-1, root_half_rest = -0x1.bdd3413b26456p-55;
  if (x < -39.0 || x > 39.0) {
    return x < 0.0 ? 0.0 : 1.0;
  }
  const double t = -x * root_half;
  const double rest = fma(-x, root_half, -t) - x * root_half_rest;
  const double slope = 0x1.20dd750429b6dp+0 * ::exp(-t * t); /* 2 / sqrt(pi) exp(-t^2) */
  return 0.5 * (::erfc(t) - rest * slope);
}
CRK_FN float normcdf(float x) { return static_cast<float>(normcdf(static_cast<double>(x))); }

namespace host {

/* Equal numbers differ in the sign of a zero at most. For them the result is `zero`. */
template <class T>
CRK_FN T larger(T a, T b, T zero) {
  return a > b || b != b ? a : b > a || a != a ? b : zero;
}

}  // namespace host

CRK_FN float max_number(float a, float b) {
  return host::larger(a, b, bit_cast<float>(bit_cast<uint32_t>(a) & bit_cast<uint32_t>(b)));
}
CRK_FN double max_number(double a, double b) {
  return host::larger(a, b, bit_cast<double>(bit_cast<uint64_t>(a) & bit_cast<uint64_t>(b)));
}
CRK_FN float min_number(float a, float b) { return -max_number(-a, -b); }
CRK_FN double min_number(double a, double b) { return -max_number(-a, -b); }

}  // namespace crk

/* Needs fma. */
#include "platform/generic/float_pair.h"

#endif
