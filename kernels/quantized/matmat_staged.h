/* Weights that reach a tile (matmat_tile.h) by asynchronous copies. Their bytes are copied to stages in shared memory,
 * 16 aligned bytes per lane, and are unpacked from there. Such a copy reads few lines, whatever the size of a block. A
 * load of a word of a piece (matmat_load.h) reads the lines of eight rows, and so does the load of each further word.
 *
 * A stage has one step of blocks of 32 weights, or two steps (a block) of blocks of 256. A row keeps its distance from
 * aligned 16 bytes. */
#ifndef CRK_MATMAT_STAGED_H
#define CRK_MATMAT_STAGED_H

#include "quantized/matmat_load.h"
#include "quantized/matmat_multiply.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

template <class T, class B>
inline constexpr bool is_staged =
    async_copies::present && CRK_MMQ_HAS_STAGES(T::rows, T::count, block_elements<B>, sizeof(B));

/* The rows of weights of a tile. copy() begins to copy a stage to shared memory, put() unpacks a step of a stage. */
template <class Products, class B, int Rows, class Copies>
struct staged_rows {
  using Q = quant<B>;
  static constexpr uint32_t blocks = Q::pieces == 1 ? step_pieces : 1, steps = blocks * Q::pieces / step_pieces,
                            pieces = steps * step_pieces; /* of a stage */
  static constexpr uint32_t pitch = CRK_MMQ_STAGE_PITCH(block_elements<B>, sizeof(B)), bytes = Rows * pitch,
                            stages = CRK_MMQ_STAGES(Rows);
  /* Lanes that copy a row, rows that are copied at once, and rows that are unpacked at once. */
  static constexpr uint32_t lanes = pitch > 8 * 16 ? 16 : 8, copied = Products::threads / lanes,
                            unpacked = Products::threads / step_pieces;
  static_assert(pitch <= 16 * lanes && Rows % copied == 0 && Rows % unpacked == 0, "threads share evenly");

  unsigned char *room;
  const unsigned char *begin, *end; /* of all rows */
  const unsigned char *copy_from;
  uint32_t copy_to, put_from, distance; /* in a stage; of the row that put() unpacks */
  uint64_t next; /* bytes from a row to the next that this lane copies */
  uint32_t stride; /* the low bits of the bytes from a row to the next */
  uint32_t rows, row_pieces;
  bool at_edge; /* whether rows of the tile begin or end all rows, elsewhere than at 16 aligned bytes */

  CRK_FN staged_rows(uint32_t *room, const B *all, const crk_mmq_product_t &s, uint64_t row, uint32_t rows)
      : room(reinterpret_cast<unsigned char *>(room)),
        begin(reinterpret_cast<const unsigned char *>(all)),
        end(reinterpret_cast<const unsigned char *>(all + (s.rows - 1) * s.weight_stride + s.row_blocks)),
        next(copied * s.weight_stride * sizeof(B)),
        stride(static_cast<uint32_t>(s.weight_stride) * sizeof(B)),
        rows(rows),
        row_pieces(s.row_blocks * Q::pieces) {
    const uint32_t thread = thread_index().x, copy_row = thread / lanes, copy_lane = thread % lanes,
                   put_row = thread / step_pieces, place = thread % step_pieces;
    const unsigned char *first = reinterpret_cast<const unsigned char *>(all + row * s.weight_stride);
    copy_from = first + copy_row * s.weight_stride * sizeof(B) + 16 * copy_lane;
    copy_to = copy_row * pitch + 16 * copy_lane;
    put_from = put_row * pitch + (Q::pieces == 1 ? place * sizeof(B) : 0);
    distance = low(first) + put_row * stride;
    at_edge = (row == 0 && low(begin) % 16 != 0) || (row + rows == s.rows && low(end) % 16 != 0);
  }
  CRK_FN static uint32_t low(const unsigned char *at) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at)); }

  /* Begins to copy the stage that begins with piece `step`, of pieces up to `last`, to offset `to` of the stages. Rows
   * beyond the end are not copied, and their results are not stored. */
  CRK_FN void copy(uint32_t to, uint32_t step, uint32_t last) const {
    const uint32_t left = last - step < pieces ? last - step : pieces, wanted = left / Q::pieces * sizeof(B),
                   row = thread_index().x / lanes, behind = 16 * (thread_index().x % lanes);
    const unsigned char *from = copy_from + static_cast<uint64_t>(step / Q::pieces) * sizeof(B);
    unsigned char *target = room + to + copy_to;
    if (at_edge) {
      copy_inside(target, from, row, behind, wanted);
      return;
    }
    CRK_UNROLL
    for (uint32_t r = 0; r < Rows; r += copied) {
      const uint32_t apart = low(from) % 16;
      Copies(target + r * pitch, from - apart).begin16(0, behind < apart + wanted && row + r < rows);
      from += next;
    }
  }
  /* The same, but it reads no bytes before or behind all rows. */
  CRK_FN void copy_inside(unsigned char *to, const unsigned char *from, uint32_t row, uint32_t behind,
                          uint32_t wanted) const {
    CRK_NO_UNROLL
    for (; row < rows; row += copied, to += copied * pitch, from += next) {
      const uint32_t apart = low(from) % 16;
      const unsigned char *at = from - apart;
      if (behind >= apart + wanted) {
        continue;
      }
      const bool inside = at >= begin && at + 16 <= end;
      Copies(to, at).begin16(0, inside);
      if (!inside) {
        copy_halves(to, at);
      }
    }
  }
  /* Copies those of 16 bytes that belong to the rows. */
  CRK_FN void copy_halves(unsigned char *to, const unsigned char *from) const {
    uint16_t halves[8];
    CRK_UNROLL
    for (int i = 0; i < 8; i++) {
      const unsigned char *at = from + 2 * i;
      halves[i] = at >= begin && at < end ? *reinterpret_cast<const uint16_t *>(at) : uint16_t(0);
    }
    CRK_UNROLL
    for (int i = 0; i < 8; i++) {
      reinterpret_cast<uint16_t *>(to)[i] = halves[i];
    }
  }
  /* Unpacks the step that begins with piece `step` to a tile, from the stage at offset `from`. */
  template <class T>
  CRK_FN void put(const T &t, uint32_t from, uint32_t step) const {
    const uint32_t place = thread_index().x % step_pieces, row = thread_index().x / step_pieces;
    const piece_place part = Q::pieces == 1 ? piece_place{0, 0, 0} : piece_place{step / 4 % 2, place / 2, place % 2};
    const uint32_t first = distance + step / Q::pieces * sizeof(B);
    CRK_UNROLL
    for (uint32_t r = 0; r < Rows; r += unpacked) {
      const uint32_t apart = (first + r * stride) % 16;
      const shared_bytes<2> at(room, from + put_from + r * pitch + apart);
      put_piece<Products>(t, Q::load(at, part), row + r, 0, first_half<Q>(place));
    }
  }
};

