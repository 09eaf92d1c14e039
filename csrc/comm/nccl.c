/* Collectives on GPUs: RCCL for HIP devices, NCCL for CUDA devices. Both have the same calls. The library is opened
 * when the first communicator is created, and is never closed.
 *
 * No header of NCCL or RCCL is needed: the calls below have the ABI of version 2.18 and later.
 *
 * A communicator is non-blocking where the library can do so and the program gave a timeout. Each call then returns at
 * once, and the library does the rest in a thread of its own. The caller asks until the library has started the work.
 * So a lost rank never holds a thread for longer than the timeout. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/transport.h"
#include "dtype.h"
#include "os/library.h"

/* REQUIRED(name, parameters) and OPTIONAL(name, parameters). All return an ncclResult_t. */
#define CRK_NCCL_MAP(REQUIRED, OPTIONAL)                                                                              \
  REQUIRED(ncclGetVersion, (int *version))                                                                            \
  REQUIRED(ncclGetUniqueId, (crk_comm_id_t * id))                                                                     \
  REQUIRED(ncclCommInitRank, (void **comm, int ranks, crk_comm_id_t id, int rank))                                    \
  REQUIRED(ncclCommDestroy, (void *comm))                                                                             \
  REQUIRED(ncclCommAbort, (void *comm))                                                                               \
  REQUIRED(ncclGroupStart, (void))                                                                                    \
  REQUIRED(ncclGroupEnd, (void))                                                                                      \
  REQUIRED(ncclAllReduce, (const void *src, void *dst, size_t count, int type, int op, void *comm, void *stream))     \
  REQUIRED(ncclReduce,                                                                                                \
           (const void *src, void *dst, size_t count, int type, int op, int root, void *comm, void *stream))          \
  REQUIRED(ncclBroadcast, (const void *src, void *dst, size_t count, int type, int root, void *comm, void *stream))   \
  REQUIRED(ncclAllGather, (const void *src, void *dst, size_t count, int type, void *comm, void *stream))             \
  REQUIRED(ncclReduceScatter, (const void *src, void *dst, size_t count, int type, int op, void *comm, void *stream)) \
  REQUIRED(ncclSend, (const void *src, size_t count, int type, int peer, void *comm, void *stream))                   \
  REQUIRED(ncclRecv, (void *dst, size_t count, int type, int peer, void *comm, void *stream))                         \
  OPTIONAL(ncclCommInitRankConfig, (void **comm, int ranks, crk_comm_id_t id, int rank, config_t *config))            \
  OPTIONAL(ncclCommGetAsyncError, (void *comm, int *result))                                                          \
  OPTIONAL(ncclCommFinalize, (void *comm))

/* The numbers of the API that are used here. */
enum {
  NCCL_SUCCESS = 0,
  NCCL_REMOTE_ERROR = 6,
  NCCL_IN_PROGRESS = 7,
  NCCL_TIMEOUT = 8,
  NCCL_UINT8 = 1,
  NCCL_NO_TYPE = -1,
  NCCL_OLDEST = 21800, /* 2.18.0 */
  NCCL_F8 = 22400, /* the first version that adds F8E4M3 */
  NCCL_F8_CAPABILITY = 90, /* the least compute capability for it */
  NCCL_CONFIG_UNSET = INT_MIN
};

static const uint32_t config_magic = 0xcafebeef;

/* The configuration of a communicator, as version 2.18 has it. Later versions have more fields behind these, and read
 * as many as `size` says. */
typedef struct config {
  size_t size;
  uint32_t magic, version;
  int blocking, cluster_size, least_blocks, most_blocks;
  const char *network;
  int shares_split;
} config_t;

/* The library's dtypes. I16 is not among them. */
static const int types[CRK_DTYPE_COUNT] = {
    [CRK_DTYPE_U8] = NCCL_UINT8, [CRK_DTYPE_I32] = 2,           [CRK_DTYPE_U32] = 3, [CRK_DTYPE_I64] = 4,
    [CRK_DTYPE_F16] = 6,         [CRK_DTYPE_F32] = 7,           [CRK_DTYPE_F64] = 8, [CRK_DTYPE_BF16] = 9,
    [CRK_DTYPE_F8E4M3] = 10,     [CRK_DTYPE_I16] = NCCL_NO_TYPE};

