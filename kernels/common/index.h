/* How a kernel walks its elements. Each walk takes a functor `f` that gives one element of `dst` from one element of each
 * source (there may be none), so that a kernel is a formula and a walk.
 *
 *   map_strided     by Candle's arguments: dims and strides in device memory, or none
 *   map_contiguous  everything contiguous, 16 bytes an access
 *   map_nd          dims and strides by value (nd.h), 16 bytes an access where the layout allows
 *
 * A functor whose code is long says so with `static constexpr bool heavy = true`: it is then run in a loop, not unrolled. */
#ifndef CRK_INDEX_H
#define CRK_INDEX_H

#include "dtype.h"

namespace crk {

/* ---- By Candle's arguments ---- */

/* Whether the strides are those of a contiguous tensor; a dim of 1 may have any. */
CRK_FN bool is_contiguous(uint64_t rank, const uint64_t *dims, const uint64_t *strides) {
  uint64_t expected = 1;
  for (uint64_t d = rank; d-- > 0;) {
    if (dims[d] > 1 && strides[d] != expected) {
      return false;
    }
    expected *= dims[d];
  }
  return true;
}

/* Whether element numbers and offsets below `numel` elements of these dims fit in 32 bits, for K operands. */
template <int K>
CRK_FN bool fits_32_bits(uint64_t numel, uint64_t rank, const uint64_t *info) {
  bool fits = numel <= 0xffffffffu;
  for (int k = 0; k < K && fits; k++) {
    uint64_t last = 0;
    for (uint64_t d = 0; d < rank && fits; d++) {
      const uint64_t size = info[d], stride = info[(k + 1) * rank + d];
      fits = stride <= 0xffffffffu;
      last += (size - 1) * stride;
      fits = fits && last <= 0xffffffffu;
    }
  }
  return fits;
}

/* Where K operands have their element i: at[k] is the sum of coordinate times stride. */
template <class I, int K>
CRK_FN void locate(I i, uint64_t rank, const uint64_t *info, I (&at)[K]) {
  CRK_UNROLL
  for (int k = 0; k < K; k++) {
    at[k] = 0;
  }
  for (uint64_t d = rank; d-- > 0;) {
    const I size = static_cast<I>(info[d]), next = i / size, coordinate = i - next * size;
    i = next;
    CRK_UNROLL
    for (int k = 0; k < K; k++) {
      at[k] += coordinate * static_cast<I>(info[(k + 1) * rank + d]);
    }
  }
}

template <class I, class F, class D, class... S, int... K>
CRK_FN void map_located(uint64_t numel, uint64_t rank, const uint64_t *info, F f, D *dst, indices<K...>, const S *...src) {
  const elements e(numel);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    I at[sizeof...(S)];
    locate(static_cast<I>(i), rank, info, at);
    dst[i] = f(src[at[K]]...);
  }
}

/* dst[i] = f(src[i]...), i counting the elements in row-major order of the dims. `info` holds `rank` dims, then each source's
 * strides; null where all are contiguous. */
template <class F, class D, class... S>
CRK_FN void map_strided(uint64_t numel, uint64_t rank, const uint64_t *info, F f, D *dst, const S *...src) {
  constexpr int K = sizeof...(S);
  bool contiguous = true;
  for (int k = 0; k < K && info != nullptr; k++) {
    contiguous = contiguous && is_contiguous(rank, info, info + (k + 1) * rank);
  }
  const elements e(numel);
  if (contiguous) {
    for (uint64_t i = e.first; i < e.end; i += e.step) {
      dst[i] = f(src[i]...);
    }
  } else if (!on_host && fits_32_bits<K>(numel, rank, info)) {
    map_located<uint32_t>(numel, rank, info, f, dst, typename make_indices<K>::type(), src...);
  } else {
    map_located<uint64_t>(numel, rank, info, f, dst, typename make_indices<K>::type(), src...);
  }
}

/* The same for one source, or in place where `src` is null: then dst[i] = f(dst[i]), whatever the strides are. */
template <class F, class D>
CRK_FN void map_strided_or_in_place(uint64_t numel, uint64_t rank, const uint64_t *info, F f, D *dst, const D *src) {
  if (src == nullptr) {
    src = dst;
    info = nullptr;
  }
  map_strided(numel, rank, info, f, dst, src);
}

/* ---- Packs ---- */

/* Elements of one step of a vectorised walk: 16 bytes of the narrowest operand. */
template <class... T>
inline constexpr int vector_elements = 0;
template <class T, class... U>
inline constexpr int vector_elements<T, U...> = CRK_VECTOR_ELEMENTS(static_cast<int>(sizeof(T))) > vector_elements<U...>
                                                    ? CRK_VECTOR_ELEMENTS(static_cast<int>(sizeof(T)))
                                                    : vector_elements<U...>;

