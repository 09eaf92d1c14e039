/* Convolutions of f16 and bf16 as matrix products, without a matrix of windows in memory: the engine of
 * matmul/matmul_cores.h, whose right operand are the windows (conv/window_copy.h). For conv_cores.hip. Main function:
 * conv_cores. */
#ifndef CRK_CONV_CORES_H
#define CRK_CONV_CORES_H

#include "conv/window_copy.h"
#include "matmul/matmul_cores.h"

namespace crk {
namespace { /* as in matmul_cores.h */

/* Without matrix cores a step is short: its code is long, and its tiles in shared memory may hold floats. */
template <class T, int Rows, int Columns, int Threads>
struct conv_shape : product_shape<T, Rows, Columns, Threads> {
  using base = product_shape<T, Rows, Columns, Threads>;
  static constexpr bool is_plain = same<typename base::core, plain_core<T>>;
  static constexpr int depth = base::is_direct ? CRK_CONV_CUDA_DEPTH : is_plain ? 16 : base::depth;
};

template <class S, class T>
CRK_FN void conv_cores_tile(const crk_conv_cores_t &call, const T *weights, const T *images, T *dst, uint32_t *room) {
  using left_copy = operand_copy<T, S::Rows, S::depth, S::Threads, false>;
  using right_copy = window_copy<T, S::Columns, S::depth, S::Threads>;
  const crk_matmul_t &product = call.product;
  const matmul_place place(product, S::Rows, S::Columns);
  left_copy left(weights + place.lhs, product.lhs, place.rows);
  right_copy right(images + place.rhs, call.windows, static_cast<uint32_t>(place.column),
                   static_cast<uint32_t>(place.first));
  product_team<S, left_copy, right_copy> team;
  add_products<S>(team, left, right, room, place.k);
  const crk_matmul_t &last = reread(call).product; /* nothing of this waits in registers */
  store_product(last, matmul_place(last, S::Rows, S::Columns), team, dst);
}

/* dst = weights * windows in tiles of Rows x Columns, one per block. */
template <class T, int Rows, int Columns, int Threads>
CRK_FN void conv_cores(const crk_conv_cores_t &call, const T *weights, const T *images, T *dst) {
  using S = conv_shape<T, Rows, Columns, Threads>;
  if constexpr (S::is_direct) {
    conv_cores_tile<S>(call, weights, images, dst, dynamic_shared<uint32_t>());
  } else {
    CRK_SHARED(aligned_codes16, room, step_words<S> / 4);
    conv_cores_tile<S>(call, weights, images, dst, reinterpret_cast<uint32_t *>(room));
  }
}

}  // namespace
}  // namespace crk

#endif
