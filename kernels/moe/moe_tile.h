/* Mixtures of experts in floating point: moe_tiles multiplies an expert's weights with the tokens of a run, in tiles
 * through shared memory. Both operands are f16 or bf16 in the tiles (quantized weights are dequantized on the way),
 * sums are f32. These kernels are for many tokens per expert: each weight is decoded once per run, not once per token.
 *
 * This tile engine shares no code with matmul/matmul_tile.h and quantized/matmat.h yet. It differs from them in that it
 * gathers the rows of x by token. */
#ifndef CRK_MOE_TILE_H
#define CRK_MOE_TILE_H

#include "moe/moe.h"
#include "numbers/dot.h"
#include "numbers/dot_half.h"
#include "numbers/wave.h"
#include "quantized/dequantize.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* 16 bytes: eight numbers of T. */
using eight = codes16;

template <class T>
CRK_FN eight pack_eight(const pack<T, 8> &numbers) {
  return bit_cast<eight>(numbers);
}

/* Returns the numbers, or zeros if they are beyond the end of the row. */
CRK_FN eight unless_beyond(bool beyond, eight numbers) {
  CRK_UNROLL
  for (int p = 0; p < 4; p++) {
    numbers.v[p] = beyond ? 0 : numbers.v[p];
  }
  return numbers;
}

/* Elements i to i + 8 of a row of `k` elements, a multiple of 8. */
template <class T>
CRK_FN eight load_eight(const T *row, uint32_t i, uint32_t k) {
  return unless_beyond(i >= k, pack_eight(load_pack<T, 8>(row + (i < k ? i : 0))));
}

/* Weights that are numbers of T, in rows of k. */
template <class T>
struct number_weights {
  using element = T;
  const T *first;
  CRK_FN const T *row(uint32_t expert, uint32_t row, const crk_moe_t &shape) const {
    return first + (static_cast<uint64_t>(expert) * shape.rows + row) * shape.k;
  }
  CRK_FN static eight load(const T *row, uint32_t i, uint32_t k) { return load_eight(row, i, k); }
};

/* Eight numbers of a block, rounded as in Candle's dequantize_block_<type><T> of moe/gguf.cuh. For blocks of 256, the
 * products of d and dmin with their scales are rounded to f16. Then one f16 fma computes d times the code less the
 * minimum, and the result is converted to T. q2_K first multiplies scale and code exactly, as Candle does in integers;
 * q6_K does so with scale and signed code. q8_0 and the formats that Candle's function lacks are computed in f32 and
 * rounded to T. */
template <class B, class T>
CRK_FN eight numbers_of(const B *first, uint32_t at, uint32_t i) {
  constexpr bool halves = block_elements<B> == 256;
  const coded<8> c = format<B>::template load<8>(first, at, i);
  pack<T, 8> out;
  if constexpr (!halves) {
    out = convert_pack<T>(values_of<B, false>(c));
  } else {
    f16 d(c.scale), minimum(c.minimum);
    float scale = 1.0f;
    if constexpr (same<B, block_q2_K>) {
      d = f16(f16_low(words_at<1>(first, offsetof(block_q2_K, d), at).v[0]));
      scale = static_cast<float>(byte_of(first, offsetof(block_q2_K, scales), at + i / 16) & 15);
    } else if constexpr (same<B, block_q6_K>) {
      d = f16(half_of(first, offsetof(block_q6_K, d), at));
      scale = static_cast<float>(static_cast<int8_t>(byte_of(first, offsetof(block_q6_K, scales), at + i / 16)));
    }
    CRK_UNROLL
    for (int k = 0; k < 8; k++) {
      const f16 code(scale * code_of<B>(c, k));
      if constexpr (format<B>::has_minimum) {
        out.v[k] = convert<T>(fma(d, code, minimum));
      } else {
        out.v[k] = convert<T>(d * code);
      }
    }
  }
  return pack_eight(out);
}

