/* The launchers' reductions of rows that are whole packs at a constant, aligned stride (crk_reduce_even_t); the entry
 * point is reduce_even_rows. This is the usual case and has a kernel of its own, which needs no offsets except the
 * beginning of each row. States are joined in the same order as in reduce_rows.h. */
#ifndef CRK_REDUCE_EVEN_H
#define CRK_REDUCE_EVEN_H

#include "reduce/reduce_rows.h"

namespace crk {
namespace {

/* Returns a if `first`, else b. A candidate is selected field by field. The compiler may keep a struct of more than two
 * words in memory if it is selected as a whole. */
template <class A>
CRK_FN A either(bool first, A a, A b) {
  return first ? a : b;
}
template <class A>
CRK_FN candidate<A> either(bool first, candidate<A> a, candidate<A> b) {
  return {first ? a.value : b.value, first ? a.position : b.position};
}

/* The state with which thread `thread` of a row begins. */
template <class R>
CRK_FN typename R::state begin_row(typename R::element first, uint32_t thread) {
  if constexpr (is_position<R> && floating<typename R::element>) {
    return either(thread == 0, R::seed(first), R::identity());
  } else {
    return R::identity();
  }
}

/* Rows of at most one pack per lane. A group of 32 lanes works on 32 >> lanes_log2 neighbouring rows at a time. Each
 * lane keeps one result, so that a group's results are written in one piece. `Depth` loads are under way at a time. */
template <class R, uint32_t Depth>
CRK_FN void reduce_short_rows(const crk_reduce_even_t &rows, const typename R::element *src, typename R::output *dst) {
  using T = typename R::element;
  constexpr uint32_t V = 16 / sizeof(T);
  const uint32_t lanes = 1u << rows.lanes_log2, turns = 1u << rows.turns_log2, beside_log2 = 5 - rows.lanes_log2,
                 group_log2 = beside_log2 + rows.turns_log2, block_log2 = 3 + group_log2;
  const uint32_t thread = thread_index().x, place = thread % group_lanes, lane = place & (lanes - 1);
  const uint32_t begin = (thread / group_lanes << group_log2) + (place >> rows.lanes_log2);
  const bool has_pack = lane < rows.packs;
  const uint32_t column = has_pack ? lane * V : 0;
  CRK_NO_UNROLL
  for (uint64_t block = block_index().x; block << block_log2 < rows.outputs; block += rows.blocks) {
    const uint64_t first = block << block_log2, left = rows.outputs - first;
    const uint32_t last = (left < 1u << block_log2 ? static_cast<uint32_t>(left) : 1u << block_log2) - 1;
    const T *from = src + first * rows.stride;
    typename R::state mine = R::identity();
    CRK_NO_UNROLL
    for (uint32_t turn = 0; turn < turns; turn += Depth) {
      pack<T, V> x[Depth];
      typename R::state state[Depth];
      CRK_UNROLL
      for (uint32_t k = 0; k < Depth; k++) {
        const uint32_t row = begin + ((turn + k) << beside_log2);
        x[k] = load_aligned<T, V>(from + ((row < last ? row : last) * static_cast<uint32_t>(rows.stride) + column));
      }
      CRK_UNROLL
      for (uint32_t k = 0; k < Depth; k++) {
        state[k] = add_elements<R, V>(begin_row<R>(x[k].v[0], lane), x[k], column);
        state[k] = either(has_pack, state[k], R::identity());
      }
      join_lanes<R>(state, lanes);
      CRK_UNROLL
      for (uint32_t k = 0; k < Depth; k++) {
        mine = either(turn + k == lane, state[k], mine);
      }
    }
    const uint32_t row = begin + (lane << beside_log2);
    if (lane < turns && row <= last) {
      dst[first + row] = R::result(mine);
    }
  }
}

/* Longer rows: 2^Log2 threads per row, 32 or the whole block. */
template <class R, uint32_t Log2>
CRK_FN void reduce_long_rows(const crk_reduce_even_t &rows, const typename R::element *src, typename R::output *dst,
                             typename R::state *shared) {
  constexpr uint32_t threads = 1u << Log2, beside = CRK_REDUCE_THREADS / threads;
  const uint32_t thread = thread_index().x % threads;
  CRK_NO_UNROLL
  for (uint64_t first = static_cast<uint64_t>(block_index().x) * beside; first < rows.outputs;
       first += static_cast<uint64_t>(rows.blocks) * beside) {
    const uint64_t output = first + (beside > 1 ? thread_index().x / threads : 0);
    typename R::state state = R::identity();
    if (beside == 1 || output < rows.outputs) {
      const typename R::element *row = src + output * rows.stride;
      state = begin_row<R>(row[0], thread);
      state = add_packs<R>(state, row, rows.packs, 0, thread, Log2);
    }
    state = join_threads<R>(state, threads, shared);
    if (thread == 0 && (beside == 1 || output < rows.outputs)) {
      dst[output] = R::result(state);
    }
  }
}

template <class R>
CRK_FN void reduce_even_rows(const crk_reduce_even_t &rows, const typename R::element *src, typename R::output *dst) {
  CRK_SHARED(typename R::state, group_states, CRK_REDUCE_THREADS / group_lanes);
  /* Sixteen one-byte elements, unpacked, take the registers of several loads. */
  constexpr uint32_t depth = sizeof(typename R::element) == 1 ? 1 : loads_under_way<R>;
  if (!rows.is_short) {
    if (rows.lanes_log2 == 8) {
      reduce_long_rows<R, 8>(rows, src, dst, group_states);
    } else {
      reduce_long_rows<R, 5>(rows, src, dst, group_states);
    }
  } else if (depth > 1 && 1u << rows.turns_log2 >= depth) {
    reduce_short_rows<R, depth>(rows, src, dst);
  } else {
    reduce_short_rows<R, 1>(rows, src, dst);
  }
}

}  // namespace
}  // namespace crk

#endif
