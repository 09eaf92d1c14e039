/* Adds up the parts of attention_split.h, where its blocks do not. */
#ifndef CRK_ATTENTION_COMBINE_H
#define CRK_ATTENTION_COMBINE_H

#include "attention/attention_split.h"

namespace crk {
namespace {

/* A block computes one row: `tiles` has the number of rows per kv head. */
template <class T>
CRK_FN void attention_combine(const crk_attention_call_t &call) {
  CRK_SHARED(float, room, 6 * split_threads);
  uint32_t head = static_cast<uint32_t>(call.first_block) + block_index().x;
  const uint32_t row = take_coordinate(head, call.tiles);
  const split_work work(call, 0, head);
  if (row < work.rows) {
    join_parts<0, T>(call, work, row, 1, room);
  }
}

}  // namespace
}  // namespace crk

#endif
