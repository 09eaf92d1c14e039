/* The module `unary`: dst[i] = op(src[i]); elu and powf also take a parameter. Kernels: u<op>_<type> with Candle's
 * arguments, u<op>_<type>_vec and _nd for csrc/launch/unary.c, and ucopy_<width>_tile for csrc/launch/tile.c.
 *
 * A new op takes a functor here and a line in a list at the end of the file. `compute<T>` is the type that the functor
 * computes in, wide<T> or stepwise<T> of numbers/element_types.h. `weight` says how long its code is. */
#include "elementwise/instances.h"
#include "elementwise/tile.h"

namespace crk {
namespace {

/* The length of a formula's code. A longer formula is compiled for fewer elements of a pack at once
 * (elements_at_once). */
enum weight_t { SHORT, MEDIUM, LONG };

template <weight_t Weight>
struct wide_op {
  static constexpr weight_t weight = Weight;
  template <class T>
  using compute = wide<T>;
};
template <weight_t Weight>
struct stepwise_op {
  static constexpr weight_t weight = Weight;
  template <class T>
  using compute = stepwise<T>;
};
/* ---- Formulas ---- */

struct copy_op : stepwise_op<SHORT> {
  template <class A>
  CRK_FN static A apply(A x) {
    return x;
  }
};

struct zero_op : stepwise_op<SHORT> {
  template <class A>
  CRK_FN static A apply(A) {
    return A(0);
  }
};

struct neg_op : stepwise_op<SHORT> {
  template <class A>
  CRK_FN static A apply(A x) {
    return -x;
  }
};

struct recip_op : stepwise_op<SHORT> {
  template <class A>
  CRK_FN static A apply(A x) {
    return A(1.0f) / x;
  }
};

struct sqr_op : stepwise_op<SHORT> {
  template <class A>
  CRK_FN static A apply(A x) {
    return x * x;
  }
};

struct sqrt_op : wide_op<MEDIUM> {
  template <class A>
  CRK_FN static A apply(A x) {
    return sqrt(x);
  }
};

/* The magnitude of the smallest integer wraps to that integer. */
struct abs_op : stepwise_op<SHORT> {
  template <class A>
  CRK_FN static A apply(A x) {
    if constexpr (floating<A>) {
      return abs(x);
    } else if constexpr (on_host) {
      /* `sign` is all ones for negative x. Not every CPU can compare several 64-bit integers at once. */
      const wrapping<A> sign = static_cast<wrapping<A>>(x >> (8 * sizeof(A) - 1));
      return static_cast<A>((static_cast<wrapping<A>>(x) ^ sign) - sign);
    } else {
      return x < 0 ? static_cast<A>(wrapping<A>(0) - static_cast<wrapping<A>>(x)) : x;
    }
  }
};

struct sign_op : wide_op<SHORT> {
  template <class A>
  CRK_FN static A apply(A x) {
    if constexpr (floating<A> || is_signed<A>) {
      return static_cast<A>((x > A(0)) - (x < A(0)));
    } else {
      return static_cast<A>(x > 0);
    }
  }
};

struct relu_op : stepwise_op<SHORT> {
  template <class A>
  CRK_FN static A apply(A x) {
    const A zero = convert<A>(0);
    if constexpr (on_host && half<A>) {
      /* Compares the code, so that a loop handles eight numbers at once: those from -0 to minus infinity give zero. */
      return static_cast<uint16_t>(x.code - 0x8000) <= (same<A, f16> ? 0x7c00 : 0x7f80) ? zero : x;
    } else if constexpr (same<A, double> && !on_host) {
      /* Compares the code: a comparison of numbers becomes v_max_f64, which is not documented everywhere to order
       * zeros. */
      const int64_t code = bit_cast<int64_t>(x);
      return code > 0 && code <= 0x7ff0000000000000 ? x : zero;
    } else {
      return x > zero || (half<A> && x != x) ? x : zero; /* NaN as in `maximum`; -0 gives +0 */
    }
  }
};

struct ceil_op : wide_op<SHORT> {
  template <class A>
  CRK_FN static A apply(A x) {
    return ceil(x);
  }
};

struct floor_op : wide_op<SHORT> {
  template <class A>
  CRK_FN static A apply(A x) {
    return floor(x);
  }
};

struct round_op : wide_op<SHORT> {
  template <class A>
  CRK_FN static A apply(A x) {
    return round(x);
  }
};

struct exp_op : wide_op<MEDIUM> {
  template <class A>
  CRK_FN static A apply(A x) {
    return exp(x);
  }
};

struct log_op : wide_op<MEDIUM> {
  template <class A>
  CRK_FN static A apply(A x) {
    return log(x);
  }
};

struct sin_op : wide_op<LONG> {
  template <class A>
  CRK_FN static A apply(A x) {
    return sin(x);
  }
};

struct cos_op : wide_op<LONG> {
  template <class A>
  CRK_FN static A apply(A x) {
    return cos(x);
  }
};

struct tanh_op : wide_op<LONG> {
  template <class A>
  CRK_FN static A apply(A x) {
    return tanh(x);
  }
};

struct erf_op : wide_op<LONG> {
  template <class A>
  CRK_FN static A apply(A x) {
    return erf(x);
  }
};

struct normcdf_op : wide_op<LONG> {
  template <class A>
  CRK_FN static A apply(A x) {
    return normcdf(x);
  }
};

/* In f16 and bf16 the logistic function and gelu use the machine's own 2^y and 1/y. With exact functions, and with
 * those of one NVIDIA GPU, the result equals Candle's for every x (tests/suites/properties.rs: unary/all_*). An error
 * of one unit in the last place of both moves a result by at most one step. */

/* tanh(y), to be added to 1, where only the absolute error counts. A CPU may have no fma. A product and a difference
 * give the same result there, because twice the quotient is exact. */
template <class A>
CRK_FN A tanh_beside_1(A y) {
  if constexpr (half<A>) {
    const float part = reciprocal_near(1.0f + exp2_near(static_cast<float>(y) * (2.0f * log2_of_e)));
    return A(on_host ? 1.0f - 2.0f * part : fma(-2.0f, part, 1.0f));
  } else {
    return tanh(y);
  }
}

/* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))); the inner sum is one fma. */
struct gelu_op : stepwise_op<MEDIUM> {
  template <class A>
  CRK_FN static A apply(A x) {
    const A inner = fma(A(0.044715), x * x * x, x);
    return A(0.5) * x * (A(1.0) + tanh_beside_1(A(0.79788456080286535588) * inner));
  }
};

struct gelu_erf_op : stepwise_op<LONG> {
  template <class A>
  CRK_FN static A apply(A x) {
    return x * normcdf(x);
  }
};

/* n / (1 + exp(-x)). Candle rounds every step in f16, but only the result in bf16. In bf16 the sum may be so large that
 * its reciprocal is not a normal number. A quarter of the sum avoids this. */
template <class A>
CRK_FN A times_logistic(A n, A x) {
  return n / (A(1.0f) + exp(-x));
}
CRK_FN f16 times_logistic(f16 n, f16 x) {
  const f16 power(exp2_near(static_cast<float>(x) * -log2_of_e));
  return f16(static_cast<float>(n) * reciprocal_near(static_cast<float>(f16(1.0f) + power)));
}
CRK_FN bf16 times_logistic(bf16 n, bf16 x) {
  const float quarter = fma(exp2_near(static_cast<float>(x) * -log2_of_e), 0.25f, 0.25f);
  return bf16(static_cast<float>(n) * 0.25f * reciprocal_near(quarter));
}

template <class A>
CRK_FN A silu_of(A x) {
  return times_logistic(x, x);
}
#if defined(CRK_HAS_SILU)
CRK_FN float silu_of(float x) { return silu(x); }
#endif

struct silu_op : stepwise_op<MEDIUM> {
  template <class A>
  CRK_FN static A apply(A x) {
    return silu_of(x);
  }
};

struct sigmoid_op : stepwise_op<MEDIUM> {
  template <class A>
  CRK_FN static A apply(A x) {
    return times_logistic(A(1.0f), x);
  }
};

/* exp(x) as in CUDA, where expf computes 2^y from y = x * log2(e), cut to 23 bits after the point. Near 0 the cut
 * decides the digits of exp(x) - 1. So x is reduced by the part that the cut takes from y, times log(2). */
CRK_FN float exp_of_cut(float x) {
#if defined(CRK_HAS_CUDA_EXP)
  return exp(x);
#else
  const float y = x * log2_of_e;
  return exp(y > -1.0f ? fma(floor(y * 0x1p23f) * 0x1p-23f - y, 0x1.62e43p-1f, x) : x); /* y <= -1: no cut */
#endif
}
CRK_FN double exp_of_cut(double x) { return exp(x); }
CRK_FN f16 exp_of_cut(f16 x) { return exp(x); }
CRK_FN bf16 exp_of_cut(bf16 x) { return exp(x); }

struct elu_op : stepwise_op<MEDIUM> {
  template <class A>
  CRK_FN static A apply(A x, A alpha) {
    return x > A(0.0f) ? x : alpha * (exp_of_cut(x) - A(1.0f));
  }
};

struct powf_op : wide_op<LONG> {
  template <class A>
  CRK_FN static A apply(A x, A exponent) {
    return pow(x, exponent);
  }
};

/* ---- Functors on T ---- */

/* The functor's at_once (elementwise/walk.h). A medium formula is long in f64. f8e4m3 has 16 elements per access, too
 * many to unroll. */
template <class Op, class T>
inline constexpr int elements_at_once = Op::weight == LONG || (Op::weight == MEDIUM && sizeof(T) == 8) ? 1
                                        : same<T, f8e4m3>                                              ? 4
                                                                                                       : 0;

template <class Op, class T>
struct unary {
  enum { at_once = elements_at_once<Op, T> };