/* The library's reductions have our numbers. */
_Static_assert(CRK_COMM_OP_SUM == 0 && CRK_COMM_OP_PROD == 1 && CRK_COMM_OP_MAX == 2 && CRK_COMM_OP_MIN == 3 &&
                   CRK_COMM_OP_AVG == 4,
               "the numbers of ncclRedOp_t");

static const char *const symbols[] = {CRK_NCCL_MAP(CRK_SYMBOL, CRK_SYMBOL_OPTIONAL) "?ncclGetErrorString",
                                      "?ncclGetLastError", NULL};

static bool accept_library(void *context, const char *missing, const char *path, char *why, size_t size);

typedef struct library {
  crk_library_t search;
  bool is_loaded;
  int version;
  char path[1024];
  struct { /* in the order of `symbols` */
#define XX(name, params) int(*name) params;
    CRK_NCCL_MAP(XX, XX)
#undef XX
    const char *(*ncclGetErrorString)(int result); /* optional, like the next */
    const char *(*ncclGetLastError)(void *comm);
  } calls;
} library_t;

static library_t rccl = {.search = {.name = "RCCL",
                                    .stem = "rccl",
                                    .vendor = &crk_priv_rocm,
                                    .symbols = symbols,
                                    .functions = &rccl.calls,
                                    .accept = accept_library,
                                    .context = &rccl,
                                    .variable = "CANDLE_ROCM_RCCL_LIBRARY",
                                    .remedy = "install ROCm's package rccl"}};
static library_t nccl = {.search = {.name = "NCCL",
                                    .stem = "nccl",
                                    .vendor = &crk_priv_cuda,
                                    .symbols = symbols,
                                    .functions = &nccl.calls,
                                    .accept = accept_library,
                                    .context = &nccl,
                                    .variable = "CANDLE_ROCM_NCCL_LIBRARY",
                                    .remedy = "install NCCL (Debian, Ubuntu: libnccl2; Python: nvidia-nccl-cu13)"}};

static crk_mutex_t load_lock = CRK_MUTEX_INIT; /* guards both libraries until they are loaded */

static library_t *library_of(crk_device_t device) { return device->driver->backend == CRK_BACKEND_HIP ? &rccl : &nccl; }

/* ---- loading */

static bool accept_library(void *context, const char *missing, const char *path, char *why, size_t size) {
  library_t *self = context;
  int version = 0;
  if (self->calls.ncclGetVersion != NULL && self->calls.ncclGetVersion(&version) != NCCL_SUCCESS) {
    missing = "ncclGetVersion's answer";
  }
  self->version = version;
  const int major = version / 10000, minor = version / 100 % 100, patch = version % 100;
  if (missing != NULL && version == 0) {
    snprintf(why, size, "%s is missing in %s", missing, path);
  } else if (missing != NULL) {
    snprintf(why, size, "%s is missing in %s, version %d.%d.%d", missing, path, major, minor, patch);
  } else if (version < NCCL_OLDEST) {
    snprintf(why, size, "%s has version %d (2.18, number %d, or later is needed)", path, version, NCCL_OLDEST);
  }
  return missing == NULL && version >= NCCL_OLDEST;
}

static crk_status_t load_locked(library_t *self, const char *where) {
  if (self->is_loaded) {
    return CRK_OK;
  }
  self->search.runtime = self == &rccl ? crk_priv_hip_library() : NULL;
  CRK_TRY(crk_priv_library_load(&self->search, where, self->path, sizeof self->path));
  self->is_loaded = true;
  return CRK_OK;
}

static crk_status_t load(library_t *self, const char *where) {
  crk_priv_mutex_lock(&load_lock);
  const crk_status_t status = load_locked(self, where);
  crk_priv_mutex_unlock(&load_lock);
  return status;
}

