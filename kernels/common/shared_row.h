/* A matrix whose every row meets the same row, as where a bias is added: a thread has a pack of several rows and keeps the shared
 * row's in registers, so that its lines are read once for CRK_SHARED_ROW_TURNS rows.
 *
 * The struct is plain C: csrc/launch/elementwise.c fills it. */
#ifndef CRK_SHARED_ROW_H
#define CRK_SHARED_ROW_H

#include "nd.h"

enum { CRK_SHARED_ROW_TURNS = 16 }; /* rows of a thread: 17 reads where single rows take 32 */

typedef struct crk_shared_row {
  uint64_t rows;
  crk_nd_dim_t packs; /* of 16 bytes, of a row; of 1 only `size` counts. All elements number below 2^31 */
  uint32_t is_lhs; /* the shared row is the left operand */
} crk_shared_row_t;

#if defined(__cplusplus)

#include "index.h"

namespace crk {

/* dst[r][c] = f(src[r][c], row[c]); dst is aligned to packs. */
template <class F, class T>
CRK_FN void map_shared_row(const crk_shared_row_t &m, F f, T *dst, const T *src, const T *row) {
  constexpr uint32_t V = 16 / sizeof(T);
  const uint32_t packs = static_cast<uint32_t>(m.packs.size), columns = packs * V;
  if constexpr (on_host) {
    const elements e(m.rows * columns);
    for (uint64_t i = e.first; i < e.end;) {
      const uint64_t column = i % columns, left = columns - column, count = left < e.end - i ? left : e.end - i;
      for (uint64_t j = 0; j < count; j++) {
        dst[i + j] = f(src[i + j], row[column + j]);
      }
      i += count;
    }
  } else {
    constexpr uint32_t turns = CRK_SHARED_ROW_TURNS, depth = 4; /* packs of a thread under way at once */
    const uint32_t rows = static_cast<uint32_t>(m.rows);
    const elements e((rows + turns - 1) / turns * packs);
    for (uint64_t i = e.first; i < e.end; i += e.step) {
      const uint32_t n = static_cast<uint32_t>(i);
      const uint32_t group = packs == 1 ? n : mulhi(n, static_cast<uint32_t>(m.packs.mul)) >> m.packs.shift;
      const uint32_t column = (n - group * packs) * V, first = group * turns;
      const uint32_t count = rows - first < turns ? rows - first : turns;
      const pack<T, V> shared = load_pack<T, V>(row + column);
      const T *from = src + (first * columns + column);
      T *to = dst + (first * columns + column);
      CRK_NO_UNROLL
      for (uint32_t turn = 0; turn < count; turn += depth) {
        pack<T, V> x[depth];
        CRK_UNROLL
        for (uint32_t d = 0; d < depth; d++) {
          x[d] = load_pack<T, V>(from + (turn + d < count ? d * columns : 0));
        }
        CRK_UNROLL
        for (uint32_t d = 0; d < depth; d++) {
          if (turn + d < count) {
            store_pack(to + d * columns, apply<T, V>(f, x[d], shared));
          }
        }
        from += depth * columns;
        to += depth * columns;
      }
    }
  }
}

/* The same for f(row[c], src[r][c]) where the shared row is lhs. */
template <class F, class T>
CRK_FN void map_shared_row_of(const crk_shared_row_t &m, F f, const T *lhs, const T *rhs, T *dst) {
  const bool is_lhs = m.is_lhs != 0;
  map_shared_row(
      m, [=](T x, T r) { return f(is_lhs ? r : x, is_lhs ? x : r); }, dst, is_lhs ? rhs : lhs, is_lhs ? lhs : rhs);
}

}  // namespace crk

#endif
#endif
