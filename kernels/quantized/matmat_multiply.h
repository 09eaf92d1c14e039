/* Multiplies the rows and the columns of a tile in shared memory (matmat_tile.h), and keeps the thread's sums. The
 * codes are multiplied in integers (matrix.h); scales are applied in f32 to the sum of each 32 or 16 products. Minima
 * are added in f32 after them, or by matrix cores once per step. */
#ifndef CRK_MATMAT_MULTIPLY_H
#define CRK_MATMAT_MULTIPLY_H

#include "quantized/matmat_tile.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* x, as a number that is in a register. RDNA else multiplies with the half in place of x, by an instruction that it
 * does not issue together with another. */
CRK_FN float converted(float x) { return bit_cast<float>(opaque(bit_cast<uint32_t>(x))); }

/* For 32 elements of a column: d, and for each part the factor of the minimum. */
template <class T>
CRK_FN void read_terms(const uint32_t *column, int quarter, float &d, float (&rest)[T::parts]) {
  using Terms = typename T::Terms;
  const uint32_t *codes = column + first_code + 8 * quarter;
  bool of_codes = T::has_rest && Terms::sums_codes;
  if constexpr (Terms::layout == mmq::D4) {
    d = bit_cast<float>(column[quarter]);
  } else if constexpr (Terms::layout == mmq::DS4) {
    const uint32_t word = column[quarter];
    d = converted(f16_low(word));
    rest[0] = converted(f16_high(word));
  } else {
    d = converted(f16_low(column[0] >> (quarter < 2 ? 0 : 16)));
    of_codes = quarter == 3;
    const uint32_t sums = column[of_codes ? 0 : 1 + quarter];
    rest[0] = converted(f16_low(sums));
    rest[T::parts - 1] = converted(f16_high(sums));
  }
  if (of_codes) {
    CRK_UNROLL
    for (int p = 0; p < T::parts; p++) {
      int32_t sum = 0;
      CRK_UNROLL
      for (int h = 0; h < 2 / T::parts; h++) {
        sum += sum16(load_aligned16(codes + 4 * (p * T::parts / 2 + h)));
      }
      rest[p] = d * static_cast<float>(sum);
    }
  }
}

/* The thread's part of a tile: [i * tall + r][j * wide + c] is row (i, r), column (j, c). */
template <class Products>
using sums = float[Products::height * Products::tall][Products::width * Products::wide];

template <class Products>
CRK_FN void clear(sums<Products> &sum) {
  CRK_UNROLL
  for (int i = 0; i < Products::height * Products::tall; i++) {
    CRK_UNROLL
    for (int j = 0; j < Products::width * Products::wide; j++) {
      sum[i][j] = 0.0f;
    }
  }
}

/* Numbers of `tall` rows, in pairs where the GPU may multiply pairs. RDNA does not: it issues two instructions as one
 * if their operands are in different registers, so there neighbouring instructions have different columns. */
template <int Tall>
struct numbers_of_rows {
  static constexpr int step = Tall == 2 || Tall == 4 ? 2 : 1;
  using type = choose<step == 2, float_pair, float>;
  CRK_FN static type join(float first, float second) {
    if constexpr (step == 2) {
      return pair_of(first, second);
    } else {
      return first;
    }
  }
  CRK_FN static type all(float x) { return join(x, x); }
  CRK_FN static type make(const float (&x)[Tall], int n) { return join(x[n * step], x[n * step + step - 1]); }
  CRK_FN static type scaled(const float (&x)[Tall], int n, float by) {
    return join(x[n * step] * by, x[n * step + step - 1] * by);
  }
  /* The f32 numbers behind sums that begin at sum_start, minus `less`. */
  template <int Wide>
  CRK_FN static type make(const int32_t (&x)[Tall][Wide], int n, int c, float less) {
    const float first = bit_cast<float>(x[n * step][c]), second = bit_cast<float>(x[n * step + step - 1][c]);
    return less == 0.0f ? join(first, second) : join(first - less, second - less);
  }
  template <int Down, int Across>
  CRK_FN static void add(float (&sum)[Down][Across], int row, int column, int n, type a, type b) {
    float &first = sum[row + n * step][column], &second = sum[row + n * step + step - 1][column];
    const type total = fma(a, b, join(first, second));
    if constexpr (step == 2) {
      first = total[0];
      second = total[1];
    } else {
      first = total;
    }
  }
  /* The rows that come at place n for the j-th column. */
  CRK_FN static constexpr int turn(int n, int j) { return step == 2 || Tall == 1 ? n : n ^ (j & 1); }
};

/* A number of a column, for the rows of a thread. With Twice, odd rows read a second register: RDNA issues no two
 * instructions as one that read the same register in the same place. */
