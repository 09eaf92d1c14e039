/* platform.h for AMD GPUs: clang 15 (HIP 5.2) and later, `-x hip --cuda-device-only -nogpuinc`. No header of HIP's: clang's
 * builtins and the device library's functions are all it takes, and they do not change with ROCm's version. */
#ifndef CRK_PLATFORM_HIP_H
#define CRK_PLATFORM_HIP_H

#include "platform/architectures.h"
#if CRK_ARCH_LANES == 0
#error "kernels/platform/architectures.h has no line for this architecture"
#endif

#define CRK_FN         __attribute__((device, always_inline)) inline
#define CRK_UNROLL     _Pragma("unroll")
#define CRK_NO_UNROLL  _Pragma("unroll 1")
#define CRK_ONE_BY_ONE _Pragma("clang loop unroll(disable) vectorize(disable) interleave(disable)")

#define CRK_ELEMENTWISE(name, max_threads, params) CRK_KERNEL(name, max_threads, params)
#define CRK_COOPERATIVE(name, max_threads, params) CRK_KERNEL(name, max_threads, params)
#define CRK_KERNEL(name, max_threads, params) \
  extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, max_threads))) void name params
/* Where a SIMD unit has 256 registers a lane, eight waves would have 32 each, too few to be asked for; clang 15 would rather keep
 * some in memory. */
#if __clang_major__ < 16 || CRK_ARCH_REGISTERS == 256
#define CRK_WAVES(waves)
#else
#define CRK_WAVES(waves) __attribute__((amdgpu_waves_per_eu(waves)))
#endif
#define CRK_STREAMING(name, max_threads, waves, params) CRK_WAVES(waves) CRK_KERNEL(name, max_threads, params)
#define CRK_MODULE(stem)

#define CRK_SHARED(T, name, count) static __attribute__((shared)) T name[count]

extern "C" {
#define CRK_OCML(name, c, ocml)                                    \
  __attribute__((device, const)) float __ocml_##ocml##_f32(float); \
  __attribute__((device, const)) double __ocml_##ocml##_f64(double);
CRK_MATHS_MAP(CRK_OCML)
CRK_MATHS_GPU_MAP(CRK_OCML)
__attribute__((device, const)) float __ocml_pow_f32(float, float);
__attribute__((device, const)) double __ocml_pow_f64(double, double);
#undef CRK_OCML
}

namespace crk {

inline constexpr bool on_host = false;

/* The argument where it lies, in constant memory: a copy in registers would be 100 of them, an indexed one scratch. It is the
 * kernel's first, so it begins where the arguments begin. */
#define CRK_ND_ARGUMENT(nd) crk::first_argument(nd)
template <class T>
CRK_FN const T &first_argument(const T &) {
  return *(const T *)(const __attribute__((address_space(4))) T *)__builtin_amdgcn_kernarg_segment_ptr();
}
template <class T>
CRK_FN const T &reread(const T &) {
  const auto *at = (const __attribute__((address_space(4))) T *)__builtin_amdgcn_kernarg_segment_ptr();
  __asm__("" : "+s"(at));
  return *(const T *)at;
}

template <class To, class From>
CRK_FN To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

struct dim {
  uint32_t x, y, z;
};

CRK_FN dim thread_index() {
  return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z()};
}
CRK_FN dim block_index() {
  return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()};
}
/* The dispatch packet (HSA's hsa_kernel_dispatch_packet_t) has both sizes, in threads. Read from there they cost a kernel no
 * hidden arguments, of which a launch would otherwise write 256 bytes. */
struct packet {
  uint16_t header, setup, block_x, block_y, block_z, reserved;
  uint32_t grid_x, grid_y, grid_z;
};
CRK_FN const packet &dispatch() {
  return *(const packet *)(const __attribute__((address_space(4))) packet *)__builtin_amdgcn_dispatch_ptr();
}
CRK_FN dim block_size() { return {dispatch().block_x, dispatch().block_y, dispatch().block_z}; }
CRK_FN dim grid_size() {
  return {dispatch().grid_x / dispatch().block_x, dispatch().grid_y / dispatch().block_y,
          dispatch().grid_z / dispatch().block_z};
}

