/* A libamdhip64 that simulates a GPU. Kernels run in their builds for the CPU, through the crate's own CPU driver,
 * which is linked in. The rest is bookkeeping: handles are checked; calls are counted, refused or made to fail.
 *
 * Work is done late: a stream collects its work and does it when somebody waits for it. A caller that frees or
 * changes memory too early gets wrong results here, as on a GPU. Device memory is host memory, filled with a pattern;
 * of a large block only the beginning is filled.
 *
 * Environment, read at the first call:
 *   HIP_DOUBLE_ARCH      the architecture as the runtime spells it, "gfx1100" by default; it determines the SIMD units
 *   HIP_DOUBLE_VERSION   5, 6 (the default) or 7; any other N reports version N.4
 *   HIP_DOUBLE_DEVICES   the number of devices, 1 by default; 0 simulates a machine without a GPU
 *   HIP_DOUBLE_MEMORY    bytes of device memory, 4 GiB by default
 *   HIP_DOUBLE_COMPUTE_UNITS  compute units per device, 12 by default
 *   HIP_DOUBLE_XCCS           accelerator dies per device, with an L2 cache each; without it the runtime does not know
 *   GPU_ENABLE_WGP_MODE  0: counts RDNA compute units singly, not in pairs, as the real runtime does
 *   HIP_DOUBLE_PEERS     0: the devices do not reach each other's memory
 *   HIP_DOUBLE_FINE_GRAINED  1: there is memory that devices write while another one reads it; below 0: the
 *                            runtime does not know
 *   HIP_DOUBLE_FAIL      calls that fail, see hip_double_fail
 *   HIP_DOUBLE_INSTANT   1: launches, updates of nodes, copies, sets, marks and waits return at once and do nothing, to
 *                        time callers
 *
 * A call is missing only if the library file was patched (tests/support/hip_double.rs), so that dlsym does not find
 * it. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "image/code_object.h"
#include "driver/driver.h"
#include "hip_double.h"
#include "modules.h"
#include "number.h"
#include "os/os.h"

#define API HIP_DOUBLE_EXPORT int

/* The bytes of an allocation that are filled with the pattern. So a test of offsets beyond 2^32 uses no memory for the
 * gap between. */
#define FILLED_BYTES ((size_t)1 << 24)

/* Every call, for the counters. */
#define HIP_DOUBLE_CALLS(XX)                \
  XX(hipGetDeviceCount)                     \
  XX(hipSetDevice)                          \
  XX(hipDeviceGetAttribute)                 \
  XX(hipRuntimeGetVersion)                  \
  XX(hipGetDevicePropertiesR0600)           \
  XX(hipGetDeviceProperties)                \
  XX(hipDeviceGetPCIBusId)                  \
  XX(hipGetLastError)                       \
  XX(hipPeekAtLastError)                    \
  XX(hipDeviceSynchronize)                  \
  XX(hipMemGetInfo)                         \
  XX(hipMalloc)                             \
  XX(hipFree)                               \
  XX(hipExtMallocWithFlags)                 \
  XX(hipIpcGetMemHandle)                    \
  XX(hipIpcOpenMemHandle)                   \
  XX(hipIpcCloseMemHandle)                  \
  XX(hipHostMalloc)                         \
  XX(hipHostFree)                           \
  XX(hipMemcpy)                             \
  XX(hipMemcpyAsync)                        \
  XX(hipMemcpyPeerAsync)                    \
  XX(hipDeviceCanAccessPeer)                \
  XX(hipDeviceEnablePeerAccess)             \
  XX(hipMemsetAsync)                        \
  XX(hipStreamCreateWithFlags)              \
  XX(hipStreamDestroy)                      \
  XX(hipStreamSynchronize)                  \
  XX(hipStreamWaitEvent)                    \
  XX(hipEventCreateWithFlags)               \
  XX(hipEventDestroy)                       \
  XX(hipEventRecord)                        \
  XX(hipEventQuery)                         \
  XX(hipEventSynchronize)                   \
  XX(hipEventElapsedTime)                   \
  XX(hipModuleLoadData)                     \
  XX(hipModuleUnload)                       \
  XX(hipModuleGetFunction)                  \
  XX(hipModuleLaunchKernel)                 \
  XX(hipStreamBeginCapture)                 \
  XX(hipStreamEndCapture)                   \
  XX(hipStreamIsCapturing)                  \
  XX(hipGraphCreate)                        \
  XX(hipGraphAddKernelNode)                 \
  XX(hipGraphExecKernelNodeSetParams)       \
  XX(hipGraphInstantiate)                   \
  XX(hipGraphLaunch)                        \
  XX(hipGraphDestroy)                       \
  XX(hipGraphExecDestroy)                   \
  XX(rocblas_create_handle)                 \
  XX(rocblas_destroy_handle)                \
  XX(rocblas_set_stream)                    \
  XX(rocblas_set_atomics_mode)              \
  XX(rocblas_set_workspace)                 \
  XX(rocblas_gemm_strided_batched_ex)       \
  XX(hipblasLtCreate)                       \
  XX(hipblasLtDestroy)                      \
  XX(hipblasLtGetVersion)                   \
  XX(hipblasLtMatmulDescCreate)             \
  XX(hipblasLtMatmulDescDestroy)            \
  XX(hipblasLtMatmulDescSetAttribute)       \
  XX(hipblasLtMatrixLayoutCreate)           \
  XX(hipblasLtMatrixLayoutDestroy)          \
  XX(hipblasLtMatrixLayoutSetAttribute)     \
  XX(hipblasLtMatmulPreferenceCreate)       \
  XX(hipblasLtMatmulPreferenceDestroy)      \
  XX(hipblasLtMatmulPreferenceSetAttribute) \
  XX(hipblasLtMatmulAlgoGetHeuristic)       \
  XX(hipblasLtMatmul)                       \
  XX(ncclGetVersion)                        \
  XX(ncclGetUniqueId)                       \
  XX(ncclCommInitRank)                      \
  XX(ncclCommInitRankConfig)                \
  XX(ncclCommGetAsyncError)                 \
  XX(ncclCommFinalize)                      \
  XX(ncclCommDestroy)                       \
  XX(ncclCommAbort)                         \
  XX(ncclGroupStart)                        \
  XX(ncclGroupEnd)                          \
  XX(ncclAllReduce)                         \
  XX(ncclReduce)                            \
  XX(ncclBroadcast)                         \
  XX(ncclAllGather)                         \
  XX(ncclReduceScatter)                     \
  XX(ncclSend)                              \
  XX(ncclRecv)                              \
  XX(ncclState)                             \
  XX(ncclLost)                              \
  XX(ncclStuck)

typedef enum call {
#define XX(name) CALL_##name,
  HIP_DOUBLE_CALLS(XX)
#undef XX
  CALLS
} call_t;

static const char *const call_names[] = {
#define XX(name) #name,
    HIP_DOUBLE_CALLS(XX)
#undef XX
};

/* XX(name, number): the codes that calls return. */
#define HIP_DOUBLE_ERRORS(XX)               \
  XX(hipSuccess, 0)                         \
  XX(hipErrorInvalidValue, 1)               \
  XX(hipErrorOutOfMemory, 2)                \
  XX(hipErrorInvalidConfiguration, 9)       \
  XX(hipErrorNoDevice, 100)                 \
  XX(hipErrorInvalidDevice, 101)            \
  XX(hipErrorInvalidImage, 200)             \
  XX(hipErrorNoBinaryForGpu, 209)           \
  XX(hipErrorPeerAccessUnsupported, 217)    \
  XX(hipErrorInvalidHandle, 400)            \
  XX(hipErrorIllegalState, 401)             \
  XX(hipErrorNotFound, 500)                 \
  XX(hipErrorNotReady, 600)                 \
  XX(hipErrorPeerAccessAlreadyEnabled, 704) \
  XX(hipErrorLaunchFailure, 719)            \
  XX(hipErrorNotSupported, 801)             \
  XX(hipErrorStreamCaptureUnsupported, 900) \
  XX(hipErrorStreamCaptureInvalidated, 901) \
  XX(hipErrorStreamCaptureIsolation, 905)   \
  XX(hipErrorStreamCaptureImplicit, 906)    \
  XX(hipErrorCapturedEvent, 907)            \
  XX(hipErrorStreamCaptureWrongThread, 908) \
  XX(hipErrorUnknown, 999)

