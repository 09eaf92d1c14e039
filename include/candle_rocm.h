/* candle_rocm.h: Candle's kernels on AMD GPUs, from C.
 *
 * Open a device, give it memory, run kernels by Candle's exact names (`crk_launch`) or through a launcher that picks the
 * fastest kernel for a layout (`crk_unary`, `crk_binary`, ...). The same calls work on an AMD GPU (HIP), on an NVIDIA GPU
 * (CUDA) and on the CPU.
 *
 * Rules that hold for every function here:
 * - A function that can fail returns a `crk_status_t`; `crk_last_error()` then holds a sentence about it. Results leave
 *   through out-pointers, which are written on success only.
 * - The library never prints, never exits and never aborts.
 * - A handle may be used from any thread, and from several at once. A `_destroy`, `_close` or `_free` must be the last
 *   call on its object; given NULL it does nothing.
 * - Work goes to the stream of the device handle and is done in the order of the calls. Functions return before the work
 *   is done unless they say otherwise. Buffers given to a function are borrowed until the stream has run the work.
 * - A call may make its handle's GPU the calling thread's current device (hipSetDevice, or CUDA's current context), and
 *   leaves it so: to set it back would cost every launch another call of the driver. Code that calls the runtime itself
 *   sets the device that it needs. This library asks which device is current, and relies on none.
 * - Sizes and counts are `size_t`; strides and offsets are in elements, sizes of memory in bytes. */
#ifndef CANDLE_ROCM_H
#define CANDLE_ROCM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Status
 * ------------------------------------------------------------------------------------------------------------------ */

/* XX(name, value, sentence). The values are ABI: append, never renumber. */
#define CRK_STATUS_MAP(XX)                                                \
  XX(OK, 0, "success")                                                    \
  XX(INVALID_ARGUMENT, 1, "an argument is not valid")                     \
  XX(OUT_OF_BOUNDS, 2, "a layout reaches outside its buffer")             \
  XX(UNSUPPORTED, 3, "no kernel for this combination")                    \
  XX(NOT_FOUND, 4, "no module or kernel of this name")                    \
  XX(OUT_OF_MEMORY, 5, "out of memory")                                   \
  XX(NO_RUNTIME, 6, "the GPU runtime is not installed")                   \
  XX(NO_DEVICE, 7, "no such device")                                      \
  XX(INVALID_IMAGE, 8, "not a usable code object")                        \
  XX(WRONG_ARCHITECTURE, 9, "the code object is for other architectures") \
  XX(CAPTURE, 10, "not possible while the stream is captured")            \
  XX(NOT_READY, 11, "the work is not done yet")                           \
  XX(DEVICE, 12, "the driver reports an error")                           \
  XX(OUT_OF_RANGE, 13, "a kernel met an id out of range")

typedef enum crk_status {
#define XX(name, value, sentence) CRK_##name = value,
  CRK_STATUS_MAP(XX)
#undef XX
} crk_status_t;

/* The name of a status, such as "CRK_OUT_OF_MEMORY"; "CRK_UNKNOWN" for a value that this build does not have. */
const char *crk_status_name(crk_status_t status);

/* The general sentence of a status; static, never NULL. */
const char *crk_status_message(crk_status_t status);

/* What the last failed call of this thread had to say: which function, which argument, which value, what the driver
 * answered. Never NULL; "" before the first failure. Valid until the thread's next failure. */
const char *crk_last_error(void);

/* The driver's own error number behind the last CRK_DEVICE of this thread (a hipError_t or CUresult), else 0. */
int crk_last_device_error(void);

/* The library's version, "MAJOR.MINOR.PATCH". */
const char *crk_version(void);

/* ------------------------------------------------------------------------------------------------------------------
 * Element types
 * ------------------------------------------------------------------------------------------------------------------ */

/* XX(name, value, Candle's name, bytes). The types of candle-core 0.11.1 that have kernels. */
#define CRK_DTYPE_MAP(XX) \
  XX(U8, 0, "u8", 1)      \
  XX(U32, 1, "u32", 4)    \
  XX(I16, 2, "i16", 2)    \
  XX(I32, 3, "i32", 4)    \
  XX(I64, 4, "i64", 8)    \
  XX(BF16, 5, "bf16", 2)  \
  XX(F16, 6, "f16", 2)    \
  XX(F32, 7, "f32", 4)    \
  XX(F64, 8, "f64", 8)    \
  XX(F8E4M3, 9, "f8e4m3", 1)

typedef enum crk_dtype {
#define XX(name, value, text, bytes) CRK_DTYPE_##name = value,
  CRK_DTYPE_MAP(XX)
#undef XX
} crk_dtype_t;

/* Candle's name of a dtype, such as "bf16"; NULL for a value that is no dtype. */
const char *crk_dtype_name(crk_dtype_t dtype);

/* Bytes of one element; 0 for a value that is no dtype. */
size_t crk_dtype_size(crk_dtype_t dtype);

/* The dtype of a name; "f8_e4m3" and "fp8_e4m3" mean F8E4M3 too. Fails with CRK_INVALID_ARGUMENT. */
crk_status_t crk_dtype_from_name(const char *name, crk_dtype_t *dtype);

/* ------------------------------------------------------------------------------------------------------------------
 * Devices
 * ------------------------------------------------------------------------------------------------------------------ */

/* XX(name, value, text). Which driver runs a device. */
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

typedef struct crk_device *crk_device_t;

/* compute_units is as HIP counts them: on RDNA two are one, a workgroup processor, unless GPU_ENABLE_WGP_MODE is 0.
 * simd_units is the same either way. */
typedef struct crk_device_info {
  crk_backend_t backend;
  int32_t ordinal;
  char name[256];
  char architecture[64];        /* "gfx1100", "sm_90", "x86_64"; without feature suffixes */
  uint32_t wave_size;           /* lanes of a wave (warp): 32 or 64 */
  uint32_t compute_units;       /* compute units, multiprocessors, or CPU threads */
  uint32_t max_block_threads;   /* threads of a block (workgroup) */
  uint32_t runtime_version;     /* as the driver counts it; 0 for the CPU */
  uint64_t max_grid_threads;    /* threads of a whole grid: 2^32 - 1 on HIP */
  uint64_t memory_bytes;        /* of the device */
  uint64_t shared_bytes;        /* shared memory (LDS) of a block */
  char target[128]; /* the architecture with its features, as the driver spells it: "gfx90a:sramecc+:xnack-" */
  uint32_t max_block[3]; /* threads of a block along x, y and z */
  uint32_t max_grid[3]; /* blocks of a grid along x, y and z */
  uint32_t simd_units;          /* 4 per compute unit or multiprocessor, 2 where it is RDNA's; CPU threads */
  uint32_t unit_threads;        /* threads that each of compute_units holds at once */
  uint64_t unit_shared_bytes;   /* shared memory (LDS) of each of compute_units */
} crk_device_info_t;

/* How many devices a backend has; CRK_BACKEND_CPU has two, ordinal 0 with wave width 32 and ordinal 1 with 64.
 * CRK_BACKEND_AUTO counts what crk_device_open would choose from.
 * Fails with CRK_NO_RUNTIME where the backend's runtime is missing, and for the CPU where this build has no kernels for it. */
crk_status_t crk_device_count(crk_backend_t backend, int32_t *count);

/* Opens a device; close it with crk_device_close. Opening one device twice gives two handles that share nothing but the
 * GPU's cache of freed memory.
 *
 * CRK_BACKEND_AUTO means: what the environment variable CANDLE_ROCM_DEVICE names ("hip:0", "cuda:1", "cpu:32", "cpu:64";
 * `ordinal` is then ignored), else HIP, else CUDA, else the CPU; it passes over a backend only where that has no runtime,
 * no kernels in this build or no device at all, never over one that fails. A GPU that is named opens without kernels in this
 * build, too, for code of the user's; kernels of this library's then fail with CRK_NO_RUNTIME.
 *
 * Fails with CRK_NO_RUNTIME, CRK_NO_DEVICE (ordinal out of range), CRK_INVALID_ARGUMENT (a backend or an environment
 * variable of no meaning) or CRK_DEVICE. */
crk_status_t crk_device_open(crk_backend_t backend, int32_t ordinal, crk_device_t *device);

/* A second handle on the same device: a stream of its own; modules and the cache of freed memory are shared. Order the
 * two with events (crk_device_wait). Close it like any other; the order of closing does not matter. */
crk_status_t crk_device_clone(crk_device_t self, crk_device_t *device);

/* Waits for the handle's work and releases all that belongs to the handle, its allocations included: pointers from its
 * crk_alloc end here. Modules and functions go with the last of a handle and its clones. */
void crk_device_close(crk_device_t self);

/* What the device is. */
crk_status_t crk_device_info(crk_device_t self, crk_device_info_t *info);

/* Free and total bytes of device memory, as the driver tells them now. Memory in this library's cache is not free. */
crk_status_t crk_device_memory(crk_device_t self, size_t *free_bytes, size_t *total_bytes);

/* The handle's stream as the driver knows it (a hipStream_t or CUstream), for code that launches on its own. It belongs to
 * the handle. */
crk_status_t crk_device_stream(crk_device_t self, void **stream);

/* What crk_matmul asks first on this handle where the layouts allow: "hipBLASLt", "rocBLAS", "cuBLAS", or "own kernels" where there is
 * no such library (always on the CPU), none has anything for the device's architecture, or CANDLE_ROCM_BLAS is "0". Opens the libraries
 * and gets handles of theirs for this one, if that has not been done: while any handle on the GPU is captured that may have to wait,
 * and what is not there counts as absent. Where device memory was too short for that, even with all caches given back,
 * this tries it again, and products do not. `name` is static text. */
crk_status_t crk_device_blas(crk_device_t self, const char **name);

/* Waits until all work given to the handle is done. Fails with CRK_DEVICE where any of it failed, CRK_CAPTURE while a graph
 * is captured; and with CRK_OUT_OF_RANGE where a launcher's kernel met an id out of range since the last time it was asked:
 * the sentence names the launcher and the id, nothing out of bounds was touched, and the handle works on. Fails too with the
 * first failure since then of a function that returns nothing (Candle's static launchers). */
crk_status_t crk_device_synchronize(crk_device_t self);

/* ------------------------------------------------------------------------------------------------------------------
 * Memory
 * ------------------------------------------------------------------------------------------------------------------ */

/* Memory as a function takes it: where it begins and how many bytes are there. Memory of any origin can be viewed. A view
 * of 0 bytes may have a NULL pointer. `ptr` must be aligned to the dtype it is used with. */
typedef struct crk_view {
  void *ptr;
  size_t bytes;
} crk_view_t;

