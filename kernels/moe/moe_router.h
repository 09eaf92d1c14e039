/* The router of one token: the products of a row x with the weights of all experts, and the choice of experts by them.
 *
 * Few rows have to be read by many units at once, because the latency of memory is the limit. So a block has two
 * experts, and its threads share their rows. The last block to finish chooses. Main function: moe_router. */
#ifndef CRK_MOE_ROUTER_H
#define CRK_MOE_ROUTER_H

#include "matmul/matmul_wide.h"
#include "moe/moe_route.h"
#include "platform/blocks.h"

namespace crk {
namespace {

/* Adds the products of `count` pieces of x with those of two rows, from element `at` on in steps of `step`. All loads
 * come first. */
template <int Count, class T>
CRK_FN void add_router_pieces(const T *x, const T *const (&row)[2], uint64_t at, uint32_t step, float (&sum)[2]) {
  piece_units<T> a[Count], b[2][Count];
  CRK_UNROLL
  for (int i = 0; i < Count; i++) {
    a[i] = load_piece(x + at + i * step);
    b[0][i] = load_piece(row[0] + at + i * step);
    b[1][i] = load_piece(row[1] + at + i * step);
  }
  CRK_UNROLL
  for (int i = 0; i < Count; i++) {
    sum[0] = add_piece<T>(a[i], b[0][i], sum[0]);
    sum[1] = add_piece<T>(a[i], b[1][i], sum[1]);
  }
}

/* The products of x with the rows of this block's two experts, in all threads. An odd last expert counts twice. `room`
 * is shared memory for two numbers of each group of 32 threads. */
template <class T>
CRK_FN pack<float, 2> router_logits(const crk_moe_router_t &call, uint32_t first, float *room) {
  constexpr uint32_t groups = CRK_MOE_ROUTE_THREADS / group_lanes, E = piece_elements<T>;
  constexpr uint32_t step = CRK_MOE_ROUTE_THREADS * E;
  const uint32_t thread = thread_index().x;
  const T *const x = static_cast<const T *>(call.x);
  const T *const begin = static_cast<const T *>(call.weights) + first * call.k;
  const T *const row[2] = {begin, begin + (first + 1 < call.route.experts ? call.k : 0)};
  float sum[2] = {};
  uint64_t at = thread * E;
  CRK_NO_UNROLL
  for (; at + step < call.k; at += 2 * step) {
    add_router_pieces<2>(x, row, at, step, sum);
  }
  if (at < call.k) {
    add_router_pieces<1>(x, row, at, step, sum);
  }
  const float mine = sums_of_group(sum[0], sum[1]);
  if (thread % (group_lanes / 2) == 0) {
    room[thread % group_lanes / (group_lanes / 2) * groups + thread / group_lanes] = mine;
  }
  shared_barrier();
  const float total = butterfly<groups>(room[thread % (2 * groups)], plus());
  const float other = exchange<groups>(total);
  const bool is_first = thread % (2 * groups) < groups;
  /* Each is rounded to T, as the product alone would be. */
  return {{convert<float>(convert<T>(is_first ? total : other)), convert<float>(convert<T>(is_first ? other : total))}};
}

template <int Share, class T>
CRK_FN void moe_router(const crk_moe_router_t &call) {
  static_assert(2 * CRK_MOE_ROUTE_THREADS >= group_lanes * Share, "a thread has two of all experts");
  CRK_SHARED(float, room, group_lanes *Share);
  const uint32_t first = 2 * block_index().x, own = 2 * thread_index().x;
  const pack<float, 2> logits = router_logits<T>(call, first, room);
  if (thread_index().x == 0) {
    store_passed<2>(call.logits + first, logits);
  }
  if (last_of_blocks(call.ticket, call.blocks, room)) {
    if (own < call.route.experts) {
      const pack<float, 2> two = load_passed<2>(call.logits + own);
      room[own] = two.v[0];
      room[own + 1] = two.v[1];
    }
    shared_barrier();
    route_tokens<Share>(call.route, room, 0);
  }
}

}  // namespace
}  // namespace crk

#endif
