/* Average and max pools, nearest and bilinear upsampling of (b, c, h, w) images. For kernels/conv.hip. Main functions:
 * pool_launched, nearest_launched and bilinear_launched (crk_images_t), and pool_named, nearest_named and
 * bilinear_named with Candle's arguments. Candle's kernels call the two dims after c w and h, in this order; the names
 * here follow (b, c, h, w). */
#ifndef CRK_POOL_H
#define CRK_POOL_H

#include "conv/convolution.h"

namespace crk {
namespace { /* keeps lambdas from adding symbols to the archive */

/* The average of a window: the sum, which begins with 0, times 1 / window, where `window` is the number of elements. u8
 * and u32 give the results of Candle's CUDA kernel: the sum wraps, and its product with the f32 factor is rounded
 * toward zero. i16, i32 and i64 give the results of candle-core's CPU backend. The factor is an integer there, and 0
 * unless the window has one element. For f64, 1 / window is rounded to F. */
template <class T, class F>
struct average {
  using A = dot<T>;
  A sum = 0;

  CRK_FN void add(T x) { sum = sum + convert<A>(x); }
  CRK_FN T result(uint64_t window) const {
    const float factor = static_cast<float>(1.0 / static_cast<double>(window));
    if constexpr (same<T, double>) {
      return sum * static_cast<double>(static_cast<F>(1.0 / static_cast<double>(window)));
    } else if constexpr (floating<T>) {
      return convert<T>(sum * factor);
    } else if constexpr (same<T, uint8_t> || same<T, uint32_t>) {
      return convert<T>(static_cast<float>(static_cast<T>(sum)) * factor);
    } else {
      return window == 1 ? static_cast<T>(sum) : T(0);
    }
  }
};

/* The largest element of a window. NaN is treated as in `maximum`. f8e4m3 gives the result of candle-core's CPU
 * backend: a NaN is kept if it is the first element, else ignored. */
template <class T>
struct greatest {
  T largest = convert<T>(0.0f);
  bool is_first = true;

  CRK_FN void add(T x) {
    if constexpr (same<T, f8e4m3>) {
      largest = is_first || largest < x ? x : largest;
    } else {
      largest = is_first ? x : maximum(largest, x);
    }
    is_first = false;
  }
  CRK_FN T result(uint64_t) const { return largest; }
};

/* The result of Pool over the window at `first`; the strides are those of src. */
template <class Pool, class T>
CRK_FN T pool_window(const T *first, uint64_t h_k, uint64_t w_k, uint64_t h_stride, uint64_t w_stride) {
  Pool pool;
  for (uint64_t k_y = 0; k_y < h_k; k_y++) {
    CRK_ONE_BY_ONE
    for (uint64_t k_x = 0; k_x < w_k; k_x++) {
      pool.add(first[k_y * h_stride + k_x * w_stride]);
    }
  }
  return pool.result(h_k * w_k);
}

/* ---- Pools, with Candle's arguments ---- */

template <class Pool, class T>
CRK_FN void pool_named(uint64_t h_k, uint64_t w_k, uint64_t h_stride, uint64_t w_stride, const uint64_t *info,
                       const T *src, T *dst) {
  const uint64_t channels = info[1], h_in = info[2], w_in = info[3], *strides = info + 4;
  if (h_stride == 0 || w_stride == 0 || h_k > h_in || w_k > w_in) {
    return;
  }
  const uint64_t h_out = quotient(h_in - h_k, h_stride) + 1, w_out = quotient(w_in - w_k, w_stride) + 1;
  const named_elements e(info[0] * channels * h_out * w_out);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t rest = i;
    const uint64_t x = take_coordinate(rest, w_out), y = take_coordinate(rest, h_out);
    const uint64_t c = take_coordinate(rest, channels);
    const T *const first =
        src + rest * strides[0] + c * strides[1] + y * h_stride * strides[2] + x * w_stride * strides[3];
    dst[i] = pool_window<Pool>(first, h_k, w_k, strides[2], strides[3]);
  }
}

/* ---- Pools, for launchers ---- */

/* A step. (x, y) is its first output in the channel's image, `dst` the offset of that output, `src` the offset of the
 * channel. */
template <class I>
struct image_step {
  I x, y;
  uint64_t dst, src;
};

template <class I, class F>
CRK_FN void each_step_in(const crk_images_t &s, uint32_t threads, F f) {
  const elements e(s.steps, threads);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    I rest = static_cast<I>(i);
    const I x = take_coordinate(rest, s.row_steps) * static_cast<I>(s.vector), row = rest;
    const I y = take_coordinate(rest, s.h_out), c = take_coordinate(rest, s.channels);
    f(image_step<I>{x, y, row * static_cast<I>(s.w_out) + x,
                    rest * static_cast<I>(s.src_strides[0]) + c * static_cast<I>(s.src_strides[1])});
  }
}

