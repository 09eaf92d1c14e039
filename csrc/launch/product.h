/* product.h: what the launchers of products with quantized weights share: checks, the number of blocks. */
#ifndef CRK_PRODUCT_H
#define CRK_PRODUCT_H

#include "call/quantized_call.h"
#include "launch/quantized.h"

/* A product that was checked. */
typedef struct crk_product {
  const char *where;
  const crk_quant_info_t *info;
  crk_dtype_t dtype;
  uint32_t dtype_index, dtype_bytes;
  size_t rows, k; /* of the weights, of one expert's */
  size_t inputs; /* rows of activations */
  size_t weight_bytes, input_bytes, dst_bytes;
} crk_product_t;

/* What a format is that has an integer product. Fails with CRK_UNSUPPORTED for one that has none. */
crk_status_t crk_priv_product_format(const char *where, crk_quant_t quant, const crk_quant_info_t **info);

/* Checks `experts` matrices of `rows` rows, `inputs` rows of x and `outputs` rows of dst, all contiguous. Nothing but the
 * arguments is set where dst is empty: dst_bytes is 0 then. */
crk_status_t crk_priv_product_check(crk_product_t *product, const char *where, crk_quant_t quant, crk_dtype_t dtype,
                                    size_t experts, size_t rows, size_t k, size_t inputs, size_t outputs,
                                    crk_view_t weights, crk_view_t x, crk_view_t dst);

enum { CRK_GROUP_THREADS = 32 /* that have rows of their own, by expert */ };

/* Deals a product's rows to blocks, of CRK_VEC_WAVES waves, of a kernel: no more than the GPU holds at once of so many products,
 * but one of each at least. Returns how many. The product's rows and columns are set. */
uint32_t crk_priv_vec_deal(crk_device_t self, crk_function_t function, uint64_t products, crk_vec_product_t *product);

/* The product of what was checked, not empty and of at most CRK_MOST_VEC_COLUMNS columns. */
enum { CRK_MOST_VEC_COLUMNS = 8 };
crk_status_t crk_priv_mul_mat_vec(crk_device_t self, const crk_product_t *product, const void *weights, const void *x,
                                  void *dst);

/* crk_mul_mat for the public function `where`. */
crk_status_t crk_priv_multiply_columns(crk_device_t self, const char *where, crk_quant_t quant, crk_dtype_t dtype,
                                       size_t rows, size_t k, size_t columns, crk_view_t weights, crk_view_t x,
                                       crk_view_t dst);

#endif
