/* A sum over all ranks, the residual that is added to it, and the RMS norm of that: what a layer that is split among
 * many GPUs does twice. It is one_shot_sum, the sum and the norm of reduce/add_norm.h in one launch. */
#ifndef CRK_ONE_SHOT_NORM_H
#define CRK_ONE_SHOT_NORM_H

#include "comm/one_shot.h"
#include "comm/row_end.h"

namespace crk {
namespace {

/* A block has a row, and its threads P lines each. Rows are whole lines. */
template <class T, int P>
CRK_FN void one_shot_norm(const crk_peer_norm_call_t &call) {
  CRK_SHARED(float, squares, CRK_MOST_NORM_THREADS / group_lanes);
  row_end<T, line_elements<T>, P> row(call, squares);
  /* Blocks have whole chunks, so all lines of a thread have one place in their chunks. */
  const uint32_t chunks = call.threads * P / CRK_CHUNK_LINES, in_chunk = row.thread % CRK_CHUNK_LINES;
  const uint32_t first_chunk = block_index().x * chunks + row.thread / CRK_CHUNK_LINES;
  const auto chunk = [&](int p) { return first_chunk + static_cast<uint32_t>(p) * (call.threads / CRK_CHUNK_LINES); };
  uint32_t flags[P];
  line_data mine[P];
  CRK_UNROLL
  for (int p = 0; p < P; p++) {
    flags[p] = *counter_of(call.ranks, chunk(p)) + 1;
    mine[p] = bit_cast<line_data>(row.load(p));
    send_to_all(call.ranks, {chunk(p), in_chunk, flags[p]}, mine[p]);
    row.prefetch(p);
  }
  CRK_UNROLL
  for (int p = 0; p < P; p++) {
    row.add(p, sum_of_all<T>(call.ranks, {chunk(p), in_chunk, flags[p]}, mine[p]));
  }
  row.norm();
  CRK_UNROLL
  for (int p = 0; p < P; p++) {
    if (in_chunk == 0) { /* all threads have read the counter before the barrier */
      *counter_of(call.ranks, chunk(p)) = flags[p];
    }
  }
}

}  // namespace
}  // namespace crk

#endif
