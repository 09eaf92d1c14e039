/* Events and gates; event.h explains them. */
#include "event.h"

#include <stdlib.h>

#include "core.h"

/* ---- the gate of a stream */

crk_gate_t *crk_priv_gate_create(void) {
  crk_gate_t *self = calloc(1, sizeof *self);
  if (self != NULL) {
    atomic_init(&self->references, 1);
    crk_priv_mutex_init(&self->lock);
    crk_priv_condition_init(&self->changed);
  }
  return self;
}

static crk_gate_t *gate_retain(crk_gate_t *self) {
  if (self != NULL) {
    atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed);
  }
  return self;
}

void crk_priv_gate_release(crk_gate_t *self) {
  if (self != NULL && atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) == 1) {
    crk_priv_condition_deinit(&self->changed);
    crk_priv_mutex_deinit(&self->lock);
    free(self);
  }
}

void crk_priv_gate_close(crk_gate_t *self) {
  crk_priv_mutex_lock(&self->lock);
  while (self->is_closed) {
    crk_priv_condition_wait(&self->changed, &self->lock);
  }
  self->is_closed = true;
  while (self->asking > 0) {
    crk_priv_condition_wait(&self->changed, &self->lock);
  }
  crk_priv_mutex_unlock(&self->lock);
}

void crk_priv_gate_open(crk_gate_t *self, bool is_idle) {
  crk_priv_mutex_lock(&self->lock);
  self->is_closed = false;
  self->epoch += is_idle;
  crk_priv_condition_broadcast(&self->changed);
  crk_priv_mutex_unlock(&self->lock);
}

uint64_t crk_priv_gate_enter(crk_gate_t *self) {
  crk_priv_mutex_lock(&self->lock);
  while (self->is_closed) {
    crk_priv_condition_wait(&self->changed, &self->lock);
  }
  self->asking++;
  const uint64_t epoch = self->epoch;
  crk_priv_mutex_unlock(&self->lock);
  return epoch;
}

bool crk_priv_gate_try_enter(crk_gate_t *self, uint64_t *epoch) {
  crk_priv_mutex_lock(&self->lock);
  const bool is_open = !self->is_closed;
  self->asking += is_open;
  *epoch = self->epoch;
  crk_priv_mutex_unlock(&self->lock);
  return is_open;
}

void crk_priv_gate_leave(crk_gate_t *self) {
  crk_priv_mutex_lock(&self->lock);
  self->asking--;
  if (self->asking == 0) {
    crk_priv_condition_broadcast(&self->changed);
  }
  crk_priv_mutex_unlock(&self->lock);
}

/* ---- events */

crk_status_t crk_priv_event_create(crk_device_t device, crk_event_t *event) {
  crk_event_t created = calloc(1, sizeof *created);
  if (created == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_event_create: no host memory for an event");
  }
  const crk_status_t status = device->driver->event_create(device->driver_device, &created->driver_event);
  if (status != CRK_OK) {
    free(created);
    return status;
  }
  created->context = device->context;
  crk_priv_context_retain(created->context);
  crk_priv_mutex_init(&created->lock);
  created->magic = CRK_MAGIC_EVENT;
  *event = created;
  return CRK_OK;
}

crk_status_t crk_event_create(crk_device_t self, crk_event_t *event) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_event_create");
  CRK_REFUSE_IF(event == NULL, "crk_event_create: event is NULL");
  return crk_priv_event_create(self, event);
}

void crk_priv_event_destroy(crk_event_t self) {
  if (self == NULL) {
    return;
  }
  self->magic = 0;
  self->context->driver->event_destroy(self->context->driver_device, self->driver_event);
  crk_priv_gate_release(self->gate);
  crk_priv_mutex_deinit(&self->lock);
  crk_priv_context_release(self->context);
  free(self);
}

static crk_status_t refuse_foreign(crk_event_t event, crk_device_t device, const char *where) {
  CRK_REFUSE_IF(event->context->driver_device != device->context->driver_device,
                "%s: the event belongs to another device (%s) than the handle (%s)", where, event->context->info.name,
                device->context->info.name);
  return CRK_OK;
}

