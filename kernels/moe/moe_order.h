/* Counting and sorting of tokens by expert: moe_counts counts them, moe_starts and moe_align put them in order. Any
 * number of experts and tokens is allowed. The tokens of an expert keep their order, so every call gives the same
 * result.
 *
 * One block counts the experts' tokens in bins in shared memory and sums the counts up. Atomics may count in any order
 * without changing the sums. Then a block per expert collects its tokens with ballots, in order. */
#ifndef CRK_MOE_ORDER_H
#define CRK_MOE_ORDER_H

#include "call/moe_call.h"
#include "elementwise/walk.h"
#include "numbers/wave.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* Number of experts that a block counts at a time; each thread has experts_a_thread of them. */
enum { experts_a_thread = 8, experts_at_once = CRK_MOE_ORDER_THREADS * experts_a_thread };

/* blocks_of: the number of blocks of o.by_block.size tokens that n tokens take. padded: n rounded up to whole blocks. n
 * is below 2^31. */
CRK_FN uint32_t blocks_of(const crk_moe_order_t &o, uint32_t n) {
  const uint32_t last = n + static_cast<uint32_t>(o.by_block.size) - 1;
  return (mulhi(last, static_cast<uint32_t>(o.by_block.mul)) + last) >> o.by_block.shift;
}
CRK_FN uint32_t padded(const crk_moe_order_t &o, uint32_t n) {
  return blocks_of(o, n) * static_cast<uint32_t>(o.by_block.size);
}

/* `before` is the sum of `value` over the threads before this one, `all` the sum over all threads. `memory` is shared
 * memory with one value per thread. All threads of the block must call it. */
struct prefix {
  uint32_t before, all;
};
CRK_FN prefix prefix_of(uint32_t value, uint32_t *memory) {
  const uint32_t thread = thread_index().x;
  uint32_t sum = value;
  for (uint32_t distance = 1; distance < CRK_MOE_ORDER_THREADS; distance *= 2) {
    memory[thread] = sum;
    barrier();
    if (thread >= distance) {
      sum += memory[thread - distance];
    }
    barrier();
  }
  memory[thread] = sum;
  barrier();
  const prefix result = {sum - value, memory[CRK_MOE_ORDER_THREADS - 1]};
  barrier();
  return result;
}

/* One block runs it. It calls take(expert, count, before) for every expert, where `before` is the sum of size(count)
 * over the experts before. It returns this sum over all experts. An id that is not an expert is left out and
 * reported. */
template <class Size, class Take>
CRK_FN uint32_t count_experts(const int32_t *ids, uint64_t count, uint64_t experts, crk_fault_t fault, Size size,
                              Take take) {
  CRK_SHARED(uint32_t, bins, experts_at_once);
  CRK_SHARED(uint32_t, sums, CRK_MOE_ORDER_THREADS);
  constexpr uint32_t loads_ahead = 8;
  const uint32_t thread = thread_index().x;
  uint32_t carry = 0;
  uint64_t first = 0;
  do {
    CRK_UNROLL
    for (int i = 0; i < experts_a_thread; i++) {
      bins[thread + i * CRK_MOE_ORDER_THREADS] = 0;
    }
    barrier();
    CRK_NO_UNROLL
    for (uint64_t begin = thread; begin < count; begin += loads_ahead * CRK_MOE_ORDER_THREADS) {
      int32_t some[loads_ahead];
      CRK_UNROLL
      for (uint32_t j = 0; j < loads_ahead; j++) {
        const uint64_t i = begin + j * CRK_MOE_ORDER_THREADS;
        some[j] = ids[i < count ? i : begin];
      }
      CRK_UNROLL
      for (uint32_t j = 0; j < loads_ahead; j++) {
        const uint32_t id = static_cast<uint32_t>(some[j]);
        if (begin + j * CRK_MOE_ORDER_THREADS >= count) {
          break;
        }
        if (id < experts && id - first < experts_at_once) {
          atomic_add(&bins[id - first], 1u);
        } else if (id >= experts && first == 0) {
          report(fault, some[j]);
        }
      }
    }
    barrier();
    uint32_t mine = 0;
    CRK_UNROLL
    for (int i = 0; i < experts_a_thread; i++) {
      mine += size(bins[thread * experts_a_thread + i]);
    }
    const prefix sum = prefix_of(mine, sums);
    uint32_t before = carry + sum.before;
    CRK_NO_UNROLL
    for (int i = 0; i < experts_a_thread; i++) {
      const uint32_t n = bins[thread * experts_a_thread + i];
      const uint64_t expert = first + thread * experts_a_thread + i;
      if (expert < experts) {
        take(expert, n, before);
      }
      before += size(n);
    }
    carry += sum.all;
    barrier();
    first += experts_at_once;
  } while (first < experts);
  return carry;
}

/* counts[e] = the number of ids equal to e. offsets[e] = the sum of the counts before e; offsets[experts] = the sum of
 * all counts. Either may be null. */
