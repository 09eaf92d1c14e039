/* Dot products of quantized weights with quantized activations, in integers: dot_piece multiplies a piece of a weight
 * row with 8-bit activations. `quant<block>` describes each format for it. matvec.h, matvec_tile.h and matmat.h are
 * built on this file; dequantize.h is its counterpart for products with floats.
 *
 * A piece is 32 elements of a row, in two halves of 16. The codes of neighbouring pieces are next to each other in a
 * block's bytes, even where their elements are not. So threads with neighbouring pieces read neighbouring bytes.
 * Members of `quant<block>`:
 *
 *   pieces          pieces per block
 *   distance        from a piece's first half to its second, in halves
 *   zero            element = d * scale * (code - zero) + dmin * minimum
 *   has_minimum     if false, dmin is 0
 *   vec_by_values, mat_by_values
 *                   the factor of a zero or a minimum, in mat-vec and in mat-mat. True: the sum of the activations
 *                   before quantization. False: the sum of their codes times d. These sums differ by more than
 *                   rounding, and Candle's CUDA kernels use one or the other by format.
 *   signed_codes    codes are signed bytes; if false, they are below 128 before the zero is subtracted
 *   shares_scales   pieces that differ only in c have the same scales
 *   first(p)        number of the first half of piece p in the block
 *   load<InPlace>(at, p)
 *                   loads piece p of the block with bytes `at`: a block_bytes, or a struct with the same functions.
 *                   With InPlace, codes may stay at their place in their bytes, `up` bits too high and below
 *                   2^code_bits. InPlace requires that the compiler knows p.b; or p.c, for formats with shares_scales.
 *
 * Sums of codes are exact integers. Each kernel fixes the order of its float operations. */
#ifndef CRK_QUANT_DOT_H
#define CRK_QUANT_DOT_H

#include "numbers/dot.h"
#include "quantized/blocks.h"

namespace crk {

struct piece {
  codes16 code[2]; /* each times 2^up of its half */
  float d, dmin;
  small_int scale[2]; /* of each half */
  float minimum[2];
  int up[2];
  codes16 high[2] = {}; /* high bits that `code` lacks, multiplied by `times` in products; 0 if `code` is complete */
  int times[2] = {};
  CRK_FN float whole_scale(int half) const { return d * static_cast<float>(scale[half]); }
  CRK_FN float whole_minimum(int half) const { return dmin * minimum[half]; }
};

/* 16 activations, each d * code. A kernel sets one of value_sum and code_sum, whichever its format needs. value_sum is
 * the sum over the whole q8_1 block of 32. */
struct activations16 {
  codes16 code;
  float d, value_sum;
  int32_t code_sum;
};

template <class B>
struct quant;

/* Returns dot * scale in f32, which is exact for all codes and scales. The product is below 2^27 and has at most 24
 * significant bits, because `up` leaves zeros below them. */
CRK_FN float scaled(int32_t dot, small_int scale) { return static_cast<float>(scale * static_cast<small_int>(dot)); }

/* The bytes of a block at any address. Kernels that know more about the address have their own struct. */
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

/* Takes `Count` bits of each byte, from bit `at` on. With InPlace the bits stay where they are if a code of `Width`
 * bits at that place is still below 2^code_bits. This saves a shift. */
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
/* Adds bit `at` of `high` to the codes as bit `to`. */
CRK_FN codes16 with_bit(codes16 low, const codes16 &high, uint32_t at, uint32_t to) {
  CRK_UNROLL
  for (int i = 0; i < 4; i++) {
    low.v[i] |= (at > to ? high.v[i] >> (at - to) : high.v[i] << (to - at)) & (1u << to) * 0x01010101u;
  }
  return low;
}

/* Selects the bits of `mask` in each byte, without shifting. */
CRK_FN codes16 masked(codes16 a, uint32_t mask) {
  CRK_UNROLL
  for (int i = 0; i < 4; i++) {
    a.v[i] &= mask * 0x01010101u;
  }
  return a;
}
/* Stores four bits of `low` as the low bits of the codes, and the bits of `high` selected by `mask` as their high bits.
 * Neither is shifted. Where a code may have eight bits, a second dot product for the high bits takes fewer instructions
 * than combining the two. */
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

/* The place of a piece in a block of 256 elements: piece 4 a + 2 b + c. A block of 32 has only one piece. */
struct piece_place {
  uint32_t a, b, c;
};
CRK_FN piece_place place_of_piece(uint32_t p) { return {p >> 2, p >> 1 & 1, p & 1}; }

/* Common part of the formats with blocks of 32: the block is the piece and has one scale. */
struct quant32 {
  enum { pieces = 1, distance = 1, zero = 0 };
  static constexpr bool has_minimum = false, vec_by_values = true, mat_by_values = true, signed_codes = false,
                        shares_scales = false;
  CRK_FN static uint32_t first(piece_place) { return 0; }
  CRK_FN static piece make(const codes16 &low, const codes16 &high, float d, float m = 0.0f) {
    return {{low, high}, d, m, {1, 1}, {1.0f, 1.0f}, {}};
  }
  /* For codes of four bits. */
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
    const codes16 low = at.template words<4>(offsetof(block_q8_0, qs)),
                  high = at.template words<4>(offsetof(block_q8_0, qs) + 16);
    return make(low, high, f16_low(at.half(0)));
  }
};

