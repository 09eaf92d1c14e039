/* The launcher of matrix products, by a BLAS library (blas/blas.h) or by the kernels of kernels/matmul. */
#include "launch/matmul.h"
#include "blas/blas.h"

static const char where[] = "crk_matmul";

/* ---- the kernels */

typedef struct tile {
  uint32_t rows, columns;
  uint32_t cuda_bytes; /* of dynamic shared memory, for f16, bf16 and f32 on NVIDIA GPUs */
} tile_t;
static const tile_t tiles[] = {
#define XX(rows, columns, threads, m, n) {rows, columns, CRK_MATMUL_CUDA_BYTES(rows, columns)},
    CRK_MATMUL_WIDE_TILE(XX) CRK_MATMUL_LARGE_TILE(XX) CRK_MATMUL_TILES(XX)
#undef XX
};
/* Parts of k are whole numbers of PART_STEP_BYTES per row, which all kernels take in whole steps. A part with fewer
 * than PART_STEPS would not be worth the launch that adds up the parts. */
enum { PART_STEP_BYTES = 256, PART_STEPS = 4 };
/* Sums of fewer than SPLIT_K products of f32 do not use NVIDIA's matrix cores. A product has an error of up to 2^-21
 * there, which the bound in crk_matmul's comment allows from SPLIT_K products on. */
enum { SPLIT_K = 8 };
/* The tile of WIDE takes longer than LARGE's with up to LARGE_K numbers along k: by 2 to 10 % on an H200. With up to
 * SHORT_K, matmul_short.h takes 0.72 to 0.94 of the time of both, for 4096 x 4096 results there. */
enum { LARGE_K = 128, SHORT_K = 384 };
/* With up to FAST_SHORT_K numbers along k, and FAST_SHORT_TILES tiles for each of its blocks, matmul_short.h takes 0.76
 * to 0.98 of cuBLAS's time on an H200. Batches take 0.94 to 1.16. */
enum { FAST_SHORT_K = 64, FAST_SHORT_TILES = 3 };
/* On an H200, products of f32 with 32 numbers along k take 0.98 to 1.08 of cuBLAS's time, with 16 numbers 1.6. */
enum { LEAST_FLOAT_K = 64 };

enum {
  TILES = sizeof(tiles) / sizeof(*tiles),
  WIDE = 0, /* for f16 and bf16 on NVIDIA GPUs */
  LARGE = 1, /* not for f64 */
  THIN = TILES - 1, /* for few rows */
  SMALL = THIN - 1 /* the smallest of the others */
};
static const tile_t short_tile = {CRK_MATMUL_SHORT_ROWS, CRK_MATMUL_SHORT_COLUMNS, CRK_MATMUL_SHORT_BYTES};
_Static_assert((int)TILES *(int)CRK_DTYPE_COUNT == CRK_SLOTS_OF(MATMUL_TILES), "as the list of slots counts");

/* ---- the problem: a batch of matrices in any layout */

typedef struct operand {
  const char *layout_name, *name;
  const crk_layout_t *layout;
  crk_const_view_t view;
  crk_extent_t extent;
  const void *first;
  size_t bytes; /* from the first element to the last */
} operand_t;

typedef struct problem {
  crk_dtype_t dtype;
  uint32_t element_bytes;
  crk_matmul_t call;
  const void *lhs, *rhs;
  void *dst;
} problem_t;

static crk_status_t operand_check(operand_t *operand, uint32_t element_bytes, const void *dst, size_t dst_bytes) {
  const crk_tensor_t tensor = {operand->layout_name, operand->name, operand->layout, operand->view, element_bytes};
  CRK_TRY(crk_priv_tensor_first(where, &tensor, &operand->extent, &operand->first));
  operand->bytes = (operand->extent.last - operand->layout->offset + 1) * element_bytes;
  return crk_priv_check_apart(where, "dst", dst, dst_bytes, operand->name, operand->first, operand->bytes);
}