CRK_FN void moe_counts(const int32_t *ids, int32_t *counts, int32_t *offsets, uint64_t count, uint64_t experts) {
  const uint32_t all = count_experts(
      ids, count, experts, {}, [](uint32_t n) { return n; },
      [=](uint64_t expert, uint32_t n, uint32_t before) {
        if (counts != nullptr) {
          counts[expert] = static_cast<int32_t>(n);
        }
        if (offsets != nullptr) {
          offsets[expert] = static_cast<int32_t>(before);
        }
      });
  if (thread_index().x == 0 && offsets != nullptr) {
    offsets[experts] = static_cast<int32_t>(all);
  }
}

/* starts[e] = the place where e's tokens begin. starts[experts] and *total = the place where the last expert's tokens
 * end, with padding. A total above o.most is reported under the fault's next number. */
CRK_FN void moe_starts(const int32_t *ids, int32_t *starts, int32_t *total, const crk_moe_order_t &o,
                       crk_fault_t fault) {
  const uint32_t all = count_experts(
      ids, o.count, o.experts, fault, [&](uint32_t n) { return padded(o, n); },
      [=](uint64_t expert, uint32_t, uint32_t before) { starts[expert] = static_cast<int32_t>(before); });
  if (thread_index().x == 0) {
    starts[o.experts] = static_cast<int32_t>(all);
    *total = static_cast<int32_t>(all);
    if (all > o.most) {
      report(crk_fault_t{fault.word, fault.op + 1}, all);
    }
  }
}

/* Writes the tokens in order, with one block per expert. Then all blocks fill the rest of both lists. starts[e] is
 * advanced to the end of e's tokens. */
CRK_FN void moe_align(const int32_t *ids, int32_t *sorted, int32_t *block_experts, int32_t *starts,
                      const crk_moe_order_t &o, uint32_t blocks) {
  enum { at_once = 4, waves = CRK_MOE_ORDER_THREADS / 32 };
  CRK_SHARED(uint32_t, found, 2 * waves);
  const uint32_t thread = thread_index().x, wave = thread / wave_size(),
                 wave_count = CRK_MOE_ORDER_THREADS / wave_size();
  const uint64_t below = (uint64_t(1) << lane()) - 1, most_blocks = blocks_of(o, static_cast<uint32_t>(o.most));
  const int32_t none = static_cast<int32_t>(o.count);
  uint32_t phase = 0;
  for (uint64_t expert = block_index().x; expert < o.experts; expert += blocks) {
    const uint64_t begin = static_cast<uint32_t>(starts[expert]);
    uint64_t end = begin;
    barrier();
    for (uint64_t first = 0; first < o.count; first += CRK_MOE_ORDER_THREADS * at_once) {
      const uint64_t i = first + thread * at_once;
      uint32_t bits = 0, mine = 0;
      CRK_UNROLL
      for (int j = 0; j < at_once; j++) {
        const bool match = i + j < o.count && static_cast<uint32_t>(ids[i + j]) == expert;
        bits |= match ? 1u << j : 0;
        mine += match;
      }
      /* The lanes' counts are 0 to 4, so three ballots add them up. */
      uint32_t before = 0, all = 0;
      CRK_UNROLL
      for (int b = 0; b < 3; b++) {
        const uint64_t votes = ballot((mine >> b & 1) != 0);
        before += popcount(votes & below) << b;
        all += popcount(votes) << b;
      }
      if (lane() == 0) {
        found[phase * waves + wave] = all;
      }
      barrier();
      uint32_t total = 0;
      for (uint32_t w = 0; w < wave_count; w++) {
        const uint32_t n = found[phase * waves + w];
        before += w < wave ? n : 0;
        total += n;
      }
      phase ^= 1;
      uint64_t to = end + before;
      CRK_UNROLL
      for (int j = 0; j < at_once; j++) {
        if ((bits >> j & 1) != 0) {
          if (to < o.most) {
            sorted[to] = static_cast<int32_t>(i + j);
          }
          to++;
        }
      }
      end += total;
    }
    const uint32_t block_count = blocks_of(o, static_cast<uint32_t>(end - begin));
    const uint64_t next = begin + block_count * o.by_block.size;
    for (uint64_t i = end + thread; i < next && i < o.most; i += CRK_MOE_ORDER_THREADS) {
      sorted[i] = none;
    }
    const uint64_t first_block = blocks_of(o, static_cast<uint32_t>(begin));
    for (uint64_t b = first_block + thread; b < first_block + block_count && b < most_blocks;
         b += CRK_MOE_ORDER_THREADS) {
      block_experts[b] = static_cast<int32_t>(expert);
    }
    if (thread == 0) {
      starts[expert] = static_cast<int32_t>(end);
    }
  }
  const uint64_t total = static_cast<uint32_t>(starts[o.experts]),
                 step = static_cast<uint64_t>(blocks) * CRK_MOE_ORDER_THREADS;
  const uint64_t place = static_cast<uint64_t>(block_index().x) * CRK_MOE_ORDER_THREADS + thread;
  for (uint64_t i = total + place; i < o.most; i += step) {
    sorted[i] = none;
  }
  for (uint64_t b = blocks_of(o, static_cast<uint32_t>(total)) + place; b < most_blocks; b += step) {
    block_experts[b] = -1;
  }
}

}  // namespace
}  // namespace crk

#endif
