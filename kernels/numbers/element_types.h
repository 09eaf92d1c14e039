/* The element types, for every kernel. f16, bf16 and f8e4m3 are the project's own bit-exact types. The file also has
 * the conversions between all ten types, and the arithmetic of Candle's kernels on them (docs/parity.md). Main
 * functions: convert, to_integer, maximum, minimum, divide_integers. Main types: wide<T> and stepwise<T>, which say
 * what a formula is computed in.
 *
 * Every operation on f16 and bf16 rounds once, to nearest even. Sums, products, quotients and square roots may go
 * through f32. Its 24 bits are at least 2 p + 2 for p = 11 (f16) and p = 8 (bf16). Rounding twice then equals rounding
 * once (Figueroa, "When is double rounding innocuous?", 1995). This does not hold for fma. f8e4m3 has no arithmetic: it
 * is converted to f32, and a result is rounded once when it is stored. */
#ifndef CRK_ELEMENT_TYPES_H
#define CRK_ELEMENT_TYPES_H

#include "platform/platform.h"

namespace crk {

/* ---- Codes: the bits of a narrow float as an integer ---- */

#if !defined(CRK_HAS_F16)

/* A multiplication rebiases the exponent. It also makes subnormal numbers right. */
CRK_FN float f16_decode(uint16_t code) {
  const uint32_t magnitude = static_cast<uint32_t>(code & 0x7fff) << 13;
  const uint32_t scaled = bit_cast<uint32_t>(bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t word = scaled | (magnitude >= 0x0f800000u ? 0x7f800000u : 0);
  return bit_cast<float>(word | static_cast<uint32_t>(code & 0x8000) << 16);
}

/* Rounds by adding a power of two whose last place is the last place of the result. Masks replace branches: the numbers
 * have all magnitudes, so that branches would be mispredicted. */
CRK_FN uint16_t f16_encode(float x) {
  constexpr int32_t least = 0x38800000, beyond = 0x47800000, infinity = 0x7f800000; /* 2^-14, 2^16 */
  const int32_t word = bit_cast<int32_t>(x), magnitude = word & 0x7fffffff;
  const int32_t below = magnitude - beyond, bounded = beyond + (below & below >> 31);
  const int32_t above = (bounded & infinity) - least, normal = above & ~(above >> 31);
  const int32_t rounder = least + normal + (13 << 23);
  const int32_t places = bit_cast<int32_t>(bit_cast<float>(bounded) + bit_cast<float>(rounder)) - rounder;
  const int32_t code = (places + (normal >> 13)) | ((infinity - magnitude) >> 31 & 0x7fff);
  return static_cast<uint16_t>(code | (word >> 16 & 0x8000));
}

#endif

/* The number in the lower or the upper half of a word. */
CRK_FN float f16_low(uint32_t word) { return f16_decode(static_cast<uint16_t>(word)); }
CRK_FN float f16_high(uint32_t word) { return f16_decode(static_cast<uint16_t>(word >> 16)); }

CRK_FN float bf16_decode(uint16_t code) { return bit_cast<float>(static_cast<uint32_t>(code) << 16); }

#if !defined(CRK_HAS_BF16)

CRK_FN uint16_t bf16_encode(float x) {
  const uint32_t word = bit_cast<uint32_t>(x);
  const uint32_t rounded = (word + 0x7fffu + (word >> 16 & 1)) >> 16;
  return static_cast<uint16_t>((word & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}

#endif

CRK_FN float f8e4m3_decode(uint8_t code) {
  const uint32_t magnitude = static_cast<uint32_t>(code & 0x7f) << 20;
  const uint32_t scaled = bit_cast<uint32_t>(bit_cast<float>(magnitude) * 0x1p120f);
  const uint32_t word = magnitude == 0x07f00000u ? 0x7fffffffu : scaled;
  return bit_cast<float>(word | static_cast<uint32_t>(code & 0x80) << 24);
}

/* Saturates: numbers above 448, infinity included, give 448; NaN gives NaN. A subnormal result is rounded by adding
 * 2^14, whose last place is 2^-9, the smallest number of the type. */
CRK_FN uint8_t f8e4m3_encode(float x) {
  const uint32_t word = bit_cast<uint32_t>(x), magnitude = word & 0x7fffffffu;
  const uint32_t normal = (magnitude - 0x3c000000u + 0x7ffffu + (magnitude >> 20 & 1)) >> 20;
  const uint32_t tiny = bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0x1p14f) - 0x46800000u;
  uint32_t code = magnitude < 0x3c800000u ? tiny : normal;
  code = magnitude >= 0x43e00000u ? 0x7eu : code;
  code = magnitude > 0x7f800000u ? 0x7fu : code;
  return static_cast<uint8_t>(code | (word >> 24 & 0x80));
}

/* Rounds to odd: returns x if it is a float, else the one of the two floats around x whose last bit is 1. Rounding the
 * result to a narrower type then equals rounding x once. */
CRK_FN float to_odd(double x) {
  const float nearest = static_cast<float>(x);
  const uint32_t word = bit_cast<uint32_t>(nearest);
  const double magnitude = abs(x), reached = abs(static_cast<double>(nearest));
  const bool beyond = magnitude > reached, inexact = beyond || magnitude < reached;
  return bit_cast<float>(inexact && (word & 1) == 0 ? (beyond ? word + 1 : word - 1) : word);
}

/* ---- The types ---- */

struct f16 {
  uint16_t code;

  f16() = default;
  CRK_FN explicit f16(float x) : code(f16_encode(x)) {}
  CRK_FN explicit f16(double x) : code(f16_encode(to_odd(x))) {}
  CRK_FN explicit operator float() const { return f16_decode(code); }
  CRK_FN explicit operator double() const { return static_cast<double>(f16_decode(code)); }
};

struct bf16 {
  uint16_t code;

  bf16() = default;
  CRK_FN explicit bf16(float x) : code(bf16_encode(x)) {}
  CRK_FN explicit bf16(double x) : code(bf16_encode(to_odd(x))) {}
  CRK_FN explicit operator float() const { return bf16_decode(code); }
  CRK_FN explicit operator double() const { return static_cast<double>(bf16_decode(code)); }
};

struct f8e4m3 {
  uint8_t code;

  f8e4m3() = default;
  CRK_FN explicit f8e4m3(float x) : code(f8e4m3_encode(x)) {}
  CRK_FN explicit f8e4m3(double x) : code(f8e4m3_encode(static_cast<float>(x))) {} /* rounds twice, as CUDA does */
  CRK_FN explicit operator float() const { return f8e4m3_decode(code); }
  CRK_FN explicit operator double() const { return static_cast<double>(f8e4m3_decode(code)); }
};

/* `half`: f16 or bf16. `narrow`: these or f8e4m3. `floating`: these, f32 or f64. */
template <class T>
inline constexpr bool half = same<T, f16> || same<T, bf16>;
template <class T>
inline constexpr bool narrow = half<T> || same<T, f8e4m3>;
template <class T>
inline constexpr bool floating = narrow<T> || same<T, float> || same<T, double>;

template <class T>
inline constexpr bool is_signed = static_cast<T>(-1) < T(0);

/* The type that a formula on T is computed in. wide<T> is f32 for the narrow floats and T for all others: only the
 * result is rounded to T. stepwise<T> is T for f16 and bf16 too: every step is rounded. */
template <class T>
using wide = choose<narrow<T>, float, T>;
template <class T>
using stepwise = choose<half<T>, T, wide<T>>;

template <class T>
CRK_FN f16 f16_from_code(T code) {
  f16 value;
  value.code = static_cast<uint16_t>(code);
  return value;
}
template <class T>
CRK_FN bf16 bf16_from_code(T code) {
  bf16 value;
  value.code = static_cast<uint16_t>(code);
  return value;
}

#if defined(CRK_HAS_F16)
CRK_FN f16 operator+(f16 a, f16 b) { return f16_from_code(f16_add(a.code, b.code)); }
CRK_FN f16 operator-(f16 a, f16 b) { return f16_from_code(f16_sub(a.code, b.code)); }
CRK_FN f16 operator*(f16 a, f16 b) { return f16_from_code(f16_mul(a.code, b.code)); }
CRK_FN f16 operator/(f16 a, f16 b) { return f16_from_code(f16_div(a.code, b.code)); }
CRK_FN f16 fma(f16 a, f16 b, f16 c) { return f16_from_code(f16_fma(a.code, b.code, c.code)); }
#else
CRK_FN f16 operator+(f16 a, f16 b) { return f16(static_cast<float>(a) + static_cast<float>(b)); }
CRK_FN f16 operator-(f16 a, f16 b) { return f16(static_cast<float>(a) - static_cast<float>(b)); }
CRK_FN f16 operator*(f16 a, f16 b) { return f16(static_cast<float>(a) * static_cast<float>(b)); }
CRK_FN f16 operator/(f16 a, f16 b) { return f16(static_cast<float>(a) / static_cast<float>(b)); }
/* The product is exact in f64. So is every sum that lies near a tie of f16, which keeps the second rounding right. */
CRK_FN f16 fma(f16 a, f16 b, f16 c) {
  return f16(static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c));
}
#endif

CRK_FN bf16 operator/(bf16 a, bf16 b) { return bf16(static_cast<float>(a) / static_cast<float>(b)); }

#if defined(CRK_HAS_BF16)
CRK_FN bf16 fma(bf16 a, bf16 b, bf16 c) { return bf16_from_code(bf16_fma(a.code, b.code, c.code)); }
/* One instruction each: a * 1 + b, a - b * 1, and a * b + (-0), which keeps the sign of a zero. */
CRK_FN bf16 operator+(bf16 a, bf16 b) { return bf16_from_code(bf16_fma(a.code, 0x3f80, b.code)); }
CRK_FN bf16 operator-(bf16 a, bf16 b) { return bf16_from_code(bf16_fma(b.code, 0xbf80, a.code)); }
CRK_FN bf16 operator*(bf16 a, bf16 b) { return bf16_from_code(bf16_fma(a.code, b.code, 0x8000)); }
#else
CRK_FN bf16 operator+(bf16 a, bf16 b) { return bf16(static_cast<float>(a) + static_cast<float>(b)); }
CRK_FN bf16 operator-(bf16 a, bf16 b) { return bf16(static_cast<float>(a) - static_cast<float>(b)); }
CRK_FN bf16 operator*(bf16 a, bf16 b) { return bf16(static_cast<float>(a) * static_cast<float>(b)); }
/* x as f64, for a branch that is rarely taken: `opaque` keeps the compiler from computing it before the branch. */
CRK_FN double widened_here(float x) { return bit_cast<float>(opaque(bit_cast<uint32_t>(x))); }
/* Rounding the f32 fma to bf16 is wrong only if the fma gives a tie of bf16 and the exact sum is not that tie. In this
 * case f64 finds on which side of the tie the exact sum lies. The product is exact in f64, and so is the distance of
 * the larger term to the tie. */
CRK_FN bf16 fma(bf16 x, bf16 y, bf16 z) {
  const float a = static_cast<float>(x), b = static_cast<float>(y), c = static_cast<float>(z);
  float sum = fma(a, b, c);
  const uint32_t word = bit_cast<uint32_t>(sum);
  if ((word & 0xffffu) == 0x8000u && (word & 0x7f800000u) != 0x7f800000u) {
    const double product = widened_here(a) * widened_here(b), term = widened_here(c), tie = sum;
    const bool ordered = abs(product) >= abs(term);
    const double rest = ((ordered ? product : term) - tie) + (ordered ? term : product);
    const bool beyond = (rest > 0) == (tie > 0);
    sum = bit_cast<float>(rest == 0 ? word : beyond ? word + 1 : word - 1);
  }
  return bf16(sum);
}
#endif

CRK_FN f16 operator-(f16 x) { return f16_from_code(x.code ^ 0x8000); }
CRK_FN bf16 operator-(bf16 x) { return bf16_from_code(x.code ^ 0x8000); }
CRK_FN f16 abs(f16 x) { return f16_from_code(x.code & 0x7fff); }
CRK_FN bf16 abs(bf16 x) { return bf16_from_code(x.code & 0x7fff); }

#define CRK_COMPARE(T, op) \
  CRK_FN bool operator op(T a, T b) { return static_cast<float>(a) op static_cast<float>(b); }
#define CRK_COMPARISONS(T) \
  CRK_COMPARE(T, ==) CRK_COMPARE(T, !=) CRK_COMPARE(T, <) CRK_COMPARE(T, <=) CRK_COMPARE(T, >) CRK_COMPARE(T, >=)
CRK_COMPARISONS(f16)
CRK_COMPARISONS(bf16)
CRK_COMPARISONS(f8e4m3)
#undef CRK_COMPARISONS
#undef CRK_COMPARE

/* Functions of one f16 or bf16 number, computed in f32 and rounded once. */
#define CRK_THROUGH_F32(name)                                         \
  CRK_FN f16 name(f16 x) { return f16(name(static_cast<float>(x))); } \
  CRK_FN bf16 name(bf16 x) { return bf16(name(static_cast<float>(x))); }
CRK_THROUGH_F32(tanh)
CRK_THROUGH_F32(normcdf)
#undef CRK_THROUGH_F32
/* The machine's own 2^y is accurate enough for f16: over all x, at most two results differ from those of an exact
 * 2^y. */
CRK_FN f16 exp(f16 x) { return f16(exp2_near(static_cast<float>(x) * log2_of_e)); }
CRK_FN bf16 exp(bf16 x) { return bf16(exp(static_cast<float>(x))); }

/* ---- Conversions ---- */

/* A float as an integer: rounded toward zero, clamped to the range of To, and 0 for NaN. The exceptions are CUDA's. u8
 * gets the low byte of the conversion to u32. NaN becomes the smallest i64; from f64 to u32 it becomes 2^31. The
 * comparisons come first because C++ leaves a conversion out of range undefined. */
template <class To, class From>
CRK_FN To to_integer(From x) {
  if constexpr (same<To, uint8_t>) {
    return static_cast<uint8_t>(to_integer<uint32_t>(x));
  } else {
    constexpr To largest = static_cast<To>(is_signed<To> ? (uint64_t(1) << (8 * sizeof(To) - 1)) - 1 : ~uint64_t(0));
    constexpr To smallest = static_cast<To>(~largest);
    constexpr From end = static_cast<From>(static_cast<uint64_t>(largest) / 2 + 1) * 2;
    constexpr To nan = same<To, int64_t>                          ? smallest
                       : same<To, uint32_t> && same<From, double> ? static_cast<To>(0x80000000u)
                                                                  : To(0);
    const From begin = is_signed<To> ? -end : From(0);
    return x >= end ? largest : x > begin ? static_cast<To>(x) : x != x ? nan : smallest;
  }
}

/* Converts between any two types. Between integers the low bits stay. An integer becomes a narrow float through f32,
 * which may round twice; u32 to bf16 goes through f64 and rounds once. */
template <class To, class From>
CRK_FN To convert(From x) {
  if constexpr (same<To, From>) {
    return x;
  } else if constexpr (same<From, bf16> && same<To, f8e4m3>) {
    /* If clang for AMD GPUs knows that the lower half of the word is 0, the rounding takes more instructions and
     * registers. `opaque` hides this fact. */
    return To(bit_cast<float>(opaque(bit_cast<uint32_t>(static_cast<float>(x)))));
  } else if constexpr (narrow<From>) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (floating<From> && !floating<To>) {
    return to_integer<To>(x);
  } else if constexpr (narrow<To> && floating<From>) {
    return To(x);
  } else if constexpr (narrow<To>) {
    return To(static_cast<choose<same<To, bf16> && same<From, uint32_t>, double, float>>(x));
  } else {
    return static_cast<To>(x);
  }
}
template <class To, class From, int V>
CRK_FN pack<To, V> convert_pack(const pack<From, V> &values) {
  pack<To, V> converted;
  CRK_UNROLL
  for (int k = 0; k < V; k++) {
    converted.v[k] = convert<To>(values.v[k]);
  }
  return converted;
}

/* ---- The larger and the smaller ---- */

/* The larger and the smaller of two numbers. NaN loses against a number in f32 and f64, and so in f8e4m3; it wins in
 * f16 and bf16. -0 < +0. */
template <class T>
CRK_FN T maximum(T a, T b) {
  if constexpr (half<T>) {
    const float x = static_cast<float>(a), y = static_cast<float>(b);
    return x != x ? a : y != y ? b : T(max_number(x, y));
  } else if constexpr (floating<T>) {
    return convert<T>(max_number(convert<wide<T>>(a), convert<wide<T>>(b)));
  } else {
    return a > b ? a : b;
  }
}
template <class T>
CRK_FN T minimum(T a, T b) {
  if constexpr (half<T>) {
    const float x = static_cast<float>(a), y = static_cast<float>(b);
    return x != x ? a : y != y ? b : T(min_number(x, y));
  } else if constexpr (floating<T>) {
    return convert<T>(min_number(convert<wide<T>>(a), convert<wide<T>>(b)));
  } else {
    return a < b ? a : b;
  }
}

/* ---- Integers wrap ---- */

/* The unsigned type that arithmetic on T wraps in: uint64_t for 8 bytes, else uint32_t, since C++ computes in no
 * narrower type. */
template <class T>
using wrapping = choose<sizeof(T) == 8, uint64_t, uint32_t>;

/* a / b, rounded toward zero. Division by zero gives all ones, as on a GPU; the smallest number divided by -1 wraps.
 * For types of at most 16 bits an f32 division gives the exact integer part, in fewer instructions than an integer
 * division. */
template <class T>
CRK_FN T divide_integers(T a, T b) {
  using A = choose<(sizeof(T) < 4), float, T>;
  if (is_signed<T> && b == static_cast<T>(-1)) {
    return static_cast<T>(wrapping<T>(0) - static_cast<wrapping<T>>(a));
  }
  return b == 0 ? static_cast<T>(-1) : static_cast<T>(static_cast<A>(a) / static_cast<A>(b));
}

}  // namespace crk

#endif
