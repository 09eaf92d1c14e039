/* platform/memory.h for NVIDIA GPUs. */
#ifndef CRK_PLATFORM_CUDA_MEMORY_H
#define CRK_PLATFORM_CUDA_MEMORY_H

#include "platform/cuda/workarounds.h"

#define CRK_SHARED(T, name, count) static __shared__ T name[count]

namespace crk {

/* Tiles swap pieces by an xor of the address within 128 bytes (matrix_half.h), also behind static shared memory. */
extern __shared__ __align__(128) unsigned char crk_dynamic_shared[];
template <class T>
CRK_FN T *dynamic_shared() {
  return reinterpret_cast<T *>(crk_dynamic_shared);
}

/* The type of one access. The access faults if its address is not aligned to its size. */
template <int Bytes>
using words_of = choose<Bytes == 16, uint4,
                        choose<Bytes == 8, uint2, choose<Bytes == 4, uint32_t, choose<Bytes == 2, uint16_t, uint8_t>>>>;

template <class T, int V>
CRK_FN pack<T, V> load_aligned(const T *src) {
  constexpr int bytes = V * sizeof(T) < 16 ? V * sizeof(T) : 16, count = bytes / sizeof(T);
  pack<T, V> values;
  CRK_UNROLL
  for (int i = 0; i < V; i += count) {
    const pack<T, count> piece = bit_cast<pack<T, count>>(*reinterpret_cast<const words_of<bytes> *>(src + i));
    CRK_UNROLL
    for (int j = 0; j < count; j++) {
      values.v[i + j] = piece.v[j];
    }
  }
  return values;
}

/* The L2 cache then loads whole lines of 128 bytes: attention loads keys in pieces of 64 bytes. ld.global.nc would need
 * memory that does not change while the kernel runs. The launch before a kernel that begins early may still store. */
template <class T, int V>
CRK_FN pack<T, V> load_streamed(const T *src) {
  if constexpr (V * sizeof(T) == 16) {
    uint4 words;
    asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "l"(__cvta_generic_to_global(src)));
    return bit_cast<pack<T, V>>(words);
  } else {
    return load_aligned<T, V>(src);
  }
}

/* Kernels before compute capability 9.0 do not begin early, so they have nothing to gain. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
inline constexpr bool has_prefetch = true;
CRK_FN void prefetch(const void *src) { asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(src))); }
#else
inline constexpr bool has_prefetch = false;
CRK_FN void prefetch(const void *) {}
#endif

/* nvcc makes no such branch by itself: without it, an aligned address takes one instruction per element as well. */
template <class T, int V>
CRK_FN pack<T, V> load_pack(const T *src) {
  constexpr int bytes = V * sizeof(T) < 16 ? V * sizeof(T) : 16;
  if (reinterpret_cast<uintptr_t>(src) % bytes == 0) {
    return load_aligned<T, V>(src);
  }
  pack<T, V> values;
  CRK_UNROLL
  for (int i = 0; i < V; i++) {
    values.v[i] = src[i];
  }
  return values;
}
template <class T, class U, int V>
CRK_FN void store_bits(T *to, const pack<U, V> &values) {
  using words = words_of<sizeof(values)>;
  *reinterpret_cast<words *>(to) = bit_cast<words>(values);
}
/* nvcc may make a store for each word of a plain store of 8 or 16 bytes. __stwb is one store, to global memory alone;
 * nvcc knows which memory `dst` points to. */
template <class T, int V>
CRK_FN void store_pack(T *dst, const pack<T, V> &values) {
  constexpr int bytes = V * sizeof(T) < 16 ? V * sizeof(T) : 16, count = bytes / sizeof(T);
  using words = words_of<bytes>;
  CRK_UNROLL
  for (int i = 0; i < V; i += count) {
    pack<T, count> piece;
    CRK_UNROLL
    for (int j = 0; j < count; j++) {
      piece.v[j] = values.v[i + j];
    }
    words *const to = reinterpret_cast<words *>(dst + i);
    if constexpr (bytes >= 8) {
      if (__isGlobal(to)) {
        __stwb(to, bit_cast<words>(piece));
        continue;
      }
    }
    *to = bit_cast<words>(piece);
  }
}

