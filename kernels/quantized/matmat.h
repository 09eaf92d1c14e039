/* Products of quantized weights with many columns of activations, through tiles in shared memory. mul_mat has Candle's
 * arguments, and its columns are q8_1 blocks. mul_mat_mmq is for the launchers, and its columns are mmq blocks.
 * matvec.h and matvec_tile.h are for up to eight columns.
 *
 * A step along k is 128 elements: one mmq block of each column, and four pieces of each row in every format. A block of
 * threads loads a step of both operands to shared memory. On the way it unpacks the weights, once for all columns of
 * the tile, to 8-bit codes and scales. The codes are multiplied in integers (matrix.h); scales are applied in f32 to
 * the sum of each 32 or 16 products. */
#ifndef CRK_MATMAT_H
#define CRK_MATMAT_H

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
static_assert(tile_stride == CRK_MMQ_WORDS, "a column in shared memory is an mmq block");

/* These structs say how a format's scale, zero and minimum enter the product. `launched` is for the launchers' kernels,
 * `by_name` for Candle's. Members:
 *
 *   layout          layout of the words before a column's codes
 *   subtracts_zero  zeros are subtracted from the codes; if false, a zero counts as the minimum -zero * scale
 *   narrow_scales   scales and minima are rounded to f16, as in Candle's mmq kernels
 *   sums_codes      a minimum is multiplied with d times the sum of the codes; if false, with s, if the layout has it
 *   loads           number of pieces that a thread loads at once
 *   thread()        number of this thread in its block */
template <class B>
struct launched {
  static constexpr mmq layout = mmq_of<B>;
  static constexpr bool subtracts_zero = true, sums_codes = false;
  static constexpr int loads = 2;
  static constexpr bool narrow_scales = quant<B>::has_minimum && block_elements<B> == 256;
  CRK_FN static uint32_t thread() { return thread_index().x; }
};
template <class B>
struct by_name {
  static constexpr mmq layout = mmq::DS4;
  static constexpr bool subtracts_zero = !quant<B>::mat_by_values, sums_codes = !quant<B>::mat_by_values;
  static constexpr int loads = 1;
  static constexpr bool narrow_scales = false;
  CRK_FN static uint32_t thread() { return thread_in_block(); }
};

/* A tile in shared memory: `Rows` rows of weights and `Columns` columns of activations. */
template <class B, class Terms_, int Rows, int Columns>
struct tile {
  using Q = quant<B>;
  using Terms = Terms_;
  /* A group of 32 elements has one scale, or two scales of 16 elements each. */
  static constexpr int parts = block_elements<B> == 32 || mmq_of<B> == mmq::DS4 ? 1 : 2, scales = step_quarters * parts;
  static constexpr bool has_rest = Q::has_minimum || (!Terms::subtracts_zero && static_cast<int>(Q::zero) != 0);
  uint32_t *weights; /* [Rows][tile_stride]: codes */
  uint32_t *columns; /* [Columns][tile_stride]: mmq blocks */
  float *scale, *minimum; /* [Rows][scales] */
};

template <class Terms>
CRK_FN float scale_of(float x) {
  return Terms::narrow_scales ? static_cast<float>(f16(x)) : x;
}

/* Clamps an index to below `count`. Beyond the end, the last row or column is loaded again, and its results are not
 * stored. */
CRK_FN uint32_t within(uint32_t i, uint32_t count) { return i < count ? i : count - 1; }

/* Loads a step of the weights to the tile. The weights are `rows` rows, at least one, `stride` blocks apart. The step
 * begins with piece `step` of the `pieces` of a row. A thread loads Terms::loads pieces before it stores any, so that
 * their latencies overlap. */
