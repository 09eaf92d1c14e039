/* driver.h: the interface between the core and the drivers of the backends. A driver is a table with every call that
 * the core makes. driver/hip/hip.c, driver/cuda.c and driver/cpu/cpu.c each define one. All other code of the core is
 * the same for every backend.
 *
 * The contract of all calls:
 * - The core guarantees its arguments: result pointers and strings are not NULL, sizes and the dims of grids and blocks
 *   are above 0, ordinals are in range.
 * - The core calls `load` first, and other functions only after it has succeeded. Only `builtin` needs no `load`.
 * - A function that fails calls crk_priv_error (error.h) and returns its status. The sentence names the runtime's call
 *   and its answer. The function frees everything that it made, and leaves out-pointers unchanged.
 * - Any function may be called from any thread. If the runtime has a current device per thread, the driver sets it,
 *   unless it is the right one already.
 * - A release function (`void`) hides its failures from the core. */
#ifndef CRK_DRIVER_H
#define CRK_DRIVER_H

#include "candle_rocm.h"

/* Versions of the HIP runtime, as hipRuntimeGetVersion counts: the oldest that has the calls this library needs, the
 * first that loads code for generic targets, and the newest major version in which the calls are known to be the
 * same. */
#define CRK_HIP_VERSION(major, minor)  ((major) * 10000000 + (minor) * 100000)
#define CRK_HIP_VERSION_MAJOR(version) ((version) / 10000000)
#define CRK_HIP_VERSION_MINOR(version) ((version) / 100000 % 100)
#define CRK_HIP_VERSION_OLDEST         CRK_HIP_VERSION(5, 2)
#define CRK_HIP_VERSION_GENERIC        CRK_HIP_VERSION(6, 4)
#define CRK_HIP_VERSION_NEWEST_MAJOR   7

/* Objects of the drivers, opaque here. */
typedef struct crk_driver_device crk_driver_device_t; /* one per ordinal and process */
typedef struct crk_driver_stream crk_driver_stream_t; /* may be the runtime's handle itself */
typedef struct crk_driver_event crk_driver_event_t;
typedef struct crk_driver_module crk_driver_module_t;
typedef struct crk_driver_function crk_driver_function_t;
typedef struct crk_driver_graph crk_driver_graph_t; /* an instantiated graph */
typedef struct crk_driver_chain crk_driver_chain_t; /* the same, of launches that can be updated */

/* A launch, with the contract of the call `launch`. */
typedef struct crk_driver_launch {
  crk_driver_function_t *function;
  crk_dim3_t grid, block;
  uint32_t shared_bytes;
  const void *const *args;
} crk_driver_launch_t;

typedef enum crk_copy_kind { CRK_COPY_TO_DEVICE, CRK_COPY_TO_HOST, CRK_COPY_ON_DEVICE } crk_copy_kind_t;

/* hipIpcMemHandle_t and CUipcMemHandle, which are passed by value. */
typedef struct crk_peer_handle {
  uint8_t bytes[64];
} crk_peer_handle_t;

/* The properties of a function. Numbers that the driver does not know are 0. */
typedef struct crk_signature {
  const crk_param_t *params; /* owned by the driver's function; NULL where the driver does not know them */
  size_t count;
  uint32_t max_threads; /* of a block */
  uint32_t shared_bytes; /* static shared memory of a block */
  uint32_t registers; /* vector registers of a lane */
} crk_signature_t;

