/* Launchers of softmax, rms_norm and layer_norm over the last dim (kernels/reduce/norm_rows.h and norm_long.h), and of
 * the rms_norm of a sum (kernels/reduce/add_norm.h). */
#include "call/norm_call.h"
#include "launch/launcher.h"
#include "launch/quantized.h"

typedef enum norm_op { SOFTMAX, RMS_NORM, LAYER_NORM, NORM_OPS } norm_op_t;

static const struct {
  const char *root, *where;
} ops[NORM_OPS] = {
    [SOFTMAX] = {"softmax", "crk_softmax"},
    [RMS_NORM] = {"rmsnorm", "crk_rms_norm"},
    [LAYER_NORM] = {"layernorm", "crk_layer_norm"},
};

/* The kinds of kernels: first those for rows of a length, the shortest first; then one for few rows. */
enum { ROWS1, ROWS, WIDE, LONG, FEW, ROW_KINDS };

/* Forms of rows (kernels/reduce/norm_rows.h): any; whole aligned packs; and as many of these as the threads hold. Each
 * form is a case of the one before. */
typedef enum row_form { ANY_ROW, EVEN_ROW, WHOLE_ROW, ROW_FORMS } row_form_t;

/* The packs of 16 bytes of a row that a thread has, and the least threads per block. */
typedef struct row_cut {
  uint32_t packs, block;
} row_cut_t;
#define CUT_OF_ROWS(few) {CRK_NORM_PACKS(few), 256 / CRK_NORM_PACKS(few)}
#define CUT_OF_WIDE(few) {CRK_NORM_PACKS(few), CRK_NORM_WIDE_THREADS(few)}

static const struct {
  const char *suffixes[ROW_FORMS]; /* NULL: the kind has no such kernels */
  size_t most_packs; /* of a row */
  row_cut_t cut[2]; /* the second one where a thread holds few packs (norm_call.h) */
} kinds[ROW_KINDS] = {
    /* One pack per lane and up to 32 lanes per row, so that a wave reads its rows in one piece. */
    [ROWS1] = {{"rows1", "even1", "whole1"}, 32, {{1, 256}, {1, 256}}},
    /* All loads of a thread are in flight at once. Rows of 1024 halves need no barrier: 32 lanes, or a wave of 64, hold
     * them. */
    [ROWS] = {{"rows", "even", "whole"}, CRK_NORM_ROW_PACKS, {CUT_OF_ROWS(false), CUT_OF_ROWS(true)}},
    [WIDE] = {{"wide", "even_wide", "whole_wide"}, CRK_NORM_WIDE_PACKS, {CUT_OF_WIDE(false), CUT_OF_WIDE(true)}},
    /* Rows too long for a block to hold. */
    [LONG] = {{"long"}, SIZE_MAX, {{1, CRK_NORM_LONG_THREADS}, {1, CRK_NORM_LONG_THREADS}}},
    /* Even rows of ROWS, at most one per unit, as in decoding. With a pack per thread more loads are under way, and the
     * kernel is short: in a model, its instructions come from memory before they run. */
    [FEW] = {{NULL, "even_few"}, CRK_NORM_ROW_PACKS, {{1, 1}, {1, 1}}},
};

_Static_assert((int)NORM_OPS *(int)ROW_KINDS *(int)ROW_FORMS *(int)CRK_DTYPE_COUNT == CRK_SLOTS_OF(NORM),
               "as the list of slots counts");
_Static_assert(2 * (int)ROW_KINDS * (int)CRK_ACTIVATIONS == CRK_SLOTS_OF(ADD_NORM), "as the list of slots counts");

typedef struct norm_call {
  norm_op_t op;
  crk_dtype_t dtype;
  const crk_layout_t *layout;
  crk_const_view_t src, alpha, beta;
  crk_view_t dst;
  float eps;
} norm_call_t;

/* The most rows that a block takes with one read of alpha and beta. AMD: any number, so that the parameters are a small
 * part of all reads. NVIDIA: few, because the parameters are in the first-level cache, and the loads of a new block
 * begin while an old one still computes. On an H200, rows of 4096 f16 reach 0.95 of copy speed with 2 rows per block
 * and 0.93 with 4, for whole rows and for rmsnorm. Layernorm of other rows is limited by its instructions: 0.88 with 2
 * rows, 0.90 with 4. */
static uint64_t most_rows_per_block(crk_device_t self, norm_op_t op, row_form_t form) {
  return self->driver->backend != CRK_BACKEND_CUDA ? UINT64_MAX : op == RMS_NORM || form == WHOLE_ROW ? 2 : 4;
}

