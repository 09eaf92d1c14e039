/* How the threads of a block share the pieces of a tile in shared memory. For kernels that copy rows of global memory
 * to the tiles of numbers/square.h. */
#ifndef CRK_TILE_PIECES_H
#define CRK_TILE_PIECES_H

#include "numbers/square.h"

namespace crk {

/* `Rows` source rows of Width elements, in pieces of 16 bytes. Each thread has up to `loads` pieces, or `together` such
 * pieces of neighbouring rows: number n begins at row `row + row_add(n)` and has part `part + part_add(n)` of it. */
template <class T, class Tile, int Rows, int Width, int Threads>
struct tile_pieces {
  static constexpr int piece = 16 / static_cast<int>(sizeof(T)), parts = Width / piece;
  static constexpr int together = Tile::together, groups = Rows / together;
  using pieces = pack<T, piece>;

  /* The first group of rows and the first part of this thread. `near` threads have neighbouring parts of a row, which
   * are a cache line; but at most 4 where rows are stored together, so that at most 4 stores go to a bank. Other
   * threads have the other groups, and then the other parts. */
  static constexpr int near = together == 1 && parts % 8 == 0 ? 8 : parts % 4 == 0 ? 4 : 2, lines = Threads / near;
  static constexpr bool has_passes = groups > lines; /* the threads pass over the rows more than once */
  static_assert(parts % near == 0 && (has_passes || lines % groups == 0), "each thread has one pattern");
  static constexpr int passes = (groups + lines - 1) / lines; /* to cover the rows with one part each */
  static constexpr int loads = has_passes ? passes * (parts / near) : (groups * parts + Threads - 1) / Threads;
  static constexpr bool is_even =
      has_passes ? groups % lines == 0 : groups * parts % Threads == 0; /* has() is always true */
  uint32_t row, part;

  CRK_FN tile_pieces() {
    const uint32_t line = thread_index().x / near;
    row = row_of(line % groups) * together;
    part = line / groups * near + thread_index().x % near;
  }
  /* Neighbouring lines that share 8 lanes have the rows 0 and rows_apart of eight, and so on. */
  CRK_FN static constexpr uint32_t row_of(uint32_t line) {
    constexpr uint32_t apart = near == 4 && together == 1 ? Tile::rows_apart : 1;
    return apart == 1 ? line : (line & ~(1 | apart)) | line % 2 * apart | line / apart % 2;
  }
  CRK_FN static constexpr uint32_t row_add(int n) { return static_cast<uint32_t>(n % passes * lines * together); }
  CRK_FN static constexpr uint32_t part_add(int n) {
    return static_cast<uint32_t>(n / passes * near * (has_passes ? 1 : lines / groups));
  }
  CRK_FN bool has(int n) const {
    return is_even || (has_passes ? row + row_add(n) < static_cast<uint32_t>(Rows) : part + part_add(n) < parts);
  }

  /* Stores pieces with number n in the tile, if this thread has them. */
  CRK_FN void put(uint32_t *tile, int n, const pieces (&some)[together]) const {
    if (has(n)) {
      Tile::store(tile, row + row_add(n), part + part_add(n), some);
    }
  }
};

}  // namespace crk

#endif
