/* Segments, blocks, and the lists and the table that they are in; heap_blocks.h explains them. */
#include "memory/heap_blocks.h"

#include <stdlib.h>

#include "core.h"
#include "number.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Drivers round allocations up to a multiple of this. */
#define SEGMENT_STEP (2 * MIB)
#define BLOCK_STEP   ((size_t)512)

/* A block of at least HUGE_BLOCK bytes is only cut for an allocation of at least 1 / HUGE_SHARE of it. Otherwise its
 * regular user would find it cut and allocate another one. */
#define HUGE_BLOCK (512 * MIB)
enum { HUGE_SHARE = 32 };

enum { SCAN = 32 }; /* blocks of one class that are compared for the best fit */

/* Bytes after each block that must not be accessed. AddressSanitizer then detects accesses beyond the end of a
 * buffer. */
#if defined(CRK_ASAN)
#define RED_ZONE BLOCK_STEP
#else
#define RED_ZONE ((size_t)0)
#endif

/* ---- sizes */

/* Block sizes in a pool are multiples of this step. With 64 KiB, a tensor that grows a little at each step of a model
 * still finds a block of the right size. */
static size_t step_of(int pool) { return pool == CRK_POOL_SMALL ? BLOCK_STEP : 64 * KIB; }

size_t crk_priv_block_bytes(size_t bytes) {
  const size_t step = step_of(crk_priv_pool_of(bytes));
  return bytes > (size_t)1 << 62 ? 0 : (bytes + RED_ZONE + step - 1) / step * step;
}

size_t crk_priv_segment_bytes(const crk_heap_t *heap, int pool, size_t bytes) {
  if (!crk_priv_heap_is_cut(heap)) {
    return bytes;
  }
  size_t wanted;
  if (pool == CRK_POOL_SMALL) {
    wanted = crk_priv_greatest(2 * MIB, crk_priv_least(CRK_MOST_SMALL_SEGMENT, heap->segment_bytes[pool] / 8));
  } else {
    const size_t all = heap->segment_bytes[CRK_POOL_SMALL] + heap->segment_bytes[CRK_POOL_LARGE];
    const size_t most = crk_priv_greatest(16 * MIB, crk_priv_least(128 * MIB, all / 8));
    wanted = crk_priv_least(most / bytes, 6) * bytes;
  }
  wanted = crk_priv_greatest(bytes, crk_priv_least(wanted, heap->limit / 8));
  return (wanted + SEGMENT_STEP - 1) / SEGMENT_STEP * SEGMENT_STEP;
}

/* The size class of a block: eight classes per power of two, from 512 bytes on. */
static uint32_t size_class_of(size_t bytes) {
  uint32_t exponent = 9;
  while (bytes >> exponent > 1) {
    exponent++;
  }
  return (exponent - 9) * 8 + (uint32_t)(bytes >> (exponent - 3) & 7);
}

/* ---- bins */

static crk_block_t **list_of(crk_bins_t *bins, const crk_block_t *block, uint64_t **word, uint64_t *bit) {
  const uint32_t size_class = size_class_of(block->bytes);
  const int pool = block->segment->pool;
  *word = &bins->pools[pool].occupied[size_class / 64];
  *bit = (uint64_t)1 << size_class % 64;
  return &bins->pools[pool].lists[size_class];
}

/* The counter of the heap that includes a free block. Reserved blocks and blocks freed in a running capture have one of
 * their own. */
static size_t *bytes_of(crk_heap_t *heap, const crk_block_t *block) {
  const bool is_cached = block->bins == &heap->idle || block->bins == &block->owner->memory.bins;
  return is_cached ? &heap->cached_bytes : &heap->aside_bytes;
}

void crk_priv_bins_add(crk_heap_t *heap, crk_bins_t *bins, crk_block_t *block) {
  uint64_t *word, bit;
  crk_block_t **list = list_of(bins, block, &word, &bit);
  block->bins = bins;
  block->previous = NULL;
  block->next = *list;
  if (block->next != NULL) {
    block->next->previous = block;
  }
  *list = block;
  *word |= bit;
  *bytes_of(heap, block) += block->bytes;
}

