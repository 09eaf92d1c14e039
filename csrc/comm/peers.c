/* Exchange areas, through which the GPUs of one host add without RCCL or NCCL (call/peers_call.h). The ranks agree on
 * it when the communicator is created: each tells the others where its area is, through the library's all-gather. If
 * one rank cannot reach the area of another, no rank uses them. */
#include <stdlib.h>
#include <string.h>

#include "call/peers_call.h"
#include "comm/transport.h"
#include "launch/launcher.h"

enum { RECORD_BYTES = 256, HOST_RECORDS = 256 /* the byte of the host's memory where records begin */ };

/* A rank's area. The ranks of its process hold it, so that one which goes on after this rank has left writes to memory
 * that is still there. An area that other processes may have open is kept until the process ends. */
struct crk_comm_area {
  struct crk_comm_area *next; /* in the list of those that are kept */
  _Atomic(uint32_t) holders;
  const crk_driver_t *driver;
  crk_driver_device_t *device;
  void *memory;
};

static void let_go(crk_comm_area_t *area) {
  if (atomic_fetch_sub(&area->holders, 1) == 1) {
    area->driver->peer_free(area->device, area->memory);
    free(area);
  }
}

/* What a rank tells the others. */
typedef struct record {
  uint32_t is_ready; /* the rank has all that it needs */
  uint32_t has_handle;
  uint32_t keeps_order;
  uint64_t process[3]; /* the same in all ranks of a process, and in no other */
  char host[64]; /* empty if the system has no name for it */
  uint64_t area; /* a crk_comm_area_t of that process */
  crk_peer_handle_t handle; /* of the area */
} record_t;
_Static_assert(sizeof(record_t) <= RECORD_BYTES, "a record fits");

static record_t *records_of(crk_comm_t self, uint32_t rank) {
  return (record_t *)(void *)((char *)self->peers.host + HOST_RECORDS + (size_t)rank * RECORD_BYTES);
}

/* Makes this rank's area, and tells of it in `mine`. */
static crk_status_t prepare(crk_comm_t self, record_t *mine) {
  static uint64_t begin; /* its address differs between the programs of a host, and its value between their runs */
  static crk_mutex_t lock = CRK_MUTEX_INIT;
  crk_priv_mutex_lock(&lock);
  begin = begin != 0 ? begin : (uint64_t)(crk_priv_seconds() * 1e9) | 1;
  const uint64_t process[3] = {crk_priv_process(), (uintptr_t)&begin, begin};
  crk_priv_mutex_unlock(&lock);
  char text[16];
  if (crk_priv_variable("CANDLE_ROCM_COMM_PEERS", text, sizeof text) && strcmp(text, "0") == 0) {
    return crk_priv_error(CRK_UNSUPPORTED, "CANDLE_ROCM_COMM_PEERS is 0");
  }
  crk_device_t device = self->device;
  const crk_driver_t *driver = device->driver;
  if (device->is_synchronous) { /* each launch would be waited for without a bound */
    return crk_priv_error(CRK_UNSUPPORTED, "CANDLE_ROCM_SYNC is set");
  }
  if (driver->peer_alloc == NULL) {
    return crk_priv_error(CRK_UNSUPPORTED, "no memory for peers");
  }
  CRK_TRY(crk_priv_one_shot_load(device));
  mine->keeps_order = driver->peer_writes_in_order(device->driver_device);
  if (mine->keeps_order) {
    CRK_TRY(crk_priv_marked_load(device));
    CRK_TRY(crk_priv_copied_load(device));
  }
  crk_comm_area_t *area = calloc(1, sizeof *area);
  if (area == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "no host memory for an exchange area");
  }
  *area = (crk_comm_area_t){NULL, 1, driver, device->driver_device, NULL};
  const size_t bytes = CRK_AREA_BYTES(self->size);
  const crk_status_t status = driver->peer_alloc(device->driver_device, bytes, &area->memory);
  if (status != CRK_OK) {
    free(area);
    return status;
  }
  self->peers.held[self->rank] = area;
  self->peers.areas[self->rank] = area->memory;
  CRK_TRY(driver->memset(device->driver_device, crk_priv_stream(device), area->memory, 0, bytes));
  memcpy(mine->process, process, sizeof process);
  if (!crk_priv_host(mine->host, sizeof mine->host)) {
    mine->host[0] = '\0';
  }
  mine->area = (uintptr_t)area;
  mine->has_handle = driver->peer_export(device->driver_device, area->memory, &mine->handle) == CRK_OK;
  return CRK_OK;
}

