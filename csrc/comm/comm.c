/* The public functions of communicators: checks, groups of calls, and the life of a communicator. transport.h explains
 * how the work is done. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/transport.h"
#include "dtype.h"
#include "launch/launcher.h"
#include "number.h"

static const crk_comm_transport_t *transport_of(crk_device_t device) {
  return device->driver->backend == CRK_BACKEND_CPU ? &crk_priv_comm_in_process : &crk_priv_comm_nccl;
}

/* ---- the life of a communicator */

bool crk_priv_comm_ended(crk_comm_t self) {
  crk_priv_mutex_lock(&self->lock);
  const bool ended = self->failure != CRK_OK;
  crk_priv_mutex_unlock(&self->lock);
  return ended;
}

/* The caller holds the lock. */
static crk_status_t failure_locked(crk_comm_t self, const char *where) {
  if (self->failure == CRK_DEVICE) {
    return crk_priv_device_error(self->device_error, "%s: the communicator has ended: %s", where, self->sentence);
  }
  return crk_priv_error(self->failure, "%s: the communicator has ended: %s", where, self->sentence);
}

crk_status_t crk_priv_comm_failure(crk_comm_t self, const char *where) {
  crk_priv_mutex_lock(&self->lock);
  const crk_status_t status = failure_locked(self, where);
  crk_priv_mutex_unlock(&self->lock);
  return status;
}

/* Keeps the first failure: `status`, with the thread's last error. */
static void fail(crk_comm_t self, crk_status_t status) {
  crk_priv_mutex_lock(&self->lock);
  if (self->failure == CRK_OK) {
    self->failure = status;
    self->device_error = crk_last_device_error();
    snprintf(self->sentence, sizeof self->sentence, "%s", crk_last_error());
  }
  crk_priv_mutex_unlock(&self->lock);
}

/* Takes the communicator for the calling thread. Fails where it has ended or is not ready. */
static crk_status_t enter(crk_comm_t self, const char *where) {
  crk_priv_mutex_lock(&self->lock);
  while (self->is_busy && self->failure == CRK_OK) {
    crk_priv_condition_wait(&self->changed, &self->lock);
  }
  crk_status_t status = CRK_OK;
  if (self->failure != CRK_OK) {
    status = failure_locked(self, where);
  } else if (!self->is_ready) {
    status =
        crk_priv_error(CRK_NOT_READY, "%s: not all ranks are there yet; crk_comm_query tells when they are", where);
  } else {
    self->is_busy = true;
  }
  crk_priv_mutex_unlock(&self->lock);
  return status;
}

/* Takes it even if it is not ready. Fails with CRK_NOT_READY, without a sentence, where another thread is inside. */
static crk_status_t try_enter(crk_comm_t self, const char *where) {
  crk_priv_mutex_lock(&self->lock);
  const crk_status_t status = self->failure != CRK_OK ? failure_locked(self, where)
                              : self->is_busy         ? CRK_NOT_READY
                                                      : CRK_OK;
  self->is_busy = self->is_busy || status == CRK_OK;
  crk_priv_mutex_unlock(&self->lock);
  return status;
}

void *crk_priv_comm_take_handle(crk_comm_t self) {
  crk_priv_mutex_lock(&self->lock);
  void *handle = self->handle;
  self->handle = NULL;
  crk_priv_mutex_unlock(&self->lock);
  return handle;
}

/* Gives the communicator back. One that has ended is released first. */
static void leave(crk_comm_t self) {
  if (crk_priv_comm_ended(self)) {
    self->transport->release(self, true);
  }
  crk_priv_mutex_lock(&self->lock);
  self->is_busy = false;
  crk_priv_condition_broadcast(&self->changed);
  crk_priv_mutex_unlock(&self->lock);
}

