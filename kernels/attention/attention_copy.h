/* Copies a tile of keys or of values from global to shared memory, with all threads of a block. For attention_tile.h.
 * Main type: tile_copy. */
#ifndef CRK_ATTENTION_COPY_H
#define CRK_ATTENTION_COPY_H

#include "attention/attention_scores.h"
#include "numbers/square.h"

namespace crk {

/* Copies `Rows` source rows of up to Width elements. begin() starts the loads of a tile; finish() ends them, and then a
 * barrier makes the tile visible. Between the two the loads are under way, to registers, or straight to shared memory
 * where the GPU can do that. Rows beyond `count` repeat the last row. Pieces beyond `width` are 0. */
template <class T, class Tile, int Rows, int Width, int Threads>
struct tile_copy {
  static constexpr int piece = 16 / static_cast<int>(sizeof(T)), parts = Width / piece;
  static constexpr int together = Tile::together, items = Rows / together * parts;
  static constexpr int loads = (items + Threads - 1) / Threads;
  using pieces = pack<T, piece>;

  using copies = choose<Tile::copies_pieces, async_copies, void>;

  pieces held[loads][together];

  /* `by_vectors`: all pieces are aligned to 16 bytes. */
  CRK_FN void begin(uint32_t *tile, const attention_rows<T> &rows, uint32_t first, uint32_t count, uint32_t width,
                    bool by_vectors) {
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      const uint32_t item = item_of(n);
      if (items % Threads == 0 || item < items) {
        const bool present = part_of(item) * piece < width;
        CRK_UNROLL
        for (int i = 0; i < together; i++) {
          const uint32_t row = first + row_of(item) + static_cast<uint32_t>(i);
          const T *from = rows.at(row < count ? row : count - 1) + part_of(item) * piece;
          if constexpr (Tile::copies_pieces) {
            copy(tile, item, from, present, by_vectors);
          } else {
            held[n][i] = {};
            if (present) {
              held[n][i] = load_pack<T, piece>(from);
            }
          }
        }
      }
    }
    if constexpr (Tile::copies_pieces) {
      copies::end_group();
    }
  }

  CRK_FN void finish(uint32_t *tile) {
    if constexpr (Tile::copies_pieces) {
      copies::template wait<0>();
    } else {
      CRK_UNROLL
      for (int n = 0; n < loads; n++) {
        const uint32_t item = item_of(n);
        if (items % Threads == 0 || item < items) {
          Tile::store(tile, row_of(item), part_of(item), held[n]);
        }
      }
    }
  }

 private:
  CRK_FN static uint32_t item_of(int n) { return thread_index().x + static_cast<uint32_t>(n * Threads); }
  /* Where two rows are stored together, neighbouring threads have 4 parts of a row and then the next rows: a compromise
   * between whole cache lines of the loads and different banks of the stores. */
  static constexpr uint32_t near = together == 2 ? 4 : parts, groups = Rows / together;
  static_assert(parts % static_cast<int>(near) == 0, "whole groups of parts");
  CRK_FN static uint32_t part_of(uint32_t item) { return item / near / groups * near + item % near; }
  CRK_FN static uint32_t row_of(uint32_t item) { return item / near % groups * together; }

  CRK_FN static void copy(uint32_t *tile, uint32_t item, const T *from, bool present, bool by_vectors) {
    if (present && by_vectors) {
      copies(Tile::address(tile, row_of(item), part_of(item)), from).begin16(0, true);
    } else {
      pieces some[1] = {};
      if (present) {
        some[0] = load_pack<T, piece>(from);
      }
      Tile::store(tile, row_of(item), part_of(item), some);
    }
  }
};

}  // namespace crk

#endif
