/* Launches of the products of one row with long rows of matrices (kernels/matmul/matmul_wide.h), and the launchers that
 * multiply a row with several matrices at once. */
#include "launch/elementwise.h"
#include "launch/heads.h"
#include "launch/matmul.h"
#include "launch/product.h"
#include "launch/quantized.h"

enum {
  PIECE_BYTES = 16, /* what a thread loads at once */
  /* Rows below ROW_BYTES have too few pieces for the threads of a group. They are taken where the weights are so few
   * that the launch is what takes time, and a single matrix only where each lane of a wave has a piece. */
  ROW_BYTES = 1024,
  SHORT_ROWS_BYTES = 4 << 20,
  /* Keeps the number of threads of a launch below 2^32 where blocks have the fewest rows. */
  MOST_ROWS = 1 << 26,
  /* Blocks per block that an NVIDIA GPU holds at once, with rows longer than ROW_BYTES. Small blocks end together: on
   * an H200 four take 0.5 to 2 % less time than one. Shorter rows get one: 32 000 rows of 1 KiB take 9.9 us with it
   * and 11.8 us with four. AMD GPUs get one, because more blocks read x more often (not measured). */
  CUDA_PASSES = 4
};

_Static_assert((int)CRK_WIDE_MATRICES == CRK_MOST_GROUPED, "a place for each matrix");

bool crk_priv_wide_fits(crk_device_t self, const crk_wide_product_t *product, uint32_t count, uint32_t element_bytes) {
  const uint64_t row_bytes = product->k * element_bytes;
  uint64_t places = (uintptr_t)product->x | row_bytes;
  const uint64_t least_bytes = (count == 1 ? self->context->info.wave_size : 1) * (uint64_t)PIECE_BYTES;
  bool fits = self->driver->backend != CRK_BACKEND_CPU && row_bytes >= least_bytes;
  for (uint32_t i = 0; i < count; i++) {
    const crk_wide_matrix_t *matrix = &product->matrix[i];
    places |= (uintptr_t)matrix->first | matrix->row_stride * element_bytes;
    fits = fits && matrix->rows <= (row_bytes < ROW_BYTES ? SHORT_ROWS_BYTES / row_bytes : MOST_ROWS);
  }
  return fits && places % PIECE_BYTES == 0;
}

/* The number of pairs of a block: `wanted` or more, at most `most`. If neighbours are not pairs, this number divides
 * the number of pairs of a head, and may be less than `wanted`. The block's rows then follow each other in both halves
 * of a head. */
static uint32_t block_pairs(const crk_heads_t *heads, uint64_t wanted, uint32_t most) {
  const uint32_t least = (uint32_t)crk_priv_least(wanted, most);
  const size_t half = heads->d / 2;
  uint32_t pairs = least;
  while (heads->kind == CRK_ROPE_KIND_ROPE && pairs <= most && half % pairs != 0) {
    pairs++;
  }
  if (pairs > most) {
    for (pairs = least; half % pairs != 0;) {
      pairs--;
    }
  }
  return pairs;
}

/* How many rows a block multiplies, how many blocks there are, and the threads of a block. `per` is the number of sums
 * of a row: 1; 2 for a gate, or for pairs of `heads`. */
