/* Launches of integer products of quantized weights with one to eight columns (kernels/quantized/matvec.h). */
#include "launch/product.h"

/* The most columns of each kernel. */
static const uint32_t vec_columns[] = {1, 2, 4, 8};
enum { VEC_KERNELS = sizeof(vec_columns) / sizeof(*vec_columns) };
_Static_assert((int)VEC_KERNELS *(int)CRK_QUANT_COUNT == CRK_SLOTS_OF(MUL_MAT_VEC), "as the list of slots counts");

/* A product with quantized activations. */
typedef struct vec_call {
  const crk_quant_info_t *info;
  uint64_t rows, k, x_stride, dst_stride;
  uint32_t dtype, columns;
} vec_call_t;

/* From this many rows on, blocks are made small enough to fill the GPU, down to one row per wave. They read the
 * activations more often, from a cache, but more loads of weights are in flight at once. */
enum { SMALL_ROWS = 1024 };

/* With a single column, up to one block in IDLE_SHARE is left out if every wave then has the same number of rows: all
 * waves end together. On an H200, q6_K with 13824 rows takes 2.6 % less time in 494 blocks than in 528, and with 14336
 * rows 0.8 % less in 512. But 3584 rows take up to 4 % more in 448 blocks, depending on the format.
 *
 * More columns are hardly bound by memory. There the multiprocessors that have one block more than others decide the
 * time. With 14334 rows in 359 blocks instead of 396, four columns take 5 % more and eight take 8 % more. None of this
 * was measured on an AMD GPU. */
enum { IDLE_SHARE = 8 };

/* The least rows per block. AMD, for a small matrix: with fewer than 16 rows, more than a fifth of the lines that a
 * block reads would be activations (not measured). On an H200 a small matrix is fastest with one row per wave. */
static uint32_t least_block_rows(crk_device_t self, uint64_t rows) {
  return self->driver->backend == CRK_BACKEND_HIP && rows < SMALL_ROWS ? 16 : CRK_VEC_WAVES;
}

/* The most blocks per unit where the registers of the kernel are not known, or 0. With CUDA, nvcc was told to leave
 * room for this many blocks. A CPU thread runs one. */
static uint32_t most_unit_blocks(crk_device_t self, uint32_t columns) {
  switch (self->driver->backend) {
    case CRK_BACKEND_CUDA:
      return CRK_VEC_BLOCKS(columns);
    case CRK_BACKEND_CPU:
      return 1;
    default:
      return 0;
  }
}

uint32_t crk_priv_divide_rows(crk_device_t self, crk_function_t function, uint64_t products,
                              crk_vec_product_t *product) {
  const uint64_t rows = product->rows;
  const uint32_t threads = CRK_VEC_WAVES * self->context->info.wave_size;
  const uint64_t held =
      crk_priv_held_blocks(self, function, threads, 0, most_unit_blocks(self, product->columns)) / products;
  const uint64_t wanted = crk_priv_least(held, rows / least_block_rows(self, rows));
  /* A block's rows must be below 2^31, which takes more than `countable` blocks. */
  const uint64_t countable = rows >> 31;
  uint64_t blocks = wanted > countable ? wanted : countable + 1;
  if (product->columns == 1) {
    const uint64_t wave_rows = crk_priv_ceil_div(rows, blocks * CRK_VEC_WAVES);
    const uint64_t even = crk_priv_ceil_div(rows, wave_rows * CRK_VEC_WAVES);
    if (even >= blocks - blocks / IDLE_SHARE) {
      blocks = even;
    }
  }
  product->block_rows = (uint32_t)(rows / blocks);
  product->larger = (uint32_t)(rows % blocks);
  return (uint32_t)blocks;
}

static crk_status_t launch_vec_product(crk_device_t self, const vec_call_t *call, const void *weights, const void *x,
                                       void *dst) {
  uint32_t choice = 0;
  while (vec_columns[choice] < call->columns) {
    choice++;
  }
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MUL_MAT_VEC + call->info->index * VEC_KERNELS + choice,
                         CRK_MODULE_QUANTIZED_VEC, &function, "mul_mat_vec_%s_x%u", call->info->name,
                         (unsigned)vec_columns[choice]));
  crk_vec_product_t product = {.weights = weights,
                               .x = x,
                               .dst = dst,
                               .dtype = call->dtype,
                               .columns = call->columns,
                               .row_blocks = (uint32_t)(call->k / call->info->elements),
                               .rows = call->rows,
                               .x_stride = call->x_stride,
                               .dst_stride = call->dst_stride};
  const crk_dim3_t grid = {crk_priv_divide_rows(self, function, 1, &product), 1, 1};
  const crk_dim3_t block = {CRK_VEC_WAVES * self->context->info.wave_size, 1, 1};
  const void *args[] = {&product};
  return crk_priv_launch_blocks(self, function, grid, block, 0, args);
}