template <class T, int V>
CRK_FN void store_streamed(T *dst, const pack<T, V> &values) {
  __stcs(reinterpret_cast<uint4 *>(dst), bit_cast<uint4>(values));
}

/* Loads four words at once if they are aligned to 16 bytes, as they mostly are in blocks with a multiple of 16 bytes.
 * Else loads aligned words, which are shifted into place later. */
template <int N>
inline constexpr int raw_words = N + 1;
template <int N, int Usual>
CRK_FN pack<uint32_t, N + 1> load_raw(const void *src) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(src);
  pack<uint32_t, N + 1> raw;
  raw.v[N] = 0;
  if constexpr (N == 4 && Usual == 16) {
    if (at % 16 == 0) {
      const pack<uint32_t, N> words = bit_cast<pack<uint32_t, N>>(*static_cast<const uint4 *>(src));
      CRK_UNROLL
      for (int i = 0; i < N; i++) {
        raw.v[i] = words.v[i];
      }
      return raw;
    }
  }
  /* Subtracts a distance from the pointer: after masking an integer, nvcc would not know which memory it points to. */
  const uint32_t *from = reinterpret_cast<const uint32_t *>(static_cast<const unsigned char *>(src) - at % 4);
  CRK_UNROLL
  for (int i = 0; i < N; i++) {
    raw.v[i] = from[i];
  }
  if (at % 4 != 0) {
    raw.v[N] = from[N];
  }
  return raw;
}
template <int N>
CRK_FN pack<uint32_t, N> words_of_raw(const pack<uint32_t, N + 1> &raw, const void *src) {
  const uint32_t shift = reinterpret_cast<uintptr_t>(src) % 4 * 8;
  pack<uint32_t, N> words;
  CRK_UNROLL
  for (int i = 0; i < N; i++) {
    words.v[i] = __funnelshift_r(raw.v[i], raw.v[i + 1], shift);
  }
  return words;
}
template <int N, int Usual>
CRK_FN pack<uint32_t, N> load_words(const void *src) {
  if constexpr (N == 4 && Usual == 16) {
    if (reinterpret_cast<uintptr_t>(src) % 16 == 0) {
      return bit_cast<pack<uint32_t, N>>(*static_cast<const uint4 *>(src));
    }
  }
  return words_of_raw<N>(load_raw<N, 2>(src), src);
}

template <class T>
CRK_FN T load_uniform(const T *src) {
  return *src;
}

/* Loads aligned words and shifts them into place. */
inline constexpr bool words_anywhere = false;
template <uint32_t Alignment>
struct shared_bytes {
  const unsigned char *from;
  uint32_t shift;
  CRK_FN shared_bytes(const unsigned char *room, uint32_t offset)
      : from(room + (Alignment < 4 ? offset & ~3u : offset)), shift(Alignment < 4 ? (offset & 2) * 8 : 0) {}
  CRK_FN shared_bytes behind(uint32_t bytes) const {
    shared_bytes other = *this;
    other.from += bytes;
    return other;
  }
  template <int N, int Usual = 2>
  CRK_FN pack<uint32_t, N> words(uint32_t offset) const {
    constexpr int at_once = Alignment < 4 ? 1 : N * 4 < Alignment ? N : Alignment / 4;
    const uint32_t *word = reinterpret_cast<const uint32_t *>(from + offset / 4 * 4);
    pack<uint32_t, N + 1> all;
    CRK_UNROLL
    for (int i = 0; i < N; i += at_once) {
      const pack<uint32_t, at_once> some = load_aligned<uint32_t, at_once>(word + i);
      CRK_UNROLL
      for (int j = 0; j < at_once; j++) {
        all.v[i + j] = some.v[j];
      }
    }
    all.v[N] = Alignment < 4 ? word[N] : 0;
    pack<uint32_t, N> words;
    CRK_UNROLL
    for (int i = 0; i < N; i++) {
      words.v[i] = Alignment < 4 ? __funnelshift_rc(all.v[i], all.v[i + 1], shift + offset % 4 * 8) : all.v[i];
    }
    return words;
  }
  CRK_FN int8_t byte(uint32_t offset) const { return *reinterpret_cast<const int8_t *>(from + shift / 8 + offset); }
  CRK_FN uint16_t half(uint32_t offset) const {
    return static_cast<uint16_t>(*reinterpret_cast<const uint32_t *>(from + offset) >> shift);
  }
};

