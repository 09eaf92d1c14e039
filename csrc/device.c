/* Device handles: choose a backend, open and clone, describe, synchronise, close. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "diagnose.h"
#include "image/code_object.h"

static const crk_driver_t *driver_of(crk_backend_t backend) {
  switch (backend) {
    case CRK_BACKEND_HIP:
      return &crk_priv_driver_hip;
    case CRK_BACKEND_CUDA:
      return &crk_priv_driver_cuda;
    case CRK_BACKEND_CPU:
      return &crk_priv_driver_cpu;
    case CRK_BACKEND_AUTO:
      break;
  }
  return NULL;
}

bool crk_priv_has_kernels(crk_backend_t backend) {
  const crk_driver_t *driver = driver_of(backend);
  for (size_t i = 0; i < CRK_MODULE_COUNT; i++) {
    if (driver->builtin(i).data != NULL) {
      return true;
    }
  }
  return false;
}

static crk_status_t count_devices(const crk_driver_t *driver, int32_t *count) {
  CRK_TRY(driver->load());
  return driver->device_count(count);
}

/* ---- names of devices */

/* The backends by name. Two spellings of HIP: the API's and the platform's. */
static const struct {
  const char *name;
  crk_backend_t backend;
} backend_names[] = {
    {"hip", CRK_BACKEND_HIP}, {"rocm", CRK_BACKEND_HIP}, {"cuda", CRK_BACKEND_CUDA}, {"cpu", CRK_BACKEND_CPU}};

/* Reads what stands after the colon. */
static bool parse_ordinal(const char *text, crk_backend_t backend, int32_t *ordinal) {
  char *end;
  const long number = strtol(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || number > INT32_MAX) {
    return false;
  }
  *ordinal = backend == CRK_BACKEND_CPU ? number == 64 : (int32_t)number;
  return backend != CRK_BACKEND_CPU || number == 32 || number == 64;
}

/* Fails with CRK_NO_DEVICE, because the driver has too few devices. `what` is the beginning of the sentence. */
static crk_status_t no_device(crk_backend_t backend, int32_t count, const char *what) {
  char why[800] = "";
  if (backend == CRK_BACKEND_HIP && count == 0) {
    const crk_machine_t machine = crk_priv_machine();
    crk_priv_no_hip_device(&machine, why, sizeof why);
  }
  return crk_priv_error(CRK_NO_DEVICE, "%s, but this machine has %d device(s) of this backend%s%s", what, (int)count,
                        why[0] != '\0' ? ": " : "", why);
}

/* Finds the first HIP device of an architecture. `who` names the argument. */
static crk_status_t find_architecture(const char *who, const char *name, int32_t *ordinal) {
  char wanted[32], there[256] = "";
  size_t length = 0, used = 0;
  int32_t count = 0;
  for (; name[length] != '\0' && length < sizeof wanted - 1; length++) {
    wanted[length] = crk_priv_lower(name[length]);
  }
  wanted[length] = '\0';
  CRK_TRY(count_devices(&crk_priv_driver_hip, &count));
  for (int32_t i = 0; i < count; i++) {
    crk_driver_device_t *device = NULL;
    crk_device_info_t info;
    CRK_TRY(crk_priv_driver_hip.device_get(i, &device));
    CRK_TRY(crk_priv_driver_hip.device_info(device, &info));
    const crk_architecture_t *known = crk_priv_architecture_find(info.architecture);
    if (strcmp(wanted, info.architecture) == 0 || (known != NULL && strcmp(wanted, known->generic) == 0)) {
      *ordinal = i;
      return CRK_OK;
    }
    if (used < sizeof there) {
      used += (size_t)snprintf(there + used, sizeof there - used, "%s%s", i == 0 ? "" : ", ", info.architecture);
    }
  }
  char what[160];
  snprintf(what, sizeof what, "%s is '%.32s'", who, name);
  if (count == 0) {
    return no_device(CRK_BACKEND_HIP, count, what);
  }
  return crk_priv_error(CRK_NO_DEVICE, "%s, but no HIP device has this architecture; there are: %s", what, there);
}

