/* Adds up the parts of attention_split.h, in one order in every call. */
#ifndef CRK_ATTENTION_COMBINE_H
#define CRK_ATTENTION_COMBINE_H

#include "attention/attention_split.h"
#include "numbers/wave.h"

namespace crk {
namespace {

/* A block computes one row of dst: query, then head, then sequence. Neighbouring threads take four neighbouring
 * numbers each; groups of such threads share the parts. */
template <class T>
CRK_FN void attention_combine(const crk_attention_call_t &call) {
  constexpr uint32_t threads = CRK_ATTENTION_COMBINE_THREADS;
  CRK_SHARED(float, shares, CRK_ATTENTION_MOST_PARTS);
  CRK_SHARED(float, group_sums, threads * 4);
  const uint32_t thread = thread_index().x, parts = static_cast<uint32_t>(call.parts.size), dv = call.dv;
  const uint64_t rows = call.sequences * call.heads.size * call.queries, row = call.first_block + block_index().x;
  uint32_t rest = static_cast<uint32_t>(row);
  const uint32_t query = take_coordinate(rest, call.tiles), head = take_coordinate(rest, call.heads);
  const attention_sequence sequence(call, rest);
  if (query >= sequence.queries) {
    return;
  }
  /* Each 32 lanes find the base and the sum of weights of the row. */
  float base = no_score, total = 0.0f;
  for (uint32_t part = thread % group_lanes; part < parts; part += group_lanes) {
    base = max_number(base, call.weights[2 * (part * rows + row)]);
  }
  base = butterfly<static_cast<int>(group_lanes)>(base, larger());
  for (uint32_t part = thread % group_lanes; part < parts; part += group_lanes) {
    const uint64_t at = part * rows + row;
    const float scale = base_scale(call.weights[2 * at], base), sum = call.weights[2 * at + 1];
    total += sum * scale;
    if (thread < group_lanes) {
      shares[part] = scale;
    }
  }
  total = butterfly<static_cast<int>(group_lanes)>(total, plus());
  barrier();
  uint32_t log2_columns = 1;
  while (4u << log2_columns < dv) {
    log2_columns++;
  }
  const uint32_t column = (thread & ((1u << log2_columns) - 1)) * 4, group = thread >> log2_columns;
  const uint32_t groups = threads >> log2_columns;
  if (column < dv) {
    float sums[4] = {};
    for (uint32_t part = group; part < parts; part += groups) {
      const float scale = shares[part];
      if (scale != 0.0f) { /* else the part has no sums */
        const pack<float, 4> numbers = load_aligned<float, 4>(call.sums + (part * rows + row) * dv + column);
        CRK_UNROLL
        for (int i = 0; i < 4; i++) {
          sums[i] = fma(numbers.v[i], scale, sums[i]);
        }
      }
    }
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      group_sums[group * dv + column + i] = sums[i];
    }
  }
  barrier();
  const float scale = total == 0.0f ? 0.0f : 1.0f / total;
  T *dst = static_cast<T *>(call.dst) + row_offset(sequence, call.dst_strides, query, head);
  for (uint32_t i = thread; i < dv; i += threads) {
    float sum = 0.0f;
    for (uint32_t g = 0; g < groups; g++) {
      sum += group_sums[g * dv + i];
    }
    dst[i] = convert<T>(sum * scale);
  }
  if (thread == 0) {
    store_lse(call, sequence, query, head, base, total);
  }
}

}  // namespace
}  // namespace crk

#endif
