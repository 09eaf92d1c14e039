/* Copies a tile of keys or of values from global to shared memory, with all threads of a block. For attention_tile.h.
 * Main type: tile_copy. */
#ifndef CRK_ATTENTION_COPY_H
#define CRK_ATTENTION_COPY_H

#include "attention/attention_scores.h"
#include "numbers/tile_pieces.h"

namespace crk {

/* Copies `Rows` source rows of up to Width elements. begin() starts the loads of a tile; finish() ends them, and then a
 * barrier makes the tile visible. Between the two the loads are under way, to registers, or straight to shared memory
 * where the GPU can do that. Rows beyond `count` repeat the last row. Pieces beyond `width` are 0, or left as they
 * are where copies go straight to shared memory (clear). */
template <class T, class Tile, int Rows, int Width, int Threads>
struct tile_copy : tile_pieces<T, Tile, Rows, Width, Threads> {
  using base = tile_pieces<T, Tile, Rows, Width, Threads>;
  using base::has;
  using base::lines;
  using base::loads;
  using base::part;
  using base::part_add;
  using base::passes;
  using base::piece;
  using base::row;
  using base::row_add;
  using base::together;
  using typename base::pieces;
  using copies = choose<Tile::copies_pieces, async_copies, void>;
  uint64_t offset; /* of this row and part, in elements */

  pieces held[loads][together];

  CRK_FN explicit tile_copy(const attention_rows<T> &rows) : offset(row * rows.row_stride + part * piece) {}

  /* Makes the pieces beyond `width` 0. Once, before the first begin(): copies leave them as they are. */
  CRK_FN void clear(uint32_t *tile, uint32_t width) const {
    if constexpr (Tile::copies_pieces) {
      if (width < Width) {
        CRK_NO_UNROLL
        for (int n = 0; n < loads; n++) {
          if (has(n) && (part + part_add(n)) * piece >= width) {
            const pieces none[1] = {};
            Tile::store(tile, row + row_add(n), part + part_add(n), none);
          }
        }
      }
    }
  }

  /* Begins to load the rows from `first` on. `by_vectors`: all pieces are aligned to 16 bytes. */
  CRK_FN void begin(uint32_t *tile, const attention_rows<T> &rows, uint32_t first, uint32_t count, uint32_t width,
                    bool by_vectors) {
    if (!rows.has_blocks && first + Rows <= count && (by_vectors || !Tile::copies_pieces)) {
      const T *from = rows.first + first * rows.row_stride + offset;
      const uint64_t step = lines * together * rows.row_stride;
      if constexpr (Tile::copies_pieces) {
        const copies mine(Tile::address(tile, row, part), from);
        CRK_UNROLL
        for (int n = 0; n < loads; n++) {
          const bool present = (part + part_add(n)) * piece < width;
          const uint32_t distance = Tile::distance(row_add(n), part_add(n));
          mine.begin16(distance, (n % passes * step + part_add(n) * piece) * sizeof(T), has(n) && present);
        }
      } else {
        CRK_UNROLL
        for (int n = 0; n < loads; n++) {
          if (has(n)) {
            CRK_UNROLL
            for (int i = 0; i < together; i++) {
              const T *at =
                  from + (n % passes * step + static_cast<uint64_t>(i) * rows.row_stride) + part_add(n) * piece;
              load(tile, n, i, at, (part + part_add(n)) * piece < width, true);
            }
          }
        }
      }
    } else {
      begin_some(tile, rows, first, count, width, by_vectors);
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
        if (has(n)) {
          Tile::store(tile, row + row_add(n), part + part_add(n), held[n]);
        }
      }
    }
  }

 private:
  /* For rows that are incomplete, in blocks of a cache, or not aligned. */
  CRK_FN void begin_some(uint32_t *tile, const attention_rows<T> &rows, uint32_t first, uint32_t count, uint32_t width,
                         bool by_vectors) {
    using place = typename attention_rows<T>::place;
    const auto key = [&](int n, int i) {
      const uint32_t number = first + row + row_add(n) + static_cast<uint32_t>(i);
      return least(number, count - 1);
    };
    const auto load_from = [&](int n, const place *at) {
      if (has(n)) {
        CRK_UNROLL
        for (int i = 0; i < together; i++) {
          const T *from = rows.at(at[i]) + (part + part_add(n)) * piece;
          load(tile, n, i, from, (part + part_add(n)) * piece < width, by_vectors);
        }
      }
    };
    if constexpr (Tile::copies_pieces) {
      CRK_NO_UNROLL
      for (int n = 0; n < loads; n++) {
        place at[together];
        rows.find(at, [&](int i) { return key(n, i); });
        load_from(n, at);
      }
    } else {
      place at[loads * together];
      rows.find(at, [&](int i) { return key(i / together, i % together); });
      CRK_UNROLL
      for (int n = 0; n < loads; n++) {
        load_from(n, at + n * together);
      }
    }
  }

  CRK_FN void load(uint32_t *tile, int n, int i, const T *from, bool present, bool by_vectors) {
    if constexpr (Tile::copies_pieces) {
      const uint32_t to_row = row + row_add(n), to_part = part + part_add(n);
      if (present && by_vectors) {
        copies(Tile::address(tile, to_row, to_part), from).begin16(0, true);
      } else if (present) {
        const pieces some[1] = {load_pack<T, piece>(from)};
        Tile::store(tile, to_row, to_part, some);
      }
    } else {
      held[n][i] = {};
      if (present) {
        held[n][i] = load_pack<T, piece>(from);
      }
    }
  }
};

}  // namespace crk

#endif
