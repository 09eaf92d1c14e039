/* Batch norm with given statistics: dst = (x - mean) / sqrt(var + eps) * weight + bias, with parameters per channel.
 * A group norm's second launch is the same with parameters per row, which reduce/group_norm.h makes. For
 * kernels/norm.hip. Main functions: batch_norm_even for rows of whole packs of 16 bytes, aligned in x and in dst, and
 * batch_norm_any for all others. A row is the elements of one channel of one image (call/batch_norm_call.h).
 *
 * Of is a type of parameters. Its function of_row(s, row) returns the norm of a row's elements. */
#ifndef CRK_BATCH_NORM_H
#define CRK_BATCH_NORM_H

#include "call/batch_norm_call.h"
#include "elementwise/activations.h"
#include "elementwise/walk.h"
#include "numbers/divisor.h"
#include "numbers/packed.h"

namespace crk {

/* The norm of some elements. With Silu it is rounded to T, and silu of that follows. */
template <class T, bool Silu>
struct element_norm {
  using A = wide<T>;
  A mean, scale, bias;

  CRK_FN T operator()(T x) const {
    const T y = convert<T>(fma(convert<A>(x) - mean, scale, bias));
    if constexpr (Silu) {
      return convert<T>(silu_of(convert<A>(y)));
    } else {
      return y;
    }
  }
};

/* The parameters of all channels. A null weight stands for ones, a null bias for zeros. All parameters are loaded at
 * once: a load under a condition would wait for those before it. Means are loaded in place of absent parameters. */
template <class T>
struct batch_norm_parameters {
  using A = wide<T>;
  const T *mean, *var, *weight, *bias;
  A eps;

  template <class I>
  CRK_FN element_norm<T, false> of_row(const crk_batch_norm_t &s, I row) const {
    /* The CPU's rows are wide, and its divisors may be narrow. */
    const I channel = on_host ? row % static_cast<I>(s.channels.size) : take_coordinate(row, s.channels);
    const T m = mean[channel], v = var[channel], w = (weight != nullptr ? weight : mean)[channel],
            b = (bias != nullptr ? bias : mean)[channel];
    return {convert<A>(m), rsqrt(convert<A>(v) + eps) * (weight != nullptr ? convert<A>(w) : A(1)),
            bias != nullptr ? convert<A>(b) : A(0)};
  }
};

/* The parameters of a group norm, 4 numbers per row: mean, scale, bias, and one that is not used. */
template <class T, bool Silu>
struct row_parameters {
  using A = wide<T>;
  const A *norms;

  template <class I>
  CRK_FN element_norm<T, Silu> of_row(const crk_batch_norm_t &, I row) const {
    const pack<A, 4> norm = load_aligned<A, 4>(norms + static_cast<uint64_t>(row) * 4);
    return {norm.v[0], norm.v[1], norm.v[2]};
  }
};

/* The walk on the CPU: along rows, so that a channel's norm is computed once per row. */
template <class T, class Of>
CRK_FN void batch_norm_runs(const crk_batch_norm_t &s, uint32_t threads, const T *x, T *dst, const Of &of) {
  const elements e(s.numel, threads);
  for (uint64_t i = e.first; i < e.end;) {
    const uint64_t row = i / s.inner.size, left = (row + 1) * s.inner.size - i;
    const uint64_t count = left < e.end - i ? left : e.end - i;
    const auto norm = of.of_row(s, row);
    for (uint64_t j = 0; j < count; j++) {
      dst[i + j] = norm(x[i + j]);
    }
    i += count;
  }
}

/* A thread has up to Depth packs of a row, `lanes` packs after each other. */
template <class I, int Depth, class T, class Of>
CRK_FN void batch_norm_even_in(const crk_batch_norm_t &s, uint32_t threads, const T *x, T *dst, const Of &of) {
  constexpr int V = 16 / static_cast<int>(sizeof(T));
  const I packs = static_cast<I>(s.inner.size) / V, lanes = static_cast<I>(s.lanes.size);
  const elements e(s.steps, threads);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    I row = static_cast<I>(i);
    const I lane = take_coordinate(row, s.lanes), first = row * packs + lane;
    packed<T> values[Depth];
    CRK_UNROLL
    for (int d = 0; d < Depth; d++) {
      const I apart = lane + d * lanes < packs ? d * lanes : 0;
      values[d] = packed<T>::load(x + static_cast<uint64_t>(first + apart) * V);
    }
    const auto norm = of.of_row(s, row);
    CRK_UNROLL
    for (int d = 0; d < Depth; d++) {
      const pack<T, V> y = apply_unrolled<T, V>(norm, values[d].all());
      if (lane + d * lanes < packs) {
        store_pack(dst + static_cast<uint64_t>(first + d * lanes) * V, y);
      }
      if constexpr (half<T> && Depth > 1) {
        /* The halves of all packs as f32 would take too many registers. */
        CRK_UNROLL
        for (int j = 0; j < 4 && d + 1 < Depth; j++) {
          values[d + 1].word.v[j] = in_turn(values[d + 1].word.v[j], pack<T, 2>{{y.v[V - 2], y.v[V - 1]}});
        }
      }
    }
  }
}

