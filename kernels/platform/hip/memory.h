/* platform/memory.h for AMD GPUs. */
#ifndef CRK_PLATFORM_HIP_MEMORY_H
#define CRK_PLATFORM_HIP_MEMORY_H

#include "platform/generic/shared_bytes.h"
#include "platform/hip/workarounds.h"

#define CRK_SHARED(T, name, count) static __attribute__((shared)) T name[count]

namespace crk {

extern __attribute__((shared)) __attribute__((aligned(16))) unsigned char crk_dynamic_shared[];
template <class T>
CRK_FN T *dynamic_shared() {
  return reinterpret_cast<T *>(crk_dynamic_shared);
}

/* The GPU loads 16 bytes from any address, since the driver enables unaligned access. */
typedef uint32_t words16 __attribute__((ext_vector_type(4)));
template <int Alignment>
struct words16_at;
template <>
struct words16_at<1> {
  typedef words16 type __attribute__((aligned(1), may_alias));
};
template <>
struct words16_at<2> {
  typedef words16 type __attribute__((aligned(2), may_alias));
};
template <>
struct words16_at<4> {
  typedef words16 type __attribute__((aligned(4), may_alias));
};
template <>
struct words16_at<8> {
  typedef words16 type __attribute__((aligned(8), may_alias));
};

/* Loads pieces of 16 bytes each. LLVM may leave a longer array in scratch memory. */
template <class T, int V>
CRK_FN pack<T, V> load_pack(const T *src) {
  pack<T, V> values;
  if constexpr (sizeof(values) < 16) {
    __builtin_memcpy(&values, src, sizeof(values));
  } else {
    constexpr int count = 16 / sizeof(T);
    CRK_UNROLL
    for (int i = 0; i < V; i += count) {
      words16 words = *reinterpret_cast<const typename words16_at<alignof(T)>::type *>(src + i);
      if constexpr (sizeof(T) == 1) {
        /* Without this, LLVM loads the first two bytes twice if bytes are used in different ways. */
        asm("" : "+v"(words));
      }
      const pack<T, count> piece = bit_cast<pack<T, count>>(words);
      CRK_UNROLL
      for (int j = 0; j < count; j++) {
        values.v[i + j] = piece.v[j];
      }
    }
  }
  return values;
}
template <class T, int V>
CRK_FN pack<T, V> load_aligned(const T *src) {
  return load_pack<T, V>(src);
}
template <class T, int V>
CRK_FN pack<T, V> load_streamed(const T *src) {
  return load_pack<T, V>(src);
}

/* Stores one vector. If two single words were loaded under a condition, LLVM would join them right after the loads, and
 * wait for the loads there. */
template <class T, class U, int V>
CRK_FN void store_bits(T *to, const pack<U, V> &values) {
  typedef U vector __attribute__((ext_vector_type(V)));
  *reinterpret_cast<vector *>(to) = bit_cast<vector>(values);
}

template <class T, int V>
CRK_FN void store_pack(T *dst, const pack<T, V> &values) {
  if constexpr (sizeof(values) < 16) {
    __builtin_memcpy(__builtin_assume_aligned(dst, sizeof(values)), &values, sizeof(values));
  } else {
    constexpr int count = 16 / sizeof(T);
    CRK_UNROLL
    for (int i = 0; i < V; i += count) {
      pack<T, count> piece;
      CRK_UNROLL
      for (int j = 0; j < count; j++) {
        piece.v[j] = values.v[i + j];
      }
      *static_cast<words16 *>(__builtin_assume_aligned(dst + i, 16)) = bit_cast<words16>(piece);
    }
  }
}

template <int N, int Usual>
CRK_FN pack<uint32_t, N> load_words(const void *src) {
  if constexpr (N == 4) {
    return bit_cast<pack<uint32_t, N>>(*static_cast<const words16_at<2>::type *>(src));
  } else {
    pack<uint32_t, N> words;
    __builtin_memcpy(&words, __builtin_assume_aligned(src, 2), sizeof(words));
    return words;
  }
}

template <int N>
inline constexpr int raw_words = N;
template <int N, int Usual>
CRK_FN pack<uint32_t, N> load_raw(const void *src) {
  return load_words<N, Usual>(src);
}
template <int N>
CRK_FN pack<uint32_t, N> words_of_raw(const pack<uint32_t, N> &raw, const void *) {
  return raw;
}

template <class T>
CRK_FN T load_uniform(const T *src) {
  return *(const __attribute__((address_space(4))) T *)src;
}

template <class T>
CRK_FN T atomic_add(T *address, T value) {
  return __hip_atomic_fetch_add(address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
CRK_FN T atomic_max(T *address, T value) {
  return __hip_atomic_fetch_max(address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
CRK_FN T atomic_min(T *address, T value) {
  return __hip_atomic_fetch_min(address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
CRK_FN void publish(uint64_t *p, uint64_t value) {
  __hip_atomic_store(p, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
CRK_FN void store_for_peers(uint64_t *to, const pack<uint64_t, 2> &words) {
  publish(to, words.v[0]);
  publish(to + 1, words.v[1]);
}
CRK_FN uint64_t load_published(const uint64_t *from) {
  return __hip_atomic_load(from, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
CRK_FN pack<uint64_t, 2> load_from_peers(const uint64_t *from) {
  return {{load_published(from), load_published(from + 1)}};
}
/* Waits until the stores of this wave have arrived. On GCN and CDNA a release fence would also write an L2 cache of
 * MI300 back, which atomic stores (store_passed, store_for_peers) have no need of. There vmcnt counts stores too.
 * Elsewhere it is a fence, for other units of the GPU or for other GPUs. */
#if CRK_ARCH_LANES == 64
CRK_FN void wait_for_stores() { __asm__ volatile("s_waitcnt vmcnt(0)" : : : "memory"); }
CRK_FN void wait_until_sent() { wait_for_stores(); }
#else
CRK_FN void wait_for_stores() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
CRK_FN void wait_until_sent() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, ""); }
#endif
CRK_FN void publish_behind(uint64_t *p, uint64_t value) { publish(p, value); }
CRK_FN uint64_t load_mark(const uint64_t *from) { return load_published(from); }
CRK_FN void pause_wave() { __builtin_amdgcn_s_sleep(1); }
template <class T>
CRK_FN T atomic_cas(T *address, T expected, T desired) {
  __hip_atomic_compare_exchange_strong(address, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                       __HIP_MEMORY_SCOPE_AGENT);
  return expected;
}

/* Exchanges the whole word that holds the 16 bits. Tries again if only the word's other half has changed meanwhile. */
CRK_FN uint16_t atomic_cas(uint16_t *address, uint16_t expected, uint16_t desired) {
  /* A pointer made from a number would be one to any memory. */
  const uint32_t behind = reinterpret_cast<uintptr_t>(address) % 4, shift = behind * 8, mask = 0xffffu << shift;
  uint32_t *const word = reinterpret_cast<uint32_t *>(reinterpret_cast<unsigned char *>(address) - behind);
  uint32_t seen = __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  while (static_cast<uint16_t>(seen >> shift) == expected) {
    const uint32_t next = (seen & ~mask) | static_cast<uint32_t>(desired) << shift;
    const uint32_t found = atomic_cas(word, seen, next);
    if (found == seen) {
      return expected;
    }
    seen = found;
  }
  return static_cast<uint16_t>(seen >> shift);
}

}  // namespace crk

#endif
