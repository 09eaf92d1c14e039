/* The checks that products with quantized weights share. */
#include "launch/product.h"

crk_status_t crk_priv_product_begin(crk_device_t self, crk_product_t *product, const char *where, crk_quant_t quant,
                                    crk_dtype_t dtype, size_t rows, size_t k, size_t columns, crk_const_view_t weights,
                                    crk_const_view_t x, crk_view_t dst) {
  *product = (crk_product_t){.where = where,
                             .quant = quant,
                             .dtype = dtype,
                             .rows = rows,
                             .k = k,
                             .columns = columns,
                             .weights = weights.ptr,
                             .x = x.ptr,
                             .dst = dst.ptr};
  CRK_TRY(crk_priv_quant_get_product(where, quant, &product->info));
  CRK_TRY(crk_priv_activation_index(where, dtype, &product->dtype_index));
  product->dtype_bytes = (uint32_t)crk_dtype_size(dtype);
  CRK_TRY(crk_priv_check_blocks(where, "k", k, product->info));
  CRK_TRY(crk_priv_check_count(where, "k", k));
  size_t x_elements, dst_elements, weight_bytes;
  CRK_TRY(crk_priv_checked_product(where, "elements of x", columns, k, &x_elements));
  CRK_TRY(crk_priv_checked_product(where, "elements of dst", columns, rows, &dst_elements));
  if (dst_elements == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_weights(where, "weights", weights, rows, k, product->info, &weight_bytes));
  CRK_TRY(crk_priv_check_elements(where, "x", x, x_elements, product->dtype_bytes));
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), dst_elements, product->dtype_bytes));
  const size_t x_bytes = x_elements * product->dtype_bytes, dst_bytes = dst_elements * product->dtype_bytes;
  CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, dst_bytes, "weights", weights.ptr, weight_bytes));
  CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, dst_bytes, "x", x.ptr, x_bytes));
  if (k == 0) {
    return crk_memset(self, dst, 0, dst_bytes);
  }
  product->dst_bytes = dst_bytes;
  return CRK_OK;
}

crk_status_t crk_priv_check_vec_columns(const char *where, size_t columns) {
  CRK_REFUSE_IF(columns > CRK_MOST_VEC_COLUMNS, "%s: columns is %zu, at most %d; use crk_mul_mat", where, columns,
                CRK_MOST_VEC_COLUMNS);
  return CRK_OK;
}
