/* Reads AMD code objects: which GPUs an image is for, and what its kernels take. Knows nothing of a runtime. */
#ifndef CRK_CODE_OBJECT_H
#define CRK_CODE_OBJECT_H

#include "candle_rocm.h"
#include "platform/architectures.h"

/* A line of CRK_ARCHITECTURE_MAP, as far as the core needs it. */
typedef struct crk_architecture {
  const char *name;
  uint32_t machine;
  const char *generic;
  struct {
    uint32_t lanes, units, waves, registers, register_step, shared_kib;
  } simd; /* CRK_SIMD_... */
} crk_architecture_t;

/* The architecture of a name without features; NULL where there is none. */
const crk_architecture_t *crk_priv_architecture_find(const char *name);

/* Finds the ELF for a GPU in an image: a linked AMD ELF, or an uncompressed offload bundle of them. `architecture` is
 * the GPU as the runtime spells it, features included ("gfx90a:sramecc+:xnack-"). Of several that fit, the one that
 * names the GPU wins over a generic one, then the one that names more features.
 *
 * `elf` points into `data`; all its headers, segments and sections are inside its bytes. Nothing outside the `bytes`
 * bytes is read. `module` is for the sentences.
 *
 * Fails with CRK_INVALID_IMAGE (empty, truncated, of another kind) or CRK_WRONG_ARCHITECTURE. */
crk_status_t crk_priv_code_object_find(const char *module, const char *architecture, const void *data, size_t bytes,
                                       crk_image_t *elf);

/* What clang's compressed offload bundle ("CCOB") holds, in memory to be freed with crk_priv_aligned_free; any other image
 * as it is: then `bundle->data` is `data`. Fails with CRK_INVALID_IMAGE (cut off, damaged, of a version or a method other
 * than zstd) or CRK_OUT_OF_MEMORY (of the host). */
crk_status_t crk_priv_bundle_decompress(const char *module, const void *data, size_t bytes, crk_image_t *bundle);

/* The entry for a GPU in an offload bundle of which at least the table is there, chosen as above: where it lies in the
 * bundle, and its size, neither of which is checked. Fails with CRK_INVALID_IMAGE or CRK_WRONG_ARCHITECTURE. */
crk_status_t crk_priv_bundle_find(const char *module, const char *architecture, const void *data, size_t bytes,
                                  uint64_t *offset, uint64_t *size);

/* A kernel of a code object, as its metadata tells. */
typedef struct crk_code_kernel {
  const char *name;
  const crk_param_t *params; /* the explicit arguments, in order */
  size_t param_count;
  uint32_t max_threads; /* of a block; 0 where it is not said */
  uint32_t shared_bytes; /* that every block has */
  uint32_t registers; /* vector registers of a lane; 0 where it is not said */
} crk_code_kernel_t;

typedef struct crk_code_kernels crk_code_kernels_t;

/* The kernels of an ELF that crk_priv_code_object_find gave. Copies what it keeps. NULL where the ELF has no metadata
 * that this library can read (code object version 2). Free it with crk_priv_code_kernels_destroy. Fails with
 * CRK_INVALID_IMAGE for metadata that is broken, or with CRK_OUT_OF_MEMORY (of the host). */
crk_status_t crk_priv_code_kernels_create(const char *module, crk_image_t elf, crk_code_kernels_t **kernels);
void crk_priv_code_kernels_destroy(crk_code_kernels_t *kernels);

/* The kernel of a name, or NULL. */
const crk_code_kernel_t *crk_priv_code_kernels_find(const crk_code_kernels_t *kernels, const char *name);

#endif
