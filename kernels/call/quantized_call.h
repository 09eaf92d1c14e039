/* Arguments of products with quantized weights, and how much work a block of threads does. Plain C, shared by
 * csrc/launch (product.h, quantized.c, matvec.c, moe.c) and the kernels of kernels/quantized and kernels/moe. */
#ifndef CRK_QUANTIZED_CALL_H
#define CRK_QUANTIZED_CALL_H

#include <stdint.h>

#include "call/rope_call.h"

/* Elements that a block of threads dequantizes at a time, for a format whose quantized blocks have `bytes` bytes and
 * `elements` elements. The quantized blocks of a tile are whole 16-byte pieces and at most 6720 bytes in all. A compute
 * unit then has shared memory for as many blocks of threads as it can hold. */
#define CRK_DEQUANTIZE_TILE(bytes, elements) ((bytes) > (elements) ? 4096 : 8192)

/* What the s of a block of activations is, as f16. In the formats that Candle's functions read and write it is the sum
 * of the values before quantization. In the launchers' own products it is d times the sum of their codes: then a
 * minimum or an offset of the weights meets the same numbers as their codes do, and the results are closer. */
enum { CRK_SUM_OF_VALUES = 0, CRK_SUM_OF_CODES = 1 };

/* Threads per block that quantizes activations: 512 activations at a time. */
#define CRK_QUANTIZE_THREADS 128

/* Rows that 32 lanes multiply with a vector at once. Each element of the vector is loaded once for all of them. */
#define CRK_VECTOR_ROWS 2

/* Waves per block of a product with one to eight columns, and the most rows that the block computes at a time. */
#define CRK_VEC_WAVES 4
#define CRK_VEC_ROWS  64

/* For GPUs that copy to shared memory asynchronously. A wave has three stages of weights in shared memory if all three
 * fit in this many bytes, else two. A larger limit was slower on an H200. */
#define CRK_VEC_STAGED_BYTES 8192

/* Shared memory per block, in bytes, on GPUs with waves of 64 lanes: an eighth of a compute unit's 64 KiB. Eight blocks
 * of four waves give each of its four SIMD units eight waves. */
#define CRK_VEC_WIDE_BYTES 8192

/* Blocks per NVIDIA multiprocessor that nvcc must leave registers for, by the columns that the kernel is made for. */
#define CRK_VEC_BLOCKS(columns) ((columns) <= 2 ? 4 : 3)

/* The most matrices of a grouped product with one to eight columns: those of queries, keys and values. */
enum { CRK_VEC_PARTS = 3 };

/* The rows of one matrix in a product. */
typedef struct crk_vec_part {
  const void *weights; /* quantized rows without gaps, borrowed until the kernel has run */
  void *dst; /* the result, aligned to its elements */
  uint64_t end; /* rows of this part and of all parts before it */
  uint64_t dst_stride; /* elements from one column of dst to the next */
  const float *bias; /* of the part's rows, or NULL */
} crk_vec_part_t;

/* Arguments of the product of quantized weights with up to eight columns of q8_1 blocks: dst[column][row] =
 * bias[row] + the sum over k of weights[row][k] * x[column][k]. The rows of all parts are counted together. A part
 * without rows has the end of the part before it. A block of threads computes `block_rows` neighbouring rows; the first
 * `larger` blocks compute one more. */
typedef struct crk_vec_product {
  crk_vec_part_t parts[CRK_VEC_PARTS];
  const void *x; /* q8_1 blocks, borrowed until the kernel has run */
  uint64_t rows; /* of all parts */
  uint64_t x_stride; /* q8_1 blocks from one column of x to the next */
  uint32_t dtype; /* type of dst as crk_priv_activation_index numbers it: 0 is f32, 1 is f16, 2 is bf16 */
  uint32_t columns; /* columns of x and dst, at most as many as the kernel is made for */
  uint32_t row_blocks; /* blocks of weights per row */
  uint32_t block_rows, larger; /* rows per block of threads; blocks of threads with one row more */
  uint32_t unused; /* padding */
} crk_vec_product_t;

/* Rows of a gate that are quantized together: those of a q8_1 block. */
enum { CRK_GATE_ROWS = 32 };

/* Arguments of dst[row] = activation(gate[row] * x) * (up[row] * x), for one column x of f32. */
typedef struct crk_vec_gate {
  crk_vec_product_t product; /* parts[0] has the weights of the gate, dst and all rows; parts[1] the weights of up */
  void *blocks; /* dst as q8_1 blocks, or NULL. If not, block_rows and larger count CRK_GATE_ROWS rows as one */
  uint32_t gelu; /* 1: the activation is gelu; 0: silu */
  uint32_t unused; /* padding */
} crk_vec_gate_t;

/* Arguments of the product of queries, keys and values with one column x of f32, and of their rotation. The rows of
 * parts[i] are those of its heads. The product counts an interleaved pair as two rows, and another pair as one row. */
typedef struct crk_vec_rope {
  crk_vec_product_t product;
  crk_rope_heads_t heads;
} crk_vec_rope_t;

#endif