/* The form of the rows. Only layernorm has kernels for whole rows, since they save it the most instructions. */
static row_form_t choose_row_form(const norm_call_t *call, uint32_t kind, const void *src, size_t packs,
                                  size_t row_packs, bool is_aligned) {
  if (!is_aligned || kinds[kind].suffixes[EVEN_ROW] == NULL ||
      ((uintptr_t)src | (uintptr_t)call->alpha.ptr | (uintptr_t)call->beta.ptr) % 16 != 0) {
    return ANY_ROW;
  }
  return call->op == LAYER_NORM && packs == row_packs ? WHOLE_ROW : EVEN_ROW;
}

/* How the rows of a call are cut: the kernel, the lanes of a row, and the rows of a block. */
typedef struct row_plan {
  uint32_t kind;
  row_form_t form;
  uint32_t log2_width, beside; /* 2^log2_width threads per row; rows that a block has at once */
  uint32_t step; /* rows that the grid has at once */
  crk_dim3_t grid, block;
} row_plan_t;

static row_plan_t make_plan(crk_device_t self, const norm_call_t *call, const void *src, size_t rows, size_t cols,
                            uint32_t bytes) {
  /* A row that does not begin and end with a pack has up to 2 * (vector - 1) more elements, one per thread. */
  const size_t vector = 16 / bytes, packs = cols / vector;
  const bool is_aligned = (uintptr_t)call->dst.ptr % 16 == 0 && cols % vector == 0;
  row_plan_t plan = {.kind = ROWS1};
  while (packs > kinds[plan.kind].most_packs) {
    plan.kind++;
  }
  if (plan.kind == ROWS && call->op == RMS_NORM && rows <= crk_priv_units(self) &&
      choose_row_form(call, ROWS, src, packs, 0, is_aligned) == EVEN_ROW) {
    plan.kind = FEW;
  }
  const bool wide_waves = self->driver->backend == CRK_BACKEND_HIP && self->context->info.wave_size == 64;
  const row_cut_t cut = kinds[plan.kind].cut[wide_waves && call->op != SOFTMAX];
  size_t width = plan.kind == LONG ? cut.block : (packs + cut.packs - 1) / cut.packs;
  if (!is_aligned && width < 2 * (vector - 1)) {
    width = 2 * (vector - 1);
  }
  plan.log2_width = crk_priv_log2_ceil(width);
  plan.form = choose_row_form(call, plan.kind, src, packs, (size_t)cut.packs << plan.log2_width, is_aligned);
  const uint32_t block = (1u << plan.log2_width) < cut.block ? cut.block : 1u << plan.log2_width;
  plan.beside = block >> plan.log2_width;
  uint64_t blocks = crk_priv_ceil_div(rows, plan.beside);
  if (call->alpha.ptr != NULL || call->beta.ptr != NULL) {
    /* A block reads the parameters once and then takes several rows, as long as all blocks have rows. */
    const uint64_t held = crk_priv_held_blocks(self, NULL, block, 0, 0);
    const uint64_t each =
        crk_priv_least(crk_priv_ceil_div(blocks, held), most_rows_per_block(self, call->op, plan.form));
    blocks = crk_priv_ceil_div(blocks, each);
  }
  plan.grid = (crk_dim3_t){crk_priv_grid_blocks(self, blocks, block), 1, 1};
  plan.block = (crk_dim3_t){block, 1, 1};
  plan.step = plan.grid.x * plan.beside;
  return plan;
}

static crk_status_t launch_norm(crk_device_t self, const norm_call_t *call) {
  const char *where = ops[call->op].where;
  const crk_dtype_t dtype = call->dtype;
  CRK_TRY(crk_priv_check_wide_float(where, dtype));
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  const crk_tensor_t source = {"layout", "src", call->layout, call->src, bytes};
  size_t numel;
  const void *src;
  void *dst = call->dst.ptr;
  CRK_TRY(crk_priv_tensor_check(where, &source, &numel, &src));
  CRK_REFUSE_IF(call->layout->rank == 0, "%s: layout.rank is 0; it must be at least 1", where);
  if (numel == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(call->dst), numel, bytes));
  if (src != dst) {
    CRK_TRY(crk_priv_check_apart(where, "dst", dst, numel * bytes, "src", src, numel * bytes));
  }
  const size_t cols = call->layout->dims[call->layout->rank - 1], rows = numel / cols;
  CRK_TRY(crk_priv_check_optional(where, "alpha", call->alpha, cols, bytes, call->dst.ptr, numel * bytes));
  CRK_TRY(crk_priv_check_optional(where, "beta", call->beta, cols, bytes, call->dst.ptr, numel * bytes));

  const row_plan_t plan = make_plan(self, call, src, rows, cols, bytes);
  crk_function_t function;
  const uint32_t slot = CRK_SLOT_NORM +
                        (((uint32_t)call->op * ROW_KINDS + plan.kind) * ROW_FORMS + plan.form) * CRK_DTYPE_COUNT +
                        (uint32_t)dtype;
  CRK_TRY(CRK_KERNEL_GET(self, slot, CRK_MODULE_NORM, &function, "%s_%s_%s", ops[call->op].root, crk_dtype_name(dtype),
                         kinds[plan.kind].suffixes[plan.form]));
  const uint64_t row_count = rows, col_count = cols;
  const void *args[10] = {&src, &dst, &row_count, &col_count, &plan.log2_width, &plan.beside, &plan.step};
  uint32_t count = 7;
  if (call->op != SOFTMAX) {
    args[count++] = &call->alpha.ptr;
  }
  if (call->op == LAYER_NORM) {
    args[count++] = &call->beta.ptr;
  }
  args[count] = &call->eps; /* ignored by softmax */
  return crk_priv_launch_blocks(self, function, plan.grid, plan.block, 0, args);
}

