/* Arithmetic of CUDA's 16-bit floats, for both types. A part of cuda_fp16.h and cuda_bf16.h.
 *
 * Every operation rounds once, to nearest even. Functions such as hexp compute in f32. */
#ifndef CRK_CUDA_PORT_NARROW_H
#define CRK_CUDA_PORT_NARROW_H

#include "cuda_port/detail/port.h"

namespace crk {
namespace port {

/* A 16-bit float; F is crk::f16 or crk::bf16. It converts from and to numbers without being asked, as CUDA's do. A
 * mixture with float is computed in float. */
template <class F>
struct __attribute__((aligned(2))) narrow {
  uint16_t code;

  narrow() = default;
  CRK_FN narrow(F value) : code(value.code) {}
  CRK_FN narrow(float x) : code(F(x).code) {}
  CRK_FN narrow(double x) : code(F(x).code) {}
  template <class I, typename enabled<(static_cast<I>(3) / 2 == 1)>::type = 0>
  CRK_FN narrow(I x) : narrow(static_cast<double>(x)) {}

  CRK_FN F value() const { return bit_cast<F>(code); }
  CRK_FN operator float() const { return static_cast<float>(value()); }

  template <class B>
  CRK_FN narrow &operator+=(B b) {
    return *this = *this + narrow(b);
  }
  template <class B>
  CRK_FN narrow &operator-=(B b) {
    return *this = *this - narrow(b);
  }
  template <class B>
  CRK_FN narrow &operator*=(B b) {
    return *this = *this * narrow(b);
  }
  template <class B>
  CRK_FN narrow &operator/=(B b) {
    return *this = *this / narrow(b);
  }
};

/* Two of them. */
template <class F>
struct __attribute__((aligned(4))) pair {
  narrow<F> x, y;

  pair() = default;
  CRK_FN pair(narrow<F> low, narrow<F> high) : x(low), y(high) {}
};

/* XX(operator, name): arithmetic. */
#define CRK_PORT_ARITHMETIC(XX) \
  XX(+, hadd)                   \
  XX(-, hsub)                   \
  XX(*, hmul)                   \
  XX(/, hdiv)
/* XX(operator, name): comparisons. Of the operators only != holds for NaN, and no function does. */
#define CRK_PORT_COMPARISONS(XX) \
  XX(==, heq)                    \
  XX(!=, hne)                    \
  XX(<, hlt)                     \
  XX(<=, hle)                    \
  XX(>, hgt)                     \
  XX(>=, hge)

#define CRK_PORT_DEFINE(op, name)                          \
  template <class F>                                       \
  CRK_FN narrow<F> operator op(narrow<F> a, narrow<F> b) { \
    return a.value() op b.value();                         \
  }                                                        \
  template <class F>                                       \
  CRK_FN narrow<F> name(narrow<F> a, narrow<F> b) {        \
    return a op b;                                         \
  }                                                        \
  template <class F>                                       \
  CRK_FN pair<F> operator op(pair<F> a, pair<F> b) {       \
    return {a.x op b.x, a.y op b.y};                       \
  }                                                        \
  template <class F>                                       \
  CRK_FN pair<F> name##2(pair<F> a, pair<F> b) {           \
    return a op b;                                         \
  }
CRK_PORT_ARITHMETIC(CRK_PORT_DEFINE)
#undef CRK_PORT_DEFINE

#define CRK_PORT_DEFINE(op, name)                                                              \
  template <class F>                                                                           \
  CRK_FN bool operator op(narrow<F> a, narrow<F> b) {                                          \
    return static_cast<float>(a) op static_cast<float>(b);                                     \
  }                                                                                            \
  template <class F>                                                                           \
  CRK_FN bool name(narrow<F> a, narrow<F> b) {                                                 \
    return a op b && a == a && b == b;                                                         \
  }                                                                                            \
  template <class F>                                                                           \
  CRK_FN pair<F> name##2(pair<F> a, pair<F> b) {                                               \
    return {narrow<F>(name(a.x, b.x) ? 1.0f : 0.0f), narrow<F>(name(a.y, b.y) ? 1.0f : 0.0f)}; \
  }
CRK_PORT_COMPARISONS(CRK_PORT_DEFINE)
#undef CRK_PORT_DEFINE

