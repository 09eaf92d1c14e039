/* occupancy.h: how many blocks of a kernel a device holds at once. Launchers choose their grids by it. */
#ifndef CRK_OCCUPANCY_H
#define CRK_OCCUPANCY_H

#include "candle_rocm.h"

/* What a device has for its blocks. A unit is four SIMD units and the shared memory of their blocks: a compute unit of
 * GCN and CDNA, a workgroup processor of RDNA (however HIP counts), a multiprocessor. On the CPU it is a thread. */
typedef struct crk_occupancy {
  uint32_t units, wave_size;
  uint32_t threads; /* that a unit holds */
  uint32_t registers, register_step; /* of a SIMD unit for each lane (platform/architectures.h); 0: not known */
  uint64_t shared_bytes; /* of a unit */
} crk_occupancy_t;

void crk_priv_occupancy_init(crk_occupancy_t *self, const crk_device_info_t *info);

/* What a block takes. */
typedef struct crk_block_needs {
  uint32_t threads;
  uint32_t shared_bytes;
  uint32_t registers; /* of a lane; 0: not known, they do not limit */
  uint32_t most; /* blocks per unit, as a hint that needs no knowledge of registers; 0: no hint */
} crk_block_needs_t;

/* Blocks that the device holds at once, at least one per unit. */
uint64_t crk_priv_occupancy_blocks(const crk_occupancy_t *self, const crk_block_needs_t *needs);

#endif
