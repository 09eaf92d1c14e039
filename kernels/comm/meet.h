/* Tells the other ranks that a piece has been sent to them, and waits until they have sent theirs. The piece itself is
 * copied before, by the stream. One lane for each rank: the wave needs few registers, and runs beside large blocks. */
#ifndef CRK_MEET_H
#define CRK_MEET_H

#include "comm/patience.h"

namespace crk {
namespace {

CRK_FN uint64_t *flags_of(void *area) {
  return reinterpret_cast<uint64_t *>(static_cast<char *>(area) + CRK_AREA_FLAGS);
}

CRK_FN void meet(const crk_exchange_t &ranks, uint64_t piece) {
  const uint32_t peer = thread_index().x;
  if (peer >= ranks.size || peer == ranks.rank) {
    return;
  }
  publish(flags_of(ranks.areas[peer]) + ranks.rank, piece);
  const uint64_t *flag = flags_of(ranks.areas[ranks.rank]) + peer;
  for (uint32_t loads = 1; load_published(flag) < piece; loads++) {
    if (loads % patience == 0 && load_published(ranks.stop) != 0) {
      return;
    }
    pause_wave();
  }
}

}  // namespace
}  // namespace crk

#endif
