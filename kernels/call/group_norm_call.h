/* Arguments of the kernels that make the statistics of a group norm. Plain C; csrc/launch/group_norm.c fills the struct
 * in, kernels/reduce/group_norm.h reads it. x is rows of `size` elements, contiguous; a row is a group of channels of
 * one image. */
#ifndef CRK_GROUP_NORM_CALL_H
#define CRK_GROUP_NORM_CALL_H

#include "call/sliding.h"

/* Threads of a block, and the most packs of 16 bytes that a thread loads at once. */
#define CRK_GROUP_NORM_THREADS 256
#define CRK_GROUP_NORM_DEPTH   4

typedef struct crk_group_norm {
  const void *x;
  const void *weight, *bias; /* an element per channel; NULL: ones, zeros */
  void *states; /* of the parts of all rows: number of elements, mean, squares, unused; with one part NULL */
  void *norms; /* of the channels of all images: mean, scale, bias, 0 */
  uint64_t first_block;
  uint64_t size; /* elements of a row */
  uint64_t part_packs; /* packs of 16 bytes of a part */
  crk_divisor_t parts; /* of a row, each of a block */
  crk_divisor_t groups; /* of an image */
  uint32_t channels; /* of a row */
  uint32_t unused; /* padding */
  double eps;
} crk_group_norm_t;

#endif
