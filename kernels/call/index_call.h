/* What the launchers of indexing pass to their kernels by value. Plain C: csrc/launch/indexing.c fills it in, indexing.h reads it.
 * Tensors are (left, dim, right); the indexed dim is the middle one. Sizes and strides are in elements. */
#ifndef CRK_INDEX_CALL_H
#define CRK_INDEX_CALL_H

#include "call/fault_word.h"
#include "call/launch_threads.h"
#include "call/nd.h"

enum {
  CRK_INDEX_THREADS = CRK_LAUNCHED_THREADS, /* of a block */
  CRK_INDEX_PIECES = 2, /* of 16 bytes that a thread selects */
  CRK_INDEX_IDS = 4 /* that a thread looks at before its block updates */
};

/* Elements that a thread has at once: as many as need no more registers than other waves leave. */
#define CRK_GATHER_ELEMENTS(bytes) ((bytes) <= 4 ? 4 : 2)
#define CRK_UPDATE_ELEMENTS(bytes) ((bytes) == 1 ? 4 : 16 / (bytes))

/* Ids of a type that is read at run time: the branch is the same for all threads, and every kernel is there once. */
typedef struct crk_ids {
  const void *ptr;
  uint64_t limit; /* a smaller id is a position: the dim's size, or the sentinel where that is less */
  int64_t sentinel;
  uint32_t dtype; /* a crk_dtype_t: u8, u32, i16, i32, i64 */
  uint32_t unused;
  crk_fault_t fault;
} crk_ids_t;

typedef struct crk_index_select {
  crk_ids_t ids;
  uint64_t ids_stride;
  const void *src;
  void *dst;
  uint64_t numel; /* of dst */
  uint64_t src_left, src_row; /* strides of src's left and indexed dims; rows are contiguous */
  crk_nd_dim_t right, count; /* the length of a row; ids */
  uint32_t wide; /* 64-bit divisions */

  /* Where rows are whole pieces of 16 bytes, dst is aligned to them, and dst, src and ids have less than 4 GiB each: */
  uint32_t pieces; /* of dst */
  uint32_t left;
  uint32_t unused;
  crk_nd_dim_t row_pieces;
} crk_index_select_t;

/* With a crk_nd_t: operand 0 is src with a stride of 0 in the indexed dim, operand 1 ids; dst is contiguous. */
typedef struct crk_gather {
  crk_ids_t ids;
  const void *src;
  void *dst;
  uint64_t src_stride; /* of the indexed dim */
} crk_gather_t;

/* A thread for each column (left, right) of ids and src, which have the same dims. */
typedef struct crk_scatter {
  crk_ids_t ids;
  const void *src;
  void *dst;
  uint64_t columns; /* left * right */
  uint64_t count, dst_dim; /* lengths of the indexed dim */
  crk_nd_dim_t right;
  uint32_t wide;
  uint32_t block, threads; /* threads of a block, of the grid */
  uint32_t unused;
} crk_scatter_t;

/* One id for each row of src. A block has `range` rows of dst in one tile of columns; each of its groups of 2^lanes_log2 threads
 * has every (256 >> lanes_log2)th of these rows. Blocks go by tiles, ranges, left. */
typedef struct crk_index_update {
  crk_ids_t ids;
  uint64_t ids_left, ids_stride;
  const void *src;
  void *dst;
  uint64_t count; /* rows of src */
  uint64_t right; /* elements of a row */
  uint64_t src_left, dst_left;
  uint64_t range; /* below 2^32 */
  uint64_t blocks, step; /* of work; launched */
  crk_nd_dim_t tiles, ranges; /* wide */
  uint32_t lanes_log2;
  uint32_t packs; /* a thread has CRK_UPDATE_ELEMENTS of a row, else one */
} crk_index_update_t;

#endif