enum {
#define XX(name, number) name = number,
  HIP_DOUBLE_ERRORS(XX)
#undef XX
};

enum {
  CAPTURE_GLOBAL = 0,
  CAPTURE_THREAD_LOCAL = 1,
  CAPTURE_RELAXED = 2
};
enum {
  STATUS_NONE = 0,
  STATUS_ACTIVE = 1,
  STATUS_INVALIDATED = 2
};
enum {
  COPY_HOST_TO_HOST,
  COPY_TO_DEVICE,
  COPY_TO_HOST,
  COPY_ON_DEVICE
};

/* ------------------------------------------------------------------------------------------------------------------
 * State; `lock` guards all of it
 * ------------------------------------------------------------------------------------------------------------------ */

typedef enum kind {
  KIND_STREAM,
  KIND_EVENT,
  KIND_MODULE,
  KIND_FUNCTION,
  KIND_GRAPH,
  KIND_EXEC,
  KIND_NODE,
  KINDS
} kind_t;

/* The object behind a handle. A handle is not an address but a number that is never reused. So a destroyed handle is
 * not mistaken for a live one, and following it as a pointer faults. */
typedef struct object {
  kind_t kind;
  int device;
  uintptr_t handle;
} object_t;

typedef struct stream {
  object_t object;
  crk_driver_stream_t *exec, *record; /* one does the work, the other collects it */
  bool pending; /* `record` has work */
  uint64_t epoch; /* how often collected work was done */
  int capture, mode; /* STATUS_, CAPTURE_ */
  bool recording; /* `record` is recording for a capture */
  pthread_t capturer;
  int failure; /* the error of a kernel, which the next wait returns */
} stream_t;

typedef struct event {
  object_t object;
  uintptr_t stream; /* the stream that recorded the event */
  uint64_t epoch;
  bool waits; /* the stream had work when it recorded the event */
  bool recorded, captured;
  double seconds;
} event_t;

typedef struct module {
  object_t object;
  const unsigned char *image; /* the caller's memory: HIP keeps pointers into it */
  crk_code_kernels_t *kernels;
} module_t;

typedef struct function {
  object_t object;
  uintptr_t module;
  crk_driver_function_t *cpu;
  crk_signature_t signature; /* of `cpu` */
  uint32_t max_threads;
  char name[96];
} function_t;

/* hipKernelNodeParams */
typedef struct launch {
  crk_dim3_t block;
  void **extra;
  void *function;
  crk_dim3_t grid;
  void **args;
  unsigned shared_bytes;
} launch_t;

/* A launch in a graph, with copies of its arguments. */
typedef struct node {
  object_t object;
  struct node *next;
  launch_t launch;
  char *memory; /* of the arguments */
} node_t;

/* The work of a graph and of its executables: a captured stream, or nodes. As only one executable of a graph of nodes
 * is allowed here, its nodes are those of the graph. */
typedef struct work {
  int owners; /* graphs and executables */
  crk_driver_graph_t *captured; /* NULL if there are nodes */
  node_t *nodes, **last;
  bool is_instantiated, has_lost_graph;
} work_t;

typedef struct graph {
  object_t object;
  work_t *work;
} graph_t;

typedef struct allocation {
  struct allocation *next;
  char *ptr;
  size_t bytes;
  bool host, coherent;
} allocation_t;

/* As hipIpcMemHandle_t. */
typedef struct ipc_handle {
  char bytes[64];
} ipc_handle_t;

typedef struct rule {
  uint64_t nth; /* counts down to the call that fails */
  bool always;
  int code; /* 0 for no rule */
} rule_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
  bool ready;
  char architecture[128];
  int version, devices;
  uint32_t wave_size, compute_units, unit_threads; /* as HIP reports them */
  int xccs; /* below 0 for a runtime that does not know */
  size_t memory, used;
  crk_driver_device_t *cpu;
  crk_driver_module_t *modules[CRK_MODULE_COUNT]; /* of the CPU driver */
  object_t **objects; /* by handle */
  size_t object_count, object_capacity;
  int64_t alive[KINDS];
  allocation_t *allocations;
  rule_t rules[CALLS];
  int64_t calls[CALLS];
  unsigned short trace[1024];
  uint64_t traced, trace_from;
  char launches[4096]; /* text */
  size_t launches_used;
  uintptr_t ending; /* the stream that is being destroyed, during a delay too */
} state;

static bool instant; /* set once, before the first stream exists */

static _Thread_local int current_device;
static _Thread_local int last_error;

static const crk_driver_t *cpu_driver(void) { return &crk_priv_driver_cpu; }

static const char *setting(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value == NULL || value[0] == 0 ? otherwise : value;
}

static int call_by_name(const char *name, size_t length) {
  for (int i = 0; i < CALLS; i++) {
    if (strlen(call_names[i]) == length && strncmp(call_names[i], name, length) == 0) {
      return i;
    }
  }
  return -1;
}

static void set_rule(int call, uint64_t nth, int code) {
  state.rules[call].nth = nth;
  state.rules[call].always = nth == 0;
  state.rules[call].code = code;
}

static void start(void) {
  if (state.ready) {
    return;
  }
  state.ready = true;
  snprintf(state.architecture, sizeof state.architecture, "%s", setting("HIP_DOUBLE_ARCH", "gfx1100"));
  state.version = atoi(setting("HIP_DOUBLE_VERSION", "6"));
  state.devices = atoi(setting("HIP_DOUBLE_DEVICES", "1"));
  state.memory = (size_t)strtoull(setting("HIP_DOUBLE_MEMORY", "4294967296"), NULL, 10);
  state.compute_units = (uint32_t)strtoul(setting("HIP_DOUBLE_COMPUTE_UNITS", "12"), NULL, 10);
  state.xccs = atoi(setting("HIP_DOUBLE_XCCS", "-1"));
  char name[sizeof state.architecture];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(state.architecture, ":"), state.architecture);
  const crk_architecture_t *architecture = crk_priv_architecture_find(name);
  const bool known = architecture != NULL; /* a test simulates an unknown one */
  state.wave_size = known ? architecture->simd.lanes : 32;
  state.unit_threads = known ? architecture->simd.lanes * architecture->simd.units * architecture->simd.waves : 1024;
  if (known && architecture->simd.lanes == 32 && atoi(setting("GPU_ENABLE_WGP_MODE", "1")) != 0) {
    state.compute_units /= 2;
    state.unit_threads *= 2;
  }
  instant = atoi(setting("HIP_DOUBLE_INSTANT", "0")) != 0;
  if (cpu_driver()->device_get(state.wave_size == 64 ? 1 : 0, &state.cpu) != CRK_OK) {
    abort();
  }
  for (const char *rule = setting("HIP_DOUBLE_FAIL", ""); *rule != 0;) {
    const size_t length = strcspn(rule, ":");
    const int call = call_by_name(rule, length);
    unsigned long long nth = 0;
    int code = 0;
    if (call < 0 || sscanf(rule + length, ":%llu=%d", &nth, &code) != 2) {
      fprintf(stderr, "HIP_DOUBLE_FAIL: '%s' is no rule\n", rule);
      abort();
    }
    set_rule(call, nth, code);
    rule += strcspn(rule, ",");
    rule += *rule == ',';
  }
}

/* Begins a call: takes the lock, counts the call and returns a rule's code, or 0. */
static int enter(call_t call) {
  pthread_mutex_lock(&lock);
  start();
  state.calls[call]++;
  state.trace[state.traced++ % 1024] = (unsigned short)call;
  rule_t *rule = &state.rules[call];
  if (rule->code == 0 || (rule->nth > 0 && --rule->nth > 0)) {
    return hipSuccess;
  }
  const int code = rule->code;
  if (!rule->always) {
    rule->code = 0;
  }
  if (code >= 0) {
    return code;
  }
  pthread_mutex_unlock(&lock);
  const struct timespec late = {-code / 1000, -code % 1000 * 1000000L};
  nanosleep(&late, NULL);
  pthread_mutex_lock(&lock);
  return hipSuccess;
}

static int leave(int code) {
  pthread_mutex_unlock(&lock);
  if (code != hipSuccess) {
    last_error = code;
  }
  return code;
}

/* ---- handles */

