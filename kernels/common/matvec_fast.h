/* The launchers' kernels of quantized weights times one to eight columns. Groups of 32 lanes work on their own, whatever the
 * wave: a group has `Rows` rows of weights, whose bytes it reads side by side, and multiplies each piece of them with every
 * column. No group waits for another, and a row's sum is one butterfly at its end. */
#ifndef CRK_MATVEC_FAST_H
#define CRK_MATVEC_FAST_H

#include "index.h"
#include "matvec.h"
#include "q8_1.h"
#include "store_as.h"

namespace crk {

/* Activations as these kernels read them: the codes of all rows, aligned to 16 bytes, then a pair of words for each block of 32: d
 * and s as f16, and the sums of the codes of its halves as i16. */
struct packed_row {
  const uint32_t *codes, *about;
  CRK_FN packed_row operator+(uint64_t n) const { return {codes + 8 * n, about + 2 * n}; }
};
struct packed_matrix {
  using row_type = packed_row;
  const uint32_t *codes, *about;
  uint64_t row_blocks;
  /* `blocks` blocks lie at `packed`, in rows of row_blocks. */
  CRK_FN packed_matrix(const uint32_t *packed, uint64_t blocks, uint64_t row_blocks_)
      : codes(packed), about(packed + 8 * blocks), row_blocks(row_blocks_) {}
  CRK_FN packed_row row(uint64_t c) const { return {codes + 8 * c * row_blocks, about + 2 * c * row_blocks}; }
};
template <bool ByValues>
CRK_FN activations16 load_activations(packed_row row, uint32_t h) {
  activations16 x;
  x.code = load_aligned16(row.codes + 4 * h);
  const pack<uint32_t, 2> about = load_pack<uint32_t, 2>(row.about + 2 * (h >> 1));
  x.d = f16_low(about.v[0]);
  x.value_sum = ByValues ? f16_high(about.v[0]) : 0.0f;
  x.code_sum = ByValues ? 0 : static_cast<int16_t>(about.v[1] >> 16 * (h & 1));
  return x;
}

struct add_integers {
  CRK_FN int32_t operator()(int32_t a, int32_t b) const { return a + b; }
};

/* Packs `blocks` blocks of 32 elements, four elements a thread: `threads` threads of whole blocks. */
template <class T>
CRK_FN void pack_activations(const T *x, uint32_t *packed, uint64_t blocks, uint64_t threads) {
  const uint64_t count = 8 * blocks;
  for (uint64_t i = static_cast<uint64_t>(block_index().x) * CRK_LAUNCHED_THREADS + thread_index().x; i < count;
       i += threads) {
    const q8_1_part part = quantize_part(load_four(x + 4 * i));
    const int32_t sum = butterfly<4>(dot4(static_cast<int32_t>(part.codes), 0x01010101, 0), add_integers());
    const int32_t other = exchange<4>(sum);
    packed[i] = part.codes;
    if (i % 8 == 0) {
      pack<uint32_t, 2> about;
      about.v[0] = f16(part.d).code | static_cast<uint32_t>(f16(part.sum).code) << 16;
      about.v[1] = (static_cast<uint32_t>(sum) & 0xffff) | static_cast<uint32_t>(other) << 16;
      store_pack(packed + 8 * blocks + i / 4, about);
    }
  }
}

/* The group of this thread among those of a row of the grid. */
CRK_FN uint64_t group_of_grid() {
  return static_cast<uint64_t>(block_index().x) * (threads_of_block() / group_lanes) + thread_in_block() / group_lanes;
}

/* dst[c][row] for rows from `row` on and all columns. */
template <class B, int Columns, int Rows>
CRK_FN void multiply_rows(const B *weights, const packed_matrix &x, void *dst, uint32_t dtype, uint64_t rows,
                          uint64_t row_blocks, uint32_t columns, uint64_t row) {
  const uint64_t left = rows - row;
  const uint32_t lane = thread_in_block() % group_lanes, count = left < Rows ? static_cast<uint32_t>(left) : Rows;
  float sum[Columns * Rows];
  dot_rows<B, Columns, Rows>(weights + row * row_blocks, row_blocks, count, x, columns, lane, group_lanes, sum);
  CRK_UNROLL
  for (int i = 0; i < Columns * Rows; i++) {
    sum[i] = butterfly<group_lanes>(sum[i], plus());
  }
  if (lane == 0) {
    CRK_UNROLL
    for (int c = 0; c < Columns; c++) {
      CRK_UNROLL
      for (int r = 0; r < Rows; r++) {
        if (static_cast<uint32_t>(c) < columns && static_cast<uint32_t>(r) < count) {
          store_as(dst, dtype, c * rows + row + r, sum[c * Rows + r]);
        }
      }
    }
  }
}

/* dst[c][row] = the sum over k of weights[row][k] * activations[c][k], for c below `columns`, at most `Columns`; by `groups` groups. */
template <class B, int Columns, int Rows>
CRK_FN void mul_mat_vec_fast(const B *weights, const uint32_t *packed, void *dst, uint32_t dtype, uint64_t rows,
                             uint64_t row_blocks, uint32_t columns, uint64_t groups) {
  const uint64_t column_blocks = row_blocks * (block_elements<B> / 32);
  const packed_matrix x(packed, columns * column_blocks, column_blocks);
  for (uint64_t row = group_of_grid() * Rows; row < rows; row += groups * Rows) {
    multiply_rows<B, Columns, Rows>(weights, x, dst, dtype, rows, row_blocks, columns, row);
  }
}

}  // namespace crk

#endif
