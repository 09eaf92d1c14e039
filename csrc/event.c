/* Events. */
#include <stdlib.h>

#include "core.h"

crk_status_t crk_event_create(crk_device_t self, crk_event_t *event) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_event_create");
  CRK_REFUSE_IF(event == NULL, "crk_event_create: event is NULL");
  crk_event_t created = calloc(1, sizeof *created);
  if (created == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_event_create: no host memory for an event");
  }
  const crk_status_t status = self->driver->event_create(self->driver_device, &created->driver_event);
  if (status != CRK_OK) {
    free(created);
    return status;
  }
  created->context = self->context;
  crk_priv_context_retain(created->context);
  created->magic = CRK_MAGIC_EVENT;
  *event = created;
  return CRK_OK;
}

void crk_event_destroy(crk_event_t self) {
  if (self == NULL || self->magic != CRK_MAGIC_EVENT) {
    return;
  }
  self->magic = 0;
  self->context->driver->event_destroy(self->context->driver_device, self->driver_event);
  crk_priv_context_release(self->context);
  free(self);
}

static crk_status_t refuse_foreign(crk_event_t event, crk_device_t device, const char *where) {
  CRK_REFUSE_IF(event->context->driver_device != device->context->driver_device,
                "%s: the event was made for another device (%s) than the handle's (%s)", where,
                event->context->info.name, device->context->info.name);
  return CRK_OK;
}

crk_status_t crk_event_record(crk_event_t self, crk_device_t device) {
  CRK_CHECK_HANDLE(self, EVENT, "crk_event_record");
  CRK_CHECK_HANDLE(device, DEVICE, "crk_event_record");
  CRK_TRY(refuse_foreign(self, device, "crk_event_record"));
  CRK_TRY(crk_priv_refuse_capture(device, "crk_event_record"));
  CRK_TRY(device->driver->event_record(device->driver_device, self->driver_event, device->stream));
  atomic_store(&self->recorded, true);
  return CRK_OK;
}

crk_status_t crk_event_query(crk_event_t self) {
  CRK_CHECK_HANDLE(self, EVENT, "crk_event_query");
  if (!atomic_load(&self->recorded)) {
    return CRK_OK;
  }
  const crk_status_t status = self->context->driver->event_query(self->context->driver_device, self->driver_event);
  if (status == CRK_NOT_READY) {
    return crk_priv_error(CRK_NOT_READY, "crk_event_query: the work before the event is not done yet");
  }
  return status;
}

crk_status_t crk_event_synchronize(crk_event_t self) {
  CRK_CHECK_HANDLE(self, EVENT, "crk_event_synchronize");
  if (!atomic_load(&self->recorded)) {
    return CRK_OK;
  }
  return self->context->driver->event_synchronize(self->context->driver_device, self->driver_event);
}

crk_status_t crk_event_elapsed(crk_event_t start, crk_event_t end, float *milliseconds) {
  CRK_CHECK_HANDLE(start, EVENT, "crk_event_elapsed");
  CRK_CHECK_HANDLE(end, EVENT, "crk_event_elapsed");
  CRK_REFUSE_IF(milliseconds == NULL, "crk_event_elapsed: milliseconds is NULL");
  CRK_REFUSE_IF(start->context->driver_device != end->context->driver_device,
                "crk_event_elapsed: start and end are events of different devices");
  CRK_REFUSE_IF(!atomic_load(&start->recorded), "crk_event_elapsed: start was never recorded");
  CRK_REFUSE_IF(!atomic_load(&end->recorded), "crk_event_elapsed: end was never recorded");
  CRK_TRY(crk_event_query(start));
  CRK_TRY(crk_event_query(end));
  return start->context->driver->event_elapsed(start->context->driver_device, start->driver_event, end->driver_event,
                                               milliseconds);
}

crk_status_t crk_device_wait(crk_device_t self, crk_event_t event) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_wait");
  CRK_CHECK_HANDLE(event, EVENT, "crk_device_wait");
  CRK_TRY(refuse_foreign(event, self, "crk_device_wait"));
  CRK_TRY(crk_priv_refuse_capture(self, "crk_device_wait"));
  if (!atomic_load(&event->recorded)) {
    return CRK_OK;
  }
  return self->driver->stream_wait(self->driver_device, self->stream, event->driver_event);
}
