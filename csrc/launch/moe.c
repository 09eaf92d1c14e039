/* Launchers of products of mixtures of experts (kernels/moe.hip). */
#include "launch/moe.h"

#include "call/matmul_call.h"
#include "call/moe_call.h"
#include "launch/elementwise.h"
#include "launch/product.h"
#include "launch/sliding.h"

/* Tokens of an expert that each kernel takes at once: kernels without tiles, and kernels with tiles. */
static const uint32_t vec_tokens[] = {1, 4, 8};
static const uint32_t tile_tokens[] = {
#define XX(tokens, rows, threads, ...) tokens,
    CRK_MOE_TILES(XX, )
#undef XX
};
static const struct {
  uint32_t rows, cuda_bytes; /* of weights; of dynamic shared memory on NVIDIA GPUs */
} tiles[] = {
#define XX(tokens, rows, threads, ...) {rows, CRK_MATMUL_CUDA_BYTES(tokens, rows)},
    CRK_MOE_TILES(XX, )
#undef XX
};
enum {
  VEC_KERNELS = sizeof vec_tokens / sizeof *vec_tokens,
  TILE_KERNELS = sizeof tile_tokens / sizeof *tile_tokens,
  TILE_TYPES = 2 /* f16 and bf16 */
};
_Static_assert((int)CRK_QUANT_COUNT *(int)VEC_KERNELS == CRK_SLOTS_OF(MOE_VEC) &&
                   (int)CRK_QUANT_COUNT * (int)TILE_TYPES * (int)TILE_KERNELS == CRK_SLOTS_OF(MOE_TILES_QUANTIZED) &&
                   2 * (int)TILE_TYPES * (int)TILE_KERNELS == CRK_SLOTS_OF(MOE_TILES) &&
                   (int)CRK_QUANT_COUNT * (int)TILE_TYPES == CRK_SLOTS_OF(MOE_NUMBERS),
               "as the list of slots counts");

/* ---- checks */

/* A product of tokens with the weights of their experts. */
enum { WEIGHTS, X, TOKENS, EXPERT_IDS, TOPK_WEIGHTS, ARGUMENTS };
typedef struct mixture {
  const char *where;
  size_t experts, rows, k, tokens, topk;
  size_t inputs; /* rows of x */
  const crk_quant_info_t *info; /* NULL: the weights are numbers of `dtype` */
  crk_dtype_t dtype; /* of x */
  bool has_columns; /* x is blocks of crk_quantize_columns */
  bool is_summed; /* dst is the sum over all tokens */
  crk_moe_argument_t arguments[ARGUMENTS], dst;
  void *dst_ptr; /* of dst's view, to be written */
  float *sum; /* NULL, or where the sum of all tokens' results goes: crk_moe_vec_t */
} mixture_t;

/* Checks everything but the format and the dtypes, and sets the bytes of the arguments. `dst_bytes` is the size of an
 * element of dst. Where dst is empty, m->dst.bytes stays 0: nothing is left to do. */
static crk_status_t mixture_check(mixture_t *m, uint32_t dst_bytes) {
  const char *where = m->where;
  crk_moe_argument_t *arguments = m->arguments;
  const uint32_t x_bytes = (uint32_t)crk_dtype_size(m->dtype);
  size_t all_rows, x_elements, weight_elements, dst_elements;
  CRK_TRY(crk_priv_checked_product(where, "rows", m->experts, m->rows, &all_rows));
  CRK_TRY(crk_priv_checked_product(where, "elements of weights", all_rows, m->k, &weight_elements));
  CRK_TRY(crk_priv_checked_product(where, "elements of x", m->inputs, m->k, &x_elements));
  CRK_TRY(crk_priv_checked_product(where, "elements of dst", m->tokens, m->rows, &dst_elements));
  if (dst_elements == 0) {
    return CRK_OK;
  }
  if (m->info != NULL) {
    CRK_TRY(crk_priv_check_weights(where, arguments[WEIGHTS].name, arguments[WEIGHTS].view, all_rows, m->k, m->info,
                                   &arguments[WEIGHTS].bytes));
  } else {
    CRK_TRY(crk_priv_moe_check(where, &arguments[WEIGHTS], weight_elements, x_bytes));
  }
  if (m->has_columns) {
    CRK_TRY(crk_priv_moe_check(where, &arguments[X], x_elements / CRK_Q8_1_BLOCK * (CRK_Q8_1_BYTES / 4), 4));
  } else {
    CRK_TRY(crk_priv_moe_check(where, &arguments[X], x_elements, x_bytes));
  }
  for (int i = TOKENS; i < ARGUMENTS; i++) {
    /* Two arguments are optional. Without sorted_token_ids tokens are in order; without topk_weights all weights are
     * 1. */
    if (arguments[i].name != NULL && (i != TOPK_WEIGHTS || crk_priv_is_given(arguments[i].view))) {
      CRK_TRY(crk_priv_moe_check(where, &arguments[i], m->tokens, 4));
    }
  }
  CRK_TRY(crk_priv_moe_check(where, &m->dst, m->is_summed ? m->rows : dst_elements, dst_bytes));
  return crk_priv_moe_check_apart(where, &m->dst, arguments, ARGUMENTS);
}