struct async_copies {
  static constexpr bool present = true;
  /* Opaque to nvcc, so that it keeps these two addresses and puts the distances into the instructions. */
  uint32_t to;
  uint64_t from;
  CRK_FN async_copies(void *shared_to, const void *global_from)
      : to(opaque(static_cast<uint32_t>(__cvta_generic_to_shared(shared_to)))),
        from(reinterpret_cast<uintptr_t>(global_from)) {
    asm("" : "+l"(from));
  }
  /* The L2 cache fetches the whole line. A wave's bytes end within a line, and another wave needs the rest of it. */
  CRK_FN void begin16(uint32_t to_distance, uint64_t from_distance, bool wanted) const {
    if (wanted) {
      asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
                   :
                   : "r"(to + to_distance), "l"(from + from_distance)
                   : "memory");
    }
  }
  CRK_FN void begin16(uint32_t distance, bool wanted) const { begin16(distance, distance, wanted); }
  CRK_FN void begin16_or_zeros(uint32_t to_distance, uint64_t from_distance, bool wanted) const {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :
                 : "r"(to + to_distance), "l"(from + from_distance), "r"(wanted ? 16 : 0)
                 : "memory");
  }
  CRK_FN static void end_group() { asm volatile("cp.async.commit_group;" : : : "memory"); }
  template <int Left>
  CRK_FN static void wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(Left) : "memory");
  }
};

/* CUDA's atomics take 64-bit integers as long long; uint64_t is long. */
template <class T>
using atomic_type = choose<same<T, uint64_t>, unsigned long long, choose<same<T, int64_t>, long long, T>>;
template <class T>
CRK_FN T atomic_add(T *address, T value) {
  using A = atomic_type<T>;
  return static_cast<T>(atomicAdd(reinterpret_cast<A *>(address), static_cast<A>(value)));
}
template <class T>
CRK_FN T atomic_max(T *address, T value) {
  using A = atomic_type<T>;
  return static_cast<T>(atomicMax(reinterpret_cast<A *>(address), static_cast<A>(value)));
}
template <class T>
CRK_FN T atomic_min(T *address, T value) {
  using A = atomic_type<T>;
  return static_cast<T>(atomicMin(reinterpret_cast<A *>(address), static_cast<A>(value)));
}
CRK_FN void publish(uint64_t *p, uint64_t value) { *reinterpret_cast<volatile uint64_t *>(p) = value; }
CRK_FN void store_for_peers(uint64_t *to, const pack<uint64_t, 2> &words) {
  asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" : : "l"(to), "l"(words.v[0]), "l"(words.v[1]) : "memory");
}
CRK_FN pack<uint64_t, 2> load_from_peers(const uint64_t *from) {
  pack<uint64_t, 2> words;
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(words.v[0]), "=l"(words.v[1]) : "l"(from) : "memory");
  return words;
}
CRK_FN uint64_t load_published(const uint64_t *from) { return *reinterpret_cast<const volatile uint64_t *>(from); }
/* The barrier and the release order the stores of the whole block. */
CRK_FN void wait_until_sent() {}
CRK_FN void publish_behind(uint64_t *p, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(p), "l"(value) : "memory");
}
CRK_FN uint64_t load_mark(const uint64_t *from) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
CRK_FN void pause_wave() {}
template <class T>
CRK_FN T atomic_cas(T *address, T expected, T desired) {
  using A = atomic_type<T>;
  return static_cast<T>(atomicCAS(reinterpret_cast<A *>(address), static_cast<A>(expected), static_cast<A>(desired)));
}

}  // namespace crk

#endif