static crk_status_t nccl_library(crk_device_t device, const char *where, const char **name, int32_t *version) {
  library_t *self = library_of(device);
  CRK_TRY(load(self, where));
  *name = self->search.name;
  *version = self->version;
  return CRK_OK;
}

/* ---- errors */

/* Fails with the sentence "<where>: <call> answers 6 (remote process exited ...)". */
static crk_status_t failed(const library_t *self, const char *where, const char *call, int result) {
  const char *name = self->calls.ncclGetErrorString != NULL ? self->calls.ncclGetErrorString(result) : NULL;
  const char *more = self->calls.ncclGetLastError != NULL ? self->calls.ncclGetLastError(NULL) : NULL;
  name = name != NULL ? name : "no name";
  more = more != NULL ? more : "";
  const char *between = more[0] != '\0' ? ": " : "";
  if (result == NCCL_REMOTE_ERROR || result == NCCL_TIMEOUT) {
    return crk_priv_error(CRK_PEER_LOST, "%s: %s of %s answers %d (%s)%s%.300s", where, call, self->search.name, result,
                          name, between, more);
  }
  return crk_priv_device_error(result, "%s: %s of %s answers %d (%s)%s%.300s", where, call, self->search.name, result,
                               name, between, more);
}

/* ---- communicators */

static crk_status_t nccl_id_create(crk_device_t device, crk_comm_id_t *id) {
  library_t *self = library_of(device);
  CRK_TRY(load(self, "crk_comm_id_create"));
  CRK_TRY(device->driver->bind(device->driver_device));
  crk_comm_id_t fresh = {{0}};
  const int result = self->calls.ncclGetUniqueId(&fresh);
  if (result != NCCL_SUCCESS) {
    return failed(self, "crk_comm_id_create", "ncclGetUniqueId", result);
  }
  *id = fresh;
  return CRK_OK;
}

static crk_status_t nccl_create(crk_comm_t comm, const crk_comm_id_t *id, bool may_wait, const char *where) {
  library_t *self = library_of(comm->device);
  CRK_TRY(load(self, where));
  const char *missing = self->calls.ncclCommInitRankConfig == NULL  ? "ncclCommInitRankConfig"
                        : self->calls.ncclCommGetAsyncError == NULL ? "ncclCommGetAsyncError"
                                                                    : NULL;
  if (missing != NULL && !may_wait) {
    return crk_priv_error(CRK_UNSUPPORTED,
                          "%s: %s is missing in %s, version %d; install a later %s, or use crk_comm_create", where,
                          missing, self->path, self->version, self->search.name);
  }
  CRK_TRY(comm->device->driver->bind(comm->device->driver_device));
  comm->is_blocking = missing != NULL || (may_wait && comm->timeout_ms == CRK_COMM_FOREVER);
  void *handle = NULL;
  int result;
  if (comm->is_blocking) {
    result = self->calls.ncclCommInitRank(&handle, (int)comm->size, *id, (int)comm->rank);
  } else {
    config_t config = {sizeof config,     config_magic, NCCL_OLDEST,      0, NCCL_CONFIG_UNSET, NCCL_CONFIG_UNSET,
                       NCCL_CONFIG_UNSET, NULL,         NCCL_CONFIG_UNSET};
    result = self->calls.ncclCommInitRankConfig(&handle, (int)comm->size, *id, (int)comm->rank, &config);
  }
  comm->handle = handle;
  if (result != NCCL_SUCCESS && !(result == NCCL_IN_PROGRESS && !comm->is_blocking)) {
    return failed(self, where, comm->is_blocking ? "ncclCommInitRank" : "ncclCommInitRankConfig", result);
  }
  return CRK_OK;
}

static crk_status_t nccl_poll(crk_comm_t comm, const char *where) {
  library_t *self = library_of(comm->device);
  if (self->calls.ncclCommGetAsyncError == NULL) {
    return CRK_OK;
  }
  int state = NCCL_SUCCESS;
  const int result = self->calls.ncclCommGetAsyncError(comm->handle, &state);
  if (result != NCCL_SUCCESS) {
    return failed(self, where, "ncclCommGetAsyncError", result);
  }
  if (state == NCCL_IN_PROGRESS) {
    return CRK_NOT_READY;
  }
  return state == NCCL_SUCCESS ? CRK_OK : failed(self, where, "the communicator", state);
}