/* Fills in the arguments that Candle's functions have, and checks their sizes. */
static crk_status_t mixture_init(mixture_t *m, const char *where, crk_dtype_t dtype, size_t experts, size_t rows,
                                 size_t k, size_t tokens, size_t topk, crk_const_view_t weights, crk_const_view_t x,
                                 crk_const_view_t sorted_token_ids, crk_const_view_t expert_ids,
                                 crk_const_view_t topk_weights, crk_view_t dst) {
  *m = (mixture_t){.where = where,
                   .experts = experts,
                   .rows = rows,
                   .k = k,
                   .tokens = tokens,
                   .topk = topk,
                   .inputs = tokens,
                   .dtype = dtype,
                   .arguments = {[WEIGHTS] = {"weights", weights, 0},
                                 [X] = {"x", x, 0},
                                 [TOKENS] = {"sorted_token_ids", sorted_token_ids, 0},
                                 [EXPERT_IDS] = {"expert_ids", expert_ids, 0},
                                 [TOPK_WEIGHTS] = {"topk_weights", topk_weights, 0}},
                   .dst = {"dst", crk_const(dst), 0},
                   .dst_ptr = dst.ptr};
  CRK_TRY(crk_priv_check_count(where, "experts", experts));
  CRK_TRY(crk_priv_check_count(where, "rows", rows));
  CRK_TRY(crk_priv_check_count(where, "k", k));
  CRK_TRY(crk_priv_check_count(where, "tokens", tokens));
  CRK_TRY(crk_priv_check_count(where, "topk", topk));
  if (!crk_priv_is_given(topk_weights)) {
    CRK_REFUSE_IF(topk == 0 || tokens % topk != 0,
                  "%s: tokens is %zu; without topk_weights it must be a multiple of topk, %zu", where, tokens, topk);
    m->inputs = tokens / topk;
  }
  return CRK_OK;
}

static crk_status_t format_check(mixture_t *m, crk_quant_t quant) {
  CRK_TRY(crk_priv_quant_get_product(m->where, quant, &m->info));
  return crk_priv_check_blocks(m->where, "k", m->k, m->info);
}

/* 0 for f16, 1 for bf16. */
static crk_status_t half_index(const char *where, crk_dtype_t dtype, uint32_t *index) {
  uint32_t type;
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  if (type == 0) {
    return crk_priv_error(CRK_UNSUPPORTED, "%s: dtype is %s; there are kernels for f16 and bf16", where,
                          crk_dtype_name(dtype));
  }
  *index = type - 1;
  return CRK_OK;
}

/* ---- launches */

/* Chooses among `count` kernels, ordered by the tokens that each computes at once: the first that covers an average
 * expert's tokens, else the last. */
static uint32_t choose_by_average_tokens(const mixture_t *m, const uint32_t *tokens, uint32_t count) {
  const uint64_t average = m->experts != 0 ? crk_priv_ceil_div(m->tokens, m->experts) : 1;
  uint32_t choice = 0;
  while (choice + 1 < count && tokens[choice] < average) {
    choice++;
  }
  return choice;
}

/* Fills in the kernel arguments that describe a mixture and the grid. */
static crk_status_t mixture_shape(crk_device_t self, const mixture_t *m, crk_fault_op_t op, uint64_t input_stride,
                                  uint32_t dst_dtype, crk_dim3_t grid, uint32_t threads, crk_moe_t *shape,
                                  crk_fault_t *fault) {
  CRK_TRY(crk_priv_fault_get(self, op, fault));
  crk_divisor_t by_topk;
  crk_priv_divisor_init(&by_topk, m->inputs == m->tokens ? 1 : m->topk, false);
  CRK_REFUSE_IF(input_stride > UINT32_MAX, "%s: k is %zu; a row of x must have at most %u bytes of q8_1", m->where,
                m->k, UINT32_MAX);
  *shape = (crk_moe_t){(uint32_t)m->experts,
                       (uint32_t)m->rows,
                       (uint32_t)m->k,
                       (uint32_t)m->tokens,
                       (uint32_t)input_stride,
                       (uint32_t)by_topk.mul,
                       by_topk.shift,
                       grid.x * (threads / CRK_GROUP_THREADS),
                       threads / CRK_GROUP_THREADS,
                       grid.y,
                       op == CRK_FAULT_INDEXED_MOE ? 0 : UINT32_MAX,
                       dst_dtype};
  return CRK_OK;
}

/* `across` blocks along the rows. Along the other dim of the grid up to `work` blocks share the tokens. */
static crk_status_t mixture_grid(crk_device_t self, const mixture_t *m, uint64_t across, uint64_t work,
                                 uint32_t threads, crk_dim3_t *grid) {
  const uint64_t most = self->context->info.max_grid_threads / threads / across;
  CRK_REFUSE_IF(most == 0, "%s: rows is %zu, more than the blocks of a grid can make", m->where, m->rows);
  *grid = (crk_dim3_t){(uint32_t)across, (uint32_t)crk_priv_least(work, crk_priv_least(most, CRK_MOST_GRID_YZ)), 1};
  return CRK_OK;
}