/* As make_tile_ahead, for staged weights. `begin` begins a stage. While a step is multiplied, the next one is unpacked
 * to a second tile, and further stages are being copied. With one stage, the copy of the next begins when the last step
 * of this one is unpacked: it takes less time than the products of many columns. */
template <class T, class Copies, class Products, class B, class Blocks>
CRK_FN void make_tile_staged(uint32_t *room, const Products &products,
                             const staged_rows<Products, B, T::rows, Copies> &weights, uint32_t begin, uint32_t end,
                             uint32_t columns, Blocks blocks, sums<Products> &sum) {
  using S = staged_rows<Products, B, T::rows, Copies>;
  using block_loads = blocks_ahead<Products::threads, T::count, T::column_stride>;
  constexpr uint32_t ahead = (S::stages - 1) * S::pieces; /* pieces between the begin of a stage's copy and its use */
  clear<Products>(sum);
  if (begin >= end) {
    return;
  }
  CRK_NO_UNROLL
  for (uint32_t to = 0, step = begin; to < S::stages * S::bytes; to += S::bytes, step += S::pieces) {
    if (step < end) {
      weights.copy(to, step, end);
    }
    Copies::end_group();
    if (to == 0) {
      block_loads::template copy<Copies>(T(room).columns, blocks(begin), columns);
    }
  }
  Copies::template wait<S::stages>();
  shared_barrier();
  weights.put(T(room), 0, begin);
  uint32_t other = 0, stage = 0;
  CRK_NO_UNROLL
  for (uint32_t step = begin; step < end; step += step_pieces) {
    const uint32_t next = step + step_pieces;
    const int quarters = quarters_of<B>(step, weights.row_pieces);
    const bool more = next < end, is_fresh = S::steps == 1 || next % S::pieces == 0;
    Copies::template wait<(ahead > step_pieces ? 1 : 0)>(); /* the last group, a stage, may be needed later */
    shared_barrier();
    const T t(room + other);
    other = T::words - other;
    const T to(room + other);
    if (more) {
      block_loads::template copy<Copies>(to.columns, blocks(next), columns);
    }
    if (is_fresh) {
      if (next + ahead < end) {
        weights.copy(stage, next + ahead, end);
      }
      stage = stage + S::bytes == S::stages * S::bytes ? 0 : stage + S::bytes;
    }
    Copies::end_group();
    if (ahead > 0 && more) {
      weights.put(to, stage, next);
    }
    multiply_quarters(t, products, 0, quarters, sum);
    multiply_rest(t, products, quarters, sum);
    if (ahead == 0 && more) {
      if (is_fresh) {
        Copies::template wait<0>();
        shared_barrier();
      }
      weights.put(to, stage, next);
    }
  }
  shared_barrier();
}

}  // namespace
}  // namespace crk

#endif
