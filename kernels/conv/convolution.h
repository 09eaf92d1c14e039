/* Convolutions and transposed convolutions, computed output by output, and helpers that conv/im2col.h and conv/pool.h
 * use too. For kernels/conv.hip. Main functions: convolve_launched, and convolve_named with read_conv for Candle's
 * arguments. Grouped convolutions are in conv/grouped.h.
 *
 * Products are added in Candle's order. The outer loop goes over the columns of the window, the middle one over its
 * rows, the inner one over the input channels. f16, bf16 and f8e4m3 are summed in f32 and rounded once. A product and
 * its addition are fused. Integers wrap. */
#ifndef CRK_CONVOLUTION_H
#define CRK_CONVOLUTION_H

#include "elementwise/instances.h"
#include "numbers/divisor.h"

namespace crk {

/* Returns element % size, the coordinate in the innermost dim, and divides `element` by `size`. */
CRK_FN uint64_t take_coordinate(uint64_t &element, uint64_t size) {
  const uint64_t rest = quotient(element, size), coordinate = element - rest * size;
  element = rest;
  return coordinate;
}

/* Stores 16 bytes: element(j) is element j of them, in bits. Elements are packed word by word, because an array of many
 * small elements may end in memory. `dst` is aligned to 16 bytes. */
template <class T, class F>
CRK_FN void store_gathered(T *dst, F element) {
  if constexpr (sizeof(T) < 4) {
    constexpr int each = 4 / sizeof(T);
    pack<uint32_t, 4> words;
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      uint32_t word = 0;
      CRK_UNROLL
      for (int j = 0; j < each; j++) {
        word |= static_cast<uint32_t>(element(i * each + j)) << (8 * sizeof(T) * j);
      }
      words.v[i] = word;
    }
    store_pack(reinterpret_cast<uint32_t *>(dst), words);
  } else {
    pack<T, 16 / sizeof(T)> values;
    CRK_UNROLL
    for (int j = 0; j < static_cast<int>(16 / sizeof(T)); j++) {
      values.v[j] = element(j);
    }
    store_pack(dst, values);
  }
}

/* The type in which products of T are summed. */
template <class T>
using dot = choose<floating<T>, wide<T>, wrapping<T>>;

template <class A>
CRK_FN A multiply_add(A a, A b, A sum) {
  if constexpr (floating<A>) {
    return fma(a, b, sum);
  } else {
    return a * b + sum;
  }
}

/* Adds one tap of the window to the sums of N output channels, over all input channels. `src` points to the pixel in
 * the first input channel, `channels[j]` to the weights of output channel j. `tap` is the offset of the tap in the
 * weights. */
template <int N, class T>
CRK_FN void add_tap(const crk_conv_t &s, const T *src, const T *const (&channels)[N], uint64_t tap, dot<T> (&sums)[N]) {
  uint64_t at = 0;
  CRK_ONE_BY_ONE
  for (uint64_t c = 0; c < s.c_in; c++) {
    const dot<T> x = convert<dot<T>>(src[at]);
    CRK_UNROLL
    for (int j = 0; j < N; j++) {
      sums[j] = multiply_add(x, convert<dot<T>>(channels[j][tap]), sums[j]);
    }
    at += s.src_strides[1];
    tap += s.kernel_strides[1];
  }
}

/* Adds up the sums of N output channels at (y, x) over the image `src`. */
template <int N, class T>
CRK_FN void convolve(const crk_conv_t &s, const T *src, const T *const (&channels)[N], uint64_t y, uint64_t x,
                     dot<T> (&sums)[N]) {
  for (uint64_t k_x = 0; k_x < s.w_k; k_x++) {
    const uint64_t at_x = x * s.stride + k_x * s.dilation - s.w_padding; /* wraps if it is left of the image */
    for (uint64_t k_y = 0; k_y < s.h_k && at_x < s.w_in; k_y++) {
      const uint64_t at_y = y * s.stride + k_y * s.dilation - s.h_padding;
      if (at_y < s.h_in) {
        add_tap(s, src + at_y * s.src_strides[2] + at_x * s.src_strides[3], channels,
                k_y * s.kernel_strides[2] + k_x * s.kernel_strides[3], sums);
      }
    }
  }
}

/* The same for the transposed convolution. Input (i, j) adds to the outputs at (i, j) * stride + tap * dilation -
 * padding. `by_stride(n)` returns n / stride. */