  CRK_FN T operator()(T x) const {
    using A = typename Op::template compute<T>;
    return convert<T>(Op::apply(convert<A>(x)));
  }
};

/* The same for an op with a parameter. */
template <class Op, class T>
struct unary_with {
  enum { at_once = elements_at_once<Op, T> };
  T param;

  CRK_FN T operator()(T x) const {
    using A = typename Op::template compute<T>;
    return convert<T>(Op::apply(convert<A>(x), convert<A>(param)));
  }
};

/* Waves per SIMD unit that the _nd kernels ask the compiler for. With f64, a long formula leaves registers for six.
 * Other types ask for nothing. */
template <class T>
[[maybe_unused]] inline constexpr int nd_waves = same<T, double> ? 6 : 1;

}  // namespace
}  // namespace crk

/* ---- Instances ---- */

#define CRK_UNARY_NAMED(op, functor, suffix, T)                                                  \
  CRK_ELEMENTWISE(u##op##_##suffix, CRK_NAMED_THREADS,                                           \
                  (uint64_t numel, uint64_t rank, const uint64_t *info, const T *src, T *dst)) { \
    crk::map_strided_or_in_place(numel, rank, info, crk::unary<crk::functor, T>{}, dst, src);    \
  }
#define CRK_UNARY_LAUNCHED(op, functor, suffix, T)                                      \
  CRK_ELEMENTWISE(u##op##_##suffix##_vec, CRK_LAUNCHED_THREADS,                         \
                  (uint64_t numel, const T *src, T *dst, uint32_t threads)) {           \
    crk::map_contiguous(numel, threads, crk::unary<crk::functor, T>{}, dst, src);       \
  }                                                                                     \
  CRK_WAVES(crk::nd_waves<T>)                                                           \
  CRK_ELEMENTWISE(u##op##_##suffix##_nd, CRK_LAUNCHED_THREADS,                          \
                  (crk_nd_t nd, const T *src, T *dst, uint32_t threads)) {              \
    crk::map_nd(CRK_ND_ARGUMENT(nd), threads, crk::unary<crk::functor, T>{}, dst, src); \
  }
