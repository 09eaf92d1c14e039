/* Quantizes activations for products with many columns (matmat.h): quantize_mmq writes Candle's mmq blocks. A block has
 * 128 elements of one column. Block b of a column has number b * columns + column. So the blocks b of a tile's
 * neighbouring columns are one contiguous run of memory. For the launchers' own products s is made from the codes. */
#ifndef CRK_MMQ_H
#define CRK_MMQ_H

#include "call/mmq_call.h"
#include "call/quantized_call.h"
#include "elementwise/walk.h"
#include "numbers/wave.h"
#include "quantized/blocks.h"
#include "quantized/q8_1.h"

namespace crk {

/* Layouts of the four words before a block's codes. d scales codes; s is the sum of the elements before quantization,
 * or d times the sum of their codes (CRK_SUM_OF_CODES).
 *   D4    d of each 32 elements, f32
 *   DS4   d and s of each 32 elements, f16
 *   D2S6  d of each 64 elements, then s of each 16 of the first 96, f16 */
#define XX(name) name,
enum class mmq { CRK_MMQ_LAYOUTS(XX) };
#undef XX

template <class B>
inline constexpr mmq mmq_of = mmq::D4;
#define XX(format, type, layout, numbers) \
  template <>                             \
  inline constexpr mmq mmq_of<block_##type> = mmq::layout;
CRK_MMQ_FORMATS(XX)
#undef XX

/* Quantizes eight elements of the block at `block`; the other 15 lanes of the group have the block's other elements.
 * Let m be the largest magnitude of the elements that share d. A code is x * (127 / m), rounded with halves away from
 * zero; d is 1 / (127 / m). Both quotients are computed as in Candle. A NaN does not count for m, and its code is 0.
 * The code is also 0 for 0 * infinity, if all these elements are 0 or one is infinite. Sums of values are added in the
 * order of Candle's lanes, which have four elements each: its last step, between neighbours, is within a lane here. */
template <mmq Layout>
CRK_FN void quantize_eight(const pack<float, 8> &x, uint32_t *block, uint32_t lane16, uint32_t sums) {
  constexpr int scale_lanes = Layout == mmq::D2S6 ? 8 : 4, sum_lanes = Layout == mmq::D2S6 ? 2 : 4;
  float most = abs(x.v[0]);
  CRK_UNROLL
  for (int i = 1; i < 8; i++) {
    most = max_number(most, abs(x.v[i]));
  }
  const float inverse = 127.0f / butterfly<scale_lanes>(most, larger()), d = 1.0f / inverse;
  pack<uint32_t, 2> codes = {};
  CRK_UNROLL
  for (int i = 0; i < 8; i++) {
    codes.v[i / 4] |= (static_cast<uint32_t>(to_integer<int32_t>(round(x.v[i] * inverse))) & 0xff) << i % 4 * 8;
  }
  block[4 + 2 * lane16] = codes.v[0];
  block[5 + 2 * lane16] = codes.v[1];
  float sum = 0.0f;
  if (Layout != mmq::D4) {
    if (sums == CRK_SUM_OF_CODES) {
      const int32_t first = dot4(static_cast<int32_t>(codes.v[0]), 0x01010101, 0);
      const int32_t all = butterfly<sum_lanes>(dot4(static_cast<int32_t>(codes.v[1]), 0x01010101, first), plus());
      sum = static_cast<float>(f16(d)) * static_cast<float>(all);
    } else {
      const float first = butterfly<sum_lanes>(x.v[0] + x.v[1] + x.v[2] + x.v[3], plus());
      sum = first + butterfly<sum_lanes>(x.v[4] + x.v[5] + x.v[6] + x.v[7], plus());
    }
  }
  if constexpr (Layout == mmq::D2S6) {
    uint16_t *halves = reinterpret_cast<uint16_t *>(block);
    if (lane16 % 8 == 0) {
      halves[lane16 / 8] = f16(d).code;
    }
    if (lane16 % 2 == 0 && lane16 < 12) {
      halves[2 + lane16 / 2] = f16(sum).code;
    }
  } else if (lane16 % 4 == 0) {
    block[lane16 / 4] =
        Layout == mmq::D4 ? bit_cast<uint32_t>(d) : f16(d).code | static_cast<uint32_t>(f16(sum).code) << 16;
  }
}

/* Quantizes the rows that `s` describes, with 16 lanes per mmq block. A column with an id that is not a row stays
 * unwritten, and the id is reported. */
template <mmq Layout, class T>
CRK_FN void quantize_mmq(const T *x, const int32_t *ids, uint32_t *dst, const crk_mmq_quantize_t &s,
                         crk_fault_t fault) {
  const uint32_t lane16 = thread_index().x % 16;
  constexpr uint32_t groups = CRK_MMQ_THREADS / 16;
  for (uint64_t column = block_index().x * groups + thread_index().x / 16; column < s.columns;
       column += s.blocks_x * groups) {
    const int64_t id = ids != nullptr ? ids[column] : static_cast<int64_t>(column);
    if (static_cast<uint64_t>(id) >= s.rows) {
      if (lane16 == 0) {
        report(fault, id);
      }
      continue;
    }
    for (uint64_t sample = 0; sample < s.samples; sample++) {
      for (uint64_t channel = block_index().z; channel < s.channels; channel += s.blocks_z) {
        const T *row = x + (sample * s.sample_stride + channel * s.channel_stride + id * s.row_stride);
        uint32_t *blocks = dst + ((sample * s.channels + channel) * s.channel_blocks + column) * CRK_MMQ_WORDS;
        for (uint64_t b = block_index().y; b * CRK_MMQ_ELEMENTS < s.padded_k; b += s.blocks_y) {
          const uint64_t i = b * CRK_MMQ_ELEMENTS + 8 * lane16;
          pack<float, 8> values;
          if (i + 8 <= s.k) {
            const pack<T, 8> loaded = load_pack<T, 8>(row + i);
            CRK_UNROLL
            for (int j = 0; j < 8; j++) {
              values.v[j] = convert<float>(loaded.v[j]);
            }
          } else {
            CRK_UNROLL
            for (int j = 0; j < 8; j++) {
              values.v[j] = i + j < s.k ? convert<float>(row[i + j]) : 0.0f;
            }
          }
          quantize_eight<Layout>(values, blocks + b * s.columns * CRK_MMQ_WORDS, lane16, s.sums);
        }
      }
    }
  }
}

}  // namespace crk

#endif
