/* Kernels that turn quantized blocks into numbers. dequantize_named and dequantize_flat convert whole tensors.
 * get_rows_named, get_rows_of_floats_named and get_rows read rows of a table. dequantize_mul_mat_vec multiplies rows
 * with a float vector. format<block> in dequantize.h does the decoding. Each thread makes up to 16 bytes of dst at a
 * time, next to its neighbours' bytes. */
#ifndef CRK_QUANTIZED_ROWS_H
#define CRK_QUANTIZED_ROWS_H

#include "call/quantized_call.h"
#include "elementwise/instances.h"
#include "numbers/wave.h"
#include "quantized/dequantize.h"

namespace crk {

/* ---- With Candle's arguments ---- */

/* A block of threads makes `Share` elements of dst, which has `numel` elements. Candle launches blocks of `Threads`
 * threads; these make their whole share in unrolled code, without a loop. */
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

/* dst[block_index().x] = row ids[block_index().x] of src. Rows have `hidden` elements and are `stride` bytes apart. The
 * id 2^32 - 1 gives zeros. */
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

/* The same for rows of floats without gaps between them. */
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

/* ---- For the launchers ---- */

struct alignas(16) piece16 {
  pack<uint32_t, 4> word;
};

/* dst[i] = element i of src, for `packs` packs of 16 bytes of dst. Each of `blocks` blocks of CRK_LAUNCHED_THREADS
 * threads makes a tile (CRK_DEQUANTIZE_TILE) at a time. The quantized blocks are copied to shared memory first, 16
 * bytes per lane. If each lane read its few bytes directly, neighbouring lanes would read the same lines again and
 * again. In every step, a thread's pack has the same place in its quantized block. */
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
      /* On a GPU a CRK_KERNEL may have barriers. On the CPU, barriers would require a CRK_COOPERATIVE, which gives each
       * thread a stack of its own. The CPU's caches serve reads of a few bytes equally well. */
      if constexpr (!on_host) {
        CRK_SHARED(piece16, staged, pieces);
        CRK_UNROLL
        for (uint32_t first = 0; first < pieces; first += CRK_LAUNCHED_THREADS) {
          if (first + thread < pieces) {
            staged[first + thread] = reinterpret_cast<const piece16 *>(from)[first + thread];
          }
        }
        shared_barrier();
        const B *first = reinterpret_cast<const B *>(staged);
        CRK_UNROLL
        for (uint32_t s = 0; s < steps; s++) {
          const coded<V> c = format<B>::template load < V,
                         sizeof(B) % 4 == 0 > (first + s * (stride / elements), at, within);
          store_pack(to + s * stride + i, convert_pack<T>(values_of<B, true>(c)));
        }
        shared_barrier();
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

/* A table for get_rows: load() returns four elements of a row, from i on. */
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

/* dst[r] = row ids[r] of the table, for r below `count`. The grid makes `sweep` rows at a time, and `across` elements
 * of a row at a time, four per thread. A block of CRK_LAUNCHED_THREADS has 2^width_log2 threads along a row. An id that
 * is not a row gives zeros and is reported. The id 2^32 - 1 gives zeros and is not reported. */
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

/* ---- Products with a vector, for both kinds of callers ---- */

/* The share of one of 32 lanes in the product of `Rows` rows with y. Rows have `cols` elements and are `row_blocks`
 * blocks apart; rows from `rows` on repeat the last one. */
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

/* dst[row] = the sum over a row's elements times y, for `Rows` rows from `row` on, by a group of 32 lanes. All lanes of
 * the group must call it. */
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
    const float sum = butterfly<32>(shares.v[r], plus());
    if (place == 0 && static_cast<uint64_t>(r) < left) {
      dst[row + r] = sum;
    }
  }
}

/* The same for all rows; the grid has `blocks` blocks. */
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
