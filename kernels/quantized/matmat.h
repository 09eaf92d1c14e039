/* Products of quantized weights with many columns of activations, through tiles in shared memory. mul_mat has Candle's
 * arguments, and its columns are q8_1 blocks. mul_mat_mmq is for the launchers, and its columns are mmq blocks.
 * matvec.h, matvec_tile.h and matvec_few.h are for up to eight columns.
 *
 * A block of threads loads a step along k of both operands to a tile (matmat_tile.h, matmat_load.h, matmat_staged.h),
 * multiplies it (matmat_multiply.h) and goes on to the next step. The launchers' kernels load a step while they
 * multiply the one before it. This file and matmat_staged.h have that loop. This file stores the results. */
#ifndef CRK_MATMAT_H
#define CRK_MATMAT_H

#include "numbers/cache_order.h"
#include "quantized/matmat_load.h"
#include "quantized/matmat_multiply.h"
#include "quantized/matmat_staged.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* min(Most, end - first), 0 if `first` is beyond `end`. */
template <int Most>
CRK_FN uint32_t left_of(uint64_t first, uint64_t end) {
  const uint64_t left = first < end ? end - first : 0;
  return left < Most ? static_cast<uint32_t>(left) : Most;
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
    shared_barrier();
    multiply_quarters(t, products, 0, quarters_of<B>(step, pieces), sum);
    shared_barrier();
  }
}

/* For the launchers. Computes the thread's part of a tile: `rows` rows of weights times `columns` columns of mmq
 * blocks, from piece `begin` of a row on and up to `end`, in whole steps. blocks(step) is the address of a step's first
 * block. A step is loaded while the one before it is multiplied, to registers or, if the GPU can copy without
 * registers, to a second tile. */
template <class T, class Copies = async_copies, class Products, class B, class Blocks>
CRK_FN void make_tile_ahead(uint32_t *room, const Products &products, pieces_ahead<Products, B, T::rows> &ahead,
                            uint32_t begin, uint32_t end, uint32_t columns, Blocks blocks, sums<Products> &sum) {
  constexpr int count = pieces_ahead<Products, B, T::rows>::count;
  constexpr bool two_tiles = Copies::present;
  using block_loads = blocks_ahead<Products::threads, T::count, T::column_stride>;
  clear<Products>(sum);
  if (begin >= end) {
    return;
  }
  block_loads loaded(columns);
  CRK_UNROLL
  for (int n = 0; n < count; n++) {
    ahead.fetch(n, begin);
  }
  if constexpr (two_tiles) {
    block_loads::template copy<Copies>(T(room).columns, blocks(begin), columns);
  } else {
    loaded.fetch(blocks(begin));
  }
  CRK_UNROLL
  for (int n = 0; n < count; n++) {
    ahead.put(n, T(room), begin);
  }
  if constexpr (!two_tiles) {
    loaded.put(T(room).columns);
  }
  uint32_t other = 0;
  CRK_NO_UNROLL
  for (uint32_t step = begin; step < end; step += step_pieces) {
    const uint32_t next = step + step_pieces;
    const bool more = next < end;
    const T t(room + other);
    const int quarters = quarters_of<B>(step, ahead.pieces);
    if constexpr (two_tiles) {
      Copies::template wait<0>();
      shared_barrier();
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
      shared_barrier();
      if (more) {
        loaded.fetch(blocks(next));
        CRK_UNROLL
        for (int n = 0; n < count; n++) {
          ahead.fetch(n, next);
        }
      }
      multiply_quarters(t, products, 0, quarters, sum);
      multiply_rest(t, products, quarters, sum);
      shared_barrier();
      if (more) {
        /* The weights last: with the columns' condition at its end, LLVM takes this loop for two nested ones. */
        loaded.put(t.columns);
        CRK_UNROLL
        for (int n = 0; n < count; n++) {
          ahead.put(n, t, next);
        }
      }
    }
  }
  shared_barrier();
}

/* Stores the thread's part of a tile as T. `to` is the tile's first element; it has `rows` rows, or with `All` all of
 * the thread's, and `columns` columns, `stride` elements apart. */
