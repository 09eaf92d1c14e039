/* Rotary embeddings of a product's results, before they are stored: queries and keys are rotated, values are not. A
 * result goes to the place of its head. */
#ifndef CRK_ROPE_HEADS_H
#define CRK_ROPE_HEADS_H

#include "call/rope_call.h"
#include "numbers/divisor.h"
#include "reduce/rope.h"

namespace crk {
namespace {

/* A pair of a part, by its number among the pairs of all heads. */
struct head_pair {
  uint32_t head, at; /* its number in the head */
  uint32_t first, step; /* the first element in the head, and the distance of the second one */

  CRK_FN head_pair(const crk_rope_heads_t &heads, uint32_t pair) : head(divide(heads.half, pair)) {
    const uint32_t half = static_cast<uint32_t>(heads.half.size);
    at = pair - head * half;
    first = heads.interleaved != 0 ? 2 * at : at;
    step = heads.interleaved != 0 ? 1 : half;
  }
  /* The row of the first element in the part's matrix. */
  CRK_FN uint64_t row(const crk_rope_heads_t &heads) const { return heads.half.size * 2 * head + first; }

  template <class T>
  CRK_FN void store(const crk_rope_heads_t &heads, uint32_t part, void *dst, T a, T b) const {
    if ((heads.rotates >> part & 1) != 0) {
      const T c = static_cast<const T *>(heads.cos)[at], s = static_cast<const T *>(heads.sin)[at];
      const T x = a, y = b;
      rotate(x, y, c, s, &a, &b);
    }
    T *const to = static_cast<T *>(dst) + head * heads.strides[part] + first;
    to[0] = a;
    to[step] = b;
  }
};

}  // namespace
}  // namespace crk

#endif
