/* heap_blocks.h: the parts of a heap, for heap.c and memory.c: segments, their blocks, and the lists that these lie in. The
 * heap's lock is held around each call, if nothing else is said. */
#ifndef CRK_HEAP_BLOCKS_H
#define CRK_HEAP_BLOCKS_H

#include "memory/heap.h"
#include "sanitizer.h"

enum { CRK_POOL_SMALL, CRK_POOL_LARGE };

/* The most bytes of a block in the small pool, and of a segment that it makes. */
#define CRK_MOST_SMALL         ((size_t)1 << 20)
#define CRK_MOST_SMALL_SEGMENT ((size_t)16 << 20)

struct crk_segment {
  crk_segment_t *next, *previous; /* among all */
  crk_segment_t *newer, *older; /* among those without a live block, by the time they became so */
  crk_block_t *first;
  size_t bytes;
  size_t live; /* blocks that are given out, retired, reserved or in a capture's hands */
  uint64_t emptied_at; /* the heap's count of synchronisations at the end of the last live block */
  int pool;
};

/* Tells a sanitizer that nobody may touch the memory, or that its owner may again. Only the CPU device does this: its work
 * is done when a call returns. Elsewhere, later work may still use freed memory. */
static inline void crk_priv_heap_poison(const crk_heap_t *heap, void *ptr, size_t bytes) {
  if (heap->driver->backend == CRK_BACKEND_CPU) {
    CRK_SAN_POISON(ptr, bytes);
  }
}

static inline void crk_priv_heap_unpoison(const crk_heap_t *heap, void *ptr, size_t bytes) {
  if (heap->driver->backend == CRK_BACKEND_CPU) {
    CRK_SAN_UNPOISON(ptr, bytes);
  }
}

/* ---- sizes; no lock needed but where a heap is given */

static inline int crk_priv_pool_of(size_t bytes) { return bytes <= CRK_MOST_SMALL ? CRK_POOL_SMALL : CRK_POOL_LARGE; }

/* Whether blocks are cut and joined. With a bound of 0 each is a driver's allocation of its own. */
static inline bool crk_priv_heap_is_cut(const crk_heap_t *heap) { return heap->limit > 0; }

/* Size of the block for `bytes`; 0 where no device has so much. */
size_t crk_priv_block_bytes(size_t bytes);

/* Size of a segment for a block of `bytes`. A small block's segment grows with the small pool. A large block's has room for
 * up to six such blocks, which are joined when they are free; the segment takes at most an eighth of what the heap has,
 * so that its unused part is little. A larger block is alone. */
size_t crk_priv_segment_bytes(const crk_heap_t *heap, int pool, size_t bytes);

/* ---- bins */

void crk_priv_bins_add(crk_heap_t *heap, crk_bins_t *bins, crk_block_t *block);
void crk_priv_bins_remove(crk_heap_t *heap, crk_block_t *block);

/* A block that holds `bytes` with little to spare, or NULL. */
crk_block_t *crk_priv_bins_find(const crk_bins_t *bins, int pool, size_t bytes);

/* The first size class from `from` on that has a block; CRK_SIZE_CLASSES where none has. */
uint32_t crk_priv_bins_class(const uint64_t *occupied, uint32_t from);

/* The smaller of two blocks, either of which may be NULL. */
crk_block_t *crk_priv_block_smaller(crk_block_t *a, crk_block_t *b);

/* ---- the table of blocks that are given out */

/* Makes room for one more block; false without host memory. */
bool crk_priv_table_reserve(crk_heap_t *heap);
void crk_priv_table_insert(crk_heap_t *heap, crk_block_t *block);
crk_block_t *crk_priv_table_find(const crk_heap_t *heap, const void *ptr);
void crk_priv_table_remove(crk_heap_t *heap, crk_block_t *block);

/* ---- blocks and segments */

/* A free block leaves its bins and counts as live. */
void crk_priv_block_take(crk_heap_t *heap, crk_block_t *block);

/* The end of a live block, which is in no bins: it is joined with its neighbours and free. `owner` is the handle whose
 * stream may still use it. Gives the block that it has become a part of. */
crk_block_t *crk_priv_block_release(crk_heap_t *heap, crk_block_t *block, crk_device_t owner);

/* A block that was freed waits for the graphs that use it. */
void crk_priv_block_retire(crk_heap_t *heap, crk_block_t *block);

/* Cuts what a free block has beyond `bytes` off and leaves it in the block's bins. What is less than a step of its pool
 * stays, and so it does without host memory. */
void crk_priv_block_cut(crk_heap_t *heap, crk_block_t *block, size_t bytes);

/* The handle's work up to `ticket` is done: the blocks that its stream was the last to use are anybody's. */
void crk_priv_blocks_idle(crk_heap_t *heap, crk_device_t device, uint64_t ticket);

/* Neighbours that became idle one by one become one block. */
void crk_priv_blocks_join(crk_heap_t *heap);

/* The last live block of a segment is gone. */
void crk_priv_segment_emptied(crk_heap_t *heap, crk_segment_t *segment);

/* Takes segments without a live block, and that no stream uses, out of the heap until no more than `keep` bytes are
 * cached: those that were emptied first, and none that was emptied after the synchronisation `until`. Chains them by
 * `next`; they are to be given to crk_priv_segments_free. */
crk_segment_t *crk_priv_segments_unlink(crk_heap_t *heap, size_t keep, uint64_t until);

/* Gives unlinked segments back to the driver. Without the heap's lock: the driver may wait. */
void crk_priv_segments_free(crk_heap_t *heap, crk_segment_t *segment);

/* ---- heap.c */

/* Whether the handle's stream has done all work up to a time after `since`; what it then no longer uses is idle. Asks the
 * driver up to `polls` times, and never waits. */
bool crk_priv_heap_has_passed(crk_heap_t *heap, crk_device_t device, uint64_t since, int polls);

/* What can go back to the driver without a wait: nothing unless the cache is above its bound and the GPU is idle. `idle`
 * is a handle whose stream is known to be, or NULL. */
crk_segment_t *crk_priv_heap_unlink_surplus(crk_heap_t *heap, crk_device_t idle);

/* Segments without a live block in whose place a new one of `bytes` comes. Never waits: NULL unless the GPU is idle. Also
 * NULL when the heap has been replaced twice over: sizes in turn must not take each other's place for ever. */
crk_segment_t *crk_priv_heap_unlink_for(crk_heap_t *heap, size_t bytes);

/* Gives the driver what is cached beyond `keep` bytes, after the work that may still use it; waits, without the lock.
 * What cannot go back is idle afterwards. Where the work failed the memory goes back all the same. What the handle
 * `reserver` reserved goes, too, unless that is NULL. */
crk_status_t crk_priv_heap_trim(crk_heap_t *heap, size_t keep, crk_device_t reserver);

#endif
