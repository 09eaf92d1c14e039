/* Matrix products without a BLAS library. matmul_tile makes dst in tiles, one tile per block. matmul_parts adds up the
 * parts of a split k. Products with a single row are in matmul_vec.h.
 *
 * A block copies a step along k of both operands to shared memory and multiplies from there. So every element read from
 * memory is used for a whole tile. While one step is multiplied, the loads of the next are under way to registers. The
 * sums of a thread stay in registers, in f32 for f16 and bf16, else in the type itself. They are rounded once at the
 * end.
 *
 * A tile in shared memory consists of units. A unit of a 16-bit type is two neighbours along k, which some machines
 * multiply and add in one instruction. For other types a unit is one number. The units at one place along k follow each
 * other row by row, and the next place begins `pitch` units later. So a thread reads the units of neighbouring rows at
 * once.
 *
 * matmul_cores.h has the kernels for matrix cores. */
#ifndef CRK_MATMUL_TILE_H
#define CRK_MATMUL_TILE_H

#include "matmul/matmul_place.h"
#include "numbers/dot_half.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

template <class T>
using unit_of = choose<half<T>, uint32_t, T>;
template <class T>
inline constexpr int unit_elements = half<T> ? 2 : 1;

/* The number of units in 16 bytes, and these units. */
template <class U>
inline constexpr int chunk_units = 16 / static_cast<int>(sizeof(U));
template <class U>
struct alignas(16) chunk : pack<U, chunk_units<U>> {};

template <class T>
inline constexpr int step_units = CRK_MATMUL_STEP_BYTES / static_cast<int>(sizeof(unit_of<T>));
template <class T>
inline constexpr int step_elements = step_units<T> * unit_elements<T>;

/* a * b + c. The CPU rounds the product too. The error stays within the same bound, and a CPU without an fma
 * instruction is much faster this way. */
template <class A>
CRK_FN A add_product(A a, A b, A c) {
  if constexpr (on_host) {
    return a * b + c;
  } else {
    return fma(a, b, c);
  }
}

/* Brings `Rows` rows of an operand from global to shared memory, with all `Threads` threads of the block. fetch() loads
 * a step to registers, put() stores it in the tile. */
template <class T, int Rows, int Threads>
struct operand_tile {
  using U = unit_of<T>;
  static constexpr int V = chunk_units<U>, depth = step_units<T>;
  static constexpr int pitch = Rows + V; /* units; the V extra units spread a row's units over the banks */
  static constexpr int chunks = Rows * depth / V, loads = (chunks + Threads - 1) / Threads;
  static constexpr int per_load = 16 / static_cast<int>(sizeof(T)); /* elements */
  /* For CRK_MATMUL_ALONG_ROWS: the number of rows that a thread loads at once at one place along k. They are 16 bytes
   * for each element of a unit, or 8 bytes if a thread has too few loads. */
  static constexpr int run = half<T> && loads % 2 == 0 ? 2 * V : V, runs = Rows * depth / run;
  static constexpr int run_loads = (runs + Threads - 1) / Threads, singles = Rows * depth / Threads;
  static_assert(Rows * depth % Threads == 0 && singles <= loads * V && run_loads * run <= loads * V, "a share each");
  using shared = chunk<U>;
  static constexpr int shared_chunks = depth * pitch / V;

  U held[loads * V];
  uint32_t way;

  /* Loads the step that begins at `src`, the first of `rows` rows, 1 to Rows. `left` elements of k are left, at least
   * 1. Elements beyond k become 0; rows beyond `rows` repeat the last ones. */
  CRK_FN void fetch(const T *src, const crk_matmul_operand_t &operand, uint32_t rows, uint64_t left) {
    way = left >= step_elements<T> ? operand.way : static_cast<uint32_t>(CRK_MATMUL_ANY);
    if (way == CRK_MATMUL_ALONG_K) {
      fetch_along_k(src, operand.row_stride, rows);
    } else if (way == CRK_MATMUL_ALONG_ROWS) {
      fetch_along_rows(src, operand.k_stride, rows);
    } else {
      fetch_singles(src, operand, rows, left < step_elements<T> ? static_cast<uint32_t>(left) : step_elements<T>);
    }
  }
  CRK_FN void put(shared *tile) const {
    if (way == CRK_MATMUL_ALONG_K) {
      put_along_k(reinterpret_cast<U *>(tile));
    } else if (way == CRK_MATMUL_ALONG_ROWS) {
      put_along_rows(tile);
    } else {
      put_singles(reinterpret_cast<U *>(tile));
    }
  }