static uint32_t divide_wide(crk_device_t self, crk_function_t function, crk_wide_product_t *product, uint32_t matrices,
                            uint32_t per, const crk_heads_t *heads, uint32_t element_bytes) {
  const uint64_t piece = PIECE_BYTES / element_bytes, wave = self->context->info.wave_size;
  const uint64_t most = (uint64_t)CRK_WIDE_THREADS * CRK_WIDE_PIECES; /* pieces of a chunk */
  const uint64_t pieces = product->k / piece;
  const uint64_t chunk = crk_priv_ceil_div(pieces, crk_priv_ceil_div(pieces, most));
  const uint64_t waves = crk_priv_ceil_div(chunk, wave * CRK_WIDE_PIECES);
  const uint32_t threads = (uint32_t)(waves * wave);
  product->chunk = chunk * piece;
  product->threads = threads;
  /* nvcc leaves registers for two blocks of the most threads. */
  const bool is_cuda = self->driver->backend == CRK_BACKEND_CUDA;
  const uint32_t unit_blocks = is_cuda ? 2 * CRK_WIDE_THREADS / threads : 0;
  const uint64_t held = crk_priv_held_blocks(self, function, threads, 0, unit_blocks);
  uint64_t rows = 0;
  for (uint32_t i = 0; i < matrices; i++) {
    rows += product->matrix[i].rows;
  }
  /* A thread has two sums at hand. */
  const uint32_t step = 2 / per, room = CRK_WIDE_SUMS / (threads / CRK_GROUP_THREADS) / per;
  const uint64_t row_bytes = product->k * element_bytes;
  const uint64_t passes = is_cuda && row_bytes > ROW_BYTES ? CUDA_PASSES : 1;
  const uint64_t wanted = crk_priv_ceil_div(rows, held * passes);
  const uint64_t whole = crk_priv_ceil_div(wanted, step) * step;
  product->block_rows =
      heads != NULL ? block_pairs(heads, whole, room) : (uint32_t)crk_priv_least(whole, room / step * step);
  uint32_t blocks = 0;
  for (uint32_t i = 0; i < CRK_WIDE_MATRICES; i++) {
    blocks += i < matrices ? (uint32_t)crk_priv_ceil_div(product->matrix[i].rows, product->block_rows) : 0;
    product->end[i] = blocks;
  }
  return blocks;
}

/* Launches `blocks` blocks with the argument `call`, which contains the product. */
static crk_status_t launch_wide(crk_device_t self, crk_function_t function, const crk_wide_product_t *product,
                                uint32_t blocks, const void *call) {
  const void *args[] = {call};
  const crk_dim3_t block = {product->threads, 1, 1};
  return crk_priv_launch_blocks(self, function, (crk_dim3_t){blocks, 1, 1}, block, 0, args);
}

crk_status_t crk_priv_wide_multiply(crk_device_t self, crk_dtype_t dtype, crk_wide_product_t *product, uint32_t count) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MATMUL_WIDE + (uint32_t)dtype, CRK_MODULE_MATMUL, &function,
                         "matmul_%s_wide_vec", crk_dtype_name(dtype)));
  const uint32_t blocks = divide_wide(self, function, product, count, 1, NULL, (uint32_t)crk_dtype_size(dtype));
  return launch_wide(self, function, product, blocks, product);
}

/* ---- several matrices at once */

