/* The CUDA driver: NVIDIA GPUs through libcuda, opened at run time.
 *
 * No CUDA header is needed: the types and calls in use are declared here, with the ABI that they have had since CUDA
 * 11.4. The core gets libcuda's own handles for streams, events and graphs. A device uses its primary context, so that
 * other users of CUDA in this process see the same memory. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call/early.h"
#include "driver/driver.h"
#include "error.h"
#include "image/cuda_image.h"
#include "image/images.h"
#include "image/unpack.h"
#include "os/os.h"

#if defined(_WIN32)
#define CU_CALL      __stdcall
#define CUDA_LIBRARY "nvcuda.dll"
#else
#define CU_CALL
#define CUDA_LIBRARY "libcuda.so.1"
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * libcuda
 * ------------------------------------------------------------------------------------------------------------------ */

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr; /* in a 64-bit process */
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;

/* CUDA_KERNEL_NODE_PARAMS_v1. */
typedef struct crk_cuda_node {
  CUfunction function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void **args, **extra;
} crk_cuda_node_t;

/* CUlaunchAttribute. */
typedef struct crk_cuda_attribute {
  int id;
  int padding;
  union {
    int number;
    void *pointer;
    char bytes[64];
  } value;
} crk_cuda_attribute_t;
_Static_assert(sizeof(crk_cuda_attribute_t) == 72, "as cuda.h has it");

/* CUlaunchConfig. */
typedef struct crk_cuda_config {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  CUstream stream;
  crk_cuda_attribute_t *attributes;
  unsigned attribute_count;
} crk_cuda_config_t;
_Static_assert(sizeof(void *) != 8 || sizeof(crk_cuda_config_t) == 56, "the same");

/* CUgraphEdgeData. */
typedef struct crk_cuda_edge {
  unsigned char from_port, to_port, type, reserved[5];
} crk_cuda_edge_t;
_Static_assert(sizeof(crk_cuda_edge_t) == 8, "the same");

/* The answers of libcuda that are used here. */
enum {
  CU_SUCCESS = 0,
  CU_OUT_OF_MEMORY = 2,
  CU_STUB_LIBRARY = 34,
  CU_NO_DEVICE = 100,
  CU_INVALID_IMAGE = 200,
  CU_NO_BINARY_FOR_GPU = 209,
  CU_INVALID_PTX = 218,
  CU_UNSUPPORTED_PTX_VERSION = 222,
  CU_INVALID_SOURCE = 300,
  CU_NOT_FOUND = 500,
  CU_NOT_READY = 600,
  CU_PEER_ACCESS_ALREADY_ENABLED = 704,
  CU_STREAM_CAPTURE_FIRST = 900,
  CU_STREAM_CAPTURE_LAST = 908
};

enum {
  CU_DEVICE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_MAX_BLOCK_DIM_X = 2, /* and y, z after it */
  CU_DEVICE_MAX_GRID_DIM_X = 5,  /* the same */
  CU_DEVICE_WARP_SIZE = 10,
  CU_DEVICE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_PCI_BUS_ID = 33,
  CU_DEVICE_PCI_DEVICE_ID = 34,
  CU_DEVICE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_PCI_DOMAIN_ID = 50,
  CU_DEVICE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  CU_DEVICE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};

enum {
  CU_FUNCTION_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNCTION_SHARED_SIZE_BYTES = 1,
  CU_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};

/* The launch attribute and the edge that let a kernel begin early (CRK_BEGINS_EARLY in kernels/platform/entry.h). */
enum { CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION = 6 };
enum { CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC = 1, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC = 1 };

enum { CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 };
enum { CU_MEMHOSTALLOC_PORTABLE = 1 };
enum { CU_STREAM_NON_BLOCKING = 1 };
enum { CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1 };
/* Relaxed: while one handle is captured, the same thread may allocate memory and load modules through others. */
enum { CU_STREAM_CAPTURE_MODE_RELAXED = 2 };

/* REQUIRED(name, parameters) and OPTIONAL(name, parameters): every call of libcuda in use, by its exported name. All
 * return a CUresult. */