/* Asks the transport for the communicator's state, and keeps it. The caller is inside. */
static crk_status_t poll_inside(crk_comm_t self, const char *where) {
  crk_status_t status = self->transport->poll(self, where);
  if (status == CRK_NOT_READY) {
    if (self->is_ready || crk_priv_comm_left(self->deadline) > 0.0) {
      return status;
    }
    status = crk_priv_error(CRK_PEER_LOST, "%s: not all of the %u ranks came within %u ms", where, (unsigned)self->size,
                            (unsigned)self->timeout_ms);
  }
  if (status != CRK_OK) {
    fail(self, status);
    return status;
  }
  crk_priv_mutex_lock(&self->lock);
  self->is_ready = true;
  crk_priv_mutex_unlock(&self->lock);
  return CRK_OK;
}

static crk_status_t query(crk_comm_t self, const char *where) {
  CRK_TRY(try_enter(self, where));
  const crk_status_t status = poll_inside(self, where);
  leave(self);
  return status;
}

/* Waits until the communicator is ready, or its creation fails. */
static crk_status_t wait_until_ready(crk_comm_t self, const char *where, double deadline) {
  for (const double begin = crk_priv_seconds();;) {
    const crk_status_t status = query(self, where);
    if (status != CRK_NOT_READY) {
      return status;
    }
    if (crk_priv_comm_left(deadline) <= 0.0) {
      return CRK_NOT_READY;
    }
    crk_priv_comm_pause(begin);
  }
}

static void comm_free(crk_comm_t self) {
  self->magic = 0;
  crk_event_destroy(self->mark);
  crk_priv_condition_deinit(&self->changed);
  crk_priv_mutex_deinit(&self->lock);
  free(self);
}

static crk_status_t create(crk_device_t device, const crk_comm_id_t *id, uint32_t rank, uint32_t size,
                           uint32_t timeout_ms, crk_comm_t *comm, bool waits, const char *where) {
  CRK_CHECK_HANDLE(device, DEVICE, where);
  CRK_REFUSE_IF(id == NULL, "%s: id is NULL", where);
  CRK_REFUSE_IF(comm == NULL, "%s: comm is NULL", where);
  CRK_REFUSE_IF(size == 0 || size > INT32_MAX, "%s: size is %u; it must be from 1 to %d", where, (unsigned)size,
                INT32_MAX);
  CRK_REFUSE_IF(rank >= size, "%s: rank is %u; it must be below size, which is %u", where, (unsigned)rank,
                (unsigned)size);
  CRK_REFUSE_IF(timeout_ms == 0, "%s: timeout_ms is 0; CRK_COMM_FOREVER waits without a bound", where);
  CRK_TRY(crk_priv_refuse_capture(device, where));
  crk_comm_t self = calloc(1, sizeof *self);
  if (self == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "%s: no host memory for a communicator", where);
  }
  static _Atomic(uint64_t) numbers;
  self->number = atomic_fetch_add(&numbers, 1) + 1;
  self->device = device;
  self->transport = transport_of(device);
  self->rank = rank;
  self->size = size;
  self->timeout_ms = timeout_ms;
  self->deadline = crk_priv_comm_deadline(timeout_ms);
  crk_priv_mutex_init(&self->lock);
  crk_priv_condition_init(&self->changed);
  crk_status_t status = crk_priv_event_create(device, &self->mark);
  if (status == CRK_OK) {
    status = self->transport->create(self, id, waits, where);
  }
  if (status == CRK_OK && waits) {
    status = wait_until_ready(self, where, self->deadline + 1.0);
    if (status == CRK_OK && self->transport->connect != NULL) {
      status = self->transport->connect(self, where);
    }
  }
  if (status != CRK_OK) {
    self->transport->release(self, true);
    comm_free(self);
    return status;
  }
  self->magic = CRK_MAGIC_COMM;
  *comm = self;
  return CRK_OK;
}

crk_status_t crk_comm_library(crk_device_t device, const char **name, int32_t *version) {
  CRK_CHECK_HANDLE(device, DEVICE, "crk_comm_library");
  CRK_REFUSE_IF(name == NULL, "crk_comm_library: name is NULL");
  CRK_REFUSE_IF(version == NULL, "crk_comm_library: version is NULL");
  return transport_of(device)->library(device, "crk_comm_library", name, version);
}

