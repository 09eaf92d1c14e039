/* heap_blocks.h: the parts of a heap, for heap.c and memory.c: segments, blocks, and the lists and the table that they
 * are in. The caller of each function holds the heap's lock unless a comment says otherwise. */
#ifndef CRK_HEAP_BLOCKS_H
#define CRK_HEAP_BLOCKS_H

#include "memory/heap.h"
#include "sanitizer.h"

enum { CRK_POOL_SMALL, CRK_POOL_LARGE };

/* The largest block of the small pool, and the largest segment that is allocated for it. */
#define CRK_MOST_SMALL         ((size_t)1 << 20)
#define CRK_MOST_SMALL_SEGMENT ((size_t)16 << 20)

struct crk_segment {
  crk_segment_t *next, *previous; /* in the list of all segments */
  crk_segment_t *newer, *older; /* in the list of segments without a live block, ordered by `emptied_at` */
  crk_block_t *first;
  size_t bytes;
  size_t live; /* live blocks: given out, retired, reserved, or freed in a running capture */
  uint64_t emptied_at; /* the heap's count of synchronisations when the last live block was freed */
  int pool;
};

/* Tells a sanitizer that memory must not be accessed, or that it may be accessed again. Only for the CPU device, whose
 * work is done when a call returns; crk_free launches what the handle keeps. On other devices, work in the stream may
 * still use freed memory. */
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

/* ---- sizes; functions without a heap need no lock */

static inline int crk_priv_pool_of(size_t bytes) { return bytes <= CRK_MOST_SMALL ? CRK_POOL_SMALL : CRK_POOL_LARGE; }

/* Whether blocks are cut and joined. With a cache limit of 0, each block is a driver allocation of its own. */
static inline bool crk_priv_heap_is_cut(const crk_heap_t *heap) { return heap->limit > 0; }

/* The size of the block for an allocation of `bytes`; 0 if no device has that much memory. */
size_t crk_priv_block_bytes(size_t bytes);

/* The size of a new segment for a block of `bytes`. In the small pool, segments grow with the pool. In the large pool,
 * a segment has room for up to six such blocks. It takes at most an eighth of the heap, so that its unused part is
 * small; this bound is at least 16 MiB and at most 128 MiB. A block above the bound gets a segment of its own. */
size_t crk_priv_segment_bytes(const crk_heap_t *heap, int pool, size_t bytes);

/* ---- bins */

void crk_priv_bins_add(crk_heap_t *heap, crk_bins_t *bins, crk_block_t *block);
void crk_priv_bins_remove(crk_heap_t *heap, crk_block_t *block);

/* Finds a block of at least `bytes`, one of the smallest, or NULL. Passes over huge blocks that `bytes` is a small part
 * of, unless `may_cut_huge`: their own user would find them cut, and take another. */
crk_block_t *crk_priv_bins_find(const crk_bins_t *bins, int pool, size_t bytes, bool may_cut_huge);

/* Returns the first size class from `from` on that has a block; CRK_SIZE_CLASSES if none has. */
uint32_t crk_priv_bins_class(const uint64_t *occupied, uint32_t from);

/* Whether any block is in the bins. */
bool crk_priv_bins_has_any(const crk_bins_t *bins);

/* Returns the smaller of two blocks; either may be NULL. */
crk_block_t *crk_priv_block_smaller(crk_block_t *a, crk_block_t *b);

/* ---- the table of given-out blocks */

/* Makes room for one more block. Returns false if there is no host memory. */
bool crk_priv_table_reserve(crk_heap_t *heap);
void crk_priv_table_insert(crk_heap_t *heap, crk_block_t *block);
crk_block_t *crk_priv_table_find(const crk_heap_t *heap, const void *ptr);
void crk_priv_table_remove(crk_heap_t *heap, crk_block_t *block);

/* ---- blocks and segments */

/* Takes a free block out of its bins and counts it as live. */
void crk_priv_block_take(crk_heap_t *heap, crk_block_t *block);

/* Frees a live block, which is in no bins, and joins it with its free neighbours. `owner` is the handle whose stream
 * may still use it. Returns the joined block. */
crk_block_t *crk_priv_block_release(crk_heap_t *heap, crk_block_t *block, crk_device_t owner);

/* Marks a freed block as retired: it is kept until the graphs that use it are destroyed. */
void crk_priv_block_retire(crk_heap_t *heap, crk_block_t *block);

/* Cuts the part beyond `bytes` off a free block and adds it to the same bins. Nothing is cut if that part is smaller
 * than a step of the pool, or if there is no host memory. */
void crk_priv_block_cut(crk_heap_t *heap, crk_block_t *block, size_t bytes);

/* Called when the handle's work up to `stamp` is done. Moves the blocks that the handle freed before that to the
 * heap's idle bins, where every handle can get them. */
void crk_priv_blocks_idle(crk_heap_t *heap, crk_device_t device, uint64_t stamp);

/* Joins all idle blocks that are neighbours. */
void crk_priv_blocks_join(crk_heap_t *heap);

/* Adds a segment without a live block to the list of empty segments. */
void crk_priv_segment_emptied(crk_heap_t *heap, crk_segment_t *segment);

/* Takes segments out of the heap that have no live block and that no stream uses, until at most `keep` bytes are
 * cached. Begins with the segment that was emptied first. Keeps segments of fewer than `least` bytes, and segments that
 * were emptied after synchronisation number `until`. Returns the segments, linked by `next`, for
 * crk_priv_segments_free. */
crk_segment_t *crk_priv_segments_unlink(crk_heap_t *heap, size_t keep, size_t least, uint64_t until);

/* Returns unlinked segments to the driver. The caller does not hold the heap's lock, because the driver may wait. */
void crk_priv_segments_free(crk_heap_t *heap, crk_segment_t *segment);

/* ---- heap.c */

/* Whether the handle's stream has done all work up to a stamp above `since`. If so, the blocks freed before that stamp
 * become idle. Queries an event up to `polls` times and never waits. False while the handle keeps launches. While the
 * handle is being captured no block becomes idle; true then if none is left to become so. */
bool crk_priv_heap_has_passed(crk_heap_t *heap, crk_device_t device, uint64_t since, int polls);

/* Unlinks segments that can be returned to the driver without a wait. Returns NULL unless the cache is above its limit
 * and all streams of the GPU are idle. `idle` is a handle whose stream is known to be idle, or NULL. */
crk_segment_t *crk_priv_heap_unlink_surplus(crk_heap_t *heap, crk_device_t idle);

/* Unlinks large segments without a live block to make room for a new segment of `bytes`. Never waits: returns NULL
 * unless all streams of the GPU are idle. Also returns NULL if the new segment is small. It stops after twice the
 * heap's peak was replaced in this way, so that alternating sizes do not replace each other for ever. */
crk_segment_t *crk_priv_heap_unlink_for(crk_heap_t *heap, size_t bytes);

/* Returns cached memory above `keep` bytes to the driver. First waits for the work that may still use it, without
 * holding the lock. Free memory that cannot be returned is idle afterwards. If that work failed, the memory still goes
 * to the driver, and the function returns the failure. The reserved blocks of the handle `reserver` are released first,
 * unless it is NULL. */
crk_status_t crk_priv_heap_trim(crk_heap_t *heap, size_t keep, crk_device_t reserver);

#endif
