/* Products of small matrices by a team of lanes, on matrix cores where there are any. For every kernel. Main type:
 * square_core<T>, for T f16, bf16 or float.
 *
 * A product has 16 rows and `span` columns, and adds up `span` numbers along k. Its left operand has 16 rows, its right
 * operand `span` columns. Sums are f32 (f64 in double_core). These types have the same members:
 *
 *   half_core<Bf16>   matrix cores for f16 and bf16 (platform/matrix.h)
 *   float_core        matrix cores for float, which compute with f32 and round nothing: CDNA
 *   split_core        matrix cores for float, which split each number in two and round products a little: NVIDIA GPUs
 *   double_core       matrix cores for double: CDNA 2 and later. It has no load_left, as_left and combine
 *   plain_core<T>     multiplications and additions: the CPU, GPUs without such matrix cores
 *
 * Members:
 *
 *   total      the type of a sum
 *   team       lanes that compute a product: 32, or all 64 of a wave with MFMA. A wave of 64 has two teams of 32
 *   span       16 or 32
 *   rows, columns   sums per lane: `float sum[rows][columns]`. sum[r][c] belongs to row row(r) and column column(c).
 *              column(c) is column(0) + next_column(c); next_column is constexpr
 *   combine(value, op)   combines a value of all lanes that have the same row; each of them gets the result
 *   left       a lane's part of a left operand
 *   load_left(from, k, d)   loads it from memory: from[r] is the address of row row(r), and k the first number along k,
 *              a multiple of `span`. Numbers from d on are 0; d is a multiple of 8
 *   as_left(sum)   makes a left operand of a product, whose columns become k; the numbers are rounded to T
 *   multiply(left, right, sum)   adds the product to `sum`
 *
 * A tile holds right operands in shared memory: `Columns` columns of `Depth` numbers along k. A source row in global
 * memory is a column (Across false) or has the numbers of all columns at one place along k (Across true):
 *
 *   tile<Columns, Depth, Across>::words   its size, in words of 32 bits
 *   together   source rows that a thread stores together: 1, 2 or 4
 *   rows_apart   if 8 lanes store pieces of two source rows, the rows that make them use different banks are so many
 *              rows apart: 1, 2 or 4
 *   store(tile, row, part, packs)   stores the pieces with number `part` of `together` source rows, from `row` on. A
 *              piece is 16 bytes
 *   address(tile, row, part)   the place of such a piece, if copies_pieces is true: pieces lie there unchanged
 *   load(tile, column, k)   a lane's part of the right operand that begins there; multiples of `span`
 *   load_rows(tile, row, k)   the left operand whose rows are 16 columns of the tile, if Across is false */
#ifndef CRK_SQUARE_H
#define CRK_SQUARE_H

#include "numbers/dot_half.h"

namespace crk {

template <class T>
struct plain_core {
  using total = choose<same<T, double>, double, float>;
  static constexpr uint32_t team = 32, span = 16;
  enum { rows = 1, columns = 8 };
  /* The numbers of a tile: pairs of halves if the GPU multiplies pairs, else floats. A pair has neighbours along k. */
  static constexpr bool pairs = multiplies_pairs<T>;
  using number = choose<pairs, uint32_t, float>;
  static constexpr int depth = pairs ? 2 : 1, units = static_cast<int>(span) / depth;
  static constexpr int piece = 16 / static_cast<int>(sizeof(T)); /* elements of 16 bytes */

  CRK_FN static uint32_t row(uint32_t) { return lane() % 16; }
  CRK_FN static constexpr uint32_t next_column(uint32_t c) { return c; }
  CRK_FN static uint32_t column(uint32_t c) { return lane() % 32 / 16 * 8 + c; }

  template <class Op>
  CRK_FN static float combine(float value, Op op) {
    return op(value, exchange_xor<16>(value));
  }

  struct left {
    number v[units];
  };
  CRK_FN static left load_left(const T *const (&from)[rows], uint32_t k, uint32_t d) {
    left loaded;
    CRK_UNROLL
    for (int p = 0; p < static_cast<int>(span) / piece; p++) {
      const uint32_t at = k + static_cast<uint32_t>(p * piece);
      pack<T, piece> some = {};
      if (at < d) {
        some = load_pack<T, piece>(from[0] + at);
      }
      spread(some, loaded.v + p * piece / depth);
    }
    return loaded;
  }

  /* The two lanes of a row have 8 numbers each, and each lane needs all 16. */
  CRK_FN static left as_left(const float (&sum)[rows][columns]) {
    constexpr int own = columns / depth;
    const bool second = lane() % 32 >= 16;
    left all;
    CRK_UNROLL
    for (int i = 0; i < own; i++) {
      number mine;
      if constexpr (pairs) {
        mine = bits(static_cast<T>(sum[0][2 * i])) | static_cast<uint32_t>(bits(static_cast<T>(sum[0][2 * i + 1])))
                                                         << 16;
      } else {
        mine = sum[0][i];
      }
      const number other = exchange_xor<16>(mine);
      all.v[i] = second ? other : mine;
      all.v[own + i] = second ? mine : other;
    }
    return all;
  }