crk_status_t crk_comm_id_create(crk_device_t device, crk_comm_id_t *id) {
  CRK_CHECK_HANDLE(device, DEVICE, "crk_comm_id_create");
  CRK_REFUSE_IF(id == NULL, "crk_comm_id_create: id is NULL");
  return transport_of(device)->id_create(device, id);
}

crk_status_t crk_comm_create(crk_device_t device, const crk_comm_id_t *id, uint32_t rank, uint32_t size,
                             uint32_t timeout_ms, crk_comm_t *comm) {
  return create(device, id, rank, size, timeout_ms, comm, true, "crk_comm_create");
}

crk_status_t crk_comm_create_async(crk_device_t device, const crk_comm_id_t *id, uint32_t rank, uint32_t size,
                                   uint32_t timeout_ms, crk_comm_t *comm) {
  return create(device, id, rank, size, timeout_ms, comm, false, "crk_comm_create_async");
}

crk_status_t crk_comm_query(crk_comm_t self) {
  CRK_CHECK_HANDLE(self, COMM, "crk_comm_query");
  const crk_status_t status = query(self, "crk_comm_query");
  return status != CRK_NOT_READY
             ? status
             : crk_priv_error(CRK_NOT_READY, "crk_comm_query: other ranks are missing, or a collective is starting");
}

/* Ends the communicator with a failure of this library's own, unless it has ended already. */
static void end(crk_comm_t self, crk_status_t status) {
  fail(self, status);
  self->transport->interrupt(self);
  crk_priv_mutex_lock(&self->lock);
  while (self->is_busy) {
    crk_priv_condition_wait(&self->changed, &self->lock);
  }
  self->is_busy = true;
  crk_priv_mutex_unlock(&self->lock);
  leave(self);
}

crk_status_t crk_comm_abort(crk_comm_t self) {
  CRK_CHECK_HANDLE(self, COMM, "crk_comm_abort");
  if (!crk_priv_comm_ended(self)) {
    end(self, crk_priv_error(CRK_PEER_LOST, "crk_comm_abort was called on rank %u", (unsigned)self->rank));
  }
  return CRK_OK;
}

/* Waits for a mark in a stream. Ends the communicator where it fails or the time is over. */
static crk_status_t wait_for_mark(crk_comm_t self, const char *where, crk_event_t mark, uint32_t timeout_ms,
                                  double deadline) {
  for (const double begin = crk_priv_seconds();;) {
    const crk_status_t done = crk_event_query(mark);
    if (done == CRK_OK) {
      const crk_status_t status = query(self, where);
      return status == CRK_NOT_READY ? CRK_OK : status;
    }
    if (done != CRK_NOT_READY) {
      end(self, done);
      return done;
    }
    const crk_status_t status = query(self, where);
    if (status != CRK_OK && status != CRK_NOT_READY) {
      return status;
    }
    if (crk_priv_comm_left(deadline) <= 0.0) {
      const crk_status_t late =
          crk_priv_error(CRK_PEER_LOST, "%s: the work of rank %u was not done within %u ms; another rank may be lost",
                         where, (unsigned)self->rank, (unsigned)timeout_ms);
      end(self, late);
      return late;
    }
    crk_priv_comm_pause(begin);
  }
}

/* Waits until all ranks are there. Ends the communicator where the time is over. */
static crk_status_t wait_for_ranks(crk_comm_t self, const char *where, uint32_t timeout_ms, double deadline) {
  CRK_TRY(crk_priv_refuse_capture(self->device, where));
  crk_status_t status = wait_until_ready(self, where, deadline);
  if (status == CRK_NOT_READY) {
    status = crk_priv_error(CRK_PEER_LOST, "%s: not all of the %u ranks came within %u ms", where, (unsigned)self->size,
                            (unsigned)timeout_ms);
    end(self, status);
  }
  return status;
}