/* `bytes` of device memory, 256-byte aligned, contents undefined; 0 bytes give NULL and succeed. Served from the GPU's
 * cache of freed memory where that has room, without waiting: memory that this handle freed is in stream order, memory
 * that another handle freed is used only after an event has shown that its stream has passed that point. The cache takes
 * segments from the driver and gives out parts of them, so that few calls reach the driver and little is left unused.
 *
 * Out of memory, waits for the work of all handles on the GPU (but those that are captured), returns what the cache can
 * spare to the driver and tries once more; fails with CRK_OUT_OF_MEMORY then, and nothing is lost.
 * While a graph is captured only the cache can serve (CRK_CAPTURE otherwise; see crk_memory_reserve). */
crk_status_t crk_alloc(crk_device_t self, size_t bytes, void **ptr);

/* Gives back memory from crk_alloc of the same handle; NULL does nothing. The block may be given out again at once, to work
 * that is later in the stream. Work on other handles that uses it must be ordered before by events. Never waits.
 *
 * A block that a capture gave out, or that was freed during one by whatever thread, is used by that graph: it is given out
 * again when all graphs that use it are destroyed.
 * Fails with CRK_INVALID_ARGUMENT where `ptr` is not the beginning of a live allocation of this handle; and during a
 * capture with CRK_OUT_OF_MEMORY, where the host has none to note that the graph uses the block, which stays allocated. */
crk_status_t crk_free(crk_device_t self, void *ptr);

/* Makes sure that one crk_alloc of up to `bytes` can be served without the driver: call before a capture, once for every
 * allocation that will be live at the same time. The handle's allocations take what is reserved when the cache has nothing
 * else for them. */
crk_status_t crk_memory_reserve(crk_device_t self, size_t bytes);

/* Bounds the bytes of freed memory that are kept on the GPU, for all its handles together. Above the bound whole segments go
 * back to the driver, those that were emptied first: now, for which the work of all handles is waited for, and later at a
 * crk_free, crk_device_synchronize or crk_copy_to_host that finds all streams of the GPU idle, since a driver may wait for
 * the whole GPU when it frees. A segment with a live block in it cannot go back. Below the bound, segments go back that no
 * call used through 24 synchronisations, and those in whose place a new large segment comes; both at most until twice the
 * peak has gone back, so that a loop cannot give and take the same memory for ever. The default is half of the device's
 * memory. With 0 each allocation is one of the driver's, of its size rounded up to 512 bytes, beyond 1 MiB to 64 KiB: for
 * tools that watch the driver's allocations. */
crk_status_t crk_memory_set_cache_limit(crk_device_t self, size_t bytes);

/* Returns the GPU's cached memory to the driver, all that no segment with a live block has. Waits for the work of all
 * handles on the GPU but those that are captured; CRK_CAPTURE while this one is. */
crk_status_t crk_memory_trim(crk_device_t self);

typedef struct crk_memory_stats {
  uint64_t live_bytes; /* of the handle: given out and not yet freed */
  uint64_t cached_bytes; /* of the GPU: freed, kept for later calls of crk_alloc of any handle; or reserved */
  uint64_t live_allocations; /* of the handle */
  uint64_t driver_allocations; /* of the handle: calls to the driver's allocator so far */
  uint64_t peak_live_bytes; /* of the handle: the most `live_bytes` so far */
  uint64_t retired_bytes; /* of the GPU: freed, kept for graphs */
  uint64_t driver_bytes; /* of the GPU: what the allocator has from the driver, which is all of the above */
  uint64_t peak_driver_bytes; /* of the GPU: the most `driver_bytes` so far */
} crk_memory_stats_t;

/* Where the memory is. Kernels' code, BLAS workspaces and parameter caches are not in these figures. */
crk_status_t crk_memory_stats(crk_device_t self, crk_memory_stats_t *stats);

/* Host memory that the device can copy from and to without staging. Free it with crk_host_free. */
crk_status_t crk_host_alloc(crk_device_t self, size_t bytes, void **ptr);
crk_status_t crk_host_free(crk_device_t self, void *ptr);

/* Copies host memory to a device; returns when `src` may be changed. CRK_CAPTURE during a capture. */
crk_status_t crk_copy_to_device(crk_device_t self, crk_view_t dst, const void *src, size_t bytes);

/* Copies device memory to the host; returns when it is there. CRK_CAPTURE during a capture. CRK_OUT_OF_RANGE as
 * crk_device_synchronize, the copy is made all the same. */
crk_status_t crk_copy_to_host(crk_device_t self, void *dst, crk_view_t src, size_t bytes);

/* The same without waiting: the host memory must stay as it is until the stream has done the copy, and should come from
 * crk_host_alloc (with other memory the driver may wait, and refuses during a capture). */
crk_status_t crk_copy_to_device_async(crk_device_t self, crk_view_t dst, const void *src, size_t bytes);
crk_status_t crk_copy_to_host_async(crk_device_t self, void *dst, crk_view_t src, size_t bytes);

/* Copies within the device. The ranges must not overlap (CRK_INVALID_ARGUMENT), but may be the same. */
crk_status_t crk_copy(crk_device_t self, crk_view_t dst, crk_view_t src, size_t bytes);

/* Copies to another device, which may be of another backend; ordered after the work of both handles, and later work of both
 * is ordered after it. May wait. CRK_CAPTURE while either is captured. */
crk_status_t crk_copy_between(crk_device_t dst_device, crk_view_t dst, crk_device_t src_device, crk_view_t src,
                              size_t bytes);

/* Sets every byte of the view's first `bytes` bytes to `value`. */
crk_status_t crk_memset(crk_device_t self, crk_view_t dst, uint8_t value, size_t bytes);

/* ------------------------------------------------------------------------------------------------------------------
 * Events
 * ------------------------------------------------------------------------------------------------------------------ */

typedef struct crk_event *crk_event_t;

/* An event for handles on the device of `self`. Destroy it with crk_event_destroy, before the handle is closed. */
crk_status_t crk_event_create(crk_device_t self, crk_event_t *event);
void crk_event_destroy(crk_event_t self);

/* Marks the present end of the device handle's work. */
crk_status_t crk_event_record(crk_event_t self, crk_device_t device);

/* CRK_OK when the work before the mark is done (or nothing was ever recorded), CRK_NOT_READY when not yet. What was recorded
 * before a capture of the handle began is done: a capture begins with an idle stream. */
crk_status_t crk_event_query(crk_event_t self);

/* Waits until the work before the mark is done. */
crk_status_t crk_event_synchronize(crk_event_t self);

/* Milliseconds of device time from `start` to `end`, both recorded and done (else CRK_NOT_READY or
 * CRK_INVALID_ARGUMENT). */
crk_status_t crk_event_elapsed(crk_event_t start, crk_event_t end, float *milliseconds);

/* Later work of `self` waits for the event's mark; the host does not wait. */
crk_status_t crk_device_wait(crk_device_t self, crk_event_t event);

/* ------------------------------------------------------------------------------------------------------------------
 * Modules and functions
 * ------------------------------------------------------------------------------------------------------------------ */

/* A kernel on a device. Belongs to its module, and lives until the handle that it was got from and all clones are closed. */
typedef struct crk_function *crk_function_t;

/* A compiled kernel module that is part of this binary. */
typedef struct crk_image {
  const void *data; /* an offload bundle of ELF code objects (HIP), a fatbin (CUDA); NULL where this build has none */
  size_t bytes;
} crk_image_t;

/* The modules of this build, "affine", "binary", ...: how many, and the name of each; NULL for an index out of range. Candle's
 * eleven come first, then those that only launchers use. */
size_t crk_module_count(void);
const char *crk_module_name(size_t index);

/* The embedded code of a module, for every architecture of this build. It is compressed in the binary: the first call
 * decompresses it, and it stays where it is until the process ends. Devices do without this copy.
 *
 * Fails with CRK_NOT_FOUND for a name of no module, CRK_NO_RUNTIME where this build has nothing for the backend (the CPU's
 * kernels are linked in, they have no image), CRK_OUT_OF_MEMORY where the host has no memory for the copy,
 * CRK_INVALID_IMAGE where the binary is damaged. */
crk_status_t crk_module_image(const char *module, crk_backend_t backend, crk_image_t *image);

/* A kernel by Candle's name: `get_or_load_func`. Loads the module on first use and keeps it. F8E4M3 may be spelt
 * "f8e4m3", "f8_e4m3" or "fp8_e4m3" in any name. The function may be used with this handle and its clones.
 *
 * Fails with CRK_NOT_FOUND (no such module, or no such kernel in it), CRK_NO_RUNTIME, CRK_WRONG_ARCHITECTURE (nothing
 * embedded for this GPU) or CRK_DEVICE. */
crk_status_t crk_function_get(crk_device_t self, const char *module, const char *kernel, crk_function_t *function);

/* Loads a code object of the user's under a name, for crk_function_get: an ELF code object or an offload bundle, plain
 * or compressed by zstd (HIP), a cubin, fatbin or NUL-terminated PTX (CUDA), a shared object made with kernels/common
 * (CPU). `data` may be freed after the call. A name can be loaded once; a name of this build's modules is refused
 * (CRK_INVALID_ARGUMENT).
 *
 * Fails with CRK_INVALID_IMAGE for what is truncated, empty or of another kind, CRK_WRONG_ARCHITECTURE for code that this
 * device cannot run, and with CRK_CAPTURE during a capture. */
crk_status_t crk_module_load(crk_device_t self, const char *module, const void *data, size_t bytes);

/* Compiles source of the user's for the handle's GPU and loads it under a name, as crk_module_load does. For an AMD GPU it is HIP, and
 * hipRTC compiles it (libhiprtc, or the runtime in use where that has its calls); for an NVIDIA GPU CUDA, and NVRTC. The library is opened at
 * run time. `options` are the compiler's own, such as "-O3" or "-DN=4"; the GPU's architecture is added unless one of them names
 * one. `source` and `options` may be freed after the call. Kernels that are declared extern "C" are found by their names. Other threads
 * go on meanwhile; of several that compile the same name at once, one succeeds.
 *
 * Fails with CRK_INVALID_IMAGE for source that does not compile: the sentence has the compiler's log from the first error on, as far
 * as there is room; CRK_NO_RUNTIME where there is no such library; CRK_UNSUPPORTED on the CPU; CRK_INVALID_ARGUMENT for a NULL, an
 * empty source or name, a name that is taken or an option that is none; CRK_WRONG_ARCHITECTURE for an option that names another AMD
 * GPU; and as crk_module_load. */
crk_status_t crk_module_compile(crk_device_t self, const char *module, const char *source, const char *const *options,
                                size_t option_count);

/* One argument of a kernel, as its signature has it. */
typedef struct crk_param {
  uint32_t bytes;
  bool is_pointer; /* false also where the driver does not tell */
} crk_param_t;

/* The number of a kernel's arguments, and the first `capacity` of them in `params` (NULL where capacity is 0).
 * Fails with CRK_UNSUPPORTED where the driver cannot tell (CUDA before 12.4). */
crk_status_t crk_function_params(crk_function_t self, size_t *count, crk_param_t *params, size_t capacity);

