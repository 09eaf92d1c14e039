/* Counters of blocks; counters.h explains them. */
#include "counters.h"

#include "core.h"

crk_status_t crk_priv_counters_prepare(crk_device_t self) {
  if (self->driver->backend == CRK_BACKEND_HIP ||
      atomic_load_explicit(&self->counters.first, memory_order_acquire) != NULL) {
    return CRK_OK;
  }
  const size_t bytes = CRK_COUNTERS * sizeof(uint32_t);
  void *memory;
  CRK_TRY(crk_priv_heap_driver_alloc(self, bytes, &memory));
  /* In the stream, so before all kernels that count. */
  const crk_status_t status = self->driver->memset(self->driver_device, self->stream, memory, 0, bytes);
  if (status != CRK_OK) {
    self->driver->free(self->driver_device, memory);
    return status;
  }
  atomic_store_explicit(&self->counters.first, memory, memory_order_release);
  return CRK_OK;
}

crk_status_t crk_priv_counters_get(crk_device_t self, uint64_t count, uint32_t **counters) {
  *counters = NULL;
  if (self->driver->backend == CRK_BACKEND_HIP || count > CRK_COUNTERS) {
    return CRK_OK;
  }
  *counters = atomic_load_explicit(&self->counters.first, memory_order_acquire);
  if (*counters == NULL) {
    crk_priv_mutex_lock(&self->lock);
    const crk_status_t status = crk_priv_counters_prepare(self);
    crk_priv_mutex_unlock(&self->lock);
    CRK_TRY(status);
    *counters = atomic_load_explicit(&self->counters.first, memory_order_acquire);
  }
  return CRK_OK;
}

void crk_priv_counters_deinit(crk_device_t self) {
  uint32_t *memory = atomic_load(&self->counters.first);
  if (memory != NULL) {
    self->driver->free(self->driver_device, memory);
  }
}
