/* candle_rocm/launchers/conv.h: convolutions, windows as matrices, pools and upsampling.
 *
 * Images are (b, c, h, w) and signals (b, c, l), in any strided layout. A destination is contiguous from the beginning
 * of its view and overlaps no source. Each function is one launch (more only where a grid would exceed the device's
 * limit) and allocates nothing, except for the products of crk_conv1d, crk_conv2d and the transposed convolutions. A
 * window covers zeros outside of an image.
 *
 * An empty destination succeeds and launches nothing. All fail with CRK_INVALID_ARGUMENT: a NULL, an unknown dtype or
 * op, a layout of another rank, dims that do not fit each other, groups that do not divide the channels, a stride,
 * dilation, window or number of groups of 0, a window that reaches beyond the image and its padding, or 2^62 or more
 * elements. They fail with CRK_OUT_OF_BOUNDS (a layout reaches beyond its view, or the destination is too small) or
 * CRK_DEVICE. All ten dtypes have kernels. Rounding: docs/parity.md in the sources. */
#ifndef CANDLE_ROCM_LAUNCHERS_CONV_H
#define CANDLE_ROCM_LAUNCHERS_CONV_H

#include "candle_rocm/device.h"
#include "candle_rocm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The output size of a dim of `size` elements in a convolution, im2col or pool (padding 0, dilation 1):
 * (size + 2 * padding - dilation * (window - 1) - 1) / stride + 1, rounded down. Fails as the launchers do. */
CRK_API crk_status_t crk_conv_size(size_t size, size_t window, size_t stride, size_t padding, size_t dilation,
                                   size_t *result);

/* The output size of a dim in a transposed convolution, and in col2im1d (no padding, dilation 1):
 * (size - 1) * stride + dilation * (window - 1) + output_padding + 1 - 2 * padding. Fails also where `size` is 0, and
 * where the padding is more than the rest. */
CRK_API crk_status_t crk_conv_transpose_size(size_t size, size_t window, size_t stride, size_t padding,
                                             size_t output_padding, size_t dilation, size_t *result);

/* dst[b, o, x] = the sum over c and k of src[b, c, x * stride + k * dilation - padding] * kernel[o, c, k], for a source
 * (b, c_in, l), a kernel (c_out, c_in, k) and dst (b, c_out, crk_conv_size(l, k, ...)).
 *
 * With `groups` above 1, this is a convolution of each group by itself: the input channels are cut into that many
 * equal parts, and so are the output channels. The outputs of a part are computed from the inputs of the same part. The
 * kernel is (c_out, c_in / groups, k). All groups are computed in the same launches, unless the windows are written to
 * memory (below): there the groups of an image are. Below, c_in and c_out are the channels of a group.
 *
 * f16 and bf16 are matrix products if c_in * c_out is at least 64. For windows of at least 9 elements 16 is enough, but
 * not for c_in = 1 in several groups. f32 is a matrix product from 64 on, on CDNA, on NVIDIA GPUs of compute capability
 * 8.0, 9.0 and 10.0, and on the CPU device. Sizes must fit the kernels: the image of a group, the copy (below) and the
 * positions of dst have fewer than 2^30 numbers (an image of f32 2^29). Sums are in f32, in an order that is the same
 * in each call, and are rounded once. Before the rounding the error of a sum is at most k * (c_in rounded up to a
 * multiple of 8) * 2^-23 times the sum of the products' magnitudes. NaN and infinities propagate. Zeros outside of the
 * image are multiplied too: an infinite weight gives NaN there. crk_matmul says when a tiny number may count as 0.
 *
 * Other convolutions of f32 and f64, with at least 64 for c_in * c_out, are products too. Their windows are written to
 * scratch memory, as crk_im2col1d writes them. crk_matmul multiplies the kernel by them, and its error bound holds.
 * Each part of up to 256 MiB of windows, of several images or of several groups of an image, takes these two launches.
 * A row of windows of an image is never cut, even if it is larger. An image with more windows is cut into parts of
 * several rows, and each part takes a third launch. A kernel that is not contiguous takes one more launch.
 *
 * All else is computed output by output. The sum runs over k, and for each k over c. Products are fused into the sum;
 * f16, bf16 and f8e4m3 are added up in f32 and rounded once; integers wrap. Nothing is added outside of the image. So
 * the result equals that of the kernel by name bit for bit.
 *
 * The products without windows in memory read operands with channels last, in pieces of 16 bytes: 8 channels, or 4 of
 * f32. Channels then have stride 1 and are whole pieces; the operand and its other strides are aligned to 16 bytes; the
 * kernel has no gaps within an output channel. Any other operand is copied first, in one more launch, to scratch memory
 * from crk_alloc, which is freed before the return. The copy has the size of the operand, with the channels of each
 * group rounded up to whole pieces. Where outputs are few, k is cut into parts. This takes one more launch and up to
 * 256 KiB of scratch memory for every four SIMD units.
 *
 * Windows of one element, with stride 1 and no padding, are a product of crk_matmul. It reads images as they lie, if
 * pixels or channels are neighbours, pixels are whole pieces, and lines are aligned to 16 bytes.
 *
 * Before a capture, reserve the scratch memory (crk_memory_reserve) or run the call once. Products fail also with
 * CRK_OUT_OF_MEMORY or CRK_CAPTURE (no scratch memory). */
