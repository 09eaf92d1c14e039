/* Products of one row x with matrices whose rows are contiguous, long and aligned to 16 bytes. matmul_wide multiplies
 * up to three matrices in one launch, and matmul_rope also rotates their results. matmul_gate multiplies two, and gates
 * the results.
 *
 * The speed of reading the matrices is the limit. So a block shares each row: a thread has the same pieces of 16 bytes
 * of every row of the block, and keeps its pieces of x in registers. A block reads whole lines, and reads x once. A
 * thread requests all its pieces of two rows before it multiplies one of them. The sums of the groups of 32 threads
 * go to shared memory. They are added up once, after the block's last row, so that no thread waits for another before.
 */
#ifndef CRK_MATMUL_WIDE_H
#define CRK_MATMUL_WIDE_H

#include "elementwise/activations.h"
#include "matmul/matmul_vec.h"
#include "reduce/rope_heads.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* Returns the sums of `x` and of `y` over the group of 32 lanes: that of x to its first 16 lanes, that of y to the
 * others. All lanes of the group must call it. Takes as many shuffles as a single sum. */
template <class A>
CRK_FN A sums_of_group(A x, A y) {
  const bool upper = lane() % group_lanes >= group_lanes / 2;
  const A mine = upper ? y : x, theirs = upper ? x : y;
  return butterfly<16>(mine + exchange<16>(theirs), plus());
}

/* The pieces of x, or of a row, that a thread has. */
template <class T>
struct wide_pieces {
  static constexpr int count = CRK_WIDE_PIECES;
  piece_units<T> piece[count];

  /* Loads piece p from `from` + p * step, if has[p]. Others are 0. Loads words: clang would load some numbers twice. */
  CRK_FN void load(const T *from, uint32_t step, const bool (&has)[count]) {
    CRK_UNROLL
    for (int p = 0; p < count; p++) {
      piece[p] = {};
      if (has[p]) {
        const void *at = from + static_cast<uint32_t>(p) * step;
        piece[p] = bit_cast<piece_units<T>>(load_aligned<uint32_t, 4>(static_cast<const uint32_t *>(at)));
      }
    }
  }
  /* The pieces as they are in a loop's step. Numbers of 16 bits then stay in words: as floats they would take twice as
   * many registers. */
  CRK_FN wide_pieces in_step(uint32_t step) const {
    wide_pieces same = *this;
    if constexpr (half<T>) {
      CRK_UNROLL
      for (int p = 0; p < count; p++) {
        CRK_UNROLL
        for (int i = 0; i < chunk_units<unit_of<T>>; i++) {
          same.piece[p].v[i] = crk::in_step(piece[p].v[i], step);
        }
      }
    }
    return same;
  }
};

/* Prefetches the first chunk of a row. With a second row a decode step took longer than without any
 * (docs/tried.md). */
template <class T>
CRK_FN void prefetch_row(const crk_wide_product_t &call, const T *row) {
  if constexpr (has_prefetch) {
    constexpr uint32_t line_threads = prefetched_line / 16; /* a thread has pieces of 16 bytes */
    const uint32_t thread = thread_index().x, step = call.threads * piece_elements<T>;
    const uint64_t end = call.k < call.chunk ? call.k : call.chunk;
    CRK_UNROLL
    for (uint32_t p = 0; p < CRK_WIDE_PIECES; p++) {
      const uint32_t at = thread * piece_elements<T> + p * step;
      if (thread % line_threads == 0 && at < end) {
        prefetch(row + at);
      }
    }
    wave_barrier(); /* else nvcc may leave lanes apart */
  }
}

/* Multiplies the block's rows with x, and calls store(row, sums) for each of them in one thread. Per is 1 or 2: the
 * number of sequences of rows, and of the sums of each `row`. A gate has a sequence in each of two matrices, pairs have
 * two in one. They begin at matrix[0] and matrix[1], and their rows are row_stride[0] and row_stride[1] apart. */
