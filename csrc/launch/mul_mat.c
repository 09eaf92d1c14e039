/* Products of quantized weights with activations that are not quantized yet. The functions here choose between matvec.c
 * (few columns), matmat.c (more) and matmat_blas.c (more than 64). The first two also have the public functions
 * for activations that the caller has quantized. */
#include "launch/product.h"

static crk_status_t multiply_columns(crk_device_t self, const char *where, crk_quant_t quant, crk_dtype_t dtype,
                                     size_t rows, size_t k, size_t columns, crk_const_view_t weights,
                                     crk_const_view_t x, crk_view_t dst) {
  crk_product_t product;
  CRK_TRY(crk_priv_product_begin(self, &product, where, quant, dtype, rows, k, columns, weights, x, dst));
  if (product.dst_bytes == 0) {
    return CRK_OK;
  }
  if (columns <= CRK_MOST_VEC_COLUMNS) {
    return crk_priv_product_by_vectors(self, &product);
  }
  bool is_done;
  CRK_TRY(crk_priv_product_by_blas(self, &product, &is_done));
  return is_done ? CRK_OK : crk_priv_product_by_tiles(self, &product);
}

crk_status_t crk_mul_mat_vec(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                             size_t columns, crk_const_view_t weights, crk_const_view_t x, crk_view_t dst) {
  static const char where[] = "crk_mul_mat_vec";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(crk_priv_check_vec_columns(where, columns));
  return multiply_columns(self, where, quant, dtype, rows, k, columns, weights, x, dst);
}

crk_status_t crk_mul_mat(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k, size_t columns,
                         crk_const_view_t weights, crk_const_view_t x, crk_view_t dst) {
  static const char where[] = "crk_mul_mat";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  return multiply_columns(self, where, quant, dtype, rows, k, columns, weights, x, dst);
}