CRK_API crk_status_t crk_conv1d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *src_layout,
                                crk_const_view_t src, const crk_layout_t *kernel_layout, crk_const_view_t kernel,
                                crk_view_t dst, size_t stride, size_t padding, size_t dilation, size_t groups);

/* The same over two dims: src (b, c_in, h, w), kernel (c_out, c_in / groups, h_k, w_k), dst (b, c_out, h_out, w_out).
 * Stride, padding and dilation hold for both dims. For products h_k * w_k takes the place of k. Output by output, the
 * sum runs over the window's columns, for each column over its rows, and for each element over the channels. */
CRK_API crk_status_t crk_conv2d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *src_layout,
                                crk_const_view_t src, const crk_layout_t *kernel_layout, crk_const_view_t kernel,
                                crk_view_t dst, size_t stride, size_t padding, size_t dilation, size_t groups);

/* dst[b, o, i * stride + k * dilation - padding] += src[b, c, i] * kernel[c, o, k] for every c, i and k with a place in
 * dst. The sums begin at 0. src is (b, c_in, l), kernel (c_in, c_out, k) and dst
 * (b, c_out, crk_conv_transpose_size(l, k, ...)). With `groups`, the kernel is (c_in, c_out / groups, k), and the rest
 * is as in crk_conv1d.
 *
 * f16, bf16 and f32 are matrix products under the conditions of crk_conv1d, if also c_in * c_out is at least 64, and
 * dst has at least `stride` positions, or one position and no padding. f32 is computed output by output on devices
 * without those kernels. Each phase, which is every stride-th position, is a product with the taps that reach it, all
 * in one launch. So no zeros between the elements of src are multiplied. Zeros outside of src are, with the taps of the
 * phase: an infinite weight gives NaN there. The bound, the copies and the parts of k are those of crk_conv1d, but the
 * kernel is always copied. All else is computed output by output, as in crk_conv1d. */
CRK_API crk_status_t crk_conv_transpose1d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *src_layout,
                                          crk_const_view_t src, const crk_layout_t *kernel_layout,
                                          crk_const_view_t kernel, crk_view_t dst, size_t stride, size_t padding,
                                          size_t output_padding, size_t dilation, size_t groups);

/* The same over two dims: src (b, c_in, h, w), kernel (c_in, c_out / groups, h_k, w_k), dst (b, c_out, h_out, w_out).
 * For products the condition on positions holds for each dim of dst, and h_k * w_k takes the place of k. */
CRK_API crk_status_t crk_conv_transpose2d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *src_layout,
                                          crk_const_view_t src, const crk_layout_t *kernel_layout,
                                          crk_const_view_t kernel, crk_view_t dst, size_t stride, size_t padding,
                                          size_t output_padding, size_t dilation, size_t groups);

/* dst[b, x, c, i] = src[b, c, x * stride + i * dilation - padding] for i below `k`: the windows of a signal (b, c, l)
 * become the rows of matrices (b, l_out, c * k), with l_out = crk_conv_size(l, k, ...). Their product with a transposed
 * kernel (c_out, c_in * k) is the convolution as (b, l_out, c_out). */
