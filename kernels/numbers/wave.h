/* Reductions across the lanes of a wave and the waves of a block.
 *
 * Everything here goes by groups of 32 lanes, Candle's warp, on a wave of 64 as well: a sum has one order, whatever the width.
 * A block's threads are counted x first, then y, then z; the last group may be a part of one.
 *
 * An op is a functor `A operator()(A mine, A other) const`. Where it commutes, every lane of a group gets the result; else the
 * group's first lane does, `mine` being of the lower lane on all ways to it. Types: 1, 2, 4 or 8 bytes, or a struct of words. */
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

/* A GPU whose waves have 64 lanes: GCN, CDNA. Eight waves a SIMD unit have 2 KiB of shared memory each there, half of what those of RDNA
 * have, and 64 vector registers a lane from gfx90a on, half of theirs or less; before it 32. */
inline constexpr bool wide_waves = most_lanes == 64 && !on_host;

/* This thread's number in its block, and how many there are, for kernels by Candle's names: a launcher's blocks lie along x. */
CRK_FN uint32_t thread_in_block() {
  const auto t = thread_index();
  const auto b = block_size();
  return t.x + b.x * (t.y + b.y * t.z);
}
CRK_FN uint32_t threads_of_block() {
  const auto b = block_size();
  return b.x * b.y * b.z;
}

/* `value` of the lane whose number differs by the bit Mask, 1 to 16. All live lanes of the group must come; undefined from a lane
 * that is not live. */
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

/* Reduces over each Width lanes that follow each other, 1 to 32, all of them live: value = op(value, the other's) with the lane
 * Width / 2 away, then half of that, down to the neighbour. */
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

/* The same where only the first `live` lanes of the thread's group are live, or have a value that counts. Width is the group's
 * first lanes that may be. The result is the group's first lane's. */
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

/* Reduces over each `width` lanes that follow each other, a power of two up to 32; all lanes of the group come. */
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

/* Reduces over a block of up to 32 * Groups threads: a butterfly in each group, then one over the groups' results, in which the
 * groups that a smaller block lacks count as `identity`. All threads must come; all get the result (where op commutes, else thread
 * 0). One barrier in a block of whole groups. `shared` is the block's own memory for Groups values, free again after a barrier. By
 * Candle's names. */
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
  barrier();
  if (groups > 1) { /* so the first group is whole */
    value = place < groups ? shared[place] : identity;
    value = whole ? butterfly<Groups>(value, op) : butterfly<Groups>(value, op, groups);
  }
  if (!whole) {
    barrier();
    if (thread == 0) {
      shared[0] = value;
    }
    barrier();
    value = shared[0];
  }
  return value;
}

}  // namespace crk

#endif