crk_status_t crk_priv_comm_wait_for_work(crk_comm_t self, const char *where, uint32_t timeout_ms) {
  const double deadline = crk_priv_comm_deadline(timeout_ms);
  CRK_TRY(wait_for_ranks(self, where, timeout_ms, deadline));
  crk_priv_mutex_lock(&self->lock);
  crk_device_t last = self->last;
  crk_priv_mutex_unlock(&self->lock);
  if (last != NULL && last != self->device && !crk_priv_capturing(last)) {
    CRK_TRY(crk_priv_follow(self->device, last));
  }
  const uint64_t stamp = crk_priv_heap_wait_begin(self->device);
  CRK_TRY(crk_event_record(self->mark, self->device));
  CRK_TRY(wait_for_mark(self, where, self->mark, timeout_ms, deadline));
  crk_priv_heap_wait_end(self->device, stamp);
  return CRK_OK;
}

crk_status_t crk_comm_wait(crk_comm_t self, uint32_t timeout_ms) {
  CRK_CHECK_HANDLE(self, COMM, "crk_comm_wait");
  CRK_TRY(crk_priv_comm_wait_for_work(self, "crk_comm_wait", timeout_ms));
  return crk_priv_errors_take(self->device);
}

crk_status_t crk_comm_wait_event(crk_comm_t self, crk_event_t event, uint32_t timeout_ms) {
  static const char where[] = "crk_comm_wait_event";
  CRK_CHECK_HANDLE(self, COMM, where);
  CRK_CHECK_HANDLE(event, EVENT, where);
  CRK_REFUSE_IF(event->context->driver_device != self->device->driver_device,
                "%s: event is of another device (%s) than the communicator (%s)", where, event->context->info.name,
                self->device->context->info.name);
  const double deadline = crk_priv_comm_deadline(timeout_ms);
  CRK_TRY(wait_for_ranks(self, where, timeout_ms, deadline));
  CRK_TRY(wait_for_mark(self, where, event, timeout_ms, deadline));
  return crk_priv_errors_take(self->device);
}

void crk_comm_destroy(crk_comm_t self) {
  if (self == NULL || self->magic != CRK_MAGIC_COMM) {
    return;
  }
  bool aborts = query(self, "crk_comm_destroy") != CRK_OK;
  if (!aborts && !crk_priv_capturing(self->device)) {
    aborts = crk_priv_comm_wait_for_work(self, "crk_comm_destroy", self->timeout_ms) != CRK_OK;
  }
  self->transport->release(self, aborts);
  comm_free(self);
}

/* What the thread has said by crk_comm_run_beside, of the communicator with this number. */
static _Thread_local struct {
  uint64_t comm;
  crk_device_t side;
} beside;

crk_status_t crk_comm_run_beside(crk_comm_t self, crk_device_t side) {
  static const char where[] = "crk_comm_run_beside";
  CRK_CHECK_HANDLE(self, COMM, where);
  if (side != NULL) {
    CRK_CHECK_HANDLE(side, DEVICE, where);
    CRK_REFUSE_IF(side->driver_device != self->device->driver_device,
                  "%s: side is a handle on another device (%s) than the communicator (%s)", where,
                  side->context->info.name, self->device->context->info.name);
    if (self->peers.is_ready) {
      CRK_TRY(crk_priv_one_shot_load(side));
      CRK_TRY(crk_priv_copied_load(side));
    }
  }
  if (side != NULL || beside.comm == self->number) {
    beside.comm = side != NULL ? self->number : 0;
    beside.side = side;
  }
  return CRK_OK;
}

crk_device_t crk_priv_comm_device(crk_comm_t self) { return beside.comm == self->number ? beside.side : self->device; }

crk_status_t crk_comm_rank(crk_comm_t self, uint32_t *rank) {
  CRK_CHECK_HANDLE(self, COMM, "crk_comm_rank");
  CRK_REFUSE_IF(rank == NULL, "crk_comm_rank: rank is NULL");
  *rank = self->rank;
  return CRK_OK;
}

crk_status_t crk_comm_size(crk_comm_t self, uint32_t *size) {
  CRK_CHECK_HANDLE(self, COMM, "crk_comm_size");
  CRK_REFUSE_IF(size == NULL, "crk_comm_size: size is NULL");
  *size = self->size;
  return CRK_OK;
}

/* ---- sets of communicators */

