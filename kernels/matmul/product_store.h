/* Stores the sums of a product's teams in dst. For matmul_cores.h and conv_cores.h; moe_tile.h uses result_tile. Main
 * function: store_product.
 *
 * A lane has few neighbouring numbers of a row: 4 bytes of halves on NVIDIA GPUs, where memory is written in sectors of
 * 32. Where copies go straight to shared memory, it has room for all results of a tile, in the place of the operands.
 * There the results pass through it, and the lanes of a wave then store whole lines. */
#ifndef CRK_PRODUCT_STORE_H
#define CRK_PRODUCT_STORE_H

#include "matmul/matmul_place.h"
#include "matmul/product_shape.h"

namespace crk {
namespace { /* as in matmul_cores.h */

/* Results of more bytes are stored as streams (store_streamed). For 134 MB this takes 5 % less time on an H200; for 33
 * MB it makes no difference. */
inline constexpr uint64_t cached_results = 32 << 20;

/* The results of S's tile in shared memory. */
template <class S, class D>
struct result_tile {
  static constexpr uint32_t rows = S::Rows, columns = S::Columns, threads = S::Threads;
  static constexpr uint32_t piece = 16 / sizeof(D), pieces = columns / piece, items = rows * pieces / threads;
  /* Eight more than there are columns: the rows that lanes write at once are then in different banks. */
  static constexpr uint32_t pitch = columns + 8;
  static_assert(items * threads == rows * pieces, "every thread has as many pieces");
  static_assert(rows * pitch * sizeof(D) <= S::slots * step_words<S> * 4, "results fit in the place of the operands");

  D *const first;

  CRK_FN explicit result_tile(uint32_t *room) : first(reinterpret_cast<D *>(room)) {}

  /* Writes the team's sums there. */
  template <class Team>
  CRK_FN void write(const Team &team) const {
    team.store([&](uint32_t row, uint32_t column, const auto &sums) {
      store_pack(first + row * pitch + column, convert_pack<D>(sums));
    });
  }
  /* Puts all sums there. All threads of the block must call it. */
  template <class Team>
  CRK_FN void put(const Team &team) const {
    shared_barrier(); /* the operands have been read */
    write(team);
    shared_barrier();
  }
  /* Calls store(row, column, values) for this thread's pieces of 16 bytes. The pieces of a wave are neighbours. */
  template <class Store>
  CRK_FN void for_pieces(const Store &store) const {
    CRK_UNROLL
    for (uint32_t i = 0; i < items; i++) {
      const uint32_t at = i * threads + thread_index().x, row = at / pieces, column = at % pieces * piece;
      store(row, column, load_aligned<D, piece>(first + row * pitch + column));
    }
  }
  /* Calls store(row, column, value) for this thread's results, one by one. The results of a wave are neighbours in a
   * row, or with `down` in a column. */
  template <class Store>
  CRK_FN void for_each(bool down, const Store &store) const {
    constexpr uint32_t at_once = 8; /* so that one load from shared memory does not wait for the other */
    static_assert(rows * columns % (threads * at_once) == 0, "every thread has as many results");
    CRK_NO_UNROLL
    for (uint32_t done = thread_index().x; done < rows * columns; done += threads * at_once) {
      CRK_UNROLL
      for (uint32_t i = 0; i < at_once; i++) {
        const uint32_t at = done + i * threads;
        const uint32_t row = down ? at % rows : at / columns, column = down ? at / rows : at % columns;
        store(row, column, first[row * pitch + column]);
      }
    }
  }
};

/* Stores the sums of a tile as D, through shared memory. All threads of the block must call it. */
template <class S, class D, class Team>
CRK_FN void store_result_tile(const crk_matmul_t &call, const matmul_place &place, const Team &team, D *dst,
                              uint32_t *room) {
  const result_tile<S, D> results(room);
  results.put(team);
  if (call.by_vectors == 0) {
    results.for_each(call.row_stride == 1, [&](uint32_t row, uint32_t column, D value) {
      if (row < place.rows && column < place.columns) {
        dst[row * call.row_stride + column * call.column_stride] = value;
      }
    });
    return;
  }
  const bool streams = call.lhs.rows * call.rhs.rows * call.batch.numel > cached_results / sizeof(D);
  results.for_pieces([&](uint32_t row, uint32_t column, const auto &values) {
    if (row < place.rows && column < place.columns) {
      D *const to = dst + row * call.row_stride + column;
      if (streams) {
        store_streamed(to, values);
      } else {
        store_pack(to, values);
      }
    }
  });
}

/* Stores the sums of a team as D. */
template <class D, class Team>
CRK_FN void store_team(const crk_matmul_t &call, const matmul_place &place, const Team &team, D *dst) {
  const bool by_vectors = call.by_vectors != 0;
  team.store([&](uint32_t row, uint32_t column, const auto &sums) {
    constexpr int count = static_cast<int>(sizeof(sums.v) / sizeof(sums.v[0]));
    if (row < place.rows) {
      D *const to = dst + row * call.row_stride + column * call.column_stride;
      const pack<D, count> values = convert_pack<D>(sums);
      if (by_vectors) {
        if (column < place.columns) {
          store_pack(to, values);
        }
      } else {
        CRK_UNROLL
        for (int j = 0; j < count; j++) {
          if (column + static_cast<uint32_t>(j) < place.columns) {
            to[static_cast<uint32_t>(j) * call.column_stride] = values.v[j];
          }
        }
      }
    }
  });
}

template <class S, class D, class Team>
CRK_FN void store_sums(const crk_matmul_t &call, const matmul_place &place, const Team &team, D *dst, uint32_t *room) {
  if constexpr (S::is_direct) {
    store_result_tile<S>(call, place, team, dst, room);
  } else {
    store_team(call, place, team, dst);
  }
}

/* Stores the sums of a tile in dst, or in scratch memory if k has several parts. `room` is shared memory. */
template <class S, class Team, class T>
CRK_FN void store_product(const crk_matmul_t &call, const matmul_place &place, const Team &team, T *dst,
                          uint32_t *room) {
  if (call.parts.size > 1) {
    store_sums<S>(call, place, team, reinterpret_cast<wide<T> *>(dst) + place.dst, room);
  } else {
    store_sums<S>(call, place, team, dst + place.dst, room);
  }
}

}  // namespace
}  // namespace crk

#endif
