/* The caching allocator; memory.h explains it. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "number.h"
#include "sanitizer.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum {
  SMALL, /* the pools */
  LARGE,
  SCAN = 32 /* blocks of one class that are compared for the best fit */
};

/* What drivers give is a multiple of this, whatever they are asked for. */
#define SEGMENT_STEP (2 * MIB)
#define MOST_SMALL   MIB
#define BLOCK_STEP   ((size_t)512)

struct crk_segment {
  crk_segment_t *next, *previous;   /* among all */
  crk_segment_t *newer, *older;     /* among those without a live block, by the time they became so */
  crk_block_t *first;
  size_t bytes;
  size_t live; /* blocks that are given out, retired, reserved or in a capture's hands */
  int pool;
};

/* Bytes behind each block that nobody may touch. Under a sanitizer, so that it sees who leaves a buffer. */
#if defined(CRK_ASAN)
#define RED_ZONE BLOCK_STEP
#else
#define RED_ZONE ((size_t)0)
#endif

/* ---- sizes */

/* Sizes of a pool's blocks are multiples of this. Steps of 64 KiB let a tensor that grows by a little find the block of
 * another that did. */
static size_t step_of(int pool) { return pool == SMALL ? BLOCK_STEP : 64 * KIB; }

/* Size of the block for `bytes`; 0 where no device has so much. */
static size_t block_bytes(size_t bytes) {
  const size_t step = step_of(bytes <= MOST_SMALL ? SMALL : LARGE);
  return bytes > (size_t)1 << 62 ? 0 : (bytes + RED_ZONE + step - 1) / step * step;
}

static int pool_of(size_t bytes) { return bytes <= MOST_SMALL ? SMALL : LARGE; }

/* Whether blocks are cut and joined. With a bound of 0 each is a driver's allocation of its own. */
static bool is_cut(const crk_heap_t *heap) { return heap->limit > 0; }

/* A segment for a block of `bytes`. It has room for four such blocks, so that what is left of it is little, or for this
 * one alone. Segments grow with the pool, so that the unused part of the last one is little, too. */
static size_t segment_bytes(const crk_heap_t *heap, int pool, size_t bytes) {
  if (!is_cut(heap)) {
    return bytes;
  }
  const size_t least = pool == SMALL ? 2 * MIB : 16 * MIB, most = pool == SMALL ? 16 * MIB : 128 * MIB;
  const size_t grown = crk_priv_greatest(least, crk_priv_least(most, heap->segment_bytes[pool] / 8));
  const size_t shared = crk_priv_least(grown, heap->limit / 8);
  return (crk_priv_greatest(bytes, bytes > shared / 4 ? 0 : shared) + SEGMENT_STEP - 1) / SEGMENT_STEP * SEGMENT_STEP;
}

/* The class of blocks with this size: eight to a power of two, from 512 bytes on. */
static uint32_t size_class_of(size_t bytes) {
  uint32_t exponent = 9;
  while (bytes >> exponent > 1) {
    exponent++;
  }
  return (exponent - 9) * 8 + (uint32_t)(bytes >> (exponent - 3) & 7);
}

/* ---- bins; the heap's lock is held from here on, if nothing else is said */

static crk_block_t **list_of(crk_bins_t *bins, const crk_block_t *block, uint64_t **word, uint64_t *bit) {
  const uint32_t size_class = size_class_of(block->bytes);
  const int pool = block->segment->pool;
  *word = &bins->pools[pool].occupied[size_class / 64];
  *bit = (uint64_t)1 << size_class % 64;
  return &bins->pools[pool].lists[size_class];
}

static void bins_add(crk_heap_t *heap, crk_bins_t *bins, crk_block_t *block) {
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
  heap->cached_bytes += block->bytes;
}

static void bins_remove(crk_heap_t *heap, crk_block_t *block) {
  uint64_t *word, bit;
  crk_block_t **list = list_of(block->bins, block, &word, &bit);
  *(block->previous != NULL ? &block->previous->next : list) = block->next;
  if (block->next != NULL) {
    block->next->previous = block->previous;
  }
  if (*list == NULL) {
    *word &= ~bit;
  }
  block->bins = NULL;
  heap->cached_bytes -= block->bytes;
}