template <class F, class = void>
inline constexpr bool is_heavy = false;
template <class F>
inline constexpr bool is_heavy<F, choose<F::heavy, void, void>> = F::heavy;

template <class D, int V, class F, class... S>
CRK_FN pack<D, V> apply_unrolled(F f, const pack<S, V> &...src) {
  pack<D, V> result;
  CRK_UNROLL
  for (int j = 0; j < V; j++) {
    result.v[j] = f(src.v[j]...);
  }
  return result;
}

/* One copy of the formula a register (or two, for f64): the 16 bytes are a queue, whose front is taken, computed and put back
 * at the end. An array indexed by the loop's counter would live in memory. */
template <class D, int V, class F, class S>
CRK_FN pack<D, V> apply_looped(F f, const pack<S, V> &src) {
  static_assert(sizeof(D) == sizeof(S) && sizeof(src) == 16, "a queue of 16 bytes");
  constexpr int words = sizeof(S) == 8 ? 2 : 1, count = words * 4 / static_cast<int>(sizeof(S));
  struct queue {
    uint32_t word[4];
  };
  struct front {
    uint32_t word[words];
  };
  queue q = bit_cast<queue>(src);
  CRK_NO_UNROLL
  for (int step = 0; step < 4 / words; step++) {
    front next;
    CRK_UNROLL
    for (int i = 0; i < words; i++) {
      next.word[i] = q.word[i];
    }
    next = bit_cast<front>(apply_unrolled<D, count>(f, bit_cast<pack<S, count>>(next)));
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      q.word[i] = i + words < 4 ? q.word[(i + words) % 4] : next.word[(i + words) % 4];
    }
  }
  return bit_cast<pack<D, V>>(q);
}

template <class D, int V, class F, class... S>
CRK_FN pack<D, V> apply(F f, const pack<S, V> &...src) {
  if constexpr (is_heavy<F> && V > 1) {
    return apply_looped<D, V>(f, src...);
  } else {
    return apply_unrolled<D, V>(f, src...);
  }
}

/* ---- Contiguous ---- */

/* dst[i] = f(src[i]...) for i below numel. Single elements until dst is 16-byte aligned, then packs, then single elements. */
template <class F, class D, class... S>
CRK_FN void map_contiguous(uint64_t numel, F f, D *dst, const S *...src) {
  if constexpr (on_host) {
    const elements e(numel);
    for (uint64_t i = e.first; i < e.end; i += e.step) {
      dst[i] = f(src[i]...);
    }
  } else {
    constexpr int V = vector_elements<D, S...>;
    const uint64_t to_aligned = (0 - reinterpret_cast<uintptr_t>(dst)) % 16 / sizeof(D);
    const uint64_t head = to_aligned < numel ? to_aligned : numel, packs = (numel - head) / V;
    const elements e(packs);
    for (uint64_t p = e.first; p < e.end; p += e.step) {
      const uint64_t i = head + p * V;
      store_pack(dst + i, apply<D, V>(f, load_pack<S, V>(src + i)...));
    }
    const elements rest(numel - packs * V);
    for (uint64_t r = rest.first; r < rest.end; r += rest.step) {
      const uint64_t i = r < head ? r : r + packs * V;
      dst[i] = f(src[i]...);
    }
  }
}

/* ---- Strided, by value ---- */

template <class I, int K>
CRK_FN void locate_nd(const crk_nd_t &nd, I i, uint64_t (&at)[K]) {
  I sum[K];
  CRK_UNROLL
  for (int k = 0; k < K; k++) {
    sum[k] = 0;
  }
  const uint32_t last = nd.rank - 1;
  CRK_NO_UNROLL
  for (uint32_t d = 0; d != nd.rank; d++) {
    I next = 0, coordinate = i;
    if (d != last) {
      next = mulhi(i, static_cast<I>(nd.dims[d].mul)) >> nd.dims[d].shift;
      coordinate = i - next * static_cast<I>(nd.dims[d].size);
    }
    i = next;
    CRK_UNROLL
    for (int k = 0; k < K; k++) {
      sum[k] += coordinate * static_cast<I>(nd.strides[k][d]);
    }
  }
  CRK_UNROLL
  for (int k = 0; k < K; k++) {
    at[k] = sum[k];
  }
}

/* Where each of K operands has element i of the space. */
template <int K>
CRK_FN void locate(const crk_nd_t &nd, uint64_t i, uint64_t (&at)[K]) {
  if (nd.flags & CRK_ND_WIDE) {
    locate_nd<uint64_t>(nd, i, at);
  } else {
    locate_nd<uint32_t>(nd, static_cast<uint32_t>(i), at);
  }
}

