/* hip_calls.h: shared by the files of the HIP driver: the calls of HIP's runtime, their errors, and the device.
 *
 * No header of ROCm is needed. The prototypes below are those of the public API. Every call in the lists has had the
 * same ABI since HIP 5.2. All handles are opaque pointers, and every enum is an int. The one struct that changed, the
 * properties of a device, is read by byte offsets (hip_device.c). */
#ifndef CRK_HIP_CALLS_H
#define CRK_HIP_CALLS_H

#include "driver/driver.h"
#include "error.h"

/* XX(name, parameters): the calls without which there is no device. All return a hipError_t. */
#define CRK_HIP_REQUIRED_MAP(XX)                                                                             \
  XX(hipGetDeviceCount, (int *count))                                                                        \
  XX(hipGetDevice, (int *device))                                                                            \
  XX(hipSetDevice, (int device))                                                                             \
  XX(hipDeviceGetAttribute, (int *value, int attribute, int device))                                         \
  XX(hipRuntimeGetVersion, (int *version))                                                                   \
  XX(hipGetLastError, (void))                                                                                \
  XX(hipMemGetInfo, (size_t *free_bytes, size_t *total_bytes))                                               \
  XX(hipMalloc, (void **ptr, size_t bytes))                                                                  \
  XX(hipFree, (void *ptr))                                                                                   \
  XX(hipHostMalloc, (void **ptr, size_t bytes, unsigned flags))                                              \
  XX(hipHostFree, (void *ptr))                                                                               \
  XX(hipMemcpyAsync, (void *dst, const void *src, size_t bytes, int kind, void *stream))                     \
  XX(hipMemsetAsync, (void *dst, int value, size_t bytes, void *stream))                                     \
  XX(hipStreamCreateWithFlags, (void **stream, unsigned flags))                                              \
  XX(hipStreamDestroy, (void *stream))                                                                       \
  XX(hipStreamSynchronize, (void *stream))                                                                   \
  XX(hipStreamWaitEvent, (void *stream, void *event, unsigned flags))                                        \
  XX(hipEventCreateWithFlags, (void **event, unsigned flags))                                                \
  XX(hipEventDestroy, (void *event))                                                                         \
  XX(hipEventRecord, (void *event, void *stream))                                                            \
  XX(hipEventQuery, (void *event))                                                                           \
  XX(hipEventSynchronize, (void *event))                                                                     \
  XX(hipModuleLoadData, (void **module, const void *image))                                                  \
  XX(hipModuleUnload, (void *module))                                                                        \
  XX(hipModuleGetFunction, (void **function, void *module, const char *name))                                \
  XX(hipModuleLaunchKernel,                                                                                  \
     (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
      unsigned block_z, unsigned shared_bytes, void *stream, void **params, void **extra))

/* hipKernelNodeParams. Its `func` may be a function of a module. */
typedef struct crk_hip_node {
  crk_dim3_t block;
  void **extra;
  void *function;
  crk_dim3_t grid;
  void **args;
  unsigned shared_bytes;
} crk_hip_node_t;

/* Optional calls: a function that needs a missing one fails. One of the two calls for properties is required. */
#define CRK_HIP_OPTIONAL_MAP(XX)                                                                                   \
  XX(hipGetDevicePropertiesR0600, (void *properties, int device))                                                  \
  XX(hipGetDeviceProperties, (void *properties, int device))                                                       \
  XX(hipDeviceGetPCIBusId, (char *text, int bytes, int device))                                                    \
  XX(hipMemcpyPeerAsync, (void *dst, int dst_device, const void *src, int src_device, size_t bytes, void *stream)) \
  XX(hipDeviceCanAccessPeer, (int *can_access, int device, int peer))                                              \
  XX(hipDeviceEnablePeerAccess, (int peer, unsigned flags))                                                        \
  XX(hipExtMallocWithFlags, (void **ptr, size_t bytes, unsigned flags))                                            \
  XX(hipIpcGetMemHandle, (crk_peer_handle_t * handle, void *ptr))                                                  \
  XX(hipIpcOpenMemHandle, (void **ptr, crk_peer_handle_t handle, unsigned flags))                                  \
  XX(hipIpcCloseMemHandle, (void *ptr))                                                                            \
  XX(hipEventElapsedTime, (float *milliseconds, void *start, void *end))                                           \
  XX(hipStreamBeginCapture, (void *stream, int mode))                                                              \
  XX(hipStreamEndCapture, (void *stream, void **graph))                                                            \
  XX(hipGraphInstantiate, (void **exec, void *graph, void **error_node, char *log, size_t log_bytes))              \
  XX(hipGraphLaunch, (void *exec, void *stream))                                                                   \
  XX(hipGraphExecDestroy, (void *exec))                                                                            \
  XX(hipGraphCreate, (void **graph, unsigned flags))                                                               \
  XX(hipGraphAddKernelNode,                                                                                        \
     (void **node, void *graph, void *const *before, size_t count, const crk_hip_node_t *launch))                  \
  XX(hipGraphExecKernelNodeSetParams, (void *exec, void *node, const crk_hip_node_t *launch))                      \
  XX(hipGraphDestroy, (void *graph))

