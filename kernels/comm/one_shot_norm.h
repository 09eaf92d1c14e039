/* A sum over all ranks, the residual that is added to it, and the RMS norm of that: what a layer that is split among
 * many GPUs does twice. It is one_shot_sum, the sum and the norm of reduce/add_norm.h in one launch. */
#ifndef CRK_ONE_SHOT_NORM_H
#define CRK_ONE_SHOT_NORM_H

#include "comm/one_shot.h"
#include "numbers/wave.h"

namespace crk {
namespace {

/* Stores a line's elements. `aligned`: at an address that is a multiple of the line. */
template <class T>
CRK_FN void store_line(T *dst, const pack<T, line_elements<T>> &values, bool aligned) {
  if (aligned) {
    store_pack(dst, values);
    return;
  }
  CRK_UNROLL
  for (int i = 0; i < line_elements<T>; i++) {
    dst[i] = values.v[i];
  }
}

/* A block has a row, and its threads P lines each. Rows are whole lines. */
template <class T, int P>
CRK_FN void one_shot_norm(const crk_one_shot_norm_call_t &call) {
  constexpr int V = line_elements<T>;
  using line_pack = pack<T, V>;
  CRK_SHARED(float, sums, CRK_MOST_NORM_THREADS / group_lanes);
  const uint32_t row = block_index().x, thread = thread_index().x, chunks = call.threads * P / CRK_CHUNK_LINES;
  const uint64_t row_first = static_cast<uint64_t>(row) * call.cols;
  const T *const src = static_cast<const T *>(call.src) + row_first;
  const T *const residual = static_cast<const T *>(call.residual) + row_first;
  const T *const alpha = static_cast<const T *>(call.alpha);
  T *const to_sum = static_cast<T *>(call.sum) + row_first, *const dst = static_cast<T *>(call.dst) + row_first;
  const bool aligned = (reinterpret_cast<uintptr_t>(call.sum) | reinterpret_cast<uintptr_t>(call.dst)) % 8 == 0;
  /* Blocks have whole chunks, so all lines of a thread have one place in their chunks. */
  const uint32_t in_chunk = thread % CRK_CHUNK_LINES, first_chunk = row * chunks + thread / CRK_CHUNK_LINES;
  uint32_t flags[P];
  const auto chunk = [&](int p) { return first_chunk + static_cast<uint32_t>(p) * (call.threads / CRK_CHUNK_LINES); };
  line_data mine[P] = {};
  line_pack other[P] = {}, scales[P] = {};
  bool here[P];
  CRK_UNROLL
  for (int p = 0; p < P; p++) {
    const uint32_t line = thread + static_cast<uint32_t>(p) * call.threads, first = line * V;
    flags[p] = *counter_of(call.ranks, chunk(p)) + 1;
    here[p] = first < call.cols;
    if (here[p]) {
      mine[p] = bit_cast<line_data>(load_pack<T, V>(src + first));
    }
    send_to_all(call.ranks, {chunk(p), in_chunk, flags[p]}, mine[p]);
    if (here[p]) {
      other[p] = load_pack<T, V>(residual + first);
      scales[p] = load_pack<T, V>(alpha + first);
    }
  }
  float squares = 0.0f;
  CRK_UNROLL
  for (int p = 0; p < P; p++) {
    const pack<float, V> sum = sum_of_all<T>(call.ranks, {chunk(p), in_chunk, flags[p]}, mine[p]);
    CRK_UNROLL
    for (int i = 0; i < V; i++) {
      /* Each of the two sums is rounded, as in two launches. */
      const float both = convert<float>(convert<T>(sum.v[i])) + convert<float>(other[p].v[i]);
      other[p].v[i] = convert<T>(both);
      const float x = here[p] ? convert<float>(other[p].v[i]) : 0.0f;
      squares = fma(x, x, squares);
    }
    if (here[p]) {
      store_line(to_sum + (thread + static_cast<uint32_t>(p) * call.threads) * V, other[p], aligned);
    }
  }
  squares = butterfly<32>(squares, plus());
  if (thread % group_lanes == 0) {
    sums[thread / group_lanes] = squares;
  }
  shared_barrier();
  const uint32_t group = thread % group_lanes;
  squares = butterfly<32>(group < call.threads / group_lanes ? sums[group] : 0.0f, plus());
  const float scale = rsqrt(squares / static_cast<float>(call.cols) + call.eps);
  CRK_UNROLL
  for (int p = 0; p < P; p++) {
    if (here[p]) {
      line_pack y;
      CRK_UNROLL
      for (int i = 0; i < V; i++) {
        y.v[i] = convert<T>(product(convert<float>(other[p].v[i]) * scale, convert<float>(scales[p].v[i])));
      }
      store_line(dst + (thread + static_cast<uint32_t>(p) * call.threads) * V, y, aligned);
    }
    if (in_chunk == 0) { /* all threads have read the counter before the barrier */
      *counter_of(call.ranks, chunk(p)) = flags[p];
    }
  }
}

}  // namespace
}  // namespace crk

#endif
