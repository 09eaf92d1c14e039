/* All-reduce in one step: each rank sends all of its elements to all ranks, and each rank adds them. See
 * call/peers_call.h for the memory.
 *
 * A block has one chunk. Its threads send a line to each rank, wait for the lines of all ranks, and add them in the
 * order of the ranks, so that all ranks get the same bits. The chunk's counter gives the flag, and the slot is that of
 * its lowest bit. A launch writes all lines of its chunks, also those behind the last element. So a slot never has
 * lines that are older than two launches of its chunk, and flags may start again at 0.
 *
 * Two slots are enough: a rank writes to a slot again two launches later. It has then received the lines of the launch
 * between them, which the receiver sent after it had read this slot. */
#ifndef CRK_ONE_SHOT_H
#define CRK_ONE_SHOT_H

#include "comm/patience.h"
#include "numbers/element_types.h"

namespace crk {
namespace {

/* A line's data: two words of 32 bits, and the elements of a type in them. */
using line_data = pack<uint32_t, 2>;
template <class T>
constexpr int line_elements = CRK_LINE_DATA / static_cast<int>(sizeof(T));

/* The lines of rank `from` in a slot of the area `area`. */
CRK_FN uint64_t *slot_lines(void *area, uint32_t size, uint32_t chunk, uint32_t flag, uint32_t from) {
  const uint64_t slot = (static_cast<uint64_t>(chunk) * 2 + (flag & 1)) * size + from;
  return reinterpret_cast<uint64_t *>(static_cast<char *>(area) + CRK_AREA_LINES +
                                      slot * (CRK_CHUNK_LINES * CRK_LINE_BYTES));
}

/* A line as it is sent. */
CRK_FN pack<uint64_t, 2> line_of(const line_data &data, uint32_t flag) {
  const uint64_t high = static_cast<uint64_t>(flag) << 32;
  return {{high | data.v[0], high | data.v[1]}};
}

CRK_FN bool has_flag(const pack<uint64_t, 2> &words, uint32_t flag) {
  return static_cast<uint32_t>(words.v[0] >> 32) == flag && static_cast<uint32_t>(words.v[1] >> 32) == flag;
}

/* Loads line i from `lines` + i * distance words, for each line that lacks the flag, until all have it or *stop is not
 * 0. The loads of N lines are under way together. */
template <int N>
CRK_FN void await_lines(pack<uint64_t, 2> (&to)[N], const uint64_t *lines, uint32_t distance, uint32_t flag,
                        const uint64_t *stop) {
  CRK_NO_UNROLL
  for (uint32_t loads = 1;; loads++) {
    bool is_missing = false;
    CRK_UNROLL
    for (uint32_t i = 0; i < N; i++) {
      if (!has_flag(to[i], flag)) {
        to[i] = load_from_peers(lines + i * distance);
      }
    }
    CRK_UNROLL
    for (uint32_t i = 0; i < N; i++) {
      is_missing |= !has_flag(to[i], flag);
    }
    if (!is_missing || (loads % patience == 0 && load_published(stop) != 0)) {
      return;
    }
    pause_wave();
  }
}

/* A line of this thread, in a launch of its chunk. */
struct line_place {
  uint32_t chunk, line, flag;
};

/* Sends this thread's line to all other ranks. */
CRK_FN void send_to_all(const crk_exchange_t &ranks, const line_place &at, const line_data &data) {
  CRK_NO_UNROLL
  for (uint32_t r = 0; r < ranks.size; r++) {
    if (r != ranks.rank) {
      store_for_peers(slot_lines(ranks.areas[r], ranks.size, at.chunk, at.flag, ranks.rank) + 2 * at.line,
                      line_of(data, at.flag));
    }
  }
}

/* The ranks whose lines a thread loads at once. With all CRK_PEERS, the code for two ranks would be twice as long. */
inline constexpr int ranks_at_once = 4;

/* Waits for the lines of all ranks, and returns their sum. `data` is this rank's. */
template <class T>
CRK_FN pack<float, line_elements<T>> sum_of_all(const crk_exchange_t &ranks, const line_place &at,
                                                const line_data &data) {
  constexpr uint32_t distance = 2 * CRK_CHUNK_LINES;
  const uint64_t *const own = slot_lines(ranks.areas[ranks.rank], ranks.size, at.chunk, at.flag, 0) + 2 * at.line;
  pack<float, line_elements<T>> sum = {};
  CRK_NO_UNROLL
  for (uint32_t first = 0; first < ranks.size; first += ranks_at_once) {
    pack<uint64_t, 2> lines[ranks_at_once];
    CRK_UNROLL
    for (uint32_t i = 0; i < ranks_at_once; i++) {
      const bool comes = first + i < ranks.size && first + i != ranks.rank;
      lines[i] = line_of(data, comes ? at.flag - 1 : at.flag);
    }
    await_lines(lines, own + first * distance, distance, at.flag, ranks.stop);
    CRK_UNROLL
    for (uint32_t i = 0; i < ranks_at_once; i++) {
      if (first + i < ranks.size) {
        const line_data theirs = {{static_cast<uint32_t>(lines[i].v[0]), static_cast<uint32_t>(lines[i].v[1])}};
        const auto values = bit_cast<pack<T, line_elements<T>>>(theirs);
        CRK_UNROLL
        for (int j = 0; j < line_elements<T>; j++) {
          const float value = convert<float>(values.v[j]);
          sum.v[j] = first + i == 0 ? value : sum.v[j] + value;
        }
      }
    }
  }
  return sum;
}

/* The counter of a chunk's launches. */
CRK_FN uint32_t *counter_of(const crk_exchange_t &ranks, uint32_t chunk) {
  return static_cast<uint32_t *>(ranks.areas[ranks.rank]) + CRK_AREA_CHUNKS / 4 + chunk;
}

/* dst = the sum of all ranks' src, for the chunk of this block. */
template <class T>
CRK_FN void one_shot_sum(const crk_peer_sum_call_t &call) {
  constexpr int V = line_elements<T>;
  const uint32_t chunk = block_index().x, line = thread_index().x;
  uint32_t *const counter = counter_of(call.ranks, chunk);
  const line_place at = {chunk, line, *counter + 1};
  const uint64_t first = (static_cast<uint64_t>(chunk) * CRK_CHUNK_LINES + line) * V;
  const T *src = static_cast<const T *>(call.src) + first;
  T *dst = static_cast<T *>(call.dst) + first;
  const int here = static_cast<int>(first >= call.count ? 0 : call.count - first < V ? call.count - first : V);
  pack<T, V> mine = {};
  if (here == V) {
    mine = load_pack<T, V>(src);
  }
  CRK_UNROLL
  for (int i = 0; i < V; i++) {
    if (here < V && i < here) {
      mine.v[i] = src[i];
    }
  }
  const line_data data = bit_cast<line_data>(mine);
  send_to_all(call.ranks, at, data);
  const pack<float, V> sum = sum_of_all<T>(call.ranks, at, data);
  CRK_UNROLL
  for (int i = 0; i < V; i++) {
    if (i < here) {
      dst[i] = convert<T>(sum.v[i]);
    }
  }
  barrier();
  if (line == 0) {
    *counter = at.flag;
  }
}

}  // namespace
}  // namespace crk

#endif
