/* The AMD driver: libamdhip64, opened at run time.
 *
 * No header of ROCm is needed. The prototypes below are those of the public API, and for every call in the list the ABI
 * is the same from HIP 5.2 on. All handles are opaque pointers, and every enum is an int. The one struct that changed,
 * the properties of a device, is read by byte offsets.
 *
 * The library is never closed: a second initialisation in a process crashes. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "error.h"
#include "image/code_object.h"
#include "image/images.h"
#include "image/unpack.h"
#include "os/library.h"
#include "os/os.h"

/* ------------------------------------------------------------------------------------------------------------------
 * The runtime's calls
 * ------------------------------------------------------------------------------------------------------------------ */

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
  XX(hipGraphDestroy, (void *graph))

static const char *const hip_symbols[] = {
    CRK_HIP_REQUIRED_MAP(CRK_SYMBOL) CRK_HIP_OPTIONAL_MAP(CRK_SYMBOL_OPTIONAL) "?hipGetErrorName", NULL};

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

/* The byte offsets of two fields in a struct of device properties. There are two such structs. hipGetDeviceProperties
 * fills the struct of HIP 5, in later libraries too. hipGetDevicePropertiesR0600 fills the struct of HIP 6. Both
 * begin with the device's name. */
typedef struct properties_shape {
  size_t total_memory, architecture;
} properties_shape_t;

static const properties_shape_t shape_r0600 = {288, 1160}, shape_5 = {256, 396};

enum {
  NAME_BYTES = 256,
  ARCHITECTURE_BYTES = 256,
  PROPERTIES_BYTES = 8192 /* 792 in HIP 5, 1472 since HIP 6; the rest is room for later members */
};

/* The calls, in the order of hip_symbols, and the library that has them. */
static struct {
#define XX(name, params) int(*name) params;
  CRK_HIP_REQUIRED_MAP(XX)
  CRK_HIP_OPTIONAL_MAP(XX)
#undef XX
  const char *(*hipGetErrorName)(int code); /* without it sentences have no name for an error */
  char library[1024]; /* the path of the library */
  void *opened; /* the library, once all its calls are found */
} hip;

/* ------------------------------------------------------------------------------------------------------------------
 * Errors
 * ------------------------------------------------------------------------------------------------------------------ */

/* The runtime keeps a failure until a caller asks for it. Clears it, so that other code does not take it for its
 * own. */
static void hip_forget_error(void) { hip.hipGetLastError(); }

/* Fails with the sentence "<call> answers 2 (hipErrorOutOfMemory)". The format makes <call>. */
static crk_status_t hip_failed(int code, const char *format, ...) CRK_PRINTF(2, 3);

static crk_status_t hip_failed(int code, const char *format, ...) {
  char call[400];
  va_list args;
  va_start(args, format);
  vsnprintf(call, sizeof call, format, args);
  va_end(args);
  hip_forget_error();
  const char *name = hip.hipGetErrorName == NULL ? NULL : hip.hipGetErrorName(code);
  name = name == NULL ? "no name" : name;
  if (code == HIP_OUT_OF_MEMORY) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "%s answers %d (%s)", call, code, name);
  }
  return crk_priv_device_error(code, "%s answers %d (%s)", call, code, name);
}

/* Returns from the calling function where a call of the runtime fails. The other arguments describe the call. */
#define HIP_TRY(expr, ...)                           \
  do {                                               \
    const int hip_try_code_ = (expr);                \
    if (hip_try_code_ != HIP_SUCCESS) {              \
      return hip_failed(hip_try_code_, __VA_ARGS__); \
    }                                                \
  } while (0)