static const uintptr_t handle_base = 0x6000000000000000u, handle_step = 16;

static void *object_create(kind_t kind, size_t size, int device) {
  object_t *object = calloc(1, size);
  if (object == NULL) {
    abort();
  }
  if (state.object_count == state.object_capacity) {
    state.object_capacity = 2 * state.object_capacity + 64;
    state.objects = realloc(state.objects, state.object_capacity * sizeof *state.objects);
    if (state.objects == NULL) {
      abort();
    }
  }
  object->kind = kind;
  object->device = device;
  object->handle = handle_base + state.object_count * handle_step;
  state.objects[state.object_count++] = object;
  state.alive[kind]++;
  return object;
}

static object_t *object_at(uintptr_t handle) {
  const uintptr_t index = (handle - handle_base) / handle_step;
  return handle < handle_base || handle % handle_step != 0 || index >= state.object_count ? NULL : state.objects[index];
}

/* The live object of this handle and kind, or NULL. */
static void *object_find(kind_t kind, const void *handle) {
  object_t *object = object_at((uintptr_t)handle);
  return object != NULL && object->kind == kind ? object : NULL;
}

/* Ends a call that created an object. */
static int give(void **out, const object_t *object) {
  *out = (void *)object->handle;
  return leave(hipSuccess);
}

static void object_destroy(void *object) {
  object_t *base = object;
  state.alive[base->kind]--;
  state.objects[(base->handle - handle_base) / handle_step] = NULL;
  free(base);
}

/* Calls `body` for each live stream. */
#define FOR_STREAMS(stream, body)                                                \
  do {                                                                           \
    for (size_t i_ = 0; i_ < state.object_count; i_++) {                         \
      if (state.objects[i_] != NULL && state.objects[i_]->kind == KIND_STREAM) { \
        stream_t *stream = (stream_t *)state.objects[i_];                        \
        body;                                                                    \
      }                                                                          \
    }                                                                            \
  } while (0)

/* ---- work */

static int failure_of(crk_status_t status) {
  return status == CRK_OK ? hipSuccess : status == CRK_OUT_OF_MEMORY ? hipErrorOutOfMemory : hipErrorLaunchFailure;
}

/* Does the work that a stream has collected. */
static void flush(stream_t *stream) {
  if (!stream->pending || stream->capture != STATUS_NONE) {
    return;
  }
  stream->pending = false;
  stream->epoch++;
  crk_driver_graph_t *graph = NULL;
  crk_status_t status = cpu_driver()->capture_end(state.cpu, stream->record, &graph);
  if (status == CRK_OK) {
    status = cpu_driver()->graph_launch(state.cpu, graph, stream->exec);
    cpu_driver()->graph_destroy(state.cpu, graph);
  }
  if (status != CRK_OK && stream->failure == 0) {
    stream->failure = failure_of(status);
  }
}

static void flush_all(void) { FOR_STREAMS(stream, flush(stream)); }

/* The stream of the CPU driver that takes a call's work. Returns NULL with a code if there is none. */
static crk_driver_stream_t *target(stream_t *stream, int *code) {
  if (stream->capture == STATUS_INVALIDATED) {
    *code = hipErrorStreamCaptureInvalidated;
    return NULL;
  }
  if (stream->capture == STATUS_ACTIVE) {
    return stream->record;
  }
  if (!stream->pending) {
    if (cpu_driver()->capture_begin(state.cpu, stream->record) != CRK_OK) {
      *code = hipErrorOutOfMemory;
      return NULL;
    }
    stream->pending = true;
  }
  return stream->record;
}

/* Declares the stream that takes a call's work. */
#define TARGET(to, stream)                          \
  int code_ = hipSuccess;                           \
  crk_driver_stream_t *to = target(stream, &code_); \
  REFUSE(to == NULL, code_)

/* ---- calls that a capture refuses */

static void invalidate(stream_t *stream) {
  if (stream->capture == STATUS_ACTIVE) {
    stream->capture = STATUS_INVALIDATED;
  }
}

/* For calls that only relaxed captures allow. Invalidates the captures that forbid the call: captures of this thread
 * that are not relaxed, and global captures of any thread. */
static int refuse_unsafe(void) {
  int code = hipSuccess;
  FOR_STREAMS(stream, {
    const bool own = stream->mode != CAPTURE_RELAXED && pthread_equal(stream->capturer, pthread_self());
    if (stream->recording && (own || stream->mode == CAPTURE_GLOBAL)) {
      invalidate(stream);
      code = hipErrorStreamCaptureUnsupported;
    }
  });
  return code;
}

/* For calls that no capture allows. Invalidates every capture. */
static int refuse_blocking(int refusal) {
  int code = hipSuccess;
  FOR_STREAMS(stream, {
    if (stream->recording) {
      invalidate(stream);
      code = refusal;
    }
  });
  return code;
}

/* hipSuccess if the stream may be waited for; else the code to return. */
static int refuse_captured(stream_t *stream) {
  if (stream->capture != STATUS_NONE) {
    invalidate(stream);
    return hipErrorStreamCaptureUnsupported;
  }
  return hipSuccess;
}

/* Begins a call and returns from it if a rule gives a code. */
#define ENTER(name)                       \
  do {                                    \
    const int rule_ = enter(CALL_##name); \
    if (rule_ != hipSuccess) {            \
      return leave(rule_);                \
    }                                     \
  } while (0)

/* As ENTER, for calls that do nothing with HIP_DOUBLE_INSTANT. */
#define ENTER_LATE(name) \
  if (instant) {         \
    return hipSuccess;   \
  }                      \
  ENTER(name)

/* Declares `object`, the live object of a handle. If there is none, the call returns `code`. */
#define FIND(type, object, KIND, handle, code)         \
  type##_t *object = object_find(KIND_##KIND, handle); \
  REFUSE(object == NULL, code)

#define REFUSE_DEVICE(ordinal) REFUSE((ordinal) < 0 || (ordinal) >= state.devices, hipErrorInvalidDevice)

#define REFUSE(condition, code) \
  do {                          \
    if (condition) {            \
      return leave(code);       \
    }                           \
  } while (0)

#define TRY(expr)              \
  do {                         \
    const int code_ = (expr);  \
    if (code_ != hipSuccess) { \
      return leave(code_);     \
    }                          \
  } while (0)

/* ------------------------------------------------------------------------------------------------------------------
 * Functions for the tests
 * ------------------------------------------------------------------------------------------------------------------ */

const crk_host_module_t *hip_double_host_module(const char *name) {
  static const char *const names[] = {
#define XX(upper, lower) #lower,
      CRK_MODULE_MAP(XX)
#undef XX
  };
  for (size_t i = 0; i < CRK_MODULE_COUNT; i++) {
    if (strcmp(names[i], name) == 0) {
      return cpu_driver()->builtin(i).data;
    }
  }
  return NULL;
}

int hip_double_fail(const char *call, uint64_t nth, int code) {
  const int index = call_by_name(call, strlen(call));
  if (index < 0) {
    return -1;
  }
  pthread_mutex_lock(&lock);
  start();
  set_rule(index, nth, code);
  pthread_mutex_unlock(&lock);
  return 0;
}

int hip_double_begin(const char *call) {
  const int code = enter((call_t)call_by_name(call, strlen(call)));
  pthread_mutex_unlock(&lock);
  return code;
}

bool hip_double_finish(void *handle) {
  pthread_mutex_lock(&lock);
  stream_t *stream = object_find(KIND_STREAM, handle);
  const bool usable = stream != NULL && stream->capture == STATUS_NONE && current_device == stream->object.device;
  if (usable) {
    flush(stream);
  }
  pthread_mutex_unlock(&lock);
  return usable;
}

bool hip_double_is_stream(void *handle) {
  pthread_mutex_lock(&lock);
  const bool is_stream = handle == NULL || object_find(KIND_STREAM, handle) != NULL;
  pthread_mutex_unlock(&lock);
  return is_stream;
}

void hip_double_wait(void) {
  pthread_mutex_lock(&lock);
  FOR_STREAMS(stream, {
    if (stream->object.device == current_device) {
      invalidate(stream);
      flush(stream);
    }
  });
  pthread_mutex_unlock(&lock);
}

size_t hip_double_bytes(const void *ptr) {
  pthread_mutex_lock(&lock);
  const allocation_t *allocation = state.allocations;
  while (allocation != NULL && allocation->ptr != ptr) {
    allocation = allocation->next;
  }
  const size_t bytes = allocation != NULL ? allocation->bytes : 0;
  pthread_mutex_unlock(&lock);
  return bytes;
}

int64_t hip_double_calls(const char *call) {
  const int index = call_by_name(call, strlen(call));
  if (index < 0) {
    return -1;
  }
  pthread_mutex_lock(&lock);
  const int64_t calls = state.calls[index];
  pthread_mutex_unlock(&lock);
  return calls;
}

int64_t hip_double_alive(const char *kind) {
  static const struct {
    const char *name;
    kind_t kind;
  } kinds[] = {{"streams", KIND_STREAM},
               {"events", KIND_EVENT},
               {"modules", KIND_MODULE},
               {"graphs", KIND_GRAPH},
               {"executables", KIND_EXEC},
               {"nodes", KIND_NODE}};
  int64_t alive = strcmp(kind, "BLAS handles") == 0 ? hip_double_blas_handles : -1;
  pthread_mutex_lock(&lock);
  const bool coherent = strcmp(kind, "coherent host allocations") == 0;
  const bool host = coherent || strcmp(kind, "host allocations") == 0;
  if (host || strcmp(kind, "allocations") == 0) {
    alive = 0;
    for (const allocation_t *allocation = state.allocations; allocation != NULL; allocation = allocation->next) {
      alive += allocation->host == host && (!coherent || allocation->coherent);
    }
  }
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (strcmp(kinds[i].name, kind) == 0) {
      alive = state.alive[kinds[i].kind];
    }
  }
  pthread_mutex_unlock(&lock);
  return alive;
}