#define CUDA_SYMBOLS(REQUIRED, OPTIONAL)                                                                            \
  REQUIRED(cuInit, (unsigned flags))                                                                                \
  REQUIRED(cuDriverGetVersion, (int *version))                                                                      \
  REQUIRED(cuGetErrorName, (CUresult error, const char **name))                                                     \
  REQUIRED(cuDeviceGetCount, (int *count))                                                                          \
  REQUIRED(cuDeviceGet, (CUdevice * device, int ordinal))                                                           \
  REQUIRED(cuDeviceGetName, (char *name, int bytes, CUdevice device))                                               \
  REQUIRED(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device))                                                   \
  REQUIRED(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                                      \
  REQUIRED(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                        \
  REQUIRED(cuCtxGetCurrent, (CUcontext * context))                                                                  \
  REQUIRED(cuCtxSetCurrent, (CUcontext context))                                                                    \
  REQUIRED(cuMemGetInfo_v2, (size_t *free_bytes, size_t *total_bytes))                                              \
  REQUIRED(cuMemAlloc_v2, (CUdeviceptr * ptr, size_t bytes))                                                        \
  REQUIRED(cuMemFree_v2, (CUdeviceptr ptr))                                                                         \
  REQUIRED(cuMemHostAlloc, (void **ptr, size_t bytes, unsigned flags))                                              \
  REQUIRED(cuMemFreeHost, (void *ptr))                                                                              \
  REQUIRED(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream))                 \
  REQUIRED(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream))                       \
  REQUIRED(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream))                 \
  REQUIRED(cuMemcpyPeerAsync, (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,      \
                               size_t bytes, CUstream stream))                                                      \
  REQUIRED(cuDeviceCanAccessPeer, (int *can_access, CUdevice device, CUdevice peer))                                \
  REQUIRED(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags))                                                 \
  OPTIONAL(cuIpcGetMemHandle, (crk_peer_handle_t * handle, CUdeviceptr ptr))                                        \
  OPTIONAL(cuIpcOpenMemHandle_v2, (CUdeviceptr * ptr, crk_peer_handle_t handle, unsigned flags))                    \
  OPTIONAL(cuIpcCloseMemHandle, (CUdeviceptr ptr))                                                                  \
  REQUIRED(cuMemsetD8Async, (CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream))                  \
  REQUIRED(cuStreamCreate, (CUstream * stream, unsigned flags))                                                     \
  REQUIRED(cuStreamDestroy_v2, (CUstream stream))                                                                   \
  REQUIRED(cuStreamSynchronize, (CUstream stream))                                                                  \
  REQUIRED(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                     \
  REQUIRED(cuEventCreate, (CUevent * event, unsigned flags))                                                        \
  REQUIRED(cuEventDestroy_v2, (CUevent event))                                                                      \
  REQUIRED(cuEventRecord, (CUevent event, CUstream stream))                                                         \
  REQUIRED(cuEventQuery, (CUevent event))                                                                           \
  REQUIRED(cuEventSynchronize, (CUevent event))                                                                     \
  REQUIRED(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))                                   \
  REQUIRED(cuModuleLoadDataEx,                                                                                      \
           (CUmodule * module, const void *image, unsigned option_count, int *options, void **option_values))       \
  REQUIRED(cuModuleUnload, (CUmodule module))                                                                       \
  REQUIRED(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))                         \
  REQUIRED(cuModuleGetGlobal_v2, (CUdeviceptr * ptr, size_t *bytes, CUmodule module, const char *name))             \
  REQUIRED(cuFuncGetAttribute, (int *value, int attribute, CUfunction function))                                    \
  REQUIRED(cuFuncSetAttribute, (CUfunction function, int attribute, int value))                                     \
  REQUIRED(cuLaunchKernel,                                                                                          \
           (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,               \
            unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **args, void **extra)) \
  OPTIONAL(cuLaunchKernelEx, (const crk_cuda_config_t *config, CUfunction function, void **args, void **extra))     \
  REQUIRED(cuStreamBeginCapture_v2, (CUstream stream, int mode))                                                    \
  REQUIRED(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                                  \
  REQUIRED(cuGraphInstantiateWithFlags, (CUgraphExec * instance, CUgraph graph, unsigned long long flags))          \
  REQUIRED(cuGraphDestroy, (CUgraph graph))                                                                         \
  REQUIRED(cuGraphLaunch, (CUgraphExec instance, CUstream stream))                                                  \
  REQUIRED(cuGraphExecDestroy, (CUgraphExec instance))                                                              \
  OPTIONAL(cuGraphCreate, (CUgraph * graph, unsigned flags))                                                        \
  OPTIONAL(cuGraphAddKernelNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t count,       \
                                  const crk_cuda_node_t *launch))                                                   \
  OPTIONAL(cuGraphAddDependencies_v2, (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,               \
                                       const crk_cuda_edge_t *edges, size_t count)) /* 12.3 */                      \
  OPTIONAL(cuGraphExecKernelNodeSetParams, (CUgraphExec instance, CUgraphNode node, const crk_cuda_node_t *launch)) \
  OPTIONAL(cuFuncGetParamInfo, (CUfunction function, size_t index, size_t *offset, size_t *bytes)) /* 12.4 */

/* The calls by name, in the order of cuda_symbols. cuda_load fills them in; then they stay the same. */
static struct {
#define XX(name, parameters) CUresult(CU_CALL *name) parameters;
  CUDA_SYMBOLS(XX, XX)
#undef XX
} cu;

static const char *const cuda_symbols[] = {CUDA_SYMBOLS(CRK_SYMBOL, CRK_SYMBOL_OPTIONAL) NULL};

struct crk_driver_device {
  struct crk_driver_device *next;
  int32_t ordinal;
  CUdevice device;
  CUcontext context;
  int capability; /* 90 for compute capability 9.0 */
  int shared_bytes; /* the most shared memory of a block */
};

struct crk_driver_function {
  struct crk_driver_function *next;
  CUfunction function;
  bool begins_early; /* has CRK_EARLY_VARIABLE (kernels/call/early.h) */
  crk_param_t params[];
};

struct crk_driver_module {
  CUmodule module;
  crk_mutex_t lock;
  struct crk_driver_function *functions;
};

/* Guards loading and the list of devices. */
static crk_mutex_t cuda_lock = CRK_MUTEX_INIT;
static crk_driver_device_t *devices;
static bool initialised; /* cuInit has succeeded, or has found no device */
static bool no_device; /* cuInit has found no device */

/* ------------------------------------------------------------------------------------------------------------------
 * Errors
 * ------------------------------------------------------------------------------------------------------------------ */

/* The status for an answer of libcuda. */
static crk_status_t cuda_status(CUresult result) {
  if (result >= CU_STREAM_CAPTURE_FIRST && result <= CU_STREAM_CAPTURE_LAST) {
    return CRK_CAPTURE;
  }
  switch (result) {
    case CU_SUCCESS:
      return CRK_OK;
    case CU_OUT_OF_MEMORY:
      return CRK_OUT_OF_MEMORY;
    case CU_STUB_LIBRARY:
      return CRK_NO_RUNTIME;
    case CU_NO_DEVICE:
      return CRK_NO_DEVICE;
    case CU_NO_BINARY_FOR_GPU:
      return CRK_WRONG_ARCHITECTURE;
    case CU_INVALID_IMAGE:
    case CU_INVALID_PTX:
    case CU_INVALID_SOURCE:
    case CU_UNSUPPORTED_PTX_VERSION:
      return CRK_INVALID_IMAGE;
    case CU_NOT_READY:
      return CRK_NOT_READY;
    default:
      return CRK_DEVICE;
  }
}