/* Notes that the communicator's next collective runs in the stream of `device`, and returns where the last one ran;
 * NULL if there was none. */
static crk_device_t replace_last(crk_comm_t self, crk_device_t device) {
  crk_priv_mutex_lock(&self->lock);
  crk_device_t last = self->last;
  self->last = device;
  crk_priv_mutex_unlock(&self->lock);
  return last;
}

void crk_priv_comms_replay(const crk_comm_call_t *calls, size_t count) {
  for (size_t i = 0; i < count; i++) {
    (void)replace_last(calls[i].comm, calls[i].device);
  }
}

crk_status_t crk_priv_comms_follow(const crk_comm_call_t *calls, size_t count) {
  for (size_t i = 0; i < count; i++) {
    crk_device_t device = calls[i].device, last = replace_last(calls[i].comm, device);
    if (last != NULL && last != device && !crk_priv_capturing(last) && !crk_priv_capturing(device)) {
      const crk_status_t status = crk_priv_follow(device, last);
      if (status != CRK_OK) {
        (void)replace_last(calls[i].comm, last);
        return status;
      }
    }
  }
  return CRK_OK;
}

crk_status_t crk_priv_comms_take(const crk_comm_call_t *calls, size_t count, crk_comm_set_t *set) {
  set->count = 0;
  set->all = set->few;
  if (count > sizeof set->few / sizeof *set->few) {
    set->all = malloc(count * sizeof *set->all);
    if (set->all == NULL) {
      return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_comm_group_end: no host memory for %zu calls", count);
    }
  }
  for (size_t i = 0; i < count; i++) {
    size_t at = 0;
    while (at < set->count && (uintptr_t)set->all[at] < (uintptr_t)calls[i].comm) {
      at++;
    }
    if (at == set->count || set->all[at] != calls[i].comm) {
      memmove(&set->all[at + 1], &set->all[at], (set->count - at) * sizeof *set->all);
      set->all[at] = calls[i].comm;
      set->count++;
    }
  }
  const size_t wanted = set->count;
  crk_status_t status = CRK_OK;
  for (set->count = 0; set->count < wanted && status == CRK_OK;) {
    status = enter(set->all[set->count], crk_priv_comm_function(calls[0].kind));
    set->count += status == CRK_OK;
  }
  if (status != CRK_OK) {
    crk_priv_comms_leave(set, CRK_OK);
  }
  return status;
}

crk_status_t crk_priv_comms_enter(const crk_comm_call_t *calls, size_t count, crk_comm_set_t *set) {
  CRK_TRY(crk_priv_comms_take(calls, count, set));
  const crk_status_t status = crk_priv_comms_follow(calls, count);
  if (status != CRK_OK) {
    crk_priv_comms_leave(set, CRK_OK); /* nothing has begun: the call may be repeated */
  }
  return status;
}

crk_status_t crk_priv_comms_leave(crk_comm_set_t *set, crk_status_t status) {
  for (size_t i = 0; i < set->count; i++) {
    if (status != CRK_OK) {
      fail(set->all[i], status);
    }
    leave(set->all[i]);
  }
  if (set->all != set->few) {
    free(set->all);
  }
  return status;
}

/* ---- groups of calls */

/* The calls of a thread's group. */
typedef struct group {
  uint32_t depth; /* how many groups are open, each in the one before */
  size_t count, capacity;
  crk_comm_call_t *calls;
} group_t;

static _Thread_local group_t group;

/* Starts the calls of one transport among `calls`, in their order. `some` has room for all. */
static crk_status_t start_of(const crk_comm_transport_t *transport, const crk_comm_call_t *calls, size_t count,
                             crk_comm_call_t *some) {
  size_t chosen = 0;
  for (size_t i = 0; i < count; i++) {
    if (calls[i].comm->transport == transport) {
      some[chosen++] = calls[i];
    }
  }
  return chosen > 0 ? transport->start(some, chosen) : CRK_OK;
}