/* An argument of a launch: a pointer, a number, or bytes by value. Make one with the functions below. */
typedef struct crk_arg {
  const void *data; /* where the value is: `value` in this struct when NULL, else `bytes` bytes elsewhere */
  uint64_t value;
  uint32_t bytes;
  bool is_pointer;
} crk_arg_t;

static inline crk_arg_t crk_arg_ptr(const void *ptr) {
  crk_arg_t arg = {NULL, (uint64_t)(uintptr_t)ptr, 8, true};
  return arg;
}
/* A value of 1, 2, 4 or 8 bytes, given as the bits of an unsigned number of that size. */
static inline crk_arg_t crk_arg_bits(uint64_t bits, uint32_t bytes) {
  crk_arg_t arg = {NULL, bits, bytes, false};
  return arg;
}
static inline crk_arg_t crk_arg_u64(uint64_t value) { return crk_arg_bits(value, 8); }
static inline crk_arg_t crk_arg_u32(uint32_t value) { return crk_arg_bits(value, 4); }
/* A struct by value; borrowed until crk_launch returns. */
static inline crk_arg_t crk_arg_struct(const void *data, uint32_t bytes) {
  crk_arg_t arg = {data, 0, bytes, false};
  return arg;
}

typedef struct crk_dim3 {
  uint32_t x, y, z;
} crk_dim3_t;

/* Runs a kernel on the handle's stream: `grid` blocks of `block` threads, `shared_bytes` of dynamic shared memory. A grid of
 * 0 blocks succeeds and launches nothing.
 *
 * Checks the arguments against the kernel's signature: their number, the size of each, and pointer against value where the
 * driver tells; and the geometry against the device. Fails with CRK_INVALID_ARGUMENT, naming the kernel and the argument,
 * or with CRK_DEVICE. What the pointers point at is the caller's responsibility. */
crk_status_t crk_launch(crk_device_t self, crk_function_t function, crk_dim3_t grid, crk_dim3_t block,
                        uint32_t shared_bytes, const crk_arg_t *args, size_t arg_count);

/* ------------------------------------------------------------------------------------------------------------------
 * Layouts
 * ------------------------------------------------------------------------------------------------------------------ */

#define CRK_MAX_RANK 8

/* How a tensor lies in a buffer: element (i0, i1, ...) is at offset + i0 * strides[0] + i1 * strides[1] + ... A stride of 0
 * broadcasts. Rank 0 is a single element; a dim of 0 makes the tensor empty. */
typedef struct crk_layout {
  uint32_t rank; /* at most CRK_MAX_RANK */
  size_t dims[CRK_MAX_RANK];
  size_t strides[CRK_MAX_RANK]; /* in elements */
  size_t offset; /* in elements */
} crk_layout_t;

/* The contiguous layout (row-major, offset 0) of dims[0 .. rank]. Fails with CRK_INVALID_ARGUMENT for a rank above
 * CRK_MAX_RANK or a number of elements beyond size_t. */
crk_status_t crk_layout_contiguous(const size_t *dims, size_t rank, crk_layout_t *layout);

/* The number of elements of a layout. */
crk_status_t crk_layout_numel(const crk_layout_t *layout, size_t *numel);

/* Whether a layout's elements follow each other without gaps in row-major order (from its offset on), as Candle asks it:
 * the strides of dims of size 1 do not matter. */
crk_status_t crk_layout_is_contiguous(const crk_layout_t *layout, bool *contiguous);

/* Device memory with the numbers that a kernel by name reads its layout from: Candle's `SlicePtrOrNull`. */
typedef struct crk_params {
  const void *ptr; /* u64 numbers on the device, or NULL; pass it on as the kernel's `info` */
  void *entry; /* the cache's own */
} crk_params_t;

/* `count` numbers (at most CRK_MAX_RANK * 4) on the device: dims and strides as the kernel wants them. Served from a bounded
 * cache of the handle; a miss copies asynchronously, and during a capture becomes part of the graph. Never blocks the
 * stream; the host waits only where the copies of all entries are still under way. Give it back with crk_params_release
 * once the launches that read it have been made. Fails with CRK_OUT_OF_MEMORY where every entry is held or cannot be had. */
crk_status_t crk_params_acquire(crk_device_t self, const uint64_t *numbers, size_t count, crk_params_t *params);

/* As Candle's params_from_layout: NULL for a contiguous layout, else dims and strides. */
crk_status_t crk_params_from_layout(crk_device_t self, const crk_layout_t *layout, crk_params_t *params);

void crk_params_release(crk_device_t self, crk_params_t params);

/* ------------------------------------------------------------------------------------------------------------------
 * Graphs
 * ------------------------------------------------------------------------------------------------------------------ */

typedef struct crk_graph *crk_graph_t;

/* From here on the handle's work is recorded instead of run, until crk_graph_end. Use the handle from one thread only while
 * it is captured. Memory that the capture frees, and parameters it uses, stay reserved until the graph is destroyed. */
crk_status_t crk_graph_begin(crk_device_t self);

/* Ends the capture. On failure the capture is over too, and nothing of it remains, unless `graph` is NULL: then it goes on. */
crk_status_t crk_graph_end(crk_device_t self, crk_graph_t *graph);

/* Runs the recorded work on the handle that recorded it. May be called any number of times. */
crk_status_t crk_graph_launch(crk_graph_t self);

/* Waits for the handle's work, then releases the graph and what it reserved. Before the handle is closed. */
void crk_graph_destroy(crk_graph_t self);

/* ------------------------------------------------------------------------------------------------------------------
 * Launchers: element-wise families
 *
 * Each is one launch and allocates nothing. `layout` says how the elements of a source lie in its buffer; a destination is
 * contiguous from the beginning of its view unless said otherwise. A destination may be the same view as a source whose
 * layout is contiguous with offset 0; otherwise they must not overlap. An empty layout succeeds and launches nothing.
 *
 * All fail with CRK_INVALID_ARGUMENT (a NULL, a value that is no dtype or op, a rank above CRK_MAX_RANK, layouts of
 * different dims), CRK_OUT_OF_BOUNDS (a layout reaches beyond its view, or the destination is too small), CRK_UNSUPPORTED (no
 * kernel for the op and dtype) or CRK_DEVICE. Rounding, NaN and overflow are those of Candle's CUDA kernels: docs/parity.md.
 * ------------------------------------------------------------------------------------------------------------------ */

/* XX(name, value, root). Element-wise functions of one operand; `root` is Candle's kernel root. */
#define CRK_UNARY_MAP(XX)       \
  XX(COPY, 0, "ucopy")          \
  XX(NEG, 1, "uneg")            \
  XX(RECIP, 2, "urecip")        \
  XX(EXP, 3, "uexp")            \
  XX(LOG, 4, "ulog")            \
  XX(SIN, 5, "usin")            \
  XX(COS, 6, "ucos")            \
  XX(TANH, 7, "utanh")          \
  XX(ERF, 8, "uerf")            \
  XX(CEIL, 9, "uceil")          \
  XX(FLOOR, 10, "ufloor")       \
  XX(ROUND, 11, "uround")       \
  XX(NORMCDF, 12, "unormcdf")   \
  XX(ABS, 13, "uabs")           \
  XX(SQR, 14, "usqr")           \
  XX(SQRT, 15, "usqrt")         \
  XX(GELU, 16, "ugelu")         \
  XX(GELU_ERF, 17, "ugelu_erf") \
  XX(RELU, 18, "urelu")         \
  XX(SILU, 19, "usilu")         \
  XX(SIGN, 20, "usign")         \
  XX(SIGMOID, 21, "usigmoid")   \
  XX(ELU, 22, "uelu")           \
  XX(POWF, 23, "upowf")

typedef enum crk_unary_op {
#define XX(name, value, root) CRK_UNARY_##name = value,
  CRK_UNARY_MAP(XX)
#undef XX
} crk_unary_op_t;

/* The op of a kernel root such as "uexp". Fails with CRK_INVALID_ARGUMENT. */
crk_status_t crk_unary_op_from_root(const char *root, crk_unary_op_t *op);

/* dst[i] = op(src[i]) for every element i of `layout`. Not for ELU and POWF, which have a parameter: crk_unary_param.
 * Float dtypes have every op. Integers have COPY, ABS, CEIL, FLOOR, ROUND, RELU and SIGN, and ERF, GELU, GELU_ERF and SILU,
 * which Candle's CPU backend defines as 0 for them. */
crk_status_t crk_unary(crk_device_t self, crk_unary_op_t op, crk_dtype_t dtype, const crk_layout_t *layout,
                       crk_view_t src, crk_view_t dst);

/* ELU: dst[i] = src[i] > 0 ? src[i] : param * (exp(src[i]) - 1). POWF: dst[i] = src[i] ^ param. `param` is rounded to the
 * dtype first. Float dtypes only. */
crk_status_t crk_unary_param(crk_device_t self, crk_unary_op_t op, crk_dtype_t dtype, const crk_layout_t *layout,
                             crk_view_t src, crk_view_t dst, double param);

/* dst[i] = fma(src[i], mul, add), `mul` and `add` converted to the dtype as Candle's `from_f64` does; integers wrap. */
crk_status_t crk_affine(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_view_t src,
                        crk_view_t dst, double mul, double add);

/* XX(name, value, root). */
#define CRK_BINARY_MAP(XX)   \
  XX(ADD, 0, "badd")         \
  XX(SUB, 1, "bsub")         \
  XX(MUL, 2, "bmul")         \
  XX(DIV, 3, "bdiv")         \
  XX(MAXIMUM, 4, "bmaximum") \
  XX(MINIMUM, 5, "bminimum")

typedef enum crk_binary_op {
#define XX(name, value, root) CRK_BINARY_##name = value,
  CRK_BINARY_MAP(XX)
#undef XX
} crk_binary_op_t;

crk_status_t crk_binary_op_from_root(const char *root, crk_binary_op_t *op);

/* dst[i] = lhs[i] op rhs[i]. Both layouts have the same dims; broadcast with strides of 0. An integer divided by 0 gives an
 * unspecified value and does not fault. */
crk_status_t crk_binary(crk_device_t self, crk_binary_op_t op, crk_dtype_t dtype, const crk_layout_t *lhs_layout,
                        crk_view_t lhs, const crk_layout_t *rhs_layout, crk_view_t rhs, crk_view_t dst);

/* XX(name, value, root). */
#define CRK_CMP_MAP(XX) \
  XX(EQ, 0, "eq")       \
  XX(NE, 1, "ne")       \
  XX(LT, 2, "lt")       \
  XX(LE, 3, "le")       \
  XX(GT, 4, "gt")       \
  XX(GE, 5, "ge")

typedef enum crk_cmp_op {
#define XX(name, value, root) CRK_CMP_##name = value,
  CRK_CMP_MAP(XX)
#undef XX
} crk_cmp_op_t;

crk_status_t crk_cmp_op_from_root(const char *root, crk_cmp_op_t *op);

