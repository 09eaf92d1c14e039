/* candle_rocm/launchers/norm.h: softmax and norms, over each row of the last dim; batch norm and group norm.
 *
 * `layout` is contiguous from its offset on and has at least one dim. Rows may have any length. `dst` is contiguous
 * from the beginning of its view. It may be `src` where the layout's offset is 0, and must not overlap it otherwise.
 * One launch and no scratch memory, except for group norm. dtypes BF16, F16, F32 and F64.
 *
 * bf16, f16 and f32 are computed in f32, f64 in f64, and each result is rounded to the dtype once; with the silu
 * of a group norm, twice. This is at least as accurate as the kernels by Candle's names. Those round in between,
 * compute statistics of f64 rows in f32, and add in another order. A row that fits a block (2048 pieces of 16 bytes) is
 * read once; a longer row is read again for each step.
 *
 * All fail as the element-wise launchers do; CRK_UNSUPPORTED for other dtypes. */
#ifndef CANDLE_ROCM_LAUNCHERS_NORM_H
#define CANDLE_ROCM_LAUNCHERS_NORM_H

#include "candle_rocm/device.h"
#include "candle_rocm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dst[i] = exp(src[i] - m) / s, where m is the largest element of the row and s is the sum of exp(src[j] - m) over it.
 * Large numbers do not overflow. A row of -inf only becomes NaN, and so does a row with +inf or NaN in it. */
CRK_API crk_status_t crk_softmax(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_const_view_t src,
                                 crk_view_t dst);

/* dst[i] = src[i] / sqrt(mean(src^2) + eps) * alpha[i]. `alpha` has the length of the last dim, is contiguous and must
 * not overlap `dst`; {NULL, 0} stands for ones. */
CRK_API crk_status_t crk_rms_norm(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout,
                                  crk_const_view_t src, crk_const_view_t alpha, crk_view_t dst, float eps);

/* sum[i] = x[i] + residual[i], rounded to the dtype, and dst = crk_rms_norm of sum: a layer's residual and its next
 * norm. {NULL, 0} as `residual` and as `sum` makes dst = crk_rms_norm of x. x, residual, sum and dst are `rows` rows of
 * `cols` elements, contiguous from the beginning of their views. sum, dst and columns must not overlap each other or a
 * source. The results have the bits of crk_binary and crk_rms_norm of tensors that are aligned alike.
 *
 * With `columns`, dst also becomes activations of crk_mul_mat_vec_q8_1, as by crk_quantize_columns: crk_columns_bytes
 * bytes, aligned to 4. {NULL, 0} stands for none. Then cols is a multiple of 32, and dtype is not F64.
 *
 * One launch where rows are whole packs of 16 bytes, at most 2048 of them, all tensors are aligned to 16 bytes, and the
 * dtype is not F64; else up to three. */
CRK_API crk_status_t crk_add_rms_norm(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t cols,
                                      crk_const_view_t x, crk_const_view_t residual, crk_const_view_t alpha,
                                      crk_view_t sum, crk_view_t dst, crk_view_t columns, float eps);

/* sum = crk_rms_norm of x by x_alpha, plus residual; dst = crk_rms_norm of sum by alpha. For layers that normalise what
 * they add, such as Gemma's. Each step rounds to the dtype, and both norms have the same `eps`. residual and sum must
 * be given; {NULL, 0} as `x_alpha` stands for ones. The rest is as for crk_add_rms_norm, but with up to four
 * launches. */
CRK_API crk_status_t crk_norm_add_rms_norm(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t cols,
                                           crk_const_view_t x, crk_const_view_t x_alpha, crk_const_view_t residual,
                                           crk_const_view_t alpha, crk_view_t sum, crk_view_t dst, crk_view_t columns,
                                           float eps);

/* dst[i] = (src[i] - m) / sqrt(mean((src - m)^2) + eps) * alpha[i] + beta[i], where m is the row's mean. The variance
 * is the sum of the squared differences, so that nothing cancels. `alpha` and `beta` as `alpha` above; {NULL, 0} as
 * `beta` stands for zeros. */
CRK_API crk_status_t crk_layer_norm(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout,
                                    crk_const_view_t src, crk_const_view_t alpha, crk_const_view_t beta, crk_view_t dst,
                                    float eps);

/* Batch norm with given statistics: dst[b][c][i] = (x[b][c][i] - mean[c]) * s + bias[c], where
 * s = weight[c] / sqrt(var[c] + eps) is computed first. `layout` is that of x and has at least two dims: the batch, the
 * channels, and others, which i counts. mean, var, weight and bias have an element per channel, are contiguous and must
 * not overlap `dst`. {NULL, 0} stands for ones as `weight`, and for zeros as `bias`. eps is rounded to f32 unless dtype
 * is F64. */
CRK_API crk_status_t crk_batch_norm(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout,
                                    crk_const_view_t x, crk_const_view_t mean, crk_const_view_t var,
                                    crk_const_view_t weight, crk_const_view_t bias, crk_view_t dst, double eps);

/* Group norm: dst[b][c][i] = (x[b][c][i] - m) * s + bias[c], where m and v are mean and variance of the elements of the
 * channel's group in image b, and s = weight[c] / sqrt(v + eps). `layout` is that of x and has at least two dims: the
 * batch, the channels, and others, which i counts. The `groups` groups divide the channels. weight and bias have an
 * element per channel, are contiguous and must not overlap `dst`; {NULL, 0} stands for ones and for zeros. With `silu`,
 * dst is silu of that, rounded to the dtype before and after. Statistics are f32, or f64 if dtype is F64; eps is
 * rounded to that type. They are joined in a fixed order, so results repeat bit for bit on a device. At most 2^31 - 1
 * channels.
 *
 * Two launches, or three where groups are long. Scratch memory is 16 bytes per image and channel, and at most 64 KiB
 * more; twice as much for F64. Fails with CRK_OUT_OF_MEMORY, and in a capture with CRK_CAPTURE, if there is no
 * memory for it. */
CRK_API crk_status_t crk_group_norm(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, size_t groups,
                                    bool silu, crk_const_view_t x, crk_const_view_t weight, crk_const_view_t bias,
                                    crk_view_t dst, double eps);

#ifdef __cplusplus
}
#endif
#endif
