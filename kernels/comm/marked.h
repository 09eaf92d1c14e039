/* Sums of many elements between two GPUs of one host, by kernels. Each rank sends all of its elements to the other one,
 * and both add. Among two ranks no other way moves fewer bytes. See call/peers_call.h for the memory.
 *
 * The elements are cut into parts. A block has one part, or all parts of a row. Its threads store their elements to the
 * other rank's exchange area. Then a thread stores the part's mark, which tells that the whole part has arrived. The
 * block waits for the other rank's mark, loads the other's elements from its own area, and adds.
 *
 * Each rank counts the launches of a part. The mark is the number of the launch, and the part's slot is that of the
 * number's lowest bit. Two slots are enough: a rank writes to a slot again two launches later. It has then received the
 * part of the launch between them, which the other rank sent after it had read this slot.
 *
 * There may be more blocks than a GPU holds at once. A GPU is assumed to begin blocks in their order. (An MI300 deals
 * them to its dies in turn; then each die does so.) A block sends before it waits. Take the first block that has not
 * ended on both GPUs. Both GPUs have begun it, so each has sent the part that the other waits for, and it ends. */
#ifndef CRK_MARKED_H
#define CRK_MARKED_H

#include "comm/patience.h"
#include "comm/row_end.h"

namespace crk {
namespace {

/* How many packs a part has, and how many of them a thread has. */
inline constexpr uint32_t part_packs = CRK_PART_BYTES / CRK_PACK_BYTES;
inline constexpr int thread_packs = part_packs / CRK_PART_THREADS;
template <class T>
using marked_pack = pack<T, CRK_PACK_BYTES / static_cast<int>(sizeof(T))>;

/* The parts of this block: `count` of them, from part `first` on. Pack p of a thread is pack p * threads + thread of
 * the block. All threads of the block make one, send their packs, meet, and then may ask for sums. */
struct part_exchange {
  const crk_exchange_t &ranks;
  const uint32_t first, threads;
  uint32_t launches[thread_packs]; /* the number of this launch, for the parts of this thread's packs */

  CRK_FN part_exchange(const crk_exchange_t &of, uint32_t first_part, uint32_t block_threads)
      : ranks(of), first(first_part), threads(block_threads) {
    CRK_UNROLL
    for (int p = 0; p < thread_packs; p++) {
      launches[p] = *counter(first + place(p) / part_packs) + 1;
    }
  }

  CRK_FN void *own_area() const { return ranks.areas[ranks.rank]; }
  CRK_FN void *other_area() const { return ranks.areas[1 - ranks.rank]; }
  CRK_FN uint32_t *counter(uint32_t part) const {
    return reinterpret_cast<uint32_t *>(static_cast<char *>(own_area()) + CRK_AREA_PART_COUNTERS(2)) + part;
  }
  CRK_FN static uint64_t *mark(void *area, uint32_t part, uint32_t launch) {
    return reinterpret_cast<uint64_t *>(static_cast<char *>(area) + CRK_AREA_MARKS(2)) + (launch & 1) * CRK_PARTS +
           part;
  }

  /* The place of pack p among the packs of the block, and its words in an area. */
  CRK_FN uint32_t place(int p) const { return static_cast<uint32_t>(p) * threads + thread_index().x; }
  CRK_FN uint64_t *words(void *area, int p) const {
    const uint64_t slot = (launches[p] & 1) * static_cast<uint64_t>(CRK_PARTS) + first;
    return reinterpret_cast<uint64_t *>(static_cast<char *>(area) + CRK_AREA_PARTS(2) + slot * CRK_PART_BYTES +
                                        static_cast<uint64_t>(place(p)) * CRK_PACK_BYTES);
  }

  template <class T>
  CRK_FN void send(int p, const marked_pack<T> &values) const {
    store_for_peers(words(other_area(), p), bit_cast<pack<uint64_t, 2>>(values));
  }

  /* Tells the other rank that the block has sent its parts, and waits for the other's. */
  CRK_FN void wait_for_other() const {
    wait_until_sent();
    barrier();
    if (thread_index().x < threads / CRK_PART_THREADS) { /* a thread for each part */
      const uint32_t part = first + thread_index().x, launch = *counter(part) + 1;
      publish_behind(mark(other_area(), part, launch), launch);
      const uint64_t *const from = mark(own_area(), part, launch);
      for (uint32_t loads = 1; load_mark(from) != launch; loads++) {
        if (loads % patience == 0 && load_published(ranks.stop) != 0) {
          break;
        }
        pause_wave();
      }
      *counter(part) = launch; /* the block's threads have read it before the barrier */
    }
    barrier();
  }