/* dst[i] = lhs[i] op rhs[i] ? 1 : 0; `dst` is u8. */
crk_status_t crk_cmp(crk_device_t self, crk_cmp_op_t op, crk_dtype_t dtype, const crk_layout_t *lhs_layout,
                     crk_view_t lhs, const crk_layout_t *rhs_layout, crk_view_t rhs, crk_view_t dst);

/* dst[i] = src[i] converted to `dst_dtype`. */
crk_status_t crk_cast(crk_device_t self, crk_dtype_t src_dtype, crk_dtype_t dst_dtype, const crk_layout_t *layout,
                      crk_view_t src, crk_view_t dst);

/* dst[i] = ids[i] != 0 ? on_true[i] : on_false[i]; `ids` has an integer dtype. The three layouts have the same dims. */
crk_status_t crk_where(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype, const crk_layout_t *ids_layout,
                       crk_view_t ids, const crk_layout_t *true_layout, crk_view_t on_true,
                       const crk_layout_t *false_layout, crk_view_t on_false, crk_view_t dst);

/* dst[i] = value for i below `numel`. `value` points at one element of `dtype` on the host; read before the call returns. */
crk_status_t crk_fill(crk_device_t self, crk_dtype_t dtype, crk_view_t dst, size_t numel, const void *value);

/* Every element of `layout` in `dst` becomes `value` (as for crk_fill); elements that the layout does not reach stay. */
crk_status_t crk_const_set(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_view_t dst,
                           const void *value);

/* dst[dst_offset + i * dst_stride + j] = src[src_offset + i * src_stride + j] for i below `rows`, j below `cols`; strides and
 * offsets in elements. Rows of `dst` must not overlap: dst_stride at least `cols` unless rows is 1. */
crk_status_t crk_copy2d(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t cols, crk_view_t src,
                        size_t src_stride, size_t src_offset, crk_view_t dst, size_t dst_stride, size_t dst_offset);

/* dst[dst_offset + i] = src[i] for every element i of `layout`: makes a strided tensor contiguous, bit for bit. */
crk_status_t crk_copy_strided(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_view_t src,
                              crk_view_t dst, size_t dst_offset);

/* ------------------------------------------------------------------------------------------------------------------
 * Launchers: indexing
 *
 * Each is one launch and allocates nothing. Ids have an integer dtype: u8, u32, i16, i32 or i64; the elements any dtype. The id
 * that is its dtype's greatest value is the sentinel: index_select and gather write 0 for it, the others skip it. Any other id
 * that is negative or not below the indexed dim is out of range: it is treated as the sentinel, no memory out of bounds is
 * touched, and the next synchronisation of the handle fails once with CRK_OUT_OF_RANGE (crk_device_synchronize).
 *
 * A destination must not overlap what is read. An empty result, or nothing to add to one, succeeds and launches nothing. All fail
 * as the element-wise launchers do; with CRK_INVALID_ARGUMENT also for a `dim` that is not below the rank, and with
 * CRK_UNSUPPORTED for ids of a float dtype.
 * ------------------------------------------------------------------------------------------------------------------ */

/* dst[l, n, r] = src[l, ids[n], r], l being the coordinates before dim number `dim` and r those after it, bit for bit. `src` and
 * `ids`, of rank 1, have any layout; `dst` is contiguous from the beginning of its view, with src's dims but for ids' length in
 * the indexed one. Fastest where the dims after `dim` are contiguous in `src`, as rows of an embedding are. */
crk_status_t crk_index_select(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype,
                              const crk_layout_t *src_layout, crk_view_t src, const crk_layout_t *ids_layout,
                              crk_view_t ids, size_t dim, crk_view_t dst);

/* dst[l, n, r] = src[l, ids[l, n, r], r], bit for bit. `src` and `ids` have the same rank and any layout; no dim of ids but the
 * indexed one is longer than src's. `dst` has the dims of ids and is contiguous from the beginning of its view. */
crk_status_t crk_gather(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype, const crk_layout_t *src_layout,
                        crk_view_t src, const crk_layout_t *ids_layout, crk_view_t ids, size_t dim, crk_view_t dst);

/* dst[l, ids[l, n, r], r] = src[l, n, r], bit for bit, for n in order: the last of those that share an id stays. What no id leads
 * to stays as it was. `ids` and `src` have the same dims, `dst` those but for the indexed one; all three are contiguous from
 * their layouts' offsets. */
crk_status_t crk_scatter(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype, const crk_layout_t *ids_layout,
                         crk_view_t ids, const crk_layout_t *src_layout, crk_view_t src, size_t dim,
                         const crk_layout_t *dst_layout, crk_view_t dst);

/* dst[l, ids[l, n, r], r] += src[l, n, r] for n in order: sums are the same in every run. f16 and bf16 round after every addition,
 * f8e4m3 adds in f32 and rounds after every addition, integers wrap. Tensors as for crk_scatter. */
crk_status_t crk_scatter_add(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype,
                             const crk_layout_t *ids_layout, crk_view_t ids, const crk_layout_t *src_layout,
                             crk_view_t src, size_t dim, const crk_layout_t *dst_layout, crk_view_t dst);

/* dst[l, ids[n], r] += src[l, n, r] for n in order; sums as for crk_scatter_add. `ids` is of rank 1 with any stride, as long as
 * src's indexed dim; `src` and `dst` as for crk_scatter. */
crk_status_t crk_index_add(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype, const crk_layout_t *ids_layout,
                           crk_view_t ids, const crk_layout_t *src_layout, crk_view_t src, size_t dim,
                           const crk_layout_t *dst_layout, crk_view_t dst);

/* ------------------------------------------------------------------------------------------------------------------
 * Launchers: reductions
 * ------------------------------------------------------------------------------------------------------------------ */

/* XX(name, value, root). */
#define CRK_REDUCE_MAP(XX)     \
  XX(SUM, 0, "fast_sum")       \
  XX(MIN, 1, "fast_min")       \
  XX(MAX, 2, "fast_max")       \
  XX(ARGMIN, 3, "fast_argmin") \
  XX(ARGMAX, 4, "fast_argmax")

typedef enum crk_reduce_op {
#define XX(name, value, root) CRK_REDUCE_##name = value,
  CRK_REDUCE_MAP(XX)
#undef XX
} crk_reduce_op_t;

crk_status_t crk_reduce_op_from_root(const char *root, crk_reduce_op_t *op);

/* Reduces `layout` over the dims whose numbers are reduced_dims[0 .. reduced_count], in any order, each once: dst[o] = op of the
 * elements that have the kept dims' coordinates o, in row-major order of these. No reduced dims: each element by itself. `dst` is
 * contiguous from the beginning of its view, of `dtype`; for ARGMIN and ARGMAX it is u32 and holds the position among the reduced
 * elements, in row-major order of the reduced dims as the layout has them, whatever the order of reduced_dims. All dtypes.
 *
 * SUM: bf16, f16 and f8e4m3 are added up in f32 and rounded once; integers wrap. The order of the additions is not that of Candle's
 * kernels and depends on the shape, the strides, the alignment and, where several blocks share an output, on the number of
 * compute units; not on the wave width, and it is the same in each call. The sum of n elements is within n / 8 + 32 half
 * units in the last place of the sum of their magnitudes, in f32 or f64.
 * MIN, MAX: a NaN is passed over in f32, f64 and f8e4m3 (where all are, the result is the infinity that loses, of f8e4m3 the number),
 * and is the result in f16 and bf16; -0 is less than +0.
 * ARGMIN, ARGMAX: the first of equal ones; a NaN is passed over, but where the first element is one, the result is 0, as in
 * Candle's CPU backend. 2^32 - 1 elements an output at most (CRK_UNSUPPORTED).
 *
 * One launch and no scratch memory; where outputs are few and long, two launches and scratch memory from crk_alloc, given back
 * before the return: 4 to 16 bytes for each block of 256 threads that the device holds at once, at most; for an f32 sum
 * 16 KiB in all where 128 compute units hold 2048 threads each. In a capture reserve it before (crk_memory_reserve), or
 * run once.
 *
 * `dst` and the elements of `src` must not overlap. With no outputs, succeeds and launches nothing; with outputs of no elements, SUM
 * gives zeros and the others fail with CRK_INVALID_ARGUMENT. Fails with CRK_INVALID_ARGUMENT (a NULL, no op or dtype, a rank above
 * CRK_MAX_RANK, a reduced dim that the layout has not or twice, memory that overlaps), CRK_OUT_OF_BOUNDS (the layout reaches beyond
 * `src`, or `dst` is too small), CRK_UNSUPPORTED, CRK_OUT_OF_MEMORY or CRK_CAPTURE (no scratch memory), or CRK_DEVICE. */
crk_status_t crk_reduce(crk_device_t self, crk_reduce_op_t op, crk_dtype_t dtype, const crk_layout_t *layout,
                        crk_view_t src, const size_t *reduced_dims, size_t reduced_count, crk_view_t dst);

/* ------------------------------------------------------------------------------------------------------------------
 * Launchers: softmax and norms
 *
 * Over each row of the last dim of `layout`, which is contiguous (from its offset on) and has at least one dim. Rows may be of
 * any length. `dst` is contiguous from the beginning of its view; it may be `src` where the layout's offset is 0, and must not
 * overlap otherwise. One launch, no scratch. dtypes BF16, F16, F32 and F64.
 *
 * bf16, f16 and f32 are computed in f32, f64 in f64, and a result is rounded to the dtype once: no less accurate than the
 * kernels by Candle's names, which round in between and know f32 statistics of f64 rows only, and whose order of sums is
 * another. A row that fits a block (2048 pieces of 16 bytes) is read once, a longer one again for each step.
 *
 * They fail as the element-wise launchers do; CRK_UNSUPPORTED for other dtypes.
 * ------------------------------------------------------------------------------------------------------------------ */

/* dst[i] = exp(src[i] - m) / s: m the largest of the row, s the sum of the row's numerators. Large numbers do not overflow.
 * A row of nothing but -inf, or with +inf or NaN in it, becomes NaN. */
crk_status_t crk_softmax(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_view_t src,
                         crk_view_t dst);

/* dst[i] = src[i] / sqrt(mean(src^2) + eps) * alpha[i]. `alpha` is a row of the last dim's elements, contiguous, apart from
 * `dst`; {NULL, 0} stands for ones. */
crk_status_t crk_rms_norm(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_view_t src,
                          crk_view_t alpha, crk_view_t dst, float eps);

/* dst[i] = (src[i] - m) / sqrt(mean((src - m)^2) + eps) * alpha[i] + beta[i], m the row's mean; the variance is summed up from
 * the differences, so that nothing cancels. `alpha` as above, {NULL, 0} as `beta` stands for zeros. */
crk_status_t crk_layer_norm(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_view_t src,
                            crk_view_t alpha, crk_view_t beta, crk_view_t dst, float eps);