void crk_priv_bins_remove(crk_heap_t *heap, crk_block_t *block) {
  uint64_t *word, bit;
  crk_block_t **list = list_of(block->bins, block, &word, &bit);
  *(block->previous != NULL ? &block->previous->next : list) = block->next;
  if (block->next != NULL) {
    block->next->previous = block->previous;
  }
  if (*list == NULL) {
    *word &= ~bit;
  }
  *bytes_of(heap, block) -= block->bytes;
  block->bins = NULL;
}

uint32_t crk_priv_bins_class(const uint64_t *occupied, uint32_t from) {
  for (uint32_t i = from / 64; i < CRK_SIZE_CLASSES / 64; i++) {
    uint64_t word = occupied[i];
    if (i == from / 64) {
      word &= UINT64_MAX << from % 64;
    }
    if (word != 0) {
      uint32_t bit = 0;
      while ((word >> bit & 1) == 0) {
        bit++;
      }
      return i * 64 + bit;
    }
  }
  return CRK_SIZE_CLASSES;
}

bool crk_priv_bins_has_any(const crk_bins_t *bins) {
  return crk_priv_bins_class(bins->pools[CRK_POOL_SMALL].occupied, 0) < CRK_SIZE_CLASSES ||
         crk_priv_bins_class(bins->pools[CRK_POOL_LARGE].occupied, 0) < CRK_SIZE_CLASSES;
}

crk_block_t *crk_priv_block_smaller(crk_block_t *a, crk_block_t *b) {
  return a == NULL || (b != NULL && b->bytes < a->bytes) ? b : a;
}

crk_block_t *crk_priv_bins_find(const crk_bins_t *bins, int pool, size_t bytes, bool may_cut_huge) {
  const uint32_t size_class = size_class_of(bytes);
  crk_block_t *best = NULL, *block = bins->pools[pool].lists[size_class];
  for (int i = 0; block != NULL && i < SCAN; i++, block = block->next) {
    if (block->bytes >= bytes) {
      best = crk_priv_block_smaller(best, block);
    }
  }
  uint32_t next = size_class;
  while (best == NULL && (next = crk_priv_bins_class(bins->pools[pool].occupied, next + 1)) < CRK_SIZE_CLASSES) {
    block = bins->pools[pool].lists[next];
    for (int i = 0; block != NULL && i < SCAN; i++, block = block->next) {
      if (may_cut_huge || block->bytes < HUGE_BLOCK || block->bytes / HUGE_SHARE <= bytes) {
        best = crk_priv_block_smaller(best, block);
      }
    }
  }
  return best;
}

/* ---- the table of given-out blocks */

static size_t slot_of(const crk_heap_t *heap, const void *ptr) {
  return (((uintptr_t)ptr >> 8) * 0x9e3779b97f4a7c15u >> 20) & (heap->table_size - 1);
}

bool crk_priv_table_reserve(crk_heap_t *heap) {
  if (heap->table_count < heap->table_size) {
    return true;
  }
  const size_t old_size = heap->table_size, size = old_size == 0 ? 64 : 2 * old_size;
  crk_block_t **old = heap->table, **table = calloc(size, sizeof *table);
  if (table == NULL) {
    return false;
  }
  heap->table = table;
  heap->table_size = size;
  for (size_t i = 0; i < old_size; i++) {
    for (crk_block_t *moved = old[i], *next; moved != NULL; moved = next) {
      next = moved->next;
      const size_t slot = slot_of(heap, moved->ptr);
      moved->next = table[slot];
      table[slot] = moved;
    }
  }
  free(old);
  return true;
}

void crk_priv_table_insert(crk_heap_t *heap, crk_block_t *block) {
  const size_t slot = slot_of(heap, block->ptr);
  block->next = heap->table[slot];
  heap->table[slot] = block;
  heap->table_count++;
}

