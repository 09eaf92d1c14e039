/* tickets.h: counters in device memory. The blocks of a launch count themselves there, so that the last one to finish
 * can go on with what all of them have made (last_of_blocks in kernels/platform/blocks.h).
 *
 * All counters are 0 between launches, because that last block sets its counter back. So a graph needs no node that
 * clears them. Each handle has counters of its own: launches of one stream run one after another, and launches of
 * different streams may overlap. A kernel that faults may leave counters above 0, but nothing reads them after that:
 * CUDA then refuses all work of the process on this GPU, and HIP ends the process. */
#ifndef CRK_TICKETS_H
#define CRK_TICKETS_H

#include <stdatomic.h>
#include <stdint.h>

#include "candle_rocm.h"

enum { CRK_TICKETS = 4096 };

typedef struct crk_tickets {
  _Atomic(uint32_t *) counters; /* CRK_TICKETS in device memory; NULL until first needed */
} crk_tickets_t;

/* Gives the handle's counters for a launch in its stream. Allocates them on first use; crk_graph_begin allocates them
 * before a capture. */
crk_status_t crk_priv_tickets_get(crk_device_t self, uint32_t **counters);

/* Allocates the handle's counters if there are none. The caller holds the handle's lock. */
crk_status_t crk_priv_tickets_prepare(crk_device_t self);

void crk_priv_tickets_deinit(crk_device_t self);

#endif