/* The numbers of the API that are used here. */
enum {
  HIP_SUCCESS = 0,
  HIP_OUT_OF_MEMORY = 2,
  HIP_NO_DEVICE = 100,
  HIP_INVALID_IMAGE = 200,
  HIP_NO_BINARY_FOR_GPU = 209,
  HIP_INVALID_KERNEL_FILE = 218,
  HIP_NOT_FOUND = 500,
  HIP_NOT_READY = 600,
  HIP_PEER_ACCESS_ALREADY_ENABLED = 704,

  HIP_ATTRIBUTE_MAX_BLOCK_DIM_X = 26, /* and y, z after it */
  HIP_ATTRIBUTE_MAX_GRID_DIM_X = 29, /* the same */
  HIP_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 56,
  HIP_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 57,
  HIP_ATTRIBUTE_MULTIPROCESSOR_COUNT = 63,
  HIP_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 74,
  HIP_ATTRIBUTE_WARP_SIZE = 87,
  HIP_ATTRIBUTE_FINE_GRAIN_SUPPORT = 10016,
  HIP_ATTRIBUTE_NUMBER_OF_XCCS = 10018,

  HIP_HOST_MALLOC_PORTABLE = 1,
  HIP_HOST_MALLOC_COHERENT = 0x40000000, /* without it the environment variable HIP_HOST_COHERENT decides */
  HIP_MALLOC_UNCACHED = 3,
  HIP_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1,
  HIP_STREAM_NON_BLOCKING = 1,
  HIP_EVENT_DEFAULT = 0,
  HIP_COPY_TO_DEVICE = 1,
  HIP_COPY_TO_HOST = 2,
  HIP_COPY_ON_DEVICE = 3,

  /* In the other modes hipMalloc, hipFree and hipModuleLoadData fail in the capturing thread, even when another handle
   * calls them, and invalidate the capture. The core itself refuses the calls that a captured handle must not make. */
  HIP_CAPTURE_RELAXED = 2
};

/* The calls and the library that has them. The driver's `load` fills them in; then they stay the same. */
typedef struct crk_hip_calls {
#define XX(name, params) int(*name) params;
  CRK_HIP_REQUIRED_MAP(XX)
  CRK_HIP_OPTIONAL_MAP(XX)
#undef XX
  const char *(*hipGetErrorName)(int code); /* without it sentences have no name for an error */
  char library[1024]; /* the path of the library */
  void *opened; /* the library, once all its calls are found */
} crk_hip_calls_t;

extern crk_hip_calls_t crk_priv_hip;

/* The runtime keeps a failure until a caller asks for it. Clears it, so that other code does not take it for its
 * own. */
static inline void crk_priv_hip_forget_error(void) { crk_priv_hip.hipGetLastError(); }

/* Fails with the sentence "<call> answers 2 (hipErrorOutOfMemory)". The format makes <call>. */
crk_status_t crk_priv_hip_failed(int code, const char *format, ...) CRK_PRINTF(2, 3);

/* Returns from the calling function where a call of the runtime fails. The other arguments describe the call. */
#define HIP_TRY(expr, ...)                                    \
  do {                                                        \
    const int hip_try_code_ = (expr);                         \
    if (hip_try_code_ != HIP_SUCCESS) {                       \
      return crk_priv_hip_failed(hip_try_code_, __VA_ARGS__); \
    }                                                         \
  } while (0)

/* Fails where the library lacks an optional call. */
#define NEED(name)                                                                                                   \
  do {                                                                                                               \
    if (crk_priv_hip.name == NULL) {                                                                                 \
      return crk_priv_error(CRK_UNSUPPORTED, #name " is missing in %s; install a later ROCm", crk_priv_hip.library); \
    }                                                                                                                \
  } while (0)

enum { HIP_ARCHITECTURE_BYTES = 256 }; /* of the name of the architecture in the properties of a device */

struct crk_driver_device {
  struct crk_driver_device *next;
  int ordinal;
  char target[HIP_ARCHITECTURE_BYTES]; /* the architecture with its features: "gfx90a:sramecc+:xnack-" */
  crk_device_info_t info;
};

struct crk_driver_function {
  struct crk_driver_function *next; /* in its module */
  void *handle;
};

/* Makes the device the current one of this thread. Asks the runtime each time which device is current, since other code
 * in the thread may have changed it. */
static inline crk_status_t crk_priv_hip_bind(const crk_driver_device_t *device) {
  int current = -1;
  if (crk_priv_hip.hipGetDevice(&current) != HIP_SUCCESS) {
    crk_priv_hip_forget_error();
    current = -1;
  }
  if (current != device->ordinal) {
    HIP_TRY(crk_priv_hip.hipSetDevice(device->ordinal), "hipSetDevice(%d)", device->ordinal);
  }
  return CRK_OK;
}

/* For release functions, which cannot fail: binds the device, makes the call and clears its failure. */
#define RELEASE(device, call)                  \
  do {                                         \
    if (crk_priv_hip_bind(device) == CRK_OK) { \
      if ((call) != HIP_SUCCESS) {             \
        crk_priv_hip_forget_error();           \
      }                                        \
    }                                          \
  } while (0)

#endif