static crk_status_t check_matmul_dims(const operand_t *lhs, const operand_t *rhs) {
  const crk_layout_t *left = lhs->layout, *right = rhs->layout;
  CRK_REFUSE_IF(left->rank < 2, "%s: lhs_layout.rank is %u; it must be at least 2", where, (unsigned)left->rank);
  CRK_REFUSE_IF(right->rank != left->rank, "%s: rhs_layout.rank is %u, but lhs_layout.rank is %u; they must be equal",
                where, (unsigned)right->rank, (unsigned)left->rank);
  const uint32_t row = left->rank - 2, column = left->rank - 1;
  for (uint32_t i = 0; i < row; i++) {
    CRK_REFUSE_IF(right->dims[i] != left->dims[i],
                  "%s: rhs_layout.dims[%u] is %zu, but lhs_layout.dims[%u] is %zu; they must be equal", where,
                  (unsigned)i, right->dims[i], (unsigned)i, left->dims[i]);
  }
  CRK_REFUSE_IF(right->dims[row] != left->dims[column],
                "%s: rhs_layout.dims[%u] is %zu, but lhs_layout.dims[%u] is %zu; they must be equal", where,
                (unsigned)row, right->dims[row], (unsigned)column, left->dims[column]);
  return CRK_OK;
}

/* Fills in the problem, apart from how blocks share the work. */
static void describe_problem(problem_t *problem, const operand_t *lhs, const operand_t *rhs) {
  const crk_layout_t *left = lhs->layout, *right = rhs->layout;
  const uint32_t rank = left->rank - 2;
  crk_matmul_t *call = &problem->call;
  size_t numel = 1;
  for (uint32_t i = 0; i < rank; i++) {
    numel *= left->dims[i];
  }
  const size_t *const strides[] = {left->strides, right->strides};
  crk_priv_nd_init(&call->batch, numel, rank, left->dims, strides, 2, 1);
  call->k = left->dims[rank + 1];
  call->lhs = (crk_matmul_operand_t){left->dims[rank], left->strides[rank], left->strides[rank + 1], 0, 0};
  call->rhs = (crk_matmul_operand_t){right->dims[rank + 1], right->strides[rank + 1], right->strides[rank], 0, 0};
  problem->lhs = lhs->first;
  problem->rhs = rhs->first;
  if (call->k == 1) {
    call->lhs.k_stride = call->rhs.k_stride = 1;
  }
  /* If all left matrices share one right matrix and their rows are evenly spaced, the batch becomes one product with
   * more rows. The rows of dst are evenly spaced in any case. */
  crk_nd_t *batch = &call->batch;
  const bool follow = call->lhs.rows == 1 || batch->strides[0][0] == call->lhs.rows * call->lhs.row_stride;
  if (batch->rank == 1 && batch->strides[1][0] == 0 && follow) {
    call->lhs.row_stride = call->lhs.rows == 1 ? batch->strides[0][0] : call->lhs.row_stride;
    call->lhs.rows *= batch->numel;
    batch->numel = 1;
    batch->rank = 0;
  }
  call->row_stride = call->rhs.rows;
  call->column_stride = 1;
  crk_priv_divisor_init(&call->parts, 1, true);
  call->part_k = call->k;
}

/* Exchanges lhs and rhs, and the dims of dst: dst^T = rhs^T * lhs^T. */
static void exchange(problem_t *problem) {
  crk_matmul_t *call = &problem->call;
  const crk_matmul_operand_t lhs = call->lhs;
  call->lhs = call->rhs;
  call->rhs = lhs;
  const void *const first = problem->lhs;
  problem->lhs = problem->rhs;
  problem->rhs = first;
  const uint64_t row_stride = call->row_stride;
  call->row_stride = call->column_stride;
  call->column_stride = row_stride;
  for (uint32_t i = 0; i < call->batch.rank; i++) {
    const uint64_t stride = call->batch.strides[0][i];
    call->batch.strides[0][i] = call->batch.strides[1][i];
    call->batch.strides[1][i] = stride;
  }
}

/* ---- launches */

