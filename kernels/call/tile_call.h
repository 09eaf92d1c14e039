/* Arguments of the copy by square tiles between two orders of dims, such as a transpose. Plain C; csrc/launch/tile.c
 * fills crk_tile_t in, kernels/elementwise/tile.h reads it. */
#ifndef CRK_TILE_CALL_H
#define CRK_TILE_CALL_H

#include <stdint.h>

#include "call/nd.h"

/* Elements along a tile's edge: at least 128 bytes of a row. A thread takes 32 bytes of shared memory. An AMD compute
 * unit then has room for eight waves of 64 lanes per SIMD unit. */
#define CRK_TILE_EDGE(element_bytes)    ((element_bytes) == 1 ? 128 : (element_bytes) == 8 ? 32 : 64)
#define CRK_TILE_BYTES(element_bytes)   (CRK_TILE_EDGE(element_bytes) * CRK_TILE_EDGE(element_bytes) * (element_bytes))
#define CRK_TILE_THREADS(element_bytes) (CRK_TILE_BYTES(element_bytes) / 32)

/* dst is contiguous along the row dim, src along the column dim. Sizes and strides are in elements. */
typedef struct crk_tile {
  crk_nd_t rest; /* the other dims; operand 0 is src, operand 1 is dst */
  uint64_t rows, row_stride; /* size of the row dim, and src's stride in it; dst's is 1 */
  uint64_t columns, column_stride; /* size of the column dim, and dst's stride in it; src's is 1 */
  uint32_t by_vectors; /* 1: every row of src and of dst begins at a multiple of 16 bytes and is whole 16-byte packs */
  uint32_t grid[3]; /* blocks of the grid; computed here, because a division would cost a thread more than its copy */
} crk_tile_t;

#endif
