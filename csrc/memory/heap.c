/* The heap of a GPU and its handles: blocks that streams still use, segments that are returned to the driver, blocks of
 * graphs. heap.h explains them. */
#include "memory/heap.h"

#include <stdlib.h>

#include "core.h"
#include "memory/heap_blocks.h"

/* Number of queries of an event in calls that take long anyway. A GPU needs microseconds to pass an event, even on an
 * idle stream. */
enum { IDLE_POLLS = 64 };

/* How often, and for how long at a time, a trim waits until no handle keeps launches. */
enum { CLEAR_TURNS = 50 };
static const double CLEAR_SECONDS = 0.001;

/* A large segment goes back when it was empty for this many synchronisations, and a multiple of that number looks for
 * such segments. They remain after the conversion of weights, or after a long prompt. A program that generates text
 * synchronises once per token, and the wait for a driver that frees gigabytes must be rare there. So what loading
 * leaves goes back soon, and each time that segments went back makes the number UNUSED_GROWTH times as large. */
enum { FIRST_UNUSED = 4, UNUSED_GROWTH = 4, LAST_UNUSED = 256 };

/* A new segment of LEAST_REPLACING bytes may replace empty ones of LEAST_REPLACED. Smaller ones stay cached, because a
 * capture may count on them. */
#define LEAST_REPLACING ((size_t)16 << 20)
#define LEAST_REPLACED  ((size_t)8 << 20)

/* ---- fences: which blocks a stream still uses */

bool crk_priv_heap_has_passed(crk_heap_t *heap, crk_device_t device, uint64_t since, int polls) {
  crk_memory_t *memory = &device->memory;
  const crk_driver_t *driver = heap->driver;
  uint64_t epoch;
  if (!crk_priv_gate_try_enter(device->gate, &epoch)) {
    return false;
  }
  bool is_idle = false;
  if (!crk_priv_replay_is_clear(device)) {
    /* Launches that are kept may use what was freed behind them. To launch them here would wait with the lock held. */
  } else if (crk_priv_capturing(device)) {
    /* crk_graph_begin has marked the blocks that were freed before its wait. Work that another thread gave between this
     * wait and the capture may still use the others. */
    is_idle = !crk_priv_bins_has_any(&memory->bins);
  } else if (memory->fence != NULL || driver->event_create(heap->gpu, &memory->fence) == CRK_OK) {
    for (int i = 0; i < 2 && !is_idle; i++) { /* an old fence may have to be recorded again */
      if (memory->fence_stamp == 0) {
        const uint64_t stamp = ++heap->clock;
        if (driver->event_record(heap->gpu, memory->fence, device->own_stream) != CRK_OK) {
          break;
        }
        memory->fence_stamp = stamp;
      }
      crk_status_t status = driver->event_query(heap->gpu, memory->fence);
      for (int poll = 1; poll < polls && status == CRK_NOT_READY; poll++) {
        status = driver->event_query(heap->gpu, memory->fence);
      }
      if (status != CRK_OK) {
        break;
      }
      is_idle = memory->fence_stamp > since;
      crk_priv_blocks_idle(heap, device, memory->fence_stamp);
      memory->fence_stamp = 0;
    }
  }
  crk_priv_gate_leave(device->gate);
  return is_idle;
}

/* Whether the cache is above its limit and has a segment without a live block. */
static bool has_surplus(const crk_heap_t *heap) {
  return heap->cached_bytes > heap->limit && heap->oldest_empty != NULL;
}

/* Whether all streams of the GPU are idle; the stream of `idle` is known to be. Then no free block is in use, and free
 * neighbours are joined. */
static bool is_gpu_idle(crk_heap_t *heap, crk_device_t idle, int polls) {
  const uint64_t since = heap->clock;
  for (crk_device_t device = heap->handles; device != NULL; device = device->memory.next) {
    if (device != idle && !crk_priv_heap_has_passed(heap, device, since, polls)) {
      return false;
    }
  }
  crk_priv_blocks_join(heap);
  return true;
}

crk_segment_t *crk_priv_heap_unlink_surplus(crk_heap_t *heap, crk_device_t idle) {
  return has_surplus(heap) && is_gpu_idle(heap, idle, idle != NULL ? IDLE_POLLS : 1)
             ? crk_priv_segments_unlink(heap, heap->limit, 0, UINT64_MAX)
             : NULL;
}