#define MATRIX_NAMES(i) \
  {"weights[" #i "].layout", "weights[" #i "].weights", "weights[" #i "].dst", "weights[" #i "].bias"}
static const crk_matrix_names_t grouped_names[CRK_MOST_GROUPED] = {MATRIX_NAMES(0), MATRIX_NAMES(1), MATRIX_NAMES(2)};
static const crk_matrix_names_t gate_names[] = {{"gate_layout", "gate", "dst", NULL}, {"up_layout", "up", NULL, NULL}};

/* A row and its matrices. `product` is filled in, apart from how blocks share the work. */
typedef struct vec_problem {
  const char *where;
  const crk_matrix_names_t *names;
  crk_dtype_t dtype;
  uint32_t element_bytes, count;
  crk_const_view_t x;
  const crk_matmul_weights_t *weights;
  crk_wide_product_t product;
  bool is_along_k; /* every matrix is contiguous along k */
} vec_problem_t;

/* Checks the weights and their place in memory; their dst is not checked. */
static crk_status_t describe_weights(vec_problem_t *problem, uint32_t i, size_t *bytes) {
  const crk_matmul_weights_t *weights = &problem->weights[i];
  const crk_matrix_names_t *names = &problem->names[i];
  const crk_tensor_t tensor = {names->layout, names->weights, weights->layout, weights->weights,
                               problem->element_bytes};
  crk_extent_t extent;
  const void *first;
  CRK_TRY(crk_priv_layout_extent(problem->where, tensor.layout_name, tensor.layout, &extent));
  const crk_layout_t *layout = weights->layout;
  CRK_REFUSE_IF(layout->rank != 2, "%s: %s.rank is %u; it must be 2", problem->where, names->layout,
                (unsigned)layout->rank);
  CRK_REFUSE_IF(layout->dims[1] != problem->product.k, "%s: %s.dims[1] is %zu, but k is %zu", problem->where,
                names->layout, layout->dims[1], (size_t)problem->product.k);
  CRK_TRY(crk_priv_tensor_first(problem->where, &tensor, &extent, &first));
  *bytes = extent.numel == 0 ? 0 : (extent.last - layout->offset + 1) * problem->element_bytes;
  problem->product.matrix[i] =
      (crk_wide_matrix_t){.first = first, .rows = layout->dims[0], .row_stride = layout->strides[0]};
  problem->is_along_k = problem->is_along_k && layout->strides[1] == 1;
  return CRK_OK;
}

/* Checks each dst that has a name against the others, the row, all weights and all biases. */
static crk_status_t check_vec_dst(const vec_problem_t *problem, const size_t *weights_bytes) {
  const uint32_t element = problem->element_bytes;
  crk_region_t written[CRK_WIDE_MATRICES],
      read[2 * CRK_WIDE_MATRICES + 1] = {{"x", problem->x.ptr, problem->product.k * element}};
  size_t writes = 0;
  for (uint32_t i = 0; i < problem->count; i++) {
    const crk_matrix_names_t *names = &problem->names[i];
    const crk_matmul_weights_t *weights = &problem->weights[i];
    const size_t rows = problem->product.matrix[i].rows, bytes = rows * element;
    if (names->dst != NULL) {
      CRK_TRY(crk_priv_check_elements(problem->where, names->dst, crk_const(weights->dst), rows, element));
      written[writes++] = (crk_region_t){names->dst, weights->dst.ptr, bytes};
    }
    read[2 * i + 1] = (crk_region_t){names->weights, problem->product.matrix[i].first, weights_bytes[i]};
    read[2 * i + 2] = (crk_region_t){names->bias, weights->bias.ptr, weights->bias.ptr == NULL ? 0 : bytes};
  }
  return crk_priv_check_all_apart(problem->where, written, writes, read, 2 * problem->count + 1);
}

/* Fills in `problem` from its arguments. */
static crk_status_t begin_vec(crk_device_t self, vec_problem_t *problem, size_t k, size_t *weights_bytes) {
  CRK_CHECK_HANDLE(self, DEVICE, problem->where);
  CRK_TRY(crk_priv_check_wide_float(problem->where, problem->dtype));
  problem->element_bytes = (uint32_t)crk_dtype_size(problem->dtype);
  problem->product = (crk_wide_product_t){.x = problem->x.ptr, .k = k};
  problem->is_along_k = true;
  CRK_TRY(crk_priv_check_elements(problem->where, "x", problem->x, k, problem->element_bytes));
  for (uint32_t i = 0; i < problem->count; i++) {
    CRK_TRY(describe_weights(problem, i, &weights_bytes[i]));
  }
  return CRK_OK;
}

/* One product by crk_matmul, and its bias by crk_binary. */
static crk_status_t multiply_alone(crk_device_t self, const vec_problem_t *problem, uint32_t i, crk_view_t dst) {
  const crk_matmul_weights_t *weights = &problem->weights[i];
  const crk_layout_t *layout = weights->layout;
  const size_t row[] = {1, problem->product.k};
  crk_layout_t x;
  CRK_TRY(crk_layout_contiguous(row, 2, &x));
  const crk_layout_t rhs = {.rank = 2,
                            .dims = {layout->dims[1], layout->dims[0]},
                            .strides = {layout->strides[1], layout->strides[0]},
                            .offset = layout->offset};
  CRK_TRY(crk_matmul(self, problem->dtype, &x, problem->x, &rhs, weights->weights, dst));
  if (weights->bias.ptr == NULL) {
    return CRK_OK;
  }
  crk_layout_t row_of_n;
  CRK_TRY(crk_layout_contiguous(layout->dims, 1, &row_of_n));
  return crk_binary(self, CRK_BINARY_ADD, problem->dtype, &row_of_n, crk_const(dst), &row_of_n, weights->bias, dst);
}

crk_status_t crk_matmul_grouped(crk_device_t self, crk_dtype_t dtype, size_t k, crk_const_view_t x,
                                const crk_matmul_weights_t *weights, size_t count) {
  vec_problem_t problem = {.where = "crk_matmul_grouped",
                           .names = grouped_names,
                           .dtype = dtype,
                           .count = (uint32_t)count,
                           .x = x,
                           .weights = weights};
  CRK_REFUSE_IF(count == 0 || count > CRK_MOST_GROUPED, "%s: count is %zu; it must be 1 to %d", problem.where, count,
                CRK_MOST_GROUPED);
  CRK_REFUSE_IF(weights == NULL, "%s: weights is NULL", problem.where);
  size_t weights_bytes[CRK_WIDE_MATRICES];
  CRK_TRY(begin_vec(self, &problem, k, weights_bytes));
  bool is_empty = false;
  for (uint32_t i = 0; i < problem.count; i++) {
    const size_t n = problem.product.matrix[i].rows;
    if (crk_priv_is_given(weights[i].bias)) {
      CRK_TRY(crk_priv_check_elements(problem.where, problem.names[i].bias, weights[i].bias, n, problem.element_bytes));
      problem.product.matrix[i].bias = weights[i].bias.ptr;
    }
    problem.product.matrix[i].dst = weights[i].dst.ptr;
    is_empty = is_empty || n == 0;
  }
  CRK_TRY(check_vec_dst(&problem, weights_bytes));
  if (!is_empty && problem.is_along_k &&
      crk_priv_wide_fits(self, &problem.product, problem.count, problem.element_bytes)) {
    return crk_priv_wide_multiply(self, dtype, &problem.product, problem.count);
  }
  for (uint32_t i = 0; i < problem.count; i++) {
    CRK_TRY(multiply_alone(self, &problem, i, weights[i].dst));
  }
  return CRK_OK;
}

/* Both products in scratch memory, and the gate. */
static crk_status_t gate_apart(crk_device_t self, crk_gate_op_t op, const vec_problem_t *problem, size_t n,
                               crk_view_t dst) {
  const size_t bytes = n * problem->element_bytes;
  void *scratch;
  CRK_TRY(crk_alloc(self, 2 * bytes, &scratch));
  const crk_view_t gate = {scratch, bytes}, up = {(char *)scratch + bytes, bytes};
  crk_layout_t layout;
  crk_status_t status = crk_layout_contiguous(&n, 1, &layout);
  status = status == CRK_OK ? multiply_alone(self, problem, 0, gate) : status;
  status = status == CRK_OK ? multiply_alone(self, problem, 1, up) : status;
  if (status == CRK_OK) {
    status = crk_gate(self, op, problem->dtype, &layout, crk_const(gate), &layout, crk_const(up), dst);
  }
  return crk_priv_free_after(self, status, scratch);
}

crk_status_t crk_matmul_gate(crk_device_t self, crk_gate_op_t op, crk_dtype_t dtype, size_t k, crk_const_view_t x,
                             const crk_layout_t *gate_layout, crk_const_view_t gate, const crk_layout_t *up_layout,
                             crk_const_view_t up, crk_view_t dst) {
  const crk_matmul_weights_t weights[] = {{.layout = gate_layout, .weights = gate, .dst = dst},
                                          {.layout = up_layout, .weights = up}};
  vec_problem_t problem = {
      .where = "crk_matmul_gate", .names = gate_names, .dtype = dtype, .count = 2, .x = x, .weights = weights};
  const char *root;
  CRK_TRY(crk_priv_gate_root(problem.where, op, &root));
  size_t weights_bytes[2];
  CRK_TRY(begin_vec(self, &problem, k, weights_bytes));
  const size_t n = gate_layout->dims[0];
  CRK_REFUSE_IF(up_layout->dims[0] != n, "%s: up_layout.dims[0] is %zu, but gate_layout.dims[0] is %zu", problem.where,
                up_layout->dims[0], n);
  CRK_TRY(check_vec_dst(&problem, weights_bytes));
  if (n == 0) {
    return CRK_OK;
  }
  uint32_t type = 0;
  const bool has_kernel = dtype != CRK_DTYPE_F64 && problem.is_along_k &&
                          crk_priv_wide_fits(self, &problem.product, 2, problem.element_bytes);
  if (!has_kernel) {
    return gate_apart(self, op, &problem, n, dst);
  }
  CRK_TRY(crk_priv_activation_index(problem.where, dtype, &type));
  problem.product.matrix[0].dst = dst.ptr;
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MATMUL_GATE + (uint32_t)op * CRK_ACTIVATIONS + type, CRK_MODULE_MATMUL,
                         &function, "matmul_%s_%s", root, crk_dtype_name(dtype)));
  const uint32_t blocks = divide_wide(self, function, &problem.product, 1, 2, NULL, problem.element_bytes);
  return launch_wide(self, function, &problem.product, blocks, &problem.product);
}

