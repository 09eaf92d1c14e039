/* params.h: the cache of crk_params_acquire. It holds numbers (dims and strides) in device memory, for kernels that are
 * called by name and read them there.
 *
 * There is one slab in device memory and one in pinned host memory. Both are divided into slots of CRK_PARAM_NUMBERS
 * numbers; slot i of the host slab is copied to slot i of the device slab.
 *
 * A slot may be overwritten when no caller holds it, no graph uses it, and its last copy is done. Without the last
 * condition the host would change numbers that are still being copied. The device side needs no wait, because the new
 * copy comes later in the stream than all launches that read the old numbers. */
#ifndef CRK_PARAMS_H
#define CRK_PARAMS_H

#include "candle_rocm.h"
#include "driver/driver.h"

enum { CRK_PARAM_SLOTS = 512, CRK_PARAM_NUMBERS = CRK_MAX_RANK * 4, CRK_PARAM_BUCKETS = 1024 };

/* One bit per slot that the graph uses but did not fill itself. */
typedef struct crk_param_uses {
  uint64_t bits[CRK_PARAM_SLOTS / 64];
} crk_param_uses_t;

typedef struct crk_param_slot {
  uint64_t hash, last_used;
  crk_driver_event_t *copied; /* recorded after the last copy outside a capture; NULL before the first one */
  crk_graph_t graph; /* the graph that contains the copy as a node, else NULL */
  uint32_t holders; /* calls of crk_params_acquire without a release, plus graphs that use the slot */
  uint16_t count; /* numbers in the slot; 0 if it is empty */
  int16_t next; /* the next slot in the same bucket; -1 at the end */
} crk_param_slot_t;

typedef struct crk_param_cache {
  uint64_t *device_slab, *host_slab; /* NULL until first needed */
  crk_param_slot_t *slots;
  int16_t buckets[CRK_PARAM_BUCKETS];
  uint64_t clock;
} crk_param_cache_t;

/* Allocates the slabs if there are none. Called before a capture, which cannot allocate. The caller holds the handle's
 * lock. */
crk_status_t crk_priv_params_prepare(crk_device_t device);

/* Releases the slots of a graph that is being destroyed. */
void crk_priv_params_graph_destroy(crk_device_t device, crk_graph_t graph);

void crk_priv_params_deinit(crk_device_t device);

#endif
