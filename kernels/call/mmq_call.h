/* Products of quantized weights with many columns: what the kernels and their launchers share. Plain C. */
#ifndef CRK_MMQ_CALL_H
#define CRK_MMQ_CALL_H

#include <stdint.h>

/* An mmq block: 128 activations of a column, a word of scales and sums for each 32 of them and then their codes. */
enum { CRK_MMQ_ELEMENTS = 128, CRK_MMQ_WORDS = 36, CRK_MMQ_BYTES = 4 * CRK_MMQ_WORDS };

/* XX(name): what the four words are (include/candle_rocm.h). */
#define CRK_MMQ_LAYOUTS(XX) XX(D4) XX(DS4) XX(D2S6)

/* XX(format, as kernels are named, layout): which of them the product of a format reads. */
#define CRK_MMQ_FORMATS(XX) \
  XX(Q4_0, q4_0, DS4)       \
  XX(Q4_1, q4_1, DS4)       \
  XX(Q5_0, q5_0, D4)        \
  XX(Q5_1, q5_1, DS4)       \
  XX(Q8_0, q8_0, D4)        \
  XX(Q2_K, q2_K, D2S6)      \
  XX(Q3_K, q3_K, D4)        \
  XX(Q4_K, q4_K, DS4)       \
  XX(Q5_K, q5_K, DS4)       \
  XX(Q6_K, q6_K, D4)

/* XX(rows, columns, ...): the tiles that there are kernels of, the largest first. A block of threads makes one at a time. Two wide
 * ones are more than the 64 KiB of shared memory that a compute unit of most AMD GPUs has, so only NVIDIA's have them. */
#define CRK_MMQ_WIDE_TILES(XX, ...) XX(128, 128, __VA_ARGS__)
#define CRK_MMQ_TILES(XX, ...)      XX(128, 64, __VA_ARGS__) XX(64, 32, __VA_ARGS__)
enum { CRK_MMQ_THREADS = 256 };

/* Rows of activations to mmq blocks: element i of row r of channel c of sample s is x[s * sample_stride + c * channel_stride +
 * r * row_stride + i] for i below k, and 0 from there to padded_k. Column j is row ids[j] of `rows`, or row j. A channel has
 * channel_blocks blocks. The grid's sizes come last. */
typedef struct crk_mmq_quantize {
  uint64_t k, padded_k, columns, channels, samples, rows;
  uint64_t row_stride, channel_stride, sample_stride, channel_blocks;
  uint32_t blocks_x, blocks_y, blocks_z; /* columns, blocks along k, channels */
} crk_mmq_quantize_t;

/* A product: `rows` rows of weights of row_blocks blocks, weight_stride blocks apart, times `columns` columns of mmq blocks. A column
 * of dst begins every dst_stride elements; its dtype is the place among f32, f16 and bf16. */
typedef struct crk_mmq_product {
  uint64_t rows, columns, weight_stride, dst_stride;
  uint32_t row_blocks, dtype;
  uint32_t blocks_x, blocks_y; /* of the grid: tiles of columns, tiles of rows */
} crk_mmq_product_t;

#endif