/* Fails with the sentence "<call> answers 2 (CUDA_ERROR_OUT_OF_MEMORY)". The format makes <call>, such as
 * "cuMemAlloc(4096 bytes)". Not inline, so that a successful call costs one comparison. */
static crk_status_t cuda_failed(CUresult result, const char *format, ...) CRK_PRINTF(2, 3);
static crk_status_t cuda_failed(CUresult result, const char *format, ...) {
  char call[512];
  va_list args;
  va_start(args, format);
  vsnprintf(call, sizeof call, format, args);
  va_end(args);
  const char *name = NULL;
  if (cu.cuGetErrorName(result, &name) != CU_SUCCESS || name == NULL) {
    name = "an error without a name";
  }
  const crk_status_t status = cuda_status(result);
  if (status == CRK_DEVICE) {
    return crk_priv_device_error(result, "%s answers %d (%s)", call, result, name);
  }
  return crk_priv_error(status, "%s answers %d (%s)", call, result, name);
}

/* Returns from the calling function where a call of libcuda fails. The other arguments describe the call. */
#define CU_TRY(expr, ...)                              \
  do {                                                 \
    const CUresult cu_try_result_ = (expr);            \
    if (cu_try_result_ != CU_SUCCESS) {                \
      return cuda_failed(cu_try_result_, __VA_ARGS__); \
    }                                                  \
  } while (0)

/* Makes the device's context the current one of this thread. Asks libcuda each time which context is current, since
 * other code in the thread may have changed it. */
static crk_status_t cuda_bind(const crk_driver_device_t *device) {
  CUcontext current = NULL;
  if (cu.cuCtxGetCurrent(&current) != CU_SUCCESS || current != device->context) {
    CU_TRY(cu.cuCtxSetCurrent(device->context), "cuCtxSetCurrent(device %d)", (int)device->ordinal);
  }
  return CRK_OK;
}

static CUdeviceptr device_ptr(const void *ptr) { return (CUdeviceptr)(uintptr_t)ptr; }

/* ------------------------------------------------------------------------------------------------------------------
 * Loading
 * ------------------------------------------------------------------------------------------------------------------ */

/* The name or path of libcuda. */
static char cuda_path[4096];

/* Opens libcuda and finds its calls. The caller holds `cuda_lock`. */
static crk_status_t open_libcuda(void) {
  /* Never closed: once unloaded, libcuda cannot be initialised again in the same process. */
  static void *library;
  static bool complete;
  if (complete) {
    return CRK_OK;
  }
  if (library == NULL) {
    char why[512] = "";
    if (crk_priv_variable("CANDLE_ROCM_CUDA_LIBRARY", cuda_path, sizeof cuda_path)) {
      library = crk_priv_library_open(cuda_path, why, sizeof why);
      if (library == NULL) {
        return crk_priv_error(CRK_NO_RUNTIME,
                              "CUDA: the library %s, named by CANDLE_ROCM_CUDA_LIBRARY, cannot be opened: %s",
                              cuda_path, why);
      }
    } else {
      snprintf(cuda_path, sizeof cuda_path, "%s", CUDA_LIBRARY);
      library = crk_priv_library_open(cuda_path, why, sizeof why);
      if (library == NULL) {
        return crk_priv_advise(
            crk_priv_error(CRK_NO_RUNTIME, "CUDA: no NVIDIA driver: %s cannot be opened: %s", cuda_path, why),
            "install the driver, or name the file in CANDLE_ROCM_CUDA_LIBRARY");
      }
    }
  }
  const char *missing = crk_priv_library_functions(library, cuda_symbols, &cu);
  if (missing != NULL) {
    return crk_priv_advise(crk_priv_error(CRK_NO_RUNTIME, "CUDA: %s has no %s", cuda_path, missing),
                           "install an NVIDIA driver for CUDA 11.4 or later");
  }
  complete = true;
  return CRK_OK;
}

static crk_status_t cuda_load_locked(void) {
  if (initialised) {
    return CRK_OK;
  }
  CRK_TRY(open_libcuda());
  const CUresult result = cu.cuInit(0);
  if (result != CU_SUCCESS && result != CU_NO_DEVICE) {
    return cuda_failed(result, "cuInit(0)");
  }
  no_device = result == CU_NO_DEVICE;
  initialised = true;
  return CRK_OK;
}

static crk_status_t cuda_load(void) {
  crk_priv_mutex_lock(&cuda_lock);
  const crk_status_t status = cuda_load_locked();
  crk_priv_mutex_unlock(&cuda_lock);
  return status;
}

const char *crk_priv_cuda_path(int *version) {
  *version = 0;
  if (cu.cuDriverGetVersion(version) != CU_SUCCESS) {
    *version = 0;
  }
  return cuda_path;
}

static crk_status_t cuda_device_count(int32_t *count) {
  int found = 0;
  if (!no_device) {
    CU_TRY(cu.cuDeviceGetCount(&found), "cuDeviceGetCount()");
  }
  *count = found;
  return CRK_OK;
}

static crk_status_t cuda_attribute(int *value, int number, const char *name, const crk_driver_device_t *device) {
  CU_TRY(cu.cuDeviceGetAttribute(value, number, device->device), "cuDeviceGetAttribute(%s of device %d)", name,
         (int)device->ordinal);
  return CRK_OK;
}
#define ATTRIBUTE(value, name, device) cuda_attribute(value, CU_DEVICE_##name, #name, device)

