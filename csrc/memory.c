/* The caching allocator; memory.h explains it. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#include "core.h"

#define SMALLEST ((size_t)512)

/* ---- size classes: 512 bytes, then eight steps to every power of two */

static unsigned log2_floor(size_t value) {
  unsigned result = 0;
  while (value >>= 1) {
    result++;
  }
  return result;
}

/* The class whose blocks hold `bytes`, and the size of its blocks. False where the size cannot be had at all. */
static bool size_class_of(size_t bytes, uint32_t *size_class, size_t *rounded) {
  if (bytes <= SMALLEST) {
    *size_class = 0;
    *rounded = SMALLEST;
    return true;
  }
  if (bytes > (size_t)1 << 62) {
    return false;
  }
  const unsigned exponent = log2_floor(bytes - 1);
  const size_t step = (size_t)1 << (exponent - 3);
  const size_t steps = (bytes - 1) / step + 1; /* 9 .. 16 */
  *rounded = steps * step;
  *size_class = (exponent - 9) * 8 + (uint32_t)(steps - 8);
  return true;
}

/* ---- the table of blocks by address */

static size_t slot_of(const crk_heap_t *heap, const void *ptr) {
  return (((uintptr_t)ptr >> 8) * 0x9e3779b97f4a7c15u >> 20) & (heap->table_size - 1);
}

static bool table_insert(crk_heap_t *heap, crk_block_t *block) {
  if (heap->block_count >= heap->table_size) {
    const size_t old_size = heap->table_size, size = old_size == 0 ? 64 : 2 * old_size;
    crk_block_t **old = heap->table, **table = calloc(size, sizeof *table);
    if (table == NULL) {
      return false;
    }
    heap->table = table;
    heap->table_size = size;
    for (size_t i = 0; i < old_size; i++) {
      for (crk_block_t *moved = old[i], *next; moved != NULL; moved = next) {
        next = moved->next_in_table;
        const size_t slot = slot_of(heap, moved->ptr);
        moved->next_in_table = table[slot];
        table[slot] = moved;
      }
    }
    free(old);
  }
  const size_t slot = slot_of(heap, block->ptr);
  block->next_in_table = heap->table[slot];
  heap->table[slot] = block;
  heap->block_count++;
  return true;
}

static crk_block_t *table_find(const crk_heap_t *heap, const void *ptr) {
  if (heap->table_size == 0) {
    return NULL;
  }
  crk_block_t *block = heap->table[slot_of(heap, ptr)];
  while (block != NULL && block->ptr != ptr) {
    block = block->next_in_table;
  }
  return block;
}

static void table_remove(crk_heap_t *heap, crk_block_t *block) {
  crk_block_t **link = &heap->table[slot_of(heap, block->ptr)];
  while (*link != block) {
    link = &(*link)->next_in_table;
  }
  *link = block->next_in_table;
  heap->block_count--;
}

/* ---- the free lists; the caller holds the handle's lock */

static void free_list_push(crk_device_t device, crk_block_t *block) {
  crk_heap_t *heap = &device->heap;
  block->is_free = true;
  block->previous = NULL;
  block->next = heap->free[block->size_class];
  if (block->next != NULL) {
    block->next->previous = block;
  }
  heap->free[block->size_class] = block;
  block->newer = NULL;
  block->older = heap->newest;
  if (heap->newest != NULL) {
    heap->newest->newer = block;
  } else {
    heap->oldest = block;
  }
  heap->newest = block;
  heap->stats.cached_bytes += block->bytes;
  atomic_fetch_add(&device->context->cached_bytes, block->bytes);
}

static void free_list_remove(crk_device_t device, crk_block_t *block) {
  crk_heap_t *heap = &device->heap;
  block->is_free = false;
  block->is_reserved = false;
  *(block->previous != NULL ? &block->previous->next : &heap->free[block->size_class]) = block->next;
  if (block->next != NULL) {
    block->next->previous = block->previous;
  }
  *(block->newer != NULL ? &block->newer->older : &heap->newest) = block->older;
  *(block->older != NULL ? &block->older->newer : &heap->oldest) = block->newer;
  heap->stats.cached_bytes -= block->bytes;
  atomic_fetch_sub(&device->context->cached_bytes, block->bytes);
}

/* Takes a block that holds the class out of the free lists. A block up to a quarter too large will do; while a graph is
 * captured any that is large enough. */
static crk_block_t *free_list_take(crk_device_t device, uint32_t size_class, bool capturing) {
  const uint32_t last = capturing || size_class + 2 >= CRK_SIZE_CLASSES ? CRK_SIZE_CLASSES - 1 : size_class + 2;
  for (uint32_t i = size_class; i <= last; i++) {
    crk_block_t *block = device->heap.free[i];
    if (block != NULL) {
      free_list_remove(device, block);
      return block;
    }
  }
  return NULL;
}

/* Unlinks free blocks, oldest first, until no more than `keep` bytes are cached (by all handles), and chains them through
 * `next`. Reserved blocks stay where `spare_reserved`. */