/* The gate of the stream that the event was last recorded on; NULL if it was never recorded. The caller releases it. */
static crk_gate_t *gate_of(crk_event_t self) {
  crk_priv_mutex_lock(&self->lock);
  crk_gate_t *gate = gate_retain(self->gate);
  crk_priv_mutex_unlock(&self->lock);
  return gate;
}

static bool is_recorded(crk_event_t self) {
  crk_gate_t *gate = gate_of(self);
  crk_priv_gate_release(gate);
  return gate != NULL;
}

/* Enters the gate of the stream that the event was last recorded on. Returns NULL if no driver call is needed: the
 * event was never recorded, or it is older than the gate's epoch and thus done. The caller gives the gate to
 * gate_exit. */
static crk_gate_t *enter_gate_of(crk_event_t self) {
  crk_priv_mutex_lock(&self->lock);
  crk_gate_t *gate = gate_retain(self->gate);
  const uint64_t epoch = self->epoch;
  crk_priv_mutex_unlock(&self->lock);
  if (gate != NULL && crk_priv_gate_enter(gate) != epoch) {
    crk_priv_gate_leave(gate);
    crk_priv_gate_release(gate);
    return NULL;
  }
  return gate;
}

/* Also for NULL. */
static void gate_exit(crk_gate_t *gate) {
  if (gate != NULL) {
    crk_priv_gate_leave(gate);
    crk_priv_gate_release(gate);
  }
}

/* Waits until the gate is open. The caller is inside no gate: two threads could wait for each other's. */
static void gate_await(crk_gate_t *gate) {
  crk_priv_gate_enter(gate);
  gate_exit(gate);
}

void crk_event_destroy(crk_event_t self) {
  if (self == NULL || self->magic != CRK_MAGIC_EVENT) {
    return;
  }
  crk_gate_t *gate = gate_of(self);
  if (gate != NULL) {
    crk_priv_gate_enter(gate);
  }
  crk_priv_event_destroy(self);
  gate_exit(gate);
}

/* Records the event on `stream`, the device's. The caller holds the event's lock, and is inside the gates of both
 * streams: the device's, which returned `epoch`, and the one that the event was last recorded on. */
static crk_status_t record_locked(crk_event_t self, crk_device_t device, crk_driver_stream_t *stream, uint64_t epoch) {
  CRK_TRY(device->driver->event_record(device->driver_device, self->driver_event, stream));
  crk_priv_gate_release(self->gate);
  self->gate = gate_retain(device->gate);
  self->epoch = epoch;
  return CRK_OK;
}

crk_status_t crk_priv_event_record(crk_event_t self, crk_device_t device, uint64_t epoch) {
  crk_priv_mutex_lock(&self->lock);
  const crk_status_t status = record_locked(self, device, device->own_stream, epoch);
  crk_priv_mutex_unlock(&self->lock);
  return status;
}

crk_status_t crk_event_record(crk_event_t self, crk_device_t device) {
  CRK_CHECK_HANDLE(self, EVENT, "crk_event_record");
  CRK_CHECK_HANDLE(device, DEVICE, "crk_event_record");
  CRK_TRY(refuse_foreign(self, device, "crk_event_record"));
  for (;;) {
    const uint64_t epoch = crk_priv_gate_enter(device->gate);
    crk_status_t status = crk_priv_refuse_capture(device, "crk_event_record");
    crk_priv_mutex_lock(&self->lock);
    crk_gate_t *last = status == CRK_OK && self->gate != device->gate ? gate_retain(self->gate) : NULL;
    uint64_t ignored;
    const bool is_inside = last == NULL || crk_priv_gate_try_enter(last, &ignored);
    if (is_inside && status == CRK_OK) {
      status = record_locked(self, device, crk_priv_stream(device), epoch);
    }
    crk_priv_mutex_unlock(&self->lock);
    crk_priv_gate_leave(device->gate);
    if (is_inside) {
      gate_exit(last);
      return status;
    }
    gate_await(last);
  }
}