/* ---- rotated heads */

/* Rotates or copies the products of the parts. `results` has them one after another. A launch takes at most two parts
 * that it rotates, and one part that it copies. */
static crk_status_t rotate_results(crk_device_t self, const crk_heads_t *heads, size_t element_bytes, char *results) {
  const size_t d = heads->d, row[] = {1, d / 2}, none[] = {1, 0, 1, d};
  crk_layout_t src[CRK_MOST_GROUPED], dst[CRK_MOST_GROUPED], empty, angles;
  CRK_TRY(crk_layout_contiguous(row, 2, &angles));
  CRK_TRY(crk_layout_contiguous(none, 4, &empty));
  crk_rope_rows_t rows[CRK_MOST_GROUPED];
  bool is_done[CRK_MOST_GROUPED] = {false};
  for (size_t i = 0; i < heads->count; i++) {
    const crk_head_weights_t *part = &heads->parts[i];
    const size_t dims[] = {1, part->heads, 1, d}, bytes = part->heads * d * element_bytes;
    CRK_TRY(crk_layout_contiguous(dims, 4, &src[i]));
    dst[i] = src[i];
    dst[i].strides[1] = part->head_stride;
    rows[i] = (crk_rope_rows_t){&src[i], {results, bytes}, &dst[i], part->dst};
    results += bytes;
  }
  for (;;) {
    const crk_rope_rows_t nothing = {&empty, rows[0].src, &empty, rows[0].dst};
    crk_rope_rows_t taken[3] = {nothing, nothing, nothing};
    int rotated = 0, copied = 2;
    for (size_t i = 0; i < heads->count; i++) {
      int *const next = heads->parts[i].rotates ? &rotated : &copied;
      if (!is_done[i] && *next < (heads->parts[i].rotates ? 2 : 3)) {
        taken[(*next)++] = rows[i];
        is_done[i] = true;
      }
    }
    if (rotated == 0 && copied == 2) {
      return CRK_OK;
    }
    CRK_TRY(crk_rope_qkv(self, heads->kind, heads->dtype, taken, &angles, heads->cos, &angles, heads->sin));
  }
}