void crk_priv_matmul_tiles_init(crk_matmul_t *call, uint64_t across, uint64_t down, bool wide) {
  const uint64_t rest = down % CRK_MATMUL_BAND;
  call->whole_bands = down / CRK_MATMUL_BAND;
  crk_priv_divisor_init(&call->tiles, across * down, wide);
  crk_priv_divisor_init(&call->band, across * CRK_MATMUL_BAND, wide);
  crk_priv_divisor_init(&call->heights[0], CRK_MATMUL_BAND, wide);
  crk_priv_divisor_init(&call->heights[1], rest != 0 ? rest : 1, wide);
}

/* Launches across * down blocks for each part of k of each matrix of the batch. */
static crk_status_t launch_matmul_blocks(crk_device_t self, crk_function_t function, problem_t *problem,
                                         uint64_t across, uint64_t down, uint32_t shared_bytes) {
  crk_matmul_t *call = &problem->call;
  uint32_t threads;
  CRK_TRY(crk_priv_block_threads(function, &threads));
  crk_priv_matmul_tiles_init(call, across, down, true);
  const uint64_t blocks = across * down * call->parts.size * call->batch.numel;
  crk_priv_cache_order_init(&call->order, self->context->info.l2_caches, blocks, true);
  const void *args[] = {call, &problem->lhs, &problem->rhs, &problem->dst};
  return crk_priv_launch_all_blocks(self, function, blocks, threads, shared_bytes, &call->first_block, args);
}

/* The threads per row of the matrix, as a logarithm. A row gets one thread per piece of 16 bytes, up to 32 threads, and
 * more if rows are few and long. On the CPU it gets one thread, because exchanges between threads cost more there than
 * they save. */
static uint32_t choose_row_threads(crk_device_t self, const problem_t *problem) {
  if (self->driver->backend == CRK_BACKEND_CPU) {
    return 0;
  }
  const crk_matmul_t *call = &problem->call;
  const uint64_t pieces = crk_priv_ceil_div(call->k, 16 / problem->element_bytes);
  const uint64_t rows = crk_priv_ceil_div(call->rhs.rows, CRK_MATMUL_VEC_ROWS) * call->batch.numel;
  const uint64_t wanted = crk_priv_units(self) * 512; /* threads */
  uint32_t log2_width = crk_priv_log2_ceil(crk_priv_least(pieces, 32));
  while (log2_width >= 5 && log2_width < CRK_MATMUL_VEC_MOST_LOG2 && rows << log2_width < wanted &&
         pieces > (uint64_t)4 << log2_width) {
    log2_width++;
  }
  return log2_width;
}

/* A vector times a matrix with rows that are contiguous along k. */
static crk_status_t launch_matmul_rows(crk_device_t self, problem_t *problem) {
  crk_matmul_t *call = &problem->call;
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MATMUL_ROWS + (uint32_t)problem->dtype, CRK_MODULE_MATMUL, &function,
                         "matmul_%s_rows_vec", crk_dtype_name(problem->dtype)));
  call->log2_width = choose_row_threads(self, problem);
  const uint64_t rows = (uint64_t)CRK_MATMUL_VEC_ROWS * (CRK_MATMUL_VEC_THREADS >> call->log2_width);
  return launch_matmul_blocks(self, function, problem, crk_priv_ceil_div(call->rhs.rows, rows), 1, 0);
}

/* Describes a product of one row with long rows, for matmul_wide.h. Returns false if that kernel does not take it. */
static bool describe_wide(crk_device_t self, const problem_t *problem, crk_wide_product_t *wide) {
  const crk_matmul_t *call = &problem->call;
  if (call->lhs.rows != 1 || call->lhs.k_stride != 1 || call->rhs.k_stride != 1 || call->batch.numel != 1) {
    return false;
  }
  *wide = (crk_wide_product_t){.matrix = {{.first = problem->rhs,
                                           .dst = problem->dst,
                                           .rows = call->rhs.rows,
                                           .row_stride = call->rhs.row_stride}},
                               .x = problem->lhs,
                               .k = call->k};
  return crk_priv_wide_fits(self, wide, 1, problem->element_bytes);
}

