/* What the launcher of a tiled copy passes to its kernel by value. Plain C: csrc/launch/tile.c fills it in, elementwise/tile.h
 * reads it. */
#ifndef CRK_TILE_CALL_H
#define CRK_TILE_CALL_H

#include <stdint.h>

#include "call/nd.h"

/* Elements of a tile's edge: 128 bytes and more of a row. A thread has 32 bytes of shared memory, which leaves an AMD compute unit
 * room for eight waves a SIMD. */
#define CRK_TILE_EDGE(element_bytes)    ((element_bytes) == 1 ? 128 : (element_bytes) == 8 ? 32 : 64)
#define CRK_TILE_BYTES(element_bytes)   (CRK_TILE_EDGE(element_bytes) * CRK_TILE_EDGE(element_bytes) * (element_bytes))
#define CRK_TILE_THREADS(element_bytes) (CRK_TILE_BYTES(element_bytes) / 32)

typedef struct crk_tile {
  crk_nd_t rest; /* the other dims; operand 0 is the source, 1 the destination */
  uint64_t rows, row_stride; /* dim along which the destination is contiguous, and the source's stride there */
  uint64_t columns, column_stride; /* along which the source is contiguous, and the destination's stride there */
  uint32_t by_vectors; /* every row of both begins at a multiple of 16 bytes */
  uint32_t grid[3]; /* the launch's: to divide for it would cost a thread more than it has to do */
} crk_tile_t;

#endif