/* A grid has fewer than 2^32 threads on HIP. */
struct named_elements {
  uint64_t first, end, step;

  CRK_FN explicit named_elements(uint64_t count)
      : first(block_index().x * dispatch().block_x + thread_index().x), end(count), step(dispatch().grid_x) {}
};

/* GCN and CDNA (gfx8, gfx9) run waves of 64, RDNA of 32. */
#if CRK_ARCH_LANES == 64
inline constexpr uint32_t most_lanes = 64;
CRK_FN uint32_t lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }
#else
inline constexpr uint32_t most_lanes = 32;
CRK_FN uint32_t lane() { return __builtin_amdgcn_mbcnt_lo(~0u, 0); }
#endif
CRK_FN constexpr uint32_t wave_size() { return most_lanes; }
CRK_FN uint32_t uniform(uint32_t word) {
  return static_cast<uint32_t>(__builtin_amdgcn_readfirstlane(static_cast<int>(word)));
}
CRK_FN uint32_t wave_in_block() { return uniform(thread_index().x / wave_size()); }
template <class T>
CRK_FN T load_uniform(const T *src) {
  return *(const __attribute__((address_space(4))) T *)src;
}
CRK_FN uint32_t popcount(uint64_t word) { return static_cast<uint32_t>(__builtin_popcountll(word)); }
/* 33 is LLVM's "not equal"; the ballot builtins of later compilers are the same instruction. */
CRK_FN uint64_t ballot(bool predicate) { return __builtin_amdgcn_uicmp(static_cast<uint32_t>(predicate), 0u, 33); }
CRK_FN bool any(bool predicate) { return ballot(predicate) != 0; }
CRK_FN bool all(bool predicate) { return ballot(!predicate) == 0; }

CRK_FN void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/* A wave's accesses to shared memory happen in its program's order: only the compiler must keep it. */
CRK_FN void wave_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

template <class T>
CRK_FN T shuffle(T value, uint32_t source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  const int address = static_cast<int>((source < wave_size() ? source : lane()) * 4);
  struct words {
    int w[sizeof(T) / 4];
  };
  words bits = bit_cast<words>(value);
  CRK_UNROLL
  for (unsigned i = 0; i < sizeof(T) / 4; i++) {
    bits.w[i] = __builtin_amdgcn_ds_bpermute(address, bits.w[i]);
  }
  return bit_cast<T>(bits);
}
template <uint32_t Lane, class T>
CRK_FN T of_lane(T value) {
  struct words {
    int w[sizeof(T) / 4];
  };
  words bits = bit_cast<words>(value);
  CRK_UNROLL
  for (unsigned i = 0; i < sizeof(T) / 4; i++) {
    bits.w[i] = __builtin_amdgcn_readlane(bits.w[i], Lane);
  }
  return bit_cast<T>(bits);
}
template <class T>
CRK_FN T shuffle_xor(T value, uint32_t mask) {
  return shuffle(value, lane() ^ mask);
}
template <class T>
CRK_FN T shuffle_up(T value, uint32_t distance) {
  return shuffle(value, lane() - distance);
}
template <class T>
CRK_FN T shuffle_down(T value, uint32_t distance) {
  return shuffle(value, lane() + distance);
}

/* Data-parallel primitives (DPP): a lane's operand comes from another lane of its row of 16, in the same instruction where the
 * compiler can fold it. RDNA has any xor within a row and an exchange of rows; GCN and CDNA put the xors together from rotations,
 * mirrors and permutations of four lanes, and cross rows by a swizzle. */
