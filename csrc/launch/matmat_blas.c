/* Products of quantized weights with very many columns, on NVIDIA GPUs: weights and activations become bf16, and the
 * BLAS library multiplies. Both roundings together are a third of those of activations in 8 bits. */
#include "blas/blas.h"
#include "launch/product.h"

/* The weights are written and read once more, whatever the number of columns. That pays from LEAST_COLUMNS on: a product
 * that needs more than one tile of 64 columns takes twice as long (docs/matmul.md). With fewer than LEAST_WEIGHTS
 * weights, the launches take longer than the product.
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

static crk_status_t take_scratch(crk_device_t self, const crk_product_t *product, size_t at_once, scratch_t *scratch) {
  if (product->dtype != CRK_DTYPE_BF16) {
    CRK_TRY(crk_alloc(self, product->columns * product->k * 2, &scratch->x));
  }
  if (product->dtype == CRK_DTYPE_F16) {
    CRK_TRY(crk_alloc(self, product->columns * product->rows * 4, &scratch->dst));
  }
  return crk_alloc(self, at_once * product->k * 2, &scratch->weights);
}

static bool give_scratch(crk_device_t self, const scratch_t *scratch) {
  bool done = crk_free(self, scratch->x) == CRK_OK;
  done = crk_free(self, scratch->dst) == CRK_OK && done;
  return crk_free(self, scratch->weights) == CRK_OK && done;
}

static bool cast(crk_device_t self, crk_dtype_t from, crk_dtype_t to, size_t count, const void *src, void *dst) {
  const crk_layout_t layout = {.rank = 1, .dims = {count}, .strides = {1}};
  return crk_cast(self, from, to, &layout, (crk_const_view_t){src, count * crk_dtype_size(from)},
                  (crk_view_t){dst, count * crk_dtype_size(to)}) == CRK_OK;
}

/* Makes `at_once` rows of dst after the other. */
static bool multiply_parts(crk_device_t self, const crk_product_t *product, size_t at_once, const scratch_t *scratch) {
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
    if (crk_dequantize(self, product->quant, CRK_DTYPE_BF16, rows * k, part, numbers) != CRK_OK) {
      return false;
    }
    gemm.n = (int32_t)rows;
    gemm.dst = dst + row * (is_wide ? 4 : 2);
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
  scratch_t scratch = {NULL, NULL, NULL};
  bool done = take_scratch(self, product, at_once, &scratch) == CRK_OK &&
              (scratch.x == NULL ||
               cast(self, product->dtype, CRK_DTYPE_BF16, product->columns * product->k, product->x, scratch.x)) &&
              multiply_parts(self, product, at_once, &scratch) &&
              (scratch.dst == NULL || cast(self, CRK_DTYPE_F32, product->dtype, product->columns * product->rows,
                                           scratch.dst, product->dst)) &&
              crk_priv_operation(self, product->where, CRK_OK) == CRK_OK;
  return give_scratch(self, &scratch) && done;
}
