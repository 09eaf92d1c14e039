/* The indexing kernels with Candle's names and arguments, and the update ops that indexing.h uses too. For
 * kernels/indexing.hip. Main functions: index_select_named, gather_named, update_named. Tensors are contiguous and seen
 * as (left, dim, right); the indexed dim is the middle one.
 *
 * An id that equals its type's maximum is the sentinel: index_select and gather give 0 for it, updates skip it. Any
 * other id out of range has the same effect, while Candle's kernels stop the program. No memory out of bounds is
 * touched. */
#ifndef CRK_INDEX_NAMED_H
#define CRK_INDEX_NAMED_H

#include "elementwise/instances.h"
#include "numbers/divisor.h"

namespace crk {

/* The op of scatter: the source replaces the destination. */
struct set_op {
  template <class T>
  CRK_FN T operator()(T, T source) const {
    return source;
  }
};

/* The op of scatter_add and index_add. Every addition is rounded to T; f8e4m3 adds in f32. Integers wrap. */
struct add_op {
  template <class T>
  CRK_FN T operator()(T sum, T term) const {
    if constexpr (floating<T>) {
      using A = stepwise<T>;
      return convert<T>(convert<A>(sum) + convert<A>(term));
    } else {
      using W = wrapping<T>;
      return static_cast<T>(static_cast<W>(sum) + static_cast<W>(term));
    }
  }
};

/* Whether `id` is a position in a dim of `size`. As an unsigned number, a negative id is too large. */
template <class I>
CRK_FN bool is_position(I id, uint64_t size) {
  constexpr I sentinel =
      is_signed<I> ? static_cast<I>(static_cast<uint64_t>(-1) >> (65 - 8 * sizeof(I))) : static_cast<I>(-1);
  return id != sentinel && static_cast<uint64_t>(static_cast<int64_t>(id)) < size;
}

/* dst[l, n, r] = src[l, ids[n], r]. `info` holds the `rank` dims of ids, then its strides; null if ids are contiguous.
 * `right` is the product of the dims after the indexed one. */
template <class I, class T>
CRK_FN void index_select_named(uint64_t numel, uint64_t rank, const uint64_t *info, const I *ids, const T *src, T *dst,
                               uint64_t src_dim, uint64_t ids_dim, uint64_t right) {
  const bool contiguous = info == nullptr || is_contiguous(rank, info, info + rank);
  const named_elements e(numel);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    const uint64_t row = quotient(i, right), l = quotient(row, ids_dim);
    uint64_t at[1] = {row - l * ids_dim};
    if (!contiguous) {
      locate<uint64_t>(at[0], rank, info, at);
    }
    const I id = ids[at[0]];
    T value = bit_cast<T>(static_cast<bits_of<T>>(0));
    if (is_position(id, src_dim)) {
      value = src[(l * src_dim + static_cast<uint64_t>(id)) * right + (i - row * right)];
    }
    dst[i] = value;
  }
}

/* dst[l, n, r] = src[l, ids[l, n, r], r]. */
template <class I, class T>
CRK_FN void gather_named(uint64_t numel, const I *ids, const T *src, T *dst, uint64_t src_dim, uint64_t ids_dim,
                         uint64_t right) {
  const named_elements e(numel);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    const I id = ids[i];
    T value = bit_cast<T>(static_cast<bits_of<T>>(0));
    if (is_position(id, src_dim)) {
      const uint64_t row = quotient(i, right), l = quotient(row, ids_dim);
      value = src[(l * src_dim + static_cast<uint64_t>(id)) * right + (i - row * right)];
    }
    dst[i] = value;
  }
}

/* dst[l, id, r] = op(dst[l, id, r], src[l, n, r]) for n = 0, 1, ... in order. The id is ids[l, n, r] if Each, else
 * ids[n]. One thread updates a column (l, r), so that no other thread touches its destinations. */
template <bool Each, class Op, class I, class T>
CRK_FN void update_named(const I *ids, uint64_t ids_dim, const T *src, T *dst, uint64_t left, uint64_t dst_dim,
                         uint64_t right) {
  const Op op;
  const named_elements e(left * right);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    const uint64_t l = quotient(i, right), r = i - l * right;
    for (uint64_t n = 0; n < ids_dim; n++) {
      const uint64_t from = (l * ids_dim + n) * right + r;
      const I id = ids[Each ? from : n];
      if (is_position(id, dst_dim)) {
        T *to = dst + (l * dst_dim + static_cast<uint64_t>(id)) * right + r;
        *to = op(*to, src[from]);
      }
    }
  }
}

}  // namespace crk

#endif