template <int Threads, class B, class Terms, int Rows, int Columns>
CRK_FN void load_weights(const tile<B, Terms, Rows, Columns> &t, const B *weights, uint64_t stride, uint32_t rows,
                         uint32_t step, uint32_t pieces) {
  using T = tile<B, Terms, Rows, Columns>;
  using Q = typename T::Q;
  constexpr int zero = static_cast<int>(Q::zero);
  constexpr int next_row = Threads / step_pieces, all = Rows / next_row,
                at_once = Terms::loads < all ? Terms::loads : all;
  static_assert(Rows % (at_once * next_row) == 0, "threads share evenly");
  const uint32_t place = Terms::thread() % step_pieces;
  const uint32_t p = within(step + place, pieces);
  const piece_place part = place_of_piece(p % Q::pieces);
  /* Number of the piece's first half in the tile. Blocks of 32 follow each other; a tile has half of a block of 256. */
  const uint32_t first = Q::pieces == 1 ? 2 * place : Q::first(part) % (2 * step_quarters);
  CRK_NO_UNROLL
  for (uint32_t row = Terms::thread() / step_pieces; row < Rows; row += at_once * next_row) {
    piece loaded[at_once];
    CRK_UNROLL
    for (int n = 0; n < at_once; n++) {
      loaded[n] = Q::load(block_bytes{weights + within(row + n * next_row, rows) * stride + p / Q::pieces}, part);
    }
    CRK_UNROLL
    for (int n = 0; n < at_once; n++) {
      const piece &w = loaded[n];
      const uint32_t r = row + n * next_row;
      CRK_UNROLL
      for (int h = 0; h < 2; h++) {
        const uint32_t half = first + h * Q::distance;
        store_pack(t.weights + r * tile_stride + 4 * half,
                   Terms::subtracts_zero ? subtract<zero>(w.code[h]) : w.code[h]);
        if (T::parts == 2 || half % 2 == 0) {
          const uint32_t at = r * T::scales + half * T::parts / 2;
          t.scale[at] = scale_of<Terms>(w.whole_scale(h));
          if (T::has_rest) {
            t.minimum[at] = Q::has_minimum ? scale_of<Terms>(w.whole_minimum(h)) : -zero * w.whole_scale(h);
          }
        }
      }
    }
  }
}

/* The mmq blocks of `columns` columns, at least one, which follow each other in memory. The constructor loads them to
 * registers, put() stores them in the tile. */
template <int Threads, int Columns>
struct loaded_blocks {
  static constexpr uint32_t packs = CRK_MMQ_WORDS / 4;
  static constexpr int loads = (Columns * packs + Threads - 1) / Threads;
  pack<uint32_t, 4> words[loads];

