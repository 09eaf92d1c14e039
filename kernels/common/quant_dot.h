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
 *   first(p)        the first half of piece p, counted in the block
 *   load(block, p)  the piece: codes below 128 as they are, before any zero is subtracted
 *
 * Sums of codes are exact integers; the order of the float operations is the kernel's. */
#ifndef CRK_QUANT_DOT_H
#define CRK_QUANT_DOT_H

#include "blocks.h"
#include "dot.h"

namespace crk {

struct piece {
  codes16 code[2];
  float d, dmin;
  float scale[2], minimum[2]; /* of each half */
  CRK_FN float whole_scale(int half) const { return d * scale[half]; }
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

CRK_FN float byte_at(uint32_t word, uint32_t shift) { return static_cast<float>(word >> shift & 0xff); }

/* What the formats with blocks of 32 share: the block is the piece, and has one scale. */
struct quant32 {
  enum { pieces = 1, distance = 1, zero = 0 };
  static constexpr bool has_minimum = false, vec_by_values = true, mat_by_values = true;
  CRK_FN static uint32_t first(uint32_t) { return 0; }
  CRK_FN static piece make(const codes16 &low, const codes16 &high, float d, float m = 0.0f) {
    return {{low, high}, d, m, {1.0f, 1.0f}, {1.0f, 1.0f}};
  }
};

template <>
struct quant<block_q4_0> : quant32 {
  enum { zero = 8 };
  CRK_FN static piece load(const block_q4_0 *block, uint32_t) {
    const codes16 qs = load_words<4>(block->qs);
    return make(bits_at<4>(qs, 0), bits_at<4>(qs, 4), f16_low(block->d.code));
  }
};

template <>
struct quant<block_q4_1> : quant32 {
  static constexpr bool has_minimum = true;
  CRK_FN static piece load(const block_q4_1 *block, uint32_t) {
    const uint32_t dm = load_words<1>(&block->d).v[0];
    const codes16 qs = load_words<4>(block->qs);
    return make(bits_at<4>(qs, 0), bits_at<4>(qs, 4), f16_low(dm), f16_high(dm));
  }
};

template <>
struct quant<block_q5_0> : quant32 {
  enum { zero = 16 };
  static constexpr bool mat_by_values = false;
  CRK_FN static piece load(const block_q5_0 *block, uint32_t) {
    const uint32_t qh = load_words<1>(block->qh).v[0];
    const codes16 qs = load_words<4>(block->qs);
    return make(with_high_bits<4>(bits_at<4>(qs, 0), spread_bits(qh)),
                with_high_bits<4>(bits_at<4>(qs, 4), spread_bits(qh >> 16)), f16_low(block->d.code));
  }
};

template <>
struct quant<block_q5_1> : quant32 {
  static constexpr bool has_minimum = true;
  CRK_FN static piece load(const block_q5_1 *block, uint32_t) {
    const pack<uint32_t, 2> head = load_words<2>(&block->d);
    const codes16 qs = load_words<4>(block->qs);
    return make(with_high_bits<4>(bits_at<4>(qs, 0), spread_bits(head.v[1])),
                with_high_bits<4>(bits_at<4>(qs, 4), spread_bits(head.v[1] >> 16)), f16_low(head.v[0]),
                f16_high(head.v[0]));
  }
};

template <>
struct quant<block_q8_0> : quant32 {
  CRK_FN static piece load(const block_q8_0 *block, uint32_t) {
    return make(load_words<4>(block->qs), load_words<4>(block->qs + 16), f16_low(block->d.code));
  }
};

/* What the formats with blocks of 256 share. Piece 4 a + 2 b + c is in half a of the block, and of the 16 bytes that begin
 * at the c-th 16 of a run of 32. */
struct quant256 {
  enum { pieces = 8, distance = 2, zero = 0 };
  static constexpr bool has_minimum = false, vec_by_values = false, mat_by_values = false;
  CRK_FN static uint32_t first(uint32_t p) { return 8 * (p >> 2) + 4 * (p >> 1 & 1) + (p & 1); }
};

template <>
struct quant<block_q2_K> : quant256 {
  static constexpr bool has_minimum = true;
  CRK_FN static piece load(const block_q2_K *block, uint32_t p) {
    const uint32_t a = p >> 2, b = p >> 1 & 1, c = p & 1;
    const codes16 qs = load_words<4>(block->qs + 32 * a + 16 * c);
    const uint32_t word = load_words<1>(block->scales + 8 * a + 4 * b).v[0] >> 8 * c;
    const uint32_t scales = word & 0x0f000f, minima = word >> 4 & 0x0f000f;
    const uint32_t head = load_words<1>(&block->d).v[0];
    return {{bits_at<2>(qs, 4 * b), bits_at<2>(qs, 4 * b + 2)},
            f16_low(head),
            f16_high(head),
            {byte_at(scales, 0), byte_at(scales, 16)},
            {-byte_at(minima, 0), -byte_at(minima, 16)}};
  }
};

template <>
struct quant<block_q3_K> : quant256 {
  enum { zero = 4 };
  CRK_FN static piece load(const block_q3_K *block, uint32_t p) {
    const uint32_t a = p >> 2, b = p >> 1 & 1, c = p & 1;
    const codes16 qs = load_words<4>(block->qs + 32 * a + 16 * c), mask = load_words<4>(block->hmask + 16 * c);
    /* Group j: the low half of byte j or the high half of byte j - 8, and two bits of byte 8 + j % 4. */
    const uint32_t low = load_words<1>(block->scales + 4 * b).v[0] >> (8 * c + 4 * a) & 0x0f000f;
    const uint32_t high = load_words<1>(block->scales + 8).v[0] >> (8 * c + 4 * a + 2 * b) & 0x030003;
    const uint32_t scales = low | high << 4;
    return {{with_high_bits<2>(bits_at<2>(qs, 4 * b), bits_at<1>(mask, 4 * a + 2 * b)),
             with_high_bits<2>(bits_at<2>(qs, 4 * b + 2), bits_at<1>(mask, 4 * a + 2 * b + 1))},
            f16_low(block->d.code),
            0.0f,
            {byte_at(scales, 0) - 32.0f, byte_at(scales, 16) - 32.0f},
            {}};
  }
};

/* q4_K and q5_K: piece 2 g + c has the c-th 16 elements of the groups 2 g and 2 g + 1. */
template <class B>
CRK_FN piece load_6_bit_scales(const B *block, uint32_t p) {
  /* d and dmin, then scales and minima of groups 0 to 3, 4 to 7: six bits in the first eight bytes; above them, two bits of
   * the last four groups', whose low four bits are in the last four bytes. All four numbers of the piece in a word: no
   * branch, and what depends on p alone is the same for all pieces of a thread. */
  const codes16 head = load_words<4, 16>(&block->d);
  const uint32_t g = p >> 1, bytes = 0x05040100 + (g & 1) * 0x02020202;
  const bool above = g >= 2;
  const uint32_t six = permute_bytes(head.v[1], head.v[2], bytes),
                 four = permute_bytes(head.v[3], head.v[3] >> 4, bytes);
  const uint32_t low = above ? 0x0f0f0f0f : 0x3f3f3f3f, high = above ? 0x30303030 : 0;
  const uint32_t all = ((above ? four : six) & low) | (six >> 2 & high);
  return {{},
          f16_low(head.v[0]),
          f16_high(head.v[0]),
          {byte_at(all, 0), byte_at(all, 8)},
          {-byte_at(all, 16), -byte_at(all, 24)}};
}

template <>
struct quant<block_q4_K> : quant256 {
  static constexpr bool has_minimum = true, mat_by_values = true;
  CRK_FN static piece load(const block_q4_K *block, uint32_t p) {
    piece result = load_6_bit_scales(block, p);
    const codes16 qs = load_words<4, 16>(block->qs + 16 * p);
    result.code[0] = bits_at<4>(qs, 0);
    result.code[1] = bits_at<4>(qs, 4);
    return result;
  }
};

template <>
struct quant<block_q5_K> : quant256 {
  static constexpr bool has_minimum = true, mat_by_values = true;
  CRK_FN static piece load(const block_q5_K *block, uint32_t p) {
    piece result = load_6_bit_scales(block, p);
    const codes16 qs = load_words<4, 16>(block->qs + 16 * p), qh = load_words<4, 16>(block->qh + 16 * (p & 1));
    const uint32_t g = p >> 1;
    result.code[0] = with_high_bits<4>(bits_at<4>(qs, 0), bits_at<1>(qh, 2 * g));
    result.code[1] = with_high_bits<4>(bits_at<4>(qs, 4), bits_at<1>(qh, 2 * g + 1));
    return result;
  }
};

/* Piece 4 a + 2 b + c: the low halves of 16 bytes are elements of group b of the half block, the high ones of group b + 2. */
template <>
struct quant<block_q6_K> : quant256 {
  enum { zero = 32, distance = 4 };
  CRK_FN static uint32_t first(uint32_t p) { return 8 * (p >> 2) + (p & 3); }
  CRK_FN static piece load(const block_q6_K *block, uint32_t p) {
    const uint32_t a = p >> 2, b = p >> 1 & 1, c = p & 1;
    const codes16 ql = load_words<4>(block->ql + 16 * p), qh = load_words<4>(block->qh + 32 * a + 16 * c);
    const pack<uint32_t, 2> scales = load_words<2>(block->scales + 8 * a);
    const uint32_t shift = 8 * (p & 3);
    return {{with_high_bits<4>(bits_at<4>(ql, 0), bits_at<2>(qh, 2 * b)),
             with_high_bits<4>(bits_at<4>(ql, 4), bits_at<2>(qh, 2 * b + 4))},
            f16_low(block->d.code),
            0.0f,
            {static_cast<float>(static_cast<int8_t>(scales.v[0] >> shift)),
             static_cast<float>(static_cast<int8_t>(scales.v[1] >> shift))},
            {}};
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
    const float dot = static_cast<float>(dot16(w.code[0], x[0].code, dot16(w.code[1], x[1].code, 0)));
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
      const int32_t dot = dot16(w.code[h], x[h].code, zero != 0 ? -zero * x[h].code_sum : 0);
      dots = fma(x[h].d, w.scale[h] * static_cast<float>(dot), dots);
      minima = fma(w.minimum[h], x[h].d * static_cast<float>(x[h].code_sum), minima);
    }
    sum = fma(w.d, dots, sum);
    return Q::has_minimum ? fma(w.dmin, minima, sum) : sum;
  }
}

}  // namespace crk

#endif
