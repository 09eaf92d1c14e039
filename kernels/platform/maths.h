/* Maths: bits, integers, functions of one number, dot products, 16-bit floats.
 *
 * A part of platform/platform.h. The definitions are in platform/hip/maths.h, platform/cuda/maths.h and
 * platform/host/maths.h. */
#ifndef CRK_PLATFORM_MATHS_H
#define CRK_PLATFORM_MATHS_H

namespace crk {

/* ---- Bits ---- */

/* The bits of `from` as a To of the same size. */
template <class To, class From>
CRK_FN To bit_cast(From from);

/* Bits of `word` that are set. */
CRK_FN uint32_t popcount(uint64_t word);

/* Byte i of the result is the byte whose number is byte i of `from`. The bytes of `a` have the numbers 0 to 3, and
 * those of `b` the numbers 4 to 7. */
CRK_FN uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t from);

/* Byte i of `word`, unsigned. */
CRK_FN float float_of_byte(uint32_t word, uint32_t i);

/* small_int: float or int32_t. A product of a small integer and an int32_t takes fewer instructions in this type. */

/* small_int small_of_byte(uint32_t word, uint32_t i): byte i of `word`, unsigned. */

/* ---- Integers ---- */

/* The upper half of a product. */
CRK_FN uint32_t mulhi(uint32_t a, uint32_t b);
CRK_FN uint64_t mulhi(uint64_t a, uint64_t b);

/* c plus the sum of the four products of a's and b's signed bytes; wraps. */
CRK_FN int32_t dot4(int32_t a, int32_t b, int32_t c);

/* The same with unsigned bytes in `a`, each below 2^code_bits. `constexpr int code_bits` is 7 or 8. */
CRK_FN int32_t dot4_codes(int32_t a, int32_t b, int32_t c);

/* ---- Functions of float and double ---- */

}  // namespace crk

/* XX(name, name in C's library, name in AMD's device library). CUDA has the names of C's library. sqrt is correctly
 * rounded. ceil, floor and round are exact; round takes halves away from zero. */
#define CRK_MATHS_MAP(XX) \
  XX(exp, exp, exp)       \
  XX(log, log, log)       \
  XX(sin, sin, sin)       \
  XX(cos, cos, cos)       \
  XX(tanh, tanh, tanh)    \
  XX(erf, erf, erf)       \
  XX(sqrt, sqrt, sqrt)    \
  XX(ceil, ceil, ceil)    \
  XX(floor, floor, floor) \
  XX(round, round, round) \
  XX(abs, fabs, fabs)
/* Functions that C's library lacks. normcdf is the area under the standard normal distribution left of x; rsqrt is
 * 1 / sqrt(x). */
#define CRK_MATHS_GPU_MAP(XX) \
  XX(normcdf, normcdf, ncdf)  \
  XX(rsqrt, rsqrt, rsqrt)

/* Definitions by C's names. */
#define CRK_MATHS_C(name, c, ocml)                 \
  CRK_FN float name(float x) { return ::c##f(x); } \
  CRK_FN double name(double x) { return ::c(x); }

namespace crk {

#define CRK_MATHS_DECLARATION(name, c, ocml) \
  CRK_FN float name(float x);                \
  CRK_FN double name(double x);
CRK_MATHS_MAP(CRK_MATHS_DECLARATION)
CRK_MATHS_GPU_MAP(CRK_MATHS_DECLARATION)
#undef CRK_MATHS_DECLARATION

/* x to the power of y. */
CRK_FN float pow(float x, float y);
CRK_FN double pow(double x, double y);

/* a * b + c, rounded once. */
CRK_FN float fma(float a, float b, float c);
CRK_FN double fma(double a, double b, double c);

/* The larger and the smaller of two numbers. The result is NaN only if both are; -0 < +0. */
CRK_FN float max_number(float a, float b);
CRK_FN double max_number(double a, double b);
CRK_FN float min_number(float a, float b);
CRK_FN double min_number(double a, double b);

/* 2^x and 1 / x by the GPU's own instructions. The error is below two units in the last place. A subnormal result may
 * be replaced by 0. */
CRK_FN float exp2_near(float x);
CRK_FN float reciprocal_near(float x);

/* log2(e), rounded to f32. */
inline constexpr float log2_of_e = 0x1.715476p+0f, log2_of_e_inverse = 0x1.62e43p-1f;

#if defined(CRK_HAS_SILU)
/* x / (1 + e^-x). */
CRK_FN float silu(float x);
#endif

/* ---- Pairs of floats ---- */

/* float_pair: two floats, x[0] and x[1]. CDNA 2 and later multiply both with one instruction.
 *
 *   float_pair pair_of(float a, float b)
 *   float_pair fma(float_pair a, float_pair b, float_pair c) */

/* ---- 16-bit floats. numbers/element_types.h has their types, and arithmetic for platforms that lack it. ---- */

#if defined(CRK_HAS_F16)
/* To and from the bits of an f16; encoding rounds to nearest, ties to even. */
CRK_FN float f16_decode(uint16_t code);
CRK_FN uint16_t f16_encode(float x);

/* Arithmetic on the bits of f16, each rounded once. */
CRK_FN uint16_t f16_add(uint16_t a, uint16_t b);
CRK_FN uint16_t f16_sub(uint16_t a, uint16_t b);
CRK_FN uint16_t f16_mul(uint16_t a, uint16_t b);
CRK_FN uint16_t f16_div(uint16_t x, uint16_t y);
CRK_FN uint16_t f16_fma(uint16_t a, uint16_t b, uint16_t c);
#endif

#if defined(CRK_HAS_BF16)
/* The bits of x as a bf16, rounded to nearest, ties to even; a * b + c on the bits of bf16, rounded once. */
CRK_FN uint16_t bf16_encode(float x);
CRK_FN uint16_t bf16_fma(uint16_t a, uint16_t b, uint16_t c);
#endif

/* c + the product of the lower halves of `a` and `b` + the product of their upper halves, in f32. The halves are f16 or
 * bf16. Subnormal f16 count; a bf16 below 2^-126 may count as 0. numbers/dot_half.h is for all platforms. */
#if defined(CRK_HAS_DOT2_F16)
CRK_FN float dot2_f16(uint32_t a, uint32_t b, float c);
#endif
#if defined(CRK_HAS_DOT2_BF16)
CRK_FN float dot2_bf16(uint32_t a, uint32_t b, float c);
#endif

}  // namespace crk

#endif