template <class F>
CRK_FN narrow<F> operator-(narrow<F> a) {
  return bit_cast<narrow<F>>(static_cast<uint16_t>(a.code ^ 0x8000));
}
template <class F>
CRK_FN pair<F> operator-(pair<F> a) {
  return {-a.x, -a.y};
}
template <class F>
CRK_FN narrow<F> hneg(narrow<F> a) {
  return -a;
}
template <class F>
CRK_FN pair<F> hneg2(pair<F> a) {
  return -a;
}
template <class F>
CRK_FN narrow<F> habs(narrow<F> a) {
  return bit_cast<narrow<F>>(static_cast<uint16_t>(a.code & 0x7fff));
}
template <class F>
CRK_FN pair<F> habs2(pair<F> a) {
  return {habs(a.x), habs(a.y)};
}
template <class F>
CRK_FN narrow<F> hfma(narrow<F> a, narrow<F> b, narrow<F> c) {
  return fma(a.value(), b.value(), c.value());
}
template <class F>
CRK_FN pair<F> hfma2(pair<F> a, pair<F> b, pair<F> c) {
  return {hfma(a.x, b.x, c.x), hfma(a.y, b.y, c.y)};
}

/* The larger and the smaller; a NaN gives way to a number. */
template <class F>
CRK_FN narrow<F> hmax(narrow<F> a, narrow<F> b) {
  return max_number(static_cast<float>(a), static_cast<float>(b));
}
template <class F>
CRK_FN narrow<F> hmin(narrow<F> a, narrow<F> b) {
  return min_number(static_cast<float>(a), static_cast<float>(b));
}
template <class F>
CRK_FN bool hisnan(narrow<F> a) {
  return !(static_cast<float>(a) == static_cast<float>(a));
}
template <class F>
CRK_FN int hisinf(narrow<F> a) {
  const float x = a;
  return x == __builtin_inff() ? 1 : x == -__builtin_inff() ? -1 : 0;
}
/* The same, but a NaN stays. */
template <class F>
CRK_FN narrow<F> hmax_nan(narrow<F> a, narrow<F> b) {
  return hisnan(a) ? a : hisnan(b) ? b : hmax(a, b);
}
template <class F>
CRK_FN narrow<F> hmin_nan(narrow<F> a, narrow<F> b) {
  return hisnan(a) ? a : hisnan(b) ? b : hmin(a, b);
}
template <class F>
CRK_FN pair<F> hmax2(pair<F> a, pair<F> b) {
  return {hmax(a.x, b.x), hmax(a.y, b.y)};
}
template <class F>
CRK_FN pair<F> hmin2(pair<F> a, pair<F> b) {
  return {hmin(a.x, b.x), hmin(a.y, b.y)};
}

/* Functions of one number: h<name> and h2<name>. */
#define CRK_PORT_FUNCTION(name, expression)           \
  template <class F>                                  \
  CRK_FN narrow<F> h##name(narrow<F> a) {             \
    const float x = a;                                \
    return narrow<F>(static_cast<float>(expression)); \
  }                                                   \
  template <class F>                                  \
  CRK_FN pair<F> h2##name(pair<F> a) {                \
    return {h##name(a.x), h##name(a.y)};              \
  }
CRK_PORT_FUNCTION(exp, exp(x))
CRK_PORT_FUNCTION(exp2, ::exp2f(x))
CRK_PORT_FUNCTION(exp10, ::exp10f(x))
CRK_PORT_FUNCTION(log, log(x))
CRK_PORT_FUNCTION(log2, ::log2f(x))
CRK_PORT_FUNCTION(log10, ::log10f(x))
CRK_PORT_FUNCTION(sin, sin(x))
CRK_PORT_FUNCTION(cos, cos(x))
CRK_PORT_FUNCTION(tanh, tanh(x))
CRK_PORT_FUNCTION(sqrt, sqrt(x))
CRK_PORT_FUNCTION(rsqrt, rsqrt(x))
CRK_PORT_FUNCTION(rcp, 1.0f / x)
CRK_PORT_FUNCTION(ceil, ceil(x))
CRK_PORT_FUNCTION(floor, floor(x))
CRK_PORT_FUNCTION(rint, ::rintf(x))
CRK_PORT_FUNCTION(trunc, ::truncf(x))
#undef CRK_PORT_FUNCTION

