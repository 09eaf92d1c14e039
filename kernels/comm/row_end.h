/* What follows a row's sum over all ranks: the residual is added, and the row is normed. */
#ifndef CRK_ROW_END_H
#define CRK_ROW_END_H

#include "call/peers_call.h"
#include "numbers/element_types.h"
#include "numbers/wave.h"

namespace crk {
namespace {

/* Stores a pack. `aligned`: at an address that is a multiple of the pack's bytes. */
template <class T, int V>
CRK_FN void store_some(T *dst, const pack<T, V> &values, bool aligned) {
  if (aligned) {
    store_pack(dst, values);
    return;
  }
  CRK_UNROLL
  for (int i = 0; i < V; i++) {
    dst[i] = values.v[i];
  }
}

/* The end of the row that a block has: whole packs of V elements, P of them for each thread. For each p below P a
 * thread calls load, prefetch and add, in this order. It may skip packs that are not here, but not their prefetch. At
 * the end all threads of the block call norm, in which they meet at a barrier. */
template <class T, int V, int P>
struct row_end {
  const crk_peer_norm_call_t &call;
  const uint32_t thread;
  const uint64_t row_first;
  const bool aligned;
  float squares;
  float *const shared; /* for CRK_MOST_NORM_THREADS / group_lanes numbers */
  pack<T, V> x[P]; /* the residual; from `add` on its sum with the row */
  pack<T, V> scales[P];

  CRK_FN row_end(const crk_peer_norm_call_t &of, float *shared_numbers)
      : call(of),
        thread(thread_index().x),
        row_first(static_cast<uint64_t>(block_index().x) * of.cols),
        aligned((reinterpret_cast<uintptr_t>(of.sum) | reinterpret_cast<uintptr_t>(of.dst)) % (V * sizeof(T)) == 0),
        squares(0.0f),
        shared(shared_numbers) {}

  /* The column of pack p, and whether the row has it. */
  CRK_FN uint32_t column(int p) const { return (thread + static_cast<uint32_t>(p) * call.threads) * V; }
  CRK_FN bool is_here(int p) const { return column(p) < call.cols; }

  /* This rank's part of the sum; zeros behind the row. */
  CRK_FN pack<T, V> load(int p) const {
    return is_here(p) ? load_pack<T, V>(static_cast<const T *>(call.src) + row_first + column(p)) : pack<T, V>{};
  }

  CRK_FN void prefetch(int p) {
    x[p] = scales[p] = {};
    if (is_here(p)) {
      x[p] = load_pack<T, V>(static_cast<const T *>(call.residual) + row_first + column(p));
      scales[p] = load_pack<T, V>(static_cast<const T *>(call.alpha) + column(p));
    }
  }

  /* `sum` is that of all ranks. */
  CRK_FN void add(int p, const pack<float, V> &sum) {
    CRK_UNROLL
    for (int i = 0; i < V; i++) {
      /* Each of the two sums is rounded, as in two launches. */
      const float both = convert<float>(convert<T>(sum.v[i])) + convert<float>(x[p].v[i]);
      x[p].v[i] = convert<T>(both);
      const float rounded = is_here(p) ? convert<float>(x[p].v[i]) : 0.0f;
      squares = fma(rounded, rounded, squares);
    }
    if (is_here(p)) {
      store_some(static_cast<T *>(call.sum) + row_first + column(p), x[p], aligned);
    }
  }

  CRK_FN void norm() {
    squares = butterfly<32>(squares, plus());
    if (thread % group_lanes == 0) {
      shared[thread / group_lanes] = squares;
    }
    shared_barrier();
    const uint32_t group = thread % group_lanes;
    squares = butterfly<32>(group < call.threads / group_lanes ? shared[group] : 0.0f, plus());
    const float scale = rsqrt(squares / static_cast<float>(call.cols) + call.eps);
    CRK_UNROLL
    for (int p = 0; p < P; p++) {
      if (is_here(p)) {
        pack<T, V> y;
        CRK_UNROLL
        for (int i = 0; i < V; i++) {
          y.v[i] = convert<T>(product(convert<float>(x[p].v[i]) * scale, convert<float>(scales[p].v[i])));
        }
        store_some(static_cast<T *>(call.dst) + row_first + column(p), y, aligned);
      }
    }
  }
};

}  // namespace
}  // namespace crk

#endif
