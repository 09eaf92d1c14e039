/* The dot product of a piece of a quantized row with activations in 8 bits.
 *
 * A piece is 32 elements of a row: two halves of 16 that follow each other in a block's bytes, if not among its elements, so
 * that neighbouring threads with neighbouring pieces read neighbouring bytes. `quant<block>` says what a format is:
 *
 *   pieces          of a block
 *   distance        from a piece's first half to its second, in halves
 *   zero            element = d * scale * (code - zero) + dmin * minimum
 *   has_minimum     false: dmin is 0
 *   vec_by_values   what a zero or a minimum is multiplied with: the sum of the activations' values as they were before they
 *   mat_by_values   were quantized, or that of their codes. CUDA's kernels differ by format, and mat-vec from mat-mat, and the
 *                   two sums by more than a rounding.
 *   signed_codes    codes are signed bytes; else below 128, before any zero is subtracted
 *   first(p)        the first half of piece p, counted in the block
 *   load<InPlace>(at, p)   the piece of the block whose bytes are `at`: block_bytes, or what has its functions. `InPlace`: codes
 *                   may be left where they are in their bytes, `up` bits too high and below 2^code_bits; wants a p whose b the
 *                   compiler knows, or c where pieces that differ in it share their scales
 *
 * Sums of codes are exact integers; the order of the float operations is the kernel's. */
#ifndef CRK_QUANT_DOT_H
#define CRK_QUANT_DOT_H

#include "numbers/dot.h"
#include "quantized/blocks.h"