template <int Control>
CRK_FN int dpp(int value) {
  return __builtin_amdgcn_mov_dpp(value, Control, 0xf, 0xf, true);
}
template <int Mask>
CRK_FN int exchange_word(int value) {
  static_assert(Mask == 1 || Mask == 2 || Mask == 4 || Mask == 8 || Mask == 16, "one bit of a lane's number");
  if constexpr (Mask == 1) {
    return dpp<0xb1>(value); /* quad_perm [1, 0, 3, 2] */
  } else if constexpr (Mask == 2) {
    return dpp<0x4e>(value); /* quad_perm [2, 3, 0, 1] */
  } else if constexpr (Mask == 8) {
    return dpp<0x128>(value); /* row_ror 8 */
#if CRK_ARCH_LANES == 64
  } else if constexpr (Mask == 4) {
    return dpp<0x1b>(dpp<0x141>(value)); /* row_half_mirror is xor 7, quad_perm [3, 2, 1, 0] xor 3 */
  } else {
    return __builtin_amdgcn_ds_swizzle(value, 0x401f);
  }
#else
  } else if constexpr (Mask == 4) {
    return dpp<0x164>(value); /* row_xmask 4 */
  } else {
    return static_cast<int>(
        __builtin_amdgcn_permlanex16(0u, static_cast<unsigned>(value), 0x76543210u, 0xfedcba98u, false, true));
  }
#endif
}
template <int Mask, class T>
CRK_FN T exchange_xor(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  struct words {
    int w[sizeof(T) / 4];
  };
  words bits = bit_cast<words>(value);
  CRK_UNROLL
  for (unsigned i = 0; i < sizeof(T) / 4; i++) {
    bits.w[i] = exchange_word<Mask>(bits.w[i]);
  }
  return bit_cast<T>(bits);
}

extern __attribute__((shared)) __attribute__((aligned(16))) unsigned char crk_dynamic_shared[];
template <class T>
CRK_FN T *dynamic_shared() {
  return reinterpret_cast<T *>(crk_dynamic_shared);
}

/* The hardware loads any number of bytes from any address (the driver sets it up so). */
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

/* Piece by piece: an array of more than 16 bytes may end in memory. */
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
        asm("" : "+v"(words)); /* where bytes go different ways, LLVM would read the first two a second time */
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
/* As a vector: two words that were loaded under a condition LLVM would join there, and wait for them. */
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

template <int N, int Usual = 2>
CRK_FN pack<uint32_t, N> load_words(const void *src) {
  if constexpr (N == 4) {
    return bit_cast<pack<uint32_t, N>>(*static_cast<const words16_at<2>::type *>(src));
  } else {
    pack<uint32_t, N> words;
    __builtin_memcpy(&words, __builtin_assume_aligned(src, 2), sizeof(words));
    return words;
  }
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
template <class T>
CRK_FN T atomic_cas(T *address, T expected, T desired) {
  __hip_atomic_compare_exchange_strong(address, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                       __HIP_MEMORY_SCOPE_AGENT);
  return expected;
}

/* Only reads have to come first, and a value that was used has been read: no fence. */
CRK_FN bool last_of_launch(uint32_t *ticket, uint32_t threads) {
  barrier();
  if (thread_index().x != 0 || atomic_add(ticket, 1u) + 1 != threads / CRK_LAUNCHED_THREADS) {
    return false;
  }
  *ticket = 0;
  return true;
}

/* Of half a word: the whole word is exchanged, again where only the other half has changed meanwhile. */
CRK_FN uint16_t atomic_cas(uint16_t *address, uint16_t expected, uint16_t desired) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  uint32_t *const word = reinterpret_cast<uint32_t *>(at & ~uintptr_t(3));
  const uint32_t shift = at % 4 * 8, mask = 0xffffu << shift;
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

/* One instruction wherever there is one. */
CRK_FN int32_t dot4(int32_t a, int32_t b, int32_t c) {
#if CRK_ARCH_DOT4 == CRK_DOT4_MIXED
  return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#elif CRK_ARCH_DOT4 == CRK_DOT4_SIGNED
  return __builtin_amdgcn_sdot4(a, b, c, false);
#else
    CRK_UNROLL
    for (int i = 0; i < 32; i += 8) {
      c += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
    }
    return c;
#endif
}

/* Sums of two products of 16-bit floats, in f32; dot_half.h has the others. The instruction takes subnormal f16 as they are;
 * that it flushes subnormal f32 loses nothing, since sums of products of f16 are multiples of 2^-48. A bf16 below 2^-126
 * may be 0 to it. */
#if CRK_ARCH_DOT2 != CRK_DOT2_NONE
#define CRK_HAS_DOT2_F16 1
typedef _Float16 two_halves __attribute__((ext_vector_type(2)));
CRK_FN float dot2_f16(uint32_t a, uint32_t b, float c) {
  return __builtin_amdgcn_fdot2(bit_cast<two_halves>(a), bit_cast<two_halves>(b), c, false);
}
#endif
#if CRK_ARCH_DOT2 == CRK_DOT2_BOTH
#define CRK_HAS_DOT2_BF16 1
typedef short two_shorts __attribute__((ext_vector_type(2)));
CRK_FN float dot2_bf16(uint32_t a, uint32_t b, float c) {
  return __builtin_amdgcn_fdot2_f32_bf16(bit_cast<two_shorts>(a), bit_cast<two_shorts>(b), c, false);
}
#endif

/* Unsigned bytes times signed ones, where an instruction has them. */
#if CRK_ARCH_DOT4 == CRK_DOT4_MIXED
inline constexpr int code_bits = 8;
CRK_FN int32_t dot4_codes(int32_t a, int32_t b, int32_t c) {
  return __builtin_amdgcn_sudot4(false, a, true, b, c, false);
}
#else
inline constexpr int code_bits = 7;
CRK_FN int32_t dot4_codes(int32_t a, int32_t b, int32_t c) { return dot4(a, b, c); }
#endif
CRK_FN uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t from) { return __builtin_amdgcn_perm(b, a, from); }

