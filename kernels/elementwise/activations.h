/* Activations: the formulas of relu, gelu, silu and sigmoid, for kernels/unary.hip and kernels/gate.hip. A formula says
 * in which type it computes (`compute<T>`, one of numbers/element_types.h) and how long its code is (`weight`). Main
 * names: wide_op, stepwise_op, elements_at_once; relu_op, gelu_op, gelu_erf_op, silu_op, sigmoid_op; gate. */
#ifndef CRK_ACTIVATIONS_H
#define CRK_ACTIVATIONS_H

#include "elementwise/walk.h"

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

/* The functor's at_once (elementwise/walk.h). A medium formula is long in f64. f8e4m3 has 16 elements per access, too
 * many to unroll. */
template <class Op, class T>
inline constexpr int elements_at_once = Op::weight == LONG || (Op::weight == MEDIUM && sizeof(T) == 8) ? 1
                                        : same<T, f8e4m3>                                              ? 4
                                                                                                       : 0;

/* Waves per SIMD unit that the _nd kernels ask the compiler for. A long formula in f64 leaves registers for six. If
 * such a kernel asked for nothing, gfx906 would spill scalar registers. Other kernels ask for nothing. */
template <class Op, class T>
[[maybe_unused]] inline constexpr int nd_waves = Op::weight == LONG && same<T, double> ? 6 : 1;

/* ---- Formulas ---- */

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

/* op(x) * up. The activation is rounded to T before the product, so that the result has the bits of two ops. */
template <class Op, class T>
struct gate {
  enum { at_once = elements_at_once<Op, T> };

  CRK_FN T operator()(T x, T up) const {
    using A = typename Op::template compute<T>;
    using B = stepwise<T>;
    const T activated = convert<T>(Op::apply(convert<A>(x)));
    return convert<T>(convert<B>(activated) * convert<B>(up));
  }
};

}  // namespace
}  // namespace crk

/* XX(name of the functor without _op, suffix, type): the activations of gates, in the order of CRK_GATE_MAP. */
#define CRK_GATE_OPS(XX, suffix, T) \
  XX(silu, suffix, T) XX(gelu, suffix, T) XX(gelu_erf, suffix, T) XX(relu, suffix, T) XX(sigmoid, suffix, T)

#endif
