/* Loads both operands of a product of quantized weights with many columns (matmat.h) to a tile in shared memory. On the
 * way it unpacks the weights, once for all columns of the tile.
 *
 * Candle's kernels load a step at once: load_weights and q8_1_blocks. The launchers' kernels begin to load a step while
 * they multiply the one before it: pieces_ahead and blocks_ahead. */
#ifndef CRK_MATMAT_LOAD_H
#define CRK_MATMAT_LOAD_H

#include "quantized/matmat_tile.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* Stores 16 bytes in a row or a column of the tile. They are aligned to 16 bytes if its stride is, else to 8. */
template <uint32_t Stride, class Pack>
CRK_FN void store_words4(uint32_t *to, const Pack &from) {
  if constexpr (Stride % 4 == 0) {
    store_pack(to, from);
  } else {
    struct alignas(8) words : pack<uint32_t, 4> {};
    *static_cast<words *>(static_cast<void *>(to)) = bit_cast<words>(from);
  }
}

/* Stores a piece in the tile: of row r + more, from half `first` of the step on. `more` is a multiple of 16 that the
 * compiler knows, so it becomes a part of the instructions. */
template <class Products, class B, class Terms, int Rows, int Columns>
CRK_FN void put_piece(const tile<B, Terms, Rows, Columns> &t, const piece &w, uint32_t r, uint32_t more,
                      uint32_t first) {
  using T = tile<B, Terms, Rows, Columns>;
  using Q = typename T::Q;
  constexpr int zero = static_cast<int>(Q::zero);
  constexpr bool sixteenfold = Terms::subtracts_zero && zero == 8;
  CRK_UNROLL
  for (int h = 0; h < 2; h++) {
    const uint32_t half = first + h * Q::distance;
    codes16 code = w.code[h];
    if constexpr (sixteenfold) {
      code = sixteenfold_minus_8(code);
    } else if constexpr (Terms::subtracts_zero) {
      code = subtract<zero>(code);
    }
    store_words4<T::row_stride>(t.weights + (r * T::row_stride + 4 * half) + more * T::row_stride, code);
    if (T::parts == 2 || half % 2 == 0) {
      const uint32_t at = half * T::parts / 2 * T::pitch + Products::place(r);
      (t.scale + at)[more] = scale_of<Terms>(w.whole_scale(h)) * (sixteenfold ? 0.0625f : 1.0f);
      if (T::has_rest) {
        (t.minimum + at)[more] = Q::has_minimum ? scale_of<Terms>(w.whole_minimum(h)) : -zero * w.whole_scale(h);
      }
    }
  }
}
/* The half of a step where the piece with this place in the step begins. Blocks of 32 follow each other; a step has
 * half of a block of 256. */
template <class Q>
CRK_FN uint32_t first_half(uint32_t place) {
  return Q::pieces == 1 ? 2 * place : Q::first(place_of_piece(place)) % (2 * step_quarters);
}

/* Loads a step of the weights to the tile. The weights are `rows` rows, at least one, `stride` blocks apart. The step
 * begins with piece `step` of the `pieces` of a row. */
template <class Products, class B, class Terms, int Rows, int Columns>
CRK_FN void load_weights(const tile<B, Terms, Rows, Columns> &t, const B *weights, uint64_t stride, uint32_t rows,
                         uint32_t step, uint32_t pieces) {
  using Q = quant<B>;
  constexpr int next_row = Products::threads / step_pieces;
  static_assert(Rows % next_row == 0, "threads share evenly");
  const uint32_t place = thread_in_block() % step_pieces, p = within(step + place, pieces);
  CRK_NO_UNROLL
  for (uint32_t row = thread_in_block() / step_pieces; row < Rows; row += next_row) {
    put_piece<Products>(
        t, Q::load(block_bytes{weights + within(row, rows) * stride + p / Q::pieces}, place_of_piece(p % Q::pieces)),
        row, 0, first_half<Q>(place));
  }
}

/* The bytes of a piece on their way: quant<B>::load with a `recorder` loads them and makes nothing of them; with a
 * `player` it makes the piece. Both calls ask for the same bytes in the same order. */
