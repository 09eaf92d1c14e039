/* Arguments of products with quantized weights, and how much work a block of threads does. Plain C, shared by
 * csrc/launch (product.h, quantized.c, matvec.c, moe.c) and the kernels of kernels/quantized and kernels/moe. */
#ifndef CRK_QUANTIZED_CALL_H
#define CRK_QUANTIZED_CALL_H

#include <stdint.h>

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

/* Arguments of the product of quantized weights with up to eight columns of q8_1 blocks: dst[column][row] = the sum
 * over k of weights[row][k] * x[column][k]. Rows of weights follow each other without gaps. A block of threads computes
 * `block_rows` neighbouring rows; the first `larger` blocks compute one more. */
typedef struct crk_vec_product {
  const void *weights, *x; /* quantized weights; q8_1 blocks. Borrowed until the kernel has run */
  void *dst; /* the result, aligned to its elements */
  uint32_t dtype; /* type of dst as crk_priv_activation_index numbers it: 0 is f32, 1 is f16, 2 is bf16 */
  uint32_t columns; /* columns of x and dst, at most as many as the kernel is made for */
  uint32_t row_blocks; /* blocks of weights per row */
  uint32_t block_rows, larger; /* rows per block of threads; blocks of threads with one row more */
  uint64_t rows; /* rows of weights */
  uint64_t x_stride, dst_stride; /* from one column to the next: q8_1 blocks of x, elements of dst */
} crk_vec_product_t;

#endif