/* The first class from `from` on that has a block; CRK_SIZE_CLASSES where none has. */
static uint32_t occupied_class(const uint64_t *occupied, uint32_t from) {
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

/* The smaller of two blocks, either of which may be NULL. */
static crk_block_t *smaller(crk_block_t *a, crk_block_t *b) {
  return a == NULL || (b != NULL && b->bytes < a->bytes) ? b : a;
}

/* A block that holds `bytes` with little to spare, or NULL. */
static crk_block_t *bins_find(const crk_bins_t *bins, int pool, size_t bytes) {
  const uint32_t size_class = size_class_of(bytes);
  crk_block_t *best = NULL, *block = bins->pools[pool].lists[size_class];
  for (int i = 0; block != NULL && i < SCAN; i++, block = block->next) {
    if (block->bytes >= bytes) {
      best = smaller(best, block);
    }
  }
  if (best == NULL) {
    const uint32_t next = occupied_class(bins->pools[pool].occupied, size_class + 1);
    best = next < CRK_SIZE_CLASSES ? bins->pools[pool].lists[next] : NULL;
  }
  return best;
}

/* ---- the table of blocks that are given out */

static size_t slot_of(const crk_heap_t *heap, const void *ptr) {
  return (((uintptr_t)ptr >> 8) * 0x9e3779b97f4a7c15u >> 20) & (heap->table_size - 1);
}

/* Makes room for one more block; false without host memory. */
static bool table_reserve(crk_heap_t *heap) {
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

static void table_insert(crk_heap_t *heap, crk_block_t *block) {
  const size_t slot = slot_of(heap, block->ptr);
  block->next = heap->table[slot];
  heap->table[slot] = block;
  heap->table_count++;
}

static crk_block_t *table_find(const crk_heap_t *heap, const void *ptr) {
  crk_block_t *block = heap->table_size == 0 ? NULL : heap->table[slot_of(heap, ptr)];
  while (block != NULL && block->ptr != ptr) {
    block = block->next;
  }
  return block;
}

static void table_remove(crk_heap_t *heap, crk_block_t *block) {
  crk_block_t **link = &heap->table[slot_of(heap, block->ptr)];
  while (*link != block) {
    link = &(*link)->next;
  }
  *link = block->next;
  heap->table_count--;
}

/* ---- segments and their blocks */

static void empty_add(crk_heap_t *heap, crk_segment_t *segment) {
  segment->newer = NULL;
  segment->older = heap->newest_empty;
  *(heap->newest_empty != NULL ? &heap->newest_empty->newer : &heap->oldest_empty) = segment;
  heap->newest_empty = segment;
}

static void empty_remove(crk_heap_t *heap, crk_segment_t *segment) {
  *(segment->newer != NULL ? &segment->newer->older : &heap->newest_empty) = segment->older;
  *(segment->older != NULL ? &segment->older->newer : &heap->oldest_empty) = segment->newer;
}

/* A free block leaves its bins and counts as live. */
static void block_take(crk_heap_t *heap, crk_block_t *block) {
  bins_remove(heap, block);
  if (block->segment->live++ == 0) {
    empty_remove(heap, block->segment);
  }
}

/* Joins a block with its right neighbour, which is in no bins. */
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

/* Whether two neighbours, either of which may be NULL, can be one free block. One that no stream uses may join any. */
static bool can_join(const crk_heap_t *heap, const crk_block_t *block, const crk_block_t *other) {
  return other != NULL && other->bins != NULL &&
         (other->bins == &heap->idle || other->bins == &other->owner->memory.bins) &&
         (block->owner == NULL || other->owner == NULL || block->owner == other->owner);
}

/* Puts a block that is in no bins, and whose segment does not count it as live, among the free ones of its owner or of
 * the heap; gives the block that it has become a part of. */
static crk_block_t *block_settle(crk_heap_t *heap, crk_block_t *block) {
  if (is_cut(heap) && can_join(heap, block, block->left)) {
    block = block->left;
    bins_remove(heap, block);
    join_right(block);
  }
  if (is_cut(heap) && can_join(heap, block, block->right)) {
    bins_remove(heap, block->right);
    join_right(block);
  }
  bins_add(heap, block->owner != NULL ? &block->owner->memory.bins : &heap->idle, block);
  return block;
}

/* A block that was freed waits for the graphs that use it. */
static void block_retire(crk_heap_t *heap, crk_block_t *block) {
  block->is_retired = true;
  heap->retired_bytes += block->bytes;
}

/* The end of a block's life; `owner` is the handle whose stream may still use it. */
static crk_block_t *block_release(crk_heap_t *heap, crk_block_t *block, crk_device_t owner) {
  heap->retired_bytes -= block->is_retired ? block->bytes : 0;
  block->is_retired = false;
  block->owner = owner;
  block->stamp = heap->clock;
  if (--block->segment->live == 0) {
    empty_add(heap, block->segment);
  }
  return block_settle(heap, block);
}

/* Cuts what a free block has beyond `bytes` off and leaves it in the block's bins. What is less than a step of its pool
 * stays, and so it does without host memory. */
static void block_cut(crk_heap_t *heap, crk_block_t *block, size_t bytes) {
  const bool has_rest = block->bytes - bytes >= step_of(block->segment->pool);
  crk_block_t *rest = is_cut(heap) && has_rest ? calloc(1, sizeof *rest) : NULL;
  if (rest == NULL) {
    return;
  }
  crk_bins_t *bins = block->bins;
  bins_remove(heap, block);
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
  bins_add(heap, bins, block);
  bins_add(heap, bins, rest);
}

/* Takes segments without a live block, and that no stream uses, out of the heap until no more than `keep` bytes are
 * cached: those that were emptied first. Chains them by `next`. */
static crk_segment_t *segments_unlink(crk_heap_t *heap, size_t keep) {
  crk_segment_t *unlinked = NULL, *newer;
  for (crk_segment_t *segment = heap->oldest_empty; segment != NULL && heap->cached_bytes > keep; segment = newer) {
    newer = segment->newer;
    bool is_idle = true;
    for (const crk_block_t *block = segment->first; block != NULL; block = block->right) {
      is_idle = is_idle && block->bins == &heap->idle;
    }
    if (!is_idle) {
      continue;
    }
    for (crk_block_t *block = segment->first; block != NULL; block = block->right) {
      bins_remove(heap, block);
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
  return unlinked;
}

/* Gives unlinked segments back to the driver. Without the heap's lock: the driver may wait. */
static void segments_free(crk_heap_t *heap, crk_segment_t *segment) {
  while (segment != NULL) {
    crk_segment_t *next = segment->next;
    CRK_SAN_UNPOISON(segment->first->ptr, segment->bytes);
    heap->driver->free(heap->gpu, segment->first->ptr);
    for (crk_block_t *block = segment->first, *right; block != NULL; block = right) {
      right = block->right;
      free(block);
    }
    free(segment);
    segment = next;
  }
}

/* ---- fences: which blocks a stream still uses */

/* The stream's work up to `ticket` is done: the blocks that it was the last user of are anybody's. */
static void blocks_idle(crk_heap_t *heap, crk_device_t device, uint64_t ticket) {
  for (int pool = 0; pool < 2; pool++) {
    for (uint32_t i = occupied_class(device->memory.bins.pools[pool].occupied, 0); i < CRK_SIZE_CLASSES;
         i = occupied_class(device->memory.bins.pools[pool].occupied, i + 1)) {
      for (crk_block_t *block = device->memory.bins.pools[pool].lists[i], *next; block != NULL; block = next) {
        next = block->next;
        if (block->stamp < ticket) {
          bins_remove(heap, block);
          block->owner = NULL;
          bins_add(heap, &heap->idle, block);
        }
      }
    }
  }
}

/* Neighbours that became idle one by one become one block. */
static void blocks_join(crk_heap_t *heap) {
  for (crk_segment_t *segment = heap->segments; is_cut(heap) && segment != NULL; segment = segment->next) {
    for (crk_block_t *block = segment->first; block != NULL; block = block->right) {
      while (block->bins == &heap->idle && block->right != NULL && block->right->bins == &heap->idle) {
        bins_remove(heap, block);
        bins_remove(heap, block->right);
        join_right(block);
        bins_add(heap, &heap->idle, block);
      }
    }
  }
}

/* Whether the handle's stream has done all work up to a time after `since`; what it then no longer uses is idle. Asks the
 * driver, never waits. A captured stream was idle when its capture began, and has been given no work since. */
static bool has_passed(crk_heap_t *heap, crk_device_t device, uint64_t since) {
  crk_memory_t *memory = &device->memory;
  const crk_driver_t *driver = heap->driver;
  uint64_t epoch;
  if (!crk_priv_gate_try_enter(device->gate, &epoch)) {
    return false;
  }
  bool is_idle = crk_priv_capturing(device);
  if (is_idle) {
    blocks_idle(heap, device, UINT64_MAX);
  } else if (memory->fence != NULL || driver->event_create(heap->gpu, &memory->fence) == CRK_OK) {
    for (int i = 0; i < 2 && !is_idle; i++) { /* a fence of an earlier time may have to be put again */
      if (memory->fence_ticket == 0) {
        const uint64_t ticket = ++heap->clock;
        if (driver->event_record(heap->gpu, memory->fence, device->stream) != CRK_OK) {
          break;
        }
        memory->fence_ticket = ticket;
      }
      if (driver->event_query(heap->gpu, memory->fence) != CRK_OK) {
        break;
      }
      is_idle = memory->fence_ticket > since;
      blocks_idle(heap, device, memory->fence_ticket);
      memory->fence_ticket = 0;
    }
  }
  crk_priv_gate_leave(device->gate);
  return is_idle;
}

/* What can go back to the driver without a wait: nothing unless the cache is above its bound and the GPU is idle. */
static crk_segment_t *reclaim(crk_heap_t *heap) {
  if (heap->cached_bytes <= heap->limit || heap->oldest_empty == NULL) {
    return NULL;
  }
  const uint64_t since = heap->clock;
  for (crk_device_t device = heap->handles; device != NULL; device = device->memory.next) {
    if (!has_passed(heap, device, since)) {
      return NULL;
    }
  }
  blocks_join(heap);
  return segments_unlink(heap, heap->limit);
}

void crk_priv_heap_reclaim(crk_device_t device) {
  crk_heap_t *heap = device->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  crk_segment_t *segments = reclaim(heap);
  crk_priv_mutex_unlock(&heap->lock);
  segments_free(heap, segments);
}

uint64_t crk_priv_heap_wait_begin(crk_device_t device) {
  crk_heap_t *heap = device->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  const uint64_t ticket = ++heap->clock;
  crk_priv_mutex_unlock(&heap->lock);
  return ticket;
}

void crk_priv_heap_wait_end(crk_device_t device, uint64_t ticket) {
  crk_heap_t *heap = device->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  blocks_idle(heap, device, ticket);
  if (device->memory.fence_ticket < ticket) {
    device->memory.fence_ticket = 0;
  }
  crk_priv_mutex_unlock(&heap->lock);
}

/* ---- emptying the cache */

/* An event on each handle's stream of the GPU, to be waited for without the heap's lock. */
typedef struct waits {
  struct {
    crk_device_t device; /* not to be followed: it may be closed by then */
    crk_event_t event;
  } *of;
  size_t count;
  uint64_t ticket;
} waits_t;

/* Puts the events. The heap's lock keeps the handles open. A handle that is left out has its blocks left to it. */
static crk_status_t waits_begin(crk_heap_t *heap, waits_t *waits) {
  size_t handles = 0;
  for (crk_device_t device = heap->handles; device != NULL; device = device->memory.next) {
    handles++;
  }
  waits->of = calloc(handles, sizeof *waits->of);
  waits->count = 0;
  waits->ticket = ++heap->clock;
  if (waits->of == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "no host memory for %zu events", handles);
  }
  crk_status_t status = CRK_OK;
  for (crk_device_t device = heap->handles; device != NULL && status == CRK_OK; device = device->memory.next) {
    uint64_t epoch;
    if (!crk_priv_gate_try_enter(device->gate, &epoch)) {
      continue;
    }
    crk_event_t event = NULL;
    if (!crk_priv_capturing(device)) {
      status = crk_priv_event_create(device, &event);
      status = status == CRK_OK ? crk_priv_event_record(event, device, epoch) : status;
    }
    crk_priv_gate_leave(device->gate);
    if (status == CRK_OK) {
      waits->of[waits->count].device = device;
      waits->of[waits->count++].event = event; /* NULL where the handle is captured, and so idle */
    } else {
      crk_event_destroy(event);
    }
  }
  return status;
}

/* Waits, without the heap's lock. */
static crk_status_t waits_end(crk_heap_t *heap, waits_t *waits) {
  crk_status_t status = CRK_OK;
  for (size_t i = 0; i < waits->count; i++) {
    if (waits->of[i].event != NULL) {
      const crk_status_t waited = crk_event_synchronize(waits->of[i].event);
      status = status == CRK_OK ? waited : status;
    }
    crk_event_destroy(waits->of[i].event);
  }
  crk_priv_mutex_lock(&heap->lock);
  for (crk_device_t device = heap->handles; device != NULL; device = device->memory.next) {
    for (size_t i = 0; i < waits->count; i++) {
      if (waits->of[i].device == device) {
        blocks_idle(heap, device, waits->ticket);
      }
    }
  }
  blocks_join(heap);
  crk_priv_mutex_unlock(&heap->lock);
  free(waits->of);
  return status;
}

/* Gives the driver what is cached beyond `keep` bytes, after the work that may still use it; waits. Where that work
 * failed the memory goes back all the same. */
static crk_status_t trim(crk_heap_t *heap, size_t keep, bool with_reserved) {
  waits_t waits = {NULL, 0, 0};
  crk_priv_mutex_lock(&heap->lock);
  for (crk_device_t device = heap->handles; with_reserved && device != NULL; device = device->memory.next) {
    for (int pool = 0; pool < 2; pool++) {
      uint32_t i;
      while ((i = occupied_class(device->memory.reserved.pools[pool].occupied, 0)) < CRK_SIZE_CLASSES) {
        crk_block_t *block = device->memory.reserved.pools[pool].lists[i];
        bins_remove(heap, block);
        block_release(heap, block, device);
      }
    }
  }
  if (heap->cached_bytes <= keep || heap->oldest_empty == NULL) {
    crk_priv_mutex_unlock(&heap->lock);
    return CRK_OK;
  }
  crk_status_t status = waits_begin(heap, &waits);
  crk_priv_mutex_unlock(&heap->lock);
  const crk_status_t waited = waits_end(heap, &waits);
  status = status == CRK_OK ? waited : status;
  crk_priv_mutex_lock(&heap->lock);
  crk_segment_t *segments = segments_unlink(heap, keep);
  crk_priv_mutex_unlock(&heap->lock);
  segments_free(heap, segments);
  return status;
}

/* Asks the driver; out of memory, empties the cache and asks again. */
static crk_status_t ask_driver(crk_device_t self, size_t bytes, void **ptr,
                               crk_status_t (*alloc)(crk_driver_device_t *, size_t, void **)) {
  crk_status_t status = alloc(self->driver_device, bytes, ptr);
  if (status == CRK_OUT_OF_MEMORY && !crk_priv_capturing(self)) {
    trim(self->context->heap, 0, true);
    status = alloc(self->driver_device, bytes, ptr);
  }
  return status;
}

crk_status_t crk_priv_heap_driver_alloc(crk_device_t self, size_t bytes, void **ptr) {
  return ask_driver(self, bytes, ptr, self->driver->alloc);
}

crk_status_t crk_priv_heap_host_alloc(crk_device_t self, size_t bytes, void **ptr) {
  return ask_driver(self, bytes, ptr, self->driver->host_alloc);
}

/* ---- giving out */

/* Notes that a graph uses the block; false without host memory. */
static bool graph_note(crk_graph_t graph, crk_block_t *block) {
  crk_block_list_t *list = &graph->memory;
  if (block->noted == graph) {
    return true;
  }
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
    crk_block_t **blocks = realloc(list->blocks, capacity * sizeof *blocks);
    if (blocks == NULL) {
      return false;
    }
    list->blocks = blocks;
    list->capacity = capacity;
  }
  list->blocks[list->count++] = block;
  block->graphs++;
  block->noted = graph;
  return true;
}

/* A segment of the other pool that nobody else uses and that holds `bytes` changes its pool; its one block, or NULL. */
static crk_block_t *find_empty(crk_heap_t *heap, crk_device_t device, int pool, size_t bytes) {
  for (crk_segment_t *segment = heap->oldest_empty; segment != NULL; segment = segment->newer) {
    crk_block_t *whole = segment->first;
    crk_bins_t *bins = whole->bins;
    const bool is_ours = bins == &heap->idle || bins == &device->memory.bins;
    if (segment->pool != pool && segment->bytes >= bytes && whole->right == NULL && is_ours) {
      bins_remove(heap, whole);
      heap->segment_bytes[segment->pool] -= segment->bytes;
      segment->pool = pool;
      heap->segment_bytes[pool] += segment->bytes;
      bins_add(heap, bins, whole);
      return whole;
    }
  }
  return NULL;
}

/* A block for the handle from the cache, uncut, or NULL. */
static crk_block_t *find(crk_heap_t *heap, crk_device_t device, size_t bytes) {
  const int pool = pool_of(bytes);
  crk_block_t *block = smaller(bins_find(&device->memory.bins, pool, bytes), bins_find(&heap->idle, pool, bytes));
  block = block != NULL ? block : find_empty(heap, device, pool, bytes);
  /* One that stays whole may be a quarter too large. */
  return block != NULL && !is_cut(heap) && block->bytes / 5 > bytes / 4 ? NULL : block;
}

/* The same, after other handles were asked whether they have done with blocks of theirs. */
static crk_block_t *find_others(crk_heap_t *heap, crk_device_t device, size_t bytes) {
  const int pool = pool_of(bytes);
  bool is_any = false;
  for (crk_device_t other = heap->handles; other != NULL; other = other->memory.next) {
    if (other != device && bins_find(&other->memory.bins, pool, bytes) != NULL) {
      has_passed(heap, other, 0);
      is_any = true;
    }
  }
  return is_any ? find(heap, device, bytes) : NULL;
}

/* A block of any size that holds `bytes`, or NULL. */
static crk_block_t *find_any(const crk_bins_t *bins, size_t bytes) {
  crk_block_t *block = bins_find(bins, pool_of(bytes), bytes);
  return block != NULL ? block : bins_find(bins, LARGE, bytes);
}

/* A block during a capture, which cannot ask the driver: one that the capture itself freed, if it fits well; then one
 * from the cache, which is cut; then any. */
static crk_block_t *find_captured(crk_heap_t *heap, crk_device_t device, size_t bytes) {
  crk_block_t *freed = find_any(&device->memory.captured, bytes);
  if (freed != NULL && freed->bytes / 5 <= bytes / 4) {
    return freed;
  }
  crk_block_t *block = find(heap, device, bytes);
  block = block != NULL ? block : freed;
  block = block != NULL ? block : find_any(&device->memory.reserved, bytes);
  block = block != NULL ? block : find_any(&device->memory.bins, bytes);
  return block != NULL ? block : find_any(&heap->idle, bytes);
}

/* Gives a block that `find` found to the handle; false without host memory. Reserved blocks, and those in a capture's
 * hands, stay whole and count as live already. */
static bool give(crk_heap_t *heap, crk_device_t device, crk_block_t *block, size_t bytes, crk_graph_t capture) {
  if (!table_reserve(heap) || (capture != NULL && !graph_note(capture, block))) {
    return false;
  }
  if (block->bins == &device->memory.captured || block->bins == &device->memory.reserved) {
    bins_remove(heap, block);
  } else {
    block_cut(heap, block, bytes);
    block_take(heap, block);
  }
  block->owner = device;
  table_insert(heap, block);
  return true;
}

static void count_live(crk_device_t device, const crk_block_t *block) {
  crk_memory_stats_t *stats = &device->memory.stats;
  stats->live_bytes += block->bytes;
  stats->live_allocations++;
  stats->peak_live_bytes = crk_priv_greatest(stats->peak_live_bytes, stats->live_bytes);
}

/* A segment from the driver with one free block that holds `bytes`. Without the heap's lock, but with it on success. */
static crk_status_t segment_create(crk_device_t self, const char *where, size_t bytes, crk_block_t **block) {
  crk_heap_t *heap = self->context->heap;
  crk_segment_t *segment = calloc(1, sizeof *segment);
  crk_block_t *whole = calloc(1, sizeof *whole);
  void *ptr = NULL;
  crk_status_t status = CRK_OK;
  if (segment == NULL || whole == NULL) {
    status = crk_priv_error(CRK_OUT_OF_MEMORY, "%s: no host memory for the record of a block", where);
    goto fail;
  }
  segment->pool = pool_of(bytes);
  crk_priv_mutex_lock(&heap->lock);
  segment->bytes = segment_bytes(heap, segment->pool, bytes);
  crk_priv_mutex_unlock(&heap->lock);
  status = self->driver->alloc(self->driver_device, segment->bytes, &ptr);
  if (status == CRK_OUT_OF_MEMORY && segment->bytes > bytes) {
    segment->bytes = bytes;
    status = self->driver->alloc(self->driver_device, bytes, &ptr);
  }
  if (status == CRK_OUT_OF_MEMORY) {
    trim(heap, 0, true);
    crk_priv_mutex_lock(&heap->lock);
    *block = find(heap, self, bytes); /* what other streams used */
    if (*block != NULL) {
      free(segment);
      free(whole);
      return CRK_OK;
    }
    crk_priv_mutex_unlock(&heap->lock);
    segment->bytes = bytes;
    status = self->driver->alloc(self->driver_device, bytes, &ptr);
  }
  if (status != CRK_OK) {
    goto fail;
  }
  segment->first = whole;
  *whole = (crk_block_t){.segment = segment, .ptr = ptr, .bytes = segment->bytes};
  CRK_SAN_POISON(ptr, segment->bytes);
  crk_priv_mutex_lock(&heap->lock);
  segment->next = heap->segments;
  if (segment->next != NULL) {
    segment->next->previous = segment;
  }
  heap->segments = segment;
  heap->segment_bytes[segment->pool] += segment->bytes;
  heap->peak_segment_bytes =
      crk_priv_greatest(heap->peak_segment_bytes, heap->segment_bytes[SMALL] + heap->segment_bytes[LARGE]);
  self->memory.stats.driver_allocations++;
  empty_add(heap, segment);
  bins_add(heap, &heap->idle, whole);
  *block = whole;
  return CRK_OK;

fail:
  free(segment);
  free(whole);
  return status;
}

crk_status_t crk_alloc(crk_device_t self, size_t bytes, void **ptr) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_alloc");
  CRK_REFUSE_IF(ptr == NULL, "crk_alloc: ptr is NULL");
  if (bytes == 0) {
    *ptr = NULL;
    return CRK_OK;
  }
  const size_t size = block_bytes(bytes);
  if (size == 0) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_alloc: %zu bytes are more than any device has", bytes);
  }
  crk_heap_t *heap = self->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  const crk_graph_t capture = atomic_load(&self->capture);
  crk_block_t *block = capture != NULL ? find_captured(heap, self, size) : find(heap, self, size);
  if (block == NULL && capture == NULL) {
    block = find_others(heap, self, size);
  }
  if (block == NULL && capture == NULL) {
    block = find_any(&self->memory.reserved, size);
  }
  if (block == NULL) {
    crk_priv_mutex_unlock(&heap->lock);
    if (capture != NULL) {
      return crk_priv_error(
          CRK_CAPTURE,
          "crk_alloc: no cached block holds %zu bytes, and a capture cannot take memory from the driver; "
          "call crk_memory_reserve(%zu) before crk_graph_begin",
          bytes, bytes);
    }
    CRK_TRY(segment_create(self, "crk_alloc", size, &block));
  }
  const bool is_given = give(heap, self, block, size, capture);
  if (is_given) {
    count_live(self, block);
    CRK_SAN_UNPOISON(block->ptr, bytes);
    *ptr = block->ptr;
  }
  crk_priv_mutex_unlock(&heap->lock);
  return is_given ? CRK_OK : crk_priv_error(CRK_OUT_OF_MEMORY, "crk_alloc: no host memory for the table of blocks");
}