template <bool Twice>
struct number_of_column {
  float even = 0.0f, odd = 0.0f;
  CRK_FN number_of_column() {}
  CRK_FN explicit number_of_column(float x) : even(x), odd(Twice ? converted(x) : x) {}
  CRK_FN float of_row(int n) const { return n % 2 == 0 ? even : odd; }
};

/* The numbers of a thread's rows, which follow each other in shared memory. */
template <int Tall>
CRK_FN pack<float, Tall> load_rows(const float *from) {
  struct alignas(Tall < 4 ? 4 * Tall : 16) rows : pack<float, Tall> {};
  return *static_cast<const rows *>(static_cast<const void *>(from));
}

/* Adds the products of quarter `quarter` of a step to the thread's part of the tile. */
template <class Products, class B, class Terms, int Rows, int Columns>
CRK_FN void multiply_quarter(const tile<B, Terms, Rows, Columns> &t, const Products &products, int quarter,
                             sums<Products> &sum) {
  using T = tile<B, Terms, Rows, Columns>;
  static_assert(T::row_stride == Products::row_stride && T::column_stride == Products::column_stride, "as the tile");
  constexpr int parts = T::parts, tall = Products::tall, wide = Products::wide;
  constexpr bool adds_rest = T::has_rest && !(Products::adds_fours && parts == 1);
  /* On RDNA the numbers that take float_start out of the products are computed before them: the compiler issues more of
   * these instructions in pairs there. With two parts there are no registers for them. */
  constexpr bool offsets_first = tall == 8 && parts == 1;
  using operand = typename Products::operand;
  using of_rows = numbers_of_rows<tall>;
  using numbers = typename of_rows::type;
  constexpr int together = tall == 8 && Products::width % 2 == 0 ? 2 : 1;
  using of_column = number_of_column<tall == 8 && together == 1>; /* else neighbours have different columns */
  const uint32_t *columns = t.columns + products.first_column * T::column_stride;
  const uint32_t *column_codes = t.columns + first_code + products.template column_word<parts>() + 8 * quarter;
  const uint32_t *row_codes = t.weights + products.template row_word<parts>() + 8 * quarter;
  const uint32_t first_scale = quarter * parts * T::pitch + products.first_place;
  operand x[Products::width];
  of_column d[Products::width][wide], rest[Products::width][wide][parts];
  CRK_UNROLL
  for (int j = 0; j < Products::width; j++) {
    CRK_UNROLL
    for (int c = 0; c < wide; c++) {
      float scale, of_minimum[parts] = {};
      read_terms<T>(columns + products.next_column(j, c) * T::column_stride, quarter, scale, of_minimum);
      d[j][c] = of_column(scale);
      CRK_UNROLL
      for (int p = 0; p < parts; p++) {
        rest[j][c][p] = of_column(of_minimum[p]);
      }
    }
    x[j] = Products::template load<parts>(column_codes + products.next_column(j, 0) * T::column_stride);
  }
  CRK_UNROLL
  for (int i = 0; i < Products::height; i++) {
    if (is_wide<T>) {
      keep_order(); /* else the operands of all i would be loaded at once */
    }
    const operand w = Products::template load<parts>(row_codes + products.next_row(i, 0) * T::row_stride);
    pack<float, tall> scale[parts], minimum[parts];
    CRK_UNROLL
    for (int p = 0; p < parts; p++) {
      const uint32_t at = first_scale + p * T::pitch + products.next_row(i, 0);
      scale[p] = load_rows<tall>(t.scale + at);
      if (adds_rest) {
        minimum[p] = load_rows<tall>(t.minimum + at);
      }
    }
    numbers offset[tall / of_rows::step];
    if (offsets_first) {
      CRK_UNROLL
      for (int n = 0; n < tall / of_rows::step; n++) {
        offset[n] = of_rows::scaled(scale[0].v, n, -float_start);
      }
      keep_order();
    }
    CRK_UNROLL
    for (int first_j = 0; first_j < Products::width; first_j += together) {
      int32_t product[together][parts][tall][wide];
      numbers part[together][tall / of_rows::step][wide];
      CRK_UNROLL
      for (int j = 0; j < together; j++) {
        products.template multiply<parts>(w, x[first_j + j], product[j]);
      }
      CRK_UNROLL
      for (int j = 0; j < together; j++) {
        CRK_UNROLL
        for (int n = 0; n < tall / of_rows::step; n++) {
          const numbers first = of_rows::make(scale[0].v, n);
          const numbers start = offsets_first ? offset[n] : of_rows::scaled(scale[0].v, n, -float_start);
          CRK_UNROLL
          for (int c = 0; c < wide; c++) {
            part[j][n][c] = fma(first, of_rows::make(product[j][0], n, c, 0.0f), start);
            if (parts == 2) {
              part[j][n][c] = fma(of_rows::make(scale[parts - 1].v, n),
                                  of_rows::make(product[j][parts - 1], n, c, float_start), part[j][n][c]);
            }
          }
        }
      }
      CRK_UNROLL
      for (int c = 0; c < wide; c++) {
        CRK_UNROLL
        for (int n = 0; n < tall / of_rows::step; n++) {
          CRK_UNROLL
          for (int j = 0; j < together; j++) {
            const int at = of_rows::turn(n, j);
            of_rows::add(sum, i * tall, (first_j + j) * wide + c, at, of_rows::all(d[first_j + j][c].of_row(at)),
                         part[j][at][c]);
          }
        }
        CRK_UNROLL
        for (int p = 0; p < (adds_rest ? parts : 0); p++) {
          CRK_UNROLL
          for (int n = 0; n < tall / of_rows::step; n++) {
            CRK_UNROLL
            for (int j = 0; j < together; j++) {
              const int at = of_rows::turn(n, j);
              of_rows::add(sum, i * tall, (first_j + j) * wide + c, at, of_rows::make(minimum[p].v, at),
                           of_rows::all(rest[first_j + j][c][p].of_row(at)));
            }
          }
        }
      }
    }
  }
}

