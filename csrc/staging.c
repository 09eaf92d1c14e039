/* Small copies by pinned memory; staging.h explains them. */
#include "staging.h"

#include <string.h>

#include "core.h"

/* Parts of the memory begin at multiples of this, so that no two copies share a cache line. */
#define PART_BYTES ((size_t)64)

void crk_priv_staging_deinit(crk_device_t device) {
  if (device->staging.memory != NULL) {
    device->driver->host_free(device->driver_device, device->staging.memory);
  }
}

static crk_status_t prepare(crk_device_t device) {
  crk_staging_t *self = &device->staging;
  if (self->memory != NULL || self->is_missing) {
    return CRK_OK;
  }
  /* Not by the heap, which would give up its cache for it. */
  void *memory = NULL;
  const crk_status_t status =
      device->driver->host_alloc(device->driver_device, CRK_STAGED_UPLOADS + CRK_STAGED_MOST, &memory);
  self->memory = status == CRK_OK ? memory : NULL;
  self->is_missing = status == CRK_OUT_OF_MEMORY;
  return self->is_missing ? CRK_OK : status;
}

crk_status_t crk_priv_staging_takes(crk_device_t device, size_t bytes, bool *takes) {
  const bool is_small = bytes <= CRK_STAGED_MOST;
  CRK_TRY(is_small ? prepare(device) : CRK_OK);
  *takes = is_small && !device->staging.is_missing;
  return CRK_OK;
}

crk_status_t crk_priv_staging_upload(crk_device_t device, const char *where, void *dst, const void *src, size_t bytes) {
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

crk_status_t crk_priv_staging_download(crk_device_t device, const char *where, void *dst, const void *src,
                                       size_t bytes) {
  char *part = device->staging.memory + CRK_STAGED_UPLOADS;
  CRK_TRY(crk_priv_copy_start(device, where, part, src, bytes, CRK_COPY_TO_HOST));
  CRK_TRY(crk_priv_idle_wait(device));
  memcpy(dst, part, bytes);
  return crk_priv_errors_take(device);
}
