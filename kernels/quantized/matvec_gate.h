/* The gate of a feed-forward layer with quantized weights, for one column of activations: gate_mat_vec. A tile has rows
 * of the gate and the same rows of up (matvec_tile.h); the activation follows their sums. */
#ifndef CRK_MATVEC_GATE_H
#define CRK_MATVEC_GATE_H

#include "elementwise/activations.h"
#include "quantized/matvec_tile.h"
#include "quantized/q8_1.h"

namespace crk {
namespace {

/* Stores the gate of `count` rows from number `first` on in dst, and unless `blocks` is NULL in q8_1 blocks: `first`
 * and `count` are then whole blocks. `sums` has the rows of the gate, then those of up. A lane makes four neighbouring
 * rows, as the lanes of quantize_share have them. */
CRK_FN void store_gate(const float *sums, uint32_t count, bool gelu, float *dst, block_q8_1 *blocks, uint64_t first) {
  static_assert(CRK_VEC_ROWS == 2 * CRK_GATE_ROWS, "a tile is a q8_1 block");
  constexpr uint32_t groups = most_lanes / group_lanes;
  if (wave_in_block() != 0) {
    return;
  }
  const uint32_t own = lane() % (CRK_GATE_ROWS / 4) * 4;
  const bool stores = lane() < CRK_GATE_ROWS / 4;
  pack<float, 4> y = {};
  CRK_UNROLL
  for (uint32_t i = 0; i < 4; i++) {
    if (own + i < count) {
      const float *of_gate = sums + (own + i) * groups, *of_up = of_gate + count * groups;
      const float gate_sum = whole_sum(of_gate), up_sum = whole_sum(of_up);
      y.v[i] = gelu ? gate<gelu_op, float>()(gate_sum, up_sum) : gate<silu_op, float>()(gate_sum, up_sum);
    }
  }
  CRK_UNROLL
  for (uint32_t i = 0; i < 4; i++) {
    if (stores && own + i < count) {
      dst[first + own + i] = y.v[i];
    }
  }
  if (blocks != nullptr) {
    const q8_1_share<4> share = quantize_share(y, CRK_SUM_OF_CODES);
    if (stores) {
      share.store(blocks, first + own);
    }
  }
}

struct gate_product {
  static constexpr int ways = 2;
  static constexpr bool finishes = true, are_short = false;
  const crk_vec_gate_t &call;
  const crk_vec_product_t &product;

  CRK_FN uint32_t grain() const { return call.blocks != nullptr ? CRK_GATE_ROWS : 1; }
  CRK_FN vec_rows rows(uint64_t, int way) const {
    return {static_cast<const unsigned char *>(product.parts[way].weights), 0, product.rows};
  }
  CRK_FN const block_q8_1 *x() const { return static_cast<const block_q8_1 *>(product.x); }
  CRK_FN void finish(const float *sums, uint64_t row, uint32_t count) const {
    const crk_vec_gate_t &c = reread(call);
    store_gate(sums, count, c.gelu != 0, static_cast<float *>(c.product.parts[0].dst),
               static_cast<block_q8_1 *>(c.blocks), row);
  }
};

template <class B>
CRK_FN void gate_mat_vec(const crk_vec_gate_t &call) {
  CRK_SHARED(float, sums, vec_sums_room<1>);
  mul_mat_vec_tiles<B, 1>(gate_product{call, call.product}, sums);
}

}  // namespace
}  // namespace crk

#endif
