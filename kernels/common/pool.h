/* Pools and upsampling. Images are (b, c, h, w); Candle's kernels call the dims after c w and h, the arguments follow the dims. */
#ifndef CRK_POOL_H
#define CRK_POOL_H

#include "convolution.h"

namespace crk {

/* The average of a window, from a sum that begins with 0. u8 and u32 have CUDA's: the sum wraps, its product with the f32
 * factor is cut off. i16, i32 and i64 have candle-core's CPU backend's, whose factor is an integer: 0 but for windows of one
 * element. `F` is what 1 / window is rounded to for f64. */
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

/* The greatest of a window, from its first element on; NaN as `maximum`. f8e4m3 has candle-core's CPU backend's: a NaN is
 * kept where it is the first, else passed over. */
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

/* ---- By Candle's arguments ---- */

template <class Pool, class T>
CRK_FN void pool_named(uint64_t h_k, uint64_t w_k, uint64_t h_stride, uint64_t w_stride, const uint64_t *info,
                       const T *src, T *dst) {
  const uint64_t channels = info[1], h_in = info[2], w_in = info[3], *strides = info + 4;
  if (h_stride == 0 || w_stride == 0 || h_k > h_in || w_k > w_in) {
    return;
  }
  const uint64_t h_out = divide(h_in - h_k, h_stride) + 1, w_out = divide(w_in - w_k, w_stride) + 1;
  const elements e(info[0] * channels * h_out * w_out);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t rest = i;
    const uint64_t x = take_coordinate(rest, w_out), y = take_coordinate(rest, h_out);
    const uint64_t c = take_coordinate(rest, channels);
    const T *const first =
        src + rest * strides[0] + c * strides[1] + y * h_stride * strides[2] + x * w_stride * strides[3];
    Pool pool;
    for (uint64_t k_y = 0; k_y < h_k; k_y++) {
      for (uint64_t k_x = 0; k_x < w_k; k_x++) {
        pool.add(first[k_y * strides[2] + k_x * strides[3]]);
      }
    }
    dst[i] = pool.result(h_k * w_k);
  }
}

/* The element at a position of a dim of `size`, which is not 0: cut off, kept within the dim. */
CRK_FN uint64_t index_at(double position, uint64_t size) {
  return position >= static_cast<double>(size) ? size - 1 : position > 0.0 ? static_cast<uint64_t>(position) : 0;
}

template <class T>
CRK_FN void nearest_named(uint64_t h_out, uint64_t w_out, double h_scale, double w_scale, const uint64_t *info,
                          const T *src, T *dst) {
  const uint64_t channels = info[1], h_in = info[2], w_in = info[3], *strides = info + 4;
  const elements e(h_in == 0 || w_in == 0 ? 0 : info[0] * channels * h_out * w_out);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t rest = i;
    const uint64_t x = index_at(static_cast<double>(take_coordinate(rest, w_out)) * w_scale, w_in);
    const uint64_t y = index_at(static_cast<double>(take_coordinate(rest, h_out)) * h_scale, h_in);
    const uint64_t c = take_coordinate(rest, channels);
    dst[i] = src[rest * strides[0] + c * strides[1] + y * strides[2] + x * strides[3]];
  }
}

/* Where an output coordinate lies between two of the source's: `low + weight`. */
struct between {
  uint64_t low, high;
  double weight;
};

/* `step`: source elements an output element. */
CRK_FN between interpolate_at(uint64_t coordinate, double step, bool align_corners, uint64_t size) {
  const double at = static_cast<double>(coordinate);
  const double position = max_number(0.0, align_corners ? step * at : fma(step, at + 0.5, -0.5));
  const uint64_t low = index_at(position, size);
  const double weight = min_number(max_number(position - static_cast<double>(low), 0.0), 1.0);
  return {low, low + 1 < size ? low + 1 : size - 1, weight};
}

/* In f64, each pair of terms fused into one. */
CRK_FN double interpolate(double low, double high, double weight) { return fma(low, 1.0 - weight, high * weight); }

template <class T>
CRK_FN T bilinear(const T *low_row, const T *high_row, const between &x, uint64_t stride, double y_weight) {
  const uint64_t low = x.low * stride, high = x.high * stride;
  const double top = interpolate(convert<double>(low_row[low]), convert<double>(low_row[high]), x.weight);
  const double bottom = interpolate(convert<double>(high_row[low]), convert<double>(high_row[high]), x.weight);
  return convert<T>(interpolate(top, bottom, y_weight));
}

/* Source elements an output element, as PyTorch has it. */
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
  const elements e(h_in == 0 || w_in == 0 ? 0 : info[0] * channels * h_out * w_out);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t rest = i;
    const between x = interpolate_at(take_coordinate(rest, w_out), w_step, align_corners, w_in);
    const between y = interpolate_at(take_coordinate(rest, h_out), h_step, align_corners, h_in);
    const uint64_t c = take_coordinate(rest, channels);
    const T *const image = src + rest * strides[0] + c * strides[1];
    dst[i] = bilinear(image + y.low * strides[2], image + y.high * strides[2], x, strides[3], y.weight);
  }
}

}  // namespace crk

#endif
