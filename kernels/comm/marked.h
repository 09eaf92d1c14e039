/* Sums of many elements between two GPUs of one host, by kernels. Each rank sends all of its elements to the other one,
 * and both add. Among two ranks no other way moves fewer bytes. See call/peers_call.h for the memory.
 *
 * A block has a part of the elements, or the parts of a row. Its threads store them to the other rank's exchange area,
 * and then a thread stores the part's mark, which stands for the whole part. The block waits for the other rank's mark,
 * loads the part from its own area, and adds. The part's counter gives the mark, and the slot is that of its lowest
 * bit. Two slots are enough, for the same reason as in one_shot.h.
 *
 * There are more blocks than a GPU holds at once. GPUs begin them in their order, and a block sends before it waits. So
 * the first block that has not ended is begun on both GPUs, and ends. */
#ifndef CRK_MARKED_H
#define CRK_MARKED_H

#include "comm/patience.h"
#include "comm/row_end.h"

namespace crk {
namespace {

inline constexpr uint32_t pack_bytes = 16, part_packs = CRK_PART_BYTES / pack_bytes;
template <class T>
constexpr int marked_elements = static_cast<int>(pack_bytes / sizeof(T));

/* The parts of this block, which begin with part `first`. A thread has P packs, those of `threads` threads behind each
 * other. */
template <int P>
struct part_exchange {
  const crk_exchange_t &ranks;
  const uint32_t first, threads;
  uint32_t flags[P]; /* of the parts of this thread's packs */

  CRK_FN part_exchange(const crk_exchange_t &of, uint32_t first_part, uint32_t block_threads)
      : ranks(of), first(first_part), threads(block_threads) {
    CRK_UNROLL
    for (int p = 0; p < P; p++) {
      flags[p] = *counter(first + place(p) / part_packs) + 1;
    }
  }

  CRK_FN static char *at(void *area, uint64_t offset) { return static_cast<char *>(area) + offset; }
  CRK_FN void *ours() const { return ranks.areas[ranks.rank]; }
  CRK_FN void *theirs() const { return ranks.areas[1 - ranks.rank]; }
  CRK_FN uint32_t *counter(uint32_t part) const {
    return reinterpret_cast<uint32_t *>(at(ours(), CRK_AREA_PART_COUNTERS(2))) + part;
  }
  CRK_FN static uint64_t *mark(void *area, uint32_t part, uint32_t flag) {
    return reinterpret_cast<uint64_t *>(at(area, CRK_AREA_MARKS(2))) + (flag & 1) * CRK_PARTS + part;
  }

  /* The place of pack p among the packs of the block. */
  CRK_FN uint32_t place(int p) const { return static_cast<uint32_t>(p) * threads + thread_index().x; }
  CRK_FN uint64_t *slot(void *area, int p) const {
    const uint64_t packs = static_cast<uint64_t>(flags[p] & 1) * CRK_PARTS * part_packs + first * part_packs + place(p);
    return reinterpret_cast<uint64_t *>(at(area, CRK_AREA_PARTS(2) + packs * pack_bytes));
  }

  template <class T>
  CRK_FN void send(int p, const pack<T, marked_elements<T>> &values) const {
    store_for_peers(slot(theirs(), p), bit_cast<pack<uint64_t, 2>>(values));
  }

  /* Tells the other rank that the block's parts are sent, and waits for its parts. All threads of the block call it,
   * after all of their sends. */
  CRK_FN void meet() const {
    const uint32_t part = first + thread_index().x;
    const bool has_part = thread_index().x < (P * threads + part_packs - 1) / part_packs;
    wait_until_sent();
    barrier();
    if (has_part) {
      const uint32_t flag = *counter(part) + 1;
      publish_behind(mark(theirs(), part, flag), flag);
      const uint64_t *const from = mark(ours(), part, flag);
      for (uint32_t loads = 1; load_mark(from) != flag; loads++) {
        if (loads % patience == 0 && load_published(ranks.stop) != 0) {
          break;
        }
        pause_wave();
      }
      *counter(part) = flag; /* the block's threads have read it before the barrier */
    }
    barrier();
  }

  /* The sum of both ranks' packs, that of rank 0 first, so that both get the same bits. */
  template <class T>
  CRK_FN pack<float, marked_elements<T>> sum(int p, const pack<T, marked_elements<T>> &mine) const {
    const auto other = bit_cast<pack<T, marked_elements<T>>>(load_from_peers(slot(ours(), p)));
    pack<float, marked_elements<T>> sum;
    CRK_UNROLL
    for (int i = 0; i < marked_elements<T>; i++) {
      const float a = convert<float>(mine.v[i]), b = convert<float>(other.v[i]);
      sum.v[i] = ranks.rank == 0 ? a + b : b + a;
    }
    return sum;
  }
};

/* dst = the sum of both ranks' src, for the part of this block. */
template <class T>
CRK_FN void marked_sum(const crk_peer_sum_call_t &call) {
  constexpr int V = marked_elements<T>, P = part_packs / CRK_PART_THREADS;
  const part_exchange<P> parts(call.ranks, block_index().x, CRK_PART_THREADS);
  const bool aligned = reinterpret_cast<uintptr_t>(call.dst) % pack_bytes == 0;
  const auto first = [&](int p) { return (static_cast<uint64_t>(parts.first) * part_packs + parts.place(p)) * V; };
  pack<T, V> mine[P] = {};
  CRK_UNROLL
  for (int p = 0; p < P; p++) {
    const T *const src = static_cast<const T *>(call.src) + first(p);
    if (first(p) + V <= call.count) {
      mine[p] = load_pack<T, V>(src);
    } else {
      CRK_UNROLL
      for (uint32_t i = 0; i < V; i++) {
        if (first(p) + i < call.count) {
          mine[p].v[i] = src[i];
        }
      }
    }
    parts.send(p, mine[p]);
  }
  parts.meet();
  CRK_UNROLL
  for (int p = 0; p < P; p++) {
    T *const dst = static_cast<T *>(call.dst) + first(p);
    const pack<float, V> sum = parts.sum(p, mine[p]);
    pack<T, V> rounded;
    CRK_UNROLL
    for (int i = 0; i < V; i++) {
      rounded.v[i] = convert<T>(sum.v[i]);
    }
    if (first(p) + V <= call.count) {
      store_some(dst, rounded, aligned);
    } else {
      CRK_UNROLL
      for (uint32_t i = 0; i < V; i++) {
        if (first(p) + i < call.count) {
          dst[i] = rounded.v[i];
        }
      }
    }
  }
}

/* one_shot_norm for many rows. A block has a row of whole packs, and its threads P packs each: whole parts. */
template <class T, int P>
CRK_FN void marked_norm(const crk_peer_norm_call_t &call) {
  constexpr int V = marked_elements<T>;
  CRK_SHARED(float, sums, CRK_MOST_NORM_THREADS / group_lanes);
  row_end<T, V, P> row(call, sums);
  const part_exchange<P> parts(call.ranks, block_index().x * (call.threads * P / part_packs), call.threads);
  pack<T, V> mine[P];
  CRK_UNROLL
  for (int p = 0; p < P; p++) {
    mine[p] = row.load(p);
    parts.send(p, mine[p]);
    row.prefetch(p);
  }
  parts.meet();
  CRK_UNROLL
  for (int p = 0; p < P; p++) {
    row.add(p, parts.sum(p, mine[p]));
  }
  row.norm();
}

}  // namespace
}  // namespace crk

#endif