/* Gives every rank the records of all. `memory` is on the device. */
static crk_status_t exchange(crk_comm_t self, const char *where, char *memory, const record_t *mine) {
  crk_device_t device = self->device;
  const crk_driver_t *driver = device->driver;
  char *own = memory + (size_t)self->rank * RECORD_BYTES;
  const crk_comm_call_t call = {.comm = self,
                                .device = device,
                                .kind = CRK_COMM_ALL_GATHER,
                                .dtype = CRK_DTYPE_U8,
                                .src = own,
                                .dst = memory,
                                .count = RECORD_BYTES};
  *records_of(self, self->rank) = *mine;
  CRK_TRY(driver->copy(device->driver_device, crk_priv_stream(device), own, records_of(self, self->rank), RECORD_BYTES,
                       CRK_COPY_TO_DEVICE));
  CRK_TRY(self->transport->start(&call, 1));
  CRK_TRY(driver->copy(device->driver_device, crk_priv_stream(device), records_of(self, 0), memory,
                       (size_t)self->size * RECORD_BYTES, CRK_COPY_TO_HOST));
  const double left = crk_priv_comm_left(self->deadline) * 1e3;
  return crk_priv_comm_wait_for_work(
      self, where, self->timeout_ms == CRK_COMM_FOREVER ? CRK_COMM_FOREVER : (uint32_t)(left < 1.0 ? 1.0 : left));
}

/* Whether the ranks are two processes of one host, which open each other's areas by handles. */
static bool are_neighbours(const record_t *a, const record_t *b) {
  return memcmp(a->process, b->process, sizeof a->process) != 0 && a->host[0] != '\0' &&
         memcmp(a->host, b->host, sizeof a->host) == 0;
}

/* Makes the area of another rank reachable for this GPU. */
static bool reach(crk_comm_t self, uint32_t rank, const record_t *mine) {
  crk_device_t device = self->device;
  const record_t *theirs = records_of(self, rank);
  if (memcmp(theirs->process, mine->process, sizeof mine->process) == 0) {
    crk_comm_area_t *area = (crk_comm_area_t *)(uintptr_t)theirs->area;
    bool has_access = area->device == device->driver_device;
    if (!has_access && device->driver->peer_access(device->driver_device, area->device, &has_access) != CRK_OK) {
      return false;
    }
    if (has_access) {
      atomic_fetch_add(&area->holders, 1);
      self->peers.held[rank] = area;
      self->peers.areas[rank] = area->memory;
    }
    return has_access;
  }
  return are_neighbours(mine, theirs) && theirs->has_handle &&
         device->driver->peer_open(device->driver_device, &theirs->handle, &self->peers.areas[rank]) == CRK_OK;
}

static crk_status_t agree(crk_comm_t self, const char *where, char *memory) {
  record_t mine = {0};
  mine.is_ready = prepare(self, &mine) == CRK_OK;
  CRK_TRY(exchange(self, where, memory, &mine));
  for (uint32_t rank = 0; rank < self->size; rank++) {
    mine.is_ready = mine.is_ready && records_of(self, rank)->is_ready;
  }
  for (uint32_t rank = 0; rank < self->size && mine.is_ready && mine.has_handle; rank++) {
    self->peers.is_lent = self->peers.is_lent || are_neighbours(&mine, records_of(self, rank));
  }
  for (uint32_t rank = 0; rank < self->size && mine.is_ready; rank++) {
    mine.is_ready = rank == self->rank || reach(self, rank, &mine);
  }
  CRK_TRY(exchange(self, where, memory, &mine));
  self->peers.is_ready = self->peers.keeps_order = true;
  for (uint32_t rank = 0; rank < self->size; rank++) {
    self->peers.is_ready = self->peers.is_ready && records_of(self, rank)->is_ready;
    self->peers.keeps_order = self->peers.keeps_order && records_of(self, rank)->keeps_order;
  }
  return CRK_OK;
}

crk_status_t crk_priv_peers_connect(crk_comm_t self, const char *where) {
  if (self->size < 2 || self->size > CRK_PEERS) {
    return CRK_OK;
  }
  crk_device_t device = self->device;
  const crk_driver_t *driver = device->driver;
  const size_t bytes = HOST_RECORDS + (size_t)self->size * RECORD_BYTES;
  CRK_TRY(driver->host_alloc_coherent(device->driver_device, bytes, (void **)&self->peers.host));
  memset(self->peers.host, 0, bytes);
  void *memory;
  const crk_status_t allocated = driver->alloc(device->driver_device, (size_t)self->size * RECORD_BYTES, &memory);
  if (allocated != CRK_OK) {
    crk_priv_peers_release(self);
    return allocated;
  }
  const crk_status_t status = agree(self, where, memory);
  driver->free(device->driver_device, memory);
  if (status == CRK_OK && !self->peers.is_ready) {
    crk_priv_peers_release(self);
  }
  return status;
}

