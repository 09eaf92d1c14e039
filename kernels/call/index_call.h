/* Arguments of the indexing kernels: index_select, gather, scatter, scatter_add and index_add. Plain C;
 * csrc/launch/indexing.c fills the structs in, kernels/indexing/indexing.h reads them. Kernels get them by value.
 *
 * A tensor is seen as (left, dim, right). `dim` is the indexed dim, `left` the product of the dims before it, `right`
 * that of the dims after it. A row is `right` elements. Sizes and strides are in elements. */
#ifndef CRK_INDEX_CALL_H
#define CRK_INDEX_CALL_H

#include "call/fault_word.h"
#include "call/launch_threads.h"
#include "call/nd.h"

enum {
  CRK_INDEX_THREADS = CRK_LAUNCHED_THREADS, /* threads per block */
  /* A block that shares columns has this many, each with so many owners. */
  CRK_SCATTER_COLUMNS = 16,
  CRK_SCATTER_OWNERS = CRK_INDEX_THREADS / CRK_SCATTER_COLUMNS,
  CRK_INDEX_PIECES = 2, /* 16-byte pieces that a thread of index_select copies */
  CRK_INDEX_IDS = 4 /* ids that a thread reads at once before its block updates rows */
};

/* Elements of `bytes` bytes that a thread handles at once. More would take registers that other waves need. */
#define CRK_GATHER_ELEMENTS(bytes) ((bytes) <= 4 ? 4 : 2)
#define CRK_UPDATE_ELEMENTS(bytes) ((bytes) == 1 ? 4 : 16 / (bytes))

/* Ids whose type is read at run time. The branch on the type is the same for all threads, and one kernel serves all
 * types. */
typedef struct crk_ids {
  const void *ptr; /* the first id; borrowed until the kernel has run */
  uint64_t limit; /* ids from 0 to limit - 1 are positions: the smaller of the dim's size and the sentinel */
  int64_t sentinel; /* the id type's maximum: it selects nothing and is not reported */
  uint32_t dtype; /* a crk_dtype_t: u8, u32, i16, i32 or i64 */
  uint32_t unused; /* padding */
  crk_fault_t fault; /* where an id that is neither a position nor the sentinel is reported */
} crk_ids_t;

/* index_select: dst[l, n, r] = src[l, ids[n], r]. dst is contiguous. */
typedef struct crk_index_select {
  crk_ids_t ids; /* the ids of the indexed dim */
  uint64_t ids_stride; /* elements from one id to the next */
  const void *src; /* the first element of src */
  void *dst; /* the first element of dst */
  uint64_t numel; /* elements of dst */
  uint64_t src_left, src_row; /* strides of src's left and of its indexed dim; a row of src is contiguous */
  crk_nd_dim_t right, count; /* right: elements per row. count: number of ids */
  uint32_t wide; /* 1: `right` and `count` are divisors for 64-bit arithmetic */

  /* For the kernel that copies whole rows in 16-byte pieces. It needs rows of whole pieces, and strides of src that are
   * whole pieces. src and dst must be aligned to 16 bytes. src, dst and ids must each be smaller than 4 GiB. The
   * kernel's divisors are for 32-bit arithmetic. */
  uint32_t pieces; /* 16-byte pieces of dst */
  uint32_t left; /* size of the left dim */
  uint32_t unused; /* padding */
  crk_nd_dim_t row_pieces; /* pieces per row */
} crk_index_select_t;

/* gather: dst[i] = src[i, with the id in place of the indexed coordinate]. The kernel also gets a crk_nd_t over dst's
 * dims. Its operand 0 is src with a stride of 0 in the indexed dim; operand 1 is ids. dst is contiguous. */
typedef struct crk_gather {
  crk_ids_t ids; /* the ids of the indexed dim */
  const void *src; /* the first element of src */
  void *dst; /* the first element of dst */
  uint64_t src_stride; /* src's stride in the indexed dim */
} crk_gather_t;

/* scatter and scatter_add: one thread, or CRK_SCATTER_OWNERS of them, per column (l, r) of ids and src, which have the
 * same dims. All three tensors are contiguous. */
typedef struct crk_scatter {
  crk_ids_t ids; /* the ids of the indexed dim */
  const void *src; /* the first element of src */
  void *dst; /* the first element of dst */
  uint64_t columns; /* left * right: columns of ids and src */
  uint64_t count, dst_dim; /* lengths of the indexed dim: count in ids and src, dst_dim in dst */
  crk_nd_dim_t right; /* elements per row */
  uint32_t wide; /* 1: `right` is a divisor for 64-bit arithmetic */
  uint32_t block, threads; /* block: threads per block. threads: threads of the grid */
  uint32_t unused; /* padding */
} crk_scatter_t;

/* index_add, and scatters along the last dim with many ids. There is one id per row of src. A block updates `range`
 * rows of dst within one tile of columns. Its groups of 2^lanes_log2 threads take these rows in turn: group g has every
 * (256 >> lanes_log2)th row, from the g-th on. Blocks count the tiles fastest, then the ranges, then left. */
typedef struct crk_index_update {
  crk_ids_t ids; /* the ids of the indexed dim */
  uint64_t ids_left, ids_stride; /* elements of ids from one l to the next, and from one id to the next */
  const void *src; /* the first element of src */
  void *dst; /* the first element of dst */
  uint64_t count; /* rows of src per l */
  uint64_t right; /* elements per row */
  uint64_t src_left, dst_left; /* elements of src and of dst from one l to the next */
  uint64_t range; /* rows of dst per block, below 2^32 */
  uint64_t blocks, step; /* blocks: blocks of work. step: blocks of the grid */
  crk_nd_dim_t tiles, ranges; /* tiles of columns per row, ranges of rows per l; divisors for 64-bit arithmetic */
  uint32_t lanes_log2; /* log2 of the threads along a row */
  uint32_t packs; /* 1: a thread has CRK_UPDATE_ELEMENTS elements of a row, else one */
} crk_index_update_t;

#endif
