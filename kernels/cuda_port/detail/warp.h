/* CUDA's functions of a warp, for warps of CRK_CUDA_WARP lanes. A part of cuda_port/detail/port.h.
 *
 * A mask names the lanes that take part, as in CUDA. AMD's waves run in step, so that no lane waits for another: lanes
 * of the mask that do not come count as absent. A shuffle from an absent lane is undefined, as it is in CUDA. */
#ifndef CRK_CUDA_PORT_WARP_H
#define CRK_CUDA_PORT_WARP_H

#include "numbers/element_types.h"

#if !defined(CRK_CUDA_WARP)
#define CRK_CUDA_WARP 32
#elif CRK_CUDA_WARP != 32 && CRK_CUDA_WARP != 64
#error "CRK_CUDA_WARP is the number of lanes of a warp, 32 or 64"
#endif
#if CRK_CUDA_WARP == 64 && CRK_ARCH_LANES != 64
#error "CRK_CUDA_WARP is 64, and this GPU's waves have 32 lanes; leave CRK_CUDA_WARP out"
#endif

namespace crk {
namespace port {

inline constexpr int warp_size = CRK_CUDA_WARP;
using warp_mask = choose<warp_size == 64, unsigned long long, unsigned>;
inline constexpr warp_mask whole_warp = ~static_cast<warp_mask>(0);

/* enabled<C>::type exists only if C. */
template <bool C>
struct enabled {};
template <>
struct enabled<true> {
  using type = int;
};

/* Declares a function that takes a mask of type M, and one that refuses masks which name half of the warp. */
#define CRK_PORT_MASKED(params, result, name, rest)                                                          \
  template <class M, params typename enabled<(sizeof(M) < sizeof(warp_mask))>::type = 0>                     \
  __attribute__((device, unavailable("warps have 64 lanes here (CRK_CUDA_WARP), and this mask has 32 bits; " \
                                     "write it with 64"))) result name rest;                                 \
  template <class M, params typename enabled<(sizeof(M) >= sizeof(warp_mask))>::type = 0>                    \
  CRK_FN result name rest

/* An empty list of template parameters, and one of a type T. */
#define CRK_PORT_NONE
#define CRK_PORT_T class T,

/* This lane's number in its warp, and the number of the warp's first lane in the wave. */
CRK_FN uint32_t warp_lane() { return lane() % warp_size; }
CRK_FN uint32_t first_lane() { return lane() - warp_lane(); }

/* The value of lane `source` of the wave. Any size. */
template <class T>
CRK_FN T from_lane(T value, uint32_t source) {
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    return shuffle(value, source);
  } else if constexpr (sizeof(T) < 4) {
    static_assert(sizeof(T) != 3, "shuffles move 1, 2, or a multiple of 4 bytes");
    return bit_cast<T>(static_cast<bits_of<T>>(shuffle(static_cast<uint32_t>(bit_cast<bits_of<T>>(value)), source)));
  } else {
    static_assert(sizeof(T) % 4 == 0, "shuffles move 1, 2, or a multiple of 4 bytes");
    struct words {
      uint32_t w[sizeof(T) / 4];
    };
    words bits = bit_cast<words>(value);
    for (unsigned i = 0; i < sizeof(T) / 4; i++) {
      bits.w[i] = shuffle(bits.w[i], source);
    }
    return bit_cast<T>(bits);
  }
}

/* The place of `source`, a lane of this lane's section of `width` lanes, in the wave; this lane's own if `present` is
 * false. */
CRK_FN uint32_t place(uint32_t source, bool present) { return first_lane() + (present ? source : warp_lane()); }

CRK_PORT_MASKED(CRK_PORT_T, T, shfl_sync, (M, T value, int source, int width = warp_size)) {
  const uint32_t last = static_cast<uint32_t>(width) - 1;
  return from_lane(value, place((warp_lane() & ~last) | (static_cast<uint32_t>(source) & last), true));
}
CRK_PORT_MASKED(CRK_PORT_T, T, shfl_up_sync, (M, T value, unsigned distance, int width = warp_size)) {
  const uint32_t self = warp_lane() & (static_cast<uint32_t>(width) - 1);
  return from_lane(value, place(warp_lane() - distance, distance <= self));
}
CRK_PORT_MASKED(CRK_PORT_T, T, shfl_down_sync, (M, T value, unsigned distance, int width = warp_size)) {
  const uint32_t rest = static_cast<uint32_t>(width) - 1 - (warp_lane() & (static_cast<uint32_t>(width) - 1));
  return from_lane(value, place(warp_lane() + distance, distance <= rest));
}
/* A lane of an earlier section is reached, as in CUDA, and one of a later section is not. */
CRK_PORT_MASKED(CRK_PORT_T, T, shfl_xor_sync, (M, T value, int mask, int width = warp_size)) {
  const uint32_t source = warp_lane() ^ static_cast<uint32_t>(mask);
  return from_lane(value, place(source, source <= (warp_lane() | (static_cast<uint32_t>(width) - 1))));
}

/* One bit per lane of this warp whose predicate holds. */
CRK_FN warp_mask vote(bool predicate) { return static_cast<warp_mask>(ballot(predicate) >> first_lane()); }

CRK_FN warp_mask activemask() { return vote(true); }
CRK_PORT_MASKED(CRK_PORT_NONE, warp_mask, ballot_sync, (M mask, int predicate)) {
  return vote(predicate != 0) & static_cast<warp_mask>(mask);
}
CRK_PORT_MASKED(CRK_PORT_NONE, int, any_sync, (M mask, int predicate)) {
  return (vote(predicate != 0) & static_cast<warp_mask>(mask)) != 0;
}
CRK_PORT_MASKED(CRK_PORT_NONE, int, all_sync, (M mask, int predicate)) {
  return (vote(predicate == 0) & static_cast<warp_mask>(mask)) == 0;
}

/* Waits for no lane, since a wave runs in step; orders the warp's accesses to memory. */
CRK_FN void fence_warp() {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "workgroup");
  __builtin_amdgcn_wave_barrier();
}
CRK_FN void syncwarp() { fence_warp(); }
CRK_PORT_MASKED(CRK_PORT_NONE, void, syncwarp, (M)) { fence_warp(); }

