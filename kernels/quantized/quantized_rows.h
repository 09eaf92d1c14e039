/* What is made of quantized blocks: tensors of numbers, rows of a table, products with a vector. A thread makes 16 bytes of dst at
 * a time, neighbours neighbouring ones. */
#ifndef CRK_QUANTIZED_ROWS_H
#define CRK_QUANTIZED_ROWS_H

#include "call/quantized_call.h"
#include "elementwise/instances.h"
#include "numbers/wave.h"
#include "quantized/dequantize.h"

namespace crk {

/* ---- By Candle's arguments ---- */

/* A block of threads makes `Share` elements of dst, of which there are `numel`. Candle's blocks have `Threads` threads, and whole
 * shares of them are made without a loop. */
template <class B, uint32_t Share, uint32_t Threads, class T>
CRK_FN void dequantize_named(const void *src, T *dst, uint64_t numel) {
  constexpr uint32_t step = Threads * 4 < Share ? Threads * 4 : Share, elements = block_elements<B>;
  static_assert(step % elements == 0 || elements % step == 0,
                "a step ends where a quantized block does, or within one");
  const uint64_t begin = static_cast<uint64_t>(block_index().x) * Share;
  const B *first = static_cast<const B *>(src) + begin / elements;
  dst += begin;
  const uint32_t i = thread_index().x * 4;
  if (block_size().x == Threads && begin + Share <= numel && reinterpret_cast<uintptr_t>(dst) % 16 == 0) {
    if (Threads * 4 <= Share || i < Share) {
      const uint32_t at = i / elements * static_cast<uint32_t>(sizeof(B)), within = i % elements;
      CRK_UNROLL
      for (uint32_t s = 0; s < Share; s += step) {
        const coded<4> c = format<B>::template load<4>(first + s / elements, at, within + s % elements);
        store_pack(dst + s + i, convert_pack<T>(values_of<B, true>(c)));
      }
    }
  } else {
    for (uint32_t j = i; j < Share; j += block_size().x * 4) {
      if (begin + j < numel) {
        store_values(dst + j, values_of<B, true>(load_elements<B, 4>(first, j)));
      }
    }
  }
}

/* dst[block x] = row ids[block x] of src, rows of `hidden` elements `stride` bytes apart; zeros for the greatest id. */
template <class B>
CRK_FN void get_rows_named(const void *src, const uint32_t *ids, float *dst, int64_t hidden, uint64_t stride) {
  const uint64_t task = block_index().x;
  const uint32_t id = ids[task], count = static_cast<uint32_t>(hidden);
  const bool none = id == ~0u;
  const B *row = reinterpret_cast<const B *>(static_cast<const unsigned char *>(src) + (none ? 0 : id * stride));
  dst += task * hidden;
  for (uint32_t i = (block_index().y * block_size().x + thread_index().x) * 4; i < count;
       i += grid_size().y * block_size().x * 4) {
    pack<float, 4> values = {};
    if (!none) {
      values = values_of<B, false>(load_elements<B, 4>(row, i));
    }
    store_values(dst + i, values);
  }
}

/* The same of rows of floats, which follow each other without gaps. */
template <class T>
CRK_FN void get_rows_of_floats_named(const T *src, const uint32_t *ids, float *dst, int64_t hidden) {
  const uint64_t task = block_index().x, count = hidden;
  const uint32_t id = ids[task];
  const bool none = id == ~0u;
  const T *row = src + (none ? 0 : id * count);
  dst += task * count;
  for (uint64_t i = block_index().y * block_size().x + thread_index().x; i < count;
       i += static_cast<uint64_t>(grid_size().y) * block_size().x) {
    dst[i] = none ? 0.0f : convert<float>(row[i]);
  }
}

/* ---- The launchers' ---- */

struct alignas(16) piece16 {
  pack<uint32_t, 4> word;
};

/* dst[i] = element i of src, `packs` packs of 16 bytes, by `blocks` blocks of CRK_LAUNCHED_THREADS threads that make a tile
 * (CRK_DEQUANTIZE_TILE) at a time, through shared memory: there the quantized blocks come in 16 bytes a lane, while a lane that reads
 * its own few bytes of one touches the same lines as its neighbours. A pack lies alike in its quantized block every time. */
template <class B, class T>
CRK_FN void dequantize_flat(const void *src, T *dst, uint64_t packs, uint32_t blocks) {
  constexpr uint32_t elements = block_elements<B>, tile_elements = CRK_DEQUANTIZE_TILE(sizeof(B), elements),
                     tile_blocks = tile_elements / elements, pieces = tile_blocks * sizeof(B) / sizeof(piece16);
  constexpr uint32_t V = 16 / sizeof(T), stride = CRK_LAUNCHED_THREADS * V, steps = tile_elements / stride;
  static_assert(stride % elements == 0, "a step is a whole number of quantized blocks");
  static_assert(pieces * sizeof(piece16) == tile_blocks * sizeof(B), "a tile is a whole number of pieces");
  const uint32_t thread = thread_index().x, i = thread * V, at = i / elements * static_cast<uint32_t>(sizeof(B)),
                 within = i % elements;
  const bool aligned = (reinterpret_cast<uintptr_t>(dst) | reinterpret_cast<uintptr_t>(src)) % 16 == 0;
  for (uint64_t tile = block_index().x; tile * steps * CRK_LAUNCHED_THREADS < packs; tile += blocks) {
    const uint64_t left = packs - tile * steps * CRK_LAUNCHED_THREADS;
    const B *from = static_cast<const B *>(src) + tile * tile_blocks;
    T *to = dst + tile * tile_elements;
    if (!on_host && aligned && left >= steps * CRK_LAUNCHED_THREADS) {
      /* To a GPU a CRK_KERNEL is one that may have barriers; on the CPU that would be a CRK_COOPERATIVE, whose threads have stacks of
       * their own, and its caches serve a thread's few bytes as well. */
      if constexpr (!on_host) {
        CRK_SHARED(piece16, staged, pieces);
        CRK_UNROLL
        for (uint32_t first = 0; first < pieces; first += CRK_LAUNCHED_THREADS) {
          if (first + thread < pieces) {
            staged[first + thread] = reinterpret_cast<const piece16 *>(from)[first + thread];
          }
        }
        barrier();
        const B *first = reinterpret_cast<const B *>(staged);
        CRK_UNROLL
        for (uint32_t s = 0; s < steps; s++) {
          const coded<V> c = format<B>::template load < V,
                         sizeof(B) % 4 == 0 > (first + s * (stride / elements), at, within);
          store_pack(to + s * stride + i, convert_pack<T>(values_of<B, true>(c)));
        }
        barrier();
      }
    } else {
      CRK_NO_UNROLL
      for (uint32_t s = 0; s < steps && s * CRK_LAUNCHED_THREADS + thread < left; s = opaque(s + 1)) {
        store_values(to + s * stride + i,
                     values_of<B, true>(format<B>::template load<V>(from + s * (stride / elements), at, within)));
      }
    }
  }
}

/* A table's rows as get_rows wants them: four elements from i on. */
template <class B>
struct quantized_table {
  const unsigned char *first;
  uint64_t row_bytes;
  CRK_FN pack<float, 4> load(uint64_t row, uint64_t i, uint64_t) const {
    const B *from = reinterpret_cast<const B *>(first + row * row_bytes);
    return values_of<B, false>(load_elements<B, 4>(from, static_cast<uint32_t>(i)));
  }
};
template <class T>
struct float_table {
  const T *first;
  CRK_FN pack<float, 4> load(uint64_t row, uint64_t i, uint64_t hidden) const {
    const T *from = first + row * hidden + i;
    pack<float, 4> values = {};
    if (hidden - i >= 4) {
      const pack<T, 4> loaded = load_pack<T, 4>(from);
      CRK_UNROLL
      for (int k = 0; k < 4; k++) {
        values.v[k] = convert<float>(loaded.v[k]);
      }
    } else {
      CRK_UNROLL
      for (int k = 0; k < 3; k++) {
        values.v[k] = hidden - i > static_cast<uint64_t>(k) ? convert<float>(from[k]) : 0.0f;
      }
    }
    return values;
  }
};

/* dst[r] = row ids[r] of the table, for r below `count`: `sweep` rows at a time, and `across` elements of a row at a time, four a
 * thread; a block of CRK_LAUNCHED_THREADS has 2^width_log2 threads along a row. Zeros where the id is no row, which is reported but
 * for the greatest id. */
template <class Table>
CRK_FN void get_rows(crk_fault_t fault, Table table, const uint32_t *ids, float *dst, uint64_t count, uint64_t rows,
                     uint64_t hidden, uint64_t sweep, uint64_t across, uint32_t width_log2) {
  const uint64_t begin = ((static_cast<uint64_t>(block_index().y) << width_log2) + thread_index().x) * 4;
  const uint32_t down = CRK_LAUNCHED_THREADS >> width_log2;
  for (uint64_t r = static_cast<uint64_t>(block_index().x) * down + thread_index().y; r < count; r += sweep) {
    const uint32_t id = ids[r];
    const bool present = id < rows;
    if (!present && id != ~0u && begin == 0) {
      report(fault, id);
    }
    float *to = dst + r * hidden;
    for (uint64_t i = begin; i < hidden; i += across) {
      pack<float, 4> values = {};
      if (present) {
        values = table.load(id, i, hidden);
      }
      if (hidden - i >= 4) {
        store_values(to + i, values);
      } else {
        CRK_UNROLL
        for (int k = 0; k < 3; k++) {
          if (hidden - i > static_cast<uint64_t>(k)) {
            to[i + k] = values.v[k];
          }
        }
      }
    }
  }
}

/* ---- Products, both ways ---- */

/* The share of one of 32 lanes in `Rows` rows of `cols` elements, `row_blocks` blocks apart, times y. Rows from `rows` on are taken
 * for the last. */
template <int Rows, class B, class Y>
CRK_FN pack<float, Rows> dot_share(const B *first, uint64_t row_blocks, uint64_t rows, const Y *y, uint32_t cols,
                                   uint32_t place) {
  const B *row[Rows];
  pack<float, Rows> sum = {};
  CRK_UNROLL
  for (int r = 0; r < Rows; r++) {
    row[r] = first + (static_cast<uint64_t>(r) < rows ? r : rows - 1) * row_blocks;
  }
  for (uint32_t i = place * 8; i < cols; i += 32 * 8) {
    const pack<Y, 8> loaded = load_pack<Y, 8>(y + i);
    float v[8], total = 0.0f;
    CRK_UNROLL
    for (int k = 0; k < 8; k++) {
      v[k] = convert<float>(loaded.v[k]);
      total += v[k];
    }
    CRK_UNROLL
    for (int r = 0; r < Rows; r++) {
      const coded<8> c = load_elements<B, 8>(row[r], i);
      float products = 0.0f;
      CRK_UNROLL
      for (int k = 0; k < 8; k++) {
        products = fma(code_of<B>(c, k), v[k], products);
      }
      sum.v[r] = fma(c.scale, products, sum.v[r]);
      if constexpr (format<B>::has_minimum) {
        sum.v[r] = fma(c.minimum, total, sum.v[r]);
      }
    }
  }
  return sum;
}

struct add_floats {
  CRK_FN float operator()(float a, float b) const { return a + b; }
};

/* dst[row] = the sum over the row's elements times y, for `Rows` rows from `row` on; a group of 32 lanes, all of which must come. */
template <int Rows, class B, class Y>
CRK_FN void dequantize_mul_mat_vec(const void *src, const Y *y, float *dst, uint64_t cols, uint64_t row,
                                   uint64_t rows) {
  const uint64_t row_blocks = cols / block_elements<B>, left = row < rows ? rows - row : 0;
  const B *first = static_cast<const B *>(src) + (left > 0 ? row : 0) * row_blocks;
  const uint32_t place = lane() % group_lanes;
  const pack<float, Rows> shares =
      dot_share<Rows>(first, row_blocks, left > 0 ? left : 1, y, static_cast<uint32_t>(cols), place);
  CRK_UNROLL
  for (int r = 0; r < Rows; r++) {
    const float sum = butterfly<32>(shares.v[r], add_floats());
    if (place == 0 && static_cast<uint64_t>(r) < left) {
      dst[row + r] = sum;
    }
  }
}

/* The same for all rows, by `blocks` blocks. */
template <class B, class Y>
CRK_FN void dequantize_mul_mat_vec_rows(const void *src, const Y *y, float *dst, uint64_t cols, uint64_t rows,
                                        uint32_t blocks) {
  constexpr uint64_t share = CRK_LAUNCHED_THREADS / group_lanes * CRK_VECTOR_ROWS;
  for (uint64_t first = block_index().x * share; first < rows; first += blocks * share) {
    const uint64_t row = first + thread_index().x / group_lanes * CRK_VECTOR_ROWS;
    dequantize_mul_mat_vec<CRK_VECTOR_ROWS, B>(src, y, dst, cols, row, rows);
  }
}

}  // namespace crk

#endif
