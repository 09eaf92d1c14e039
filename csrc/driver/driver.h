/* driver.h: the seam. Every call that the core makes of a GPU driver; driver/hip.c, driver/cuda.c and driver/cpu/cpu.c each
 * give one table of them. Nothing above this header knows which it has.
 *
 * The contract of all:
 * - Result pointers are never NULL. Sizes are above 0, grids and blocks have no 0 in them, ordinals are in range, strings
 *   are not NULL: the core has seen to that.
 * - On failure a function calls crk_priv_error (error.h) with a sentence that names the driver's call and its answer, and
 *   returns that status; nothing is left behind and out-pointers are untouched.
 * - Any function may be called from any thread. A driver that has a current device per thread binds it itself, skipping
 *   the call where this thread bound the same one last.
 * - A release function (`void`) cannot fail as far as the core is concerned. */
#ifndef CRK_DRIVER_H
#define CRK_DRIVER_H

#include "candle_rocm.h"

/* The drivers' own objects, opaque here. */
typedef struct crk_driver_device crk_driver_device_t; /* one device of this process; ordinal n is always the same */
typedef struct crk_driver_stream crk_driver_stream_t; /* may be the driver's handle itself */
typedef struct crk_driver_event crk_driver_event_t;
typedef struct crk_driver_module crk_driver_module_t;
typedef struct crk_driver_function crk_driver_function_t;
typedef struct crk_driver_graph crk_driver_graph_t; /* an instantiated graph */

typedef enum crk_copy_kind { CRK_COPY_TO_DEVICE, CRK_COPY_TO_HOST, CRK_COPY_ON_DEVICE } crk_copy_kind_t;

/* What a driver tells of a function. */
typedef struct crk_signature {
  const crk_param_t *params; /* belongs to the driver's function; NULL where the driver cannot tell */
  size_t count;
  uint32_t max_threads; /* of a block of this kernel; 0 where the driver cannot tell */
  uint32_t shared_bytes; /* of each block, without what a launch asks for; 0 where the driver cannot tell */
  uint32_t registers; /* vector registers of a lane; 0 where the driver cannot tell */
} crk_signature_t;

typedef struct crk_driver {
  crk_backend_t backend;

  /* Loads the runtime (once in a process; a failure is tried again). CRK_NO_RUNTIME where there is none. */
  crk_status_t (*load)(void);
  crk_status_t (*device_count)(int32_t *count);
  /* The device of an ordinal, ready for use. There is no close: devices live as long as the process. */
  crk_status_t (*device_get)(int32_t ordinal, crk_driver_device_t **device);
  crk_status_t (*device_info)(crk_driver_device_t *device, crk_device_info_t *info);
  crk_status_t (*device_memory)(crk_driver_device_t *device, size_t *free_bytes, size_t *total_bytes);
  /* Makes the device the one that the runtime's other libraries work on when this thread calls them. */
  crk_status_t (*bind)(const crk_driver_device_t *device);

  /* Aligned to 256 bytes at least. CRK_OUT_OF_MEMORY where there is not enough. `free` may wait for the device. */
  crk_status_t (*alloc)(crk_driver_device_t *device, size_t bytes, void **ptr);
  void (*free)(crk_driver_device_t *device, void *ptr);
  crk_status_t (*host_alloc)(crk_driver_device_t *device, size_t bytes, void **ptr);
  /* The same, for what kernels write by atomic operations and the host reads: neither side caches it. */
  crk_status_t (*host_alloc_coherent)(crk_driver_device_t *device, size_t bytes, void **ptr);
  void (*host_free)(crk_driver_device_t *device, void *ptr);

  /* All asynchronous on the stream; recorded where the stream is captured. */
  crk_status_t (*copy)(crk_driver_device_t *device, crk_driver_stream_t *stream, void *dst, const void *src,
                       size_t bytes, crk_copy_kind_t kind);
  crk_status_t (*copy_peer)(crk_driver_device_t *dst_device, void *dst, crk_driver_device_t *src_device,
                            const void *src, size_t bytes, crk_driver_stream_t *dst_stream);
  crk_status_t (*memset)(crk_driver_device_t *device, crk_driver_stream_t *stream, void *dst, uint8_t value,
                         size_t bytes);

  /* Streams do not wait for the legacy default stream, nor it for them. */
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

  /* The embedded image of module `index` (modules.h), packed (unpack.h); data NULL where this build has none. The CPU's
   * data is its crk_host_module_t, with bytes 0. */
  crk_image_t (*builtin)(size_t index);
  /* `bytes` is 0 for a builtin of the CPU. Unpacks what is packed. Checks the image before the runtime sees it:
   * CRK_INVALID_IMAGE, CRK_WRONG_ARCHITECTURE. Copies what it keeps. */
  crk_status_t (*module_load)(crk_driver_device_t *device, const char *name, const void *data, size_t bytes,
                              crk_driver_module_t **module);
  void (*module_unload)(crk_driver_device_t *device, crk_driver_module_t *module);
  /* CRK_NOT_FOUND without a sentence where the module has no such kernel. The function belongs to the module. */
  crk_status_t (*module_function)(crk_driver_device_t *device, crk_driver_module_t *module, const char *name,
                                  crk_driver_function_t **function, crk_signature_t *signature);

  /* `args[i]` points at argument i. Sizes were checked. */
  crk_status_t (*launch)(crk_driver_device_t *device, crk_driver_stream_t *stream, crk_driver_function_t *function,
                         crk_dim3_t grid, crk_dim3_t block, uint32_t shared_bytes, void **args);

  /* Between begin and end the stream records. Capturing is local to the thread, or relaxed. `end` with NULL throws the
   * recording away. A failed `end` leaves the stream as it was before `begin`. */
  crk_status_t (*capture_begin)(crk_driver_device_t *device, crk_driver_stream_t *stream);
  crk_status_t (*capture_end)(crk_driver_device_t *device, crk_driver_stream_t *stream, crk_driver_graph_t **graph);
  crk_status_t (*graph_launch)(crk_driver_device_t *device, crk_driver_graph_t *graph, crk_driver_stream_t *stream);
  void (*graph_destroy)(crk_driver_device_t *device, crk_driver_graph_t *graph);
} crk_driver_t;

/* The drivers of this build; a driver that the build left out is a table whose `load` says so (driver/none.c). */
extern const crk_driver_t crk_priv_driver_hip;
extern const crk_driver_t crk_priv_driver_cuda;
extern const crk_driver_t crk_priv_driver_cpu;

/* The HIP runtime that devices of crk_priv_driver_hip run on. There is a device. */
void *crk_priv_hip_library(void);

#endif
