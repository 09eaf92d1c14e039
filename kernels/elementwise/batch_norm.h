/* Batch norm with given statistics: dst = (x - mean) / sqrt(var + eps) * weight + bias, with parameters per channel.
 * For kernels/norm.hip. Main functions: batch_norm_even for rows of whole packs of 16 bytes, aligned in x and in dst,
 * and batch_norm_any for all others. A row is the elements of one channel of one image (call/batch_norm_call.h). */
#ifndef CRK_BATCH_NORM_H
#define CRK_BATCH_NORM_H

#include "call/batch_norm_call.h"
#include "elementwise/walk.h"
#include "numbers/divisor.h"
#include "numbers/packed.h"

namespace crk {

/* The parameters of all channels. A null weight stands for ones, a null bias for zeros. */
template <class T>
struct batch_norm_parameters {
  const T *mean, *var, *weight, *bias;
  wide<T> eps;
};

/* The norm of a channel's elements. All parameters are loaded at once: a load under a condition would wait for those
 * before it. Means are loaded in place of absent parameters. */
template <class T>
struct channel_norm {
  using A = wide<T>;
  A mean, scale, bias;

  CRK_FN channel_norm(const batch_norm_parameters<T> &of, uint64_t channel) {
    const T m = of.mean[channel], v = of.var[channel], w = (of.weight != nullptr ? of.weight : of.mean)[channel],
            b = (of.bias != nullptr ? of.bias : of.mean)[channel];
    mean = convert<A>(m);
    scale = rsqrt(convert<A>(v) + of.eps) * (of.weight != nullptr ? convert<A>(w) : A(1));
    bias = of.bias != nullptr ? convert<A>(b) : A(0);
  }
  CRK_FN T operator()(T x) const { return convert<T>(fma(convert<A>(x) - mean, scale, bias)); }
};

/* The channel of a row. */
template <class I>
CRK_FN I channel_of(const crk_batch_norm_t &s, I row) {
  return take_coordinate(row, s.channels);
}

/* The walk on the CPU: along rows, so that a channel's norm is computed once per row. */
template <class T>
CRK_FN void batch_norm_runs(const crk_batch_norm_t &s, uint32_t threads, const T *x, T *dst,
                            const batch_norm_parameters<T> &of) {
  const elements e(s.numel, threads);
  for (uint64_t i = e.first; i < e.end;) {
    const uint64_t row = i / s.inner.size, left = (row + 1) * s.inner.size - i;
    const uint64_t count = left < e.end - i ? left : e.end - i;
    const channel_norm<T> norm(of, row % s.channels.size);
    for (uint64_t j = 0; j < count; j++) {
      dst[i + j] = norm(x[i + j]);
    }
    i += count;
  }
}

/* A thread has up to Depth packs of a row, `lanes` packs after each other. */
template <class I, int Depth, class T>
CRK_FN void batch_norm_even_in(const crk_batch_norm_t &s, uint32_t threads, const T *x, T *dst,
                               const batch_norm_parameters<T> &of) {
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
    const channel_norm<T> norm(of, channel_of(s, row));
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
template <class I, class T>
CRK_FN void batch_norm_any_in(const crk_batch_norm_t &s, uint32_t threads, const T *x, T *dst,
                              const batch_norm_parameters<T> &of) {
  constexpr int V = 16 / static_cast<int>(sizeof(T));
  const I inner = static_cast<I>(s.inner.size), channels = static_cast<I>(s.channels.size);
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
    const I left = inner - take_coordinate(row, s.inner), channel = channel_of(s, row);
    const I after = left >= V ? channel : channel + 1 < channels ? channel + 1 : 0;
    const channel_norm<T> here(of, channel), next(of, after);
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
    dst[at] = channel_norm<T>(of, channel_of(s, row))(x[at]);
  }
}

/* `threads` are those of the grid. */
template <class T>
CRK_FN void batch_norm_even(const crk_batch_norm_t &s, uint32_t threads, const T *x, T *dst,
                            const batch_norm_parameters<T> &of) {
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
template <class T>
CRK_FN void batch_norm_any(const crk_batch_norm_t &s, uint32_t threads, const T *x, T *dst,
                           const batch_norm_parameters<T> &of) {
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
