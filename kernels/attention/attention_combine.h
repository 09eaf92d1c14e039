/* Adds up the parts of attention_split.h, in one order in every call. */
#ifndef CRK_ATTENTION_COMBINE_H
#define CRK_ATTENTION_COMBINE_H

#include "attention/attention_split.h"

namespace crk {
namespace {

/* Adds N parts of a row, from `part` on in steps of `step`. Parts beyond the last one are left out. */
template <int N>
CRK_FN void add_parts(split_sums &to, const float *weights, const float *sums, uint32_t dv, uint32_t part,
                      uint32_t step, uint32_t parts) {
  pack<float, 2> weight[N];
  pack<float, 4> some[N];
  float base = to.base;
  CRK_UNROLL
  for (int i = 0; i < N; i++) {
    const uint32_t at = part + i * step;
    weight[i] = {{no_score, 0.0f}};
    some[i] = {};
    if (at < parts) {
      weight[i] = load_aligned<float, 2>(weights + 2 * at);
      some[i] = load_aligned<float, 4>(sums + static_cast<uint64_t>(at) * dv);
    }
  }
  CRK_UNROLL
  for (int i = 0; i < N; i++) {
    base = max_number(base, weight[i].v[0]);
  }
  to.raise(base);
  CRK_UNROLL
  for (int i = 0; i < N; i++) {
    to.add(weight[i].v[0], weight[i].v[1], some[i]);
  }
}

/* A block computes a row: `tiles` has the number of rows per kv head. A thread takes four numbers. Groups of threads
 * share the parts, four or more each. */
template <class T>
CRK_FN void attention_combine(const crk_attention_call_t &call) {
  constexpr uint32_t threads = CRK_ATTENTION_COMBINE_THREADS, log2_threads = 8;
  static_assert(threads == 1u << log2_threads, "a power of two");
  CRK_SHARED(float, room, 6 * threads);
  uint32_t head = static_cast<uint32_t>(call.first_block) + block_index().x;
  const uint32_t row = take_coordinate(head, call.tiles);
  const split_work work(call, 0, head);
  if (row >= work.rows) {
    return;
  }
  const uint32_t parts = static_cast<uint32_t>(call.parts.size), columns = call.dv / 4;
  uint32_t log2_groups = 0;
  while (columns << (log2_groups + 1) <= threads && 4u << log2_groups < parts) {
    log2_groups++;
  }
  const uint32_t log2_places = log2_threads - log2_groups, places = 1u << log2_places, groups = 1u << log2_groups;
  const uint32_t column = thread_index().x & (places - 1), group = thread_index().x >> log2_places;
  split_sums sum;
  if (column < columns) {
    const uint64_t first = scratch_row(call, work.sequence, work.kv_head, row);
    const float *const weights = call.weights + 2 * first, *const sums = call.sums + first * call.dv + column * 4;
    uint32_t part = group;
    CRK_NO_UNROLL
    for (; parts > part + 4 * groups; part += 8 * groups) {
      add_parts<8>(sum, weights, sums, call.dv, part, groups, parts);
    }
    if (part < parts) {
      add_parts<4>(sum, weights, sums, call.dv, part, groups, parts);
    }
  }
  float *const mine = room + thread_index().x;
  mine[0] = sum.base;
  mine[threads] = sum.total;
  CRK_UNROLL
  for (int j = 0; j < 4; j++) {
    mine[(2 + j) * threads] = sum.sums[j];
  }
  barrier();
  if (group == 0 && column < columns) {
    CRK_NO_UNROLL
    for (uint32_t g = 1; g < groups; g++) {
      const float *const other = mine + g * places;
      sum.raise(max_number(sum.base, other[0]));
      sum.add(other[0], other[threads],
              {{other[2 * threads], other[3 * threads], other[4 * threads], other[5 * threads]}});
    }
    store_result<T>(call, work, row, column * 4, sum);
  }
}

}  // namespace
}  // namespace crk

#endif