/* Common part of the formats with blocks of 256. Piece 4 a + 2 b + c is in half a of the block; its codes are in the
 * c-th 16 bytes of a run of 32. */
struct quant256 {
  enum { pieces = 8, distance = 2, zero = 0 };
  static constexpr bool has_minimum = false, vec_by_values = false, mat_by_values = false, signed_codes = false;
  static constexpr bool shares_scales = false; /* pieces that differ only in c have the same scales */
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
    const uint32_t bit = InPlace ? 2 * p.b : 0; /* lowest bit of the shifted mask bytes that belongs to the piece */
    const codes16 qs = at.template words<4>(offsetof(block_q3_K, qs) + 32 * p.a + 16 * p.c),
                  mask = shifted(at.template words<4>(offsetof(block_q3_K, hmask) + 16 * p.c), 4 * p.a + 2 * p.b - bit);
    /* The 4 low bits of group j's scale are in the low half of byte j; for j from 8 on, in the high half of byte j - 8.
     * The 2 high bits are in byte 8 + j % 4. */
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

/* q4_K and q5_K: piece 2 g + c has the c-th 16 elements of groups 2 g and 2 g + 1. */
template <class At>
CRK_FN piece load_6_bit_scales(const At &at, piece_place p) {
  /* The head is d and dmin, then scales and minima of groups 0 to 3 and 4 to 7. The first four groups have six bits in
   * the first eight bytes. The last four have their low four bits in the last four bytes, and the upper two in the
   * highest bits of the first eight. All four numbers of the piece are extracted into one word, without a branch.
   * Values that depend only on p are the same for all pieces of a thread. */
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

/* Piece 4 a + 2 b + c has 16 bytes. Their low halves are elements of group b of the half block, their high halves those
 * of group b + 2. */
template <>
struct quant<block_q6_K> : quant256 {
  enum { zero = 32, distance = 4 };
  CRK_FN static uint32_t first(piece_place p) { return 8 * p.a + 2 * p.b + p.c; }
  template <bool InPlace = false, class At>
  CRK_FN static piece load(const At &at, piece_place p) {
    const codes16 ql = at.template words<4>(offsetof(block_q6_K, ql) + 64 * p.a + 32 * p.b + 16 * p.c),
                  qh = at.template words<4>(offsetof(block_q6_K, qh) + 32 * p.a + 16 * p.c);
    /* Single bytes take fewer instructions than extraction from words, also on AMD GPUs; clang 15 needs one more
     * register for them. */
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

/* Returns `sum` plus the dot product of the piece and the activations of its two halves. */
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