/* Launches the kernel for one token per expert: a product like that of crk_mul_mat_vec for each of at most
 * CRK_MOST_GRID_YZ tokens. A row of x begins every `stride` blocks of q8_1. */
static crk_status_t launch_moe_vec_single(crk_device_t self, const mixture_t *m, crk_function_t function,
                                          crk_fault_op_t op, const void *x, uint64_t stride, uint32_t dst_dtype) {
  const crk_moe_argument_t *a = m->arguments;
  crk_moe_vec_t call = {.product = {.parts = {{.weights = a[WEIGHTS].view.ptr, .dst = m->dst_ptr}},
                                    .x = x,
                                    .dtype = dst_dtype,
                                    .columns = 1,
                                    .row_blocks = (uint32_t)(m->k / m->info->elements),
                                    .rows = m->rows,
                                    .x_stride = stride},
                        .tokens = a[TOKENS].view.ptr,
                        .experts = a[EXPERT_IDS].view.ptr,
                        .scales = a[TOPK_WEIGHTS].view.ptr,
                        .sum = m->sum};
  const crk_dim3_t grid = {crk_priv_divide_rows(self, function, m->tokens, 1, &call.product), (uint32_t)m->tokens, 1};
  if (m->sum != NULL) {
    CRK_REFUSE_IF(grid.x > CRK_TICKETS, "%s: rows is %zu, more than the counters of a launch", m->where, m->rows);
    CRK_TRY(crk_priv_tickets_get(self, &call.tickets));
  }
  const crk_dim3_t block = {CRK_VEC_WAVES * self->context->info.wave_size, 1, 1};
  CRK_TRY(mixture_shape(self, m, op, stride * CRK_Q8_1_BYTES, dst_dtype, grid, block.x, &call.shape, &call.fault));
  const void *args[] = {&call};
  return crk_priv_launch_blocks(self, function, grid, block, 0, args);
}

/* Launches a kernel in which tokens share a load of weights. */
static crk_status_t launch_moe_vec_shared(crk_device_t self, const mixture_t *m, crk_function_t function,
                                          crk_fault_op_t op, const void *x, uint64_t stride, uint32_t dst_dtype,
                                          uint32_t across, uint32_t threads) {
  crk_dim3_t grid;
  crk_moe_t shape;
  crk_fault_t fault;
  CRK_TRY(mixture_grid(self, m, across, m->tokens, threads, &grid));
  CRK_TRY(mixture_shape(self, m, op, stride * CRK_Q8_1_BYTES, dst_dtype, grid, threads, &shape, &fault));
  const crk_moe_argument_t *a = m->arguments;
  const void *args[] = {&a[WEIGHTS].view.ptr,
                        &x,
                        &a[TOKENS].view.ptr,
                        &a[EXPERT_IDS].view.ptr,
                        &a[TOPK_WEIGHTS].view.ptr,
                        &m->dst_ptr,
                        &shape,
                        &fault};
  return crk_priv_launch_blocks(self, function, grid, (crk_dim3_t){threads, 1, 1}, 0, args);
}

/* Launches an integer kernel on quantized activations. A row of them takes `stride` blocks. Up to vec_tokens[choice]
 * tokens share a load of weights. */
static crk_status_t launch_moe_vec_of(crk_device_t self, const mixture_t *m, crk_fault_op_t op, uint32_t dst_dtype,
                                      uint32_t choice, const void *q8_1, uint64_t stride) {
  if (choice == 0 && (m->k == 0 || m->tokens > CRK_MOST_GRID_YZ)) {
    choice = 1; /* the kernel for one token needs a k above 0 and one row of the grid per token */
  }
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MOE_VEC + m->info->index * VEC_KERNELS + choice, CRK_MODULE_MOE, &function,
                         "moe_vec_%s_%u", m->info->name, (unsigned)vec_tokens[choice]));
  if (choice == 0) {
    return launch_moe_vec_single(self, m, function, op, q8_1, stride, dst_dtype);
  }
  const uint32_t threads = CRK_VEC_WAVES * self->context->info.wave_size,
                 rows = threads / CRK_GROUP_THREADS * CRK_MOE_VEC_ROWS(vec_tokens[choice]);
  const uint32_t across = crk_priv_grid_blocks(self, crk_priv_ceil_div(m->rows, rows), threads);
  return launch_moe_vec_shared(self, m, function, op, q8_1, stride, dst_dtype, across, threads);
}