/* Fails where the library lacks an optional call. */
#define NEED(name)                                                                                          \
  do {                                                                                                      \
    if (hip.name == NULL) {                                                                                 \
      return crk_priv_error(CRK_UNSUPPORTED, #name " is missing in %s; install a later ROCm", hip.library); \
    }                                                                                                       \
  } while (0)

/* ------------------------------------------------------------------------------------------------------------------
 * Loading
 * ------------------------------------------------------------------------------------------------------------------ */

static crk_mutex_t load_lock = CRK_MUTEX_INIT; /* guards `loaded`, `hip` until it is loaded, and the list of devices */
static bool loaded;

#if defined(_WIN32)
static const char remedy[] = "install AMD's driver or HIP SDK";
#else
static const char remedy[] = "install ROCm's HIP runtime, set ROCM_PATH to its root or LD_LIBRARY_PATH to its folder";
#endif

/* False where a required call is missing. */
static bool accept_hip_library(void *context, const char *missing, const char *path, char *why, size_t size) {
  (void)context;
  if (missing == NULL && hip.hipGetDevicePropertiesR0600 == NULL && hip.hipGetDeviceProperties == NULL) {
    missing = "hipGetDevicePropertiesR0600 and hipGetDeviceProperties";
  }
  if (missing != NULL) {
    snprintf(why, size, "%s: %s is missing, so it is no HIP runtime of %d.%d or later", path, missing,
             CRK_HIP_VERSION_MAJOR(CRK_HIP_VERSION_OLDEST), CRK_HIP_VERSION_MINOR(CRK_HIP_VERSION_OLDEST));
  }
  return missing == NULL;
}

static crk_status_t hip_load_locked(void) {
  if (loaded) {
    return CRK_OK;
  }
  char named[4096] = "", why[800] = "";
  const bool is_named = crk_priv_variable("CANDLE_ROCM_HIP_LIBRARY", named, sizeof named);
  const crk_library_t search = {.stem = "amdhip64",
                                .vendor = &crk_priv_rocm,
                                .named = named,
                                .symbols = hip_symbols,
                                .functions = &hip,
                                .accept = accept_hip_library};
  hip.opened = crk_priv_library_find(&search, hip.library, sizeof hip.library, why, sizeof why);
  loaded = hip.opened != NULL;
  if (!loaded && is_named) {
    return crk_priv_error(CRK_NO_RUNTIME, "the HIP runtime %s, named by CANDLE_ROCM_HIP_LIBRARY, cannot be used: %s",
                          named, why);
  }
  if (!loaded) {
    return crk_priv_advise(crk_priv_error(CRK_NO_RUNTIME, "no HIP runtime: %s", why),
                           "%s, or name the file in CANDLE_ROCM_HIP_LIBRARY", remedy);
  }
  return CRK_OK;
}

void *crk_priv_hip_library(void) { return hip.opened; }

const char *crk_priv_hip_path(int *version) {
  *version = 0;
  if (hip.hipRuntimeGetVersion(version) != HIP_SUCCESS) {
    hip_forget_error();
    *version = 0;
  }
  return hip.library;
}

static crk_status_t hip_load(void) {
  crk_priv_mutex_lock(&load_lock);
  const crk_status_t status = hip_load_locked();
  crk_priv_mutex_unlock(&load_lock);
  return status;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Devices
 * ------------------------------------------------------------------------------------------------------------------ */

struct crk_driver_device {
  struct crk_driver_device *next;
  int ordinal;
  char target[ARCHITECTURE_BYTES]; /* the architecture with its features: "gfx90a:sramecc+:xnack-" */
  crk_device_info_t info;
};

static struct crk_driver_device *devices;

/* Makes the device the current one of this thread. Asks the runtime each time which device is current, since other code
 * in the thread may have changed it. */
static inline crk_status_t hip_bind(const crk_driver_device_t *device) {
  int current = -1;
  if (hip.hipGetDevice(&current) != HIP_SUCCESS) {
    hip_forget_error();
    current = -1;
  }
  if (current != device->ordinal) {
    HIP_TRY(hip.hipSetDevice(device->ordinal), "hipSetDevice(%d)", device->ordinal);
  }
  return CRK_OK;
}

/* For release functions, which cannot fail: binds the device, makes the call and clears its failure. */
#define RELEASE(device, call)         \
  do {                                \
    if (hip_bind(device) == CRK_OK) { \
      if ((call) != HIP_SUCCESS) {    \
        hip_forget_error();           \
      }                               \
    }                                 \
  } while (0)

static crk_status_t hip_device_count(int32_t *count) {
  int found = 0;
  const int code = hip.hipGetDeviceCount(&found);
  if (code == HIP_NO_DEVICE) { /* a runtime without a GPU */
    hip_forget_error();
    found = 0;
  } else {
    HIP_TRY(code, "hipGetDeviceCount");
  }
  *count = found < 0 ? 0 : found;
  return CRK_OK;
}

static crk_status_t hip_attribute(int ordinal, int number, const char *name, uint32_t *value) {
  int answer = 0;
  HIP_TRY(hip.hipDeviceGetAttribute(&answer, number, ordinal), "hipDeviceGetAttribute(%s, device %d)", name, ordinal);
  if (answer <= 0) {
    return crk_priv_error(CRK_DEVICE, "hipDeviceGetAttribute(%s, device %d) gives %d; it must be above 0", name,
                          ordinal, answer);
  }
  *value = (uint32_t)answer;
  return CRK_OK;
}

/* Computes SIMD units and shared memory per unit. On RDNA, HIP counts a workgroup processor, which is two compute
 * units, as one multiprocessor; with GPU_ENABLE_WGP_MODE=0 it counts each compute unit (clr: rocdevice.cpp,
 * rocsettings.cpp, paldevice.cpp). Its count of physical multiprocessors is the same. The number of threads per
 * multiprocessor tells the two cases apart. */
static void describe_units(crk_device_info_t *info) {
  const crk_architecture_t *architecture = crk_priv_architecture_find(info->architecture);
  if (architecture == NULL) { /* an architecture that this project has no kernels for */
    info->simd_units = 4 * info->compute_units;
    info->unit_shared_bytes = info->shared_bytes;
    return;
  }
  const uint32_t threads = info->wave_size * architecture->simd.units * architecture->simd.waves;
  const uint32_t counted = info->unit_threads > threads + threads / 2 ? 2 : 1;
  info->simd_units = info->compute_units * counted * architecture->simd.units;
  info->unit_shared_bytes = (uint64_t)counted * architecture->simd.shared_kib << 10;
}

/* The L2 caches that the blocks of a launch go to in turn: one per accelerator die (XCC) of the device's partition.
 * Runtimes before HIP 7 do not know the attribute, and some give 0. */
static void describe_caches(int ordinal, crk_device_info_t *info) {
  int caches = 0;
  if (hip.hipDeviceGetAttribute(&caches, HIP_ATTRIBUTE_NUMBER_OF_XCCS, ordinal) != HIP_SUCCESS) {
    hip_forget_error();
    caches = 0;
  }
  info->l2_caches = caches > 0 ? (uint64_t)caches : 1;
}

/* The PCI address, from a text such as "0000:03:00.0". It stays 0 if the runtime lacks the call, fails, or has another
 * text: a device works without it. */
static void describe_pci(int ordinal, crk_device_info_t *info) {
  char text[64] = "";
  if (hip.hipDeviceGetPCIBusId == NULL) {
    return;
  }
  if (hip.hipDeviceGetPCIBusId(text, (int)sizeof text, ordinal) != HIP_SUCCESS) {
    hip_forget_error();
    return;
  }
  text[sizeof text - 1] = 0;
  unsigned domain, bus, device;
  if (sscanf(text, "%x:%x:%x", &domain, &bus, &device) == 3) {
    info->pci_domain = domain;
    info->pci_bus = bus;
    info->pci_device = device;
  }
}

static crk_status_t hip_describe_device(int ordinal, crk_driver_device_t *device) {
  unsigned char *properties = calloc(1, PROPERTIES_BYTES);
  if (properties == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "hipGetDeviceProperties(device %d): no host memory for the properties",
                          ordinal);
  }
  const bool r0600 = hip.hipGetDevicePropertiesR0600 != NULL;
  const properties_shape_t *shape = r0600 ? &shape_r0600 : &shape_5;
  const int code =
      r0600 ? hip.hipGetDevicePropertiesR0600(properties, ordinal) : hip.hipGetDeviceProperties(properties, ordinal);
  char name[NAME_BYTES];
  uint64_t memory = 0;
  memcpy(name, properties, sizeof name);
  memcpy(device->target, properties + shape->architecture, sizeof device->target);
  memcpy(&memory, properties + shape->total_memory, sizeof memory);
  free(properties);
  const char *call = r0600 ? "hipGetDevicePropertiesR0600" : "hipGetDeviceProperties";
  HIP_TRY(code, "%s(device %d)", call, ordinal);
  name[sizeof name - 1] = 0;
  device->target[sizeof device->target - 1] = 0;
  crk_device_info_t *info = &device->info;
  const size_t length = strcspn(device->target, ":");
  if (strncmp(device->target, "gfx", 3) != 0 || length >= sizeof info->architecture ||
      strlen(device->target) >= sizeof info->target) {
    return crk_priv_error(CRK_DEVICE, "%s(device %d) gives '%.60s', which is no AMD architecture", call, ordinal,
                          device->target);
  }
  info->backend = CRK_BACKEND_HIP;
  info->ordinal = ordinal;
  memcpy(info->name, name, sizeof info->name);
  memcpy(info->architecture, device->target, length);
  info->architecture[length] = 0;
  strcpy(info->target, device->target);
  uint32_t shared = 0;
  CRK_TRY(hip_attribute(ordinal, HIP_ATTRIBUTE_WARP_SIZE, "warp size", &info->wave_size));
  CRK_TRY(hip_attribute(ordinal, HIP_ATTRIBUTE_MULTIPROCESSOR_COUNT, "multiprocessor count", &info->compute_units));
  CRK_TRY(hip_attribute(ordinal, HIP_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "threads per block", &info->max_block_threads));
  CRK_TRY(hip_attribute(ordinal, HIP_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, "threads per multiprocessor",
                        &info->unit_threads));
  CRK_TRY(hip_attribute(ordinal, HIP_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, "shared memory per block", &shared));
  for (int i = 0; i < 3; i++) {
    CRK_TRY(hip_attribute(ordinal, HIP_ATTRIBUTE_MAX_BLOCK_DIM_X + i, "dims of a block", &info->max_block[i]));
    CRK_TRY(hip_attribute(ordinal, HIP_ATTRIBUTE_MAX_GRID_DIM_X + i, "dims of a grid", &info->max_grid[i]));
  }
  int version = 0;
  HIP_TRY(hip.hipRuntimeGetVersion(&version), "hipRuntimeGetVersion");
  info->runtime_version = (uint32_t)version;
  info->max_grid_threads = UINT32_MAX; /* the dispatch packet counts the threads along a dim of the grid in 32 bits */
  info->memory_bytes = memory;
  info->shared_bytes = shared;
  describe_units(info);
  describe_caches(ordinal, info);
  describe_pci(ordinal, info);
  device->ordinal = ordinal;
  return CRK_OK;
}

static crk_status_t hip_device_get_locked(int32_t ordinal, crk_driver_device_t **device) {
  for (crk_driver_device_t *known = devices; known != NULL; known = known->next) {
    if (known->ordinal == ordinal) {
      *device = known;
      return CRK_OK;
    }
  }
  crk_driver_device_t *fresh = calloc(1, sizeof *fresh);
  if (fresh == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "device %d: no host memory for its description", ordinal);
  }
  crk_status_t status = hip_describe_device(ordinal, fresh);
  if (status == CRK_OK) {
    status = hip_bind(fresh);
  }
  if (status != CRK_OK) {
    free(fresh);
    return status;
  }
  fresh->next = devices;
  devices = fresh;
  *device = fresh;
  return CRK_OK;
}

