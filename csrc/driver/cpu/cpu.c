/* The CPU driver, for machines without a GPU. Its kernels are the host builds of the same sources
 * (kernels/platform/host_abi.h). Device 0 has waves of 32 lanes, device 1 of 64.
 *
 * A stream is a lock: a call does its work before it returns, with the lock held. So work runs in order, without a
 * thread for the stream. Results are the same in every run. The call that causes an error returns it, and a debugger
 * shows which code launched a kernel. The drawback is that the caller waits while a kernel runs; the kernel uses all
 * cores.
 *
 * Host functions in a stream (`call`) may wait for other threads. They run without the lock, and later work of the
 * stream waits for their end. So marks and queries of events never wait behind them. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/cpu/exec.h"
#include "driver/cpu/host_image.h"
#include "driver/driver.h"
#include "error.h"
#include "modules.h"
#include "number.h"
#include "os/os.h"
#include "platform/host_abi.h"

#if defined(__x86_64__) || defined(_M_X64)
#define ARCHITECTURE "x86_64"
#elif defined(__aarch64__) || defined(_M_ARM64)
#define ARCHITECTURE "aarch64"
#elif defined(__riscv)
#define ARCHITECTURE "riscv"
#elif defined(__powerpc64__)
#define ARCHITECTURE "powerpc64"
#else
#define ARCHITECTURE "cpu"
#endif

struct crk_driver_device {
  int32_t ordinal;
  uint32_t wave_size;
};

struct crk_driver_function {
  const crk_host_kernel_t *kernel;
  crk_param_t *params;
};

struct crk_driver_module {
  void *library; /* NULL for a builtin */
  size_t count;
  crk_driver_function_t *functions; /* in the order of the module's list */
  crk_param_t *params; /* of all functions, one after the other */
};

typedef enum node_kind { NODE_LAUNCH, NODE_COPY, NODE_MEMSET, NODE_CALL } node_kind_t;

/* A recorded call. The arguments of a launch, and the context of a host function, follow the node in the same
 * allocation. */
typedef struct node {
  struct node *next;
  node_kind_t kind;
  /* NODE_LAUNCH */
  const crk_host_kernel_t *kernel;
  crk_dim3_t grid, block;
  uint32_t shared_bytes;
  void **args;
  /* NODE_COPY and NODE_MEMSET */
  void *dst;
  const void *src;
  size_t bytes;
  uint8_t value;
  /* NODE_CALL */
  crk_status_t (*body)(void *context);
} node_t;

struct crk_driver_graph {
  node_t *first;
  node_t **last; /* where the next node is linked */
};

struct crk_driver_stream {
  crk_mutex_t lock;
  crk_condition_t changed; /* calls_done has grown */
  bool is_calling; /* a host function runs, without the lock */
  _Atomic(uint64_t) calls; /* host functions and graphs that have begun */
  _Atomic(uint64_t) calls_done; /* and those that have ended */
  crk_driver_graph_t *capture; /* the graph that records the stream's calls, or NULL */
};

struct crk_driver_event {
  crk_mutex_t lock;
  bool recorded;
  double seconds;
  crk_driver_stream_t *stream; /* where a host function ran when the event was recorded; else NULL */
  uint64_t calls; /* of that stream, at that time */
};

static crk_driver_device_t devices[] = {{0, 32}, {1, 64}};

#define XX(upper, lower) extern const crk_host_module_t crk_host_module_##lower;
CRK_MODULE_MAP(XX)
#undef XX

static const crk_host_module_t *const builtins[] = {
#define XX(upper, lower) &crk_host_module_##lower,
    CRK_MODULE_MAP(XX)
#undef XX
};

/* ------------------------------------------------------------------------------------------------------------------
 * Devices and memory
 * ------------------------------------------------------------------------------------------------------------------ */

static crk_status_t cpu_load(void) { return CRK_OK; }

static crk_status_t cpu_device_count(int32_t *count) {
  *count = (int32_t)(sizeof devices / sizeof devices[0]);
  return CRK_OK;
}

static crk_status_t cpu_device_get(int32_t ordinal, crk_driver_device_t **device) {
  *device = &devices[ordinal];
  return CRK_OK;
}

