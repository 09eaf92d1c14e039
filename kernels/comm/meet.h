/* Tells the other ranks that a piece has been sent to them, and waits until they have sent theirs. The piece itself is
 * copied before, by the stream. One lane for each rank: the wave needs few registers, and runs beside large blocks. */
#ifndef CRK_MEET_H
#define CRK_MEET_H

#include "call/peers_call.h"
#include "platform/platform.h"

namespace crk {

CRK_FN uint64_t *flags_of(void *area) {
  return reinterpret_cast<uint64_t *>(static_cast<char *>(area) + CRK_AREA_FLAGS);
}

CRK_FN void meet(const crk_meet_call_t &call) {
  const uint32_t peer = thread_index().x;
  if (peer >= call.size || peer == call.rank) {
    return;
  }
  publish(flags_of(call.areas[peer]) + call.rank, call.piece);
  const uint64_t *flag = flags_of(call.areas[call.rank]) + peer;
  while (load_from_host(flag) < call.piece && load_from_host(call.stop) == 0) {
    pause_wave();
  }
}

}  // namespace crk

#endif
