/* The public functions of the allocator; heap.h explains how it works. */
#include <stdlib.h>

#include "core.h"
#include "memory/heap_blocks.h"
#include "number.h"

/* ---- finding a block */

/* Records that the graph uses the block. Returns false if there is no host memory. */
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

/* Moves an empty segment of at least `bytes` from the other pool to `pool` and returns its only block, or NULL. Only
 * the handle's own stream may still use the segment. The small pool takes no segment above CRK_MOST_SMALL_SEGMENT,
 * because its small blocks would keep the segment from large ones. */
static crk_block_t *find_empty(crk_heap_t *heap, crk_device_t device, int pool, size_t bytes) {
  for (crk_segment_t *segment = heap->oldest_empty; segment != NULL; segment = segment->newer) {
    crk_block_t *whole = segment->first;
    crk_bins_t *bins = whole->bins;
    const bool is_ours = bins == &heap->idle || bins == &device->memory.bins;
    const size_t most = pool == CRK_POOL_SMALL ? CRK_MOST_SMALL_SEGMENT : SIZE_MAX;
    if (segment->pool != pool && segment->bytes >= bytes && segment->bytes <= most && whole->right == NULL && is_ours) {
      crk_priv_bins_remove(heap, whole);
      heap->segment_bytes[segment->pool] -= segment->bytes;
      segment->pool = pool;
      heap->segment_bytes[pool] += segment->bytes;
      crk_priv_bins_add(heap, bins, whole);
      return whole;
    }
  }
  return NULL;
}

/* Finds a cached block for the handle, still uncut; NULL if there is none. */
static crk_block_t *find_cached(crk_heap_t *heap, crk_device_t device, size_t bytes) {
  const int pool = crk_priv_pool_of(bytes);
  crk_block_t *block = crk_priv_block_smaller(crk_priv_bins_find(&device->memory.bins, pool, bytes, false),
                                              crk_priv_bins_find(&heap->idle, pool, bytes, false));
  block = block != NULL ? block : find_empty(heap, device, pool, bytes);
  const bool is_own = block != NULL && block->left == NULL && block->right == NULL && block->bytes == bytes;
  return crk_priv_heap_is_cut(heap) || is_own ? block : NULL;
}

/* Checks whether other handles' streams no longer use their free blocks, and then searches again. */
static crk_block_t *find_others(crk_heap_t *heap, crk_device_t device, size_t bytes) {
  const int pool = crk_priv_pool_of(bytes);
  bool is_any = false;
  for (crk_device_t other = heap->handles; other != NULL; other = other->memory.next) {
    if (other != device && crk_priv_bins_find(&other->memory.bins, pool, bytes, false) != NULL) {
      crk_priv_heap_has_passed(heap, other, 0, 1);
      is_any = true;
    }
  }
  return is_any ? find_cached(heap, device, bytes) : NULL;
}

/* Finds a block of at least `bytes` in either pool, or NULL. */
static crk_block_t *find_any(const crk_bins_t *bins, size_t bytes) {
  crk_block_t *block = crk_priv_bins_find(bins, crk_priv_pool_of(bytes), bytes, true);
  return block != NULL ? block : crk_priv_bins_find(bins, CRK_POOL_LARGE, bytes, true);
}

/* The same, if at most a fifth of the block stays unused. For blocks that are not cut. */
static crk_block_t *find_close(const crk_bins_t *bins, size_t bytes) {
  crk_block_t *block = find_any(bins, bytes);
  return block != NULL && block->bytes / 5 <= bytes / 4 ? block : NULL;
}

/* Finds a block during a capture, which cannot allocate from the driver. The order is: a block that the capture itself
 * freed, if at most a fifth of it stays unused; a cached block, which is cut; then any block that is large enough. */