 private:
  /* Number of the n-th piece of this thread in a step of `Count` pieces, and whether it has such a piece. A thread
   * without one reads the last piece as well, but does not store it. */
  CRK_FN static uint32_t piece(int n) { return thread_index().x + static_cast<uint32_t>(n * Threads); }
  template <int Count>
  CRK_FN static bool has(int n) {
    return Count % Threads == 0 || piece(n) < Count;
  }
  template <int Count>
  CRK_FN static uint32_t piece_of(int n) {
    return has<Count>(n) ? piece(n) : Count - 1;
  }

  CRK_FN void fetch_along_k(const T *src, uint64_t row_stride, uint32_t rows) {
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      const uint32_t row = piece_of<chunks>(n) / (depth / V), part = piece_of<chunks>(n) % (depth / V);
      const uint64_t at = (row < rows ? row : rows - 1) * row_stride + part * per_load;
      const pack<U, V> units = bit_cast<pack<U, V>>(load_pack<T, per_load>(src + at));
      CRK_UNROLL
      for (int i = 0; i < V; i++) {
        held[n * V + i] = units.v[i];
      }
    }
  }
  CRK_FN void put_along_k(U *tile) const {
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      if (has<chunks>(n)) {
        const uint32_t row = piece(n) / (depth / V), part = piece(n) % (depth / V);
        CRK_UNROLL
        for (int i = 0; i < V; i++) {
          tile[(part * V + i) * pitch + row] = held[n * V + i];
        }
      }
    }
  }

  CRK_FN void fetch_along_rows(const T *src, uint64_t k_stride, uint32_t rows) {
    CRK_UNROLL
    for (int n = 0; n < run_loads; n++) {
      const uint32_t row = piece_of<runs>(n) % (Rows / run) * run, u = piece_of<runs>(n) / (Rows / run);
      const T *from = src + (row < rows ? row : rows - run) + u * unit_elements<T> * k_stride;
      if constexpr (half<T>) {
        using words = pack<uint32_t, run / 2>;
        const words even = bit_cast<words>(load_pack<T, run>(from));
        const words odd = bit_cast<words>(load_pack<T, run>(from + k_stride));
        CRK_UNROLL
        for (int i = 0; i < run / 2; i++) {
          held[n * run + 2 * i] = (even.v[i] & 0xffffu) | odd.v[i] << 16;
          held[n * run + 2 * i + 1] = even.v[i] >> 16 | (odd.v[i] & 0xffff0000u);
        }
      } else {
        const pack<T, run> units = load_pack<T, run>(from);
        CRK_UNROLL
        for (int i = 0; i < run; i++) {
          held[n * run + i] = units.v[i];
        }
      }
    }
  }
  CRK_FN void put_along_rows(shared *tile) const {
    CRK_UNROLL
    for (int n = 0; n < run_loads; n++) {
      if (has<runs>(n)) {
        const uint32_t row = piece(n) % (Rows / run) * run, u = piece(n) / (Rows / run);
        shared *to = tile + (u * pitch + row) / V;
        CRK_UNROLL
        for (int c = 0; c < run / V; c++) {
          shared units;
          CRK_UNROLL
          for (int i = 0; i < V; i++) {
            units.v[i] = held[n * run + c * V + i];
          }
          to[c] = units;
        }
      }
    }
  }

  CRK_FN void fetch_singles(const T *src, const crk_matmul_operand_t &operand, uint32_t rows, uint32_t left) {
    CRK_UNROLL
    for (int n = 0; n < singles; n++) {
      const uint32_t row = piece(n) % Rows, k = piece(n) / Rows * unit_elements<T>;
      const T *from = src + (row < rows ? row : rows - 1) * operand.row_stride;
      const bool present = k < left;
      from += present ? k * operand.k_stride : 0;
      if constexpr (half<T>) {
        const bool next = k + 1 < left;
        const uint32_t low = from->code, high = from[next ? operand.k_stride : 0].code;
        held[n] = (present ? low : 0) | (next ? high << 16 : 0);
      } else {
        held[n] = present ? *from : T(0);
      }
    }
    CRK_UNROLL
    for (int n = singles; n < loads * V; n++) {
      held[n] = U(0);
    }
  }
  CRK_FN void put_singles(U *tile) const {
    CRK_UNROLL
    for (int n = 0; n < singles; n++) {
      tile[piece(n) / Rows * pitch + piece(n) % Rows] = held[n];
    }
  }
};

