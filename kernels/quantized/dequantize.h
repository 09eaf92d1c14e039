/* Quantized blocks as numbers. `format<block>` describes a format once: how to load V neighbouring elements, 4 or 8,
 * from a position that is a multiple of V. Dequantization, get_rows and dot products with floats are built on it; dot
 * products in integers use quant_dot.h instead.
 *
 *   zero, has_minimum, has_sign     element = scale * (code - zero), or scale * code + minimum.
 *                                   Signed codes have no zero.
 *   load<V>(first, at, i)           elements i to i + V of the block that begins `at` bytes after `first`
 *   load<V, true>(first, at, i)     the same for a block that is aligned to 4 bytes
 *
 * A block's offset is a parameter of its own, because the first block's address is the same for all threads. A GPU's
 * load instruction adds the two at no cost.
 *
 * In f32 the product of scale and code is exact, except in q8_K. The factors have at most 24 significant bits together:
 * 11 in an f16, 7 in a scale, 6 in a code. So only the addition of the minimum rounds, whether it is fused or not. */
#ifndef CRK_DEQUANTIZE_H
#define CRK_DEQUANTIZE_H

#include "elementwise/walk.h"
#include "quantized/blocks.h"

namespace crk {

/* V codes, one byte each, and their common scale and minimum. */
template <int V>
struct coded {
  pack<uint32_t, V / 4> code;
  float scale, minimum;
};

/* Reads N words, a byte or an f16 of a block. `field` is the offset within the block, the same for all threads; `at`
 * differs between threads. */
template <int N, bool Aligned = false>
CRK_FN pack<uint32_t, N> words_at(const void *first, uint32_t field, uint32_t at) {
  const unsigned char *from = static_cast<const unsigned char *>(first) + field + at;
  if constexpr (Aligned && !words_anywhere) {
    pack<uint32_t, N> words;
    CRK_UNROLL
    for (int n = 0; n < N; n++) {
      words.v[n] = reinterpret_cast<const uint32_t *>(from)[n];
    }
    return words;
  } else {
    return load_words<N>(from);
  }
}
CRK_FN uint32_t byte_of(const void *first, uint32_t field, uint32_t at) {
  return *(static_cast<const unsigned char *>(first) + field + at);
}
CRK_FN float half_of(const void *first, uint32_t field, uint32_t at) {
  return f16_decode(*reinterpret_cast<const uint16_t *>(static_cast<const unsigned char *>(first) + field + at));
}

/* Shifts each word right by `shift` and selects the bits of `mask`. opaque() makes the compiler use the shifted word,
 * since a GPU takes a byte out of it and converts it in one instruction. LLVM would otherwise take each byte out of the
 * unshifted word with an extra instruction. */
template <int N>
CRK_FN pack<uint32_t, N> bits_from(pack<uint32_t, N> words, uint32_t shift, uint32_t mask) {
  CRK_UNROLL
  for (int n = 0; n < N; n++) {
    words.v[n] = opaque(words.v[n] >> shift & mask);
  }
  return words;
}
template <int N>
CRK_FN pack<uint32_t, N> put_above(pack<uint32_t, N> low, const pack<uint32_t, N> &high, int shift) {
  CRK_UNROLL
  for (int n = 0; n < N; n++) {
    low.v[n] = opaque(low.v[n] | high.v[n] << shift);
  }
  return low;
}
/* Bits i, i + 1, ... of `bits`, one per byte. */
template <int N>
CRK_FN pack<uint32_t, N> bits_to_bytes(uint32_t bits, uint32_t i) {
  pack<uint32_t, N> bytes;
  CRK_UNROLL
  for (int n = 0; n < N; n++) {
    bytes.v[n] = (bits >> (i + 4 * n) & 15) * 0x204081u & 0x01010101u;
  }
  return bytes;
}

struct plain_format {
  static constexpr int zero = 0;
  static constexpr bool has_minimum = false, has_sign = false;
};

template <class B>
struct format;

template <>
struct format<block_q4_0> : plain_format {
  static constexpr int zero = 8;
  template <int V, bool Aligned = false>
  CRK_FN static coded<V> load(const block_q4_0 *first, uint32_t at, uint32_t i) {
    const auto codes = words_at<V / 4, Aligned>(first, offsetof(block_q4_0, qs), at + i % 16);
    const float d = half_of(first, 0, at);
    return {bits_from(codes, i / 16 * 4, 0x0f0f0f0f), d, -8.0f * d};
  }
};

template <>
struct format<block_q4_1> : plain_format {
  static constexpr bool has_minimum = true;
  template <int V, bool Aligned = false>
  CRK_FN static coded<V> load(const block_q4_1 *first, uint32_t at, uint32_t i) {
    const auto codes = words_at<V / 4, Aligned>(first, offsetof(block_q4_1, qs), at + i % 16);
    const uint32_t dm = words_at<1, Aligned>(first, 0, at).v[0];
    return {bits_from(codes, i / 16 * 4, 0x0f0f0f0f), f16_low(dm), f16_high(dm)};
  }
};

template <>
struct format<block_q5_0> : plain_format {
  static constexpr int zero = 16;
  template <int V, bool Aligned = false>
  CRK_FN static coded<V> load(const block_q5_0 *first, uint32_t at, uint32_t i) {
    const auto codes = words_at<V / 4, Aligned>(first, offsetof(block_q5_0, qs), at + i % 16);
    const auto fifth = bits_to_bytes<V / 4>(words_at<1, Aligned>(first, offsetof(block_q5_0, qh), at).v[0], i);
    return {put_above(bits_from(codes, i / 16 * 4, 0x0f0f0f0f), fifth, 4), half_of(first, 0, at), 0.0f};
  }
};

template <>
struct format<block_q5_1> : plain_format {
  static constexpr bool has_minimum = true;
  template <int V, bool Aligned = false>
  CRK_FN static coded<V> load(const block_q5_1 *first, uint32_t at, uint32_t i) {
    const auto codes = words_at<V / 4, Aligned>(first, offsetof(block_q5_1, qs), at + i % 16);
    const pack<uint32_t, 2> head = words_at<2, Aligned>(first, 0, at); /* d and m, then qh */
    return {put_above(bits_from(codes, i / 16 * 4, 0x0f0f0f0f), bits_to_bytes<V / 4>(head.v[1], i), 4),
            f16_low(head.v[0]), f16_high(head.v[0])};
  }
};

template <>
struct format<block_q8_0> : plain_format {
  static constexpr bool has_sign = true;
  template <int V, bool Aligned = false>
  CRK_FN static coded<V> load(const block_q8_0 *first, uint32_t at, uint32_t i) {
    return {words_at<V / 4, Aligned>(first, offsetof(block_q8_0, qs), at + i), half_of(first, 0, at), 0.0f};
  }
};

template <>
struct format<block_q8_K> : plain_format {
  static constexpr bool has_sign = true;
  template <int V, bool Aligned = false>
  CRK_FN static coded<V> load(const block_q8_K *first, uint32_t at, uint32_t i) {
    return {words_at<V / 4, Aligned>(first, offsetof(block_q8_K, qs), at + i),
            bit_cast<float>(words_at<1, Aligned>(first, 0, at).v[0]), 0.0f};
  }
};

/* Superblocks: element i is number i % 32 of run i / 32 % 4 of half i / 128. */
template <>
struct format<block_q2_K> : plain_format {
  static constexpr bool has_minimum = true;
  template <int V, bool Aligned = false>
  CRK_FN static coded<V> load(const block_q2_K *first, uint32_t at, uint32_t i) {
    const auto codes = words_at<V / 4, Aligned>(first, offsetof(block_q2_K, qs), at + i / 128 * 32 + i % 32);
    const uint32_t scale = byte_of(first, offsetof(block_q2_K, scales), at + i / 16);
    const uint32_t head = words_at<1, Aligned>(first, offsetof(block_q2_K, d), at).v[0];
    return {bits_from(codes, i / 32 % 4 * 2, 0x03030303), f16_low(head) * static_cast<float>(scale & 15),
            -(f16_high(head) * static_cast<float>(scale >> 4))};
  }
};

template <>
struct format<block_q3_K> : plain_format {
  static constexpr int zero = 4;
  template <int V, bool Aligned = false>
  CRK_FN static coded<V> load(const block_q3_K *first, uint32_t at, uint32_t i) {
    const uint32_t group = i / 16;
    const auto codes = words_at<V / 4, Aligned>(first, offsetof(block_q3_K, qs), at + i / 128 * 32 + i % 32);
    const auto third = words_at<V / 4, Aligned>(first, offsetof(block_q3_K, hmask), at + i % 32);
    const uint32_t low = byte_of(first, offsetof(block_q3_K, scales), at + group % 8) >> group / 8 * 4 & 15;
    const uint32_t high = byte_of(first, offsetof(block_q3_K, scales) + 8, at + group % 4) >> group / 4 * 2 & 3;
    const float d = half_of(first, offsetof(block_q3_K, d), at);
    return {put_above(bits_from(codes, i / 32 % 4 * 2, 0x03030303), bits_from(third, i / 32, 0x01010101), 2),
            d * static_cast<float>(static_cast<int32_t>(low | high << 4) - 32), 0.0f};
  }
};

/* q4_K and q5_K begin alike: d and dmin, then 12 bytes with a scale and a minimum of 6 bits for each group of 32. For
 * groups 0 to 3 they are the low bits of bytes 0 to 7: four scales, then four minima. For groups 4 to 7 the low four
 * bits are in bytes 8 to 11, the scales in the low halves. The upper two bits are the highest bits of bytes 0 to 7. */
struct scale_and_minimum {
  float scale, minimum;
};
template <bool Aligned>
CRK_FN scale_and_minimum load_scale_and_minimum(const void *first, uint32_t at, uint32_t group) {
  const pack<uint32_t, 4> head = words_at<4, Aligned>(first, 0, at);
  const uint32_t shift = group % 4 * 8;
  const uint32_t a = head.v[1] >> shift, b = head.v[2] >> shift, c = head.v[3] >> shift;
  const uint32_t scale = group < 4 ? a & 63 : (c & 15) | (a >> 2 & 48);
  const uint32_t minimum = group < 4 ? b & 63 : (c >> 4 & 15) | (b >> 2 & 48);
  return {f16_low(head.v[0]) * static_cast<float>(scale), -(f16_high(head.v[0]) * static_cast<float>(minimum))};
}

template <>
struct format<block_q4_K> : plain_format {
  static constexpr bool has_minimum = true;
  template <int V, bool Aligned = false>
  CRK_FN static coded<V> load(const block_q4_K *first, uint32_t at, uint32_t i) {
    const auto codes = words_at<V / 4, Aligned>(first, offsetof(block_q4_K, qs), at + i / 64 * 32 + i % 32);
    const scale_and_minimum group = load_scale_and_minimum<Aligned>(first, at, i / 32);
    return {bits_from(codes, i / 32 % 2 * 4, 0x0f0f0f0f), group.scale, group.minimum};
  }
};

template <>
struct format<block_q5_K> : plain_format {
  static constexpr bool has_minimum = true;
  template <int V, bool Aligned = false>
  CRK_FN static coded<V> load(const block_q5_K *first, uint32_t at, uint32_t i) {
    const auto codes = words_at<V / 4, Aligned>(first, offsetof(block_q5_K, qs), at + i / 64 * 32 + i % 32);
    const auto fifth = words_at<V / 4, Aligned>(first, offsetof(block_q5_K, qh), at + i % 32);
    const scale_and_minimum group = load_scale_and_minimum<Aligned>(first, at, i / 32);
    return {put_above(bits_from(codes, i / 32 % 2 * 4, 0x0f0f0f0f), bits_from(fifth, i / 32, 0x01010101), 4),
            group.scale, group.minimum};
  }
};

template <>
struct format<block_q6_K> : plain_format {
  static constexpr int zero = 32;
  template <int V, bool Aligned = false>
  CRK_FN static coded<V> load(const block_q6_K *first, uint32_t at, uint32_t i) {
    const auto low = words_at<V / 4, Aligned>(first, offsetof(block_q6_K, ql), at + i / 128 * 64 + i % 64);
    const auto high = words_at<V / 4, Aligned>(first, offsetof(block_q6_K, qh), at + i / 128 * 32 + i % 32);
    const auto scale = static_cast<int8_t>(byte_of(first, offsetof(block_q6_K, scales), at + i / 16));
    return {put_above(bits_from(low, i / 64 % 2 * 4, 0x0f0f0f0f), bits_from(high, i / 32 % 4 * 2, 0x03030303), 4),
            half_of(first, offsetof(block_q6_K, d), at) * static_cast<float>(scale), 0.0f};
  }
};

/* Code k minus the format's zero. */
template <class B, int V>
CRK_FN float code_of(const coded<V> &c, int k) {
  const uint32_t byte = c.code.v[k / 4] >> k % 4 * 8;
  if constexpr (format<B>::has_sign) {
    return static_cast<float>(static_cast<int8_t>(byte));
  } else {
    return static_cast<float>(byte & 0xff) - static_cast<float>(format<B>::zero);
  }
}

/* The elements. `Fused` matters only for q4_0: Candle's dequantize_block kernels compute it as d * code - 8 * d. The
 * result differs from d * (code - 8) in the sign of zero, and where d is infinite. */
template <class B, bool Fused, int V>
CRK_FN pack<float, V> values_of(const coded<V> &c) {
  constexpr bool fused = Fused && same<B, block_q4_0>;
  pack<float, V> values;
  CRK_UNROLL
  for (int k = 0; k < V; k++) {
    if constexpr (fused) {
      values.v[k] = fma(c.scale, static_cast<float>(c.code.v[k / 4] >> k % 4 * 8 & 0xff), c.minimum);
    } else if constexpr (format<B>::has_minimum) {
      values.v[k] = fma(c.scale, code_of<B>(c, k), c.minimum);
    } else {
      values.v[k] = product(c.scale, code_of<B>(c, k));
    }
  }
  return values;
}

/* Stores V floats as T, with one access if dst is aligned to it. */
template <class T, int V>
CRK_FN void store_values(T *dst, const pack<float, V> &values) {
  const pack<T, V> out = convert_pack<T>(values);
  constexpr uintptr_t alignment = sizeof(out) < 16 ? sizeof(out) : 16;
  if (reinterpret_cast<uintptr_t>(dst) % alignment == 0) {
    store_pack(dst, out);
  } else {
    CRK_UNROLL
    for (int k = 0; k < V; k++) {
      dst[k] = out.v[k];
    }
  }
}

/* Loads V elements of a row of blocks from element i on; i is below 2^32. */
template <class B, int V>
CRK_FN coded<V> load_elements(const B *row, uint32_t i) {
  constexpr uint32_t elements = block_elements<B>;
  return format<B>::template load<V>(row, i / elements * static_cast<uint32_t>(sizeof(B)), i % elements);
}

}  // namespace crk

#endif