crk_status_t crk_free(crk_device_t self, void *ptr) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_free");
  if (ptr == NULL) {
    return CRK_OK;
  }
  crk_heap_t *heap = self->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  crk_block_t *block = table_find(heap, ptr);
  if (block == NULL || block->owner != self) {
    crk_priv_mutex_unlock(&heap->lock);
    return crk_priv_error(CRK_INVALID_ARGUMENT,
                          "crk_free: ptr %p is not the beginning of a live allocation of this handle", ptr);
  }
  /* Whichever thread frees it: work that the capture recorded may use the block. */
  const crk_graph_t capture = atomic_load(&self->capture);
  if (capture != NULL && !graph_note(capture, block)) {
    crk_priv_mutex_unlock(&heap->lock);
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_free: no host memory to note that the captured graph uses ptr %p",
                          ptr);
  }
  table_remove(heap, block);
  CRK_SAN_POISON(block->ptr, block->bytes);
  self->memory.stats.live_bytes -= block->bytes;
  self->memory.stats.live_allocations--;
  crk_segment_t *reclaimed = NULL;
  if (capture != NULL) {
    bins_add(heap, &self->memory.captured, block);
  } else if (block->graphs > 0) {
    block_retire(heap, block);
  } else {
    block_release(heap, block, self);
    reclaimed = reclaim(heap);
  }
  crk_priv_mutex_unlock(&heap->lock);
  segments_free(heap, reclaimed);
  return CRK_OK;
}

