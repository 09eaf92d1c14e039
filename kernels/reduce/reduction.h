/* The reducers (sum_in, extreme, named_position), and reductions with Candle's kernel names and arguments:
 * reduce_named, sum_named_packs, sum_small_named and sum_named. The launchers' own reductions are in reduce_rows.h,
 * reduce_even.h and reduce_dense.h. A reducer R is a struct of static functions on a `state`:
 *
 *   R::identity()          the initial state
 *   R::add(state, x, i)    adds element x at position i of the row
 *   R::join(mine, other)   combines two states
 *   R::result(state)       the value that is stored
 *
 * The order of additions is that of Candle's CUDA kernels: each thread adds a chain of elements, then a tree joins the
 * threads of the block. Only sum_named, which uses atomics, adds in no fixed order. */
#ifndef CRK_REDUCTION_H
#define CRK_REDUCTION_H

#include "elementwise/walk.h"
#include "numbers/wave.h"

namespace crk {
namespace {

/* ---- Reducers ---- */

template <class A>
CRK_FN A wrapping_plus(A a, A b) {
  if constexpr (floating<A>) {
    return a + b;
  } else {
    return static_cast<A>(static_cast<wrapping<A>>(a) + static_cast<wrapping<A>>(b));
  }
}

/* The type in which an element is held: f32 for narrow floats, 32 bits for narrow integers. */
template <class T>
using held = choose<same<T, uint8_t>, uint32_t, choose<same<T, int16_t>, int32_t, wide<T>>>;

/* The sum. Elements are converted to A and added up there; the result is converted back to T. Integers wrap. */
template <class T, class A>
struct sum_in {
  using element = T;
  using output = T;
  using state = A;
  CRK_FN static state identity() { return convert<A>(0.0f); }
  CRK_FN static state add(state sum, T x, uint32_t) { return wrapping_plus(sum, convert<A>(x)); }
  CRK_FN static state join(state mine, state other) { return wrapping_plus(mine, other); }
  CRK_FN static output result(state sum) { return convert<T>(sum); }
};

/* The greatest and the least value of A, infinities for floats. */
template <class A>
CRK_FN A highest() {
  if constexpr (floating<A>) {
    return static_cast<A>(__builtin_inff());
  } else {
    return static_cast<A>(is_signed<A> ? (uint64_t(1) << (8 * sizeof(A) - 1)) - 1 : ~uint64_t(0));
  }
}
template <class A>
CRK_FN A lowest() {
  if constexpr (floating<A>) {
    return -highest<A>();
  } else {
    return static_cast<A>(~highest<A>());
  }
}

/* The largest or the smallest element. A NaN loses in f32, f64 and f8e4m3, and wins in f16 and bf16. */
template <class T, bool Largest>
struct extreme {
  using element = T;
  using output = T;
  using state = held<T>;
  CRK_FN static state identity() {
    using E = choose<floating<T>, state, T>;
    return static_cast<state>(Largest ? lowest<E>() : highest<E>());
  }
  CRK_FN static state join(state mine, state other) {
    if constexpr (half<T>) {
      const state winner = Largest ? max_number(mine, other) : min_number(mine, other);
      return mine != mine || other != other ? __builtin_nanf("") : winner; /* one unordered comparison */
    } else {
      return Largest ? maximum(mine, other) : minimum(mine, other);
    }
  }
  CRK_FN static state add(state best, T x, uint32_t) { return join(best, convert<state>(x)); }
  CRK_FN static output result(state best) { return convert<T>(best); }
};

/* The largest or the smallest element so far, and its position. */
template <class A>
struct candidate {
  A value;
  uint32_t position; /* ~0: no element yet */
};

/* The position of the largest or the smallest element, with Candle's CUDA rules. On a tie `mine` stays. A NaN never
 * replaces another element and is never replaced, so it stays only if it came first. */
template <class T, bool Largest>
struct named_position {
  using element = T;
  using output = uint32_t;
  using state = candidate<held<T>>;
  CRK_FN static bool wins(held<T> challenger, held<T> holder) {
    return Largest ? challenger > holder : challenger < holder;
  }
  CRK_FN static state identity() { return {extreme<T, Largest>::identity(), ~0u}; }
  CRK_FN static state add(state best, T x, uint32_t i) {
    const held<T> value = convert<held<T>>(x);
    const bool taken = best.position == ~0u || wins(value, best.value);
    return {taken ? value : best.value, taken ? i : best.position};
  }
  CRK_FN static state join(state mine, state other) {
    const bool taken = wins(other.value, mine.value);
    return {taken ? other.value : mine.value, taken ? other.position : mine.position};
  }
  CRK_FN static output result(state best) { return best.position; }
};

template <class R>
inline constexpr bool finds_position = false;
template <class T, bool Largest>
inline constexpr bool finds_position<named_position<T, Largest>> = true;

template <class R>
struct join_of {
  CRK_FN typename R::state operator()(typename R::state mine, typename R::state other) const {
    return R::join(mine, other);
  }
};

/* ---- Rows with Candle's arguments ---- */

/* `count` elements from number `first` on, in row-major order of the dims. `info` holds dims and strides; null means
 * contiguous. */
template <class T>
struct named_row {
  const T *src, *base;
  uint64_t rank, first, count, stride;
  const uint64_t *info;
  bool contiguous, straight, fits;

