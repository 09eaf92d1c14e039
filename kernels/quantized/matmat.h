/* Products of quantized weights with many columns of activations, through tiles in shared memory. mul_mat has Candle's
 * arguments, and its columns are q8_1 blocks. mul_mat_mmq is for the launchers, and its columns are mmq blocks.
 * matvec.h and matvec_tile.h are for up to eight columns.
 *
 * A step along k is 128 elements: one mmq block of each column, and four pieces of each row in every format. A block of
 * threads loads a step of both operands to shared memory. On the way it unpacks the weights, once for all columns of
 * the tile, to 8-bit codes and scales. The codes are multiplied in integers (matrix.h); scales are applied in f32 to
 * the sum of each 32 or 16 products. Minima are added in f32 after them, or by matrix cores once per step.
 *
 * The launchers' kernels load a step while they multiply the one before it. */
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
 *   sums_codes      a minimum is multiplied with d times the sum of the codes; if false, with s, if the layout has
 *                 it */
template <class B>
struct launched {
  static constexpr mmq layout = mmq_of<B>;
  static constexpr bool subtracts_zero = true, sums_codes = false;
  static constexpr bool narrow_scales = quant<B>::has_minimum && block_elements<B> == 256;
};
template <class B>
struct by_name {
  static constexpr mmq layout = mmq::DS4;
  static constexpr bool subtracts_zero = !quant<B>::mat_by_values, sums_codes = !quant<B>::mat_by_values;
  static constexpr bool narrow_scales = false;
};

/* A tile in shared memory: `Rows` rows of weights and `Columns` columns of activations. */
template <class B, class Terms_, int Rows, int Columns>
struct tile {
  using Q = quant<B>;
  using Terms = Terms_;
  /* A group of 32 elements has one scale, or two scales of 16 elements each. */
  static constexpr int parts = block_elements<B> == 32 || mmq_of<B> == mmq::DS4 ? 1 : 2, scales = step_quarters * parts;
  static constexpr int rows = Rows, count = Columns;
  static constexpr bool has_rest = Q::has_minimum || (!Terms::subtracts_zero && static_cast<int>(Q::zero) != 0);
  /* Words from a scale of all rows to the next. 8 more words spread the scales of a row over the banks. */
  static constexpr uint32_t pitch = Rows + 8;
  static constexpr uint32_t words = CRK_MMQ_STEP_WORDS(Rows, Columns, (has_rest ? 2 : 1) * scales);
  uint32_t *weights; /* [Rows][tile_stride]: codes */
  uint32_t *columns; /* [Columns][tile_stride]: mmq blocks */
  float *scale, *minimum; /* [scales][pitch]: of each row, in the order of Products::place */

  CRK_FN explicit tile(uint32_t *room)
      : weights(room),
        columns(room + Rows * tile_stride),
        scale(reinterpret_cast<float *>(columns + Columns * tile_stride)),
        minimum(scale + scales * pitch) {}
};

template <class Terms>
CRK_FN float scale_of(float x) {
  return Terms::narrow_scales ? static_cast<float>(f16(x)) : x;
}

/* Clamps an index to below `count`. Beyond the end, the last row or column is loaded again, and its results are not
 * stored. */
CRK_FN uint32_t within(uint32_t i, uint32_t count) { return i < count ? i : count - 1; }