crk_status_t crk_memory_reserve(crk_device_t self, size_t bytes) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_memory_reserve");
  CRK_TRY(crk_priv_refuse_capture(self, "crk_memory_reserve"));
  if (bytes == 0) {
    return CRK_OK;
  }
  const size_t size = block_bytes(bytes);
  if (size == 0) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_memory_reserve: %zu bytes are more than any device has", bytes);
  }
  crk_heap_t *heap = self->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  crk_block_t *block = find(heap, self, size);
  if (block == NULL) {
    crk_priv_mutex_unlock(&heap->lock);
    CRK_TRY(segment_create(self, "crk_memory_reserve", size, &block));
  }
  block_cut(heap, block, size);
  block_take(heap, block);
  block->owner = self;
  bins_add(heap, &self->memory.reserved, block);
  crk_priv_mutex_unlock(&heap->lock);
  return CRK_OK;
}

crk_status_t crk_memory_set_cache_limit(crk_device_t self, size_t bytes) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_memory_set_cache_limit");
  CRK_TRY(crk_priv_refuse_capture(self, "crk_memory_set_cache_limit"));
  crk_heap_t *heap = self->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  heap->limit = bytes;
  crk_priv_mutex_unlock(&heap->lock);
  return trim(heap, bytes, false);
}