/* Reads the name of a device. `who` names the argument in the error sentences. */
static crk_status_t parse_device(const char *who, const char *text, crk_backend_t *backend, int32_t *ordinal) {
  const size_t length = strcspn(text, ":");
  for (size_t i = 0; i < sizeof backend_names / sizeof *backend_names; i++) {
    if (strlen(backend_names[i].name) == length && crk_priv_alike(text, backend_names[i].name, length)) {
      int32_t number = 0;
      if (text[length] == ':' && !parse_ordinal(text + length + 1, backend_names[i].backend, &number)) {
        break;
      }
      *backend = backend_names[i].backend;
      *ordinal = number;
      return CRK_OK;
    }
  }
  const bool is_architecture =
      crk_priv_alike(text, "gfx", 3) && text[3] >= '0' && text[3] <= '9' && text[length] == '\0' && length < 32;
  if (is_architecture) {
    CRK_TRY(find_architecture(who, text, ordinal));
    *backend = CRK_BACKEND_HIP;
    return CRK_OK;
  }
  return crk_priv_advise(crk_priv_error(CRK_INVALID_ARGUMENT, "%s is '%.64s'", who, text),
                         "understood are hip, hip:N, rocm, rocm:N, cuda, cuda:N with a device number N, "
                         "cpu, cpu:32, cpu:64, and the architecture of a HIP device, such as gfx1100");
}

crk_status_t crk_device_from_name(const char *name, crk_backend_t *backend, int32_t *ordinal) {
  CRK_REFUSE_IF(name == NULL, "crk_device_from_name: name is NULL");
  CRK_REFUSE_IF(backend == NULL, "crk_device_from_name: backend is NULL");
  CRK_REFUSE_IF(ordinal == NULL, "crk_device_from_name: ordinal is NULL");
  return parse_device("crk_device_from_name: name", name, backend, ordinal);
}

/* ---- the choice of CRK_BACKEND_AUTO */

crk_status_t crk_priv_choose_backend(crk_skipped_t *skipped, void *user, crk_backend_t *backend, int32_t *ordinal) {
  const char *named = getenv("CANDLE_ROCM_DEVICE");
  if (named != NULL && *named != '\0') {
    return parse_device("CANDLE_ROCM_DEVICE", named, backend, ordinal);
  }
  static const crk_backend_t gpus[] = {CRK_BACKEND_HIP, CRK_BACKEND_CUDA};
  for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
    int32_t count = 0;
    const char *why = "this build has no kernels for it";
    if (crk_priv_has_kernels(gpus[i])) {
      const crk_status_t status = count_devices(driver_of(gpus[i]), &count);
      if (status != CRK_OK && status != CRK_NO_RUNTIME && status != CRK_NO_DEVICE) {
        return status;
      }
      if (status == CRK_OK && count > 0) {
        *backend = gpus[i];
        return CRK_OK;
      }
      why = status == CRK_OK ? "it has no device" : crk_last_error();
    }
    if (skipped != NULL) {
      skipped(user, gpus[i], why);
    }
  }
  *backend = CRK_BACKEND_CPU;
  return CRK_OK;
}

crk_status_t crk_device_count(crk_backend_t backend, int32_t *count) {
  CRK_REFUSE_IF(count == NULL, "crk_device_count: count is NULL");
  int32_t ordinal = 0;
  if (backend == CRK_BACKEND_AUTO) {
    CRK_TRY(crk_priv_choose_backend(NULL, NULL, &backend, &ordinal));
  }
  const crk_driver_t *driver = driver_of(backend);
  CRK_REFUSE_IF(driver == NULL, "crk_device_count: backend %d is unknown; use a value of crk_backend_t", (int)backend);
  int32_t found = 0;
  CRK_TRY(count_devices(driver, &found));
  *count = found;
  return CRK_OK;
}

static crk_mutex_t handles_lock = CRK_MUTEX_INIT; /* guards `handles` */
static crk_device_t handles;
static atomic_uint_fast64_t handles_version = 1; /* counts the changes of `handles` */

crk_device_t crk_priv_device_of_stream(const void *stream) {
  static _Thread_local struct {
    uint64_t version;
    const void *stream;
    crk_device_t device;
  } last;
  if (last.version != atomic_load_explicit(&handles_version, memory_order_acquire) || last.stream != stream) {
    crk_priv_mutex_lock(&handles_lock);
    crk_device_t found = handles;
    while (found != NULL && (const void *)found->own_stream != stream) {
      found = found->next;
    }
    last.version = atomic_load_explicit(&handles_version, memory_order_relaxed);
    last.stream = stream;
    last.device = found;
    crk_priv_mutex_unlock(&handles_lock);
  }
  return last.device;
}

/* With the lock held: whether a handle in the list works in `stream`. */
static bool is_listed(const crk_driver_stream_t *stream) {
  const struct crk_device *other = handles;
  while (other != NULL && other->own_stream != stream) {
    other = other->next;
  }
  return other != NULL;
}

