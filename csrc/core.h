/* core.h: the map of the core. The folder csrc/ implements include/candle_rocm.h. This header defines the objects that
 * handles point to.
 *
 *   object        struct          file               contents
 *   device handle crk_device      device.c           a stream, with its memory, parameters, faults and BLAS handle
 *   context       crk_context     context.c          the shared part of a handle and its clones: GPU, modules, heap
 *   module        crk_module      module.c, rtc.c    kernels: built in, loaded, or compiled from source
 *   function      crk_function    module.c           one kernel, found by name; launch_by_name.c launches it
 *   event, gate   crk_event       event.c, event.h   a point in a stream; a gate keeps event calls out of captures
 *   graph         crk_graph       graph.c            a captured stream, with the memory that its replays use
 *   heap, block   crk_heap        memory/            the caching allocator of a GPU; memory/heap.h explains it
 *   parameters    crk_param_cache params.c, params.h dims and strides in device memory, for kernels called by name
 *   tickets       crk_tickets      tickets.c          counters for the blocks of a launch
 *   staging       crk_staging      staging.c          pinned memory for small copies
 *   fault words   crk_faults      fault.c, fault.h   errors that the next synchronisation reports
 *   replay        crk_replay       replay.c          launches that repeat, as graphs: replay.h explains it
 *   operation                     operation.c        one piece of work in a handle's stream: counted, waited for
 *   BLAS          crk_blas        blas/              rocBLAS, hipBLASLt and cuBLAS
 *   communicator  crk_comm        comm/              collectives by RCCL, NCCL or threads: comm/transport.h
 *
 * Files without an object: copy.c (copies, memset), peer.c (several GPUs), prepare.c (what first calls do), diagnose.c
 * (why there is no GPU), layout.c (shapes, strides, iteration spaces), dtype.c, error.c, sized.c (results that begin
 * with struct_bytes), occupancy.c (blocks per GPU), ffi.c (Candle's static launchers), number.h, sanitizer.h, modules.h
 * (the list of modules).
 *
 * Folders: driver/ has one driver per backend, launch/ has one file per family of launchers, image/ reads compiled
 * kernels, os/ wraps the operating system.
 *
 * Calls go down this list and never up:
 *   ffi.c, prepare.c
 *   launch/, comm/
 *   peer.c
 *   device.c, diagnose.c, graph.c, copy.c, staging.c, launch_by_name.c, memory/memory.c
 *   operation.c
 *   params.c, fault.c, tickets.c, blas/
 *   memory/heap.c
 *   event.c
 *   replay.c
 *   context.c
 *   module.c, occupancy.c, memory/heap_blocks.c, memory/heap_registry.c
 *   rtc.c
 *   driver/
 *   image/, layout.c, dtype.c, sized.c
 *   error.c, os/ */
#ifndef CRK_CORE_H
#define CRK_CORE_H

#include <stdatomic.h>

#include "blas/blas.h"
#include "candle_rocm.h"
#include "driver/driver.h"
#include "error.h"
#include "event.h"
#include "fault.h"
#include "memory/heap.h"
#include "modules.h"
#include "occupancy.h"
#include "os/os.h"
#include "params.h"
#include "replay.h"
#include "sized.h"
#include "staging.h"
#include "tickets.h"
#include "turns.h"

/* ---- handles */

/* The first word of every object that a handle points to. It identifies the kind of object and becomes 0 when the
 * object is destroyed, so that most wrong or freed handles are detected. */
enum {
  CRK_MAGIC_DEVICE = 0x6b720001,
  CRK_MAGIC_FUNCTION = 0x6b720002,
  CRK_MAGIC_EVENT = 0x6b720003,
  CRK_MAGIC_GRAPH = 0x6b720004,
  CRK_MAGIC_COMM = 0x6b720005
};

