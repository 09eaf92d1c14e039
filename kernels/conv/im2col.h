/* im2col: the windows of images as the rows of a matrix. col2im1d: the reverse for one dim, a sum where windows
 * overlap. For kernels/conv.hip. Main functions: im2col_tile and im2col_direct (crk_im2col_t), col2im1d_direct
 * (crk_col2im_t), and im2col_named, im2col1d_named and col2im1d_named with Candle's arguments. */
#ifndef CRK_IM2COL_H
#define CRK_IM2COL_H

#include "conv/convolution.h"

namespace crk {

/* ---- For launchers ---- */

/* im2col element by element, for windows that are too large for shared memory. I is the type of the index
 * arithmetic. */
template <class I, class T>
CRK_FN void im2col_elements(const crk_im2col_t &s, uint32_t threads, const T *src, T *dst) {
  const elements e(s.numel, threads);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    I rest = static_cast<I>(i);
    const uint64_t k_x = take_coordinate(rest, s.w_k), k_y = take_coordinate(rest, s.h_k);
    const uint64_t c = take_coordinate(rest, s.channels);
    const uint64_t x = take_coordinate(rest, s.columns) * s.stride + k_x * s.dilation - s.w_padding;
    const uint64_t y = take_coordinate(rest, s.rows) * s.stride + k_y * s.dilation - s.h_padding;
    dst[i] = x < s.w_in && y < s.h_in
                 ? src[rest * s.src_strides[0] + c * s.src_strides[1] + y * s.src_strides[2] + x * s.src_strides[3]]
                 : T(0);
  }
}

template <class T>
CRK_FN void im2col_direct(const crk_im2col_t &s, uint32_t threads, const T *src, T *dst) {
  if (s.wide) {
    im2col_elements<uint64_t>(s, threads, src, dst);
  } else {
    im2col_elements<uint32_t>(s, threads, src, dst);
  }
}

/* The part of the range [first, first + count) that lies in [0, end). `from` and `to` are its ends, counted from
 * `first`. A negative `first` is passed as a wrapped unsigned number. */
struct part {
  uint32_t from, to;

  CRK_FN part(uint64_t first, uint32_t count, uint64_t end) {
    const uint64_t missing = 0 - first; /* elements before 0 */
    const bool starts_before = missing <= count && first != 0;
    from = starts_before ? static_cast<uint32_t>(missing) : 0;
    const uint64_t left = starts_before ? end + missing : first < end ? end - first : 0;
    to = left < count ? static_cast<uint32_t>(left) : count;
    to = to < from ? from : to;
  }
};

/* Copies the piece of an image that a tile's windows cover to shared memory, with 0 outside of the image. `lines` is
 * the number of rows of the piece in all channels. `first` is the offset of the first channel in src; `top` and `left`
 * are the piece's first row and column. */
template <class T>
CRK_FN void load_image(const crk_im2col_t &s, uint32_t lines, uint64_t first, uint64_t top, uint64_t left, const T *src,
                       T *image) {
  constexpr int depth = 4; /* loads that a thread has under way */
  const uint32_t threads = CRK_IM2COL_WAVES * wave_size();
  const uint32_t image_w = static_cast<uint32_t>(s.image_w.size), image_h = static_cast<uint32_t>(s.image_h.size);
  const part across(left, image_w, s.w_in), down(top, image_h, s.h_in);
  const uint64_t corner = first + top * s.src_strides[2] + left * s.src_strides[3];
  for (uint32_t i = thread_index().x; i < lines * image_w; i += depth * threads) {
    T held[depth];
    uint32_t at[depth];
    CRK_UNROLL
    for (int d = 0; d < depth; d++) {
      uint32_t line = i + d * threads;
      const uint32_t column = take_coordinate(line, s.image_w);
      at[d] = line * s.pitch + column;
      uint32_t channel = line;
      const uint32_t row = take_coordinate(channel, s.image_h);
      const bool within =
          line < lines && column - across.from < across.to - across.from && row - down.from < down.to - down.from;
      held[d] = T(0);
      if (within) {
        held[d] = src[corner + channel * s.src_strides[1] + row * s.src_strides[2] + column * s.src_strides[3]];
      }
    }
    CRK_UNROLL
    for (int d = 0; d < depth; d++) {
      if (i + d * threads < lines * image_w) {
        image[at[d]] = held[d];
      }
    }
  }
}