template <int N, class T, class Divide>
CRK_FN void convolve_transposed(const crk_conv_t &s, Divide by_stride, const T *src, const T *const (&channels)[N],
                                uint64_t y, uint64_t x, dot<T> (&sums)[N]) {
  for (uint64_t k_x = 0; k_x < s.w_k && k_x * s.dilation <= x + s.w_padding; k_x++) {
    const uint64_t from_x = x + s.w_padding - k_x * s.dilation, at_x = by_stride(from_x);
    if (at_x * s.stride != from_x || at_x >= s.w_in) {
      continue;
    }
    for (uint64_t k_y = 0; k_y < s.h_k && k_y * s.dilation <= y + s.h_padding; k_y++) {
      const uint64_t from_y = y + s.h_padding - k_y * s.dilation, at_y = by_stride(from_y);
      if (at_y * s.stride == from_y && at_y < s.h_in) {
        add_tap(s, src + at_y * s.src_strides[2] + at_x * s.src_strides[3], channels,
                k_y * s.kernel_strides[2] + k_x * s.kernel_strides[3], sums);
      }
    }
  }
}

/* ---- For launchers ---- */

struct prepared_division {
  const crk_divisor_t &by;
  CRK_FN uint64_t operator()(uint64_t n) const { return divide(by, n); }
};

/* One thread: one position in CRK_CONV_CHANNELS output channels (crk_conv_launch_t). */
template <bool Transposed, class T>
CRK_FN void convolve_launched(const crk_conv_launch_t &launch, const T *src, const T *kernel, T *dst) {
  constexpr int N = CRK_CONV_CHANNELS(Transposed);
  const crk_conv_t &s = launch.shape;
  uint64_t block = launch.first_block + block_index().x;
  const uint64_t piece = take_coordinate(block, launch.pieces), channel = take_coordinate(block, launch.bundles) * N;
  const uint64_t positions = s.h_out * s.w_out, position = piece * CRK_LAUNCHED_THREADS + thread_index().x;
  if (position >= positions) {
    return;
  }
  uint64_t y = position;
  const uint64_t x = take_coordinate(y, launch.w_out);
  const T *channels[N];
  dot<T> sums[N];
  CRK_UNROLL
  for (int j = 0; j < N; j++) { /* beyond c_out: the last channel again, which is not stored */
    channels[j] = kernel + (channel + j < s.c_out ? channel + j : s.c_out - 1) * s.kernel_strides[0];
    sums[j] = 0;
  }
  const T *const image = src + block * s.src_strides[0];
  if constexpr (Transposed) {
    convolve_transposed(s, prepared_division{launch.by_stride}, image, channels, y, x, sums);
  } else {
    convolve(s, image, channels, y, x, sums);
  }
  dst += (block * s.c_out + channel) * positions + position;
  CRK_UNROLL
  for (int j = 0; j < N; j++) {
    if (channel + j < s.c_out) {
      dst[j * positions] = convert<T>(sums[j]);
    }
  }
}

/* ---- With Candle's arguments ---- */

/* The shape of a convolution of rank 3 (b, c, w) or 4 (b, c, h, w). `info` holds the dims and strides of src, then
 * those of the kernel. */
template <int Rank, bool Transposed>
CRK_FN crk_conv_t read_conv(const uint64_t *info, uint64_t h_out, uint64_t w_out, uint64_t stride, uint64_t padding,
                            uint64_t dilation) {
  const uint64_t *dims = info, *strides = info + Rank, *k_dims = info + 2 * Rank, *k_strides = info + 3 * Rank;
  constexpr bool flat = Rank == 3;
  constexpr int out = Transposed ? 1 : 0, in = 1 - out, w = Rank - 1;
  return {dims[1],
          flat ? 1 : dims[2],
          dims[w],
          k_dims[out],
          h_out,
          w_out,
          flat ? 1 : k_dims[2],
          k_dims[w],
          stride,
          flat ? 0 : padding,
          padding,
          dilation,
          {strides[0], strides[1], flat ? 0 : strides[2], strides[w]},
          {k_strides[out], k_strides[in], flat ? 0 : k_strides[2], k_strides[w]}};
}

struct plain_division {
  uint64_t by;
  CRK_FN uint64_t operator()(uint64_t n) const { return quotient(n, by); }
};

template <bool Transposed, class T>
CRK_FN void convolve_named(const crk_conv_t &s, uint64_t batch, const T *src, const T *kernel, T *dst) {
  if (s.stride == 0) {
    return;
  }
  const named_elements e(batch * s.c_out * s.h_out * s.w_out);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t rest = i;
    const uint64_t x = take_coordinate(rest, s.w_out), y = take_coordinate(rest, s.h_out);
    const uint64_t c = take_coordinate(rest, s.c_out);
    const T *const image = src + rest * s.src_strides[0];
    const T *const channels[1] = {kernel + c * s.kernel_strides[0]};
    dot<T> sums[1] = {0};
    if constexpr (Transposed) {
      convolve_transposed(s, plain_division{s.stride}, image, channels, y, x, sums);
    } else {
      convolve(s, image, channels, y, x, sums);
    }
    dst[i] = convert<T>(sums[0]);
    if constexpr (!on_host) {
      break; /* Candle launches one thread per output; a loop would keep its divisors in too many registers */
    }
  }
}

}  // namespace crk

#endif