static crk_block_t *find_captured(crk_heap_t *heap, crk_device_t device, size_t bytes) {
  crk_block_t *freed = find_close(&device->memory.captured, bytes);
  if (freed != NULL) {
    return freed;
  }
  crk_block_t *block = find_cached(heap, device, bytes);
  block = block != NULL ? block : find_any(&device->memory.captured, bytes);
  block = block != NULL ? block : find_any(&device->memory.reserved, bytes);
  block = block != NULL ? block : find_any(&device->memory.bins, bytes);
  return block != NULL ? block : find_any(&heap->idle, bytes);
}

/* Gives a free block to the handle. Returns false if there is no host memory. Reserved blocks and blocks freed in this
 * capture are not cut, and already count as live. */
static bool give_out(crk_heap_t *heap, crk_device_t device, crk_block_t *block, size_t bytes, crk_graph_t capture) {
  if (!crk_priv_table_reserve(heap) || (capture != NULL && !graph_note(capture, block))) {
    return false;
  }
  if (block->bins == &device->memory.captured || block->bins == &device->memory.reserved) {
    crk_priv_bins_remove(heap, block);
  } else {
    crk_priv_block_cut(heap, block, bytes);
    crk_priv_block_take(heap, block);
  }
  block->owner = device;
  crk_priv_table_insert(heap, block);
  return true;
}

static void count_live(crk_device_t device, const crk_block_t *block) {
  crk_memory_stats_t *stats = &device->memory.stats;
  stats->live_bytes += block->bytes;
  stats->live_allocations++;
  stats->peak_live_bytes = crk_priv_greatest(stats->peak_live_bytes, stats->live_bytes);
}

/* Where the driver is out of memory, an allocation empties nothing, the cache, or also what the handle has reserved. */
typedef enum shortage { EMPTY_NOTHING, EMPTY_CACHE, EMPTY_RESERVED } shortage_t;

/* Allocates a segment from the driver and returns its free block of at least `bytes`. If the driver is out of memory,
 * returns a cached block instead, where emptying the cache made one available. The caller does not hold the heap's
 * lock; on success, this function returns with the lock held. */
