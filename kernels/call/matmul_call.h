/* What the launcher of matrix products passes to its kernels, by value, and how these share the work. Plain C:
 * csrc/launch/matmul.c fills it in, matmul_tile.h and matmul_vec.h read it. */
#ifndef CRK_MATMUL_CALL_H
#define CRK_MATMUL_CALL_H

#include <stdint.h>

#include "call/nd.h"
#include "call/sliding.h"

/* XX(rows, columns, threads, rows a thread, columns a thread): the tiles of dst that blocks make, the largest first, which is
 * not for f64: its sums would be too many registers. The last is for few rows. */
#define CRK_MATMUL_LARGE_TILE(XX) XX(128, 128, 256, 8, 8)
#define CRK_MATMUL_TILES(XX) \
  XX(64, 64, 128, 8, 4)      \
  XX(32, 32, 64, 4, 4)       \
  XX(16, 64, 128, 2, 4)

enum {
  CRK_MATMUL_SPLIT_TILE = 1024, /* elements of the tiles for few outputs, whose blocks may have a part of k each */
  CRK_MATMUL_STEP_BYTES = 64, /* of each row, that a block multiplies at once */
  CRK_MATMUL_VEC_THREADS = 256,
  CRK_MATMUL_VEC_ROWS = 2, /* of the matrix, that the same threads multiply with the vector at once */
  CRK_MATMUL_VEC_ACROSS = 8, /* threads along the columns of the matrix, 16 bytes each */
  CRK_MATMUL_VEC_MOST_LOG2 = 8 /* threads of a row of the matrix: at most a block */
};

/* How an operand is read. */
enum {
  CRK_MATMUL_ANY, /* element by element */
  CRK_MATMUL_ALONG_K, /* 16 bytes at once along k, whose stride is 1 */
  CRK_MATMUL_ALONG_ROWS /* along the rows, whose stride is 1 and whose number a multiple of 16 bytes */
};

/* The left operand has m rows of k elements; the right one, seen with its dims exchanged, n rows of k elements. */
typedef struct crk_matmul_operand {
  uint64_t rows;
  uint64_t row_stride, k_stride; /* in elements */
  uint32_t way;
  uint32_t unused;
} crk_matmul_operand_t;

typedef struct crk_matmul {
  crk_nd_t batch; /* the batch's dims; operand 0 is the left one, 1 the right one */
  crk_matmul_operand_t lhs, rhs;
  uint64_t k; /* at least 1 */
  uint64_t row_stride, column_stride; /* of dst; matrices follow each other without gaps */
  uint64_t first_block; /* of this launch */
  crk_divisor_t across, down, parts; /* blocks along n, along m and along k, wide; the batch is last */
  uint64_t part_k; /* of a part but the last, a multiple of a step; several parts' sums follow each other in dst */
  uint32_t by_vectors; /* dst takes packs along n, of as many elements as 16 bytes of sums have */
  uint32_t log2_width; /* threads of a row of the matrix, in matmul_vec.h */
} crk_matmul_t;

#endif
