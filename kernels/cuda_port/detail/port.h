/* CUDA source for AMD GPUs: what stands before a program's own source when that source is CUDA.
 *
 * HIP gives CUDA's names for threads, memory, vectors, maths and atomics. The files of the folder cuda_port give the
 * rest, and replace what HIP defines for whole waves. Those in detail/ are not for a source to include:
 *
 *   detail/warp.h                     shuffles, votes, matches and reductions of a warp
 *   detail/narrow.h, conversions.h    arithmetic and conversions of 16-bit floats
 *   cuda_fp16.h, cuda_bf16.h          their types, under CUDA's names
 *   cooperative_groups.h, cooperative_groups/reduce.h
 *   cuda.h, cuda_runtime.h, ..        names that a source may include; they need no more than this file
 *   rtc/                              headers of C for a compiler at run time, which has none
 *
 * The warp size is a parameter, CRK_CUDA_WARP: 32 by default, on every GPU. A wave of 64 lanes then holds two warps,
 * each of which shuffles and votes on its own. So `threadIdx.x % 32`, `>> 5` and a mask 0xffffffff mean what they mean
 * in CUDA. With CRK_CUDA_WARP=64 a warp is a wave of 64 lanes: masks have 64 bits, and what names half of such a warp
 * is an error in its line: a mask of 32 bits, and threadIdx.x divided by 32 or masked with 31. A GPU with waves of 32
 * lanes refuses it.
 *
 * NVIDIA's assembly cannot be right on another GPU: `asm` is an error in its line. */
#ifndef CRK_CUDA_PORT_H
#define CRK_CUDA_PORT_H

#if !defined(__HIP__)
#error "cuda_port/detail/port.h is for HIP compilers"
#endif
/* CUDA's compiler includes C's headers by itself. */
#if defined(__HIPCC_RTC__)
#include "cuda_port/rtc/assert.h"
#include "cuda_port/rtc/float.h"
#include "cuda_port/rtc/limits.h"
#include "cuda_port/rtc/math.h"
#else
#include <assert.h>
#include <float.h>
#include <hip/hip_runtime.h>
#include <limits.h>
#include <math.h>
#endif

#include "cuda_port/detail/warp.h"

/* Source asks for the GPU's generation mostly to know whether it has 16-bit floats: 8.0 has f16 and bf16. */
#if !defined(__CUDA_ARCH__)
#define __CUDA_ARCH__ 800
#endif

#if !defined(__grid_constant__)
#define __grid_constant__
#endif

