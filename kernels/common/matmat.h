/* Quantized weights times many columns of activations, through tiles in shared memory. */
#ifndef CRK_MATMAT_H
#define CRK_MATMAT_H

#include "matvec_fast.h"

namespace crk {
namespace { /* a template with shared memory would have a symbol of its own in the archive */

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

/* `rows` rows, `row_blocks` blocks long, from piece `step` of `pieces` on; zeros in the rest of the tile. */
template <class B, int Rows, int Columns>
CRK_FN void load_weights(const tile<B, Rows, Columns> &t, const B *weights, uint64_t row_blocks, uint32_t rows,
                         uint32_t step, uint32_t pieces) {
  using T = tile<B, Rows, Columns>;
  using Q = typename T::Q;
  const uint32_t threads = threads_of_block();
  CRK_NO_UNROLL
  for (uint32_t i = thread_in_block(); i < Rows * tile_pieces; i += threads) {
    const uint32_t r = i / tile_pieces, p = step + i % tile_pieces, part = p % Q::pieces;
    const bool inside = r < rows && p < pieces;
    piece w = {};
    if (inside) {
      w = Q::load(weights + r * row_blocks + p / Q::pieces, part);
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

/* `columns` columns of x from `column` on, from block `step` of `blocks` on; zeros in the rest of the tile. */
template <class B, int Rows, int Columns, class X>
CRK_FN void load_columns(const tile<B, Rows, Columns> &t, const X &x, uint64_t column, uint32_t columns, uint32_t step,
                         uint32_t blocks) {
  using T = tile<B, Rows, Columns>;
  const uint32_t threads = threads_of_block();
  CRK_NO_UNROLL
  for (uint32_t i = thread_in_block(); i < Columns * tile_halves; i += threads) {
    const uint32_t c = i / tile_halves, half = i % tile_halves, block = step + half / 2;
    activations16 some = {};
    if (c < columns && block < blocks) {
      some = load_activations<T::by_values>(x.row(column + c), 2 * step + half);
    }
    store_pack(t.activation + c * tile_stride + 4 * half, some.code);
    if (!T::pairs || half % 2 == 0) {
      const uint32_t at = (T::pairs ? half / 2 : half) * Columns + c;
      t.d[at] = some.d;
      if (T::has_rest) {
        t.sum[at] = T::by_values ? some.value_sum : some.d * static_cast<float>(some.code_sum);
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

/* store(column, row, value) for every element of the tile at (row, column), by a block of `Threads` threads: `Down` of them down
 * the rows. */
template <class B, int Rows, int Columns, int Threads, int Down, class X, class Store>
CRK_FN void mul_mat_tile(const tile<B, Rows, Columns> &t, const B *weights, const X &x, uint64_t row_blocks,
                         uint64_t rows, uint64_t columns, uint64_t row, uint64_t column, Store store) {
  constexpr int Across = Threads / Down, Height = Rows / Down, Width = Columns / Across;
  const uint32_t down = thread_in_block() % Down, across = thread_in_block() / Down;
  const uint64_t rows_left = row < rows ? rows - row : 0, columns_left = column < columns ? columns - column : 0;
  const uint32_t pieces = static_cast<uint32_t>(row_blocks) * quant<B>::pieces;
  const uint32_t height = rows_left < Rows ? static_cast<uint32_t>(rows_left) : Rows;
  const uint32_t width = columns_left < Columns ? static_cast<uint32_t>(columns_left) : Columns;
  float sum[Height][Width] = {};
  CRK_NO_UNROLL
  for (uint32_t step = 0; step < pieces; step += tile_pieces) {
    load_weights(t, weights + row * row_blocks, row_blocks, height, step, pieces);
    load_columns(t, x, column, width, step, pieces);
    barrier();
    multiply_tile(t, down, across, sum);
    barrier();
  }
  CRK_UNROLL
  for (int j = 0; j < Width; j++) {
    const uint32_t c = across + j * Across;
    CRK_UNROLL
    for (int i = 0; i < Height; i++) {
      const uint32_t r = down + i * Down;
      if (r < height && c < width) {
        store(column + c, row + r, sum[i][j]);
      }
    }
  }
}

/* A tile's shared memory. */
#define CRK_TILE(name, B, Rows, Columns)                                                      \
  using name##_type = crk::tile<B, Rows, Columns>;                                            \
  CRK_SHARED(uint32_t, name##_weights, (Rows) * crk::tile_stride);                            \
  CRK_SHARED(uint32_t, name##_activation, (Columns) * crk::tile_stride);                      \
  CRK_SHARED(float, name##_scale, name##_type::scales *(Rows));                               \
  CRK_SHARED(float, name##_minimum, name##_type::has_rest ? name##_type::scales *(Rows) : 1); \
  CRK_SHARED(float, name##_d, name##_type::scales *(Columns));                                \
  CRK_SHARED(float, name##_sum, name##_type::has_rest ? name##_type::scales *(Columns) : 1);  \
  const name##_type name = {name##_weights, name##_activation, name##_scale, name##_minimum, name##_d, name##_sum}

/* By Candle's arguments and geometry: block (x, y) of (32, 4) threads makes rows x * Rows on and columns y * Columns on of dst, in
 * `Parts` parts one after the other: the accumulators of all would not fit a thread's registers, nor every GPU's shared memory
 * a tile of 128 x 128. */
template <class B, int Rows, int Columns, int Parts>
CRK_FN void mul_mat(const void *weights, const void *activations, float *dst, int32_t cols, int32_t rows,
                    int32_t columns, int32_t padded_cols, int32_t dst_rows) {
  constexpr int Width = Columns / Parts;
  CRK_TILE(t, B, Rows, Width);
  const q8_1_matrix x = {static_cast<const block_q8_1 *>(activations), static_cast<uint64_t>(padded_cols / 32)};
  CRK_NO_UNROLL
  for (int part = 0; part < Parts; part++) {
    mul_mat_tile<B, Rows, Width, 128, Rows / 8 < 16 ? 8 : 16>(
        t, static_cast<const B *>(weights), x, cols / block_elements<B>, rows < dst_rows ? rows : dst_rows, columns,
        static_cast<uint64_t>(block_index().x) * Rows, static_cast<uint64_t>(block_index().y) * Columns + part * Width,
        [=](uint64_t column, uint64_t row, float value) { dst[column * dst_rows + row] = value; });
  }
}

/* The launcher's: dst[column][row] of a dtype (store_as), tiles of 128 x 64, a block's columns `blocks_y` tiles apart. */
enum { fast_tile_rows = 128, fast_tile_columns = 64, fast_tile_threads = 128 };
template <class B>
CRK_FN void mul_mat_fast(const B *weights, const uint32_t *packed, void *dst, uint32_t dtype, uint64_t rows,
                         uint64_t row_blocks, uint64_t columns, uint32_t blocks_y) {
  CRK_TILE(t, B, fast_tile_rows, fast_tile_columns);
  const uint64_t column_blocks = row_blocks * (block_elements<B> / 32);
  const packed_matrix x(packed, columns * column_blocks, column_blocks);
  const uint64_t row = static_cast<uint64_t>(block_index().x) * fast_tile_rows;
  CRK_NO_UNROLL
  for (uint64_t column = static_cast<uint64_t>(block_index().y) * fast_tile_columns; column < columns;
       column += static_cast<uint64_t>(blocks_y) * fast_tile_columns) {
    mul_mat_tile<B, fast_tile_rows, fast_tile_columns, fast_tile_threads, 16>(
        t, weights, x, row_blocks, rows, columns, row, column,
        [=](uint64_t c, uint64_t r, float value) { store_as(dst, dtype, c * rows + r, value); });
  }
}

}  // namespace
}  // namespace crk

#endif