/* The old value of *address, to which `value` is added at once. */
template <class F>
CRK_FN narrow<F> atomic_add_narrow(narrow<F> *address, narrow<F> value) {
  uint16_t *const word = reinterpret_cast<uint16_t *>(address);
  uint16_t seen = *word;
  for (;;) {
    const uint16_t found = atomic_cas(word, seen, (bit_cast<narrow<F>>(seen) + value).code);
    if (found == seen) {
      return bit_cast<narrow<F>>(seen);
    }
    seen = found;
  }
}

}  // namespace port
}  // namespace crk

template <class F>
CRK_FN crk::port::narrow<F> atomicAdd(crk::port::narrow<F> *address, crk::port::narrow<F> value) {
  return crk::port::atomic_add_narrow(address, value);
}
template <class F>
CRK_FN crk::port::pair<F> atomicAdd(crk::port::pair<F> *address, crk::port::pair<F> value) {
  return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};
}

/* CUDA's names of the functions that are the same for both types. */
#define __hadd     ::crk::port::hadd
#define __hsub     ::crk::port::hsub
#define __hmul     ::crk::port::hmul
#define __hdiv     ::crk::port::hdiv
#define __hadd_rn  ::crk::port::hadd
#define __hsub_rn  ::crk::port::hsub
#define __hmul_rn  ::crk::port::hmul
#define __hadd2    ::crk::port::hadd2
#define __hsub2    ::crk::port::hsub2
#define __hmul2    ::crk::port::hmul2
#define __h2div    ::crk::port::hdiv2
#define __hfma     ::crk::port::hfma
#define __hfma2    ::crk::port::hfma2
#define __hneg     ::crk::port::hneg
#define __hneg2    ::crk::port::hneg2
#define __habs     ::crk::port::habs
#define __habs2    ::crk::port::habs2
#define __hmax     ::crk::port::hmax
#define __hmin     ::crk::port::hmin
#define __hmax_nan ::crk::port::hmax_nan
#define __hmin_nan ::crk::port::hmin_nan
#define __hmax2    ::crk::port::hmax2
#define __hmin2    ::crk::port::hmin2
#define __hisnan   ::crk::port::hisnan
#define __hisinf   ::crk::port::hisinf
#define __heq      ::crk::port::heq
#define __hne      ::crk::port::hne
#define __hlt      ::crk::port::hlt
#define __hle      ::crk::port::hle
#define __hgt      ::crk::port::hgt
#define __hge      ::crk::port::hge
#define __heq2     ::crk::port::heq2
#define __hne2     ::crk::port::hne2
#define __hlt2     ::crk::port::hlt2
#define __hle2     ::crk::port::hle2
#define __hgt2     ::crk::port::hgt2
#define __hge2     ::crk::port::hge2
#define hexp       ::crk::port::hexp
#define hexp2      ::crk::port::hexp2
#define hexp10     ::crk::port::hexp10
#define hlog       ::crk::port::hlog
#define hlog2      ::crk::port::hlog2
#define hlog10     ::crk::port::hlog10
#define hsin       ::crk::port::hsin
#define hcos       ::crk::port::hcos
#define htanh      ::crk::port::htanh
#define hsqrt      ::crk::port::hsqrt
#define hrsqrt     ::crk::port::hrsqrt
#define hrcp       ::crk::port::hrcp
#define hceil      ::crk::port::hceil
#define hfloor     ::crk::port::hfloor
#define hrint      ::crk::port::hrint
#define htrunc     ::crk::port::htrunc
#define h2exp      ::crk::port::h2exp
#define h2exp2     ::crk::port::h2exp2
#define h2log      ::crk::port::h2log
#define h2log2     ::crk::port::h2log2
#define h2sin      ::crk::port::h2sin
#define h2cos      ::crk::port::h2cos
#define h2tanh     ::crk::port::h2tanh
#define h2sqrt     ::crk::port::h2sqrt
#define h2rsqrt    ::crk::port::h2rsqrt
#define h2rcp      ::crk::port::h2rcp
#define h2ceil     ::crk::port::h2ceil
#define h2floor    ::crk::port::h2floor

#endif