crk_block_t *crk_priv_table_find(const crk_heap_t *heap, const void *ptr) {
  crk_block_t *block = heap->table_size == 0 ? NULL : heap->table[slot_of(heap, ptr)];
  while (block != NULL && block->ptr != ptr) {
    block = block->next;
  }
  return block;
}

void crk_priv_table_remove(crk_heap_t *heap, crk_block_t *block) {
  crk_block_t **link = &heap->table[slot_of(heap, block->ptr)];
  while (*link != block) {
    link = &(*link)->next;
  }
  *link = block->next;
  heap->table_count--;
}

/* ---- segments and their blocks */

void crk_priv_segment_emptied(crk_heap_t *heap, crk_segment_t *segment) {
  segment->emptied_at = heap->synchronisations;
  segment->newer = NULL;
  segment->older = heap->newest_empty;
  *(heap->newest_empty != NULL ? &heap->newest_empty->newer : &heap->oldest_empty) = segment;
  heap->newest_empty = segment;
}

static void empty_remove(crk_heap_t *heap, crk_segment_t *segment) {
  *(segment->newer != NULL ? &segment->newer->older : &heap->newest_empty) = segment->older;
  *(segment->older != NULL ? &segment->older->newer : &heap->oldest_empty) = segment->newer;
}

void crk_priv_block_take(crk_heap_t *heap, crk_block_t *block) {
  crk_priv_bins_remove(heap, block);
  if (block->segment->live++ == 0) {
    empty_remove(heap, block->segment);
  }
}

/* Joins a block with its right neighbour. Both are in no bins. */
static void join_right(crk_block_t *block) {
  crk_block_t *right = block->right;
  block->bytes += right->bytes;
  block->stamp = crk_priv_greatest(block->stamp, right->stamp);
  block->owner = block->owner != NULL ? block->owner : right->owner;
  block->right = right->right;
  if (block->right != NULL) {
    block->right->left = block;
  }
  free(right);
}

/* Whether `block` and its neighbour `other`, which may be NULL, can become one free block. Either they have the same
 * owner, or one of them has no owner. */
static bool can_join(const crk_heap_t *heap, const crk_block_t *block, const crk_block_t *other) {
  return other != NULL && other->bins != NULL &&
         (other->bins == &heap->idle || other->bins == &other->owner->memory.bins) &&
         (block->owner == NULL || other->owner == NULL || block->owner == other->owner);
}

/* Joins a block with its free neighbours and adds the result to the bins of its owner, or to the heap's idle bins. The
 * block is in no bins, and its segment no longer counts it as live. Returns the joined block. */
static crk_block_t *block_settle(crk_heap_t *heap, crk_block_t *block) {
  if (crk_priv_heap_is_cut(heap) && can_join(heap, block, block->left)) {
    block = block->left;
    crk_priv_bins_remove(heap, block);
    join_right(block);
  }
  if (crk_priv_heap_is_cut(heap) && can_join(heap, block, block->right)) {
    crk_priv_bins_remove(heap, block->right);
    join_right(block);
  }
  crk_priv_bins_add(heap, block->owner != NULL ? &block->owner->memory.bins : &heap->idle, block);
  return block;
}

void crk_priv_block_retire(crk_heap_t *heap, crk_block_t *block) {
  block->is_retired = true;
  heap->retired_bytes += block->bytes;
}

crk_block_t *crk_priv_block_release(crk_heap_t *heap, crk_block_t *block, crk_device_t owner) {
  crk_priv_heap_poison(heap, block->ptr, block->bytes);
  heap->retired_bytes -= block->is_retired ? block->bytes : 0;
  block->is_retired = false;
  block->owner = owner;
  block->stamp = heap->clock;
  if (--block->segment->live == 0) {
    crk_priv_segment_emptied(heap, block->segment);
  }
  return block_settle(heap, block);
}

