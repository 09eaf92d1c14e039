/* The walks of element-wise kernels: loops over the elements of dst. Each walk takes a functor `f` that computes one
 * element of dst from one element of each source. A walk may have no source. A kernel is then a formula and a walk. For
 * the element-wise modules; other modules use `locate`, `divide` and `report` of this header.
 *
 *   map_strided     with Candle's arguments: dims and strides in device memory, or none
 *   map_contiguous  for launchers, all operands contiguous: 16 bytes per access
 *   map_nd          for launchers, dims and strides by value (call/nd.h): 16 bytes per access if the layout allows it
 *
 * A functor with long code has an `enum { at_once = N }`. The walk then loops over a pack, N elements at a time, which
 * keeps the code short. N = 0 stands for the whole pack. All operands of such a functor must have one size. */
#ifndef CRK_WALK_H
#define CRK_WALK_H

#include "numbers/element_types.h"

namespace crk {

/* Reports to the host that `id`, one of a launcher's ids, is out of range (call/fault_word.h). */
template <class I>
CRK_FN void report(crk_fault_t fault, I id) {
  if (fault.word != nullptr) {
    publish(fault.word, CRK_FAULT_WORD(fault.op, static_cast<int64_t>(id)));
    publish(fault.word + 1, CRK_FAULT_NUMBER(fault.op));
  }
}

/* ---- With Candle's arguments ---- */

/* Whether the strides are those of a contiguous tensor. A dim of size 1 may have any stride. */
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

/* Whether the indices of `numel` elements and their offsets in K operands fit in 32 bits. `info` holds `rank` dims,
 * then the strides of each operand. */
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

/* The offsets of an element in K operands: at[k] is the sum of coordinate times stride. I, uint32_t or uint64_t, is the
 * type of the arithmetic. `info` is that of fits_32_bits. */
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
  const named_elements e(numel);
  if (on_host && contiguous) {
    for (uint64_t i = e.first; i < e.end; i += e.step) {
      dst[i] = f(src[i]...);
    }
    return;
  }
  /* One loop on a GPU: its branches are uniform, and the formula, which may be long, is compiled once. */
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

/* dst[i] = f(src[i]...), where i counts the elements in row-major order of the dims. `info` holds `rank` dims, then the
 * strides of each source; it is null if all are contiguous. dst is contiguous. */
template <class F, class D, class... S>
CRK_FN void map_strided(uint64_t numel, uint64_t rank, const uint64_t *info, F f, D *dst, const S *...src) {
  map_strided(numel, rank, info, f, dst, typename make_indices<sizeof...(S)>::type(), src...);
}

/* The same for one source. If `src` is null, it works in place: dst[i] = f(dst[i]), and `info` is ignored. */
template <class F, class D>
CRK_FN void map_strided_or_in_place(uint64_t numel, uint64_t rank, const uint64_t *info, F f, D *dst, const D *src) {
  if (src == nullptr) {
    src = dst;
    info = nullptr;
  }
  map_strided(numel, rank, info, f, dst, src);
}

/* ---- Packs ---- */

/* Elements per step of a vectorised walk: 16 bytes of the narrowest operand, but at most 64 bytes of the widest. More
 * would take registers that other waves need. Sources of single bytes do not count as the narrowest. Fewer of them are
 * read at once, so that a wave writes without gaps. A launcher counts in CRK_VECTOR_ELEMENTS; a step is that many
 * elements or a part of them. */
template <class D, class... S>
CRK_FN constexpr int step_elements() {
  int narrowest = sizeof(D), widest = sizeof(D);
  ((narrowest = sizeof(S) > 1 && static_cast<int>(sizeof(S)) < narrowest ? static_cast<int>(sizeof(S)) : narrowest,
    widest = static_cast<int>(sizeof(S)) > widest ? static_cast<int>(sizeof(S)) : widest),
   ...);
  return CRK_STEP_ELEMENTS(narrowest, widest);
}

/* F::at_once, or 0 if F has none. */
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

/* A queue of `Words` words that hold elements of T. `pop` takes `Count` elements, of 1 to 8 bytes in all, from its
 * front; `push` adds as many at its end. A loop can use the queue with the words in registers. An array that is indexed
 * with the loop counter would lie in memory. */
template <class T, int Count, int Words>
struct queue {
  using values = pack<T, Count>;
  using code = bits_of<values>;
  static constexpr int bits = 8 * static_cast<int>(sizeof(values));
  static_assert(Words == 2 || Words == 4, "8 or 16 bytes");
  uint32_t word[Words];