/* Fails where kernels cannot count the bytes of the quantized activations. */
static crk_status_t check_q8_1_bytes(const mixture_t *m, size_t bytes) {
  if (bytes == 0 && m->k != 0) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS,
                          "%s: scratch memory for %zu rows of k %zu elements would need more than %zu bytes", m->where,
                          m->inputs, m->k, (size_t)SIZE_MAX);
  }
  if (bytes > UINT32_MAX) {
    return crk_priv_error(CRK_UNSUPPORTED,
                          "%s: x has %zu rows of k %zu elements, %zu bytes of q8_1, at most %u are allowed", m->where,
                          m->inputs, m->k, bytes, UINT32_MAX);
  }
  return CRK_OK;
}

/* launch_moe_vec_of for activations that are not quantized yet. */
static crk_status_t launch_moe_vec(crk_device_t self, const mixture_t *m, crk_fault_op_t op, uint32_t dst_dtype,
                                   uint32_t choice) {
  const size_t bytes = crk_q8_1_bytes(m->inputs, m->k);
  CRK_TRY(check_q8_1_bytes(m, bytes));
  void *q8_1;
  CRK_TRY(crk_alloc(self, bytes, &q8_1));
  crk_status_t status = bytes != 0 ? crk_priv_quantize_q8_1(self, m->dtype, m->inputs, m->k, CRK_Q8_1_PADDED(m->k),
                                                            CRK_SUM_OF_CODES, m->arguments[X].view.ptr, q8_1)
                                   : CRK_OK;
  if (status == CRK_OK) {
    status = launch_moe_vec_of(self, m, op, dst_dtype, choice, q8_1, CRK_Q8_1_PADDED(m->k) / CRK_Q8_1_BLOCK);
  }
  return crk_priv_free_after(self, status, q8_1);
}

/* The experts of a launch, and their weights. */
typedef struct expert_range {
  size_t first, count;
  const void *weights; /* of the first of them */
} expert_range_t;

/* Blocks look for runs in slots of so many positions, as many as the shortest wave has lanes, and share the runs of a
 * slot. Where there would be few blocks, each has a position of its own. */
enum { SLOT = 32, SLOT_BLOCKS = 4 };

/* Launches the kernel of tile `choice` for some experts. */
static crk_status_t launch_moe_tiles(crk_device_t self, const mixture_t *m, crk_fault_op_t op, crk_function_t function,
                                     uint32_t choice, const expert_range_t *experts) {
  const uint64_t across = crk_priv_ceil_div(m->rows, tiles[choice].rows);
  uint32_t threads;
  CRK_TRY(crk_priv_block_threads(function, &threads));
  const crk_moe_argument_t *a = m->arguments;
  const bool is_few = across * m->tokens <= (uint64_t)16 * crk_priv_units(self);
  crk_moe_tiles_t call = {
      .weights = experts->weights,
      .x = a[X].view.ptr,
      .dst = m->dst_ptr,
      .tokens = a[TOKENS].view.ptr,
      .experts = a[EXPERT_IDS].view.ptr,
      .scales = a[TOPK_WEIGHTS].view.ptr,
      .slot = is_few ? 1 : SLOT,
      .turns = is_few ? 1 : SLOT_BLOCKS,
      .way = m->k <= CRK_MATMUL_MOST_STRIDE ? CRK_MATMUL_ALONG_K : CRK_MATMUL_ANY,
      .by_vectors = m->rows % 8 == 0 && (uintptr_t)m->dst_ptr % 16 == 0,
      .first_expert = (uint32_t)experts->first,
      .expert_count = (uint32_t)experts->count,
  };
  crk_dim3_t grid;
  CRK_TRY(mixture_grid(self, m, across * call.turns, crk_priv_ceil_div(m->tokens, call.slot), threads, &grid));
  grid.x = (uint32_t)across;
  CRK_TRY(mixture_shape(self, m, op, m->k, 0, grid, threads, &call.shape, &call.fault));
  grid.z = call.turns;
  const void *args[] = {&call};
  return crk_priv_launch_blocks(self, function, grid, (crk_dim3_t){threads, 1, 1},
                                self->driver->backend == CRK_BACKEND_CUDA ? tiles[choice].cuda_bytes : 0, args);
}

/* A tile of quantized weights makes numbers of them for one run of tokens, and waits for each step's blocks. From
 * NUMBERS_LEAST tokens per expert on, NVIDIA GPUs and the CPU make numbers of all weights first, at most NUMBERS_BYTES
 * of them at a time. AMD GPUs do not, which was not measured. On an H200, 512 tokens with 8 of 128 experts (q4_K,
 * 768 x 2048) took 732 us by tiles of blocks; by numbers they took 532 us. */
enum { NUMBERS_LEAST = 4, NUMBERS_BYTES = 256 << 20 };

static bool is_for_numbers(crk_device_t self, const mixture_t *m) {
  return self->driver->backend != CRK_BACKEND_HIP && m->experts != 0 && m->k != 0 &&
         m->tokens / NUMBERS_LEAST >= m->experts && m->rows <= NUMBERS_BYTES / 2 / m->k;
}

