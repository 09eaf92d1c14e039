/* Quantizes activations to 8 bits for products with few columns (matvec.h, matvec_tile.h): quantize_q8_1_named with
 * Candle's arguments, quantize_q8_1_rows for the launchers.
 *
 * The format is ggml's q8_1, blocks of 32 with d and s as f16. d is the largest magnitude / 127. A code is round(x / d)
 * with halves away from zero. s is the sum of the 32 numbers or, for the launchers' own products, d times the sum of
 * the codes. A NaN does not count for d; its code is 0. */
#ifndef CRK_Q8_1_H
#define CRK_Q8_1_H

#include "call/quantized_call.h"
#include "elementwise/walk.h"
#include "numbers/dot.h"
#include "numbers/wave.h"
#include "quantized/blocks.h"

namespace crk {

/* The code of x, as a byte. As in CUDA, x / d is converted to i32 and the low byte is kept. This shows only where d has
 * become 0 or infinite. */
CRK_FN uint32_t q8_1_code(float x, float largest, float d) {
  return largest == 0.0f ? 0 : static_cast<uint32_t>(to_integer<int32_t>(round(x / d))) & 0xff;
}

/* With Candle's arguments, one thread per element. A row of x has k elements and is padded with zeros to `padded`;
 * block_index().y is the row. */
CRK_FN void quantize_q8_1_named(const float *x, void *dst, int32_t k, int32_t padded) {
  const uint64_t column = static_cast<uint64_t>(block_index().x) * block_size().x + thread_index().x;
  const uint64_t row = static_cast<uint64_t>(block_index().y) * block_size().y + thread_index().y;
  const bool live = column < static_cast<uint64_t>(padded);
  const float value = column < static_cast<uint64_t>(k) ? x[row * k + column] : 0.0f;
  const float largest = butterfly<32>(abs(value), larger()), sum = butterfly<32>(value, plus());
  const float d = largest / 127.0f;
  if (!live) {
    return;
  }
  const uint64_t i = row * padded + column;
  block_q8_1 *block = static_cast<block_q8_1 *>(dst) + i / 32;
  block->qs[i % 32] = static_cast<int8_t>(q8_1_code(value, largest, d));
  if (i % 32 == 0) {
    block->d = f16(d);
    block->s = f16(sum);
  }
}

/* `V` elements of a block, quantized by one lane; the 32 / V - 1 neighbouring lanes have the others. */
template <int V>
struct q8_1_share {
  pack<uint32_t, V / 4> codes;
  float d, s;

  /* Stores the share of the lane whose first element has the number `element`. */
  CRK_FN void store(block_q8_1 *blocks, uint64_t element) const {
    uint32_t *block = reinterpret_cast<uint32_t *>(blocks + element / 32);
    const uint32_t within = static_cast<uint32_t>(element % 32);
    CRK_UNROLL
    for (int i = 0; i < V / 4; i++) {
      block[1 + within / 4 + static_cast<uint32_t>(i)] = codes.v[i];
    }
    if (within == 0) {
      block[0] = f16(d).code | static_cast<uint32_t>(f16(s).code) << 16;
    }
  }
};

/* Quantizes a lane's elements. `sums` says what s is: CRK_SUM_OF_VALUES or CRK_SUM_OF_CODES. Values are added up in
 * pairs, as (a + b) + (c + d); then a butterfly adds the sums of the lanes. */
template <int V, class T>
CRK_FN q8_1_share<V> quantize_share(const pack<T, V> &elements, uint32_t sums) {
  constexpr int lanes = 32 / V;
  pack<float, V> values;
  CRK_UNROLL
  for (int i = 0; i < V; i++) {
    values.v[i] = convert<float>(elements.v[i]);
  }
  float most = abs(values.v[0]);
  CRK_UNROLL
  for (int i = 1; i < V; i++) {
    most = max_number(most, abs(values.v[i]));
  }
  const float largest = butterfly<lanes>(most, larger());
  q8_1_share<V> share = {{}, largest / 127.0f, 0.0f};
  CRK_UNROLL
  for (int i = 0; i < V; i++) {
    share.codes.v[i / 4] |= q8_1_code(values.v[i], largest, share.d) << 8 * (i % 4);
  }
  if (sums == CRK_SUM_OF_CODES) {
    int32_t sum = 0;
    CRK_UNROLL
    for (int i = 0; i < V / 4; i++) {
      sum = dot4(static_cast<int32_t>(share.codes.v[i]), 0x01010101, sum);
    }
    share.s = static_cast<float>(f16(share.d)) * static_cast<float>(butterfly<lanes>(sum, plus()));
  } else {
    CRK_UNROLL
    for (int width = 1; width < V; width *= 2) {
      CRK_UNROLL
      for (int i = 0; i < V; i += 2 * width) {
        values.v[i] += values.v[i + width];
      }
    }
    share.s = butterfly<lanes>(values.v[0], plus());
  }
  return share;
}

/* Four elements per thread, 8 threads per q8_1 block: a block of 128 threads quantizes 512 elements of a row at a
 * time. */
template <class T>
CRK_FN void quantize_q8_1_rows(const T *x, block_q8_1 *dst, uint64_t rows, uint64_t k, uint64_t padded,
                               uint32_t blocks_x, uint32_t blocks_y, uint32_t sums) {
  for (uint64_t row = block_index().y; row < rows; row += blocks_y) {
    const T *from = x + row * k;
    for (uint64_t tile = block_index().x; tile * 512 < padded; tile += blocks_x) {
      const uint64_t column = tile * 512 + thread_index().x * 4;
      pack<T, 4> values = {};
      if (column + 4 <= k) {
        values = load_pack<T, 4>(from + column);
      } else {
        CRK_UNROLL
        for (int i = 0; i < 4; i++) {
          values.v[i] = column + i < k ? from[column + i] : T(0.0f);
        }
      }
      const q8_1_share<4> share = quantize_share(values, sums);
      if (column < padded) {
        share.store(dst, row * padded + column);
      }
    }
  }
}

}  // namespace crk

#endif
