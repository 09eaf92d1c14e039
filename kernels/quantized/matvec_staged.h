/* Copies bytes of any alignment from global to shared memory. under_way copies whole aligned 16-byte words, copy_ends
 * the bytes at the edges. copy_halves copies two bytes at a time, for the rare cases where 16-byte words cannot be
 * used. All lanes read 16 aligned bytes side by side, so that memory is read in whole lines. The bytes keep their
 * distance from the beginning of a 128-byte line, so they need no shifting on the way. */
#ifndef CRK_MATVEC_STAGED_H
#define CRK_MATVEC_STAGED_H

#include "numbers/dot.h"

namespace crk {
namespace {

/* Memory is read in lines. A wave's read touches the fewest lines if it starts where a line starts. */
inline constexpr uint32_t line_bytes = 128;
CRK_FN uint32_t place_in_line(const unsigned char *at) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at) % line_bytes);
}
CRK_FN bool odd_place(const void *at) { return reinterpret_cast<uintptr_t>(at) % 16 != 0; }

/* Size of a room in shared memory for `bytes` bytes of this alignment. It includes the greatest possible distance from
 * the beginning of a line. */
constexpr uint32_t room_of(uint32_t bytes, uint32_t alignment) {
  return (line_bytes - alignment + bytes + 15) / 16 * 16;
}

/* The aligned 16-byte words that hold `bytes` bytes. `first` and `end` are distances from the beginning of the first
 * word's line. If `within`, no other byte may be read, so only words without other bytes count. */
struct span16 {
  const unsigned char *line;
  uint32_t first, end;
  CRK_FN span16(const unsigned char *from, uint32_t bytes, bool within) {
    const uint32_t begin = place_in_line(from), before = within ? 15 : 0;
    line = from - begin;
    first = (begin + before) & ~15u;
    end = (begin + bytes + 15 - before) & ~15u;
  }
  CRK_FN bool has(uint32_t at) const { return at >= first && at < end; }
};

/* A copy of up to `Room` bytes to shared memory, 16 bytes per lane and step. begin() starts the loads. end() stores the
 * bytes at the same distance from the beginning of a line. Bytes of the room outside the span may change too. */
template <uint32_t Room, uint32_t LeastLanes, class Copies = async_copies, bool Async = Copies::present>
struct under_way {
  static constexpr uint32_t steps = (Room + 16 * LeastLanes - 1) / (16 * LeastLanes);
  codes16 v[steps] = {};

  CRK_FN void begin(unsigned char *, const span16 &span, uint32_t lane, uint32_t lanes) {
    const unsigned char *from = span.line + lane * 16;
    CRK_UNROLL
    for (uint32_t i = 0; i < steps; i++) {
      const uint32_t at = (i * lanes + lane) * 16;
      /* Only step 0 can have words before `first`, which is in the first line or at the beginning of the second. The
       * lane is compared with the rest of the span, because keeping `at` for each step would take registers. */
      if (i == 0 ? span.has(at) : static_cast<int32_t>(lane * 16) < static_cast<int32_t>(span.end - i * lanes * 16)) {
        v[i] = load_aligned16(reinterpret_cast<const uint32_t *>(from + i * lanes * 16));
      }
    }
  }
  CRK_FN void end(unsigned char *room, uint32_t lane, uint32_t lanes) const {
    CRK_UNROLL
    for (uint32_t i = 0; i < steps; i++) {
      const uint32_t at = (i * lanes + lane) * 16;
      if ((i + 1) * lanes * 16 <= Room || at < Room) {
        store_aligned16(reinterpret_cast<uint32_t *>(room + at), v[i]);
      }
    }
  }
};
/* With asynchronous copies the GPU copies by itself, and no registers hold the bytes. */
template <uint32_t Room, uint32_t LeastLanes, class Copies>
struct under_way<Room, LeastLanes, Copies, true> {
  CRK_FN void begin(unsigned char *room, const span16 &span, uint32_t lane, uint32_t lanes) {
    const Copies copies(room + lane * 16, span.line + lane * 16);
    CRK_UNROLL
    for (uint32_t i = 0; i * 16 * LeastLanes < Room; i++) {
      const uint32_t at = (i * lanes + lane) * 16;
      copies.begin16(i * lanes * 16, i == 0 ? span.has(at) : at < span.end);
    }
  }
  CRK_FN void end(unsigned char *, uint32_t, uint32_t) const {}
};

/* Copies the bytes at both ends that a span with `within` leaves out, into the same room. The bytes are aligned to 2.
 * All lanes of the wave that stored the span must call it. This is rare, so on GPUs with few registers the lane's
 * number is opaque and no register is kept for it. */
CRK_FN void copy_ends(unsigned char *room, const unsigned char *from, uint32_t bytes, uint32_t lane) {
  const uint32_t begin = place_in_line(from), end = begin + bytes;
  lane = wide_waves ? opaque(lane) : lane;
  const uint32_t at = ((lane & 8) == 0 ? begin & ~15u : (end - 1) & ~15u) + lane % 8 * 2;
  if (at >= begin && at < end) {
    *reinterpret_cast<uint16_t *>(room + at) = *reinterpret_cast<const uint16_t *>(from - begin + at);
  }
}

/* Copies bytes that are aligned to 2 and reads no others. This is rare; opaque() keeps the loop short. */
CRK_FN void copy_halves(unsigned char *to, const unsigned char *from, uint32_t bytes, uint32_t thread,
                        uint32_t threads) {
  CRK_NO_UNROLL
  for (uint32_t i = thread; i < bytes / 2; i = opaque(i + threads)) {
    reinterpret_cast<uint16_t *>(to)[i] = reinterpret_cast<const uint16_t *>(from)[i];
  }
}

}  // namespace
}  // namespace crk

#endif