static crk_status_t cpu_device_info(crk_driver_device_t *device, crk_device_info_t *info) {
  uint64_t total, available;
  crk_priv_system_memory(&total, &available);
  memset(info, 0, sizeof *info);
  info->backend = CRK_BACKEND_CPU;
  info->ordinal = device->ordinal;
  snprintf(info->name, sizeof info->name, "CPU, waves of %u", (unsigned)device->wave_size);
  snprintf(info->architecture, sizeof info->architecture, "%s", ARCHITECTURE);
  info->wave_size = device->wave_size;
  info->compute_units = crk_priv_cpu_count();
  info->max_block_threads = CRK_CPU_BLOCK_THREADS;
  info->runtime_version = 0;
  info->max_grid_threads = (uint64_t)1 << 62;
  info->memory_bytes = total;
  info->shared_bytes = CRK_CPU_SHARED_BYTES;
  snprintf(info->target, sizeof info->target, "%s", ARCHITECTURE);
  for (int i = 0; i < 3; i++) {
    info->max_block[i] = CRK_CPU_BLOCK_THREADS;
    info->max_grid[i] = UINT32_MAX;
  }
  info->simd_units = info->compute_units;
  info->unit_threads = CRK_CPU_UNIT_THREADS;
  info->unit_shared_bytes = (uint64_t)CRK_CPU_UNIT_THREADS / CRK_CPU_BLOCK_THREADS * CRK_CPU_SHARED_BYTES;
  info->l2_caches = 2;
  return CRK_OK;
}

static crk_status_t cpu_bind(const crk_driver_device_t *device) {
  (void)device;
  return CRK_OK;
}

static crk_status_t cpu_device_memory(crk_driver_device_t *device, size_t *free_bytes, size_t *total_bytes) {
  (void)device;
  uint64_t total, available;
  crk_priv_system_memory(&total, &available);
  *free_bytes = (size_t)available;
  *total_bytes = (size_t)total;
  return CRK_OK;
}

/* The most bytes of an allocation: the machine's memory. Read once, since it does not change and reading it opens a
 * file on Linux. */
static uint64_t memory_bound(void) {
  static crk_mutex_t lock = CRK_MUTEX_INIT;
  static uint64_t bound;
  crk_priv_mutex_lock(&lock);
  if (bound == 0) {
    uint64_t total, available;
    crk_priv_system_memory(&total, &available);
    bound = total != 0 ? total : (uint64_t)SIZE_MAX / 2;
  }
  const uint64_t result = bound;
  crk_priv_mutex_unlock(&lock);
  return result;
}

static crk_status_t cpu_alloc(crk_driver_device_t *device, size_t bytes, void **ptr) {
  (void)device;
  /* The system may promise more memory than the machine has, and then end the process when it uses that memory. */
  void *memory = bytes <= memory_bound() ? crk_priv_aligned_alloc(bytes) : NULL;
  if (memory == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "the CPU has no %zu bytes of memory left", bytes);
  }
  *ptr = memory;
  return CRK_OK;
}

static void cpu_free(crk_driver_device_t *device, void *ptr) {
  (void)device;
  crk_priv_aligned_free(ptr);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Streams and recording
 * ------------------------------------------------------------------------------------------------------------------ */

static crk_status_t cpu_stream_create(crk_driver_device_t *device, crk_driver_stream_t **stream) {
  (void)device;
  crk_driver_stream_t *self = calloc(1, sizeof *self);
  if (self == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "the CPU has no memory left for a stream");
  }
  crk_priv_mutex_init(&self->lock);
  crk_priv_condition_init(&self->changed);
  atomic_init(&self->calls, 0);
  atomic_init(&self->calls_done, 0);
  *stream = self;
  return CRK_OK;
}

/* Takes the stream's lock to do work, after all earlier work. */
static void work_begin(crk_driver_stream_t *stream) {
  crk_priv_mutex_lock(&stream->lock);
  while (stream->is_calling) {
    crk_priv_condition_wait(&stream->changed, &stream->lock);
  }
}

static void work_end(crk_driver_stream_t *stream) { crk_priv_mutex_unlock(&stream->lock); }

/* Around work that may contain host functions; `calls_end` also lets other work begin. */
static void calls_begin(crk_driver_stream_t *stream) { atomic_fetch_add(&stream->calls, 1); }