namespace crk {
namespace port {

/* Plain accesses, for data that no other block uses during the launch. */
template <class T>
CRK_FN T load(const T *address) {
  return *address;
}
template <class T>
CRK_FN void store(T *address, T value) {
  *address = value;
}

/* Accesses to global memory that other blocks use during the launch. None is left out, and each goes past the caches
 * that only some threads of its scope use: the GPU (AGENT), or all GPUs and the host (SYSTEM). A value is a number of
 * pieces of up to 8 bytes. Another thread may see some pieces before others. The address space is named because clang
 * refuses atomic loads of constants. */
template <class T>
struct pieces {
  static constexpr unsigned bytes = alignof(T) < 8 ? alignof(T) : 8, count = sizeof(T) / bytes;
  typedef bits_of<char[bytes]> word;
  typedef word __attribute__((may_alias, address_space(1))) in_memory;
  word w[count];
};
template <int Scope, class T>
CRK_FN T load_anew(const T *address) {
  const auto *from = (const typename pieces<T>::in_memory *)address;
  pieces<T> bits;
  CRK_UNROLL
  for (unsigned i = 0; i < bits.count; i++) {
    bits.w[i] = __hip_atomic_load(from + i, __ATOMIC_RELAXED, Scope);
  }
  return bit_cast<T>(bits);
}
template <int Scope, class T>
CRK_FN void store_through(T *address, T value) {
  auto *to = (typename pieces<T>::in_memory *)address;
  const pieces<T> bits = bit_cast<pieces<T>>(value);
  CRK_UNROLL
  for (unsigned i = 0; i < bits.count; i++) {
    __hip_atomic_store(to + i, bits.w[i], __ATOMIC_RELAXED, Scope);
  }
}

/* Sums of products of bytes. Each byte is signed if its word is. */
CRK_FN int dp4a(int a, int b, int c) { return dot4(a, b, c); }
template <class A, class B, class C>
CRK_FN C dp4a(A a, B b, C c) {
  using a_byte = choose<is_signed<A>, int8_t, uint8_t>;
  using b_byte = choose<is_signed<B>, int8_t, uint8_t>;
  for (int i = 0; i < 32; i += 8) {
    c += static_cast<a_byte>(a >> i) * static_cast<b_byte>(b >> i);
  }
  return c;
}
/* The same with two 16-bit halves of `a`, and the lower or the upper two bytes of `b`. */
template <class A, class B, class C>
CRK_FN C dp2a(A a, B b, C c, int from) {
  using half_word = choose<is_signed<A>, int16_t, uint16_t>;
  using byte = choose<is_signed<B>, int8_t, uint8_t>;
  for (int i = 0; i < 2; i++) {
    c += static_cast<half_word>(a >> 16 * i) * static_cast<byte>(b >> (from + 8 * i));
  }
  return c;
}

/* Barriers of a block. Those with a predicate also tell in how many threads it holds, or whether in any or all. Threads
 * that have returned do not count, so each wave's first live lane sets the counter to 0. HIP's own functions need a
 * device library of HIP's version. */
CRK_FN int barrier_count(int predicate) {
  __attribute__((shared)) static int count;
  const bool is_first = lane() == static_cast<uint32_t>(__builtin_ctzll(ballot(true)));
  barrier();
  if (is_first) {
    count = 0;
  }
  barrier();
  const uint64_t holds = ballot(predicate != 0);
  if (is_first) {
    atomic_add(&count, static_cast<int>(popcount(holds)));
  }
  barrier();
  return count;
}
CRK_FN int barrier_any(int predicate) { return barrier_count(predicate) != 0; }
CRK_FN int barrier_all(int predicate) { return barrier_count(predicate == 0) == 0; }
CRK_FN void fence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
CRK_FN void fence_device() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
CRK_FN void fence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }

#if CRK_CUDA_WARP == 64
/* threadIdx in a program whose warps have 64 lanes: refuses divisions by 32 where the compiler sees them. */
struct thread_x {
  uint32_t value;
  CRK_FN operator uint32_t() const { return value; }
};
struct thread_indices {
  thread_x x;
  uint32_t y, z;
};
CRK_FN thread_indices this_thread() {
  const auto t = thread_index();
  return {{t.x}, t.y, t.z};
}
#define CRK_PORT_WHOLE_WARPS(op, refused)                                                                            \
  template <class N>                                                                                                 \
  CRK_FN uint32_t operator op(thread_x x, N n) __attribute__((                                                       \
      diagnose_if(n == refused, "warps have 64 lanes here (CRK_CUDA_WARP), and this names half of one", "error"))) { \
    return x.value op static_cast<uint32_t>(n);                                                                      \
  }
CRK_PORT_WHOLE_WARPS(%, 32)
CRK_PORT_WHOLE_WARPS(/, 32)
CRK_PORT_WHOLE_WARPS(&, 31)
CRK_PORT_WHOLE_WARPS(>>, 5)
#undef CRK_PORT_WHOLE_WARPS
#endif

}  // namespace port
}  // namespace crk

#if CRK_CUDA_WARP == 64
#define threadIdx (::crk::port::this_thread())
#endif

#define __syncthreads        ::crk::barrier
#define __syncthreads_count  ::crk::port::barrier_count
#define __syncthreads_or     ::crk::port::barrier_any
#define __syncthreads_and    ::crk::port::barrier_all
#define __threadfence_block  ::crk::port::fence_block
#define __threadfence        ::crk::port::fence_device
#define __threadfence_system ::crk::port::fence_system
#define __ldg                ::crk::port::load
#define __ldca               ::crk::port::load
#define __ldcg               ::crk::port::load_anew<__HIP_MEMORY_SCOPE_AGENT>
#define __ldcs               ::crk::port::load
#define __ldlu               ::crk::port::load
#define __ldcv               ::crk::port::load_anew<__HIP_MEMORY_SCOPE_SYSTEM>
#define __stcg               ::crk::port::store_through<__HIP_MEMORY_SCOPE_AGENT>
#define __stcs               ::crk::port::store
#define __stwb               ::crk::port::store
#define __stwt               ::crk::port::store_through<__HIP_MEMORY_SCOPE_SYSTEM>
#define __dp4a               ::crk::port::dp4a
#define __dp2a_lo(a, b, c)   ::crk::port::dp2a(a, b, c, 0)
#define __dp2a_hi(a, b, c)   ::crk::port::dp2a(a, b, c, 16)

#define CRK_PORT_REFUSE_ASM _Pragma("GCC error \"inline assembly is for NVIDIA GPUs; CANDLE_ROCM is defined here\"")
#define asm                 CRK_PORT_REFUSE_ASM asm
#define __asm__             CRK_PORT_REFUSE_ASM __asm__
#define __asm               CRK_PORT_REFUSE_ASM __asm

/* For source that must know: this is the port. */
#define CANDLE_ROCM 1

#endif