#define CRK_UNARY(op, functor, suffix, T) \
  CRK_UNARY_NAMED(op, functor, suffix, T) \
  CRK_UNARY_LAUNCHED(op, functor, suffix, T)

#define CRK_UNARY_WITH(op, functor, suffix, T)                                                            \
  CRK_ELEMENTWISE(u##op##_##suffix, CRK_NAMED_THREADS,                                                    \
                  (uint64_t numel, uint64_t rank, const uint64_t *info, T param, const T *src, T *dst)) { \
    crk::map_strided_or_in_place(numel, rank, info, crk::unary_with<crk::functor, T>{param}, dst, src);   \
  }                                                                                                       \
  CRK_ELEMENTWISE(u##op##_##suffix##_vec, CRK_LAUNCHED_THREADS,                                           \
                  (uint64_t numel, T param, const T *src, T *dst, uint32_t threads)) {                    \
    crk::map_contiguous(numel, threads, crk::unary_with<crk::functor, T>{param}, dst, src);               \
  }                                                                                                       \
  CRK_WAVES(crk::nd_waves<T>)                                                                             \
  CRK_ELEMENTWISE(u##op##_##suffix##_nd, CRK_LAUNCHED_THREADS,                                            \
                  (crk_nd_t nd, T param, const T *src, T *dst, uint32_t threads)) {                       \
    crk::map_nd(CRK_ND_ARGUMENT(nd), threads, crk::unary_with<crk::functor, T>{param}, dst, src);         \
  }