/* Puts the handle into its heap and into the list. False where a listed handle has the same stream; its heap never sees
 * the new handle then, since it would record events into a stream that may be captured. */
static bool list_handle(crk_device_t self) {
  crk_priv_mutex_lock(&handles_lock);
  const bool is_new = !is_listed(self->own_stream);
  if (is_new) {
    crk_priv_heap_join(self);
    self->next = handles;
    handles = self;
    atomic_fetch_add_explicit(&handles_version, 1, memory_order_release);
  }
  crk_priv_mutex_unlock(&handles_lock);
  return is_new;
}

static void unlist_handle(crk_device_t self) {
  crk_priv_mutex_lock(&handles_lock);
  crk_device_t *link = &handles;
  while (*link != self) {
    link = &(*link)->next;
  }
  *link = self->next;
  atomic_fetch_add_explicit(&handles_version, 1, memory_order_release);
  crk_priv_mutex_unlock(&handles_lock);
}

/* Takes over the caller's reference to `context`; releases it on failure. `borrowed` points at the caller's stream, or
 * is NULL for a stream of the handle's own. */
static crk_status_t handle_create(crk_context_t *context, void *const *borrowed, crk_device_t *device) {
  crk_device_t self = calloc(1, sizeof *self);
  if (self == NULL) {
    crk_priv_context_release(context);
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_device_open: no host memory for a handle");
  }
  self->driver = context->driver;
  self->driver_device = context->driver_device;
  self->context = context;
  crk_priv_operations_init(self);
  self->gate = crk_priv_gate_create();
  crk_status_t status =
      self->gate != NULL ? CRK_OK : crk_priv_error(CRK_OUT_OF_MEMORY, "crk_device_open: no host memory for a handle");
  if (status != CRK_OK) {
    goto fail_gate;
  }
  status = crk_priv_blas_init(self);
  if (status != CRK_OK) {
    goto fail_blas;
  }
  self->is_stream_borrowed = borrowed != NULL;
  if (borrowed != NULL) {
    self->own_stream = *borrowed;
  } else {
    status = self->driver->stream_create(self->driver_device, &self->own_stream);
    if (status != CRK_OK) {
      goto fail_stream;
    }
  }
  crk_priv_turns_init(&self->capture_turns);
  crk_priv_mutex_init(&self->lock);
  self->magic = CRK_MAGIC_DEVICE;
  crk_priv_replay_init(self);
  if (!list_handle(self)) {
    status = crk_priv_error(CRK_INVALID_ARGUMENT,
                            "crk_device_clone_on_stream: a live handle works in stream %p already; close it first",
                            (void *)self->own_stream);
    goto fail_list;
  }
  *device = self;
  return CRK_OK;

fail_list:
  crk_priv_replay_deinit(self);
  crk_priv_mutex_deinit(&self->lock);
  crk_priv_turns_deinit(&self->capture_turns);
  if (!self->is_stream_borrowed) {
    self->driver->stream_destroy(self->driver_device, self->own_stream);
  }
fail_stream:
  crk_priv_blas_deinit(self);
fail_blas:
  crk_priv_gate_release(self->gate);
fail_gate:
  free(self);
  crk_priv_context_release(context);
  return status;
}

crk_status_t crk_device_open(crk_backend_t backend, int32_t ordinal, crk_device_t *device) {
  CRK_REFUSE_IF(device == NULL, "crk_device_open: device is NULL");
  if (backend == CRK_BACKEND_AUTO) {
    CRK_TRY(crk_priv_choose_backend(NULL, NULL, &backend, &ordinal));
  }
  const crk_driver_t *driver = driver_of(backend);
  CRK_REFUSE_IF(driver == NULL, "crk_device_open: backend %d is unknown; use a value of crk_backend_t", (int)backend);
  int32_t count = 0;
  CRK_TRY(count_devices(driver, &count));
  if (ordinal < 0 || ordinal >= count) {
    char what[64];
    snprintf(what, sizeof what, "crk_device_open: ordinal %d", (int)ordinal);
    return no_device(backend, count, what);
  }
  crk_context_t *context = NULL;
  CRK_TRY(crk_priv_context_create(driver, ordinal, &context));
  return handle_create(context, NULL, device);
}

crk_status_t crk_device_clone(crk_device_t self, crk_device_t *device) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_clone");
  CRK_REFUSE_IF(device == NULL, "crk_device_clone: device is NULL");
  crk_priv_context_retain(self->context);
  return handle_create(self->context, NULL, device);
}

