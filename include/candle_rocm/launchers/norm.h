/* candle_rocm/launchers/norm.h: softmax and norms, over each row of the last dim.
 *
 * `layout` is contiguous from its offset on and has at least one dim. Rows may have any length. `dst` is contiguous
 * from the beginning of its view. It may be `src` where the layout's offset is 0, and must not overlap it otherwise.
 * One launch, no scratch memory. dtypes BF16, F16, F32 and F64.
 *
 * bf16, f16 and f32 are computed in f32, f64 in f64, and each result is rounded to the dtype once. This is at least as
 * accurate as the kernels by Candle's names. Those round in between, compute statistics of f64 rows in f32, and add in
 * another order. A row that fits a block (2048 pieces of 16 bytes) is read once; a longer row is read again for each
 * step.
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

/* dst[i] = (src[i] - m) / sqrt(mean((src - m)^2) + eps) * alpha[i] + beta[i], where m is the row's mean. The variance
 * is the sum of the squared differences, so that nothing cancels. `alpha` and `beta` as `alpha` above; {NULL, 0} as
 * `beta` stands for zeros. */
CRK_API crk_status_t crk_layer_norm(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout,
                                    crk_const_view_t src, crk_const_view_t alpha, crk_const_view_t beta, crk_view_t dst,
                                    float eps);

#ifdef __cplusplus
}
#endif
#endif
