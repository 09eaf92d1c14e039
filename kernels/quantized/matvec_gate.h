/* The gate of a feed-forward layer with quantized weights, for one column of activations: gate_mat_vec. A tile has rows
 * of the gate and the same rows of up (matvec_tile.h); the activation follows their sums. */
#ifndef CRK_MATVEC_GATE_H
#define CRK_MATVEC_GATE_H

#include "elementwise/activations.h"
#include "quantized/matvec_tile.h"
#include "quantized/q8_1.h"

namespace crk {
namespace {

struct gate_product {
  static constexpr int ways = 2;
  const crk_vec_gate_t &call;
  const crk_vec_product_t &product;

  CRK_FN uint32_t grain() const { return call.blocks != nullptr ? CRK_GATE_ROWS : 1; }
  CRK_FN vec_rows rows(uint64_t, int way) const {
    return {static_cast<const unsigned char *>(product.parts[way].weights), 0, product.rows};
  }
  CRK_FN const block_q8_1 *x() const { return static_cast<const block_q8_1 *>(product.x); }

  /* A lane makes four neighbouring rows, as the lanes of quantize_share have them. */
  CRK_FN void finish(const float *sums, uint64_t row, uint32_t count) const {
    static_assert(CRK_VEC_ROWS == 2 * CRK_GATE_ROWS, "a tile is a q8_1 block");
    constexpr uint32_t groups = most_lanes / group_lanes;
    const crk_vec_gate_t &c = reread(call);
    if (wave_in_block() == 0) {
      const uint32_t first = lane() % (CRK_GATE_ROWS / 4) * 4;
      pack<float, 4> y = {};
      CRK_UNROLL
      for (uint32_t i = 0; i < 4; i++) {
        if (first + i < count) {
          const float *of_gate = sums + (first + i) * groups, *of_up = of_gate + count * groups;
          const float gate_sum = whole_sum(of_gate), up_sum = whole_sum(of_up);
          y.v[i] = c.gelu != 0 ? gate<gelu_op, float>()(gate_sum, up_sum) : gate<silu_op, float>()(gate_sum, up_sum);
        }
      }
      const bool stores = lane() < CRK_GATE_ROWS / 4;
      CRK_UNROLL
      for (uint32_t i = 0; i < 4; i++) {
        if (stores && first + i < count) {
          static_cast<float *>(c.product.parts[0].dst)[row + first + i] = y.v[i];
        }
      }
      if (c.blocks != nullptr) {
        const q8_1_share<4> share = quantize_share(y, CRK_SUM_OF_CODES);
        if (stores) {
          share.store(static_cast<block_q8_1 *>(c.blocks), row + first);
        }
      }
    }
  }
};

template <class B>
CRK_FN void gate_mat_vec(const crk_vec_gate_t &call) {
  mul_mat_vec_tiles<B, 1>(gate_product{call, call.product});
}

}  // namespace
}  // namespace crk

#endif
