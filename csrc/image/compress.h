/* compress.h: decompression by zstd. */
#ifndef CRK_COMPRESS_H
#define CRK_COMPRESS_H

#include "candle_rocm.h"

/* Decompresses one or more consecutive zstd frames to exactly `dst_bytes` bytes. Fails with CRK_INVALID_IMAGE if the
 * frames are cut off, damaged, or have another decompressed size; with CRK_OUT_OF_MEMORY (of the host). */
crk_status_t crk_priv_zstd_decompress(const void *src, size_t src_bytes, void *dst, size_t dst_bytes);

/* Returns the compressed and the decompressed size of the first frame in `src`. Fails with CRK_INVALID_IMAGE if `src`
 * is cut off or begins with no frame, or if the frame has no decompressed size. */
crk_status_t crk_priv_zstd_frame(const void *src, size_t src_bytes, size_t *frame_bytes, size_t *content_bytes);

#endif
