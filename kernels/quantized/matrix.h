/* The innermost part of products of quantized matrices (matmat.h). It multiplies rows of 8-bit codes with columns of
 * 8-bit codes, both in shared memory, and says which products a thread computes. tile_products is the implementation
 * for the GPU: matrix_products if it has matrix cores, else dot_products.
 *
 * A tile has Rows rows and Columns columns of codes, row_stride and column_stride words apart. A thread has
 * height * tall rows: first_row + next_row(i, r), for i below height and r below tall. It has width * wide columns:
 * first_column + next_column(j, c), for j below width and c below wide. If some_idle is true, threads with is_idle have
 * none.
 *
 * place(row) is an order of the tile's rows in which the `tall` rows of each i follow each other, from place
 * first_place + next_row(i, 0) on.
 *
 * For each i and each j it loads an operand of 32 codes, with one sum or with a sum of each 16 (Parts 1 or 2). The
 * operand of i begins at word row_word() + next_row(i, 0) * row_stride of the rows. The operand of j begins at word
 * column_word() + next_column(j, 0) * column_stride of the columns. `multiply` makes Parts * tall * wide products of
 * two operands. All threads of a wave must call it, because one matrix-core instruction may make the products of the
 * whole wave. */
#ifndef CRK_MATRIX_H
#define CRK_MATRIX_H

#include "numbers/dot.h"
#include "numbers/wave.h"

namespace crk {

/* Sums of products start at the bits of the f32 number 1.5 * 2^23. Read as an f32, such a sum is float_start plus the
 * integer sum, exactly if that is below 2^22. So no conversion is needed. If a scale has at most 22 bits, fma(scale,
 * that f32, -scale * float_start) rounds only once. */
inline constexpr int32_t sum_start = 0x4b400000;
inline constexpr float float_start = 12582912.0f;

/* Words from one row, or column, to the next in shared memory, for dot_products: 128 codes, and 4 words that spread the
 * rows over the banks. */
inline constexpr uint32_t dot_stride = 36;

/* Products by dot products of four codes; each thread computes its own. `Down` threads have different rows, the others
 * different columns. */
template <int Rows, int Columns, int Threads, int Down>
struct dot_products {
  enum { threads = Threads, tall = 1, wide = 1, height = Rows / Down, width = Columns / (Threads / Down) };
  static constexpr bool adds_fours = false, some_idle = false, is_idle = false;
  static constexpr uint32_t row_stride = dot_stride, column_stride = dot_stride;
  static_assert(Rows % Down == 0 && Threads % Down == 0 && Columns % (Threads / Down) == 0, "threads share evenly");
  uint32_t first_row, first_place, first_column;

  CRK_FN explicit dot_products(uint32_t thread)
      : first_row(thread % Down), first_place(thread % Down), first_column(thread / Down) {}
  CRK_FN static constexpr uint32_t next_row(int i, int) { return i * Down; }
  CRK_FN static constexpr uint32_t next_column(int j, int) { return j * (Threads / Down); }
  CRK_FN static constexpr uint32_t place(uint32_t row) { return row; }
  template <int>
  CRK_FN uint32_t row_word() const {
    return first_row * row_stride;
  }
  template <int>
  CRK_FN uint32_t column_word() const {
    return first_column * column_stride;
  }