static crk_status_t make_numbers(crk_device_t self, const mixture_t *m, uint32_t type, const void *weights,
                                 uint64_t count, void *dst) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MOE_NUMBERS + m->info->index * TILE_TYPES + type, CRK_MODULE_MOE, &function,
                         "moe_numbers_%s_%s", m->info->name, crk_dtype_name(m->dtype)));
  const uint32_t blocks = crk_priv_grid_blocks(
      self, crk_priv_ceil_div(count, (uint64_t)CRK_MOE_NUMBERS_THREADS * CRK_MOE_NUMBERS), CRK_MOE_NUMBERS_THREADS);
  const uint32_t threads = blocks * CRK_MOE_NUMBERS_THREADS;
  const void *args[] = {&weights, &dst, &count, &threads};
  return crk_priv_launch_blocks(self, function, (crk_dim3_t){blocks, 1, 1}, (crk_dim3_t){CRK_MOE_NUMBERS_THREADS, 1, 1},
                                0, args);
}

/* Makes numbers of some experts' weights and multiplies, then of the next ones. `numbers` has room for `at_once`
 * experts. */
static crk_status_t launch_moe_numbers(crk_device_t self, const mixture_t *m, crk_fault_op_t op, uint32_t type,
                                       void *numbers, size_t at_once) {
  const uint32_t choice = choose_by_average_tokens(m, tile_tokens, TILE_KERNELS);
  const uint64_t each = (uint64_t)m->rows * m->k;
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MOE_TILES + (TILE_TYPES + type) * TILE_KERNELS + choice, CRK_MODULE_MOE,
                         &function, "moe_tiles_numbers_%s_%u", crk_dtype_name(m->dtype),
                         (unsigned)tile_tokens[choice]));
  for (size_t first = 0; first < m->experts; first += at_once) {
    const expert_range_t range = {first, crk_priv_least(at_once, m->experts - first), numbers};
    const void *from = (const char *)m->arguments[WEIGHTS].view.ptr + first * each / m->info->elements * m->info->bytes;
    CRK_TRY(make_numbers(self, m, type, from, range.count * each, numbers));
    CRK_TRY(launch_moe_tiles(self, m, op, function, choice, &range));
  }
  return CRK_OK;
}

static expert_range_t all_experts(const mixture_t *m) {
  return (expert_range_t){0, m->experts, m->arguments[WEIGHTS].view.ptr};
}

/* ---- the products */

crk_status_t crk_moe_gguf(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t experts, size_t rows,
                          size_t k, size_t tokens, size_t topk, crk_const_view_t weights, crk_const_view_t x,
                          crk_const_view_t sorted_token_ids, crk_const_view_t expert_ids, crk_const_view_t topk_weights,
                          crk_view_t dst) {
  static const char where[] = "crk_moe_gguf";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  mixture_t m;
  uint32_t type = 0;
  CRK_TRY(mixture_init(&m, where, dtype, experts, rows, k, tokens, topk, weights, x, sorted_token_ids, expert_ids,
                       topk_weights, dst));
  CRK_TRY(format_check(&m, quant));
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  CRK_TRY(mixture_check(&m, 4));
  return m.dst.bytes != 0
             ? launch_moe_vec(self, &m, CRK_FAULT_MOE_GGUF, 0, choose_by_average_tokens(&m, vec_tokens, VEC_KERNELS))
             : CRK_OK;
}

crk_status_t crk_moe_gguf_columns(crk_device_t self, crk_quant_t quant, size_t experts, size_t rows, size_t k,
                                  size_t tokens, size_t topk, crk_const_view_t weights, crk_const_view_t x,
                                  crk_const_view_t sorted_token_ids, crk_const_view_t expert_ids,
                                  crk_const_view_t topk_weights, crk_view_t dst) {
  static const char where[] = "crk_moe_gguf_columns";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  mixture_t m;
  CRK_TRY(mixture_init(&m, where, CRK_DTYPE_F32, experts, rows, k, tokens, topk, weights, x, sorted_token_ids,
                       expert_ids, topk_weights, dst));
  m.has_columns = true;
  CRK_TRY(format_check(&m, quant));
  CRK_TRY(mixture_check(&m, 4));
  if (m.dst.bytes == 0) {
    return CRK_OK;
  }
  CRK_TRY(check_q8_1_bytes(&m, crk_columns_bytes(m.inputs, k)));
  return launch_moe_vec_of(self, &m, CRK_FAULT_MOE_GGUF_COLUMNS, 0,
                           choose_by_average_tokens(&m, vec_tokens, VEC_KERNELS), x.ptr, k / CRK_Q8_1_BLOCK);
}

/* The checked product of one token, with its results in scratch memory and the sum of them in m->sum. */
static crk_status_t launch_moe_sum(crk_device_t self, mixture_t *m) {
  CRK_TRY(crk_alloc(self, m->tokens * m->rows * sizeof(float), &m->dst_ptr));
  crk_function_t function;
  crk_status_t status = CRK_KERNEL_GET(self, CRK_SLOT_MOE_VEC + m->info->index * VEC_KERNELS, CRK_MODULE_MOE, &function,
                                       "moe_vec_%s_%u", m->info->name, (unsigned)vec_tokens[0]);
  if (status == CRK_OK) {
    status = launch_moe_vec_single(self, m, function, CRK_FAULT_MOE_GGUF_SUM, m->arguments[X].view.ptr,
                                   m->k / CRK_Q8_1_BLOCK, 0);
  }
  return crk_priv_free_after(self, status, m->dst_ptr);
}