void hip_double_trace(char *text, size_t size) {
  pthread_mutex_lock(&lock);
  size_t used = 0;
  if (state.traced - state.trace_from > 1024) {
    state.trace_from = state.traced - 1024;
  }
  if (size > 0) {
    text[0] = 0;
  }
  for (; state.trace_from < state.traced; state.trace_from++) {
    const char *name = call_names[state.trace[state.trace_from % 1024]];
    if (used + strlen(name) + 2 <= size) {
      used += (size_t)snprintf(text + used, size - used, "%s\n", name);
    }
  }
  pthread_mutex_unlock(&lock);
}

void hip_double_launches(char *text, size_t size) {
  pthread_mutex_lock(&lock);
  snprintf(text, size, "%.*s", (int)state.launches_used, state.launches);
  state.launches_used = 0;
  pthread_mutex_unlock(&lock);
}

static void note_launch(const function_t *function, const crk_dim3_t *grid) {
  const unsigned long long blocks = (unsigned long long)grid->x * grid->y * grid->z;
  const size_t left = sizeof state.launches - state.launches_used;
  const int length =
      snprintf(state.launches + state.launches_used, left, "%s %llu\n", function->name, blocks);
  state.launches_used += (size_t)length < left ? (size_t)length : 0;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Errors and devices
 * ------------------------------------------------------------------------------------------------------------------ */

API hipGetLastError(void) {
  pthread_mutex_lock(&lock);
  state.calls[CALL_hipGetLastError]++;
  pthread_mutex_unlock(&lock);
  const int code = last_error;
  last_error = hipSuccess;
  return code;
}

API hipPeekAtLastError(void) { return last_error; }

HIP_DOUBLE_EXPORT const char *hipGetErrorName(int code) {
  switch (code) {
#define XX(name, number) \
  case number:           \
    return #name;
    HIP_DOUBLE_ERRORS(XX)
#undef XX
    default:
      return "hipErrorUnknown";
  }
}

API hipGetDeviceCount(int *count) {
  ENTER(hipGetDeviceCount);
  REFUSE(count == NULL, hipErrorInvalidValue);
  *count = state.devices;
  return leave(state.devices == 0 ? hipErrorNoDevice : hipSuccess);
}

/* The library asks this before every other call. It only reads the thread's state, so it is neither counted nor
 * traced. */
API hipGetDevice(int *device) {
  *device = current_device;
  return hipSuccess;
}

API hipSetDevice(int device) {
  ENTER(hipSetDevice);
  REFUSE_DEVICE(device);
  current_device = device;
  return leave(hipSuccess);
}

API hipDeviceGetAttribute(int *value, int attribute, int device) {
  ENTER(hipDeviceGetAttribute);
  REFUSE(value == NULL, hipErrorInvalidValue);
  REFUSE_DEVICE(device);
  switch (attribute) {
    case 26:
    case 27:
    case 28:
      *value = 1024;
      break; /* threads of a block along x, y, z */
    case 29:
    case 30:
    case 31:
      *value = INT32_MAX;
      break; /* blocks of a grid along x, y, z */
    case 56:
      *value = 1024;
      break; /* threads of a block */
    case 57:
      *value = (int)state.unit_threads;
      break; /* threads of a multiprocessor */
    case 63:
      *value = (int)state.compute_units;
      break; /* multiprocessors */
    case 74:
      *value = 65536;
      break; /* shared memory of a block */
    case 87:
      *value = (int)state.wave_size;
      break; /* warp size */
    case 10016:
      *value = atoi(setting("HIP_DOUBLE_FINE_GRAINED", "0"));
      REFUSE(*value < 0, hipErrorInvalidValue);
      break; /* fine-grained memory. Without it hipExtMallocWithFlags gives ordinary memory */
    case 10018:
      REFUSE(state.xccs < 0, hipErrorInvalidValue);
      *value = state.xccs;
      break;
    default:
      return leave(hipErrorInvalidValue);
  }
  return leave(hipSuccess);
}

API hipDeviceGetPCIBusId(char *text, int bytes, int device) {
  ENTER(hipDeviceGetPCIBusId);
  REFUSE(text == NULL || bytes <= 0, hipErrorInvalidValue);
  REFUSE_DEVICE(device);
  snprintf(text, (size_t)bytes, "0001:%02x:1f.0", 0xc1 + (unsigned)device);
  return leave(hipSuccess);
}

API hipRuntimeGetVersion(int *version) {
  ENTER(hipRuntimeGetVersion);
  REFUSE(version == NULL, hipErrorInvalidValue);
  *version = state.version == 5   ? 50221153
             : state.version == 6 ? 60443484
             : state.version == 7 ? 70051831
                                  : state.version * 10000000 + 400000;
  return leave(hipSuccess);
}

static void put_properties(void *properties, size_t bytes, size_t memory_at, size_t shared_at, size_t warp_at,
                           size_t processors_at, size_t architecture_at, int device) {
  unsigned char *at = properties;
  const uint64_t memory = state.memory, shared = 65536;
  const int32_t warp = (int32_t)state.wave_size, processors = (int32_t)state.compute_units;
  memset(at, 0, bytes);
  snprintf((char *)at, 256, "Test double %d", device);
  memcpy(at + memory_at, &memory, sizeof memory);
  memcpy(at + shared_at, &shared, sizeof shared);
  memcpy(at + warp_at, &warp, sizeof warp);
  memcpy(at + processors_at, &processors, sizeof processors);
  snprintf((char *)at + architecture_at, 256, "%s", state.architecture);
}

API hipGetDevicePropertiesR0600(void *properties, int device) {
  ENTER(hipGetDevicePropertiesR0600);
  REFUSE(properties == NULL, hipErrorInvalidValue);
  REFUSE_DEVICE(device);
  put_properties(properties, 1472, 288, 296, 308, 388, 1160, device);
  return leave(hipSuccess);
}

API hipGetDeviceProperties(void *properties, int device) {
  ENTER(hipGetDeviceProperties);
  REFUSE(properties == NULL, hipErrorInvalidValue);
  REFUSE_DEVICE(device);
  put_properties(properties, 792, 256, 264, 276, 336, 396, device);
  return leave(hipSuccess);
}

API hipDeviceSynchronize(void) {
  ENTER(hipDeviceSynchronize);
  TRY(refuse_blocking(hipErrorStreamCaptureUnsupported));
  flush_all();
  return leave(hipSuccess);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Memory
 * ------------------------------------------------------------------------------------------------------------------ */

API hipMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  ENTER(hipMemGetInfo);
  REFUSE(free_bytes == NULL || total_bytes == NULL, hipErrorInvalidValue);
  *free_bytes = state.memory - state.used;
  *total_bytes = state.memory;
  return leave(hipSuccess);
}

static int allocate(void **ptr, size_t bytes, bool host) {
  const int refusal = refuse_unsafe();
  if (refusal != hipSuccess) {
    return refusal;
  }
  if (ptr == NULL) {
    return hipErrorInvalidValue;
  }
  *ptr = NULL;
  if (bytes == 0) {
    return hipSuccess;
  }
  void *memory = NULL;
  if ((!host && bytes > state.memory - state.used) || cpu_driver()->alloc(state.cpu, bytes, &memory) != CRK_OK) {
    return hipErrorOutOfMemory;
  }
  allocation_t *allocation = calloc(1, sizeof *allocation);
  if (allocation == NULL) {
    abort();
  }
  if (!instant) {
    memset(memory, 0xcb, bytes < FILLED_BYTES ? bytes : FILLED_BYTES);
  }
  allocation->ptr = memory;
  allocation->bytes = bytes;
  allocation->host = host;
  allocation->next = state.allocations;
  state.allocations = allocation;
  state.used += host ? 0 : bytes;
  *ptr = memory;
  return hipSuccess;
}

static int release(void *ptr, bool host) {
  const int refusal = refuse_unsafe();
  if (refusal != hipSuccess || ptr == NULL) {
    return refusal;
  }
  for (allocation_t **link = &state.allocations; *link != NULL; link = &(*link)->next) {
    allocation_t *allocation = *link;
    if (allocation->ptr == ptr && allocation->host == host) {
      flush_all(); /* as HIP: freeing waits for the device */
      *link = allocation->next;
      state.used -= host ? 0 : allocation->bytes;
      cpu_driver()->free(state.cpu, ptr);
      free(allocation);
      return hipSuccess;
    }
  }
  return hipErrorInvalidValue;
}

void *hip_double_allocate(size_t bytes) {
  void *ptr = NULL;
  pthread_mutex_lock(&lock);
  allocate(&ptr, bytes, false);
  pthread_mutex_unlock(&lock);
  return ptr;
}

void hip_double_release(void *ptr) {
  pthread_mutex_lock(&lock);
  release(ptr, false);
  pthread_mutex_unlock(&lock);
}

API hipMalloc(void **ptr, size_t bytes) {
  ENTER(hipMalloc);
  return leave(allocate(ptr, bytes, false));
}

API hipFree(void *ptr) {
  ENTER(hipFree);
  return leave(release(ptr, false));
}

API hipExtMallocWithFlags(void **ptr, size_t bytes, unsigned flags) {
  ENTER(hipExtMallocWithFlags);
  REFUSE(flags != 3, hipErrorInvalidValue);
  return leave(allocate(ptr, bytes, false));
}

/* The bytes of the handle are the address: the devices of this double are all in one process, which cannot open it. */
API hipIpcGetMemHandle(ipc_handle_t *handle, void *ptr) {
  ENTER(hipIpcGetMemHandle);
  REFUSE(handle == NULL || ptr == NULL, hipErrorInvalidValue);
  memset(handle, 0, sizeof *handle);
  memcpy(handle, &ptr, sizeof ptr);
  return leave(hipSuccess);
}

API hipIpcOpenMemHandle(void **ptr, ipc_handle_t handle, unsigned flags) {
  (void)handle;
  ENTER(hipIpcOpenMemHandle);
  REFUSE(ptr == NULL || flags != 1, hipErrorInvalidValue);
  return leave(hipErrorInvalidHandle);
}

API hipIpcCloseMemHandle(void *ptr) {
  (void)ptr;
  ENTER(hipIpcCloseMemHandle);
  return leave(hipErrorInvalidValue);
}

/* Behaves as HIP without the variable HIP_HOST_COHERENT: memory is coherent if the flags ask for it or ask for neither
 * kind. */
API hipHostMalloc(void **ptr, size_t bytes, unsigned flags) {
  const unsigned coherent = 0x40000000, not_coherent = 0x80000000;
  ENTER(hipHostMalloc);
  REFUSE((flags & ~(unsigned)0xe000000f) != 0, hipErrorInvalidValue);
  REFUSE((flags & coherent) != 0 && (flags & not_coherent) != 0, hipErrorInvalidValue);
  const int code = allocate(ptr, bytes, true);
  if (code == hipSuccess && *ptr != NULL) {
    state.allocations->coherent = flags == 0 || (flags & coherent) != 0;
  }
  return leave(code);
}

API hipHostFree(void *ptr) {
  ENTER(hipHostFree);
  return leave(release(ptr, true));
}

/* Whether the GPU can reach these bytes: they must be inside one allocation. */
static bool reachable(const void *ptr, size_t bytes) {
  const char *at = ptr;
  for (const allocation_t *allocation = state.allocations; allocation != NULL; allocation = allocation->next) {
    if (at >= allocation->ptr && at <= allocation->ptr + allocation->bytes &&
        bytes <= (size_t)(allocation->ptr + allocation->bytes - at)) {
      return true;
    }
  }
  return false;
}

static int check_copy(const void *dst, const void *src, size_t bytes, int kind) {
  if (dst == NULL || src == NULL || kind < COPY_HOST_TO_HOST || kind > COPY_ON_DEVICE) {
    return hipErrorInvalidValue;
  }
  const bool dst_ok = kind == COPY_TO_HOST || kind == COPY_HOST_TO_HOST || reachable(dst, bytes);
  const bool src_ok = kind == COPY_TO_DEVICE || kind == COPY_HOST_TO_HOST || reachable(src, bytes);
  return dst_ok && src_ok ? hipSuccess : hipErrorInvalidValue;
}

static int copy_on(void *stream_handle, void *dst, const void *src, size_t bytes) {
  stream_t *stream = object_find(KIND_STREAM, stream_handle);
  int code = hipErrorInvalidHandle;
  crk_driver_stream_t *to = stream == NULL ? NULL : target(stream, &code);
  return to == NULL ? code : failure_of(cpu_driver()->copy(state.cpu, to, dst, src, bytes, CRK_COPY_ON_DEVICE));
}

API hipMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream) {
  ENTER_LATE(hipMemcpyAsync);
  REFUSE(bytes == 0, hipSuccess);
  TRY(check_copy(dst, src, bytes, kind));
  return leave(copy_on(stream, dst, src, bytes));
}

API hipMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t bytes, void *stream) {
  ENTER(hipMemcpyPeerAsync);
  REFUSE_DEVICE(dst_device);
  REFUSE_DEVICE(src_device);
  REFUSE(bytes == 0, hipSuccess);
  TRY(check_copy(dst, src, bytes, COPY_ON_DEVICE));
  return leave(copy_on(stream, dst, src, bytes));
}

API hipDeviceCanAccessPeer(int *can_access, int device, int peer) {
  ENTER(hipDeviceCanAccessPeer);
  REFUSE(can_access == NULL, hipErrorInvalidValue);
  REFUSE_DEVICE(device);
  REFUSE_DEVICE(peer);
  *can_access = device != peer && atoi(setting("HIP_DOUBLE_PEERS", "1")) != 0;
  return leave(hipSuccess);
}

API hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  static bool enabled[64][64];
  ENTER(hipDeviceEnablePeerAccess);
  REFUSE_DEVICE(peer);
  REFUSE(flags != 0, hipErrorInvalidValue);
  REFUSE(peer == current_device || peer >= 64 || current_device >= 64, hipErrorInvalidDevice);
  REFUSE(atoi(setting("HIP_DOUBLE_PEERS", "1")) == 0, hipErrorPeerAccessUnsupported);
  REFUSE(enabled[current_device][peer], hipErrorPeerAccessAlreadyEnabled);
  enabled[current_device][peer] = true;
  return leave(hipSuccess);
}

API hipMemcpy(void *dst, const void *src, size_t bytes, int kind) {
  ENTER(hipMemcpy);
  TRY(refuse_blocking(hipErrorStreamCaptureImplicit));
  REFUSE(bytes == 0, hipSuccess);
  TRY(check_copy(dst, src, bytes, kind));
  memmove(dst, src, bytes);
  return leave(hipSuccess);
}

