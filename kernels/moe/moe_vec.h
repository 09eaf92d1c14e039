/* Mixtures of experts in integers, for a few tokens per expert: moe_vec. A group of 32 lanes has one or two rows of an
 * expert's weights. It multiplies each piece of them with every token of a run, so the weights are read once per run.
 * moe_vec_one.h is the kernel for one token per expert. */
#ifndef CRK_MOE_VEC_H
#define CRK_MOE_VEC_H

#include "moe/moe.h"
#include "numbers/store_as.h"
#include "quantized/matvec.h"

namespace crk {

/* A row of activations, as a byte offset from an address that is the same for all rows. Full addresses would take too
 * many registers. */
struct token_row {
  const unsigned char *first;
  uint32_t at;
  CRK_FN token_row operator+(uint64_t blocks) const {
    return {first, at + static_cast<uint32_t>(blocks) * static_cast<uint32_t>(sizeof(block_q8_1))};
  }
};
template <bool ByValues>
CRK_FN activations16 load_activations(token_row row, uint32_t h) {
  const block_q8_1 *block =
      reinterpret_cast<const block_q8_1 *>(row.first + (row.at + (h >> 1) * static_cast<uint32_t>(sizeof(block_q8_1))));
  const codes16 code = load_words<4>(reinterpret_cast<const uint32_t *>(block->qs) + 4 * (h & 1));
  return activations_of<ByValues>(
      code, in_turn(load_pack<uint32_t, 1>(reinterpret_cast<const uint32_t *>(block)).v[0], code.v[0]));
}

/* The activations of a run's tokens, in the form that dot_rows (quantized/matvec.h) expects. */
template <int Columns>
struct token_rows {
  using row_type = token_row;
  const unsigned char *first;
  uint32_t at[Columns];
  CRK_FN token_row row(uint32_t c) const { return {first, at[c]}; }
};

/* Sums `Columns` numbers over a group of lanes. After share_columns and sum_lanes, lane c has the sum of number
 * c modulo Columns. In each step of share_columns a lane keeps half of its numbers and gives the other half to another
 * lane, until it has one number. sum_lanes then adds over the lanes that have the same number. */
template <int Columns>
CRK_FN float share_columns(const float *v, uint32_t lane) {
  if constexpr (Columns > 1) {
    constexpr int half = Columns / 2;
    const uint32_t upper = (lane & half) != 0 ? ~0u : 0;
    float kept[half];
    CRK_UNROLL
    for (int c = 0; c < half; c++) {
      /* Swaps a and b in the upper lanes, without a condition. */
      const uint32_t a = bit_cast<uint32_t>(v[c]), b = bit_cast<uint32_t>(v[c + half]), change = (a ^ b) & upper;
      kept[c] = bit_cast<float>(a ^ change) + exchange<half>(bit_cast<float>(b ^ change));
    }
    return share_columns<half>(kept, lane);
  } else {
    return v[0];
  }
}
template <int Columns, int Mask = group_lanes / 2>
CRK_FN float sum_lanes(float v) {
  if constexpr (Mask >= Columns) {
    v += exchange<Mask>(v);
    if constexpr (Mask > 1) {
      return sum_lanes<Columns, Mask / 2>(v);
    }
  }
  return v;
}

/* dst[token][row] = scale * the sum over k of weights[expert][row][k] * x[input][k]. Blocks at y of the grid have
 * positions y, y + blocks_y and so on. The groups along the grid's x share the rows. */
template <class B, int Columns>
CRK_FN void moe_vec(const B *weights, const block_q8_1 *x, const routes &r, void *dst, const crk_moe_t &shape,
                    crk_fault_t fault) {
  constexpr int Rows = CRK_MOE_VEC_ROWS(Columns);
  /* kept in a vector register, since there are too few scalar ones */
  const uint32_t row_blocks = opaque(shape.k / block_elements<B>), place = thread_index().x % group_lanes;
  const uint32_t first = (block_index().x * shape.block_groups + thread_index().x / group_lanes) * Rows;
  for (uint32_t at = block_index().y; at < shape.positions; at += shape.blocks_y) {
    const run run = run_at<Columns>(r, shape, at, fault, first == 0 && place == 0);
    if (run.count == 0) {
      continue;
    }
    /* Lane c has the run's c-th token and stores that token's results. */
    const uint32_t token = place < run.count ? token_at(r, shape, at + place, fault, first == 0) : shape.positions;
    const bool stores = token < shape.positions;
    const float scale = stores && r.scales != nullptr ? r.scales[token] : 1.0f;
    const uint32_t mine = input_of(shape, token) * shape.input_stride, lane_0 = lane() - place;
    token_rows<Columns> rows = {reinterpret_cast<const unsigned char *>(x), {}};
    CRK_UNROLL
    for (int c = 0; c < Columns; c++) {
      rows.at[c] = shuffle(mine, lane_0 + c);
    }
    const B *matrix = weights + static_cast<uint64_t>(run.expert) * shape.rows * row_blocks;
    for (uint32_t row = first; row < shape.rows; row += shape.groups * Rows) {
      const uint32_t left = shape.rows - row, count = left < Rows ? left : Rows;
      float sum[Columns * Rows];
      dot_rows<B, Columns, Rows>(matrix + static_cast<uint64_t>(row) * row_blocks, row_blocks, count, rows, place,
                                 group_lanes, sum);
      CRK_UNROLL
      for (uint32_t i = 0; i < Rows; i++) {
        float column[Columns];
        CRK_UNROLL
        for (int c = 0; c < Columns; c++) {
          column[c] = sum[c * Rows + i];
        }
        const float total = sum_lanes<Columns>(share_columns<Columns>(column, place));
        if (stores && i < count) {
          store_as(dst, opaque(shape.dtype), static_cast<uint64_t>(token) * shape.rows + row + i, total * scale);
        }
      }
    }
  }
}

}  // namespace crk

#endif