  /* The sum of both ranks' packs, that of rank 0 first, so that both get the same bits. */
  template <class T>
  CRK_FN auto sum(int p, const marked_pack<T> &mine) const {
    constexpr int V = CRK_PACK_BYTES / static_cast<int>(sizeof(T));
    const auto other = bit_cast<marked_pack<T>>(load_from_peers(words(own_area(), p)));
    pack<float, V> sum;
    CRK_UNROLL
    for (int i = 0; i < V; i++) {
      const float a = convert<float>(mine.v[i]), b = convert<float>(other.v[i]);
      sum.v[i] = ranks.rank == 0 ? a + b : b + a;
    }
    return sum;
  }
};

/* dst = the sum of both ranks' src, for the part of this block. */
template <class T>
CRK_FN void marked_sum(const crk_peer_sum_call_t &call) {
  constexpr uint32_t V = CRK_PACK_BYTES / sizeof(T);
  const part_exchange parts(call.ranks, block_index().x, CRK_PART_THREADS);
  const bool aligned = reinterpret_cast<uintptr_t>(call.dst) % CRK_PACK_BYTES == 0;
  const auto element = [&](int p) { return (static_cast<uint64_t>(parts.first) * part_packs + parts.place(p)) * V; };
  const auto elements = [&](int p) {
    const uint64_t at = element(p);
    return static_cast<uint32_t>(at >= call.count ? 0 : call.count - at < V ? call.count - at : V);
  };
  marked_pack<T> mine[thread_packs] = {};
  CRK_UNROLL
  for (int p = 0; p < thread_packs; p++) {
    const T *const src = static_cast<const T *>(call.src) + element(p);
    if (elements(p) == V) {
      mine[p] = load_pack<T, V>(src);
    }
    CRK_UNROLL
    for (uint32_t i = 0; i < V; i++) {
      if (elements(p) < V && i < elements(p)) {
        mine[p].v[i] = src[i];
      }
    }
    if (elements(p) != 0) {
      parts.send<T>(p, mine[p]);
    }
  }
  parts.wait_for_other();
  CRK_UNROLL
  for (int p = 0; p < thread_packs; p++) {
    if (elements(p) == 0) {
      continue;
    }
    T *const dst = static_cast<T *>(call.dst) + element(p);
    const auto sum = parts.sum<T>(p, mine[p]);
    marked_pack<T> rounded;
    CRK_UNROLL
    for (uint32_t i = 0; i < V; i++) {
      rounded.v[i] = convert<T>(sum.v[i]);
    }
    if (elements(p) == V) {
      store_some(dst, rounded, aligned);
    }
    CRK_UNROLL
    for (uint32_t i = 0; i < V; i++) {
      if (elements(p) < V && i < elements(p)) {
        dst[i] = rounded.v[i];
      }
    }
  }
}

/* one_shot_norm for many rows. A block has a row of whole packs, in whole parts. */
template <class T>
CRK_FN void marked_norm(const crk_peer_norm_call_t &call) {
  CRK_SHARED(float, squares, CRK_MOST_NORM_THREADS / group_lanes);
  row_end<T, CRK_PACK_BYTES / static_cast<int>(sizeof(T)), thread_packs> row(call, squares);
  const part_exchange parts(call.ranks, block_index().x * (call.threads / CRK_PART_THREADS), call.threads);
  marked_pack<T> mine[thread_packs] = {};
  CRK_UNROLL
  for (int p = 0; p < thread_packs; p++) {
    if (row.is_here(p)) {
      mine[p] = row.load(p);
      parts.send<T>(p, mine[p]);
    }
    row.prefetch(p);
  }
  parts.wait_for_other();
  CRK_UNROLL
  for (int p = 0; p < thread_packs; p++) {
    if (row.is_here(p)) {
      row.add(p, parts.sum<T>(p, mine[p]));
    }
  }
  row.norm();
}

}  // namespace
}  // namespace crk

#endif
