/* Mixtures of experts in integers, for one token per expert: moe_vec_one and moe_gate. Each position is a product of
 * its own, made by the mat-vec kernel of quantized/matvec_tile.h with the rows of the position's expert. */
#ifndef CRK_MOE_VEC_ONE_H
#define CRK_MOE_VEC_ONE_H

#include "moe/moe.h"
#include "platform/blocks.h"
#include "quantized/matvec_gate.h"

namespace crk {
namespace {

/* The product of the block's position with the weights of its expert. */
struct routed_position {
  static constexpr bool are_short = true; /* as experts' rows mostly are */
  const crk_moe_vec_t &call;
  const crk_vec_product_t &product;
  uint32_t expert, input, block_bytes;
  bool exists; /* expert and token are valid */

  /* Expert and token are the same in all lanes. */
  CRK_FN routed_position(const crk_moe_vec_t &of, uint32_t bytes)
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

/* Sums that the last block along y adds up are passed on to it. */
struct routed_sums : vec_sums {
  bool passes;
  CRK_FN void store(uint32_t dtype, uint64_t at, float value) const {
    if (passes) {
      store_passed<1>(static_cast<float *>(dst) + at, {{value}});
    } else {
      vec_sums::store(dtype, at, value);
    }
  }
};

struct routed_product : routed_position {
  static constexpr int ways = 1;
  static constexpr bool finishes = false;

  CRK_FN routed_product(const crk_moe_vec_t &call, uint32_t bytes) : routed_position(call, bytes) {}
  CRK_FN uint32_t grain() const { return 1; }
  CRK_FN routed_sums sums(uint64_t) const {
    const crk_moe_vec_t &again = reread(call);
    const uint32_t its = token(again);
    return {{again.product.parts[0].dst, its * again.product.rows, 0,
             again.scales != nullptr ? again.scales[its] : 1.0f, nullptr},
            again.sum != nullptr};
  }
};

/* The gate of the position's expert: the weights of parts 0 and 1, and their activation (quantized/matvec_gate.h). */
struct routed_gate : routed_position {
  static constexpr int ways = 2;
  static constexpr bool finishes = true;
  const crk_moe_gate_t &gate;

  CRK_FN routed_gate(const crk_moe_gate_t &its, uint32_t bytes) : routed_position(its.vec, bytes), gate(its) {}
  CRK_FN uint32_t grain() const { return gate.blocks != nullptr ? CRK_GATE_ROWS : 1; }
  CRK_FN void finish(const float *sums, uint64_t row, uint32_t count) const {
    const crk_moe_gate_t &again = reread(gate);
    store_gate(sums, count, again.gelu != 0, static_cast<float *>(again.vec.product.parts[0].dst),
               static_cast<block_q8_1 *>(again.blocks), token(again.vec) * again.vec.product.rows + row);
  }
};

/* Adds up all tokens' results for the block's rows, in the order of the tokens. The last block along y comes. */
CRK_FN void sum_tokens(const crk_moe_vec_t &call) {
  constexpr uint32_t at_once = 8;
  const crk_vec_product_t &p = call.product;
  const uint32_t block = block_index().x, tokens = call.shape.positions;
  const float *results = static_cast<const float *>(p.parts[0].dst);
  const uint64_t first = static_cast<uint64_t>(block) * p.block_rows + (block < p.larger ? block : p.larger);
  const uint64_t end = first + p.block_rows + (block < p.larger ? 1 : 0);
  for (uint64_t row = first + thread_index().x; row < end; row += CRK_VEC_WAVES * wave_size()) {
    float sum = 0.0f;
    CRK_NO_UNROLL
    for (uint32_t token = 0; token < tokens; token += at_once) {
      float some[at_once];
      CRK_UNROLL
      for (uint32_t i = 0; i < at_once; i++) {
        some[i] = token + i < tokens ? load_passed<1>(results + (token + i) * p.rows + row).v[0] : 0.0f;
      }
      CRK_UNROLL
      for (uint32_t i = 0; i < at_once; i++) {
        sum = token + i < tokens ? sum + some[i] : sum;
      }
    }
    call.sum[row] = sum;
  }
}

/* dst[token][row] = scale * the sum over k of weights[expert][row][k] * x[input][k]. Blocks at y of the grid have
 * position y. With call.sum, the sum over the tokens goes there. */
template <class B>
CRK_FN void moe_vec_one(const crk_moe_vec_t &call) {
  CRK_SHARED(float, sums, vec_sums_room<1>);
  const routed_product product(call, sizeof(B));
  if (product.exists) {
    mul_mat_vec_tiles<B, 1>(product, sums);
  }
  const crk_moe_vec_t &again = reread(call);
  if (again.sum != nullptr && last_of_blocks(again.tickets + block_index().x, again.shape.positions, sums)) {
    sum_tokens(again);
  }
}

/* dst[token][row] = activation(gate) * up, of products as those of moe_vec_one. */
template <class B>
CRK_FN void moe_gate(const crk_moe_gate_t &call) {
  CRK_SHARED(float, sums, vec_sums_room<1>);
  const routed_gate gate(call, sizeof(B));
  if (gate.exists) {
    mul_mat_vec_tiles<B, 1>(gate, sums);
  }
}

}  // namespace
}  // namespace crk

#endif
