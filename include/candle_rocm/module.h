/* candle_rocm/module.h: kernels by name, from embedded modules and the caller's own; compilation at run time;
 * launches. */
#ifndef CANDLE_ROCM_MODULE_H
#define CANDLE_ROCM_MODULE_H

#include "candle_rocm/device.h"
#include "candle_rocm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Modules and functions
 * ------------------------------------------------------------------------------------------------------------------ */

/* A kernel on a device. It belongs to its module. It lives until the handle that gave it and all clones are closed. */
typedef struct crk_function *crk_function_t;

/* A compiled kernel module that is embedded in this binary. */
typedef struct crk_image {
  const void *data; /* an offload bundle of ELF code objects (HIP), a fatbin (CUDA); NULL where this build has none */
  size_t bytes;
} crk_image_t;

/* The number of modules in this build ("affine", "binary", ...), and the name of each; NULL for an index out of range.
 * Candle's eleven come first, then the modules that only launchers use. */
CRK_API size_t crk_module_count(void);
CRK_API const char *crk_module_name(size_t index);

/* The embedded code of a module, for every architecture of this build. It is compressed in the binary: the first call
 * decompresses it into memory that stays valid until the process ends. Devices do not need this copy.
 *
 * Fails with CRK_NOT_FOUND for an unknown module, and CRK_NO_RUNTIME where this build has no image for the backend.
 * Fails with CRK_INVALID_ARGUMENT for a backend other than HIP and CUDA: the CPU's kernels are linked in and have no
 * image. Fails with CRK_OUT_OF_MEMORY where the host has no memory for the copy, and CRK_INVALID_IMAGE where the binary
 * is damaged. */
CRK_API crk_status_t crk_module_image(const char *module, crk_backend_t backend, crk_image_t *image);

/* A kernel by Candle's name; Candle's `get_or_load_func`. The first use loads the module, which stays loaded. F8E4M3
 * may be spelt "f8e4m3", "f8_e4m3" or "fp8_e4m3" in any name. The function works with this handle and its clones.
 *
 * Fails with CRK_NOT_FOUND (no such module, or no such kernel in it), CRK_NO_RUNTIME, CRK_WRONG_ARCHITECTURE (no
 * embedded code for this GPU) or CRK_DEVICE. */
CRK_API crk_status_t crk_function_get(crk_device_t self, const char *module, const char *kernel,
                                      crk_function_t *function);

/* Loads the caller's code object under a name, for crk_function_get. For HIP it is an ELF code object or an offload
 * bundle, plain or compressed by zstd. For CUDA it is a cubin, a fatbin or NUL-terminated PTX. For the CPU it is a
 * shared object that was compiled from a .hip file against this library's kernel headers. `data` may be freed after the
 * call. A name can be loaded once; the names of this build's modules are refused (CRK_INVALID_ARGUMENT).
 *
 * Fails with CRK_INVALID_IMAGE for data that is truncated, empty or of another kind, CRK_WRONG_ARCHITECTURE for code
 * that this device cannot run, and CRK_CAPTURE during a capture. */
CRK_API crk_status_t crk_module_load(crk_device_t self, const char *module, const void *data, size_t bytes);

/* Compiles the caller's source for the handle's GPU and loads the result under a name, as crk_module_load does. For an
 * AMD GPU the source is HIP and hipRTC compiles it (libhiprtc, or the runtime in use where that has its calls). For an
 * NVIDIA GPU the source is CUDA and NVRTC compiles it. The library is opened at run time.
 *
 * `options` are the compiler's own, such as "-O3" or "-DN=4". The GPU's architecture is added unless an option names
 * one. `source` and `options` may be freed after the call. Kernels that are declared extern "C" are found by their
 * names. Other threads are not blocked. Where several threads compile the same name at once, one succeeds.
 *
 * Fails with CRK_INVALID_IMAGE for source that does not compile; the sentence holds the compiler's log from the first
 * error on, as far as there is room. Fails with CRK_NO_RUNTIME where the library is missing, and CRK_UNSUPPORTED on the
 * CPU. Fails with CRK_INVALID_ARGUMENT for a NULL, an empty source or name, a name that is taken, or an option that the
 * compiler refuses. Fails with CRK_WRONG_ARCHITECTURE for an option that names another AMD GPU, and as
 * crk_module_load does. */
CRK_API crk_status_t crk_module_compile(crk_device_t self, const char *module, const char *source,
                                        const char *const *options, size_t option_count);

