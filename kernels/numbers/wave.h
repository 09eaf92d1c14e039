/* Reductions across the lanes of a wave and the waves of a block, for every kernel. Main functions: butterfly (lanes of
 * a group, width known to the compiler), lanes_reduce (width known at run time), block_reduce (a block).
 *
 * All functions work on groups of 32 lanes, Candle's warp, on waves of 64 lanes too. A sum is therefore added in one
 * order on every GPU. The threads of a block are counted along x first, then y, then z; the last group may be
 * incomplete.
 *
 * An op is a functor `A operator()(A mine, A other) const`. If it commutes, every lane of a group gets the result. If
 * not, only the first lane of the group does: on every path to it, `mine` comes from the lower lane. Types have 1, 2, 4
 * or 8 bytes, or are structs of 32-bit words. */
#ifndef CRK_WAVE_H
#define CRK_WAVE_H

#include "platform/platform.h"

namespace crk {

inline constexpr uint32_t group_lanes = 32;

/* Ops for the functions below. `larger` gives the number where the other operand is NaN. */
struct plus {
  template <class A>
  CRK_FN A operator()(A a, A b) const {
    return a + b;
  }
};
struct larger {
  template <class A>
  CRK_FN A operator()(A a, A b) const {
    return max_number(a, b);
  }
};

/* True on GPUs with waves of 64 lanes, GCN and CDNA. With eight waves per SIMD unit, a wave has 2 KiB of shared memory
 * there, half as much as on RDNA. A lane has 64 vector registers from gfx90a on, half as many as on RDNA or fewer;
 * before gfx90a it has 32. */
inline constexpr bool wide_waves = most_lanes == 64 && !on_host;

/* The number of this thread in its block, and the number of threads. For kernels with Candle's names, where blocks may
 * have three dims; the launchers' blocks lie along x. */
CRK_FN uint32_t thread_in_block() {
  const auto t = thread_index();
  const auto b = block_size();
  return t.x + b.x * (t.y + b.y * t.z);
}
CRK_FN uint32_t threads_of_block() {
  const auto b = block_size();
  return b.x * b.y * b.z;
}

/* The `value` of the lane whose number differs in the bit Mask: 1, 2, 4, 8 or 16. All live lanes of the group must call
 * it. The result is undefined if the other lane is not live. */
template <int Mask, class T>
CRK_FN T exchange(T value) {
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    return exchange_xor<Mask>(value);
  } else if constexpr (sizeof(T) < 4) {
    const uint32_t word = exchange_xor<Mask>(static_cast<uint32_t>(bit_cast<bits_of<T>>(value)));
    return bit_cast<T>(static_cast<bits_of<T>>(word));
  } else {
    struct word {
      uint32_t bits;
    };
    struct words {
      word w[sizeof(T) / 4];
    };
    words bits = bit_cast<words>(value);
    CRK_UNROLL
    for (unsigned i = 0; i < sizeof(T) / 4; i++) {
      bits.w[i] = exchange_xor<Mask>(bits.w[i]);
    }
    return bit_cast<T>(bits);
  }
}

/* Reduces over each `Width` neighbouring lanes, a power of two from 1 to 32. All of them must be live. Each lane joins
 * its value with that of the lane Width / 2 away, then Width / 4 away, and so on down to its neighbour. */
template <int Width, class T, class Op>
CRK_FN T butterfly(T value, Op op) {
  static_assert(Width >= 1 && Width <= 32 && (Width & (Width - 1)) == 0, "a power of two within a group");
  if constexpr (Width > 1) {
    value = op(value, exchange<Width / 2>(value));
    return butterfly<Width / 2>(value, op);
  } else {
    return value;
  }
}

/* The same over the group's first Width lanes, where only the values of the first `live` lanes count. The other lanes
 * may be inactive. A `live` above Width means all Width lanes. Only the first lane of the group gets the result. */
template <int Width, class T, class Op>
CRK_FN T butterfly(T value, Op op, uint32_t live) {
  if constexpr (Width > 1) {
    const uint32_t other = (lane() % group_lanes) ^ (Width / 2);
    const T theirs = exchange<Width / 2>(value);
    value = other < live ? op(value, theirs) : value;
    return butterfly<Width / 2>(value, op, live);
  } else {
    return value;
  }
}

/* Reduces over each `width` neighbouring lanes, a power of two from 1 to 32. All lanes of the group must call it. */
template <class A, class Op>
CRK_FN A lanes_reduce(A x, Op op, uint32_t width) {
  if (width > 16) {
    x = op(x, exchange<16>(x));
  }
  if (width > 8) {
    x = op(x, exchange<8>(x));
  }
  if (width > 4) {
    x = op(x, exchange<4>(x));
  }
  if (width > 2) {
    x = op(x, exchange<2>(x));
  }
  return width > 1 ? op(x, exchange<1>(x)) : x;
}

/* Reduces over a block of up to 32 * Groups threads, for kernels with Candle's names. It runs a butterfly in each
 * group, then one over the groups' results. Groups that the block lacks count as `identity`. All threads must call it.
 * All get the result if `op` commutes, else only thread 0. It holds at most one barrier if the block is whole groups,
 * else three. `shared` is shared memory for Groups values; it may be used again after the next barrier. */
template <int Groups = 32, class T, class Op>
CRK_FN T block_reduce(T value, Op op, T identity, T *shared) {
  const uint32_t threads = threads_of_block(), thread = thread_in_block(), group = thread / group_lanes;
  const uint32_t groups = (threads + group_lanes - 1) / group_lanes, place = thread % group_lanes % Groups;
  const bool whole = threads % group_lanes == 0;
  value = whole ? butterfly<32>(value, op) : butterfly<32>(value, op, threads - group * group_lanes);
  if (whole && groups == 1) {
    return value;
  }
  if (thread % group_lanes == 0) {
    shared[group] = value;
  }
  shared_barrier();
  if (groups > 1) { /* the first group is complete */
    value = place < groups ? shared[place] : identity;
    value = whole ? butterfly<Groups>(value, op) : butterfly<Groups>(value, op, groups);
  }
  if (!whole) {
    shared_barrier();
    if (thread == 0) {
      shared[0] = value;
    }
    shared_barrier();
    value = shared[0];
  }
  return value;
}

}  // namespace crk

#endif
