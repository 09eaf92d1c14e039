/* Launches of products with quantized weights and of rotary embeddings (kernels/quantized/matvec_rope.h). */
#include "launch/heads.h"
#include "launch/product.h"

_Static_assert(2 * (int)CRK_QUANT_COUNT == CRK_SLOTS_OF(ROPE_MAT_VEC), "as the list of slots counts");

/* Divides the pairs among blocks, and returns the number of blocks. If neighbours are not pairs, a tile ends where half
 * of a head ends. The number of a block's pairs then divides that of a head. So no block gets an additional tile. */
static uint32_t divide_pairs(crk_device_t self, crk_function_t function, const crk_heads_t *heads,
                             crk_vec_product_t *product) {
  if (heads->kind == CRK_ROPE_KIND_ROPE_I) {
    return crk_priv_divide_rows(self, function, 1, 2, product);
  }
  crk_vec_product_t of_rows = *product;
  of_rows.rows *= 2;
  const uint32_t half = (uint32_t)(heads->d / 2), blocks = crk_priv_divide_rows(self, function, 1, 2, &of_rows);
  uint32_t pairs = (uint32_t)crk_priv_least(half, crk_priv_ceil_div(product->rows, blocks));
  while (half % pairs != 0) {
    pairs++;
  }
  product->block_rows = pairs;
  product->larger = 0;
  return (uint32_t)(product->rows / pairs);
}

crk_status_t crk_mul_mat_vec_rope(crk_device_t self, crk_quant_t quant, crk_rope_kind_t kind, size_t d, size_t k,
                                  const crk_head_weights_t *parts, size_t count, crk_const_view_t x,
                                  crk_const_view_t cos, crk_const_view_t sin) {
  static const char where[] = "crk_mul_mat_vec_rope";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  crk_heads_t heads = {.where = where,
                       .dtype = CRK_DTYPE_F32,
                       .kind = kind,
                       .d = d,
                       .parts = parts,
                       .count = count,
                       .x = x,
                       .cos = cos,
                       .sin = sin};
  const crk_quant_info_t *info;
  CRK_TRY(crk_priv_quant_get_product(where, quant, &info));
  CRK_TRY(crk_priv_check_blocks(where, "k", k, info));
  CRK_TRY(crk_priv_check_count(where, "k", k));
  CRK_REFUSE_IF(k == 0, "%s: k is 0", where);
  CRK_TRY(crk_priv_heads_check(&heads));
  CRK_TRY(crk_priv_checked_product(where, "bytes of x", k / CRK_Q8_1_BLOCK, CRK_Q8_1_BYTES, &heads.x_bytes));
  CRK_TRY(crk_priv_check_elements(where, "x", x, heads.x_bytes / 4, 4));
  const uint64_t rows_of_pair = kind == CRK_ROPE_KIND_ROPE_I ? 2 : 1;
  crk_vec_rope_t call = {.product = {.x = x.ptr, .columns = 1, .row_blocks = (uint32_t)(k / info->elements)}};
  crk_vec_product_t *product = &call.product;
  for (size_t i = 0; i < CRK_VEC_PARTS; i++) {
    if (i < count) {
      if (parts[i].heads != 0) {
        CRK_TRY(crk_priv_check_weights(where, crk_priv_head_names[i].weights, parts[i].weights, parts[i].heads * d, k,
                                       info, &heads.weights_bytes[i]));
      }
      heads.weights[i] = parts[i].weights.ptr;
      product->rows += crk_priv_head_pairs(&heads, i) * rows_of_pair;
      product->parts[i] = (crk_vec_part_t){parts[i].weights.ptr, parts[i].dst.ptr, product->rows, 0, parts[i].bias.ptr};
    } else {
      product->parts[i] = (crk_vec_part_t){.end = product->rows};
    }
  }
  CRK_TRY(crk_priv_heads_check_apart(&heads));
  if (product->rows == 0) {
    return CRK_OK;
  }
  call.heads = crk_priv_heads_args(&heads);
  crk_function_t function;
  const char *root = kind == CRK_ROPE_KIND_ROPE_I ? "rope_i" : "rope";
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_ROPE_MAT_VEC + (rows_of_pair - 1) * CRK_QUANT_COUNT + info->index,
                         CRK_MODULE_QUANTIZED_VEC, &function, "%s_mat_vec_%s", root, info->name));
  const crk_dim3_t grid = {divide_pairs(self, function, &heads, product), 1, 1};
  const crk_dim3_t block = {CRK_VEC_WAVES * self->context->info.wave_size, 1, 1};
  const void *args[] = {&call};
  return crk_priv_launch_blocks(self, function, grid, block, 0, args);
}