/* Whether segments may be returned below the cache's limit. Not during a capture, which may need what is cached. And at
 * most twice the peak in total: a program that repeats itself must not return and take the same memory for ever. */
static bool may_replace(const crk_heap_t *heap) {
  for (crk_device_t device = heap->handles; device != NULL; device = device->memory.next) {
    if (crk_priv_capturing(device)) {
      return false;
    }
  }
  return heap->oldest_empty != NULL && heap->replaced_bytes / 2 <= heap->peak_segment_bytes;
}

static crk_segment_t *unlink_replaced(crk_heap_t *heap, size_t keep, uint64_t until) {
  const size_t cached = heap->cached_bytes;
  crk_segment_t *segments = crk_priv_segments_unlink(heap, keep, LEAST_REPLACED, until);
  heap->replaced_bytes += cached - heap->cached_bytes;
  return segments;
}

crk_segment_t *crk_priv_heap_unlink_for(crk_heap_t *heap, size_t bytes) {
  return bytes >= LEAST_REPLACING && may_replace(heap) && is_gpu_idle(heap, NULL, IDLE_POLLS)
             ? unlink_replaced(heap, heap->cached_bytes > bytes ? heap->cached_bytes - bytes : 0, UINT64_MAX)
             : NULL;
}

static uint32_t unused_limit(const crk_heap_t *heap) {
  return heap->unused_limit != 0 ? heap->unused_limit : FIRST_UNUSED;
}

/* Whether it is time to look for segments that were empty for that many synchronisations, and there may be one. */
static bool is_time_for_unused(const crk_heap_t *heap) {
  const uint32_t limit = unused_limit(heap);
  return heap->synchronisations % limit == 0 && may_replace(heap) &&
         heap->oldest_empty->emptied_at + limit <= heap->synchronisations;
}

uint64_t crk_priv_heap_wait_begin(crk_device_t device) {
  crk_heap_t *heap = device->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  const uint64_t stamp = ++heap->clock;
  crk_priv_mutex_unlock(&heap->lock);
  return stamp;
}

void crk_priv_heap_wait_end(crk_device_t device, uint64_t stamp) {
  crk_heap_t *heap = device->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  crk_priv_blocks_idle(heap, device, stamp);
  if (device->memory.fence_stamp < stamp) {
    device->memory.fence_stamp = 0;
  }
  crk_priv_mutex_unlock(&heap->lock);
}

crk_status_t crk_priv_heap_synchronize(crk_device_t device) {
  crk_heap_t *heap = device->context->heap;
  const uint64_t stamp = crk_priv_heap_wait_begin(device);
  CRK_TRY(device->driver->stream_synchronize(device->driver_device, crk_priv_stream(device)));
  crk_priv_mutex_lock(&heap->lock);
  heap->synchronisations++;
  const bool is_time = is_time_for_unused(heap);
  if (is_time || has_surplus(heap)) {
    crk_priv_blocks_idle(heap, device, stamp);
  }
  crk_segment_t *segments = crk_priv_heap_unlink_surplus(heap, device);
  if (segments == NULL && is_time && is_gpu_idle(heap, device, IDLE_POLLS)) {
    const uint32_t limit = unused_limit(heap);
    segments = unlink_replaced(heap, 0, heap->synchronisations - limit);
    if (segments != NULL && limit < LAST_UNUSED) {
      heap->unused_limit = limit * UNUSED_GROWTH;
    }
  }
  crk_priv_mutex_unlock(&heap->lock);
  crk_priv_segments_free(heap, segments);
  return CRK_OK;
}

/* ---- emptying the cache */

/* One event on the stream of each handle on the GPU, to wait for without the heap's lock. */
typedef struct waits {
  struct {
    crk_device_t device; /* only for comparison: the handle may be closed meanwhile */
    crk_event_t event;
  } *of;
  size_t count;
  uint64_t stamp;
} waits_t;