/* Calls f(step) for every step of this thread. */
template <class F>
CRK_FN void each_step(const crk_images_t &s, uint32_t threads, F f) {
  if (s.wide) {
    each_step_in<uint64_t>(s, threads, f);
  } else {
    each_step_in<uint32_t>(s, threads, f);
  }
}

/* A pool of neighbouring 2 x 2 windows, 8 bytes of dst, from 16 bytes of each of two rows of src. */
template <class Pool, class T>
CRK_FN void pool_pairs(const T *row, uint64_t h_stride, T *dst) {
  constexpr int N = 8 / sizeof(T);
  const pack<T, 2 * N> upper = load_pack<T, 2 * N>(row), lower = load_pack<T, 2 * N>(row + h_stride);
  pack<T, N> result;
  CRK_UNROLL
  for (int j = 0; j < N; j++) {
    Pool pool;
    pool.add(upper.v[2 * j]);
    pool.add(upper.v[2 * j + 1]);
    pool.add(lower.v[2 * j]);
    pool.add(lower.v[2 * j + 1]);
    result.v[j] = pool.result(4);
  }
  store_pack(dst, result);
}

template <class Pool, class T>
CRK_FN void pool_launched(const crk_images_t &s, uint32_t threads, const T *src, T *dst) {
  each_step(s, threads, [&](auto at) {
    const T *const first = src + at.src + at.y * s.h_stride * s.src_strides[2] + at.x * s.w_stride * s.src_strides[3];
    if (s.pairs) {
      pool_pairs<Pool>(first, s.src_strides[2], dst + at.dst);
    } else {
      dst[at.dst] = pool_window<Pool>(first, s.h_k, s.w_k, s.src_strides[2], s.src_strides[3]);
    }
  });
}

/* ---- Upsampling ---- */

/* The element at a position of a dim of `size`, at least 1: the position rounded down and clamped to the dim. */
template <class I>
CRK_FN I index_at(double position, I size) {
  return position >= static_cast<double>(size) ? size - 1 : position > 0.0 ? static_cast<I>(position) : 0;
}

/* The position of an output coordinate in src: low + weight, between the elements `low` and `high`. */
template <class I>
struct between {
  I low, high;
  double weight;
};

/* The place in src of an output coordinate. `step`: elements of src per element of dst. */
template <class I>
CRK_FN between<I> interpolate_at(I coordinate, double step, bool align_corners, I size) {
  const double at = static_cast<double>(coordinate);
  const double position = max_number(0.0, align_corners ? step * at : fma(step, at + 0.5, -0.5));
  const I low = index_at(position, size);
  const double weight = min_number(max_number(position - static_cast<double>(low), 0.0), 1.0);
  return {low, low + 1 < size ? low + 1 : size - 1, weight};
}

/* low * (1 - weight) + high * weight, in f64, with one fma. */
CRK_FN double interpolate(double low, double high, double weight) { return fma(low, 1.0 - weight, high * weight); }

/* The value between two rows of src at `x`: `y_weight` is the share of high_row. */
template <class T, class I>
CRK_FN T bilinear(const T *low_row, const T *high_row, const between<I> &x, uint64_t stride, double y_weight) {
  const uint64_t low = x.low * stride, high = x.high * stride;
  const double top = interpolate(convert<double>(low_row[low]), convert<double>(low_row[high]), x.weight);
  const double bottom = interpolate(convert<double>(high_row[low]), convert<double>(high_row[high]), x.weight);
  return convert<T>(interpolate(top, bottom, y_weight));
}

/* ---- Upsampling, for launchers ---- */

