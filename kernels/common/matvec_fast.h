/* The launchers' kernels of quantized weights times one to eight columns. Groups of 32 lanes work on their own, whatever the
 * wave: a group has `Rows` rows of weights, whose bytes it reads side by side, and multiplies each piece of them with every
 * column. No group waits for another, and a row's sum is one butterfly at its end. */
#ifndef CRK_MATVEC_FAST_H
#define CRK_MATVEC_FAST_H

#include "index.h"
#include "matvec.h"

namespace crk {

/* dst[i] = value in the dtype that has this place among f32, f16 and bf16. */
CRK_FN void store_as(void *dst, uint32_t dtype, uint64_t i, float value) {
  if (dtype == 0) {
    static_cast<float *>(dst)[i] = value;
  } else if (dtype == 1) {
    static_cast<f16 *>(dst)[i] = f16(value);
  } else {
    static_cast<bf16 *>(dst)[i] = bf16(value);
  }
}

/* The group of this thread among those of all blocks of a row of the grid, and how many there are. */
CRK_FN uint64_t group_of_grid() {
  return static_cast<uint64_t>(block_index().x) * (threads_of_block() / group_lanes) + thread_in_block() / group_lanes;
}
CRK_FN uint64_t groups_of_grid() { return static_cast<uint64_t>(grid_size().x) * (threads_of_block() / group_lanes); }

/* dst[c][row] for rows from `row` on and all columns. */
template <class B, int Columns, int Rows>
CRK_FN void multiply_rows(const B *weights, const block_q8_1 *activations, void *dst, uint32_t dtype, uint64_t rows,
                          uint64_t row_blocks, uint64_t column_blocks, uint32_t columns, uint64_t row) {
  const uint64_t left = rows - row;
  const uint32_t lane = thread_in_block() % group_lanes, count = left < Rows ? static_cast<uint32_t>(left) : Rows;
  float sum[Columns * Rows];
  dot_rows<B, Columns, Rows>(weights + row * row_blocks, row_blocks, count, activations, column_blocks, columns, lane,
                             group_lanes, sum);
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

/* dst[c][row] = the sum over k of weights[row][k] * activations[c][k], for c below `columns`, at most `Columns`. */
template <class B, int Columns, int Rows>
CRK_FN void mul_mat_vec_fast(const B *weights, const block_q8_1 *activations, void *dst, uint32_t dtype, uint64_t rows,
                             uint64_t row_blocks, uint64_t column_blocks, uint32_t columns) {
  const uint64_t step = groups_of_grid() * Rows;
  for (uint64_t row = group_of_grid() * Rows; row < rows; row += step) {
    multiply_rows<B, Columns, Rows>(weights, activations, dst, dtype, rows, row_blocks, column_blocks, columns, row);
  }
}

/* dst[b][t][row] = the sum over k of weights[ids[b][t]][row][k] * activations[b][t or 0][k]; zeros where the id is none of
 * `experts`, which is reported. `inputs` rows of activations for each b, 1 or topk. */
template <class B, int Rows>
CRK_FN void indexed_moe_fast(const B *weights, const block_q8_1 *activations, const uint32_t *ids, void *dst,
                             uint32_t dtype, uint64_t experts, uint64_t rows, uint64_t row_blocks,
                             uint64_t column_blocks, uint64_t batch, uint64_t topk, uint64_t inputs,
                             crk_fault_t fault) {
  const uint64_t step = groups_of_grid() * Rows;
  for (uint64_t b = block_index().y; b < batch; b += grid_size().y) {
    for (uint64_t t = block_index().z; t < topk; t += grid_size().z) {
      const uint64_t task = b * topk + t, bytes = dtype == 0 ? 4 : 2;
      const uint32_t id = ids[task];
      void *to = static_cast<char *>(dst) + task * rows * bytes;
      if (id >= experts) {
        if (group_of_grid() == 0 && thread_in_block() == 0) {
          report(fault, id);
        }
        for (uint64_t row = group_of_grid() * group_lanes + thread_in_block() % group_lanes; row < rows;
             row += groups_of_grid() * group_lanes) {
          store_as(to, dtype, row, 0.0f);
        }
        continue;
      }
      const block_q8_1 *input = activations + (inputs == 1 ? b : task) * column_blocks;
      for (uint64_t row = group_of_grid() * Rows; row < rows; row += step) {
        multiply_rows<B, 1, Rows>(weights + id * rows * row_blocks, input, to, dtype, rows, row_blocks, 0, 1, row);
      }
    }
  }
}

}  // namespace crk

#endif