/* Weights in quantized blocks. */
template <class B, class T>
struct block_weights {
  using element = T;
  const B *first;
  CRK_FN const B *row(uint32_t expert, uint32_t row, const crk_moe_t &shape) const {
    return first + (static_cast<uint64_t>(expert) * shape.rows + row) * (shape.k / block_elements<B>);
  }
  CRK_FN static eight load(const B *row, uint32_t i, uint32_t k) {
    constexpr uint32_t elements = block_elements<B>;
    const uint32_t present = i < k ? i : 0;
    return unless_beyond(
        i >= k, numbers_of<B, T>(row, present / elements * static_cast<uint32_t>(sizeof(B)), present % elements));
  }
};

/* Sizes of a tile: rows of 64 numbers along k, and 16 extra bytes that spread the rows over the banks. */
enum {
  tile_k = CRK_MOE_TILE_ROWS,
  tile_eights = tile_k / 8,
  tile_pitch = tile_eights + 1,
  tile_down = 16, /* threads down a tile; each has every 16th row of weights */
  tile_across = CRK_MOE_TILE_THREADS / tile_down,
  tile_height = CRK_MOE_TILE_ROWS / tile_down,
  tile_loaders = CRK_MOE_TILE_THREADS / tile_eights /* threads per place along k; each loads every 32nd row and token */
};

/* Brings rows of 16-bit numbers into a tile of `Rows` rows. Each thread handles eight numbers of each of its rows.
 * fetch() calls load(n) for the thread's n-th row, put() stores the numbers in the tile. */
template <int Rows>
struct tile_part {
  static constexpr int loads = (Rows + tile_loaders - 1) / tile_loaders;
  eight numbers[loads];
  template <class Load>
  CRK_FN void fetch(Load load) {
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      numbers[n] = load(n);
    }
  }
  CRK_FN void put(aligned_codes16 *tile) const {
    const uint32_t down = thread_index().x / tile_eights, i = thread_index().x % tile_eights;
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      if (Rows >= tile_loaders || down < Rows) {
        static_cast<eight &>(tile[(down + n * tile_loaders) * tile_pitch + i]) = numbers[n];
      }
    }
  }
};

/* Adds the products of a step to the thread's part of the tile: every tile_down-th row and every tile_across-th
 * token. */
template <class T, int Width>
CRK_FN void multiply_tile(const aligned_codes16 *w_tile, const aligned_codes16 *x_tile,
                          float (&sum)[tile_height][Width]) {
  const aligned_codes16 *down = w_tile + thread_index().x % tile_down * tile_pitch;
  const aligned_codes16 *across = x_tile + thread_index().x / tile_down * tile_pitch;
  CRK_NO_UNROLL
  for (int i = 0; i < tile_eights; i++) {
    eight w[tile_height], x[Width];
    CRK_UNROLL
    for (int h = 0; h < tile_height; h++) {
      w[h] = down[h * tile_down * tile_pitch + i];
    }
    CRK_UNROLL
    for (int j = 0; j < Width; j++) {
      x[j] = across[j * tile_across * tile_pitch + i];
    }
    CRK_UNROLL
    for (int p = 0; p < 4; p++) {
      CRK_UNROLL
      for (int h = 0; h < tile_height; h++) {
        CRK_UNROLL
        for (int j = 0; j < Width; j++) {
          sum[h][j] = dot2<T>(w[h].v[p], x[j].v[p], sum[h][j]);
        }
      }
    }
  }
}

/* Multiplies a run's tokens with 64 rows of its expert's weights. Rows beyond the last repeat it, and tokens beyond the
 * run repeat its first; their results are not stored. */
