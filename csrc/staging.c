/* Small copies by pinned memory; staging.h explains them. */
#include "staging.h"

#include <string.h>

#include "core.h"

/* Parts of the memory begin at multiples of this, so that no two copies share a cache line. */
#define PART_BYTES ((size_t)64)

void crk_priv_staging_init(crk_staging_t *self) {
  crk_priv_mutex_init(&self->lock);
  atomic_flag_clear(&self->is_downloading);
}

void crk_priv_staging_deinit(crk_device_t device) {
  crk_staging_t *self = &device->staging;
  if (self->memory != NULL) {
    device->driver->host_free(device->driver_device, self->memory);
  }
  crk_priv_mutex_deinit(&self->lock);
}

/* Allocates the memory on first use. The caller holds the lock. */
static crk_status_t prepare(crk_device_t device) {
  crk_staging_t *self = &device->staging;
  if (self->memory != NULL || self->is_missing) {
    return CRK_OK;
  }
  void *memory = NULL;
  const crk_status_t status = crk_priv_heap_host_alloc(device, CRK_STAGED_UPLOADS + CRK_STAGED_MOST, &memory);
  self->memory = status == CRK_OK ? memory : NULL;
  self->is_missing = status == CRK_OUT_OF_MEMORY;
  return self->is_missing ? CRK_OK : status;
}

static crk_status_t upload(crk_device_t device, const char *where, void *dst, const void *src, size_t bytes) {
  crk_staging_t *self = &device->staging;
  if (bytes > CRK_STAGED_UPLOADS - self->used) {
    CRK_TRY(crk_priv_stream_wait(device));
    self->used = 0;
  }
  char *part = self->memory + self->used;
  memcpy(part, src, bytes);
  self->used += (bytes + PART_BYTES - 1) / PART_BYTES * PART_BYTES;
  return crk_priv_copy_start(device, where, dst, part, bytes, CRK_COPY_TO_DEVICE);
}

bool crk_priv_staging_upload(crk_device_t device, const char *where, void *dst, const void *src, size_t bytes,
                             crk_status_t *status) {
  if (bytes > CRK_STAGED_MOST) {
    return false;
  }
  crk_priv_mutex_lock(&device->staging.lock);
  *status = prepare(device);
  const bool is_missing = device->staging.is_missing;
  if (*status == CRK_OK && !is_missing) {
    *status = upload(device, where, dst, src, bytes);
  }
  crk_priv_mutex_unlock(&device->staging.lock);
  return !is_missing;
}

bool crk_priv_staging_download(crk_device_t device, const char *where, void *dst, const void *src, size_t bytes,
                               crk_status_t *status) {
  crk_staging_t *self = &device->staging;
  if (bytes > CRK_STAGED_MOST || atomic_flag_test_and_set_explicit(&self->is_downloading, memory_order_acquire)) {
    return false;
  }
  crk_priv_mutex_lock(&self->lock);
  *status = prepare(device);
  const bool is_missing = self->is_missing;
  crk_priv_mutex_unlock(&self->lock);
  if (*status == CRK_OK && !is_missing) {
    char *part = self->memory + CRK_STAGED_UPLOADS;
    *status = crk_priv_copy_start(device, where, part, src, bytes, CRK_COPY_TO_HOST);
    if (*status == CRK_OK) {
      *status = crk_priv_errors_wait(device);
      memcpy(dst, part, bytes); /* an id out of range is an error, and the copy is done nevertheless */
    }
  }
  atomic_flag_clear_explicit(&self->is_downloading, memory_order_release);
  return !is_missing;
}