#define CRK_UNARY_FLOAT_OPS(suffix, T)        \
  CRK_UNARY(neg, neg_op, suffix, T)           \
  CRK_UNARY(recip, recip_op, suffix, T)       \
  CRK_UNARY(sqr, sqr_op, suffix, T)           \
  CRK_UNARY(sqrt, sqrt_op, suffix, T)         \
  CRK_UNARY(abs, abs_op, suffix, T)           \
  CRK_UNARY(sign, sign_op, suffix, T)         \
  CRK_UNARY(relu, relu_op, suffix, T)         \
  CRK_UNARY(ceil, ceil_op, suffix, T)         \
  CRK_UNARY(floor, floor_op, suffix, T)       \
  CRK_UNARY(round, round_op, suffix, T)       \
  CRK_UNARY(exp, exp_op, suffix, T)           \
  CRK_UNARY(log, log_op, suffix, T)           \
  CRK_UNARY(sin, sin_op, suffix, T)           \
  CRK_UNARY(cos, cos_op, suffix, T)           \
  CRK_UNARY(tanh, tanh_op, suffix, T)         \
  CRK_UNARY(erf, erf_op, suffix, T)           \
  CRK_UNARY(normcdf, normcdf_op, suffix, T)   \
  CRK_UNARY(gelu, gelu_op, suffix, T)         \
  CRK_UNARY(gelu_erf, gelu_erf_op, suffix, T) \
  CRK_UNARY(silu, silu_op, suffix, T)         \
  CRK_UNARY(sigmoid, sigmoid_op, suffix, T)   \
  CRK_UNARY_WITH(elu, elu_op, suffix, T)      \
  CRK_UNARY_WITH(powf, powf_op, suffix, T)
CRK_FLOAT_TYPES(CRK_UNARY_FLOAT_OPS)
CRK_UNARY_FLOAT_OPS(fp8_e4m3, crk::f8e4m3)

/* Integers, with the results of Candle's CPU backend. An op that leaves the bits as they are has only the kernel with
 * Candle's name. The launcher uses the ucopy kernels for it. */
#define CRK_UNARY_INTEGER_OPS(suffix, T)     \
  CRK_UNARY(sign, sign_op, suffix, T)        \
  CRK_UNARY(erf, zero_op, suffix, T)         \
  CRK_UNARY(gelu, zero_op, suffix, T)        \
  CRK_UNARY(gelu_erf, zero_op, suffix, T)    \
  CRK_UNARY(silu, zero_op, suffix, T)        \
  CRK_UNARY_NAMED(ceil, copy_op, suffix, T)  \
  CRK_UNARY_NAMED(floor, copy_op, suffix, T) \
  CRK_UNARY_NAMED(round, copy_op, suffix, T)
CRK_INTEGER_TYPES(CRK_UNARY_INTEGER_OPS)

#define CRK_UNARY_SIGNED_OPS(suffix, T) \
  CRK_UNARY(abs, abs_op, suffix, T)     \
  CRK_UNARY(relu, relu_op, suffix, T)
CRK_UNARY_SIGNED_OPS(i16, int16_t)
CRK_UNARY_SIGNED_OPS(i32, int32_t)
CRK_UNARY_SIGNED_OPS(i64, int64_t)

#define CRK_UNARY_UNSIGNED_OPS(suffix, T)  \
  CRK_UNARY_NAMED(abs, copy_op, suffix, T) \
  CRK_UNARY_NAMED(relu, copy_op, suffix, T)
CRK_UNARY_UNSIGNED_OPS(u8, uint8_t)
CRK_UNARY_UNSIGNED_OPS(u32, uint32_t)

#define CRK_UNARY_COPY(suffix, T)      CRK_UNARY_NAMED(copy, copy_op, suffix, crk::bits_of<T>)
#define CRK_UNARY_COPY_BITS(suffix, T) CRK_UNARY_LAUNCHED(copy, copy_op, suffix, T)
CRK_ALL_TYPES(CRK_UNARY_COPY)
CRK_BITS_TYPES(CRK_UNARY_COPY_BITS)

#define CRK_UNARY_COPY_TILE(suffix, T)                                                                           \
  CRK_COOPERATIVE(ucopy_##suffix##_tile, CRK_TILE_THREADS(sizeof(T)), (crk_tile_t tile, const T *src, T *dst)) { \
    CRK_SHARED(crk::tile_bytes, shared, CRK_TILE_BYTES(sizeof(T)) / 16);                                         \
    crk::copy_tiles(CRK_ND_ARGUMENT(tile), src, dst, reinterpret_cast<T *>(shared));                             \
  }
CRK_BITS_TYPES(CRK_UNARY_COPY_TILE)

CRK_MODULE(unary)
