/* Images as build.rs embeds them: packed.
 *
 * A packed image is zstd frames, one after the other; decompressed, they are the image. An offload bundle's first frame is
 * its table. A frame per ELF follows, in the table's order: the ELF, with zeros up to the next entry's offset. So the code
 * for one GPU is decompressed alone. A fatbin is one frame. Each frame says its size and has a checksum. */
#ifndef CRK_UNPACK_H
#define CRK_UNPACK_H

#include "candle_rocm.h"

/* Whether an image is packed; one of a user's may be, too. */
bool crk_priv_is_packed(const void *data, size_t bytes);

/* The whole of a packed image. Free its data with crk_priv_aligned_free. `module` is for the sentences. Fails with
 * CRK_INVALID_IMAGE for an image that is cut off or damaged, CRK_OUT_OF_MEMORY (of the host). */
crk_status_t crk_priv_unpack(const char *module, const void *data, size_t bytes, crk_image_t *image);

/* The ELF for a GPU in a packed offload bundle, chosen and checked as crk_priv_code_object_find does; nothing else is
 * decompressed but the table. Free its data with crk_priv_aligned_free. Fails as the two do. */
crk_status_t crk_priv_unpack_elf(const char *module, const char *architecture, const void *data, size_t bytes,
                                 crk_image_t *elf);

#endif