/* Fills in a zeroed device with its ordinal set. */
static crk_status_t cuda_device_init(crk_driver_device_t *device) {
  int major = 0, minor = 0;
  CU_TRY(cu.cuDeviceGet(&device->device, device->ordinal), "cuDeviceGet(%d)", (int)device->ordinal);
  CRK_TRY(ATTRIBUTE(&major, COMPUTE_CAPABILITY_MAJOR, device));
  CRK_TRY(ATTRIBUTE(&minor, COMPUTE_CAPABILITY_MINOR, device));
  CRK_TRY(ATTRIBUTE(&device->shared_bytes, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
  device->capability = major * 10 + minor;
  CU_TRY(cu.cuDevicePrimaryCtxRetain(&device->context, device->device), "cuDevicePrimaryCtxRetain(device %d)",
         (int)device->ordinal);
  return CRK_OK;
}

static crk_status_t cuda_device_get_locked(int32_t ordinal, crk_driver_device_t **device) {
  for (crk_driver_device_t *known = devices; known != NULL; known = known->next) {
    if (known->ordinal == ordinal) {
      *device = known;
      return CRK_OK;
    }
  }
  crk_driver_device_t *const added = calloc(1, sizeof *added);
  if (added == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "CUDA: no host memory for the description of device %d", (int)ordinal);
  }
  added->ordinal = ordinal;
  const crk_status_t status = cuda_device_init(added);
  if (status != CRK_OK) {
    free(added);
    return status;
  }
  added->next = devices;
  devices = added;
  *device = added;
  return CRK_OK;
}

static crk_status_t cuda_device_get(int32_t ordinal, crk_driver_device_t **device) {
  crk_priv_mutex_lock(&cuda_lock);
  const crk_status_t status = cuda_device_get_locked(ordinal, device);
  crk_priv_mutex_unlock(&cuda_lock);
  return status;
}

static crk_status_t cuda_device_info(crk_driver_device_t *device, crk_device_info_t *info) {
  crk_device_info_t told = {.backend = CRK_BACKEND_CUDA, .ordinal = device->ordinal};
  int wave_size = 0, compute_units = 0, block_threads = 0, version = 0, unit_threads = 0, unit_shared = 0;
  int pci_domain = 0, pci_bus = 0, pci_device = 0;
  size_t memory = 0;
  CU_TRY(cu.cuDeviceGetName(told.name, (int)sizeof told.name, device->device), "cuDeviceGetName(device %d)",
         (int)device->ordinal);
  told.name[sizeof told.name - 1] = '\0';
  CRK_TRY(ATTRIBUTE(&wave_size, WARP_SIZE, device));
  CRK_TRY(ATTRIBUTE(&compute_units, MULTIPROCESSOR_COUNT, device));
  CRK_TRY(ATTRIBUTE(&unit_threads, MAX_THREADS_PER_MULTIPROCESSOR, device));
  CRK_TRY(ATTRIBUTE(&unit_shared, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device));
  CRK_TRY(ATTRIBUTE(&block_threads, MAX_THREADS_PER_BLOCK, device));
  CRK_TRY(ATTRIBUTE(&pci_domain, PCI_DOMAIN_ID, device));
  CRK_TRY(ATTRIBUTE(&pci_bus, PCI_BUS_ID, device));
  CRK_TRY(ATTRIBUTE(&pci_device, PCI_DEVICE_ID, device));
  for (int i = 0; i < 3; i++) {
    int block = 0, grid = 0;
    CRK_TRY(cuda_attribute(&block, CU_DEVICE_MAX_BLOCK_DIM_X + i, "MAX_BLOCK_DIM", device));
    CRK_TRY(cuda_attribute(&grid, CU_DEVICE_MAX_GRID_DIM_X + i, "MAX_GRID_DIM", device));
    told.max_block[i] = (uint32_t)block;
    told.max_grid[i] = (uint32_t)grid;
  }
  CU_TRY(cu.cuDeviceTotalMem_v2(&memory, device->device), "cuDeviceTotalMem(device %d)", (int)device->ordinal);
  CU_TRY(cu.cuDriverGetVersion(&version), "cuDriverGetVersion()");
  snprintf(told.architecture, sizeof told.architecture, "sm_%d", device->capability);
  snprintf(told.target, sizeof told.target, "%s", told.architecture);
  told.wave_size = (uint32_t)wave_size;
  told.compute_units = (uint32_t)compute_units;
  told.max_block_threads = (uint32_t)block_threads;
  told.runtime_version = (uint32_t)version;
  told.max_grid_threads = (uint64_t)told.max_grid[0] * (uint64_t)block_threads;
  told.memory_bytes = memory;
  told.shared_bytes = (uint64_t)device->shared_bytes;
  told.simd_units = 4 * told.compute_units;
  told.unit_threads = (uint32_t)unit_threads;
  told.unit_shared_bytes = (uint64_t)unit_shared;
  told.l2_caches = 1;
  told.pci_domain = (uint32_t)pci_domain;
  told.pci_bus = (uint32_t)pci_bus;
  told.pci_device = (uint32_t)pci_device;
  *info = told;
  return CRK_OK;
}

static crk_status_t cuda_device_memory(crk_driver_device_t *device, size_t *free_bytes, size_t *total_bytes) {
  size_t available = 0, total = 0;
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuMemGetInfo_v2(&available, &total), "cuMemGetInfo(device %d)", (int)device->ordinal);
  *free_bytes = available;
  *total_bytes = total;
  return CRK_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Memory
 * ------------------------------------------------------------------------------------------------------------------ */

static crk_status_t cuda_alloc(crk_driver_device_t *device, size_t bytes, void **ptr) {
  CUdeviceptr got = 0;
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuMemAlloc_v2(&got, bytes), "cuMemAlloc(%zu bytes)", bytes);
  *ptr = (void *)(uintptr_t)got;
  return CRK_OK;
}

static void cuda_free(crk_driver_device_t *device, void *ptr) {
  if (cuda_bind(device) == CRK_OK) {
    (void)cu.cuMemFree_v2(device_ptr(ptr));
  }
}

