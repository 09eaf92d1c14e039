/* core.h: the objects behind the public handles, shared by the files of the core. */
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

/* The first word of every object behind a handle: a wrong or freed handle is told from a right one where it can be. */
enum {
  CRK_MAGIC_DEVICE = 0x6b720001,
  CRK_MAGIC_FUNCTION = 0x6b720002,
  CRK_MAGIC_EVENT = 0x6b720003,
  CRK_MAGIC_GRAPH = 0x6b720004
};

/* Refuses a NULL or foreign handle in the public function `where`. */
#define CRK_CHECK_HANDLE(handle, kind, where)                                                                      \
  do {                                                                                                             \
    CRK_REFUSE_IF((handle) == NULL, "%s: " #handle " is NULL", (where));                                           \
    CRK_REFUSE_IF((handle)->magic != CRK_MAGIC_##kind, "%s: " #handle " is no live handle of this kind", (where)); \
  } while (0)

struct crk_function {
  uint32_t magic;
  uint32_t hash;
  struct crk_function *next; /* in its bucket */
  struct crk_context *context;
  struct crk_module *module;
  crk_driver_function_t *driver_function;
  crk_signature_t signature;
  char name[]; /* as it was asked for */
};

typedef struct crk_module {
  struct crk_module *next; /* among the user's modules */
  crk_driver_module_t *driver_module;
  char name[];
} crk_module_t;

enum {
  CRK_FUNCTION_BUCKETS = 1024,
  CRK_KERNEL_SLOTS = 6144 /* for the launchers' kernels, which csrc/launch/launcher.h numbers */
};

/* What a handle and its clones share: modules, and the GPU's memory. Lives as long as the last handle or event of them. */
typedef struct crk_context {
  atomic_uint references;
  const crk_driver_t *driver;
  crk_driver_device_t *driver_device;
  crk_device_info_t info;
  crk_occupancy_t occupancy;
  crk_mutex_t lock; /* modules */
  crk_module_t *builtin[CRK_MODULE_COUNT];
  crk_module_t *user;
  crk_function_t functions[CRK_FUNCTION_BUCKETS]; /* all that were ever asked for */
  crk_heap_t *heap; /* the GPU's */
  _Atomic(crk_function_t) kernels[CRK_KERNEL_SLOTS];
} crk_context_t;

struct crk_device {
  uint32_t magic;
  const crk_driver_t *driver; /* the context's, here for the launchers' sake */
  crk_driver_device_t *driver_device;
  crk_driver_stream_t *stream;
  crk_context_t *context;
  bool is_stream_borrowed; /* the caller's stream: not destroyed with the handle */
  crk_gate_t *gate; /* the stream's */
  struct crk_device *next; /* among all handles */
  crk_mutex_t capture_lock; /* while a capture begins, or a graph's last replay is waited for; taken before `lock` */
  crk_mutex_t lock; /* params, the fault word, and the ends of a capture; taken before the heap's lock */
  crk_memory_t memory;
  crk_param_cache_t params;
  _Atomic(_Atomic(uint64_t) *) fault; /* fault.h; NULL until it is needed */
  crk_deferred_t deferred;
  crk_blas_t blas;
  _Atomic(crk_graph_t)
      capture; /* the graph that is being recorded, else NULL; becomes NULL with the heap's lock held */
};

struct crk_graph {
  uint32_t magic;
  crk_device_t device;
  crk_driver_graph_t *driver_graph;
  crk_param_uses_t param_uses;
  crk_block_list_t memory; /* guarded by the heap's lock */
};

struct crk_event {
  uint32_t magic;
  crk_context_t *context;
  crk_driver_event_t *driver_event;
  crk_mutex_t lock; /* the two below */
  crk_gate_t *gate; /* of the stream that the event was last recorded on; NULL before the first time */
  uint64_t epoch; /* the gate's, then */
};

void crk_priv_context_retain(crk_context_t *context);
void crk_priv_context_release(crk_context_t *context);

/* Frees what crk_priv_module_* loaded; the context's last reference is gone. */
void crk_priv_modules_deinit(crk_context_t *context);

/* As crk_function_get, without the checks of its arguments. */
crk_status_t crk_priv_function_get(crk_context_t *context, const char *module, const char *kernel,
                                   crk_function_t *function);

static inline bool crk_priv_capturing(crk_device_t self) {
  return atomic_load_explicit(&self->capture, memory_order_acquire) != NULL;
}

/* The live handle with this stream, or NULL. Takes a lock only if a handle was opened or closed since the thread asked
 * last, or it asks about another stream. */
crk_device_t crk_priv_device_of_stream(const void *stream);

/* Fails with CRK_CAPTURE in the public function `where` while the handle is captured. */
crk_status_t crk_priv_refuse_capture(crk_device_t self, const char *where);

/* Fails where `bytes` bytes from the beginning of a view cannot be used: `name` is the argument's. */
crk_status_t crk_priv_check_view(const char *where, const char *name, crk_view_t view, size_t bytes);

#endif
