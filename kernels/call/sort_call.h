/* Arguments of the launchers' argsort kernels, and the block sizes that launcher and kernels share. Plain C;
 * csrc/launch/sort.c fills the structs in, kernels/sort.hip and kernels/sort/sorting.h read them. */
#ifndef CRK_SORT_CALL_H
#define CRK_SORT_CALL_H

#include <stdint.h>

/* Elements per thread of the argsort kernels. Few elements keep the device busy when there is little to sort; many
 * elements save exchanges between threads when there is enough. */
#define CRK_SORT_FEW                 4
#define CRK_SORT_MANY(element_bytes) ((element_bytes) > 4 ? 8 : 16)

/* Threads of the largest block, and of a block whose rows have `group` threads each. A block of several rows is a whole
 * number of waves of any width. */
#define CRK_SORT_THREADS      512
#define CRK_SORT_BLOCK(group) ((group) < 128 ? 128 : (group))

/* Dynamic shared memory per thread, in bytes: for the items that threads exchange, then for the sorted places. */
#define CRK_SORT_SHARED_BYTES 64

/* Arguments of argsort_few and argsort_many. Not tiled: a row fits in the registers of a group of 2^group_log2 threads,
 * and each group of a block sorts one row at a time. Tiled: rows are longer, and block (x, y) sorts tile x of row y. A
 * tile is as many elements as one group holds. */
typedef struct crk_sort_rows {
  const void *src; /* rows * columns elements, contiguous */
  uint32_t *indices; /* result: positions in the row, in sorted order */
  void *values; /* result: the elements of src in sorted order; NULL: not wanted */
  void *keys; /* result: the keys in sorted order, u64 for 8-byte types, else u32; NULL: not wanted */
  uint64_t rows, columns; /* rows; elements per row */
  uint64_t row_step; /* rows that all blocks sort at once: the step of each block's loop */
  uint32_t group_log2; /* log2 of the threads per row or tile */
  uint32_t tiled; /* 1: each row is several tiles */
  uint64_t flip; /* xor for keys: all ones to sort in descending order, else 0 */
} crk_sort_rows_t;

/* Threads per block of argsort_merge, and elements that a block writes. */
#define CRK_MERGE_THREADS 256
#define CRK_MERGE_TILE    2048

/* Arguments of argsort_merge: one pass merges neighbouring sorted runs of `run` elements. Block (x, y) writes tile x of
 * row y. */
typedef struct crk_sort_merge {
  const void *keys; /* sorted within runs */
  const uint32_t *indices; /* positions in the row that belong to `keys` */
  void *merged_keys; /* result; NULL in the last pass */
  uint32_t *merged_indices; /* result */
  const void *src; /* the elements of the first row, which `values` is copied from */
  void *values; /* result of the last pass: the elements in sorted order; NULL: not wanted */
  uint64_t columns; /* elements per row */
  uint64_t run; /* elements per sorted run: a power of two, at least CRK_MERGE_TILE / 2 */
  uint32_t element_bytes; /* size of an element of src and values */
  uint32_t unused; /* padding */
} crk_sort_merge_t;

#endif
