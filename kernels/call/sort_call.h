/* What the launcher of sorts passes to its kernels by value. Plain C: csrc/launch/sort.c fills it, kernels/sort.hip reads it. */
#ifndef CRK_SORT_CALL_H
#define CRK_SORT_CALL_H

#include <stdint.h>

/* Elements that a thread of the argsort kernels holds: few where there is little to sort, many where there is enough. */
#define CRK_SORT_FEW                 4
#define CRK_SORT_MANY(element_bytes) ((element_bytes) > 4 ? 8 : 16)

/* Threads of the largest block, and of one where a row has `group`: a block of several rows is a multiple of every wave. */
#define CRK_SORT_THREADS      512
#define CRK_SORT_BLOCK(group) ((group) < 128 ? 128 : (group))

/* Bytes of dynamic shared memory a thread: room to exchange items, and for the places that leave. */
#define CRK_SORT_SHARED_BYTES 64

/* A row of up to a tile has 2^group_log2 threads, and a block as many rows as it can. Where `tiled`, rows are longer: block
 * (x, y) sorts tile x of row y. A tile is what the kernel's threads of a group hold together. */
typedef struct crk_sort_rows {
  const void *src;
  uint32_t *indices; /* in the row */
  void *values; /* src in the new order, or NULL */
  void *keys; /* the keys in the new order, u32 or, of 8-byte types, u64; or NULL */
  uint64_t rows, columns;
  uint64_t row_step; /* rows that all blocks take at once */
  uint32_t group_log2;
  uint32_t tiled;
  uint64_t flip; /* all ones to sort in descending order, else 0 */
} crk_sort_rows_t;

/* Threads of a merging block, and the elements that it writes. */
#define CRK_MERGE_THREADS 256
#define CRK_MERGE_TILE    2048

/* Neighbouring runs of `run` elements become one; block (x, y) writes tile x of row y. The last pass writes no keys. */
typedef struct crk_sort_merge {
  const void *keys;
  const uint32_t *indices;
  void *merged_keys; /* NULL in the last pass */
  uint32_t *merged_indices;
  const void *src; /* the elements of the first row, for `values` */
  void *values; /* or NULL */
  uint64_t columns;
  uint64_t run; /* a power of two, at least CRK_MERGE_TILE / 2 */
  uint32_t element_bytes; /* of src and values */
  uint32_t unused;
} crk_sort_merge_t;

#endif
