/* Copies an operand of a product from global memory to the tiles of numbers/square.h, a step along k at a time, with
 * all threads of a block. For matmul_cores.h. Main type: operand_copy. */
#ifndef CRK_OPERAND_COPY_H
#define CRK_OPERAND_COPY_H

#include "call/matmul_call.h"
#include "numbers/tile_pieces.h"

namespace crk {

/* What the copies have in common. A step is `Rows` rows of Depth numbers along k. Rows beyond the operand's last one
 * hold anything in the tile, and numbers beyond k are 0. */
template <class T, int Rows, int Depth, int Threads>
struct operand_steps {
  /* The tile if the operand's numbers are neighbours along k (Across false) or across its rows, and who copies what. */
  template <bool Across>
  using tile_of = typename near_core<T>::template tile<Rows, Depth, Across>;
  template <bool Across>
  using pieces_of = tile_pieces<T, tile_of<Across>, Across ? Depth : Rows, Across ? Rows : Depth, Threads>;

  const T *first; /* row 0 of the step */
  uint64_t row_stride, k_stride;
  uint32_t rows; /* rows of the operand in this tile */
  uint32_t way; /* how it lies in memory, CRK_MATMUL_ANY and so on */
  uint32_t is_aligned;

  CRK_FN operand_steps(const T *from, const crk_matmul_operand_t &operand, uint32_t valid_rows)
      : first(from),
        row_stride(operand.row_stride),
        k_stride(operand.k_stride),
        rows(valid_rows),
        way(operand.way),
        is_aligned(operand.is_aligned) {}

  /* Goes on by some steps, or back. */
  CRK_FN void advance(int steps = 1) {
    first += steps * static_cast<int64_t>(way == CRK_MATMUL_ALONG_K ? Depth : Depth * k_stride);
  }

  /* Copies a step of which `left` numbers along k exist, at least one, or one that lies in memory in another way. */
  template <bool Across>
  CRK_FN void copy_part(uint32_t *room, uint64_t left) const {
    using P = pieces_of<Across>;
    const P own;
    const bool in_pieces = way == (Across ? CRK_MATMUL_ALONG_ROWS : CRK_MATMUL_ALONG_K);
    CRK_NO_UNROLL
    for (int n = 0; n < P::loads; n++) {
      if (own.has(n)) {
        typename P::pieces some[P::together];
        CRK_UNROLL
        for (int i = 0; i < P::together; i++) {
          const uint32_t line = own.row + P::row_add(n) + static_cast<uint32_t>(i);
          const uint32_t column = (own.part + P::part_add(n)) * P::piece;
          const uint32_t row = Across ? column : line, k = Across ? line : column;
          if (in_pieces && row < rows && k + (Across ? 1 : P::piece) <= left) {
            some[i] = load_pack<T, P::piece>(first + (row * row_stride + k * k_stride));
          } else {
            CRK_UNROLL
            for (uint32_t j = 0; j < P::piece; j++) {
              const uint32_t own_row = Across ? row + j : row, own_k = Across ? k : k + j;
              some[i].v[j] = own_row < rows && own_k < left ? first[own_row * row_stride + own_k * k_stride] : T(0.0f);
            }
          }
        }
        own.put(room, n, some);
      }
    }
  }
};

/* Copies through registers: begin() loads a step to them, finish() stores them in the tile. The tile is the same for
 * both orders in memory. */
template <class T, int Rows, int Depth, int Threads>
struct held_copy : operand_steps<T, Rows, Depth, Threads> {
  using base = operand_steps<T, Rows, Depth, Threads>;
  using tile = typename base::template tile_of<false>;
  using along_k = typename base::template pieces_of<false>;
  using along_rows = typename base::template pieces_of<true>;
  static constexpr bool is_direct = false;
  static constexpr int piece = along_k::piece, across_loads = along_rows::loads * along_rows::together;
  static constexpr int loads = along_k::loads > across_loads ? along_k::loads : across_loads;
  static constexpr uint32_t bytes = sizeof(T);
  static_assert(along_k::together == 1, "one row at a time");
  static_assert(static_cast<uint64_t>(Rows > Depth ? Rows : Depth) * CRK_MATMUL_MOST_STRIDE * bytes <= 1u << 31,
                "offsets fit");

  pack<T, piece> held[loads];
  /* From `first` to the pieces of this thread, in bytes: AMD GPUs add such an offset to a scalar address as they load.
   * Rows beyond the last one repeat another. */
  uint32_t offset[loads];

  CRK_FN held_copy(const T *from, const crk_matmul_operand_t &operand, uint32_t valid_rows)
      : base(from, operand, valid_rows) {
    const along_k down;
    const along_rows across;
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      if (this->way == CRK_MATMUL_ALONG_ROWS) {
        const int group = n / along_rows::together;
        const uint32_t row = (across.part + along_rows::part_add(group)) * piece;
        const uint32_t at_k = across.row + along_rows::row_add(group) + static_cast<uint32_t>(n % along_rows::together);
        offset[n] = ((row < this->rows ? row : 0) + at_k % Depth * static_cast<uint32_t>(this->k_stride)) * bytes;
      } else {
        const uint32_t row = down.row + along_k::row_add(n);
        const uint32_t at_k = (down.part + along_k::part_add(n)) * piece;
        offset[n] =
            ((row < this->rows ? row : this->rows - 1) * static_cast<uint32_t>(this->row_stride) + at_k % Depth) *
            bytes;
      }
    }
  }

