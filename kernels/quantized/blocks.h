/* The blocks of quantized tensors: ggml's block formats, byte for byte as in GGUF files and as Candle's kernels read
 * them. This file has the structs, the list of formats (CRK_BLOCK_MAP) and the list of those with integer products
 * (CRK_MATRIX_BLOCKS).
 *
 * A row of a tensor is a sequence of blocks without gaps between them. Every block has an even number of bytes. Code
 * may rely on an alignment of 2 bytes only. `d` is the scale of a block's codes, `m` the minimum, `dmin` the scale of
 * minima. The comments give the formula of an element from its code q. Bits are counted from the lowest. */
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
struct block_q5_1 { /* d * q + m; qh as in q5_0 */
  f16 d, m;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct block_q8_0 { /* d * q */
  f16 d;
  int8_t qs[32];
};
/* Quantized activations: d * q. s is CRK_SUM_OF_VALUES or CRK_SUM_OF_CODES (call/quantized_call.h). */
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
struct block_q3_K { /* 16 groups of 16: d * (scale - 32) * (q - 4); bit 2 of q is in hmask */
  uint8_t hmask[32]; /* element 128 a + 32 b + c: bit 4 a + b of hmask[c] */
  uint8_t qs[64]; /* bits 0 and 1 of q, as in q2_K */
  uint8_t scales[12];
  f16 d;
};
struct block_q4_K { /* 8 groups of 32: d * scale * q - dmin * minimum; 6-bit scales and minima are packed in 12 bytes */
  f16 d, dmin;
  uint8_t scales[12];
  uint8_t qs[128]; /* element 64 a + c: the low half of qs[32 a + c]; element 64 a + 32 + c: the high half */
};
struct block_q5_K { /* as q4_K; bit 4 of q is in qh */
  f16 d, dmin;
  uint8_t scales[12];
  uint8_t qh[32]; /* element 32 g + c: bit g of qh[c] */
  uint8_t qs[128];
};
struct block_q6_K { /* 16 groups of 16: d * scale * (q - 32) */
  uint8_t ql[128]; /* element 128 a + 32 b + c: 4 bits of ql[64 a + 32 (b & 1) + c]: low half if b < 2, else high */
  uint8_t qh[64]; /* its bits 4 and 5: bits 2 b and 2 b + 1 of qh[32 a + c] */
  int8_t scales[16];
  f16 d;
};
struct block_q8_K { /* d * q; bsums[g] is the sum of the codes of the 16 elements of group g */
  float d;
  int8_t qs[256];
  int16_t bsums[16];
};

/* XX(type as in kernel names, elements, bytes of a block): all weight formats. */
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

/* The formats with integer products. q8_K is missing because Candle has no product for it. */
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
