/* Products of quantized weights with one to eight columns of activations, with Candle's arguments: mul_mat_vec, and
 * indexed_moe for mixtures of experts. Activations are rows of block_q8_1. The launchers' own kernels are in
 * matvec_tile.h; moe/moe_vec.h also uses dot_rows.
 *
 * Reading the weights is the limit, so each weight is read only once. With n threads, each takes every n-th piece of a
 * row (quant_dot.h) and multiplies it with all columns. Then the threads' sums are added over the block. */
#ifndef CRK_MATVEC_H
#define CRK_MATVEC_H

#include "numbers/wave.h"
#include "quantized/quant_dot.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* Rows of activations as a matrix. row(c) is row c, and `row + n` begins n blocks of 32 elements later.
 * load_activations loads half block number h of a row. */
struct q8_1_row {
  const block_q8_1 *blocks;
  CRK_FN q8_1_row operator+(uint64_t n) const { return {blocks + n}; }
};
struct q8_1_matrix {
  using row_type = q8_1_row;
  const block_q8_1 *blocks;
  uint64_t row_blocks;
  CRK_FN q8_1_row row(uint64_t c) const { return {blocks + c * row_blocks}; }
};
/* Half a block: 16 codes, the block's d, and a sum. The sum is the block's s if ByValues, else the sum of the 16
 * codes. */
template <bool ByValues>
CRK_FN activations16 activations_of(const codes16 &code, uint32_t ds) {
  return {code, f16_low(ds), ByValues ? f16_high(ds) : 0.0f, ByValues ? 0 : sum16(code)};
}
template <bool ByValues>
CRK_FN activations16 load_activations(q8_1_row row, uint32_t h) {
  const block_q8_1 *block = row.blocks + (h >> 1);
  return activations_of<ByValues>(load_words<4>(reinterpret_cast<const uint32_t *>(block->qs) + 4 * (h & 1)),
                                  load_pack<uint32_t, 1>(reinterpret_cast<const uint32_t *>(block)).v[0]);
}

/* Sums over a block of up to 128 threads, a multiple of 32. The first thread gets the results. `partial` is shared
 * memory for 4 * Count values. */
template <int Count>
CRK_FN void sum_over_block(float (&sum)[Count], float *partial) {
  const uint32_t thread = thread_in_block(), groups = threads_of_block() / group_lanes;
  CRK_UNROLL
  for (int i = 0; i < Count; i++) {
    sum[i] = butterfly<group_lanes>(sum[i], plus());
  }
  if (thread % group_lanes == 0) {
    CRK_UNROLL
    for (int i = 0; i < Count; i++) {
      partial[thread / group_lanes * Count + i] = sum[i];
    }
  }
  shared_barrier();
  if (thread == 0) {
    for (uint32_t group = 1; group < groups; group++) {
      CRK_UNROLL
      for (int i = 0; i < Count; i++) {
        sum[i] += partial[group * Count + i];
      }
    }
  }
}

/* Computes one thread's share of the products of `Rows` rows with `Columns` columns: every threads-th piece, from piece
 * `thread` on. `threads` is a multiple of the pieces per block. So all pieces of a thread have the same place in their
 * blocks. Rows are `row_blocks` blocks long and follow each other. Rows from `rows` on repeat the last one. */
template <class B, int Columns, int Rows, class X>
CRK_FN void dot_rows(const B *w, uint64_t row_blocks, uint32_t rows, const X &x, uint32_t thread, uint32_t threads,
                     float (&sum)[Columns * Rows]) {
  using Q = quant<B>;
  constexpr bool by_values = Q::vec_by_values;
  constexpr uint32_t pieces = Q::pieces, q8_blocks = block_elements<B> / 32;
  /* Without whole_word, clang 15 would split the thread's number into single bits and multiply those, for which it has
   * no instruction. */
  const piece_place part = place_of_piece(whole_word(thread % pieces));
  const uint32_t first = Q::first(part);
  typename X::row_type column[Columns];
  uint64_t block = thread / pieces;
  /* A distance in place of a second pointer. clang makes a vector of two pointers, and no longer knows that they point
   * to global memory. Then it reads by flat instructions, which also wait for shared memory. */
  static_assert(Rows <= 2, "there is one distance");
  const uint64_t to_second = rows > 1 ? row_blocks : 0;
  CRK_UNROLL
  for (int c = 0; c < Columns; c++) {
    column[c] = x.row(c) + block * q8_blocks;
  }
  CRK_UNROLL
  for (int i = 0; i < Columns * Rows; i++) {
    sum[i] = 0.0f;
  }
  for (; block < row_blocks; block += threads / pieces) {
    piece weights[Rows];
    CRK_UNROLL
    for (int r = 0; r < Rows; r++) {
      weights[r] = Q::load(block_bytes{w + (r == 0 ? block : block + to_second)}, part);
    }
    CRK_UNROLL
    for (int c = 0; c < Columns; c++) {
      const activations16 two[2] = {load_activations<by_values>(column[c], first),
                                    load_activations<by_values>(column[c], first + Q::distance)};
      column[c] = column[c] + threads / pieces * q8_blocks;
      CRK_UNROLL
      for (int r = 0; r < Rows; r++) {
        sum[c * Rows + r] = dot_piece<B, by_values>(weights[r], two, sum[c * Rows + r]);
      }
    }
  }
}

