/* Mixtures of experts in integers, for one token per expert: moe_vec_one. Each position is a product of its own, made
 * by the mat-vec kernel of quantized/matvec_tile.h with the rows of the position's expert. */
#ifndef CRK_MOE_VEC_ONE_H
#define CRK_MOE_VEC_ONE_H

#include "moe/moe.h"
#include "quantized/matvec_tile.h"

namespace crk {
namespace {

/* The product of the block's position. Its expert and token are valid and the same in all lanes. */
struct routed_product {
  static constexpr int ways = 1;
  const crk_moe_vec_t &call;
  uint32_t expert, input, block_bytes;
  const crk_vec_product_t &product;

  CRK_FN uint32_t grain() const { return 1; }
  CRK_FN vec_rows rows(uint64_t, int) const {
    return {static_cast<const unsigned char *>(product.parts[0].weights) +
              expert * (product.rows * product.row_blocks) * block_bytes,
            0, product.rows};
  }
  CRK_FN const block_q8_1 *x() const { return static_cast<const block_q8_1 *>(product.x) + input * product.x_stride; }
  CRK_FN vec_sums sums(uint64_t) const {
    const crk_moe_vec_t &again = reread(call);
    const uint32_t at = block_index().y, token = again.tokens != nullptr ? static_cast<uint32_t>(again.tokens[at]) : at;
    return {again.product.parts[0].dst, token * again.product.rows, 0,
            again.scales != nullptr ? again.scales[token] : 1.0f};
  }
};

/* dst[token][row] = scale * the sum over k of weights[expert][row][k] * x[input][k]. Blocks at y of the grid have
 * position y. */
template <class B>
CRK_FN void moe_vec_one(const crk_moe_vec_t &call) {
  const routes r = {call.tokens, call.experts, call.scales};
  const bool teller = block_index().x == 0 && thread_index().x == 0;
  const uint32_t at = block_index().y, expert = of_lane<0>(expert_at(r, call.shape, at, call.fault, teller)),
                 token = of_lane<0>(token_at(r, call.shape, at, call.fault, teller && expert < call.shape.experts));
  if (expert < call.shape.experts && token < call.shape.positions) {
    const uint32_t block_bytes = sizeof(B);
    mul_mat_vec_tiles<B, 1>(
      routed_product{call, expert, input_of(call.shape, token), block_bytes, call.product});
  }
}

}  // namespace
}  // namespace crk

#endif
