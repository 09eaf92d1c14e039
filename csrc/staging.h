/* staging.h: pinned host memory of a handle, through which small copies between host and device go. Drivers copy from
 * and to other host memory by a buffer of their own, and wait for such copies.
 *
 *   uploads     A call copies the bytes into the next part of the memory, starts a copy of that part, and returns. When
 *               the memory is full, the next call waits for the stream and begins again.
 *   downloads   There is room for one at a time. A call of another thread meanwhile copies without it.
 *
 * Where the driver has no pinned memory left, copies go without it. */
#ifndef CRK_STAGING_H
#define CRK_STAGING_H

#include <stdatomic.h>

#include "candle_rocm.h"
#include "os/os.h"

enum { CRK_STAGED_MOST = 64 << 10, CRK_STAGED_UPLOADS = 4 * CRK_STAGED_MOST };

typedef struct crk_staging {
  crk_mutex_t lock; /* guards the memory for uploads, and the fields up to `used` */
  char *memory; /* CRK_STAGED_UPLOADS bytes for uploads and CRK_STAGED_MOST for a download; NULL until first needed */
  bool is_missing; /* the driver had no memory */
  size_t used; /* bytes from which copies may still read */
  atomic_flag is_downloading;
} crk_staging_t;

void crk_priv_staging_init(crk_staging_t *self);

/* The handle's stream is idle. */
void crk_priv_staging_deinit(crk_device_t device);

/* Copies `bytes` bytes to the device, for the public function `where`. `src` may be changed after the call. Returns
 * false, and has done nothing, if the copy must go without staging. The handle is not being captured. */
bool crk_priv_staging_upload(crk_device_t device, const char *where, void *dst, const void *src, size_t bytes,
                             crk_status_t *status);

/* The same from the device, with the result of crk_priv_errors_wait. */
bool crk_priv_staging_download(crk_device_t device, const char *where, void *dst, const void *src, size_t bytes,
                               crk_status_t *status);

#endif