/* A vector times a matrix that is contiguous across its rows. */
static crk_status_t launch_matmul_columns(crk_device_t self, problem_t *problem) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MATMUL_COLUMNS + (uint32_t)problem->dtype, CRK_MODULE_MATMUL, &function,
                         "matmul_%s_columns_vec", crk_dtype_name(problem->dtype)));
  const uint64_t columns = CRK_MATMUL_VEC_ACROSS * (16 / problem->element_bytes);
  return launch_matmul_blocks(self, function, problem, crk_priv_ceil_div(problem->call.rhs.rows, columns), 1, 0);
}

/* Whether the kernels of a tile are those on matrix cores of NVIDIA GPUs: with dynamic shared memory and asynchronous
 * copies. In f32 only large tiles are. */
static bool is_on_cuda_cores(crk_device_t self, const problem_t *problem, uint32_t choice) {
  return self->driver->backend == CRK_BACKEND_CUDA &&
         (problem->element_bytes == 2 || (problem->dtype == CRK_DTYPE_F32 && choice == LARGE));
}

static uint64_t count_across(const problem_t *problem, const tile_t *tile) {
  return crk_priv_ceil_div(problem->call.rhs.rows, tile->columns);
}
static uint64_t count_down(const problem_t *problem, const tile_t *tile) {
  return crk_priv_ceil_div(problem->call.lhs.rows, tile->rows);
}
static uint64_t count_tiles(const problem_t *problem, const tile_t *tile) {
  return count_across(problem, tile) * count_down(problem, tile) * problem->call.batch.numel;
}

/* Chooses THIN for few rows. Otherwise it chooses the largest tile of which there are at least three for four units. It
 * chooses a smaller tile if that one holds all rows or all columns of dst. */
static uint32_t choose_matmul_tile(crk_device_t self, const problem_t *problem) {
  const crk_matmul_t *call = &problem->call;
  const uint64_t m = call->lhs.rows, n = call->rhs.rows;
  if (m <= tiles[THIN].rows && n > tiles[SMALL].columns) {
    return THIN;
  }
  const bool is_wide = is_on_cuda_cores(self, problem, WIDE) && call->k > LARGE_K &&
                       tiles[WIDE].cuda_bytes <= self->context->info.shared_bytes;
  const bool is_unsplit = is_on_cuda_cores(self, problem, LARGE) && problem->element_bytes == 4 && call->k < SPLIT_K;
  uint32_t choice = problem->dtype == CRK_DTYPE_F64 || is_unsplit ? LARGE + 1 : is_wide ? WIDE : LARGE;
  for (; choice < SMALL; choice++) {
    const tile_t *tile = &tiles[choice], *next = &tiles[choice + 1];
    const uint64_t count = count_tiles(problem, tile);
    if (m > next->rows && n > next->columns && 4 * count >= (uint64_t)3 * crk_priv_units(self)) {
      break;
    }
  }
  return choice;
}

/* How the tiled kernels read operand `i`: 16 bytes at once along k or along the rows, or element by element. */
static void choose_operand_way(problem_t *problem, uint32_t i) {
  crk_matmul_t *call = &problem->call;
  crk_matmul_operand_t *operand = i == 0 ? &call->lhs : &call->rhs;
  const uint64_t pack = 16 / problem->element_bytes;
  const uint64_t stride = operand->k_stride == 1 ? operand->row_stride : operand->k_stride;
  operand->way = operand->k_stride == 1                                  ? CRK_MATMUL_ALONG_K
                 : operand->row_stride == 1 && operand->rows % pack == 0 ? CRK_MATMUL_ALONG_ROWS
                                                                         : CRK_MATMUL_ANY;
  if (stride > CRK_MATMUL_MOST_STRIDE) {
    operand->way = CRK_MATMUL_ANY;
  }
  bool is_aligned = operand->way != CRK_MATMUL_ANY && stride % pack == 0 &&
                    (uintptr_t)(i == 0 ? problem->lhs : problem->rhs) % 16 == 0;
  for (uint32_t dim = 0; dim < call->batch.rank; dim++) {
    is_aligned = is_aligned && call->batch.strides[i][dim] % pack == 0;
  }
  operand->is_aligned = is_aligned;
}