CRK_FN float float_of_byte(uint32_t word, uint32_t i) { return static_cast<float>(word >> 8 * i & 0xff); }
using small_int = float;
CRK_FN small_int small_of_byte(uint32_t word, uint32_t i) { return float_of_byte(word, i); }
CRK_FN uint32_t whole_word(uint32_t x) {
#if __clang_major__ < 16
  __asm__("" : "+v"(x));
#endif
  return x;
}
CRK_FN uint32_t opaque(uint32_t x) {
  __asm__("" : "+v"(x));
  return x;
}
CRK_FN uint32_t whole_bytes(uint32_t word) { return opaque(word); }
template <class T>
CRK_FN uint32_t in_turn(uint32_t word, T first) {
  static_assert(sizeof(T) == 4, "a register");
#if !defined(__GFX11__) && !defined(__GFX12__)
  __asm__("" : "+v"(word) : "v"(bit_cast<uint32_t>(first)));
#endif
  return word;
}

CRK_FN uint32_t mulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32); }
CRK_FN uint64_t mulhi(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
}

#define CRK_MATHS_OCML(name, c, ocml)                           \
  CRK_FN float name(float x) { return __ocml_##ocml##_f32(x); } \
  CRK_FN double name(double x) { return __ocml_##ocml##_f64(x); }
CRK_MATHS_MAP(CRK_MATHS_OCML)
#undef CRK_MATHS_OCML
CRK_FN float normcdf(float x) { return __ocml_ncdf_f32(x); }
CRK_FN double normcdf(double x) { return __ocml_ncdf_f64(x); }
CRK_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
CRK_FN double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
CRK_FN float product(float a, float b) { return fma(a, b, bit_cast<float>(opaque(0x80000000u))); }
CRK_FN double product(double a, double b) { return a * b; }
/* The machine's is off by a unit in the last place: one step of Newton's from it, in twice f32's precision. There is none from 0,
 * infinity and NaN, where the step is NaN. */
CRK_FN float rsqrt(float x) {
  const float r = __ocml_rsqrt_f32(x), square = x * r;
  const float rest = fma(-fma(x, r, -square), r, fma(-square, r, 1.0f));
  return rest == rest ? fma(0.5f * r, rest, r) : r;
}
CRK_FN double rsqrt(double x) { return __ocml_rsqrt_f64(x); }
/* clang 15 and 16 have no builtin of the instruction, and take the function for it. */
CRK_FN float exp2_near(float x) {
#if __has_builtin(__builtin_amdgcn_exp2f)
  return __builtin_amdgcn_exp2f(x);
#else
  return __builtin_exp2f(x);
#endif
}
CRK_FN float reciprocal_near(float x) { return __builtin_amdgcn_rcpf(x); }
CRK_FN float pow(float x, float y) { return __ocml_pow_f32(x, y); }
CRK_FN double pow(double x, double y) { return __ocml_pow_f64(x, y); }
CRK_FN float max_number(float a, float b) { return __builtin_fmaxf(a, b); }
CRK_FN float min_number(float a, float b) { return __builtin_fminf(a, b); }
CRK_FN double max_number(double a, double b) { return __builtin_fmax(a, b); }
CRK_FN double min_number(double a, double b) { return __builtin_fmin(a, b); }

/* f16 as the machine has it; element_types.h has the type. */
#define CRK_HAS_F16 1
CRK_FN _Float16 f16_value(uint16_t code) { return bit_cast<_Float16>(code); }
CRK_FN uint16_t f16_code(_Float16 value) { return bit_cast<uint16_t>(value); }
CRK_FN float f16_decode(uint16_t code) { return static_cast<float>(f16_value(code)); }
CRK_FN uint16_t f16_encode(float x) { return f16_code(static_cast<_Float16>(x)); }
CRK_FN uint16_t f16_add(uint16_t a, uint16_t b) { return f16_code(f16_value(a) + f16_value(b)); }
CRK_FN uint16_t f16_sub(uint16_t a, uint16_t b) { return f16_code(f16_value(a) - f16_value(b)); }
CRK_FN uint16_t f16_mul(uint16_t a, uint16_t b) { return f16_code(f16_value(a) * f16_value(b)); }
CRK_FN uint16_t f16_fma(uint16_t a, uint16_t b, uint16_t c) {
  return f16_code(__builtin_fmaf16(f16_value(a), f16_value(b), f16_value(c)));
}
/* In f32, where quotients of f16 neither overflow nor underflow: one step of Newton's makes the quotient right to half a unit
 * and a little, and an exact one exact, which is all that a second rounding to f16 needs. */
CRK_FN uint16_t f16_div(uint16_t x, uint16_t y) {
  const float a = f16_decode(x), b = f16_decode(y), r = reciprocal_near(b), q = a * r;
  return f16_encode(__builtin_amdgcn_div_fixupf(fma(fma(-q, b, a), r, q), b, a));
}

/* What log2_of_e leaves of log2(e): x times both is right to more than f32's last place. */
inline constexpr float log2_of_e_rest = 0x1.4ae0bep-26f;

/* x / (1 + e^-x), with less than exp and a division have to do in general. Beyond the bounds e^-x is 0 or infinite all the same, and a
 * NaN need not survive in it: x has it. The divisor is at least 1, so that only its reciprocal could be subnormal, which the
 * machine flushes; a quarter of the divisor has one that is not. One step of Newton's, as in f16_div. */
#define CRK_HAS_SILU 1
CRK_FN float silu(float x) {
  const float y = __builtin_amdgcn_fmed3f(-x, -110.0f, 90.0f), high = y * log2_of_e,
              low = fma(y, log2_of_e_rest, fma(y, log2_of_e, -high)), whole = __builtin_rintf(high);
  const float divisor = 1.0f + __builtin_amdgcn_ldexpf(exp2_near(high - whole + low), static_cast<int>(whole));
  const float r = reciprocal_near(0.25f * divisor) * 0.25f, q = x * r;
  return __builtin_amdgcn_div_fixupf(fma(fma(-q, divisor, x), r, q), divisor, x);
}

}  // namespace crk

#define CRK_LARGE_SHARED 0
#include "platform/hip_matrix.h"

#endif