/* Stores a piece in the tile: of row r, from half `first` of the step on. */
template <class Products, class B, class Terms, int Rows, int Columns>
CRK_FN void put_piece(const tile<B, Terms, Rows, Columns> &t, const piece &w, uint32_t r, uint32_t first) {
  using T = tile<B, Terms, Rows, Columns>;
  using Q = typename T::Q;
  constexpr int zero = static_cast<int>(Q::zero);
  CRK_UNROLL
  for (int h = 0; h < 2; h++) {
    const uint32_t half = first + h * Q::distance;
    store_pack(t.weights + r * tile_stride + 4 * half, Terms::subtracts_zero ? subtract<zero>(w.code[h]) : w.code[h]);
    if (T::parts == 2 || half % 2 == 0) {
      const uint32_t at = half * T::parts / 2 * T::pitch + Products::place(r);
      t.scale[at] = scale_of<Terms>(w.whole_scale(h));
      if (T::has_rest) {
        t.minimum[at] = Q::has_minimum ? scale_of<Terms>(w.whole_minimum(h)) : -zero * w.whole_scale(h);
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
        row, first_half<Q>(place));
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

/* The pieces of the weights that a thread loads, one in each `next_row` rows. fetch() begins to load those of a step.
 * put() stores them in a tile. The arguments are those of load_weights. */
template <class Products, class B, int Rows>
struct pieces_ahead {
  using Q = quant<B>;
  static constexpr int next_row = Products::threads / step_pieces, count = Rows / next_row;
  static_assert(Rows % next_row == 0, "threads share evenly");
  const B *row[count];
  uint32_t place, pieces;
  record bytes[count];

  CRK_FN pieces_ahead(const B *weights, uint64_t stride, uint32_t rows, uint32_t pieces)
      : place(thread_index().x % step_pieces), pieces(pieces) {
    CRK_UNROLL
    for (int n = 0; n < count; n++) {
      row[n] = weights + within(thread_index().x / step_pieces + n * next_row, rows) * stride;
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
    const uint32_t r = thread_index().x / step_pieces + n * next_row;
    if constexpr (on_host) {
      put_piece<Products>(t, Q::load(block_bytes{block(n, step)}, part(step)), r, first_half<Q>(place));
    } else {
      put_piece<Products>(t, Q::load(player{block(n, step), &bytes[n]}, part(step)), r, first_half<Q>(place));
    }
  }
};

/* The mmq blocks of `columns` columns, at least one, which follow each other in memory: fetch() loads them to
 * registers, put() stores them in the tile. copy() does both without registers, where the GPU can. */
template <int Threads, int Columns>
struct blocks_ahead {
  static constexpr uint32_t packs = CRK_MMQ_WORDS / 4;
  static constexpr int loads = (Columns * packs + Threads - 1) / Threads;
  pack<uint32_t, 4> words[loads];

  CRK_FN static uint32_t number(int n) { return thread_index().x + n * Threads; }
  CRK_FN static bool wanted(int n) {
    return static_cast<uint32_t>((n + 1) * Threads) <= Columns * packs || number(n) < Columns * packs;
  }
  CRK_FN void fetch(const uint32_t *blocks, uint32_t columns) {
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      words[n] = load_pack<uint32_t, 4>(blocks + 4 * within(number(n), columns * packs));
    }
  }
  CRK_FN void put(uint32_t *to) const {
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      if (wanted(n)) {
        store_pack(to + 4 * number(n), words[n]);
      }
    }
  }
  template <class Copies>
  CRK_FN static void copy(uint32_t *to, const uint32_t *blocks, uint32_t columns) {
    if (reinterpret_cast<uintptr_t>(blocks) % 16 == 0) {
      CRK_UNROLL
      for (int n = 0; n < loads; n++) {
        Copies(to + 4 * number(n), blocks + 4 * within(number(n), columns * packs)).begin16(0, wanted(n));
      }
    } else {
      blocks_ahead some;
      some.fetch(blocks, columns);
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
      uint32_t *column = t.columns + c * tile_stride;
      column[quarter] = load_pack<uint32_t, 1>(reinterpret_cast<const uint32_t *>(block)).v[0];
      store_pack(column + first_code + 8 * quarter, load_words<4>(block->qs));
      store_pack(column + first_code + 8 * quarter + 4, load_words<4>(block->qs + 16));
    }
  }
};

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
  constexpr int parts = T::parts, tall = Products::tall, wide = Products::wide;
  constexpr bool adds_rest = T::has_rest && !(Products::adds_fours && parts == 1);
  using operand = typename Products::operand;
  using of_rows = numbers_of_rows<tall>;
  using numbers = typename of_rows::type;
  constexpr int together = tall == 8 && Products::width % 2 == 0 ? 2 : 1;
  const uint32_t *columns = t.columns + products.first_column * tile_stride;
  const uint32_t *column_codes = t.columns + first_code + products.template column_word<parts>() + 8 * quarter;
  const uint32_t *row_codes = t.weights + products.template row_word<parts>() + 8 * quarter;
  const uint32_t first_scale = quarter * parts * T::pitch + products.first_place;
  operand x[Products::width];
  float d[Products::width][wide], rest[Products::width][wide][parts];
  CRK_UNROLL
  for (int j = 0; j < Products::width; j++) {
    CRK_UNROLL
    for (int c = 0; c < wide; c++) {
      read_terms<T>(columns + products.next_column(j, c) * tile_stride, quarter, d[j][c], rest[j][c]);
    }
    x[j] = Products::template load<parts>(column_codes + products.next_column(j, 0) * tile_stride);
  }
  CRK_UNROLL
  for (int i = 0; i < Products::height; i++) {
    const operand w = Products::template load<parts>(row_codes + products.next_row(i, 0) * tile_stride);
    pack<float, tall> scale[parts], minimum[parts];
    CRK_UNROLL
    for (int p = 0; p < parts; p++) {
      const uint32_t at = first_scale + p * T::pitch + products.next_row(i, 0);
      scale[p] = load_rows<tall>(t.scale + at);
      if (adds_rest) {
        minimum[p] = load_rows<tall>(t.minimum + at);
      }
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
          const numbers first = of_rows::make(scale[0].v, n), offset = of_rows::scaled(scale[0].v, n, -float_start);
          CRK_UNROLL
          for (int c = 0; c < wide; c++) {
            part[j][n][c] = fma(first, of_rows::make(product[j][0], n, c, 0.0f), offset);
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
            of_rows::add(sum, i * tall, (first_j + j) * wide + c, at, of_rows::all(d[first_j + j][c]), part[j][at][c]);
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
                           of_rows::all(rest[first_j + j][c][p]));
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
      const uint32_t word = t.columns[(products.fours_column(n) + 16 * j) * tile_stride + quarter];
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
  CRK_NO_UNROLL
  for (int quarter = first; quarter < last; quarter++) {
    multiply_quarter(t, products, quarter, sum);
  }
}
/* min(Most, end - first), 0 if `first` is beyond `end`. */
template <int Most>
CRK_FN uint32_t left_of(uint64_t first, uint64_t end) {
  const uint64_t left = first < end ? end - first : 0;
  return left < Most ? static_cast<uint32_t>(left) : Most;
}

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
/* Quarters of the step that begins with piece `step` of a row. Blocks of 256 are two whole steps. With blocks of 32 the
 * last step may reach beyond the row. */
template <class B>
CRK_FN int quarters_of(uint32_t step, uint32_t pieces) {
  return quant<B>::pieces == 1 && step + step_quarters > pieces ? static_cast<int>(pieces - step) : step_quarters;
}

/* For Candle's kernels. Computes the thread's part of a tile: `rows` rows of weights times the columns that load(step)
 * returns. The returned object's put() stores a step of columns in the tile. */
template <class Products, class B, class Terms, int Rows, int Columns, class Load>
CRK_FN void make_tile(const tile<B, Terms, Rows, Columns> &t, const Products &products, const B *weights,
                      uint64_t weight_stride, uint32_t row_blocks, uint32_t rows, Load load, sums<Products> &sum) {
  const uint32_t pieces = row_blocks * quant<B>::pieces;
  clear<Products>(sum);
  CRK_NO_UNROLL
  for (uint32_t step = 0; step < pieces; step += step_pieces) {
    load_weights<Products>(t, weights, weight_stride, rows, step, pieces);
    load(step).put(t);
    barrier();
    multiply_quarters(t, products, 0, quarters_of<B>(step, pieces), sum);
    barrier();
  }
}

/* For the launchers. Computes the thread's part of a tile: `rows` rows of weights times `columns` columns of mmq
 * blocks. blocks(step) is the address of a step's first block. A step is loaded while the one before it is multiplied,
 * to registers or, if the GPU can copy without registers, to a second tile. */
template <class T, class Copies = async_copies, class Products, class B, class Blocks>
CRK_FN void make_tile_ahead(uint32_t *room, const Products &products, pieces_ahead<Products, B, T::rows> &ahead,
                            uint32_t columns, Blocks blocks, sums<Products> &sum) {
  constexpr int count = pieces_ahead<Products, B, T::rows>::count;
  constexpr bool two_tiles = Copies::present;
  using block_loads = blocks_ahead<Products::threads, T::count>;
  const uint32_t pieces = ahead.pieces;
  clear<Products>(sum);
  if (pieces == 0) {
    return;
  }
  block_loads loaded;
  CRK_UNROLL
  for (int n = 0; n < count; n++) {
    ahead.fetch(n, 0);
  }
  if constexpr (two_tiles) {
    block_loads::template copy<Copies>(T(room).columns, blocks(0), columns);
  } else {
    loaded.fetch(blocks(0), columns);
  }
  CRK_UNROLL
  for (int n = 0; n < count; n++) {
    ahead.put(n, T(room), 0);
  }
  if constexpr (!two_tiles) {
    loaded.put(T(room).columns);
  }
  uint32_t other = 0;
  CRK_NO_UNROLL
  for (uint32_t step = 0; step < pieces; step += step_pieces) {
    const uint32_t next = step + step_pieces;
    const bool more = next < pieces;
    const T t(room + other);
    const int quarters = quarters_of<B>(step, pieces);
    if constexpr (two_tiles) {
      Copies::template wait<0>();
      barrier();
      other = T::words - other;
      const T to(room + other);
      if (more) {
        block_loads::template copy<Copies>(to.columns, blocks(next), columns);
      }
      /* A piece of each row at a time, so that few registers wait for memory. */
      CRK_UNROLL
      for (int n = 0; n < count; n++) {
        if (more) {
          ahead.fetch(n, next);
        }
        const int last = (n + 1) * step_quarters / count;
        multiply_quarters(t, products, n * step_quarters / count, last < quarters ? last : quarters, sum);
        if (more) {
          ahead.put(n, to, next);
        }
      }
      multiply_rest(t, products, quarters, sum);
    } else {
      barrier();
      if (more) {
        CRK_UNROLL
        for (int n = 0; n < count; n++) {
          ahead.fetch(n, next);
        }
        loaded.fetch(blocks(next), columns);
      }
      multiply_quarters(t, products, 0, quarters, sum);
      multiply_rest(t, products, quarters, sum);
      barrier();
      if (more) {
        CRK_UNROLL
        for (int n = 0; n < count; n++) {
          ahead.put(n, t, next);
        }
        loaded.put(t.columns);
      }
    }
  }
  barrier();
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

/* With Candle's arguments and geometry. Block (x, y) of (32, 4) threads makes the rows from x * Rows on and the columns
 * from y * Columns on. It makes the columns in `Parts` parts, one after the other. The sums of all columns would not
 * fit in a thread's registers. A tile of 128 x 128 would not fit in the shared memory of every GPU. */
template <class B, int Rows, int Columns, int Parts>
CRK_FN void mul_mat(const void *weights, const void *activations, float *dst, int32_t cols, int32_t rows,
                    int32_t columns, int32_t padded_cols, int32_t dst_rows) {
  constexpr int width = Columns / Parts;
  using products_type = dot_products<Rows, width, 128, (Rows < 128 ? 8 : 16)>;
  using tile_type = tile<B, by_name<B>, Rows, width>;
  CRK_SHARED(aligned_codes16, room, tile_type::words / 4);
  const tile_type t(reinterpret_cast<uint32_t *>(room));
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
  using T = tile<B, launched<B>, Rows, Columns>;
#if CRK_LARGE_SHARED
  uint32_t *room = dynamic_shared<uint32_t>();
#else
  CRK_SHARED(aligned_codes16, shared_words, T::words / 4);
  uint32_t *room = reinterpret_cast<uint32_t *>(shared_words);
#endif
  const products_type products(thread_index().x);
  CRK_NO_UNROLL
  for (uint64_t row = static_cast<uint64_t>(block_index().y) * Rows; row < s.rows;
       row += static_cast<uint64_t>(s.blocks_y) * Rows) {
    const uint32_t rows_left = left_of<Rows>(row, s.rows);
    CRK_NO_UNROLL
    for (uint64_t column = static_cast<uint64_t>(block_index().x) * Columns; column < s.columns;
         column += static_cast<uint64_t>(s.blocks_x) * Columns) {
      const uint32_t columns_left = left_of<Columns>(column, s.columns);
      pieces_ahead<products_type, B, Rows> ahead(weights + row * s.weight_stride, s.weight_stride, rows_left,
                                                 s.row_blocks * quant<B>::pieces);
      sums<products_type> sum;
      make_tile_ahead<T>(
          room, products, ahead, columns_left,
          [&](uint32_t step) {
            return y + (static_cast<uint64_t>(step / step_pieces) * s.columns + column) * CRK_MMQ_WORDS;
          },
          sum);
      const uint64_t at = column * s.dst_stride + row;
      const uint32_t wanted = products.is_idle ? 0 : columns_left;
      if (s.dtype == 0) {
        store_tile(products, sum, static_cast<float *>(dst) + at, s.dst_stride, rows_left, wanted);
      } else if (s.dtype == 1) {
        store_tile(products, sum, static_cast<f16 *>(dst) + at, s.dst_stride, rows_left, wanted);
      } else {
        store_tile(products, sum, static_cast<bf16 *>(dst) + at, s.dst_stride, rows_left, wanted);
      }
    }
  }
}

#define XX(format, type, layout, numbers)                                                                         \
  static_assert(tile<block_##type, launched<block_##type>, 64, 16>::words == CRK_MMQ_STEP_WORDS(64, 16, numbers), \
                "as the list of formats counts");
CRK_MMQ_FORMATS(XX)
#undef XX

}  // namespace
}  // namespace crk

#endif