/* Waits until the library has finished a non-blocking call. The caller has entered the communicator. */
static crk_status_t settle(crk_comm_t comm, const char *where) {
  const double begin = crk_priv_seconds(), deadline = crk_priv_comm_deadline(comm->timeout_ms);
  for (;;) {
    if (crk_priv_comm_ended(comm)) {
      return crk_priv_comm_failure(comm, where);
    }
    const crk_status_t status = nccl_poll(comm, where);
    if (status != CRK_NOT_READY) {
      return status;
    }
    if (crk_priv_comm_left(deadline) <= 0.0) {
      return crk_priv_error(CRK_PEER_LOST, "%s: %s had not started the work within %u ms; another rank may be lost",
                            where, library_of(comm->device)->search.name, (unsigned)comm->timeout_ms);
    }
    crk_priv_comm_pause(begin);
  }
}

/* An ncclCommAbort in a thread of its own. The library waits in it until all graphs that contain collectives of the
 * communicator are destroyed, and the caller may be the one who destroys them. */
typedef struct ending {
  const library_t *library;
  const crk_driver_t *driver;
  const crk_driver_device_t *gpu;
  void *handle;
  crk_mutex_t lock; /* guards the next two; the second thread to set its flag frees all */
  crk_condition_t changed;
  bool is_done, is_left;
} ending_t;

static void ending_free(ending_t *self) {
  crk_priv_condition_deinit(&self->changed);
  crk_priv_mutex_deinit(&self->lock);
  free(self);
}

static void ending_main(void *context) {
  ending_t *self = context;
  self->driver->bind(self->gpu);
  self->library->calls.ncclCommAbort(self->handle);
  crk_priv_mutex_lock(&self->lock);
  self->is_done = true;
  const bool is_last = self->is_left;
  crk_priv_condition_signal(&self->changed);
  crk_priv_mutex_unlock(&self->lock);
  if (is_last) {
    ending_free(self);
  }
}

/* Aborts the library's communicator `handle`. Waits at most a second for the end: the library may wait for graphs. */
static void abort_handle(crk_device_t device, void *handle) {
  static const double patience = 1.0; /* seconds; an abort takes milliseconds */
  const library_t *library = library_of(device);
  ending_t *self = calloc(1, sizeof *self);
  if (self == NULL) {
    library->calls.ncclCommAbort(handle);
    return;
  }
  *self = (ending_t){.library = library, .driver = device->driver, .gpu = device->driver_device, .handle = handle};
  crk_priv_mutex_init(&self->lock);
  crk_priv_condition_init(&self->changed);
  if (!crk_priv_thread_start(ending_main, self, NULL)) {
    library->calls.ncclCommAbort(handle);
    ending_free(self);
    return;
  }
  const double deadline = crk_priv_seconds() + patience;
  crk_priv_mutex_lock(&self->lock);
  while (!self->is_done && crk_priv_comm_left(deadline) > 0.0) {
    crk_priv_condition_wait_for(&self->changed, &self->lock, crk_priv_comm_left(deadline));
  }
  self->is_left = true;
  const bool is_last = self->is_done;
  crk_priv_mutex_unlock(&self->lock);
  if (is_last) {
    ending_free(self);
  }
}

static void nccl_interrupt(crk_comm_t comm) {
  /* Seconds that a thread has to get inside the library: it says that it waits just before it calls. So no call begins
   * with a freed handle. A call that waits for another rank lasts longer. */
  static const double arrival = 0.1;
  crk_priv_peers_stop(comm);
  if (!comm->is_blocking) { /* the thread inside looks at the failure by itself */
    return;
  }
  crk_priv_mutex_lock(&comm->lock);
  double begin = crk_priv_seconds();
  while (comm->step == CRK_COMM_BUILDING || (comm->step == CRK_COMM_WAITING && crk_priv_seconds() - begin < arrival)) {
    begin = comm->step == CRK_COMM_BUILDING ? crk_priv_seconds() : begin;
    crk_priv_condition_wait_for(&comm->changed, &comm->lock, 1e-3);
  }
  void *handle = NULL;
  if (comm->step == CRK_COMM_WAITING) { /* else the handle is released by the next `leave` in comm.c */
    handle = comm->handle;
    comm->handle = NULL;
  }
  crk_priv_mutex_unlock(&comm->lock);
  if (handle != NULL) {
    abort_handle(comm->device, handle);
  }
}

