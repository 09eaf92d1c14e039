/* Copies the operands of moe_tile.h to the tiles of numbers/square.h, a step along k at a time: rows of x by token
 * (token_copy), and quantized weights as numbers (block_copy). matmul/operand_copy.h explains the members. */
#ifndef CRK_MOE_COPY_H
#define CRK_MOE_COPY_H

#include "moe/moe.h"
#include "numbers/dot.h"
#include "numbers/tile_pieces.h"
#include "quantized/dequantize.h"

namespace crk {

/* Copies `Rows` rows of x. `input(r)` returns the number in x of row r of the tile. The rows of x are `stride` numbers
 * apart, and have k of them, a multiple of 8. If Direct is true, copies go straight to the tile, and rows from `count`
 * on may be zeros there. */
template <class T, int Rows, int Depth, int Threads, bool Direct>
struct token_copy {
  using tile = typename square_core<T>::template tile<Rows, Depth, false>;
  using P = tile_pieces<T, tile, Rows, Depth, Threads>;
  using copies = choose<Direct, async_copies, void>;
  static constexpr bool is_direct = Direct;
  static_assert(P::together == 1, "one row at a time");
  static_assert(!Direct || P::is_even, "every thread has a piece each time");
  const P own;
  const T *first; /* row 0 of x, at the step */
  uint32_t stride, count;
  const uint32_t *table; /* if Direct is true: `input` of each row, in shared memory, because registers are few */
  uint32_t inputs[Direct ? 1 : P::loads]; /* else `input` of this thread's pieces */
  pack<T, P::piece> held[Direct ? 1 : P::loads];
  bool is_aligned;

  /* Holds a barrier if Direct is true. */
  template <class Input>
  CRK_FN token_copy(const T *x, uint32_t row_stride, uint32_t valid_rows, const Input &input)
      : first(x), stride(row_stride), count(valid_rows), is_aligned(reinterpret_cast<uintptr_t>(x) % 16 == 0) {
    if constexpr (Direct) {
      CRK_SHARED(uint32_t, rows, Rows);
      for (uint32_t r = thread_index().x; r < Rows; r += Threads) {
        rows[r] = input(r);
      }
      table = rows;
      shared_barrier();
    } else {
      CRK_UNROLL
      for (int n = 0; n < P::loads; n++) {
        inputs[n] = input((own.row + P::row_add(n)) % Rows);
      }
    }
  }
  /* The offset in x of the row of piece n. */
  CRK_FN uint64_t row_of(int n) const {
    return static_cast<uint64_t>(Direct ? table[own.row + P::row_add(n)] : inputs[Direct ? 0 : n]) * stride;
  }
  CRK_FN const T *from(int n) const {
    const uint32_t at = (own.part + P::part_add(n)) * P::piece;
    return first + row_of(n) + (P::is_even ? at : at % Depth);
  }

  CRK_FN bool by_pieces() const { return !Direct || is_aligned; }
  CRK_FN void advance(int steps = 1) { first += steps * Depth; }

