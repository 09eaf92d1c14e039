/* Rotary embeddings for the launchers: V pairs a thread, 16 bytes an access, in each of H heads that share their angles. */
#ifndef CRK_ROPE_PAIRS_H
#define CRK_ROPE_PAIRS_H

#include "index.h"
#include "rope.h"

namespace crk {
namespace {

/* Operand 0 of the space is src and dst, in which a thread's heads are `head_step` apart, 1 is cos, 2 is sin. The pair's second
 * element is the first one's neighbour, or lies `half` elements after it. All of a thread's loads come before its stores. */
template <int V, int H, bool Interleaved, class T>
CRK_FN void rope_pairs(const crk_nd_t &nd, const T *src, const T *cos, const T *sin, T *dst, uint64_t half,
                       uint64_t head_step) {
  const elements e(nd.numel);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t at[3];
    locate(nd, i, at);
    const pack<T, V> c = load_pack<T, V>(cos + at[1]), s = load_pack<T, V>(sin + at[2]);
    const uint64_t second = Interleaved ? V : half;
    pack<T, V> a[H], b[H];
    CRK_UNROLL
    for (int h = 0; h < H; h++) {
      a[h] = load_pack<T, V>(src + at[0] + h * head_step);
      b[h] = load_pack<T, V>(src + at[0] + h * head_step + second);
    }
    CRK_UNROLL
    for (int h = 0; h < H; h++) {
      pack<T, V> x, y;
      CRK_UNROLL
      for (int j = 0; j < V; j++) {
        if constexpr (Interleaved && V > 1) {
          /* Pairs 0 to V / 2 - 1 are in the first pack, the others in the second. */
          constexpr int in_pack = V / 2;
          const int k = 2 * (j % in_pack);
          const pack<T, V> &from = j < in_pack ? a[h] : b[h];
          pack<T, V> &to = j < in_pack ? x : y;
          rotate(from.v[k], from.v[k + 1], c.v[j], s.v[j], &to.v[k], &to.v[k + 1]);
        } else {
          rotate(a[h].v[j], b[h].v[j], c.v[j], s.v[j], &x.v[j], &y.v[j]);
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
