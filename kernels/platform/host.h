/* platform.h for the CPU: any C++17 compiler, no exceptions, no RTTI, nothing of the C++ runtime. The driver's services
 * reach a kernel through the crk_host_thread_t that it runs on (host_abi.h). */
#ifndef CRK_PLATFORM_HOST_H
#define CRK_PLATFORM_HOST_H

#include <math.h>
#include <string.h>

#include "platform/host_abi.h"

#if defined(_MSC_VER) && !defined(__clang__)
#define CRK_FN                         __forceinline
#define __builtin_memcpy               memcpy
#define __builtin_assume_aligned(p, n) (p)
#define CRK_HIDDEN
#define CRK_EXPORT
#else
#define CRK_FN     __attribute__((always_inline)) inline
#define CRK_HIDDEN __attribute__((visibility("hidden")))
#define CRK_EXPORT __attribute__((visibility("default")))
#endif
/* A module whose kernels are little but an fma defines CRK_HOST_FMA. Where not every machine has the instruction, they are compiled
 * for those that do as well, and the C library chooses while the program is loaded, before ThreadSanitizer is there. Clang leaves
 * out the constructors that such kernels call. */
#if defined(CRK_HOST_FMA) && defined(__x86_64__) && !defined(__FMA__) && defined(__GLIBC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__)
#define CRK_HOST_CLONES __attribute__((target_clones("fma", "default")))
#define CRK_HOST_CLONED 1
#else
#define CRK_HOST_CLONES
#define CRK_HOST_CLONED 0
#endif
#define CRK_UNROLL
#define CRK_NO_UNROLL
#define CRK_ONE_BY_ONE
#define CRK_ND_ARGUMENT(nd) (nd)

namespace crk {

inline constexpr bool on_host = true;

template <class To, class From>
CRK_FN To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

namespace host {

/* Hidden, so that each binary with kernels has its own. A driver's service may run other kernel threads on the same
 * operating system thread before it returns: whoever calls one sets this again. */
CRK_HIDDEN inline thread_local crk_host_thread_t *current = nullptr;

template <class T>
inline constexpr uint32_t is_pointer = 0;
template <class T>
inline constexpr uint32_t is_pointer<T *> = 1;

template <class T>
CRK_FN T argument(const void *at) {
  T value;
  memcpy(&value, at, sizeof(value));
  return value;
}

template <auto Function>
struct kernel;

template <class... A, void (*Function)(A...)>
struct kernel<Function> {
  static constexpr crk_host_arg_t args[sizeof...(A)] = {{sizeof(A), is_pointer<A>}...};

  template <int... I>
  static void call(void *const *values, indices<I...>) {
    Function(argument<A>(values[I])...);
  }

  static void run(crk_host_thread_t *self, void *const *values) {
    current = self;
    call(values, typename make_indices<sizeof...(A)>::type());
  }

  static void run_block(crk_host_thread_t *self, void *const *values) {
    current = self;
    uint32_t linear = 0;
    for (uint32_t z = 0; z < self->block_size.z; z++) {
      for (uint32_t y = 0; y < self->block_size.y; y++) {
        for (uint32_t x = 0; x < self->block_size.x; x++) {
          self->thread_index = {x, y, z};
          self->lane = linear++ % self->wave_size;
          call(values, typename make_indices<sizeof...(A)>::type());
        }
      }
    }
  }

  static constexpr crk_host_kernel_t describe(const char *name, crk_host_kind_t kind, uint32_t max_threads) {
    return {nullptr,        name,       kind == CRK_HOST_INDEPENDENT ? run_block : run, args, sizeof...(A),
            (uint32_t)kind, max_threads};
  }
};

struct link {
  link(const crk_host_kernel_t *&head, crk_host_kernel_t &kernel) {
    kernel.next = head;
    head = &kernel;
  }
};

}  // namespace host
}  // namespace crk

/* The kernels of this translation unit: one module. */
static const crk_host_kernel_t *crk_module_kernels = nullptr;

#define CRK_HOST_KERNEL(kind, name, max_threads, params)                             \
  CRK_HOST_CLONES static void crk_kernel_##name params;                              \
  static crk_host_kernel_t crk_node_##name =                                         \
      crk::host::kernel<&crk_kernel_##name>::describe(#name, kind, max_threads);     \
  static const crk::host::link crk_link_##name(crk_module_kernels, crk_node_##name); \
  CRK_HOST_CLONES static void crk_kernel_##name params