/* ------------------------------------------------------------------------------------------------------------------
 * Launchers: rotary embeddings
 * ------------------------------------------------------------------------------------------------------------------ */

/* XX(name, value, root): how a token's row of d elements is paired, and the order of the dims of `src`.
 * ROPE: i with i + d / 2, (batch, heads, tokens, d). ROPE_I: 2 i with 2 i + 1, (batch, heads, tokens, d). ROPE_THD: as ROPE,
 * (batch, tokens, heads, d). */
#define CRK_ROPE_MAP(XX)  \
  XX(ROPE, 0, "rope")     \
  XX(ROPE_I, 1, "rope_i") \
  XX(ROPE_THD, 2, "rope_thd")

typedef enum crk_rope_kind {
#define XX(name, value, root) CRK_ROPE_KIND_##name = value,
  CRK_ROPE_MAP(XX)
#undef XX
} crk_rope_kind_t;

/* The kind of a kernel root such as "rope_i". Fails with CRK_INVALID_ARGUMENT. */
crk_status_t crk_rope_kind_from_root(const char *root, crk_rope_kind_t *op);

/* Turns each pair (a, b) of a token by its angle: dst = (a * c - b * s, a * s + b * c), c and s the elements of `cos` and `sin`
 * for the token and the pair (Su et al., "RoFormer", 2021). Rounded as Candle's kernels do, in every dtype:
 * fma(a, c, -round(b * s)) and fma(a, s, round(b * c)).
 *
 * `src_layout` has rank 4 and an even last dim d. `cos` and `sin` are (tokens, d / 2), the same for all batches, or
 * (batch, tokens, d / 2), each on its own; they may have more tokens than `src`, whose first ones count then. All three are
 * contiguous (from their offsets on). `dst` is contiguous from the beginning of its view; it may be `src` where that has offset
 * 0, and must not overlap anything otherwise. One launch, no scratch. dtypes BF16, F16, F32 and F64.
 *
 * Fails as the element-wise launchers do: CRK_INVALID_ARGUMENT for dims that do not fit each other, CRK_UNSUPPORTED for other
 * dtypes. */
crk_status_t crk_rope(crk_device_t self, crk_rope_kind_t kind, crk_dtype_t dtype, const crk_layout_t *src_layout,
                      crk_view_t src, const crk_layout_t *cos_layout, crk_view_t cos, const crk_layout_t *sin_layout,
                      crk_view_t sin, crk_view_t dst);

/* ------------------------------------------------------------------------------------------------------------------
 * Launchers: sorting
 * ------------------------------------------------------------------------------------------------------------------ */

/* Sorts the last dim, of up to 2^32 - 1 columns: row r of `dst` (u32, contiguous, numel of `layout`) becomes the positions in row
 * r of `src`, in the order of their elements; row r of `values` (of `dtype`, contiguous, as many) becomes the elements in that
 * order, bit for bit. `values` may be {NULL, 0}: not wanted. `layout` is contiguous from its offset on and has rank 1 at
 * least. All dtypes.
 *
 * Stable: equal elements keep their order, descending too. -0 equals +0. NaN, of any sign and payload, equals NaN and is larger
 * than every number: last when ascending, first when descending.
 *
 * Rows of up to 8192 columns, 4096 of 8-byte dtypes: one launch, no scratch memory. Longer ones: several launches, and scratch
 * memory from crk_alloc, given back before the return: 16 bytes (of 8-byte dtypes 24) an element of as many rows as have
 * 2^23 elements together, or of one row, and up to 1 KiB; in a capture reserve it before (crk_memory_reserve), or run once.
 *
 * `dst`, `values` and the elements of `src` must not overlap. An empty layout succeeds and launches nothing.
 * Fails with CRK_INVALID_ARGUMENT (a NULL, no dtype, a layout of rank 0 or above CRK_MAX_RANK or not contiguous, too many columns,
 * memory that overlaps), CRK_OUT_OF_BOUNDS (a view is too small), CRK_OUT_OF_MEMORY or CRK_CAPTURE (no scratch memory), or
 * CRK_DEVICE. */
crk_status_t crk_argsort(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_view_t src,
                         bool ascending, crk_view_t dst, crk_view_t values);

/* ------------------------------------------------------------------------------------------------------------------
 * Launchers: matrix products
 * ------------------------------------------------------------------------------------------------------------------ */

/* dst[b.., i, j] = the sum over l of lhs[b.., i, l] * rhs[b.., l, j]: lhs is (b.., m, k), rhs (b.., k, n), dst (b.., m, n). The layouts
 * have one rank, 2 at least, and the same batch dims; a batch is broadcast with strides of 0. Any strides and offsets will do, and none
 * needs a copy: row-major, column-major, with gaps, broadcast. `dst` is contiguous from the beginning of its view. dtypes BF16, F16,
 * F32 and F64.
 *
 * Products are added up in f32, of f64 in f64, in an order that depends on the sizes, the layouts and the device, and is the same in
 * each call; the sum is rounded to the dtype once. Before that it is within k units in the last place of 1 (2^-23, of f64 2^-52) of
 * the exact one, times the sum of the products' magnitudes. NaN and infinities come through; a product that overflows may do so
 * before one that would take it back is added. A bf16 below 2^-126 may count as 0, and on gfx90a an f16 below 2^-14 in a BLAS library.
 *
 * A BLAS library is used where there is one (crk_device_blas) and the layouts fit it: of the last two dims of each operand one has
 * stride 1, the batch dims are as one dim, sizes are below 2^31. Where it fails, where it would have to be opened while a handle on the
 * GPU is captured, and for a product with a single row or column that lies well, kernels of this library's own are used. Both can be
 * captured in a graph. One launch (more only where a grid would exceed the device's limit), and no scratch memory, but a BLAS library
 * allocates at its first product; where outputs are few and k is long, own kernels are two launches and take scratch
 * memory from crk_alloc, given back before the return: at most 4 KiB for every four SIMD units, 8 of f64. In a capture
 * reserve it before (crk_memory_reserve), or run once.
 *
 * k of 0 gives zeros. An empty dst succeeds and launches nothing. Fails with CRK_INVALID_ARGUMENT (a NULL, no dtype, a rank below 2 or
 * above CRK_MAX_RANK, dims that do not fit each other, 2^62 or more elements, a view that is not aligned, a dst that overlaps what
 * an operand spans), CRK_OUT_OF_BOUNDS (a layout reaches beyond its view, or dst is too small), CRK_UNSUPPORTED (another dtype),
 * CRK_OUT_OF_MEMORY or CRK_CAPTURE (no scratch memory), or CRK_DEVICE. */
crk_status_t crk_matmul(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *lhs_layout, crk_view_t lhs,
                        const crk_layout_t *rhs_layout, crk_view_t rhs, crk_view_t dst);

/* ------------------------------------------------------------------------------------------------------------------
 * Launchers: convolutions, pools and upsampling
 *
 * Images are (b, c, h, w), signals (b, c, l), in any strided layout; a destination is contiguous from the beginning of its view
 * and overlaps no source. Each is one launch (more only where a grid would exceed the device's limit) and allocates nothing.
 * What a window covers outside of an image is 0.
 *
 * An empty destination succeeds and launches nothing. All fail with CRK_INVALID_ARGUMENT (a NULL, a value that is no dtype or op,
 * a layout of another rank, dims that do not fit each other; a stride, a dilation or a window of 0; a window that reaches beyond
 * the image and its padding; a number of elements of 2^62 or more), CRK_OUT_OF_BOUNDS (a layout reaches beyond its view, or the
 * destination is too small) or CRK_DEVICE. All ten dtypes have kernels. Rounding: docs/parity.md.
 * ------------------------------------------------------------------------------------------------------------------ */

/* The size that a dim has after a window went over it, in a convolution, im2col or a pool (padding 0, dilation 1):
 * (size + 2 * padding - dilation * (window - 1) - 1) / stride + 1, rounded down. Fails as the launchers do. */
crk_status_t crk_conv_size(size_t size, size_t window, size_t stride, size_t padding, size_t dilation, size_t *result);

/* The same for a transposed convolution and col2im1d (no padding, dilation 1):
 * (size - 1) * stride + dilation * (window - 1) + output_padding + 1 - 2 * padding. Fails too where `size` is 0 or the padding
 * is more than there is. */
crk_status_t crk_conv_transpose_size(size_t size, size_t window, size_t stride, size_t padding, size_t output_padding,
                                     size_t dilation, size_t *result);

/* dst[b, o, x] = sum over c and k of src[b, c, x * stride + k * dilation - padding] * kernel[o, c, k], for a source (b, c_in, l),
 * a kernel (c_out, c_in, k) and dst (b, c_out, crk_conv_size(l, k, ...)).
 *
 * The sum is made over k, in each over c; products are fused into it, f16, bf16 and f8e4m3 are added up in f32 and rounded once,
 * integers wrap. So it is equal, bit for bit, to the kernel by name. For a large convolution crk_im2col1d and a matrix product
 * are faster. */
crk_status_t crk_conv1d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *src_layout, crk_view_t src,
                        const crk_layout_t *kernel_layout, crk_view_t kernel, crk_view_t dst, size_t stride,
                        size_t padding, size_t dilation);

/* The same over two dims: src (b, c_in, h, w), kernel (c_out, c_in, h_k, w_k), dst (b, c_out, h_out, w_out); stride, padding and
 * dilation hold for both. The sum is made over the window's columns, in each over its rows, in each over the channels. */
crk_status_t crk_conv2d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *src_layout, crk_view_t src,
                        const crk_layout_t *kernel_layout, crk_view_t kernel, crk_view_t dst, size_t stride,
                        size_t padding, size_t dilation);

/* dst[b, o, i * stride + k * dilation - padding] += src[b, c, i] * kernel[c, o, k] for every c, i and k that reach into dst, from
 * 0 on: src (b, c_in, l), kernel (c_in, c_out, k), dst (b, c_out, crk_conv_transpose_size(l, k, ...)). Sums as crk_conv1d's. */
crk_status_t crk_conv_transpose1d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *src_layout, crk_view_t src,
                                  const crk_layout_t *kernel_layout, crk_view_t kernel, crk_view_t dst, size_t stride,
                                  size_t padding, size_t output_padding, size_t dilation);

/* The same over two dims: src (b, c_in, h, w), kernel (c_in, c_out, h_k, w_k), dst (b, c_out, h_out, w_out). */
crk_status_t crk_conv_transpose2d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *src_layout, crk_view_t src,
                                  const crk_layout_t *kernel_layout, crk_view_t kernel, crk_view_t dst, size_t stride,
                                  size_t padding, size_t output_padding, size_t dilation);

/* dst[b, x, c, i] = src[b, c, x * stride + i * dilation - padding] for i below `k`: the windows of a signal (b, c, l) as the rows
 * of matrices (b, l_out, c * k), l_out = crk_conv_size(l, k, ...). The product with a kernel (c_out, c_in * k), transposed, is
 * the convolution as (b, l_out, c_out). */