/* The products in scratch memory, and then their rotation. */
static crk_status_t rotate_apart(crk_device_t self, const crk_heads_t *heads, const vec_problem_t *problem) {
  size_t bytes = 0;
  for (size_t i = 0; i < heads->count; i++) {
    bytes += heads->parts[i].heads * heads->d * problem->element_bytes;
  }
  void *scratch;
  CRK_TRY(crk_alloc(self, bytes, &scratch));
  char *at = scratch;
  crk_status_t status = CRK_OK;
  for (uint32_t i = 0; i < heads->count && status == CRK_OK; i++) {
    const crk_view_t results = {at, heads->parts[i].heads * heads->d * problem->element_bytes};
    status = multiply_alone(self, problem, i, results);
    at += results.bytes;
  }
  status = status == CRK_OK ? rotate_results(self, heads, problem->element_bytes, scratch) : status;
  return crk_priv_free_after(self, status, scratch);
}

crk_status_t crk_matmul_rope(crk_device_t self, crk_dtype_t dtype, crk_rope_kind_t kind, size_t d, size_t k,
                             crk_const_view_t x, const crk_head_weights_t *parts, size_t count, crk_const_view_t cos,
                             crk_const_view_t sin) {
  static const char where[] = "crk_matmul_rope";
  crk_heads_t heads = {.where = where,
                       .dtype = dtype,
                       .kind = kind,
                       .d = d,
                       .parts = parts,
                       .count = count,
                       .x = x,
                       .cos = cos,
                       .sin = sin};
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(crk_priv_check_wide_float(where, dtype));
  CRK_TRY(crk_priv_heads_check(&heads));
  crk_matmul_weights_t weights[CRK_MOST_GROUPED];
  for (size_t i = 0; i < count; i++) {
    weights[i] = (crk_matmul_weights_t){parts[i].layout, parts[i].weights, parts[i].dst, parts[i].bias};
  }
  vec_problem_t problem = {.where = where,
                           .names = crk_priv_head_names,
                           .dtype = dtype,
                           .count = (uint32_t)count,
                           .x = x,
                           .weights = weights};
  CRK_TRY(begin_vec(self, &problem, k, heads.weights_bytes));
  heads.x_bytes = k * problem.element_bytes;
  for (uint32_t i = 0; i < count; i++) {
    crk_wide_matrix_t *matrix = &problem.product.matrix[i];
    CRK_REFUSE_IF(matrix->rows != parts[i].heads * d, "%s: %s.dims[0] is %zu, but heads is %zu and d is %zu", where,
                  crk_priv_head_names[i].layout, (size_t)matrix->rows, parts[i].heads, d);
    heads.weights[i] = matrix->first;
    matrix->bias = parts[i].bias.ptr;
    matrix->dst = parts[i].dst.ptr;
  }
  CRK_TRY(crk_priv_heads_check_apart(&heads));
  bool is_one = problem.is_along_k && crk_priv_wide_fits(self, &problem.product, problem.count, problem.element_bytes);
  size_t pairs = 0;
  for (uint32_t i = 0; i < count; i++) {
    is_one = is_one && parts[i].heads != 0;
    pairs += crk_priv_head_pairs(&heads, i);
  }
  if (pairs == 0) {
    return CRK_OK;
  }
  if (!is_one) {
    return rotate_apart(self, &heads, &problem);
  }
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MATMUL_ROPE + (uint32_t)dtype, CRK_MODULE_MATMUL, &function,
                         "matmul_%s_wide_rope", crk_dtype_name(dtype)));
  crk_wide_rope_t call = {.product = problem.product, .heads = crk_priv_heads_args(&heads)};
  for (uint32_t i = 0; i < count; i++) {
    call.product.matrix[i].rows = crk_priv_head_pairs(&heads, i);
  }
  const uint32_t blocks = divide_wide(self, function, &call.product, problem.count, 2, &heads, problem.element_bytes);
  /* So many blocks have a pair each, where the pairs of a head have no other divisor. */
  if ((uint64_t)blocks * call.product.threads > UINT32_MAX) {
    return rotate_apart(self, &heads, &problem);
  }
  return launch_wide(self, function, &call.product, blocks, &call);
}