crk_status_t crk_memory_trim(crk_device_t self) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_memory_trim");
  CRK_TRY(crk_priv_refuse_capture(self, "crk_memory_trim"));
  return trim(self->context->heap, 0, true);
}

crk_status_t crk_memory_stats(crk_device_t self, crk_memory_stats_t *stats) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_memory_stats");
  CRK_REFUSE_IF(stats == NULL, "crk_memory_stats: stats is NULL");
  crk_heap_t *heap = self->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  crk_memory_stats_t now = self->memory.stats;
  now.cached_bytes = heap->cached_bytes;
  now.retired_bytes = heap->retired_bytes;
  now.driver_bytes = heap->segment_bytes[SMALL] + heap->segment_bytes[LARGE];
  now.peak_driver_bytes = heap->peak_segment_bytes;
  crk_priv_mutex_unlock(&heap->lock);
  *stats = now;
  return CRK_OK;
}

crk_status_t crk_host_alloc(crk_device_t self, size_t bytes, void **ptr) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_host_alloc");
  CRK_REFUSE_IF(ptr == NULL, "crk_host_alloc: ptr is NULL");
  if (bytes == 0) {
    *ptr = NULL;
    return CRK_OK;
  }
  CRK_TRY(crk_priv_refuse_capture(self, "crk_host_alloc"));
  return self->driver->host_alloc(self->driver_device, bytes, ptr);
}