namespace crk {

struct piece {
  codes16 code[2]; /* times 2^up of the half */
  float d, dmin;
  small_int scale[2]; /* of each half */
  float minimum[2];
  int up[2];
  codes16 high[2] = {}; /* what is added to the codes, `times` as often; 0 where there is nothing */
  int times[2] = {};
  CRK_FN float whole_scale(int half) const { return d * static_cast<float>(scale[half]); }
  CRK_FN float whole_minimum(int half) const { return dmin * minimum[half]; }
};

/* 16 activations: d * code. Of `value_sum` and `code_sum` a kernel sets the one that its format wants; the sum of values is
 * that of the 32 that a q8_1 block has. */
struct activations16 {
  codes16 code;
  float d, value_sum;
  int32_t code_sum;
};

template <class B>
struct quant;

/* dot * scale, exactly: below 2^27 of any codes and scales, and 24 bits at most before the zeros that `up` leaves behind them. */
CRK_FN float scaled(int32_t dot, small_int scale) { return static_cast<float>(scale * static_cast<small_int>(dot)); }

/* A block's bytes, wherever it lies. Kernels that know more of the place have their own. */
struct block_bytes {
  const void *first;
  template <int N, int Usual = 2>
  CRK_FN pack<uint32_t, N> words(uint32_t offset) const {
    return load_words<N, Usual>(static_cast<const unsigned char *>(first) + offset);
  }
  CRK_FN int8_t byte(uint32_t offset) const { return static_cast<const int8_t *>(first)[offset]; }
  CRK_FN uint16_t half(uint32_t offset) const {
    return *reinterpret_cast<const uint16_t *>(static_cast<const unsigned char *>(first) + offset);
  }
};

/* `Count` bits of each byte, from bit `at` on: where they are, if that is wanted and a code of `Width` bits may be as large, which
 * saves a shift. */
template <int Count, int Width, bool InPlace>
CRK_FN codes16 take_bits(const codes16 &a, uint32_t at, int &up) {
  up = InPlace && at + Width <= code_bits ? static_cast<int>(at) : 0;
  codes16 bits;
  CRK_UNROLL
  for (int i = 0; i < 4; i++) {
    bits.v[i] = a.v[i] >> (at - up) & (((1u << Count) - 1) << up) * 0x01010101u;
  }
  return bits;
}
CRK_FN codes16 shifted(codes16 a, uint32_t by) {
  CRK_UNROLL
  for (int i = 0; i < 4; i++) {
    a.v[i] >>= by;
  }
  return a;
}
/* Codes to which bit `at` of `high` is added as bit `to`. */
CRK_FN codes16 with_bit(codes16 low, const codes16 &high, uint32_t at, uint32_t to) {
  CRK_UNROLL
  for (int i = 0; i < 4; i++) {
    low.v[i] |= (at > to ? high.v[i] >> (at - to) : high.v[i] << (to - at)) & (1u << to) * 0x01010101u;
  }
  return low;
}

/* The bits of `mask` of each byte, where they are. */
CRK_FN codes16 masked(codes16 a, uint32_t mask) {
  CRK_UNROLL
  for (int i = 0; i < 4; i++) {
    a.v[i] &= mask * 0x01010101u;
  }
  return a;
}
/* Codes of four bits of `low`, and above them those that `mask` has of `high`: a second dot product takes fewer instructions than
 * putting them together, where a byte may have eight bits and nothing is shifted. */
CRK_FN void leave_bits(piece &w, const codes16 &low, const codes16 &high, const uint32_t (&mask)[2],
                       const int (&times)[2]) {
  CRK_UNROLL
  for (int h = 0; h < 2; h++) {
    w.code[h] = masked(low, 0x0f << 4 * h);
    w.high[h] = masked(high, mask[h]);
    w.up[h] = 4 * h;
    w.times[h] = times[h];
  }
}

/* Which piece of a block of 256 elements: 4 a + 2 b + c. Of one of 32 there is but one. */
struct piece_place {
  uint32_t a, b, c;
};
CRK_FN piece_place place_of_piece(uint32_t p) { return {p >> 2, p >> 1 & 1, p & 1}; }

/* What the formats with blocks of 32 share: the block is the piece, and has one scale. */
struct quant32 {
  enum { pieces = 1, distance = 1, zero = 0 };
  static constexpr bool has_minimum = false, vec_by_values = true, mat_by_values = true, signed_codes = false,
                        shares_scales = false;
  CRK_FN static uint32_t first(piece_place) { return 0; }
  CRK_FN static piece make(const codes16 &low, const codes16 &high, float d, float m = 0.0f) {
    return {{low, high}, d, m, {1, 1}, {1.0f, 1.0f}, {}};
  }
  /* Of codes of four bits. */
  template <bool InPlace>
  CRK_FN static piece make(const codes16 &qs, float d, float m = 0.0f) {
    piece result = make(bits_at<4>(qs, 0), {}, d, m);
    result.code[1] = take_bits<4, 4, InPlace>(qs, 4, result.up[1]);
    return result;
  }
};

template <>
struct quant<block_q4_0> : quant32 {
  enum { zero = 8 };
  template <bool InPlace = false, class At>
  CRK_FN static piece load(const At &at, piece_place) {
    const codes16 qs = at.template words<4>(offsetof(block_q4_0, qs));
    return make<InPlace>(qs, f16_low(at.half(0)));
  }
};

template <>
struct quant<block_q4_1> : quant32 {
  static constexpr bool has_minimum = true;
  template <bool InPlace = false, class At>
  CRK_FN static piece load(const At &at, piece_place) {
    const uint32_t dm = at.template words<1>(0).v[0];
    const codes16 qs = at.template words<4>(offsetof(block_q4_1, qs));
    return make<InPlace>(qs, f16_low(dm), f16_high(dm));
  }
};

template <>
struct quant<block_q5_0> : quant32 {
  enum { zero = 16 };
  static constexpr bool mat_by_values = false;
  template <bool InPlace = false, class At>
  CRK_FN static piece load(const At &at, piece_place) {
    const uint32_t qh = at.template words<1>(offsetof(block_q5_0, qh)).v[0];
    const codes16 qs = at.template words<4>(offsetof(block_q5_0, qs));
    return make(with_high_bits<4>(bits_at<4>(qs, 0), spread_bits(qh)),
                with_high_bits<4>(bits_at<4>(qs, 4), spread_bits(qh >> 16)), f16_low(at.half(0)));
  }
};

template <>
struct quant<block_q5_1> : quant32 {
  static constexpr bool has_minimum = true;
  template <bool InPlace = false, class At>
  CRK_FN static piece load(const At &at, piece_place) {
    const pack<uint32_t, 2> head = at.template words<2>(0);
    const codes16 qs = at.template words<4>(offsetof(block_q5_1, qs));
    return make(with_high_bits<4>(bits_at<4>(qs, 0), spread_bits(head.v[1])),
                with_high_bits<4>(bits_at<4>(qs, 4), spread_bits(head.v[1] >> 16)), f16_low(head.v[0]),
                f16_high(head.v[0]));
  }
};

template <>
struct quant<block_q8_0> : quant32 {
  static constexpr bool signed_codes = true;
  template <bool InPlace = false, class At>
  CRK_FN static piece load(const At &at, piece_place) {
    return make(at.template words<4>(offsetof(block_q8_0, qs)), at.template words<4>(offsetof(block_q8_0, qs) + 16),
                f16_low(at.half(0)));
  }
};

/* What the formats with blocks of 256 share. Piece 4 a + 2 b + c is in half a of the block, and of the 16 bytes that begin
 * at the c-th 16 of a run of 32. */
struct quant256 {
  enum { pieces = 8, distance = 2, zero = 0 };
  static constexpr bool has_minimum = false, vec_by_values = false, mat_by_values = false, signed_codes = false;
  static constexpr bool shares_scales = false; /* pieces that differ in c have the same */
  CRK_FN static uint32_t first(piece_place p) { return 8 * p.a + 4 * p.b + p.c; }
};

template <>
struct quant<block_q2_K> : quant256 {
  static constexpr bool has_minimum = true;
  template <bool InPlace = false, class At>
  CRK_FN static piece load(const At &at, piece_place p) {
    const codes16 qs = at.template words<4>(offsetof(block_q2_K, qs) + 32 * p.a + 16 * p.c);
    const uint32_t word = at.template words<1>(offsetof(block_q2_K, scales) + 8 * p.a + 4 * p.b).v[0];
    const uint32_t scales = word & 0x0f0f0f0f, minima = word >> 4 & 0x0f0f0f0f;
    const uint32_t head = at.template words<1>(offsetof(block_q2_K, d)).v[0];
    piece result = {{},
                    f16_low(head),
                    f16_high(head),
                    {small_of_byte(scales, p.c), small_of_byte(scales, p.c + 2)},
                    {-float_of_byte(minima, p.c), -float_of_byte(minima, p.c + 2)},
                    {}};
    CRK_UNROLL
    for (int h = 0; h < 2; h++) {
      result.code[h] = take_bits<2, 2, InPlace>(qs, 4 * p.b + 2 * h, result.up[h]);
    }
    return result;
  }
};

template <>
struct quant<block_q3_K> : quant256 {
  enum { zero = 4 };
  template <bool InPlace = false, class At>
  CRK_FN static piece load(const At &at, piece_place p) {
    const uint32_t bit = InPlace ? 2 * p.b : 0; /* of a mask's byte, the first that is the piece's after the shift */
    const codes16 qs = at.template words<4>(offsetof(block_q3_K, qs) + 32 * p.a + 16 * p.c),
                  mask = shifted(at.template words<4>(offsetof(block_q3_K, hmask) + 16 * p.c), 4 * p.a + 2 * p.b - bit);
    /* Group j: the low half of byte j or the high half of byte j - 8, and two bits of byte 8 + j % 4. */
    const uint32_t low = at.template words<1>(offsetof(block_q3_K, scales) + 4 * p.b).v[0] >> 4 * p.a;
    const uint32_t high = at.template words<1>(offsetof(block_q3_K, scales) + 8).v[0] >> (4 * p.a + 2 * p.b);
    const uint32_t scales = (low & 0x0f0f0f0f) | (high << 4 & 0x30303030);
    piece result = {{},   f16_low(at.half(offsetof(block_q3_K, d))),
                    0.0f, {small_of_byte(scales, p.c) - 32, small_of_byte(scales, p.c + 2) - 32},
                    {},   {}};
    CRK_UNROLL
    for (int h = 0; h < 2; h++) {
      const codes16 two = take_bits<2, 3, InPlace>(qs, 4 * p.b + 2 * h, result.up[h]);
      result.code[h] = with_bit(two, mask, bit + h, result.up[h] + 2);
    }
    return result;
  }
};

/* q4_K and q5_K: piece 2 g + c has the c-th 16 elements of the groups 2 g and 2 g + 1. */
template <class At>
CRK_FN piece load_6_bit_scales(const At &at, piece_place p) {
  /* d and dmin, then scales and minima of groups 0 to 3, 4 to 7: six bits in the first eight bytes; above them, two bits of
   * the last four groups', whose low four bits are in the last four bytes. All four numbers of the piece in a word: no
   * branch, and what depends on p alone is the same for all pieces of a thread. */
  const codes16 head = at.template words<4, 16>(0);
  const uint32_t bytes = 0x05040100 + p.b * 0x02020202;
  const bool above = p.a != 0;
  const uint32_t six = permute_bytes(head.v[1], head.v[2], bytes),
                 four = permute_bytes(head.v[3], head.v[3] >> 4, bytes);
  const uint32_t low = above ? 0x0f0f0f0f : 0x3f3f3f3f, high = above ? 0x30303030 : 0;
  const uint32_t all = whole_bytes(((above ? four : six) & low) | (six >> 2 & high));
  return {{},
          f16_low(head.v[0]),
          f16_high(head.v[0]),
          {small_of_byte(all, 0), small_of_byte(all, 1)},
          {-float_of_byte(all, 2), -float_of_byte(all, 3)},
          {}};
}

template <>
struct quant<block_q4_K> : quant256 {
  static constexpr bool has_minimum = true, mat_by_values = true, shares_scales = true;
  template <bool InPlace = false, class At>
  CRK_FN static piece load(const At &at, piece_place p) {
    piece result = load_6_bit_scales(at, p);
    const codes16 qs = at.template words<4, 16>(offsetof(block_q4_K, qs) + 64 * p.a + 32 * p.b + 16 * p.c);
    result.code[0] = bits_at<4>(qs, 0);
    result.code[1] = take_bits<4, 4, InPlace>(qs, 4, result.up[1]);
    return result;
  }
};

template <>
struct quant<block_q5_K> : quant256 {
  static constexpr bool has_minimum = true, mat_by_values = true, shares_scales = true;
  template <bool InPlace = false, class At>
  CRK_FN static piece load(const At &at, piece_place p) {
    piece result = load_6_bit_scales(at, p);
    const codes16 qs = at.template words<4, 16>(offsetof(block_q5_K, qs) + 64 * p.a + 32 * p.b + 16 * p.c),
                  qh = shifted(at.template words<4, 16>(offsetof(block_q5_K, qh) + 16 * p.c), 4 * p.a + 2 * p.b);
    if constexpr (InPlace && code_bits == 8) {
      leave_bits(result, qs, qh, {1, 2}, {16, 16 << 3});
    } else {
      result.code[0] = with_bit(bits_at<4>(qs, 0), qh, 0, 4);
      codes16 high = qh;
      CRK_UNROLL
      for (int i = 0; i < 4; i++) {
        high.v[i] = in_turn(qh.v[i], result.code[0].v[i]);
      }
      result.code[1] = with_bit(bits_at<4>(qs, 4), high, 1, 4);
    }
    return result;
  }
};

/* Piece 4 a + 2 b + c: the low halves of 16 bytes are elements of group b of the half block, the high ones of group b + 2. */
template <>
struct quant<block_q6_K> : quant256 {
  enum { zero = 32, distance = 4 };
  CRK_FN static uint32_t first(piece_place p) { return 8 * p.a + 2 * p.b + p.c; }
  template <bool InPlace = false, class At>
  CRK_FN static piece load(const At &at, piece_place p) {
    const codes16 ql = at.template words<4>(offsetof(block_q6_K, ql) + 64 * p.a + 32 * p.b + 16 * p.c),
                  qh = at.template words<4>(offsetof(block_q6_K, qh) + 32 * p.a + 16 * p.c);
    /* Single bytes: fewer instructions, on AMD GPUs too, than taking them out of words; by clang 15 a register more. */
    const uint32_t scale = offsetof(block_q6_K, scales) + 8 * p.a + 2 * p.b + p.c;
    piece result = {{},   f16_low(at.half(offsetof(block_q6_K, d))),
                    0.0f, {static_cast<small_int>(at.byte(scale)), static_cast<small_int>(at.byte(scale + 4))},
                    {},   {}};
    if constexpr (InPlace && code_bits == 8) {
      const int times = 16 >> 2 * p.b;
      leave_bits(result, ql, qh, {0x03u << 2 * p.b, 0x30u << 2 * p.b}, {times, times});
    } else {
      CRK_UNROLL
      for (int h = 0; h < 2; h++) {
        result.code[h] = with_high_bits<4>(bits_at<4>(ql, 4 * h), bits_at<2>(qh, 2 * p.b + 4 * h));
      }
    }
    return result;
  }
};

/* Whether a piece is one block of activations, with one scale. */
template <class B>
inline constexpr bool one_block = static_cast<int>(quant<B>::distance) == 1;

/* What the piece and the activations of its two halves add to the dot product. */
template <class B, bool ByValues>
CRK_FN float dot_piece(const piece &w, const activations16 (&x)[2], float sum) {
  using Q = quant<B>;
  constexpr int zero = static_cast<int>(Q::zero);
  if constexpr (one_block<B> && ByValues) {
    const float dot = static_cast<float>(
        dot16<Q::signed_codes>(w.code[0], x[0].code, dot16<Q::signed_codes>(w.code[1], x[1].code, 0) >> w.up[1]));
    if constexpr (Q::has_minimum) {
      return fma(w.d * x[0].d, dot, fma(w.dmin, x[0].value_sum, sum));
    } else if constexpr (zero != 0) {
      return fma(w.d, fma(x[0].d, dot, -zero * x[0].value_sum), sum);
    } else {
      return fma(w.d * x[0].d, dot, sum);
    }
  } else {
    float dots = 0.0f, minima = 0.0f;
    CRK_UNROLL
    for (int h = 0; h < 2; h++) {
      int32_t dot = zero != 0 ? -(zero << w.up[h]) * x[h].code_sum : 0;
      if (w.times[h] != 0) {
        dot += w.times[h] * dot16<false>(w.high[h], x[h].code, 0);
      }
      dot = dot16<Q::signed_codes>(w.code[h], x[h].code, dot);
      dots = fma(x[h].d * (1.0f / (1 << w.up[h])), scaled(dot, w.scale[h]), dots);
      minima = fma(w.minimum[h], x[h].d * static_cast<float>(x[h].code_sum), minima);
    }
    sum = fma(w.d, dots, sum);
    return Q::has_minimum ? fma(w.dmin, minima, sum) : sum;
  }
}

}  // namespace crk

#endif
