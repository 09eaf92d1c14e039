/* Grouped convolutions, computed output by output in the order of convolution.h. For kernels/conv.hip. Main functions:
 * convolve_depthwise, for one input channel per group, and convolve_groups for any.
 *
 * A depthwise convolution has few products, so reading is what counts. A thread reads a column of pixels once for
 * several outputs. The weights are the same in a block: AMD GPUs read them to scalar registers. */
#ifndef CRK_GROUPED_H
#define CRK_GROUPED_H

#include "conv/convolution.h"

namespace crk {

/* Adds column k_x of the window to the sums of neighbouring rows, of which the first begins at row `first_y` of the
 * image. `column` points to the pixels. If not Inside, rows may be outside of the image. */
template <int K, int S, bool Inside, class T>
CRK_FN void add_column(const crk_depthwise_t &call, const T *column, const T *weights, int32_t first_y,
                       dot<T> (&sums)[CRK_DEPTHWISE_ROWS]) {
  constexpr int R = CRK_DEPTHWISE_ROWS, rows = (R - 1) * S + K;
  const uint64_t stride = call.src_strides[2];
  const auto exists = [&](int i) { return Inside || static_cast<uint32_t>(first_y + i) < call.h_in; };
  dot<T> pixels[rows];
  const T *pixel = column + static_cast<uint64_t>(Inside ? first_y : 0) * stride;
  CRK_UNROLL
  for (int i = 0; i < rows; i++) {
    if constexpr (Inside) {
      pixels[i] = convert<dot<T>>(*pixel);
      pixel += stride;
    } else {
      pixels[i] = exists(i) ? convert<dot<T>>(column[static_cast<uint64_t>(first_y + i) * stride]) : dot<T>(0);
    }
  }
  CRK_UNROLL
  for (int k = 0; k < K; k++) {
    const dot<T> weight = convert<dot<T>>(weights[k * call.kernel_strides[2]]);
    CRK_UNROLL
    for (int r = 0; r < R; r++) {
      const dot<T> sum = multiply_add(pixels[r * S + k], weight, sums[r]);
      sums[r] = exists(r * S + k) ? sum : sums[r];
    }
  }
}

/* Adds all columns of the window. The first is column `first_x` of the image. */
template <int K, int S, bool Inside, class T>
CRK_FN void add_columns(const crk_depthwise_t &call, const T *image, const T *weights, int32_t first_y, int32_t first_x,
                        dot<T> (&sums)[CRK_DEPTHWISE_ROWS]) {
  const auto add = [&](int k) {
    const uint32_t x = static_cast<uint32_t>(first_x + k);
    if (x < call.w_in) {
      add_column<K, S, Inside>(call, image + x * call.src_strides[3], weights + k * call.kernel_strides[3], first_y,
                               sums);
    }
  };
  if constexpr (K <= 5) {
    CRK_UNROLL
    for (int k = 0; k < K; k++) {
      add(k);
    }
  } else {
    CRK_ONE_BY_ONE
    for (int k = 0; k < K; k++) {
      add(k);
    }
  }
}

/* One thread: a run of an output column (crk_depthwise_t). */
template <int K, int S, class T>
CRK_FN void convolve_depthwise(const crk_depthwise_t &call, const T *src, const T *kernel, T *dst) {
  constexpr int R = CRK_DEPTHWISE_ROWS, rows = (R - 1) * S + K;
  uint64_t block = call.first_block + block_index().x;
  const uint32_t piece = static_cast<uint32_t>(take_coordinate(block, call.pieces));
  const uint32_t thread = piece * CRK_DEPTHWISE_THREADS + thread_index().x;
  if (thread >= call.threads) {
    return;
  }
  const uint64_t in_dst = block, channel = take_coordinate(block, call.channels);
  src += block * call.src_strides[0] + divide(call.c_out, channel) * call.src_strides[1];
  kernel += channel * call.kernel_strides[0];
  uint32_t y = thread;
  const uint32_t x = take_coordinate(y, call.w_out);
  y *= R;
  const int32_t first_y = static_cast<int32_t>(y * S - call.h_padding);
  const int32_t first_x = static_cast<int32_t>(x * S - call.w_padding);
  dot<T> sums[R] = {};
  if (first_y >= 0 && static_cast<uint32_t>(first_y) + rows <= call.h_in) {
    add_columns<K, S, true>(call, src, kernel, first_y, first_x, sums);
  } else {
    add_columns<K, S, false>(call, src, kernel, first_y, first_x, sums);
  }
  const uint64_t w_out = call.w_out.size;
  dst += (in_dst * call.h_out + y) * w_out + x;
  CRK_UNROLL
  for (uint32_t r = 0; r < R; r++) {
    if (y + r < call.h_out) {
      dst[r * w_out] = convert<T>(sums[r]);
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