crk_status_t crk_host_free(crk_device_t self, void *ptr) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_host_free");
  if (ptr == NULL) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_refuse_capture(self, "crk_host_free"));
  /* A copy that is still under way would read or write freed memory. */
  CRK_TRY(self->driver->stream_synchronize(self->driver_device, self->stream));
  self->driver->host_free(self->driver_device, ptr);
  return CRK_OK;
}

/* ---- graphs */

void crk_priv_heap_capture_end(crk_device_t device, crk_graph_t graph) {
  crk_heap_t *heap = device->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  for (size_t i = 0; i < graph->memory.count; i++) {
    crk_block_t *block = graph->memory.blocks[i];
    if (block->bins == &device->memory.captured) {
      bins_remove(heap, block);
      block_retire(heap, block);
    }
  }
  atomic_store(&device->capture, NULL);
  crk_priv_mutex_unlock(&heap->lock);
}

void crk_priv_heap_graph_destroy(crk_device_t device, crk_graph_t graph) {
  crk_heap_t *heap = device->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  for (size_t i = 0; i < graph->memory.count; i++) {
    crk_block_t *block = graph->memory.blocks[i];
    if (block->noted == graph) {
      block->noted = NULL;
    }
    if (--block->graphs == 0 && block->is_retired) {
      block_release(heap, block, device);
    }
  }
  crk_segment_t *reclaimed = reclaim(heap);
  crk_priv_mutex_unlock(&heap->lock);
  segments_free(heap, reclaimed);
  free(graph->memory.blocks);
}