static void calls_end(crk_driver_stream_t *stream) {
  atomic_fetch_add(&stream->calls_done, 1);
  crk_priv_condition_broadcast(&stream->changed);
}

/* Runs a host function with the stream's lock released. No other work begins before the lock is held again. */
static crk_status_t call_body(crk_driver_stream_t *stream, crk_status_t (*body)(void *context), void *context) {
  stream->is_calling = true;
  crk_priv_mutex_unlock(&stream->lock);
  const crk_status_t status = body(context);
  crk_priv_mutex_lock(&stream->lock);
  stream->is_calling = false;
  return status;
}

static void nodes_free(node_t *node) {
  while (node != NULL) {
    node_t *next = node->next;
    free(node);
    node = next;
  }
}

static void graph_free(crk_driver_graph_t *self) {
  if (self != NULL) {
    nodes_free(self->first);
    free(self);
  }
}

static void cpu_stream_destroy(crk_driver_device_t *device, crk_driver_stream_t *stream) {
  (void)device;
  if (stream == NULL) {
    return;
  }
  graph_free(stream->capture);
  crk_priv_condition_deinit(&stream->changed);
  crk_priv_mutex_deinit(&stream->lock);
  free(stream);
}

/* Waits for the calls of other threads. */
static crk_status_t cpu_stream_synchronize(crk_driver_device_t *device, crk_driver_stream_t *stream) {
  (void)device;
  work_begin(stream);
  work_end(stream);
  return CRK_OK;
}

static crk_status_t cpu_event_synchronize(crk_driver_device_t *device, crk_driver_event_t *event);

/* The caller waits, as for all work. */
static crk_status_t cpu_stream_wait(crk_driver_device_t *device, crk_driver_stream_t *stream,
                                    crk_driver_event_t *event) {
  (void)stream;
  return cpu_event_synchronize(device, event);
}

/* Appends a zeroed node, followed by `extra` bytes, to a recording. */
static crk_status_t node_append(crk_driver_graph_t *graph, node_kind_t kind, size_t extra, node_t **node) {
  node_t *self = calloc(1, sizeof *self + extra);
  if (self == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "the CPU has no memory left to record a call");
  }
  self->kind = kind;
  *graph->last = self;
  graph->last = &self->next;
  *node = self;
  return CRK_OK;
}

static crk_status_t copy_on(crk_driver_stream_t *stream, void *dst, const void *src, size_t bytes) {
  crk_status_t status = CRK_OK;
  work_begin(stream);
  if (stream->capture != NULL) {
    node_t *node = NULL;
    status = node_append(stream->capture, NODE_COPY, 0, &node);
    if (status == CRK_OK) {
      node->dst = dst;
      node->src = src;
      node->bytes = bytes;
    }
  } else {
    memmove(dst, src, bytes);
  }
  work_end(stream);
  return status;
}

static crk_status_t cpu_copy(crk_driver_device_t *device, crk_driver_stream_t *stream, void *dst, const void *src,
                             size_t bytes, crk_copy_kind_t kind) {
  (void)device;
  (void)kind;
  return copy_on(stream, dst, src, bytes);
}

static crk_status_t cpu_copy_peer(crk_driver_device_t *dst_device, void *dst, crk_driver_device_t *src_device,
                                  const void *src, size_t bytes, crk_driver_stream_t *dst_stream) {
  (void)dst_device;
  (void)src_device;
  return copy_on(dst_stream, dst, src, bytes);
}

static crk_status_t cpu_peer_access(crk_driver_device_t *device, crk_driver_device_t *peer, bool *has_access) {
  (void)device;
  (void)peer;
  *has_access = true;
  return CRK_OK;
}

static crk_status_t cpu_memset(crk_driver_device_t *device, crk_driver_stream_t *stream, void *dst, uint8_t value,
                               size_t bytes) {
  (void)device;
  crk_status_t status = CRK_OK;
  work_begin(stream);
  if (stream->capture != NULL) {
    node_t *node = NULL;
    status = node_append(stream->capture, NODE_MEMSET, 0, &node);
    if (status == CRK_OK) {
      node->dst = dst;
      node->value = value;
      node->bytes = bytes;
    }
  } else {
    memset(dst, value, bytes);
  }
  work_end(stream);
  return status;
}

