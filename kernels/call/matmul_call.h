/* Arguments of the kernels that multiply matrices, and the tile sizes that launcher and kernels share. Plain C;
 * csrc/launch/matmul.c and conv_cores.c fill crk_matmul_t in; kernels/matmul and kernels/conv/conv_cores.h read it.
 * csrc/launch/matmul_wide.c fills crk_wide_product_t in, kernels/matmul/matmul_wide.h reads it.
 *
 * dst[m][n] = lhs[m][k] * rhs[k][n] for every matrix of the batch. */
#ifndef CRK_MATMUL_CALL_H
#define CRK_MATMUL_CALL_H

#include <stdint.h>

#include "call/nd.h"
#include "call/rope_call.h"
#include "call/sliding.h"

/* XX(rows, columns, threads, rows per thread, columns per thread): the tiles of dst that one block computes, the
 * largest first. Only NVIDIA GPUs have kernels for the wide tile, in f16 and bf16. Such tiles load three quarters of
 * the bytes that large tiles load. The large tile has no kernel for f64: its sums would take too many registers. The
 * last tile is for few rows. Some kernels on matrix cores have other numbers of threads. The launcher takes the number
 * from the kernel's signature (max_threads). */
#define CRK_MATMUL_WIDE_TILE(XX)  XX(128, 256, 256, 0, 0)
#define CRK_MATMUL_LARGE_TILE(XX) XX(128, 128, 256, 8, 8)
#define CRK_MATMUL_TILES(XX) \
  XX(64, 64, 128, 8, 4)      \
  XX(32, 32, 64, 4, 4)       \
  XX(16, 64, 128, 2, 4)

enum {
  CRK_MATMUL_BAND = 16, /* tiles along m in a band (crk_matmul_t) */
  CRK_MATMUL_SPLIT_TILE = 1024, /* largest tile, in elements, whose blocks may share the sum over k */
  /* The largest stride of an operand that is read 16 bytes at once, in elements: the offsets within a tile have 32
   * bits. */
  CRK_MATMUL_MOST_STRIDE = 1 << 20,
  CRK_MATMUL_STEP_BYTES = 64, /* bytes of each row that a block of matmul_tile.h multiplies per step */
  CRK_MATMUL_VEC_THREADS = 256, /* threads per block of matmul_vec.h */
  CRK_MATMUL_VEC_ROWS = 2, /* rows of the matrix that a team of threads multiplies with the vector at once */
  CRK_MATMUL_VEC_ACROSS = 8, /* threads along the columns of the matrix, 16 bytes each */
  CRK_MATMUL_VEC_MOST_LOG2 = 8 /* log2 of the most threads per row of the matrix: a whole block */
};

/* Products on matrix cores (matmul_cores.h): numbers along k per step in f16 and bf16, twice as many as in f32. NVIDIA
 * GPUs keep CRK_MATMUL_CUDA_SLOTS steps in dynamic shared memory, most of them under way. Long steps of small tiles
 * have more bytes under way, and fewer barriers. A step of other GPUs has at most 27 KiB of shared memory, so that a
 * compute unit of CDNA has two blocks. With `is_long` (CRK_LONG_STEPS) the largest tiles have steps of up to 45 KiB;
 * those of medium size would take registers from other blocks. */
#define CRK_MATMUL_DEPTH(is_cuda, is_long, rows, columns)                           \
  ((is_cuda)                                ? ((rows) + (columns) > 128 ? 64 : 128) \
   : (is_long) && (rows) + (columns) >= 256 ? 64                                    \
                                            : ((rows) + (columns) > 128 ? 32 : 64))
#define CRK_MATMUL_CUDA_SLOTS 3
#define CRK_MATMUL_CUDA_BYTES(rows, columns) \
  (CRK_MATMUL_CUDA_SLOTS * ((rows) + (columns)) * CRK_MATMUL_DEPTH(1, 0, rows, columns) * 2)

/* Products with few numbers along k, in f16 and bf16 on NVIDIA GPUs (matmul_short.h): blocks that make several tiles
 * each. Shared memory has two steps, and the results of a tile with 16 bytes of padding behind each row. A
 * multiprocessor must have room for CRK_MATMUL_SHORT_BLOCKS blocks, which is 200 KiB of shared memory. */
enum {
  CRK_MATMUL_SHORT_ROWS = 128,
  CRK_MATMUL_SHORT_COLUMNS = 128,
  CRK_MATMUL_SHORT_THREADS = 128,
  CRK_MATMUL_SHORT_BLOCKS = 2,
  CRK_MATMUL_SHORT_BYTES = 2 * (CRK_MATMUL_SHORT_ROWS + CRK_MATMUL_SHORT_COLUMNS) *
                               CRK_MATMUL_DEPTH(1, 0, CRK_MATMUL_SHORT_ROWS, CRK_MATMUL_SHORT_COLUMNS) * 2 +
                           CRK_MATMUL_SHORT_ROWS * (CRK_MATMUL_SHORT_COLUMNS + 8) * 2
};

