/* candle_rocm/device.h: devices, the streams of their handles, and events that order streams. */
#ifndef CANDLE_ROCM_DEVICE_H
#define CANDLE_ROCM_DEVICE_H

#include "candle_rocm/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Devices
 * ------------------------------------------------------------------------------------------------------------------ */

/* XX(name, value, text): the drivers. */
#define CRK_BACKEND_MAP(XX) \
  XX(AUTO, 0, "auto")       \
  XX(HIP, 1, "hip")         \
  XX(CUDA, 2, "cuda")       \
  XX(CPU, 3, "cpu")

typedef enum crk_backend {
#define XX(name, value, text) CRK_BACKEND_##name = value,
  CRK_BACKEND_MAP(XX)
#undef XX
} crk_backend_t;

/* A handle on a device. Each handle has one stream. */
typedef struct crk_device *crk_device_t;

/* The properties of a device. Fields are added at the end only: see `struct_bytes` in candle_rocm.h.
 *
 * compute_units is HIP's count. On RDNA, HIP counts a workgroup processor (two compute units) as one, unless
 * GPU_ENABLE_WGP_MODE is 0. simd_units is the same in both cases. */
typedef struct crk_device_info {
  size_t struct_bytes; /* set by the caller: sizeof(crk_device_info_t) */
  crk_backend_t backend;
  int32_t ordinal;
  char name[256];
  char architecture[64];      /* "gfx1100", "sm_90", "x86_64"; without feature suffixes */
  uint32_t wave_size;         /* lanes of a wave (warp): 32 or 64 */
  uint32_t compute_units;     /* compute units, multiprocessors, or CPU threads */
  uint32_t max_block_threads; /* threads of a block (workgroup) */
  uint32_t runtime_version;   /* the driver's own number; 0 for the CPU */
  uint64_t max_grid_threads;  /* threads of a grid along one dimension: 2^32 - 1 on HIP */
  uint64_t memory_bytes;      /* of the device */
  uint64_t shared_bytes;      /* shared memory (LDS) of a block */
  char target[128];           /* the architecture with its features, in the driver's form: "gfx90a:sramecc+:xnack-" */
  uint32_t max_block[3];      /* threads of a block along x, y and z */
  uint32_t max_grid[3];       /* blocks of a grid along x, y and z */
  uint32_t pci_domain;        /* the PCI address, which lspci shows as domain:bus:device.function; */
  uint32_t pci_bus;           /* all three are 0 for the CPU, and for a runtime that does not tell */
  uint32_t pci_device;
  uint32_t simd_units;        /* 2 per RDNA compute unit, 4 per other compute unit or multiprocessor; CPU threads */
  uint32_t unit_threads;      /* threads that each of compute_units holds at once */
  uint64_t unit_shared_bytes; /* shared memory (LDS) of each of compute_units */
  /* L2 caches, to which the blocks of a launch go in turn: 8 for a whole MI300X, by HIP 7 and later; 1 where the
   * runtime does not tell. The CPU has two, so that its tests take the order of blocks for several caches. */
  uint64_t l2_caches;
} crk_device_info_t;

/* The number of a backend's devices. CRK_BACKEND_CPU has two: ordinal 0 with wave width 32 and ordinal 1 with 64.
 * CRK_BACKEND_AUTO counts the devices of the backend that crk_device_open would choose.
 *
 * Fails with CRK_NO_RUNTIME where the backend's runtime is missing, and for the CPU where this build has no kernels for
 * it. */
CRK_API crk_status_t crk_device_count(crk_backend_t backend, int32_t *count);

