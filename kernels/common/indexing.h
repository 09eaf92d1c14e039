/* What the kernels of indexing.hip share. A tensor is seen as [left, dim, right], `right` the fastest; ids choose along `dim`.
 *
 * An id equal to its type's greatest value is nobody's: it gives 0, or adds nothing. Any other id outside of the dim touches
 * no memory, and is reported where somebody asks (fault_word.h).
 *
 * The structs are plain C: csrc/launch/indexing.c fills them. */
#ifndef CRK_INDEXING_H
#define CRK_INDEXING_H

#include <stdint.h>

#include "fault_word.h"
#include "nd.h"

#define CRK_INDEXING_THREADS 256

/* index_select and gather. Elements are counted in what a kernel moves at once: elements, or pieces of rows. */
typedef struct crk_pick {
  crk_nd_t space; /* [left, ids, right]; operand 0 is the source at id 0, operand 1 the ids */
  uint64_t dim; /* of the source */
  uint64_t right;
  crk_fault_t fault;
} crk_pick_t;

/* scatter, scatter_add and index_add. Block y owns the destination's indices from y * span on, `span` of them: it alone writes
 * there, in the order of the ids. */
typedef struct crk_put {
  crk_nd_t columns; /* [left, right]; operand 0 is the source at its first index, operand 1 the destination */
  uint64_t right;
  uint64_t count; /* of ids along the dim */
  uint64_t ids_stride; /* index_add's */
  uint64_t dim; /* of the destination */
  uint64_t span;
  uint32_t by_vectors; /* rows of 16 bytes at a time: `right` is a whole number of them, both tensors are aligned */
  uint32_t unused;
  crk_fault_t fault;
} crk_put_t;

#if defined(__cplusplus)

#include "index.h"

namespace crk {

template <class I>
inline constexpr I nobody = static_cast<I>(is_signed<I> ? (uint64_t(1) << (8 * sizeof(I) - 1)) - 1 : ~uint64_t(0));

/* Negative ids are beyond every dim. */
template <class I>
CRK_FN bool within(I id, uint64_t dim) {
  return static_cast<uint64_t>(static_cast<int64_t>(id)) < dim;
}
CRK_FN bool within(uint32_t id, uint64_t dim) { return id < dim; }

/* a + b, rounded once; integers wrap. */
template <class T>
CRK_FN T accumulate(T a, T b) {
  if constexpr (same<T, f8e4m3>) {
    return T(static_cast<float>(a) + static_cast<float>(b));
  } else if constexpr (floating<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<wrapping<T>>(a) + static_cast<wrapping<T>>(b));
  }
}

/* 16 bytes of a row. */
struct alignas(16) piece {
  uint32_t words[4];
};

struct replace {
  template <class T>
  CRK_FN T operator()(T, T b) const {
    return b;
  }
};
struct add {
  template <class T>
  CRK_FN T operator()(T a, T b) const {
    return accumulate(a, b);
  }
};

/* dst = src[id * right], zero for nobody's. */
template <class I, class T>
CRK_FN void pick(I id, uint64_t dim, uint64_t right, const T *src, T *dst, crk_fault_t fault) {
  if (within(id, dim)) {
    *dst = src[static_cast<uint64_t>(id) * right];
  } else if (id == nobody<I>) {
    *dst = T{};
  } else {
    report(fault, id);
  }
}

/* ---- By Candle's arguments ---- */

/* dst[l, i, r] = src[l, ids[i], r]. `ids` is one row, or as dst for gather. */
template <bool OnePerElement, class I, class T>
CRK_FN void pick_named(uint64_t numel, const I *ids, const T *src, T *dst, uint64_t dim, uint64_t count,
                       uint64_t right) {
  const bool fits = numel <= 0xffffffffu && right <= 0xffffffffu && count <= 0xffffffffu;
  const elements e(numel);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t row, column, left, index;
    if (fits) {
      const uint32_t n = static_cast<uint32_t>(i), r = n / static_cast<uint32_t>(right);
      const uint32_t l = r / static_cast<uint32_t>(count);
      row = r, column = n - r * static_cast<uint32_t>(right), left = l, index = r - l * static_cast<uint32_t>(count);
    } else {
      row = i / right, column = i - row * right, left = row / count, index = row - left * count;
    }
    pick(ids[OnePerElement ? i : index], dim, right, src + left * dim * right + column, dst + i, {nullptr, 0});
  }
}

