/* quantized.h: shared by the launchers of quantized weights: formats, checks, and the quantization of activations. */
#ifndef CRK_QUANTIZED_H
#define CRK_QUANTIZED_H

#include "call/quantized_call.h"
#include "launch/launcher.h"

enum { CRK_Q8_1_BYTES = 36 };

/* k rounded up to a multiple of 512: the length of a padded row of activations. */
#define CRK_Q8_1_PADDED(k) (((k) + 511) / 512 * 512)

typedef struct crk_quant_info {
  const char *name;
  uint32_t index; /* below CRK_QUANT_COUNT */
  uint32_t elements, bytes; /* of a block */
  uint32_t alignment;
} crk_quant_info_t;

/* The description of a format. Fails with CRK_INVALID_ARGUMENT in the public function `where`. */
crk_status_t crk_priv_quant_get(const char *where, crk_quant_t quant, const crk_quant_info_t **info);

/* The same for the weights of a product. Fails with CRK_UNSUPPORTED for q8_K, which has no products. */
crk_status_t crk_priv_quant_get_product(const char *where, crk_quant_t quant, const crk_quant_info_t **info);

/* Fails where the argument `name`, a number of elements, is not a whole number of blocks. */
crk_status_t crk_priv_check_blocks(const char *where, const char *name, size_t elements, const crk_quant_info_t *info);

/* Fails where the argument `name` is 2^31 or more: kernels count it in 32 bits. */
crk_status_t crk_priv_check_count(const char *where, const char *name, size_t count);

/* Fails where the view is smaller than `rows` rows of `elements` elements, each a whole number of blocks, or is not
 * aligned to the format. `bytes` is the size of the rows. */
crk_status_t crk_priv_check_weights(const char *where, const char *name, crk_const_view_t view, size_t rows,
                                    size_t elements, const crk_quant_info_t *info, size_t *bytes);

/* 0, 1 or 2 for F32, F16 or BF16. Fails with CRK_UNSUPPORTED for another dtype. */
crk_status_t crk_priv_activation_index(const char *where, crk_dtype_t dtype, uint32_t *index);

/* The same for an argument that is not named dtype. */
crk_status_t crk_priv_activation_named(const char *where, const char *name, crk_dtype_t dtype, uint32_t *index);

/* *bytes = the bytes of crk_quantize_columns' blocks for columns of `length` elements. Fails where the length, an
 * argument named length_name, is not whole blocks, or where the view `name` is too small or not aligned. */
crk_status_t crk_priv_check_columns(const char *where, const char *name, size_t columns, const char *length_name,
                                    size_t length, crk_view_t blocks, size_t *bytes);

/* Launches crk_quantize_q8_1 for checked arguments. Rows are padded to `padded` elements, a multiple of 32 and at least
 * k. `sums` is CRK_SUM_OF_VALUES, or CRK_SUM_OF_CODES for the launchers' own products (call/quantized_call.h). */
crk_status_t crk_priv_quantize_q8_1(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t k, size_t padded,
                                    uint32_t sums, const void *x, void *dst);

#endif
