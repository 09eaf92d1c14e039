/* Arguments of the products of quantized weights with many columns (mmq), and the numbers that launchers and kernels
 * share. Plain C; csrc/launch/mmq.c and matmat.c fill the structs in, kernels/quantized/mmq.h and matmat.h read
 * them. */
#ifndef CRK_MMQ_CALL_H
#define CRK_MMQ_CALL_H

#include <stdint.h>

#include "call/sliding.h"

/* An mmq block holds 128 activations of one column. First come four words of scales and sums (CRK_MMQ_LAYOUTS), then 32
 * words of 8-bit codes. */
enum { CRK_MMQ_ELEMENTS = 128, CRK_MMQ_WORDS = 36, CRK_MMQ_BYTES = 4 * CRK_MMQ_WORDS };

/* XX(name): the layouts of the four words. kernels/quantized/mmq.h describes each. */
#define CRK_MMQ_LAYOUTS(XX) XX(D4) XX(DS4) XX(D2S6)

/* XX(format, format as in kernel names, layout, numbers): the layout that the product of each weight format reads, and
 * the scales and minima that a row has per 128 elements. */
#define CRK_MMQ_FORMATS(XX) \
  XX(Q4_0, q4_0, DS4, 4)    \
  XX(Q4_1, q4_1, DS4, 8)    \
  XX(Q5_0, q5_0, D4, 4)     \
  XX(Q5_1, q5_1, DS4, 8)    \
  XX(Q8_0, q8_0, D4, 4)     \
  XX(Q2_K, q2_K, D2S6, 16)  \
  XX(Q3_K, q3_K, D4, 8)     \
  XX(Q4_K, q4_K, DS4, 8)    \
  XX(Q5_K, q5_K, DS4, 8)    \
  XX(Q6_K, q6_K, D4, 8)

/* XX(rows, columns, ...): the tiles of dst for which there are kernels, the largest first. A block of threads computes
 * one tile at a time. AMD GPUs with waves of 64 lanes use no wide tiles: a compute unit has shared memory for one block
 * with such a tile. */
#define CRK_MMQ_WIDE_TILES(XX, ...) XX(128, 128, __VA_ARGS__)
#define CRK_MMQ_TILES(XX, ...)      XX(128, 64, __VA_ARGS__) XX(64, 32, __VA_ARGS__) XX(64, 16, __VA_ARGS__)
enum { CRK_MMQ_THREADS = 256, CRK_MMQ_PART_PIECES = 8 /* two steps: a block of 256 weights */ };

/* Words of shared memory that hold 128 elements of a tile's rows and columns. NVIDIA GPUs have dynamic shared memory
 * for two such steps. The others have static shared memory for one, and their kernels count its words. */
#define CRK_MMQ_STEP_WORDS(rows, columns, numbers) (((rows) + (columns)) * CRK_MMQ_WORDS + (numbers) * ((rows) + 8))

/* On NVIDIA GPUs there may be stages behind these steps: weights as they are in memory (quantized/matmat_staged.h). A
 * stage of a row has 128 elements, or a block of 256, at any distance from 16 aligned bytes. The pitch from row to row
 * is an odd multiple of 16 bytes, which spreads rows over the banks. The bytes of all stages are 0 if a tile has none,
 * for one of these reasons:
 *
 *   - Weights are mostly loaded 16 bytes at a time anyway.
 *   - Small tiles of blocks of 256 were slower with stages in small products.
 *   - Wide tiles were slower with stages, except those of q8_0 (34 bytes). */
#define CRK_MMQ_STAGE_PITCH(elements, bytes) ((((elements) == 32 ? 4 : 1) * (bytes) + 14 + 15) / 16 / 2 * 32 + 16)
#define CRK_MMQ_STAGES(rows)                 ((rows) > 64 ? 1 : 3)
#define CRK_MMQ_HAS_STAGES(rows, columns, elements, bytes) \
  ((bytes) % 16 != 0 && ((rows) > 64 || (elements) == 32) && ((rows) * (columns) <= 128 * 64 || (bytes) == 34))
#define CRK_MMQ_STAGED_BYTES(rows, columns, elements, bytes)                  \
  (CRK_MMQ_HAS_STAGES(rows, columns, elements, bytes)                         \
       ? CRK_MMQ_STAGES(rows) * (rows) * CRK_MMQ_STAGE_PITCH(elements, bytes) \
       : 0)

/* Arguments of the kernel that quantizes rows of activations x to mmq blocks. Column j is made from row ids[j] of x, or
 * from row j without ids. Element i of row r of channel c of sample s is x[s * sample_stride + c * channel_stride + r *
 * row_stride + i] if i < k, and 0 if k <= i < padded_k.
 *
 * k               elements per row of x
 * padded_k        elements per column of blocks, a multiple of CRK_MMQ_ELEMENTS
 * columns         columns of blocks per channel, and ids
 * channels        channels per sample
 * samples         samples of x and of the result
 * rows            rows of x per channel: ids from `rows` on are reported as out of range
 * row_stride, channel_stride, sample_stride   elements of x from one row, channel or sample to the next
 * channel_blocks  mmq blocks from one channel of the result to the next
 * blocks_x, blocks_y, blocks_z   blocks of the grid: along columns, along k, along channels
 * sums            what s is: CRK_SUM_OF_VALUES or CRK_SUM_OF_CODES (quantized_call.h) */
typedef struct crk_mmq_quantize {
  uint64_t k, padded_k, columns, channels, samples, rows;
  uint64_t row_stride, channel_stride, sample_stride, channel_blocks;
  uint32_t blocks_x, blocks_y, blocks_z, sums;
} crk_mmq_quantize_t;

/* Arguments of the product of quantized weights with columns of mmq blocks: dst[column][row] is the sum over k of
 * weights[row][k] * y[column][k].
 *
 * rows           rows of weights
 * columns        columns of y and of dst
 * weight_stride  blocks of weights from one row to the next
 * dst_stride     elements of dst from one column to the next
 * row_blocks     blocks of weights per row
 * dtype          type of dst: 0 is f32, 1 is f16, 2 is bf16
 * blocks_x, blocks_y   blocks of the grid: tiles along the columns, tiles along the rows
 * part_blocks    blocks of CRK_MMQ_PART_PIECES pieces of 32 elements in a part of the sum over k; the last part may
 *                have fewer
 * part_stride    elements of dst between the first results of two parts in a row; 0 with one part
 * across         division by blocks_x; narrow
 * order          order of the blocks, those of a row of tiles one after the other; narrow */
typedef struct crk_mmq_product {
  uint64_t rows, columns, weight_stride, dst_stride, part_stride;
  uint32_t row_blocks, dtype;
  uint32_t blocks_x, blocks_y;
  uint32_t part_blocks, unused; /* the latter is padding */
  crk_divisor_t across;
  crk_cache_order_t order;
} crk_mmq_product_t;

#endif
