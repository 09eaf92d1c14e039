/* mmq.h: activations in mmq blocks, for launchers that have checked their arguments. */
#ifndef CRK_LAUNCH_MMQ_H
#define CRK_LAUNCH_MMQ_H

#include "launch/quantized.h"

#include "call/mmq_call.h"

/* As crk_mmq_of_quant, for the public function `where`; also gives the format's description. */
crk_status_t crk_priv_mmq_of_quant(const char *where, crk_quant_t quant, const crk_quant_info_t **info,
                                   crk_mmq_t *layout);

/* Rounds k up to whole mmq blocks. Fails where that is beyond size_t. */
crk_status_t crk_priv_mmq_padded(const char *where, size_t k, size_t *padded);

/* Launches crk_quantize_mmq for checked arguments. Ids below x_rows name rows of x. `sums` is CRK_SUM_OF_VALUES, or
 * CRK_SUM_OF_CODES for the launchers' own products (call/quantized_call.h). */
crk_status_t crk_priv_quantize_mmq(crk_device_t self, crk_mmq_t layout, crk_dtype_t dtype, const crk_mmq_rows_t *rows,
                                   size_t x_rows, uint32_t sums, const void *x, const void *ids, void *dst);

#endif