  struct right {
    const number *at;
    uint32_t pitch;
  };

  /* Units at one place along k follow each other, column by column. */
  template <int Columns, int Depth, bool Across>
  struct tile {
    static constexpr uint32_t pitch = Columns + 4;
    static constexpr uint32_t words = Depth / depth * pitch;
    static constexpr bool copies_pieces = false;
    static constexpr int together = Across ? depth : 1, rows_apart = 1;

    CRK_FN static void store(uint32_t *room, uint32_t row, uint32_t part, const pack<T, piece> (&packs)[together]) {
      number *to = reinterpret_cast<number *>(room);
      number units_of_part[piece * together / depth];
      if constexpr (Across && pairs) {
        CRK_UNROLL
        for (int i = 0; i < piece; i++) {
          units_of_part[i] = bits(packs[0].v[i]) | static_cast<uint32_t>(bits(packs[together - 1].v[i])) << 16;
        }
      } else {
        spread(packs[0], units_of_part);
      }
      CRK_UNROLL
      for (int i = 0; i < piece * together / depth; i++) {
        const uint32_t u = static_cast<uint32_t>(i);
        const uint32_t count = static_cast<uint32_t>(piece);
        if constexpr (Across) {
          to[row / depth * pitch + part * count + u] = units_of_part[i];
        } else {
          to[(part * (count / depth) + u) * pitch + row] = units_of_part[i];
        }
      }
    }
    CRK_FN static right load(const uint32_t *room, uint32_t first_column, uint32_t k) {
      return {reinterpret_cast<const number *>(room) + k / depth * pitch + first_column + plain_core::column(0), pitch};
    }
    CRK_FN static left load_rows(const uint32_t *room, uint32_t first_row, uint32_t k) {
      const number *from = reinterpret_cast<const number *>(room) + k / depth * pitch + first_row + lane() % 16;
      left loaded;
      CRK_UNROLL
      for (int u = 0; u < units; u++) {
        loaded.v[u] = from[static_cast<uint32_t>(u) * pitch];
      }
      return loaded;
    }
  };

  CRK_FN static void multiply(const left &a, const right &b, float (&sum)[rows][columns]) {
    CRK_UNROLL
    for (int u = 0; u < units; u++) {
      keep_order(); /* else the compiler loads all units first */
      const number *from = b.at + static_cast<uint32_t>(u) * b.pitch;
      CRK_UNROLL
      for (int c = 0; c < columns; c++) {
        if constexpr (pairs) {
          sum[0][c] = dot2<T>(a.v[u], from[c], sum[0][c]);
        } else if constexpr (on_host) {
          sum[0][c] += a.v[u] * from[c]; /* without an fma instruction, C's fma is a call */
        } else {
          sum[0][c] = fma(a.v[u], from[c], sum[0][c]);
        }
      }
    }
  }

 private:
  CRK_FN static uint16_t bits(T value) { return bit_cast<uint16_t>(value); }
  CRK_FN static void spread(const pack<T, piece> &some, number *to) {
    CRK_UNROLL
    for (int i = 0; i < piece / depth; i++) {
      if constexpr (pairs) {
        to[i] = bits(some.v[2 * i]) | static_cast<uint32_t>(bits(some.v[2 * i + 1])) << 16;
      } else {
        to[i] = static_cast<float>(some.v[i]);
      }
    }
  }
};

#if CRK_HALF_CORES
template <class T>
struct square_core_of {
  using type = half_core<same<T, bf16>>;
};
#else
template <class T>
struct square_core_of {
  using type = plain_core<T>;
};
#endif
template <>
struct square_core_of<float> {
#if CRK_FLOAT_CORES
  using type = float_core;
#else
  using type = plain_core<float>;
#endif
};
#if CRK_DOUBLE_CORES
template <>
struct square_core_of<double> {
  using type = double_core;
};
#endif
template <class T>
using square_core = typename square_core_of<T>::type;

/* near_core<T> is square_core<T>, but for float on NVIDIA GPUs it is split_core, whose products have a relative error
 * of up to 2^-21. Its sums are NaN where an operand is infinite (loses_infinity). A caller that finds NaN repeats the
 * products by multiply_infinite. */
#if CRK_SPLIT_CORES
template <class T>
using near_core = choose<same<T, float>, split_core, square_core<T>>;
template <class T>
inline constexpr bool loses_infinity = same<T, float>;
#else
template <class T>
using near_core = square_core<T>;
template <class T>
inline constexpr bool loses_infinity = false;
#endif

}  // namespace crk

#endif
