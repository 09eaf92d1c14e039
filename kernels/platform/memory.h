/* Memory: shared memory, packs of elements, loads and stores, atomics, asynchronous copies.
 *
 * A part of platform/platform.h. The definitions are in platform/hip/memory.h, platform/cuda/memory.h and
 * platform/host/memory.h. */
#ifndef CRK_PLATFORM_MEMORY_H
#define CRK_PLATFORM_MEMORY_H

namespace crk {

/* ---- Shared memory ---- */

/* CRK_SHARED(T, name, n) declares a block's array T name[n] in static shared memory. Its contents are undefined. */

/* The launch's dynamic shared memory, aligned to 16 bytes. */
template <class T>
CRK_FN T *dynamic_shared();

/* ---- Packs: several elements in registers ---- */

/* V elements in registers. Only constants may index `v`: a variable index would move the array to memory. */
template <class T, int V>
struct pack {
  T v[V];
};

/* Loads V elements from any element of an array. Accesses have 16 bytes where the address and the GPU allow it. */
template <class T, int V>
CRK_FN pack<T, V> load_pack(const T *src);

/* The same, from an address that is aligned to the pack's size, or to 16 bytes if the pack is longer. */
template <class T, int V>
CRK_FN pack<T, V> load_aligned(const T *src);

/* load_aligned for numbers that a block loads once, and no thread of the launch stores. */
template <class T, int V>
CRK_FN pack<T, V> load_streamed(const T *src);

/* Stores a pack to an address with the same alignment. Accesses have up to 16 bytes. */
template <class T, int V>
CRK_FN void store_pack(T *dst, const pack<T, V> &values);

/* store_pack of 16 bytes that the caches should not keep. Only where async_copies::present. */
template <class T, int V>
CRK_FN void store_streamed(T *dst, const pack<T, V> &values);

/* Stores the bits of a pack of at most 16 bytes over elements of another type. `to` is aligned to the pack's size. */
template <class T, class U, int V>
CRK_FN void store_bits(T *to, const pack<U, V> &values);

/* Loads N words of 32 bits, for N from 1 to 4. `src` is always aligned to 2 bytes, and mostly to `Usual` bytes. May
 * also read the rest of the aligned words at both ends. */
template <int N, int Usual = 2>
CRK_FN pack<uint32_t, N> load_words(const void *src);

/* load_words in two parts. load_raw only loads, and waits for nothing; words_of_raw makes the words of it. They have
 * the same arguments.
 *
 *   constexpr int raw_words<N>
 *   pack<uint32_t, raw_words<N>> load_raw<N, Usual>(const void *src)
 *   pack<uint32_t, N> words_of_raw<N>(const pack<uint32_t, raw_words<N>> &raw, const void *src) */

/* Loads from an address that is the same in all lanes of the wave. The launch does not write there. */
template <class T>
CRK_FN T load_uniform(const T *src);

/* Requests the line of `src` for the L2 cache; a hint. constexpr bool has_prefetch: false where it does nothing. */
inline constexpr uint32_t prefetched_line = 128; /* bytes */
CRK_FN void prefetch(const void *src);

/* ---- Bytes in shared memory ---- */

/* template <uint32_t Alignment> struct shared_bytes: bytes in shared memory. shared_bytes<Alignment>(room, offset)
 * begins at room + offset, which is aligned to Alignment, a multiple of 2. Members:
 *
 *   words<N>(offset)  N words. `offset` is a multiple of 2, and of 4 if Alignment is. May also read the next word.
 *   half(offset)      16 bits. `offset` is a multiple of 4.
 *   byte(offset)      a signed byte
 *   behind(bytes)     the shared_bytes that begins `bytes` later, a multiple of 4
 *
 * constexpr bool words_anywhere: if true, nothing needs to be aligned to more than 2 bytes. */

/* ---- Atomics, on global or shared memory. Relaxed order; the result is the old value. ---- */

/* u32, i32, u64, f32, f64. */
template <class T>
CRK_FN T atomic_add(T *address, T value);

/* u32, i32, u64, i64. */
template <class T>
CRK_FN T atomic_max(T *address, T value);
template <class T>
CRK_FN T atomic_min(T *address, T value);

/* u16, u32, u64. Stores `desired` if *address is `expected`. */
template <class T>
CRK_FN T atomic_cas(T *address, T expected, T desired);

/* Stores a value for the host, at `p` in host memory that the device reaches. */
CRK_FN void publish(uint64_t *p, uint64_t value);

/* ---- Messages between GPUs: words in memory that several GPUs reach, or the host too ---- */

/* Stores two words at `to`, which is aligned to 16 bytes. Another GPU that loads a word by load_from_peers sees all of
 * it or nothing. The order of the two words is not defined. */
CRK_FN void store_for_peers(uint64_t *to, const pack<uint64_t, 2> &words);

/* Loads two words, as they are now: past all caches that another GPU's stores do not reach. */
CRK_FN pack<uint64_t, 2> load_from_peers(const uint64_t *from);

/* The same for one word, also in host memory. */
CRK_FN uint64_t load_published(const uint64_t *from);

/* A mark stands for the words that a block has sent. All threads of the block call wait_until_sent behind their stores,
 * and then barrier(). Then one thread stores the mark. A block of another GPU has these words in load_from_peers once
 * one of its threads has seen the mark by load_mark, and all have met at barrier(). */
CRK_FN void wait_until_sent();
CRK_FN void publish_behind(uint64_t *mark, uint64_t value);
CRK_FN uint64_t load_mark(const uint64_t *mark);

/* Stands in a loop that waits for a message. */
CRK_FN void pause_wave();

/* ---- Asynchronous copies ---- */

/* struct async_copies: copies from global to shared memory that need no registers.
 *
 * `present` says whether the GPU has them. The other members exist only if it is true:
 *
 *   async_copies(to, from)     this lane's addresses in shared and in global memory
 *   begin16(distance, wanted)  begins to copy 16 aligned bytes from `from + distance` to `to + distance`, if `wanted`
 *   begin16(d, e, wanted)      the same from `from + e` to `to + d`
 *   begin16_or_zeros(d, e, wanted)   the same, but it stores zeros if not `wanted`. It is never a branch
 *   end_group()                makes one group of the copies that were begun since the last call
 *   wait<N>()                  waits until all groups of this lane but the last N are complete */

}  // namespace crk

#endif