void crk_priv_block_cut(crk_heap_t *heap, crk_block_t *block, size_t bytes) {
  const bool has_rest = block->bytes - bytes >= step_of(block->segment->pool);
  crk_block_t *rest = crk_priv_heap_is_cut(heap) && has_rest ? calloc(1, sizeof *rest) : NULL;
  if (rest == NULL) {
    return;
  }
  crk_bins_t *bins = block->bins;
  crk_priv_bins_remove(heap, block);
  *rest = (crk_block_t){.segment = block->segment,
                        .left = block,
                        .right = block->right,
                        .ptr = block->ptr + bytes,
                        .bytes = block->bytes - bytes,
                        .owner = block->owner,
                        .stamp = block->stamp};
  if (rest->right != NULL) {
    rest->right->left = rest;
  }
  block->right = rest;
  block->bytes = bytes;
  crk_priv_bins_add(heap, bins, block);
  crk_priv_bins_add(heap, bins, rest);
}

crk_segment_t *crk_priv_segments_unlink(crk_heap_t *heap, size_t keep, size_t least, uint64_t until) {
  crk_segment_t *unlinked = NULL, *newer;
  for (crk_segment_t *segment = heap->oldest_empty;
       segment != NULL && segment->emptied_at <= until && heap->cached_bytes > keep; segment = newer) {
    newer = segment->newer;
    bool may_go = segment->bytes >= least;
    for (const crk_block_t *block = segment->first; block != NULL; block = block->right) {
      may_go = may_go && block->bins == &heap->idle;
    }
    if (!may_go) {
      continue;
    }
    for (crk_block_t *block = segment->first; block != NULL; block = block->right) {
      crk_priv_bins_remove(heap, block);
    }
    empty_remove(heap, segment);
    *(segment->previous != NULL ? &segment->previous->next : &heap->segments) = segment->next;
    if (segment->next != NULL) {
      segment->next->previous = segment->previous;
    }
    heap->segment_bytes[segment->pool] -= segment->bytes;
    segment->next = unlinked;
    unlinked = segment;
  }
  heap->freeing += unlinked != NULL;
  return unlinked;
}

void crk_priv_segments_free(crk_heap_t *heap, crk_segment_t *segment) {
  const bool is_any = segment != NULL;
  while (segment != NULL) {
    crk_segment_t *next = segment->next;
    crk_priv_heap_unpoison(heap, segment->first->ptr, segment->bytes);
    heap->driver->free(heap->gpu, segment->first->ptr);
    for (crk_block_t *block = segment->first, *right; block != NULL; block = right) {
      right = block->right;
      free(block);
    }
    free(segment);
    segment = next;
  }
  if (is_any) {
    crk_priv_mutex_lock(&heap->lock);
    heap->freeing--;
    crk_priv_condition_broadcast(&heap->freed);
    crk_priv_mutex_unlock(&heap->lock);
  }
}

void crk_priv_blocks_idle(crk_heap_t *heap, crk_device_t device, uint64_t stamp) {
  for (int pool = 0; pool < 2; pool++) {
    for (uint32_t i = crk_priv_bins_class(device->memory.bins.pools[pool].occupied, 0); i < CRK_SIZE_CLASSES;
         i = crk_priv_bins_class(device->memory.bins.pools[pool].occupied, i + 1)) {
      for (crk_block_t *block = device->memory.bins.pools[pool].lists[i], *next; block != NULL; block = next) {
        next = block->next;
        if (block->stamp < stamp) {
          crk_priv_bins_remove(heap, block);
          block->owner = NULL;
          crk_priv_bins_add(heap, &heap->idle, block);
        }
      }
    }
  }
}

void crk_priv_blocks_join(crk_heap_t *heap) {
  for (crk_segment_t *segment = heap->segments; crk_priv_heap_is_cut(heap) && segment != NULL;
       segment = segment->next) {
    for (crk_block_t *block = segment->first; block != NULL; block = block->right) {
      while (block->bins == &heap->idle && block->right != NULL && block->right->bins == &heap->idle) {
        crk_priv_bins_remove(heap, block);
        crk_priv_bins_remove(heap, block->right);
        join_right(block);
        crk_priv_bins_add(heap, &heap->idle, block);
      }
    }
  }
}