/* Chooses how the tiled kernels read both operands and store the results. */
static void choose_ways(problem_t *problem) {
  crk_matmul_t *call = &problem->call;
  choose_operand_way(problem, 0);
  choose_operand_way(problem, 1);
  /* Numbers that a lane stores at once: matrix cores make eight neighbours of halves, and four of f32 and f64. */
  const uint32_t vector = problem->element_bytes == 2 ? 8 : 4;
  call->by_vectors = call->column_stride == 1 && call->rhs.rows % vector == 0 && (uintptr_t)problem->dst % 16 == 0;
}

/* Cuts k into parts, so that every unit of the device has a block. */
static void choose_k_parts(crk_device_t self, problem_t *problem, uint64_t blocks) {
  crk_matmul_t *call = &problem->call;
  const uint64_t step = PART_STEP_BYTES / problem->element_bytes;
  const uint64_t wanted = crk_priv_units(self) / blocks;
  const uint64_t parts = crk_priv_least(wanted, call->k / (step * PART_STEPS));
  if (parts > 1) {
    call->part_k = crk_priv_ceil_div(crk_priv_ceil_div(call->k, step), parts) * step;
    crk_priv_divisor_init(&call->parts, crk_priv_ceil_div(call->k, call->part_k), true);
  }
}

crk_status_t crk_priv_matmul_add_parts(crk_device_t self, crk_dtype_t dtype, void *sums, uint64_t parts, uint64_t count,
                                       void *dst) {
  crk_function_t add;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MATMUL_PARTS + (uint32_t)dtype, CRK_MODULE_MATMUL, &add, "matmul_%s_parts",
                         crk_dtype_name(dtype)));
  const void *args[5] = {&sums, &parts, &count, &dst};
  /* The kernel adds 16 bytes at once where it can. */
  const uint64_t pack = dtype == CRK_DTYPE_F64 ? 2 : 4;
  const bool has_packs = count % pack == 0 && (uintptr_t)dst % (pack * crk_dtype_size(dtype)) == 0;
  return crk_priv_launch_threads(self, add, has_packs ? count / pack : count, args, 4);
}

/* Launches blocks that each sum one part of k into scratch memory, and a kernel that adds up the parts. */
static crk_status_t launch_matmul_parts(crk_device_t self, problem_t *problem, crk_function_t function, uint64_t across,
                                        uint64_t down, uint32_t shared_bytes) {
  crk_matmul_t *call = &problem->call;
  const uint64_t parts = call->parts.size, count = call->lhs.rows * call->rhs.rows * call->batch.numel;
  void *dst = problem->dst, *sums;
  CRK_TRY(crk_alloc(self, parts * count * (problem->dtype == CRK_DTYPE_F64 ? 8 : 4), &sums));
  problem->dst = sums;
  crk_status_t status = launch_matmul_blocks(self, function, problem, across, down, shared_bytes);
  if (status == CRK_OK) {
    status = crk_priv_matmul_add_parts(self, problem->dtype, sums, parts, count, dst);
  }
  return crk_priv_free_after(self, status, sums);
}

/* The blocks of matmul_short.h that the device holds at once. */
static uint64_t count_short_blocks(crk_device_t self) {
  return crk_priv_held_blocks(self, NULL, CRK_MATMUL_SHORT_THREADS, CRK_MATMUL_SHORT_BYTES, CRK_MATMUL_SHORT_BLOCKS);
}

/* Whether matmul_short.h computes the problem. Call it after choose_ways. */
static bool takes_short(crk_device_t self, const problem_t *problem) {
  const crk_matmul_t *call = &problem->call;
  return problem->element_bytes == 2 && is_on_cuda_cores(self, problem, LARGE) &&
         count_short_blocks(self) == CRK_MATMUL_SHORT_BLOCKS * crk_priv_units(self) && call->k <= SHORT_K &&
         call->k % 8 == 0 && call->lhs.way == CRK_MATMUL_ALONG_K && call->lhs.is_aligned != 0 &&
         call->rhs.is_aligned != 0 && call->by_vectors != 0 && call->lhs.rows <= INT32_MAX &&
         call->rhs.rows <= INT32_MAX && count_tiles(problem, &short_tile) <= INT32_MAX;
}