/* Nearest upsampling. T only carries bits. */
template <class T>
CRK_FN void nearest_launched(const crk_images_t &s, uint32_t threads, const T *src, T *dst) {
  each_step(s, threads, [&](auto at) {
    using I = decltype(at.x);
    const I h_in = static_cast<I>(s.h_in), w_in = static_cast<I>(s.w_in);
    const T *const row = src + at.src + index_at(static_cast<double>(at.y) * s.h_step, h_in) * s.src_strides[2];
    const auto value = [&](I x) { return row[index_at(static_cast<double>(x) * s.w_step, w_in) * s.src_strides[3]]; };
    if (s.vector == 1) {
      dst[at.dst] = value(at.x);
    } else if (s.pairs) {
      const auto from = load_pack<T, 8 / sizeof(T)>(row + at.x / 2);
      store_gathered(dst + at.dst, [&](int j) { return from.v[j / 2]; });
    } else {
      store_gathered(dst + at.dst, [&](int j) { return value(at.x + static_cast<I>(j)); });
    }
  });
}

template <class T>
CRK_FN void bilinear_launched(const crk_images_t &s, uint32_t threads, const T *src, T *dst) {
  each_step(s, threads, [&](auto at) {
    using I = decltype(at.x);
    const bool align_corners = s.align_corners != 0;
    const between<I> x = interpolate_at(at.x, s.w_step, align_corners, static_cast<I>(s.w_in));
    const between<I> y = interpolate_at(at.y, s.h_step, align_corners, static_cast<I>(s.h_in));
    const T *const image = src + at.src;
    dst[at.dst] =
        bilinear(image + y.low * s.src_strides[2], image + y.high * s.src_strides[2], x, s.src_strides[3], y.weight);
  });
}

/* ---- Upsampling, with Candle's arguments ---- */

template <class T>
CRK_FN void nearest_named(uint64_t h_out, uint64_t w_out, double h_scale, double w_scale, const uint64_t *info,
                          const T *src, T *dst) {
  const uint64_t channels = info[1], h_in = info[2], w_in = info[3], *strides = info + 4;
  const named_elements e(h_in == 0 || w_in == 0 ? 0 : info[0] * channels * h_out * w_out);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t rest = i;
    const uint64_t x = index_at(static_cast<double>(take_coordinate(rest, w_out)) * w_scale, w_in);
    const uint64_t y = index_at(static_cast<double>(take_coordinate(rest, h_out)) * h_scale, h_in);
    const uint64_t c = take_coordinate(rest, channels);
    dst[i] = src[rest * strides[0] + c * strides[1] + y * strides[2] + x * strides[3]];
  }
}

/* Elements of src per element of dst, as in PyTorch. */
CRK_FN double interpolation_step(uint64_t in, uint64_t out, bool align_corners, bool has_factor, double factor) {
  if (align_corners) {
    return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
  }
  return has_factor ? 1.0 / factor : static_cast<double>(in) / static_cast<double>(out);
}

template <class T>
CRK_FN void bilinear_named(uint64_t w_out, uint64_t h_out, bool align_corners, bool has_h_factor, double h_factor,
                           bool has_w_factor, double w_factor, const uint64_t *info, const T *src, T *dst) {
  const uint64_t channels = info[1], h_in = info[2], w_in = info[3], *strides = info + 4;
  const double h_step = interpolation_step(h_in, h_out, align_corners, has_h_factor, h_factor);
  const double w_step = interpolation_step(w_in, w_out, align_corners, has_w_factor, w_factor);
  const named_elements e(h_in == 0 || w_in == 0 ? 0 : info[0] * channels * h_out * w_out);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t rest = i;
    const between<uint64_t> x = interpolate_at(take_coordinate(rest, w_out), w_step, align_corners, w_in);
    const between<uint64_t> y = interpolate_at(take_coordinate(rest, h_out), h_step, align_corners, h_in);
    const uint64_t c = take_coordinate(rest, channels);
    const T *const image = src + rest * strides[0] + c * strides[1];
    dst[i] = bilinear(image + y.low * strides[2], image + y.high * strides[2], x, strides[3], y.weight);
  }
}

}  // namespace
}  // namespace crk

#endif
