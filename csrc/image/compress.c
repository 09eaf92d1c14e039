/* Decompression by zstd. */
#include "image/compress.h"

#include <stdint.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "error.h"

/* Reports that a call failed; `answer` is its result. */
static crk_status_t zstd_failed(const char *call, size_t src_bytes, size_t answer) {
  const crk_status_t status =
      ZSTD_getErrorCode(answer) == ZSTD_error_memory_allocation ? CRK_OUT_OF_MEMORY : CRK_INVALID_IMAGE;
  return crk_priv_error(status, "%s of %zu bytes: %s", call, src_bytes, ZSTD_getErrorName(answer));
}

crk_status_t crk_priv_zstd_decompress(const void *src, size_t src_bytes, void *dst, size_t dst_bytes) {
  const size_t answer = ZSTD_decompress(dst, dst_bytes, src, src_bytes);
  if (ZSTD_isError(answer)) {
    return zstd_failed("ZSTD_decompress", src_bytes, answer);
  }
  if (answer != dst_bytes) {
    return crk_priv_error(CRK_INVALID_IMAGE, "ZSTD_decompress of %zu bytes: the result has %zu bytes, not %zu",
                          src_bytes, answer, dst_bytes);
  }
  return CRK_OK;
}

crk_status_t crk_priv_zstd_frame(const void *src, size_t src_bytes, size_t *frame_bytes, size_t *content_bytes) {
  const size_t frame = ZSTD_findFrameCompressedSize(src, src_bytes);
  if (ZSTD_isError(frame)) {
    return zstd_failed("ZSTD_findFrameCompressedSize", src_bytes, frame);
  }
  const unsigned long long content = ZSTD_getFrameContentSize(src, src_bytes);
  if (content > SIZE_MAX || content == ZSTD_CONTENTSIZE_UNKNOWN || content == ZSTD_CONTENTSIZE_ERROR) {
    return crk_priv_error(CRK_INVALID_IMAGE,
                          "ZSTD_getFrameContentSize of %zu bytes: the frame has no decompressed size", src_bytes);
  }
  *frame_bytes = frame;
  *content_bytes = (size_t)content;
  return CRK_OK;
}
