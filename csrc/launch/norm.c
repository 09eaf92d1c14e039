/* Launchers of softmax, rms_norm and layer_norm over the last dim (kernels/reduce/norm_rows.h and norm_long.h). */
#include "call/norm_call.h"
#include "launch/launcher.h"

typedef enum norm_op { SOFTMAX, RMS_NORM, LAYER_NORM, NORM_OPS } norm_op_t;

static const struct {
  const char *root, *where;
} ops[NORM_OPS] = {
    [SOFTMAX] = {"softmax", "crk_softmax"},
    [RMS_NORM] = {"rmsnorm", "crk_rms_norm"},
    [LAYER_NORM] = {"layernorm", "crk_layer_norm"},
};

/* The kinds of kernels, those for the shortest rows first. */
enum { ROWS1, ROWS, WIDE, LONG, ROW_KINDS };

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
};

_Static_assert((int)NORM_OPS *(int)ROW_KINDS *(int)ROW_FORMS *(int)CRK_DTYPE_COUNT == CRK_SLOTS_OF(NORM),
               "as the list of slots counts");

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

/* Checks a parameter: one row, or {NULL, 0} where it is absent. */
static crk_status_t check_parameter(const norm_call_t *call, const char *name, crk_const_view_t view, size_t cols,
                                    uint32_t bytes, size_t dst_bytes) {
  if (view.ptr == NULL && view.bytes == 0) {
    return CRK_OK;
  }
  const char *where = ops[call->op].where;
  CRK_TRY(crk_priv_check_elements(where, name, view, cols, bytes));
  return crk_priv_check_apart(where, "dst", call->dst.ptr, dst_bytes, name, view.ptr, cols * bytes);
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
  CRK_TRY(check_parameter(call, "alpha", call->alpha, cols, bytes, numel * bytes));
  CRK_TRY(check_parameter(call, "beta", call->beta, cols, bytes, numel * bytes));

  /* A row that does not begin and end with a pack has up to 2 * (vector - 1) more elements, one per thread. */
  const size_t vector = 16 / bytes, packs = cols / vector;
  const bool is_aligned = (uintptr_t)dst % 16 == 0 && cols % vector == 0;
  uint32_t kind = ROWS1;
  while (packs > kinds[kind].most_packs) {
    kind++;
  }
  const bool wide_waves = self->driver->backend == CRK_BACKEND_HIP && self->context->info.wave_size == 64;
  const row_cut_t cut = kinds[kind].cut[wide_waves && call->op != SOFTMAX];
  size_t width = kind == LONG ? cut.block : (packs + cut.packs - 1) / cut.packs;
  if (!is_aligned && width < 2 * (vector - 1)) {
    width = 2 * (vector - 1);
  }
  const uint32_t log2_width = crk_priv_log2_ceil(width);
  const row_form_t form = choose_row_form(call, kind, src, packs, (size_t)cut.packs << log2_width, is_aligned);
  const uint32_t block = (1u << log2_width) < cut.block ? cut.block : 1u << log2_width;
  const uint32_t beside = block >> log2_width;
  uint64_t blocks = crk_priv_ceil_div(rows, beside);
  if (call->alpha.ptr != NULL || call->beta.ptr != NULL) {
    /* A block reads the parameters once and then takes several rows, as long as all blocks have rows. */
    const uint64_t held = crk_priv_held_blocks(self, NULL, block, 0, 0);
    const uint64_t each = crk_priv_least(crk_priv_ceil_div(blocks, held), most_rows_per_block(self, call->op, form));
    blocks = crk_priv_ceil_div(blocks, each);
  }
  const crk_dim3_t grid = {crk_priv_grid_blocks(self, blocks, block), 1, 1};

  crk_function_t function;
  const uint32_t slot =
      CRK_SLOT_NORM + (((uint32_t)call->op * ROW_KINDS + kind) * ROW_FORMS + form) * CRK_DTYPE_COUNT + (uint32_t)dtype;
  CRK_TRY(CRK_KERNEL_GET(self, slot, CRK_MODULE_NORM, &function, "%s_%s_%s", ops[call->op].root, crk_dtype_name(dtype),
                         kinds[kind].suffixes[form]));
  const uint64_t row_count = rows, col_count = cols;
  const uint32_t step = grid.x * beside;
  const void *args[10] = {&src, &dst, &row_count, &col_count, &log2_width, &beside, &step};
  uint32_t count = 7;
  if (call->op != SOFTMAX) {
    args[count++] = &call->alpha.ptr;
  }
  if (call->op == LAYER_NORM) {
    args[count++] = &call->beta.ptr;
  }
  args[count] = &call->eps; /* ignored by softmax */
  return crk_priv_launch_blocks(self, function, grid, (crk_dim3_t){block, 1, 1}, 0, args);
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
