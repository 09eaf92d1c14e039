/* Mixtures of experts in integers, for one token per expert: moe_vec_one and moe_gate. Each position is a product of
 * its own, made by the mat-vec kernel of quantized/matvec_tile.h with the rows of the position's expert. */
#ifndef CRK_MOE_VEC_ONE_H
#define CRK_MOE_VEC_ONE_H

#include "moe/moe.h"
#include "quantized/matvec_gate.h"

namespace crk {
namespace {

/* The product of the block's position with the weights of its expert. */
struct routed_rows {
  const crk_moe_vec_t &call;
  const crk_vec_product_t &product;
  uint32_t expert, input, block_bytes;
  bool exists; /* expert and token are valid */

  /* Expert and token are the same in all lanes. */
  CRK_FN routed_rows(const crk_moe_vec_t &of, uint32_t bytes)
      : call(of), product(of.product), expert(0), input(0), block_bytes(bytes), exists(false) {
    const routes r = {call.tokens, call.experts, call.scales};
    const bool teller = block_index().x == 0 && thread_index().x == 0;
    const uint32_t at = block_index().y;
    expert = of_lane<0>(expert_at(r, call.shape, at, call.fault, teller));
    const bool has_expert = expert < call.shape.experts;
    const uint32_t token = of_lane<0>(token_at(r, call.shape, at, call.fault, teller && has_expert));
    exists = has_expert && token < call.shape.positions;
    input = exists ? input_of(call.shape, token) : 0;
  }
  CRK_FN vec_rows rows(uint64_t, int way) const {
    return {static_cast<const unsigned char *>(product.parts[way].weights) +
                expert * (product.rows * product.row_blocks) * block_bytes,
            0, product.rows};
  }
  CRK_FN const block_q8_1 *x() const { return static_cast<const block_q8_1 *>(product.x) + input * product.x_stride; }
  CRK_FN static uint32_t token(const crk_moe_vec_t &again) {
    const uint32_t at = block_index().y;
    return again.tokens != nullptr ? static_cast<uint32_t>(again.tokens[at]) : at;
  }
};

struct routed_product : routed_rows {
  static constexpr int ways = 1;

  CRK_FN routed_product(const crk_moe_vec_t &call, uint32_t bytes) : routed_rows(call, bytes) {}
  CRK_FN uint32_t grain() const { return 1; }
  CRK_FN vec_sums sums(uint64_t) const {
    const crk_moe_vec_t &again = reread(call);
    const uint32_t its = token(again);
    return {again.product.parts[0].dst, its * again.product.rows, 0, again.scales != nullptr ? again.scales[its] : 1.0f,
            nullptr};
  }
};

/* The gate of the position's expert: the weights of parts 0 and 1, and their activation (quantized/matvec_gate.h). */
struct routed_gate : routed_rows {
  static constexpr int ways = 2;
  const crk_moe_gate_t &gate;

  CRK_FN routed_gate(const crk_moe_gate_t &its, uint32_t bytes) : routed_rows(its.vec, bytes), gate(its) {}
  CRK_FN uint32_t grain() const { return gate.blocks != nullptr ? CRK_GATE_ROWS : 1; }
  CRK_FN void finish(const float *sums, uint64_t row, uint32_t count) const {
    const crk_moe_gate_t &again = reread(gate);
    store_gate(sums, count, again.gelu != 0, static_cast<float *>(again.vec.product.parts[0].dst),
               static_cast<block_q8_1 *>(again.blocks), token(again.vec) * again.vec.product.rows + row);
  }
};

/* dst[token][row] = scale * the sum over k of weights[expert][row][k] * x[input][k]. Blocks at y of the grid have
 * position y. */
template <class B>
CRK_FN void moe_vec_one(const crk_moe_vec_t &call) {
  const routed_product product(call, sizeof(B));
  if (product.exists) {
    mul_mat_vec_tiles<B, 1>(product);
  }
}

/* dst[token][row] = activation(gate) * up, of products as those of moe_vec_one. */
template <class B>
CRK_FN void moe_gate(const crk_moe_gate_t &call) {
  const routed_gate gate(call, sizeof(B));
  if (gate.exists) {
    mul_mat_vec_tiles<B, 1>(gate);
  }
}

}  // namespace
}  // namespace crk

#endif
