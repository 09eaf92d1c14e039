/* Occupancy: blocks that a device holds at once; occupancy.h explains units. */
#include "occupancy.h"

#include <string.h>

#include "image/code_object.h"
#include "number.h"

enum {
  UNIT_SIMDS = 4,
  SHARED_STEP = 512 /* shared memory is allocated in steps of this many bytes */
};

void crk_priv_occupancy_init(crk_occupancy_t *self, const crk_device_info_t *info) {
  const uint64_t counted = info->compute_units;
  const uint32_t groups = info->backend == CRK_BACKEND_CPU ? info->simd_units : info->simd_units / UNIT_SIMDS;
  *self = (crk_occupancy_t){.units = groups > 0 ? groups : 1, .wave_size = info->wave_size};
  self->threads = (uint32_t)(counted * info->unit_threads / self->units);
  self->shared_bytes = counted * info->unit_shared_bytes / self->units;
  const crk_architecture_t *architecture =
      info->backend == CRK_BACKEND_HIP ? crk_priv_architecture_find(info->architecture) : NULL;
  if (architecture != NULL) {
    self->registers = architecture->simd.registers;
    self->register_step = architecture->simd.register_step;
  }
}

bool crk_priv_has_float_cores(const crk_device_info_t *info) {
  static const char *const with_fast_tf32[] = {"sm_80", "sm_90", "sm_100"};
  if (info->backend == CRK_BACKEND_HIP) {
    const crk_architecture_t *architecture = crk_priv_architecture_find(info->architecture);
    return architecture != NULL && CRK_MATRIX_IS_MFMA(architecture->matrix);
  }
  for (size_t i = 0; i < sizeof with_fast_tf32 / sizeof *with_fast_tf32; i++) {
    if (strcmp(info->architecture, with_fast_tf32[i]) == 0) {
      return true;
    }
  }
  return info->backend == CRK_BACKEND_CPU;
}

static uint64_t round_up(uint64_t value, uint64_t step) { return crk_priv_ceil_div(value, step) * step; }

uint64_t crk_priv_occupancy_blocks(const crk_occupancy_t *self, const crk_block_needs_t *needs) {
  const uint64_t waves = crk_priv_ceil_div(needs->threads, self->wave_size);
  uint64_t blocks = self->threads / (waves * self->wave_size);
  if (needs->registers != 0 && self->registers != 0) {
    const uint64_t simd_waves = self->registers / round_up(needs->registers, self->register_step);
    blocks = crk_priv_least(blocks, UNIT_SIMDS * simd_waves / waves);
  }
  if (needs->shared_bytes != 0) {
    blocks = crk_priv_least(blocks, self->shared_bytes / round_up(needs->shared_bytes, SHARED_STEP));
  }
  if (needs->most != 0) {
    blocks = crk_priv_least(blocks, needs->most);
  }
  return self->units * (blocks > 0 ? blocks : 1);
}
