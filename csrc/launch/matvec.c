/* Launchers of products with quantized weights in integers: matrix times vector, times matrix, times vectors by expert. The
 * activations are quantized into scratch memory first. */
#include <string.h>

#include "quantized.h"

/* The family's slots: so many kernels a format, then one a dtype of activations. */
enum { KERNEL_VEC = 0, KERNEL_TILES = 6, KERNEL_MOE, KERNELS };
_Static_assert((int)KERNELS *(int)CRK_QUANT_COUNT <= (int)CRK_FAMILY_SLOTS, "more kernels than slots");

enum {
  GROUP_THREADS = 32, /* that work on rows of their own */
  MOE_ROWS = 2, /* a group */
  TILE_ROWS = 128, /* as in kernels/common/matmat.h */
  TILE_COLUMNS = 64,
  TILE_THREADS = 128,
  PACK_THREADS = 256,
  PACK_THREADS_A_BLOCK = 8, /* of 32 elements */
  MOST_VEC_COLUMNS = 8,
  MOST_GRID_Y = 65535
};

/* The kernels of one to eight columns: the fewest columns that are enough, and as many rows a group as leave every compute
 * unit work. */
typedef struct vec_kernel {
  uint32_t columns, rows;
} vec_kernel_t;
static const vec_kernel_t vec_kernels[] = {{1, 4}, {1, 2}, {1, 1}, {2, 2}, {4, 2}, {8, 2}};
_Static_assert(sizeof(vec_kernels) / sizeof(*vec_kernels) == (int)KERNEL_TILES, "a slot a kernel");

/* Threads of a block, and the groups of 32 that a compute unit should have before a group takes more rows. A prefix of the
 * architecture's name chooses; what it is on AMD GPUs follows from their waves and registers, it is not measured. */
typedef struct vec_tuning {
  const char *prefix;
  uint32_t threads, groups;
} vec_tuning_t;
static const vec_tuning_t vec_tunings[] = {{"gfx9", 256, 32}, {"gfx", 128, 32}, {"sm_", 128, 32}, {"", 128, 1}};

static const vec_tuning_t *vec_tuning(crk_device_t self) {
  const vec_tuning_t *tuning = vec_tunings;
  while (strncmp(self->context->info.architecture, tuning->prefix, strlen(tuning->prefix)) != 0) {
    tuning++;
  }
  return tuning;
}

/* A product that was checked. */
typedef struct product {
  const char *where;
  const crk_quant_info_t *info;
  crk_dtype_t dtype;
  uint32_t dtype_index, dtype_bytes;
  size_t rows, k; /* of the weights, of one expert's */
  size_t inputs; /* rows of activations */
  size_t weight_bytes, input_bytes, dst_bytes;
} product_t;

static crk_status_t product_check(product_t *product, const char *where, crk_quant_t quant, crk_dtype_t dtype,
                                  size_t experts, size_t rows, size_t k, size_t inputs, size_t outputs,
                                  crk_view_t weights, crk_view_t x, crk_view_t dst) {
  *product = (product_t){.where = where, .dtype = dtype, .rows = rows, .k = k, .inputs = inputs};
  CRK_TRY(crk_priv_quant_get(where, quant, &product->info));
  if (quant == CRK_QUANT_Q8_K) {
    return crk_priv_error(CRK_UNSUPPORTED, "%s: quant is %s, which has no integer product", where, product->info->name);
  }
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

static uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

/* Blocks that share `work`, as many of them as a grid may have: kernels stride over the rest. */
static uint32_t blocks_for(crk_device_t self, uint64_t work, uint64_t work_of_block, uint64_t threads) {
  const uint64_t wanted = ceil_div(work, work_of_block), grid = self->context->info.max_grid_threads / threads;
  const uint64_t most = grid < INT32_MAX ? grid : INT32_MAX;
  return (uint32_t)(wanted < most ? wanted : most);
}

static uint32_t slot_of(const product_t *product, uint32_t kernel) {
  return CRK_SLOT_MATVEC + product->info->index * KERNELS + kernel;
}

/* Activations in 8 bits, in scratch memory, as kernels/common/matvec_fast.h has them. */
typedef struct scratch {
  void *packed;
  uint64_t row_blocks; /* of a row of weights */
} scratch_t;

static crk_status_t pack_activations(crk_device_t self, const product_t *product, const void *x, void *packed) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MATVEC + CRK_QUANT_COUNT * KERNELS + product->dtype_index,
                         CRK_MODULE_QUANTIZED_VEC, &function, "pack_activations_%s", crk_dtype_name(product->dtype)));
  uint64_t blocks = (uint64_t)product->inputs * product->k / CRK_Q8_1_BLOCK;
  const uint32_t grid = blocks_for(self, blocks, PACK_THREADS / PACK_THREADS_A_BLOCK, PACK_THREADS);
  uint64_t threads = (uint64_t)grid * PACK_THREADS;
  void *args[] = {&x, &packed, &blocks, &threads};
  return crk_priv_launch_blocks(self, function, (crk_dim3_t){grid, 1, 1}, (crk_dim3_t){PACK_THREADS, 1, 1}, 0, args);
}

