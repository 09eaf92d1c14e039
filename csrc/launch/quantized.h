/* quantized.h: what the launchers of quantized weights share: formats and their checks. */
#ifndef CRK_QUANTIZED_H
#define CRK_QUANTIZED_H

#include "launch/launcher.h"

enum { CRK_QUANT_COUNT = 0 CRK_QUANT_MAP(CRK_COUNT_ONE), CRK_Q8_1_BLOCK = 32, CRK_Q8_1_BYTES = 36 };

/* Rows of activations are padded to a multiple of this. */
#define CRK_Q8_1_PADDED(k) (((k) + 511) / 512 * 512)

typedef struct crk_quant_info {
  const char *name;
  uint32_t index; /* below CRK_QUANT_COUNT */
  uint32_t elements, bytes; /* of a block */
  uint32_t alignment;
} crk_quant_info_t;

/* What a format is. Fails with CRK_INVALID_ARGUMENT in the public function `where`. */
crk_status_t crk_priv_quant_get(const char *where, crk_quant_t quant, const crk_quant_info_t **info);

/* Fails where `elements`, an argument of that name, is not a whole number of blocks. */
crk_status_t crk_priv_check_blocks(const char *where, const char *name, size_t elements, const crk_quant_info_t *info);

/* Fails where a view does not hold `rows` rows of `elements` elements, a whole number of blocks, or is not aligned to the format;
 * `bytes` is what it needs. */
crk_status_t crk_priv_check_weights(const char *where, const char *name, crk_view_t view, size_t rows, size_t elements,
                                    const crk_quant_info_t *info, size_t *bytes);

/* The place of F32, F16 and BF16 among them, and a dtype's size. Fails with CRK_UNSUPPORTED for another dtype. */
enum { CRK_ACTIVATIONS = 3 };
crk_status_t crk_priv_activation_index(const char *where, crk_dtype_t dtype, uint32_t *index);

/* a * b. Fails with CRK_OUT_OF_BOUNDS where that is beyond size_t; `what` it counts. */
crk_status_t crk_priv_multiply(const char *where, const char *what, size_t a, size_t b, size_t *product);

/* crk_quantize_q8_1 of what was checked, rows padded to `padded` elements, a multiple of 32 that is at least k. */
crk_status_t crk_priv_quantize_q8_1_padded(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t k, size_t padded,
                                           const void *x, void *dst);

/* The same, padded to a multiple of 512. */
crk_status_t crk_priv_quantize_q8_1(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t k, const void *x,
                                    void *dst);

#endif
