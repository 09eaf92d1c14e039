/* The launchers' reductions over any dims of any strided tensor (crk_reduce_space_t in call/reduce_space.h), with three
 * kernels:
 *
 *   reduce_rows     the innermost reduced dim is contiguous: the threads of an output are spread along it
 *   reduce_columns  the threads are spread along the outputs; each has V neighbouring ones, or one anywhere (V = 1)
 *   join_states     joins the states that several blocks computed for each output
 *
 * Threads are always joined in groups of 32 lanes, so a result does not depend on the wave width. reduce_even.h and
 * reduce_dense.h handle frequent special cases and use this file's helpers. */
#ifndef CRK_REDUCE_ROWS_H
#define CRK_REDUCE_ROWS_H

#include "call/reduce_space.h"
#include "reduce/reduction.h"

namespace crk {
namespace {

/* The position of the largest or the smallest element, the first one on a tie. A NaN never wins, but a NaN at the front
 * of the row stays, as in Candle's CPU backend. `seed` then gives a candidate that no element beats. If no element ever
 * won, all are NaN or equal to the initial value, and the position is 0. */
template <class T, bool Largest>
struct first_position {
  using element = T;
  using output = uint32_t;
  using state = candidate<held<T>>;
  CRK_FN static bool wins(held<T> challenger, held<T> holder) {
    return Largest ? challenger > holder : challenger < holder;
  }
  CRK_FN static state identity() { return {extreme<T, Largest>::identity(), ~0u}; }
  CRK_FN static state seed(T x) {
    const held<T> value = convert<held<T>>(x);
    return value != value ? state{extreme<T, !Largest>::identity(), 0} : identity();
  }
  CRK_FN static state add(state best, T x, uint32_t i) {
    const held<T> value = convert<held<T>>(x);
    const bool taken = wins(value, best.value);
    return {taken ? value : best.value, taken ? i : best.position};
  }
  CRK_FN static state join(state mine, state other) {
    const bool first = other.value == mine.value && other.position < mine.position;
    const bool taken = wins(other.value, mine.value) || first;
    return {taken ? other.value : mine.value, taken ? other.position : mine.position};
  }
  CRK_FN static output result(state best) { return best.position == ~0u ? 0 : best.position; }
};

template <class R>
inline constexpr bool is_position = false;
template <class T, bool Largest>
inline constexpr bool is_position<first_position<T, Largest>> = true;

/* Reduces elements Begin to Begin + Count of a pack, by halves. */
template <class R, int Begin, int Count, int V>
CRK_FN typename R::state pack_tree(const pack<typename R::element, V> &x) {
  if constexpr (Count == 1) {
    return convert<typename R::state>(x.v[Begin]);
  } else {
    return R::join(pack_tree<R, Begin, Count / 2>(x), pack_tree<R, Begin + Count / 2, Count / 2>(x));
  }
}

/* Returns x. The compiler does not unpack it before `first` has been computed. Unpacked bytes and the results of
 * comparisons of halves take registers, and several packs at once would need too many. */
template <class T, int V, class A>
CRK_FN pack<T, V> pack_in_turn(const pack<T, V> &x, A first) {
  constexpr int count = V * sizeof(T) / 4;
  auto words = bit_cast<pack<uint32_t, count>>(x);
  CRK_UNROLL
  for (int j = 0; j < count; j++) {
    words.v[j] = in_turn(words.v[j], first);
  }
  return bit_cast<pack<T, V>>(words);
}

/* Adds a pack to `state`; its first element has position i. */
template <class R, int V>
CRK_FN typename R::state add_elements(typename R::state state, pack<typename R::element, V> x, uint32_t i) {
  if constexpr (is_position<R>) {
    uint32_t taken = ~0u;
    CRK_UNROLL
    for (int j = 0; j < V; j++) {
      if constexpr (sizeof(typename R::element) == 1) {
        if (j > 0 && j % 4 == 0) {
          x = pack_in_turn(x, taken);
        }
      }
      const auto value = convert<decltype(state.value)>(x.v[j]);
      const bool wins = R::wins(value, state.value);
      state.value = wins ? value : state.value;
      taken = wins ? static_cast<uint32_t>(j) : taken;
    }
    state.position = taken == ~0u ? state.position : i + taken;
    return state;
  } else {
    return R::join(state, pack_tree<R, 0, V>(x));
  }
}

/* ---- Offsets of elements ---- */

template <class I>
CRK_FN uint64_t offset_in(const crk_reduce_space_t &space, uint32_t begin, uint32_t end, I i) {
  I sum = 0;
  CRK_NO_UNROLL
  for (uint32_t d = begin; d < end; d++) {
    I next = 0, coordinate = i;
    if (d + 1 != end) {
      next = mulhi(i, static_cast<I>(space.dims[d].mul)) >> space.dims[d].shift;
      coordinate = i - next * static_cast<I>(space.dims[d].size);
    }
    i = next;
    sum += coordinate * static_cast<I>(space.strides[d]);
  }
  return sum;
}

/* The offset of element i of the reduced dims, leaving out the first `begin` dims. */
CRK_FN uint64_t reduced_offset(const crk_reduce_space_t &space, uint32_t begin, uint64_t i) {
  return space.flags & CRK_REDUCE_WIDE
             ? offset_in<uint64_t>(space, begin, space.reduced_rank, i)
             : offset_in<uint32_t>(space, begin, space.reduced_rank, static_cast<uint32_t>(i));
}

/* The offset of an output's first element. */
CRK_FN uint64_t kept_offset(const crk_reduce_space_t &space, uint64_t output) {
  const uint32_t begin = space.reduced_rank, end = begin + space.kept_rank;
  return space.flags & CRK_REDUCE_KEPT_WIDE ? offset_in<uint64_t>(space, begin, end, output)
                                            : offset_in<uint32_t>(space, begin, end, static_cast<uint32_t>(output));
}

template <class R>
inline constexpr bool is_sum = false;
template <class T, class A>
inline constexpr bool is_sum<sum_in<T, A>> = true;

/* Whether R compares halves in order to keep a NaN. */
template <class R>
inline constexpr bool keeps_nan = half<typename R::element> && !is_sum<R> && !is_position<R>;

template <class R>
inline constexpr int columns_of =
    CRK_REDUCE_COLUMNS(sizeof(typename R::element), (is_position<R> || (half<typename R::element> && !is_sum<R>)));

/* Loads that a thread has under way. Results of comparisons and the decoding of f8e4m3 take scalar registers, so those
 * kernels have only one. */
template <class R>
inline constexpr int loads_under_way =
    (is_position<R> && sizeof(typename R::element) == 1) || same<typename R::element, f8e4m3> ? 1 : 4;

/* ---- Joining ---- */

/* Joins each of N states over `lanes` neighbouring lanes, a power of two up to 32. All lanes of the group must call
 * it. */
template <class R, int Mask, int N>
CRK_FN void join_exchanged(typename R::state (&state)[N]) {
  CRK_UNROLL
  for (int n = 0; n < N; n++) {
    state[n] = R::join(state[n], exchange<Mask>(state[n]));
  }
}
template <class R, int N>
CRK_FN void join_lanes(typename R::state (&state)[N], uint32_t lanes) {
  if (lanes > 16) {
    join_exchanged<R, 16>(state);
  }
  if (lanes > 8) {
    join_exchanged<R, 8>(state);
  }
  if (lanes > 4) {
    join_exchanged<R, 4>(state);
  }
  if (lanes > 2) {
    join_exchanged<R, 2>(state);
  }
  if (lanes > 1) {
    join_exchanged<R, 1>(state);
  }
}

/* Joins the states of `threads` threads of a block of CRK_REDUCE_THREADS: up to 32, or the whole block. All threads of
 * the block must call it. `shared` has one place for each group and may be reused at once. */
template <class R>
CRK_FN typename R::state join_threads(typename R::state state, uint32_t threads, typename R::state *shared) {
  constexpr uint32_t groups = CRK_REDUCE_THREADS / group_lanes;
  if (threads <= group_lanes) {
    typename R::state one[1] = {state};
    join_lanes<R>(one, threads);
    return one[0];
  }
  const uint32_t thread = thread_index().x;
  state = butterfly<32>(state, join_of<R>());
  if (thread % group_lanes == 0) {
    shared[thread / group_lanes] = state;
  }
  shared_barrier();
  state = butterfly<groups>(shared[thread % groups], join_of<R>());
  shared_barrier();
  return state;
}

/* Joins lanes of a group whose distance is a multiple of `across`, a power of two below 32. */
template <class R>
CRK_FN typename R::state join_strided_lanes(typename R::state state, uint32_t across) {
  state = R::join(state, exchange<16>(state));
  if (across <= 8) {
    state = R::join(state, exchange<8>(state));
  }
  if (across <= 4) {
    state = R::join(state, exchange<4>(state));
  }
  if (across <= 2) {
    state = R::join(state, exchange<2>(state));
  }
  if (across <= 1) {
    state = R::join(state, exchange<1>(state));
  }
  return state;
}

/* ---- Rows ---- */

/* Adds this thread's packs of a run to `state`: numbers thread, thread + 2^log2 and so on. The run's first element has
 * position `first`. */
template <class R>
CRK_FN typename R::state add_packs(typename R::state state, const typename R::element *src, uint32_t packs,
                                   uint32_t first, uint32_t thread, uint32_t log2) {
  using T = typename R::element;
  constexpr uint32_t V = 16 / sizeof(T), depth = loads_under_way<R>;
  const uint32_t step = 1u << log2;
  uint32_t p = thread;
  CRK_NO_UNROLL
  for (uint32_t rounds = packs / depth >> log2; rounds > 0; rounds--, p += depth * step) {
    pack<T, V> x[depth];
    CRK_UNROLL
    for (uint32_t k = 0; k < depth; k++) {
      x[k] = load_aligned<T, V>(src + static_cast<size_t>(p + k * step) * V);
    }
    CRK_UNROLL
    for (uint32_t k = 0; k < depth; k++) {
      if constexpr (depth > 1 && (sizeof(T) == 1 || keeps_nan<R>)) {
        x[k] = pack_in_turn(x[k], state);
      }
      state = add_elements<R, V>(state, x[k], first + (p + k * step) * V);
    }
  }
  CRK_NO_UNROLL
  for (; p < packs; p += step) {
    state = add_elements<R, V>(state, load_aligned<T, V>(src + static_cast<size_t>(p) * V), first + p * V);
  }
  return state;
}

/* Adds this thread's elements among `begin` to `end` of a run to `state`, as thread `thread` of 2^log2. The run's first
 * element has position `first`. end - begin is below 2^31. */
template <class R>
CRK_FN typename R::state add_run(typename R::state state, const typename R::element *run, uint64_t begin, uint64_t end,
                                 uint32_t first, uint32_t thread, uint32_t log2, bool aligned) {
  using T = typename R::element;
  constexpr uint32_t V = 16 / sizeof(T);
  const uint32_t step = 1u << log2, count = static_cast<uint32_t>(end - begin);
  const T *src = run + begin;
  first += static_cast<uint32_t>(begin);
  uint32_t head = 0;
  if (!aligned) {
    head = static_cast<uint32_t>((0 - reinterpret_cast<uintptr_t>(src)) % 16 / sizeof(T));
    head = head < count ? head : count;
    CRK_NO_UNROLL
    for (uint32_t i = thread; i < head; i += step) {
      state = R::add(state, src[i], first + i);
    }
  }
  const uint32_t packs = (count - head) / V;
  state = add_packs<R>(state, src + head, packs, first + head, thread, log2);
  CRK_NO_UNROLL
  for (uint32_t i = head + packs * V + thread; i < count; i += step) {
    state = R::add(state, src[i], first + i);
  }
  return state;
}

/* The state of one thread for one output. `thread` is its number among the threads of the output. */
template <class R>
CRK_FN typename R::state add_row(const crk_reduce_space_t &space, const typename R::element *src, uint64_t output,
                                 uint32_t thread) {
  const uint32_t teams_log2 = space.output_log2 - space.run_log2, team = thread >> space.run_log2;
  const uint32_t split = block_index().y, along = thread & ((1u << space.run_log2) - 1);
  const uint64_t length = space.dims[0].size, runs = space.runs;
  const uint32_t part = split & ((1u << space.parts_log2) - 1), share = split >> space.parts_log2;
  const uint64_t begin = part * space.part, rest = length - begin,
                 end = begin + (rest < space.part ? rest : space.part);
  const typename R::element *row = src + kept_offset(space, output);
  typename R::state state = R::identity();
  if constexpr (is_position<R> && floating<typename R::element>) {
    if (thread == 0 && split == 0) {
      state = R::seed(row[0]);
    }
  }
  const uint64_t step = static_cast<uint64_t>(space.splits >> space.parts_log2) << teams_log2;
  CRK_NO_UNROLL
  for (uint64_t k = (static_cast<uint64_t>(share) << teams_log2) + team; k < runs; k += step) {
    const typename R::element *run = runs == 1 ? row : row + reduced_offset(space, 1, k);
    state = add_run<R>(state, run, begin, end, static_cast<uint32_t>(k * length), along, space.run_log2,
                       (space.flags & CRK_REDUCE_ALIGNED) != 0);
  }
  return state;
}

template <class R>
CRK_FN void store_state(const crk_reduce_space_t &space, typename R::state state, uint64_t output,
                        typename R::output *dst, typename R::state *states) {
  if (space.splits > 1) {
    states[output * space.splits + block_index().y] = state;
  } else {
    dst[output] = R::result(state);
  }
}

template <class R>
CRK_FN void reduce_rows(const crk_reduce_space_t &space, const typename R::element *src, typename R::output *dst,
                        typename R::state *states) {
  CRK_SHARED(typename R::state, group_states, CRK_REDUCE_THREADS / group_lanes);
  const uint32_t thread = thread_index().x, threads = 1u << space.output_log2;
  const uint32_t outputs_log2 = 8 - space.output_log2; /* per block */
  const uint32_t in_output = thread & (threads - 1);
  CRK_NO_UNROLL
  for (uint64_t block = block_index().x; block << outputs_log2 < space.outputs; block += space.blocks) {
    const uint64_t output = (block << outputs_log2) + (thread >> space.output_log2);
    typename R::state state = R::identity();
    if (output < space.outputs) {
      state = add_row<R>(reread(space), src, output, in_output);
    }
    state = join_threads<R>(state, threads, group_states);
    if (in_output == 0 && output < space.outputs) {
      store_state<R>(space, state, output, dst, states);
    }
  }
}

/* ---- Columns ---- */

/* Adds one element to each of V neighbouring outputs. */
template <class R, int V>
CRK_FN void add_column_elements(typename R::state (&state)[V], const pack<typename R::element, V> &x, uint32_t i) {
  CRK_UNROLL
  for (int v = 0; v < V; v++) {
    state[v] = R::add(state[v], x.v[v], i);
  }
}

template <class R, int V>
CRK_FN pack<typename R::element, V> load_column(const typename R::element *src) {
  if constexpr (V == 1) {
    return {{*src}};
  } else {
    return load_aligned<typename R::element, V>(src);
  }
}

/* Adds every `step`-th of the reduced elements from `begin` on to the states. */
template <class R, int V>
CRK_FN void add_column(const crk_reduce_space_t &space, typename R::state (&state)[V], const typename R::element *src,
                       uint64_t begin, uint64_t step) {
  using T = typename R::element;
  constexpr int most = is_position<R> && V > 2 ? 2 : 4, depth = loads_under_way<R> < most ? loads_under_way<R> : most;
  const uint64_t count = space.per_output;
  uint64_t i = begin;
  if (space.reduced_rank == 1) {
    const uint64_t stride = space.strides[0], jump = step * stride;
    const T *at = src + i * stride;
    CRK_NO_UNROLL
    for (; i + (depth - 1) * step < count; i += depth * step, at += depth * jump) {
      pack<T, V> x[depth];
      CRK_UNROLL
      for (int k = 0; k < depth; k++) {
        x[k] = load_column<R, V>(at + k * jump);
      }
      CRK_UNROLL
      for (int k = 0; k < depth; k++) {
        if (is_position<R> && same<T, double> && k == depth / 2) {
          keep_order(); /* else too many outcomes of comparisons are in scalar registers at once */
        }
        add_column_elements<R, V>(state, x[k], static_cast<uint32_t>(i + k * step));
      }
    }
  }
  CRK_NO_UNROLL
  for (; i < count; i += step) {
    add_column_elements<R, V>(state, load_column<R, V>(src + reduced_offset(space, 0, i)), static_cast<uint32_t>(i));
  }
}

template <class R, int V>
CRK_FN void reduce_columns(const crk_reduce_space_t &space, const typename R::element *src, typename R::output *dst,
                           typename R::state *states) {
  CRK_SHARED(typename R::state, column_room, CRK_REDUCE_THREADS * V);
  const uint32_t thread = thread_index().x, log2 = space.output_log2, across = 1u << log2;
  const uint32_t x = thread & (across - 1), y = thread >> log2, rows = CRK_REDUCE_THREADS >> log2;
  const uint64_t packs = V == 1 ? space.outputs : space.outputs / V;
  CRK_NO_UNROLL
  for (uint64_t block = block_index().x; block << log2 < packs; block += space.blocks) {
    const uint64_t p = (block << log2) + x, output = p * V;
    typename R::state state[V];
    CRK_UNROLL
    for (int v = 0; v < V; v++) {
      state[v] = R::identity();
    }
    if (p < packs) {
      const typename R::element *column = src + kept_offset(space, output);
      const uint32_t split = block_index().y;
      if constexpr (is_position<R> && floating<typename R::element>) {
        if (y == 0 && split == 0) {
          CRK_UNROLL
          for (int v = 0; v < V; v++) {
            state[v] = R::seed(column[v]);
          }
        }
      }
      add_column<R, V>(space, state, column, y + static_cast<uint64_t>(rows) * split,
                       static_cast<uint64_t>(rows) * space.splits);
    }
    if (rows > 1) {
      /* First joins the lanes of a group that have the same outputs, then the groups. */
      const bool shared_group = across < group_lanes;
      if (shared_group) {
        CRK_UNROLL
        for (int v = 0; v < V; v++) {
          state[v] = join_strided_lanes<R>(state[v], across);
        }
      }
      const uint32_t line = shared_group ? thread / group_lanes : y;
      const uint32_t lines = shared_group ? CRK_REDUCE_THREADS / group_lanes : rows;
      if (!shared_group || thread % group_lanes < across) {
        CRK_UNROLL
        for (int v = 0; v < V; v++) {
          column_room[v * CRK_REDUCE_THREADS + line * across + x] = state[v];
        }
      }
      shared_barrier();
      if (thread < across) {
        CRK_NO_UNROLL
        for (uint32_t l = 1; l < lines; l++) {
          CRK_UNROLL
          for (int v = 0; v < V; v++) {
            state[v] = R::join(state[v], column_room[v * CRK_REDUCE_THREADS + l * across + x]);
          }
        }
      }
      shared_barrier();
    }
    if (thread < across && p < packs) {
      CRK_UNROLL
      for (int v = 0; v < V; v++) {
        store_state<R>(space, state[v], output + v, dst, states);
      }
    }
  }
}

/* ---- The second stage ---- */

/* dst[i] = the result of joining the `splits` states from states[i * splits] on. An output has 32 lanes; the grid has
 * `blocks` blocks. */
template <class R>
CRK_FN void join_states(uint64_t outputs, uint32_t splits, uint32_t blocks, const typename R::state *states,
                        typename R::output *dst) {
  const uint32_t thread = thread_index().x, place = thread % group_lanes;
  constexpr uint32_t teams = CRK_REDUCE_THREADS / group_lanes;
  CRK_NO_UNROLL
  for (uint64_t first = static_cast<uint64_t>(block_index().x) * teams; first < outputs;
       first += static_cast<uint64_t>(blocks) * teams) {
    const uint64_t output = first + thread / group_lanes;
    typename R::state state = R::identity();
    if (output < outputs) {
      CRK_NO_UNROLL
      for (uint32_t s = place; s < splits; s += group_lanes) {
        state = R::join(state, states[output * splits + s]);
      }
    }
    state = butterfly<32>(state, join_of<R>());
    if (place == 0 && output < outputs) {
      dst[output] = R::result(state);
    }
  }
}

}  // namespace
}  // namespace crk

#endif