/* Writes the windows of a tile to dst. Each store writes V elements of a row of the matrix. The tile's part of a row is
 * `run` elements, a multiple of V. A thread writes the same columns of several rows, so it computes the places of its
 * elements in a window only once. */
template <int V, class T>
CRK_FN void write_windows(const crk_im2col_t &s, uint32_t rows, uint32_t columns, uint32_t run, T *dst,
                          const T *image) {
  constexpr uint32_t size = sizeof(T);
  const unsigned char *bytes = reinterpret_cast<const unsigned char *>(image);
  const uint32_t stride = static_cast<uint32_t>(s.stride), dilation = static_cast<uint32_t>(s.dilation);
  const uint32_t image_h = static_cast<uint32_t>(s.image_h.size), group_w = static_cast<uint32_t>(s.group_w.size);
  const uint64_t row_elements = s.c * s.window;
  uint32_t group_y = thread_index().x;
  uint32_t first = take_coordinate(group_y, s.run) * V;
  const uint32_t group_x = take_coordinate(group_y, s.group_w);
  if (group_y >= s.group_h) {
    return;
  }
  const uint32_t step = group_w * stride * size;
  for (; first < run; first += CRK_IM2COL_WAVES * wave_size() * V) {
    /* In bytes. `opaque` makes the compiler keep these, and not the numbers they are computed from, in registers. */
    uint32_t places[V];
    CRK_UNROLL
    for (int j = 0; j < V; j++) {
      uint32_t channel = first + j;
      const uint32_t k_x = take_coordinate(channel, s.w_k), k_y = take_coordinate(channel, s.h_k);
      places[j] = opaque(((channel * image_h + k_y * dilation) * s.pitch + k_x * dilation) * size);
    }
    for (uint32_t y = group_y; y < rows; y += s.group_h) {
      T *to = dst + ((y * s.w_out + group_x) * row_elements + first);
      const unsigned char *corner = bytes + (y * s.pitch + group_x) * stride * size;
      for (uint32_t x = group_x; x < columns; x += group_w) {
        const auto element = [&](int j) { return *reinterpret_cast<const T *>(corner + places[j]); };
        if constexpr (V == 1) {
          *to = element(0);
        } else {
          store_gathered(to, element);
        }
        to += group_w * row_elements;
        corner += step;
      }
    }
  }
}

/* im2col of one tile per block. `image` is shared memory of CRK_IM2COL_BYTES. All threads of the block must call it. */
template <class T>
CRK_FN void im2col_tile(const crk_im2col_t &s, const T *src, T *dst, T *image) {
  uint64_t block = s.first_block + block_index().x;
  const uint64_t c = take_coordinate(block, s.c_tiles) * s.tile_c;
  const uint64_t x = take_coordinate(block, s.w_tiles) * s.tile_w.size;
  const uint64_t y = take_coordinate(block, s.h_tiles) * s.tile_h;
  const uint32_t channels = s.c - c < s.tile_c ? static_cast<uint32_t>(s.c - c) : s.tile_c;
  load_image(s, channels * static_cast<uint32_t>(s.image_h.size), block * s.src_strides[0] + c * s.src_strides[1],
             y * s.stride - s.h_padding, x * s.stride - s.w_padding, src, image);
  shared_barrier();

  const uint32_t rows = s.h_out - y < s.tile_h ? static_cast<uint32_t>(s.h_out - y) : s.tile_h;
  const uint64_t left = s.w_out - x;
  const uint32_t columns = static_cast<uint32_t>(left < s.tile_w.size ? left : s.tile_w.size);
  const uint32_t run = channels * s.window;
  dst += ((block * s.h_out + y) * s.w_out + x) * (s.c * s.window) + c * s.window;
  if (s.vector == 1) {
    write_windows<1>(s, rows, columns, run, dst, image);
  } else {
    write_windows<16 / sizeof(T)>(s, rows, columns, run, dst, image);
  }
}

/* a + b as Candle's col2im1d adds: rounded to T, f8e4m3 through f32; integers wrap. */
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