/* V elements of operand k along the innermost dim. */
template <int V, class T>
CRK_FN pack<T, V> load_nd(const crk_nd_t &nd, int k, const T *src) {
  pack<T, V> values;
  if constexpr (V == 1) {
    values.v[0] = *src;
  } else {
    const uint64_t stride = nd.strides[k][0];
    if (nd.flags & static_cast<uint32_t>(CRK_ND_UNIT) << k) {
      return load_pack<T, V>(src);
    }
    if (stride == 0) {
      values.v[0] = *src;
      CRK_UNROLL
      for (int j = 1; j < V; j++) {
        values.v[j] = values.v[0];
      }
    } else {
      CRK_UNROLL
      for (int j = 0; j < V; j++, src += stride) {
        values.v[j] = *src;
      }
    }
  }
  return values;
}

template <int V, class T>
CRK_FN void store_nd(const crk_nd_t &nd, int k, T *dst, const pack<T, V> &values) {
  if constexpr (V == 1) {
    *dst = values.v[0];
  } else {
    if (nd.flags & static_cast<uint32_t>(CRK_ND_UNIT) << k) {
      store_pack(dst, values);
    } else {
      const uint64_t stride = nd.strides[k][0];
      CRK_UNROLL
      for (int j = 0; j < V; j++, dst += stride) {
        *dst = values.v[j];
      }
    }
  }
}

/* V elements a step, `steps` of them, from element `begin` on. Operand `To` of nd is dst, or dst is contiguous if To is -1. */
template <int V, int To, class F, class D, class... S, int... K>
CRK_FN void map_nd_steps(const crk_nd_t &nd, uint64_t begin, uint64_t steps, F f, D *dst, indices<K...>, const S *...src) {
  const elements e(steps);
  for (uint64_t s = e.first; s < e.end; s += e.step) {
    const uint64_t i = begin + s * V;
    uint64_t at[sizeof...(S) + (To >= 0)];
    locate(nd, i, at);
    const pack<D, V> result = apply<D, V>(f, load_nd<V>(nd, K, src + at[K])...);
    if constexpr (To >= 0) {
      store_nd(nd, To, dst + at[To], result);
    } else if constexpr (V == 1) {
      dst[i] = result.v[0];
    } else {
      store_pack(dst + i, result);
    }
  }
}

/* The CPU's way: runs along the innermost dim, so that a coordinate is found once a run. */
template <int To, class F, class D, class... S, int... K>
CRK_FN void map_nd_runs(const crk_nd_t &nd, F f, D *dst, indices<K...>, const S *...src) {
  const elements e(nd.numel);
  const uint64_t row = nd.rank == 0 ? 1 : nd.dims[0].size;
  const bool unit = nd.rank != 0 && ((nd.strides[K][0] == 1) && ... && (To < 0 || nd.strides[To < 0 ? 0 : To][0] == 1));
  for (uint64_t i = e.first; i < e.end;) {
    uint64_t at[sizeof...(S) + (To >= 0)];
    locate(nd, i, at);
    D *out = dst + (To < 0 ? i : at[To < 0 ? 0 : To]);
    const uint64_t left = row - i % row, count = left < e.end - i ? left : e.end - i;
    if (unit) {
      for (uint64_t j = 0; j < count; j++) {
        out[j] = f((src + at[K])[j]...);
      }
    } else {
      const uint64_t out_stride = To < 0 ? 1 : nd.strides[To < 0 ? 0 : To][0];
      for (uint64_t j = 0; j < count; j++) {
        out[j * out_stride] = f((src + at[K])[j * nd.strides[K][0]]...);
      }
    }
    i += count;
  }
}

/* dst = f(src...) over the space `nd`; source k is operand k. dst is contiguous, or operand `To`. */
template <int To = -1, class F, class D, class... S>
CRK_FN void map_nd(const crk_nd_t &nd, F f, D *dst, const S *...src) {
  constexpr typename make_indices<sizeof...(S)>::type operands{};
  if constexpr (on_host) {
    map_nd_runs<To>(nd, f, dst, operands, src...);
  } else {
    constexpr int V = vector_elements<D, S...>;
    const uint64_t steps = nd.flags & CRK_ND_VECTOR ? nd.numel / V : 0;
    map_nd_steps<V, To>(nd, 0, steps, f, dst, operands, src...);
    map_nd_steps<1, To>(nd, steps * V, nd.numel - steps * V, f, dst, operands, src...);
  }
}

}  // namespace crk

#endif
