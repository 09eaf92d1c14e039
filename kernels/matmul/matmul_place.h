/* Which tile of a matrix product a block computes. For the kernels of kernels/matmul. */
#ifndef CRK_MATMUL_PLACE_H
#define CRK_MATMUL_PLACE_H

#include "call/matmul_call.h"
#include "elementwise/walk.h"
#include "numbers/cache_order.h"
#include "numbers/divisor.h"

namespace crk {

/* min(most, count - first) */
CRK_FN uint32_t rows_left(uint64_t count, uint64_t first, uint32_t most) {
  return count - first < most ? static_cast<uint32_t>(count - first) : most;
}

/* The number of the tile that block `block` of a launch computes. */
CRK_FN uint64_t number_of_tile(const crk_matmul_t &call, uint32_t block) {
  return place_in_order<uint64_t>(call.order, call.first_block + block);
}

/* A tile of dst, or a part of k of its sums. Offsets are in elements. */
struct matmul_place {
  uint64_t lhs, rhs, dst;
  uint64_t row, matrix; /* first row of the tile; number of the matrix of dst, over the batch and the parts of k */
  uint64_t column, first, k; /* first column of the tile, first number along k, numbers to add up */
  uint32_t rows, columns; /* of the tile that exist */

  CRK_FN matmul_place(const crk_matmul_t &call, uint32_t tile_rows, uint32_t tile_columns)
      : matmul_place(call, tile_rows, tile_columns, number_of_tile(call, block_index().x)) {}
  CRK_FN matmul_place(const crk_matmul_t &call, uint32_t tile_rows, uint32_t tile_columns, uint64_t number) {
    uint64_t batch = number, at[2];
    uint64_t band = take_coordinate(batch, call.tiles);
    uint64_t place = take_coordinate(band, call.band);
    row = (band * CRK_MATMUL_BAND + take_coordinate(place, call.heights[band < call.whole_bands ? 0 : 1])) * tile_rows;
    const uint64_t part = take_coordinate(batch, call.parts);
    column = place * tile_columns;
    first = part * call.part_k;
    locate(call.batch, batch, at);
    lhs = at[0] + row * call.lhs.row_stride + first * call.lhs.k_stride;
    rhs = at[1] + column * call.rhs.row_stride + first * call.rhs.k_stride;
    matrix = part * call.batch.numel + batch;
    dst = matrix * call.lhs.rows * call.rhs.rows + row * call.row_stride + column * call.column_stride;
    k = call.k - first < call.part_k ? call.k - first : call.part_k;
    rows = rows_left(call.lhs.rows, row, tile_rows);
    columns = rows_left(call.rhs.rows, column, tile_columns);
  }
};

}  // namespace crk

#endif