/* The rows of a tile that belong to a thread. They are groups of neighbouring rows, spread evenly over the tile. A
 * group has up to 16 bytes of units. */
template <class U, int Rows, int Count>
struct thread_rows {
  static constexpr int group = Count < chunk_units<U> ? Count : chunk_units<U>, groups = Count / group;
  static constexpr int pitch = Rows + chunk_units<U>;
  uint32_t first; /* first row */

  CRK_FN explicit thread_rows(uint32_t place) : first(place * group) {}
  CRK_FN uint32_t at(int i) const { return first + static_cast<uint32_t>(i / group * (Rows / groups) + i % group); }

  CRK_FN void load(const chunk<U> *tile, uint32_t u, U (&units)[Count]) const {
    CRK_UNROLL
    for (int g = 0; g < groups; g++) {
      const uint32_t at_unit = u * pitch + at(g * group);
      if constexpr (group == chunk_units<U>) {
        const chunk<U> read = tile[at_unit / group];
        CRK_UNROLL
        for (int i = 0; i < group; i++) {
          units[g * group + i] = read.v[i];
        }
      } else {
        CRK_UNROLL
        for (int i = 0; i < group; i++) {
          units[g * group + i] = reinterpret_cast<const U *>(tile)[at_unit + i];
        }
      }
    }
  }
};

/* Returns `sum` plus the products of the elements of two units. */
template <class T>
CRK_FN wide<T> add_unit(unit_of<T> a, unit_of<T> b, wide<T> sum) {
  if constexpr (!half<T>) {
    return add_product(a, b, sum);
  } else if constexpr (!on_host) {
    return dot2<T>(a, b, sum);
  } else {
    sum = add_product(low_number(T(), a), low_number(T(), b), sum);
    return add_product(high_number(T(), a), high_number(T(), b), sum);
  }
}

/* sum[i][j] += a[i] * b[j] */
template <class T, int M, int N>
CRK_FN void add_products(const unit_of<T> (&a)[M], const unit_of<T> (&b)[N], wide<T> (&sum)[M][N]) {
  if constexpr (half<T> && on_host) {
    /* Converts b once, before the loops; the CPU's compiler does not hoist the conversion by itself. */
    float low[N], high[N];
    for (int j = 0; j < N; j++) {
      low[j] = low_number(T(), b[j]);
      high[j] = high_number(T(), b[j]);
    }
    for (int i = 0; i < M; i++) {
      const float x = low_number(T(), a[i]), y = high_number(T(), a[i]);
      for (int j = 0; j < N; j++) {
        sum[i][j] = add_product(y, high[j], add_product(x, low[j], sum[i][j]));
      }
    }
  } else {
    CRK_UNROLL
    for (int i = 0; i < M; i++) {
      CRK_UNROLL
      for (int j = 0; j < N; j++) {
        sum[i][j] = add_unit<T>(a[i], b[j], sum[i][j]);
      }
    }
  }
}

/* Writes the thread's part of a tile to `dst`, the tile's first element. The tile has `rows` x `columns` valid
 * elements. */
template <class D, class Down, class Across, class A, int M, int N>
CRK_FN void store_thread_sums(const crk_matmul_t &call, const Down &down, const Across &across, uint32_t rows,
                              uint32_t columns, const A (&sum)[M][N], D *dst) {
  constexpr int group = Across::group;
  CRK_UNROLL
  for (int i = 0; i < M; i++) {
    if (down.at(i) < rows) {
      D *to = dst + down.at(i) * call.row_stride;
      CRK_UNROLL
      for (int g = 0; g < N; g += group) {
        if (call.by_vectors) {
          pack<D, group> values;
          CRK_UNROLL
          for (int j = 0; j < group; j++) {
            values.v[j] = convert<D>(sum[i][g + j]);
          }
          if (across.at(g) < columns) {
            store_pack(to + across.at(g), values);
          }
        } else {
          CRK_UNROLL
          for (int j = 0; j < group; j++) {
            if (across.at(g + j) < columns) {
              to[across.at(g + j) * call.column_stride] = convert<D>(sum[i][g + j]);
            }
          }
        }
      }
    }
  }
}

