/* Stores the results of a tile of queries: for attention_tile.h. S is its attention_shape. */
#ifndef CRK_ATTENTION_STORE_H
#define CRK_ATTENTION_STORE_H

#include "numbers/element_types.h"

namespace crk {
namespace { /* as in attention_tile.h */

/* Stores a lane's part of a row, of dst or of the scratch memory: `sum` times `factor`. */
template <class T, class S>
CRK_FN void store_row(const float (&sum)[S::core::columns], float factor, T *row, uint32_t first_column, uint32_t width,
                      bool by_vectors) {
  using core = typename S::core;
  constexpr bool neighbours = core::next_column(core::columns - 1) == core::columns - 1;
  constexpr int together = neighbours ? static_cast<int>(core::columns) : 2;
  CRK_UNROLL
  for (int c = 0; c < core::columns; c += together) {
    const uint32_t column = first_column + core::column(static_cast<uint32_t>(c));
    if (column < width) {
      pack<T, together> values;
      CRK_UNROLL
      for (int i = 0; i < together; i++) {
        values.v[i] = static_cast<T>(sum[c + i] * factor);
      }
      if (by_vectors) {
        store_pack(row + column, values);
      } else {
        CRK_UNROLL
        for (int i = 0; i < together; i++) {
          row[column + static_cast<uint32_t>(i)] = values.v[i];
        }
      }
    }
  }
}

/* Where a block stores its results, if they pass through shared memory. It waits there too while the block walks over
 * the keys. To compute it at the end took 4 % of a call with 512 keys on an H200, and registers are few. */
struct result_rows {
  uint64_t first; /* the block's first row, in elements of dst. Of a pointer, nvcc would not know the kind of memory */
  uint64_t row_stride;
  uint32_t count; /* of rows, from the first one to the last of the sequence */
};

/* The same in two steps, through shared memory in the place of the queries (S::passes_rows). put_row puts a lane's part
 * of a row there. After a barrier, store_rows stores the team's rows, 16 bytes per lane at a time. Rows are numbered
 * from the block's first one, whose place in memory is `dst`; `rows` rows exist. */
template <class T, class S>
CRK_FN void put_row(const float (&sum)[S::core::columns], float factor, uint32_t *room, uint32_t row, uint32_t column) {
  using core = typename S::core;
  CRK_UNROLL
  for (uint32_t c = 0; c < core::columns; c += 2) {
    const pack<T, 2> both = {{static_cast<T>(sum[c] * factor), static_cast<T>(sum[c + 1] * factor)}};
    S::query_tile::word(room, row, column + core::column(c)) = bit_cast<uint32_t>(both);
  }
}
template <class T, class S>
CRK_FN pack<T, 16 / sizeof(T)> load_piece(uint32_t *room, uint32_t row, uint32_t part) {
  return load_aligned<T, 16 / sizeof(T)>(reinterpret_cast<const T *>(S::query_tile::address(room, row, part)));
}
template <class T, class S>
CRK_FN void store_rows(uint32_t *room, T *dst, uint64_t row_stride, uint32_t first_row, uint32_t rows,
                       uint32_t first_column, uint32_t width, bool by_vectors) {
  constexpr uint32_t piece = 16 / sizeof(T), pieces = S::own_width / piece, team = S::core::team;
  constexpr uint32_t items = S::tall * 16 * pieces / team, at_once = items % 8 == 0 ? 8 : items % 4 == 0 ? 4 : 2;
  static_assert(items % at_once == 0, "whole groups of items");
  const auto row_of = [first_row](uint32_t i) { return first_row + (i * team + lane()) / pieces; };
  const auto part_of = [first_column](uint32_t i) { return first_column / piece + (i * team + lane()) % pieces; };
  if (by_vectors && width == S::own_width * S::split && first_row + S::tall * 16 <= rows) {
    CRK_UNROLL
    for (uint32_t first = 0; first < items; first += at_once) {
      pack<T, piece> values[at_once];
      CRK_UNROLL
      for (uint32_t i = 0; i < at_once; i++) {
        values[i] = load_piece<T, S>(room, row_of(first + i), part_of(first + i));
      }
      CRK_UNROLL
      for (uint32_t i = 0; i < at_once; i++) {
        store_pack(dst + row_of(first + i) * row_stride + part_of(first + i) * piece, values[i]);
      }
    }
    return;
  }
  CRK_NO_UNROLL
  for (uint32_t i = 0; i < items; i++) {
    if (row_of(i) < rows && part_of(i) * piece < width) {
      const pack<T, piece> values = load_piece<T, S>(room, row_of(i), part_of(i));
      T *const to = dst + row_of(i) * row_stride + part_of(i) * piece;
      if (by_vectors) {
        store_pack(to, values);
      } else {
        CRK_UNROLL
        for (uint32_t j = 0; j < piece; j++) {
          to[j] = values.v[j];
        }
      }
    }
  }
}

}  // namespace
}  // namespace crk

#endif