static crk_block_t *unlink_free_blocks(crk_device_t device, size_t keep, bool spare_reserved) {
  crk_block_t *unlinked = NULL, *newer;
  for (crk_block_t *block = device->heap.oldest; block != NULL; block = newer) {
    newer = block->newer;
    if (atomic_load(&device->context->cached_bytes) <= keep) {
      break;
    }
    if (spare_reserved && block->is_reserved) {
      continue;
    }
    free_list_remove(device, block);
    table_remove(&device->heap, block);
    block->next = unlinked;
    unlinked = block;
  }
  return unlinked;
}

/* Returns unlinked blocks to the driver, after the work that may still use them. */
static crk_status_t release_blocks(crk_device_t device, crk_block_t *blocks) {
  const crk_status_t status = device->driver->stream_synchronize(device->driver_device, device->stream);
  while (blocks != NULL) {
    crk_block_t *next = blocks->next;
    device->driver->free(device->driver_device, blocks->ptr);
    free(blocks);
    blocks = next;
  }
  return status;
}

/* Gives the driver what is cached beyond `keep` bytes; nothing while the handle is captured. */
static crk_status_t trim(crk_device_t device, size_t keep, bool spare_reserved) {
  if (atomic_load(&device->context->cached_bytes) <= keep) {
    return CRK_OK;
  }
  crk_status_t status = CRK_OK;
  crk_priv_mutex_lock(&device->capture_lock);
  if (!crk_priv_capturing(device)) {
    crk_priv_mutex_lock(&device->lock);
    crk_block_t *blocks = unlink_free_blocks(device, keep, spare_reserved);
    crk_priv_mutex_unlock(&device->lock);
    if (blocks != NULL) {
      status = release_blocks(device, blocks);
    }
  }
  crk_priv_mutex_unlock(&device->capture_lock);
  return status;
}

/* The same after a block has come back, to what the cache may hold. */
static crk_status_t trim_to_limit(crk_device_t device) {
  return trim(device, atomic_load(&device->context->cache_limit), true);
}

/* Memory has run out: gives back what all handles on the GPU have cached. False where that is nothing. */
static bool trim_all(const crk_driver_device_t *gpu) {
  bool is_any = false;
  for (crk_device_t handle = crk_priv_handles_lock(); handle != NULL; handle = handle->next) {
    if (handle->driver_device == gpu && atomic_load(&handle->context->cached_bytes) > 0) {
      trim(handle, 0, false);
      is_any = true;
    }
  }
  crk_priv_handles_unlock();
  return is_any;
}

crk_status_t crk_priv_heap_driver_alloc(crk_device_t self, size_t bytes, void **ptr) {
  crk_status_t status = self->driver->alloc(self->driver_device, bytes, ptr);
  if (status == CRK_OUT_OF_MEMORY && trim_all(self->driver_device)) {
    status = self->driver->alloc(self->driver_device, bytes, ptr);
  }
  return status;
}

/* A new block from the driver, in the table and live. */
static crk_status_t block_create(crk_device_t device, const char *where, size_t bytes, uint32_t size_class,
                                 crk_block_t **block) {
  crk_block_t *self = calloc(1, sizeof *self);
  if (self == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "%s: no host memory for the record of a block", where);
  }
  const crk_status_t status = crk_priv_heap_driver_alloc(device, bytes, &self->ptr);
  if (status != CRK_OK) {
    free(self);
    return status;
  }
  self->bytes = bytes;
  self->size_class = size_class;
  crk_priv_mutex_lock(&device->lock);
  device->heap.stats.driver_allocations++;
  const bool inserted = table_insert(&device->heap, self);
  crk_priv_mutex_unlock(&device->lock);
  if (!inserted) {
    device->driver->free(device->driver_device, self->ptr);
    free(self);
    return crk_priv_error(CRK_OUT_OF_MEMORY, "%s: no host memory for the table of blocks", where);
  }
  *block = self;
  return CRK_OK;
}

static void count_live(crk_heap_t *heap, const crk_block_t *block) {
  heap->stats.live_bytes += block->bytes;
  heap->stats.live_allocations++;
}

crk_status_t crk_alloc(crk_device_t self, size_t bytes, void **ptr) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_alloc");
  CRK_REFUSE_IF(ptr == NULL, "crk_alloc: ptr is NULL");
  if (bytes == 0) {
    *ptr = NULL;
    return CRK_OK;
  }
  uint32_t size_class;
  size_t rounded;
  if (!size_class_of(bytes, &size_class, &rounded)) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_alloc: %zu bytes are more than any device has", bytes);
  }
  crk_priv_mutex_lock(&self->lock);
  const crk_graph_t capture = atomic_load(&self->capture);
  crk_block_t *block = free_list_take(self, size_class, capture != NULL);
  if (block != NULL) {
    if (capture != NULL) {
      block->graph = capture;
    }
    count_live(&self->heap, block);
  }
  crk_priv_mutex_unlock(&self->lock);
  if (block == NULL) {
    if (capture != NULL) {
      return crk_priv_error(
          CRK_CAPTURE,
          "crk_alloc: no cached block holds %zu bytes, and a capture cannot take memory from the driver; "
          "call crk_memory_reserve(%zu) before crk_graph_begin",
          bytes, bytes);
    }
    CRK_TRY(block_create(self, "crk_alloc", rounded, size_class, &block));
    crk_priv_mutex_lock(&self->lock);
    count_live(&self->heap, block);
    crk_priv_mutex_unlock(&self->lock);
  }
  *ptr = block->ptr;
  return CRK_OK;
}

