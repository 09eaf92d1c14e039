/* platform/stream.h for NVIDIA GPUs. */
#ifndef CRK_PLATFORM_CUDA_STREAM_H
#define CRK_PLATFORM_CUDA_STREAM_H

#include "platform/cuda/threads.h"
#include "platform/cuda/workarounds.h"

#if !defined(CRK_STREAM_CORES)
#define CRK_STREAM_CORES 1
#endif
namespace crk {

inline constexpr uint32_t stream_waves = 8;

}  // namespace crk

#if CRK_STREAM_CORES
namespace crk {

/* mma multiplies 16 rows with 8 columns. Keys and numbers of values are its rows, query rows its columns. Lanes 4 g to
 * 4 g + 3 hold rows g and g + 8, and column g of the right operand. */
template <class T>
struct stream_core {
  static constexpr int rows = 8, tall = 2, columns = 2, step = 32, key_packs = 2, row_packs = 1, value_keys = 4,
                       value_lanes = 8;
  static constexpr int most_width = 512, most_ahead = 192, most_first = 192, most_values = 8, padding = 8;
  static constexpr bool stages_keys = false;
  struct results {
    float x[4];
    CRK_FN float at(int k, int c) const { return x[2 * k + c]; }
    CRK_FN void set(int k, int c, float value) { x[2 * k + c] = value; }
  };
  struct weights {
    uint32_t word[2];
  };
  CRK_FN static uint32_t group() { return lane() / 4; }
  CRK_FN static uint32_t place() { return lane() % 4; }
  CRK_FN static uint32_t result_key(int k) { return group() + 8 * k; }
  CRK_FN static uint32_t result_row(int c) { return 2 * place() + c; }
  template <class Op>
  CRK_FN static float over_keys(float x, Op op) {
    x = op(x, exchange_xor<4>(x));
    x = op(x, exchange_xor<8>(x));
    return op(x, exchange_xor<16>(x));
  }
  CRK_FN static uint32_t keys_of(int k, uint64_t lanes) {
    uint32_t keys = 0;
    CRK_UNROLL
    for (int g = 0; g < 8; g++) {
      keys |= (lanes >> 4 * g & 0xf) != 0 ? 1u << (g + 8 * k) : 0;
    }
    return keys;
  }

  CRK_FN static uint32_t first_key() { return group(); }
  CRK_FN static constexpr uint32_t next_key(int p) { return 8 * p; }
  CRK_FN static uint32_t first_row() { return group(); }
  CRK_FN static uint32_t first_number() { return 8 * place(); }
  CRK_FN static constexpr uint32_t next_number(int) { return 0; }

  CRK_FN static void multiply(uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1,
                              results &sums) {
    float(&x)[4] = sums.x;
    if constexpr (same<T, f16>) {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
          : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    } else {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
          : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
  }
  CRK_FN static void add_scores(const pack<uint32_t, 4> (&key)[key_packs], const pack<uint32_t, 4> (&row)[row_packs],
                                results &sums) {
    CRK_UNROLL
    for (int i = 0; i < 4; i += 2) {
      multiply(key[0].v[i], key[1].v[i], key[0].v[i + 1], key[1].v[i + 1], row[0].v[i], row[0].v[i + 1], sums);
    }
  }

  template <int Width>
  static constexpr int value_numbers = Width % 64 == 0 ? 8 : 4;
  template <int E>
  static constexpr int products = E / 2;
  CRK_FN static uint32_t value_lane() { return group(); }
  CRK_FN static uint32_t first_value_key() { return 2 * place(); }
  CRK_FN static constexpr uint32_t next_value_key(int i) { return i / 2 * 8 + i % 2; }
  template <int E>
  CRK_FN static uint32_t value_number(int k) {
    return group() * E + k * (E / 2);
  }
  static constexpr float gain = 1.0f, log2_gain = 0.0f;
  CRK_FN static weights to_weights(const results &values, void *) {
    weights to;
    CRK_UNROLL
    for (int k = 0; k < 2; k++) {
      const uint32_t pair = bit_cast<uint32_t>(pack<T, 2>{{T(values.at(k, 0)), T(values.at(k, 1))}});
      asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to.word[k]) : "r"(pair));
    }
    return to;
  }
  template <int E>
  CRK_FN static void add_values(const pack<uint32_t, E / 2> (&value)[value_keys], const weights &weight,
                                results (&sums)[products<E>]) {
    CRK_UNROLL
    for (int j = 0; j < products<E>; j++) {
      const uint32_t halves = j % 2 == 0 ? 0x05040100u : 0x07060302u;
      const int first = j / 2, second = first + E / 4;
      multiply(permute_bytes(value[0].v[first], value[1].v[first], halves),
               permute_bytes(value[0].v[second], value[1].v[second], halves),
               permute_bytes(value[2].v[first], value[3].v[first], halves),
               permute_bytes(value[2].v[second], value[3].v[second], halves), weight.word[0], weight.word[1], sums[j]);
    }
  }
};

}  // namespace crk
#endif

#endif
