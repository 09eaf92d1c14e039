/* unpack.h: unpacks the images that the build script (build/pack.rs) packs and embeds.
 *
 * A packed image is a sequence of zstd frames. All frames together decompress to the image. Each frame states its
 * decompressed size and has a checksum. The first frame of an offload bundle is its table. Then comes one frame per
 * ELF, in the order of the table. It holds the ELF, and zeros up to the offset of the next entry. So the code for one
 * GPU can be decompressed alone. A fatbin is one frame. */
#ifndef CRK_UNPACK_H
#define CRK_UNPACK_H

#include "image/code_object.h"

/* Whether an image is packed. Users may load packed images too. */
bool crk_priv_is_packed(const void *data, size_t bytes);

/* Unpacks a whole image. The caller frees its data with crk_priv_aligned_free. `module` is the name for the error
 * sentences. Fails with CRK_INVALID_IMAGE if the image is cut off or damaged, or with CRK_OUT_OF_MEMORY if the host has
 * no memory left. */
crk_status_t crk_priv_unpack(const char *module, const void *data, size_t bytes, crk_image_t *image);

/* Unpacks the ELF for a GPU from a packed offload bundle. Only the table and this ELF are decompressed. The ELF is
 * chosen and checked as in crk_priv_code_object_find. The caller frees its data with crk_priv_aligned_free. Fails like
 * crk_priv_unpack and crk_priv_code_object_find. */
crk_status_t crk_priv_unpack_elf(const char *module, const char *architecture, const void *data, size_t bytes,
                                 crk_image_t *elf);

/* The same as crk_priv_code_object_targets, for an image of any form: packed, compressed by clang, or neither. Of a
 * packed image only the table is decompressed. Fails also with CRK_OUT_OF_MEMORY. */
crk_status_t crk_priv_image_targets(const char *module, const char *architecture, const void *data, size_t bytes,
                                    char *targets, size_t size, crk_fit_t *fit);

#endif