crk_status_t crk_moe_gguf_sum(crk_device_t self, crk_quant_t quant, size_t experts, size_t rows, size_t k, size_t topk,
                              crk_const_view_t weights, crk_const_view_t x, crk_const_view_t sorted_token_ids,
                              crk_const_view_t expert_ids, crk_const_view_t topk_weights, crk_view_t dst) {
  static const char where[] = "crk_moe_gguf_sum";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_REFUSE_IF(topk == 0 || topk > CRK_MOST_GRID_YZ, "%s: topk is %zu; it must be 1 to %d", where, topk,
                (int)CRK_MOST_GRID_YZ);
  CRK_REFUSE_IF(k == 0, "%s: k is 0; it must be a multiple of the format's block", where);
  mixture_t m;
  CRK_TRY(mixture_init(&m, where, CRK_DTYPE_F32, experts, rows, k, topk, topk, weights, x, sorted_token_ids, expert_ids,
                       topk_weights, dst));
  m.inputs = topk;
  m.has_columns = true;
  m.is_summed = true;
  CRK_TRY(format_check(&m, quant));
  CRK_TRY(mixture_check(&m, 4));
  if (m.dst.bytes == 0) {
    return CRK_OK;
  }
  CRK_TRY(check_q8_1_bytes(&m, crk_columns_bytes(m.inputs, k)));
  m.sum = m.dst_ptr;
  return launch_moe_sum(self, &m);
}

/* One kernel for the checked mixture `m` of the gate's weights. */
static crk_status_t launch_moe_gate(crk_device_t self, const mixture_t *m, crk_gate_op_t op, const void *up,
                                    crk_view_t blocks) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MOE_GATE + m->info->index, CRK_MODULE_MOE, &function, "moe_gate_%s",
                         m->info->name));
  const crk_moe_argument_t *a = m->arguments;
  const uint64_t stride = m->k / CRK_Q8_1_BLOCK;
  crk_moe_gate_t call = {
      .vec = {.product = {.parts = {{.weights = a[WEIGHTS].view.ptr, .dst = m->dst_ptr}, {.weights = up}},
                          .x = a[X].view.ptr,
                          .columns = 1,
                          .row_blocks = (uint32_t)(m->k / m->info->elements),
                          .rows = m->rows,
                          .x_stride = stride},
              .tokens = a[TOKENS].view.ptr,
              .experts = a[EXPERT_IDS].view.ptr},
      .gelu = op == CRK_GATE_GELU};
  bool in_groups;
  const uint32_t across =
      crk_priv_divide_gate(self, function, m->info, m->tokens, blocks.ptr != NULL, &call.vec.product, &in_groups);
  call.blocks = in_groups ? blocks.ptr : NULL;
  const crk_dim3_t grid = {across, (uint32_t)m->tokens, 1},
                   block = {CRK_VEC_WAVES * self->context->info.wave_size, 1, 1};
  CRK_TRY(mixture_shape(self, m, CRK_FAULT_MOE_GGUF_GATE, stride * CRK_Q8_1_BYTES, 0, grid, block.x, &call.vec.shape,
                        &call.vec.fault));
  const void *args[] = {&call};
  CRK_TRY(crk_priv_launch_blocks(self, function, grid, block, 0, args));
  return blocks.ptr != NULL && !in_groups ? crk_priv_quantize_q8_1(self, CRK_DTYPE_F32, m->tokens, m->rows, m->rows,
                                                                   CRK_SUM_OF_CODES, m->dst_ptr, blocks.ptr)
                                          : CRK_OK;
}

/* Both products, to scratch memory, and then the gate. */
static crk_status_t launch_moe_gate_apart(crk_device_t self, const mixture_t *m, crk_gate_op_t op, const void *up,
                                          crk_view_t dst, crk_view_t blocks) {
  const size_t bytes = m->dst.bytes, up_at = (size_t)crk_priv_round_up(bytes, CRK_SCRATCH_ALIGNMENT);
  char *scratch;
  CRK_TRY(crk_alloc(self, up_at + bytes, (void **)&scratch));
  mixture_t product = *m;
  const void *weights[] = {m->arguments[WEIGHTS].view.ptr, up};
  crk_status_t status = CRK_OK;
  for (size_t i = 0; i < 2 && status == CRK_OK; i++) {
    product.arguments[WEIGHTS].view.ptr = weights[i];
    product.dst_ptr = scratch + i * up_at;
    status = launch_moe_vec_of(self, &product, CRK_FAULT_MOE_GGUF_GATE, 0,
                               choose_by_average_tokens(m, vec_tokens, VEC_KERNELS), m->arguments[X].view.ptr,
                               m->k / CRK_Q8_1_BLOCK);
  }
  if (status == CRK_OK) {
    status = crk_priv_gate_results(self, op, CRK_DTYPE_F32, m->tokens, m->rows, (crk_const_view_t){scratch, bytes},
                                   (crk_const_view_t){scratch + up_at, bytes}, dst, blocks);
  }
  return crk_priv_free_after(self, status, scratch);
}