#define NEED(name)                                                                  \
  do {                                                                              \
    if (cu.name == NULL) {                                                          \
      return crk_priv_error(CRK_UNSUPPORTED, #name " is missing in %s", cuda_path); \
    }                                                                               \
  } while (0)

static crk_status_t cuda_peer_export(crk_driver_device_t *device, void *ptr, crk_peer_handle_t *handle) {
  NEED(cuIpcGetMemHandle);
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuIpcGetMemHandle(handle, device_ptr(ptr)), "cuIpcGetMemHandle");
  return CRK_OK;
}

static crk_status_t cuda_peer_open(crk_driver_device_t *device, const crk_peer_handle_t *handle, void **ptr) {
  NEED(cuIpcOpenMemHandle_v2);
  NEED(cuIpcCloseMemHandle);
  CUdeviceptr got = 0;
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuIpcOpenMemHandle_v2(&got, *handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), "cuIpcOpenMemHandle");
  *ptr = (void *)(uintptr_t)got;
  return CRK_OK;
}

static bool cuda_peer_writes_in_order(const crk_driver_device_t *device) {
  (void)device;
  return true;
}

static void cuda_peer_close(crk_driver_device_t *device, void *ptr) {
  if (cuda_bind(device) == CRK_OK) {
    (void)cu.cuIpcCloseMemHandle(device_ptr(ptr));
  }
}

static crk_status_t cuda_host_alloc(crk_driver_device_t *device, size_t bytes, void **ptr) {
  void *got = NULL;
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuMemHostAlloc(&got, bytes, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc(%zu bytes)", bytes);
  *ptr = got;
  return CRK_OK;
}

static void cuda_host_free(crk_driver_device_t *device, void *ptr) {
  if (cuda_bind(device) == CRK_OK) {
    (void)cu.cuMemFreeHost(ptr);
  }
}

static crk_status_t cuda_copy(crk_driver_device_t *device, crk_driver_stream_t *stream, void *dst, const void *src,
                              size_t bytes, crk_copy_kind_t kind) {
  CRK_TRY(cuda_bind(device));
  switch (kind) {
    case CRK_COPY_TO_DEVICE:
      CU_TRY(cu.cuMemcpyHtoDAsync_v2(device_ptr(dst), src, bytes, (CUstream)stream), "cuMemcpyHtoDAsync(%zu bytes)",
             bytes);
      break;
    case CRK_COPY_TO_HOST:
      CU_TRY(cu.cuMemcpyDtoHAsync_v2(dst, device_ptr(src), bytes, (CUstream)stream), "cuMemcpyDtoHAsync(%zu bytes)",
             bytes);
      break;
    case CRK_COPY_ON_DEVICE:
      CU_TRY(cu.cuMemcpyDtoDAsync_v2(device_ptr(dst), device_ptr(src), bytes, (CUstream)stream),
             "cuMemcpyDtoDAsync(%zu bytes)", bytes);
      break;
  }
  return CRK_OK;
}

static crk_status_t cuda_copy_peer(crk_driver_device_t *dst_device, void *dst, crk_driver_device_t *src_device,
                                   const void *src, size_t bytes, crk_driver_stream_t *dst_stream) {
  CRK_TRY(cuda_bind(dst_device));
  CU_TRY(cu.cuMemcpyPeerAsync(device_ptr(dst), dst_device->context, device_ptr(src), src_device->context, bytes,
                              (CUstream)dst_stream),
         "cuMemcpyPeerAsync(%zu bytes from device %d to device %d)", bytes, (int)src_device->ordinal,
         (int)dst_device->ordinal);
  return CRK_OK;
}

static crk_status_t cuda_peer_access(crk_driver_device_t *device, crk_driver_device_t *peer, bool *has_access) {
  CRK_TRY(cuda_bind(device));
  int can_access = 0;
  CU_TRY(cu.cuDeviceCanAccessPeer(&can_access, device->device, peer->device),
         "cuDeviceCanAccessPeer(device %d, peer %d)", (int)device->ordinal, (int)peer->ordinal);
  if (can_access != 0) {
    const CUresult result = cu.cuCtxEnablePeerAccess(peer->context, 0);
    if (result != CU_PEER_ACCESS_ALREADY_ENABLED) {
      CU_TRY(result, "cuCtxEnablePeerAccess(device %d, peer %d)", (int)device->ordinal, (int)peer->ordinal);
    }
  }
  *has_access = can_access != 0;
  return CRK_OK;
}

static crk_status_t cuda_memset(crk_driver_device_t *device, crk_driver_stream_t *stream, void *dst, uint8_t value,
                                size_t bytes) {
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuMemsetD8Async(device_ptr(dst), value, bytes, (CUstream)stream), "cuMemsetD8Async(%zu bytes)", bytes);
  return CRK_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Streams and events
 * ------------------------------------------------------------------------------------------------------------------ */

static crk_status_t cuda_stream_create(crk_driver_device_t *device, crk_driver_stream_t **stream) {
  CUstream created = NULL;
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuStreamCreate(&created, CU_STREAM_NON_BLOCKING), "cuStreamCreate(device %d)", (int)device->ordinal);
  *stream = (crk_driver_stream_t *)created;
  return CRK_OK;
}

static void cuda_stream_destroy(crk_driver_device_t *device, crk_driver_stream_t *stream) {
  if (cuda_bind(device) == CRK_OK) {
    (void)cu.cuStreamDestroy_v2((CUstream)stream);
  }
}

static crk_status_t cuda_stream_synchronize(crk_driver_device_t *device, crk_driver_stream_t *stream) {
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuStreamSynchronize((CUstream)stream), "cuStreamSynchronize()");
  return CRK_OK;
}

static crk_status_t cuda_stream_wait(crk_driver_device_t *device, crk_driver_stream_t *stream,
                                     crk_driver_event_t *event) {
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuStreamWaitEvent((CUstream)stream, (CUevent)event, 0), "cuStreamWaitEvent()");
  return CRK_OK;
}

static crk_status_t cuda_event_create(crk_driver_device_t *device, crk_driver_event_t **event) {
  CUevent created = NULL;
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuEventCreate(&created, 0), "cuEventCreate(device %d)", (int)device->ordinal);
  *event = (crk_driver_event_t *)created;
  return CRK_OK;
}

