/* Rotary embeddings. A pair (a, b) of a token's row becomes (a c - b s, a s + b c), c and s the cosine and sine of its angle.
 * As nvcc fuses them, in every type: fma(a, c, -round(b s)) and fma(a, s, round(b c)). */
#ifndef CRK_ROPE_H
#define CRK_ROPE_H

#include "numbers/element_types.h"

namespace crk {
namespace {

template <class T>
CRK_FN void rotate(T a, T b, T c, T s, T *first, T *second) {
  *first = fma(a, c, -(b * s));
  *second = fma(a, s, b * c);
}

/* ---- By Candle's arguments: a thread a pair ---- */

/* Calls f(pair, I()) for this thread's pairs, where numbers below `numel` fit in I. A thread's share is all there is of a loop:
 * Candle's grid has a thread for every pair. */
template <class F>
CRK_FN void each_pair(uint64_t numel, F f) {
  const named_elements e(numel / 2);
  if (numel <= 0xffffffffu) {
    for (uint64_t i = e.first; i < e.end; i += e.step) {
      f(static_cast<uint32_t>(i));
    }
  } else {
    for (uint64_t i = e.first; i < e.end; i += e.step) {
      f(i);
    }
  }
}

/* The pair's elements are neighbours. `td` elements a head; cos and sin have td / 2, or as much for each batch of stride_b
 * elements. */
template <class T>
CRK_FN void rope_i_named(const T *src, const T *cos, const T *sin, T *dst, uint32_t bh, uint32_t td,
                         uint32_t stride_b) {
  each_pair(static_cast<uint64_t>(bh) * td, [=](auto i) {
    using I = decltype(i);
    const I half_td = td / 2;
    const uint64_t batch = stride_b > 0 ? 2 * i / stride_b : 0;
    const uint64_t angle = i % half_td + batch * half_td, at = 2 * static_cast<uint64_t>(i);
    rotate(src[at], src[at + 1], cos[angle], sin[angle], dst + at, dst + at + 1);
  });
}

/* The pair's elements are d / 2 apart; heads lie one after the other. */
template <class T>
CRK_FN void rope_named(const T *src, const T *cos, const T *sin, T *dst, uint32_t bh, uint32_t td, uint32_t d,
                       uint32_t stride_b) {
  each_pair(static_cast<uint64_t>(bh) * td, [=](auto i) {
    using I = decltype(i);
    const I half_td = td / 2, half_d = d / 2;
    const I head = i / half_td, in_head = i - head * half_td, token = in_head / half_d;
    const uint64_t batch = stride_b > 0 ? 2 * i / stride_b : 0, angle = in_head + batch * half_td;
    const uint64_t first = static_cast<uint64_t>(head) * td + in_head + static_cast<uint64_t>(token) * half_d;
    const uint64_t second = first + half_d;
    rotate(src[first], src[second], cos[angle], sin[angle], dst + first, dst + second);
  });
}

/* The same, a token's heads side by side. */
template <class T>
CRK_FN void rope_thd_named(const T *src, const T *cos, const T *sin, T *dst, uint32_t b, uint32_t t, uint32_t h,
                           uint32_t d, uint32_t stride_b) {
  each_pair(static_cast<uint64_t>(b) * t * h * d, [=](auto i) {
    using I = decltype(i);
    const I half_d = d / 2, row = i / half_d, at = i - row * half_d, token = row / h % t;
    const uint64_t batch = stride_b > 0 ? 2 * i / stride_b : 0;
    const uint64_t angle = (batch * t + token) * half_d + at;
    const uint64_t first = static_cast<uint64_t>(row) * d + at, second = first + half_d;
    rotate(src[first], src[second], cos[angle], sin[angle], dst + first, dst + second);
  });
}

}  // namespace
}  // namespace crk

#endif