crk_status_t crk_softmax(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_const_view_t src,
                         crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_softmax");
  return launch_norm(self, &(norm_call_t){.op = SOFTMAX, .dtype = dtype, .layout = layout, .src = src, .dst = dst});
}

crk_status_t crk_rms_norm(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_const_view_t src,
                          crk_const_view_t alpha, crk_view_t dst, float eps) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_rms_norm");
  return launch_norm(self, &(norm_call_t){RMS_NORM, dtype, layout, src, alpha, {NULL, 0}, dst, eps});
}

crk_status_t crk_layer_norm(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_const_view_t src,
                            crk_const_view_t alpha, crk_const_view_t beta, crk_view_t dst, float eps) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_layer_norm");
  return launch_norm(self, &(norm_call_t){LAYER_NORM, dtype, layout, src, alpha, beta, dst, eps});
}

/* ---- the rms_norm of a sum */

typedef struct add_norm_call {
  const char *where;
  norm_call_t norm; /* src is x, and has no layout */
  bool is_normed; /* the norm of x by x_alpha takes the place of x */
  size_t rows, cols;
  crk_const_view_t x_alpha, residual;
  crk_view_t sum, columns;
  size_t bytes; /* of x, of sum and of dst */
} add_norm_call_t;

static crk_status_t check_add_norm(const add_norm_call_t *call, size_t *columns_bytes) {
  const char *const where = call->where;
  const uint32_t element = (uint32_t)crk_dtype_size(call->norm.dtype);
  CRK_TRY(crk_priv_check_elements(where, "x", call->norm.src, call->bytes / element, element));
  CRK_REFUSE_IF(crk_priv_is_given(call->residual) != crk_priv_is_given(crk_const(call->sum)),
                "%s: residual.ptr is %p (%zu bytes) and sum.ptr is %p (%zu bytes); either both or none is {NULL, 0}",
                where, call->residual.ptr, call->residual.bytes, call->sum.ptr, call->sum.bytes);
  CRK_REFUSE_IF(call->is_normed && call->residual.ptr == NULL, "%s: residual.ptr is NULL", where);
  if (crk_priv_is_given(call->norm.alpha)) {
    CRK_TRY(crk_priv_check_elements(where, "alpha", call->norm.alpha, call->cols, element));
  }
  if (crk_priv_is_given(call->x_alpha)) {
    CRK_TRY(crk_priv_check_elements(where, "x_alpha", call->x_alpha, call->cols, element));
  }
  if (crk_priv_is_given(call->residual)) {
    CRK_TRY(crk_priv_check_elements(where, "residual", call->residual, call->bytes / element, element));
    CRK_TRY(crk_priv_check_elements(where, "sum", crk_const(call->sum), call->bytes / element, element));
  }
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(call->norm.dst), call->bytes / element, element));
  if (crk_priv_is_given(crk_const(call->columns))) {
    uint32_t type;
    CRK_TRY(crk_priv_activation_index(where, call->norm.dtype, &type));
    CRK_TRY(crk_priv_check_columns(where, "columns", call->rows, "cols", call->cols, call->columns, columns_bytes));
  }
  const size_t of_residual = call->residual.ptr == NULL ? 0 : call->bytes, of_row = call->bytes / call->rows,
               of_alpha = call->norm.alpha.ptr == NULL ? 0 : of_row,
               of_x_alpha = call->x_alpha.ptr == NULL ? 0 : of_row;
  const crk_region_t sources[] = {{"x", call->norm.src.ptr, call->bytes},
                                  {"residual", call->residual.ptr, of_residual},
                                  {"alpha", call->norm.alpha.ptr, of_alpha},
                                  {"x_alpha", call->x_alpha.ptr, of_x_alpha}},
                     results[] = {{"sum", call->sum.ptr, of_residual},
                                  {"dst", call->norm.dst.ptr, call->bytes},
                                  {"columns", call->columns.ptr, *columns_bytes}};
  return crk_priv_check_all_apart(where, results, 3, sources, 4);
}