crk_status_t crk_device_clone_on_stream(crk_device_t self, void *stream, crk_device_t *device) {
  enum { PER_THREAD = 2 }; /* hipStreamPerThread and CU_STREAM_PER_THREAD */
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_clone_on_stream");
  CRK_REFUSE_IF(device == NULL, "crk_device_clone_on_stream: device is NULL");
  CRK_REFUSE_IF(
      (uintptr_t)stream == PER_THREAD,
      "crk_device_clone_on_stream: stream is the default stream per thread, which is another one in each thread; "
      "create a stream");
  if (self->driver->backend == CRK_BACKEND_CPU) {
    return crk_priv_error(CRK_UNSUPPORTED, "crk_device_clone_on_stream: the CPU has no streams of the caller's");
  }
  crk_priv_context_retain(self->context);
  return handle_create(self->context, &stream, device);
}

void crk_device_close(crk_device_t self) {
  if (self == NULL || self->magic != CRK_MAGIC_DEVICE) {
    return;
  }
  self->magic = 0;
  unlist_handle(self);
  crk_graph_t capture = atomic_load(&self->capture);
  if (capture != NULL) {
    /* The capture is discarded. The caller never received the graph object, so it is freed here. */
    self->driver->capture_end(self->driver_device, crk_priv_stream(self), NULL);
    crk_priv_blas_capture_end(self);
    crk_priv_heap_capture_end(self, capture);
    free(capture->memory.blocks);
    free(capture);
  }
  self->driver->stream_synchronize(self->driver_device, crk_priv_stream(self));
  /* Before the gate is closed: who holds the lock of the BLAS pool may empty the cache, and so wait for gates. */
  crk_priv_blas_deinit(self);
  crk_priv_gate_close(self->gate);
  /* crk_priv_heap_trim may have recorded events. */
  self->driver->stream_synchronize(self->driver_device, crk_priv_stream(self));
  crk_priv_replay_deinit(self);
  crk_priv_event_destroy(self->fence);
  crk_context_t *context = self->context;
  crk_priv_fault_deinit(self);
  crk_priv_params_deinit(self);
  crk_priv_tickets_deinit(self);
  crk_priv_staging_deinit(self);
  crk_priv_heap_leave(self);
  if (!self->is_stream_borrowed) {
    self->driver->stream_destroy(self->driver_device, self->own_stream);
  }
  /* The gate opens when the handle has left the heap and its stream is gone: crk_priv_heap_trim records events on the
   * streams of all handles in the heap with open gates, and event calls look at the stream. */
  crk_priv_gate_open(self->gate, true);
  crk_priv_gate_release(self->gate);
  crk_priv_mutex_deinit(&self->lock);
  crk_priv_turns_deinit(&self->capture_turns);
  free(self);
  crk_priv_context_release(context);
}

_Static_assert(sizeof(crk_device_info_t) == CRK_SIZED_UP_TO(crk_device_info_t, l2_caches),
               "the last field ends the struct");

crk_status_t crk_device_info(crk_device_t self, crk_device_info_t *info) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_info");
  CRK_REFUSE_IF(info == NULL, "crk_device_info: info is NULL");
  return crk_priv_sized_give("crk_device_info", "info", CRK_SIZED_UP_TO(crk_device_info_t, unit_shared_bytes),
                             &self->context->info, sizeof self->context->info, info);
}

crk_status_t crk_device_memory(crk_device_t self, size_t *free_bytes, size_t *total_bytes) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_memory");
  CRK_REFUSE_IF(free_bytes == NULL, "crk_device_memory: free_bytes is NULL");
  CRK_REFUSE_IF(total_bytes == NULL, "crk_device_memory: total_bytes is NULL");
  return self->driver->device_memory(self->driver_device, free_bytes, total_bytes);
}

crk_status_t crk_device_stream(crk_device_t self, void **stream) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_stream");
  CRK_REFUSE_IF(stream == NULL, "crk_device_stream: stream is NULL");
  crk_priv_replay_forbid(self); /* the caller's own work in it must come after what is kept */
  *stream = self->own_stream;
  return CRK_OK;
}

crk_status_t crk_device_synchronize(crk_device_t self) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_synchronize");
  CRK_TRY(crk_priv_capture_bar(self, "crk_device_synchronize"));
  const crk_status_t status = crk_priv_errors_wait(self);
  crk_priv_turns_leave(&self->capture_turns);
  return status;
}