/* The kernels that multiply one row x with long rows of matrices (matmul_wide.h). */
enum {
  CRK_WIDE_MATRICES = 3, /* the most matrices of a launch */
  CRK_WIDE_THREADS = 512, /* the most threads of a block */
  /* Pieces of 16 bytes that a thread has of each row. So a thread requests 128 bytes at once. On an H200 this is enough
   * to read memory at full speed. */
  CRK_WIDE_PIECES = 4,
  CRK_WIDE_SUMS = 1024 /* room for sums: the rows of a block times its groups of 32 threads */
};

/* A matrix of `rows` rows, which are contiguous along k. Addresses of rows are multiples of 16 bytes. */
typedef struct crk_wide_matrix {
  const void *first;
  void *dst; /* `rows` elements */
  const void *bias; /* `rows` elements, or NULL */
  uint64_t rows, row_stride; /* the stride in elements */
} crk_wide_matrix_t;

/* x times each matrix. A block multiplies block_rows rows of a matrix, the last block of a matrix the rest. Matrix i
 * has the blocks from end[i - 1] to before end[i]; matrices beyond the last have none. k is whole pieces of 16 bytes.
 * A block sums `chunk` elements of k at a time, at most CRK_WIDE_PIECES pieces per thread. */
typedef struct crk_wide_product {
  crk_wide_matrix_t matrix[CRK_WIDE_MATRICES];
  const void *x;
  uint64_t k, chunk;
  uint32_t end[CRK_WIDE_MATRICES];
  uint32_t block_rows, threads; /* threads of a block, a multiple of 32 */
  uint32_t unused; /* padding */
} crk_wide_product_t;

/* x times the heads of queries, keys and values, and their rotation. The rows of a matrix are counted in pairs. */
typedef struct crk_wide_rope {
  crk_wide_product_t product;
  crk_rope_heads_t heads;
} crk_wide_rope_t;

/* How a block reads an operand from global memory. */
enum {
  CRK_MATMUL_ANY, /* element by element, any strides */
  CRK_MATMUL_ALONG_K, /* 16 bytes at once along k, whose stride is 1 */
  CRK_MATMUL_ALONG_ROWS /* 16 bytes at once across rows: their stride is 1, `rows` elements are whole 16-byte packs */
};

/* One matrix of an operand, as `rows` rows of k elements. The left operand has m rows. The right operand is transposed
 * for this: it has n rows. */
typedef struct crk_matmul_operand {
  uint64_t rows; /* m of the left operand, n of the right one */
  uint64_t row_stride, k_stride; /* in elements */
  uint32_t way; /* CRK_MATMUL_ANY, _ALONG_K or _ALONG_ROWS */
  uint32_t is_aligned; /* 1: `way` is not CRK_MATMUL_ANY, and all 16 bytes that are read at once are aligned */
} crk_matmul_operand_t;

typedef struct crk_matmul {
  crk_nd_t batch; /* the batch's dims; operand 0 is the left matrix, operand 1 the right one */
  crk_matmul_operand_t lhs, rhs; /* a left and a right matrix */
  uint64_t k; /* length of a sum, at least 1 */
  uint64_t row_stride, column_stride; /* strides of dst, in elements; its matrices follow each other without gaps */
  uint64_t first_block; /* number of this launch's first block: a large product takes several launches */
  /* All wide; narrow for matmul_short.h, which has no parts. Blocks are numbered over the tiles of a matrix first, then
   * over the parts of k, then over the batch. The tiles are in bands of CRK_MATMUL_BAND tiles along m, and within a
   * band the tiles along m come first. So the blocks that run at once read few rows of both operands, which then are in
   * the cache.
   * `band`: tiles of a band. heights: tiles along m in a band, and in the last band if it has fewer. */
  crk_divisor_t tiles, parts, band, heights[2];
  crk_cache_order_t order; /* of the tiles' blocks; wide. matmul_vec.h has none */
  uint64_t whole_bands; /* bands with the first height */
  /* Elements of k per part; the last part may have fewer. If there are several parts, each is a whole number of steps,
   * and dst is scratch memory. It takes the sums of part 0 for the whole batch, then those of part 1, and so on. */
  uint64_t part_k;
  uint32_t by_vectors; /* 1: dst can be written in packs along n, of up to 8 halves or 4 wider numbers */
  uint32_t log2_width; /* log2 of the threads per row of the matrix, in matmul_vec.h */
} crk_matmul_t;

#endif
