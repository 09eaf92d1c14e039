/* Random words by Philox 4x32-10, and uniform and normal numbers made from them. For kernels/random.hip. Main
 * functions: philox, unit, normal. Philox is described in Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
 * easy as 1, 2, 3", 2011.
 *
 * A step of the generator gives four words, which depend only on the seed and on the step's number. All other
 * computations are integer arithmetic, single IEEE operations in the order written here, and the platform's sqrt, which
 * is exact. The numbers are therefore the same to the bit on every device. Products and sums are separate operations,
 * since not every CPU has an fma instruction. */
#ifndef CRK_RANDOM_H
#define CRK_RANDOM_H

#include "call/random_state.h"
#include "numbers/element_types.h"

namespace crk {

using random_words = pack<uint32_t, 4>;

/* Numbers of type A that a step gives: 4 of float, 2 of double. */
template <class A>
inline constexpr int step_numbers = 16 / static_cast<int>(sizeof(A));

/* The four words of a step. */
CRK_FN random_words philox(uint64_t seed, uint64_t step) {
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  random_words w = {{static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32), 0, 0}};
  CRK_UNROLL
  for (int round = 0; round < 10; round++) {
    const uint64_t a = static_cast<uint64_t>(w.v[0]) * 0xd2511f53u, b = static_cast<uint64_t>(w.v[2]) * 0xcd9e8d57u;
    w = {{static_cast<uint32_t>(b >> 32) ^ w.v[1] ^ key[0], static_cast<uint32_t>(b),
          static_cast<uint32_t>(a >> 32) ^ w.v[3] ^ key[1], static_cast<uint32_t>(a)}};
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return w;
}

CRK_FN uint64_t two_words(const random_words &w, int first) {
  return w.v[first] | static_cast<uint64_t>(w.v[first + 1]) << 32;
}

/* The i-th uniform number of a step, from 0 to below 1: a multiple of 2^-24 for float, of 2^-53 for double. */
template <class A>
CRK_FN A unit(const random_words &w, int i) {
  if constexpr (same<A, float>) {
    return static_cast<float>(static_cast<int32_t>(w.v[i] >> 8)) * 0x1p-24f;
  } else {
    return static_cast<double>(static_cast<int64_t>(two_words(w, 2 * i) >> 11)) * 0x1p-53;
  }
}

/* The polynomial in x with these coefficients, the constant term first. */
template <class A>
CRK_FN A polynomial(A, A constant) {
  return constant;
}
template <class A, class... C>
CRK_FN A polynomial(A x, A constant, C... others) {
  return constant + x * polynomial(x, others...);
}

/* log(1 + d) for 1 + d from sqrt(1/2) to sqrt(2): the power series of 2 artanh(s) with s = d / (2 + d). The first
 * omitted term is at most 3e-9 (f32) or 7e-19 (f64) of the sum. */
CRK_FN float log_near_1(float d) {
  const float s = d / (2.0f + d), z = s * s, twice = s + s;
  return twice + twice * (z * polynomial(z, 1.0f / 3.0f, 1.0f / 5.0f, 1.0f / 7.0f, 1.0f / 9.0f));
}
CRK_FN double log_near_1(double d) {
  const double s = d / (2.0 + d), z = s * s, twice = s + s;
  return twice + twice * (z * polynomial(z, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0, 1.0 / 11.0, 1.0 / 13.0,
                                         1.0 / 15.0, 1.0 / 17.0, 1.0 / 19.0, 1.0 / 21.0));
}

/* log(v / 2^32) for v not 0, with v = 2^k (1 + d). If k is 32, d is computed from all bits of v. log(2) is split into
 * two parts. The upper part has so few bits that its product with the exponent is exact. */
CRK_FN float log_of_fraction(uint32_t v) {
  const uint32_t word = bit_cast<uint32_t>(static_cast<float>(v));
  const int32_t k = static_cast<int32_t>(word - 0x3f3504f3u) >> 23;
  const float m = bit_cast<float>(word - (static_cast<uint32_t>(k) << 23));
  const float d = k == 32 ? static_cast<float>(static_cast<int32_t>(v)) * 0x1p-32f : m - 1.0f;
  const float exponent = static_cast<float>(k - 32);
  return exponent * 0x1.62e4p-1f + (exponent * 0x1.7f7d1cp-20f + log_near_1(d));
}
/* log(v / 2^53) for v from 1 to 2^53. */
CRK_FN double log_of_fraction(uint64_t v) {
  const uint64_t word = bit_cast<uint64_t>(static_cast<double>(static_cast<int64_t>(v)));
  const int64_t k = static_cast<int64_t>(word - 0x3fe6a09e667f3bcdu) >> 52;
  const double m = bit_cast<double>(word - (static_cast<uint64_t>(k) << 52));
  const double exponent = static_cast<double>(static_cast<int32_t>(k) - 53);
  return exponent * 0x1.62e42feep-1 + (exponent * 0x1.a39ef35793c76p-33 + log_near_1(m - 1.0));
}

/* Cosine and sine of an angle. */
template <class A>
struct direction {
  A cosine, sine;
};

/* Adds quarter turns to the angle with this cosine and sine. The two highest bits of `quarters` are the number of
 * quarter turns. */
template <class A, class Word>
CRK_FN direction<A> turn_quarters(A cosine, A sine, Word quarters) {
  constexpr int top = 8 * sizeof(Word) - 1;
  const Word sign = static_cast<Word>(1) << top;
  const bool odd = (quarters >> (top - 1) & 1) != 0;
  const Word c = bit_cast<Word>(odd ? sine : cosine), s = bit_cast<Word>(odd ? cosine : sine);
  return {bit_cast<A>(c ^ ((quarters + (sign >> 1)) & sign)), bit_cast<A>(s ^ (quarters & sign))};
}

/* Cosine and sine of v / 2^32 of a turn (v / 2^64 for u64). The power series take the angle from the nearest quarter
 * turn, which is at most an eighth of a turn. The first omitted term is at most 2e-9 (f32) or 1e-19 (f64) of the sine,
 * and 2e-10 (f32) or 3e-18 (f64) of the cosine. */
CRK_FN direction<float> direction_of(uint32_t v) {
  const uint32_t quarters = v + 0x20000000u;
  const float x = static_cast<float>(static_cast<int32_t>(v - (quarters & 0xc0000000u))) * 0x1.921fb6p-30f, z = x * x;
  const float sine = x + x * (z * polynomial(z, -1.0f / 6.0f, 1.0f / 120.0f, -1.0f / 5040.0f, 1.0f / 362880.0f));
  const float cosine =
      1.0f + z * polynomial(z, -1.0f / 2.0f, 1.0f / 24.0f, -1.0f / 720.0f, 1.0f / 40320.0f, -1.0f / 3628800.0f);
  return turn_quarters(cosine, sine, quarters);
}
CRK_FN direction<double> direction_of(uint64_t v) {
  const uint64_t quarters = v + (uint64_t(1) << 61);
  /* 54 bits with the sign: exact in f64. */
  const int64_t left = static_cast<int64_t>(v - (quarters & uint64_t(3) << 62)) >> 8;
  const double x = static_cast<double>(left) * 0x1.921fb54442d18p-54, z = x * x;
  const double sine =
      x + x * (z * polynomial(z, -1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362880.0, -1.0 / 39916800.0,
                              1.0 / 6227020800.0, -1.0 / 1307674368000.0, 1.0 / 355687428096000.0));
  const double cosine = 1.0 + z * polynomial(z, -1.0 / 2.0, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40320.0, -1.0 / 3628800.0,
                                             1.0 / 479001600.0, -1.0 / 87178291200.0, 1.0 / 20922789888000.0);
  return turn_quarters(cosine, sine, quarters);
}

/* Two independent normal numbers from two words (Box and Muller, "A note on the generation of random normal deviates",
 * 1958). The fraction is made odd, so that it is neither 0 nor 1. */
template <class Word>
CRK_FN auto normal_pair(Word fraction, Word angle) {
  const auto radius = sqrt(log_of_fraction(fraction | 1) * -2);
  auto pair = direction_of(angle);
  pair.cosine *= radius;
  pair.sine *= radius;
  return pair;
}

/* The i-th pair of normal numbers of a step: two pairs of float, one of double. */
template <class A>
CRK_FN direction<A> normal(const random_words &w, int i) {
  if constexpr (same<A, float>) {
    return normal_pair(w.v[2 * i], w.v[2 * i + 1]);
  } else {
    return normal_pair(two_words(w, 0) >> 11, two_words(w, 2));
  }
}

}  // namespace crk

#endif