  /* Whether begin() and finish() can copy the operand, where a step is whole. */
  CRK_FN bool by_pieces() const { return this->way != CRK_MATMUL_ANY; }
  /* Copies a step that is not whole, or an operand that they cannot copy. */
  CRK_FN void copy_some(uint32_t *room, uint64_t left) const {
    if (this->way == CRK_MATMUL_ALONG_ROWS) {
      this->template copy_part<true>(room, left);
    } else {
      this->template copy_part<false>(room, left);
    }
  }

  CRK_FN void begin() {
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      offset[n] = opaque(offset[n]); /* else it is added to the uniform address in vector registers */
      const char *const from = reinterpret_cast<const char *>(this->first) + offset[n];
      held[n] = load_pack<T, piece>(reinterpret_cast<const T *>(from));
    }
  }

  CRK_FN void finish(uint32_t *room) const {
    if (this->way == CRK_MATMUL_ALONG_K) {
      const along_k own;
      CRK_UNROLL
      for (int n = 0; n < along_k::loads; n++) {
        const pack<T, piece> some[1] = {held[n]};
        own.put(room, n, some);
      }
    } else {
      const along_rows own;
      CRK_UNROLL
      for (int n = 0; n < along_rows::loads; n++) {
        pack<T, piece> some[along_rows::together];
        CRK_UNROLL
        for (int i = 0; i < along_rows::together; i++) {
          some[i] = held[n * along_rows::together + i];
        }
        own.put(room, n, some);
      }
    }
  }
};

/* Copies straight to the tile: begin() starts to copy a step. An operand that lies the other way in memory is copied
 * element by element. */
template <class T, int Rows, int Depth, int Threads, bool Across>
struct direct_copy : operand_steps<T, Rows, Depth, Threads> {
  using base = operand_steps<T, Rows, Depth, Threads>;
  using tile = typename base::template tile_of<Across>;
  using P = typename base::template pieces_of<Across>;
  using copies = choose<tile::copies_pieces, async_copies, void>;
  static constexpr bool is_direct = true;
  static_assert(P::is_even, "every thread has a piece each time");
  const P own;
  uint64_t offset; /* from `first` to the pieces of this thread, in elements */
  uint32_t next_line; /* from a piece to that of the next pass over the tile, in bytes */

  CRK_FN direct_copy(const T *from, const crk_matmul_operand_t &operand, uint32_t valid_rows)
      : base(from, operand, valid_rows) {
    const uint64_t stride = Across ? this->k_stride : this->row_stride;
    offset = own.row * stride + own.part * P::piece;
    next_line = settled(P::row_add(1) * static_cast<uint32_t>(stride) * static_cast<uint32_t>(sizeof(T)));
  }

  CRK_FN bool by_pieces() const {
    return this->way == (Across ? CRK_MATMUL_ALONG_ROWS : CRK_MATMUL_ALONG_K) && this->is_aligned != 0;
  }
  /* Copies a step that is not whole, or an operand that begin() cannot copy. The copies may be under way afterwards. */
  CRK_FN void copy_some(uint32_t *room, uint64_t left) const {
    if (!by_pieces() || (!Across && left < Depth && left % P::piece != 0)) {
      this->template copy_part<Across>(room, left);
    } else {
      begin_part(room, left);
    }
  }
  /* Begins to copy a step of which `left` numbers along k exist. They are whole pieces, and by_pieces() is true. */
  CRK_FN void begin_part(uint32_t *room, uint64_t left) const {
    const copies mine(tile::address(room, own.row, own.part), this->first + offset);
    CRK_UNROLL
    for (int n = 0; n < P::loads; n++) {
      const uint32_t line = own.row + P::row_add(n), column = (own.part + P::part_add(n)) * P::piece;
      const bool present = (Across ? column : line) < this->rows && (Across ? line : column) < left;
      mine.begin16_or_zeros(tile::distance(P::row_add(n), P::part_add(n)), bytes_to(n), present);
    }
  }

  /* The bytes from this thread's first piece to its piece n. */
  CRK_FN uint64_t bytes_to(int n) const {
    return static_cast<uint64_t>(next_line) * static_cast<uint32_t>(n % P::passes) +
           P::part_add(n) * P::piece * sizeof(T);
  }

  CRK_FN void begin(uint32_t *room, bool wanted) const {
    const copies mine(tile::address(room, own.row, own.part), this->first + offset);
    const uint32_t count = wanted ? this->rows : 0;
    CRK_UNROLL
    for (int n = 0; n < P::loads; n++) {
      /* A piece across the rows has only rows that exist, or none. */
      const bool present = Across ? (own.part + P::part_add(n)) * P::piece < count : own.row + P::row_add(n) < count;
      mine.begin16_or_zeros(tile::distance(P::row_add(n), P::part_add(n)), bytes_to(n), present);
    }
  }
};

template <class T, int Rows, int Depth, int Threads, bool Across>
using operand_copy = choose<near_core<T>::template tile<Rows, Depth, false>::copies_pieces,
                            direct_copy<T, Rows, Depth, Threads, Across>, held_copy<T, Rows, Depth, Threads>>;

}  // namespace crk

#endif