  struct operand {
    codes16 codes[2];
  };
  template <int>
  CRK_FN static operand load(const uint32_t *codes) {
    return {{load_aligned16(codes), load_aligned16(codes + 4)}};
  }
  template <int Parts>
  CRK_FN void multiply(const operand &w, const operand &x, int32_t (&sum)[Parts][tall][wide]) const {
    sum[0][0][0] = dot16<true>(w.codes[0], x.codes[0], sum_start);
    sum[Parts - 1][0][0] = dot16<true>(w.codes[1], x.codes[1], Parts == 1 ? sum[0][0][0] : sum_start);
  }
};

#if CRK_MATRIX_CORES
/* Waves of a block that have different rows. A wave's part of a large tile is wider than tall in squares if a lane has
 * 8 rows of a square: then scales take as many loads as codes do, and serve all columns of the wave. With two scales
 * per row, a lane has too few registers for the codes of that many columns. */
constexpr int waves_down(int rows, int columns, int waves, int parts) {
  return columns == 16                                                                   ? waves
         : matrix_core::tall == 8 && parts == 1 && rows * columns == 8 * waves * 16 * 16 ? rows / 32
                                                                                         : waves * rows / columns / 4;
}

/* Products by matrix cores: each wave has a part of the tile, in squares of 16 x 16. If there are more waves than
 * squares, the last waves have none: so a sum is added in one order in tiles of all sizes. */
template <int Rows, int Columns, int Threads, int Parts>
struct matrix_products {
  static constexpr int all_waves = Threads / static_cast<int>(wave_size()), squares = Rows / 16 * (Columns / 16),
                       waves = all_waves < squares ? all_waves : squares,
                       down = waves_down(Rows, Columns, waves, Parts), across = waves / down;
  enum {
    threads = Threads,
    tall = matrix_core::tall,
    wide = matrix_core::wide,
    height = Rows / down / 16,
    width = Columns / across / 16
  };
  static constexpr bool adds_fours = matrix_core::adds_fours, some_idle = waves < all_waves;
  static constexpr uint32_t row_stride = matrix_core::row_stride, column_stride = matrix_core::column_stride;
  static_assert(Rows % (16 * down) == 0 && waves == down * across && Columns % (across * 16) == 0,
                "waves share evenly");
  uint32_t wave_row, wave_column, first_row, first_place, first_column;
  bool is_idle;
  matrix_core::start start;

  CRK_FN explicit matrix_products(uint32_t thread) : start(matrix_core::start_of(sum_start)) {
    const uint32_t wave = uniform(thread / wave_size());
    is_idle = some_idle && wave >= static_cast<uint32_t>(waves);
    wave_row = wave % down * (16 * height);
    wave_column = wave / down % across * (16 * width);
    first_row = wave_row + matrix_core::first_row();
    first_place = wave_row + matrix_core::place(matrix_core::first_row());
    first_column = wave_column + matrix_core::first_column();
  }
  CRK_FN static constexpr uint32_t next_row(int i, int r) { return 16 * i + matrix_core::next_row(r); }
  CRK_FN static constexpr uint32_t next_column(int j, int c) { return 16 * j + matrix_core::next_column(c); }
  CRK_FN static constexpr uint32_t place(uint32_t row) { return row / 16 * 16 + matrix_core::place(row % 16); }
  template <int>
  CRK_FN uint32_t row_word() const {
    return wave_row * row_stride + matrix_core::row_word<Parts>(row_stride);
  }
  template <int>
  CRK_FN uint32_t column_word() const {
    return wave_column * column_stride + matrix_core::column_word<Parts>(column_stride);
  }

  using operand = matrix_core::operand;
  template <int>
  CRK_FN static operand load(const uint32_t *codes) {
    return matrix_core::load<Parts>(codes);
  }
  template <int>
  CRK_FN void multiply(const operand &w, const operand &x, int32_t (&sum)[Parts][tall][wide]) const {
    matrix_core::multiply<Parts>(w, x, start, sum);
  }
#if CRK_MATRIX_FOURS
  /* The place of row n, and column n, of a lane in add_fours, of the squares with i and j 0. */
  CRK_FN uint32_t fours_place(int n) const {
    return wave_row + matrix_core::place(matrix_core::fours_place(static_cast<uint32_t>(n)));
  }
  CRK_FN uint32_t fours_column(int n) const { return wave_column + matrix_core::fours_place(static_cast<uint32_t>(n)); }
#endif
};
template <int Rows, int Columns, int Threads, int, int Parts>
using tile_products = matrix_products<Rows, Columns, Threads, Parts>;
/* The strides of tile_products, which do not depend on the tile. */
inline constexpr uint32_t row_stride = matrix_core::row_stride, column_stride = matrix_core::column_stride;
#else
template <int Rows, int Columns, int Threads, int Down, int>
using tile_products = dot_products<Rows, Columns, Threads, Down>;
inline constexpr uint32_t row_stride = dot_stride, column_stride = dot_stride;
#endif

}  // namespace crk

#endif