/* Single elements until dst is aligned to 16 bytes, then packs, then single elements. A pack may cross the end of one
 * row; where it could cross more, all elements are single. */
template <class I, class T, class Of>
CRK_FN void batch_norm_any_in(const crk_batch_norm_t &s, uint32_t threads, const T *x, T *dst, const Of &of) {
  constexpr int V = 16 / static_cast<int>(sizeof(T));
  const I inner = static_cast<I>(s.inner.size);
  uint64_t head = 0, packs = 0;
  if (inner >= V) {
    const uint64_t to_aligned = (0 - reinterpret_cast<uintptr_t>(dst)) % 16 / sizeof(T);
    head = to_aligned < s.numel ? to_aligned : s.numel;
    packs = (s.numel - head) / V;
  }
  const elements e(packs, threads);
  for (uint64_t p = e.first; p < e.end; p += e.step) {
    const uint64_t at = head + p * V;
    const pack<T, V> values = load_pack<T, V>(x + at);
    I row = static_cast<I>(at);
    const I left = inner - take_coordinate(row, s.inner);
    const auto here = of.of_row(s, row), next = of.of_row(s, left >= V ? row : row + 1);
    const int count = left < V ? static_cast<int>(left) : V;
    pack<T, V> result;
    CRK_UNROLL
    for (int j = 0; j < V; j++) {
      result.v[j] = (j < count ? here : next)(values.v[j]);
    }
    store_pack(dst + at, result);
  }
  const elements rest(s.numel - packs * V, threads);
  for (uint64_t r = rest.first; r < rest.end; r += rest.step) {
    const uint64_t at = r < head ? r : r + packs * V;
    I row = static_cast<I>(at);
    take_coordinate(row, s.inner);
    dst[at] = of.of_row(s, row)(x[at]);
  }
}

/* `threads` are those of the grid. */
template <class T, class Of>
CRK_FN void batch_norm_even(const crk_batch_norm_t &s, uint32_t threads, const T *x, T *dst, const Of &of) {
  if constexpr (on_host) {
    batch_norm_runs(s, threads, x, dst, of);
  } else if (s.wide) {
    batch_norm_even_in<uint64_t, CRK_BATCH_NORM_DEPTH>(s, threads, x, dst, of);
  } else if (s.lanes.size * 16 < s.inner.size * sizeof(T)) {
    batch_norm_even_in<uint32_t, CRK_BATCH_NORM_DEPTH>(s, threads, x, dst, of);
  } else {
    batch_norm_even_in<uint32_t, 1>(s, threads, x, dst, of);
  }
}
template <class T, class Of>
CRK_FN void batch_norm_any(const crk_batch_norm_t &s, uint32_t threads, const T *x, T *dst, const Of &of) {
  if constexpr (on_host) {
    batch_norm_runs(s, threads, x, dst, of);
  } else if (s.wide) {
    batch_norm_any_in<uint64_t>(s, threads, x, dst, of);
  } else {
    batch_norm_any_in<uint32_t>(s, threads, x, dst, of);
  }
}

}  // namespace crk

#endif