/* dst = lhs * rhs in tiles of Rows x Columns, one per block. A thread has M x N elements of a tile. */
template <class T, int Rows, int Columns, int Threads, int M, int N>
CRK_FN void matmul_tile(const crk_matmul_t &call, const T *lhs, const T *rhs, T *dst) {
  using U = unit_of<T>;
  using left_tile = operand_tile<T, Rows, Threads>;
  using right_tile = operand_tile<T, Columns, Threads>;
  static_assert(Rows / M * (Columns / N) == Threads, "every thread has a part of the tile");
  CRK_SHARED(chunk<U>, lhs_tile, left_tile::shared_chunks);
  CRK_SHARED(chunk<U>, rhs_tile, right_tile::shared_chunks);
  const matmul_place place(call, Rows, Columns);
  const T *a = lhs + place.lhs, *b = rhs + place.rhs;
  const uint32_t rows = place.rows, columns = place.columns;
  uint64_t k = place.k;

  const thread_rows<U, Rows, M> down(thread_index().x / (Columns / N));
  const thread_rows<U, Columns, N> across(thread_index().x % (Columns / N));
  wide<T> sum[M][N] = {};
  left_tile left;
  right_tile right;
  left.fetch(a, call.lhs, rows, k);
  right.fetch(b, call.rhs, columns, k);
  for (;;) {
    left.put(lhs_tile);
    right.put(rhs_tile);
    shared_barrier();
    k = k > step_elements<T> ? k - step_elements<T> : 0;
    if (k != 0) {
      a += step_elements<T> * call.lhs.k_stride;
      b += step_elements<T> * call.rhs.k_stride;
      left.fetch(a, call.lhs, rows, k);
      right.fetch(b, call.rhs, columns, k);
    }
    CRK_NO_UNROLL
    for (uint32_t u = 0; u < step_units<T>; u += 2) {
      CRK_UNROLL
      for (uint32_t v = u; v < u + 2; v++) {
        U x[M], y[N];
        down.load(lhs_tile, v, x);
        across.load(rhs_tile, v, y);
        add_products<T>(x, y, sum);
      }
    }
    if (k == 0) {
      break;
    }
    shared_barrier();
  }

  if constexpr (half<T>) {
    if (call.parts.size > 1) {
      store_thread_sums(call, down, across, rows, columns, sum, reinterpret_cast<float *>(dst) + place.dst);
      return;
    }
  }
  store_thread_sums(call, down, across, rows, columns, sum, dst + place.dst);
}

/* Adds `Count` parts, which begin `count` elements after each other, to V sums. All are loaded first. */
template <int Count, class W, int V>
CRK_FN void add_parts(pack<W, V> &sum, const W *parts, uint64_t count) {
  pack<W, V> part[Count];
  CRK_UNROLL
  for (int p = 0; p < Count; p++) {
    part[p] = load_pack<W, V>(parts + p * count);
  }
  CRK_UNROLL
  for (int p = 0; p < Count; p++) {
    CRK_UNROLL
    for (int n = 0; n < V; n++) {
      sum.v[n] += part[p].v[n];
    }
  }
}
/* dst[i] = the sum of sums[part * count + i] over all parts, in order: V elements at a time. */
template <int V, class T>
CRK_FN void add_parts(const wide<T> *sums, uint64_t parts, uint64_t count, T *dst, uint32_t threads) {
  constexpr uint64_t together = 4;
  const elements e(count / V, threads);
  for (uint64_t p = e.first; p < e.end; p += e.step) {
    const uint64_t i = p * V;
    pack<wide<T>, V> sum;
    CRK_UNROLL
    for (int n = 0; n < V; n++) {
      sum.v[n] = static_cast<wide<T>>(-0.0f); /* this changes no sum */
    }
    uint64_t part = 0;
    for (; part + together <= parts; part += together) {
      add_parts<together>(sum, sums + part * count + i, count);
    }
    for (; part < parts; part++) {
      add_parts<1>(sum, sums + part * count + i, count);
    }
    pack<T, V> result;
    CRK_UNROLL
    for (int n = 0; n < V; n++) {
      result.v[n] = convert<T>(sum.v[n]);
    }
    store_pack(dst + i, result);
  }
}
/* The same for all elements: 16 bytes of a part at once, if the parts and dst are aligned. */
template <class T>
CRK_FN void matmul_parts(const wide<T> *sums, uint64_t parts, uint64_t count, T *dst, uint32_t threads) {
  constexpr int V = 16 / sizeof(wide<T>);
  if (count % V == 0 && reinterpret_cast<uintptr_t>(dst) % (V * sizeof(T)) == 0) {
    add_parts<V>(sums, parts, count, dst, threads);
  } else {
    add_parts<1>(sums, parts, count, dst, threads);
  }
}

}  // namespace
}  // namespace crk

#endif
