/* Element-wise ops on a matrix in which all rows share one operand row, such as a bias. A thread computes one pack
 * (step_elements of walk.h) in `turns` rows. It keeps the shared row's pack in registers and reads it only once. For
 * kernels/binary.hip and kernels/ternary.hip. Main function: map_shared_row. */
#ifndef CRK_SHARED_ROW_H
#define CRK_SHARED_ROW_H

#include "call/shared_row_call.h"
#include "elementwise/walk.h"
#include "numbers/packed.h"

namespace crk {

/* Rows that a thread loads before it uses the first one. They are CRK_SHARED_ROW_DEPTH, or fewer if an operand's packs
 * are longer than 16 bytes. */
template <uint32_t V, class... T>
CRK_FN constexpr uint32_t rows_at_once() {
  uint32_t longest = 16;
  ((longest = V * sizeof(T) > longest ? V * static_cast<uint32_t>(sizeof(T)) : longest), ...);
  return CRK_SHARED_ROW_DEPTH * 16 / longest;
}

/* An operand's packs of the next `Depth` rows, or the one pack of the shared row. */
template <class T, int V, uint32_t Depth, bool Shared>
struct row_operand {
  const T *src;
  packed<T, V> x[Shared ? 1 : Depth];

  CRK_FN row_operand(const T *its, uint32_t column) : src(its) {
    if constexpr (Shared) {
      x[0] = packed<T, V>::load(src + column);
    }
  }
  /* Loads the pack at element `at` and those of the following rows. If fewer than Depth rows are left (`left`), the
   * pack at `at` stands in for the missing ones. */
  CRK_FN void load(uint32_t at, uint32_t left, uint32_t columns) {
    if constexpr (!Shared) {
      CRK_UNROLL
      for (uint32_t d = 0; d < Depth; d++) {
        x[d] = packed<T, V>::load(src + (d < left ? at + d * columns : at));
      }
    }
  }
  CRK_FN pack<T, V> of_row(uint32_t d) const { return x[Shared ? 0 : d].all(); }
};

/* dst = f(operands...) for one pack in each of `count` rows. The first one begins at element `at`. */
template <int V, uint32_t Depth, class F, class D, class... Operands>
CRK_FN void map_turns(F f, D *dst, uint32_t at, uint32_t count, uint32_t columns, Operands... operand) {
  CRK_NO_UNROLL
  for (uint32_t turn = 0; turn < count; turn += Depth) {
    (operand.load(at, count - turn, columns), ...);
    CRK_UNROLL
    for (uint32_t d = 0; d < Depth; d++) {
      if (turn + d < count) {
        store_pack(dst + (at + d * columns), apply<D, V>(f, operand.of_row(d)...));
      }
    }
    at += Depth * columns;
  }
}

template <int Shared, class F, class D, class... S, int... K>
CRK_FN void map_row_of(const crk_shared_row_t &m, uint32_t threads, F f, D *dst, indices<K...>, const S *...src) {
  constexpr uint32_t V = step_elements<D, S...>();
  const uint32_t packs = static_cast<uint32_t>(m.packs.size), columns = packs * V, rows = static_cast<uint32_t>(m.rows);
  if constexpr (on_host) {
    const elements e(m.rows * columns, threads);
    for (uint64_t i = e.first; i < e.end;) {
      const uint64_t column = i % columns, left = columns - column, count = left < e.end - i ? left : e.end - i;
      for (uint64_t j = 0; j < count; j++) {
        dst[i + j] = f((src + (K == Shared ? column : i))[j]...);
      }
      i += count;
    }
  } else {
    constexpr uint32_t depth = rows_at_once<V, D, S...>();
    const elements e(m.threads, threads);
    for (uint64_t i = e.first; i < e.end; i += e.step) {
      const uint32_t n = static_cast<uint32_t>(i);
      const uint32_t group = divide(m.packs, n);
      const uint32_t column = (n - group * packs) * V, row = group * m.turns;
      map_turns<V, depth>(f, dst, row * columns + column, rows - row < m.turns ? rows - row : m.turns, columns,
                          row_operand<S, V, depth, (K == Shared)>(src, column)...);
    }
  }
}

/* dst[r][c] = f(src[r][c]...). Source m.shared has one row, which stands for all. All tensors are contiguous and
 * aligned to 16 bytes, and a row is m.packs steps. `threads` are those of the grid. */
template <int Shared = 0, class F, class D, class... S>
CRK_FN void map_shared_row(const crk_shared_row_t &m, uint32_t threads, F f, D *dst, const S *...src) {
  if constexpr (Shared + 1 < static_cast<int>(sizeof...(S))) {
    if (m.shared != static_cast<uint32_t>(Shared)) {
      return map_shared_row<Shared + 1>(m, threads, f, dst, src...);
    }
  }
  map_row_of<Shared>(m, threads, f, dst, typename make_indices<sizeof...(S)>::type{}, src...);
}

}  // namespace crk

#endif