static crk_status_t segment_create(crk_device_t self, const char *where, size_t bytes, shortage_t shortage,
                                   crk_block_t **block) {
  crk_heap_t *heap = self->context->heap;
  crk_segment_t *segment = calloc(1, sizeof *segment);
  crk_block_t *whole = calloc(1, sizeof *whole);
  void *ptr = NULL;
  crk_status_t status = CRK_OK;
  if (segment == NULL || whole == NULL) {
    status = crk_priv_error(CRK_OUT_OF_MEMORY, "%s: no host memory to describe a block", where);
    goto fail;
  }
  segment->pool = crk_priv_pool_of(bytes);
  crk_priv_mutex_lock(&heap->lock);
  segment->bytes = crk_priv_segment_bytes(heap, segment->pool, bytes);
  crk_segment_t *replaced = shortage != EMPTY_NOTHING ? crk_priv_heap_unlink_for(heap, segment->bytes) : NULL;
  crk_priv_mutex_unlock(&heap->lock);
  crk_priv_segments_free(heap, replaced);
  status = self->driver->alloc(self->driver_device, segment->bytes, &ptr);
  if (status == CRK_OUT_OF_MEMORY && segment->bytes > bytes) {
    segment->bytes = bytes;
    status = self->driver->alloc(self->driver_device, bytes, &ptr);
  }
  if (status == CRK_OUT_OF_MEMORY && shortage != EMPTY_NOTHING) {
    crk_priv_heap_trim(heap, 0, shortage == EMPTY_RESERVED ? self : NULL);
    crk_priv_mutex_lock(&heap->lock);
    *block = find_cached(heap, self, bytes); /* other streams no longer use their free blocks */
    if (*block == NULL && crk_priv_heap_is_cut(heap)) {
      *block = find_any(&heap->idle, bytes);
    }
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
  crk_priv_heap_poison(heap, ptr, segment->bytes);
  crk_priv_mutex_lock(&heap->lock);
  segment->next = heap->segments;
  if (segment->next != NULL) {
    segment->next->previous = segment;
  }
  heap->segments = segment;
  heap->segment_bytes[segment->pool] += segment->bytes;
  heap->peak_segment_bytes = crk_priv_greatest(
      heap->peak_segment_bytes, heap->segment_bytes[CRK_POOL_SMALL] + heap->segment_bytes[CRK_POOL_LARGE]);
  self->memory.stats.driver_allocations++;
  crk_priv_segment_emptied(heap, segment);
  crk_priv_bins_add(heap, &heap->idle, whole);
  *block = whole;
  return CRK_OK;

fail:
  free(segment);
  free(whole);
  return status;
}

static crk_status_t allocate(crk_device_t self, size_t bytes, shortage_t shortage, void **ptr) {
  if (bytes == 0) {
    *ptr = NULL;
    return CRK_OK;
  }
  const size_t size = crk_priv_block_bytes(bytes);
  if (size == 0) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_alloc: bytes is %zu, more than any device has", bytes);
  }
  crk_heap_t *heap = self->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  const crk_graph_t capture = atomic_load(&self->capture);
  crk_block_t *block = capture != NULL ? find_captured(heap, self, size) : find_cached(heap, self, size);
  if (block == NULL && capture == NULL) {
    block = find_others(heap, self, size);
  }
  if (block == NULL && capture == NULL) { /* what is reserved for larger allocations stays theirs */
    block = find_close(&self->memory.reserved, size);
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
    CRK_TRY(segment_create(self, "crk_alloc", size, shortage, &block));
  }
  const bool is_given = give_out(heap, self, block, size, capture);
  if (is_given) {
    count_live(self, block);
    crk_priv_heap_unpoison(heap, block->ptr, bytes);
    *ptr = block->ptr;
  }
  crk_priv_mutex_unlock(&heap->lock);
  return is_given ? CRK_OK
                  : crk_priv_error(CRK_OUT_OF_MEMORY, "crk_alloc: no host memory for the table of allocations");
}

crk_status_t crk_alloc(crk_device_t self, size_t bytes, void **ptr) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_alloc");
  CRK_REFUSE_IF(ptr == NULL, "crk_alloc: ptr is NULL");
  return allocate(self, bytes, EMPTY_RESERVED, ptr);
}

bool crk_priv_alloc_spare(crk_device_t self, size_t bytes, void **ptr) {
  return allocate(self, bytes, EMPTY_NOTHING, ptr) == CRK_OK;
}

crk_status_t crk_free(crk_device_t self, void *ptr) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_free");
  if (ptr == NULL) {
    return CRK_OK;
  }
#if defined(CRK_ASAN) /* launches that are kept may use the memory, which is poisoned below */
  if (self->driver->backend == CRK_BACKEND_CPU && crk_priv_replays(self)) {
    crk_priv_replay_end(self);
  }
#endif
  crk_heap_t *heap = self->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  crk_block_t *block = crk_priv_table_find(heap, ptr);
  if (block == NULL || block->owner != self) {
    crk_priv_mutex_unlock(&heap->lock);
    return crk_priv_error(
        CRK_INVALID_ARGUMENT,
        "crk_free: ptr %p is not the beginning of a live allocation of this handle; free each pointer once, "
        "with the handle that allocated it",
        ptr);
  }
  /* Whichever thread frees the block, the work that the capture recorded may use it. */
  const crk_graph_t capture = atomic_load(&self->capture);
  if (capture != NULL && !graph_note(capture, block)) {
    crk_priv_mutex_unlock(&heap->lock);
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_free: no host memory to record that the captured graph uses ptr %p",
                          ptr);
  }
  crk_priv_table_remove(heap, block);
  self->memory.stats.live_bytes -= block->bytes;
  self->memory.stats.live_allocations--;
  crk_segment_t *reclaimed = NULL;
  if (capture != NULL) {
    crk_priv_bins_add(heap, &self->memory.captured, block);
  } else if (block->graphs > 0) {
    crk_priv_block_retire(heap, block);
  } else {
    crk_priv_block_release(heap, block, self);
    reclaimed = crk_priv_heap_unlink_surplus(heap, NULL);
  }
  crk_priv_mutex_unlock(&heap->lock);
  crk_priv_segments_free(heap, reclaimed);
  return CRK_OK;
}

