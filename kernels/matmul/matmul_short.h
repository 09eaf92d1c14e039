/* Matrix products with few numbers along k, where copies go straight to shared memory. For matmul.hip. Main function:
 * matmul_short.
 *
 * With up to 64 numbers along k, the results of a tile are as many bytes as its operands, or more. So copies and stores
 * take most of the time. A block makes several tiles (a persistent kernel). While it multiplies a step, the next step
 * is on its way, of the same tile or of the next one. The results of the tile before go from shared memory to dst at
 * the same time. */
#ifndef CRK_MATMUL_SHORT_H
#define CRK_MATMUL_SHORT_H

#include "matmul/matmul_cores.h"

namespace crk {
namespace { /* as in matmul_cores.h */

/* A tile of dst as matmul_place has it, without parts of k. In 32-bit arithmetic, since nothing hides the time that it
 * takes between two steps. */
template <class S>
struct short_place {
  uint64_t lhs, rhs, dst;
  uint32_t rows, columns;

  CRK_FN short_place(const crk_matmul_t &call, uint32_t number) {
    const uint32_t m = static_cast<uint32_t>(call.lhs.rows), n = static_cast<uint32_t>(call.rhs.rows);
    uint32_t batch = number, band = take_coordinate(batch, call.tiles), across = take_coordinate(band, call.band);
    const uint32_t down = take_coordinate(across, call.heights[band < call.whole_bands ? 0 : 1]);
    const uint32_t row = (band * CRK_MATMUL_BAND + down) * S::Rows, column = across * S::Columns;
    rows = m - row < S::Rows ? m - row : S::Rows;
    columns = n - column < S::Columns ? n - column : S::Columns;
    lhs = row_offset(row, call.lhs.row_stride);
    rhs = row_offset(column, call.rhs.row_stride);
    dst = row_offset(row, n) + column;
    if (call.batch.numel > 1) {
      uint64_t at[2];
      locate(call.batch, batch, at);
      lhs += at[0];
      rhs += at[1];
      dst += batch * call.lhs.rows * call.rhs.rows;
    }
  }
  CRK_FN static uint64_t row_offset(uint32_t row, uint64_t stride) {
    return static_cast<uint64_t>(row) * static_cast<uint32_t>(stride);
  }
};

/* The steps of all tiles of a block, one after the other. */
template <class S, class T, class Left, class Right>
struct tile_steps {
  const crk_matmul_t &call;
  const T *const lhs, *const rhs;
  const uint32_t tiles, k;
  uint32_t tile, done; /* the tile of the next step; numbers along k of the tile's steps before it */
  Left left;
  Right right;

  CRK_FN tile_steps(const crk_matmul_t &of, const T *lhs_first, const T *rhs_first)
      : call(of),
        lhs(lhs_first),
        rhs(rhs_first),
        tiles(static_cast<uint32_t>(of.tiles.size * of.batch.numel)),
        k(static_cast<uint32_t>(of.k)),
        tile(block_index().x),
        done(0),
        left(lhs_first, of.lhs, 0),
        right(rhs_first, of.rhs, 0) {
    aim();
  }

  /* Begins to copy the next step to `slot`, if there is one. */
  CRK_FN void begin(uint32_t *slot) {
    if (tile < tiles) {
      left.begin_part(slot, k - done);
      right.begin_part(slot + Left::tile::words, k - done);
      done += S::depth;
      if (done < k) {
        left.advance();
        right.advance();
      } else {
        done = 0;
        tile += grid_size().x;
        aim();
      }
    }
    async_copies::end_group();
  }

 private:
  CRK_FN void aim() {
    if (tile < tiles) {
      const short_place<S> place(call, tile);
      left.first = lhs + place.lhs;
      left.rows = place.rows;
      right.first = rhs + place.rhs;
      right.rows = place.columns;
    }
  }
};

/* The results of a tile in shared memory, and the place of this thread's pieces of them in dst. */
template <class S, class T>
struct waiting_results {
  using tile = result_tile<S, T>;
  static constexpr uint32_t down = tile::threads / tile::pieces; /* rows from a thread's piece to its next one */
  static_assert(tile::threads % tile::pieces == 0, "a thread's pieces are below each other");
  const tile results;
  const uint32_t row_stride, row, column; /* of the first piece */
  T *to;
  uint32_t end; /* rows that exist */

  CRK_FN waiting_results(uint32_t *room, uint64_t stride)
      : results(room),
        row_stride(static_cast<uint32_t>(stride)),
        row(thread_index().x / tile::pieces),
        column(thread_index().x % tile::pieces * tile::piece),
        to(nullptr),
        end(0) {}

  template <class Team>
  CRK_FN void write(const Team &team, const short_place<S> &place, T *dst) {
    results.write(team);
    to = dst + place.dst + short_place<S>::row_offset(row, row_stride) + column;
    end = column < place.columns ? place.rows : 0;
  }
  CRK_FN void store() const {
    CRK_UNROLL
    for (uint32_t i = 0; i < tile::items; i++) {
      if (row + i * down < end) {
        const T *const from = results.first + (row + i * down) * tile::pitch + column;
        store_pack(to + short_place<S>::row_offset(i * down, row_stride), load_aligned<T, tile::piece>(from));
      }
    }
  }
};

/* dst = lhs * rhs in tiles of S. A block takes the tile of its own number, and each that follows by the grid's size. */
template <class S, bool Across, class T>
CRK_FN void make_short_tiles(const crk_matmul_t &call, const T *lhs, const T *rhs, T *dst) {
  using left_copy = operand_copy<T, S::Rows, S::depth, S::Threads, false>;
  using right_copy = operand_copy<T, S::Columns, S::depth, S::Threads, Across>;
  constexpr uint32_t left_words = left_copy::tile::words, words = step_words<S>;
  uint32_t *const room = dynamic_shared<uint32_t>();
  waiting_results<S, T> waiting(room + 2 * words, call.row_stride);
  static_assert(2 * words * 4 + S::Rows * waiting.results.pitch * sizeof(T) == CRK_MATMUL_SHORT_BYTES,
                "as the launcher says");
  tile_steps<S, T, left_copy, right_copy> steps(call, lhs, rhs);
  uint32_t *slot = room, *other = room + words; /* that of the step to be multiplied, and of the next one */
  steps.begin(slot);
  CRK_NO_UNROLL
  for (uint32_t tile = block_index().x; tile < steps.tiles; tile += grid_size().x) {
    product_team<S, left_copy, right_copy> team;
    CRK_NO_UNROLL
    for (uint32_t done = 0; done < steps.k; done += S::depth) {
      async_copies::wait<0>();
      shared_barrier(); /* also: results are there, and the step before has been read */
      steps.begin(other);
      if (done == 0) {
        waiting.store();
      }
      team.add_step(slot, slot + left_words);
      uint32_t *const read = slot;
      slot = other;
      other = read;
    }
    shared_barrier(); /* the results before have been read */
    waiting.write(team, short_place<S>(call, tile), dst);
  }
  shared_barrier();
  waiting.store();
}

template <class T, int Rows, int Columns, int Threads>
CRK_FN void matmul_short(const crk_matmul_t &call, const T *lhs, const T *rhs, T *dst) {
  using S = product_shape<T, Rows, Columns, Threads>;
  static_assert(!loses_infinity<T>, "a tile is computed once");
  if (call.rhs.way == CRK_MATMUL_ALONG_ROWS) {
    make_short_tiles<S, true>(call, lhs, rhs, dst);
  } else {
    make_short_tiles<S, false>(call, lhs, rhs, dst);
  }
}

}  // namespace
}  // namespace crk

#endif