/* Returns CRK_INVALID_ARGUMENT from the public function `where` if the handle is NULL or has the wrong magic. */
#define CRK_CHECK_HANDLE(handle, kind, where)                                                                         \
  do {                                                                                                                \
    CRK_REFUSE_IF((handle) == NULL, "%s: " #handle " is NULL", (where));                                              \
    CRK_REFUSE_IF((handle)->magic != CRK_MAGIC_##kind,                                                                \
                  "%s: " #handle " is no live handle of this kind; it was closed, or it is another object", (where)); \
  } while (0)

/* ---- modules and functions: module.c */

struct crk_function {
  uint32_t magic;
  uint32_t hash;
  struct crk_function *next; /* in the same bucket */
  struct crk_context *context;
  struct crk_module *module;
  crk_driver_function_t *driver_function;
  crk_signature_t signature;
  char name[]; /* as the caller spelled it */
};

typedef struct crk_module {
  struct crk_module *next; /* in the list of the user's modules */
  crk_driver_module_t *driver_module;
  char name[];
} crk_module_t;

/* ---- contexts: context.c */

enum {
  CRK_FUNCTION_BUCKETS = 1024,
  CRK_KERNEL_SLOTS = 6144 /* kernels of the launchers; csrc/launch/launcher.h numbers them */
};

/* The shared part of a handle and its clones. Freed with the last handle or event that refers to it. */
typedef struct crk_context {
  atomic_uint references;
  const crk_driver_t *driver;
  crk_driver_device_t *driver_device;
  crk_device_info_t info;
  crk_occupancy_t occupancy;
  bool has_float_cores; /* crk_priv_has_float_cores */
  crk_mutex_t lock; /* guards `builtin`, `user` and `functions` */
  crk_module_t *builtin[CRK_MODULE_COUNT]; /* NULL until first used */
  crk_module_t *user;
  crk_function_t functions[CRK_FUNCTION_BUCKETS]; /* every function found so far, by hash */
  crk_heap_t *heap; /* of the GPU; other contexts on the same GPU use it too */
  /* The other GPUs of the driver, one bit each by ordinal: peer.c. */
  _Atomic(uint64_t) peers_asked, peers_reached;
  _Atomic(crk_function_t) kernels[CRK_KERNEL_SLOTS];
} crk_context_t;

/* Opens the driver's device `ordinal`, which is in range. The caller owns one reference. */
crk_status_t crk_priv_context_create(const crk_driver_t *driver, int32_t ordinal, crk_context_t **context);
void crk_priv_context_retain(crk_context_t *context);
void crk_priv_context_release(crk_context_t *context);

/* Unloads all modules and frees all functions. Called when the context's last reference is gone. */
void crk_priv_modules_deinit(crk_context_t *context);

/* Loads a built-in module by its index, if that has not happened yet. Fails as crk_function_get does. */
crk_status_t crk_priv_module_load(const char *where, crk_context_t *context, size_t index);

/* Same as crk_function_get, without its argument checks. */
crk_status_t crk_priv_function_get(crk_context_t *context, const char *module, const char *kernel,
                                   crk_function_t *function);

/* ---- device handles: device.c */

struct crk_device {
  uint32_t magic;
  const crk_driver_t *driver; /* same as the context's, for fast access by launchers */
  crk_driver_device_t *driver_device; /* same as the context's */
  crk_driver_stream_t *own_stream; /* for device.c, replay.c and the heap; others call crk_priv_stream */
  crk_replay_t *replay; /* NULL: the handle cannot replay */
  crk_context_t *context;
  bool is_stream_borrowed; /* the caller's stream: not destroyed with the handle */
  crk_gate_t *gate; /* of the stream */
  crk_event_t fence; /* for the streams that follow this one; NULL until the first. Guarded by `lock` until then */
  struct crk_device *next; /* in the list of all live handles */
  /* Held while a capture begins, while crk_graph_destroy waits for a replay, and by calls that a capture must not
   * record (crk_priv_capture_bar). Taken before `lock`. Several of them are taken in the order of the handles'
   * addresses. */
  crk_turns_t capture_turns;
  crk_mutex_t lock; /* guards the four below it, and the end of a capture; taken before the heap's lock */
  crk_param_cache_t params;
  crk_faults_t faults;
  crk_deferred_t deferred;
  crk_tickets_t tickets;
  crk_staging_t staging; /* guarded by `capture_turns` */
  crk_memory_t memory; /* guarded by the heap's lock */
  crk_blas_t blas;
  bool is_synchronous; /* CANDLE_ROCM_SYNC: each operation is waited for */
  _Atomic(uint64_t) operations; /* given to the stream, or recorded, so far */
  /* The graph that is being captured, else NULL. A capture ends by setting it to NULL with the heap's lock held. */
  _Atomic(crk_graph_t) capture;
};

static inline bool crk_priv_capturing(crk_device_t self) {
  return atomic_load_explicit(&self->capture, memory_order_acquire) != NULL;
}

/* The handle's stream, for all calls of the driver and of other libraries but `launch`. Launches that are kept go
 * first. */
static inline crk_driver_stream_t *crk_priv_stream(crk_device_t self) {
  if (crk_priv_replays(self)) {
    crk_priv_replay_end(self);
  }
  return self->own_stream;
}

/* Fails with CRK_CAPTURE in the public function `where` while the handle is being captured. */
static inline crk_status_t crk_priv_refuse_capture(crk_device_t self, const char *where) {
  if (!crk_priv_capturing(self)) {
    return CRK_OK;
  }
  return crk_priv_error(CRK_CAPTURE, "%s: the handle is being captured; end the graph first", where);
}

/* The same. On success no capture begins until the caller has left `capture_turns`: the call's work is not recorded,
 * and its wait spoils no capture. */
static inline crk_status_t crk_priv_capture_bar(crk_device_t self, const char *where) {
  crk_priv_turns_enter(&self->capture_turns);
  const crk_status_t status = crk_priv_refuse_capture(self, where);
  if (status != CRK_OK) {
    crk_priv_turns_leave(&self->capture_turns);
  }
  return status;
}

/* ---- operations: operation.c */

/* Reads CANDLE_ROCM_SYNC for a new handle. */
void crk_priv_operations_init(crk_device_t self);

/* Waits for the operation `name`, the handle's last one. Returns its failure, and what was reported if it may report.
 * Does nothing during a capture. */
crk_status_t crk_priv_operation_wait(crk_device_t self, const char *name);

/* The number of the handle's last operation. */
static inline uint64_t crk_priv_operations(crk_device_t self) {
  return atomic_load_explicit(&self->operations, memory_order_relaxed);
}

/* Counts an operation that the driver has taken, or refused with `status`. All work that a public function puts into
 * the stream passes through here, but for the copies of crk_params_acquire, the first memset of tickets, and the copies
 * of sums among GPUs (csrc/comm). A product that a library computes in several calls counts once. `name` is a kernel's
 * or a public function's. */
static inline crk_status_t crk_priv_operation(crk_device_t self, const char *name, crk_status_t status) {
  atomic_fetch_add_explicit(&self->operations, 1, memory_order_relaxed);
  return status != CRK_OK || !self->is_synchronous ? status : crk_priv_operation_wait(self, name);
}

/* The later work of `self` waits for the present work of `other`, another handle of the same driver. The host does not
 * wait. Fails while either is captured. */
crk_status_t crk_priv_follow(crk_device_t self, crk_device_t other);

/* Fails in the public function `where` if `bytes` bytes do not fit in the view `name`. */
crk_status_t crk_priv_check_copy(const char *where, const char *name, crk_const_view_t view, size_t bytes);

/* crk_copy of checked views, for the public function `where`. */
crk_status_t crk_priv_copy(crk_device_t self, const char *where, void *dst, const void *src, size_t bytes);

/* Fails where two ranges of one device overlap and are not the same. */
crk_status_t crk_priv_check_distance(const char *where, const void *dst, const void *src, size_t bytes);

/* Starts a copy between host and device, for the public function `where`. */
crk_status_t crk_priv_copy_start(crk_device_t self, const char *where, void *dst, const void *src, size_t bytes,
                                 crk_copy_kind_t kind);

/* Returns the live handle with this stream, or NULL. Each thread remembers its last answer, which stays valid until a
 * handle is opened or closed. Only a new question takes the lock and searches the list of handles. */
crk_device_t crk_priv_device_of_stream(const void *stream);

/* ---- graphs: graph.c */

struct crk_graph {
  uint32_t magic;
  crk_device_t device;
  crk_driver_graph_t *driver_graph;
  crk_param_uses_t param_uses;
  crk_block_list_t memory; /* guarded by the heap's lock */
};

/* ---- events: event.c */

struct crk_event {
  uint32_t magic;
  crk_context_t *context;
  crk_driver_event_t *driver_event;
  crk_mutex_t lock; /* guards `gate` and `epoch` */
  crk_gate_t *gate; /* of the stream that the event was last recorded on; NULL until it is recorded */
  uint64_t epoch; /* of that gate, at the time of recording */
};

#endif