API hipMemsetAsync(void *dst, int value, size_t bytes, void *stream_handle) {
  ENTER_LATE(hipMemsetAsync);
  FIND(stream, stream, STREAM, stream_handle, hipErrorInvalidHandle);
  REFUSE(bytes == 0, hipSuccess);
  REFUSE(!reachable(dst, bytes), hipErrorInvalidValue);
  TARGET(to, stream);
  return leave(failure_of(cpu_driver()->memset(state.cpu, to, dst, (uint8_t)value, bytes)));
}

/* ------------------------------------------------------------------------------------------------------------------
 * Streams and events
 * ------------------------------------------------------------------------------------------------------------------ */

API hipStreamCreateWithFlags(void **out, unsigned flags) {
  ENTER(hipStreamCreateWithFlags);
  REFUSE(out == NULL || flags > 1, hipErrorInvalidValue);
  stream_t *stream = object_create(KIND_STREAM, sizeof *stream, current_device);
  if (cpu_driver()->stream_create(state.cpu, &stream->exec) != CRK_OK ||
      cpu_driver()->stream_create(state.cpu, &stream->record) != CRK_OK) {
    abort();
  }
  return give(out, &stream->object);
}

API hipStreamDestroy(void *handle) {
  pthread_mutex_lock(&lock);
  state.ending = (uintptr_t)handle;
  pthread_mutex_unlock(&lock);
  const int rule = enter(CALL_hipStreamDestroy);
  state.ending = 0;
  TRY(rule);
  FIND(stream, stream, STREAM, handle, hipErrorInvalidHandle);
  flush(stream);
  cpu_driver()->stream_destroy(state.cpu, stream->exec); /* also drops the work of a capture */
  cpu_driver()->stream_destroy(state.cpu, stream->record);
  object_destroy(stream);
  return leave(hipSuccess);
}

static int wait_for(stream_t *stream) {
  flush(stream);
  return stream->failure; /* permanent: a GPU does not recover from a fault */
}

API hipStreamSynchronize(void *handle) {
  if (instant) {
    return hipSuccess;
  }
  const int rule = enter(CALL_hipStreamSynchronize);
  FIND(stream, stream, STREAM, handle, hipErrorInvalidHandle);
  if (rule != hipSuccess) { /* after a failed wait no copy may write to the caller's memory */
    flush(stream);
    return leave(rule);
  }
  TRY(refuse_captured(stream));
  return leave(wait_for(stream));
}

API hipEventCreateWithFlags(void **out, unsigned flags) {
  ENTER(hipEventCreateWithFlags);
  REFUSE(out == NULL || (flags & ~7u) != 0, hipErrorInvalidValue);
  event_t *event = object_create(KIND_EVENT, sizeof *event, current_device);
  return give(out, &event->object);
}

/* HIP's calls about an event read the stream that recorded it. So that stream must not be destroyed meanwhile. */
static void check_stream_of(const event_t *event) {
  if (event->recorded && event->stream == state.ending) {
    fputs("hip_double: a call about an event, whose stream is being destroyed\n", stderr);
    abort();
  }
}

API hipEventDestroy(void *handle) {
  ENTER(hipEventDestroy);
  FIND(event, event, EVENT, handle, hipErrorInvalidHandle);
  check_stream_of(event);
  object_destroy(event);
  return leave(hipSuccess);
}

API hipEventRecord(void *handle, void *stream_handle) {
  ENTER_LATE(hipEventRecord);
  FIND(event, event, EVENT, handle, hipErrorInvalidHandle);
  FIND(stream, stream, STREAM, stream_handle, hipErrorInvalidHandle);
  check_stream_of(event);
  REFUSE(event->object.device != stream->object.device, hipErrorInvalidHandle);
  REFUSE(stream->capture == STATUS_INVALIDATED, hipErrorStreamCaptureInvalidated);
  event->recorded = true;
  event->captured = stream->capture == STATUS_ACTIVE;
  event->stream = stream->object.handle;
  event->epoch = stream->epoch;
  event->waits = stream->pending;
  event->seconds = crk_priv_seconds();
  return leave(hipSuccess);
}

/* The stream with the work that an event waits for, or NULL if that work is done. */
static stream_t *awaited(const event_t *event) {
  if (!event->recorded || !event->waits) {
    return NULL;
  }
  stream_t *stream = object_find(KIND_STREAM, (void *)event->stream);
  return stream != NULL && stream->epoch == event->epoch ? stream : NULL;
}

/* An event recorded in a capture has no meaning outside of it, and querying it spoils the capture. As in runtimes up to
 * early 2026, an event remembers only its stream. So querying an event that was recorded before the stream's current
 * capture spoils that capture too. */
static int refuse_captured_event(const event_t *event) {
  stream_t *stream = event->recorded ? object_find(KIND_STREAM, (void *)event->stream) : NULL;
  const bool is_active = stream != NULL && stream->capture == STATUS_ACTIVE;
  if (is_active) {
    invalidate(stream);
  }
  return is_active || event->captured ? hipErrorCapturedEvent : hipSuccess;
}

/* If there is pending work, returns not ready and then does the work, so that a caller who asks again makes
 * progress. */
API hipEventQuery(void *handle) {
  ENTER_LATE(hipEventQuery);
  FIND(event, event, EVENT, handle, hipErrorInvalidHandle);
  check_stream_of(event);
  TRY(refuse_captured_event(event));
  stream_t *stream = awaited(event);
  if (stream != NULL) {
    flush(stream);
    return leave(hipErrorNotReady);
  }
  return leave(hipSuccess);
}

API hipEventSynchronize(void *handle) {
  ENTER_LATE(hipEventSynchronize);
  FIND(event, event, EVENT, handle, hipErrorInvalidHandle);
  check_stream_of(event);
  TRY(refuse_captured_event(event));
  stream_t *stream = awaited(event);
  return leave(stream == NULL ? hipSuccess : wait_for(stream));
}

API hipEventElapsedTime(float *milliseconds, void *start_handle, void *end_handle) {
  ENTER(hipEventElapsedTime);
  REFUSE(milliseconds == NULL, hipErrorInvalidValue);
  FIND(event, from, EVENT, start_handle, hipErrorInvalidHandle);
  FIND(event, to, EVENT, end_handle, hipErrorInvalidHandle);
  check_stream_of(from);
  check_stream_of(to);
  REFUSE(!from->recorded || !to->recorded || from->object.device != to->object.device, hipErrorInvalidHandle);
  REFUSE(from->captured || to->captured, hipErrorCapturedEvent);
  stream_t *first = awaited(from), *second = awaited(to);
  if (first != NULL || second != NULL) {
    flush(first != NULL ? first : second);
    return leave(hipErrorNotReady);
  }
  *milliseconds = (float)((to->seconds - from->seconds) * 1e3);
  return leave(hipSuccess);
}

API hipStreamWaitEvent(void *stream_handle, void *event_handle, unsigned flags) {
  ENTER_LATE(hipStreamWaitEvent);
  FIND(stream, stream, STREAM, stream_handle, hipErrorInvalidHandle);
  FIND(event, event, EVENT, event_handle, hipErrorInvalidHandle);
  REFUSE(flags != 0, hipErrorInvalidValue);
  REFUSE(stream->capture == STATUS_INVALIDATED, hipErrorStreamCaptureInvalidated);
  if (stream->capture == STATUS_ACTIVE || event->captured) { /* captures over two streams are not supported */
    const bool joins = event->captured && event->stream == stream->object.handle;
    if (!joins) {
      invalidate(stream);
      return leave(hipErrorStreamCaptureIsolation);
    }
    return leave(hipSuccess);
  }
  TRY(refuse_captured_event(event));
  stream_t *other = awaited(event);
  if (other != NULL && other != stream) {
    flush(other);
  }
  return leave(hipSuccess);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Modules and launches
 * ------------------------------------------------------------------------------------------------------------------ */

static uint64_t read_le(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; i--) {
    value = value << 8 | at[i];
  }
  return value;
}

