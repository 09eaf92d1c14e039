/* The module `unary`: dst[i] = op(src[i]); elu and powf also take a parameter. Kernels: u<op>_<type> with Candle's
 * arguments, u<op>_<type>_vec and _nd for csrc/launch/unary.c, and ucopy_<width>_tile for csrc/launch/tile.c.
 *
 * A new op takes a functor here and a line in a list at the end of the file; elementwise/activations.h says what a
 * functor has, and holds those of the activations. */
#include "elementwise/activations.h"
#include "elementwise/instances.h"
#include "elementwise/tile.h"

namespace crk {
namespace {

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
  CRK_WAVES((crk::nd_waves<crk::functor, T>))                                           \
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
  CRK_WAVES((crk::nd_waves<crk::functor, T>))                                                             \
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