/* Reads the name of a device, in any case of letters:
 *
 *   hip:N, rocm:N    HIP device N; hip and rocm alone are device 0
 *   cuda:N           CUDA device N; cuda alone is device 0
 *   cpu:32, cpu:64   the CPU with waves of 32 or of 64 lanes; cpu alone is cpu:32
 *   gfx1100          the first HIP device of this architecture, or of a member of this generic one (gfx11-generic)
 *
 * Gives crk_device_open's arguments. Only the name of an architecture opens a runtime; an ordinal is not checked.
 *
 * Fails with CRK_INVALID_ARGUMENT for any other name. For an architecture it fails with CRK_NO_DEVICE where no device
 * has it, and as crk_device_open where the devices cannot be listed. */
CRK_API crk_status_t crk_device_from_name(const char *name, crk_backend_t *backend, int32_t *ordinal);

/* Opens a device; close it with crk_device_close. Two handles that are opened on one device share only the GPU's cache
 * of freed memory.
 *
 * CRK_BACKEND_AUTO takes the device that the environment variable CANDLE_ROCM_DEVICE names (crk_device_from_name has
 * the names; `ordinal` is then ignored). Without the variable it takes HIP, else CUDA, else the CPU. It skips a backend
 * that has no runtime, no kernels in this build or no device. It does not skip a backend that fails otherwise.
 * crk_diagnose tells the choice and its reasons.
 *
 * A GPU that is named opens even where this build has no kernels for it, so that the caller's own code can run there.
 * This library's kernels then fail with CRK_NO_RUNTIME.
 *
 * Fails with CRK_NO_RUNTIME, CRK_NO_DEVICE (the ordinal is out of range), CRK_INVALID_ARGUMENT (an unknown backend, or
 * an environment variable that names no device) or CRK_DEVICE. Where HIP has no device, the sentence says why, with
 * crk_diagnose's first problem. */
CRK_API crk_status_t crk_device_open(crk_backend_t backend, int32_t ordinal, crk_device_t *device);

/* A second handle on the same device, with a stream of its own. The two share modules and the cache of freed memory.
 * Order their work with events (crk_device_wait). Close each; the order of closing does not matter. */
CRK_API crk_status_t crk_device_clone(crk_device_t self, crk_device_t *device);

/* A second handle on the same GPU that works in the caller's `stream`, a hipStream_t or a CUstream. NULL is the legacy
 * default stream. Otherwise the handle behaves like one from crk_device_clone.
 *
 * Order: the handle's work and the work that the caller puts into the stream run in the order of the calls. Events that
 * are recorded on the handle, and crk_device_synchronize, cover the caller's work in the stream too.
 *
 * Ownership: the stream is borrowed. It must be a stream of this GPU and must live until the new handle is closed;
 * crk_device_close waits for the stream's work and does not destroy it. While crk_graph_begin captures the handle, the
 * caller's work in the stream is recorded too. The caller must not capture the stream by other means.
 *
 * Fails with CRK_INVALID_ARGUMENT where a live handle already works in this stream. NULL counts as one stream, also
 * with several GPUs. Fails with it also for the default stream per thread, because that is another stream in each
 * thread. Fails with CRK_UNSUPPORTED on the CPU, and with CRK_OUT_OF_MEMORY where the host has no memory for a handle.
 * The legacy default stream cannot be captured: crk_graph_begin fails with CRK_DEVICE.
 *
 * While a handle on the legacy stream lives, do not capture a stream that waits for the legacy stream (one made without
 * the flag "non-blocking"): an event on the legacy stream ends such a capture. */
CRK_API crk_status_t crk_device_clone_on_stream(crk_device_t self, void *stream, crk_device_t *device);

/* Waits for the handle's work, then releases everything that belongs to the handle. Its allocations are released too:
 * pointers from its crk_alloc are invalid from here on. A handle and its clones share modules and functions; these are
 * released when the last of the handles is closed. */
CRK_API void crk_device_close(crk_device_t self);

/* Describes the device. The caller sets info->struct_bytes. */
CRK_API crk_status_t crk_device_info(crk_device_t self, crk_device_info_t *info);

/* Free and total bytes of device memory, as the driver reports them now. Memory in this library's cache is not free. */
CRK_API crk_status_t crk_device_memory(crk_device_t self, size_t *free_bytes, size_t *total_bytes);