/* As HIP, which gets no size: the image ends with its section headers. */
API hipModuleLoadData(void **out, const void *image) {
  ENTER(hipModuleLoadData);
  TRY(refuse_unsafe());
  const unsigned char *elf = image;
  REFUSE(out == NULL || elf == NULL, hipErrorInvalidValue);
  REFUSE((uintptr_t)elf % 64 != 0,
         hipErrorInvalidValue); /* stricter than HIP: an unaligned image is slow or fails */
  REFUSE(memcmp(elf, "\177ELF", 4) != 0, hipErrorInvalidImage);
  const size_t bytes = (size_t)(read_le(elf + 40, 8) + read_le(elf + 60, 2) * 64);
  crk_image_t found = {NULL, 0};
  const crk_status_t status = crk_priv_code_object_find("image", state.architecture, elf, bytes, &found);
  REFUSE(status == CRK_WRONG_ARCHITECTURE, hipErrorNoBinaryForGpu);
  REFUSE(status != CRK_OK, hipErrorInvalidImage);
  crk_code_kernels_t *kernels = NULL;
  REFUSE(crk_priv_code_kernels_create("image", found, &kernels) != CRK_OK || kernels == NULL, hipErrorInvalidImage);
  module_t *module = object_create(KIND_MODULE, sizeof *module, current_device);
  module->image = elf;
  module->kernels = kernels;
  return give(out, &module->object);
}

API hipModuleUnload(void *handle) {
  ENTER(hipModuleUnload);
  TRY(refuse_unsafe());
  FIND(module, module, MODULE, handle, hipErrorInvalidHandle);
  flush_all();
  for (size_t i = 0; i < state.object_count; i++) {
    function_t *function = (function_t *)state.objects[i];
    if (function != NULL && function->object.kind == KIND_FUNCTION && function->module == module->object.handle) {
      object_destroy(function);
    }
  }
  crk_priv_code_kernels_destroy(module->kernels);
  object_destroy(module);
  return leave(hipSuccess);
}

/* The CPU driver's function of a kernel, from any of its modules; NULL if there is none. */
static crk_driver_function_t *cpu_function(const char *name, crk_signature_t *signature) {
  for (size_t i = 0; i < CRK_MODULE_COUNT; i++) {
    const crk_image_t image = cpu_driver()->builtin(i);
    if (image.data == NULL) {
      continue;
    }
    if (state.modules[i] == NULL &&
        cpu_driver()->module_load(state.cpu, "builtin", image.data, 0, &state.modules[i]) != CRK_OK) {
      abort();
    }
    crk_driver_function_t *function = NULL;
    if (cpu_driver()->module_function(state.cpu, state.modules[i], name, &function, signature) == CRK_OK) {
      return function;
    }
  }
  return NULL;
}

API hipModuleGetFunction(void **out, void *handle, const char *name) {
  ENTER(hipModuleGetFunction);
  REFUSE(out == NULL || name == NULL, hipErrorInvalidValue);
  FIND(module, module, MODULE, handle, hipErrorInvalidHandle);
  REFUSE(memcmp(module->image, "\177ELF", 4) != 0, hipErrorInvalidImage); /* the caller has freed the image */
  const crk_code_kernel_t *kernel = crk_priv_code_kernels_find(module->kernels, name);
  crk_signature_t signature = {NULL, 0, 0, 0, 0};
  crk_driver_function_t *cpu = kernel == NULL ? NULL : cpu_function(name, &signature);
  REFUSE(cpu == NULL, hipErrorNotFound);
  bool same = signature.count == kernel->param_count;
  for (size_t i = 0; same && i < signature.count; i++) {
    same = signature.params[i].bytes == kernel->params[i].bytes;
  }
  REFUSE(!same, hipErrorInvalidImage); /* compiled from other sources than this library's kernels */
  function_t *function = object_create(KIND_FUNCTION, sizeof *function, module->object.device);
  function->module = module->object.handle;
  function->cpu = cpu;
  function->signature = signature;
  function->max_threads = kernel->max_threads;
  snprintf(function->name, sizeof function->name, "%s", name);
  return give(out, &function->object);
}

/* Runs a kernel that waits for kernels of other devices: at once, while other threads may call the runtime. */
static int wait_for_peers(stream_t *stream, function_t *function, const crk_dim3_t *grid, const crk_dim3_t *block,
                          const void *const *values) {
  flush(stream);
  note_launch(function, grid);
  crk_driver_stream_t *to = stream->exec;
  crk_driver_function_t *cpu = function->cpu;
  pthread_mutex_unlock(&lock);
  const crk_status_t status = cpu_driver()->launch(state.cpu, to, cpu, *grid, *block, 0, values);
  pthread_mutex_lock(&lock);
  return leave(failure_of(status));
}

/* hipSuccess if a function of `device` can be launched so. Checks the current device too. */
static int refuse_launch(const function_t *function, int device, const launch_t *launch) {
  if (function == NULL || function->object.device != device || current_device != device) {
    return hipErrorInvalidHandle;
  }
  if (launch->extra != NULL || (launch->args == NULL && function->signature.count > 0)) {
    return hipErrorInvalidValue;
  }
  const uint64_t grid[] = {launch->grid.x, launch->grid.y, launch->grid.z};
  const uint64_t block[] = {launch->block.x, launch->block.y, launch->block.z};
  uint64_t block_threads = 1;
  for (int i = 0; i < 3; i++) {
    if (grid[i] == 0 || block[i] == 0 || block[i] > 1024 || grid[i] * block[i] > UINT32_MAX) {
      return hipErrorInvalidConfiguration;
    }
    block_threads *= block[i];
  }
  const bool fits = block_threads <= function->max_threads && launch->shared_bytes <= 65536;
  return fits ? hipSuccess : hipErrorInvalidConfiguration;
}

/* Whether a kernel waits for kernels of other devices. */
static bool waits_for_peers(const function_t *function) {
  return strncmp(function->name, "one_shot", 8) == 0 || strncmp(function->name, "marked", 6) == 0 ||
         strcmp(function->name, "meet") == 0;
}

API hipModuleLaunchKernel(void *handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream_handle, void **params,
                          void **extra) {
  ENTER_LATE(hipModuleLaunchKernel);
  FIND(function, function, FUNCTION, handle, hipErrorInvalidHandle);
  FIND(stream, stream, STREAM, stream_handle, hipErrorInvalidHandle);
  const launch_t launch = {
      {block_x, block_y, block_z}, extra, handle, {grid_x, grid_y, grid_z}, params, shared_bytes};
  TRY(refuse_launch(function, stream->object.device, &launch));
  const void *const *values = (const void *const *)params;
  if (waits_for_peers(function) && stream->capture == STATUS_NONE) {
    return wait_for_peers(stream, function, &launch.grid, &launch.block, values);
  }
  TARGET(to, stream);
  note_launch(function, &launch.grid);
  const crk_status_t status =
      cpu_driver()->launch(state.cpu, to, function->cpu, launch.grid, launch.block, shared_bytes, values);
  return leave(failure_of(status));
}

/* ------------------------------------------------------------------------------------------------------------------
 * Captures and graphs
 * ------------------------------------------------------------------------------------------------------------------ */

API hipStreamBeginCapture(void *handle, int mode) {
  ENTER(hipStreamBeginCapture);
  FIND(stream, stream, STREAM, handle, hipErrorInvalidHandle);
  REFUSE(mode < CAPTURE_GLOBAL || mode > CAPTURE_RELAXED, hipErrorInvalidValue);
  REFUSE(stream->capture == STATUS_ACTIVE, hipErrorIllegalState);
  flush(stream);
  if (stream->capture == STATUS_INVALIDATED) { /* drops the work of the spoilt capture */
    stream->capture = STATUS_NONE;
    if (stream->recording) {
      cpu_driver()->capture_end(state.cpu, stream->record, NULL);
    }
  }
  stream->recording = true;
  REFUSE(cpu_driver()->capture_begin(state.cpu, stream->record) != CRK_OK, hipErrorOutOfMemory);
  stream->capture = STATUS_ACTIVE;
  stream->mode = mode;
  stream->capturer = pthread_self();
  return leave(hipSuccess);
}

static void *zeroed(size_t bytes) {
  void *memory = calloc(1, bytes);
  if (memory == NULL) {
    abort();
  }
  return memory;
}

static work_t *work_create(void) {
  work_t *work = zeroed(sizeof *work);
  work->owners = 1;
  work->last = &work->nodes;
  return work;
}