crk_status_t crk_priv_comm_count(const crk_comm_call_t *calls, size_t count) {
  for (size_t i = 0; i < count; i++) {
    crk_device_t device = calls[i].device;
    atomic_fetch_add_explicit(&device->operations, 1, memory_order_relaxed);
  }
  for (size_t i = 0; i < count; i++) {
    crk_comm_t comm = calls[i].comm;
    if (calls[i].device->is_synchronous && !crk_priv_capturing(calls[i].device) && !crk_priv_capturing(comm->device)) {
      CRK_TRY(crk_priv_comm_wait_for_work(comm, crk_priv_comm_function(calls[i].kind), comm->timeout_ms));
    }
  }
  return CRK_OK;
}

static crk_status_t start_all(const crk_comm_call_t *calls, size_t count) {
  if (count == 1) {
    CRK_TRY(calls[0].comm->transport->start(calls, 1));
    return crk_priv_comm_count(calls, 1);
  }
  crk_comm_call_t *some = malloc(count * sizeof *some);
  if (some == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_comm_group_end: no host memory for %zu calls", count);
  }
  /* GPUs first: their calls return before the work is done. */
  crk_status_t status = start_of(&crk_priv_comm_nccl, calls, count, some);
  if (status == CRK_OK) {
    status = start_of(&crk_priv_comm_in_process, calls, count, some);
  }
  free(some);
  return status == CRK_OK ? crk_priv_comm_count(calls, count) : status;
}

crk_status_t crk_priv_comm_no_group(const char *where) {
  CRK_REFUSE_IF(group.depth > 0, "%s: the calling thread has a group; end it first", where);
  return CRK_OK;
}

crk_status_t crk_comm_group_begin(void) {
  group.depth++;
  return CRK_OK;
}

crk_status_t crk_comm_group_end(void) {
  CRK_REFUSE_IF(group.depth == 0, "crk_comm_group_end: this thread has no group; call crk_comm_group_begin first");
  group.depth--;
  if (group.depth > 0) {
    return CRK_OK;
  }
  crk_comm_call_t *calls = group.calls;
  const size_t count = group.count;
  group.calls = NULL;
  group.count = 0;
  group.capacity = 0;
  const crk_status_t status = count > 0 ? start_all(calls, count) : CRK_OK;
  free(calls);
  return status;
}

/* Starts a checked call, or adds it to the thread's group. */
static crk_status_t submit(const crk_comm_call_t *call) {
  if (call->count == 0) {
    return CRK_OK;
  }
  crk_comm_call_t own = *call;
  own.device = crk_priv_comm_device(call->comm);
  if (group.depth == 0) {
    return start_all(&own, 1);
  }
  if (group.count == group.capacity) {
    const size_t capacity = 2 * group.capacity + 8;
    crk_comm_call_t *calls = realloc(group.calls, capacity * sizeof *calls);
    if (calls == NULL) {
      return crk_priv_error(CRK_OUT_OF_MEMORY, "%s: no host memory for a group of %zu calls",
                            crk_priv_comm_function(call->kind), capacity);
    }
    group.calls = calls;
    group.capacity = capacity;
  }
  group.calls[group.count++] = own;
  return CRK_OK;
}

/* ---- checks */

/* Checks what all collectives have in common. */
static crk_status_t check_call(const crk_comm_call_t *call) {
  const char *where = crk_priv_comm_function(call->kind);
  crk_comm_t self = call->comm;
  CRK_CHECK_HANDLE(self, COMM, where);
  CRK_REFUSE_IF(!crk_priv_dtype_valid(call->dtype), "%s: dtype %d is unknown; use a value of crk_dtype_t", where,
                (int)call->dtype);
  if (crk_priv_comm_reduces(call->kind)) {
    CRK_REFUSE_IF((unsigned)call->op > CRK_COMM_OP_AVG, "%s: op %d is unknown; use a value of crk_comm_op_t", where,
                  (int)call->op);
    if (call->dtype == CRK_DTYPE_I16) {
      return crk_priv_error(CRK_UNSUPPORTED, "%s: dtype i16 cannot be reduced; convert it to i32", where);
    }
    CRK_TRY(self->transport->check_reduction(self, where, call->dtype));
  }
  if (call->kind == CRK_COMM_REDUCE || call->kind == CRK_COMM_BROADCAST) {
    CRK_REFUSE_IF(call->peer >= self->size, "%s: root is %u; it must be below the number of ranks, which is %u", where,
                  (unsigned)call->peer, (unsigned)self->size);
  }
  if (call->kind == CRK_COMM_SEND || call->kind == CRK_COMM_RECV) {
    CRK_REFUSE_IF(call->peer >= self->size, "%s: peer is %u; it must be below the number of ranks, which is %u", where,
                  (unsigned)call->peer, (unsigned)self->size);
    CRK_REFUSE_IF(call->peer == self->rank && group.depth == 0,
                  "%s: peer is %u, the rank itself; this needs a group that sends and receives", where,
                  (unsigned)call->peer);
  }
  return CRK_OK;
}