/* ---- heaps and their handles */

static crk_mutex_t heaps_lock = CRK_MUTEX_INIT;
static crk_heap_t *heaps;

crk_heap_t *crk_priv_heap_acquire(const crk_driver_t *driver, crk_driver_device_t *gpu, uint64_t memory_bytes) {
  crk_priv_mutex_lock(&heaps_lock);
  crk_heap_t *heap = heaps;
  while (heap != NULL && heap->gpu != gpu) {
    heap = heap->next;
  }
  if (heap == NULL && (heap = calloc(1, sizeof *heap)) != NULL) {
    heap->driver = driver;
    heap->gpu = gpu;
    /* Half of the memory: a model's working set is freed and taken again at every step, and each segment that goes back
     * to the driver drains the device. */
    heap->limit = (size_t)(memory_bytes / 2);
    crk_priv_mutex_init(&heap->lock);
    heap->next = heaps;
    heaps = heap;
  }
  if (heap != NULL) {
    heap->references++;
  }
  crk_priv_mutex_unlock(&heaps_lock);
  return heap;
}

void crk_priv_heap_release(crk_heap_t *heap) {
  crk_priv_mutex_lock(&heaps_lock);
  if (--heap->references == 0) {
    crk_heap_t **link = &heaps;
    while (*link != heap) {
      link = &(*link)->next;
    }
    *link = heap->next;
    crk_priv_mutex_deinit(&heap->lock);
    free(heap->table);
    free(heap);
  }
  crk_priv_mutex_unlock(&heaps_lock);
}