CRK_API crk_status_t crk_im2col1d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout,
                                  crk_const_view_t src, crk_view_t dst, size_t k, size_t stride, size_t padding,
                                  size_t dilation);

/* The same over two dims: src (b, c, h, w), dst (b, h_out, w_out, c * h_k * w_k). */
CRK_API crk_status_t crk_im2col(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_const_view_t src,
                                crk_view_t dst, size_t h_k, size_t w_k, size_t stride, size_t padding, size_t dilation);

/* dst[b, c, i * stride + j] += src[b, i, c, j] for every i and j; the sums begin at 0. It turns the matrices
 * (b, l_in, c, k) of a transposed convolution into its result (b, c, l_out), with
 * l_out = crk_conv_transpose_size(l_in, k, stride, 0, 0, 1). The sum is rounded to the dtype at every step, from the
 * greatest i to the least. */
CRK_API crk_status_t crk_col2im1d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout,
                                  crk_const_view_t src, crk_view_t dst, size_t stride);

/* XX(name, value, root). `root` begins the names of Candle's kernels. */
#define CRK_POOL_MAP(XX)   \
  XX(AVG, 0, "avg_pool2d") \
  XX(MAX, 1, "max_pool2d")

typedef enum crk_pool_op {
#define XX(name, value, root) CRK_POOL_##name = value,
  CRK_POOL_MAP(XX)
#undef XX
} crk_pool_op_t;

/* The op of a kernel root such as "max_pool2d". Fails with CRK_INVALID_ARGUMENT. */
CRK_API crk_status_t crk_pool_op_from_root(const char *root, crk_pool_op_t *op);

/* dst[b, c, y, x] is the average or the greatest of src[b, c, y * h_stride + i, x * w_stride + j] for i below `h_k` and
 * j below `w_k`. src is (b, c, h, w) and dst (b, c, h_out, w_out), with h_out = crk_conv_size(h, h_k, h_stride, 0, 1)
 * and w_out = crk_conv_size(w, w_k, w_stride, 0, 1). Candle calls the arguments k.0, k.1, stride.0 and stride.1, in
 * this order.
 *
 * AVG: the sum, row by row from 0 (f16, bf16 and f8e4m3 in f32), times 1 / (h_k * w_k), rounded once. u8 and u32: the
 * sum wraps, is multiplied with the factor in f32, and the result is truncated. i16, i32 and i64: 0 unless the window
 * has one element, as on Candle's CPU.
 * MAX: a NaN is the result in f16 and bf16, and is skipped in f32 and f64. In f8e4m3 it is the result where it is the
 * first element of a window. */
CRK_API crk_status_t crk_pool2d(crk_device_t self, crk_pool_op_t op, crk_dtype_t dtype, const crk_layout_t *layout,
                                crk_const_view_t src, crk_view_t dst, size_t h_k, size_t w_k, size_t h_stride,
                                size_t w_stride);

/* dst[b, c, y, x] = src[b, c, (size_t)(y * (h / h_out)), (size_t)(x * (w / w_out))], bit for bit. The positions are
 * computed in f64 and kept within the source. src is (b, c, h, w), dst (b, c, h_out, w_out); sizes may grow or shrink.
 * Fails also where the source is empty and dst is not. */
CRK_API crk_status_t crk_upsample_nearest2d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout,
                                            crk_const_view_t src, crk_view_t dst, size_t h_out, size_t w_out);

/* Bilinear interpolation, as in PyTorch and Candle: src (b, c, h, w), dst (b, c, h_out, w_out). With align_corners
 * output y lies at y * (h - 1) / (h_out - 1). Else it lies at (y + 0.5) * step - 0.5, where step is 1 / h_factor,
 * or h / h_out for an h_factor of 0. A position before the first element counts as the first; beyond the last element
 * the last one continues. The same holds for x. Computed in f64 and rounded once; integers are truncated. Fails also
 * where the source is empty and dst is not, and for a factor that is negative, infinite or NaN. */
CRK_API crk_status_t crk_upsample_bilinear2d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout,
                                             crk_const_view_t src, crk_view_t dst, size_t h_out, size_t w_out,
                                             bool align_corners, double h_factor, double w_factor);

#ifdef __cplusplus
}
#endif
#endif