/* dst[l, ids[j], r] = op(dst[..], src[l, j, r]) for j in order, a thread a column. `ids` is one row, or as src. */
template <bool OnePerElement, class I, class T, class Op>
CRK_FN void put_named(const I *ids, const T *src, T *dst, uint64_t left, uint64_t count, uint64_t dim, uint64_t right,
                      Op op) {
  const elements e(left * right);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    const uint64_t l = i / right, r = i - l * right;
    for (uint64_t j = 0; j < count; j++) {
      const uint64_t at = (l * count + j) * right + r;
      const I id = ids[OnePerElement ? at : j];
      if (id != nobody<I> && within(id, dim)) {
        T *to = dst + (l * dim + static_cast<uint64_t>(id)) * right + r;
        *to = op(*to, src[at]);
      }
    }
  }
}

/* ---- Launched ---- */

template <bool OnePerElement, class I, class T>
CRK_FN void pick_launched(const crk_pick_t &call, const I *ids, const T *src, T *dst) {
  const elements e(call.space.numel);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t at[2];
    locate(call.space, i, at);
    pick(ids[OnePerElement ? i : at[1]], call.dim, call.right, src + at[0], dst + i, call.fault);
  }
}

/* scatter and scatter_add: thread x has a column, and of it the destination's indices of block y. */
template <class I, class T, class Op>
CRK_FN void put_launched(const crk_put_t &call, const I *ids, const T *src, T *dst, Op op) {
  const uint64_t begin = block_index().y * call.span,
                 step = static_cast<uint64_t>(grid_size().x) * CRK_INDEXING_THREADS;
  for (uint64_t i = block_index().x * uint64_t(CRK_INDEXING_THREADS) + thread_index().x; i < call.columns.numel;
       i += step) {
    uint64_t at[2];
    locate(call.columns, i, at);
    for (uint64_t j = 0; j < call.count; j++, at[0] += call.right) {
      const I id = ids[at[0]];
      if (within(id, call.dim)) {
        const uint64_t index = static_cast<uint64_t>(id);
        if (index - begin < call.span && id != nobody<I>) {
          T *to = dst + at[1] + index * call.right;
          *to = op(*to, src[at[0]]);
        }
      } else if (begin == 0 && id != nobody<I>) {
        report(call.fault, id);
      }
    }
  }
}

/* index_add, V elements of a row a thread. The lanes of a wave look at so many ids at once; the few of them that are block y's
 * are gone through in order, by all lanes, several source rows under way. */
template <int V, class I, class T>
CRK_FN void index_add_rows(const crk_put_t &call, const I *ids, const T *src, T *dst) {
  constexpr int depth = 4;
  const uint64_t begin = block_index().y * call.span,
                 step = static_cast<uint64_t>(grid_size().x) * CRK_INDEXING_THREADS;
  const bool reports = begin == 0 && block_index().x == 0;
  const uint64_t columns = call.columns.numel / V;
  for (uint64_t first = block_index().x * uint64_t(CRK_INDEXING_THREADS); first < columns; first += step) {
    const uint64_t column = first + thread_index().x;
    const bool active = column < columns;
    uint64_t at[2] = {0, 0};
    if (active) {
      locate(call.columns, column * V, at);
    }
    for (uint64_t j = 0; j < call.count; j += wave_size()) {
      I id = nobody<I>;
      if (j + lane() < call.count) {
        id = ids[(j + lane()) * call.ids_stride];
      }
      const bool inside = within(id, call.dim) && id != nobody<I>;
      if (reports && !inside && id != nobody<I>) {
        report(call.fault, id);
      }
      const uint32_t mine =
          static_cast<uint32_t>(static_cast<uint64_t>(id) - begin); /* below span, if it is block y's */
      uint64_t left = ballot(inside && static_cast<uint64_t>(id) - begin < call.span);
      while (left != 0) {
        pack<T, V> values[depth];
        uint64_t to[depth];
        int found = 0;
        CRK_UNROLL
        for (int d = 0; d < depth; d++) {
          if (left != 0) {
            const uint32_t k = first_bit(left);
            left &= left - 1;
            to[d] = at[1] + (begin + shuffle(mine, k)) * call.right;
            found = d + 1;
            if (active) {
              values[d] = load_pack<T, V>(src + at[0] + (j + k) * call.right);
            }
          }
        }
        CRK_UNROLL
        for (int d = 0; d < depth; d++) {
          if (d < found && active) {
            pack<T, V> sum = load_pack<T, V>(dst + to[d]);
            CRK_UNROLL
            for (int i = 0; i < V; i++) {
              sum.v[i] = accumulate(sum.v[i], values[d].v[i]);
            }
            store_pack(dst + to[d], sum);
          }
        }
      }
    }
  }
}

template <class I, class T>
CRK_FN void index_add_launched(const crk_put_t &call, const I *ids, const T *src, T *dst) {
  if (call.by_vectors) {
    index_add_rows<16 / sizeof(T)>(call, ids, src, dst);
  } else {
    index_add_rows<1>(call, ids, src, dst);
  }
}

}  // namespace crk

#endif
#endif