/* Whether the handle keeps launches. False behind a closed gate: the handle is being closed, and keeps none. */
static bool keeps_launches(crk_device_t device) {
  uint64_t epoch;
  if (!crk_priv_gate_try_enter(device->gate, &epoch)) {
    return false;
  }
  const bool keeps = !crk_priv_replay_is_clear(device);
  crk_priv_gate_leave(device->gate);
  return keeps;
}

/* Waits for a moment in which no handle keeps launches, since to record an event would launch them with the heap's lock
 * held. Not for ever: another thread may launch all the time. Leaves the lock meanwhile. */
static void await_clear(crk_heap_t *heap) {
  for (int turn = 0; turn < CLEAR_TURNS; turn++) {
    crk_device_t device = heap->handles;
    while (device != NULL && !keeps_launches(device)) {
      device = device->memory.next;
    }
    if (device == NULL) {
      return;
    }
    crk_priv_condition_wait_for(&heap->freed, &heap->lock, CLEAR_SECONDS);
  }
}

/* Records the events. The heap's lock keeps the handles open. A handle with a closed gate is left out, and so is one
 * that is being captured or keeps launches: its blocks stay bound to its stream. */
static crk_status_t waits_begin(crk_heap_t *heap, waits_t *waits) {
  size_t handles = 0;
  for (crk_device_t device = heap->handles; device != NULL; device = device->memory.next) {
    handles++;
  }
  waits->of = calloc(handles, sizeof *waits->of);
  waits->count = 0;
  waits->stamp = ++heap->clock;
  if (waits->of == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "emptying the cache: no host memory for %zu events", handles);
  }
  crk_status_t status = CRK_OK;
  for (crk_device_t device = heap->handles; device != NULL && status == CRK_OK; device = device->memory.next) {
    uint64_t epoch;
    if (!crk_priv_gate_try_enter(device->gate, &epoch)) {
      continue;
    }
    crk_event_t event = NULL;
    if (!crk_priv_capturing(device) && crk_priv_replay_is_clear(device)) {
      status = crk_priv_event_create(device, &event);
      status = status == CRK_OK ? crk_priv_event_record(event, device, epoch) : status;
    }
    crk_priv_gate_leave(device->gate);
    if (status == CRK_OK && event != NULL) {
      waits->of[waits->count].device = device;
      waits->of[waits->count++].event = event;
    } else {
      crk_event_destroy(event);
    }
  }
  return status;
}

/* Waits for the events, without the heap's lock. Then marks the blocks freed before them as idle. */
static crk_status_t waits_end(crk_heap_t *heap, waits_t *waits) {
  crk_status_t status = CRK_OK;
  for (size_t i = 0; i < waits->count; i++) {
    const crk_status_t waited = crk_event_synchronize(waits->of[i].event);
    status = status == CRK_OK ? waited : status;
    crk_event_destroy(waits->of[i].event);
  }
  crk_priv_mutex_lock(&heap->lock);
  for (crk_device_t device = heap->handles; device != NULL; device = device->memory.next) {
    for (size_t i = 0; i < waits->count; i++) {
      if (waits->of[i].device == device) {
        crk_priv_blocks_idle(heap, device, waits->stamp);
      }
    }
  }
  crk_priv_blocks_join(heap);
  crk_priv_mutex_unlock(&heap->lock);
  free(waits->of);
  return status;
}

crk_status_t crk_priv_heap_trim(crk_heap_t *heap, size_t keep, crk_device_t reserver) {
  waits_t waits = {NULL, 0, 0};
  crk_priv_mutex_lock(&heap->lock);
  await_clear(heap);
  for (int pool = 0; reserver != NULL && pool < 2; pool++) {
    uint32_t i;
    while ((i = crk_priv_bins_class(reserver->memory.reserved.pools[pool].occupied, 0)) < CRK_SIZE_CLASSES) {
      crk_block_t *block = reserver->memory.reserved.pools[pool].lists[i];
      crk_priv_bins_remove(heap, block);
      crk_priv_block_release(heap, block, reserver);
    }
  }
  while (keep == 0 && heap->freeing > 0) { /* segments that other threads are returning right now */
    crk_priv_condition_wait(&heap->freed, &heap->lock);
  }
  if (heap->cached_bytes <= keep || (heap->oldest_empty == NULL && keep > 0)) {
    crk_priv_mutex_unlock(&heap->lock);
    return CRK_OK;
  }
  crk_status_t status = waits_begin(heap, &waits);
  crk_priv_mutex_unlock(&heap->lock);
  const crk_status_t waited = waits_end(heap, &waits);
  status = status == CRK_OK ? waited : status;
  crk_priv_mutex_lock(&heap->lock);
  crk_segment_t *segments = crk_priv_segments_unlink(heap, keep, 0, UINT64_MAX);
  crk_priv_mutex_unlock(&heap->lock);
  crk_priv_segments_free(heap, segments);
  return status;
}

