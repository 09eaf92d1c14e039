/* Launchers of mixtures of experts. */
#include "product.h"

enum { MOE_ROWS = 2 /* a group */, MOST_GRID_Y = 65535 };

static crk_status_t launch_moe(crk_device_t self, const crk_product_t *product, const crk_scratch_t *scratch,
                               size_t experts, size_t batch, size_t topk, size_t inputs, const void *weights,
                               const void *ids, void *dst) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MOE + product->info->index, CRK_MODULE_MOE, &function, "indexed_moe_%s",
                         product->info->name));
  crk_fault_t fault;
  CRK_TRY(crk_priv_fault_get(self, CRK_FAULT_INDEXED_MOE, &fault));
  const uint32_t threads = crk_priv_vec_tuning(self)->threads;
  const uint64_t groups_a_block = threads / CRK_GROUP_THREADS, most = self->context->info.max_grid_threads / threads;
  crk_dim3_t grid = {crk_priv_grid_blocks(self, crk_priv_ceil_div(product->rows, groups_a_block * MOE_ROWS), threads),
                     1, 1};
  const uint64_t most_y = most / grid.x < MOST_GRID_Y ? most / grid.x : MOST_GRID_Y;
  grid.y = batch < most_y ? (uint32_t)batch : (uint32_t)most_y;
  const uint64_t most_z = most / grid.x / grid.y < MOST_GRID_Y ? most / grid.x / grid.y : MOST_GRID_Y;
  grid.z = topk < most_z ? (uint32_t)topk : (uint32_t)most_z;
  uint64_t expert_count = experts, rows = product->rows, row_blocks = scratch->row_blocks, batches = batch;
  uint64_t choices = topk, input_count = inputs, groups = grid.x * groups_a_block;
  uint32_t dtype = product->dtype_index;
  const void *packed = scratch->packed;
  void *args[] = {&weights, &packed,  &ids,         &dst,    &dtype,  &expert_count, &rows, &row_blocks,
                  &batches, &choices, &input_count, &groups, &grid.y, &grid.z,       &fault};
  return crk_priv_launch_blocks(self, function, grid, (crk_dim3_t){threads, 1, 1}, 0, args);
}

crk_status_t crk_indexed_moe(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t experts, size_t rows,
                             size_t k, size_t batch, size_t topk, size_t inputs, crk_view_t weights, crk_view_t x,
                             crk_view_t ids, crk_view_t dst) {
  static const char where[] = "crk_indexed_moe";
  CRK_CHECK_HANDLE(self, DEVICE, "crk_indexed_moe");
  CRK_REFUSE_IF(inputs != 1 && inputs != topk, "%s: inputs is %zu, it must be 1 or topk, which is %zu", where, inputs,
                topk);
  size_t tasks, input_rows;
  CRK_TRY(crk_priv_multiply(where, "ids", batch, topk, &tasks));
  CRK_TRY(crk_priv_multiply(where, "rows of x", batch, inputs, &input_rows));
  crk_product_t product;
  CRK_TRY(crk_priv_product_check(&product, where, quant, dtype, experts, rows, k, input_rows, tasks, weights, x, dst));
  if (product.dst_bytes == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_elements(where, "ids", ids, tasks, sizeof(uint32_t)));
  CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, product.dst_bytes, "ids", ids.ptr, tasks * sizeof(uint32_t)));
  if (k == 0) {
    return crk_memset(self, dst, 0, product.dst_bytes);
  }
  crk_scratch_t scratch;
  CRK_TRY(crk_priv_scratch_fill(self, &product, x, &scratch));
  const crk_status_t status =
      launch_moe(self, &product, &scratch, experts, batch, topk, inputs, weights.ptr, ids.ptr, dst.ptr);
  return crk_priv_scratch_free(self, &scratch, status);
}
