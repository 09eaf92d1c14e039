/* The launchers' reductions of short rows that follow each other without gaps (crk_reduce_dense_t); the entry point is
 * reduce_dense_rows. Rows may have any short length, also one that is not a whole number of packs. Such a row cannot be
 * read 16 bytes at a time on its own. So a block copies a run of rows to shared memory in packs of 16 bytes, in the
 * same layout, and reduces them there. */
#ifndef CRK_REDUCE_DENSE_H
#define CRK_REDUCE_DENSE_H

#include "reduce/reduce_rows.h"

namespace crk {
namespace {

template <class T>
struct alignas(16) dense_elements {
  T v[16 / sizeof(T)];
};

/* Pack number p, counted from `aligned`, which is a multiple of 16 bytes. Only elements `begin` to `end` are read; the
 * other places of the pack have no meaning. */
template <class T>
CRK_FN dense_elements<T> dense_pack(const T *aligned, uint32_t p, uint32_t begin, uint32_t end) {
  constexpr uint32_t V = 16 / sizeof(T);
  pack<T, V> x;
  if (p * V >= begin && (p + 1) * V <= end) {
    x = load_aligned<T, V>(aligned + p * V);
  } else {
    CRK_UNROLL
    for (uint32_t j = 0; j < V; j++) {
      const uint32_t i = p * V + j;
      x.v[j] = aligned[i >= begin && i < end ? i : begin];
    }
  }
  return bit_cast<dense_elements<T>>(x);
}

template <class R>
CRK_FN void reduce_dense_rows(const crk_reduce_dense_t &rows, const typename R::element *src, typename R::output *dst) {
  using T = typename R::element;
  constexpr uint32_t V = 16 / sizeof(T), packs_a_thread = CRK_REDUCE_DENSE_BYTES / 16 / CRK_REDUCE_THREADS;
  CRK_SHARED(dense_elements<T>, room, CRK_REDUCE_DENSE_BYTES / 16);
  const T *const elements = room[0].v;
  const uint32_t thread = thread_index().x, lanes = 1u << rows.lanes_log2, length = rows.length;
  const uint32_t lane = thread & (lanes - 1), from = lane * rows.share, rest = from < length ? length - from : 0;
  const uint32_t count = rest < rows.share ? rest : rows.share;
  CRK_NO_UNROLL
  for (uint64_t block = block_index().x; block << rows.rows_log2 < rows.outputs; block += rows.blocks) {
    const uint64_t first = block << rows.rows_log2, left = rows.outputs - first;
    const uint32_t here = left < 1u << rows.rows_log2 ? static_cast<uint32_t>(left) : 1u << rows.rows_log2;
    const T *begin = src + first * length;
    const uint32_t skip = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(begin) % 16 / sizeof(T));
    const uint32_t end = skip + here * length, packs = (end + V - 1) / V;
    dense_elements<T> taken_in[packs_a_thread] = {};
    CRK_UNROLL
    for (uint32_t k = 0; k < packs_a_thread; k++) {
      const uint32_t p = thread + k * CRK_REDUCE_THREADS;
      if (p < packs) {
        taken_in[k] = dense_pack(begin - skip, p, skip, end);
      }
    }
    shared_barrier(); /* the previous rows are no longer read */
    CRK_UNROLL
    for (uint32_t k = 0; k < packs_a_thread; k++) {
      const uint32_t p = thread + k * CRK_REDUCE_THREADS;
      if (p < packs) {
        room[p] = taken_in[k];
      }
    }
    shared_barrier();
    CRK_NO_UNROLL
    for (uint32_t row = thread >> rows.lanes_log2; row < 1u << rows.rows_log2;
         row += CRK_REDUCE_THREADS >> rows.lanes_log2) {
      const T *x = elements + (skip + row * length + from);
      const uint32_t taken = row < here ? count : 0;
      typename R::state state[1] = {R::identity()};
      if constexpr (is_position<R> && floating<T>) {
        if (taken > 0 && lane == 0) {
          state[0] = R::seed(x[0]);
        }
      }
      /* Merging two bytes into one read would give reads at odd addresses. */
      CRK_ONE_BY_ONE
      for (uint32_t i = 0; i < taken; i++) {
        state[0] = R::add(state[0], x[i], from + i);
      }
      join_lanes<R>(state, lanes);
      if (lane == 0 && row < here) {
        dst[first + row] = R::result(state[0]);
      }
    }
  }
}

}  // namespace
}  // namespace crk

#endif
