/* occupancy.h: how many blocks of a kernel a device holds at once. Launchers use it to choose the size of a grid. */
#ifndef CRK_OCCUPANCY_H
#define CRK_OCCUPANCY_H

#include "candle_rocm.h"

/* The resources of a device. A unit is four SIMD units with their shared memory. It is a compute unit on GCN and CDNA,
 * and a workgroup processor on RDNA (also where HIP counts compute units). It is a multiprocessor on NVIDIA GPUs, and
 * one thread on the CPU. */
typedef struct crk_occupancy {
  uint32_t units, wave_size;
  uint32_t threads; /* threads that a unit holds at once */
  /* Vector registers of a SIMD unit for each lane, and the step in which they are allocated, both from
   * platform/architectures.h; 0 if not known. */
  uint32_t registers, register_step;
  uint64_t shared_bytes; /* shared memory of a unit */
} crk_occupancy_t;

void crk_priv_occupancy_init(crk_occupancy_t *self, const crk_device_info_t *info);

/* Whether the kernels for f32 on matrix cores are the fastest that the device has: on CDNA, and on NVIDIA GPUs that
 * multiply TF32 much more than three times as fast as f32. These are the largest GPUs of each generation, by their data
 * sheets; measured on one of compute capability 9.0. The CPU device has the same kernels without such cores. */
bool crk_priv_has_float_cores(const crk_device_info_t *info);

/* The resources that one block takes. */
typedef struct crk_block_needs {
  uint32_t threads;
  uint32_t shared_bytes;
  uint32_t registers; /* per lane; 0 if not known: then they are no limit */
  uint32_t most; /* at most this many blocks per unit, a hint for when registers are not known; 0: no hint */
} crk_block_needs_t;

/* The number of blocks that the device holds at once; at least one per unit. */
uint64_t crk_priv_occupancy_blocks(const crk_occupancy_t *self, const crk_block_needs_t *needs);

#endif