crk_status_t crk_memory_reserve(crk_device_t self, size_t bytes) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_memory_reserve");
  CRK_TRY(crk_priv_refuse_capture(self, "crk_memory_reserve"));
  if (bytes == 0) {
    return CRK_OK;
  }
  const size_t size = crk_priv_block_bytes(bytes);
  if (size == 0) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_memory_reserve: bytes is %zu, more than any device has", bytes);
  }
  crk_heap_t *heap = self->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  crk_block_t *block = find_cached(heap, self, size);
  if (block == NULL) {
    crk_priv_mutex_unlock(&heap->lock);
    CRK_TRY(segment_create(self, "crk_memory_reserve", size, EMPTY_CACHE, &block));
  }
  crk_priv_block_cut(heap, block, size);
  crk_priv_block_take(heap, block);
  block->owner = self;
  crk_priv_bins_add(heap, &self->memory.reserved, block);
  crk_priv_mutex_unlock(&heap->lock);
  return CRK_OK;
}

/* The program has entered a new phase: what may go back below the cache's limit counts from here. */
static void begin_phase_locked(crk_heap_t *heap) {
  heap->replaced_bytes = 0;
  heap->unused_limit = 0;
}

crk_status_t crk_memory_set_cache_limit(crk_device_t self, size_t bytes) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_memory_set_cache_limit");
  CRK_TRY(crk_priv_refuse_capture(self, "crk_memory_set_cache_limit"));
  crk_heap_t *heap = self->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  heap->limit = bytes;
  begin_phase_locked(heap);
  crk_priv_mutex_unlock(&heap->lock);
  return crk_priv_heap_trim(heap, bytes, NULL);
}

crk_status_t crk_memory_trim(crk_device_t self) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_memory_trim");
  CRK_TRY(crk_priv_refuse_capture(self, "crk_memory_trim"));
  crk_heap_t *heap = self->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  begin_phase_locked(heap);
  crk_priv_mutex_unlock(&heap->lock);
  return crk_priv_heap_trim(heap, 0, self);
}

_Static_assert(sizeof(crk_memory_stats_t) == CRK_SIZED_UP_TO(crk_memory_stats_t, peak_driver_bytes),
               "the last field ends the struct");

crk_status_t crk_memory_stats(crk_device_t self, crk_memory_stats_t *stats) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_memory_stats");
  CRK_REFUSE_IF(stats == NULL, "crk_memory_stats: stats is NULL");
  crk_heap_t *heap = self->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  crk_memory_stats_t now = self->memory.stats;
  now.cached_bytes = heap->cached_bytes + heap->aside_bytes;
  now.retired_bytes = heap->retired_bytes;
  now.driver_bytes = heap->segment_bytes[CRK_POOL_SMALL] + heap->segment_bytes[CRK_POOL_LARGE];
  now.peak_driver_bytes = heap->peak_segment_bytes;
  crk_priv_mutex_unlock(&heap->lock);
  return crk_priv_sized_give("crk_memory_stats", "stats", CRK_SIZED_UP_TO(crk_memory_stats_t, peak_driver_bytes), &now,
                             sizeof now, stats);
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
  CRK_TRY(crk_priv_capture_bar(self, "crk_host_free"));
  /* A copy that is still running would read or write freed memory. */
  const crk_status_t status = crk_priv_stream_wait(self);
  crk_priv_turns_leave(&self->capture_turns);
  self->driver->host_free(self->driver_device, ptr);
  return status;
}
