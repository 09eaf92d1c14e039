/* Copies between two orders of dims whose fastest dims differ: a transpose, and every permutation that moves the last dim.
 * A block moves a square tile through shared memory, so that both sides are read and written along their fastest dim.
 *
 * The struct is plain C: csrc/launch/tile.c fills it. */
#ifndef CRK_TILE_H
#define CRK_TILE_H

#include <stdint.h>

#include "nd.h"

/* Elements of a tile's edge: 128 bytes and more of a row, and 16 KiB of shared memory. */
#define CRK_TILE_EDGE(element_bytes) ((element_bytes) == 1 ? 128 : (element_bytes) == 8 ? 32 : 64)
#define CRK_TILE_THREADS             256

typedef struct crk_tile {
  crk_nd_t rest; /* the other dims; operand 0 is the source, 1 the destination */
  uint64_t rows, row_stride; /* dim along which the destination is contiguous, and the source's stride there */
  uint64_t columns, column_stride; /* along which the source is contiguous, and the destination's stride there */
  uint32_t by_vectors; /* every row of both begins at a multiple of 16 bytes */
  uint32_t grid[3]; /* the launch's: to divide for it would cost a thread more than it has to do */
} crk_tile_t;

#if defined(__cplusplus)

#include "index.h"

namespace crk {

/* One tile: source rows into shared memory, columns of it to the destination. `V` elements an access, up to four of a thread
 * under way at once. */
template <int V, class T>
CRK_FN void copy_tile(const crk_tile_t &tile, uint64_t row, uint64_t column, const T *src, T *dst, T *shared) {
  constexpr int edge = CRK_TILE_EDGE(sizeof(T)), pitch = edge + (sizeof(T) < 4 ? 4 / sizeof(T) : 1);
  constexpr int across = edge / V, down = CRK_TILE_THREADS / across;
  constexpr int depth = edge / down < 4 ? edge / down : 4;
  /* Of narrow elements four bytes stay together until they are read from shared memory. */
  using unit = choose<(V * sizeof(T) > 4), uint32_t, T>;
  constexpr int count = V * sizeof(T) / sizeof(unit);
  static_assert(edge % (depth * down) == 0, "a tile is a whole number of steps");
  const uint32_t x = thread_index().x % across * V, y = thread_index().x / across;
  const uint64_t rows = tile.rows - row, columns = tile.columns - column;
  src += (row + y) * tile.row_stride + column + x;
  dst += (column + y) * tile.column_stride + row + x;
  T *write = shared + y * pitch + x;
  CRK_NO_UNROLL
  for (uint32_t r = y; r < edge; r += depth * down) {
    pack<unit, count> values[depth] = {};
    CRK_UNROLL
    for (int d = 0; d < depth; d++) {
      if (r + d * down < rows && x < columns) {
        values[d] = load_pack<unit, count>(reinterpret_cast<const unit *>(src));
      }
      src += down * tile.row_stride;
    }
    CRK_UNROLL
    for (int d = 0; d < depth; d++) {
      store_bits(write, values[d]);
      write += down * pitch;
    }
  }
  barrier();
  const T *read = shared + x * pitch + y;
  CRK_NO_UNROLL
  for (uint32_t c = y; c < edge; c += down) {
    if (c < columns && x < rows) {
      pack<T, V> values;
      CRK_UNROLL
      for (int i = 0; i < V; i++) {
        values.v[i] = read[i * pitch];
      }
      store_pack(dst, values);
    }
    read += down;
    dst += down * tile.column_stride;
  }
  barrier();
}

/* Block (x, y, z) begins with tile x of the rows, y of the columns and element z of the rest; a grid may be smaller than the
 * space. */
template <class T>
CRK_FN void copy_tiles(const crk_tile_t &tile, const T *src, T *dst, T *shared) {
  constexpr uint64_t edge = CRK_TILE_EDGE(sizeof(T));
  for (uint64_t z = block_index().z; z < tile.rest.numel; z += tile.grid[2]) {
    uint64_t at[2];
    locate(tile.rest, z, at);
    for (uint64_t column = block_index().y * edge; column < tile.columns; column += tile.grid[1] * edge) {
      for (uint64_t row = block_index().x * edge; row < tile.rows; row += tile.grid[0] * edge) {
        if (tile.by_vectors) {
          copy_tile<16 / sizeof(T)>(tile, row, column, src + at[0], dst + at[1], shared);
        } else {
          copy_tile<1>(tile, row, column, src + at[0], dst + at[1], shared);
        }
      }
    }
  }
}

}  // namespace crk

#endif
#endif