void crk_priv_heap_join(crk_device_t device) {
  crk_heap_t *heap = device->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  device->memory.next = heap->handles;
  heap->handles = device;
  crk_priv_mutex_unlock(&heap->lock);
}

/* A block of a handle that leaves is free, and nobody's. Whoever joined it here could give it a leaving owner again. */
static void block_disown(crk_heap_t *heap, crk_block_t *block) {
  const bool was_live = block->bins != &block->owner->memory.bins;
  if (block->bins != NULL) {
    bins_remove(heap, block);
  } else if (block->is_retired) {
    heap->retired_bytes -= block->bytes;
  } else {
    table_remove(heap, block);
    CRK_SAN_POISON(block->ptr, block->bytes);
  }
  block->is_retired = false;
  block->graphs = 0;
  block->noted = NULL;
  block->owner = NULL;
  bins_add(heap, &heap->idle, block);
  if (was_live && --block->segment->live == 0) {
    empty_add(heap, block->segment);
  }
}

void crk_priv_heap_leave(crk_device_t device) {
  crk_heap_t *heap = device->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  crk_device_t *link = &heap->handles;
  while (*link != device) {
    link = &(*link)->memory.next;
  }
  *link = device->memory.next;
  for (crk_segment_t *segment = heap->segments; segment != NULL; segment = segment->next) {
    for (crk_block_t *block = segment->first; block != NULL; block = block->right) {
      if (block->owner == device) {
        block_disown(heap, block);
      }
    }
  }
  blocks_join(heap);
  crk_segment_t *segments = heap->handles == NULL ? segments_unlink(heap, 0) : reclaim(heap);
  crk_priv_mutex_unlock(&heap->lock);
  segments_free(heap, segments);
  if (device->memory.fence != NULL) {
    heap->driver->event_destroy(heap->gpu, device->memory.fence);
  }
}