crk_status_t crk_moe_gguf_gate(crk_device_t self, crk_gate_op_t op, crk_quant_t quant, size_t experts, size_t rows,
                               size_t k, size_t tokens, size_t topk, crk_const_view_t gate, crk_const_view_t up,
                               crk_const_view_t x, crk_const_view_t sorted_token_ids, crk_const_view_t expert_ids,
                               crk_view_t dst, crk_view_t blocks) {
  static const char where[] = "crk_moe_gguf_gate";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(crk_priv_gate_check(where, op));
  const bool quantizes = crk_priv_is_given(crk_const(blocks));
  mixture_t m;
  CRK_TRY(mixture_init(&m, where, CRK_DTYPE_F32, experts, rows, k, tokens, topk, gate, x, sorted_token_ids, expert_ids,
                       (crk_const_view_t){NULL, 0}, dst));
  m.has_columns = true;
  m.arguments[WEIGHTS].name = "gate";
  CRK_TRY(format_check(&m, quant));
  CRK_TRY(mixture_check(&m, 4));
  if (m.dst.bytes == 0) {
    return CRK_OK;
  }
  CRK_TRY(check_q8_1_bytes(&m, crk_columns_bytes(m.inputs, k)));
  crk_moe_argument_t other = {"up", up, 0}, written = {"blocks", crk_const(blocks), 0};
  CRK_TRY(crk_priv_check_weights(where, "up", up, experts * rows, k, m.info, &other.bytes));
  CRK_TRY(crk_priv_moe_check_apart(where, &m.dst, &other, 1));
  if (quantizes) {
    CRK_TRY(crk_priv_check_columns(where, "blocks", tokens, "rows", rows, blocks, &written.bytes));
    CRK_TRY(crk_priv_moe_check_apart(where, &written, m.arguments, ARGUMENTS));
    CRK_TRY(crk_priv_moe_check_apart(where, &written, &other, 1));
    CRK_TRY(crk_priv_moe_check_apart(where, &written, &m.dst, 1));
  }
  const bool fused = k != 0 && tokens <= experts && tokens <= CRK_MOST_GRID_YZ && crk_priv_gate_has_kernels(op);
  return fused ? launch_moe_gate(self, &m, op, up.ptr, blocks)
               : launch_moe_gate_apart(self, &m, op, up.ptr, dst, blocks);
}

crk_status_t crk_moe_gguf_prefill(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t experts, size_t rows,
                                  size_t k, size_t tokens, size_t topk, crk_const_view_t weights, crk_const_view_t x,
                                  crk_const_view_t sorted_token_ids, crk_const_view_t expert_ids,
                                  crk_const_view_t topk_weights, crk_view_t dst) {
  static const char where[] = "crk_moe_gguf_prefill";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  mixture_t m;
  uint32_t type = 0;
  CRK_TRY(mixture_init(&m, where, dtype, experts, rows, k, tokens, topk, weights, x, sorted_token_ids, expert_ids,
                       topk_weights, dst));
  CRK_TRY(format_check(&m, quant));
  CRK_TRY(half_index(where, dtype, &type));
  CRK_TRY(mixture_check(&m, 4));
  if (m.dst.bytes == 0) {
    return CRK_OK;
  }
  if (is_for_numbers(self, &m)) {
    const size_t most = NUMBERS_BYTES / 2 / (rows * k);
    const size_t at_once = crk_priv_ceil_div(experts, crk_priv_ceil_div(experts, most));
    void *numbers;
    if (crk_priv_alloc_spare(self, at_once * rows * k * 2, &numbers)) {
      const crk_status_t status = launch_moe_numbers(self, &m, CRK_FAULT_MOE_GGUF_PREFILL, type, numbers, at_once);
      return crk_priv_free_after(self, status, numbers);
    }
  }
  const uint32_t choice = choose_by_average_tokens(&m, tile_tokens, TILE_KERNELS);
  const expert_range_t all = all_experts(&m);
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(
      self, CRK_SLOT_MOE_TILES_QUANTIZED + (m.info->index * TILE_TYPES + type) * TILE_KERNELS + choice, CRK_MODULE_MOE,
      &function, "moe_tiles_%s_%s_%u", m.info->name, crk_dtype_name(dtype), (unsigned)tile_tokens[choice]));
  return launch_moe_tiles(self, &m, CRK_FAULT_MOE_GGUF_PREFILL, function, choice, &all);
}