/* Checks a view of `parts` times count elements. */
static crk_status_t check_view(const crk_comm_call_t *call, const char *name, crk_const_view_t view, size_t parts) {
  const char *where = crk_priv_comm_function(call->kind);
  const size_t bytes = crk_dtype_size(call->dtype);
  size_t elements;
  if (!crk_priv_multiply(call->count, parts, &elements) || elements > view.bytes / bytes) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS,
                          "%s: count %zu, for %zu part(s), of %s does not fit %s, which has %zu bytes", where,
                          call->count, parts, crk_dtype_name(call->dtype), name, view.bytes);
  }
  CRK_REFUSE_IF(view.ptr == NULL && elements > 0, "%s: %s.ptr is NULL", where, name);
  CRK_REFUSE_IF((uintptr_t)view.ptr % bytes != 0, "%s: %s.ptr %p is not aligned to its elements of %zu bytes", where,
                name, view.ptr, bytes);
  return CRK_OK;
}

/* No place in dst. */
static const ptrdiff_t NOWHERE = PTRDIFF_MAX;

/* Fails where src and dst overlap, unless src begins `in_place` bytes after dst's beginning. */
static crk_status_t check_overlap(const crk_comm_call_t *call, crk_const_view_t src, size_t src_parts, crk_view_t dst,
                                  size_t dst_parts, ptrdiff_t in_place) {
  const size_t part = call->count * crk_dtype_size(call->dtype);
  const uintptr_t from = (uintptr_t)src.ptr, to = (uintptr_t)dst.ptr;
  const bool overlaps = from < to + dst_parts * part && to < from + src_parts * part;
  if (!overlaps || (in_place != NOWHERE && from - to == (uintptr_t)in_place)) {
    return CRK_OK;
  }
  const char *where = crk_priv_comm_function(call->kind);
  CRK_REFUSE_IF(in_place == NOWHERE, "%s: src overlaps dst; they must not share memory", where);
  return crk_priv_error(CRK_INVALID_ARGUMENT,
                        "%s: src overlaps dst and begins %td bytes after it; it must be apart from it, or begin %td "
                        "bytes after it",
                        where, (ptrdiff_t)(from - to), in_place);
}

/* Checks both views of a collective whose source has `src_parts` times count elements, and whose destination has
 * `dst_parts` times. */
static crk_status_t check_views(const crk_comm_call_t *call, crk_const_view_t src, size_t src_parts, crk_view_t dst,
                                size_t dst_parts, ptrdiff_t in_place) {
  CRK_TRY(check_view(call, "src", src, src_parts));
  CRK_TRY(check_view(call, "dst", crk_const(dst), dst_parts));
  return check_overlap(call, src, src_parts, dst, dst_parts, in_place);
}

/* ---- collectives */

/* The bytes of this rank's part, before its place in a view of all parts. */
static ptrdiff_t own_part(const crk_comm_call_t *call) {
  return (ptrdiff_t)(call->comm->rank * call->count * crk_dtype_size(call->dtype));
}

crk_status_t crk_comm_all_reduce(crk_comm_t self, crk_dtype_t dtype, crk_comm_op_t op, crk_const_view_t src,
                                 crk_view_t dst, size_t count) {
  const crk_comm_call_t call = {self, CRK_COMM_ALL_REDUCE, dtype, op, src.ptr, dst.ptr, count, 0, NULL};
  CRK_TRY(check_call(&call));
  CRK_TRY(check_views(&call, src, 1, dst, 1, 0));
  return submit(&call);
}