static void nccl_release(crk_comm_t comm, bool aborts) {
  library_t *self = library_of(comm->device);
  if (aborts) {
    crk_priv_peers_stop(comm);
    crk_priv_peers_keep(comm);
  }
  if (comm->handle == NULL || comm->device->driver->bind(comm->device->driver_device) != CRK_OK) {
    return;
  }
  if (!aborts && !comm->is_blocking && self->calls.ncclCommFinalize != NULL) {
    const int result = self->calls.ncclCommFinalize(comm->handle);
    aborts = (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS) || settle(comm, "crk_comm_destroy") != CRK_OK;
  }
  void *handle = crk_priv_comm_take_handle(comm);
  if (handle != NULL && aborts) {
    abort_handle(comm->device, handle);
    crk_priv_peers_keep(comm);
  } else if (handle != NULL) {
    self->calls.ncclCommDestroy(handle);
    crk_priv_peers_release(comm);
  }
}

/* ---- calls */

static crk_status_t nccl_check_reduction(crk_comm_t comm, const char *where, crk_dtype_t dtype) {
  const library_t *self = library_of(comm->device);
  if (dtype != CRK_DTYPE_F8E4M3) {
    return CRK_OK;
  }
  if (self->version < NCCL_F8) {
    return crk_priv_error(CRK_UNSUPPORTED, "%s: dtype f8e4m3 is reduced by version 2.24 or later; %s has version %d",
                          where, self->path, self->version);
  }
  if (self == &nccl && atoi(comm->device->context->info.architecture + strlen("sm_")) < NCCL_F8_CAPABILITY) {
    return crk_priv_error(CRK_UNSUPPORTED, "%s: dtype f8e4m3 is reduced from compute capability 9.0 on; the GPU is %s",
                          where, comm->device->context->info.architecture);
  }
  /* RCCL takes the format FNUZ on these GPUs, which has other values. */
  if (self == &rccl && strncmp(comm->device->context->info.architecture, "gfx94", 5) == 0) {
    return crk_priv_error(CRK_UNSUPPORTED, "%s: dtype f8e4m3 cannot be reduced on %s, where RCCL has another format",
                          where, comm->device->context->info.architecture);
  }
  return CRK_OK;
}

/* The library's type of a call's elements, and their number. What is only moved is moved as bytes where the library has
 * no such type; F8E4M3 always, which NCCL refuses on some GPUs. */
static int type_of(const crk_comm_call_t *call, size_t *count) {
  int type = types[call->dtype];
  if (type == NCCL_NO_TYPE || (call->dtype == CRK_DTYPE_F8E4M3 && !crk_priv_comm_reduces(call->kind))) {
    *count *= crk_dtype_size(call->dtype);
    type = NCCL_UINT8;
  }
  return type;
}