crk_status_t crk_im2col1d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_view_t src,
                          crk_view_t dst, size_t k, size_t stride, size_t padding, size_t dilation);

/* The same over two dims: src (b, c, h, w), dst (b, h_out, w_out, c * h_k * w_k). */
crk_status_t crk_im2col(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_view_t src,
                        crk_view_t dst, size_t h_k, size_t w_k, size_t stride, size_t padding, size_t dilation);

/* dst[b, c, i * stride + j] += src[b, i, c, j] for every i and j, from 0 on: the way back from the matrices (b, l_in, c, k) of a
 * transposed convolution to its result (b, c, crk_conv_transpose_size(l_in, k, stride, 0, 0, 1)). Rounded to the dtype at every
 * step, from the greatest i to the least. */
crk_status_t crk_col2im1d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_view_t src,
                          crk_view_t dst, size_t stride);

/* XX(name, value, root). */
#define CRK_POOL_MAP(XX)   \
  XX(AVG, 0, "avg_pool2d") \
  XX(MAX, 1, "max_pool2d")

typedef enum crk_pool_op {
#define XX(name, value, root) CRK_POOL_##name = value,
  CRK_POOL_MAP(XX)
#undef XX
} crk_pool_op_t;

/* The op of a kernel root such as "max_pool2d". Fails with CRK_INVALID_ARGUMENT. */
crk_status_t crk_pool_op_from_root(const char *root, crk_pool_op_t *op);

/* dst[b, c, y, x] is the average or the greatest of src[b, c, y * h_stride + i, x * w_stride + j] for i below `h_k`, j below
 * `w_k`: src (b, c, h, w), dst (b, c, crk_conv_size(h, h_k, h_stride, 0, 1), crk_conv_size(w, w_k, w_stride, 0, 1)). Candle's
 * arguments of this order are called k.0, k.1, stride.0 and stride.1 there.
 *
 * AVG: the sum, row by row from 0 (f16, bf16 and f8e4m3 in f32), times 1 / (h_k * w_k), rounded once. u8 and u32: the sum
 * wraps; it times the factor, in f32, is cut off. i16, i32 and i64: 0 unless the window has one element, as on Candle's CPU.
 * MAX: a NaN wins in f16 and bf16 and loses in f32 and f64; in f8e4m3 it stays where it is the first of a window. */
crk_status_t crk_pool2d(crk_device_t self, crk_pool_op_t op, crk_dtype_t dtype, const crk_layout_t *layout,
                        crk_view_t src, crk_view_t dst, size_t h_k, size_t w_k, size_t h_stride, size_t w_stride);

/* dst[b, c, y, x] = src[b, c, (size_t)(y * (h / h_out)), (size_t)(x * (w / w_out))] in f64, kept within the source, bit for bit:
 * src (b, c, h, w), dst (b, c, h_out, w_out). Sizes may grow or shrink. Fails too where the source is empty and dst is not. */
crk_status_t crk_upsample_nearest2d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_view_t src,
                                    crk_view_t dst, size_t h_out, size_t w_out);

/* Bilinear interpolation, as PyTorch's and Candle's: src (b, c, h, w), dst (b, c, h_out, w_out). Output y lies at
 * y * (h - 1) / (h_out - 1) with align_corners, else at (y + 0.5) * step - 0.5, where step is 1 / h_factor, or h / h_out for an
 * h_factor of 0; never before the first element, and the last one continues. Likewise x. In f64, rounded once; integers are cut
 * off. Fails too where the source is empty and dst is not, and for a factor that is negative, infinite or NaN. */
crk_status_t crk_upsample_bilinear2d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_view_t src,
                                     crk_view_t dst, size_t h_out, size_t w_out, bool align_corners, double h_factor,
                                     double w_factor);

/* ------------------------------------------------------------------------------------------------------------------
 * Launchers: quantized weights
 * ------------------------------------------------------------------------------------------------------------------ */

/* XX(name, value, text, elements, bytes): the block formats of quantized weights, ggml's of the same names; `value` is GGUF's
 * number of the type. A row of a tensor is a whole number of blocks of `elements` elements in `bytes` bytes. */
#define CRK_QUANT_MAP(XX)        \
  XX(Q4_0, 2, "q4_0", 32, 18)    \
  XX(Q4_1, 3, "q4_1", 32, 20)    \
  XX(Q5_0, 6, "q5_0", 32, 22)    \
  XX(Q5_1, 7, "q5_1", 32, 24)    \
  XX(Q8_0, 8, "q8_0", 32, 34)    \
  XX(Q2_K, 10, "q2_K", 256, 84)  \
  XX(Q3_K, 11, "q3_K", 256, 110) \
  XX(Q4_K, 12, "q4_K", 256, 144) \
  XX(Q5_K, 13, "q5_K", 256, 176) \
  XX(Q6_K, 14, "q6_K", 256, 210) \
  XX(Q8_K, 15, "q8_K", 256, 292)

typedef enum crk_quant {
#define XX(name, value, text, elements, bytes) CRK_QUANT_##name = value,
  CRK_QUANT_MAP(XX)
#undef XX
} crk_quant_t;

/* The format's name, such as "q4_K"; NULL for a value that is no format. */
const char *crk_quant_name(crk_quant_t quant);

/* The format of a name, in capitals or not ("Q4_K", "q4_k"). Fails with CRK_INVALID_ARGUMENT. */
crk_status_t crk_quant_from_name(const char *name, crk_quant_t *quant);

/* Elements and bytes of a block; 0 for a value that is no format. */
size_t crk_quant_block_elements(crk_quant_t quant);
size_t crk_quant_block_bytes(crk_quant_t quant);

/* The launchers of this section take quantized weights as a view that holds rows of blocks without gaps, aligned to 2 bytes (q8_K:
 * 4 bytes); each is one launch and allocates nothing unless its comment says otherwise. Views must not overlap dst. An
 * empty dst succeeds and launches nothing.
 *
 * All fail with CRK_INVALID_ARGUMENT (a NULL, a value that is no format or dtype, a row length that is no multiple of the
 * block, a view that is not aligned), CRK_OUT_OF_BOUNDS (a view is too small), CRK_UNSUPPORTED (no kernel for the format or
 * dtype) or CRK_DEVICE. */

/* dst[i] = the value of element i of src, for i below `numel`, which is a multiple of the block. `dtype` of dst is F32, F16 or BF16.
 *
 * Computed in f32: q4_0 as d * code - 8 * d, as Candle's kernel does; the others as kernels/quantized/blocks.h says. All but the
 * difference of q2_K, q4_K, q5_K, q4_1 and q5_1, and q8_K's product, is exact, so a value rounds once, and once more to dtype. */
crk_status_t crk_dequantize(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t numel, crk_view_t src,
                            crk_view_t dst);

/* dst[i][j] = src[ids[i]][j] for i below `count`, j below `hidden`: rows of a quantized table of `rows` rows. `ids` are u32, dst is
 * f32, contiguous. An id of UINT32_MAX gives zeros; so does another that is no row, and the next synchronisation reports it
 * (crk_device_synchronize). Values as of crk_dequantize, but q4_0 as d * (code - 8), as Candle's kernel does. */
crk_status_t crk_get_rows(crk_device_t self, crk_quant_t quant, size_t rows, size_t hidden, size_t count,
                          crk_view_t src, crk_view_t ids, crk_view_t dst);

/* The same of a table of floats: `dtype` of src is F32, F16 or BF16; any row length. */
crk_status_t crk_get_rows_float(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t hidden, size_t count,
                                crk_view_t src, crk_view_t ids, crk_view_t dst);

/* Bytes of `rows` rows of `k` activations as q8_1 blocks: rows * (k rounded up to a multiple of 512) / 32 * 36; 0 where that is
 * beyond size_t. */
size_t crk_q8_1_bytes(size_t rows, size_t k);

/* Activations in 8 bits, as the quantized products want them: each row of `k` elements of x, padded with zeros to a multiple of
 * 512, becomes blocks of 32 elements in 36 bytes: f16 d, f16 s, 32 codes (ggml's q8_1). d = the largest magnitude / 127, a code is
 * x / d rounded to nearest, halves away from zero, s the sum of the 32 numbers. `dtype` of x is F32, F16 or BF16; any k.
 * dst has crk_q8_1_bytes(rows, k) bytes and is aligned to 4.
 *
 * A NaN counts nothing in d and has code 0. The order of the sum s: each four neighbours pairwise, then a butterfly of the eight
 * sums; Candle's kernel of that name adds the 32 in a butterfly. */
crk_status_t crk_quantize_q8_1(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t k, crk_view_t x,
                               crk_view_t dst);

/* dst[i] = the sum over j of src[i][j] * y[j], for i below `rows`, j below `k`, which is a multiple of the block: weights as numbers,
 * no rounding of the activations. `dtype` of y is F32, F16 or BF16; dst is f32, and so are the sums: 8 elements at a time, which a
 * block's scale multiplies, then the shares of 32 lanes in a butterfly. */
crk_status_t crk_dequantize_mul_mat_vec(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                                        crk_view_t src, crk_view_t y, crk_view_t dst);

/* Products with quantized weights in integers. The activations x are quantized first, as by crk_quantize_q8_1, into scratch memory
 * that the function allocates and frees in the stream's order: 36 bytes for each 32 elements of x, which a capture must find
 * reserved (crk_memory_reserve) or cached. So these are two launches. The weights are `rows` rows of `k` elements; `dtype` is that
 * of x and of dst, F32, F16 or BF16, and all tensors are contiguous. Every format but q8_K. k is a multiple of the format's block,
 * at most 2^31 - 1; k of 0 gives zeros.
 *
 * In each block of 32 activations the products of codes are summed exactly, as integers; then in f32, in an order of the
 * kernel's: an element is within 1e-5 of the sum of the absolute products of its blocks, and rounded once to dtype. A minimum, or
 * the offset of q4_0 and q5_0, is multiplied with the sum s of a block's 32 values or with d times the sum of its codes, which
 * differ by what quantization changed, as in Candle's kernels: up to 8 columns, and by expert, with s in the formats of 32
 * elements, with codes in the others.
 *
 * Above 8 columns the blocks are those of crk_quantize_mmq, crk_mmq_bytes of scratch memory for rows padded to a multiple of 128.
 * Offsets are subtracted from the codes. A minimum is multiplied with s, but in q2_K in the last 32 of each 128 elements, where no
 * s is: with d times the sum of the codes. Scales and minima of q2_K, q4_K and q5_K, each the product of two numbers of a block,
 * are rounded to f16 first. All this as in Candle's kernels.
 *
 * An element has the same bits whichever of 2 to 4 `columns` it is computed among; likewise of 5 to 8, and of more than 8. These three
 * and a single column are each added up in an order of their own; with a k of up to 1024, 2 to 8 columns in the same one.
 *
 * Where d or dmin of a block of weights is infinite, no element of its row is finite; where it is NaN, all are NaN. An infinity in x
 * makes its column NaN; so does a NaN where s is multiplied with something, else it counts as 0. Other rows and columns are as
 * without either. */