/* Records a launch with copies of its arguments, since those of the caller are gone when the graph runs. */
static crk_status_t record_launch(crk_driver_graph_t *graph, const crk_driver_launch_t *launch, node_t **recorded) {
  const crk_host_kernel_t *kernel = launch->function->kernel;
  const size_t table = (size_t)crk_priv_round_up(sizeof(node_t) + kernel->arg_count * sizeof(void *), 16);
  size_t bytes = table;
  for (uint32_t i = 0; i < kernel->arg_count; i++) {
    bytes += (size_t)crk_priv_round_up(kernel->args[i].bytes, 16);
  }
  node_t *node = NULL;
  CRK_TRY(node_append(graph, NODE_LAUNCH, bytes - sizeof(node_t), &node));
  node->kernel = kernel;
  node->grid = launch->grid;
  node->block = launch->block;
  node->shared_bytes = launch->shared_bytes;
  node->args = (void **)(node + 1);
  char *value = (char *)node + table;
  for (uint32_t i = 0; i < kernel->arg_count; i++) {
    memcpy(value, launch->args[i], kernel->args[i].bytes);
    node->args[i] = value;
    value += (size_t)crk_priv_round_up(kernel->args[i].bytes, 16);
  }
  *recorded = node;
  return CRK_OK;
}

static crk_status_t cpu_launch(crk_driver_device_t *device, crk_driver_stream_t *stream,
                               crk_driver_function_t *function, crk_dim3_t grid, crk_dim3_t block,
                               uint32_t shared_bytes, const void *const *args) {
  crk_status_t status;
  work_begin(stream);
  if (stream->capture != NULL) {
    const crk_driver_launch_t launch = {function, grid, block, shared_bytes, args};
    node_t *node;
    status = record_launch(stream->capture, &launch, &node);
  } else {
    status = crk_priv_cpu_execute(function->kernel, device->wave_size, grid, block, shared_bytes,
                                  crk_priv_driver_args(args));
  }
  work_end(stream);
  return status;
}

static crk_status_t cpu_call(crk_driver_device_t *device, crk_driver_stream_t *stream,
                             crk_status_t (*body)(void *context), void *context, size_t bytes) {
  (void)device;
  crk_status_t status;
  work_begin(stream);
  if (stream->capture != NULL) {
    node_t *node = NULL;
    status = node_append(stream->capture, NODE_CALL, bytes, &node);
    if (status == CRK_OK) {
      node->body = body;
      memcpy(node + 1, context, bytes);
    }
  } else {
    calls_begin(stream);
    status = call_body(stream, body, context);
    calls_end(stream);
  }
  work_end(stream);
  return status;
}

static crk_status_t cpu_capture_begin(crk_driver_device_t *device, crk_driver_stream_t *stream) {
  (void)device;
  crk_driver_graph_t *graph = calloc(1, sizeof *graph);
  if (graph == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "the CPU has no memory left for a graph");
  }
  graph->last = &graph->first;
  work_begin(stream);
  const bool captured = stream->capture != NULL;
  if (!captured) {
    stream->capture = graph;
  }
  work_end(stream);
  if (captured) {
    graph_free(graph);
    return crk_priv_error(CRK_CAPTURE, "the stream is being captured already; end that capture first");
  }
  return CRK_OK;
}

static crk_status_t cpu_capture_end(crk_driver_device_t *device, crk_driver_stream_t *stream,
                                    crk_driver_graph_t **graph) {
  (void)device;
  work_begin(stream);
  crk_driver_graph_t *recorded = stream->capture;
  stream->capture = NULL;
  work_end(stream);
  if (recorded == NULL) {
    return crk_priv_error(CRK_CAPTURE, "the stream is not being captured");
  }
  if (graph == NULL) {
    graph_free(recorded);
  } else {
    *graph = recorded;
  }
  return CRK_OK;
}

static crk_status_t node_run(const crk_driver_device_t *device, crk_driver_stream_t *stream, node_t *node) {
  switch (node->kind) {
    case NODE_LAUNCH:
      return crk_priv_cpu_execute(node->kernel, device->wave_size, node->grid, node->block, node->shared_bytes,
                                  node->args);
    case NODE_COPY:
      memmove(node->dst, node->src, node->bytes);
      break;
    case NODE_MEMSET:
      memset(node->dst, node->value, node->bytes);
      break;
    case NODE_CALL:
      return call_body(stream, node->body, node + 1);
  }
  return CRK_OK;
}