/* Gives one call to the library, for its communicator `comm`. `name` becomes the library's function. */
static int give(const library_t *self, const crk_comm_call_t *call, void *comm, const char **name) {
  size_t count = call->count;
  const int type = type_of(call, &count);
  const int peer = (int)call->peer, op = (int)call->op;
  void *stream = crk_priv_stream(call->device);
  switch (call->kind) {
    case CRK_COMM_ALL_REDUCE:
      *name = "ncclAllReduce";
      return self->calls.ncclAllReduce(call->src, call->dst, count, type, op, comm, stream);
    case CRK_COMM_REDUCE:
      *name = "ncclReduce";
      return self->calls.ncclReduce(call->src, call->dst, count, type, op, peer, comm, stream);
    case CRK_COMM_BROADCAST:
      *name = "ncclBroadcast";
      return self->calls.ncclBroadcast(call->src, call->dst, count, type, peer, comm, stream);
    case CRK_COMM_ALL_GATHER:
      *name = "ncclAllGather";
      return self->calls.ncclAllGather(call->src, call->dst, count, type, comm, stream);
    case CRK_COMM_REDUCE_SCATTER:
      *name = "ncclReduceScatter";
      return self->calls.ncclReduceScatter(call->src, call->dst, count, type, op, comm, stream);
    case CRK_COMM_SEND:
      *name = "ncclSend";
      return self->calls.ncclSend(call->src, count, type, peer, comm, stream);
    case CRK_COMM_RECV:
      *name = "ncclRecv";
      return self->calls.ncclRecv(call->dst, count, type, peer, comm, stream);
    case CRK_COMM_ALL_TO_ALL: {
      const size_t part = call->count * crk_dtype_size(call->dtype);
      int result = NCCL_SUCCESS;
      for (int rank = 0; rank < (int)call->comm->size && result == NCCL_SUCCESS; rank++) {
        *name = "ncclSend";
        result = self->calls.ncclSend((const char *)call->src + (size_t)rank * part, count, type, rank, comm, stream);
        if (result == NCCL_SUCCESS) {
          *name = "ncclRecv";
          result = self->calls.ncclRecv((char *)call->dst + (size_t)rank * part, count, type, rank, comm, stream);
        }
      }
      return result;
    }
  }
  return NCCL_SUCCESS;
}

static bool is_begun(int result) { return result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS; }

/* Says where the calling thread is, for nccl_interrupt. Fails where a communicator of the calls has ended. */
static crk_status_t go(const crk_comm_call_t *calls, size_t count, crk_comm_step_t step) {
  crk_status_t status = CRK_OK;
  for (size_t i = 0; i < count; i++) {
    crk_comm_t comm = calls[i].comm;
    crk_priv_mutex_lock(&comm->lock);
    comm->step = step;
    crk_priv_mutex_unlock(&comm->lock);
    if (status == CRK_OK && crk_priv_comm_ended(comm)) {
      status = crk_priv_comm_failure(comm, crk_priv_comm_function(calls[i].kind));
    }
  }
  return status;
}

/* The library's communicator, or NULL if nccl_interrupt has ended it. */
static void *handle_of(crk_comm_t comm) {
  crk_priv_mutex_lock(&comm->lock);
  void *handle = comm->handle;
  crk_priv_mutex_unlock(&comm->lock);
  return handle;
}

static crk_status_t give_each(const library_t *self, const crk_comm_call_t *calls, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const char *name = NULL;
    CRK_TRY(calls[i].comm->device->driver->bind(calls[i].comm->device->driver_device));
    void *handle = handle_of(calls[i].comm);
    if (handle == NULL) {
      return crk_priv_comm_failure(calls[i].comm, crk_priv_comm_function(calls[i].kind));
    }
    const int result = give(self, &calls[i], handle, &name);
    if (!is_begun(result)) {
      return failed(self, crk_priv_comm_function(calls[i].kind), name, result);
    }
  }
  return CRK_OK;
}

static crk_status_t give_group(const library_t *self, const crk_comm_call_t *calls, size_t count) {
  const int result = self->calls.ncclGroupStart();
  if (result != NCCL_SUCCESS) {
    return failed(self, crk_priv_comm_function(calls[0].kind), "ncclGroupStart", result);
  }
  const crk_status_t status = give_each(self, calls, count);
  go(calls, count, CRK_COMM_WAITING); /* the group must be closed even if a communicator has ended */
  const int ended = self->calls.ncclGroupEnd();
  return status != CRK_OK || is_begun(ended)
             ? status
             : failed(self, crk_priv_comm_function(calls[count - 1].kind), "ncclGroupEnd", ended);
}

/* Gives the calls of one library to it. The communicators are entered. If one ends meanwhile, this is the failure, and
 * not what the library says of it. */
