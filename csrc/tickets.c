/* Counters for the blocks of a launch; tickets.h explains them. */
#include "tickets.h"

#include "core.h"

crk_status_t crk_priv_tickets_prepare(crk_device_t self) {
  if (atomic_load_explicit(&self->tickets.counters, memory_order_acquire) != NULL) {
    return CRK_OK;
  }
  const size_t bytes = CRK_TICKETS * sizeof(uint32_t);
  void *memory = NULL;
  CRK_TRY(crk_priv_heap_driver_alloc(self, bytes, &memory));
  const crk_status_t status = self->driver->memset(self->driver_device, crk_priv_stream(self), memory, 0, bytes);
  if (status != CRK_OK) {
    self->driver->free(self->driver_device, memory);
    return status;
  }
  atomic_store_explicit(&self->tickets.counters, memory, memory_order_release);
  return CRK_OK;
}

crk_status_t crk_priv_tickets_get(crk_device_t self, uint32_t **counters) {
  *counters = atomic_load_explicit(&self->tickets.counters, memory_order_acquire);
  if (*counters == NULL) {
    crk_priv_mutex_lock(&self->lock);
    const crk_status_t status = crk_priv_tickets_prepare(self);
    crk_priv_mutex_unlock(&self->lock);
    CRK_TRY(status);
    *counters = atomic_load_explicit(&self->tickets.counters, memory_order_acquire);
  }
  return CRK_OK;
}

void crk_priv_tickets_deinit(crk_device_t self) {
  uint32_t *counters = atomic_load(&self->tickets.counters);
  if (counters != NULL) {
    self->driver->free(self->driver_device, counters);
  }
}
