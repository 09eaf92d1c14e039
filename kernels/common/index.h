/* How a kernel walks its elements. Each walk takes a functor `f` that gives one element of `dst` from one element of each
 * source (there may be none), so that a kernel is a formula and a walk.
 *
 *   map_strided     by Candle's arguments: dims and strides in device memory, or none
 *   map_contiguous  everything contiguous, 16 bytes an access
 *   map_nd          dims and strides by value (nd.h), 16 bytes an access where the layout allows
 *
 * A functor whose code is long has an `enum { at_once = N }`: so many elements of an access (0: all) are computed at once,
 * the rest in a loop, which keeps the code short. Its operands have one size. */
#ifndef CRK_INDEX_H
#define CRK_INDEX_H

#include "dtype.h"

namespace crk {

/* Tells the host that a launcher's ids have `id`, which is out of range. */
template <class I>
CRK_FN void report(crk_fault_t fault, I id) {
  if (fault.word != nullptr) {
    publish(fault.word, CRK_FAULT_WORD(fault.op, static_cast<int64_t>(id)));
  }
}

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

/* Where K operands have element i: at[k] is the sum of coordinate times stride, in I's width. */
template <class I, int K>
CRK_FN void locate(uint64_t element, uint64_t rank, const uint64_t *info, uint64_t (&at)[K]) {
  I i = static_cast<I>(element), sum[K];
  CRK_UNROLL
  for (int k = 0; k < K; k++) {
    sum[k] = 0;
  }
  CRK_NO_UNROLL
  for (uint64_t d = rank; d-- > 0;) {
    const I size = static_cast<I>(info[d]), next = i / size, coordinate = i - next * size;
    i = next;
    CRK_UNROLL
    for (int k = 0; k < K; k++) {
      sum[k] += coordinate * static_cast<I>(info[(k + 1) * rank + d]);
    }
  }
  CRK_UNROLL
  for (int k = 0; k < K; k++) {
    at[k] = sum[k];
  }
}

template <class F, class D, class... S, int... K>
CRK_FN void map_strided(uint64_t numel, uint64_t rank, const uint64_t *info, F f, D *dst, indices<K...>,
                        const S *...src) {
  constexpr int count = sizeof...(S);
  bool contiguous = true;
  for (int k = 0; k < count && info != nullptr; k++) {
    contiguous = contiguous && is_contiguous(rank, info, info + (k + 1) * rank);
  }
  const elements e(numel);
  if (on_host && contiguous) {
    for (uint64_t i = e.first; i < e.end; i += e.step) {
      dst[i] = f(src[i]...);
    }
    return;
  }
  /* One loop on a GPU: the branches are uniform, and there is one copy of a formula that may be long. */
  const bool fits = !on_host && !contiguous && fits_32_bits<count>(numel, rank, info);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t at[count] = {(static_cast<void>(K), i)...};
    if (fits) {
      locate<uint32_t>(i, rank, info, at);
    } else if (!contiguous) {
      locate<uint64_t>(i, rank, info, at);
    }
    dst[i] = f(src[at[K]]...);
  }
}

/* dst[i] = f(src[i]...), i counting the elements in row-major order of the dims. `info` holds `rank` dims, then each source's
 * strides; null where all are contiguous. */