static crk_status_t count_experts(crk_device_t self, const mixture_t *m, crk_view_t counts, crk_view_t offsets) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MOE_COUNTS, CRK_MODULE_MOE, &function, "moe_counts"));
  const void *ids = m->arguments[EXPERT_IDS].view.ptr;
  uint64_t tokens = m->tokens, experts = m->experts;
  const void *args[] = {&ids, &counts.ptr, &offsets.ptr, &tokens, &experts};
  return crk_priv_launch_blocks(self, function, (crk_dim3_t){1, 1, 1}, (crk_dim3_t){CRK_MOE_ORDER_THREADS, 1, 1}, 0,
                                args);
}

crk_status_t crk_moe_gemm(crk_device_t self, crk_dtype_t dtype, size_t experts, size_t rows, size_t k, size_t tokens,
                          size_t topk, crk_const_view_t weights, crk_const_view_t x, crk_const_view_t sorted_token_ids,
                          crk_const_view_t expert_ids, crk_const_view_t topk_weights, crk_view_t dst,
                          crk_view_t expert_counts, crk_view_t expert_offsets) {
  static const char where[] = "crk_moe_gemm";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  mixture_t m;
  uint32_t type = 0;
  CRK_TRY(mixture_init(&m, where, dtype, experts, rows, k, tokens, topk, weights, x, sorted_token_ids, expert_ids,
                       topk_weights, dst));
  CRK_TRY(half_index(where, dtype, &type));
  CRK_REFUSE_IF(k % 8 != 0, "%s: k is %zu, not a multiple of 8", where, k);
  CRK_TRY(mixture_check(&m, 2));
  crk_moe_argument_t *ids = &m.arguments[EXPERT_IDS];
  CRK_TRY(crk_priv_moe_check(where, ids, tokens, 4));
  crk_moe_argument_t written[] = {{"expert_counts", crk_const(expert_counts), 0},
                                  {"expert_offsets", crk_const(expert_offsets), 0}};
  const bool counts = crk_priv_is_given(crk_const(expert_counts)),
             offsets = crk_priv_is_given(crk_const(expert_offsets));
  CRK_TRY(counts ? crk_priv_moe_check(where, &written[0], experts, 4) : CRK_OK);
  CRK_TRY(offsets ? crk_priv_moe_check(where, &written[1], experts + 1, 4) : CRK_OK);
  for (size_t i = 0; i < 2; i++) {
    CRK_TRY(crk_priv_moe_check_apart(where, &written[i], m.arguments, ARGUMENTS));
    CRK_TRY(crk_priv_moe_check_apart(where, &written[i], &m.dst, 1));
  }
  CRK_TRY(crk_priv_moe_check_apart(where, &written[0], &written[1], 1));
  if (counts || offsets) {
    CRK_TRY(count_experts(self, &m, expert_counts, expert_offsets));
  }
  if (m.dst.bytes == 0) {
    return CRK_OK;
  }
  const uint32_t choice = choose_by_average_tokens(&m, tile_tokens, TILE_KERNELS);
  const expert_range_t all = all_experts(&m);
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MOE_TILES + type * TILE_KERNELS + choice, CRK_MODULE_MOE, &function,
                         "moe_tiles_%s_%u", crk_dtype_name(dtype), (unsigned)tile_tokens[choice]));
  return launch_moe_tiles(self, &m, CRK_FAULT_MOE_GEMM, function, choice, &all);
}

crk_status_t crk_indexed_moe(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t experts, size_t rows,
                             size_t k, size_t batch, size_t topk, size_t inputs, crk_const_view_t weights,
                             crk_const_view_t x, crk_const_view_t ids, crk_view_t dst) {
  static const char where[] = "crk_indexed_moe";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_REFUSE_IF(inputs != 1 && inputs != topk, "%s: inputs is %zu; it must be 1 or topk, which is %zu", where, inputs,
                topk);
  mixture_t m = {.where = where,
                 .experts = experts,
                 .rows = rows,
                 .k = k,
                 .topk = topk,
                 .dtype = dtype,
                 .arguments = {[WEIGHTS] = {"weights", weights, 0}, [X] = {"x", x, 0}, [EXPERT_IDS] = {"ids", ids, 0}},
                 .dst = {"dst", crk_const(dst), 0},
                 .dst_ptr = dst.ptr};
  uint32_t type;
  CRK_TRY(crk_priv_checked_product(where, "ids", batch, topk, &m.tokens));
  CRK_TRY(crk_priv_checked_product(where, "rows of x", batch, inputs, &m.inputs));
  CRK_TRY(format_check(&m, quant));
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  CRK_TRY(crk_priv_check_count(where, "k", k));
  CRK_TRY(mixture_check(&m, (uint32_t)crk_dtype_size(dtype)));
  CRK_TRY(crk_priv_check_count(where, "experts", experts));
  CRK_TRY(crk_priv_check_count(where, "rows", rows));
  CRK_TRY(crk_priv_check_count(where, "the number of ids", m.tokens));
  /* Ids are not sorted, and neighbours seldom have the same expert. */
  return m.dst.bytes != 0 ? launch_moe_vec(self, &m, CRK_FAULT_INDEXED_MOE, type, 0) : CRK_OK;
}
