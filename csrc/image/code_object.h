/* code_object.h: the folder image/ reads compiled kernels, without a GPU runtime.
 *
 *   code_object.c  AMD ELF files and offload bundles: the GPUs they are for, and their kernels' arguments
 *   unpack.c       the packed images that are embedded in the library; unpack.h describes the format
 *   compress.c     zstd
 *   images.h       the tables of embedded images, which the build script generates */
#ifndef CRK_CODE_OBJECT_H
#define CRK_CODE_OBJECT_H

#include "candle_rocm.h"
#include "platform/architectures.h"

/* A line of CRK_ARCHITECTURE_MAP, with the fields that the core needs. */
typedef struct crk_architecture {
  const char *name;
  uint32_t machine;
  const char *generic;
  struct {
    uint32_t lanes, units, waves, registers, register_step, shared_kib;
  } simd; /* CRK_SIMD_... */
  uint32_t matrix; /* CRK_MATRIX_... */
} crk_architecture_t;

/* Finds an architecture by its name, without features ("gfx90a"); NULL if there is none. */
const crk_architecture_t *crk_priv_architecture_find(const char *name);

/* Finds the ELF for a GPU in an image, which is a linked AMD ELF or an uncompressed offload bundle of them.
 * `architecture` is the GPU with its features, as the runtime spells it ("gfx90a:sramecc+:xnack-"). If several ELFs
 * fit, an ELF for exactly this GPU comes before a generic one; then the ELF that names more features comes first.
 *
 * `elf` points into `data`. All its headers, segments and sections are inside its bytes. Nothing outside the `bytes`
 * bytes of `data` is read. `module` is the name for the error sentences.
 *
 * Fails with CRK_INVALID_IMAGE (empty, truncated, of another kind) or CRK_WRONG_ARCHITECTURE. */
crk_status_t crk_priv_code_object_find(const char *module, const char *architecture, const void *data, size_t bytes,
                                       crk_image_t *elf);

/* Decompresses an offload bundle that clang has compressed ("CCOB"); the caller frees `bundle->data` with
 * crk_priv_aligned_free. Any other image is returned as it is: then `bundle->data` is `data`. Fails with
 * CRK_INVALID_IMAGE (cut off, damaged, an unknown version, a method other than zstd) or CRK_OUT_OF_MEMORY (of the
 * host). */
crk_status_t crk_priv_bundle_decompress(const char *module, const void *data, size_t bytes, crk_image_t *bundle);

/* Finds the entry for a GPU in the table of an offload bundle, chosen as in crk_priv_code_object_find. `data` may end
 * after the table. Returns the entry's offset in the bundle and its size, both unchecked. Fails with CRK_INVALID_IMAGE
 * or CRK_WRONG_ARCHITECTURE. */
crk_status_t crk_priv_bundle_find(const char *module, const char *architecture, const void *data, size_t bytes,
                                  uint64_t *offset, uint64_t *size);

/* How well an image suits a device: not at all, by code for its generic target, or by code for its architecture. */
typedef enum crk_fit { CRK_FIT_NONE, CRK_FIT_GENERIC, CRK_FIT_EXACT } crk_fit_t;

/* Lists the targets of an image as crk_priv_code_object_find takes it: "gfx1030, gfx1100". Of an offload bundle, the
 * table is enough. `fit` says how well the best of them suits the device. Fails with CRK_INVALID_IMAGE. */
crk_status_t crk_priv_code_object_targets(const char *module, const char *architecture, const void *data, size_t bytes,
                                          char *targets, size_t size, crk_fit_t *fit);

/* Returns the generic target of an ELF from crk_priv_code_object_find: "gfx11-generic". NULL if the ELF is for one
 * architecture. */
const char *crk_priv_code_object_generic(crk_image_t elf);

/* A kernel of a code object, as described by its metadata. */
typedef struct crk_code_kernel {
  const char *name;
  const crk_param_t *params; /* the explicit arguments, in order */
  size_t param_count;
  uint32_t max_threads; /* per block; 0 if the metadata has no limit */
  uint32_t shared_bytes; /* static shared memory per block */
  uint32_t registers; /* vector registers per lane; 0 if the metadata has no count */
} crk_code_kernel_t;

typedef struct crk_code_kernels crk_code_kernels_t;

/* Reads the kernels of an ELF from crk_priv_code_object_find. The result does not refer to the ELF; free it with
 * crk_priv_code_kernels_destroy. `*kernels` becomes NULL if the ELF has no metadata that this library can read (code
 * object version 2). Fails with CRK_INVALID_IMAGE for broken metadata, or with CRK_OUT_OF_MEMORY (of the host). */
crk_status_t crk_priv_code_kernels_create(const char *module, crk_image_t elf, crk_code_kernels_t **kernels);
void crk_priv_code_kernels_destroy(crk_code_kernels_t *kernels);

/* Finds a kernel by name; NULL if there is none. */
const crk_code_kernel_t *crk_priv_code_kernels_find(const crk_code_kernels_t *kernels, const char *name);

#endif