#if CRK_MATRIX_FOURS
/* Adds the minima of a step, times the s of its columns: a product with one number per quarter along k. */
template <class Products, class B, class Terms, int Rows, int Columns>
CRK_FN void multiply_minima(const tile<B, Terms, Rows, Columns> &t, const Products &products, int quarters,
                            sums<Products> &sum) {
  using T = tile<B, Terms, Rows, Columns>;
  constexpr int tall = Products::tall, wide = Products::wide, fours = matrix_core::fours;
  const uint32_t quarter = matrix_core::four();
  const bool there = static_cast<int>(quarter) < quarters;
  float s[Products::width][fours];
  CRK_UNROLL
  for (int j = 0; j < Products::width; j++) {
    CRK_UNROLL
    for (int n = 0; n < fours; n++) {
      const uint32_t word = t.columns[(products.fours_column(n) + 16 * j) * T::column_stride + quarter];
      s[j][n] = there ? f16_high(word) : 0.0f;
    }
  }
  CRK_UNROLL
  for (int i = 0; i < Products::height; i++) {
    float minimum[fours];
    CRK_UNROLL
    for (int n = 0; n < fours; n++) {
      minimum[n] = t.minimum[quarter * T::pitch + products.fours_place(n) + 16 * i];
      minimum[n] = there ? minimum[n] : 0.0f;
    }
    CRK_UNROLL
    for (int j = 0; j < Products::width; j++) {
      float part[tall][wide];
      CRK_UNROLL
      for (int r = 0; r < tall * wide; r++) {
        part[r / wide][r % wide] = sum[i * tall + r / wide][j * wide + r % wide];
      }
      matrix_core::add_fours(minimum, s[j], part);
      CRK_UNROLL
      for (int r = 0; r < tall * wide; r++) {
        sum[i * tall + r / wide][j * wide + r % wide] = part[r / wide][r % wide];
      }
    }
  }
}
template <class Products, class T>
CRK_FN void multiply_rest(const T &t, const Products &products, int quarters, sums<Products> &sum) {
  if constexpr (Products::adds_fours && T::has_rest && T::parts == 1) {
    if (!Products::some_idle || !products.is_idle) {
      multiply_minima(t, products, quarters, sum);
    }
  }
}
#else
template <class Products, class T>
CRK_FN void multiply_rest(const T &, const Products &, int, sums<Products> &) {}
#endif

/* Adds the products of quarters `first` to `last` - 1 of a step, apart from the minima that multiply_rest adds. */
template <class Products, class T>
CRK_FN void multiply_quarters(const T &t, const Products &products, int first, int last, sums<Products> &sum) {
  if (Products::some_idle && products.is_idle) {
    return;
  }
  /* With one square per wave, all quarters are unrolled: their places in shared memory are then a part of the
   * instructions. RDNA has too few registers for two scales per quarter, and for wider tiles. */
  if constexpr (Products::height * Products::width == 1 && Products::tall != 8) {
    if (first == 0 && last == step_quarters) {
      CRK_UNROLL
      for (int quarter = 0; quarter < step_quarters; quarter++) {
        multiply_quarter(t, products, quarter, sum);
      }
      return;
    }
  } else if constexpr (Products::height * Products::width == 1 && T::parts == 1 && T::count == 16) {
    /* In order: else RDNA issues fewer instructions in pairs. With conditions, the sums keep their registers. */
    CRK_UNROLL
    for (int quarter = 0; quarter < step_quarters; quarter++) {
      keep_order();
      if (first <= quarter && quarter < last) {
        multiply_quarter(t, products, quarter, sum);
      }
    }
    return;
  }
  CRK_NO_UNROLL
  for (int quarter = first; quarter < last; quarter++) {
    multiply_quarter(t, products, quarter, sum);
  }
}

}  // namespace
}  // namespace crk

#endif
