/* batch_norm.h: how batch norm and the last launch of group norm share out their elements. */
#ifndef CRK_LAUNCH_BATCH_NORM_H
#define CRK_LAUNCH_BATCH_NORM_H

#include "call/batch_norm_call.h"
#include "launch/sliding.h"

/* Fills in the walk over `rows` rows of x, each of a channel of an image, and returns its threads. `is_even`: rows are
 * whole packs of 16 bytes, aligned in x and in dst. */
uint64_t crk_priv_batch_norm_walk(crk_device_t self, crk_batch_norm_t *walk, size_t numel, size_t rows, size_t channels,
                                  uint32_t bytes, const void *x, const void *dst, bool *is_even);

#endif