static crk_status_t cpu_graph_launch(crk_driver_device_t *device, crk_driver_graph_t *graph,
                                     crk_driver_stream_t *stream) {
  crk_status_t status = CRK_OK;
  work_begin(stream);
  calls_begin(stream);
  for (node_t *node = graph->first; node != NULL && status == CRK_OK; node = node->next) {
    status = node_run(device, stream, node);
  }
  calls_end(stream);
  work_end(stream);
  return status;
}

static void cpu_graph_destroy(crk_driver_device_t *device, crk_driver_graph_t *graph) {
  (void)device;
  graph_free(graph);
}

/* A chain is a recording with the nodes by their numbers. */
struct crk_driver_chain {
  crk_driver_graph_t graph;
  node_t *nodes[];
};

static void cpu_chain_destroy(crk_driver_device_t *device, crk_driver_chain_t *chain) {
  (void)device;
  nodes_free(chain->graph.first);
  free(chain);
}

static crk_status_t cpu_chain_create(crk_driver_device_t *device, const crk_driver_launch_t *launches, size_t count,
                                     crk_driver_chain_t **chain) {
  crk_driver_chain_t *fresh = calloc(1, sizeof *fresh + count * sizeof *fresh->nodes);
  if (fresh == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "the CPU has no memory left for a graph");
  }
  fresh->graph.last = &fresh->graph.first;
  for (size_t i = 0; i < count; i++) {
    const crk_status_t status = record_launch(&fresh->graph, &launches[i], &fresh->nodes[i]);
    if (status != CRK_OK) {
      cpu_chain_destroy(device, fresh);
      return status;
    }
  }
  *chain = fresh;
  return CRK_OK;
}

static crk_status_t cpu_chain_update(crk_driver_device_t *device, crk_driver_chain_t *chain, size_t index,
                                     const crk_driver_launch_t *launch) {
  (void)device;
  node_t *node = chain->nodes[index];
  node->grid = launch->grid;
  for (uint32_t i = 0; i < node->kernel->arg_count; i++) {
    memcpy(node->args[i], launch->args[i], node->kernel->args[i].bytes);
  }
  return CRK_OK;
}

static crk_status_t cpu_chain_launch(crk_driver_device_t *device, crk_driver_chain_t *chain,
                                     crk_driver_stream_t *stream) {
  return cpu_graph_launch(device, &chain->graph, stream);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Events: times. The work before a recorded event is done already, unless it is a host function that still runs.
 * ------------------------------------------------------------------------------------------------------------------ */

static crk_status_t cpu_event_create(crk_driver_device_t *device, crk_driver_event_t **event) {
  (void)device;
  crk_driver_event_t *self = calloc(1, sizeof *self);
  if (self == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "the CPU has no memory left for an event");
  }
  crk_priv_mutex_init(&self->lock);
  *event = self;
  return CRK_OK;
}

static void cpu_event_destroy(crk_driver_device_t *device, crk_driver_event_t *event) {
  (void)device;
  if (event != NULL) {
    crk_priv_mutex_deinit(&event->lock);
    free(event);
  }
}

static crk_status_t cpu_event_record(crk_driver_device_t *device, crk_driver_event_t *event,
                                     crk_driver_stream_t *stream) {
  (void)device;
  crk_priv_mutex_lock(&stream->lock);
  /* As on a GPU, a record in a capture is an edge of the graph and marks no time. */
  if (stream->capture == NULL) {
    crk_priv_mutex_lock(&event->lock);
    event->recorded = true;
    event->seconds = crk_priv_seconds();
    event->stream = stream->is_calling ? stream : NULL;
    event->calls = atomic_load(&stream->calls);
    crk_priv_mutex_unlock(&event->lock);
  }
  crk_priv_mutex_unlock(&stream->lock);
  return CRK_OK;
}

/* The stream on which a host function from before the mark may still run; NULL for none. `calls` have to end there. */
static crk_driver_stream_t *event_stream(crk_driver_event_t *event, uint64_t *calls) {
  crk_priv_mutex_lock(&event->lock);
  crk_driver_stream_t *stream = event->stream;
  *calls = event->calls;
  crk_priv_mutex_unlock(&event->lock);
  return stream;
}

