/* The windows of an image as the rows of a matrix, and for 1-D the way back. */
#ifndef CRK_IM2COL_H
#define CRK_IM2COL_H

#include "convolution.h"

namespace crk {

/* ---- By Candle's arguments ---- */

/* dst: (b, h_out, w_out, c, h_k, w_k), 0 where a window leaves the image. T moves bits. */
template <class T>
CRK_FN void im2col_named(uint64_t numel, uint64_t h_out, uint64_t w_out, uint64_t h_k, uint64_t w_k, uint64_t stride,
                         uint64_t padding, uint64_t dilation, const uint64_t *info, const T *src, T *dst) {
  const uint64_t c_in = info[1], h_in = info[2], w_in = info[3], *strides = info + 4;
  const elements e(numel);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t rest = i;
    const uint64_t k_x = take_coordinate(rest, w_k), k_y = take_coordinate(rest, h_k);
    const uint64_t c = take_coordinate(rest, c_in);
    const uint64_t x = take_coordinate(rest, w_out) * stride + k_x * dilation - padding;
    const uint64_t y = take_coordinate(rest, h_out) * stride + k_y * dilation - padding;
    dst[i] = x < w_in && y < h_in ? src[rest * strides[0] + c * strides[1] + y * strides[2] + x * strides[3]] : T(0);
  }
}

/* dst: (b, l_out, c, l_k); a thread has a window of a channel. */
template <class T>
CRK_FN void im2col1d_named(uint64_t windows, uint64_t l_out, uint64_t l_k, uint64_t stride, uint64_t padding,
                           uint64_t dilation, const uint64_t *info, const T *src, T *dst) {
  const uint64_t c_in = info[1], l_in = info[2], *strides = info + 3;
  const elements e(windows);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t rest = i;
    const uint64_t c = take_coordinate(rest, c_in), first = take_coordinate(rest, l_out) * stride - padding;
    const T *const row = src + rest * strides[0] + c * strides[1];
    for (uint64_t k = 0; k < l_k; k++) {
      const uint64_t x = first + k * dilation;
      dst[i * l_k + k] = x < l_in ? row[x * strides[2]] : T(0);
    }
  }
}

template <class T>
CRK_FN T add(T a, T b) {
  if constexpr (half<T>) {
    return a + b;
  } else if constexpr (narrow<T>) {
    return T(static_cast<float>(a) + static_cast<float>(b));
  } else if constexpr (floating<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<wrapping<T>>(a) + static_cast<wrapping<T>>(b));
  }
}

/* dst[b, c, l] is the sum of src[b, i, c, k] over i * stride + k = l, from the greatest i to the least, rounded to T at every
 * step. */
template <class T>
CRK_FN void col2im1d_named(uint64_t numel, uint64_t l_out, uint64_t l_in, uint64_t c_out, uint64_t l_k, uint64_t stride,
                           const T *src, T *dst) {
  if (stride == 0) {
    return;
  }
  const elements e(numel);
  for (uint64_t n = e.first; n < e.end; n += e.step) {
    uint64_t rest = n;
    const uint64_t l = take_coordinate(rest, l_out), c = take_coordinate(rest, c_out);
    T sum = convert<T>(0.0f);
    for (uint64_t i = divide(l, stride), k = l - i * stride; k < l_k; k += stride, i--) {
      if (i < l_in) {
        sum = add(sum, src[((rest * l_in + i) * c_out + c) * l_k + k]);
      }
      if (i == 0) {
        break;
      }
    }
    dst[n] = sum;
  }
}

}  // namespace crk

#endif
