/* platform.h for NVIDIA GPUs: nvcc 13, sm_80 and later. */
#ifndef CRK_PLATFORM_CUDA_H
#define CRK_PLATFORM_CUDA_H

#define CRK_FN         __device__ __forceinline__
#define CRK_UNROLL     _Pragma("unroll")
#define CRK_NO_UNROLL  _Pragma("unroll 1")
#define CRK_ONE_BY_ONE _Pragma("unroll 1")

#define CRK_ELEMENTWISE(name, max_threads, params) CRK_KERNEL(name, max_threads, params)
#define CRK_COOPERATIVE(name, max_threads, params) CRK_KERNEL(name, max_threads, params)
#define CRK_KERNEL(name, max_threads, params)      extern "C" __global__ void __launch_bounds__(max_threads) name params
#define CRK_PAIRED(name, max_threads, params)      extern "C" __global__ void __launch_bounds__(max_threads, 2) name params
#define CRK_MODULE(stem)

/* Arguments lie in constant memory, which takes a run-time index. */
#define CRK_ND_ARGUMENT(nd)        (nd)
#define CRK_SHARED(T, name, count) static __shared__ T name[count]

namespace crk {

inline constexpr bool on_host = false;

template <class To, class From>
CRK_FN To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

CRK_FN uint3 thread_index() { return threadIdx; }
CRK_FN uint3 block_index() { return blockIdx; }
CRK_FN dim3 block_size() { return blockDim; }
CRK_FN dim3 grid_size() { return gridDim; }

struct named_elements {
  uint64_t first, end, step;

  CRK_FN explicit named_elements(uint64_t count)
      : first(static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x),
        end(count),
        step(static_cast<uint64_t>(gridDim.x) * blockDim.x) {}
};

CRK_FN uint32_t opaque(uint32_t x) {
  asm("" : "+r"(x));
  return x;
}

inline constexpr uint32_t most_lanes = 32;
CRK_FN constexpr uint32_t wave_size() { return most_lanes; }
CRK_FN uint32_t uniform(uint32_t word) { return word; }
/* By a shuffle, of which nvcc knows that all lanes get the same. */
CRK_FN uint32_t wave_in_block() { return __shfl_sync(0xffffffffu, threadIdx.x / most_lanes, 0); }
template <class T>
CRK_FN T load_uniform(const T *src) {
  return *src;
}
CRK_FN uint32_t lane() {
  uint32_t id;
  asm("mov.u32 %0, %%laneid;" : "=r"(id));
  return id;
}
CRK_FN uint32_t popcount(uint64_t word) { return static_cast<uint32_t>(__popcll(word)); }
CRK_FN uint64_t ballot(bool predicate) { return __ballot_sync(0xffffffffu, predicate); }
CRK_FN bool any(bool predicate) { return __any_sync(0xffffffffu, predicate); }
CRK_FN bool all(bool predicate) { return __all_sync(0xffffffffu, predicate); }
CRK_FN void barrier() { __syncthreads(); }
CRK_FN void wave_barrier() { __syncwarp(); }

template <class T>
CRK_FN T shuffle(T value, uint32_t source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  using bits = choose<sizeof(T) == 4, unsigned, unsigned long long>;
  return bit_cast<T>(__shfl_sync(0xffffffffu, bit_cast<bits>(value), static_cast<int>(source < 32 ? source : lane())));
}
template <class T>
CRK_FN T shuffle_xor(T value, uint32_t mask) {
  using bits = choose<sizeof(T) == 4, unsigned, unsigned long long>;
  return bit_cast<T>(__shfl_xor_sync(0xffffffffu, bit_cast<bits>(value), static_cast<int>(mask)));
}
template <class T>
CRK_FN T shuffle_up(T value, uint32_t distance) {
  using bits = choose<sizeof(T) == 4, unsigned, unsigned long long>;
  return bit_cast<T>(__shfl_up_sync(0xffffffffu, bit_cast<bits>(value), distance));
}
template <class T>
CRK_FN T shuffle_down(T value, uint32_t distance) {
  using bits = choose<sizeof(T) == 4, unsigned, unsigned long long>;
  return bit_cast<T>(__shfl_down_sync(0xffffffffu, bit_cast<bits>(value), distance));
}

template <int Mask, class T>
CRK_FN T exchange_xor(T value) {
  return shuffle_xor(value, Mask);
}

extern __shared__ __align__(16) unsigned char crk_dynamic_shared[];
template <class T>
CRK_FN T *dynamic_shared() {
  return reinterpret_cast<T *>(crk_dynamic_shared);
}

/* A wide access faults off its alignment. */
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
/* The single elements take as many instructions where the address is aligned: the compiler makes no branch of them. */
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
template <class T, int V>
CRK_FN void store_pack(T *dst, const pack<T, V> &values) {
  constexpr int bytes = V * sizeof(T) < 16 ? V * sizeof(T) : 16, count = bytes / sizeof(T);
  CRK_UNROLL
  for (int i = 0; i < V; i += count) {
    pack<T, count> piece;
    CRK_UNROLL
    for (int j = 0; j < count; j++) {
      piece.v[j] = values.v[i + j];
    }
    *reinterpret_cast<words_of<bytes> *>(dst + i) = bit_cast<words_of<bytes>>(piece);
  }
}

/* Four words at once where they are aligned to 16 bytes, which blocks of a multiple of 16 bytes mostly are; else aligned words,
 * shifted into place. */
template <int N, int Usual = 2>
CRK_FN pack<uint32_t, N> load_words(const void *src) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(src);
  if constexpr (N == 4 && Usual == 16) {
    if (at % 16 == 0) {
      return bit_cast<pack<uint32_t, N>>(*static_cast<const uint4 *>(src));
    }
  }
  /* By a distance, so that the compiler still knows which memory it is. */
  const uint32_t *from = reinterpret_cast<const uint32_t *>(static_cast<const unsigned char *>(src) - at % 4);
  pack<uint32_t, N> words;
  CRK_UNROLL
  for (int i = 0; i < N; i++) {
    words.v[i] = from[i];
  }
  const uint32_t shift = at % 4 * 8, last = shift != 0 ? from[N] : 0;
  CRK_UNROLL
  for (int i = 0; i < N; i++) {
    words.v[i] = __funnelshift_r(words.v[i], i + 1 < N ? words.v[i + 1 < N ? i + 1 : i] : last, shift);
  }
  return words;
}

