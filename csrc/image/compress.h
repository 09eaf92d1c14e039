/* Decompression, by zstd. */
#ifndef CRK_COMPRESS_H
#define CRK_COMPRESS_H

#include "candle_rocm.h"

/* Decompresses zstd frames, one or several after the other, to exactly `dst_bytes` bytes. Fails with CRK_INVALID_IMAGE
 * for bytes that are cut off or damaged or give another number of bytes, CRK_OUT_OF_MEMORY (of the host). */
crk_status_t crk_priv_zstd_decompress(const void *src, size_t src_bytes, void *dst, size_t dst_bytes);

/* How long the frame is that `src` begins with, and how many bytes it gives. Fails with CRK_INVALID_IMAGE for bytes that
 * are cut off or no frame, or a frame that does not say how many bytes it gives. */
crk_status_t crk_priv_zstd_frame(const void *src, size_t src_bytes, size_t *frame_bytes, size_t *content_bytes);

#endif
