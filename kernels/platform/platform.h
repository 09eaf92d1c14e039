/* What a kernel may use of the machine it runs on, under one set of names. Each name below has one definition a compiler,
 * in platform/hip.h (clang for AMD GPUs), platform/cuda.h (nvcc) and platform/host.h (any C++17 compiler, for the CPU);
 * no other header of the kernels knows which compiler it is in; what the compilers of AMD GPUs alone have to be told of means the
 * same everywhere else, at the end of this header. All of it lives in namespace crk.
 *
 * Kernels
 *   CRK_ELEMENTWISE(name, max_threads, (params)) { body }   every element independent, found through crk::elements
 *   CRK_KERNEL(name, max_threads, (params)) { body }        threads independent
 *   CRK_COOPERATIVE(name, max_threads, (params)) { body }   threads meet: barriers, shuffles, votes
 *   CRK_STREAMING(name, max_threads, waves, (params)) { body } CRK_COOPERATIVE, which waits for memory: on an AMD GPU its
 *                                                           registers are few enough for so many waves a SIMD unit,
 *                                                           but by clang 15 and of 256 registers a lane
 *   CRK_WAVES(waves)          before another kernel: the same of its registers
 *   CRK_PAIRED(name, max_threads, (params)) { body }        CRK_COOPERATIVE, of which a compute unit is to hold two blocks at
 *                                                           once: where CRK_LARGE_SHARED is 1, they may have 48 KiB of
 *                                                           shared memory each, and 256 threads of 128 registers
 *   CRK_MODULE(stem)                                        once, at the end of kernels/<stem>.hip
 *     A kernel is an extern "C" entry of that name for blocks of up to `max_threads` threads. Parameters are read by value;
 *     a struct that a launcher fills, as `crk_nd_t`, comes first and is reached through CRK_ND_ARGUMENT(param).
 *   CRK_FN                    before every function that kernels call; inlined
 *   CRK_UNROLL, CRK_NO_UNROLL before a loop
 *   CRK_ONE_BY_ONE            before a loop, no two steps of which are to be at work at once: neither unrolled nor interleaved
 *
 * Where a thread is
 *   thread_index(), block_index()   .x .y .z
 *   elements e(n, threads)    this thread's share of n elements: for (uint64_t i = e.first; i < e.end; i += e.step). `threads` are
 *                             those of the grid, which lies along x, in blocks of CRK_LAUNCHED_THREADS or of e's third argument
 *   block_size(), grid_size(), named_elements e(n)   for kernels by Candle's names only: .x .y .z, blocks of the grid, and
 *                             `elements` of any geometry. AMD GPUs read them from the launch's packet, which lies in the host's
 *                             memory: a microsecond before a kernel begins. The launchers' kernels know their blocks, or are told
 *   wave_size(), lane()       lanes of a wave, 32 or 64 (a constant on a GPU), and this thread's place in its wave
 *   most_lanes                the most that a wave has, a constant
 *   uniform(word)             the word, which is the same in all lanes of the wave, as the compiler is to know
 *   wave_in_block()           the number of this thread's wave in its block, whose threads are along x; all lanes must come
 *   load_uniform(src)         what is there, for all lanes of the wave, which name one place; the launch does not write it
 *   on_host                   true where the CPU runs the kernel
 *   last_of_launch(ticket, threads)   at the end of an elementwise kernel, by all threads of a grid along x, as many, in blocks of
 *                             CRK_LAUNCHED_THREADS: true in one of them, once the others have read all that they read.
 *                             `ticket`, a u32 in global memory, is 0 before the launch and again after it
 *
 * Meeting other threads (CRK_COOPERATIVE only; all live threads of the block, or of the wave, must come)
 *   barrier()                 waits for the block; writes to shared and global memory before it are seen after it
 *   wave_barrier()            waits for the wave; writes to shared memory before it are seen after it by the wave's lanes
 *   shuffle(v, lane), shuffle_xor(v, mask), shuffle_up(v, n), shuffle_down(v, n)
 *                             v of 4 or 8 bytes; the value that another lane of the wave gave, in a wave of wave_size()
 *                             lanes; out of range of the wave, `v`
 *   of_lane<L>(v)             v of 4 or 8 bytes; that of lane L of the wave, below wave_size(), for all of them
 *   exchange_xor<Mask>(v)     v of 4 or 8 bytes, of lane ^ Mask for Mask 1, 2, 4, 8 or 16; within 32 lanes, so that the others
 *                             of a wider wave need not come on a GPU. From a lane that is not live: undefined
 *   ballot(p), any(p), all(p) bit i of a ballot is lane i's predicate; lanes that are not live count for nothing
 *   CRK_SHARED(T, name, n)    a block's array T name[n] of static shared memory, contents undefined
 *   dynamic_shared<T>()       the launch's dynamic shared memory, 16-byte aligned
 *
 * Memory
 *   pack<T, V>                V elements in registers; index `v` with constants only
 *   load_pack<T, V>(p)        from any element of an array, in 16-byte accesses where p and the machine allow
 *   load_aligned<T, V>(p)     the same from p aligned to the pack (16 bytes, where that is longer)
 *   load_words<N, A = 2>(p)   N 32-bit words, 1 to 4, from an address that is aligned to 2 bytes, and mostly to A; the aligned
 *                             words around them may be read too
 *   shared_bytes<A>(room, i)  bytes of shared memory from i behind `room` on, aligned to A, which 2 divides: `words<N>(j)`,
 *                             `half(j)` and, with its sign, `byte(j)` are what lies j behind that: for words j is a multiple of 2,
 *                             and of 4 where A is, for a half always of 4; the word behind the words may be read too. behind(j):
 *                             the same from j, a multiple of 4, on. Where words_anywhere is true, nothing needs to be aligned to
 *                             more than 2
 *   async_copies              where `present` is true, a GPU that copies to shared memory by itself: async_copies(to, from) of a
 *                             lane begins to copy 16 aligned bytes, so far behind both addresses, by begin16(distance, whether
 *                             it is wanted); end_group(); wait<N>() until this lane's groups are done but for the last N
 *   store_bits(p, pack)       the pack's bits, 16 bytes at most, over elements of another type, p aligned to the pack
 *   store_pack(p, pack)       to p aligned to the pack (16 bytes, where that is longer), in 16-byte accesses
 *   atomic_add (u32 i32 u64 f32 f64), atomic_max, atomic_min (u32 i32 u64 i64), atomic_cas (u16 u32 u64)
 *                             relaxed, on global or shared memory; the old value is the result
 *   publish(p, value)         stores a u64 where the host will see it
 *
 * Arithmetic
 *   dot4(a, b, c)             c plus the four products of a's and b's bytes, as signed numbers (i32; wraps)
 *   dot4_codes(a, b, c)       the same with a's bytes as numbers from 0 to below 2^code_bits
 *   float_of_byte(word, i)    byte i of a word
 *   small_int                 float or int32_t: the one of them in which a small integer takes less to be multiplied with an i32
 *   small_of_byte(word, i)    byte i of a word, as a small_int
 *   mulhi(a, b)               upper half of the product, u32 or u64
 *   permute_bytes(a, b, from) byte i is that one of the four of a and then the four of b whose number, below 8, is byte i of `from`
 *   popcount(word)            bits of a u64 that are set
 *   bit_cast<To>(from)
 *   whole_word(word)          the word; clang 15 does not take it apart into bits
 *   whole_bytes(word)         the word, whose bytes become floats; clang, that knows some of their bits, does not take those out first
 *   opaque(word)              the word, of which the compiler is to know nothing
 *   in_turn(word, first)      the word, with which nothing is to begin before `first`, of 4 bytes, is there: where the registers
 *                             of both at once would keep waves out, up to RDNA 2; elsewhere just the word
 *   reread(argument)          a kernel's first argument, read again where it is used: on AMD GPUs nothing of it stays in registers
 *   fma exp log sin cos tanh erf normcdf pow sqrt ceil floor round abs rsqrt   for float and double; sqrt, fma and the
 *                             rounding functions are exact, `round` takes halves away from zero
 *   exp2_near(x), reciprocal_near(x)   for float: the machine's own, off by less than two units in the last place; a result
 *                             below the normal numbers may be 0
 *   product(a, b)             a * b, for float and double. For AMD GPUs clang makes a product that is rounded to f16 one
 *                             instruction which adds 0, and loses the sign of a zero: not of this one
 *   matrix_core               where CRK_MATRIX_CORES is 1: products of 16 rows of 4 * Words 8-bit numbers with 16 columns of
 *                             them, Words being 4 or 8. `multiply<Words>(a, b, start, sum)` makes sum[r][c], for r below
 *                             `tall` and c below `wide`, start plus the product of row first_row() + next_row(r) and column
 *                             first_column() + next_column(c). `load<Words>(codes)` makes its operands from rows in shared
 *                             memory that are `stride` words apart, a multiple of 4, and aligned to 16 bytes: a from word
 *                             row_word<Words>(stride) on, b from column_word<Words>(stride) on. All lanes of the wave come
 *   max_number, min_number    for float and double: a NaN loses against a number, -0 < +0 */