/* The same for CUDA source. For an AMD GPU, hipRTC compiles it with headers of this library's own for what HIP lacks or
 * means otherwise: cuda_fp16.h, cuda_bf16.h, cuda_runtime.h, cooperative_groups.h, the functions of a warp, __ldg,
 * __dp4a. kernels/cuda_port/detail/port.h in the sources describes them. Of C's headers there are stdint.h, stddef.h,
 * math.h, float.h, limits.h and assert.h.
 *
 * A warp has 32 lanes on every GPU; a wave of 64 lanes then holds two warps. With the option "-DCRK_CUDA_WARP=64" a
 * warp is a wave of 64 lanes: masks have 64 bits, and what names half of such a warp does not compile. Options follow
 * "-std=c++17". __CUDA_ARCH__ is 800 unless an option defines it, and CANDLE_ROCM is defined.
 *
 * On gfx11 and gfx12, LLVM 21 may lose 16-bit values that it keeps in halves of registers. The kernels of this library
 * and those of candle-rocm-build are compiled without ("-Xclang", "-target-feature", "-Xclang", "-real-true16"); here
 * these options are the caller's choice, since older compilers do not know them.
 *
 * Fails as crk_module_compile does, in whose name the compiler's errors are told. Also fails with CRK_INVALID_IMAGE,
 * and the line, for PTX in place of source, for inline assembly, and for CRK_CUDA_WARP=64 where waves have 32 lanes. */
CRK_API crk_status_t crk_module_compile_cuda(crk_device_t self, const char *module, const char *source,
                                             const char *const *options, size_t option_count);

/* One argument in a kernel's signature. */
typedef struct crk_param {
  uint32_t bytes;
  bool is_pointer; /* also false where the driver does not tell */
} crk_param_t;

/* The number of a kernel's arguments, and the first `capacity` of them in `params` (NULL where capacity is 0).
 * Fails with CRK_UNSUPPORTED where the driver cannot tell (CUDA before 12.4). */
CRK_API crk_status_t crk_function_params(crk_function_t self, size_t *count, crk_param_t *params, size_t capacity);

/* ------------------------------------------------------------------------------------------------------------------
 * Launches
 * ------------------------------------------------------------------------------------------------------------------ */

/* An argument of a launch: a pointer, a number, or bytes by value. Make one with the functions below. */
typedef struct crk_arg {
  const void *data; /* the address of the value's `bytes` bytes; NULL where the value is in `value` */
  uint64_t value;
  uint32_t bytes;
  bool is_pointer;
} crk_arg_t;

static inline crk_arg_t crk_arg_ptr(const void *ptr) {
  crk_arg_t arg = {NULL, (uint64_t)(uintptr_t)ptr, 8, true};
  return arg;
}
/* A value of 1, 2, 4 or 8 bytes. `bits` are its bits as an unsigned number of that size. */
static inline crk_arg_t crk_arg_bits(uint64_t bits, uint32_t bytes) {
  crk_arg_t arg = {NULL, bits, bytes, false};
  return arg;
}
static inline crk_arg_t crk_arg_u64(uint64_t value) { return crk_arg_bits(value, 8); }
static inline crk_arg_t crk_arg_u32(uint32_t value) { return crk_arg_bits(value, 4); }
/* A struct by value. It is borrowed until crk_launch returns. */
static inline crk_arg_t crk_arg_struct(const void *data, uint32_t bytes) {
  crk_arg_t arg = {data, 0, bytes, false};
  return arg;
}

typedef struct crk_dim3 {
  uint32_t x, y, z;
} crk_dim3_t;

/* Runs a kernel on the handle's stream: `grid` blocks of `block` threads with `shared_bytes` of dynamic shared memory.
 * A grid of 0 blocks succeeds and launches nothing.
 *
 * Checks the arguments against the kernel's signature: their number, the size of each, and pointer against value where
 * the driver tells. Checks the geometry against the device. Fails with CRK_INVALID_ARGUMENT, naming the kernel and the
 * argument, or with CRK_DEVICE. The caller must make sure that the pointers point at memory that the kernel may use. */
CRK_API crk_status_t crk_launch(crk_device_t self, crk_function_t function, crk_dim3_t grid, crk_dim3_t block,
                                uint32_t shared_bytes, const crk_arg_t *args, size_t arg_count);

/* Numbers in device memory: a kernel by name reads its layout from them. Candle calls this `SlicePtrOrNull`. */
typedef struct crk_params {
  const void *ptr; /* u64 numbers on the device, or NULL; the kernel's argument `info` */
  void *entry; /* for the cache's own use */
} crk_params_t;

/* Puts `count` numbers (at most CRK_MAX_RANK * 4) on the device: dims and strides as the kernel wants them. A bounded
 * cache of the handle serves the call. A miss copies asynchronously; during a capture the copy becomes part of the
 * graph. The stream never waits. The host waits only where the copies of all entries are still under way. Release the
 * parameters with crk_params_release after the launches that read them have been made.
 *
 * Fails with CRK_OUT_OF_MEMORY where every entry is held, or where no memory for the cache is left. */
CRK_API crk_status_t crk_params_acquire(crk_device_t self, const uint64_t *numbers, size_t count, crk_params_t *params);

/* The parameters of a layout, as Candle's params_from_layout gives them: NULL for a contiguous layout, else dims and
 * strides. Release them as those of crk_params_acquire. */
CRK_API crk_status_t crk_params_from_layout(crk_device_t self, const crk_layout_t *layout, crk_params_t *params);

/* Gives parameters back to the handle's cache. */
CRK_API void crk_params_release(crk_device_t self, crk_params_t params);

#ifdef __cplusplus
}
#endif
#endif