/* dst[c][i] = the sum over j of weights[i][j] * x[c][j], for c below `columns`, at most 8. */
crk_status_t crk_mul_mat_vec(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                             size_t columns, crk_view_t weights, crk_view_t x, crk_view_t dst);

/* The same of activations that are quantized: dst[c * dst_stride + i] = the sum over j of weights[i][j] * x[c][j], in one launch and
 * without scratch memory. Column c of x is k / 32 q8_1 blocks (crk_quantize_q8_1) that begin c * x_stride blocks after x, which
 * is aligned to 4; `dtype` is dst's. With more than one column x_stride is k / 32 at least and dst_stride, in elements, `rows`; nothing
 * between the columns is read or written. */
crk_status_t crk_mul_mat_vec_q8_1(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                                  size_t columns, crk_view_t weights, crk_view_t x, size_t x_stride, crk_view_t dst,
                                  size_t dst_stride);

/* crk_mul_mat_vec for any number of columns; up to 8 it is that. */
crk_status_t crk_mul_mat(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k, size_t columns,
                         crk_view_t weights, crk_view_t x, crk_view_t dst);

/* Activations as products with many columns read them: Candle's mmq blocks, 128 elements of a column in 144 bytes, four words and
 * then 128 codes. XX(name, value, text): what the words are. D4: four f32 d, each of 32 elements. DS4: four pairs of f16 d and
 * f16 s, each of 32 elements. D2S6: two f16 d, each of 64 elements, then six f16 s, each of 16, of the first 96. */
#define CRK_MMQ_MAP(XX) \
  XX(D4, 0, "D4")       \
  XX(DS4, 1, "DS4")     \
  XX(D2S6, 2, "D2S6")

typedef enum crk_mmq {
#define XX(name, value, text) CRK_MMQ_##name = value,
  CRK_MMQ_MAP(XX)
#undef XX
} crk_mmq_t;

/* The layout that crk_mul_mat_mmq wants for a format: DS4 for q4_0, q4_1, q5_1, q4_K and q5_K, D2S6 for q2_K, D4 for q5_0, q8_0,
 * q3_K and q6_K. Fails with CRK_INVALID_ARGUMENT, or CRK_UNSUPPORTED for q8_K. */
crk_status_t crk_mmq_of_quant(crk_quant_t quant, crk_mmq_t *layout);

/* Rows that become columns of mmq blocks; strides are in elements of x. In brackets, Candle's names. */
typedef struct crk_mmq_rows {
  size_t k; /* elements of a row [ne00] */
  size_t row_stride, channel_stride, sample_stride; /* [s01, s02, s03] */
  size_t padded_k; /* a multiple of 128, from k up: zeros follow a row's elements [ne0] */
  size_t columns, channels, samples; /* [ne1, ne2, ne3] */
} crk_mmq_rows_t;

/* Bytes of those blocks: samples * channels * columns * (padded_k rounded up to a multiple of 512) / 128 * 144; 0 where `rows`
 * is NULL or that is beyond size_t. */
size_t crk_mmq_bytes(const crk_mmq_rows_t *rows);

/* Block b of column j of channel c of sample s, number (s * channels + c) * columns * (padded_k rounded up to 512) / 128
 * + b * columns + j of dst, becomes the elements 128 b to 128 b + 127 of the row at s * sample_stride + c * channel_stride +
 * r * row_stride of x. r is j, or ids[j], an i32, where `ids` is not {NULL, 0}. An id of a row that x does not hold (of a
 * row_stride of 0: any but 0) leaves its blocks as they are, and the next synchronisation reports it
 * (crk_device_synchronize). `dtype` of x is F32, F16 or BF16; any k and strides. dst has crk_mmq_bytes(rows) bytes and is aligned
 * to 4.
 *
 * In each group that shares a d, with m its largest magnitude: a code is x * (127 / m), rounded to nearest, halves away from
 * zero, and d is 1 / (127 / m), in f32. A group of zeros has codes 0 and d 0. A NaN has no part in m and its code is 0; with an
 * infinity d is infinite and the codes are 0. s is the sum of the group's numbers, in f32: each four neighbours from the first
 * on, then a butterfly of those. An f16 d or s beyond 65504 is infinite. Bit for bit what Candle's kernel gives. */
crk_status_t crk_quantize_mmq(crk_device_t self, crk_mmq_t layout, crk_dtype_t dtype, const crk_mmq_rows_t *rows,
                              crk_view_t x, crk_view_t ids, crk_view_t dst);

/* dst[c * dst_stride + i] = the sum over j of weights[i][j] * column c of y, for i below `rows`, c below `columns`: what crk_mul_mat
 * does with more than 8 columns once they are quantized, for any number of columns. One launch, no scratch memory. A row of
 * weights begins every `weight_stride` blocks. y is mmq blocks in the layout of the format (crk_mmq_of_quant), block b of column
 * c at b * columns + c, and is aligned to 4; what it has beyond k does not count. `dtype` of dst is F32, F16 or BF16; dst_stride, in
 * elements, is `rows` at least. k of 0 gives zeros. */
crk_status_t crk_mul_mat_mmq(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                             size_t columns, crk_view_t weights, size_t weight_stride, crk_view_t y, crk_view_t dst,
                             size_t dst_stride);

/* ------------------------------------------------------------------------------------------------------------------
 * Launchers: mixtures of experts
 * ------------------------------------------------------------------------------------------------------------------ */

/* Candle's mixtures of experts. Each of `tokens` tokens goes to one expert:
 *
 *   dst[token][i] = scale * the sum over j of weights[expert][i][j] * x[input][j]
 *
 * for token = sorted_token_ids[m] and expert = expert_ids[m], m below `tokens`; with topk_weights the scale is
 * topk_weights[token] and input is token, without them (ptr is NULL) the scale is 1 and input is token / topk, where tokens is a
 * multiple of topk. weights are `experts` matrices of `rows` rows of `k` elements, x has a row of k elements for each input, dst
 * `tokens` rows of `rows` elements; sorted_token_ids and expert_ids are i32, topk_weights f32, all contiguous. Tokens of an expert that
 * follow each other in the lists share the load of its weights, so lists that are sorted by expert are fast; others give the
 * same. A token that stands twice has one of its results.
 *
 * An expert or a token that is out of range is left out, nothing of dst is written for it, and the next synchronisation
 * reports one (crk_device_synchronize). Views must not overlap dst. An empty dst succeeds and launches nothing. Sizes are below
 * 2^31. All fail with CRK_INVALID_ARGUMENT (a NULL, a value that is no format or dtype, sizes that do not go together, a view
 * that is not aligned), CRK_OUT_OF_BOUNDS (a view is too small), CRK_UNSUPPORTED (no kernel for the format or dtype), or as
 * crk_alloc and with CRK_DEVICE. They can be captured in a graph. */

/* In integers: x, of `dtype` F32, F16 or BF16, is quantized first, as by crk_quantize_q8_1, into crk_q8_1_bytes(inputs, k) bytes of
 * scratch memory that are allocated and freed in the stream's order, and which a capture must find reserved
 * (crk_memory_reserve) or cached; inputs is tokens, or tokens / topk without topk_weights. They are below 2^32
 * (CRK_UNSUPPORTED). So these are two launches. dst is f32. Every
 * format but q8_K; k is a multiple of the format's block. Sums and their accuracy are those of crk_mul_mat_vec, then the scale
 * multiplies, which rounds once. */
crk_status_t crk_moe_gguf(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t experts, size_t rows,
                          size_t k, size_t tokens, size_t topk, crk_view_t weights, crk_view_t x,
                          crk_view_t sorted_token_ids, crk_view_t expert_ids, crk_view_t topk_weights, crk_view_t dst);

/* In floating point, for many tokens an expert: the weights become numbers of `dtype`, F16 or BF16, which x has too; dst is f32. One
 * launch, no scratch memory. Every format but q8_K; k is a multiple of the format's block.
 *
 * The numbers are those of Candle's kernel: of q2_K to q6_K in f16, every step rounded: d times the group's scale, dmin times
 * its minimum, then that scale times the code less that minimum in one fused step (q2_K and q6_K: d times the product of scale
 * and code, which rounds first where q6_K's is above 2048), then `dtype`; of the others, f32 rounded to dtype. Products are added up in
 * f32 in an order of the kernel's: within 1e-5 of the sum of the absolute products, for k up to 2^16. */
crk_status_t crk_moe_gguf_prefill(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t experts, size_t rows,
                                  size_t k, size_t tokens, size_t topk, crk_view_t weights, crk_view_t x,
                                  crk_view_t sorted_token_ids, crk_view_t expert_ids, crk_view_t topk_weights,
                                  crk_view_t dst);

/* The same with weights, x and dst of `dtype`, F16 or BF16; k is a multiple of 8. Sums in f32 as above, the scale multiplies, and dst
 * rounds once more. Subnormal f16 count; a bf16 below 2^-126 may be 0 (kernels/platform/hip.h says where).
 *
 * expert_counts[e] is then how many of expert_ids are e, expert_offsets[e] the sum of the counts before e, expert_offsets[experts]
 * of all, as i32; either may have ptr NULL, and with both NULL it is one launch, else two. No scratch memory. */
crk_status_t crk_moe_gemm(crk_device_t self, crk_dtype_t dtype, size_t experts, size_t rows, size_t k, size_t tokens,
                          size_t topk, crk_view_t weights, crk_view_t x, crk_view_t sorted_token_ids,
                          crk_view_t expert_ids, crk_view_t topk_weights, crk_view_t dst, crk_view_t expert_counts,
                          crk_view_t expert_offsets);

/* Groups tokens by expert: sorted_token_ids has those m below `count` for which topk_ids[m] is 0, in order, then the value `count` up to
 * a multiple of block_size, then those of 1 and so on; behind the last expert's, `count` up to `padded` entries. expert_ids[b] is the
 * expert of block b of block_size entries, -1 behind the last block; it has one for each of `padded`, rounded up. Of cumsum, which
 * has experts + 1 entries, the e-th is where e's tokens end, without the padding; the last, and num_tokens_post_pad[0], is how
 * many entries all blocks have. All are i32. Two launches, no scratch memory; the result is one and the same in each call.
 *
 * An id that is no expert is left out, and reported at the next synchronisation; so is a number of entries above `padded`, and those
 * beyond are not written. count + min(count, experts) * (block_size - 1) are always enough. No two views may overlap. */
crk_status_t crk_moe_align(crk_device_t self, size_t experts, size_t block_size, size_t count, size_t padded,
                           crk_view_t topk_ids, crk_view_t sorted_token_ids, crk_view_t expert_ids,
                           crk_view_t num_tokens_post_pad, crk_view_t cumsum);

