/* Arguments of the launchers' reductions, passed by value. Plain C; csrc/launch/reduce.c fills the structs in.
 * crk_reduce_space_t is read by kernels/reduce/reduce_rows.h, crk_reduce_even_t by reduce_even.h, crk_reduce_dense_t by
 * reduce_dense.h.
 *
 * An output is one element of dst: the reduction of `per_output` elements of src. A state is the partial result of one
 * thread for one output. */
#ifndef CRK_REDUCE_SPACE_H
#define CRK_REDUCE_SPACE_H

#include "call/nd.h"

/* Threads per block of all reductions. */
#define CRK_REDUCE_THREADS 256

/* The "columns" kernel: neighbouring outputs per thread. A load takes 16 bytes, but a thread has at most 8 states. It
 * has at most 4 if the op compares (for a position, or to keep a NaN), because the outcomes of comparisons take scalar
 * registers. */
#define CRK_REDUCE_MOST_COLUMNS(compares) ((compares) ? 4 : 8)
#define CRK_REDUCE_COLUMNS(bytes, compares) \
  (16 / (int)(bytes) < CRK_REDUCE_MOST_COLUMNS(compares) ? 16 / (int)(bytes) : CRK_REDUCE_MOST_COLUMNS(compares))

/* Flags of crk_reduce_space_t. */
enum {
  CRK_REDUCE_WIDE = 1, /* an index or an offset among the reduced dims may reach 2^31 */
  CRK_REDUCE_KEPT_WIDE = 2, /* an index or an offset among the kept dims may reach 2^31 */
  CRK_REDUCE_ALIGNED = 4 /* "rows" kernel: every run of the innermost dim begins at a multiple of 16 bytes */
};

/* Arguments of the "rows", "columns" and "strided" kernels. In "rows", threads lie along the innermost reduced dim,
 * which is contiguous; one pass over that dim is a run. In "columns" and "strided", threads lie along the outputs.
 * "strided" is "columns" with one output per thread. */
typedef struct crk_reduce_space {
  uint64_t outputs, per_output; /* outputs; elements reduced to each of them. Neither is 0 */
  uint32_t reduced_rank, kept_rank, flags; /* number of reduced dims, number of kept dims; CRK_REDUCE_WIDE and so on */

  /* rows: 2^output_log2 threads (1 to 32, or the block) share an output, and 2^run_log2 of them share a run. columns:
   * 2^output_log2 threads of a block lie along the outputs, the others along the reduced dims. Here run_log2 is 0. */
  uint32_t output_log2, run_log2;

  /* `splits` blocks, numbered by the grid's y, make each output. If there are several, each stores its states, and a
   * second kernel joins them. rows: a run is cut into 2^parts_log2 parts, and splits >> parts_log2 blocks share the
   * runs of an output. */
  uint32_t splits, parts_log2;
  uint32_t blocks; /* blocks along the grid's x: the step of each block's loop */
  uint64_t part, runs; /* elements per part of a run; runs per output: per_output = runs * dims[0].size */

  /* The reduced dims, then the kept ones, each group collapsed as in nd.h with the innermost dim first. If the op does
   * not ask for positions, the reduced dims are sorted by stride and not in the tensor's order. */
  crk_nd_dim_t dims[CRK_ND_RANK];
  uint64_t strides[CRK_ND_RANK]; /* in elements */
} crk_reduce_space_t;

/* Arguments of the "even" kernel, for rows that are whole packs of 16 bytes. Row r begins at element r * stride, which
 * is aligned to 16 bytes.
 *
 * A short row has one pack per lane: 2^lanes_log2 lanes (1 to 32) share it. They take 2^turns_log2 rows one after the
 * other, at most as many rows as lanes. 256 short rows span less than 2^31 bytes. A longer row is shared by 32 lanes,
 * or by all 2^8 threads of the block. */
typedef struct crk_reduce_even {
  uint64_t outputs, stride; /* rows of src; elements from one row to the next */
  uint32_t packs, lanes_log2, turns_log2; /* packs per row, log2 of its threads, log2 of the turns (long rows: 0) */
  uint32_t is_short; /* 1: rows are short */
  uint32_t blocks; /* blocks of the grid: the step of each block's loop */
  uint32_t unused; /* padding */
} crk_reduce_even_t;

/* Shared memory per block of the "dense" kernel. It is an eighth of a compute unit's 64 KiB, so that eight blocks
 * fit. */
#define CRK_REDUCE_DENSE_BYTES 8192

/* Arguments of the "dense" kernel, for short rows that follow each other without gaps. A block copies 2^rows_log2 rows
 * at a time to shared memory. The copy begins at the multiple of 16 bytes at or before the first row and fits in
 * CRK_REDUCE_DENSE_BYTES. 2^lanes_log2 lanes (1 to 32) share a row; each takes `share` neighbouring elements. A block
 * copies at least as many rows as its threads reduce at once. */
typedef struct crk_reduce_dense {
  uint64_t outputs; /* rows of src */
  uint32_t length, share, lanes_log2, rows_log2; /* length: elements per row; the others as above */
  uint32_t blocks; /* blocks of the grid: the step of each block's loop */
  uint32_t unused; /* padding */
} crk_reduce_dense_t;

#endif