#ifndef CRK_PLATFORM_H
#define CRK_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#include "call/fault_word.h"
#include "call/launch_threads.h"
#include "call/nd.h"

namespace crk {

template <class T, int V>
struct pack {
  T v[V];
};

template <int... I>
struct indices {};

template <int N, int... I>
struct make_indices : make_indices<N - 1, N - 1, I...> {};
template <int... I>
struct make_indices<0, I...> {
  using type = indices<I...>;
};

template <class A, class B>
inline constexpr bool same = false;
template <class A>
inline constexpr bool same<A, A> = true;

template <bool C, class A, class B>
struct choose_type {
  using type = A;
};
template <class A, class B>
struct choose_type<false, A, B> {
  using type = B;
};
template <bool C, class A, class B>
using choose = typename choose_type<C, A, B>::type;

/* The unsigned integer of T's size: what moves its bits. */
template <class T>
using bits_of =
    choose<sizeof(T) == 1, uint8_t, choose<sizeof(T) == 2, uint16_t, choose<sizeof(T) == 4, uint32_t, uint64_t>>>;

/* log2(e), rounded to f32. */
inline constexpr float log2_of_e = 0x1.715476p+0f;

}  // namespace crk

/* The functions of one floating-point number, for each platform to spell: XX(name, C's name, the AMD device library's name).
 * C's library has the first list, and its names are CUDA's too; the second is of GPUs, and platform/host.h writes it out. */
