/* What a launcher passes by value to a kernel whose matrix rows share one operand row. Plain C: csrc/launch/elementwise.c fills it
 * in, elementwise/shared_row.h reads it. */
#ifndef CRK_SHARED_ROW_CALL_H
#define CRK_SHARED_ROW_CALL_H

#include "call/nd.h"

/* Packs of 16 bytes that a thread has under way at once of an operand; of longer ones fewer. */
enum { CRK_SHARED_ROW_DEPTH = 4 };

typedef struct crk_shared_row {
  uint64_t rows;
  crk_nd_dim_t
      packs; /* steps of a row (step_elements of walk.h); of 1 only `size` counts. All elements number below 2^31 */
  uint64_t threads;
  uint32_t turns; /* rows of a thread */
  uint32_t shared; /* the operand that is one row */
} crk_shared_row_t;

#endif
