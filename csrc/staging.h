/* staging.h: pinned host memory of a handle, through which small copies between host and device go. Drivers copy from
 * and to other host memory by a buffer of their own, and wait for such copies.
 *
 *   uploads     A call copies the bytes into the next part of the memory, starts a copy of that part, and returns. When
 *               the memory is full, the next call waits for the stream and begins again.
 *   downloads   A call waits for a copy into a part that no upload uses, and copies it on.
 *
 * Where the driver has no pinned memory left, copies go without it. */
#ifndef CRK_STAGING_H
#define CRK_STAGING_H

#include "candle_rocm.h"

enum { CRK_STAGED_MOST = 64 << 10, CRK_STAGED_UPLOADS = 4 * CRK_STAGED_MOST };

typedef struct crk_staging {
  char *memory; /* CRK_STAGED_UPLOADS bytes for uploads and CRK_STAGED_MOST for a download; NULL until first needed */
  bool is_missing; /* the driver had no memory */
  size_t used; /* bytes from which copies may still read */
} crk_staging_t;

/* The handle's stream is idle. */
void crk_priv_staging_deinit(crk_device_t device);

/* Writes whether a copy of `bytes` bytes goes through the memory, which this allocates on first use. The callers of
 * these three are inside of the handle's `capture_turns`, and the handle is not being captured. */
crk_status_t crk_priv_staging_takes(crk_device_t device, size_t bytes, bool *takes);

/* Copies bytes that the memory takes to the device, for the public function `where`. `src` may be changed after the
 * call. */
crk_status_t crk_priv_staging_upload(crk_device_t device, const char *where, void *dst, const void *src, size_t bytes);

/* The same from the device. Where the wait fails, `dst` keeps its bytes. Where crk_priv_errors_take fails, the bytes
 * are there. */
crk_status_t crk_priv_staging_download(crk_device_t device, const char *where, void *dst, const void *src,
                                       size_t bytes);

#endif