#define CRK_MATHS_MAP(XX) \
  XX(exp, exp, exp)       \
  XX(log, log, log)       \
  XX(sin, sin, sin)       \
  XX(cos, cos, cos)       \
  XX(tanh, tanh, tanh)    \
  XX(erf, erf, erf)       \
  XX(sqrt, sqrt, sqrt)    \
  XX(ceil, ceil, ceil)    \
  XX(floor, floor, floor) \
  XX(round, round, round) \
  XX(abs, fabs, fabs)
#define CRK_MATHS_GPU_MAP(XX) \
  XX(normcdf, normcdf, ncdf)  \
  XX(rsqrt, rsqrt, rsqrt)
#define CRK_MATHS_C(name, c, ocml)                 \
  CRK_FN float name(float x) { return ::c##f(x); } \
  CRK_FN double name(double x) { return ::c(x); }

#if defined(__HIP__)
#include "platform/hip.h"
#elif defined(__CUDACC__)
#include "platform/cuda.h"
#else
#include "platform/host.h"
#endif

#if defined(__HIP__) || defined(__CUDACC__)
namespace crk {
struct elements {
  uint64_t first, end, step;

  CRK_FN elements(uint64_t count, uint32_t threads, uint32_t block = CRK_LAUNCHED_THREADS)
      : first(block_index().x * block + thread_index().x), end(count), step(threads) {}
};
}  // namespace crk
#endif

#ifndef CRK_HAS_SHARED_BYTES
namespace crk {
inline constexpr bool words_anywhere = true;
template <uint32_t>
struct shared_bytes {
  const unsigned char *from;
  CRK_FN shared_bytes(const unsigned char *room, uint32_t offset) : from(room + offset) {}
  CRK_FN shared_bytes behind(uint32_t bytes) const { return {from, bytes}; }
  template <int N, int Usual = 2>
  CRK_FN pack<uint32_t, N> words(uint32_t offset) const {
    return load_words<N, Usual>(from + offset);
  }
  CRK_FN int8_t byte(uint32_t offset) const { return static_cast<int8_t>(from[offset]); }
  CRK_FN uint16_t half(uint32_t offset) const { return *reinterpret_cast<const uint16_t *>(from + offset); }
};
struct async_copies {
  static constexpr bool present = false;
};
}  // namespace crk
#endif

#ifndef __HIP__
#define CRK_WAVES(waves)
#define CRK_STREAMING(name, max_threads, waves, params) CRK_COOPERATIVE(name, max_threads, params)
namespace crk {
template <uint32_t Lane, class T>
CRK_FN T of_lane(T value) {
  return shuffle(value, Lane);
}
CRK_FN uint32_t whole_word(uint32_t word) { return word; }
CRK_FN uint32_t whole_bytes(uint32_t word) { return word; }
template <class T>
CRK_FN uint32_t in_turn(uint32_t word, T) {
  return word;
}
template <class T>
CRK_FN const T &reread(const T &argument) {
  return argument;
}
}  // namespace crk
#endif

#undef CRK_MATHS_MAP
#undef CRK_MATHS_GPU_MAP
#undef CRK_MATHS_C

#endif
