/* Products of one row with a matrix. matmul_rows is for a matrix that is contiguous along k, matmul_columns for a
 * matrix that is contiguous along the elements of dst. The speed of reading the matrix is the limit. So each thread
 * reads 16 bytes at a time, and only sums go through shared memory.
 *
 * The left operand of the call is the row x, the right one the matrix; dst is contiguous. Types of sums are those of
 * matmul_tile.h. */
#ifndef CRK_MATMUL_VEC_H
#define CRK_MATMUL_VEC_H

#include "matmul/matmul_tile.h"
#include "numbers/wave.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* A piece is 16 bytes of a row. These are its number of elements, and its type as units (matmul_tile.h). */
template <class T>
inline constexpr uint32_t piece_elements = 16 / sizeof(T);
template <class T>
using piece_units = pack<unit_of<T>, chunk_units<unit_of<T>>>;

template <class T>
CRK_FN piece_units<T> load_piece(const T *src) {
  return bit_cast<piece_units<T>>(load_pack<T, 16 / static_cast<int>(sizeof(T))>(src));
}

/* Returns `sum` plus the products of the elements of two pieces. */
template <class T>
CRK_FN wide<T> add_piece(const piece_units<T> &a, const piece_units<T> &b, wide<T> sum) {
  CRK_UNROLL
  for (int i = 0; i < chunk_units<unit_of<T>>; i++) {
    sum = add_unit<T>(a.v[i], b.v[i], sum);
  }
  return sum;
}

/* Returns the sum of x over a team of 2^log2_width neighbouring threads, at most a block, to each of them. `shared` has
 * one place for each group of 32 lanes in the block. All threads of the block must call it. */
template <class A>
CRK_FN A sum_of_threads(A x, uint32_t log2_width, A *shared) {
  const auto add = [](A a, A b) { return a + b; };
  x = lanes_reduce(x, add, log2_width < 5 ? 1u << log2_width : group_lanes);
  if (log2_width > 5) {
    const uint32_t thread = thread_index().x, groups = 1u << (log2_width - 5);
    if (thread % group_lanes == 0) {
      shared[thread / group_lanes] = x;
    }
    shared_barrier();
    x = lanes_reduce(shared[(thread >> log2_width) * groups + (thread & (groups - 1))], add, groups);
  }
  return x;
}

/* dst[row] = the sum over k of matrix[row][k] * x[k]. Both are contiguous along k. A team of 2^log2_width threads
 * multiplies CRK_MATMUL_VEC_ROWS rows at once, so it loads x once for these rows. */
template <class T>
CRK_FN void matmul_rows(const crk_matmul_t &call, const T *x, const T *matrix, T *dst) {
  using A = wide<T>;
  constexpr int R = CRK_MATMUL_VEC_ROWS, ahead = 2;
  constexpr uint32_t E = piece_elements<T>;
  CRK_SHARED(A, groups, R * CRK_MATMUL_VEC_THREADS / group_lanes);
  uint64_t batch = call.first_block + block_index().x, at[2];
  const uint64_t piece = take_coordinate(batch, call.tiles);
  locate(call.batch, batch, at);
  const uint32_t width = 1u << call.log2_width, place = thread_index().x & (width - 1);
  const uint64_t first =
      (piece * (CRK_MATMUL_VEC_THREADS >> call.log2_width) + (thread_index().x >> call.log2_width)) * R;
  const T *row[R];
  CRK_UNROLL
  for (int r = 0; r < R; r++) {
    const uint64_t last = call.rhs.rows - 1;
    row[r] = matrix + at[1] + (first + r < last ? first + r : last) * call.rhs.row_stride;
  }
  x += at[0];

  A sum[R] = {};
  const uint64_t whole = call.k - call.k % E;
  uint64_t i = place * E;
  const uint32_t step = width * E;
  CRK_NO_UNROLL
  for (; i + (ahead - 1) * step < whole; i += ahead * step) {
    piece_units<T> a[ahead], b[R][ahead];
    CRK_UNROLL
    for (int s = 0; s < ahead; s++) {
      a[s] = load_piece(x + i + s * step);
      CRK_UNROLL
      for (int r = 0; r < R; r++) {
        b[r][s] = load_piece(row[r] + i + s * step);
      }
    }
    CRK_UNROLL
    for (int s = 0; s < ahead; s++) {
      CRK_UNROLL
      for (int r = 0; r < R; r++) {
        sum[r] = add_piece<T>(a[s], b[r][s], sum[r]);
      }
    }
  }
  CRK_NO_UNROLL
  for (; i < whole; i += step) {
    const piece_units<T> a = load_piece(x + i);
    CRK_UNROLL
    for (int r = 0; r < R; r++) {
      sum[r] = add_piece<T>(a, load_piece(row[r] + i), sum[r]);
    }
  }
  CRK_NO_UNROLL
  for (i = whole + place; i < call.k; i += width) {
    const A a = convert<A>(x[i]);
    CRK_UNROLL
    for (int r = 0; r < R; r++) {
      sum[r] = add_product(a, convert<A>(row[r][i]), sum[r]);
    }
  }
  dst += batch * call.rhs.rows + first;
  CRK_UNROLL
  for (int r = 0; r < R; r++) {
    const A total = sum_of_threads(sum[r], call.log2_width, groups + r * (CRK_MATMUL_VEC_THREADS / group_lanes));
    if (place == 0 && first + r < call.rhs.rows) {
      dst[r] = convert<T>(total);
    }
  }
}

