/* Arguments of the batch norm kernels. Plain C; csrc/launch/batch_norm.c fills the struct in,
 * kernels/elementwise/batch_norm.h reads it. x is rows of `inner` elements, contiguous; row r has channel
 * r % channels. */
#ifndef CRK_BATCH_NORM_CALL_H
#define CRK_BATCH_NORM_CALL_H

#include "call/sliding.h"

/* The most packs of 16 bytes of a row that a thread of the kernel for even rows loads at once. */
#define CRK_BATCH_NORM_DEPTH 4

typedef struct crk_batch_norm {
  uint64_t numel; /* elements of x */
  crk_divisor_t inner, channels; /* elements of a row, and the number of channels; wide if `wide` */
  /* Even rows only. The threads that share a row, at least 1/CRK_BATCH_NORM_DEPTH of its packs; wide if `wide`. The
   * threads of all rows. */
  crk_divisor_t lanes;
  uint64_t steps;
  uint32_t wide; /* 1: an index may reach 2^31, so that arithmetic is in 64 bits */
  uint32_t unused; /* padding */
} crk_batch_norm_t;

#endif
