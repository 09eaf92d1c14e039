/* matmul.h: shared by the launchers of matrix products: matmul.c, matmul_wide.c, matmat.c and conv_cores.c. */
#ifndef CRK_LAUNCH_MATMUL_H
#define CRK_LAUNCH_MATMUL_H

#include "call/matmul_call.h"
#include "launch/sliding.h"

/* Numbers the tiles of a matrix: `across` tiles along n, `down` tiles along m. `wide` as for crk_priv_divisor_init. */
void crk_priv_matmul_tiles_init(crk_matmul_t *call, uint64_t across, uint64_t down, bool wide);

/* Adds up parts in scratch memory and stores the `count` totals in dst. Each part has `count` sums, and the parts
 * follow each other. The sums are f32, or f64 for f64. */
crk_status_t crk_priv_matmul_add_parts(crk_device_t self, crk_dtype_t dtype, void *sums, uint64_t parts, uint64_t count,
                                       void *dst);

/* Whether the kernels of matmul_wide.h take the product of a row with `count` matrices. Its x, k and matrices are set;
 * all are contiguous along k. */
bool crk_priv_wide_fits(crk_device_t self, const crk_wide_product_t *product, uint32_t count, uint32_t element_bytes);

/* Multiplies the matrices of a product that fits. Fills in how blocks share the work. */
crk_status_t crk_priv_wide_multiply(crk_device_t self, crk_dtype_t dtype, crk_wide_product_t *product, uint32_t count);

#endif