static crk_status_t cpu_event_query(crk_driver_device_t *device, crk_driver_event_t *event) {
  (void)device;
  uint64_t calls;
  crk_driver_stream_t *stream = event_stream(event, &calls);
  return stream == NULL || atomic_load(&stream->calls_done) >= calls ? CRK_OK : CRK_NOT_READY;
}

static crk_status_t cpu_event_synchronize(crk_driver_device_t *device, crk_driver_event_t *event) {
  (void)device;
  uint64_t calls;
  crk_driver_stream_t *stream = event_stream(event, &calls);
  if (stream != NULL) {
    crk_priv_mutex_lock(&stream->lock);
    while (atomic_load(&stream->calls_done) < calls) {
      crk_priv_condition_wait(&stream->changed, &stream->lock);
    }
    crk_priv_mutex_unlock(&stream->lock);
  }
  return CRK_OK;
}

static crk_status_t event_time(crk_driver_event_t *event, double *seconds) {
  crk_priv_mutex_lock(&event->lock);
  const bool recorded = event->recorded;
  *seconds = event->seconds;
  crk_priv_mutex_unlock(&event->lock);
  return recorded
             ? CRK_OK
             : crk_priv_error(CRK_INVALID_ARGUMENT, "the event was never recorded; record it before its time is read");
}

static crk_status_t cpu_event_elapsed(crk_driver_device_t *device, crk_driver_event_t *start, crk_driver_event_t *end,
                                      float *milliseconds) {
  (void)device;
  double from, to;
  CRK_TRY(event_time(start, &from));
  CRK_TRY(event_time(end, &to));
  *milliseconds = (float)((to - from) * 1e3);
  return CRK_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Modules
 * ------------------------------------------------------------------------------------------------------------------ */

static crk_image_t cpu_builtin(size_t index) {
  crk_image_t image = {NULL, 0};
  if (index < CRK_MODULE_COUNT) {
    image.data = builtins[index];
  }
  return image;
}

static void cpu_module_unload(crk_driver_device_t *device, crk_driver_module_t *module) {
  (void)device;
  if (module == NULL) {
    return;
  }
  free(module->functions);
  free(module->params);
  crk_priv_library_close(module->library);
  free(module);
}

/* Checks an entry of a module's list, which may come from a user. */
static crk_status_t kernel_check(const char *module, const crk_host_kernel_t *kernel) {
  if (kernel->name == NULL || kernel->run == NULL || (kernel->args == NULL && kernel->arg_count != 0) ||
      kernel->kind > CRK_HOST_COOPERATIVE) {
    return crk_priv_error(CRK_INVALID_IMAGE,
                          "module `%s` has a kernel `%s` without a name, without code or of an unknown kind", module,
                          kernel->name != NULL ? kernel->name : "");
  }
  return CRK_OK;
}

static crk_status_t module_index(const char *name, const crk_host_module_t *table, crk_driver_module_t *self) {
  if (table->abi_version != CRK_HOST_ABI_VERSION) {
    return crk_priv_error(CRK_INVALID_IMAGE,
                          "module `%s` was compiled with version %u of host_abi.h, but this build has %u", name,
                          (unsigned)table->abi_version, (unsigned)CRK_HOST_ABI_VERSION);
  }
  if (table->kernels == NULL) {
    return crk_priv_error(CRK_INVALID_IMAGE, "module `%s` has no list of kernels", name);
  }
  const crk_host_kernel_t *const first = table->kernels();
  size_t params = 0;
  for (const crk_host_kernel_t *kernel = first; kernel != NULL; kernel = kernel->next) {
    CRK_TRY(kernel_check(name, kernel));
    self->count++;
    params += kernel->arg_count;
  }
  self->functions = calloc(self->count + 1, sizeof *self->functions);
  self->params = calloc(params + 1, sizeof *self->params);
  if (self->functions == NULL || self->params == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "the CPU has no memory left for module `%s`", name);
  }
  crk_driver_function_t *function = self->functions;
  crk_param_t *param = self->params;
  for (const crk_host_kernel_t *kernel = first; kernel != NULL; kernel = kernel->next, function++) {
    function->kernel = kernel;
    function->params = param;
    for (uint32_t i = 0; i < kernel->arg_count; i++, param++) {
      param->bytes = kernel->args[i].bytes;
      param->is_pointer = kernel->args[i].is_pointer != 0;
    }
  }
  return CRK_OK;
}

