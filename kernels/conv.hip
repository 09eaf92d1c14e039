/* The module `conv`: instances of convolutions (conv/convolution.h, conv/grouped.h), im2col and col2im1d
 * (conv/im2col.h), pools and upsampling (conv/pool.h). Kernels with Candle's names come first, then those for
 * csrc/launch/conv.c, im2col.c and pool.c. Kernels that only move bits have one instance per width. */
#include "conv/grouped.h"
#include "conv/im2col.h"
#include "conv/pool.h"
#include "elementwise/instances.h"

/* ---- With Candle's names ---- */

#define CRK_CONV_NAMED(suffix, T)                                                                                  \
  CRK_ELEMENTWISE(conv1d_##suffix, CRK_NAMED_THREADS,                                                              \
                  (uint64_t /* src_numel */, uint64_t l_out, uint64_t stride, uint64_t padding, uint64_t dilation, \
                   const uint64_t *info, const T *src, const T *kernel, T *dst)) {                                 \
    const crk_conv_t shape = crk::read_conv<3, false>(info, 1, l_out, stride, padding, dilation);                  \
    crk::convolve_named<false>(shape, info[0], src, kernel, dst);                                                  \
  }                                                                                                                \
  CRK_ELEMENTWISE(conv2d_##suffix, CRK_NAMED_THREADS,                                                              \
                  (uint64_t /* src_numel */, uint64_t w_out, uint64_t h_out, uint64_t stride, uint64_t padding,    \
                   uint64_t dilation, const uint64_t *info, const T *src, const T *kernel, T *dst)) {              \
    const crk_conv_t shape = crk::read_conv<4, false>(info, h_out, w_out, stride, padding, dilation);              \
    crk::convolve_named<false>(shape, info[0], src, kernel, dst);                                                  \
  }                                                                                                                \
  CRK_ELEMENTWISE(                                                                                                 \
      conv_transpose1d_##suffix, CRK_NAMED_THREADS,                                                                \
      (uint64_t /* src_numel */, uint64_t l_out, uint64_t stride, uint64_t padding, uint64_t /* output_padding */, \
       uint64_t dilation, const uint64_t *info, const T *src, const T *kernel, T *dst)) {                          \
    const crk_conv_t shape = crk::read_conv<3, true>(info, 1, l_out, stride, padding, dilation);                   \
    crk::convolve_named<true>(shape, info[0], src, kernel, dst);                                                   \
  }                                                                                                                \
  CRK_ELEMENTWISE(conv_transpose2d_##suffix, CRK_NAMED_THREADS,                                                    \
                  (uint64_t /* src_numel */, uint64_t w_out, uint64_t h_out, uint64_t stride, uint64_t padding,    \
                   uint64_t /* output_padding */, uint64_t dilation, const uint64_t *info, const T *src,           \
                   const T *kernel, T *dst)) {                                                                     \
    const crk_conv_t shape = crk::read_conv<4, true>(info, h_out, w_out, stride, padding, dilation);               \
    crk::convolve_named<true>(shape, info[0], src, kernel, dst);                                                   \
  }                                                                                                                \
  CRK_ELEMENTWISE(col2im1d_##suffix, CRK_NAMED_THREADS,                                                            \
                  (uint64_t numel, uint64_t l_out, uint64_t l_in, uint64_t c_out, uint64_t l_k, uint64_t stride,   \
                   const T *src, T *dst)) {                                                                        \
    crk::col2im1d_named(numel, l_out, l_in, c_out, l_k, stride, src, dst);                                         \
  }
CRK_ALL_TYPES(CRK_CONV_NAMED)

