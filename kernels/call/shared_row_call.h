/* Arguments of the element-wise kernels on a matrix in which all rows share one operand row, such as a bias. Plain C;
 * csrc/launch/elementwise.c fills crk_shared_row_t in, kernels/elementwise/shared_row.h reads it. */
#ifndef CRK_SHARED_ROW_CALL_H
#define CRK_SHARED_ROW_CALL_H

#include "call/nd.h"

/* 16-byte packs of an operand that a thread loads before it uses the first one. It loads fewer if packs are longer. */
enum { CRK_SHARED_ROW_DEPTH = 4 };

/* The matrix has fewer than 2^31 elements. A step is step_elements of kernels/elementwise/walk.h. */
typedef struct crk_shared_row {
  uint64_t rows; /* rows of the matrix */
  crk_nd_dim_t packs; /* steps per row; if there is only one, only the field `size` is used */
  uint64_t threads; /* threads that have work: packs.size for every `turns` rows */
  uint32_t turns; /* rows per thread */
  uint32_t shared; /* number of the operand that is one row */
} crk_shared_row_t;

#endif
