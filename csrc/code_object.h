/* Reads AMD code objects: which GPUs an image is for, and what its kernels take. Knows nothing of a runtime. */
#ifndef CRK_CODE_OBJECT_H
#define CRK_CODE_OBJECT_H

#include "candle_rocm.h"

/* XX(name, machine number in e_flags, the generic target that covers it or ""). As LLVM's AMDGPU guide lists them. */
#define CRK_ARCHITECTURE_MAP(XX)          \
  XX("gfx700", 0x022, "")                 \
  XX("gfx701", 0x023, "")                 \
  XX("gfx801", 0x028, "")                 \
  XX("gfx802", 0x029, "")                 \
  XX("gfx803", 0x02a, "")                 \
  XX("gfx805", 0x03c, "")                 \
  XX("gfx810", 0x02b, "")                 \
  XX("gfx900", 0x02c, "gfx9-generic")     \
  XX("gfx902", 0x02d, "gfx9-generic")     \
  XX("gfx904", 0x02e, "gfx9-generic")     \
  XX("gfx906", 0x02f, "gfx9-generic")     \
  XX("gfx908", 0x030, "")                 \
  XX("gfx909", 0x031, "gfx9-generic")     \
  XX("gfx90a", 0x03f, "")                 \
  XX("gfx90c", 0x032, "gfx9-generic")     \
  XX("gfx940", 0x040, "gfx9-4-generic")   \
  XX("gfx941", 0x04b, "gfx9-4-generic")   \
  XX("gfx942", 0x04c, "gfx9-4-generic")   \
  XX("gfx950", 0x04f, "gfx9-4-generic")   \
  XX("gfx1010", 0x033, "gfx10-1-generic") \
  XX("gfx1011", 0x034, "gfx10-1-generic") \
  XX("gfx1012", 0x035, "gfx10-1-generic") \
  XX("gfx1013", 0x042, "gfx10-1-generic") \
  XX("gfx1030", 0x036, "gfx10-3-generic") \
  XX("gfx1031", 0x037, "gfx10-3-generic") \
  XX("gfx1032", 0x038, "gfx10-3-generic") \
  XX("gfx1033", 0x039, "gfx10-3-generic") \
  XX("gfx1034", 0x03e, "gfx10-3-generic") \
  XX("gfx1035", 0x03d, "gfx10-3-generic") \
  XX("gfx1036", 0x045, "gfx10-3-generic") \
  XX("gfx1100", 0x041, "gfx11-generic")   \
  XX("gfx1101", 0x046, "gfx11-generic")   \
  XX("gfx1102", 0x047, "gfx11-generic")   \
  XX("gfx1103", 0x044, "gfx11-generic")   \
  XX("gfx1150", 0x043, "gfx11-generic")   \
  XX("gfx1151", 0x04a, "gfx11-generic")   \
  XX("gfx1152", 0x055, "gfx11-generic")   \
  XX("gfx1153", 0x058, "gfx11-generic")   \
  XX("gfx1200", 0x048, "gfx12-generic")   \
  XX("gfx1201", 0x04e, "gfx12-generic")   \
  XX("gfx1250", 0x049, "")                \
  XX("gfx9-generic", 0x051, "")           \
  XX("gfx9-4-generic", 0x05f, "")         \
  XX("gfx10-1-generic", 0x052, "")        \
  XX("gfx10-3-generic", 0x053, "")        \
  XX("gfx11-generic", 0x054, "")          \
  XX("gfx12-generic", 0x059, "")

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
