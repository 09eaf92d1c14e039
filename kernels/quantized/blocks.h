/* The blocks of quantized tensors, as GGUF files have them (ggml's block formats). Candle's kernels read the same bytes.
 *
 * A tensor's row is a sequence of blocks; blocks follow each other without gaps, so that only one of an even number of bytes
 * may be relied on to be aligned to more than a byte, and that to 2. `d` scales a block's codes, `m` or `dmin` is the
 * minimum's scale. What an element is: the comments; bits count from the lowest. */
#ifndef CRK_BLOCKS_H
#define CRK_BLOCKS_H

#include "numbers/element_types.h"

namespace crk {

/* Blocks of 32 elements. Element i below 16 is in the low half of qs[i], element i + 16 in the high half. */
struct block_q4_0 { /* d * (q - 8) */
  f16 d;
  uint8_t qs[16];
};
struct block_q4_1 { /* d * q + m */
  f16 d, m;
  uint8_t qs[16];
};
struct block_q5_0 { /* d * (q - 16); bit 4 of element i is bit i of qh, a little-endian u32 */
  f16 d;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct block_q5_1 { /* d * q + m */
  f16 d, m;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct block_q8_0 { /* d * q */
  f16 d;
  int8_t qs[32];
};
/* What activations become: d * q, and s the sum of the block's values. */
struct block_q8_1 {
  f16 d, s;
  int8_t qs[32];
};

/* Superblocks of 256 elements. */
struct block_q2_K { /* 16 groups of 16: d * (scales & 15) * q - dmin * (scales >> 4) */
  uint8_t scales[16];
  uint8_t qs[64]; /* element 128 a + 32 b + c: bits 2 b and 2 b + 1 of qs[32 a + c] */
  f16 d, dmin;
};
struct block_q3_K { /* 16 groups of 16: d * (scale - 32) * (q - 4), q's bit 2 in hmask: clear means 4 less */
  uint8_t hmask[32]; /* element 128 a + 32 b + c: bit 4 a + b of hmask[c] */
  uint8_t qs[64]; /* as in q2_K */
  uint8_t scales[12];
  f16 d;
};
struct block_q4_K { /* 8 groups of 32: d * scale * q - dmin * minimum, scales and minima of 6 bits packed in 12 bytes */
  f16 d, dmin;
  uint8_t scales[12];
  uint8_t qs[128]; /* element 64 a + c: the low half of qs[32 a + c], element 64 a + 32 + c the high half */
};
struct block_q5_K { /* as q4_K, q's bit 4 in qh */
  f16 d, dmin;
  uint8_t scales[12];
  uint8_t qh[32]; /* element 32 g + c: bit g of qh[c] */
  uint8_t qs[128];
};
struct block_q6_K { /* 16 groups of 16: d * scale * (q - 32) */
  uint8_t
      ql[128]; /* element 128 a + 32 b + c: of ql[64 a + 32 (b & 1) + c] the low half for b below 2, else the high */
  uint8_t qh[64]; /* its bits 4 and 5: bits 2 b and 2 b + 1 of qh[32 a + c] */
  int8_t scales[16];
  f16 d;
};
struct block_q8_K { /* d * q; bsums[g] is the sum of the codes of group g of 16 */
  float d;
  int8_t qs[256];
  int16_t bsums[16];
};

/* XX(type as kernels are named, elements, bytes of a block): every weight format. */
#define CRK_BLOCK_MAP(XX) \
  XX(q4_0, 32, 18)        \
  XX(q4_1, 32, 20)        \
  XX(q5_0, 32, 22)        \
  XX(q5_1, 32, 24)        \
  XX(q8_0, 32, 34)        \
  XX(q2_K, 256, 84)       \
  XX(q3_K, 256, 110)      \
  XX(q4_K, 256, 144)      \
  XX(q5_K, 256, 176)      \
  XX(q6_K, 256, 210)      \
  XX(q8_K, 256, 292)

/* Those that have integer products: Candle multiplies no q8_K. */
#define CRK_MATRIX_BLOCKS(XX) XX(q4_0) XX(q4_1) XX(q5_0) XX(q5_1) XX(q8_0) XX(q2_K) XX(q3_K) XX(q4_K) XX(q5_K) XX(q6_K)

template <class B>
inline constexpr int block_elements = 0;
#define XX(type, elements, bytes)                               \
  template <>                                                   \
  inline constexpr int block_elements<block_##type> = elements; \
  static_assert(sizeof(block_##type) == bytes, "a block has the bytes that a file has");
CRK_BLOCK_MAP(XX)
#undef XX
template <>
inline constexpr int block_elements<block_q8_1> = 32;
static_assert(sizeof(block_q8_1) == 36, "a block has the bytes that a file has");

}  // namespace crk

#endif
