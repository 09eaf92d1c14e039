/* Products with quantized weights: checks, activations in 8 bits. */
#include "product.h"

#include <string.h>

enum { PACK_THREADS = 256, PACK_THREADS_A_BLOCK = 8 /* of 32 elements */ };

/* A prefix of the architecture's name chooses. Those of AMD GPUs follow from their waves and registers, they are not measured. */
static const crk_vec_tuning_t vec_tunings[] = {{"gfx9", 256, 32}, {"gfx", 128, 32}, {"sm_", 128, 32}, {"", 128, 1}};

const crk_vec_tuning_t *crk_priv_vec_tuning(crk_device_t self) {
  const crk_vec_tuning_t *tuning = vec_tunings;
  while (strncmp(self->context->info.architecture, tuning->prefix, strlen(tuning->prefix)) != 0) {
    tuning++;
  }
  return tuning;
}

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

static crk_status_t pack_activations(crk_device_t self, const crk_product_t *product, const void *x, void *packed) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_PRODUCT + product->dtype_index, CRK_MODULE_QUANTIZED_VEC, &function,
                         "pack_activations_%s", crk_dtype_name(product->dtype)));
  uint64_t blocks = (uint64_t)product->inputs * product->k / CRK_Q8_1_BLOCK;
  const uint32_t grid =
      crk_priv_grid_blocks(self, crk_priv_ceil_div(blocks, PACK_THREADS / PACK_THREADS_A_BLOCK), PACK_THREADS);
  uint64_t threads = (uint64_t)grid * PACK_THREADS;
  void *args[] = {&x, &packed, &blocks, &threads};
  return crk_priv_launch_blocks(self, function, (crk_dim3_t){grid, 1, 1}, (crk_dim3_t){PACK_THREADS, 1, 1}, 0, args);
}

crk_status_t crk_priv_scratch_fill(crk_device_t self, const crk_product_t *product, crk_view_t x,
                                   crk_scratch_t *scratch) {
  size_t bytes;
  CRK_TRY(crk_priv_multiply(product->where, "bytes of scratch memory", product->inputs * (product->k / CRK_Q8_1_BLOCK),
                            CRK_Q8_1_BLOCK + 8, &bytes));
  scratch->row_blocks = product->k / product->info->elements;
  CRK_TRY(crk_alloc(self, bytes, &scratch->packed));
  const crk_status_t status = pack_activations(self, product, x.ptr, scratch->packed);
  if (status != CRK_OK) {
    crk_free(self, scratch->packed);
  }
  return status;
}

crk_status_t crk_priv_scratch_free(crk_device_t self, crk_scratch_t *scratch, crk_status_t status) {
  const crk_status_t freed = crk_free(self, scratch->packed);
  return status != CRK_OK ? status : freed;
}
