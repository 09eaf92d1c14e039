/* The list of all heaps in the process: one per GPU, shared by all contexts on that GPU. */
#include <stdlib.h>

#include "memory/heap.h"

static crk_mutex_t heaps_lock = CRK_MUTEX_INIT; /* guards `heaps` and the references of each */
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
    /* Half of the memory. A model frees and allocates its working set at every step, and the device drains each time a
     * segment is returned to the driver. So the cache should hold a whole working set. */
    heap->limit = (size_t)(memory_bytes / 2);
    crk_priv_mutex_init(&heap->lock);
    crk_priv_condition_init(&heap->freed);
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
    crk_priv_condition_deinit(&heap->freed);
    crk_priv_mutex_deinit(&heap->lock);
    free(heap->table);
    free(heap);
  }
  crk_priv_mutex_unlock(&heaps_lock);
}
