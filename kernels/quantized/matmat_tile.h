/* A tile of a product of quantized weights with many columns (matmat.h): what it holds in shared memory, and how a
 * format's scale, zero and minimum enter the product. matmat_load.h fills it, matmat_multiply.h multiplies it.
 *
 * A tile holds a step along k: 128 elements of its rows and of its columns. That is one mmq block of each column, and
 * four pieces of each row in every format. */
#ifndef CRK_MATMAT_TILE_H
#define CRK_MATMAT_TILE_H

#include "quantized/matrix.h"
#include "quantized/mmq.h"
#include "quantized/quant_dot.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

enum {
  step_pieces = 4,
  step_quarters = 4, /* of 32 elements each */
  first_code = 4 /* number of words before a column's codes */
};
static_assert(dot_stride >= CRK_MMQ_WORDS && column_stride >= CRK_MMQ_WORDS, "a column's room holds an mmq block");

/* These structs say how a format's scale, zero and minimum enter the product. `launched` is for the launchers' kernels,
 * `by_name` for Candle's. Members:
 *
 *   layout          layout of the words before a column's codes
 *   subtracts_zero  zeros are subtracted from the codes; if false, a zero counts as the minimum -zero * scale
 *   narrow_scales   scales and minima are rounded to f16, as in Candle's mmq kernels
 *   row_stride, column_stride   words from a row, or a column, to the next one (quantized/matrix.h)
 *   sums_codes      a minimum is multiplied with d times the sum of the codes; if false, with s, if the layout has
 *                 it */
template <class B>
struct launched {
  static constexpr mmq layout = mmq_of<B>;
  static constexpr bool subtracts_zero = true, sums_codes = false;
  static constexpr bool narrow_scales = quant<B>::has_minimum && block_elements<B> == 256;
  static constexpr uint32_t row_stride = crk::row_stride, column_stride = crk::column_stride;
};
template <class B>
struct by_name {
  static constexpr mmq layout = mmq::DS4;
  static constexpr bool subtracts_zero = !quant<B>::mat_by_values, sums_codes = !quant<B>::mat_by_values;
  static constexpr bool narrow_scales = false;
  static constexpr uint32_t row_stride = dot_stride, column_stride = dot_stride;
};

/* A tile in shared memory: `Rows` rows of weights and `Columns` columns of activations. */
template <class B, class Terms_, int Rows, int Columns>
struct tile {
  using Q = quant<B>;
  using Terms = Terms_;
  /* A group of 32 elements has one scale, or two scales of 16 elements each. */
  static constexpr int parts = block_elements<B> == 32 || mmq_of<B> == mmq::DS4 ? 1 : 2, scales = step_quarters * parts;
  static constexpr int rows = Rows, count = Columns;
  static constexpr uint32_t row_stride = Terms::row_stride, column_stride = Terms::column_stride;
  static constexpr bool has_rest = Q::has_minimum || (!Terms::subtracts_zero && static_cast<int>(Q::zero) != 0);
  /* Words from a scale of all rows to the next. 8 more words spread the scales of a row over the banks. */
  static constexpr uint32_t pitch = Rows + 8;
  static constexpr uint32_t words = Rows * row_stride + Columns * column_stride + (has_rest ? 2 : 1) * scales * pitch;
  uint32_t *weights; /* [Rows][row_stride]: codes */
  uint32_t *columns; /* [Columns][column_stride]: mmq blocks */
  float *scale, *minimum; /* [scales][pitch]: of each row, in the order of Products::place */

  CRK_FN explicit tile(uint32_t *room)
      : weights(room),
        columns(room + Rows * row_stride),
        scale(reinterpret_cast<float *>(columns + Columns * column_stride)),
        minimum(scale + scales * pitch) {}
};

/* Whether a thread has 64 sums of a wide tile (CRK_MMQ_WIDE_TILES) and, without asynchronous copies, the next step too:
 * then few registers are left. */
template <class T, class Copies = async_copies>
inline constexpr bool is_wide = T::rows * T::count > 128 * 64 && !Copies::present;

template <class Terms>
CRK_FN float scale_of(float x) {
  return Terms::narrow_scales ? static_cast<float>(f16(x)) : x;
}

/* Clamps an index to below `count`, at least 1. Beyond the end, the last row or column is loaded again, and its results
 * are not stored. */
CRK_FN uint32_t within(uint32_t i, uint32_t count) { return i < count - 1 ? i : count - 1; }

/* Quarters of the step that begins with piece `step` of a row. Blocks of 256 are two whole steps. With blocks of 32 the
 * last step may reach beyond the row. */
template <class B>
CRK_FN int quarters_of(uint32_t step, uint32_t pieces) {
  return quant<B>::pieces == 1 && step + step_quarters > pieces ? static_cast<int>(pieces - step) : step_quarters;
}

}  // namespace
}  // namespace crk

#endif
