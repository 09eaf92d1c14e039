/* Quantized weights times many columns of activations, through tiles in shared memory. */
#ifndef CRK_MATMAT_H
#define CRK_MATMAT_H

#include "matvec.h"

namespace crk {

/* A step along k: 128 elements, four pieces a row in every format. */
enum {
  tile_halves = 8,
  tile_pieces = 4,
  tile_stride = 4 * tile_halves + 4 /* words; 4 more spread the rows over the banks */
};

/* The tile of `Rows` rows of weights and `Columns` columns of activations that is in shared memory. Codes have their zero
 * subtracted unless the format's sum of values does that. A format with a scale for 32 elements has one for two halves. */
template <class B, int Rows, int Columns>
struct tile {
  using Q = quant<B>;
  static constexpr bool by_values = Q::mat_by_values, pairs = block_elements<B> == 32 || by_values;
  static constexpr int scales = pairs ? tile_halves / 2 : tile_halves;
  static constexpr bool has_rest = Q::has_minimum || (by_values && static_cast<int>(Q::zero) != 0);
  uint32_t *weights; /* [Rows][tile_stride] */
  uint32_t *activation; /* [Columns][tile_stride] */
  float *scale, *minimum; /* [scales][Rows] */
  float *d, *sum; /* [scales][Columns]: the columns' scale, and what a minimum or a zero is multiplied with */
};

/* Rows from `row` on, elements from piece `step` on; `rows` and `pieces` are the matrix's, beyond them are zeros. */
template <class B, int Rows, int Columns>
CRK_FN void load_weights(const tile<B, Rows, Columns> &t, const B *weights, uint64_t row_blocks, uint32_t row,
                         uint32_t rows, uint32_t step, uint32_t pieces) {
  using T = tile<B, Rows, Columns>;
  using Q = typename T::Q;
  const uint32_t threads = threads_of_block();
  CRK_NO_UNROLL
  for (uint32_t i = thread_in_block(); i < Rows * tile_pieces; i += threads) {
    const uint32_t r = i / tile_pieces, p = step + i % tile_pieces, part = p % Q::pieces;
    const bool inside = row + r < rows && p < pieces;
    piece w = {};
    if (inside) {
      w = Q::load(weights + (row + r) * row_blocks + p / Q::pieces, part);
    }
    /* In the tile: blocks of 32 follow each other; of 256, the tile is one half. */
    const uint32_t first = Q::pieces == 1 ? 2 * (i % tile_pieces) : Q::first(part) % tile_halves;
    CRK_UNROLL
    for (int h = 0; h < 2; h++) {
      const uint32_t half = first + h * Q::distance;
      const codes16 codes = T::by_values ? w.code[h] : subtract<static_cast<int>(Q::zero)>(w.code[h]);
      store_pack(t.weights + r * tile_stride + 4 * half, codes);
      if (!T::pairs || half % 2 == 0) {
        const uint32_t at = (T::pairs ? half / 2 : half) * Rows + r;
        t.scale[at] = w.scale[h];
        if (T::has_rest) {
          t.minimum[at] = Q::has_minimum ? w.minimum[h] : -static_cast<int>(Q::zero) * w.scale[h];
        }
      }
    }
  }
}

/* Columns from `column` on of `columns`, which are `column_blocks` apart; elements from block `step` on of `blocks`. */
template <class B, int Rows, int Columns>
CRK_FN void load_columns(const tile<B, Rows, Columns> &t, const block_q8_1 *y, uint64_t column_blocks, uint32_t column,
                         uint32_t columns, uint32_t step, uint32_t blocks) {
  using T = tile<B, Rows, Columns>;
  const uint32_t threads = threads_of_block();
  CRK_NO_UNROLL
  for (uint32_t i = thread_in_block(); i < Columns * tile_halves; i += threads) {
    const uint32_t c = i / tile_halves, half = i % tile_halves, block = step + half / 2;
    activations16 x = {};
    if (column + c < columns && block < blocks) {
      x = load_activations<T::by_values>(y + (column + c) * column_blocks, 2 * step + half);
    }
    store_pack(t.activation + c * tile_stride + 4 * half, x.code);
    if (!T::pairs || half % 2 == 0) {
      const uint32_t at = (T::pairs ? half / 2 : half) * Columns + c;
      t.d[at] = x.d;
      if (T::has_rest) {
        t.sum[at] = T::by_values ? x.value_sum : x.d * static_cast<float>(x.code_sum);
      }
    }
  }
}

/* The part of a tile that a thread of `Across` x (threads / Across) makes: rows `down` + i * (Rows / Height), columns
 * `across` + j * (Columns / Width). */
template <class B, int Rows, int Columns, int Height, int Width>
CRK_FN void multiply_tile(const tile<B, Rows, Columns> &t, uint32_t down, uint32_t across,
                          float (&sum)[Height][Width]) {
  using T = tile<B, Rows, Columns>;
  constexpr int halves = T::pairs ? 2 : 1;
  CRK_NO_UNROLL
  for (int g = 0; g < T::scales; g++) {
    codes16 x[Width][halves];
    float d[Width], rest[Width];
    CRK_UNROLL
    for (int j = 0; j < Width; j++) {
      const uint32_t c = across + j * (Columns / Width);
      CRK_UNROLL
      for (int h = 0; h < halves; h++) {
        x[j][h] = load_aligned16(t.activation + c * tile_stride + 4 * (halves * g + h));
      }
      d[j] = t.d[g * Columns + c];
      rest[j] = T::has_rest ? t.sum[g * Columns + c] : 0.0f;
    }
    CRK_UNROLL
    for (int i = 0; i < Height; i++) {
      const uint32_t r = down + i * (Rows / Height);
      codes16 w[halves];
      CRK_UNROLL
      for (int h = 0; h < halves; h++) {
        w[h] = load_aligned16(t.weights + r * tile_stride + 4 * (halves * g + h));
      }
      const float scale = t.scale[g * Rows + r], minimum = T::has_rest ? t.minimum[g * Rows + r] : 0.0f;
      CRK_UNROLL
      for (int j = 0; j < Width; j++) {
        int32_t dot = 0;
        CRK_UNROLL
        for (int h = 0; h < halves; h++) {
          dot = dot16(w[h], x[j][h], dot);
        }
        float part = (scale * d[j]) * static_cast<float>(dot);
        if (T::has_rest) {
          part = fma(minimum, rest[j], part);
        }
        sum[i][j] += part;
      }
    }
  }
}

/* dst[column][row] for the tile at (row, column), by a block of `Threads` threads. */
template <class B, int Rows, int Columns, int Threads, int Down>
CRK_FN void mul_mat_tile(const tile<B, Rows, Columns> &t, const B *weights, const block_q8_1 *y, float *dst,
                         uint32_t cols, uint32_t rows, uint32_t columns, uint64_t column_blocks, uint64_t dst_rows,
                         uint32_t row, uint32_t column) {
  constexpr int Across = Threads / Down, Height = Rows / Down, Width = Columns / Across;
  const uint64_t row_blocks = cols / block_elements<B>;
  const uint32_t down = thread_in_block() % Down, across = thread_in_block() / Down;
  const uint32_t pieces = static_cast<uint32_t>(row_blocks) * quant<B>::pieces;
  float sum[Height][Width] = {};
  CRK_NO_UNROLL
  for (uint32_t step = 0; step < pieces; step += tile_pieces) {
    load_weights(t, weights, row_blocks, row, rows, step, pieces);
    load_columns(t, y, column_blocks, column, columns, step, pieces);
    barrier();
    multiply_tile(t, down, across, sum);
    barrier();
  }
  CRK_UNROLL
  for (int j = 0; j < Width; j++) {
    const uint32_t c = column + across + j * Across;
    CRK_UNROLL
    for (int i = 0; i < Height; i++) {
      const uint32_t r = row + down + i * Down;
      if (r < rows && c < columns) {
        dst[c * dst_rows + r] = sum[i][j];
      }
    }
  }
}

/* By Candle's arguments and geometry: block (x, y) of (32, 4) threads makes rows x * Rows on and columns y * Columns on of dst, in
 * `Parts` parts one after the other: the accumulators of all would not fit a thread's registers, nor every GPU's shared memory
 * a tile of 128 x 128. */
template <class B, int Rows, int Columns, int Parts>
CRK_FN void mul_mat(const void *weights, const void *activations, float *dst, int32_t cols, int32_t rows,
                    int32_t columns, int32_t padded_cols, int32_t dst_rows) {
  constexpr int Width = Columns / Parts;
  using T = tile<B, Rows, Width>;
  CRK_SHARED(uint32_t, tile_weights, Rows *tile_stride);
  CRK_SHARED(uint32_t, tile_activation, Width *tile_stride);
  CRK_SHARED(float, tile_scale, T::scales *Rows);
  CRK_SHARED(float, tile_minimum, T::has_rest ? T::scales *Rows : 1);
  CRK_SHARED(float, tile_d, T::scales *Width);
  CRK_SHARED(float, tile_sum, T::has_rest ? T::scales *Width : 1);
  const T t = {tile_weights, tile_activation, tile_scale, tile_minimum, tile_d, tile_sum};
  const uint32_t stored_rows = static_cast<uint32_t>(rows < dst_rows ? rows : dst_rows);
  CRK_NO_UNROLL
  for (int part = 0; part < Parts; part++) {
    mul_mat_tile<B, Rows, Width, 128, Rows / 8 < 16 ? 8 : 16>(
        t, static_cast<const B *>(weights), static_cast<const block_q8_1 *>(activations), dst, cols, stored_rows,
        columns, padded_cols / 32, dst_rows, block_index().x * Rows, block_index().y * Columns + part * Width);
  }
}

}  // namespace crk

#endif