/* Bit i: lane i of the mask has this lane's value. */
CRK_PORT_MASKED(CRK_PORT_T, warp_mask, match_any_sync, (M mask, T value)) {
  const warp_mask present = activemask() & static_cast<warp_mask>(mask);
  warp_mask same_value = 0;
  for (int i = 0; i < warp_size; i++) {
    const T other = from_lane(value, first_lane() + i);
    same_value |= static_cast<warp_mask>(bit_cast<bits_of<T>>(other) == bit_cast<bits_of<T>>(value)) << i;
  }
  return same_value & present;
}
CRK_PORT_MASKED(CRK_PORT_T, warp_mask, match_all_sync, (M mask, T value, int *all_same)) {
  const warp_mask present = activemask() & static_cast<warp_mask>(mask);
  *all_same = match_any_sync(static_cast<warp_mask>(mask), value) == present;
  return *all_same != 0 ? present : 0;
}

/* The values of the mask's lanes, joined by `op` from the first lane to the last. */
template <class T, class Op>
CRK_FN T join(warp_mask mask, T value, Op op) {
  const warp_mask present = activemask() & mask;
  bool first = true;
  T result = value;
  for (int i = 0; i < warp_size; i++) {
    const T other = from_lane(value, first_lane() + i);
    if ((present >> i & 1) != 0) {
      result = first ? other : op(result, other);
      first = false;
    }
  }
  return result;
}
#define CRK_PORT_REDUCE(name, expression)                                                       \
  CRK_PORT_MASKED(CRK_PORT_T, T, name, (M mask, T value)) {                                     \
    return join(static_cast<warp_mask>(mask), value, [](T a, T b) -> T { return expression; }); \
  }
CRK_PORT_REDUCE(reduce_add_sync, a + b)
CRK_PORT_REDUCE(reduce_min_sync, b < a ? b : a)
CRK_PORT_REDUCE(reduce_max_sync, a < b ? b : a)
CRK_PORT_REDUCE(reduce_and_sync, a &b)
CRK_PORT_REDUCE(reduce_or_sync, a | b)
CRK_PORT_REDUCE(reduce_xor_sync, a ^ b)
#undef CRK_PORT_REDUCE

}  // namespace port
}  // namespace crk

static constexpr int crk_port_warp_size = crk::port::warp_size;

/* CUDA's names. They are macros, since HIP's functions of these names work on whole waves. Those without `_sync` are of
 * old CUDA. */
#define warpSize          crk_port_warp_size
#define __shfl_sync       ::crk::port::shfl_sync
#define __shfl_up_sync    ::crk::port::shfl_up_sync
#define __shfl_down_sync  ::crk::port::shfl_down_sync
#define __shfl_xor_sync   ::crk::port::shfl_xor_sync
#define __shfl(...)       ::crk::port::shfl_sync(::crk::port::whole_warp, __VA_ARGS__)
#define __shfl_up(...)    ::crk::port::shfl_up_sync(::crk::port::whole_warp, __VA_ARGS__)
#define __shfl_down(...)  ::crk::port::shfl_down_sync(::crk::port::whole_warp, __VA_ARGS__)
#define __shfl_xor(...)   ::crk::port::shfl_xor_sync(::crk::port::whole_warp, __VA_ARGS__)
#define __activemask      ::crk::port::activemask
#define __ballot_sync     ::crk::port::ballot_sync
#define __any_sync        ::crk::port::any_sync
#define __all_sync        ::crk::port::all_sync
#define __ballot(p)       ::crk::port::ballot_sync(::crk::port::whole_warp, p)
#define __any(p)          ::crk::port::any_sync(::crk::port::whole_warp, p)
#define __all(p)          ::crk::port::all_sync(::crk::port::whole_warp, p)
#define __syncwarp        ::crk::port::syncwarp
#define __match_any_sync  ::crk::port::match_any_sync
#define __match_all_sync  ::crk::port::match_all_sync
#define __reduce_add_sync ::crk::port::reduce_add_sync
#define __reduce_min_sync ::crk::port::reduce_min_sync
#define __reduce_max_sync ::crk::port::reduce_max_sync
#define __reduce_and_sync ::crk::port::reduce_and_sync
#define __reduce_or_sync  ::crk::port::reduce_or_sync
#define __reduce_xor_sync ::crk::port::reduce_xor_sync

#endif
