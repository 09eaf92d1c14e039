/* platform/stream.h for AMD GPUs. */
#ifndef CRK_PLATFORM_HIP_STREAM_H
#define CRK_PLATFORM_HIP_STREAM_H

#include "platform/hip/matrix_half.h"

#if !defined(CRK_STREAM_CORES)
#if CRK_ARCH_MATRIX != CRK_MATRIX_NONE
#define CRK_STREAM_CORES 1
#else
#define CRK_STREAM_CORES 0
#endif
#endif
namespace crk {

inline constexpr uint32_t stream_waves = 4;

}  // namespace crk

#if CRK_STREAM_CORES
namespace crk {

/* The parts of stream_core that depend on the kind of matrix core. key_of(group, k) is the k-th key of a group of 16
 * lanes in a result. Keys and numbers of values are the rows of a
 * product, query rows its columns. The order of the numbers along a product does not matter, as long as both operands
 * have the same. */
#if CRK_ARCH_MATRIX == CRK_MATRIX_WMMA3
/* Lanes 16 to 31 hold the same operands as lanes 0 to 15. */
struct stream_layout {
  static constexpr int tall = 8, step = 16, key_packs = 2, value_keys = 16, most_width = 128, most_ahead = 128,
                       most_first = 96, padding = half_padding, most_values = 16;
  CRK_FN static constexpr uint32_t key_of(uint32_t group, int k) { return group + 2 * k; }
  CRK_FN static uint32_t first_number() { return 0; }
  CRK_FN static constexpr uint32_t next_number(int p) { return 8 * p; }
  CRK_FN static uint32_t first_value_key() { return 0; }
  /* First the even keys, which lanes 0 to 15 have in results, then the odd ones. */
  CRK_FN static constexpr uint32_t next_value_key(int i) { return i % 8 * 2 + i / 8; }
};
#elif CRK_ARCH_MATRIX == CRK_MATRIX_WMMA4
struct stream_layout {
  static constexpr int tall = 8, step = 16, key_packs = 1, value_keys = 8, most_width = 256, most_ahead = 128,
                       most_first = 128, padding = half_padding, most_values = 8;
  CRK_FN static constexpr uint32_t key_of(uint32_t group, int k) { return group * 8 + k; }
  CRK_FN static uint32_t first_number() { return lane() / 16 * 8; }
  CRK_FN static constexpr uint32_t next_number(int) { return 0; }
  CRK_FN static uint32_t first_value_key() { return lane() / 16 * 8; }
  CRK_FN static constexpr uint32_t next_value_key(int i) { return i; }
};
#else
struct stream_layout {
#if CRK_ARCH_MATRIX == CRK_MATRIX_MFMA4
  static constexpr int most_width = 256;
#else
  static constexpr int most_width = 512;
#endif
  static constexpr int tall = 4, step = 32, key_packs = 1, value_keys = 4, most_ahead = 512, most_first = 512,
                       most_values = 16, padding = half_padding;
  CRK_FN static constexpr uint32_t key_of(uint32_t group, int k) { return group * 4 + k; }
  CRK_FN static uint32_t first_number() { return lane() / 16 * 8; }
  CRK_FN static constexpr uint32_t next_number(int) { return 0; }
  CRK_FN static uint32_t first_value_key() { return lane() / 16 * 4; }
  CRK_FN static constexpr uint32_t next_value_key(int i) { return i; }
};
#endif

template <class T>
struct stream_core : stream_layout {
  static constexpr bool stages_keys = true;
  static constexpr int rows = 16, columns = 1, row_packs = key_packs, value_lanes = 16, words = value_keys / 2;
  typedef float floats __attribute__((ext_vector_type(tall)));
  struct results {
    floats x;
    CRK_FN float at(int k, int) const { return x[k]; }
    CRK_FN void set(int k, int, float value) { x[k] = value; }
  };
  struct weights {
    uint32_t word[words];
  };
  CRK_FN static uint32_t result_key(int k) { return key_of(lane() / 16, k); }
  CRK_FN static uint32_t result_row(int) { return lane() % 16; }
  template <class Op>
  CRK_FN static float over_keys(float x, Op op) {
    return over_rows16(x, op);
  }
  CRK_FN static uint32_t keys_of(int k, uint64_t lanes) {
    uint32_t keys = 0;
    CRK_UNROLL
    for (uint32_t g = 0; g < most_lanes / 16; g++) {
      keys |= (lanes >> 16 * g & 0xffff) != 0 ? 1u << key_of(g, k) : 0;
    }
    return keys;
  }
  CRK_FN static uint32_t first_key() { return lane() % 16; }
  CRK_FN static uint32_t first_row() { return lane() % 16; }