static crk_status_t launch_matmul_short(crk_device_t self, problem_t *problem) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MATMUL_SHORT + (uint32_t)problem->dtype, CRK_MODULE_MATMUL, &function,
                         "matmul_%s_short", crk_dtype_name(problem->dtype)));
  crk_priv_matmul_tiles_init(&problem->call, count_across(problem, &short_tile), count_down(problem, &short_tile),
                             false);
  const crk_dim3_t grid = {(uint32_t)crk_priv_least(count_tiles(problem, &short_tile), count_short_blocks(self)), 1, 1};
  const void *args[] = {&problem->call, &problem->lhs, &problem->rhs, &problem->dst};
  return crk_priv_launch_blocks(self, function, grid, (crk_dim3_t){CRK_MATMUL_SHORT_THREADS, 1, 1},
                                short_tile.cuda_bytes, args);
}

static crk_status_t launch_matmul_tiles(crk_device_t self, problem_t *problem) {
  crk_matmul_t *call = &problem->call;
  const uint32_t choice = choose_matmul_tile(self, problem);
  const tile_t *tile = &tiles[choice];
  choose_ways(problem);
  if (choice <= LARGE && takes_short(self, problem)) {
    return launch_matmul_short(self, problem);
  }
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MATMUL_TILES + choice * CRK_DTYPE_COUNT + (uint32_t)problem->dtype,
                         CRK_MODULE_MATMUL, &function, "matmul_%s_%ux%u_tiles", crk_dtype_name(problem->dtype),
                         (unsigned)tile->rows, (unsigned)tile->columns));
  const uint64_t across = count_across(problem, tile), down = count_down(problem, tile);
  if (tile->rows * tile->columns <= CRK_MATMUL_SPLIT_TILE) {
    choose_k_parts(self, problem, count_tiles(problem, tile));
  }
  const uint32_t shared_bytes = is_on_cuda_cores(self, problem, choice) ? tile->cuda_bytes : 0;
  return call->parts.size > 1 ? launch_matmul_parts(self, problem, function, across, down, shared_bytes)
                              : launch_matmul_blocks(self, function, problem, across, down, shared_bytes);
}

/* ---- BLAS */

/* Describes an operand of rows x k elements to a BLAS library. One stride must be 1; the other is then the leading
 * dimension. The stride of a dim of size 1 does not matter. False where the library cannot take the operand. */
static bool describe_gemm_operand(const crk_matmul_operand_t *operand, uint64_t k, crk_gemm_operand_t *gemm) {
  const uint64_t rows = operand->rows;
  if ((k == 1 || operand->k_stride == 1) && (rows == 1 || operand->row_stride >= k)) {
    *gemm = (crk_gemm_operand_t){.along_k = true, .leading = rows == 1 ? k : operand->row_stride};
  } else if ((rows == 1 || operand->row_stride == 1) && (k == 1 || operand->k_stride >= rows)) {
    *gemm = (crk_gemm_operand_t){.along_k = false, .leading = k == 1 ? rows : operand->k_stride};
  } else {
    return false;
  }
  return gemm->leading <= INT32_MAX;
}

static atomic_bool is_tf32_allowed;

void crk_matmul_allow_tf32(bool allowed) { atomic_store(&is_tf32_allowed, allowed); }

bool crk_matmul_is_tf32_allowed(void) { return atomic_load_explicit(&is_tf32_allowed, memory_order_relaxed); }

/* Gives the product to the device's BLAS library, if the library supports its layouts. A large dst takes several calls:
 * each makes some matrices of the batch, or some rows of one matrix. Returns false if a part was not launched. */
