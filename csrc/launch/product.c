/* Products with quantized weights: checks. */
#include "launch/product.h"

crk_status_t crk_priv_product_format(const char *where, crk_quant_t quant, const crk_quant_info_t **info) {
  CRK_TRY(crk_priv_quant_get(where, quant, info));
  if (quant == CRK_QUANT_Q8_K) {
    return crk_priv_error(CRK_UNSUPPORTED, "%s: quant is %s, which has no integer product", where, (*info)->name);
  }
  return CRK_OK;
}

crk_status_t crk_priv_product_check(crk_product_t *product, const char *where, crk_quant_t quant, crk_dtype_t dtype,
                                    size_t experts, size_t rows, size_t k, size_t inputs, size_t outputs,
                                    crk_view_t weights, crk_view_t x, crk_view_t dst) {
  *product = (crk_product_t){.where = where, .dtype = dtype, .rows = rows, .k = k, .inputs = inputs};
  CRK_TRY(crk_priv_product_format(where, quant, &product->info));
  CRK_TRY(crk_priv_activation_index(where, dtype, &product->dtype_index));
  product->dtype_bytes = (uint32_t)crk_dtype_size(dtype);
  CRK_TRY(crk_priv_check_blocks(where, "k", k, product->info));
  CRK_REFUSE_IF(k > INT32_MAX, "%s: k is %zu, at most %d", where, k, INT32_MAX);
  size_t all_rows, x_elements, dst_elements;
  CRK_TRY(crk_priv_multiply(where, "rows", experts, rows, &all_rows));
  CRK_TRY(crk_priv_multiply(where, "elements of x", inputs, k, &x_elements));
  CRK_TRY(crk_priv_multiply(where, "elements of dst", outputs, rows, &dst_elements));
  if (dst_elements == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_weights(where, "weights", weights, all_rows, k, product->info, &product->weight_bytes));
  CRK_TRY(crk_priv_check_elements(where, "x", x, x_elements, product->dtype_bytes));
  CRK_TRY(crk_priv_check_elements(where, "dst", dst, dst_elements, product->dtype_bytes));
  product->input_bytes = x_elements * product->dtype_bytes;
  product->dst_bytes = dst_elements * product->dtype_bytes;
  CRK_TRY(
      crk_priv_check_apart(where, "dst", dst.ptr, product->dst_bytes, "weights", weights.ptr, product->weight_bytes));
  return crk_priv_check_apart(where, "dst", dst.ptr, product->dst_bytes, "x", x.ptr, product->input_bytes);
}
