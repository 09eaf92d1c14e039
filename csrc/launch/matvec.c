/* Launches of integer products of quantized weights with one to eight columns (kernels/quantized/matvec.h). */
#include "launch/product.h"

/* The most columns of each kernel. */
static const uint32_t vec_columns[] = {1, 2, 4, 8};
enum { VEC_KERNELS = sizeof(vec_columns) / sizeof(*vec_columns) };
_Static_assert((int)VEC_KERNELS *(int)CRK_QUANT_COUNT == CRK_SLOTS_OF(MUL_MAT_VEC), "as the list of slots counts");

_Static_assert((int)CRK_VEC_PARTS == CRK_MOST_GROUPED, "a part for each matrix");

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

uint32_t crk_priv_divide_rows(crk_device_t self, crk_function_t function, uint64_t products, uint32_t grain,
                              crk_vec_product_t *product) {
  const uint64_t shares = product->rows / grain;
  const uint32_t threads = CRK_VEC_WAVES * self->context->info.wave_size;
  const uint64_t held =
      crk_priv_held_blocks(self, function, threads, 0, most_unit_blocks(self, product->columns)) / products;
  const uint32_t least = least_block_rows(self, product->rows) / grain;
  const uint64_t wanted = crk_priv_least(held, shares / (least > 1 ? least : 1));
  /* A block's rows must be below 2^31, which takes more than `countable` blocks. */
  const uint64_t countable = product->rows >> 31;
  uint64_t blocks = wanted > countable ? wanted : countable + 1;
  if (product->columns == 1) {
    const uint64_t across = grain < CRK_VEC_WAVES ? CRK_VEC_WAVES / grain : 1; /* shares that a block makes at once */
    const uint64_t each = crk_priv_ceil_div(shares, blocks * across);
    const uint64_t even = crk_priv_ceil_div(shares, each * across);
    if (even >= blocks - blocks / IDLE_SHARE) {
      blocks = even;
    }
  }
  product->block_rows = (uint32_t)(shares / blocks);
  product->larger = (uint32_t)(shares % blocks);
  return (uint32_t)blocks;
}

/* The launch of a product: `parts`, x, the dtype, the columns and x_stride are set. */
static crk_status_t launch_vec_product(crk_device_t self, const crk_quant_info_t *info, uint64_t k,
                                       crk_vec_product_t *product) {
  uint32_t choice = 0;
  while (vec_columns[choice] < product->columns) {
    choice++;
  }
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MUL_MAT_VEC + info->index * VEC_KERNELS + choice, CRK_MODULE_QUANTIZED_VEC,
                         &function, "mul_mat_vec_%s_x%u", info->name, (unsigned)vec_columns[choice]));
  product->row_blocks = (uint32_t)(k / info->elements);
  const crk_dim3_t grid = {crk_priv_divide_rows(self, function, 1, 1, product), 1, 1};
  const crk_dim3_t block = {CRK_VEC_WAVES * self->context->info.wave_size, 1, 1};
  const void *args[] = {product};
  return crk_priv_launch_blocks(self, function, grid, block, 0, args);
}

void crk_priv_vec_parts_set(crk_vec_product_t *product, const crk_grouped_product_t *products, size_t count) {
  uint64_t end = 0;
  for (size_t i = 0; i < CRK_VEC_PARTS; i++) {
    const crk_grouped_product_t *its = &products[i < count ? i : 0];
    end += i < count ? its->rows : 0;
    product->parts[i] = (crk_vec_part_t){its->weights.ptr, its->dst.ptr, end, its->dst_stride, its->bias.ptr};
  }
  product->rows = end;
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
    crk_vec_product_t call = {
        .x = q8_1, .x_stride = blocks, .dtype = product->dtype_index, .columns = (uint32_t)product->columns};
    const crk_grouped_product_t only = {
        product->rows, {product->weights, 0}, {product->dst, 0}, product->rows, {NULL, 0}};
    crk_priv_vec_parts_set(&call, &only, 1);
    status = launch_vec_product(self, product->info, product->k, &call);
  }
  return crk_priv_free_after(self, status, q8_1);
}

static crk_status_t check_stride(const char *where, const char *name, size_t stride, size_t least, size_t columns) {
  CRK_REFUSE_IF(columns > 1 && stride < least, "%s: %s is %zu, less than the length of a column, which is %zu", where,
                name, stride, least);
  return CRK_OK;
}

/* The names of a matrix's arguments: those of a single one, then those of each in a group. */
typedef struct part_names {
  const char *weights, *dst, *dst_stride, *bias;
} part_names_t;

