/* Launchers of norms for other parts of the core. */
#ifndef CRK_LAUNCH_NORM_H
#define CRK_LAUNCH_NORM_H

#include "core.h"

/* crk_add_rms_norm of x + y, rounded to the dtype: the same bits, in one launch where crk_add_rms_norm is one. All views
 * are given. `where` is the public function. */
crk_status_t crk_priv_add_add_rms_norm(crk_device_t self, const char *where, crk_dtype_t dtype, size_t rows,
                                       size_t cols, crk_const_view_t x, crk_const_view_t y, crk_const_view_t residual,
                                       crk_const_view_t alpha, crk_view_t sum, crk_view_t dst, float eps);

/* Loads its kernels for a dtype. */
crk_status_t crk_priv_add_add_rms_norm_load(crk_device_t self, const char *where, crk_dtype_t dtype);

#endif
