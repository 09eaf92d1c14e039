/* Copies between two orders of dims whose fastest dims differ: a transpose, and every permutation that moves the last
 * dim. A block copies square tiles through shared memory. So it reads src along src's fastest dim and writes dst along
 * dst's. For the copy kernels of kernels/unary.hip. Main function: copy_tiles. */
#ifndef CRK_TILE_H
#define CRK_TILE_H

#include "call/tile_call.h"
#include "elementwise/walk.h"

namespace crk {

/* The type of a tile's shared memory. It makes the memory aligned to 16 bytes. */
struct alignas(16) tile_bytes {
  uint32_t words[4];
};

/* The layout of a tile in shared memory. Neighbouring lanes write packs of V elements along a row. They read elements
 * of one column from rows that are V apart. Each row has its own order of columns, so that neither access has conflicts
 * on the 32 banks of four bytes. `piece` neighbouring elements stay together. */
template <int V, class T>
struct tile_layout {
  static constexpr int edge = CRK_TILE_EDGE(sizeof(T)), across = edge / V, line = 128 / sizeof(T);
  static constexpr int word = sizeof(T) < 4 ? 4 / sizeof(T) : 1, step = line / across > word ? line / across : word;
  static constexpr int piece = V < step ? V : step;

  /* The place of column c within row r. place(r | s, c | d) == place(r, c) ^ place(s, d), if r and s share no bit and c
   * and d share no bit. */
  CRK_FN static constexpr uint32_t place(uint32_t r, uint32_t c) {
    return c ^ (r / V ^ (piece < V ? c / line : 0)) * step % edge;
  }
};

/* Copies one tile: rows of src into shared memory, then columns of it to dst. An access moves V elements; a thread has
 * up to four loads under way. `row` and `column` are the first ones of the tile. All threads of the block must call it;
 * it holds two barriers, the last one at its end. */
template <int V, class T>
CRK_FN void copy_tile(const crk_tile_t &tile, uint64_t row, uint64_t column, const T *src, T *dst, T *shared) {
  using layout = tile_layout<V, T>;
  constexpr uint32_t edge = layout::edge, down = CRK_TILE_THREADS(sizeof(T)) / layout::across;
  constexpr uint32_t depth = edge / down < 4 ? edge / down : 4;
  /* Narrow elements are moved as words of four bytes until they are read from shared memory. */
  using unit = choose<(V > 1), uint32_t, T>;
  constexpr int count = V * sizeof(T) / sizeof(unit), piece = count * layout::piece / V;
  static_assert(edge % (depth * down) == 0, "a tile is a whole number of steps");
  /* copy_tiles calls this function for two values of V. `opaque` stops the compiler from keeping values computed from
   * `thread` for both in registers across tiles. */
  const uint32_t thread = opaque(thread_index().x), x = thread % layout::across * V, y = thread / layout::across;
  const uint32_t rows = tile.rows - row < edge ? tile.rows - row : edge;
  const uint32_t columns = tile.columns - column < edge ? tile.columns - column : edge;
  src += (row + y) * tile.row_stride + column + x;
  dst += (column + y) * tile.column_stride + row + x;
  CRK_NO_UNROLL
  for (uint32_t r = 0; r < edge; r += depth * down) {
    pack<unit, count> values[depth] = {};
    CRK_UNROLL
    for (uint32_t d = 0; d < depth; d++) {
      if (y + r + d * down < rows && x < columns) {
        if constexpr (V == 1) {
          values[d].v[0] = *src;
        } else {
          values[d] = load_aligned<unit, count>(reinterpret_cast<const unit *>(src));
        }
      }
      src += down * tile.row_stride;
    }
    const uint32_t at = layout::place(y + r, x);
    T *write = shared + (y + r) * edge;
    CRK_UNROLL
    for (uint32_t d = 0; d < depth; d++) {
      CRK_UNROLL
      for (int p = 0; p < V; p += layout::piece) {
        pack<unit, piece> part;
        CRK_UNROLL
        for (int i = 0; i < piece; i++) {
          part.v[i] = values[d].v[p * count / V + i];
        }
        store_bits(write + d * down * edge + (at ^ layout::place(d * down, p)), part);
      }
    }
  }
  shared_barrier();
  CRK_NO_UNROLL
  for (uint32_t c = 0; c < edge; c += down) {
    if (y + c < columns && x < rows) {
      const T *read = shared + x * edge + layout::place(x, y + c);
      pack<T, V> values;
      CRK_UNROLL
      for (int i = 0; i < V; i++) {
        values.v[i] = read[i * edge];
      }
      store_pack(dst, values);
    }
    dst += down * tile.column_stride;
  }
  shared_barrier();
}

/* Copies src to dst as `tile` describes. Block (x, y, z) begins with tile x of the rows, tile y of the columns and
 * element z of the other dims. It goes on in steps of tile.grid, because the grid may be smaller than the space. All
 * threads of the block must call it. `shared` has CRK_TILE_BYTES bytes. */
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