/* dst[b][t][i] = the sum over j of weights[ids[b][t]][i][j] * x[b][t or 0][j], in integers as crk_moe_gguf: ids are u32 of
 * batch * topk, x is batch * inputs * k where `inputs` is 1, one row for all of a batch's experts, or topk; `dtype` is that of x
 * and of dst. What an id that is no expert would give stays as it is, and the next synchronisation reports it. */
crk_status_t crk_indexed_moe(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t experts, size_t rows,
                             size_t k, size_t batch, size_t topk, size_t inputs, crk_view_t weights, crk_view_t x,
                             crk_view_t ids, crk_view_t dst);

/* ------------------------------------------------------------------------------------------------------------------
 * Launchers: random numbers
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011). A generator's state is
 * device memory of the caller's, aligned to 8: the seed, and how many steps its draws have used. A draw reads the state and moves it
 * on, on the device, in its one launch: a draw that was captured gives new numbers each time the graph is launched, those that it
 * would have given without a graph. No scratch memory.
 *
 * The numbers follow from the seed and from the draws before, and from nothing else: they are the same to the bit on every device
 * and on every wave width. They are not those of NVIDIA's cuRAND, nor of Candle's other devices.
 *
 * A step gives four numbers, in f64 two; a draw uses the steps that it needs whole, and what is left of its last step is lost.
 * So the numbers of a draw of n and of one of m that follows it are those of one draw of n + m where n is a multiple of four (f64: of
 * two).
 *
 * dtypes F32, F64, F16 and BF16. A draw of no numbers succeeds, launches nothing and leaves the state. `dst` and `state` must not
 * overlap. All fail with CRK_INVALID_ARGUMENT (a NULL, a value that is no dtype, a view that is not aligned, memory that overlaps,
 * and what is said below), CRK_OUT_OF_BOUNDS (a view is too small), CRK_UNSUPPORTED (no kernel for the dtype) or CRK_DEVICE.
 * ------------------------------------------------------------------------------------------------------------------ */

#define CRK_RANDOM_STATE_BYTES 32

/* Begins a generator, or begins it anew: equal seeds give equal numbers. One launch; memory that no generator was begun in has none. */
crk_status_t crk_random_seed(crk_device_t self, crk_view_t state, uint64_t seed);

/* dst[i] = fma(u, hi - lo, lo) for i below `numel`, u uniform in [0, 1): a multiple of 2^-53 in f64, else of 2^-24. lo and hi are rounded to
 * the dtype first; the formula is computed in f64, or in f32, and f16 and bf16 are rounded once. lo <= dst[i] < hi: what the roundings
 * would make hi is the greatest number below it. Where lo and hi are equal, or become so, every element is lo. Fails with
 * CRK_INVALID_ARGUMENT too where lo or hi is no finite number of the dtype, lo is above hi, or hi - lo overflows (f32, f64). */
crk_status_t crk_random_uniform(crk_device_t self, crk_dtype_t dtype, crk_view_t dst, size_t numel, double lo,
                                double hi, crk_view_t state);

/* dst[i] = fma(z, std, mean) for i below `numel`, z normal with mean 0 and variance 1, by Box and Muller's transform: of magnitude 8.58 at
 * most in f64, else 6.67, and off its formula by 5 units in the last place at most. Computed in f64, or in f32, and f16 and bf16
 * rounded once: what is beyond a dtype's range is infinite. A std of 0 gives `mean`, a negative one mirrored numbers. Fails with
 * CRK_INVALID_ARGUMENT too where mean or std is not finite in f32 (f64). */
crk_status_t crk_random_normal(crk_device_t self, crk_dtype_t dtype, crk_view_t dst, size_t numel, double mean,
                               double std, crk_view_t state);

/* ------------------------------------------------------------------------------------------------------------------
 * Candle's static launchers: the functions of candle-kernels' module `ffi`, which Candle's quantized matrices and its
 * mixtures of experts call. Names, with crk_ before them, and arguments are Candle's; what they compute is said at the launcher
 * that each of them is.
 *
 * The last argument is what crk_device_stream gave for a live handle, whose device the pointers are of. How much memory they
 * must point to follows from the numbers, as at the launcher; it cannot be checked. Those that return nothing keep the first
 * failure for the handle's next synchronisation (crk_device_synchronize), and for this thread's crk_last_error; a stream that is
 * of no live handle is known from crk_last_error alone.
 * ------------------------------------------------------------------------------------------------------------------ */

/* XX(name, NAME): the formats with integer products, as these functions spell them and as crk_quant_t does. */
#define CRK_STATIC_QUANT_MAP(XX) \
  XX(q4_0, Q4_0)                 \
  XX(q4_1, Q4_1)                 \
  XX(q5_0, Q5_0)                 \
  XX(q5_1, Q5_1)                 \
  XX(q8_0, Q8_0)                 \
  XX(q2_k, Q2_K)                 \
  XX(q3_k, Q3_K)                 \
  XX(q4_k, Q4_K)                 \
  XX(q5_k, Q5_K)                 \
  XX(q6_k, Q6_K)

/* crk_quantize_q8_1 of `num_rows` rows of `kx` elements, padded to `kx_padded`, a multiple of 32. */
void crk_launch_mmvq_gguf_quantize_q8_1_f32(const void *x, void *vy, int32_t kx, int32_t kx_padded, int32_t num_rows,
                                            void *stream);
void crk_launch_mmvq_gguf_quantize_q8_1_f16(const void *x, void *vy, int32_t kx, int32_t kx_padded, int32_t num_rows,
                                            void *stream);
void crk_launch_mmvq_gguf_quantize_q8_1_bf16(const void *x, void *vy, int32_t kx, int32_t kx_padded, int32_t num_rows,
                                             void *stream);

/* crk_mul_mat_vec_q8_1: `nrows_x` rows of `ncols_x` weights times `b_size` columns, 1 to 8, of q8_1 blocks, `stride_col_y` blocks
 * apart; columns of dst are `stride_col_dst` elements apart. crk_launch_mmvq_gguf_q4_0_f32_plain and so on: a dst of f32, f16
 * and bf16 of every format. */
#define CRK_STATIC_MMVQ(type, dtype)                                                                                \
  void crk_launch_mmvq_gguf_##type##_##dtype##_plain(const void *vx, const void *vy, void *dst, int32_t ncols_x,    \
                                                     int32_t nrows_x, int32_t stride_col_y, int32_t stride_col_dst, \
                                                     int32_t b_size, void *stream);
#define XX(type, upper)      \
  CRK_STATIC_MMVQ(type, f32) \
  CRK_STATIC_MMVQ(type, f16) \
  CRK_STATIC_MMVQ(type, bf16)
CRK_STATIC_QUANT_MAP(XX)
#undef XX
#undef CRK_STATIC_MMVQ

/* crk_quantize_mmq of `ne1` * `ne2` * `ne3` rows of `ne00` f32 elements, s01, s02 and s03 elements apart, padded to `ne0`, a multiple
 * of 128; row numbers `ids` may be NULL; type_x means nothing. */
#define CRK_STATIC_MMQ_QUANTIZE(layout)                                                                        \
  void crk_launch_mmq_quantize_q8_1_##layout(const void *x, const int32_t *ids, void *vy, int32_t type_x,      \
                                             int64_t ne00, int64_t s01, int64_t s02, int64_t s03, int64_t ne0, \
                                             int64_t ne1, int64_t ne2, int64_t ne3, void *stream);
#define XX(name, value, text) CRK_STATIC_MMQ_QUANTIZE(name)
CRK_MMQ_MAP(XX)
#undef XX
#undef CRK_STATIC_MMQ_QUANTIZE

/* crk_mul_mat_mmq: `nrows_x` rows of `ncols_x` weights, `stride_row_x` blocks apart, times `ncols_y` columns of mmq blocks; dst is
 * f32, its columns `stride_col_dst` elements apart. There is no stream-k split: tmp_fixup, cc, nsm, smpbo and warp_size mean
 * nothing. crk_launch_mmq_gguf_q4_0 and so on, for every format. */
#define XX(type, upper)                                                                                           \
  void crk_launch_mmq_gguf_##type(void *tmp_fixup, const void *x, const void *y, void *dst, int64_t ncols_x,      \
                                  int64_t nrows_x, int64_t ncols_y, int64_t stride_row_x, int64_t stride_col_dst, \
                                  int32_t cc, int32_t nsm, int64_t smpbo, int32_t warp_size, void *stream);
CRK_STATIC_QUANT_MAP(XX)
#undef XX

/* XX(value, NAME): how the functions below number formats. */
#define CRK_STATIC_EXPERT_QUANT_MAP(XX) \
  XX(0, Q8_0)                           \
  XX(1, Q4_K)                           \
  XX(2, Q2_K)                           \
  XX(3, Q3_K)                           \
  XX(4, Q5_K)                           \
  XX(5, Q6_K)

/* crk_moe_gguf of f32 activations: `size_m` tokens, `size_n` rows of `size_k` elements an expert. topk_weights may be NULL. Memory
 * to quantize into is that launcher's scratch memory. */
void crk_moe_gemm_gguf(const float *input, const void *weights, const int32_t *sorted_token_ids,
                       const int32_t *expert_ids, const float *topk_weights, void *output, int32_t num_experts,
                       int32_t topk, int32_t size_m, int32_t size_n, int32_t size_k, int32_t gguf_dtype,
                       int64_t stream);

/* crk_moe_gguf_prefill of activations of f16 (input_dtype 0) or bf16 (1). expert_ids are device memory. */
void crk_moe_gemm_gguf_prefill(const void *input, const uint8_t *weights, const int32_t *sorted_token_ids,
                               const int32_t *expert_ids, const float *topk_weights, void *output, int32_t num_experts,
                               int32_t topk, int32_t size_m, int32_t size_n, int32_t size_k, int32_t input_dtype,
                               int32_t gguf_dtype, int64_t stream);

/* crk_moe_gemm of f16 (dtype 0) or bf16 (1); is_prefill means nothing. expert_ids are device memory. */
void crk_moe_gemm_wmma(const void *input, const void *weights, const int32_t *sorted_token_ids,
                       const int32_t *expert_ids, const float *topk_weights, void *output, int32_t *expert_counts,
                       int32_t *expert_offsets, int32_t num_experts, int32_t topk, int32_t size_m, int32_t size_n,
                       int32_t size_k, int32_t dtype, bool is_prefill, int64_t stream);

/* crk_moe_align of `numel` ids. Returns a crk_status_t at once, 0 for success, and keeps nothing. */
int32_t crk_candle_launch_moe_align(const int32_t *topk_ids, int32_t *sorted_token_ids, int32_t *expert_ids,
                                    int32_t *num_tokens_post_pad, int32_t *cumsum, int32_t num_experts,
                                    int32_t block_size, int32_t numel, int32_t max_num_tokens_padded, void *stream);

#ifdef __cplusplus
}
#endif
#endif