/* A spoilt capture ends with an error. As in HIP, the stream stays spoilt until a new capture begins. */
API hipStreamEndCapture(void *handle, void **out) {
  ENTER(hipStreamEndCapture);
  REFUSE(out == NULL, hipErrorInvalidValue);
  FIND(stream, stream, STREAM, handle, hipErrorInvalidHandle);
  REFUSE(stream->capture == STATUS_NONE, hipErrorIllegalState);
  REFUSE(stream->mode != CAPTURE_RELAXED && !pthread_equal(stream->capturer, pthread_self()),
         hipErrorStreamCaptureWrongThread);
  crk_driver_graph_t *recorded = NULL;
  const bool whole = stream->capture == STATUS_ACTIVE;
  REFUSE(!stream->recording, hipErrorStreamCaptureInvalidated); /* ended before */
  const crk_status_t status = cpu_driver()->capture_end(state.cpu, stream->record, whole ? &recorded : NULL);
  stream->recording = false;
  if (!whole) {
    *out = NULL;
    return leave(hipErrorStreamCaptureInvalidated);
  }
  stream->capture = STATUS_NONE;
  REFUSE(status != CRK_OK, hipErrorUnknown);
  graph_t *graph = object_create(KIND_GRAPH, sizeof *graph, stream->object.device);
  graph->work = work_create();
  graph->work->captured = recorded;
  return give(out, &graph->object);
}

API hipStreamIsCapturing(void *handle, int *status) {
  ENTER(hipStreamIsCapturing);
  REFUSE(status == NULL, hipErrorInvalidValue);
  FIND(stream, stream, STREAM, handle, hipErrorInvalidHandle);
  *status = stream->capture;
  return leave(hipSuccess);
}

/* The function of a node; NULL if its module has been unloaded. */
static const function_t *function_of(const launch_t *launch) { return object_find(KIND_FUNCTION, launch->function); }

/* Gives a node the launch, with copies of its arguments. */
static void node_set(node_t *node, const launch_t *launch) {
  const crk_signature_t *signature = &function_of(launch)->signature;
  size_t bytes = 0;
  for (size_t i = 0; i < signature->count; i++) {
    bytes += (size_t)crk_priv_round_up(signature->params[i].bytes, 16);
  }
  void **args = zeroed((signature->count + 1) * sizeof *args);
  char *memory = zeroed(bytes + 1), *to = memory;
  for (size_t i = 0; i < signature->count; i++) {
    args[i] = memcpy(to, launch->args[i], signature->params[i].bytes);
    to += crk_priv_round_up(signature->params[i].bytes, 16);
  }
  free(node->memory);
  free(node->launch.args);
  node->memory = memory;
  node->launch = *launch;
  node->launch.args = args;
}

static void graph_release(graph_t *graph) {
  work_t *work = graph->work;
  if (--work->owners == 0) {
    if (work->captured != NULL) {
      cpu_driver()->graph_destroy(state.cpu, work->captured);
    }
    for (node_t *node = work->nodes; node != NULL;) {
      node_t *next = node->next;
      free(node->memory);
      free(node->launch.args);
      object_destroy(node);
      node = next;
    }
    free(work);
  }
  object_destroy(graph);
}

API hipGraphCreate(void **out, unsigned flags) {
  ENTER(hipGraphCreate);
  REFUSE(out == NULL || flags != 0, hipErrorInvalidValue);
  graph_t *graph = object_create(KIND_GRAPH, sizeof *graph, current_device);
  graph->work = work_create();
  return give(out, &graph->object);
}

static bool has_node(const graph_t *graph, const void *handle) {
  const node_t *node = graph->work->nodes;
  while (node != NULL && node->object.handle != (uintptr_t)handle) {
    node = node->next;
  }
  return node != NULL;
}

/* Nodes run in the order in which they were added. So each must come behind the one before it. A graph of nodes that
 * wait for other devices is not simulated. */
API hipGraphAddKernelNode(void **out, void *handle, void *const *before, size_t count, const launch_t *launch) {
  ENTER(hipGraphAddKernelNode);
  REFUSE(out == NULL || launch == NULL || (count > 0 && before == NULL), hipErrorInvalidValue);
  FIND(graph, graph, GRAPH, handle, hipErrorInvalidValue);
  work_t *work = graph->work;
  for (size_t i = 0; i < count; i++) {
    REFUSE(!has_node(graph, before[i]), hipErrorInvalidValue);
  }
  REFUSE(work->captured != NULL || work->is_instantiated, hipErrorNotSupported);
  const node_t *latest = work->nodes;
  while (latest != NULL && latest->next != NULL) {
    latest = latest->next;
  }
  REFUSE(latest != NULL && (count != 1 || latest->object.handle != (uintptr_t)before[0]), hipErrorNotSupported);
  const function_t *function = function_of(launch);
  TRY(refuse_launch(function, graph->object.device, launch));
  REFUSE(waits_for_peers(function), hipErrorNotSupported);
  node_t *node = object_create(KIND_NODE, sizeof *node, graph->object.device);
  node_set(node, launch);
  *work->last = node;
  work->last = &node->next;
  return give(out, &node->object);
}

/* Work that has been launched keeps its arguments. */
API hipGraphExecKernelNodeSetParams(void *handle, void *node_handle, const launch_t *launch) {
  ENTER_LATE(hipGraphExecKernelNodeSetParams);
  REFUSE(launch == NULL, hipErrorInvalidValue);
  FIND(graph, exec, EXEC, handle, hipErrorInvalidValue);
  FIND(node, node, NODE, node_handle, hipErrorInvalidValue);
  REFUSE(exec->work->has_lost_graph || !has_node(exec, node_handle), hipErrorInvalidValue);
  REFUSE(launch->function != node->launch.function, hipErrorInvalidValue);
  TRY(refuse_launch(function_of(launch), exec->object.device, launch));
  node_set(node, launch);
  return leave(hipSuccess);
}

API hipGraphInstantiate(void **out, void *handle, void **error_node, char *log, size_t log_bytes) {
  ENTER(hipGraphInstantiate);
  (void)error_node, (void)log, (void)log_bytes;
  REFUSE(out == NULL, hipErrorInvalidValue);
  FIND(graph, graph, GRAPH, handle, hipErrorInvalidValue);
  work_t *work = graph->work;
  REFUSE(work->captured == NULL && work->is_instantiated, hipErrorNotSupported);
  work->is_instantiated = true;
  work->owners++;
  graph_t *exec = object_create(KIND_EXEC, sizeof *exec, current_device);
  exec->work = work;
  return give(out, &exec->object);
}

/* Gives the nodes to the stream as launches, which it collects as it does others. */
static int launch_nodes(const work_t *work, stream_t *stream) {
  for (const node_t *node = work->nodes; node != NULL; node = node->next) {
    TRY(refuse_launch(function_of(&node->launch), stream->object.device, &node->launch));
  }
  TARGET(to, stream);
  for (const node_t *node = work->nodes; node != NULL; node = node->next) {
    const launch_t *launch = &node->launch;
    const function_t *function = function_of(launch);
    note_launch(function, &launch->grid);
    const crk_status_t status = cpu_driver()->launch(state.cpu, to, function->cpu, launch->grid, launch->block,
                                                     launch->shared_bytes, (const void *const *)launch->args);
    REFUSE(status != CRK_OK, failure_of(status));
  }
  return leave(hipSuccess);
}

API hipGraphLaunch(void *handle, void *stream_handle) {
  ENTER_LATE(hipGraphLaunch);
  FIND(graph, exec, EXEC, handle, hipErrorInvalidValue);
  FIND(stream, stream, STREAM, stream_handle, hipErrorInvalidHandle);
  TRY(refuse_captured(stream));
  if (exec->work->captured == NULL) {
    return launch_nodes(exec->work, stream);
  }
  flush(stream);
  const int code = failure_of(cpu_driver()->graph_launch(state.cpu, exec->work->captured, stream->exec));
  if (code != hipSuccess && stream->failure == 0) {
    stream->failure = code;
  }
  return leave(hipSuccess);
}

API hipGraphDestroy(void *handle) {
  ENTER(hipGraphDestroy);
  FIND(graph, graph, GRAPH, handle, hipErrorInvalidValue);
  graph->work->has_lost_graph = true;
  graph_release(graph);
  return leave(hipSuccess);
}

API hipGraphExecDestroy(void *handle) {
  ENTER(hipGraphExecDestroy);
  FIND(graph, exec, EXEC, handle, hipErrorInvalidValue);
  graph_release(exec);
  return leave(hipSuccess);
}