/* Calls `alloc`. If it is out of memory, empties the cache and calls it again. */
static crk_status_t alloc_or_trim(crk_device_t self, size_t bytes, void **ptr,
                                  crk_status_t (*alloc)(crk_driver_device_t *, size_t, void **)) {
  crk_status_t status = alloc(self->driver_device, bytes, ptr);
  if (status == CRK_OUT_OF_MEMORY && !crk_priv_capturing(self)) {
    crk_priv_heap_trim(self->context->heap, 0, NULL);
    status = alloc(self->driver_device, bytes, ptr);
  }
  return status;
}

crk_status_t crk_priv_heap_driver_alloc(crk_device_t self, size_t bytes, void **ptr) {
  return alloc_or_trim(self, bytes, ptr, self->driver->alloc);
}

crk_status_t crk_priv_heap_host_alloc(crk_device_t self, size_t bytes, void **ptr) {
  return alloc_or_trim(self, bytes, ptr, self->driver->host_alloc);
}

crk_status_t crk_priv_heap_coherent_alloc(crk_device_t self, size_t bytes, void **ptr) {
  return alloc_or_trim(self, bytes, ptr, self->driver->host_alloc_coherent);
}

/* ---- graphs */

void crk_priv_heap_capture_end(crk_device_t device, crk_graph_t graph) {
  crk_heap_t *heap = device->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  for (size_t i = 0; i < graph->memory.count; i++) {
    crk_block_t *block = graph->memory.blocks[i];
    if (block->bins == &device->memory.captured) {
      crk_priv_bins_remove(heap, block);
      crk_priv_block_retire(heap, block);
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
      crk_priv_block_release(heap, block, device);
    }
  }
  crk_segment_t *reclaimed = crk_priv_heap_unlink_surplus(heap, NULL);
  crk_priv_mutex_unlock(&heap->lock);
  crk_priv_segments_free(heap, reclaimed);
  free(graph->memory.blocks);
}

/* ---- handles */

void crk_priv_heap_join(crk_device_t device) {
  crk_heap_t *heap = device->context->heap;
  crk_priv_mutex_lock(&heap->lock);
  device->memory.next = heap->handles;
  heap->handles = device;
  crk_priv_mutex_unlock(&heap->lock);
}

/* Frees a block of a leaving handle. The block is not joined with its neighbours here, because a neighbour may still
 * belong to the leaving handle, and the joined block would too. crk_priv_heap_leave joins them when all are free of
 * it. */
static void block_disown(crk_heap_t *heap, crk_block_t *block) {
  const bool was_live = block->bins != &block->owner->memory.bins;
  if (block->bins != NULL) {
    crk_priv_bins_remove(heap, block);
  } else if (block->is_retired) {
    heap->retired_bytes -= block->bytes;
  } else {
    crk_priv_table_remove(heap, block);
  }
  crk_priv_heap_poison(heap, block->ptr, block->bytes);
  block->is_retired = false;
  block->graphs = 0;
  block->noted = NULL;
  block->owner = NULL;
  crk_priv_bins_add(heap, &heap->idle, block);
  if (was_live && --block->segment->live == 0) {
    crk_priv_segment_emptied(heap, block->segment);
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
  crk_priv_blocks_join(heap);
  crk_segment_t *segments = heap->handles == NULL ? crk_priv_segments_unlink(heap, 0, 0, UINT64_MAX)
                                                  : crk_priv_heap_unlink_surplus(heap, NULL);
  crk_priv_mutex_unlock(&heap->lock);
  crk_priv_segments_free(heap, segments);
  if (device->memory.fence != NULL) {
    heap->driver->event_destroy(heap->gpu, device->memory.fence);
  }
}