static bool multiply_by_blas(crk_device_t self, const problem_t *problem) {
  const crk_matmul_t *call = &problem->call;
  const crk_nd_t *batch = &call->batch;
  const uint64_t bytes = problem->element_bytes, m = call->lhs.rows, n = call->rhs.rows;
  crk_gemm_t gemm = {.dtype = problem->dtype,
                     .is_tf32 = problem->dtype == CRK_DTYPE_F32 && crk_matmul_is_tf32_allowed()};
  if (batch->rank > 1 || m > INT32_MAX || n > INT32_MAX || call->k > INT32_MAX || batch->numel > INT32_MAX ||
      n * bytes > CRK_GEMM_MOST_BYTES || !describe_gemm_operand(&call->lhs, call->k, &gemm.lhs) ||
      !describe_gemm_operand(&call->rhs, call->k, &gemm.rhs)) {
    return false;
  }
  gemm.n = (int32_t)n;
  gemm.k = (int32_t)call->k;
  const uint64_t lhs_stride = batch->rank == 1 ? batch->strides[0][0] : 0;
  const uint64_t rhs_stride = batch->rank == 1 ? batch->strides[1][0] : 0;
  gemm.lhs.batch_stride = (int64_t)lhs_stride;
  gemm.rhs.batch_stride = (int64_t)rhs_stride;
  const uint64_t most_rows = CRK_GEMM_MOST_BYTES / (n * bytes);
  const uint64_t matrices = most_rows > m ? most_rows / m : 1;
  const uint64_t rows = crk_priv_ceil_div(m, crk_priv_ceil_div(m, most_rows)); /* about the same in each part */
  for (uint64_t b = 0; b < batch->numel; b += matrices) {
    gemm.batch = (int32_t)crk_priv_least(matrices, batch->numel - b);
    gemm.rhs.first = (const char *)problem->rhs + b * rhs_stride * bytes;
    for (uint64_t row = 0; row < m; row += rows) {
      gemm.m = (int32_t)crk_priv_least(rows, m - row);
      gemm.lhs.first = (const char *)problem->lhs + (b * lhs_stride + row * call->lhs.row_stride) * bytes;
      gemm.dst = (char *)problem->dst + (b * m + row) * n * bytes;
      if (!crk_priv_blas_multiply(self, &gemm)) {
        return false;
      }
    }
  }
  return true;
}

typedef crk_status_t (*launch_vec_t)(crk_device_t self, problem_t *problem);

/* The launcher for a product of one row, or NULL. */
static launch_vec_t find_vec(const problem_t *problem) {
  const crk_matmul_t *call = &problem->call;
  if (call->lhs.rows == 1 && call->lhs.k_stride == 1 && call->rhs.k_stride == 1) {
    return launch_matmul_rows;
  }
  if (call->lhs.rows == 1 && call->rhs.row_stride == 1 && call->rhs.rows >= 16 / problem->element_bytes) {
    return launch_matmul_columns;
  }
  return NULL;
}

/* Whether cuBLAS is faster than the kernels for one row, apart from that for long rows. They are as fast for one matrix
 * that is contiguous along k, has at most as many rows as columns, and is not large. */
static bool is_blas_faster(crk_device_t self, const problem_t *problem, launch_vec_t vec) {
  const crk_matmul_t *call = &problem->call;
  const bool is_small = call->rhs.rows <= call->k && call->k <= ((uint64_t)1 << 24) / call->rhs.rows;
  return self->driver->backend == CRK_BACKEND_CUDA &&
         (vec == launch_matmul_columns || call->batch.numel > 1 || !is_small);
}

/* Whether the kernels for f32 are faster than cuBLAS, which does not use matrix cores unless TF32 is allowed. They are
 * where both operands are copied along k, 16 bytes at once, large tiles keep three quarters of the units busy, and a
 * row has at least LEAST_FLOAT_K numbers. On an H200 they then take 0.73 to 1.0 of cuBLAS's time. */
static bool is_float_tile_faster(crk_device_t self, problem_t *problem) {
  const crk_matmul_t *call = &problem->call;
  if (self->driver->backend != CRK_BACKEND_CUDA || problem->dtype != CRK_DTYPE_F32 || !self->context->has_float_cores ||
      crk_matmul_is_tf32_allowed() || call->k < LEAST_FLOAT_K || choose_matmul_tile(self, problem) != LARGE) {
    return false;
  }
  choose_ways(problem);
  if (call->lhs.way != CRK_MATMUL_ALONG_K || call->rhs.way != CRK_MATMUL_ALONG_K || !call->lhs.is_aligned ||
      !call->rhs.is_aligned) {
    return false;
  }
  const tile_t *tile = &tiles[LARGE];
  const uint64_t m = call->lhs.rows, n = call->rhs.rows, units = crk_priv_units(self);
  const uint64_t count = count_tiles(problem, tile);
  const uint64_t held = crk_priv_ceil_div(count, units) * units * tile->rows * tile->columns;
  return m * n * call->batch.numel >= held / 4 * 3;
}

