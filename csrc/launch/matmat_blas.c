/* Products of quantized weights with very many columns, on NVIDIA GPUs: weights and activations become bf16, and the BLAS
 * library multiplies. Both roundings together are a third of those of activations in 8 bits. */
#include "blas/blas.h"
#include "launch/product.h"

/* The weights are written and read once more, whatever the number of columns: that pays from some LEAST_COLUMNS on. On
 * an H100 with 14336 x 4096 weights, the tiles of matmat.c make 200 Top/s, cuBLAS 600, and the weights' numbers take the
 * time of 100 columns in tiles. Of few weights the launches take longer than the product.
 *
 * Weights take scratch memory: MOST_BYTES of numbers at a time. */
enum { LEAST_COLUMNS = 192, LEAST_WEIGHTS = 1 << 22, MOST_BYTES = 256 << 20 };

static bool is_for_blas(crk_device_t self, const crk_product_t *product) {
  return self->driver->backend == CRK_BACKEND_CUDA && product->dtype != CRK_DTYPE_F16 &&
         product->columns >= LEAST_COLUMNS && product->columns <= INT32_MAX && product->rows <= INT32_MAX &&
         product->k <= MOST_BYTES / 2 && product->rows >= LEAST_WEIGHTS / product->k && crk_priv_blas_is_ready(self);
}

/* The activations in bf16; allocates `*converted` for them if they are f32. */
static crk_status_t convert_activations(crk_device_t self, const crk_product_t *product, const void **x,
                                        void **converted) {
  *x = product->x;
  if (product->dtype == CRK_DTYPE_BF16) {
    return CRK_OK;
  }
  const size_t count = product->columns * product->k;
  const crk_layout_t layout = {.rank = 1, .dims = {count}, .strides = {1}};
  CRK_TRY(crk_alloc(self, count * 2, converted));
  *x = *converted;
  return crk_cast(self, product->dtype, CRK_DTYPE_BF16, &layout, (crk_const_view_t){product->x, count * 4},
                  (crk_view_t){*converted, count * 2});
}

/* Makes `at_once` rows of dst after the other. `weights` is scratch memory for their numbers. */
static bool multiply_parts(crk_device_t self, const crk_product_t *product, size_t at_once, const void *x,
                           void *weights) {
  const crk_quant_info_t *info = product->info;
  const size_t k = product->k, row_bytes = k / info->elements * info->bytes;
  crk_gemm_t gemm = {.dtype = CRK_DTYPE_BF16,
                     .is_wide = product->dtype == CRK_DTYPE_F32,
                     .m = (int32_t)product->columns,
                     .k = (int32_t)k,
                     .batch = 1,
                     .lhs = {.first = x, .along_k = true, .leading = k},
                     .rhs = {.first = weights, .along_k = true, .leading = k},
                     .dst_leading = product->rows};
  for (size_t row = 0; row < product->rows; row += at_once) {
    const size_t rows = crk_priv_least(at_once, product->rows - row);
    const crk_const_view_t part = {(const char *)product->weights + row * row_bytes, rows * row_bytes};
    if (crk_dequantize(self, product->quant, CRK_DTYPE_BF16, rows * k, part, (crk_view_t){weights, rows * k * 2}) !=
        CRK_OK) {
      return false;
    }
    gemm.n = (int32_t)rows;
    gemm.dst = (char *)product->dst + row * product->dtype_bytes;
    if (!crk_priv_blas_multiply(self, &gemm)) {
      return false;
    }
  }
  return true;
}

bool crk_priv_product_by_blas(crk_device_t self, const crk_product_t *product) {
  if (!is_for_blas(self, product)) {
    return false;
  }
  const size_t most = MOST_BYTES / 2 / product->k;
  const size_t at_once = crk_priv_ceil_div(product->rows, crk_priv_ceil_div(product->rows, most));
  const void *x;
  void *converted = NULL, *weights = NULL;
  bool done = convert_activations(self, product, &x, &converted) == CRK_OK &&
              crk_alloc(self, at_once * product->k * 2, &weights) == CRK_OK &&
              multiply_parts(self, product, at_once, x, weights) &&
              crk_priv_operation(self, product->where, CRK_OK) == CRK_OK;
  done = crk_free(self, converted) == CRK_OK && done;
  return crk_free(self, weights) == CRK_OK && done;
}