crk_status_t crk_free(crk_device_t self, void *ptr) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_free");
  if (ptr == NULL) {
    return CRK_OK;
  }
  crk_priv_mutex_lock(&self->lock);
  crk_block_t *block = table_find(&self->heap, ptr);
  if (block == NULL || block->is_free || block->is_retired) {
    crk_priv_mutex_unlock(&self->lock);
    return crk_priv_error(CRK_INVALID_ARGUMENT,
                          "crk_free: ptr %p is not the beginning of a live allocation of this handle", ptr);
  }
  const crk_graph_t capture = atomic_load(&self->capture);
  self->heap.stats.live_bytes -= block->bytes;
  self->heap.stats.live_allocations--;
  if (capture != NULL && (block->graph == NULL || block->graph == capture)) {
    block->graph = capture;
    free_list_push(self, block);
  } else if (block->graph != NULL) {
    block->is_retired = true;
  } else {
    free_list_push(self, block);
  }
  crk_priv_mutex_unlock(&self->lock);
  /* The memory is given back whatever the stream's work came to; the next synchronisation tells of that. */
  trim_to_limit(self);
  return CRK_OK;
}

crk_status_t crk_memory_reserve(crk_device_t self, size_t bytes) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_memory_reserve");
  CRK_TRY(crk_priv_refuse_capture(self, "crk_memory_reserve"));
  if (bytes == 0) {
    return CRK_OK;
  }
  uint32_t size_class;
  size_t rounded;
  if (!size_class_of(bytes, &size_class, &rounded)) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_memory_reserve: %zu bytes are more than any device has", bytes);
  }
  crk_block_t *block;
  CRK_TRY(block_create(self, "crk_memory_reserve", rounded, size_class, &block));
  crk_priv_mutex_lock(&self->lock);
  free_list_push(self, block);
  block->is_reserved = true;
  crk_priv_mutex_unlock(&self->lock);
  return CRK_OK;
}

crk_status_t crk_memory_set_cache_limit(crk_device_t self, size_t bytes) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_memory_set_cache_limit");
  CRK_TRY(crk_priv_refuse_capture(self, "crk_memory_set_cache_limit"));
  atomic_store(&self->context->cache_limit, bytes);
  return trim_to_limit(self);
}

crk_status_t crk_memory_trim(crk_device_t self) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_memory_trim");
  CRK_TRY(crk_priv_refuse_capture(self, "crk_memory_trim"));
  return trim(self, 0, false);
}

crk_status_t crk_memory_stats(crk_device_t self, crk_memory_stats_t *stats) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_memory_stats");
  CRK_REFUSE_IF(stats == NULL, "crk_memory_stats: stats is NULL");
  crk_priv_mutex_lock(&self->lock);
  *stats = self->heap.stats;
  crk_priv_mutex_unlock(&self->lock);
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

/* ---- graphs and the end */

void crk_priv_heap_capture_end(crk_device_t device, crk_graph_t graph) {
  crk_priv_mutex_lock(&device->lock);
  crk_block_t *newer;
  for (crk_block_t *block = device->heap.oldest; block != NULL; block = newer) {
    newer = block->newer;
    if (block->graph == graph) {
      free_list_remove(device, block);
      block->is_retired = true;
    }
  }
  crk_priv_mutex_unlock(&device->lock);
}

void crk_priv_heap_graph_destroy(crk_device_t device, crk_graph_t graph) {
  crk_heap_t *heap = &device->heap;
  crk_priv_mutex_lock(&device->lock);
  for (size_t i = 0; i < heap->table_size; i++) {
    for (crk_block_t *block = heap->table[i]; block != NULL; block = block->next_in_table) {
      if (block->graph != graph) {
        continue;
      }
      block->graph = NULL;
      if (block->is_retired) {
        block->is_retired = false;
        free_list_push(device, block);
      }
    }
  }
  crk_priv_mutex_unlock(&device->lock);
  trim_to_limit(device);
}

void crk_priv_heap_deinit(crk_device_t device) {
  crk_heap_t *heap = &device->heap;
  for (size_t i = 0; i < heap->table_size; i++) {
    for (crk_block_t *block = heap->table[i], *next; block != NULL; block = next) {
      next = block->next_in_table;
      if (block->is_free) {
        atomic_fetch_sub(&device->context->cached_bytes, block->bytes);
      }
      device->driver->free(device->driver_device, block->ptr);
      free(block);
    }
  }
  free(heap->table);
  memset(heap, 0, sizeof *heap);
}