  /* sums += a * b, where an operand has `words` words per lane. */
  CRK_FN static void multiply(const uint32_t (&a)[words], const uint32_t (&b)[words], results &sums) {
    typedef _Float16 f16s __attribute__((ext_vector_type(2 * words)));
#if CRK_ARCH_MATRIX != CRK_MATRIX_MFMA1
    typedef short bf16s __attribute__((ext_vector_type(2 * words)));
#endif
    typedef uint32_t all __attribute__((ext_vector_type(words)));
    all x, y;
    CRK_UNROLL
    for (int i = 0; i < words; i++) {
      x[i] = a[i];
      y[i] = b[i];
    }
#if CRK_ARCH_MATRIX == CRK_MATRIX_WMMA3
    if constexpr (same<T, f16>) {
      sums.x = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(bit_cast<f16s>(x), bit_cast<f16s>(y), sums.x);
    } else {
      sums.x = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(bit_cast<bf16s>(x), bit_cast<bf16s>(y), sums.x);
    }
#elif CRK_ARCH_MATRIX == CRK_MATRIX_WMMA4
    if constexpr (same<T, f16>) {
      sums.x = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(bit_cast<f16s>(x), bit_cast<f16s>(y), sums.x);
    } else {
      sums.x = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(bit_cast<bf16s>(x), bit_cast<bf16s>(y), sums.x);
    }
#else
    if constexpr (same<T, f16>) {
      sums.x = __builtin_amdgcn_mfma_f32_16x16x16f16(bit_cast<f16s>(x), bit_cast<f16s>(y), sums.x, 0, 0, 0);
    } else {
#if CRK_ARCH_MATRIX == CRK_MATRIX_MFMA1
      typedef short pair __attribute__((ext_vector_type(2)));
      CRK_UNROLL
      for (int i = 0; i < words; i++) {
        sums.x = __builtin_amdgcn_mfma_f32_16x16x8bf16(bit_cast<pair>(a[i]), bit_cast<pair>(b[i]), sums.x, 0, 0, 0);
      }
#else
      sums.x = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bit_cast<bf16s>(x), bit_cast<bf16s>(y), sums.x, 0, 0, 0);
#endif
    }
#endif
  }
  CRK_FN static void add_scores(const pack<uint32_t, 4> (&key)[key_packs], const pack<uint32_t, 4> (&row)[row_packs],
                                results &sums) {
    CRK_UNROLL
    for (int i = 0; i < 4 * key_packs; i += words) {
      uint32_t a[words], b[words];
      CRK_UNROLL
      for (int j = 0; j < words; j++) {
        a[j] = key[(i + j) / 4].v[(i + j) % 4];
        b[j] = row[(i + j) / 4].v[(i + j) % 4];
      }
      multiply(a, b, sums);
    }
  }

  template <int Width>
  static constexpr int value_numbers = Width % 128 == 0  ? 8
                                       : Width % 96 == 0 ? 6
                                                         : 4;
  template <int E>
  static constexpr int products = E;
  CRK_FN static uint32_t value_lane() { return lane() % 16; }
  template <int E>
  CRK_FN static uint32_t value_number(int k) {
    return result_key(k) * E;
  }
  /* Two numbers, rounded toward 0. */
  CRK_FN static uint32_t cut_halves(float low, float high) {
    if constexpr (same<T, f16>) {
      return bit_cast<uint32_t>(__builtin_amdgcn_cvt_pkrtz(low, high));
    } else {
      return permute_bytes(bit_cast<uint32_t>(low), bit_cast<uint32_t>(high), 0x07060302u);
    }
  }
  /* A number of T is a power of 2 times k, with k from 2^p to 2^(p + 1) - 1, and gain is 1 + 2^-(p + 1). If a weight
   * times gain is in [k, k + 1), it becomes k. Then k is at most gain times the weight, and at least gain * k / (k + 1)
   * times it, which is above 1 - 2^-(p + 1). So the relative error is at most 2^-(p + 1). Rounding to nearest would
   * make it up to 2^-p here. */
  static constexpr float gain = same<T, f16> ? 1.0f + 0x1p-11f : 1.0f + 0x1p-8f;
  static constexpr float log2_gain = same<T, f16> ? 0x1.713d63p-11f : 0x1.709c47p-8f;
  CRK_FN static weights to_weights(const results &values, void *room) {
    weights to;
    CRK_UNROLL
    for (int i = 0; i < tall / 2; i++) {
      to.word[i] = cut_halves(values.x[2 * i], values.x[2 * i + 1]);
    }
#if CRK_ARCH_MATRIX == CRK_MATRIX_WMMA3
    words16 *const pieces = static_cast<words16 *>(room) + lane() % 16 * 2;
    wave_barrier();
    pieces[lane() / 16] = words16{to.word[0], to.word[1], to.word[2], to.word[3]};
    wave_barrier();
    CRK_UNROLL
    for (int i = 0; i < words; i++) {
      to.word[i] = pieces[i / 4][i % 4];
    }
#endif
    return to;
  }
  template <int E>
  CRK_FN static void add_values(const pack<uint32_t, E / 2> (&value)[value_keys], const weights &weight,
                                results (&sums)[products<E>]) {
    CRK_UNROLL
    for (int j = 0; j < E; j++) {
      uint32_t a[words];
      CRK_UNROLL
      for (int i = 0; i < words; i++) {
        a[i] = permute_bytes(value[2 * i].v[j / 2], value[2 * i + 1].v[j / 2], j % 2 == 0 ? 0x05040100u : 0x07060302u);
      }
      multiply(a, weight.word, sums[j]);
    }
  }
};

}  // namespace crk
#endif

#endif