/* The sum of src[i][k] over all i and k with i * stride + k = l, for one channel and one l. The given i and k are the
 * pair with the greatest i, where the sum begins. Every addition is rounded to T. */
template <class T>
CRK_FN T gather_column(const T *src, uint64_t i, uint64_t k, uint64_t stride, uint64_t l_in, uint64_t l_k,
                       uint64_t i_stride, uint64_t k_stride) {
  T sum = convert<T>(0.0f);
  for (; k < l_k; k += stride, i--) {
    if (i < l_in) {
      sum = add(sum, src[i * i_stride + k * k_stride]);
    }
    if (i == 0) {
      break;
    }
  }
  return sum;
}

template <class I, class T>
CRK_FN void col2im1d_elements(const crk_col2im_t &s, uint32_t threads, const T *src, T *dst) {
  const elements e(s.numel, threads);
  for (uint64_t n = e.first; n < e.end; n += e.step) {
    I rest = static_cast<I>(n);
    const I l = take_coordinate(rest, s.l_out), c = take_coordinate(rest, s.channels), i = divide(s.by_stride, l);
    const T *const column = src + rest * s.src_strides[0] + c * s.src_strides[2];
    dst[n] = gather_column(column, i, l - i * s.by_stride.size, s.by_stride.size, s.l_in, s.k, s.src_strides[1],
                           s.src_strides[3]);
  }
}

template <class T>
CRK_FN void col2im1d_direct(const crk_col2im_t &s, uint32_t threads, const T *src, T *dst) {
  if (s.wide) {
    col2im1d_elements<uint64_t>(s, threads, src, dst);
  } else {
    col2im1d_elements<uint32_t>(s, threads, src, dst);
  }
}

/* ---- With Candle's arguments ---- */

/* dst is (b, h_out, w_out, c, h_k, w_k), with 0 for the parts of windows outside of the image. `info` holds the dims
 * and strides of src, (b, c, h, w). T only carries bits. */
template <class T>
CRK_FN void im2col_named(uint64_t numel, uint64_t h_out, uint64_t w_out, uint64_t h_k, uint64_t w_k, uint64_t stride,
                         uint64_t padding, uint64_t dilation, const uint64_t *info, const T *src, T *dst) {
  const uint64_t c_in = info[1], h_in = info[2], w_in = info[3], *strides = info + 4;
  const named_elements e(numel);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t rest = i;
    const uint64_t k_x = take_coordinate(rest, w_k), k_y = take_coordinate(rest, h_k);
    const uint64_t c = take_coordinate(rest, c_in);
    const uint64_t x = take_coordinate(rest, w_out) * stride + k_x * dilation - padding;
    const uint64_t y = take_coordinate(rest, h_out) * stride + k_y * dilation - padding;
    dst[i] = x < w_in && y < h_in ? src[rest * strides[0] + c * strides[1] + y * strides[2] + x * strides[3]] : T(0);
  }
}

/* dst is (b, l_out, c, l_k). A thread copies one window of one channel. `info` holds the dims and strides of
 * src, (b, c, l). */
template <class T>
CRK_FN void im2col1d_named(uint64_t windows, uint64_t l_out, uint64_t l_k, uint64_t stride, uint64_t padding,
                           uint64_t dilation, const uint64_t *info, const T *src, T *dst) {
  const uint64_t c_in = info[1], l_in = info[2], *strides = info + 3;
  const named_elements e(windows);
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

/* dst[b, c, l] is the sum of src[b, i, c, k] over all i and k with i * stride + k = l. Both are contiguous. */
template <class T>
CRK_FN void col2im1d_named(uint64_t numel, uint64_t l_out, uint64_t l_in, uint64_t c_out, uint64_t l_k, uint64_t stride,
                           const T *src, T *dst) {
  const named_elements e(stride == 0 ? 0 : numel);
  for (uint64_t n = e.first; n < e.end; n += e.step) {
    uint64_t rest = n;
    const uint64_t l = take_coordinate(rest, l_out), c = take_coordinate(rest, c_out), i = quotient(l, stride);
    const T *const column = src + (rest * l_in * c_out + c) * l_k;
    dst[n] = gather_column(column, i, l - i * stride, stride, l_in, l_k, c_out * l_k, 1);
  }
}

}  // namespace crk

#endif