  CRK_FN loaded_blocks(const uint32_t *blocks, uint32_t columns) {
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      words[n] = load_pack<uint32_t, 4>(blocks + 4 * within(thread_index().x + n * Threads, columns * packs));
    }
  }
  template <class T>
  CRK_FN void put(const T &t) const {
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      const uint32_t i = thread_index().x + n * Threads;
      if (i < Columns * packs) {
        store_pack(t.columns + 4 * i, words[n]);
      }
    }
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
      uint32_t *column = t.columns + c * tile_stride;
      column[quarter] = load_pack<uint32_t, 1>(reinterpret_cast<const uint32_t *>(block)).v[0];
      store_pack(column + first_code + 8 * quarter, load_words<4>(block->qs));
      store_pack(column + first_code + 8 * quarter + 4, load_words<4>(block->qs + 16));
    }
  }
};

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
    d = f16_low(word);
    rest[0] = f16_high(word);
  } else {
    d = f16_low(column[0] >> (quarter < 2 ? 0 : 16));
    of_codes = quarter == 3;
    const uint32_t sums = column[of_codes ? 0 : 1 + quarter];
    rest[0] = f16_low(sums);
    rest[T::parts - 1] = f16_high(sums);
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

/* Adds the products of the first `quarters` quarters of a step to the thread's part of the tile. */
template <class Products, class B, class Terms, int Rows, int Columns>
CRK_FN void multiply_tile(const tile<B, Terms, Rows, Columns> &t, const Products &products, int quarters,
                          sums<Products> &sum) {
  using T = tile<B, Terms, Rows, Columns>;
  constexpr int parts = T::parts, words = 8 / parts, tall = Products::tall, wide = Products::wide;
  using operand = typename Products::template operand<words>;
  const uint32_t *columns = t.columns + products.first_column * tile_stride;
  const uint32_t *column_codes = t.columns + first_code + products.template column_word<words>();
  const uint32_t *row_codes = t.weights + products.template row_word<words>();
  const float *scales = t.scale + products.first_row * T::scales, *minima = t.minimum + products.first_row * T::scales;
  CRK_NO_UNROLL
  for (int quarter = 0; quarter < quarters; quarter++) {
    operand x[Products::width][parts];
    float d[Products::width][wide], rest[Products::width][wide][parts];
    CRK_UNROLL
    for (int j = 0; j < Products::width; j++) {
      CRK_UNROLL
      for (int c = 0; c < wide; c++) {
        read_terms<T>(columns + products.next_column(j, c) * tile_stride, quarter, d[j][c], rest[j][c]);
      }
      CRK_UNROLL
      for (int p = 0; p < parts; p++) {
        x[j][p] = Products::template load<words>(column_codes + products.next_column(j, 0) * tile_stride + 8 * quarter +
                                                 p * words);
      }
    }
    CRK_UNROLL
    for (int i = 0; i < Products::height; i++) {
      operand w[parts];
      float scale[parts][tall], minimum[parts][tall];
      CRK_UNROLL
      for (int p = 0; p < parts; p++) {
        w[p] =
            Products::template load<words>(row_codes + products.next_row(i, 0) * tile_stride + 8 * quarter + p * words);
        CRK_UNROLL
        for (int r = 0; r < tall; r++) {
          const uint32_t at = products.next_row(i, r) * T::scales + quarter * parts + p;
          scale[p][r] = scales[at];
          minimum[p][r] = T::has_rest ? minima[at] : 0.0f;
        }
      }
      CRK_UNROLL
      for (int j = 0; j < Products::width; j++) {
        int32_t product[parts][tall][wide];
        CRK_UNROLL
        for (int p = 0; p < parts; p++) {
          Products::template multiply<words>(w[p], x[j][p], product[p]);
        }
        CRK_UNROLL
        for (int r = 0; r < tall; r++) {
          const float offset = -scale[0][r] * float_start;
          CRK_UNROLL
          for (int c = 0; c < wide; c++) {
            float &total = sum[i * tall + r][j * wide + c];
            float part = fma(scale[0][r], bit_cast<float>(product[0][r][c]), offset);
            if (parts == 2) {
              part = fma(scale[parts - 1][r], bit_cast<float>(product[parts - 1][r][c]) - float_start, part);
            }
            total = fma(d[j][c], part, total);
            CRK_UNROLL
            for (int p = 0; p < parts && T::has_rest; p++) {
              total = fma(minimum[p][r], rest[j][c][p], total);
            }
          }
        }
      }
    }
  }
}

/* min(Most, end - first), 0 if `first` is beyond `end`. */
template <int Most>
CRK_FN uint32_t left_of(uint64_t first, uint64_t end) {
  const uint64_t left = first < end ? end - first : 0;
  return left < Most ? static_cast<uint32_t>(left) : Most;
}

/* Computes the thread's part of a tile: `rows` rows of weights times the columns that load(step) returns. The returned
 * object's put() stores a step of columns in the tile. */
template <class Products, class B, class Terms, int Rows, int Columns, class Load>
CRK_FN void make_tile(const tile<B, Terms, Rows, Columns> &t, const Products &products, const B *weights,
                      uint64_t weight_stride, uint32_t row_blocks, uint32_t rows, Load load, sums<Products> &sum) {
  const uint32_t pieces = row_blocks * quant<B>::pieces;
  CRK_UNROLL
  for (int i = 0; i < Products::height * Products::tall; i++) {
    CRK_UNROLL
    for (int j = 0; j < Products::width * Products::wide; j++) {
      sum[i][j] = 0.0f;
    }
  }
  CRK_NO_UNROLL
  for (uint32_t step = 0; step < pieces; step += step_pieces) {
    /* Blocks of 256 are two whole steps. With blocks of 32 the last step may reach beyond the row. */
    int quarters = step_quarters;
    if (quant<B>::pieces == 1) {
      quarters = static_cast<int>(left_of<step_quarters>(step, pieces));
    }
    const auto columns = load(step);
    load_weights<Products::threads>(t, weights, weight_stride, rows, step, pieces);
    columns.put(t);
    barrier();
    multiply_tile(t, products, quarters, sum);
    barrier();
  }
}

/* Stores the thread's part of a tile as T. `to` is the tile's first element; it has `rows` rows and `columns` columns,
 * `stride` elements apart. */
template <class Products, class T>
CRK_FN void store_tile(const Products &products, const sums<Products> &sum, T *to, uint64_t stride, uint32_t rows,
                       uint32_t columns) {
  CRK_UNROLL
  for (int j = 0; j < Products::width * Products::wide; j++) {
    const uint32_t c = products.first_column + products.next_column(j / Products::wide, j % Products::wide);
    T *column = to + c * stride;
    CRK_UNROLL
    for (int i = 0; i < Products::height * Products::tall; i++) {
      /* The comparison is repeated per column: keeping its results would take more scalar registers than there are. */
      const uint32_t at = products.first_row + products.next_row(i / Products::tall, i % Products::tall);
      if (c < columns && opaque(at) < rows) {
        column[at] = convert<T>(sum[i][j]);
      }
    }
  }
}

/* Declares a tile's shared memory. */
#define CRK_TILE(name, B, Terms, Rows, Columns)                                               \
  using name##_type = crk::tile<B, Terms, Rows, Columns>;                                     \
  CRK_SHARED(crk::aligned_codes16, name##_weights, (Rows) * crk::tile_stride / 4);            \
  CRK_SHARED(crk::aligned_codes16, name##_columns, (Columns) * crk::tile_stride / 4);         \
  CRK_SHARED(float, name##_scale, name##_type::scales *(Rows));                               \
  CRK_SHARED(float, name##_minimum, name##_type::has_rest ? name##_type::scales *(Rows) : 1); \
  const name##_type name = {reinterpret_cast<uint32_t *>(name##_weights),                     \
                            reinterpret_cast<uint32_t *>(name##_columns), name##_scale, name##_minimum}

/* With Candle's arguments and geometry. Block (x, y) of (32, 4) threads makes the rows from x * Rows on and the columns
 * from y * Columns on. It makes the columns in `Parts` parts, one after the other. The sums of all columns would not
 * fit in a thread's registers. A tile of 128 x 128 would not fit in the shared memory of every GPU. */
template <class B, int Rows, int Columns, int Parts>
CRK_FN void mul_mat(const void *weights, const void *activations, float *dst, int32_t cols, int32_t rows,
                    int32_t columns, int32_t padded_cols, int32_t dst_rows) {
  constexpr int width = Columns / Parts;
  using products_type = dot_products<Rows, width, 128, (Rows < 128 ? 8 : 16)>;
  CRK_TILE(t, B, by_name<B>, Rows, width);
  const products_type products(thread_in_block());
  const uint32_t row_blocks = cols / block_elements<B>, column_blocks = padded_cols / 32;
  const uint64_t row = static_cast<uint64_t>(block_index().x) * Rows;
  const uint32_t rows_left = left_of<Rows>(row, rows < dst_rows ? rows : dst_rows);
  CRK_NO_UNROLL
  for (int part = 0; part < Parts; part++) {
    const uint64_t column = static_cast<uint64_t>(block_index().y) * Columns + part * width;
    const uint32_t columns_left = left_of<width>(column, columns);
    if (rows_left == 0 || columns_left == 0) {
      return;
    }
    const block_q8_1 *x = static_cast<const block_q8_1 *>(activations) + column * column_blocks;
    sums<products_type> sum;
    make_tile(
        t, products, static_cast<const B *>(weights) + row * row_blocks, row_blocks, row_blocks, rows_left,
        [&](uint32_t step) { return q8_1_blocks<128, width>{x + step, column_blocks, columns_left, cols / 32 - step}; },
        sum);
    store_tile(products, sum, dst + column * dst_rows + row, dst_rows, rows_left, columns_left);
  }
}

/* For the launchers. A block makes one tile after the other and advances by the size of the grid. */
template <class B, int Rows, int Columns>
CRK_FN void mul_mat_mmq(const B *weights, const uint32_t *y, void *dst, const crk_mmq_product_t &s) {
  using products_type = tile_products<Rows, Columns, CRK_MMQ_THREADS, 16>;
  CRK_TILE(t, B, launched<B>, Rows, Columns);
  const products_type products(thread_index().x);
  CRK_NO_UNROLL
  for (uint64_t row = static_cast<uint64_t>(block_index().y) * Rows; row < s.rows;
       row += static_cast<uint64_t>(s.blocks_y) * Rows) {
    const uint32_t rows_left = left_of<Rows>(row, s.rows);
    CRK_NO_UNROLL
    for (uint64_t column = static_cast<uint64_t>(block_index().x) * Columns; column < s.columns;
         column += static_cast<uint64_t>(s.blocks_x) * Columns) {
      const uint32_t columns_left = left_of<Columns>(column, s.columns);
      sums<products_type> sum;
      make_tile(
          t, products, weights + row * s.weight_stride, s.weight_stride, s.row_blocks, rows_left,
          [&](uint32_t step) {
            const uint64_t block = step / step_pieces * s.columns + column;
            return loaded_blocks<CRK_MMQ_THREADS, Columns>(y + block * CRK_MMQ_WORDS, columns_left);
          },
          sum);
      const uint64_t at = column * s.dst_stride + row;
      if (s.dtype == 0) {
        store_tile(products, sum, static_cast<float *>(dst) + at, s.dst_stride, rows_left, columns_left);
      } else if (s.dtype == 1) {
        store_tile(products, sum, static_cast<f16 *>(dst) + at, s.dst_stride, rows_left, columns_left);
      } else {
        store_tile(products, sum, static_cast<bf16 *>(dst) + at, s.dst_stride, rows_left, columns_left);
      }
    }
  }
}

}  // namespace
}  // namespace crk

#endif