#define CRK_WINDOWS_NAMED(suffix, T)                                                                                   \
  CRK_ELEMENTWISE(                                                                                                     \
      im2col_##suffix, CRK_NAMED_THREADS,                                                                              \
      (uint64_t numel, uint64_t h_out, uint64_t w_out, uint64_t h_k, uint64_t w_k, uint64_t stride, uint64_t padding,  \
       uint64_t dilation, const uint64_t *info, const crk::bits_of<T> *src, crk::bits_of<T> *dst)) {                   \
    crk::im2col_named(numel, h_out, w_out, h_k, w_k, stride, padding, dilation, info, src, dst);                       \
  }                                                                                                                    \
  CRK_ELEMENTWISE(im2col1d_##suffix, CRK_NAMED_THREADS,                                                                \
                  (uint64_t numel, uint64_t l_out, uint64_t l_k, uint64_t stride, uint64_t padding, uint64_t dilation, \
                   const uint64_t *info, const crk::bits_of<T> *src, crk::bits_of<T> *dst)) {                          \
    crk::im2col1d_named(numel, l_out, l_k, stride, padding, dilation, info, src, dst);                                 \
  }                                                                                                                    \
  CRK_ELEMENTWISE(upsample_nearest2d_##suffix, CRK_NAMED_THREADS,                                                      \
                  (uint64_t h_out, uint64_t w_out, double h_scale, double w_scale, const uint64_t *info,               \
                   const crk::bits_of<T> *src, crk::bits_of<T> *dst)) {                                                \
    crk::nearest_named(h_out, w_out, h_scale, w_scale, info, src, dst);                                                \
  }
CRK_ALL_TYPES(CRK_WINDOWS_NAMED)

#define CRK_POOL_NAMED(suffix, T)                                                                                     \
  CRK_ELEMENTWISE(avg_pool2d_##suffix, CRK_NAMED_THREADS,                                                             \
                  (uint64_t /* src_numel */, uint64_t h_k, uint64_t w_k, uint64_t h_stride, uint64_t w_stride,        \
                   const uint64_t *info, const T *src, T *dst)) {                                                     \
    crk::pool_named<crk::average<T, float>>(h_k, w_k, h_stride, w_stride, info, src, dst);                            \
  }                                                                                                                   \
  CRK_ELEMENTWISE(max_pool2d_##suffix, CRK_NAMED_THREADS,                                                             \
                  (uint64_t /* src_numel */, uint64_t h_k, uint64_t w_k, uint64_t h_stride, uint64_t w_stride,        \
                   const uint64_t *info, const T *src, T *dst)) {                                                     \
    crk::pool_named<crk::greatest<T>>(h_k, w_k, h_stride, w_stride, info, src, dst);                                  \
  }                                                                                                                   \
  CRK_ELEMENTWISE(upsample_bilinear2d_##suffix, CRK_NAMED_THREADS,                                                    \
                  (uint64_t w_out, uint64_t h_out, bool align_corners, bool has_h_factor, double h_factor,            \
                   bool has_w_factor, double w_factor, const uint64_t *info, const T *src, T *dst)) {                 \
    crk::bilinear_named(w_out, h_out, align_corners, has_h_factor, h_factor, has_w_factor, w_factor, info, src, dst); \
  }
CRK_ALL_TYPES(CRK_POOL_NAMED)

/* ---- For launchers ---- */