static crk_status_t library_load(const char *name, const void *data, size_t bytes, crk_driver_module_t *self,
                                 const crk_host_module_t **table) {
  char text[512];
  CRK_TRY(crk_priv_cpu_image_check(name, data, bytes));
  self->library = crk_priv_library_open_bytes(name, data, bytes, text, sizeof text);
  if (self->library == NULL) {
    return crk_priv_error(CRK_INVALID_IMAGE, "module `%s` cannot be opened: %s", name, text);
  }
  const int length = snprintf(text, sizeof text, "crk_host_module_%s", name);
  *table = length > 0 && (size_t)length < sizeof text ? crk_priv_library_symbol(self->library, text) : NULL;
  if (*table == NULL) {
    return crk_priv_error(CRK_INVALID_IMAGE, "module `%s` does not export crk_host_module_%s", name, name);
  }
  return CRK_OK;
}

static crk_status_t builtin_load(const char *name, const void *data, const crk_host_module_t **table) {
  for (size_t i = 0; i < CRK_MODULE_COUNT; i++) {
    if (data == builtins[i]) {
      *table = builtins[i];
      return CRK_OK;
    }
  }
  return crk_priv_error(CRK_INVALID_IMAGE, "module `%s` is empty", name);
}

static crk_status_t cpu_module_load(crk_driver_device_t *device, const char *name, const void *data, size_t bytes,
                                    crk_driver_module_t **module) {
  crk_driver_module_t *self = calloc(1, sizeof *self);
  if (self == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "the CPU has no memory left for module `%s`", name);
  }
  const crk_host_module_t *table = NULL;
  crk_status_t status = bytes == 0 ? builtin_load(name, data, &table) : library_load(name, data, bytes, self, &table);
  if (status == CRK_OK) {
    status = module_index(name, table, self);
  }
  if (status != CRK_OK) {
    cpu_module_unload(device, self);
    return status;
  }
  *module = self;
  return CRK_OK;
}

static crk_status_t cpu_module_function(crk_driver_device_t *device, crk_driver_module_t *module, const char *name,
                                        crk_driver_function_t **function, crk_signature_t *signature) {
  (void)device;
  for (size_t i = 0; i < module->count; i++) {
    crk_driver_function_t *self = &module->functions[i];
    if (strcmp(self->kernel->name, name) == 0) {
      signature->params = self->params;
      signature->count = self->kernel->arg_count;
      signature->max_threads = self->kernel->max_threads;
      *function = self;
      return CRK_OK;
    }
  }
  return CRK_NOT_FOUND;
}

const crk_driver_t crk_priv_driver_cpu = {
    .backend = CRK_BACKEND_CPU,
    .load = cpu_load,
    .device_count = cpu_device_count,
    .device_get = cpu_device_get,
    .device_info = cpu_device_info,
    .device_memory = cpu_device_memory,
    .bind = cpu_bind,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .host_alloc = cpu_alloc,
    .host_alloc_coherent = cpu_alloc,
    .host_free = cpu_free,
    .copy = cpu_copy,
    .copy_peer = cpu_copy_peer,
    .peer_access = cpu_peer_access,
    .memset = cpu_memset,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .stream_synchronize = cpu_stream_synchronize,
    .stream_wait = cpu_stream_wait,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .event_query = cpu_event_query,
    .event_synchronize = cpu_event_synchronize,
    .event_elapsed = cpu_event_elapsed,
    .builtin = cpu_builtin,
    .module_load = cpu_module_load,
    .module_unload = cpu_module_unload,
    .module_function = cpu_module_function,
    .launch = cpu_launch,
    .call = cpu_call,
    .capture_begin = cpu_capture_begin,
    .capture_end = cpu_capture_end,
    .graph_launch = cpu_graph_launch,
    .chain_create = cpu_chain_create,
    .chain_update = cpu_chain_update,
    .chain_launch = cpu_chain_launch,
    .chain_destroy = cpu_chain_destroy,
    .graph_destroy = cpu_graph_destroy,
};
