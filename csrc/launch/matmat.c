/* Launchers of products with quantized weights in integers: matrix times matrix. */
#include "product.h"

enum {
  TILE_ROWS = 128, /* as in kernels/common/matmat.h */
  TILE_COLUMNS = 64,
  TILE_THREADS = 128,
  MOST_GRID_Y = 65535
};

static crk_status_t launch_tiles(crk_device_t self, const crk_product_t *product, const crk_scratch_t *scratch,
                                 const void *weights, void *dst) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MATMAT + product->info->index, CRK_MODULE_QUANTIZED_MAT, &function,
                         "mul_mat_%s_tiles", product->info->name));
  uint64_t rows = product->rows, row_blocks = scratch->row_blocks, columns = product->inputs;
  const uint64_t tiles = crk_priv_ceil_div(rows, TILE_ROWS);
  CRK_REFUSE_IF(tiles > self->context->info.max_grid_threads / TILE_THREADS || tiles > INT32_MAX,
                "%s: rows is %zu, more than a grid has tiles for", product->where, product->rows);
  const uint64_t across = crk_priv_ceil_div(columns, TILE_COLUMNS);
  const uint64_t most = self->context->info.max_grid_threads / TILE_THREADS / tiles;
  const uint64_t within = across < most ? across : most;
  uint32_t dtype = product->dtype_index, blocks_y = within < MOST_GRID_Y ? (uint32_t)within : MOST_GRID_Y;
  const crk_dim3_t grid = {(uint32_t)tiles, blocks_y, 1};
  const void *packed = scratch->packed;
  void *args[] = {&weights, &packed, &dst, &dtype, &rows, &row_blocks, &columns, &blocks_y};
  return crk_priv_launch_blocks(self, function, grid, (crk_dim3_t){TILE_THREADS, 1, 1}, 0, args);
}

crk_status_t crk_priv_multiply_columns(crk_device_t self, const char *where, crk_quant_t quant, crk_dtype_t dtype,
                                       size_t rows, size_t k, size_t columns, crk_view_t weights, crk_view_t x,
                                       crk_view_t dst) {
  crk_product_t product;
  CRK_TRY(crk_priv_product_check(&product, where, quant, dtype, 1, rows, k, columns, columns, weights, x, dst));
  if (product.dst_bytes == 0) {
    return CRK_OK;
  }
  if (k == 0) {
    return crk_memset(self, dst, 0, product.dst_bytes);
  }
  crk_scratch_t scratch;
  CRK_TRY(crk_priv_scratch_fill(self, &product, x, &scratch));
  const crk_status_t status = columns <= CRK_MOST_VEC_COLUMNS
                                  ? crk_priv_launch_vec(self, &product, &scratch, weights.ptr, dst.ptr)
                                  : launch_tiles(self, &product, &scratch, weights.ptr, dst.ptr);
  return crk_priv_scratch_free(self, &scratch, status);
}

crk_status_t crk_mul_mat(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k, size_t columns,
                         crk_view_t weights, crk_view_t x, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_mul_mat");
  return crk_priv_multiply_columns(self, "crk_mul_mat", quant, dtype, rows, k, columns, weights, x, dst);
}