/* dst[c][row] = the sum over k of weights[row][k] * activations[c][k], for c below `Columns`. A row of weights has
 * `cols` elements, a column of activations `padded_cols`, a column of dst `dst_rows`. A block makes `Rows` rows. If the
 * number of rows is odd, the last block may make one row less. */
template <class B, int Columns>
CRK_FN void mul_mat_vec(const void *weights, const void *activations, float *dst, int32_t cols, int32_t rows,
                        int32_t padded_cols, int32_t dst_rows) {
  constexpr int Rows = Columns == 1 ? 1 : 2;
  CRK_SHARED(float, partial, 4 * Rows * Columns);
  const uint32_t row = Rows * block_index().x;
  const bool live = row < static_cast<uint32_t>(rows);
  const uint64_t row_blocks = cols / block_elements<B>;
  const uint32_t left = live ? static_cast<uint32_t>(rows) - row : 1;
  float sum[Columns * Rows];
  const q8_1_matrix x = {static_cast<const block_q8_1 *>(activations), static_cast<uint64_t>(padded_cols / 32)};
  dot_rows<B, Columns, Rows>(static_cast<const B *>(weights) + (live ? row * row_blocks : 0), row_blocks, left, x,
                             thread_in_block(), threads_of_block(), sum);
  sum_over_block(sum, partial);
  if (live && thread_in_block() == 0) {
    CRK_UNROLL
    for (int c = 0; c < Columns; c++) {
      CRK_UNROLL
      for (int r = 0; r < Rows; r++) {
        if (static_cast<uint32_t>(r) < left && row + r < static_cast<uint32_t>(dst_rows)) {
          dst[static_cast<uint64_t>(c) * dst_rows + row + r] = sum[c * Rows + r];
        }
      }
    }
  }
}

/* dst[b][t][row] = the sum over k of weights[ids[b][t]][row][k] * activations[b][t or 0][k], by block (row, b, t).
 * `weights` has matrices of n rows of k elements. A row of activations has k_padded elements; each b has `input_dim` of
 * them, 1 or topk. */
template <class B>
CRK_FN void indexed_moe(const void *weights, const void *activations, const uint32_t *ids, float *dst, int32_t n,
                        int32_t k, int32_t batch, int32_t topk, int32_t k_padded, int32_t input_dim) {
  CRK_SHARED(float, partial, 4);
  const auto at = block_index();
  const bool live =
      at.x < static_cast<uint32_t>(n) && at.y < static_cast<uint32_t>(batch) && at.z < static_cast<uint32_t>(topk);
  const uint64_t task = live ? static_cast<uint64_t>(at.y) * topk + at.z : 0;
  const uint64_t row = live ? at.x : 0, input = input_dim == 1 ? (live ? at.y : 0) : task,
                 row_blocks = k / block_elements<B>;
  float sum[1];
  const uint64_t column_blocks = k_padded / 32;
  const q8_1_matrix x = {static_cast<const block_q8_1 *>(activations) + input * column_blocks, column_blocks};
  dot_rows<B, 1, 1>(static_cast<const B *>(weights) + (ids[task] * static_cast<uint64_t>(n) + row) * row_blocks,
                    row_blocks, 1, x, thread_in_block(), threads_of_block(), sum);
  sum_over_block(sum, partial);
  if (live && thread_in_block() == 0) {
    dst[task * n + row] = sum[0];
  }
}

}  // namespace
}  // namespace crk

#endif
