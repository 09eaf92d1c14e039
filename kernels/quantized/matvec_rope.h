/* Queries, keys and values of a layer with quantized weights, for one column of activations, and their rotary
 * embeddings: rope_mat_vec. A tile has both rows of each pair (matvec_tile.h). They are neighbours. Or a tile has two
 * ways: one for the first half of a head, one for the second half. */
#ifndef CRK_MATVEC_ROPE_H
#define CRK_MATVEC_ROPE_H

#include "quantized/matvec_tile.h"
#include "reduce/rope_heads.h"

namespace crk {
namespace {

template <bool Interleaved, uint32_t BlockBytes>
struct rope_product {
  static constexpr int ways = Interleaved ? 1 : 2;
  static constexpr bool finishes = true, are_short = false;
  static constexpr uint32_t rows_of_pair = Interleaved ? 2 : 1;
  const crk_vec_rope_t &call;
  const crk_vec_product_t &product;

  CRK_FN uint32_t grain() const { return rows_of_pair; }
  CRK_FN vec_rows rows(uint64_t row, int way) const {
    const uint32_t part = whole_product::part_of(product, row);
    const uint64_t begin = whole_product::begin_of(product, part);
    const unsigned char *const weights = static_cast<const unsigned char *>(product.parts[part].weights);
    if constexpr (Interleaved) {
      return {weights, begin, product.parts[part].end};
    } else { /* half of a head */
      const uint32_t half = static_cast<uint32_t>(call.heads.half.size);
      const uint32_t head = divide(call.heads.half, static_cast<uint32_t>(row - begin));
      const uint64_t first = begin + static_cast<uint64_t>(head) * half,
                     skipped = 2 * head + static_cast<uint32_t>(way);
      return {weights + skipped * half * product.row_blocks * BlockBytes, first, first + half};
    }
  }
  CRK_FN const block_q8_1 *x() const { return static_cast<const block_q8_1 *>(product.x); }
  CRK_FN void finish(const float *sums, uint64_t row, uint32_t count) const {
    constexpr uint32_t groups = most_lanes / group_lanes;
    const crk_vec_rope_t &c = reread(call);
    const uint32_t part = whole_product::part_of(c.product, row), pair = thread_index().x;
    const uint32_t before = static_cast<uint32_t>(row - whole_product::begin_of(c.product, part));
    static_assert(CRK_VEC_ROWS / 2 <= 32 * CRK_VEC_WAVES, "a thread for each pair of a tile");
    if (pair < count / rows_of_pair) {
      const crk_vec_part_t &to = c.product.parts[part];
      const head_pair own(c.heads, before / rows_of_pair + pair);
      const float *const of_pair = sums + pair * rows_of_pair * groups;
      float a = whole_sum(of_pair), b = whole_sum(of_pair + (Interleaved ? 1 : count) * groups);
      if (to.bias != nullptr) {
        const float *const bias = to.bias + own.row(c.heads);
        a += bias[0];
        b += bias[own.step];
      }
      own.store(c.heads, part, to.dst, a, b);
    }
  }
};

template <class B, bool Interleaved>
CRK_FN void rope_mat_vec(const crk_vec_rope_t &call) {
  CRK_SHARED(float, sums, vec_sums_room<1>);
  mul_mat_vec_tiles<B, 1>(rope_product<Interleaved, sizeof(B)>{call, call.product}, sums);
}

}  // namespace
}  // namespace crk

#endif