  CRK_FN void begin() {
    CRK_UNROLL
    for (int n = 0; n < P::loads; n++) {
      held[n] = load_pack<T, P::piece>(from(n));
    }
  }
  CRK_FN void finish(uint32_t *room) const {
    CRK_UNROLL
    for (int n = 0; n < P::loads; n++) {
      const typename P::pieces some[1] = {held[n]};
      own.put(room, n, some);
    }
  }
  CRK_FN void begin(uint32_t *room, bool wanted) const {
    const copies mine(tile::address(room, own.row, own.part), first + own.part * P::piece);
    CRK_UNROLL
    for (int n = 0; n < P::loads; n++) {
      mine.begin16_or_zeros(tile::distance(P::row_add(n), P::part_add(n)),
                            (row_of(n) + P::part_add(n) * P::piece) * sizeof(T),
                            wanted && own.row + P::row_add(n) < count);
    }
  }
  CRK_FN void copy_some(uint32_t *room, uint64_t left) const {
    CRK_UNROLL
    for (int n = 0; n < P::loads; n++) {
      typename P::pieces some[1] = {};
      if ((own.part + P::part_add(n)) * P::piece < left) {
        some[0] = load_pack<T, P::piece>(from(n));
      }
      own.put(room, n, some);
    }
  }
};

/* Eight numbers of a block, rounded as in Candle's dequantize_block_<type><T> of moe/gguf.cuh. For blocks of 256, the
 * products of d and dmin with their scales are rounded to f16. Then one f16 fma computes d times the code less the
 * minimum, and the result is converted to T. q2_K first multiplies scale and code exactly, as Candle does in integers;
 * q6_K does so with scale and signed code. q8_0 and the formats that Candle's function lacks are computed in f32 and
 * rounded to T. */
template <class B, class T>
CRK_FN pack<T, 8> numbers_of(const B *first, uint32_t at, uint32_t i) {
  constexpr bool halves = block_elements<B> == 256;
  const coded<8> c = format<B>::template load<8>(first, at, i);
  if constexpr (!halves) {
    return convert_pack<T>(values_of<B, false>(c));
  } else {
    pack<T, 8> out;
    f16 d(c.scale), minimum(c.minimum);
    float scale = 1.0f;
    if constexpr (same<B, block_q2_K>) {
      d = f16(f16_low(words_at<1>(first, offsetof(block_q2_K, d), at).v[0]));
      scale = static_cast<float>(byte_of(first, offsetof(block_q2_K, scales), at + i / 16) & 15);
    } else if constexpr (same<B, block_q6_K>) {
      d = f16(half_of(first, offsetof(block_q6_K, d), at));
      scale = static_cast<float>(static_cast<int8_t>(byte_of(first, offsetof(block_q6_K, scales), at + i / 16)));
    }
    CRK_UNROLL
    for (int k = 0; k < 8; k++) {
      const f16 code(scale * code_of<B>(c, k));
      if constexpr (format<B>::has_minimum) {
        out.v[k] = convert<T>(fma(d, code, minimum));
      } else {
        out.v[k] = convert<T>(d * code);
      }
    }
    return out;
  }
}

/* Makes numbers of T of `count` weights, a multiple of CRK_MOE_NUMBERS, for the tiles of weights that are numbers. */
template <class B, class T>
CRK_FN void moe_numbers(const B *weights, T *dst, uint64_t count, uint32_t threads) {
  constexpr uint32_t block = block_elements<B>;
  const elements e(count / CRK_MOE_NUMBERS, threads);
  for (uint64_t n = e.first; n < e.end; n += e.step) {
    const uint64_t i = n * CRK_MOE_NUMBERS;
    store_pack(dst + i, numbers_of<B, T>(weights + i / block, 0, static_cast<uint32_t>(i % block)));
  }
}

/* Copies `Rows` rows of quantized weights as numbers of T. Rows are `row_blocks` blocks apart. Rows beyond `rows`
 * repeat the last one. */
template <class B, class T, int Rows, int Depth, int Threads>
struct block_copy {
  using tile = typename square_core<T>::template tile<Rows, Depth, false>;
  using P = tile_pieces<T, tile, Rows, Depth, Threads>;
  static constexpr bool is_direct = false;
  static_assert(P::piece == 8, "as numbers_of returns");
  const P own;
  const B *first;
  uint32_t rows, row_blocks, k = 0;
  pack<T, 8> held[P::loads];

  CRK_FN block_copy(const B *from, uint32_t valid_rows, uint32_t blocks)
      : first(from), rows(valid_rows), row_blocks(blocks) {}

  CRK_FN bool by_pieces() const { return true; }
  CRK_FN void advance() { k += Depth; }
  CRK_FN void begin() {
    CRK_UNROLL
    for (int n = 0; n < P::loads; n++) {
      held[n] = load(n);
    }
  }
  CRK_FN void finish(uint32_t *room) const {
    CRK_UNROLL
    for (int n = 0; n < P::loads; n++) {
      const typename P::pieces some[1] = {held[n]};
      own.put(room, n, some);
    }
  }
  CRK_FN void copy_some(uint32_t *room, uint64_t left) const {
    CRK_NO_UNROLL
    for (int n = 0; n < P::loads; n++) {
      typename P::pieces some[1] = {};
      if ((own.part + P::part_add(n)) * 8 < left) {
        some[0] = load(n);
      }
      own.put(room, n, some);
    }
  }

 private:
  CRK_FN pack<T, 8> load(int n) const {
    constexpr uint32_t elements = block_elements<B>;
    const uint32_t row = own.row + P::row_add(n), i = k + (own.part + P::part_add(n)) * 8 % Depth;
    const B *const from = first + static_cast<uint64_t>(row < rows ? row : rows - 1) * row_blocks;
    return numbers_of<B, T>(from, i / elements * static_cast<uint32_t>(sizeof(B)), i % elements);
  }
};

}  // namespace crk

#endif