/* dst[column] = the sum over k of matrix[k][column] * x[k]. The matrix is contiguous along its columns, which are at
 * least 16 bytes. A thread takes 16 bytes of columns at every 32nd k. The block then adds up its threads' sums in
 * shared memory. x may have any stride. */
template <class T>
CRK_FN void matmul_columns(const crk_matmul_t &call, const T *x, const T *matrix, T *dst) {
  using A = wide<T>;
  constexpr uint32_t E = piece_elements<T>, across = CRK_MATMUL_VEC_ACROSS, down = CRK_MATMUL_VEC_THREADS / across;
  constexpr int ahead = 4;
  CRK_SHARED(A, parts, CRK_MATMUL_VEC_THREADS * E);
  uint64_t batch = call.first_block + block_index().x, at[2];
  const uint64_t first = take_coordinate(batch, call.tiles) * (across * E), columns = call.rhs.rows;
  locate(call.batch, batch, at);
  const uint32_t thread = thread_index().x, line = thread / across;
  /* Threads that would reach beyond the last column take the last 16 bytes of columns instead. Some columns then have
   * two threads; only the first of them stores the result. */
  const uint64_t mine = first + thread % across * E, begin = mine < columns - E ? mine : columns - E;
  const uint64_t k_stride = call.rhs.k_stride, x_stride = call.lhs.k_stride;
  x += at[0] + line * x_stride;
  matrix += at[1] + begin + line * k_stride;

  A sum[E] = {};
  const auto add = [&](const pack<T, E> &values, A scale) {
    CRK_UNROLL
    for (uint32_t j = 0; j < E; j++) {
      sum[j] = add_product(convert<A>(values.v[j]), scale, sum[j]);
    }
  };
  uint64_t k = line;
  CRK_NO_UNROLL
  for (; k + (ahead - 1) * down < call.k; k += ahead * down) {
    pack<T, E> values[ahead];
    A scales[ahead];
    CRK_UNROLL
    for (int s = 0; s < ahead; s++) {
      values[s] = load_pack<T, static_cast<int>(E)>(matrix);
      scales[s] = convert<A>(*x);
      matrix += down * k_stride;
      x += down * x_stride;
    }
    CRK_UNROLL
    for (int s = 0; s < ahead; s++) {
      add(values[s], scales[s]);
    }
  }
  CRK_NO_UNROLL
  for (; k < call.k; k += down) {
    add(load_pack<T, static_cast<int>(E)>(matrix), convert<A>(*x));
    matrix += down * k_stride;
    x += down * x_stride;
  }
  CRK_UNROLL
  for (uint32_t j = 0; j < E; j++) {
    parts[thread * E + j] = sum[j];
  }
  shared_barrier();
  if (thread < across * E) {
    A total = parts[thread];
    CRK_UNROLL
    for (uint32_t y = 1; y < down; y++) {
      total += parts[y * (across * E) + thread];
    }
    const uint64_t owned = first + thread / E * E, moved = owned < columns - E ? owned : columns - E;
    const uint64_t column = moved + thread % E;
    if (column >= owned && column < columns) {
      dst[batch * columns + column] = convert<T>(total);
    }
  }
}

}  // namespace
}  // namespace crk

#endif
