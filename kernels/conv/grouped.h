/* Grouped convolutions, computed output by output in the order of convolution.h. For kernels/conv.hip. Main functions:
 * convolve_depthwise, for one input channel per group, and convolve_groups for any.
 *
 * A depthwise convolution has few products, so reading is what counts. A thread reads a column of pixels once for
 * several outputs. The weights are the same in a block: AMD GPUs read them to scalar registers. */
#ifndef CRK_GROUPED_H
#define CRK_GROUPED_H

#include "conv/convolution.h"

namespace crk {

/* Adds a column of the window to the sums of neighbouring rows. The window of the first row begins at row `first_y` of
 * the image, `at` bytes behind the first pixel of the image. Both numbers wrap above the image. Unless Inside, rows may
 * be outside of the image. */
template <int K, int S, bool Inside, class T>
CRK_FN void add_column(const crk_depthwise_t &call, const unsigned char *image, uint32_t at, const T *weights,
                       uint32_t first_y, dot<T> (&sums)[CRK_DEPTHWISE_ROWS]) {
  constexpr int R = CRK_DEPTHWISE_ROWS, rows = (R - 1) * S + K;
  const auto exists = [&](int i) { return Inside || first_y + static_cast<uint32_t>(i) < call.h_in; };
  dot<T> pixels[rows];
  CRK_UNROLL
  for (int i = 0; i < rows; i++) {
    pixels[i] = exists(i) ? convert<dot<T>>(*reinterpret_cast<const T *>(image + at)) : dot<T>(0);
    at += call.row_bytes;
  }
  CRK_UNROLL
  for (int k = 0; k < K; k++) {
    const dot<T> weight = convert<dot<T>>(weights[k * call.tap_row_stride]);
    CRK_UNROLL
    for (int r = 0; r < R; r++) {
      const dot<T> sum = multiply_add(pixels[r * S + k], weight, sums[r]);
      sums[r] = exists(r * S + k) ? sum : sums[r];
    }
  }
}

/* Adds all columns of the window. The first is column `first_x` of the image. */
template <int K, int S, bool Inside, class T>
CRK_FN void add_columns(const crk_depthwise_t &call, const unsigned char *image, const T *weights, uint32_t first_y,
                        uint32_t first_x, dot<T> (&sums)[CRK_DEPTHWISE_ROWS]) {
  const uint32_t first = first_y * call.row_bytes + first_x * call.pixel_bytes;
  const auto add = [&](uint32_t k) {
    if (first_x + k < call.w_in) {
      add_column<K, S, Inside>(call, image, first + k * call.pixel_bytes, weights + k * call.tap_stride, first_y, sums);
    }
  };
  if constexpr (K <= 5) {
    CRK_UNROLL
    for (uint32_t k = 0; k < K; k++) {
      add(k);
    }
  } else {
    CRK_ONE_BY_ONE
    for (uint32_t k = 0; k < K; k++) {
      add(k);
    }
  }
}

/* One thread: a run of an output column (crk_depthwise_t). */
template <int K, int S, class T>
CRK_FN void convolve_depthwise(const crk_depthwise_t &call, const T *src, const T *kernel, T *dst) {
  constexpr uint32_t R = CRK_DEPTHWISE_ROWS, rows = (R - 1) * S + K;
  uint32_t image = static_cast<uint32_t>(call.first_block) + block_index().x;
  const uint32_t thread = take_coordinate(image, call.pieces) * CRK_DEPTHWISE_THREADS + thread_index().x;
  if (thread >= call.threads) {
    return;
  }
  const uint64_t in_dst = image;
  const uint32_t channel = take_coordinate(image, call.channels);
  src += image * call.image_stride + divide(call.c_out, channel) * call.group_stride;
  kernel += channel * call.channel_stride;
  uint32_t y = thread;
  const uint32_t x = take_coordinate(y, call.w_out), w_out = static_cast<uint32_t>(call.w_out.size);
  y *= R;
  const uint32_t first_y = y * S - call.h_padding, first_x = x * S - call.w_padding; /* wrap outside of the image */
  const unsigned char *const bytes = reinterpret_cast<const unsigned char *>(src);
  dot<T> sums[R] = {};
  if (first_y < call.h_in && first_y + rows <= call.h_in) {
    add_columns<K, S, true>(call, bytes, kernel, first_y, first_x, sums);
  } else {
    add_columns<K, S, false>(call, bytes, kernel, first_y, first_x, sums);
  }
  dst += in_dst * (static_cast<uint64_t>(call.h_out) * w_out);
  CRK_UNROLL
  for (uint32_t r = 0; r < R; r++) {
    if (y + r < call.h_out) {
      dst[(y + r) * w_out + x] = convert<T>(sums[r]);
    }
  }
}

/* One thread: an output of any convolution. I is the type of the index arithmetic. */
template <bool Transposed, class I, class T>
CRK_FN void convolve_output(const crk_conv_groups_t &call, I rest, const T *src, const T *kernel, T *dst) {
  const crk_conv_t &s = call.shape;
  const uint64_t x = take_coordinate(rest, call.w_out), y = take_coordinate(rest, call.h_out);
  const uint64_t c = take_coordinate(rest, call.c_out), group = take_coordinate(rest, call.groups);
  const T *const image = src + rest * s.src_strides[0] + group * call.src_group;
  const T *const channels[1] = {kernel + group * call.kernel_group + c * s.kernel_strides[0]};
  dot<T> sums[1] = {0};
  if constexpr (Transposed) {
    convolve_transposed(s, prepared_division{call.by_stride}, image, channels, y, x, sums);
  } else {
    convolve(s, image, channels, y, x, sums);
  }
  *dst = convert<T>(sums[0]);
}

template <bool Transposed, class T>
CRK_FN void convolve_groups(const crk_conv_groups_t &call, const T *src, const T *kernel, T *dst) {
  const uint64_t i = (call.first_block + block_index().x) * CRK_LAUNCHED_THREADS + thread_index().x;
  if (i >= call.numel) {
    return;
  }
  if (call.wide) {
    convolve_output<Transposed>(call, i, src, kernel, dst + i);
  } else {
    convolve_output<Transposed>(call, static_cast<uint32_t>(i), src, kernel, dst + i);
  }
}

}  // namespace crk

#endif
