/* What a launcher's reduction is told of its tensor, by value. Plain C: csrc/launch/reduce.c fills it, reduce_rows.h, reduce_even.h and
 * reduce_dense.h read it.
 *
 * The reduced dims come first, then the kept ones, each innermost first, collapsed as in nd.h; the reduced dims in an order that
 * is not the tensor's where the op does not ask for positions. A block has 256 threads. */
#ifndef CRK_REDUCE_SPACE_H
#define CRK_REDUCE_SPACE_H

#include "call/nd.h"

#define CRK_REDUCE_THREADS 256

/* columns: outputs a thread has, next to each other: 16 bytes a load, but 8 states at most, 4 where an op
 * compares, for a position or to keep a NaN: outcomes take scalar registers. */
#define CRK_REDUCE_MOST_COLUMNS(compares) ((compares) ? 4 : 8)
#define CRK_REDUCE_COLUMNS(bytes, compares) \
  (16 / (int)(bytes) < CRK_REDUCE_MOST_COLUMNS(compares) ? 16 / (int)(bytes) : CRK_REDUCE_MOST_COLUMNS(compares))

enum {
  CRK_REDUCE_WIDE = 1, /* an index or an offset among the reduced dims may reach 2^31 */
  CRK_REDUCE_KEPT_WIDE = 2, /* among the kept dims */
  CRK_REDUCE_ALIGNED = 4 /* rows: every run of the innermost dim begins at a multiple of 16 bytes */
};

typedef struct crk_reduce_space {
  uint64_t outputs, per_output; /* neither is 0 */
  uint32_t reduced_rank, kept_rank, flags;

  /* rows: 2^output_log2 threads an output (1 to 32, or the block), 2^run_log2 of them along a run of the innermost dim. columns:
   * 2^output_log2 threads lie along the outputs, the block's others along the reduced dims; run_log2 is 0. */
  uint32_t output_log2, run_log2;

  /* Each output is made by `splits` blocks, numbered along the grid's y, which leave their states to be joined where that is more
   * than 1. rows: a run is cut in 2^parts_log2 parts of `part` elements, and `splits` >> parts_log2 blocks share the runs. */
  uint32_t splits, parts_log2;
  uint32_t blocks; /* along the grid's x: a block goes on by so many */
  uint64_t part, runs; /* per_output = runs * dims[0].size */

  crk_nd_dim_t dims[CRK_ND_RANK];
  uint64_t strides[CRK_ND_RANK]; /* in elements */
} crk_reduce_space_t;

/* The usual case apart: row r of `packs` packs of 16 bytes begins at r * stride, aligned to them. Short rows, of one pack a lane:
 * 2^lanes_log2 lanes have a row, 1 to 32, and 2^turns_log2 rows one after the other, at most as many as lanes; 256 rows are below
 * 2^31 bytes apart. Longer ones: 32 lanes or a block (2^8 threads) have a row. */
typedef struct crk_reduce_even {
  uint64_t outputs, stride; /* in elements */
  uint32_t packs, lanes_log2, turns_log2;
  uint32_t is_short;
  uint32_t blocks; /* of the grid */
  uint32_t unused;
} crk_reduce_even_t;

/* Short rows of `length` elements that follow each other without gaps: 2^lanes_log2 lanes have a row, 1 to 32, `share` elements each
 * in order. A block has 2^rows_log2 rows at a time, as many as its threads have or more, which take CRK_REDUCE_DENSE_BYTES at most from the
 * multiple of 16 bytes before them on: what eight blocks of a compute unit with 64 KiB of shared memory have. */
#define CRK_REDUCE_DENSE_BYTES 8192

typedef struct crk_reduce_dense {
  uint64_t outputs;
  uint32_t length, share, lanes_log2, rows_log2;
  uint32_t blocks; /* of the grid */
  uint32_t unused;
} crk_reduce_dense_t;

#endif