#define CRK_ELEMENTWISE(name, max_threads, params) CRK_HOST_KERNEL(CRK_HOST_ELEMENTWISE, name, max_threads, params)
#define CRK_KERNEL(name, max_threads, params)      CRK_HOST_KERNEL(CRK_HOST_INDEPENDENT, name, max_threads, params)
#define CRK_COOPERATIVE(name, max_threads, params) CRK_HOST_KERNEL(CRK_HOST_COOPERATIVE, name, max_threads, params)

#define CRK_MODULE(stem)                                                               \
  static const crk_host_kernel_t *crk_module_head(void) { return crk_module_kernels; } \
  extern "C" CRK_EXPORT const crk_host_module_t crk_host_module_##stem;                \
  extern "C" const crk_host_module_t crk_host_module_##stem = {CRK_HOST_ABI_VERSION, #stem, crk_module_head};

/* The address of a variable of its own is the name of a piece of shared memory. */
#define CRK_SHARED(T, name, count)      \
  static const char crk_key_##name = 0; \
  T *const name = static_cast<T *>(crk::host::shared(&crk_key_##name, sizeof(T) * (count)))

namespace crk {

CRK_FN crk_host_dim_t thread_index() { return host::current->thread_index; }
CRK_FN crk_host_dim_t block_index() { return host::current->block_index; }
CRK_FN crk_host_dim_t block_size() { return host::current->block_size; }
CRK_FN crk_host_dim_t grid_size() { return host::current->grid_size; }
CRK_FN uint32_t wave_size() { return host::current->wave_size; }
CRK_FN uint32_t lane() { return host::current->lane; }
inline constexpr uint32_t most_lanes = 64;
CRK_FN uint32_t uniform(uint32_t word) { return word; }
CRK_FN uint32_t wave_in_block() { return thread_index().x / wave_size(); }
template <class T>
CRK_FN T load_uniform(const T *src) {
  return *src;
}

/* A contiguous piece, so that the loop over it is one that the compiler can vectorise. Pieces begin at multiples of 64
 * elements: two threads share no cache line of an aligned output. */
struct named_elements {
  uint64_t first, end;
  static constexpr uint64_t step = 1;

  CRK_FN explicit named_elements(uint64_t count) {
    const crk_host_thread_t *self = host::current;
    const uint64_t share = (count / self->parts + (count % self->parts != 0) + 63) / 64 * 64;
    const bool within = self->part == 0 || share <= (count - 1) / self->part;
    first = count != 0 && within ? share * self->part : count;
    end = count - first > share ? first + share : count;
  }
};

/* What a launcher tells of its grid is no news here; where it is wrong, and a GPU would go astray, nothing is done. */
struct elements : named_elements {
  CRK_FN elements(uint64_t count, uint32_t threads, uint32_t block = CRK_LAUNCHED_THREADS)
      : named_elements(block == block_size().x && threads == static_cast<uint64_t>(grid_size().x) * block ? count : 0) {
  }
};

namespace host {

CRK_FN uint64_t shuffle(uint64_t value, uint32_t source) {
  crk_host_thread_t *self = current;
  const uint64_t result = self->services->shuffle(self, value, source);
  current = self;
  return result;
}

inline void *shared(const void *key, size_t bytes) {
  crk_host_thread_t *self = current;
  void *result = self->services->shared(self, key, bytes);
  current = self;
  return result;
}

}  // namespace host

CRK_FN void barrier() {
  crk_host_thread_t *self = host::current;
  self->services->barrier(self);
  host::current = self;
}

/* By halves of growing width: no compiler's builtin. */
CRK_FN uint32_t popcount(uint64_t word) {
  word -= word >> 1 & 0x5555555555555555u;
  word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
  word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<uint32_t>((word * 0x0101010101010101u) >> 56);
}

CRK_FN uint64_t ballot(bool predicate) {
  crk_host_thread_t *self = host::current;
  const uint64_t result = self->services->ballot(self, predicate);
  host::current = self;
  return result;
}

CRK_FN void wave_barrier() { ballot(true); }

CRK_FN bool any(bool predicate) { return ballot(predicate) != 0; }
CRK_FN bool all(bool predicate) { return ballot(!predicate) == 0; }

template <class T>
CRK_FN T shuffle(T value, uint32_t source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  using bits = choose<sizeof(T) == 4, uint32_t, uint64_t>;
  if (source >= wave_size()) {
    source = lane();
  }
  return bit_cast<T>(static_cast<bits>(host::shuffle(bit_cast<bits>(value), source)));
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

template <int Mask, class T>
CRK_FN T exchange_xor(T value) {
  return shuffle_xor(value, Mask);
}

template <class T>
CRK_FN T *dynamic_shared() {
  return static_cast<T *>(host::current->dynamic_shared);
}

template <class T, int V>
CRK_FN pack<T, V> load_pack(const T *src) {
  pack<T, V> values;
  memcpy(&values, src, sizeof(values));
  return values;
}
template <class T, int V>
CRK_FN pack<T, V> load_aligned(const T *src) {
  return load_pack<T, V>(src);
}
template <class T, class U, int V>
CRK_FN void store_bits(T *to, const pack<U, V> &values) {
  memcpy(to, &values, sizeof(values));
}
template <class T, int V>
CRK_FN void store_pack(T *dst, const pack<T, V> &values) {
  memcpy(dst, &values, sizeof(values));
}

template <int N, int Usual = 2>
CRK_FN pack<uint32_t, N> load_words(const void *src) {
  pack<uint32_t, N> words;
  memcpy(&words, src, sizeof(words));
  return words;
}

/* One exchange loop serves every atomic operation. */
namespace host {

template <class T, class F>
CRK_FN T atomic_update(T *address, F next) {
  using bits = choose<sizeof(T) == 4, uint32_t, uint64_t>;
  bits *word = reinterpret_cast<bits *>(address);
  bits seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &seen, bit_cast<bits>(next(bit_cast<T>(seen))), true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {}
  return bit_cast<T>(seen);
}

}  // namespace host

template <class T>
CRK_FN T atomic_add(T *address, T value) {
  return host::atomic_update(address, [value](T old) -> T { return old + value; });
}
template <class T>
CRK_FN T atomic_max(T *address, T value) {
  return host::atomic_update(address, [value](T old) -> T { return old > value ? old : value; });
}
template <class T>
CRK_FN T atomic_min(T *address, T value) {
  return host::atomic_update(address, [value](T old) -> T { return old < value ? old : value; });
}
CRK_FN void publish(uint64_t *p, uint64_t value) { __atomic_store_n(p, value, __ATOMIC_RELAXED); }
template <class T>
CRK_FN T atomic_cas(T *address, T expected, T desired) {
  __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}

/* Of the pieces that the elements are in. */
CRK_FN bool last_of_launch(uint32_t *ticket, uint32_t) {
  if (__atomic_add_fetch(ticket, 1, __ATOMIC_ACQ_REL) != host::current->parts) {
    return false;
  }
  *ticket = 0;
  return true;
}

CRK_FN int32_t dot4(int32_t a, int32_t b, int32_t c) {
  for (int i = 0; i < 32; i += 8) {
    c += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
  }
  return c;
}

/* Not all of them multiply unsigned bytes with signed ones. */
inline constexpr int code_bits = 7;
CRK_FN int32_t dot4_codes(int32_t a, int32_t b, int32_t c) { return dot4(a, b, c); }
CRK_FN uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t from) {
  const uint64_t bytes = a | static_cast<uint64_t>(b) << 32;
  uint32_t result = 0;
  for (int i = 0; i < 32; i += 8) {
    result |= static_cast<uint32_t>(bytes >> (from >> i & 7) * 8 & 0xff) << i;
  }
  return result;
}
CRK_FN float float_of_byte(uint32_t word, uint32_t i) { return static_cast<float>(word >> 8 * i & 0xff); }
using small_int = int32_t;
CRK_FN small_int small_of_byte(uint32_t word, uint32_t i) { return static_cast<int32_t>(word >> 8 * i & 0xff); }
CRK_FN uint32_t opaque(uint32_t x) { return x; }
CRK_FN float product(float a, float b) { return a * b; }
CRK_FN double product(double a, double b) { return a * b; }

CRK_FN uint32_t mulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32); }
CRK_FN uint64_t mulhi(uint64_t a, uint64_t b) {
  const uint64_t a0 = static_cast<uint32_t>(a), a1 = a >> 32, b0 = static_cast<uint32_t>(b), b1 = b >> 32;
  const uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + static_cast<uint32_t>(middle);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

CRK_MATHS_MAP(CRK_MATHS_C)
/* Where the machine has the instruction, C's function is it; else a call that no loop is vectorised around. In double the product
 * is exact, and the sum's rounding is made one to odd (of the two doubles around the sum the one whose last bit is set), after
 * which rounding to float is as if done once. The sum's error is Knuth's two-sum, which needs sums of exactly double's precision;
 * of a sum that is no number it is a NaN. */
#if CRK_HOST_CLONED || defined(__FMA__) || defined(__aarch64__) || defined(_M_ARM64) || defined(__riscv_flen) || \
    (defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0)
CRK_FN float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
#else
CRK_FN float fma(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b), addend = c;
  const double sum = product + addend, part = sum - product;
  const double error = (product - (sum - part)) + (addend - part);
  const uint64_t word = bit_cast<uint64_t>(sum), apart = (word ^ bit_cast<uint64_t>(error)) >> 63;
  const uint64_t inexact = (error > 0.0 || error < 0.0) ? ~word & 1 : 0; /* and even */
  return static_cast<float>(bit_cast<double>(word + inexact - 2 * (inexact & apart)));
}
#endif
CRK_FN double fma(double a, double b, double c) { return ::fma(a, b, c); }
/* e^t by its series, t = (x - n) ln 2, and n into the exponent: no call, which a loop is not vectorised around. f64 leaves an error
 * below 2^-32, and what is beyond f32's range to the last conversion. */
CRK_FN float exp2_near(float x) {
  const double bounded = x < -160.0f ? -160.0 : x > 160.0f ? 160.0 : static_cast<double>(x), whole = bounded + 0x1.8p52;
  const double t = (bounded - (whole - 0x1.8p52)) * 0x1.62e42fefa39efp-1;
  constexpr double terms[] = {1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0};
  double sum = 0.0;
  for (const double term : terms) {
    sum = sum * t + term;
  }
  return static_cast<float>(bit_cast<double>(bit_cast<uint64_t>(sum) + (bit_cast<uint64_t>(whole) << 52)));
}
CRK_FN float reciprocal_near(float x) { return 1.0f / x; }
CRK_FN float pow(float x, float y) { return ::powf(x, y); }
CRK_FN double pow(double x, double y) { return ::pow(x, y); }
CRK_FN float rsqrt(float x) { return static_cast<float>(1.0 / ::sqrt(static_cast<double>(x))); }
CRK_FN double rsqrt(double x) { return 1.0 / ::sqrt(x); }

/* The normal distribution's area left of x, erfc(-x / sqrt(2)) / 2. The argument is a rounded product, and erfc multiplies
 * its relative error by twice its square: a first-order correction takes the product's rest into account. */
CRK_FN double normcdf(double x) {
  const double root_half = 0x1.6a09e667f3bcdp-1, root_half_rest = -0x1.bdd3413b26456p-55;
  if (x < -39.0 || x > 39.0) {
    return x < 0.0 ? 0.0 : 1.0;
  }
  const double t = -x * root_half;
  const double rest = ::fma(-x, root_half, -t) - x * root_half_rest;
  const double slope = 0x1.20dd750429b6dp+0 * ::exp(-t * t); /* 2 / sqrt(pi) exp(-t^2) */
  return 0.5 * (::erfc(t) - rest * slope);
}
CRK_FN float normcdf(float x) { return static_cast<float>(normcdf(static_cast<double>(x))); }

namespace host {

/* Equal values differ in the sign of a zero at most: then `zero` chooses. */
template <class T>
CRK_FN T larger(T a, T b, T zero) {
  return a > b || b != b ? a : b > a || a != a ? b : zero;
}

}  // namespace host

CRK_FN float max_number(float a, float b) {
  return host::larger(a, b, bit_cast<float>(bit_cast<uint32_t>(a) & bit_cast<uint32_t>(b)));
}
CRK_FN double max_number(double a, double b) {
  return host::larger(a, b, bit_cast<double>(bit_cast<uint64_t>(a) & bit_cast<uint64_t>(b)));
}
CRK_FN float min_number(float a, float b) { return -max_number(-a, -b); }
CRK_FN double min_number(double a, double b) { return -max_number(-a, -b); }

}  // namespace crk

#define CRK_LARGE_SHARED 0
#define CRK_MATRIX_CORES 0

#endif