static crk_status_t scratch_fill(crk_device_t self, const product_t *product, crk_view_t x, scratch_t *scratch) {
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

/* Gives the scratch memory back, in the stream's order. */
static crk_status_t scratch_free(crk_device_t self, scratch_t *scratch, crk_status_t status) {
  const crk_status_t freed = crk_free(self, scratch->packed);
  return status != CRK_OK ? status : freed;
}

static uint32_t vec_choice(const vec_tuning_t *tuning, uint64_t rows, uint64_t columns, uint64_t compute_units) {
  uint32_t choice = 0;
  while (vec_kernels[choice].columns < columns || (columns == 1 && vec_kernels[choice].rows > 1 &&
                                                   rows / vec_kernels[choice].rows < compute_units * tuning->groups)) {
    choice++;
  }
  return choice;
}

static crk_status_t launch_vec(crk_device_t self, const product_t *product, const scratch_t *scratch,
                               const void *weights, void *dst) {
  const vec_tuning_t *tuning = vec_tuning(self);
  const uint32_t choice = vec_choice(tuning, product->rows, product->inputs, self->context->info.compute_units);
  const vec_kernel_t *kernel = &vec_kernels[choice];
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, slot_of(product, KERNEL_VEC + choice), CRK_MODULE_QUANTIZED_VEC, &function,
                         "mul_mat_vec_%s_%ux%u", product->info->name, (unsigned)kernel->columns,
                         (unsigned)kernel->rows));
  const uint64_t groups_a_block = tuning->threads / GROUP_THREADS;
  const crk_dim3_t grid = {blocks_for(self, product->rows, groups_a_block * kernel->rows, tuning->threads), 1, 1};
  uint64_t rows = product->rows, row_blocks = scratch->row_blocks, groups = grid.x * groups_a_block;
  uint32_t dtype = product->dtype_index, columns = (uint32_t)product->inputs;
  const void *packed = scratch->packed;
  void *args[] = {&weights, &packed, &dst, &dtype, &rows, &row_blocks, &columns, &groups};
  return crk_priv_launch_blocks(self, function, grid, (crk_dim3_t){tuning->threads, 1, 1}, 0, args);
}