template <class F, class D, class... S>
CRK_FN void map_strided(uint64_t numel, uint64_t rank, const uint64_t *info, F f, D *dst, const S *...src) {
  map_strided(numel, rank, info, f, dst, typename make_indices<sizeof...(S)>::type(), src...);
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

/* Elements of one step of a vectorised walk: 16 bytes of the narrowest operand, single bytes of a source apart, which are read
 * fewer at once so that a wave writes without gaps; and 64 bytes at most of the widest, which would take registers that other
 * waves need. A launcher counts in CRK_VECTOR_ELEMENTS; a step is that or a part of it. */
template <class D, class... S>
CRK_FN constexpr int step_elements() {
  int narrowest = sizeof(D), widest = sizeof(D);
  ((narrowest = sizeof(S) > 1 && static_cast<int>(sizeof(S)) < narrowest ? static_cast<int>(sizeof(S)) : narrowest,
    widest = static_cast<int>(sizeof(S)) > widest ? static_cast<int>(sizeof(S)) : widest),
   ...);
  return CRK_STEP_ELEMENTS(narrowest, widest);
}

template <class F, class = void>
inline constexpr int at_once = 0;
template <class F>
inline constexpr int at_once<F, choose<(F::at_once > 0), void, void>> = F::at_once;

template <class D, int V, class F, class... S>
CRK_FN pack<D, V> apply_unrolled(F f, const pack<S, V> &...src) {
  pack<D, V> result;
  CRK_UNROLL
  for (int j = 0; j < V; j++) {
    result.v[j] = f(src.v[j]...);
  }
  return result;
}

/* 16 bytes of T as a queue, from which `Count` elements are taken or to which they are added at a time, of 1 to 8 bytes. An array
 * indexed by a loop's counter would live in memory. */
template <class T, int Count>
struct queue {
  using values = pack<T, Count>;
  using code = bits_of<values>;
  static constexpr int bits = 8 * static_cast<int>(sizeof(values));
  uint32_t word[4];

  CRK_FN values pop() {
    const uint64_t low = word[0] | static_cast<uint64_t>(word[1]) << 32;
    shift();
    return bit_cast<values>(static_cast<code>(low));
  }
  CRK_FN void push(const values &added) {
    const uint64_t high = static_cast<uint64_t>(bit_cast<code>(added)) << (64 - bits);
    shift();
    word[2] |= static_cast<uint32_t>(high);
    word[3] |= static_cast<uint32_t>(high >> 32);
  }
  CRK_FN void shift() {
    constexpr int words = bits / 32, rest = bits % 32;
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      const uint64_t low = i + words < 4 ? word[(i + words) % 4] : 0,
                     high = i + words < 3 ? word[(i + words + 1) % 4] : 0;
      word[i] = static_cast<uint32_t>((low | high << 32) >> rest);
    }
  }
};

template <class D, int Count, class F, class... S>
CRK_FN queue<D, Count> apply_queued(F f, queue<S, Count>... src) {
  queue<D, Count> result = {};
  CRK_NO_UNROLL
  for (int step = 0; step < 128 / queue<D, Count>::bits; step++) {
    result.push(apply_unrolled<D, Count>(f, src.pop()...));
  }
  return result;
}

template <class D, int V, class F, class... S>
CRK_FN pack<D, V> apply(F f, const pack<S, V> &...src) {
  constexpr int count = at_once<F>;
  if constexpr (count > 0 && count < V) {
    static_assert(((sizeof(S) == sizeof(D)) && ...) && sizeof(D) * V == 16, "a long formula has operands of one size");
    return bit_cast<pack<D, V>>(apply_queued<D, count>(f, bit_cast<queue<S, count>>(src)...));
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
    constexpr int V = step_elements<D, S...>();
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
CRK_FN void map_nd_steps(const crk_nd_t &nd, uint64_t begin, uint64_t steps, F f, D *dst, indices<K...>,
                         const S *...src) {
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

/* dst = f(src...) over the space `nd`; source k is operand k. dst is contiguous, or operand `To`. Element by element where dst is
 * not 16-byte aligned. */
template <int To = -1, class F, class D, class... S>
CRK_FN void map_nd(const crk_nd_t &nd, F f, D *dst, const S *...src) {
  constexpr typename make_indices<sizeof...(S)>::type operands{};
  if constexpr (on_host) {
    map_nd_runs<To>(nd, f, dst, operands, src...);
  } else {
    constexpr int V = step_elements<D, S...>();
    const bool packs = (nd.flags & CRK_ND_VECTOR) != 0 && reinterpret_cast<uintptr_t>(dst) % 16 == 0;
    const uint64_t steps = packs ? nd.numel / V : 0;
    map_nd_steps<V, To>(nd, 0, steps, f, dst, operands, src...);
    map_nd_steps<1, To>(nd, steps * V, nd.numel - steps * V, f, dst, operands, src...);
  }
}

}  // namespace crk

#endif