template <int Tokens, class W, class U>
CRK_FN void moe_tile(const W &weights, const typename W::element *x, const routes &r, U *dst, const crk_moe_t &shape,
                     crk_fault_t fault, run run, uint32_t at, aligned_codes16 *w_tile, aligned_codes16 *x_tile) {
  using T = typename W::element;
  constexpr int Width = Tokens / tile_across;
  const uint32_t thread = thread_index().x, loader = thread / tile_eights, place = thread % tile_eights * 8;
  const uint32_t first_row = block_index().x * CRK_MOE_TILE_ROWS;
  tile_part<CRK_MOE_TILE_ROWS> w;
  tile_part<Tokens> y;
  decltype(weights.row(0, 0, shape)) w_row[w.loads];
  const T *x_row[y.loads];
  CRK_UNROLL
  for (int n = 0; n < w.loads; n++) {
    const uint32_t row = first_row + loader + n * tile_loaders;
    w_row[n] = weights.row(run.expert, row < shape.rows ? row : shape.rows - 1, shape);
  }
  CRK_UNROLL
  for (int n = 0; n < y.loads; n++) {
    const uint32_t c = loader + n * tile_loaders;
    const uint32_t token = token_at(r, shape, at + (c < run.count ? c : 0), fault, false);
    x_row[n] = x + static_cast<uint64_t>(input_of(shape, token)) * shape.input_stride;
  }
  const auto fetch = [&](uint32_t k) {
    w.fetch([&](int n) { return W::load(w_row[n], k + place, shape.k); });
    y.fetch([&](int n) { return load_eight(x_row[n], k + place, shape.k); });
  };
  float sum[tile_height][Width] = {};
  if (shape.k != 0) {
    fetch(0);
  }
  CRK_NO_UNROLL
  for (uint32_t k = 0; k < shape.k; k += tile_k) {
    w.put(w_tile);
    y.put(x_tile);
    barrier();
    if (k + tile_k < shape.k) {
      fetch(k + tile_k);
    }
    multiply_tile<T>(w_tile, x_tile, sum);
    barrier();
  }
  const uint32_t down = thread % tile_down, across = thread / tile_down;
  CRK_UNROLL
  for (int j = 0; j < Width; j++) {
    const uint32_t c = across + j * tile_across;
    if (c < run.count) {
      const uint32_t token = token_at(r, shape, at + c, fault, first_row + down == 0);
      CRK_UNROLL
      for (int h = 0; h < tile_height; h++) {
        const uint32_t row = first_row + down + h * tile_down;
        if (token < shape.positions && row < shape.rows) {
          dst[static_cast<uint64_t>(token) * shape.rows + row] = convert<U>(scaled(r, token, sum[h][j]));
        }
      }
    }
  }
}

/* dst[token][row] = scale * the sum over k of the weights times x[input][k], as U. Block (x, y) has 64 rows of weights.
 * A slot is CRK_MOE_SLOT positions. The block makes the runs that begin in slots y, y + blocks_y and so on; a run has
 * up to `Tokens` tokens. */
template <int Tokens, class W, class U>
CRK_FN void moe_tiles(const W &weights, const typename W::element *x, const routes &r, U *dst, const crk_moe_t &shape,
                      crk_fault_t fault) {
  CRK_SHARED(aligned_codes16, w_tile, CRK_MOE_TILE_ROWS * tile_pitch);
  CRK_SHARED(aligned_codes16, x_tile, Tokens * tile_pitch);
  const bool teller = block_index().x == 0 && thread_index().x == 0;
  for (uint32_t first = block_index().y * CRK_MOE_SLOT; first < shape.positions;
       first += shape.blocks_y * CRK_MOE_SLOT) {
    CRK_NO_UNROLL
    for (uint32_t at = first; at < first + CRK_MOE_SLOT && at < shape.positions; at++) {
      const run run = run_at<Tokens>(r, shape, at, fault, teller);
      if (run.count != 0) {
        moe_tile<Tokens>(weights, x, r, dst, shape, fault, run, at, w_tile, x_tile);
      }
    }
  }
}

}  // namespace
}  // namespace crk

#endif