static const part_names_t single = {"weights", "dst", "dst_stride", NULL};
#define PART_NAMES(i) \
  {"products[" #i "].weights", "products[" #i "].dst", "products[" #i "].dst_stride", "products[" #i "].bias"}
static const part_names_t grouped[CRK_MOST_GROUPED] = {PART_NAMES(0), PART_NAMES(1), PART_NAMES(2)};

/* The bytes of a matrix's views, of which dst has as many as the product writes. */
typedef struct part_bytes {
  size_t weights, dst;
} part_bytes_t;

static crk_status_t check_part(const char *where, const part_names_t *names, const crk_grouped_product_t *part,
                               const crk_quant_info_t *info, crk_dtype_t dtype, size_t k, size_t columns,
                               part_bytes_t *bytes) {
  const uint32_t element = (uint32_t)crk_dtype_size(dtype);
  size_t elements;
  CRK_TRY(check_stride(where, names->dst_stride, part->dst_stride, part->rows, columns));
  if (part->rows == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_strided_extent(where, "elements of dst", columns, part->dst_stride, part->rows, &elements));
  CRK_TRY(crk_priv_check_elements(where, names->dst, crk_const(part->dst), elements, element));
  bytes->dst = elements * element;
  if (crk_priv_is_given(part->bias)) {
    CRK_TRY(crk_priv_check_elements(where, names->bias, part->bias, part->rows, sizeof(float)));
  }
  return k == 0 ? CRK_OK
                : crk_priv_check_weights(where, names->weights, part->weights, part->rows, k, info, &bytes->weights);
}

/* Fails where dst of a matrix overlaps x, weights, a bias or another dst. */
static crk_status_t check_parts_apart(const char *where, const part_names_t *names,
                                      const crk_grouped_product_t *products, const part_bytes_t *bytes, size_t count,
                                      const void *x, size_t x_bytes) {
  crk_region_t results[CRK_MOST_GROUPED], sources[2 * CRK_MOST_GROUPED + 1] = {{"x", x, x_bytes}};
  for (size_t i = 0; i < count; i++) {
    const crk_grouped_product_t *its = &products[i];
    results[i] = (crk_region_t){names[i].dst, its->dst.ptr, bytes[i].dst};
    sources[2 * i + 1] = (crk_region_t){names[i].weights, its->weights.ptr, bytes[i].weights};
    sources[2 * i + 2] =
        (crk_region_t){names[i].bias, its->bias.ptr, its->bias.ptr == NULL ? 0 : its->rows * sizeof(float)};
  }
  return crk_priv_check_all_apart(where, results, count, sources, 2 * count + 1);
}

/* The sums of rows without elements. */
static crk_status_t fill_columns(crk_device_t self, const crk_grouped_product_t *part, size_t columns,
                                 crk_dtype_t dtype) {
  const size_t element = crk_dtype_size(dtype);
  crk_layout_t row;
  CRK_TRY(crk_layout_contiguous(&part->rows, 1, &row));
  for (size_t c = 0; c < columns && part->rows != 0; c++) {
    const crk_view_t column = {(char *)part->dst.ptr + c * part->dst_stride * element, part->rows * element};
    if (part->bias.ptr != NULL) {
      CRK_TRY(crk_cast(self, CRK_DTYPE_F32, dtype, &row, part->bias, column));
    } else {
      CRK_TRY(crk_memset(self, column, 0, column.bytes));
    }
  }
  return CRK_OK;
}

static crk_status_t multiply_parts(crk_device_t self, const char *where, const part_names_t *names, crk_quant_t quant,
                                   crk_dtype_t dtype, size_t k, size_t columns, const crk_grouped_product_t *products,
                                   size_t count, crk_const_view_t x, size_t x_stride) {
  const crk_quant_info_t *info;
  crk_vec_product_t call = {.x = x.ptr, .x_stride = x_stride, .columns = (uint32_t)columns};
  CRK_TRY(crk_priv_check_vec_columns(where, columns));
  CRK_TRY(crk_priv_quant_get_product(where, quant, &info));
  CRK_TRY(crk_priv_activation_index(where, dtype, &call.dtype));
  CRK_TRY(crk_priv_check_blocks(where, "k", k, info));
  CRK_TRY(crk_priv_check_count(where, "k", k));
  CRK_TRY(check_stride(where, "x_stride", x_stride, k / CRK_Q8_1_BLOCK, columns));
  part_bytes_t bytes[CRK_MOST_GROUPED] = {{0, 0}};
  size_t rows = 0;
  for (size_t i = 0; i < count && columns > 0; i++) {
    CRK_TRY(check_part(where, &names[i], &products[i], info, dtype, k, columns, &bytes[i]));
    CRK_REFUSE_IF(products[i].rows > SIZE_MAX - rows, "%s: the rows are more than %zu", where, (size_t)SIZE_MAX);
    rows += products[i].rows;
  }
  if (rows == 0) {
    return CRK_OK;
  }
  size_t x_blocks = 0, x_words = 0;
  if (k != 0) {
    CRK_TRY(crk_priv_strided_extent(where, "blocks of x", columns, x_stride, k / CRK_Q8_1_BLOCK, &x_blocks));
    CRK_TRY(crk_priv_checked_product(where, "words of x", x_blocks, CRK_Q8_1_BYTES / 4, &x_words));
    CRK_TRY(crk_priv_check_elements(where, "x", x, x_words, 4));
  }
  CRK_TRY(check_parts_apart(where, names, products, bytes, count, x.ptr, x_words * 4));
  if (k == 0) {
    for (size_t i = 0; i < count; i++) {
      CRK_TRY(fill_columns(self, &products[i], columns, dtype));
    }
    return CRK_OK;
  }
  crk_priv_vec_parts_set(&call, products, count);
  return launch_vec_product(self, info, k, &call);
}

crk_status_t crk_mul_mat_vec_q8_1(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                                  size_t columns, crk_const_view_t weights, crk_const_view_t x, size_t x_stride,
                                  crk_view_t dst, size_t dst_stride) {
  static const char where[] = "crk_mul_mat_vec_q8_1";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  const crk_grouped_product_t only = {rows, weights, dst, dst_stride, {NULL, 0}};
  return multiply_parts(self, where, &single, quant, dtype, k, columns, &only, 1, x, x_stride);
}

crk_status_t crk_mul_mat_vec_grouped(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t k, size_t columns,
                                     const crk_grouped_product_t *products, size_t count, crk_const_view_t x,
                                     size_t x_stride) {
  static const char where[] = "crk_mul_mat_vec_grouped";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_REFUSE_IF(count > CRK_MOST_GROUPED, "%s: count is %zu, at most %d", where, count, CRK_MOST_GROUPED);
  CRK_REFUSE_IF(products == NULL && count > 0, "%s: products is NULL", where);
  return multiply_parts(self, where, grouped, quant, dtype, k, columns, products, count, x, x_stride);
}
