/* Rotary embeddings for the launchers: rope_pairs. A thread handles V pairs in each of H heads that share their angles.
 * It reads and writes 16 bytes at a time and reads each angle only once. */
#ifndef CRK_ROPE_PAIRS_H
#define CRK_ROPE_PAIRS_H

#include "elementwise/walk.h"
#include "reduce/rope.h"

namespace crk {
namespace {

/* Returns x with each element in a register of its own, whose origin the compiler does not know. Otherwise LLVM 21
 * combines halves of registers wrongly for gfx11: (c1, s1) became (c0, s1). */
template <class T, int V>
CRK_FN pack<T, V> apart(const pack<T, V> &x) {
  if constexpr (half<T> && V % 2 == 0) {
    const pack<uint32_t, V / 2> words = bit_cast<pack<uint32_t, V / 2>>(x);
    pack<T, V> y;
    CRK_UNROLL
    for (int j = 0; j < V; j++) {
      const uint32_t word = opaque(words.v[j / 2] >> 16 * (j % 2));
      y.v[j] = bit_cast<T>(static_cast<uint16_t>(word));
    }
    return y;
  } else {
    return x;
  }
}

/* The same as load_aligned, but a plain load for one element. The compiler may use an instruction for global memory for
 * it. */
template <int V, class T>
CRK_FN pack<T, V> load_pairs(const T *src) {
  if constexpr (V == 1) {
    return {*src};
  } else {
    return load_aligned<T, V>(src);
  }
}

/* Operand 0 of `nd` is src and dst, operand 1 cos, operand 2 sin. A thread's heads are `head_step` elements apart. The
 * second element of a pair is the neighbour of the first (Interleaved), or `half` elements after it. All pointers and
 * strides are multiples of packs. A thread issues all its loads before its stores. */
template <int V, int H, bool Interleaved, class T>
CRK_FN void rope_pairs(const crk_nd_t &nd, uint32_t threads, const T *src, const T *cos, const T *sin, T *dst,
                       uint64_t half, uint64_t head_step) {
  const elements e(nd.numel, threads);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t at[3];
    locate(nd, i, at);
    const pack<T, V> c = apart(load_pairs<V>(cos + at[1])), s = apart(load_pairs<V>(sin + at[2]));
    const uint64_t second = Interleaved ? V : half;
    pack<T, V> a[H], b[H];
    CRK_UNROLL
    for (int h = 0; h < H; h++) {
      a[h] = load_pairs<V>(src + at[0] + h * head_step);
      b[h] = load_pairs<V>(src + at[0] + h * head_step + second);
    }
    CRK_UNROLL
    for (int h = 0; h < H; h++) {
      const pack<T, V> p = apart(a[h]), q = apart(b[h]);
      pack<T, V> x, y;
      CRK_UNROLL
      for (int j = 0; j < V; j++) {
        if constexpr (Interleaved && V > 1) {
          /* The first pack has pairs 0 to V / 2 - 1, the second pack the others. */
          constexpr int in_pack = V / 2;
          const int k = 2 * (j % in_pack);
          const pack<T, V> &from = j < in_pack ? p : q;
          pack<T, V> &to = j < in_pack ? x : y;
          rotate(from.v[k], from.v[k + 1], c.v[j], s.v[j], &to.v[k], &to.v[k + 1]);
        } else {
          rotate(p.v[j], q.v[j], c.v[j], s.v[j], &x.v[j], &y.v[j]);
        }
      }
      store_pack(dst + at[0] + h * head_step, x);
      store_pack(dst + at[0] + h * head_step + second, y);
    }
  }
}

}  // namespace
}  // namespace crk

#endif