#define CRK_HAS_SHARED_BYTES 1
/* Words that are not aligned are shifted together from those that are. */
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
  /* Addresses as the compiler is to keep them: the distances that follow are in the instructions. */
  uint32_t to;
  uint64_t from;
  CRK_FN async_copies(void *shared_to, const void *global_from)
      : to(opaque(static_cast<uint32_t>(__cvta_generic_to_shared(shared_to)))),
        from(reinterpret_cast<uintptr_t>(global_from)) {
    asm("" : "+l"(from));
  }
  /* The second cache is to get the whole line: a wave's bytes end in the midst of one, of which another wave wants the rest. */
  CRK_FN void begin16(uint32_t distance, bool wanted) const {
    if (wanted) {
      asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
                   :
                   : "r"(to + distance), "l"(from + distance)
                   : "memory");
    }
  }
  CRK_FN static void end_group() { asm volatile("cp.async.commit_group;" : : : "memory"); }
  template <int Left>
  CRK_FN static void wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(Left) : "memory");
  }
};

/* CUDA's 64-bit integers are long long, uint64_t is long. */
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
template <class T>
CRK_FN T atomic_cas(T *address, T expected, T desired) {
  using A = atomic_type<T>;
  return static_cast<T>(atomicCAS(reinterpret_cast<A *>(address), static_cast<A>(expected), static_cast<A>(desired)));
}

CRK_FN bool last_of_launch(uint32_t *ticket, uint32_t threads) {
  __syncthreads();
  if (threadIdx.x != 0) {
    return false;
  }
  __threadfence();
  if (atomicAdd(ticket, 1u) + 1 != threads / CRK_LAUNCHED_THREADS) {
    return false;
  }
  *ticket = 0;
  return true;
}

CRK_FN int32_t dot4(int32_t a, int32_t b, int32_t c) { return __dp4a(a, b, c); }
inline constexpr int code_bits = 8;
CRK_FN int32_t dot4_codes(int32_t a, int32_t b, int32_t c) {
  int32_t sum;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}