crk_status_t crk_event_query(crk_event_t self) {
  CRK_CHECK_HANDLE(self, EVENT, "crk_event_query");
  crk_gate_t *gate = enter_gate_of(self);
  if (gate == NULL) {
    return CRK_OK;
  }
  const crk_status_t status = self->context->driver->event_query(self->context->driver_device, self->driver_event);
  gate_exit(gate);
  if (status == CRK_NOT_READY) {
    return crk_priv_error(CRK_NOT_READY, "crk_event_query: the work before the event is not done yet");
  }
  return status;
}

crk_status_t crk_event_synchronize(crk_event_t self) {
  CRK_CHECK_HANDLE(self, EVENT, "crk_event_synchronize");
  crk_gate_t *gate = enter_gate_of(self);
  if (gate == NULL) {
    return CRK_OK;
  }
  const crk_status_t status =
      self->context->driver->event_synchronize(self->context->driver_device, self->driver_event);
  gate_exit(gate);
  return status;
}

crk_status_t crk_event_elapsed(crk_event_t start, crk_event_t end, float *milliseconds) {
  CRK_CHECK_HANDLE(start, EVENT, "crk_event_elapsed");
  CRK_CHECK_HANDLE(end, EVENT, "crk_event_elapsed");
  CRK_REFUSE_IF(milliseconds == NULL, "crk_event_elapsed: milliseconds is NULL");
  CRK_REFUSE_IF(start->context->driver_device != end->context->driver_device,
                "crk_event_elapsed: start and end are events of different devices");
  CRK_REFUSE_IF(!is_recorded(start), "crk_event_elapsed: start was never recorded; call crk_event_record first");
  CRK_REFUSE_IF(!is_recorded(end), "crk_event_elapsed: end was never recorded; call crk_event_record first");
  CRK_TRY(crk_event_query(start));
  CRK_TRY(crk_event_query(end));
  crk_gate_t *first = gate_of(start), *second = gate_of(end);
  uint64_t ignored;
  crk_priv_gate_enter(first);
  while (!crk_priv_gate_try_enter(second, &ignored)) {
    crk_priv_gate_leave(first);
    gate_await(gate_retain(second));
    crk_priv_gate_enter(first);
  }
  const crk_status_t status = start->context->driver->event_elapsed(start->context->driver_device, start->driver_event,
                                                                    end->driver_event, milliseconds);
  gate_exit(second);
  gate_exit(first);
  return status;
}

crk_status_t crk_device_wait(crk_device_t self, crk_event_t event) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_wait");
  CRK_CHECK_HANDLE(event, EVENT, "crk_device_wait");
  CRK_TRY(crk_priv_refuse_capture(self, "crk_device_wait"));
  if (event->context->driver != self->driver) {
    return crk_event_synchronize(event);
  }
  crk_gate_t *gate = enter_gate_of(event);
  if (gate == NULL) {
    return CRK_OK;
  }
  const crk_status_t status =
      self->driver->stream_wait(self->driver_device, crk_priv_stream(self), event->driver_event);
  gate_exit(gate);
  return status;
}

static crk_status_t fence_of(crk_device_t self, crk_event_t *fence) {
  crk_priv_mutex_lock(&self->lock);
  const crk_status_t status = self->fence != NULL ? CRK_OK : crk_priv_event_create(self, &self->fence);
  *fence = self->fence;
  crk_priv_mutex_unlock(&self->lock);
  return status;
}

/* One event for each handle is enough: a wait is for the mark that the event has when the wait is given. If another
 * thread moves the mark before, the wait is for more work than needed. */
crk_status_t crk_priv_follow(crk_device_t self, crk_device_t other) {
  crk_event_t fence = NULL;
  CRK_TRY(fence_of(other, &fence));
  CRK_TRY(crk_event_record(fence, other));
  return crk_device_wait(self, fence);
}
