/* cooperative_groups::reduce for tiles of a warp. */
#ifndef CRK_CUDA_PORT_COOPERATIVE_GROUPS_REDUCE_H
#define CRK_CUDA_PORT_COOPERATIVE_GROUPS_REDUCE_H

#include "cuda_port/cooperative_groups.h"

namespace cooperative_groups {

#define CRK_PORT_OP(name, expression)                          \
  template <class T>                                           \
  struct name {                                                \
    CRK_FN T operator()(T a, T b) const { return expression; } \
  };
CRK_PORT_OP(plus, a + b)
CRK_PORT_OP(less, b < a ? b : a)
CRK_PORT_OP(greater, a < b ? b : a)
CRK_PORT_OP(bit_and, a &b)
CRK_PORT_OP(bit_or, a | b)
CRK_PORT_OP(bit_xor, a ^ b)
#undef CRK_PORT_OP

/* The values of the tile's lanes, joined by `op`, which commutes. All lanes of the tile must come; all get the
 * result. */
template <unsigned Size, class Parent, class T, class Op>
CRK_FN T reduce(const thread_block_tile<Size, Parent> &tile, T value, Op op) {
  for (unsigned mask = Size / 2; mask > 0; mask /= 2) {
    value = op(value, tile.shfl_xor(value, mask));
  }
  return value;
}

}  // namespace cooperative_groups

#endif