static void cuda_event_destroy(crk_driver_device_t *device, crk_driver_event_t *event) {
  if (cuda_bind(device) == CRK_OK) {
    (void)cu.cuEventDestroy_v2((CUevent)event);
  }
}

static crk_status_t cuda_event_record(crk_driver_device_t *device, crk_driver_event_t *event,
                                      crk_driver_stream_t *stream) {
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuEventRecord((CUevent)event, (CUstream)stream), "cuEventRecord()");
  return CRK_OK;
}

static crk_status_t cuda_event_query(crk_driver_device_t *device, crk_driver_event_t *event) {
  CRK_TRY(cuda_bind(device));
  const CUresult result = cu.cuEventQuery((CUevent)event);
  if (result == CU_SUCCESS) {
    return CRK_OK;
  }
  return result == CU_NOT_READY ? CRK_NOT_READY : cuda_failed(result, "cuEventQuery()");
}

static crk_status_t cuda_event_synchronize(crk_driver_device_t *device, crk_driver_event_t *event) {
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuEventSynchronize((CUevent)event), "cuEventSynchronize()");
  return CRK_OK;
}

static crk_status_t cuda_event_elapsed(crk_driver_device_t *device, crk_driver_event_t *start, crk_driver_event_t *end,
                                       float *milliseconds) {
  float elapsed = 0;
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuEventElapsedTime(&elapsed, (CUevent)start, (CUevent)end), "cuEventElapsedTime()");
  *milliseconds = elapsed;
  return CRK_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Modules
 * ------------------------------------------------------------------------------------------------------------------ */

static crk_image_t cuda_builtin(size_t index) { return crk_priv_images_cuda[index]; }

/* Loads a checked image that is aligned for its headers. */
static crk_status_t load_cuda_image(crk_driver_device_t *device, const char *name, const void *data, CUmodule *module) {
  char log[512] = "";
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
  const CUresult result = cu.cuModuleLoadDataEx(module, data, 2, options, values);
  if (result == CU_SUCCESS) {
    return CRK_OK;
  }
  /* Only PTX gives a log. Its lines become one. */
  log[sizeof log - 1] = '\0';
  for (char *c = log; *c != '\0'; c++) {
    *c = *c == '\n' || *c == '\r' ? ' ' : *c;
  }
  return cuda_failed(result, "cuModuleLoadData(module %s for device %d, sm_%d%s%.300s)", name, (int)device->ordinal,
                     device->capability, log[0] == '\0' ? "" : "; ", log);
}

/* Checks an image and loads it. libcuda copies it. */
static crk_status_t check_and_load_cuda_image(crk_driver_device_t *device, const char *name, const void *data,
                                              size_t bytes, CUmodule *module) {
  enum { IMAGE_ALIGNMENT = 8 };
  CRK_TRY(crk_priv_check_cuda_image(name, data, bytes, device->ordinal, device->capability));
  CRK_TRY(cuda_bind(device));
  if ((uintptr_t)data % IMAGE_ALIGNMENT == 0) {
    return load_cuda_image(device, name, data, module);
  }
  void *aligned = malloc(bytes);
  if (aligned == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "module %s: no host memory for a copy of its %zu bytes", name, bytes);
  }
  memcpy(aligned, data, bytes);
  const crk_status_t status = load_cuda_image(device, name, aligned, module);
  free(aligned);
  return status;
}

static crk_status_t cuda_module_load(crk_driver_device_t *device, const char *name, const void *data, size_t bytes,
                                     crk_driver_module_t **module) {
  crk_driver_module_t *const loaded = calloc(1, sizeof *loaded);
  if (loaded == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "module %s: no host memory for its description", name);
  }
  crk_status_t status = CRK_OK;
  if (crk_priv_is_packed(data, bytes)) {
    crk_image_t image = {NULL, 0};
    status = crk_priv_unpack(name, data, bytes, &image);
    if (status == CRK_OK) {
      status = check_and_load_cuda_image(device, name, image.data, image.bytes, &loaded->module);
      crk_priv_aligned_free((void *)image.data);
    }
  } else {
    status = check_and_load_cuda_image(device, name, data, bytes, &loaded->module);
  }
  if (status != CRK_OK) {
    free(loaded);
    return status;
  }
  crk_priv_mutex_init(&loaded->lock);
  *module = loaded;
  return CRK_OK;
}

static void cuda_module_unload(crk_driver_device_t *device, crk_driver_module_t *module) {
  if (cuda_bind(device) == CRK_OK) {
    (void)cu.cuModuleUnload(module->module);
  }
  while (module->functions != NULL) {
    crk_driver_function_t *const function = module->functions;
    module->functions = function->next;
    free(function);
  }
  crk_priv_mutex_deinit(&module->lock);
  free(module);
}

/* Returns the number of a function's parameters, and writes the first `capacity` of them to `params`. */
static size_t read_params(CUfunction function, crk_param_t *params, size_t capacity) {
  size_t count = 0, offset = 0, bytes = 0;
  while (cu.cuFuncGetParamInfo(function, count, &offset, &bytes) == CU_SUCCESS) {
    if (count < capacity) {
      params[count] = (crk_param_t){.bytes = (uint32_t)bytes, .is_pointer = false};
    }
    count++;
  }
  return count;
}

#define TEXT_OF(name) #name
#define TEXT(macro)   TEXT_OF(macro)

/* Whether the kernel may begin early, and the driver has the calls for it, as from CUDA 12.3 on. The name is that of
 * the kernel's static variable in the Itanium C++ ABI. */
