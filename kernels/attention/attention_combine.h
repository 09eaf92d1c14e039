/* Adds up the parts of attention_split.h and attention_tile.h, in one order in every call. The last block that has
 * computed a part of a row does it, or the kernel of a second launch. */
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
      weight[i] = load_passed<2>(weights + 2 * at);
      some[i] = load_passed<4>(sums + static_cast<uint64_t>(at) * dv);
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

/* Adds up the parts of `rows` rows of a kv head, from first_row on, and stores the results. A thread takes four numbers
 * of a row. Where threads are left, groups of them share the parts, four or more each. Columns is the number of threads
 * per row; 0 for dv / 4 and a single row. All Threads threads of the block come. `room` is shared memory for 6 *
 * Threads numbers. */
template <uint32_t Threads, uint32_t Columns, class T>
CRK_FN void combine_rows(const crk_attention_call_t &call, const split_work &work, uint32_t first_row, uint32_t rows,
                         float *room) {
  static_assert((Threads & (Threads - 1)) == 0, "a power of two");
  const uint32_t parts = static_cast<uint32_t>(call.parts.size), items = rows * (Columns > 0 ? Columns : call.dv / 4);
  uint32_t log2_groups = 0;
  while (items << (log2_groups + 1) <= Threads && 4u << log2_groups < parts) {
    log2_groups++;
  }
  const uint32_t places = Threads >> log2_groups, groups = 1u << log2_groups;
  const uint32_t place = thread_index().x & (places - 1), group = thread_index().x * groups / Threads;
  CRK_NO_UNROLL
  for (uint32_t first = 0; first < items; first += places) {
    const uint32_t item = first + place, row = first_row + (Columns > 0 ? item / Columns : 0);
    const uint32_t number = (Columns > 0 ? item % Columns : item) * 4;
    const bool has_sums = item < items && number < call.dv;
    split_sums sum;
    if (has_sums) {
      const uint64_t at = scratch_row(call, work.sequence, work.kv_head, row);
      const float *const weights = call.weights + 2 * at, *const sums = call.sums + at * call.dv + number;
      uint32_t part = group;
      if constexpr (Columns == 0) { /* too much code for other kernels */
        CRK_NO_UNROLL
        for (; parts > part + 4 * groups; part += 8 * groups) {
          add_parts<8>(sum, weights, sums, call.dv, part, groups, parts);
        }
      }
      CRK_NO_UNROLL
      for (; part < parts; part += 4 * groups) {
        add_parts<4>(sum, weights, sums, call.dv, part, groups, parts);
      }
    }
    if (groups > 1) { /* then all rows are done at once */
      float *const mine = room + thread_index().x;
      mine[0] = sum.base;
      mine[Threads] = sum.total;
      CRK_UNROLL
      for (int j = 0; j < 4; j++) {
        mine[(2 + j) * Threads] = sum.sums[j];
      }
      shared_barrier();
      CRK_NO_UNROLL
      for (uint32_t g = 1; group == 0 && g < groups; g++) {
        const float *const other = mine + g * places;
        sum.raise(max_number(sum.base, other[0]));
        sum.add(other[0], other[Threads],
                {{other[2 * Threads], other[3 * Threads], other[4 * Threads], other[5 * Threads]}});
      }
    }
    store_result<T>(call, work, row, number, has_sums && group == 0, sum);
  }
}

/* If this block is the last one to come of those with the rows from first_row on, it adds up their parts. A block has
 * up to Rows rows. `room` may be in use before. Not for General kernels, whose code is long enough: they have a second
 * launch. */
template <uint32_t Rows, uint32_t Width, class T, bool General>
CRK_FN void combine_last(const crk_attention_call_t &call, const split_work &work, uint32_t first_row, float *room) {
  if constexpr (!General) {
    if (call.tickets == nullptr) {
      return;
    }
    uint32_t *const ticket = call.tickets + row_number(call, work.sequence, work.kv_head, first_row);
    if (last_of_blocks(ticket, static_cast<uint32_t>(call.parts.size), room)) {
      const uint32_t rows = work.rows - first_row < Rows ? work.rows - first_row : Rows;
      combine_rows<split_threads, Width / 4, T>(call, work, first_row, rows, room);
    }
  }
}

/* The kernel of a second launch. A block computes a row: `tiles` has the number of rows per kv head. */
template <class T>
CRK_FN void attention_combine(const crk_attention_call_t &call) {
  CRK_SHARED(float, room, 6 * CRK_ATTENTION_COMBINE_THREADS);
  uint32_t head = static_cast<uint32_t>(call.first_block) + block_index().x;
  const uint32_t row = take_coordinate(head, call.tiles);
  const split_work work(call, 0, head);
  if (row < work.rows) {
    combine_rows<CRK_ATTENTION_COMBINE_THREADS, 0, T>(call, work, row, 1, room);
  }
}

}  // namespace
}  // namespace crk

#endif