const crk_dtype_t crk_priv_peers_types[3] = {CRK_DTYPE_F32, CRK_DTYPE_F16, CRK_DTYPE_BF16};

bool crk_priv_peers_type(crk_dtype_t dtype, uint32_t *type) {
  const uint32_t count = sizeof crk_priv_peers_types / sizeof *crk_priv_peers_types;
  for (*type = 0; *type < count && crk_priv_peers_types[*type] != dtype; (*type)++) {}
  return *type < count;
}

crk_status_t crk_priv_peers_kernel(crk_device_t device, uint32_t slots, const char *root, uint32_t type,
                                   crk_function_t *function) {
  return CRK_KERNEL_GET(device, slots + type, CRK_MODULE_COMM, function, "%s_%s", root,
                        crk_dtype_name(crk_priv_peers_types[type]));
}

bool crk_priv_peers_add(const crk_comm_call_t *call) {
  uint32_t type;
  return call->comm->peers.is_ready && call->kind == CRK_COMM_ALL_REDUCE && call->op == CRK_COMM_OP_SUM &&
         crk_priv_peers_type(call->dtype, &type);
}

crk_exchange_t crk_priv_peers_exchange(crk_comm_t self) {
  crk_exchange_t ranks = {.rank = self->rank, .size = self->size, .stop = self->peers.host};
  memcpy(ranks.areas, self->peers.areas, sizeof ranks.areas);
  return ranks;
}

crk_peer_norm_call_t crk_priv_peers_norm(crk_comm_t self, const crk_comm_norm_t *norm, size_t first, uint32_t threads) {
  const size_t offset = first * norm->cols * crk_dtype_size(norm->dtype);
  return (crk_peer_norm_call_t){.ranks = crk_priv_peers_exchange(self),
                                .src = (const char *)norm->x.ptr + offset,
                                .residual = (const char *)norm->residual.ptr + offset,
                                .alpha = norm->alpha.ptr,
                                .sum = (char *)norm->sum.ptr + offset,
                                .dst = (char *)norm->dst.ptr + offset,
                                .cols = (uint32_t)norm->cols,
                                .threads = threads,
                                .eps = norm->eps};
}

void crk_priv_peers_stop(crk_comm_t self) {
  if (self->peers.host != NULL) {
    atomic_store((_Atomic(uint64_t) *)(void *)self->peers.host, 1);
  }
}

/* Keeps the own area until the process ends. */
static void keep_own(crk_comm_t self) {
  static crk_mutex_t lock = CRK_MUTEX_INIT;
  static crk_comm_area_t *kept;
  crk_comm_area_t **own = &self->peers.held[self->rank % CRK_PEERS];
  if (*own != NULL) {
    crk_priv_mutex_lock(&lock);
    (*own)->next = kept;
    kept = *own;
    crk_priv_mutex_unlock(&lock);
    *own = NULL;
    self->peers.areas[self->rank % CRK_PEERS] = NULL;
  }
}

void crk_priv_peers_keep(crk_comm_t self) {
  keep_own(self);
  memset(self->peers.held, 0, sizeof self->peers.held);
}

/* Another process may still have the own area open, even if this rank did not open that process's area. The runtimes do
 * not allow to free such memory. */
void crk_priv_peers_release(crk_comm_t self) {
  crk_comm_peers_t *peers = &self->peers;
  const crk_driver_t *driver = self->device->driver;
  for (uint32_t rank = 0; rank < CRK_PEERS; rank++) {
    if (peers->held[rank] == NULL && peers->areas[rank] != NULL) {
      driver->peer_close(self->device->driver_device, peers->areas[rank]);
      peers->areas[rank] = NULL;
    }
  }
  if (peers->is_lent) {
    keep_own(self);
  }
  for (uint32_t rank = 0; rank < CRK_PEERS; rank++) {
    if (peers->held[rank] != NULL) {
      let_go(peers->held[rank]);
    }
  }
  if (peers->host != NULL) {
    driver->host_free(self->device->driver_device, peers->host);
  }
  *peers = (crk_comm_peers_t){0};
}