static bool begins_early(CUmodule module, const char *kernel) {
  static const char variable[] = TEXT(CRK_EARLY_VARIABLE);
  char name[256];
  CUdeviceptr ptr = 0;
  size_t bytes = 0;
  const int length =
      snprintf(name, sizeof name, "_ZZ%zu%sE%zu%s", strlen(kernel), kernel, sizeof variable - 1, variable);
  return cu.cuLaunchKernelEx != NULL && cu.cuGraphAddDependencies_v2 != NULL && length < (int)sizeof name &&
         cu.cuModuleGetGlobal_v2(&ptr, &bytes, module, name) == CU_SUCCESS;
}

static crk_status_t cuda_module_function(crk_driver_device_t *device, crk_driver_module_t *module, const char *name,
                                         crk_driver_function_t **function, crk_signature_t *signature) {
  CUfunction found = NULL;
  int max_threads = 0, static_shared = 0;
  if (*name == '\0') {
    return CRK_NOT_FOUND; /* the driver would call it an invalid value */
  }
  CRK_TRY(cuda_bind(device));
  const CUresult result = cu.cuModuleGetFunction(&found, module->module, name);
  if (result == CU_NOT_FOUND) {
    return CRK_NOT_FOUND;
  }
  CU_TRY(result, "cuModuleGetFunction(%s)", name);
  CU_TRY(cu.cuFuncGetAttribute(&max_threads, CU_FUNCTION_MAX_THREADS_PER_BLOCK, found),
         "cuFuncGetAttribute(MAX_THREADS_PER_BLOCK of %s)", name);
  CU_TRY(cu.cuFuncGetAttribute(&static_shared, CU_FUNCTION_SHARED_SIZE_BYTES, found),
         "cuFuncGetAttribute(SHARED_SIZE_BYTES of %s)", name);
  /* A launch with more than 48 KiB of shared memory needs this attribute. It is set once, for the most that fits. */
  CU_TRY(cu.cuFuncSetAttribute(found, CU_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES, device->shared_bytes - static_shared),
         "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES of %s)", name);

  const bool told = cu.cuFuncGetParamInfo != NULL;
  const size_t count = told ? read_params(found, NULL, 0) : 0;
  crk_driver_function_t *const added = calloc(1, sizeof *added + count * sizeof *added->params);
  if (added == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "kernel %s: no host memory for its description", name);
  }
  added->function = found;
  added->begins_early = begins_early(module->module, name);
  if (told) {
    read_params(found, added->params, count);
  }
  crk_priv_mutex_lock(&module->lock);
  added->next = module->functions;
  module->functions = added;
  crk_priv_mutex_unlock(&module->lock);
  *function = added;
  *signature = (crk_signature_t){.params = told ? added->params : NULL,
                                 .count = count,
                                 .max_threads = (uint32_t)max_threads,
                                 .shared_bytes = (uint32_t)static_shared};
  return CRK_OK;
}

/* Launches a kernel that may begin while the launch before it ends. */
static CUresult launch_early(CUfunction function, crk_dim3_t grid, crk_dim3_t block, uint32_t shared_bytes,
                             CUstream stream, void **args) {
  crk_cuda_attribute_t early = {.id = CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION, .value.number = 1};
  const crk_cuda_config_t config = {grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes, stream, &early, 1};
  return cu.cuLaunchKernelEx(&config, function, args, NULL);
}

