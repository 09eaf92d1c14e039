/* Who multiplies what in a tile: the products of rows of codes with columns of codes, and which of them a thread has.
 *
 * A tile has Rows rows and Columns columns of 8-bit codes in shared memory. A thread of the block has height * at_once rows of
 * width columns: row(i, r) and column(j), for i below height, r below at_once and j below width. For those it loads operands
 * of 4 * Words codes, of rows operand_row(i) and of columns operand_column(j), and `multiply` makes the at_once products. All
 * threads of a wave come, as one instruction may make the products of them all. */
#ifndef CRK_MATRIX_H
#define CRK_MATRIX_H

#include "dot.h"
#include "wave.h"

namespace crk {

/* By dot products of four codes: each thread its own. `Down` threads have different rows, the others different columns. */
template <int Rows, int Columns, int Threads, int Down>
struct dot_products {
  enum { at_once = 1, height = Rows / Down, width = Columns / (Threads / Down) };
  static_assert(Rows % Down == 0 && Threads % Down == 0 && Columns % (Threads / Down) == 0, "threads share evenly");
  uint32_t first_row, first_column;

  CRK_FN dot_products() : first_row(thread_in_block() % Down), first_column(thread_in_block() / Down) {}
  CRK_FN uint32_t row(int i, int) const { return first_row + i * Down; }
  CRK_FN uint32_t column(int j) const { return first_column + j * (Threads / Down); }
  CRK_FN uint32_t operand_row(int i) const { return row(i, 0); }
  CRK_FN uint32_t operand_column(int j) const { return column(j); }

  template <int Words>
  struct operand {
    codes16 codes[Words / 4];
  };
  /* From the codes of a row or a column, aligned to 16 bytes. */
  template <int Words>
  CRK_FN static operand<Words> load(const uint32_t *codes) {
    operand<Words> loaded;
    CRK_UNROLL
    for (int i = 0; i < Words / 4; i++) {
      loaded.codes[i] = load_aligned16(codes + 4 * i);
    }
    return loaded;
  }
  template <int Words>
  CRK_FN static void multiply(const operand<Words> &w, const operand<Words> &x, int32_t (&product)[at_once]) {
    product[0] = 0;
    CRK_UNROLL
    for (int i = 0; i < Words / 4; i++) {
      product[0] = dot16(w.codes[i], x.codes[i], product[0]);
    }
  }
};

#if CRK_MATRIX_CORES
/* By matrix cores: each wave a part of the tile, in squares of 16. tile_products is this where the GPU has them. */
template <int Rows, int Columns, int Threads>
struct matrix_products {
  static constexpr int waves = Threads / static_cast<int>(wave_size()), down = waves >= 4 ? waves / 2 : waves;
  enum {
    at_once = matrix_core::results,
    height = Rows / down / 16,
    width = Columns / (waves / down) / 16,
    codes = matrix_core::codes
  };
  static_assert(Rows % (16 * down) == 0 && Columns % (waves / down * 16) == 0, "waves share evenly");
  uint32_t first_row, first_column;

  CRK_FN matrix_products() {
    const uint32_t wave = thread_in_block() / wave_size();
    first_row = wave % down * (16 * height);
    first_column = wave / down * (16 * width) + lane() % 16;
  }
  CRK_FN uint32_t row(int i, int r) const { return first_row + 16 * i + matrix_core::result_row(r); }
  CRK_FN uint32_t column(int j) const { return first_column + 16 * j; }
  CRK_FN uint32_t operand_row(int i) const { return first_row + 16 * i + lane() % 16; }
  CRK_FN uint32_t operand_column(int j) const { return column(j); }

  /* Fewer codes than an instruction takes: the lanes of the others have zeros. */
  template <int Words>
  struct operand {
    static constexpr bool whole = 4 * Words >= codes;
    matrix_core::operand parts[whole ? 4 * Words / codes : 1];
  };
  template <int Words>
  CRK_FN static operand<Words> load(const uint32_t *from) {
    using part = matrix_core::operand;
    operand<Words> loaded;
    const uint32_t first = matrix_core::first_word();
    if constexpr (operand<Words>::whole) {
      CRK_UNROLL
      for (int i = 0; i < 4 * Words / codes; i++) {
        loaded.parts[i] = *static_cast<const part *>(static_cast<const void *>(from + i * (codes / 4) + first));
      }
    } else {
      const part some = *static_cast<const part *>(static_cast<const void *>(from + first % Words));
      loaded.parts[0] = first < Words ? some : part(0);
    }
    return loaded;
  }
  template <int Words>
  CRK_FN static void multiply(const operand<Words> &w, const operand<Words> &x, int32_t (&product)[at_once]) {
    matrix_results sum = 0;
    CRK_UNROLL
    for (int i = 0; i < static_cast<int>(sizeof(w.parts) / sizeof(*w.parts)); i++) {
      sum = matrix_core::multiply(w.parts[i], x.parts[i], sum);
    }
    CRK_UNROLL
    for (int r = 0; r < at_once; r++) {
      product[r] = sum[r];
    }
  }
};
template <int Rows, int Columns, int Threads, int>
using tile_products = matrix_products<Rows, Columns, Threads>;
#else
template <int Rows, int Columns, int Threads, int Down>
using tile_products = dot_products<Rows, Columns, Threads, Down>;
#endif

}  // namespace crk

#endif
