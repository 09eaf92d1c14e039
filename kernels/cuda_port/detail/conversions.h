/* Conversions of 16-bit floats, for both types. A part of cuda_fp16.h and cuda_bf16.h. */
#ifndef CRK_CUDA_PORT_CONVERSIONS_H
#define CRK_CUDA_PORT_CONVERSIONS_H

#include "cuda_port/detail/narrow.h"

namespace crk {
namespace port {

/* Any number as a narrow float, rounded once to nearest even, and back. */
template <class F, class T>
CRK_FN narrow<F> encode(T x) {
  return narrow<F>(x);
}
template <class F>
CRK_FN float decode(narrow<F> a) {
  return a;
}

/* Integers: rounded to nearest even, or towards zero. */
template <class F>
CRK_FN int nearest_int(narrow<F> a) {
  return static_cast<int>(::rintf(a));
}
template <class F>
CRK_FN int to_int(narrow<F> a) {
  return static_cast<int>(static_cast<float>(a));
}
template <class F>
CRK_FN unsigned to_unsigned(narrow<F> a) {
  return static_cast<unsigned>(static_cast<float>(a));
}

/* The bits. */
template <class F>
CRK_FN uint16_t code_of(narrow<F> a) {
  return a.code;
}
template <class F>
CRK_FN narrow<F> of_code(uint16_t code) {
  return bit_cast<narrow<F>>(code);
}

/* Pairs. */
template <class F>
CRK_FN pair<F> join_pair(narrow<F> low, narrow<F> high) {
  return {low, high};
}
template <class F>
CRK_FN pair<F> twice(narrow<F> a) {
  return {a, a};
}
template <class F>
CRK_FN pair<F> pair_of_floats(float2 a) {
  return {narrow<F>(a.x), narrow<F>(a.y)};
}
template <class F>
CRK_FN float2 floats_of_pair(pair<F> a) {
  return make_float2(a.x, a.y);
}
template <class F>
CRK_FN narrow<F> low(pair<F> a) {
  return a.x;
}
template <class F>
CRK_FN narrow<F> high(pair<F> a) {
  return a.y;
}
template <class F>
CRK_FN float low_float(pair<F> a) {
  return a.x;
}
template <class F>
CRK_FN float high_float(pair<F> a) {
  return a.y;
}
template <class F>
CRK_FN pair<F> both_low(pair<F> a) {
  return {a.x, a.x};
}
template <class F>
CRK_FN pair<F> both_high(pair<F> a) {
  return {a.y, a.y};
}
template <class F>
CRK_FN pair<F> swapped(pair<F> a) {
  return {a.y, a.x};
}

}  // namespace port
}  // namespace crk

/* CUDA's names for pairs of either type. */
#define __low2float       ::crk::port::low_float
#define __high2float      ::crk::port::high_float
#define __lowhigh2highlow ::crk::port::swapped

#endif