  CRK_FN values pop() {
    const uint64_t low = word[0] | static_cast<uint64_t>(word[1]) << 32;
    shift();
    return bit_cast<values>(static_cast<code>(low));
  }
  CRK_FN void push(const values &added) {
    const uint64_t high = static_cast<uint64_t>(bit_cast<code>(added)) << (64 - bits);
    shift();
    word[Words - 2] |= static_cast<uint32_t>(high);
    word[Words - 1] |= static_cast<uint32_t>(high >> 32);
  }
  CRK_FN void shift() {
    constexpr int words = bits / 32, rest = bits % 32;
    CRK_UNROLL
    for (int i = 0; i < Words; i++) {
      const uint64_t low = i + words < Words ? word[(i + words) % Words] : 0,
                     high = i + words < Words - 1 ? word[(i + words + 1) % Words] : 0;
      word[i] = static_cast<uint32_t>((low | high << 32) >> rest);
    }
  }
};

template <class D, int Count, int Words, class F, class... S>
CRK_FN queue<D, Count, Words> apply_queued(F f, queue<S, Count, Words>... src) {
  using results = queue<D, Count, Words>;
  results result = {};
  CRK_NO_UNROLL
  for (int step = 0; step < 32 * Words / results::bits; step++) {
    result.push(apply_unrolled<D, Count>(f, src.pop()...));
  }
  return result;
}

template <class D, int V, class F, class... S>
CRK_FN pack<D, V> apply(F f, const pack<S, V> &...src) {
  constexpr int count = at_once<F>, words = static_cast<int>(sizeof(D)) * V / 4;
  if constexpr (count > 0 && count < V) {
    static_assert(((sizeof(S) == sizeof(D)) && ...), "a long formula has operands of one size");
    return bit_cast<pack<D, V>>(apply_queued<D, count, words>(f, bit_cast<queue<S, count, words>>(src)...));
  } else {
    return apply_unrolled<D, V>(f, src...);
  }
}

/* ---- Contiguous ---- */

/* `Count` times V elements of dst, which begin `apart` elements after each other. All are loaded first. */
template <int Count, int V, class F, class D, class... S>
CRK_FN void map_apart(uint64_t i, uint64_t apart, F f, D *dst, const S *...src) {
  pack<D, V> results[Count];
  CRK_UNROLL
  for (int n = 0; n < Count; n++) {
    results[n] = apply<D, V>(f, load_pack<S, V>(src + (i + static_cast<uint64_t>(n) * apart))...);
  }
  CRK_UNROLL
  for (int n = 0; n < Count; n++) {
    store_pack(dst + (i + static_cast<uint64_t>(n) * apart), results[n]);
  }
}

/* Elements of a step that are neighbours in memory: 16 bytes of the widest operand. All of a step where that would make
 * more than two pieces of it, which take too many registers. */
template <int V, class D, class... S>
CRK_FN constexpr int near_elements() {
  int widest = sizeof(D);
  ((widest = static_cast<int>(sizeof(S)) > widest ? static_cast<int>(sizeof(S)) : widest), ...);
  return 16 / widest == V / 2 ? V / 2 : V;
}

/* dst[i] = f(src[i]...) for i below numel. Single elements until dst is aligned to 16 bytes, then packs, then single
 * elements. `threads` are those of the grid. Where the operands have several sizes, the lanes of a wave share its packs
 * so that each load and each store of the wave is without gaps. */
template <class F, class D, class... S>
CRK_FN void map_contiguous(uint64_t numel, uint32_t threads, F f, D *dst, const S *...src) {
  if constexpr (on_host) {
    const elements e(numel, threads);
    for (uint64_t i = e.first; i < e.end; i += e.step) {
      dst[i] = f(src[i]...);
    }
  } else {
    constexpr int V = step_elements<D, S...>();
    const uint64_t to_aligned = (0 - reinterpret_cast<uintptr_t>(dst)) % 16 / sizeof(D);
    const uint64_t head = to_aligned < numel ? to_aligned : numel, packs = (numel - head) / V;
    const elements e(packs, threads);
    constexpr int near = near_elements<V, D, S...>();
    for (uint64_t p = e.first; p < e.end; p += e.step) {
      if constexpr (near == V) {
        const uint64_t i = head + p * V;
        store_pack(dst + i, apply<D, V>(f, load_pack<S, V>(src + i)...));
      } else {
        const uint64_t of_wave = p - lane(), left = e.end - of_wave;
        const uint32_t lanes = left < wave_size() ? static_cast<uint32_t>(left) : wave_size();
        const uint64_t i = head + of_wave * V + lane() * near;
        map_apart<V / near, near>(i, lanes * near, f, dst, src...);
      }
    }
    const elements rest(numel - packs * V, threads);
    for (uint64_t r = rest.first; r < rest.end; r += rest.step) {
      const uint64_t i = r < head ? r : r + packs * V;
      dst[i] = f(src[i]...);
    }
  }
}

/* ---- Strided, by value ---- */

/* The same as `locate` below, in the arithmetic of I: uint32_t, or uint64_t if the space is wide. */
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

/* The offsets of element i of the space in K operands. */
template <int K>
CRK_FN void locate(const crk_nd_t &nd, uint64_t i, uint64_t (&at)[K]) {
  if (nd.flags & CRK_ND_WIDE) {
    locate_nd<uint64_t>(nd, i, at);
  } else {
    locate_nd<uint32_t>(nd, static_cast<uint32_t>(i), at);
  }
}

/* n / by.size, also for a size of 1. I is uint32_t, or uint64_t for a wide divisor. The second function takes `wide` at
 * run time. */
template <class I>
CRK_FN I divide(const crk_nd_dim_t &by, I n) {
  return by.size == 1 ? n : mulhi(n, static_cast<I>(by.mul)) >> by.shift;
}
CRK_FN uint64_t divide(const crk_nd_dim_t &by, bool wide, uint64_t n) {
  return wide ? divide(by, n) : divide(by, static_cast<uint32_t>(n));
}

/* The index of the element that the walk visits as number i. It differs from i only if the space is walked in strips
 * (crk_nd_strips_t). */
CRK_FN uint64_t walked(const crk_nd_t &nd, uint64_t i) {
  if (!(nd.flags & CRK_ND_STRIPS)) {
    return i;
  }
  const crk_nd_strips_t &s = nd.strips;
  const uint32_t matrix_size = static_cast<uint32_t>(s.matrix.size), strip_size = static_cast<uint32_t>(s.strip.size);
  const uint32_t n = static_cast<uint32_t>(i), matrix = divide(s.matrix, n), in_matrix = n - matrix * matrix_size;
  const uint32_t strip = divide(s.strip, in_matrix), in_strip = in_matrix - strip * strip_size;
  uint32_t row = in_strip >> s.log2_width, column = in_strip - (row << s.log2_width);
  if (strip == s.whole) {
    row = divide(s.last, in_strip);
    column = in_strip - row * static_cast<uint32_t>(s.last.size);
  }
  return matrix * matrix_size + row * s.columns + (strip << s.log2_width) + column;
}

/* Loads V elements of operand k along the innermost dim. */
template <int V, class T>
CRK_FN pack<T, V> load_nd(const crk_nd_t &nd, int k, const T *src) {
  pack<T, V> values;
  if constexpr (V == 1) {
    values.v[0] = *src;
  } else {
    const uint64_t stride = nd.strides[k][0];
    if (stride == 1) {
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

/* Stores V elements of operand k along the innermost dim. */
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

/* A pack of `count` elements, from element i on, that may cross the end of a row. `left`: elements from i to the end of
 * its row. `next`: the offsets of the next row in K operands, set if the pack reaches it. */
template <int K>
struct nd_crossing {
  uint32_t left;
  uint64_t next[K];

  CRK_FN nd_crossing(const crk_nd_t &nd, uint32_t i, uint32_t count) : next() {
    const uint32_t size = static_cast<uint32_t>(nd.dims[0].size);
    left = size - (i - divide(nd.dims[0], i) * size);
    if (left < count) {
      locate_nd(nd, i + left, next);
    }
  }
};

/* Loads V elements of operand k, from offset `at` on, some of which may lie in the next row. */
template <int V, class T, int K>
CRK_FN pack<T, V> load_nd(const crk_nd_t &nd, int k, const T *src, uint64_t at, const nd_crossing<K> &crossing) {
  if (crossing.left >= V) {
    return load_nd<V>(nd, k, src + at);
  }
  const uint64_t stride = nd.strides[k][0];
  const T *const here = src + at, *const next = src + crossing.next[k] - crossing.left * stride;
  pack<T, V> values;
  CRK_UNROLL
  for (uint32_t j = 0; j < V; j++) {
    values.v[j] = (j < crossing.left ? here : next)[j * stride];
  }
  return values;
}

/* Elements per step of a strided walk: those of step_elements, but at most 32 bytes of the widest operand and at most
 * eight elements. With three sources it is at most four elements, because their addresses take registers too. */
template <class D, class... S>
CRK_FN constexpr int nd_elements() {
  constexpr int step = step_elements<D, S...>(), most = sizeof...(S) > 2 ? 4 : 8;
  int widest = sizeof(D);
  ((widest = static_cast<int>(sizeof(S)) > widest ? static_cast<int>(sizeof(S)) : widest), ...);
  const int fit = 32 / widest < most ? 32 / widest : most;
  return step < fit ? step : fit;
}

/* The groups in which a walk takes elements: single ones, packs within a row, or packs that may cross the end of a
 * row. */
enum nd_packs { single, in_rows, over_rows };

/* The split of the elements: first `head` single ones, then `packed` elements in packs, then single ones. */
struct nd_span {
  uint64_t head, packed;
};

/* Walks either the packs of V elements or the single elements. dst is operand `To` of nd, or contiguous if To is -1. */
template <nd_packs Packs, int V, int To, class F, class D, class... S, int... K>
CRK_FN void map_nd_steps(const crk_nd_t &nd, uint32_t threads, const nd_span &span, F f, D *dst, indices<K...>,
                         const S *...src) {
  constexpr int count = sizeof...(S) + (To >= 0);
  const elements e(Packs == single ? nd.numel - span.packed : span.packed / V, threads);
  for (uint64_t s = e.first; s < e.end; s += e.step) {
    uint64_t i, at[count];
    if constexpr (Packs == single) {
      i = s < span.head ? s : s + span.packed;
    } else if constexpr (Packs == over_rows || To >= 0) {
      i = span.head + s * V;
    } else {
      i = walked(nd, s * V);
    }
    locate(nd, i, at);
    pack<D, V> result;
    if constexpr (Packs == over_rows) {
      const nd_crossing<count> crossing(nd, static_cast<uint32_t>(i), V);
      result = apply<D, V>(f, load_nd<V>(nd, K, src, at[K], crossing)...);
    } else {
      result = apply<D, V>(f, load_nd<V>(nd, K, src + at[K])...);
    }
    if constexpr (To >= 0) {
      store_nd(nd, To, dst + at[To], result);
    } else if constexpr (V == 1) {
      dst[i] = result.v[0];
    } else {
      store_pack(dst + i, result);
    }
  }
}

/* The walk on the CPU: runs along the innermost dim, so that coordinates are computed once per run. */
template <int To, class F, class D, class... S, int... K>
CRK_FN void map_nd_runs(const crk_nd_t &nd, uint32_t threads, F f, D *dst, indices<K...>, const S *...src) {
  const elements e(nd.numel, threads);
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

/* dst = f(src...) over the space `nd`. Source k is operand k; dst is contiguous, or operand `To`. Packs of a contiguous
 * dst begin where it is aligned to 16 bytes; a pack may cross the end of one row. Elements outside of packs are
 * computed one by one. Packs are used in two cases. Either dst is aligned and rows are whole packs. Or dst is
 * contiguous, the space is not CRK_ND_WIDE, and a row is at least as long as a pack. */
template <int To = -1, class F, class D, class... S>
CRK_FN void map_nd(const crk_nd_t &nd, uint32_t threads, F f, D *dst, const S *...src) {
  constexpr typename make_indices<sizeof...(S)>::type operands{};
  if constexpr (on_host) {
    map_nd_runs<To>(nd, threads, f, dst, operands, src...);
  } else {
    constexpr int V = nd_elements<D, S...>();
    const uint64_t to_aligned = (0 - reinterpret_cast<uintptr_t>(dst)) % 16 / sizeof(D);
    const uint64_t head = to_aligned < nd.numel ? to_aligned : nd.numel;
    const uint64_t packed = (nd.numel - head) / V * V;
    nd_span span = {head, packed};
    if ((nd.flags & CRK_ND_VECTOR) != 0 && head == 0) {
      map_nd_steps<in_rows, V, To>(nd, threads, span, f, dst, operands, src...);
    } else if (To < 0 && !(nd.flags & CRK_ND_WIDE) && nd.rank > 0 && nd.dims[0].size >= V) {
      /* At most four elements. Eight elements from two rows take so many registers that an NVIDIA multiprocessor holds
       * fewer threads. */
      map_nd_steps<over_rows, (V > 4 && sizeof(D) > 1 ? 4 : V), To>(nd, threads, span, f, dst, operands, src...);
    } else {
      span = {0, 0};
    }
    map_nd_steps<single, 1, To>(nd, threads, span, f, dst, operands, src...);
  }
}

}  // namespace crk

#endif
