/* Rotary embeddings: the rotation of one pair, and kernels with Candle's names and arguments (rope_i_named, rope_named,
 * rope_thd_named). The launchers' kernel is in rope_pairs.h.
 *
 * A pair (a, b) of a token's row becomes (a c - b s, a s + b c). Here c and s are the cosine and sine of its angle. In
 * every type the operations are those that nvcc makes of Candle's source: fma(a, c, -round(b s)) and fma(a, s, round(b
 * c)). */
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

/* ---- With Candle's arguments: one thread per pair ---- */

/* Calls f(pair) for this thread's pairs. The pair's number is a u32 if all element numbers fit in one, else a u64. The
 * loop usually runs once: Candle's grid has a thread for every pair. */
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

/* The elements of a pair are neighbours. A head has `td` elements. cos and sin have td / 2 elements. If `stride_b` is
 * not 0, they have td / 2 for each batch of `stride_b` elements of src. */
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

/* The elements of a pair are d / 2 apart; heads follow each other. */
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

/* The same, but the heads of a token follow each other. */
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
