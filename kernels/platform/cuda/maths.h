/* platform/maths.h for NVIDIA GPUs. */
#ifndef CRK_PLATFORM_CUDA_MATHS_H
#define CRK_PLATFORM_CUDA_MATHS_H

namespace crk {

template <class To, class From>
CRK_FN To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

CRK_FN uint32_t popcount(uint64_t word) { return static_cast<uint32_t>(__popcll(word)); }
CRK_FN uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t from) {
  return __byte_perm(a, b, (from & 7) | (from >> 4 & 0x70) | (from >> 8 & 0x700) | (from >> 12 & 0x7000));
}
/* The byte becomes the low bits of an f32 of at least 2^23. The subtraction of 2^23 then leaves the byte. */
CRK_FN float float_of_byte(uint32_t word, uint32_t i) {
  return __uint_as_float(__byte_perm(word, 0x4b000000, 0x7650 + i)) - 8388608.0f;
}

/* With integers, only the product is converted to a float, and not each factor. */
using small_int = int32_t;
CRK_FN small_int small_of_byte(uint32_t word, uint32_t i) {
  return static_cast<int32_t>(__byte_perm(word, 0, 0x4440 + i));
}

CRK_FN uint32_t mulhi(uint32_t a, uint32_t b) { return __umulhi(a, b); }
CRK_FN uint64_t mulhi(uint64_t a, uint64_t b) { return __umul64hi(a, b); }

CRK_FN int32_t dot4(int32_t a, int32_t b, int32_t c) { return __dp4a(a, b, c); }
inline constexpr int code_bits = 8;
CRK_FN int32_t dot4_codes(int32_t a, int32_t b, int32_t c) {
  int32_t sum;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}

CRK_MATHS_MAP(CRK_MATHS_C)
CRK_MATHS_GPU_MAP(CRK_MATHS_C)
CRK_FN float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
CRK_FN double fma(double a, double b, double c) { return ::fma(a, b, c); }
CRK_FN float pow(float x, float y) { return ::powf(x, y); }
CRK_FN double pow(double x, double y) { return ::pow(x, y); }
CRK_FN float max_number(float a, float b) { return ::fmaxf(a, b); }
CRK_FN double max_number(double a, double b) { return ::fmax(a, b); }
CRK_FN float min_number(float a, float b) { return ::fminf(a, b); }
CRK_FN double min_number(double a, double b) { return ::fmin(a, b); }

CRK_FN float exp2_near(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
CRK_FN float reciprocal_near(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

CRK_FN float f16_decode(uint16_t code) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(code));
  return x;
}
CRK_FN uint16_t f16_encode(float x) {
  uint16_t code;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(x));
  return code;
}
CRK_FN uint16_t f16_add(uint16_t a, uint16_t b) {
  uint16_t code;
  asm("add.rn.f16 %0, %1, %2;" : "=h"(code) : "h"(a), "h"(b));
  return code;
}
CRK_FN uint16_t f16_sub(uint16_t a, uint16_t b) {
  uint16_t code;
  asm("sub.rn.f16 %0, %1, %2;" : "=h"(code) : "h"(a), "h"(b));
  return code;
}
CRK_FN uint16_t f16_mul(uint16_t a, uint16_t b) {
  uint16_t code;
  asm("mul.rn.f16 %0, %1, %2;" : "=h"(code) : "h"(a), "h"(b));
  return code;
}
CRK_FN uint16_t f16_fma(uint16_t a, uint16_t b, uint16_t c) {
  uint16_t code;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(code) : "h"(a), "h"(b), "h"(c));
  return code;
}

/* Divides in f32, where quotients of f16 neither overflow nor underflow. One step of Newton's method brings the error
 * to little more than half a unit, and an exact quotient is exact. Rounding to f16 after that needs no more. Zeros skip
 * the step to keep their sign, and infinities skip it, too. */
CRK_FN uint16_t f16_div(uint16_t x, uint16_t y) {
  const float a = f16_decode(x), b = f16_decode(y), r = reciprocal_near(b);
  const float q = a * r, rest = fma(-q, b, a);
  return f16_encode(rest != 0.0f && abs(rest) < INFINITY ? fma(rest, r, q) : q);
}

CRK_FN uint16_t bf16_encode(float x) {
  uint16_t code;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(code) : "f"(x));
  return code;
}
CRK_FN uint16_t bf16_fma(uint16_t a, uint16_t b, uint16_t c) {
  uint16_t code;
  asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(code) : "h"(a), "h"(b), "h"(c));
  return code;
}

}  // namespace crk

/* Needs fma. */
#include "platform/generic/float_pair.h"

#endif
