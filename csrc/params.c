/* The cache of kernel parameters in device memory; params.h explains it. */
#include "params.h"

#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "layout.h"

#define SLOT_BYTES (CRK_PARAM_NUMBERS * sizeof(uint64_t))

static uint64_t hash_of(const uint64_t *numbers, size_t count) {
  uint64_t hash = count;
  for (size_t i = 0; i < count; i++) {
    hash = (hash ^ numbers[i]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

crk_status_t crk_priv_params_prepare(crk_device_t device) {
  crk_param_cache_t *cache = &device->params;
  if (cache->slots != NULL) {
    return CRK_OK;
  }
  const size_t bytes = CRK_PARAM_SLOTS * SLOT_BYTES;
  void *device_slab, *host_slab;
  CRK_TRY(crk_priv_heap_driver_alloc(device, bytes, &device_slab));
  crk_status_t status = crk_priv_heap_host_alloc(device, bytes, &host_slab);
  if (status != CRK_OK) {
    goto fail_host;
  }
  cache->slots = calloc(CRK_PARAM_SLOTS, sizeof *cache->slots);
  if (cache->slots == NULL) {
    status = crk_priv_error(CRK_OUT_OF_MEMORY, "crk_params_acquire: no host memory for the cache of parameters");
    goto fail_slots;
  }
  cache->device_slab = device_slab;
  cache->host_slab = host_slab;
  memset(cache->buckets, 0xff, sizeof cache->buckets);
  return CRK_OK;

fail_slots:
  device->driver->host_free(device->driver_device, host_slab);
fail_host:
  device->driver->free(device->driver_device, device_slab);
  return status;
}

static bool slot_holds(const crk_param_cache_t *cache, int index, uint64_t hash, const uint64_t *numbers,
                       size_t count) {
  const crk_param_slot_t *slot = &cache->slots[index];
  return slot->hash == hash && slot->count == count &&
         memcmp(cache->host_slab + (size_t)index * CRK_PARAM_NUMBERS, numbers, count * sizeof *numbers) == 0;
}

static int find_slot(const crk_param_cache_t *cache, uint64_t hash, const uint64_t *numbers, size_t count) {
  for (int i = cache->buckets[hash % CRK_PARAM_BUCKETS]; i >= 0; i = cache->slots[i].next) {
    if (slot_holds(cache, i, hash, numbers, count)) {
      return i;
    }
  }
  return -1;
}

/* Finds a slot that this capture uploaded. Such slots are in no bucket. */
static int find_captured(const crk_param_cache_t *cache, const crk_graph_t capture, uint64_t hash,
                         const uint64_t *numbers, size_t count) {
  for (int i = 0; i < CRK_PARAM_SLOTS; i++) {
    if (cache->slots[i].graph == capture && slot_holds(cache, i, hash, numbers, count)) {
      return i;
    }
  }
  return -1;
}

static void slot_clear(crk_param_cache_t *cache, int index) {
  crk_param_slot_t *slot = &cache->slots[index];
  if (slot->count == 0) {
    return;
  }
  int16_t *link = &cache->buckets[slot->hash % CRK_PARAM_BUCKETS];
  while (*link != index) {
    link = &cache->slots[*link].next;
  }
  *link = slot->next;
  slot->count = 0;
}

/* Chooses the slot to overwrite: one that was never used, or only by captures; else the least recently used slot that
 * is not held and has no running copy. If all copies are still running, waits for the oldest. During a capture all
 * copies are done, because a capture begins with an idle stream, and events must not be queried. */
static crk_status_t choose_victim(crk_device_t device, bool capturing, int *victim) {
  const crk_driver_t *driver = device->driver;
  crk_param_cache_t *cache = &device->params;
  bool passed[CRK_PARAM_SLOTS] = {false};
  int oldest_busy = -1;
  for (;;) {
    int best = -1;
    for (int i = 0; i < CRK_PARAM_SLOTS; i++) {
      const crk_param_slot_t *slot = &cache->slots[i];
      if (slot->holders > 0 || passed[i]) {
        continue;
      }
      if (slot->copied == NULL) {
        *victim = i;
        return CRK_OK;
      }
      if (best < 0 || slot->last_used < cache->slots[best].last_used) {
        best = i;
      }
    }
    if (best < 0) {
      break;
    }
    const crk_status_t copied =
        capturing ? CRK_OK : driver->event_query(device->driver_device, cache->slots[best].copied);
    if (copied != CRK_NOT_READY) {
      *victim = best;
      return copied;
    }
    passed[best] = true;
    oldest_busy = oldest_busy < 0 ? best : oldest_busy;
  }
  if (oldest_busy < 0) {
    return crk_priv_error(
        CRK_OUT_OF_MEMORY,
        "crk_params_acquire: all %d entries of the cache are held; release some with crk_params_release",
        CRK_PARAM_SLOTS);
  }
  *victim = oldest_busy;
  return driver->event_synchronize(device->driver_device, cache->slots[oldest_busy].copied);
}

/* Writes the numbers into the host slot and starts the copy to the device slot. */
static crk_status_t upload(crk_device_t device, int index, const uint64_t *numbers, size_t count, uint64_t hash,
                           crk_graph_t capture) {
  const crk_driver_t *driver = device->driver;
  crk_param_cache_t *cache = &device->params;
  crk_param_slot_t *slot = &cache->slots[index];
  slot_clear(cache, index);
  uint64_t *host = cache->host_slab + (size_t)index * CRK_PARAM_NUMBERS;
  memcpy(host, numbers, count * sizeof *numbers);
  if (capture == NULL && slot->copied == NULL) {
    CRK_TRY(driver->event_create(device->driver_device, &slot->copied));
  }
  CRK_TRY(driver->copy(device->driver_device, crk_priv_stream(device),
                       cache->device_slab + (size_t)index * CRK_PARAM_NUMBERS, host, count * sizeof *numbers,
                       CRK_COPY_TO_DEVICE));
  if (capture == NULL) {
    const crk_status_t recorded = driver->event_record(device->driver_device, slot->copied, crk_priv_stream(device));
    if (recorded != CRK_OK) { /* nothing else says when the copy has read the slot */
      slot->holders += driver->stream_synchronize(device->driver_device, crk_priv_stream(device)) != CRK_OK;
      return recorded;
    }
    int16_t *bucket = &cache->buckets[hash % CRK_PARAM_BUCKETS];
    slot->next = *bucket;
    *bucket = (int16_t)index;
  } else {
    /* Each replay repeats the copy. So nobody outside the graph may find this slot, and nobody may change it. */
    slot->graph = capture;
    slot->holders++;
  }
  slot->hash = hash;
  slot->count = (uint16_t)count;
  return CRK_OK;
}

static crk_status_t acquire(crk_device_t self, const uint64_t *numbers, size_t count, crk_params_t *params) {
  crk_param_cache_t *cache = &self->params;
  const crk_graph_t capture = atomic_load(&self->capture);
  CRK_TRY(crk_priv_params_prepare(self));
  const uint64_t hash = hash_of(numbers, count);
  int index = find_slot(cache, hash, numbers, count);
  if (index < 0 && capture != NULL) {
    index = find_captured(cache, capture, hash, numbers, count);
  }
  if (index >= 0) {
    const uint64_t bit = (uint64_t)1 << (index % 64);
    if (capture != NULL && cache->slots[index].graph == NULL && (capture->param_uses.bits[index / 64] & bit) == 0) {
      capture->param_uses.bits[index / 64] |= bit;
      cache->slots[index].holders++;
    }
  } else {
    CRK_TRY(choose_victim(self, capture != NULL, &index));
    CRK_TRY(upload(self, index, numbers, count, hash, capture));
  }
  crk_param_slot_t *slot = &cache->slots[index];
  slot->holders++;
  slot->last_used = ++cache->clock;
  params->ptr = cache->device_slab + (size_t)index * CRK_PARAM_NUMBERS;
  params->entry = slot;
  return CRK_OK;
}

crk_status_t crk_params_acquire(crk_device_t self, const uint64_t *numbers, size_t count, crk_params_t *params) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_params_acquire");
  CRK_REFUSE_IF(params == NULL, "crk_params_acquire: params is NULL");
  CRK_REFUSE_IF(numbers == NULL && count > 0, "crk_params_acquire: numbers is NULL");
  CRK_REFUSE_IF(count > CRK_PARAM_NUMBERS, "crk_params_acquire: count is %zu, the most is %d", count,
                CRK_PARAM_NUMBERS);
  if (count == 0) {
    *params = (crk_params_t){NULL, NULL};
    return CRK_OK;
  }
  crk_priv_mutex_lock(&self->lock);
  const crk_status_t status = acquire(self, numbers, count, params);
  crk_priv_mutex_unlock(&self->lock);
  return status;
}

crk_status_t crk_params_from_layout(crk_device_t self, const crk_layout_t *layout, crk_params_t *params) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_params_from_layout");
  CRK_REFUSE_IF(params == NULL, "crk_params_from_layout: params is NULL");
  crk_extent_t extent;
  CRK_TRY(crk_priv_layout_extent("crk_params_from_layout", "layout", layout, &extent));
  if (extent.is_contiguous) {
    *params = (crk_params_t){NULL, NULL};
    return CRK_OK;
  }
  uint64_t numbers[2 * CRK_MAX_RANK];
  for (uint32_t i = 0; i < layout->rank; i++) {
    numbers[i] = layout->dims[i];
    numbers[layout->rank + i] = layout->strides[i];
  }
  return crk_params_acquire(self, numbers, 2 * (size_t)layout->rank, params);
}

void crk_params_release(crk_device_t self, crk_params_t params) {
  if (self == NULL || self->magic != CRK_MAGIC_DEVICE || params.entry == NULL) {
    return;
  }
  crk_priv_mutex_lock(&self->lock);
  crk_param_slot_t *slot = params.entry;
  if (slot >= self->params.slots && slot < self->params.slots + CRK_PARAM_SLOTS && slot->holders > 0) {
    slot->holders--;
  }
  crk_priv_mutex_unlock(&self->lock);
}

void crk_priv_params_graph_destroy(crk_device_t device, crk_graph_t graph) {
  crk_param_cache_t *cache = &device->params;
  crk_priv_mutex_lock(&device->lock);
  for (int i = 0; cache->slots != NULL && i < CRK_PARAM_SLOTS; i++) {
    crk_param_slot_t *slot = &cache->slots[i];
    if (slot->graph == graph) {
      slot->graph = NULL;
      slot->count = 0;
      slot->holders--;
    } else if ((graph->param_uses.bits[i / 64] >> (i % 64) & 1) != 0) {
      slot->holders--;
    }
  }
  crk_priv_mutex_unlock(&device->lock);
}

void crk_priv_params_deinit(crk_device_t device) {
  crk_param_cache_t *cache = &device->params;
  if (cache->slots == NULL) {
    return;
  }
  for (int i = 0; i < CRK_PARAM_SLOTS; i++) {
    if (cache->slots[i].copied != NULL) {
      device->driver->event_destroy(device->driver_device, cache->slots[i].copied);
    }
  }
  device->driver->host_free(device->driver_device, cache->host_slab);
  device->driver->free(device->driver_device, cache->device_slab);
  free(cache->slots);
  memset(cache, 0, sizeof *cache);
}