/* Whether matmul_short.h is faster than cuBLAS. */
static bool is_short_faster(crk_device_t self, problem_t *problem) {
  if (self->driver->backend != CRK_BACKEND_CUDA || problem->call.k > FAST_SHORT_K || problem->call.batch.numel > 1 ||
      choose_matmul_tile(self, problem) > LARGE) {
    return false;
  }
  choose_ways(problem);
  return takes_short(self, problem) && count_tiles(problem, &short_tile) >= FAST_SHORT_TILES * count_short_blocks(self);
}

static crk_status_t choose_and_launch(crk_device_t self, problem_t *problem) {
  crk_matmul_t *call = &problem->call;
  /* The kernels for few rows take these as the left operand; a BLAS library needs dst as it is. */
  const bool is_exchanged = call->rhs.rows < call->lhs.rows && call->rhs.rows <= tiles[THIN].rows;
  if (is_exchanged) {
    exchange(problem);
  }
  /* On an H200 this kernel takes less time than cuBLAS (docs/matmul.md, "One row"). */
  crk_wide_product_t wide;
  if (describe_wide(self, problem, &wide)) {
    return crk_priv_wide_multiply(self, problem->dtype, &wide, 1);
  }
  const launch_vec_t vec = find_vec(problem);
  if (vec != NULL && !is_blas_faster(self, problem, vec)) {
    return vec(self, problem);
  }
  if (is_exchanged) {
    exchange(problem);
  }
  const bool is_own_faster = is_float_tile_faster(self, problem) || is_short_faster(self, problem);
  if (!is_own_faster && multiply_by_blas(self, problem)) {
    return crk_priv_operation(self, where, CRK_OK);
  }
  if (is_exchanged) {
    exchange(problem);
  }
  return vec != NULL ? vec(self, problem) : launch_matmul_tiles(self, problem);
}

crk_status_t crk_matmul(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *lhs_layout, crk_const_view_t lhs,
                        const crk_layout_t *rhs_layout, crk_const_view_t rhs, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(crk_priv_check_wide_float(where, dtype));
  problem_t problem = {.dtype = dtype, .element_bytes = (uint32_t)crk_dtype_size(dtype), .dst = dst.ptr};
  operand_t left = {.layout_name = "lhs_layout", .name = "lhs", .layout = lhs_layout, .view = lhs};
  operand_t right = {.layout_name = "rhs_layout", .name = "rhs", .layout = rhs_layout, .view = rhs};
  CRK_TRY(crk_priv_layout_extent(where, left.layout_name, left.layout, &left.extent));
  CRK_TRY(crk_priv_layout_extent(where, right.layout_name, right.layout, &right.extent));
  CRK_TRY(check_matmul_dims(&left, &right));
  const uint32_t rank = lhs_layout->rank;
  size_t dims[CRK_MAX_RANK], numel;
  for (uint32_t i = 0; i < rank; i++) {
    dims[i] = i + 1 < rank ? lhs_layout->dims[i] : rhs_layout->dims[i];
  }
  CRK_TRY(crk_priv_dst_numel(where, dims, rank, &numel));
  if (numel == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), numel, problem.element_bytes));
  if (lhs_layout->dims[rank - 1] == 0) {
    return crk_memset(self, dst, 0, numel * problem.element_bytes);
  }
  CRK_TRY(operand_check(&left, problem.element_bytes, dst.ptr, numel * problem.element_bytes));
  CRK_TRY(operand_check(&right, problem.element_bytes, dst.ptr, numel * problem.element_bytes));
  describe_problem(&problem, &left, &right);
  return choose_and_launch(self, &problem);
}
