/* Launchers of products with quantized weights in integers: matrix times one to eight columns. */
#include "product.h"

enum { VEC_KERNELS = 6 };
_Static_assert((int)VEC_KERNELS *(int)CRK_QUANT_COUNT <= (int)CRK_FAMILY_SLOTS, "more kernels than slots");

/* The kernels of one to eight columns: the fewest columns that are enough, and as many rows a group as leave every compute
 * unit work. */
typedef struct vec_kernel {
  uint32_t columns, rows;
} vec_kernel_t;
static const vec_kernel_t vec_kernels[] = {{1, 4}, {1, 2}, {1, 1}, {2, 2}, {4, 2}, {8, 2}};
_Static_assert(sizeof(vec_kernels) / sizeof(*vec_kernels) == (int)VEC_KERNELS, "a slot a kernel");

static uint32_t vec_choice(const crk_vec_tuning_t *tuning, uint64_t rows, uint64_t columns, uint64_t compute_units) {
  uint32_t choice = 0;
  while (vec_kernels[choice].columns < columns || (columns == 1 && vec_kernels[choice].rows > 1 &&
                                                   rows / vec_kernels[choice].rows < compute_units * tuning->groups)) {
    choice++;
  }
  return choice;
}

crk_status_t crk_priv_launch_vec(crk_device_t self, const crk_product_t *product, const crk_scratch_t *scratch,
                                 const void *weights, void *dst) {
  const crk_vec_tuning_t *tuning = crk_priv_vec_tuning(self);
  const uint32_t choice = vec_choice(tuning, product->rows, product->inputs, self->context->info.compute_units);
  const vec_kernel_t *kernel = &vec_kernels[choice];
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MATVEC + product->info->index * VEC_KERNELS + choice, CRK_MODULE_QUANTIZED_VEC,
                         &function, "mul_mat_vec_%s_%ux%u", product->info->name, (unsigned)kernel->columns,
                         (unsigned)kernel->rows));
  const uint64_t groups_a_block = tuning->threads / CRK_GROUP_THREADS;
  const crk_dim3_t grid = {
      crk_priv_grid_blocks(self, crk_priv_ceil_div(product->rows, groups_a_block * kernel->rows), tuning->threads), 1,
      1};
  uint64_t rows = product->rows, row_blocks = scratch->row_blocks, groups = grid.x * groups_a_block;
  uint32_t dtype = product->dtype_index, columns = (uint32_t)product->inputs;
  const void *packed = scratch->packed;
  void *args[] = {&weights, &packed, &dst, &dtype, &rows, &row_blocks, &columns, &groups};
  return crk_priv_launch_blocks(self, function, grid, (crk_dim3_t){tuning->threads, 1, 1}, 0, args);
}

crk_status_t crk_mul_mat_vec(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                             size_t columns, crk_view_t weights, crk_view_t x, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_mul_mat_vec");
  CRK_REFUSE_IF(columns > CRK_MOST_VEC_COLUMNS, "crk_mul_mat_vec: columns is %zu, at most %d; use crk_mul_mat", columns,
                CRK_MOST_VEC_COLUMNS);
  return crk_priv_multiply_columns(self, "crk_mul_mat_vec", quant, dtype, rows, k, columns, weights, x, dst);
}