struct record {
  uint32_t word[16];
};
struct recorder {
  const void *first;
  record *to;
  mutable int at = 0;
  template <int N, int Usual = 2>
  CRK_FN pack<uint32_t, N> words(uint32_t offset) const {
    const auto raw = load_raw<N, Usual>(static_cast<const unsigned char *>(first) + offset);
    CRK_UNROLL
    for (int i = 0; i < raw_words<N>; i++) {
      to->word[at++] = raw.v[i];
    }
    return {};
  }
  CRK_FN int8_t byte(uint32_t offset) const {
    to->word[at++] = static_cast<const uint8_t *>(first)[offset];
    return 0;
  }
  CRK_FN uint16_t half(uint32_t offset) const {
    to->word[at++] = block_bytes{first}.half(offset);
    return 0;
  }
};
struct player {
  const void *first;
  const record *from;
  mutable int at = 0;
  template <int N, int Usual = 2>
  CRK_FN pack<uint32_t, N> words(uint32_t offset) const {
    pack<uint32_t, raw_words<N>> raw;
    CRK_UNROLL
    for (int i = 0; i < raw_words<N>; i++) {
      raw.v[i] = from->word[at++];
    }
    return words_of_raw<N>(raw, static_cast<const unsigned char *>(first) + offset);
  }
  CRK_FN int8_t byte(uint32_t) const { return static_cast<int8_t>(from->word[at++]); }
  CRK_FN uint16_t half(uint32_t) const { return static_cast<uint16_t>(from->word[at++]); }
};

/* The pieces of the weights that a thread loads, one in each `next_row` rows. fetch() begins to load the pieces of
 * a step. put() stores them in a tile. Both take the arguments of load_weights. */
template <class Products, class B, int Rows>
struct pieces_ahead {
  using Q = quant<B>;
  static constexpr int next_row = Products::threads / step_pieces, count = Rows / next_row;
  static_assert(Rows % next_row == 0 && next_row % 16 == 0, "threads share evenly");
  const B *row[count];
  uint32_t place, pieces;
  record bytes[count];

  /* The first row of the thread. On AMD GPUs, 8 lanes store 16 bytes each at a time, or 16 lanes 8 bytes: parts of 2 or
   * 4 rows. The pieces of a row leave banks between them, or behind them, by their distance. Two bits of the row's
   * number change places, so that the other rows use these banks. */
  CRK_FN static uint32_t first_row() {
    constexpr int low = Products::row_stride % 4 == 0 ? 0 : 1, distance = static_cast<int>(Q::distance);
    constexpr int up = async_copies::present || on_host ? 0 : distance == 4 ? 2 : distance - 1;
    const uint32_t line = thread_index().x / step_pieces;
    if constexpr (up == 0) {
      return line;
    } else {
      constexpr uint32_t both = (1u << up | 1) << low;
      return (line & ~both) | (line >> low & 1) << (low + up) | (line >> (low + up) & 1) << low;
    }
  }

  CRK_FN pieces_ahead(const B *weights, uint64_t stride, uint32_t rows, uint32_t pieces)
      : place(thread_index().x % step_pieces), pieces(pieces) {
    CRK_UNROLL
    for (int n = 0; n < count; n++) {
      row[n] = weights + within(first_row() + n * next_row, rows) * stride;
    }
  }
  /* A step begins at piece 0 or 4 of a block of 256. */
  CRK_FN piece_place part(uint32_t step) const {
    return Q::pieces == 1 ? piece_place{0, 0, 0} : piece_place{step / 4 % 2, place / 2, place % 2};
  }
  CRK_FN const B *block(int n, uint32_t step) const {
    return row[n] + (Q::pieces == 1 ? within(step + place, pieces) : step / Q::pieces);
  }
  CRK_FN void fetch(int n, uint32_t step) {
    if constexpr (!on_host) {
      Q::load(recorder{block(n, step), &bytes[n]}, part(step));
    }
  }
  template <class T>
  CRK_FN void put(int n, const T &t, uint32_t step) const {
    /* In a wide tile, a register for each address would be one too many. */
    constexpr uint32_t apart = is_wide<T> ? next_row : 0;
    const uint32_t more = n * apart, r = first_row() + n * (next_row - apart);
    if constexpr (on_host) {
      put_piece<Products>(t, Q::load(block_bytes{block(n, step)}, part(step)), r, more, first_half<Q>(place));
    } else {
      put_piece<Products>(t, Q::load(player{block(n, step), &bytes[n]}, part(step)), r, more, first_half<Q>(place));
    }
  }
};