template <bool All, class Products, class T>
CRK_FN void store_products(const Products &products, const sums<Products> &sum, T *to, uint64_t stride, uint32_t rows,
                           uint32_t columns) {
  CRK_UNROLL
  for (int j = 0; j < Products::width * Products::wide; j++) {
    const uint32_t c = products.first_column + products.next_column(j / Products::wide, j % Products::wide);
    T *column = to + c * stride;
    CRK_UNROLL
    for (int i = 0; i < Products::height * Products::tall; i++) {
      /* The comparison is repeated per column: keeping its results would take more scalar registers than there are. */
      const uint32_t at = products.first_row + products.next_row(i / Products::tall, i % Products::tall);
      if (c < columns && (All || opaque(at) < rows)) {
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
    store_products<false>(products, sum, dst + column * dst_rows + row, dst_rows, rows_left, columns_left);
  }
}

/* The thread bound of a launcher's kernel. For nvcc it counts the threads of all blocks that should be on a
 * multiprocessor at once: without that, most kernels of 128 x 64 take registers for one block only. */
template <class B>
constexpr uint32_t mmq_threads(int rows, int columns) {
  const bool is_wide = rows * columns > 128 * 64,
             is_staged = CRK_MMQ_HAS_STAGES(rows, columns, block_elements<B>, sizeof(B));
  return CRK_MMQ_THREADS * (!async_copies::present || is_wide ? 1 : rows > 64 ? 2 : is_staged ? 3 : 1);
}

/* The place of a launcher's block in the grid. Neighbours along x read the same weights, so they share an L2 cache. */
struct mmq_place {
  uint32_t x, y;
  CRK_FN explicit mmq_place(const crk_mmq_product_t &s) : x(block_index().x), y(block_index().y) {
#if CRK_SEVERAL_CACHES
    y = place_in_order(s.order, y * s.blocks_x + x);
    x = take_coordinate(y, s.across);
#endif
  }
};

/* Stores the thread's part of a tile with `Rows` rows, of which dst has `rows`. With one square per wave, a product of
 * few steps, the rows are compared only if dst lacks some. */
template <int Rows, class Products, class T>
CRK_FN void store_tile(const Products &products, const sums<Products> &sum, T *to, uint64_t stride, uint32_t rows,
                       uint32_t columns) {
  if (Products::height * Products::width == 1 && rows == Rows) {
    store_products<true>(products, sum, to, stride, rows, columns);
  } else {
    store_products<false>(products, sum, to, stride, rows, columns);
  }
}

/* For the launchers. A block makes one tile after the other and advances by the size of the grid. Along z, blocks have
 * the parts of the sum. */
template <class B, int Rows, int Columns>
CRK_FN void mul_mat_mmq(const B *weights, const uint32_t *y, void *dst, const crk_mmq_product_t &s) {
  using T = tile<B, launched<B>, Rows, Columns>;
  using products_type = tile_products<Rows, Columns, CRK_MMQ_THREADS, 16, T::parts>;
#if CRK_LARGE_SHARED
  uint32_t *room = dynamic_shared<uint32_t>();
#else
  CRK_SHARED(aligned_codes16, shared_words, T::words / 4);
  uint32_t *room = reinterpret_cast<uint32_t *>(shared_words);
#endif
  const products_type products(thread_index().x);
  const mmq_place place(s);
  CRK_NO_UNROLL
  for (uint64_t row = static_cast<uint64_t>(place.y) * Rows; row < s.rows;
       row += static_cast<uint64_t>(s.blocks_y) * Rows) {
    const uint32_t rows_left = left_of<Rows>(row, s.rows);
    CRK_NO_UNROLL
    for (uint64_t column = static_cast<uint64_t>(place.x) * Columns; column < s.columns;
         column += static_cast<uint64_t>(s.blocks_x) * Columns) {
      const uint32_t columns_left = left_of<Columns>(column, s.columns);
      /* Wide tiles have one part: their registers are all taken. */
      constexpr bool has_parts = Rows * Columns <= 128 * 64;
      const uint32_t pieces = s.row_blocks * quant<B>::pieces, length = s.part_blocks * CRK_MMQ_PART_PIECES;
      const uint32_t begin = has_parts ? block_index().z * length : 0;
      const uint32_t end = !has_parts || pieces - begin < length ? pieces : begin + length;
      const auto blocks = [&](uint32_t step) {
        return y + (static_cast<uint64_t>(step / step_pieces) * s.columns + column) * CRK_MMQ_WORDS;
      };
      sums<products_type> sum;
      if constexpr (is_staged<T, B>) {
        const staged_rows<products_type, B, Rows, async_copies> staged(room + 2 * T::words, weights, s, row, rows_left);
        make_tile_staged<T>(room, products, staged, begin, end, columns_left, blocks, sum);
      } else {
        pieces_ahead<products_type, B, Rows> ahead(weights + row * s.weight_stride, s.weight_stride, rows_left, pieces);
        make_tile_ahead<T>(room, products, ahead, begin, end, columns_left, blocks, sum);
      }
      /* Made again, so that no place in dst is in registers while the tile is multiplied. */
      products_type places(async_copies::present ? thread_index().x : opaque(thread_index().x));
      places.first_column = async_copies::present ? places.first_column : opaque(places.first_column);
      if (!places.is_idle) {
        const uint64_t at = block_index().z * s.part_stride + column * s.dst_stride + row;
        if (s.dtype == 0) {
          store_tile<Rows>(places, sum, static_cast<float *>(dst) + at, s.dst_stride, rows_left, columns_left);
        } else if (s.dtype == 1) {
          store_tile<Rows>(places, sum, static_cast<f16 *>(dst) + at, s.dst_stride, rows_left, columns_left);
        } else {
          store_tile<Rows>(places, sum, static_cast<bf16 *>(dst) + at, s.dst_stride, rows_left, columns_left);
        }
      }
    }
  }
}

#define XX(format, type, layout, numbers)                                                                             \
  static_assert(!CRK_LARGE_SHARED ||                                                                                  \
                    tile<block_##type, launched<block_##type>, 64, 16>::words == CRK_MMQ_STEP_WORDS(64, 16, numbers), \
                "as the list of formats counts");
CRK_MMQ_FORMATS(XX)
#undef XX

}  // namespace
}  // namespace crk

#endif