static crk_status_t cuda_launch(crk_driver_device_t *device, crk_driver_stream_t *stream,
                                crk_driver_function_t *function, crk_dim3_t grid, crk_dim3_t block,
                                uint32_t shared_bytes, const void *const *args) {
  void **const values = crk_priv_driver_args(args);
  CRK_TRY(cuda_bind(device));
  const CUresult result = function->begins_early
                              ? launch_early(function->function, grid, block, shared_bytes, (CUstream)stream, values)
                              : cu.cuLaunchKernel(function->function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                                  shared_bytes, (CUstream)stream, values, NULL);
  CU_TRY(result, "cuLaunchKernel%s(grid %u x %u x %u, block %u x %u x %u, %u bytes shared)",
         function->begins_early ? "Ex" : "", (unsigned)grid.x, (unsigned)grid.y, (unsigned)grid.z, (unsigned)block.x,
         (unsigned)block.y, (unsigned)block.z, (unsigned)shared_bytes);
  return CRK_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Graphs
 * ------------------------------------------------------------------------------------------------------------------ */

static crk_status_t cuda_capture_begin(crk_driver_device_t *device, crk_driver_stream_t *stream) {
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuStreamBeginCapture_v2((CUstream)stream, CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture()");
  return CRK_OK;
}

static crk_status_t cuda_capture_end(crk_driver_device_t *device, crk_driver_stream_t *stream,
                                     crk_driver_graph_t **graph) {
  CUgraph recorded = NULL;
  CUgraphExec instance = NULL;
  const crk_status_t bound = cuda_bind(device);
  /* The capture is over after this call, even if one of the two fails. */
  CU_TRY(cu.cuStreamEndCapture((CUstream)stream, &recorded), "cuStreamEndCapture()");
  if (graph == NULL || bound != CRK_OK) {
    (void)cu.cuGraphDestroy(recorded);
    return bound;
  }
  const CUresult result = cu.cuGraphInstantiateWithFlags(&instance, recorded, 0);
  (void)cu.cuGraphDestroy(recorded);
  CU_TRY(result, "cuGraphInstantiateWithFlags()");
  *graph = (crk_driver_graph_t *)instance;
  return CRK_OK;
}

static crk_status_t cuda_graph_launch(crk_driver_device_t *device, crk_driver_graph_t *graph,
                                      crk_driver_stream_t *stream) {
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuGraphLaunch((CUgraphExec)graph, (CUstream)stream), "cuGraphLaunch()");
  return CRK_OK;
}

static void cuda_graph_destroy(crk_driver_device_t *device, crk_driver_graph_t *graph) {
  if (cuda_bind(device) == CRK_OK) {
    (void)cu.cuGraphExecDestroy((CUgraphExec)graph);
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Chains. The nodes belong to the graph, so the graph lives as long as its instance.
 * ------------------------------------------------------------------------------------------------------------------ */

struct crk_driver_chain {
  CUgraph graph;
  CUgraphExec instance;
  CUgraphNode nodes[];
};

static crk_cuda_node_t cuda_node(const crk_driver_launch_t *launch) {
  const crk_dim3_t grid = launch->grid, block = launch->block;
  return (crk_cuda_node_t){
      launch->function->function,         grid.x, grid.y, grid.z, block.x, block.y, block.z, launch->shared_bytes,
      crk_priv_driver_args(launch->args), NULL};
}

/* Destroys what there is of a chain. A running instance is freed when it has ended. */
static void destroy_chain(crk_driver_chain_t *chain) {
  if (chain->instance != NULL) {
    (void)cu.cuGraphExecDestroy(chain->instance);
  }
  if (chain->graph != NULL) {
    (void)cu.cuGraphDestroy(chain->graph);
  }
  free(chain);
}

/* Adds the node `index` behind the one before it. */
static crk_status_t add_node(crk_driver_chain_t *chain, size_t index, const crk_driver_launch_t *launch) {
  const crk_cuda_node_t node = cuda_node(launch);
  CUgraphNode *const added = &chain->nodes[index];
  const bool early = index > 0 && launch->function->begins_early;
  const size_t before = index > 0 && !early; /* nodes that must have ended first */
  CU_TRY(cu.cuGraphAddKernelNode(added, chain->graph, before > 0 ? added - 1 : NULL, before, &node),
         "cuGraphAddKernelNode()");
  if (early) {
    const crk_cuda_edge_t edge = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                  .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    CU_TRY(cu.cuGraphAddDependencies_v2(chain->graph, added - 1, added, &edge, 1), "cuGraphAddDependencies_v2()");
  }
  return CRK_OK;
}

static crk_status_t record_chain(crk_driver_chain_t *chain, const crk_driver_launch_t *launches, size_t count) {
  CU_TRY(cu.cuGraphCreate(&chain->graph, 0), "cuGraphCreate()");
  for (size_t i = 0; i < count; i++) {
    CRK_TRY(add_node(chain, i, &launches[i]));
  }
  CU_TRY(cu.cuGraphInstantiateWithFlags(&chain->instance, chain->graph, 0), "cuGraphInstantiateWithFlags()");
  return CRK_OK;
}

static crk_status_t cuda_chain_create(crk_driver_device_t *device, const crk_driver_launch_t *launches, size_t count,
                                      crk_driver_chain_t **chain) {
  if (cu.cuGraphCreate == NULL || cu.cuGraphAddKernelNode == NULL || cu.cuGraphExecKernelNodeSetParams == NULL) {
    return crk_priv_error(CRK_UNSUPPORTED, "libcuda has no calls that make graphs of launches");
  }
  CRK_TRY(cuda_bind(device));
  crk_driver_chain_t *const fresh = calloc(1, sizeof *fresh + count * sizeof *fresh->nodes);
  if (fresh == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "no host memory for a graph of %zu launches", count);
  }
  const crk_status_t status = record_chain(fresh, launches, count);
  if (status != CRK_OK) {
    destroy_chain(fresh);
    return status;
  }
  *chain = fresh;
  return CRK_OK;
}

static crk_status_t cuda_chain_update(crk_driver_device_t *device, crk_driver_chain_t *chain, size_t index,
                                      const crk_driver_launch_t *launch) {
  const crk_cuda_node_t node = cuda_node(launch);
  CRK_TRY(cuda_bind(device));
  CU_TRY(cu.cuGraphExecKernelNodeSetParams(chain->instance, chain->nodes[index], &node),
         "cuGraphExecKernelNodeSetParams()");
  return CRK_OK;
}

static crk_status_t cuda_chain_launch(crk_driver_device_t *device, crk_driver_chain_t *chain,
                                      crk_driver_stream_t *stream) {
  return cuda_graph_launch(device, (crk_driver_graph_t *)chain->instance, stream);
}

static void cuda_chain_destroy(crk_driver_device_t *device, crk_driver_chain_t *chain) {
  if (cuda_bind(device) == CRK_OK) {
    destroy_chain(chain);
  }
}

const crk_driver_t crk_priv_driver_cuda = {
    .backend = CRK_BACKEND_CUDA,
    .load = cuda_load,
    .device_count = cuda_device_count,
    .device_get = cuda_device_get,
    .device_info = cuda_device_info,
    .device_memory = cuda_device_memory,
    .bind = cuda_bind,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .host_alloc = cuda_host_alloc,
    .peer_alloc = cuda_alloc, /* stores of other GPUs reach all memory */
    .peer_free = cuda_free,
    .peer_writes_in_order = cuda_peer_writes_in_order,
    .peer_export = cuda_peer_export,
    .peer_open = cuda_peer_open,
    .peer_close = cuda_peer_close,
    .host_alloc_coherent = cuda_host_alloc, /* all pinned memory is coherent */
    .host_free = cuda_host_free,
    .copy = cuda_copy,
    .copy_peer = cuda_copy_peer,
    .peer_access = cuda_peer_access,
    .memset = cuda_memset,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_synchronize = cuda_stream_synchronize,
    .stream_wait = cuda_stream_wait,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_query = cuda_event_query,
    .event_synchronize = cuda_event_synchronize,
    .event_elapsed = cuda_event_elapsed,
    .builtin = cuda_builtin,
    .module_load = cuda_module_load,
    .module_unload = cuda_module_unload,
    .module_function = cuda_module_function,
    .launch = cuda_launch,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .graph_launch = cuda_graph_launch,
    .chain_create = cuda_chain_create,
    .chain_update = cuda_chain_update,
    .chain_launch = cuda_chain_launch,
    .chain_destroy = cuda_chain_destroy,
    .graph_destroy = cuda_graph_destroy,
};