static crk_status_t launch_tiles(crk_device_t self, const product_t *product, const scratch_t *scratch,
                                 const void *weights, void *dst) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, slot_of(product, KERNEL_TILES), CRK_MODULE_QUANTIZED_MAT, &function, "mul_mat_%s_tiles",
                         product->info->name));
  uint64_t rows = product->rows, row_blocks = scratch->row_blocks, columns = product->inputs;
  const uint64_t tiles = ceil_div(rows, TILE_ROWS);
  CRK_REFUSE_IF(tiles > self->context->info.max_grid_threads / TILE_THREADS || tiles > INT32_MAX,
                "%s: rows is %zu, more than a grid has tiles for", product->where, product->rows);
  const uint64_t across = ceil_div(columns, TILE_COLUMNS);
  const uint64_t most = self->context->info.max_grid_threads / TILE_THREADS / tiles;
  const uint64_t within = across < most ? across : most;
  uint32_t dtype = product->dtype_index, blocks_y = within < MOST_GRID_Y ? (uint32_t)within : MOST_GRID_Y;
  const crk_dim3_t grid = {(uint32_t)tiles, blocks_y, 1};
  const void *packed = scratch->packed;
  void *args[] = {&weights, &packed, &dst, &dtype, &rows, &row_blocks, &columns, &blocks_y};
  return crk_priv_launch_blocks(self, function, grid, (crk_dim3_t){TILE_THREADS, 1, 1}, 0, args);
}

static crk_status_t multiply(crk_device_t self, const char *where, crk_quant_t quant, crk_dtype_t dtype, size_t rows,
                             size_t k, size_t columns, crk_view_t weights, crk_view_t x, crk_view_t dst) {
  product_t product;
  CRK_TRY(product_check(&product, where, quant, dtype, 1, rows, k, columns, columns, weights, x, dst));
  if (product.dst_bytes == 0) {
    return CRK_OK;
  }
  if (k == 0) {
    return crk_memset(self, dst, 0, product.dst_bytes);
  }
  scratch_t scratch;
  CRK_TRY(scratch_fill(self, &product, x, &scratch));
  const crk_status_t status = columns <= MOST_VEC_COLUMNS
                                  ? launch_vec(self, &product, &scratch, weights.ptr, dst.ptr)
                                  : launch_tiles(self, &product, &scratch, weights.ptr, dst.ptr);
  return scratch_free(self, &scratch, status);
}

crk_status_t crk_mul_mat_vec(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                             size_t columns, crk_view_t weights, crk_view_t x, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_mul_mat_vec");
  CRK_REFUSE_IF(columns > MOST_VEC_COLUMNS, "crk_mul_mat_vec: columns is %zu, at most %d; use crk_mul_mat", columns,
                MOST_VEC_COLUMNS);
  return multiply(self, "crk_mul_mat_vec", quant, dtype, rows, k, columns, weights, x, dst);
}

crk_status_t crk_mul_mat(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k, size_t columns,
                         crk_view_t weights, crk_view_t x, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_mul_mat");
  return multiply(self, "crk_mul_mat", quant, dtype, rows, k, columns, weights, x, dst);
}

static crk_status_t launch_moe(crk_device_t self, const product_t *product, const scratch_t *scratch, size_t experts,
                               size_t batch, size_t topk, size_t inputs, const void *weights, const void *ids,
                               void *dst) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, slot_of(product, KERNEL_MOE), CRK_MODULE_MOE, &function, "indexed_moe_%s",
                         product->info->name));
  crk_fault_t fault;
  CRK_TRY(crk_priv_fault_get(self, CRK_FAULT_INDEXED_MOE, &fault));
  const uint32_t threads = vec_tuning(self)->threads;
  const uint64_t groups_a_block = threads / GROUP_THREADS, most = self->context->info.max_grid_threads / threads;
  crk_dim3_t grid = {blocks_for(self, product->rows, groups_a_block * MOE_ROWS, threads), 1, 1};
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
  product_t product;
  CRK_TRY(product_check(&product, where, quant, dtype, experts, rows, k, input_rows, tasks, weights, x, dst));
  if (product.dst_bytes == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_elements(where, "ids", ids, tasks, sizeof(uint32_t)));
  CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, product.dst_bytes, "ids", ids.ptr, tasks * sizeof(uint32_t)));
  if (k == 0) {
    return crk_memset(self, dst, 0, product.dst_bytes);
  }
  scratch_t scratch;
  CRK_TRY(scratch_fill(self, &product, x, &scratch));
  const crk_status_t status =
      launch_moe(self, &product, &scratch, experts, batch, topk, inputs, weights.ptr, ids.ptr, dst.ptr);
  return scratch_free(self, &scratch, status);
}