template <class T, int Per, class Store>
CRK_FN void multiply_wide(const crk_wide_product_t &call, const T *const (&matrix)[Per],
                          const uint64_t (&row_stride)[Per], uint32_t rows, Store store) {
  using A = wide<T>;
  CRK_SHARED(A, sums, CRK_WIDE_SUMS);
  const uint32_t thread = thread_index().x, threads = call.threads, groups = threads / group_lanes;
  const uint32_t group = thread / group_lanes, count = rows * Per, step = threads * piece_elements<T>;
  const bool is_owner = thread % (group_lanes / 2) == 0;
  const uint32_t owned = thread % group_lanes / (group_lanes / 2); /* of the two sums at hand */
  prefetch_row(call, matrix[0]);
  wait_for_launch_before();
  CRK_NO_UNROLL
  for (uint64_t begin = 0; begin < call.k; begin += call.chunk) {
    const uint64_t end = call.k - begin < call.chunk ? call.k : begin + call.chunk;
    const uint64_t first = begin + thread * piece_elements<T>;
    bool has[CRK_WIDE_PIECES];
    CRK_UNROLL
    for (int p = 0; p < CRK_WIDE_PIECES; p++) {
      has[p] = first + static_cast<uint32_t>(p) * step < end;
    }
    wide_pieces<T> x, a, b;
    /* Sum i is of row i / Per. An odd last sum is computed twice. */
    const T *from[Per];
    CRK_UNROLL
    for (int j = 0; j < Per; j++) {
      from[j] = matrix[j] + first;
    }
    const auto request = [&](uint32_t i) {
      a.load(from[0], step, has);
      b.load(Per == 2 ? from[Per - 1] : from[0] + (i + 1 < count ? row_stride[0] : 0), step, has);
      CRK_UNROLL
      for (int j = 0; j < Per; j++) {
        from[j] += (2 / Per) * row_stride[j];
      }
    };
    x.load(static_cast<const T *>(call.x) + first, step, has);
    request(0);
    /* Requests come at the end of the loop's body. If they came at its beginning, nvcc would delay some of them until
     * products have freed registers. */
    uint32_t i = 0;
    CRK_NO_UNROLL
    for (;;) {
      A sum_a = {}, sum_b = {};
      const wide_pieces<T> now = x.in_step(i);
      CRK_UNROLL
      for (int p = 0; p < CRK_WIDE_PIECES; p++) {
        sum_a = add_piece<T>(now.piece[p], a.piece[p], sum_a);
        sum_b = add_piece<T>(now.piece[p], b.piece[p], sum_b);
      }
      const A sum = sums_of_group(sum_a, sum_b);
      if (is_owner && i + owned < count) {
        A *to = sums + (i + owned) * groups + group;
        *to = begin == 0 ? sum : *to + sum;
      }
      i += 2;
      if (i >= count) {
        break;
      }
      request(i);
    }
  }
  shared_barrier();
  uint32_t log2_width = 0; /* of the threads that add up the sums of a row */
  while (1u << log2_width < groups) {
    log2_width++;
  }
  const uint32_t width = 1u << log2_width, place = thread & (width - 1);
  CRK_NO_UNROLL
  for (uint32_t first = 0; first < rows; first += threads >> log2_width) {
    const uint32_t row = first + (thread >> log2_width);
    A total[Per];
    CRK_UNROLL
    for (int j = 0; j < Per; j++) {
      total[j] = row < rows && place < groups ? sums[(row * Per + j) * groups + place] : A(0);
      total[j] = lanes_reduce(total[j], plus(), width);
    }
    if (place == 0 && row < rows) {
      store(row, total);
    }
  }
}

/* The rows of this block: `rows` rows from `first` on. `block` counts the blocks of the matrix. */
struct wide_rows {
  uint64_t first;
  uint32_t rows;
  CRK_FN wide_rows(const crk_wide_product_t &call, uint32_t block, uint64_t all)
      : first(static_cast<uint64_t>(block) * call.block_rows), rows(rows_left(all, first, call.block_rows)) {}
};