typedef struct crk_driver {
  crk_backend_t backend;

  /* Loads the runtime once per process; after a failure the next call tries again. CRK_NO_RUNTIME where there is
   * none. */
  crk_status_t (*load)(void);
  crk_status_t (*device_count)(int32_t *count);
  /* The device of an ordinal, ready for use. Devices live as long as the process. */
  crk_status_t (*device_get)(int32_t ordinal, crk_driver_device_t **device);
  crk_status_t (*device_info)(crk_driver_device_t *device, crk_device_info_t *info);
  crk_status_t (*device_memory)(crk_driver_device_t *device, size_t *free_bytes, size_t *total_bytes);
  /* Whether work of `device` can read and write the memory of `peer`, another device of this driver. Asks the runtime
   * for it, which may have granted it already. False where the runtime has no such call. */
  crk_status_t (*peer_access)(crk_driver_device_t *device, crk_driver_device_t *peer, bool *has_access);
  /* Makes the device the current one of this thread, for calls to the runtime's other libraries. */
  crk_status_t (*bind)(const crk_driver_device_t *device);

  /* Memory aligned to at least 256 bytes. CRK_OUT_OF_MEMORY where there is too little. `free` may wait for the
   * device. */
  crk_status_t (*alloc)(crk_driver_device_t *device, size_t bytes, void **ptr);
  void (*free)(crk_driver_device_t *device, void *ptr);
  /* Memory that other GPUs write while kernels of this one read it. `peer_export` gives the handle with which another
   * process of this host opens it by `peer_open`. `peer_writes_in_order`: whether the device sees what another one
   * has copied or stored there before a later store of that one. All six are NULL where the driver has no such
   * memory. */
  crk_status_t (*peer_alloc)(crk_driver_device_t *device, size_t bytes, void **ptr);
  void (*peer_free)(crk_driver_device_t *device, void *ptr);
  bool (*peer_writes_in_order)(const crk_driver_device_t *device);
  crk_status_t (*peer_export)(crk_driver_device_t *device, void *ptr, crk_peer_handle_t *handle);
  crk_status_t (*peer_open)(crk_driver_device_t *device, const crk_peer_handle_t *handle, void **ptr);
  void (*peer_close)(crk_driver_device_t *device, void *ptr);
  /* Pinned host memory: every device of the driver copies from and to it without a staging buffer. */
  crk_status_t (*host_alloc)(crk_driver_device_t *device, size_t bytes, void **ptr);
  /* The same, uncached on both sides, for data that kernels write by atomic operations and the host reads. */
  crk_status_t (*host_alloc_coherent)(crk_driver_device_t *device, size_t bytes, void **ptr);
  void (*host_free)(crk_driver_device_t *device, void *ptr);

  /* Asynchronous on the stream. A stream that is captured records them. */
  crk_status_t (*copy)(crk_driver_device_t *device, crk_driver_stream_t *stream, void *dst, const void *src,
                       size_t bytes, crk_copy_kind_t kind);
  /* Works without peer access too: the runtime then stages the bytes in host memory. */
  crk_status_t (*copy_peer)(crk_driver_device_t *dst_device, void *dst, crk_driver_device_t *src_device,
                            const void *src, size_t bytes, crk_driver_stream_t *dst_stream);
  crk_status_t (*memset)(crk_driver_device_t *device, crk_driver_stream_t *stream, void *dst, uint8_t value,
                         size_t bytes);

  /* Streams and the legacy default stream do not wait for each other. */
  crk_status_t (*stream_create)(crk_driver_device_t *device, crk_driver_stream_t **stream);
  void (*stream_destroy)(crk_driver_device_t *device, crk_driver_stream_t *stream);
  crk_status_t (*stream_synchronize)(crk_driver_device_t *device, crk_driver_stream_t *stream);
  crk_status_t (*stream_wait)(crk_driver_device_t *device, crk_driver_stream_t *stream, crk_driver_event_t *event);

  crk_status_t (*event_create)(crk_driver_device_t *device, crk_driver_event_t **event);
  void (*event_destroy)(crk_driver_device_t *device, crk_driver_event_t *event);
  crk_status_t (*event_record)(crk_driver_device_t *device, crk_driver_event_t *event, crk_driver_stream_t *stream);
  /* CRK_OK, or CRK_NOT_READY without a sentence. */
  crk_status_t (*event_query)(crk_driver_device_t *device, crk_driver_event_t *event);
  crk_status_t (*event_synchronize)(crk_driver_device_t *device, crk_driver_event_t *event);
  crk_status_t (*event_elapsed)(crk_driver_device_t *device, crk_driver_event_t *start, crk_driver_event_t *end,
                                float *milliseconds);

  /* The embedded image of module `index` (modules.h), packed (image/unpack.h). `data` is NULL where this build has
   * none. For the CPU `data` is a crk_host_module_t and `bytes` is 0. */
  crk_image_t (*builtin)(size_t index);
  /* Unpacks an image, checks it before the runtime reads it, and loads it. `bytes` is 0 for a builtin of the CPU. Fails
   * with CRK_INVALID_IMAGE or CRK_WRONG_ARCHITECTURE. Copies what it keeps of `data`. */
  crk_status_t (*module_load)(crk_driver_device_t *device, const char *name, const void *data, size_t bytes,
                              crk_driver_module_t **module);
  void (*module_unload)(crk_driver_device_t *device, crk_driver_module_t *module);
  /* A kernel of the module, which owns the function. CRK_NOT_FOUND without a sentence where it has no such kernel. */
  crk_status_t (*module_function)(crk_driver_device_t *device, crk_driver_module_t *module, const char *name,
                                  crk_driver_function_t **function, crk_signature_t *signature);

  /* args[i] points at argument i, which the driver copies before it returns. The core has checked the sizes. */
  crk_status_t (*launch)(crk_driver_device_t *device, crk_driver_stream_t *stream, crk_driver_function_t *function,
                         crk_dim3_t grid, crk_dim3_t block, uint32_t shared_bytes, const void *const *args);

  /* Runs body(context) as a piece of the stream's work. The body may wait for other threads, and may fail. A capture
   * records it, with a copy of the `bytes` bytes at `context`, which the body then gets. Only the CPU has this call; it
   * is NULL for GPUs. */
  crk_status_t (*call)(crk_driver_device_t *device, crk_driver_stream_t *stream, crk_status_t (*body)(void *context),
                       void *context, size_t bytes);

  /* Between `begin` and `end` the stream records. The capture does not restrict other threads. `end` with NULL discards
   * the recording. A failed `end` leaves the stream as it was before `begin`. */
  crk_status_t (*capture_begin)(crk_driver_device_t *device, crk_driver_stream_t *stream);
  crk_status_t (*capture_end)(crk_driver_device_t *device, crk_driver_stream_t *stream, crk_driver_graph_t **graph);
  crk_status_t (*graph_launch)(crk_driver_device_t *device, crk_driver_graph_t *graph, crk_driver_stream_t *stream);
  void (*graph_destroy)(crk_driver_device_t *device, crk_driver_graph_t *graph);

  /* A graph of `count` launches, each behind the one before. `chain_update` gives launch `index` another grid and other
   * arguments; the function, the block and the shared memory are the same. It may be called while the graph runs, and
   * so may `chain_destroy`: neither changes what has been launched. CRK_UNSUPPORTED where the runtime lacks calls. */
  crk_status_t (*chain_create)(crk_driver_device_t *device, const crk_driver_launch_t *launches, size_t count,
                               crk_driver_chain_t **chain);
  crk_status_t (*chain_update)(crk_driver_device_t *device, crk_driver_chain_t *chain, size_t index,
                               const crk_driver_launch_t *launch);
  crk_status_t (*chain_launch)(crk_driver_device_t *device, crk_driver_chain_t *chain, crk_driver_stream_t *stream);
  void (*chain_destroy)(crk_driver_device_t *device, crk_driver_chain_t *chain);
  uint32_t most_chain_updates; /* after as many a chain should be made anew; 0: never */
} crk_driver_t;

/* The drivers of this build. In a build without the CPU driver its table is that of driver/none.c, and `load` fails. */
extern const crk_driver_t crk_priv_driver_hip;
extern const crk_driver_t crk_priv_driver_cuda;
extern const crk_driver_t crk_priv_driver_cpu;

/* The arguments of a launch in the type that runtimes declare, which has no `const`. They only read the arguments. */
static inline void **crk_priv_driver_args(const void *const *args) { return (void **)(uintptr_t)args; }

/* The library of the HIP runtime that crk_priv_driver_hip uses. Call it only after `load` has succeeded. */
void *crk_priv_hip_library(void);

/* The paths of the runtimes, and their own version numbers (0 if they do not tell). The same condition holds. */
const char *crk_priv_hip_path(int *version);
const char *crk_priv_cuda_path(int *version);

#endif