static crk_status_t give_all(const library_t *self, const crk_comm_call_t *calls, size_t count) {
  const bool groups = count > 1 || calls[0].kind == CRK_COMM_ALL_TO_ALL;
  crk_status_t status = go(calls, count, groups ? CRK_COMM_BUILDING : CRK_COMM_WAITING);
  if (status == CRK_OK) {
    status = (groups ? give_group : give_each)(self, calls, count);
  }
  const crk_status_t ended = go(calls, count, CRK_COMM_OUTSIDE);
  return ended != CRK_OK ? ended : status;
}

/* Gives calls to the libraries. The communicators are entered. */
static crk_status_t give_to_libraries(const crk_comm_call_t *calls, size_t count, const crk_comm_set_t *set) {
  crk_status_t status = CRK_OK;
  /* A program may have HIP and CUDA devices. The calls of each library follow each other. */
  for (size_t first = 0; first < count && status == CRK_OK;) {
    const library_t *self = library_of(calls[first].comm->device);
    size_t end = first + 1;
    while (end < count && library_of(calls[end].comm->device) == self) {
      end++;
    }
    status = give_all(self, &calls[first], end - first);
    first = end;
  }
  for (size_t i = 0; i < set->count && status == CRK_OK; i++) {
    if (!set->all[i]->is_blocking) {
      status = settle(set->all[i], crk_priv_comm_function(calls[0].kind));
    }
  }
  return status;
}

/* Whether a communicator has one call here. The other ranks then have one too, in whatever groups they are. */
static bool is_alone(const crk_comm_call_t *calls, size_t count, crk_comm_t comm) {
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    found += calls[i].comm == comm;
  }
  return found == 1;
}

/* Starts the calls that are sums of our own. Writes the others to `rest`. */
static crk_status_t start_own(const crk_comm_call_t *calls, size_t count, crk_comm_call_t *rest, size_t *left) {
  for (size_t i = 0; i < count; i++) {
    const bool alone = is_alone(calls, count, calls[i].comm);
    if (alone && crk_priv_one_shot_takes(&calls[i])) {
      CRK_TRY(crk_priv_one_shot_start(&calls[i]));
    } else if (alone && crk_priv_copied_takes(&calls[i])) {
      CRK_TRY(crk_priv_copied_start(&calls[i]));
    } else if (alone && crk_priv_marked_takes(&calls[i])) {
      CRK_TRY(crk_priv_marked_start(&calls[i]));
    } else {
      rest[(*left)++] = calls[i];
    }
  }
  return CRK_OK;
}

static crk_status_t nccl_start(const crk_comm_call_t *calls, size_t count) {
  for (size_t i = 1; i < count; i++) { /* the libraries refuse this, and would end the communicators */
    CRK_REFUSE_IF(calls[i].comm->is_blocking != calls[0].comm->is_blocking,
                  "%s: communicators with a timeout and without one (CRK_COMM_FOREVER) cannot be in the same group",
                  crk_priv_comm_function(calls[i].kind));
  }
  crk_comm_call_t few[8], *rest = count <= sizeof few / sizeof *few ? few : malloc(count * sizeof *rest);
  if (rest == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_comm_group_end: no host memory for %zu calls", count);
  }
  crk_comm_set_t set;
  size_t left = 0;
  crk_status_t status = crk_priv_comms_enter(calls, count, &set);
  if (status == CRK_OK) {
    status = start_own(calls, count, rest, &left);
    if (status == CRK_OK && left > 0) {
      status = give_to_libraries(rest, left, &set);
    }
    status = crk_priv_comms_leave(&set, status);
  }
  if (rest != few) {
    free(rest);
  }
  return status;
}

const crk_comm_transport_t crk_priv_comm_nccl = {.library = nccl_library,
                                                 .id_create = nccl_id_create,
                                                 .create = nccl_create,
                                                 .connect = crk_priv_peers_connect,
                                                 .poll = nccl_poll,
                                                 .check_reduction = nccl_check_reduction,
                                                 .start = nccl_start,
                                                 .interrupt = nccl_interrupt,
                                                 .release = nccl_release};