/* Whether kernels and copies of `self` reach the memory of the GPU of `peer` directly, over a link of the GPUs or over
 * PCIe. The first call asks the runtime for this access; it then holds for all memory of that GPU. Without it copies
 * between the two work too (crk_copy_between), through host memory. True on one device and between CPU devices, false
 * between backends. Fails with CRK_DEVICE where the runtime can grant the access and fails to. */
CRK_API crk_status_t crk_device_peer_access(crk_device_t self, crk_device_t peer, bool *has_access);

/* The handle's stream as the driver knows it (a hipStream_t or CUstream), for code that launches by itself. It stays
 * the handle's, or the caller's after crk_device_clone_on_stream. */
CRK_API crk_status_t crk_device_stream(crk_device_t self, void **stream);

/* The library that crk_matmul tries first on this handle, where the layouts allow it: "hipBLASLt", "rocBLAS" or
 * "cuBLAS". "own kernels" where no such library is installed (always on the CPU), where none supports the device's
 * architecture, and where CANDLE_ROCM_BLAS is "0". `name` is static text.
 *
 * Opens the libraries and creates their handles for this device handle, where that has not happened yet. While any
 * device handle on the GPU is captured, the creation may wait; the library counts as absent until then. A creation may
 * have failed because device memory was too short, even without the caches. Then this function tries it again; products
 * do not. */
CRK_API crk_status_t crk_device_blas(crk_device_t self, const char **name);

/* Does now what the first calls would do: loads all modules of this build, opens the BLAS libraries (crk_device_blas),
 * and makes small products in BF16, F16 and F32 and of quantized weights, since these libraries load their kernels with
 * the first product of a kind. On NVIDIA GPUs that takes some 0.4 s in all. A program may call it in a thread of its
 * own while it loads a model. Calls in other threads go on meanwhile, and wait only for what they need themselves. A
 * program may call it again.
 *
 * It uses a stream of its own and a few MiB of memory. Afterwards one set of handles of the BLAS libraries is ready,
 * for the next device handle on this GPU that multiplies. On a CPU device it loads modules.
 *
 * Fails with CRK_NO_RUNTIME or CRK_WRONG_ARCHITECTURE where a module has no code for the device, and as
 * crk_device_clone and crk_matmul do. What was prepared until then stays so. */
CRK_API crk_status_t crk_device_prepare(crk_device_t self);

/* Waits until all work given to the handle is done.
 *
 * Fails with CRK_DEVICE where any of the work failed, and with CRK_CAPTURE while the handle is captured. Fails with
 * CRK_OUT_OF_RANGE where a launcher's kernel met an id out of range since the last synchronisation. The sentence names
 * the launcher, the id and the number of the operation (crk_device_operations); no memory out of bounds was touched,
 * and the handle stays usable. If several kernels met such an id, it is about the last one. Fails also with the first
 * failure since the last synchronisation of a function that returns nothing (Candle's static launchers, ffi.h).
 *
 * With CANDLE_ROCM_SYNC=1 in the environment when the handle is opened, every call waits for its own work and returns
 * these failures itself, with the name of the kernel. That is slow, and finds the call at fault. Calls that are
 * captured do not wait. A call that launches no kernel with ids, and no graph, returns no reports: those of another
 * thread's call stay for that call. */
CRK_API crk_status_t crk_device_synchronize(crk_device_t self);

/* The number of operations given to the handle so far. An operation is a launch of a kernel, a copy, crk_memset, a
 * product of a BLAS library, or the launch of a graph; a launcher makes one or a few. The operations that a graph
 * records have the numbers of the recording. The copies of crk_params_acquire do not count. If several threads use a
 * handle at the same time, an error's number may be that of a neighbouring operation. */
CRK_API crk_status_t crk_device_operations(crk_device_t self, uint64_t *count);