/* The matrix of a block. Then `block` counts the blocks of that matrix. */
CRK_FN uint32_t take_matrix(const crk_wide_product_t &call, uint32_t &block) {
  uint32_t at = 0;
  CRK_UNROLL
  for (uint32_t i = 0; i + 1 < CRK_WIDE_MATRICES; i++) {
    at += block >= call.end[i] ? 1 : 0;
  }
  block -= at == 0 ? 0 : call.end[at - 1];
  return at;
}

/* dst[row] = bias[row] + the sum over k of matrix[row][k] * x[k], for each matrix of the call. */
template <class T>
CRK_FN void matmul_wide(const crk_wide_product_t &call) {
  uint32_t block = block_index().x;
  const uint32_t at = take_matrix(call, block);
  const crk_wide_matrix_t &matrix = call.matrix[at];
  const wide_rows mine(call, block, matrix.rows);
  const T *const from[] = {static_cast<const T *>(matrix.first) + mine.first * matrix.row_stride};
  const uint64_t strides[] = {matrix.row_stride};
  multiply_wide<T, 1>(call, from, strides, mine.rows, [&](uint32_t row, const wide<T>(&sums)[1]) {
    const T *const bias = static_cast<const T *>(matrix.bias);
    const uint64_t at = mine.first + row;
    static_cast<T *>(matrix.dst)[at] = convert<T>(bias == nullptr ? sums[0] : sums[0] + convert<wide<T>>(bias[at]));
  });
}

/* dst[row] = Op(the sum over k of gate[row][k] * x[k]) * (the sum over k of up[row][k] * x[k]). matrix[0] of the call
 * is `gate`, matrix[1] is `up`. They have the same rows; the first one has dst. Both sums are first rounded to T. */
template <class Op, class T>
CRK_FN void matmul_gate(const crk_wide_product_t &call) {
  const crk_wide_matrix_t &first = call.matrix[0], &second = call.matrix[1];
  const wide_rows mine(call, block_index().x, first.rows);
  const T *const from[] = {static_cast<const T *>(first.first) + mine.first * first.row_stride,
                           static_cast<const T *>(second.first) + mine.first * second.row_stride};
  const uint64_t strides[] = {first.row_stride, second.row_stride};
  multiply_wide<T, 2>(call, from, strides, mine.rows, [&](uint32_t row, const wide<T>(&sums)[2]) {
    T *const dst = static_cast<T *>(first.dst) + static_cast<uint64_t>(block_index().x) * call.block_rows;
    dst[row] = gate<Op, T>()(convert<T>(sums[0]), convert<T>(sums[1]));
  });
}

/* The results of up to three matrices, rotated by pairs and stored at their heads. */
template <class T>
CRK_FN void matmul_rope(const crk_wide_rope_t &call) {
  const crk_wide_product_t &product = call.product;
  uint32_t block = block_index().x;
  const uint32_t at = take_matrix(product, block);
  const crk_wide_matrix_t &matrix = product.matrix[at];
  const wide_rows mine(product, block, matrix.rows);
  const head_pair first(call.heads, static_cast<uint32_t>(mine.first));
  const T *const begin = static_cast<const T *>(matrix.first) + first.row(call.heads) * matrix.row_stride;
  const T *const from[] = {begin, begin + first.step * matrix.row_stride};
  const uint64_t stride = (call.heads.interleaved + 1) * matrix.row_stride, strides[] = {stride, stride};
  multiply_wide<T, 2>(product, from, strides, mine.rows, [&](uint32_t row, const wide<T>(&sums)[2]) {
    const crk_rope_heads_t &heads = reread(call).heads; /* nothing of this waits in registers */
    const head_pair pair(heads, static_cast<uint32_t>(mine.first) + row);
    wide<T> a = sums[0], b = sums[1];
    if (matrix.bias != nullptr) {
      const T *const bias = static_cast<const T *>(matrix.bias) + pair.row(heads);
      a += convert<wide<T>>(bias[0]);
      b += convert<wide<T>>(bias[pair.step]);
    }
    pair.store(heads, at, matrix.dst, convert<T>(a), convert<T>(b));
  });
}

}  // namespace
}  // namespace crk

#endif
