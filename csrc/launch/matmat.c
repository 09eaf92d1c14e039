/* Launchers of products with quantized weights in integers: matrix times matrix. */
#include "launch/mmq.h"
#include "launch/product.h"

/* The tiles that there are kernels of, the largest first: from WIDE_TILES on everywhere, all of them with CUDA. */
typedef struct tile {
  uint32_t rows, columns;
} tile_t;
static const tile_t tiles[] = {
#define XX(rows, columns, ...) {rows, columns},
    CRK_MMQ_WIDE_TILES(XX, ) CRK_MMQ_TILES(XX, )
#undef XX
};
enum {
  TILES = sizeof(tiles) / sizeof(*tiles),
  WIDE_TILES = 0 CRK_MMQ_WIDE_TILES(CRK_COUNT_ONE, ),
  MOST_GRID_Y = 65535
};
_Static_assert((int)TILES *(int)CRK_QUANT_COUNT <= 128, "the other slots are mmq.c's");

static uint64_t tiles_of(const tile_t *tile, uint64_t rows, uint64_t columns) {
  return crk_priv_ceil_div(rows, tile->rows) * crk_priv_ceil_div(columns, tile->columns);
}

/* The largest tile that the columns fill more of than of the next one, and of which every other unit has one. */
static uint32_t choose_tile(crk_device_t self, uint64_t rows, uint64_t columns) {
  uint32_t choice = self->driver->backend == CRK_BACKEND_CUDA ? 0 : WIDE_TILES;
  while (choice + 1 < TILES &&
         (columns <= tiles[choice + 1].columns || tiles_of(&tiles[choice], rows, columns) < crk_priv_units(self) / 2)) {
    choice++;
  }
  return choice;
}

static crk_status_t launch_tiles(crk_device_t self, const crk_quant_info_t *info, const crk_mmq_product_t *product,
                                 const void *weights, const void *y, void *dst) {
  const uint32_t choice = choose_tile(self, product->rows, product->columns);
  const tile_t *tile = &tiles[choice];
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MATMAT + info->index * TILES + choice, CRK_MODULE_QUANTIZED_MAT, &function,
                         "mul_mat_%s_%ux%u_tiles", info->name, (unsigned)tile->rows, (unsigned)tile->columns));
  const uint64_t most = self->context->info.max_grid_threads / CRK_MMQ_THREADS;
  crk_mmq_product_t shape = *product;
  shape.blocks_x = crk_priv_grid_blocks(self, crk_priv_ceil_div(product->columns, tile->columns), CRK_MMQ_THREADS);
  shape.blocks_y = (uint32_t)crk_priv_least(crk_priv_ceil_div(product->rows, tile->rows),
                                            crk_priv_least(most / shape.blocks_x, MOST_GRID_Y));
  void *args[] = {&weights, &y, &dst, &shape};
  const crk_dim3_t grid = {shape.blocks_x, shape.blocks_y, 1};
  return crk_priv_launch_blocks(self, function, grid, (crk_dim3_t){CRK_MMQ_THREADS, 1, 1}, 0, args);
}

/* The product of `columns` contiguous rows of x with contiguous weights to a contiguous dst, all checked. */
static crk_status_t quantize_and_multiply(crk_device_t self, crk_quant_t quant, const crk_product_t *product,
                                          const void *weights, const void *x, void *dst) {
  const crk_quant_info_t *info;
  crk_mmq_t layout;
  CRK_TRY(crk_priv_mmq_of_quant(product->where, quant, &info, &layout));
  crk_mmq_rows_t rows = {
      .k = product->k, .row_stride = product->k, .columns = product->inputs, .channels = 1, .samples = 1};
  CRK_TRY(crk_priv_mmq_padded(product->where, product->k, &rows.padded_k));
  const size_t bytes = crk_mmq_bytes(&rows);
  if (bytes == 0) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS, "%s: scratch memory for %zu columns of k %zu is beyond %zu bytes",
                          product->where, product->inputs, product->k, (size_t)SIZE_MAX);
  }
  void *y;
  CRK_TRY(crk_alloc(self, bytes, &y));
  crk_status_t status = crk_priv_quantize_mmq(self, layout, product->dtype, &rows, product->inputs, x, NULL, y);
  if (status == CRK_OK) {
    const crk_mmq_product_t shape = {.rows = product->rows,
                                     .columns = product->inputs,
                                     .weight_stride = product->k / info->elements,
                                     .dst_stride = product->rows,
                                     .row_blocks = (uint32_t)(product->k / info->elements),
                                     .dtype = product->dtype_index};
    status = launch_tiles(self, info, &shape, weights, y, dst);
  }
  const crk_status_t freed = crk_free(self, y);
  return status != CRK_OK ? status : freed;
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
  return columns <= CRK_MOST_VEC_COLUMNS ? crk_priv_mul_mat_vec(self, &product, weights.ptr, x.ptr, dst.ptr)
                                         : quantize_and_multiply(self, quant, &product, weights.ptr, x.ptr, dst.ptr);
}