/* The call as up to four launches, for rows that no kernel of add_norm.h takes. */
static crk_status_t add_norm_in_steps(crk_device_t self, const add_norm_call_t *call) {
  const crk_dtype_t dtype = call->norm.dtype;
  crk_layout_t layout;
  const size_t dims[] = {call->rows, call->cols};
  CRK_TRY(crk_layout_contiguous(dims, 2, &layout));
  norm_call_t norm = call->norm;
  norm.layout = &layout;
  if (call->is_normed) { /* into the place of the sum */
    const norm_call_t own = {RMS_NORM, dtype, &layout, norm.src, call->x_alpha, {NULL, 0}, call->sum, norm.eps};
    CRK_TRY(launch_norm(self, &own));
    norm.src = crk_const(call->sum);
  }
  if (call->residual.ptr != NULL) {
    CRK_TRY(crk_binary(self, CRK_BINARY_ADD, dtype, &layout, norm.src, &layout, call->residual, call->sum));
    norm.src = crk_const(call->sum);
  }
  CRK_TRY(launch_norm(self, &norm));
  return call->columns.ptr == NULL ? CRK_OK
                                   : crk_priv_quantize_q8_1(self, dtype, call->rows, call->cols, call->cols,
                                                            CRK_SUM_OF_CODES, norm.dst.ptr, call->columns.ptr);
}

static crk_status_t add_norm(crk_device_t self, add_norm_call_t call) {
  const char *const where = call.where;
  const norm_call_t *norm = &call.norm;
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(crk_priv_check_wide_float(where, norm->dtype));
  size_t numel, columns_bytes = 0;
  CRK_TRY(crk_priv_checked_product(where, "elements", call.rows, call.cols, &numel));
  if (numel == 0) {
    return CRK_OK;
  }
  const uint32_t bytes = (uint32_t)crk_dtype_size(norm->dtype);
  CRK_TRY(crk_priv_checked_product(where, "bytes", numel, bytes, &call.bytes));
  CRK_TRY(check_add_norm(&call, &columns_bytes));
  const row_plan_t plan = make_plan(self, norm, norm->src.ptr, call.rows, call.cols, bytes);
  if (norm->dtype == CRK_DTYPE_F64 || plan.kind == LONG || plan.form == ANY_ROW ||
      ((uintptr_t)call.x_alpha.ptr | (uintptr_t)call.residual.ptr | (uintptr_t)call.sum.ptr) % 16 != 0) {
    return add_norm_in_steps(self, &call);
  }
  uint32_t type;
  CRK_TRY(crk_priv_activation_index(where, norm->dtype, &type));
  crk_function_t function;
  const uint32_t kind = (call.is_normed ? (uint32_t)ROW_KINDS : 0) + plan.kind;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_ADD_NORM + kind * CRK_ACTIVATIONS + type, CRK_MODULE_NORM, &function,
                         "%sadd_rmsnorm_%s_%s", call.is_normed ? "norm_" : "", crk_dtype_name(norm->dtype),
                         kinds[plan.kind].suffixes[EVEN_ROW]));
  const uint64_t row_count = call.rows, col_count = call.cols;
  const void *args[] = {&norm->src.ptr,    &norm->dst.ptr, &row_count,       &col_count,         &plan.log2_width,
                        &plan.beside,      &plan.step,     &norm->alpha.ptr, &call.residual.ptr, &call.sum.ptr,
                        &call.columns.ptr, &norm->eps,     &call.x_alpha.ptr};
  return crk_priv_launch_blocks(self, function, plan.grid, plan.block, 0, args);
}

crk_status_t crk_add_rms_norm(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t cols, crk_const_view_t x,
                              crk_const_view_t residual, crk_const_view_t alpha, crk_view_t sum, crk_view_t dst,
                              crk_view_t columns, float eps) {
  return add_norm(self, (add_norm_call_t){.where = "crk_add_rms_norm",
                                          .norm = {RMS_NORM, dtype, NULL, x, alpha, {NULL, 0}, dst, eps},
                                          .rows = rows,
                                          .cols = cols,
                                          .residual = residual,
                                          .sum = sum,
                                          .columns = columns});
}

crk_status_t crk_norm_add_rms_norm(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t cols, crk_const_view_t x,
                                   crk_const_view_t x_alpha, crk_const_view_t residual, crk_const_view_t alpha,
                                   crk_view_t sum, crk_view_t dst, crk_view_t columns, float eps) {
  return add_norm(self, (add_norm_call_t){.where = "crk_norm_add_rms_norm",
                                          .norm = {RMS_NORM, dtype, NULL, x, alpha, {NULL, 0}, dst, eps},
                                          .is_normed = true,
                                          .rows = rows,
                                          .cols = cols,
                                          .x_alpha = x_alpha,
                                          .residual = residual,
                                          .sum = sum,
                                          .columns = columns});
}