  CRK_FN named_row(uint64_t numel, uint64_t per_output, uint64_t rank_, const uint64_t *info_, const T *src_,
                   uint64_t output)
      : src(src_), base(src_), rank(rank_), first(output * per_output), count(per_output), stride(1), info(info_) {
    first = first < numel ? first : numel;
    count = count < numel - first ? count : numel - first;
    contiguous = info == nullptr || is_contiguous(rank, info, info + rank);
    fits = !contiguous && fits_32_bits<1>(numel, rank, info);
    straight = contiguous || (rank > 0 && info[rank - 1] == count);
    if (contiguous) {
      base = src + first;
    } else if (straight) {
      base = src + at(first);
      stride = info[2 * rank - 1];
    }
  }
  CRK_FN uint64_t at(uint64_t element) const {
    uint64_t place[1];
    if (fits) {
      locate<uint32_t>(element, rank, info, place);
    } else {
      locate<uint64_t>(element, rank, info, place);
    }
    return place[0];
  }
  CRK_FN T operator[](uint64_t i) const { return straight ? base[i * stride] : src[at(first + i)]; }

  /* The position of element i as Candle counts it: the coordinate in the last dim. */
  CRK_FN uint32_t position(uint32_t i) const {
    const uint64_t last = info == nullptr || rank == 0 ? count : info[rank - 1];
    return static_cast<uint32_t>(last == count || i == ~0u ? i : (first + i) % last);
  }
};

/* Adds the elements begin, begin + step, begin + 2 * step and so on to `state`, in order. Up to four loads are under
 * way at a time. */
template <class R, class Row>
CRK_FN typename R::state add_chain(typename R::state state, const Row &row, uint64_t begin, uint64_t end,
                                   uint64_t step) {
  uint64_t i = begin;
  if (!on_host && row.straight && end > 3 * step) {
    for (; i < end - 3 * step; i += 4 * step) {
      typename R::element x[4];
      CRK_UNROLL
      for (int k = 0; k < 4; k++) {
        x[k] = row.base[(i + k * step) * row.stride];
      }
      CRK_UNROLL
      for (int k = 0; k < 4; k++) {
        state = R::add(state, x[k], static_cast<uint32_t>(i + k * step));
      }
    }
  }
  CRK_NO_UNROLL
  for (; i < end; i += step) {
    state = R::add(state, row[i], static_cast<uint32_t>(i));
  }
  return state;
}

/* ---- Candle's tree ---- */

/* shared[at], or the identity if `at` is not below `threads`. */
template <class R>
CRK_FN typename R::state state_at(const typename R::state *shared, uint32_t at, uint32_t threads) {
  const typename R::state value = shared[at < threads ? at : 0];
  return at < threads ? value : R::identity();
}

/* Joins the states of one lane over all groups (shared[lane], shared[lane + 32] and so on) by halving. Intermediate
 * states are written to `shared`. */
template <class R>
CRK_FN typename R::state join_column(typename R::state *shared, uint32_t lane, uint32_t threads) {
  constexpr uint32_t at_once = 4; /* a larger number would need more registers than gfx906 has */
  uint32_t half = 16;
  while (half * group_lanes >= threads) {
    half /= 2;
  }
  CRK_NO_UNROLL
  for (; half >= at_once; half /= 2) {
    CRK_NO_UNROLL
    for (uint32_t group = 0; group < half; group += at_once) {
      typename R::state mine[at_once], other[at_once];
      CRK_UNROLL
      for (uint32_t k = 0; k < at_once; k++) {
        mine[k] = state_at<R>(shared, (group + k) * group_lanes + lane, threads);
        other[k] = state_at<R>(shared, (group + k + half) * group_lanes + lane, threads);
      }
      CRK_UNROLL
      for (uint32_t k = 0; k < at_once; k++) {
        shared[(group + k) * group_lanes + lane] = R::join(mine[k], other[k]);
      }
    }
  }
  typename R::state left[at_once];
  CRK_UNROLL
  for (uint32_t k = 0; k < at_once; k++) {
    left[k] = state_at<R>(shared, k * group_lanes + lane, threads);
  }
  return R::join(R::join(left[0], left[2]), R::join(left[1], left[3]));
}

/* Joins the states of a block of up to 1024 threads and returns the result to thread 0. The order is Candle's: thread i
 * with i + 512, then with i + 256, and so on. The first halvings join the same lane of different groups, the last five
 * are a butterfly within a group. So one barrier is enough. All threads of the block must call it. */
template <class R>
CRK_FN typename R::state block_tree(typename R::state state) {
  CRK_SHARED(typename R::state, exchange_room, 1024);
  const uint32_t threads = threads_of_block(), thread = thread_in_block();
  if (threads > group_lanes) {
    exchange_room[thread] = state;
    shared_barrier();
    if (thread >= wave_size()) {
      return state;
    }
    if (thread < group_lanes) {
      state = join_column<R>(exchange_room, thread, threads);
    }
  }
  return butterfly<32>(state, join_of<R>(), threads < group_lanes ? threads : group_lanes);
}

/* ---- fast_*: a block per output ---- */

/* dst[block] = R over the block's row: each thread reduces a chain of elements, then a tree joins the threads. */
template <class R>
CRK_FN void reduce_named(uint64_t numel, uint64_t per_output, uint64_t rank, const uint64_t *info,
                         const typename R::element *src, typename R::output *dst) {
  const uint64_t output = block_index().x;
  const named_row<typename R::element> row(numel, per_output, rank, info, src, output);
  const uint32_t thread = thread_in_block();
  typename R::state state = add_chain<R>(R::identity(), row, thread, row.count, threads_of_block());
  if constexpr (finds_position<R>) {
    state.position = row.position(state.position);
  }
  state = block_tree<R>(state);
  if (thread == 0) {
    dst[output] = R::result(state);
  }
}

/* Adds a pack to `sum`: four f32 are added up first; bf16 are added one after the other. */
CRK_FN float add_pack(float sum, const pack<float, 4> &x) { return sum + (((x.v[0] + x.v[1]) + x.v[2]) + x.v[3]); }
CRK_FN float add_pack(float sum, const pack<bf16, 8> &x) {
  CRK_UNROLL
  for (int j = 0; j < 8; j++) {
    sum += static_cast<float>(x.v[j]);
  }
  return sum;
}

/* The sum of f32 or bf16 in f32, in the order of Candle's vectorised kernels. A contiguous row is read in packs of 16
 * bytes that are aligned in the tensor, with single elements before and after them. Each thread has a share of all
 * three parts. If the tensor itself is not aligned, or the row is strided, all elements are read singly. */
template <class T>
CRK_FN void sum_named_packs(uint64_t numel, uint64_t per_output, uint64_t rank, const uint64_t *info, const T *src,
                            T *dst) {
  using R = sum_in<T, float>;
  constexpr int V = 16 / sizeof(T);
  const uint64_t output = block_index().x;
  const named_row<T> row(numel, per_output, rank, info, src, output);
  const uint64_t thread = thread_in_block(), threads = threads_of_block();
  float sum = 0.0f;
  if (!row.contiguous) {
    sum = add_chain<R>(sum, row, thread, row.count, threads);
  } else {
    const uint64_t stop = row.first + row.count, pack_end = stop / V, pack_begin = (row.first + V - 1) / V;
    const uint64_t head_end = pack_begin * V < stop ? pack_begin * V : stop;
    const uint64_t tail = pack_end * V > head_end ? pack_end * V : head_end;
    const bool aligned = reinterpret_cast<uintptr_t>(src) % 16 == 0;
    for (uint64_t i = row.first + thread; i < head_end; i += threads) {
      sum += static_cast<float>(src[i]);
    }
    if (aligned) {
      uint64_t p = pack_begin + thread;
      CRK_NO_UNROLL
      for (; p + threads < pack_end; p += 2 * threads) {
        const pack<T, V> x = load_aligned<T, V>(src + p * V), y = load_aligned<T, V>(src + (p + threads) * V);
        sum = add_pack(add_pack(sum, x), y);
      }
      if (p < pack_end) {
        sum = add_pack(sum, load_aligned<T, V>(src + p * V));
      }
    } else {
      for (uint64_t i = head_end + thread; i < pack_end * V; i += threads) {
        sum += static_cast<float>(src[i]);
      }
    }
    for (uint64_t i = tail + thread; i < stop; i += threads) {
      sum += static_cast<float>(src[i]);
    }
  }
  CRK_SHARED(float, group_sums, 32);
  sum = block_reduce(sum, join_of<R>(), 0.0f, group_sums);
  if (thread == 0) {
    dst[output] = convert<T>(sum);
  }
}

/* ---- fast_sum_small: a thread per output, adding from the first element to the last ---- */

template <class R>
CRK_FN void sum_small_named(uint64_t outputs, uint64_t per_output, uint64_t rank, const uint64_t *info,
                            const typename R::element *src, typename R::output *dst) {
  const named_elements e(outputs);
  for (uint64_t o = e.first; o < e.end; o += e.step) {
    const named_row<typename R::element> row(outputs * per_output, per_output, rank, info, src, o);
    dst[o] = R::result(add_chain<R>(R::identity(), row, 0, row.count, 1));
  }
}

/* ---- sum: with atomics ---- */

template <class T>
CRK_FN void add_to(T *address, T x) {
  if constexpr (half<T>) {
    uint16_t *const word = reinterpret_cast<uint16_t *>(address);
    T seen = *address;
    for (;;) {
      const uint16_t found = atomic_cas(word, seen.code, (seen + x).code);
      if (found == seen.code) {
        return;
      }
      seen.code = found;
    }
  } else {
    atomic_add(address, x);
  }
}

/* dst += src: adds each element of src to its output. The output's index is the element's index without the summed
 * dims. `info` holds dims and strides, then the sizes of the summed dims and their strides within the index. The order
 * of the additions is not determined. */
template <class T>
CRK_FN void sum_named(uint64_t numel, uint64_t rank, uint64_t summed, const uint64_t *info, const T *src, T *dst) {
  const bool contiguous = is_contiguous(rank, info, info + rank);
  const bool fits = !contiguous && fits_32_bits<1>(numel, rank, info);
  const uint64_t *lengths = info + 2 * rank, *places = lengths + summed;
  const named_elements e(numel);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t at[1] = {i};
    if (fits) {
      locate<uint32_t>(i, rank, info, at);
    } else if (!contiguous) {
      locate<uint64_t>(i, rank, info, at);
    }
    uint64_t to = i;
    for (uint64_t d = 0; d < summed; d++) {
      to = to / places[d] / lengths[d] * places[d] + to % places[d];
    }
    add_to(dst + to, src[at[0]]);
  }
}

}  // namespace
}  // namespace crk

#endif