#define CRK_CONV_LAUNCHED(suffix, T)                                                         \
  CRK_KERNEL(conv_##suffix##_direct, CRK_LAUNCHED_THREADS,                                   \
             (crk_conv_launch_t launch, const T *src, const T *kernel, T *dst)) {            \
    crk::convolve_launched<false>(CRK_ND_ARGUMENT(launch), src, kernel, dst);                \
  }                                                                                          \
  CRK_KERNEL(conv_transpose_##suffix##_direct, CRK_LAUNCHED_THREADS,                         \
             (crk_conv_launch_t launch, const T *src, const T *kernel, T *dst)) {            \
    crk::convolve_launched<true>(CRK_ND_ARGUMENT(launch), src, kernel, dst);                 \
  }                                                                                          \
  CRK_KERNEL(conv_##suffix##_groups, CRK_LAUNCHED_THREADS,                                   \
             (crk_conv_groups_t call, const T *src, const T *kernel, T *dst)) {              \
    crk::convolve_groups<false>(CRK_ND_ARGUMENT(call), src, kernel, dst);                    \
  }                                                                                          \
  CRK_KERNEL(conv_transpose_##suffix##_groups, CRK_LAUNCHED_THREADS,                         \
             (crk_conv_groups_t call, const T *src, const T *kernel, T *dst)) {              \
    crk::convolve_groups<true>(CRK_ND_ARGUMENT(call), src, kernel, dst);                     \
  }                                                                                          \
  CRK_ELEMENTWISE(col2im1d_##suffix##_direct, CRK_LAUNCHED_THREADS,                          \
                  (crk_col2im_t shape, const T *src, T *dst, uint32_t threads)) {            \
    crk::col2im1d_direct(CRK_ND_ARGUMENT(shape), threads, src, dst);                         \
  }                                                                                          \
  CRK_ELEMENTWISE(avg_pool2d_##suffix##_rows, CRK_LAUNCHED_THREADS,                          \
                  (crk_images_t images, const T *src, T *dst, uint32_t threads)) {           \
    crk::pool_launched<crk::average<T, double>>(CRK_ND_ARGUMENT(images), threads, src, dst); \
  }                                                                                          \
  CRK_ELEMENTWISE(max_pool2d_##suffix##_rows, CRK_LAUNCHED_THREADS,                          \
                  (crk_images_t images, const T *src, T *dst, uint32_t threads)) {           \
    crk::pool_launched<crk::greatest<T>>(CRK_ND_ARGUMENT(images), threads, src, dst);        \
  }                                                                                          \
  CRK_ELEMENTWISE(upsample_bilinear2d_##suffix##_rows, CRK_LAUNCHED_THREADS,                 \
                  (crk_images_t images, const T *src, T *dst, uint32_t threads)) {           \
    crk::bilinear_launched(CRK_ND_ARGUMENT(images), threads, src, dst);                      \
  }
CRK_ALL_TYPES(CRK_CONV_LAUNCHED)

#define CRK_DEPTHWISE_OF(suffix, T, window, stride_)                                                 \
  CRK_KERNEL(conv_##suffix##_depthwise_##window##x##window##_stride##stride_, CRK_DEPTHWISE_THREADS, \
             (crk_depthwise_t call, const T *src, const T *kernel, T *dst)) {                        \
    crk::convolve_depthwise<window, stride_>(CRK_ND_ARGUMENT(call), src, kernel, dst);               \
  }
#define CRK_DEPTHWISE_EACH(window, stride_)          \
  CRK_DEPTHWISE_OF(bf16, crk::bf16, window, stride_) \
  CRK_DEPTHWISE_OF(f16, crk::f16, window, stride_)   \
  CRK_DEPTHWISE_OF(f32, float, window, stride_)
CRK_DEPTHWISE(CRK_DEPTHWISE_EACH)

#define CRK_WINDOWS_LAUNCHED(suffix, T)                                            \
  CRK_ELEMENTWISE(im2col_##suffix##_direct, CRK_LAUNCHED_THREADS,                  \
                  (crk_im2col_t shape, const T *src, T *dst, uint32_t threads)) {  \
    crk::im2col_direct(CRK_ND_ARGUMENT(shape), threads, src, dst);                 \
  }                                                                                \
  CRK_COOPERATIVE(im2col_##suffix##_tile, CRK_IM2COL_WAVES *crk::most_lanes,       \
                  (crk_im2col_t shape, const T *src, T *dst)) {                    \
    CRK_SHARED(T, image, CRK_IM2COL_BYTES / sizeof(T));                            \
    crk::im2col_tile(CRK_ND_ARGUMENT(shape), src, dst, image);                     \
  }                                                                                \
  CRK_ELEMENTWISE(upsample_nearest2d_##suffix##_rows, CRK_LAUNCHED_THREADS,        \
                  (crk_images_t images, const T *src, T *dst, uint32_t threads)) { \
    crk::nearest_launched(CRK_ND_ARGUMENT(images), threads, src, dst);             \
  }
CRK_BITS_TYPES(CRK_WINDOWS_LAUNCHED)

CRK_MODULE(conv)