/* The mmq blocks of `columns` columns, at least one, which follow each other in memory: fetch() loads them to
 * registers, put() stores them in the tile, `Stride` words apart. copy() does both without registers, where the GPU
 * can. */
template <int Threads, int Columns, uint32_t Stride>
struct blocks_ahead {
  static constexpr uint32_t packs = CRK_MMQ_WORDS / 4;
  static constexpr int loads = (Columns * packs + Threads - 1) / Threads;
  /* Without words between the columns, packs have the order of memory. Else the packs of codes come first, so that 16
   * lanes have those of two columns, and then each column's first pack. */
  static constexpr bool is_dense = Stride == CRK_MMQ_WORDS;
  static constexpr uint32_t code_packs = Columns * (packs - 1);
  pack<uint32_t, 4> words[loads];
  uint32_t at[loads]; /* bytes from a step's first block */

  CRK_FN static uint32_t number(int n) { return thread_index().x + n * Threads; }
  CRK_FN static bool wanted(int n) {
    return static_cast<uint32_t>((n + 1) * Threads) <= Columns * packs || number(n) < Columns * packs;
  }
  CRK_FN static uint32_t column_of(int n) {
    const uint32_t i = number(n);
    return i < code_packs ? i / (packs - 1) : i - code_packs;
  }
  CRK_FN static uint32_t pack_of(int n) {
    const uint32_t i = number(n);
    return i < code_packs ? 1 + i % (packs - 1) : 0;
  }
  CRK_FN explicit blocks_ahead(uint32_t columns) {
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      at[n] = 16 * (is_dense ? within(number(n), columns * packs) : within(column_of(n), columns) * packs + pack_of(n));
    }
  }
  CRK_FN void fetch(const uint32_t *blocks) {
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      at[n] = opaque(at[n]); /* else it is added to the uniform address in vector registers */
      words[n] = load_pack<uint32_t, 4>(
          reinterpret_cast<const uint32_t *>(reinterpret_cast<const unsigned char *>(blocks) + at[n]));
    }
  }
  CRK_FN void put(uint32_t *to) const {
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      if (wanted(n)) {
        const uint32_t word =
            is_dense ? 4 * thread_index().x + 4 * n * Threads : column_of(n) * Stride + 4 * pack_of(n);
        store_words4<Stride>(to + word, words[n]);
      }
    }
  }
  template <class Copies>
  CRK_FN static void copy(uint32_t *to, const uint32_t *blocks, uint32_t columns) {
    static_assert(is_dense, "copies keep the order of memory");
    if (reinterpret_cast<uintptr_t>(blocks) % 16 == 0) {
      CRK_UNROLL
      for (int n = 0; n < loads; n++) {
        Copies(to + 4 * number(n), blocks + 4 * within(number(n), columns * packs)).begin16(0, wanted(n));
      }
    } else {
      blocks_ahead some(columns);
      some.fetch(blocks);
      some.put(to);
    }
    Copies::end_group();
  }
};

/* A step of columns of q8_1 blocks, `stride` blocks apart; `blocks` blocks are left. put() copies d, s and codes to the
 * tile. */
template <int Threads, int Columns>
struct q8_1_blocks {
  const block_q8_1 *from;
  uint64_t stride;
  uint32_t columns, blocks;

  template <class T>
  CRK_FN void put(const T &t) const {
    const uint32_t quarter = thread_in_block() % step_quarters;
    CRK_NO_UNROLL
    for (uint32_t c = thread_in_block() / step_quarters; c < Columns; c += Threads / step_quarters) {
      const block_q8_1 *block = from + within(c, columns) * stride + within(quarter, blocks);
      uint32_t *column = t.columns + c * T::column_stride;
      column[quarter] = load_pack<uint32_t, 1>(reinterpret_cast<const uint32_t *>(block)).v[0];
      store_pack(column + first_code + 8 * quarter, load_words<4>(block->qs));
      store_pack(column + first_code + 8 * quarter + 4, load_words<4>(block->qs + 16));
    }
  }
};

}  // namespace
}  // namespace crk

#endif
