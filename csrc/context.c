/* Contexts: the shared part of a handle and its clones. core.h describes the struct. */
#include <stdlib.h>

#include "core.h"

crk_status_t crk_priv_context_create(const crk_driver_t *driver, int32_t ordinal, crk_context_t **context) {
  crk_context_t *self = calloc(1, sizeof *self);
  if (self == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_device_open: no host memory for a device");
  }
  self->driver = driver;
  crk_status_t status = driver->device_get(ordinal, &self->driver_device);
  if (status == CRK_OK) {
    status = driver->device_info(self->driver_device, &self->info);
  }
  if (status == CRK_OK) {
    self->heap = crk_priv_heap_acquire(driver, self->driver_device, self->info.memory_bytes);
    status =
        self->heap != NULL ? CRK_OK : crk_priv_error(CRK_OUT_OF_MEMORY, "crk_device_open: no host memory for a device");
  }
  if (status != CRK_OK) {
    free(self);
    return status;
  }
  crk_priv_occupancy_init(&self->occupancy, &self->info);
  self->has_float_cores = crk_priv_has_float_cores(&self->info);
  atomic_init(&self->references, 1);
  crk_priv_mutex_init(&self->lock);
  *context = self;
  return CRK_OK;
}

void crk_priv_context_retain(crk_context_t *context) {
  atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
}

void crk_priv_context_release(crk_context_t *context) {
  if (atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) != 1) {
    return;
  }
  crk_priv_modules_deinit(context);
  crk_priv_heap_release(context->heap);
  crk_priv_mutex_deinit(&context->lock);
  free(context);
}
