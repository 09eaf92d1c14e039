/* counters.h: numbers in a handle's device memory that are 0 between its operations. Kernels count their blocks with
 * them, and set them to 0 again. One launch uses them at a time, since a handle has one stream. AMD GPUs have none
 * (stream_joins in kernels/platform/stream.h). */
#ifndef CRK_COUNTERS_H
#define CRK_COUNTERS_H

#include <stdatomic.h>

#include "candle_rocm.h"

enum { CRK_COUNTERS = 8192 };

typedef struct crk_counters {
  _Atomic(uint32_t *) first; /* NULL until needed */
} crk_counters_t;

/* Allocates the handle's counters if it should have some and has none. The caller holds the handle's lock, and the handle is not being
 * captured. */
crk_status_t crk_priv_counters_prepare(crk_device_t self);

/* Sets *counters to the handle's counters, or to NULL if it has fewer than `count`. Allocates them on first use;
 * crk_graph_begin allocates them before a capture. */
crk_status_t crk_priv_counters_get(crk_device_t self, uint64_t count, uint32_t **counters);

void crk_priv_counters_deinit(crk_device_t self);

#endif
