/* How much the launchers' kernels of quantized weights do in a block of threads. Plain C: csrc/launch/quantized.c counts blocks by
 * it. */
#ifndef CRK_QUANTIZED_CALL_H
#define CRK_QUANTIZED_CALL_H

#include <stdint.h>

/* Elements that a block of threads dequantizes at a time, of quantized blocks of so many bytes and elements, which are then whole
 * pieces of 16 bytes and at most 6720 bytes together: a compute unit has shared memory for as many blocks of threads as it holds. */
#define CRK_DEQUANTIZE_TILE(bytes, elements) ((bytes) > (elements) ? 4096 : 8192)

/* Threads that quantize 512 activations. */
#define CRK_QUANTIZE_THREADS 128

/* Rows that 32 lanes multiply with a vector at once, so that its elements are loaded once for all of them. */
#define CRK_VECTOR_ROWS 2

/* The waves of a block that multiplies rows with one to eight columns, and the most rows that it makes at a time. */
#define CRK_VEC_WAVES 4
#define CRK_VEC_ROWS  64

/* Where the GPU copies to shared memory by itself, what a wave has in its part: three stages, if they are no more than these bytes
 * together, else two. More made an H200 slower. */
#define CRK_VEC_STAGED_BYTES 8192

/* Shared memory of a block of waves of 64 lanes, of which eight lie on each SIMD unit: an eighth of a compute unit's. */
#define CRK_VEC_WIDE_BYTES 8192

/* Blocks of which an NVIDIA multiprocessor is to have registers enough, by the columns that the kernel is made for. */
#define CRK_VEC_BLOCKS(columns) ((columns) <= 2 ? 4 : 3)

/* Rows of quantized weights, which follow each other, times `columns` columns of q8_1 blocks, at most as many as the kernel is made
 * for. A block makes `block_rows` rows that follow each other, the first `larger` blocks one more. */
typedef struct crk_vec_product {
  const void *weights, *x;
  void *dst;
  uint32_t dtype; /* of dst, as crk_priv_activation_index counts it */
  uint32_t columns;
  uint32_t row_blocks; /* of weights */
  uint32_t block_rows, larger;
  uint64_t rows;
  uint64_t x_stride, dst_stride; /* from one column to the next: blocks, elements */
} crk_vec_product_t;

#endif