crk_status_t crk_priv_product_by_vectors(crk_device_t self, const crk_product_t *product) {
  const size_t blocks = product->k / CRK_Q8_1_BLOCK;
  size_t bytes;
  void *q8_1;
  CRK_TRY(crk_priv_checked_product(product->where, "bytes of scratch memory", product->columns * blocks, CRK_Q8_1_BYTES,
                                   &bytes));
  CRK_TRY(crk_alloc(self, bytes, &q8_1));
  crk_status_t status = crk_priv_quantize_q8_1(self, product->dtype, product->columns, product->k, product->k,
                                               CRK_SUM_OF_CODES, product->x, q8_1);
  if (status == CRK_OK) {
    const vec_call_t call = {.info = product->info,
                             .rows = product->rows,
                             .k = product->k,
                             .x_stride = blocks,
                             .dst_stride = product->rows,
                             .dtype = product->dtype_index,
                             .columns = (uint32_t)product->columns};
    status = launch_vec_product(self, &call, product->weights, q8_1, product->dst);
  }
  const crk_status_t freed = crk_free(self, q8_1);
  return status != CRK_OK ? status : freed;
}

static crk_status_t check_stride(const char *where, const char *name, size_t stride, size_t least, size_t columns) {
  CRK_REFUSE_IF(columns > 1 && stride < least, "%s: %s is %zu, less than the length of a column, which is %zu", where,
                name, stride, least);
  return CRK_OK;
}

crk_status_t crk_mul_mat_vec_q8_1(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                                  size_t columns, crk_const_view_t weights, crk_const_view_t x, size_t x_stride,
                                  crk_view_t dst, size_t dst_stride) {
  static const char where[] = "crk_mul_mat_vec_q8_1";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  vec_call_t call = {.rows = rows, .k = k, .x_stride = x_stride, .dst_stride = dst_stride};
  CRK_TRY(crk_priv_check_vec_columns(where, columns));
  call.columns = (uint32_t)columns;
  CRK_TRY(crk_priv_quant_get_product(where, quant, &call.info));
  CRK_TRY(crk_priv_activation_index(where, dtype, &call.dtype));
  CRK_TRY(crk_priv_check_blocks(where, "k", k, call.info));
  CRK_TRY(crk_priv_check_count(where, "k", k));
  CRK_TRY(check_stride(where, "x_stride", x_stride, k / CRK_Q8_1_BLOCK, columns));
  CRK_TRY(check_stride(where, "dst_stride", dst_stride, rows, columns));
  if (rows == 0 || columns == 0) {
    return CRK_OK;
  }
  const uint32_t element = (uint32_t)crk_dtype_size(dtype);
  size_t dst_elements, x_blocks, x_words, weight_bytes;
  CRK_TRY(crk_priv_strided_extent(where, "elements of dst", columns, dst_stride, rows, &dst_elements));
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), dst_elements, element));
  if (k == 0) {
    for (size_t c = 0; c < columns; c++) {
      const crk_view_t column = {(char *)dst.ptr + c * dst_stride * element, rows * element};
      CRK_TRY(crk_memset(self, column, 0, column.bytes));
    }
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_weights(where, "weights", weights, rows, k, call.info, &weight_bytes));
  CRK_TRY(crk_priv_strided_extent(where, "blocks of x", columns, x_stride, k / CRK_Q8_1_BLOCK, &x_blocks));
  CRK_TRY(crk_priv_checked_product(where, "words of x", x_blocks, CRK_Q8_1_BYTES / 4, &x_words));
  CRK_TRY(crk_priv_check_elements(where, "x", x, x_words, 4));
  const size_t dst_bytes = dst_elements * element;
  CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, dst_bytes, "weights", weights.ptr, weight_bytes));
  CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, dst_bytes, "x", x.ptr, x_words * 4));
  return launch_vec_product(self, &call, weights.ptr, x.ptr, dst.ptr);
}