/* The number of launches so far that the handle gave to the runtime in graphs. A program that launches the same kernels
 * again and again, as a model does for each token, needs less of the host's time so: launches are kept until the graph
 * is complete. A launch is kept until the handle's next copy, event or wait, and for some milliseconds at most. A
 * failure is returned by a later call, at the latest by crk_device_synchronize; launches behind it run all the same.
 * A handle on a stream of the caller's keeps none, nor does a handle whose stream the caller has got
 * (crk_device_stream). The runtime's own synchronisation does not know of launches that are kept. So a program that
 * shares memory with another library takes the stream, or waits by crk_device_synchronize. NVIDIA's driver must be of
 * CUDA 12.4 or later; with older ones the number stays 0. */
CRK_API crk_status_t crk_device_replays(crk_device_t self, uint64_t *launches);

/* Switches these graphs on or off for the handle. Without this call CANDLE_ROCM_REPLAY in the environment says it when
 * the handle is opened, 0 or 1. Without the variable they are on for NVIDIA GPUs. Fails with CRK_UNSUPPORTED where a
 * handle that cannot keep launches is to do it: on a stream of the caller's, with its stream given away, with
 * CANDLE_ROCM_SYNC=1, without the runtime's calls, or without host memory for it. */
CRK_API crk_status_t crk_device_set_replay(crk_device_t self, bool on);

/* Separate reports of ids out of range, for users of one handle that must not see each other's mistakes. A handle has
 * reports of its own, with the number 0. This function gives the number of further ones. Each handle has 63; if all are
 * in use, the number is 0. Give it back with crk_reports_destroy: what kernels report to it from then on is lost. */
CRK_API crk_status_t crk_reports_create(crk_device_t self, uint32_t *reports);
CRK_API void crk_reports_destroy(crk_device_t self, uint32_t reports);

/* Chooses the reports that the calling thread uses from now on; 0 at first. Kernels that the thread launches or records
 * report to them, and its synchronisations (crk_device_synchronize, crk_copy_to_host) return and clear only them; so do
 * its calls with CANDLE_ROCM_SYNC=1. A thread that never calls this function shares number 0 with all others that do
 * not. Returns the number that was used before. On a handle that has given no such number, it counts as 0. */
CRK_API uint32_t crk_reports_use(uint32_t reports);

/* ------------------------------------------------------------------------------------------------------------------
 * Events
 * ------------------------------------------------------------------------------------------------------------------ */

/* A mark in a stream. */
typedef struct crk_event *crk_event_t;

/* An event for handles on the device of `self`. Destroy it with crk_event_destroy before the handle is closed. */
CRK_API crk_status_t crk_event_create(crk_device_t self, crk_event_t *event);
CRK_API void crk_event_destroy(crk_event_t self);

/* Marks the present end of the device handle's work. Replaces the event's earlier mark. */
CRK_API crk_status_t crk_event_record(crk_event_t self, crk_device_t device);

/* CRK_OK where the work before the mark is done or nothing was ever recorded, CRK_NOT_READY where it is not done yet. A
 * capture begins with an idle stream, so a mark from before a capture of the handle counts as done. */
CRK_API crk_status_t crk_event_query(crk_event_t self);

/* Waits until the work before the mark is done. */
CRK_API crk_status_t crk_event_synchronize(crk_event_t self);

/* Milliseconds of device time from `start` to `end`. Fails with CRK_INVALID_ARGUMENT where one was never recorded, and
 * with CRK_NOT_READY where the work before one is not done. */
CRK_API crk_status_t crk_event_elapsed(crk_event_t start, crk_event_t end, float *milliseconds);

/* Later work of `self` waits for the event's mark, which may be one of another device. The host waits only for an event
 * of another backend, and on the CPU. */
CRK_API crk_status_t crk_device_wait(crk_device_t self, crk_event_t event);

#ifdef __cplusplus
}
#endif
#endif