CRK_FN uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t from) {
  return __byte_perm(a, b, (from & 7) | (from >> 4 & 0x70) | (from >> 8 & 0x700) | (from >> 12 & 0x7000));
}
/* Put below the bits of 2^23, which is then subtracted. */
CRK_FN float float_of_byte(uint32_t word, uint32_t i) {
  return __uint_as_float(__byte_perm(word, 0x4b000000, 0x7650 + i)) - 8388608.0f;
}
/* Not every factor has to become a float then, only the product. */
using small_int = int32_t;
CRK_FN small_int small_of_byte(uint32_t word, uint32_t i) {
  return static_cast<int32_t>(__byte_perm(word, 0, 0x4440 + i));
}
CRK_FN float product(float a, float b) { return a * b; }
CRK_FN double product(double a, double b) { return a * b; }

CRK_FN uint32_t mulhi(uint32_t a, uint32_t b) { return __umulhi(a, b); }
CRK_FN uint64_t mulhi(uint64_t a, uint64_t b) { return __umul64hi(a, b); }

CRK_MATHS_MAP(CRK_MATHS_C)
CRK_MATHS_GPU_MAP(CRK_MATHS_C)
CRK_FN float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
CRK_FN double fma(double a, double b, double c) { return ::fma(a, b, c); }
CRK_FN float pow(float x, float y) { return ::powf(x, y); }
CRK_FN double pow(double x, double y) { return ::pow(x, y); }
CRK_FN float max_number(float a, float b) { return ::fmaxf(a, b); }
CRK_FN double max_number(double a, double b) { return ::fmax(a, b); }
CRK_FN float min_number(float a, float b) { return ::fminf(a, b); }
CRK_FN double min_number(double a, double b) { return ::fmin(a, b); }

CRK_FN float exp2_near(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
CRK_FN float reciprocal_near(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#define CRK_HAS_CUDA_EXP 1

/* f16 and bf16 as the machine has them, by PTX; element_types.h has the types. */
#define CRK_HAS_F16 1
CRK_FN float f16_decode(uint16_t code) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(code));
  return x;
}
CRK_FN uint16_t f16_encode(float x) {
  uint16_t code;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(x));
  return code;
}
CRK_FN uint16_t f16_add(uint16_t a, uint16_t b) {
  uint16_t code;
  asm("add.rn.f16 %0, %1, %2;" : "=h"(code) : "h"(a), "h"(b));
  return code;
}
CRK_FN uint16_t f16_sub(uint16_t a, uint16_t b) {
  uint16_t code;
  asm("sub.rn.f16 %0, %1, %2;" : "=h"(code) : "h"(a), "h"(b));
  return code;
}
CRK_FN uint16_t f16_mul(uint16_t a, uint16_t b) {
  uint16_t code;
  asm("mul.rn.f16 %0, %1, %2;" : "=h"(code) : "h"(a), "h"(b));
  return code;
}
CRK_FN uint16_t f16_fma(uint16_t a, uint16_t b, uint16_t c) {
  uint16_t code;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(code) : "h"(a), "h"(b), "h"(c));
  return code;
}
/* In f32, where quotients of f16 neither overflow nor underflow: one step of Newton's makes the quotient right to half a unit
 * and a little, and an exact one exact, which is all that a second rounding to f16 needs. Zeros, for their sign, and infinities
 * are left alone. */
CRK_FN uint16_t f16_div(uint16_t x, uint16_t y) {
  const float a = f16_decode(x), b = f16_decode(y), r = reciprocal_near(b);
  const float q = a * r, rest = fma(-q, b, a);
  return f16_encode(rest != 0.0f && abs(rest) < INFINITY ? fma(rest, r, q) : q);
}

#define CRK_HAS_BF16 1
CRK_FN uint16_t bf16_encode(float x) {
  uint16_t code;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(code) : "f"(x));
  return code;
}
CRK_FN uint16_t bf16_fma(uint16_t a, uint16_t b, uint16_t c) {
  uint16_t code;
  asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(code) : "h"(a), "h"(b), "h"(c));
  return code;
}

}  // namespace crk

#define CRK_LARGE_SHARED 1
#include "platform/cuda_matrix.h"

#endif