static crk_status_t hip_device_get(int32_t ordinal, crk_driver_device_t **device) {
  crk_priv_mutex_lock(&load_lock);
  const crk_status_t status = hip_device_get_locked(ordinal, device);
  crk_priv_mutex_unlock(&load_lock);
  return status;
}

static crk_status_t hip_device_info(crk_driver_device_t *device, crk_device_info_t *info) {
  *info = device->info;
  return CRK_OK;
}

static crk_status_t hip_device_memory(crk_driver_device_t *device, size_t *free_bytes, size_t *total_bytes) {
  CRK_TRY(hip_bind(device));
  size_t free_now = 0, total = 0;
  HIP_TRY(hip.hipMemGetInfo(&free_now, &total), "hipMemGetInfo(device %d)", device->ordinal);
  *free_bytes = free_now;
  *total_bytes = total;
  return CRK_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Memory
 * ------------------------------------------------------------------------------------------------------------------ */

static crk_status_t hip_alloc(crk_driver_device_t *device, size_t bytes, void **ptr) {
  CRK_TRY(hip_bind(device));
  void *fresh = NULL;
  HIP_TRY(hip.hipMalloc(&fresh, bytes), "hipMalloc(%zu bytes)", bytes);
  *ptr = fresh;
  return CRK_OK;
}

static void hip_free(crk_driver_device_t *device, void *ptr) { RELEASE(device, hip.hipFree(ptr)); }

/* Uncached: loads of this GPU then see the stores of other GPUs while a kernel runs. Without fine-grained memory of the
 * device, a runtime gives ordinary memory for this flag. Its stores may never be seen. That is so on PCIe, unless
 * HSA_FORCE_FINE_GRAIN_PCIE is set. */
static crk_status_t hip_peer_alloc(crk_driver_device_t *device, size_t bytes, void **ptr) {
  NEED(hipExtMallocWithFlags);
  CRK_TRY(hip_bind(device));
  int is_fine_grained = 0;
  if (hip.hipDeviceGetAttribute(&is_fine_grained, HIP_ATTRIBUTE_FINE_GRAIN_SUPPORT, device->ordinal) != HIP_SUCCESS) {
    hip_forget_error();
    is_fine_grained = 0;
  }
  if (!is_fine_grained) {
    return crk_priv_error(CRK_UNSUPPORTED, "hip:%d has no fine-grained memory", device->ordinal);
  }
  void *fresh = NULL;
  HIP_TRY(hip.hipExtMallocWithFlags(&fresh, bytes, HIP_MALLOC_UNCACHED), "hipExtMallocWithFlags(%zu bytes, uncached)",
          bytes);
  *ptr = fresh;
  return CRK_OK;
}

/* Writes over PCIe pass a buffer of the receiver (HDP). It must be flushed between the bytes and the store that tells
 * of them, as RCCL does on GPUs before CDNA 2. */
static bool hip_peer_copies_in_order(const crk_driver_device_t *device) {
  const crk_architecture_t *architecture = crk_priv_architecture_find(device->info.architecture);
  return architecture != NULL && CRK_MATRIX_IS_MFMA(architecture->matrix) && architecture->matrix != CRK_MATRIX_MFMA1;
}

static crk_status_t hip_peer_export(crk_driver_device_t *device, void *ptr, crk_peer_handle_t *handle) {
  NEED(hipIpcGetMemHandle);
  CRK_TRY(hip_bind(device));
  HIP_TRY(hip.hipIpcGetMemHandle(handle, ptr), "hipIpcGetMemHandle");
  return CRK_OK;
}

static crk_status_t hip_peer_open(crk_driver_device_t *device, const crk_peer_handle_t *handle, void **ptr) {
  NEED(hipIpcOpenMemHandle);
  NEED(hipIpcCloseMemHandle);
  CRK_TRY(hip_bind(device));
  void *opened = NULL;
  HIP_TRY(hip.hipIpcOpenMemHandle(&opened, *handle, HIP_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
          "hipIpcOpenMemHandle(device %d)", device->ordinal);
  *ptr = opened;
  return CRK_OK;
}

static void hip_peer_close(crk_driver_device_t *device, void *ptr) { RELEASE(device, hip.hipIpcCloseMemHandle(ptr)); }

static crk_status_t hip_host_alloc_flags(crk_driver_device_t *device, size_t bytes, unsigned flags, void **ptr) {
  CRK_TRY(hip_bind(device));
  void *fresh = NULL;
  HIP_TRY(hip.hipHostMalloc(&fresh, bytes, flags), "hipHostMalloc(%zu bytes)", bytes);
  *ptr = fresh;
  return CRK_OK;
}

static crk_status_t hip_host_alloc(crk_driver_device_t *device, size_t bytes, void **ptr) {
  return hip_host_alloc_flags(device, bytes, HIP_HOST_MALLOC_PORTABLE, ptr);
}

static crk_status_t hip_host_alloc_coherent(crk_driver_device_t *device, size_t bytes, void **ptr) {
  return hip_host_alloc_flags(device, bytes, HIP_HOST_MALLOC_PORTABLE | HIP_HOST_MALLOC_COHERENT, ptr);
}

static void hip_host_free(crk_driver_device_t *device, void *ptr) { RELEASE(device, hip.hipHostFree(ptr)); }

static crk_status_t hip_copy(crk_driver_device_t *device, crk_driver_stream_t *stream, void *dst, const void *src,
                             size_t bytes, crk_copy_kind_t kind) {
  static const int kinds[] = {HIP_COPY_TO_DEVICE, HIP_COPY_TO_HOST, HIP_COPY_ON_DEVICE};
  static const char *const names[] = {"to the device", "to the host", "on the device"};
  CRK_TRY(hip_bind(device));
  HIP_TRY(hip.hipMemcpyAsync(dst, src, bytes, kinds[kind], stream), "hipMemcpyAsync(%zu bytes %s)", bytes, names[kind]);
  return CRK_OK;
}

static crk_status_t hip_copy_peer(crk_driver_device_t *dst_device, void *dst, crk_driver_device_t *src_device,
                                  const void *src, size_t bytes, crk_driver_stream_t *dst_stream) {
  NEED(hipMemcpyPeerAsync);
  CRK_TRY(hip_bind(dst_device));
  HIP_TRY(hip.hipMemcpyPeerAsync(dst, dst_device->ordinal, src, src_device->ordinal, bytes, dst_stream),
          "hipMemcpyPeerAsync(%zu bytes from device %d to %d)", bytes, src_device->ordinal, dst_device->ordinal);
  return CRK_OK;
}

static crk_status_t hip_peer_access(crk_driver_device_t *device, crk_driver_device_t *peer, bool *has_access) {
  if (hip.hipDeviceCanAccessPeer == NULL || hip.hipDeviceEnablePeerAccess == NULL) {
    *has_access = false;
    return CRK_OK;
  }
  CRK_TRY(hip_bind(device));
  int can_access = 0;
  HIP_TRY(hip.hipDeviceCanAccessPeer(&can_access, device->ordinal, peer->ordinal),
          "hipDeviceCanAccessPeer(device %d, peer %d)", device->ordinal, peer->ordinal);
  if (can_access != 0) {
    const int code = hip.hipDeviceEnablePeerAccess(peer->ordinal, 0);
    if (code == HIP_PEER_ACCESS_ALREADY_ENABLED) {
      hip_forget_error();
    } else {
      HIP_TRY(code, "hipDeviceEnablePeerAccess(device %d, peer %d)", device->ordinal, peer->ordinal);
    }
  }
  *has_access = can_access != 0;
  return CRK_OK;
}

static crk_status_t hip_memset(crk_driver_device_t *device, crk_driver_stream_t *stream, void *dst, uint8_t value,
                               size_t bytes) {
  CRK_TRY(hip_bind(device));
  HIP_TRY(hip.hipMemsetAsync(dst, value, bytes, stream), "hipMemsetAsync(%zu bytes)", bytes);
  return CRK_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Streams and events: the handles are those of the runtime
 * ------------------------------------------------------------------------------------------------------------------ */

static crk_status_t hip_stream_create(crk_driver_device_t *device, crk_driver_stream_t **stream) {
  CRK_TRY(hip_bind(device));
  void *fresh = NULL;
  HIP_TRY(hip.hipStreamCreateWithFlags(&fresh, HIP_STREAM_NON_BLOCKING), "hipStreamCreateWithFlags(device %d)",
          device->ordinal);
  *stream = fresh;
  return CRK_OK;
}

static void hip_stream_destroy(crk_driver_device_t *device, crk_driver_stream_t *stream) {
  RELEASE(device, hip.hipStreamDestroy(stream));
}

static crk_status_t hip_stream_synchronize(crk_driver_device_t *device, crk_driver_stream_t *stream) {
  CRK_TRY(hip_bind(device));
  HIP_TRY(hip.hipStreamSynchronize(stream), "hipStreamSynchronize");
  return CRK_OK;
}

static crk_status_t hip_stream_wait(crk_driver_device_t *device, crk_driver_stream_t *stream,
                                    crk_driver_event_t *event) {
  CRK_TRY(hip_bind(device));
  HIP_TRY(hip.hipStreamWaitEvent(stream, event, 0), "hipStreamWaitEvent");
  return CRK_OK;
}

static crk_status_t hip_event_create(crk_driver_device_t *device, crk_driver_event_t **event) {
  CRK_TRY(hip_bind(device));
  void *fresh = NULL;
  /* The event records times, for hip_event_elapsed. */
  HIP_TRY(hip.hipEventCreateWithFlags(&fresh, HIP_EVENT_DEFAULT), "hipEventCreateWithFlags(device %d)",
          device->ordinal);
  *event = fresh;
  return CRK_OK;
}

static void hip_event_destroy(crk_driver_device_t *device, crk_driver_event_t *event) {
  RELEASE(device, hip.hipEventDestroy(event));
}

static crk_status_t hip_event_record(crk_driver_device_t *device, crk_driver_event_t *event,
                                     crk_driver_stream_t *stream) {
  CRK_TRY(hip_bind(device));
  HIP_TRY(hip.hipEventRecord(event, stream), "hipEventRecord");
  return CRK_OK;
}

static crk_status_t hip_event_query(crk_driver_device_t *device, crk_driver_event_t *event) {
  CRK_TRY(hip_bind(device));
  const int code = hip.hipEventQuery(event);
  if (code == HIP_NOT_READY) { /* not a failure here, but the runtime keeps it as one */
    hip_forget_error();
    return CRK_NOT_READY;
  }
  HIP_TRY(code, "hipEventQuery");
  return CRK_OK;
}

static crk_status_t hip_event_synchronize(crk_driver_device_t *device, crk_driver_event_t *event) {
  CRK_TRY(hip_bind(device));
  HIP_TRY(hip.hipEventSynchronize(event), "hipEventSynchronize");
  return CRK_OK;
}

static crk_status_t hip_event_elapsed(crk_driver_device_t *device, crk_driver_event_t *start, crk_driver_event_t *end,
                                      float *milliseconds) {
  NEED(hipEventElapsedTime);
  CRK_TRY(hip_bind(device));
  float elapsed = 0;
  const int code = hip.hipEventElapsedTime(&elapsed, start, end);
  if (code == HIP_NOT_READY) {
    hip_forget_error();
    return crk_priv_error(CRK_NOT_READY, "hipEventElapsedTime answers %d: the work before an event is not done yet",
                          code);
  }
  HIP_TRY(code, "hipEventElapsedTime");
  *milliseconds = elapsed;
  return CRK_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Modules and launches
 * ------------------------------------------------------------------------------------------------------------------ */

struct crk_driver_function {
  struct crk_driver_function *next; /* in its module */
  void *handle;
};

struct crk_driver_module {
  void *handle;
  void *image; /* the runtime may read it until the module is unloaded */
  crk_code_kernels_t *kernels; /* has no pointers into `image`; NULL where the code object has no such metadata */
  crk_mutex_t lock; /* guards `functions` */
  crk_driver_function_t *functions;
};

/* The files of CANDLE_ROCM_HSACO_DIR, read once and kept for the life of the process, like embedded code. */
static struct {
  crk_mutex_t lock;
  crk_image_t images[CRK_MODULE_COUNT];
} override = {CRK_MUTEX_INIT, {{NULL, 0}}};

/* The contents of a file; {NULL, 0} where it cannot be read. */
static crk_image_t read_file(const char *path) {
  crk_image_t image = {NULL, 0};
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    return image;
  }
  size_t capacity = (size_t)1 << 16, used = 0;
  unsigned char *data = malloc(capacity);
  while (data != NULL) {
    used += fread(data + used, 1, capacity - used, file);
    if (used < capacity) {
      break;
    }
    capacity *= 2;
    unsigned char *more = realloc(data, capacity);
    if (more == NULL) {
      free(data);
    }
    data = more;
  }
  if (data != NULL && ferror(file)) {
    free(data);
    data = NULL;
  }
  fclose(file);
  if (data != NULL) {
    image.data = data;
    image.bytes = used;
  }
  return image;
}

/* With the environment variable CANDLE_ROCM_HSACO_DIR, the files <dir>/<module>.hsaco replace the embedded images, for
 * work on a kernel and for tests. A module without a file there has no code. */
static crk_image_t hip_builtin(size_t index) {
  const char *folder = getenv("CANDLE_ROCM_HSACO_DIR");
  if (folder == NULL || folder[0] == 0) {
    return crk_priv_images_hip[index];
  }
  crk_priv_mutex_lock(&override.lock);
  if (override.images[index].data == NULL) {
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/%s.hsaco", folder, crk_priv_module_name(index));
    if (length > 0 && (size_t)length < sizeof path) {
      override.images[index] = read_file(path);
    }
  }
  const crk_image_t image = override.images[index];
  crk_priv_mutex_unlock(&override.lock);
  return image;
}

static void hip_destroy_module(crk_driver_module_t *module) {
  if (module != NULL) {
    for (crk_driver_function_t *function = module->functions; function != NULL;) {
      crk_driver_function_t *next = function->next;
      free(function);
      function = next;
    }
    crk_priv_code_kernels_destroy(module->kernels);
    crk_priv_aligned_free(module->image);
    crk_priv_mutex_deinit(&module->lock);
    free(module);
  }
}

static crk_status_t hip_module_load_failed(int code, const char *name, const crk_driver_device_t *device,
                                           const char *generic) {
  const crk_status_t status = hip_failed(code, "module %s: hipModuleLoadData on a %s", name, device->target);
  int version = 0;
  if (generic != NULL && status != CRK_OUT_OF_MEMORY && hip.hipRuntimeGetVersion(&version) == HIP_SUCCESS &&
      version < CRK_HIP_VERSION_GENERIC) {
    return crk_priv_advise(
        crk_priv_error(CRK_WRONG_ARCHITECTURE,
                       "%s; the code is for %s, which needs ROCm %d.%d or later, and this HIP runtime has version "
                       "%d.%d",
                       crk_last_error(), generic, CRK_HIP_VERSION_MAJOR(CRK_HIP_VERSION_GENERIC),
                       CRK_HIP_VERSION_MINOR(CRK_HIP_VERSION_GENERIC), CRK_HIP_VERSION_MAJOR(version),
                       CRK_HIP_VERSION_MINOR(version)),
        "update ROCm, or take code for %.*s", (int)strcspn(device->target, ":"), device->target);
  }
  switch (code) {
    case HIP_NO_BINARY_FOR_GPU:
      return crk_priv_error(CRK_WRONG_ARCHITECTURE, "%s", crk_last_error());
    case HIP_INVALID_IMAGE:
    case HIP_INVALID_KERNEL_FILE:
      return crk_priv_error(CRK_INVALID_IMAGE, "%s", crk_last_error());
    default:
      return status;
  }
}

/* Copies the ELF for a device to memory of its own. The runtime gets no size, and keeps pointers into the ELF. So the
 * ELF must be complete and aligned, and must live as long as the module. Free its data with crk_priv_aligned_free. */
static crk_status_t hip_take_elf(const crk_driver_device_t *device, const char *name, const void *data, size_t bytes,
                                 crk_image_t *elf) {
  if (crk_priv_is_packed(data, bytes)) {
    return crk_priv_unpack_elf(name, device->target, data, bytes, elf);
  }
  crk_image_t bundle = {NULL, 0}, found = {NULL, 0};
  CRK_TRY(crk_priv_bundle_decompress(name, data, bytes, &bundle));
  crk_status_t status = crk_priv_code_object_find(name, device->target, bundle.data, bundle.bytes, &found);
  void *copy = status == CRK_OK ? crk_priv_aligned_alloc(found.bytes) : NULL;
  if (copy != NULL) {
    memcpy(copy, found.data, found.bytes);
    elf->data = copy;
    elf->bytes = found.bytes;
  } else if (status == CRK_OK) {
    status = crk_priv_error(CRK_OUT_OF_MEMORY, "module %s: no host memory for its %zu bytes", name, found.bytes);
  }
  if (bundle.data != data) {
    crk_priv_aligned_free((void *)bundle.data);
  }
  return status;
}

static crk_status_t hip_module_load(crk_driver_device_t *device, const char *name, const void *data, size_t bytes,
                                    crk_driver_module_t **module) {
  crk_image_t elf = {NULL, 0};
  CRK_TRY(hip_take_elf(device, name, data, bytes, &elf));
  crk_driver_module_t *fresh = calloc(1, sizeof *fresh);
  if (fresh == NULL) {
    crk_priv_aligned_free((void *)elf.data);
    return crk_priv_error(CRK_OUT_OF_MEMORY, "module %s: no host memory for its description", name);
  }
  fresh->image = (void *)elf.data;
  crk_priv_mutex_init(&fresh->lock);
  crk_status_t status = hip_bind(device);
  if (status != CRK_OK) {
    goto fail;
  }
  status = crk_priv_code_kernels_create(name, elf, &fresh->kernels);
  if (status != CRK_OK) {
    goto fail;
  }
  const int code = hip.hipModuleLoadData(&fresh->handle, fresh->image);
  if (code != HIP_SUCCESS) {
    status = hip_module_load_failed(code, name, device, crk_priv_code_object_generic(elf));
    goto fail;
  }
  *module = fresh;
  return CRK_OK;

fail:
  hip_destroy_module(fresh);
  return status;
}

static void hip_module_unload(crk_driver_device_t *device, crk_driver_module_t *module) {
  RELEASE(device, hip.hipModuleUnload(module->handle));
  hip_destroy_module(module);
}

static crk_status_t hip_module_function(crk_driver_device_t *device, crk_driver_module_t *module, const char *name,
                                        crk_driver_function_t **function, crk_signature_t *signature) {
  const crk_code_kernel_t *kernel = NULL;
  if (module->kernels != NULL) {
    kernel = crk_priv_code_kernels_find(module->kernels, name);
    if (kernel == NULL) {
      return CRK_NOT_FOUND;
    }
  }
  CRK_TRY(hip_bind(device));
  void *handle = NULL;
  const int code = hip.hipModuleGetFunction(&handle, module->handle, name);
  if (code == HIP_NOT_FOUND) {
    hip_forget_error();
    return CRK_NOT_FOUND;
  }
  HIP_TRY(code, "hipModuleGetFunction(%s)", name);
  crk_driver_function_t *fresh = calloc(1, sizeof *fresh);
  if (fresh == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "kernel %s: no host memory for its description", name);
  }
  fresh->handle = handle;
  crk_priv_mutex_lock(&module->lock);
  fresh->next = module->functions;
  module->functions = fresh;
  crk_priv_mutex_unlock(&module->lock);
  *function = fresh;
  const crk_signature_t unknown = {NULL, 0, 0, 0, 0};
  *signature = unknown;
  if (kernel != NULL) {
    signature->params = kernel->params;
    signature->count = kernel->param_count;
    signature->max_threads = kernel->max_threads;
    signature->shared_bytes = kernel->shared_bytes;
    signature->registers = kernel->registers;
  }
  return CRK_OK;
}

static crk_status_t hip_launch(crk_driver_device_t *device, crk_driver_stream_t *stream,
                               crk_driver_function_t *function, crk_dim3_t grid, crk_dim3_t block,
                               uint32_t shared_bytes, const void *const *args) {
  CRK_TRY(hip_bind(device));
  HIP_TRY(hip.hipModuleLaunchKernel(function->handle, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes,
                                    stream, crk_priv_driver_args(args), NULL),
          "hipModuleLaunchKernel(grid %u x %u x %u, block %u x %u x %u, %u bytes shared)", grid.x, grid.y, grid.z,
          block.x, block.y, block.z, shared_bytes);
  return CRK_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Graphs
 * ------------------------------------------------------------------------------------------------------------------ */

static crk_status_t hip_capture_begin(crk_driver_device_t *device, crk_driver_stream_t *stream) {
  NEED(hipStreamBeginCapture);
  NEED(hipStreamEndCapture);
  NEED(hipGraphInstantiate);
  NEED(hipGraphLaunch);
  NEED(hipGraphExecDestroy);
  NEED(hipGraphDestroy);
  CRK_TRY(hip_bind(device));
  HIP_TRY(hip.hipStreamBeginCapture(stream, HIP_CAPTURE_RELAXED), "hipStreamBeginCapture");
  return CRK_OK;
}

/* Makes a stream usable again after its capture failed. HIP leaves such a stream "invalidated", and it then refuses all
 * work. A new capture that records nothing ends that state. On a stream in another state it changes nothing. */
static void hip_mend_stream(crk_driver_stream_t *stream) {
  void *empty = NULL;
  if (hip.hipStreamBeginCapture(stream, HIP_CAPTURE_RELAXED) == HIP_SUCCESS &&
      hip.hipStreamEndCapture(stream, &empty) == HIP_SUCCESS && empty != NULL) {
    hip.hipGraphDestroy(empty);
  }
  hip_forget_error();
}

static crk_status_t hip_capture_end(crk_driver_device_t *device, crk_driver_stream_t *stream,
                                    crk_driver_graph_t **graph) {
  crk_status_t status = hip_bind(device); /* the capture ends also if this fails: the stream knows its device */
  void *recording = NULL, *exec = NULL;
  int code = hip.hipStreamEndCapture(stream, &recording);
  if (code != HIP_SUCCESS) {
    status = hip_failed(code, "hipStreamEndCapture");
    hip_mend_stream(stream);
    return status;
  }
  if (graph != NULL && status == CRK_OK) {
    code = hip.hipGraphInstantiate(&exec, recording, NULL, NULL, 0);
    status = code == HIP_SUCCESS ? CRK_OK : hip_failed(code, "hipGraphInstantiate");
  }
  if (hip.hipGraphDestroy(recording) != HIP_SUCCESS) { /* the instantiated graph has copies of what it needs */
    hip_forget_error();
  }
  if (graph != NULL && status == CRK_OK) {
    *graph = exec;
  }
  return status;
}

static crk_status_t hip_graph_launch(crk_driver_device_t *device, crk_driver_graph_t *graph,
                                     crk_driver_stream_t *stream) {
  CRK_TRY(hip_bind(device));
  HIP_TRY(hip.hipGraphLaunch(graph, stream), "hipGraphLaunch");
  return CRK_OK;
}

static void hip_graph_destroy(crk_driver_device_t *device, crk_driver_graph_t *graph) {
  RELEASE(device, hip.hipGraphExecDestroy(graph));
}

/* ------------------------------------------------------------------------------------------------------------------ */

const crk_driver_t crk_priv_driver_hip = {
    .backend = CRK_BACKEND_HIP,
    .load = hip_load,
    .device_count = hip_device_count,
    .device_get = hip_device_get,
    .device_info = hip_device_info,
    .device_memory = hip_device_memory,
    .bind = hip_bind,
    .alloc = hip_alloc,
    .free = hip_free,
    .host_alloc = hip_host_alloc,
    .peer_alloc = hip_peer_alloc,
    .peer_free = hip_free,
    .peer_copies_in_order = hip_peer_copies_in_order,
    .peer_export = hip_peer_export,
    .peer_open = hip_peer_open,
    .peer_close = hip_peer_close,
    .host_alloc_coherent = hip_host_alloc_coherent,
    .host_free = hip_host_free,
    .copy = hip_copy,
    .copy_peer = hip_copy_peer,
    .peer_access = hip_peer_access,
    .memset = hip_memset,
    .stream_create = hip_stream_create,
    .stream_destroy = hip_stream_destroy,
    .stream_synchronize = hip_stream_synchronize,
    .stream_wait = hip_stream_wait,
    .event_create = hip_event_create,
    .event_destroy = hip_event_destroy,
    .event_record = hip_event_record,
    .event_query = hip_event_query,
    .event_synchronize = hip_event_synchronize,
    .event_elapsed = hip_event_elapsed,
    .builtin = hip_builtin,
    .module_load = hip_module_load,
    .module_unload = hip_module_unload,
    .module_function = hip_module_function,
    .launch = hip_launch,
    .capture_begin = hip_capture_begin,
    .capture_end = hip_capture_end,
    .graph_launch = hip_graph_launch,
    .graph_destroy = hip_graph_destroy,
};