crk_status_t crk_comm_reduce(crk_comm_t self, crk_dtype_t dtype, crk_comm_op_t op, crk_const_view_t src, crk_view_t dst,
                             size_t count, uint32_t root) {
  crk_comm_call_t call = {self, CRK_COMM_REDUCE, dtype, op, src.ptr, dst.ptr, count, root, NULL};
  CRK_TRY(check_call(&call));
  if (self->rank == root) {
    CRK_TRY(check_views(&call, src, 1, dst, 1, 0));
  } else {
    CRK_TRY(check_view(&call, "src", src, 1));
    call.dst = NULL;
  }
  return submit(&call);
}

crk_status_t crk_comm_broadcast(crk_comm_t self, crk_dtype_t dtype, crk_const_view_t src, crk_view_t dst, size_t count,
                                uint32_t root) {
  crk_comm_call_t call = {self, CRK_COMM_BROADCAST, dtype, CRK_COMM_OP_SUM, src.ptr, dst.ptr, count, root, NULL};
  CRK_TRY(check_call(&call));
  if (self->rank == root) {
    CRK_TRY(check_views(&call, src, 1, dst, 1, 0));
  } else {
    CRK_TRY(check_view(&call, "dst", crk_const(dst), 1));
    call.src = NULL;
  }
  return submit(&call);
}

crk_status_t crk_comm_all_gather(crk_comm_t self, crk_dtype_t dtype, crk_const_view_t src, crk_view_t dst,
                                 size_t count) {
  const crk_comm_call_t call = {self, CRK_COMM_ALL_GATHER, dtype, CRK_COMM_OP_SUM, src.ptr, dst.ptr, count, 0, NULL};
  CRK_TRY(check_call(&call));
  CRK_TRY(check_views(&call, src, 1, dst, self->size, own_part(&call)));
  return submit(&call);
}

crk_status_t crk_comm_reduce_scatter(crk_comm_t self, crk_dtype_t dtype, crk_comm_op_t op, crk_const_view_t src,
                                     crk_view_t dst, size_t count) {
  const crk_comm_call_t call = {self, CRK_COMM_REDUCE_SCATTER, dtype, op, src.ptr, dst.ptr, count, 0, NULL};
  CRK_TRY(check_call(&call));
  CRK_TRY(check_views(&call, src, self->size, dst, 1, -own_part(&call)));
  return submit(&call);
}

crk_status_t crk_comm_all_to_all(crk_comm_t self, crk_dtype_t dtype, crk_const_view_t src, crk_view_t dst,
                                 size_t count) {
  const crk_comm_call_t call = {self, CRK_COMM_ALL_TO_ALL, dtype, CRK_COMM_OP_SUM, src.ptr, dst.ptr, count, 0, NULL};
  CRK_TRY(check_call(&call));
  CRK_TRY(check_views(&call, src, self->size, dst, self->size, NOWHERE));
  return submit(&call);
}

crk_status_t crk_comm_send(crk_comm_t self, crk_dtype_t dtype, crk_const_view_t src, size_t count, uint32_t peer) {
  const crk_comm_call_t call = {self, CRK_COMM_SEND, dtype, CRK_COMM_OP_SUM, src.ptr, NULL, count, peer, NULL};
  CRK_TRY(check_call(&call));
  CRK_TRY(check_view(&call, "src", src, 1));
  return submit(&call);
}

crk_status_t crk_comm_recv(crk_comm_t self, crk_dtype_t dtype, crk_view_t dst, size_t count, uint32_t peer) {
  const crk_comm_call_t call = {self, CRK_COMM_RECV, dtype, CRK_COMM_OP_SUM, NULL, dst.ptr, count, peer, NULL};
  CRK_TRY(check_call(&call));
  CRK_TRY(check_view(&call, "dst", crk_const(dst), 1));
  return submit(&call);
}