crk_status_t crk_mul_mat(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k, size_t columns,
                         crk_view_t weights, crk_view_t x, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_mul_mat");
  return crk_priv_multiply_columns(self, "crk_mul_mat", quant, dtype, rows, k, columns, weights, x, dst);
}

/* (count - 1) * stride + length, for a count of 1 at least. */
static crk_status_t strided_extent(const char *where, const char *what, size_t count, size_t stride, size_t length,
                                   size_t *extent) {
  CRK_TRY(crk_priv_multiply(where, what, count - 1, stride, extent));
  if (*extent + length < length) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS, "%s: %s are beyond %zu", where, what, (size_t)SIZE_MAX);
  }
  *extent += length;
  return CRK_OK;
}

crk_status_t crk_mul_mat_mmq(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                             size_t columns, crk_view_t weights, size_t weight_stride, crk_view_t y, crk_view_t dst,
                             size_t dst_stride) {
  static const char where[] = "crk_mul_mat_mmq";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  const crk_quant_info_t *info;
  crk_mmq_t layout;
  uint32_t type;
  CRK_TRY(crk_priv_mmq_of_quant(where, quant, &info, &layout));
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  CRK_TRY(crk_priv_check_blocks(where, "k", k, info));
  CRK_REFUSE_IF(k > INT32_MAX, "%s: k is %zu, at most %d", where, k, INT32_MAX);
  CRK_REFUSE_IF(dst_stride < rows && columns > 1, "%s: dst_stride is %zu, less than rows, which is %zu", where,
                dst_stride, rows);
  if (rows == 0 || columns == 0) {
    return CRK_OK;
  }
  const size_t row_blocks = k / info->elements, element_bytes = crk_dtype_size(dtype);
  size_t weight_blocks, y_blocks, dst_elements, weight_bytes;
  CRK_TRY(strided_extent(where, "blocks of weights", rows, weight_stride, row_blocks, &weight_blocks));
  CRK_TRY(crk_priv_multiply(where, "blocks of y", crk_priv_ceil_div(k, CRK_MMQ_ELEMENTS), columns, &y_blocks));
  CRK_TRY(strided_extent(where, "elements of dst", columns, dst_stride, rows, &dst_elements));
  if (k != 0) {
    CRK_TRY(crk_priv_multiply(where, "elements of weights", weight_blocks, info->elements, &weight_bytes));
    CRK_TRY(crk_priv_check_weights(where, "weights", weights, 1, weight_bytes, info, &weight_bytes));
    CRK_TRY(crk_priv_multiply(where, "words of y", y_blocks, CRK_MMQ_WORDS, &y_blocks));
    CRK_TRY(crk_priv_check_elements(where, "y", y, y_blocks, 4));
  }
  CRK_TRY(crk_priv_check_elements(where, "dst", dst, dst_elements, (uint32_t)element_bytes));
  const size_t dst_bytes = dst_elements * element_bytes;
  if (k != 0) {
    CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, dst_bytes, "weights", weights.ptr, weight_bytes));
    CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, dst_bytes, "y", y.ptr, y_blocks * 4));
  }
  const crk_mmq_product_t shape = {.rows = rows,
                                   .columns = columns,
                                   .weight_stride = weight_stride,
                                   .dst_stride = dst_stride,
                                   .row_blocks = (uint32_t)row_blocks,
                                   .dtype = type};
  return launch_tiles(self, info, &shape, weights.ptr, y.ptr, dst.ptr);
}
