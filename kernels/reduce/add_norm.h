/* The RMS norm of a sum, and its result as activations of the next quantized product, for the launchers
 * crk_add_rms_norm and crk_norm_add_rms_norm. Rows are even rows that a block holds (norm_rows.h). Main function:
 * add_rms_norm_held. */
#ifndef CRK_ADD_NORM_H
#define CRK_ADD_NORM_H

#include "quantized/q8_1.h"
#include "reduce/norm_rows.h"

namespace crk {
namespace {

/* One element of each of two tensors; rounds once. */
template <class T>
CRK_FN T sum_of(T a, T b) {
  using A = stepwise<T>;
  return convert<T>(convert<A>(a) + convert<A>(b));
}

/* The numbers of pack i of a norm, whose scale is known, rounded to the dtype. */
template <int P, class T>
CRK_FN auto normed_pack(const held_row<T, P, even_row> &held, float scale, const held_values<T, P, even_row> &alpha,
                        int i) {
  constexpr int V = held_row<T, P, even_row>::V;
  pack<T, V> y;
  CRK_UNROLL
  for (int j = 0; j < V; j++) {
    y.v[j] = convert<T>(product(held.at(i * V + j) * scale, alpha.at(i * V + j)));
  }
  return y;
}

/* x = x / sqrt(mean(x^2) + eps) * alpha, rounded to the dtype. `sums` is shared memory for group_lanes numbers. */
template <int P, class T>
CRK_FN void norm_in_place(held_row<T, P, even_row> &held, const row_set<T> &set, const T *alpha, float *sums,
                          float eps) {
  const held_values<T, P, even_row> a = held.load_parameter(alpha, 1.0f);
  const float scale = rms_scale(held, set, sums, eps);
  CRK_UNROLL
  for (int i = 0; i < P; i++) {
    held.x.piece[i] = packed<T>::of(normed_pack(held, scale, a, i));
  }
}

/* sum = src + residual, and dst = sum / sqrt(mean(sum^2) + eps) * alpha. Without a residual, src takes the place of the
 * sum. If `Normed`, the norm of src by src_alpha takes the place of src. With `blocks`, dst is also quantized into
 * them, as crk_quantize_columns does it. */
template <int P, bool Normed, class T>
CRK_FN void add_rms_norm_held(const row_set<T> &set, const T *src_alpha, const T *residual, T *sum, const T *alpha,
                              block_q8_1 *blocks, float eps) {
  using row = held_row<T, P, even_row>;
  constexpr int V = row::V;
  CRK_SHARED(float, sums, 2 * group_lanes);
  held_parameter<T, P, even_row> a(set, alpha, 1.0f);
  for (row_turns at(set); at.more(); at.next()) {
    row held(set, at.row(), T(0.0f));
    const uint64_t first = static_cast<uint64_t>(held.share.dst - set.dst);
    if constexpr (Normed) {
      CRK_SHARED(float, src_sums, group_lanes); /* read before the other norm's barrier, and so before the next turn */
      norm_in_place<P>(held, set, src_alpha, src_sums, eps);
    }
    if (residual != nullptr) {
      const typename row::values other = held.load(residual + first, T(0.0f));
      CRK_UNROLL
      for (int i = 0; i < P; i++) {
        pack<T, V> both;
        CRK_UNROLL
        for (int j = 0; j < V; j++) {
          both.v[j] = sum_of(held.x.piece[i].at(j), other.piece[i].at(j));
        }
        held.x.piece[i] = packed<T>::of(both);
        if (held.share.stores(static_cast<uint32_t>(i))) {
          store_pack(sum + first + held.share.column(static_cast<uint32_t>(i)), both);
        }
      }
    }
    a.follow(held);
    const float scale = rms_scale(held, set, sums + at.turn * group_lanes, eps);
    CRK_UNROLL
    for (int i = 0; i < P; i++) {
      const pack<T, V> y = normed_pack(held, scale, a.x, i);
      const uint32_t p = static_cast<uint32_t>(i);
      if (held.share.stores(p)) {
        store_pack(held.share.dst + held.share.column(p), y);
      }
      if (blocks != nullptr) {
        const q8_1_share<V> share = quantize_share(y, CRK_SUM_OF_CODES);
        if (held.share.stores(p)) {
          share.store(blocks, first + held.share.column(p));
        }
      }
    }
  }
}

}  // namespace
}  // namespace crk

#endif
