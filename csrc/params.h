/* The cache behind crk_params_acquire: numbers that kernels by name read from device memory.
 *
 * One slab on the device and one of pinned host memory, cut into slots of CRK_PARAM_NUMBERS; slot i of the one is copied to
 * slot i of the other. A slot may be overwritten once nobody holds it, no graph uses it, and its last copy has been done
 * (else the host would change what is still to be copied). The device side needs no care: the new copy is later in the
 * stream than every launch that read the old numbers. */
#ifndef CRK_PARAMS_H
#define CRK_PARAMS_H

#include "candle_rocm.h"
#include "driver/driver.h"

enum { CRK_PARAM_SLOTS = 512, CRK_PARAM_NUMBERS = CRK_MAX_RANK * 4, CRK_PARAM_BUCKETS = 1024 };

/* Of a graph: a bit for each slot that it uses without owning. */
typedef struct crk_param_uses {
  uint64_t bits[CRK_PARAM_SLOTS / 64];
} crk_param_uses_t;

typedef struct crk_param_slot {
  uint64_t hash, last_used;
  crk_driver_event_t *copied; /* after the last copy outside a capture; NULL before the first */
  crk_graph_t graph;          /* the graph that has the copy as a node, else NULL */
  uint32_t holders;           /* crk_params_acquire without release, and graphs that use it */
  uint16_t count;             /* of its numbers; 0 when the slot is empty */
  int16_t next;               /* slot in the same bucket, -1 at the end */
} crk_param_slot_t;

typedef struct crk_param_cache {
  uint64_t *device_slab, *host_slab; /* NULL until first used */
  crk_param_slot_t *slots;
  int16_t buckets[CRK_PARAM_BUCKETS];
  uint64_t clock;
} crk_param_cache_t;

/* Makes the slabs, which a capture could not. The handle's lock is held. */
crk_status_t crk_priv_params_prepare(crk_device_t device);

/* The end of a graph: lets go of its slots. */
void crk_priv_params_graph_destroy(crk_device_t device, crk_graph_t graph);

void crk_priv_params_deinit(crk_device_t device);

#endif
