/* Products of quantized weights with more than 64 columns, on NVIDIA GPUs: weights and activations become bf16, and the
 * BLAS library multiplies. Both roundings together are a third of those of activations in 8 bits. */
#include "blas/blas.h"
#include "launch/product.h"

/* The weights are written and read once more, whatever the number of columns. That pays from LEAST_COLUMNS on: a
 * product that needs more than one tile of 64 columns takes twice as long (docs/matmul.md). With fewer than
 * LEAST_WEIGHTS weights, the launches take longer than the product.
 *
 * Weights take scratch memory: MOST_BYTES of numbers at a time. */
enum { LEAST_COLUMNS = 65, LEAST_WEIGHTS = 1 << 22, MOST_BYTES = 256 << 20 };

static bool is_for_blas(crk_device_t self, const crk_product_t *product) {
  return self->driver->backend == CRK_BACKEND_CUDA && product->columns >= LEAST_COLUMNS &&
         product->columns <= INT32_MAX && product->rows <= INT32_MAX && product->k <= MOST_BYTES / 2 &&
         product->rows >= LEAST_WEIGHTS / product->k && crk_priv_blas_is_ready(self);
}

/* Scratch memory of a product; NULL where it needs none. */
typedef struct scratch {
  void *x; /* the activations in bf16, if they are in another type */
  void *weights; /* some rows in bf16 */
  void *dst; /* dst in f32, if its type is f16 */
} scratch_t;

/* Returns false where the memory lacks. */
static bool take_scratch(crk_device_t self, const crk_product_t *product, size_t at_once, scratch_t *scratch) {
  return (product->dtype == CRK_DTYPE_BF16 ||
          crk_priv_alloc_spare(self, product->columns * product->k * 2, &scratch->x)) &&
         (product->dtype != CRK_DTYPE_F16 ||
          crk_priv_alloc_spare(self, product->columns * product->rows * 4, &scratch->dst)) &&
         crk_priv_alloc_spare(self, at_once * product->k * 2, &scratch->weights);
}

static crk_status_t give_scratch(crk_device_t self, crk_status_t status, const scratch_t *scratch) {
  status = crk_priv_free_after(self, status, scratch->x);
  status = crk_priv_free_after(self, status, scratch->dst);
  return crk_priv_free_after(self, status, scratch->weights);
}

static crk_status_t cast(crk_device_t self, crk_dtype_t from, crk_dtype_t to, size_t count, const void *src,
                         void *dst) {
  const crk_layout_t layout = {.rank = 1, .dims = {count}, .strides = {1}};
  return crk_cast(self, from, to, &layout, (crk_const_view_t){src, count * crk_dtype_size(from)},
                  (crk_view_t){dst, count * crk_dtype_size(to)});
}

/* Makes `at_once` rows of dst after the other. is_done stays false if the library refuses a product. */
static crk_status_t multiply_parts(crk_device_t self, const crk_product_t *product, size_t at_once,
                                   const scratch_t *scratch, bool *is_done) {
  const crk_quant_info_t *info = product->info;
  const size_t k = product->k, row_bytes = k / info->elements * info->bytes;
  const bool is_wide = product->dtype != CRK_DTYPE_BF16;
  char *dst = scratch->dst != NULL ? scratch->dst : product->dst;
  crk_gemm_t gemm = {.dtype = CRK_DTYPE_BF16,
                     .is_wide = is_wide,
                     .m = (int32_t)product->columns,
                     .k = (int32_t)k,
                     .batch = 1,
                     .lhs = {.first = is_wide ? scratch->x : product->x, .along_k = true, .leading = k},
                     .rhs = {.first = scratch->weights, .along_k = true, .leading = k},
                     .dst_leading = product->rows};
  for (size_t row = 0; row < product->rows; row += at_once) {
    const size_t rows = crk_priv_least(at_once, product->rows - row);
    const crk_const_view_t part = {(const char *)product->weights + row * row_bytes, rows * row_bytes};
    const crk_view_t numbers = {scratch->weights, rows * k * 2};
    CRK_TRY(crk_dequantize(self, product->quant, CRK_DTYPE_BF16, rows * k, part, numbers));
    gemm.n = (int32_t)rows;
    gemm.dst = dst + row * (is_wide ? 4 : 2);
    if (!crk_priv_blas_multiply(self, &gemm)) {
      return CRK_OK;
    }
  }
  *is_done = true;
  return CRK_OK;
}

static crk_status_t multiply(crk_device_t self, const crk_product_t *product, size_t at_once, const scratch_t *scratch,
                             bool *is_done) {
  const size_t inputs = product->columns * product->k, results = product->columns * product->rows;
  if (scratch->x != NULL) {
    CRK_TRY(cast(self, product->dtype, CRK_DTYPE_BF16, inputs, product->x, scratch->x));
  }
  CRK_TRY(multiply_parts(self, product, at_once, scratch, is_done));
  if (*is_done && scratch->dst != NULL) {
    CRK_TRY(cast(self, CRK_DTYPE_F32, product->dtype, results, scratch->dst, product->dst));
  }
  return *is_done ? crk_priv_operation(self, product->where, CRK_OK) : CRK_OK;
}

crk_status_t crk_priv_product_by_blas(crk_device_t self, const crk_product_t *product, bool *is_done) {
  *is_done = false;
  if (!is_for_blas(self, product)) {
    return CRK_OK;
  }
  const size_t most = MOST_BYTES / 2 / product->k;
  const size_t at_once = crk_priv_ceil_div(product->rows, crk_priv_ceil_div(product->rows, most));
  scratch_t scratch = {NULL, NULL, NULL};
  const bool has_scratch = take_scratch(self, product, at_once, &scratch);
  return give_scratch(self, has_scratch ? multiply(self, product, at_once, &scratch, is_done) : CRK_OK, &scratch);
}
