/* Grouped convolutions, computed output by output in the order of convolution.h. For kernels/conv.hip. Main functions:
 * convolve_groups, convolve_groups_rows.
 *
 * Depthwise convolutions, with one input channel per group, are why this file exists: they have so few products that
 * reading is all that counts. With stride 1, a thread keeps the pixels of neighbouring rows in registers, and reads a
 * weight once for all its outputs. */
#ifndef CRK_GROUPED_H
#define CRK_GROUPED_H

#include "conv/convolution.h"

namespace crk {

/* Adds a column of the window to the sums of R rows from row `first` of the image on (it may wrap below 0). For one
 * input channel, stride 1 and dilation 1. `column` points to the pixels, `weights` to the column's first weight. If not
 * Inside, rows may be outside of the image. */
template <int R, bool Inside, class T>
CRK_FN void add_column(const crk_conv_t &s, const T *column, const T *weights, uint64_t first, dot<T> (&sums)[R]) {
  dot<T> pixels[R] = {};
  const auto read = [&](uint64_t row) {
    return Inside || row < s.h_in ? convert<dot<T>>(column[row * s.src_strides[2]]) : dot<T>(0);
  };
  CRK_UNROLL
  for (int r = 0; r < R - 1; r++) {
    pixels[r] = read(first + r);
  }
  CRK_ONE_BY_ONE
  for (uint64_t k = 0; k < s.h_k; k++) {
    pixels[R - 1] = read(first + k + (R - 1));
    const dot<T> weight = convert<dot<T>>(weights[k * s.kernel_strides[2]]);
    CRK_UNROLL
    for (int r = 0; r < R; r++) {
      const dot<T> sum = multiply_add(pixels[r], weight, sums[r]);
      sums[r] = Inside || first + k + r < s.h_in ? sum : sums[r];
      pixels[r] = r + 1 < R ? pixels[r + 1 < R ? r + 1 : r] : pixels[r];
    }
  }
}

/* The sums of R rows from y on, at column x. For one input channel, stride 1 and dilation 1. */
template <int R, class T>
CRK_FN void convolve_rows(const crk_conv_t &s, const T *src, const T *weights, uint64_t y, uint64_t x,
                          dot<T> (&sums)[R]) {
  const uint64_t first = y - s.h_padding; /* wraps if it is above the image */
  const bool inside = first < s.h_in && first + s.h_k + R - 2 < s.h_in;
  for (uint64_t k = 0; k < s.w_k; k++) {
    const uint64_t at = x + k - s.w_padding;
    if (at < s.w_in) {
      const T *const column = src + at * s.src_strides[3], *const its_weights = weights + k * s.kernel_strides[3];
      if (inside) {
        add_column<R, true>(s, column, its_weights, first, sums);
      } else {
        add_column<R, false>(s, column, its_weights, first, sums);
      }
    }
  }
}

/* A run of the output: where it begins, and what it is made of. */
template <class T>
struct run {
  const T *src, *kernel; /* of its group */
  T *dst;
  uint64_t y, x;

  /* I is the type of the index arithmetic. */
  template <class I>
  CRK_FN run(const crk_conv_groups_t &call, I rest, const T *images, const T *weights, T *results, int rows) {
    const crk_conv_t &s = call.shape;
    x = take_coordinate(rest, call.w_out);
    y = static_cast<uint64_t>(take_coordinate(rest, call.runs)) * rows;
    dst = results + (static_cast<uint64_t>(rest) * s.h_out + y) * s.w_out + x;
    const uint64_t c = take_coordinate(rest, call.c_out), group = take_coordinate(rest, call.groups);
    src = images + rest * s.src_strides[0] + group * call.src_group;
    kernel = weights + group * call.kernel_group + c * s.kernel_strides[0];
  }
};

/* A thread of the launch: compute(run) for its run of `rows` rows, if there is one. */
template <class T, class F>
CRK_FN void compute_run(const crk_conv_groups_t &call, const T *src, const T *kernel, T *dst, int rows,
                        const F &compute) {
  const uint64_t i = (call.first_block + block_index().x) * CRK_LAUNCHED_THREADS + thread_index().x;
  if (i < call.count) {
    compute(call.wide ? run<T>(call, i, src, kernel, dst, rows)
                      : run<T>(call, static_cast<uint32_t>(i), src, kernel, dst, rows));
  }
}

/* Runs of one row, for any convolution. */
template <bool Transposed, class T>
CRK_FN void convolve_groups(const crk_conv_groups_t &call, const T *src, const T *kernel, T *dst) {
  compute_run(call, src, kernel, dst, 1, [&](const run<T> &at) {
    const T *const channels[1] = {at.kernel};
    dot<T> sums[1] = {0};
    if constexpr (Transposed) {
      convolve_transposed(call.shape, prepared_division{call.by_stride}, at.src, channels, at.y, at.x, sums);
    } else {
      convolve(call.shape, at.src, channels, at.y, at.x, sums);
    }
    *at.dst = convert<T>(sums[0]);
  });
}

/* Runs of CRK_CONV_ROWS rows, for one input channel per group, stride 1 and dilation 1. */
template <class T>
CRK_FN void convolve_groups_rows(const crk_conv_groups_t &call, const T *src, const T *kernel, T *dst) {
  constexpr int R = CRK_CONV_ROWS;
  compute_run(call, src, kernel, dst, R, [&](const run<T> &at) {
    dot<T> sums[R] = {};
    convolve_rows(call.shape, at.src, at.kernel, at.y, at.x, sums);
    CRK_UNROLL
    for (int r = 0; r < R; r++) {
      if (at.y + r < call.shape.h_out) {
        at.dst[r * call.shape.w_out] = convert<T>(sums[r]);
      }
    }
  });
}

}  // namespace crk

#endif
