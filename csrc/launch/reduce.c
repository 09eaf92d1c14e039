/* The launcher of reductions (kernels/reduce_dims.hip): the choice of the kernel, of the threads per output and of the
 * blocks. */
#include "call/reduce_space.h"

#include <inttypes.h>
#include <string.h>

#include "launch/elementwise.h"

CRK_OP_FROM_ROOT(crk_reduce_op_from_root, crk_reduce_op_t, roots, CRK_REDUCE_MAP)

/* The numbers that the choice of a geometry uses. */
enum {
  /* A row of up to this many bytes goes to a group of 32 lanes, at most eight 16-byte loads per lane. A longer row goes
   * to a block, whose two barriers cost little in comparison. */
  GROUP_ROW_BYTES = 4096,
  /* With fewer rows than blocks that the device holds, rows above this many bytes go to a block too. */
  BLOCK_ROW_BYTES = 1024,
  /* With fewer outputs than blocks that the device holds, several blocks share a row. Each block reads at least this
   * many bytes: four loads per thread, which are all in flight at once. */
  SPLIT_BYTES = 16384,
  /* The least threads along the outputs, as a logarithm, so that a wave reads and writes one contiguous piece. There
   * are fewer if there are fewer outputs, or if a reduced dim has the smaller stride. */
  COLUMN_LANES_LOG2 = 5,
  COLUMN_ELEMENTS = 16, /* the least elements per thread */
  /* Unaligned rows of up to this many bytes go to the kernel for dense rows: 32 lanes then hold a row of a block's
   * 8 KiB. A longer row reads only its first and last elements one by one, a small part of the row. */
  DENSE_ROW_BYTES = 1024,
  BLOCK_LOG2 = 8,
};
_Static_assert(1 << BLOCK_LOG2 == CRK_REDUCE_THREADS, "threads of a block");

/* The most elements of a part of a run: kernels count them in 32 bits. Longer runs are cut. */
static const uint64_t greatest_part = (uint64_t)1 << 30;

typedef enum kernel {
  KERNEL_EVEN,
  KERNEL_DENSE,
  KERNEL_ROWS,
  KERNEL_COLUMNS,
  KERNEL_STRIDED,
  KERNEL_JOIN,
  KERNELS
} kernel_t;
static const char *const kernel_names[KERNELS] = {"even", "dense", "rows", "columns", "strided", "join"};
_Static_assert((int)CRK_REDUCE_COUNT *(int)CRK_DTYPE_COUNT *(int)KERNELS == CRK_SLOTS_OF(REDUCE),
               "as the list of slots counts");

/* The chosen kernel and its arguments. */
typedef struct reduce_plan {
  crk_reduce_space_t space; /* for all kernels but the next two */
  crk_reduce_even_t even; /* for KERNEL_EVEN */
  crk_reduce_dense_t dense; /* for KERNEL_DENSE */
  kernel_t kernel;
  uint64_t blocks; /* along the grid's x */
} reduce_plan_t;

static bool finds_position(crk_reduce_op_t op) { return op == CRK_REDUCE_ARGMIN || op == CRK_REDUCE_ARGMAX; }

/* Whether the op's kernel compares elements, to know a position or to keep a NaN. */
static bool compares(crk_reduce_op_t op, crk_dtype_t dtype) {
  const bool half = dtype == CRK_DTYPE_BF16 || dtype == CRK_DTYPE_F16;
  return finds_position(op) || (half && op != CRK_REDUCE_SUM);
}

/* The bytes of a partial result: an element in its accumulator type, with a position where the op finds one. */
static size_t state_bytes(crk_reduce_op_t op, crk_dtype_t dtype) {
  const size_t held = crk_dtype_size(dtype) < 4 ? 4 : crk_dtype_size(dtype);
  return finds_position(op) ? 2 * held : held;
}

/* ---- the space */

/* The kept or the reduced dims of a tensor, in order. */
typedef struct dims {
  uint32_t rank;
  uint64_t numel;
  size_t sizes[CRK_MAX_RANK], strides[CRK_MAX_RANK];
} dims_t;

static void dims_append(dims_t *self, size_t size, size_t stride) {
  self->sizes[self->rank] = size;
  self->strides[self->rank++] = stride;
  self->numel *= size;
}

/* Sorts dims by stride, the greatest first, so that kernels walk memory forwards. Only for ops without positions. */
static void dims_sort(dims_t *self) {
  for (uint32_t i = 1; i < self->rank; i++) {
    const size_t size = self->sizes[i], stride = self->strides[i];
    uint32_t at = i;
    for (; at > 0 && self->strides[at - 1] < stride; at--) {
      self->sizes[at] = self->sizes[at - 1];
      self->strides[at] = self->strides[at - 1];
    }
    self->sizes[at] = size;
    self->strides[at] = stride;
  }
}

/* Collapses dims and appends them to the space from place `begin` on. Returns their number after the collapse. */
static uint32_t space_append(crk_reduce_space_t *space, uint32_t begin, const dims_t *dims, uint32_t wide_flag) {
  crk_nd_t nd;
  const size_t *strides[] = {dims->strides};
  crk_priv_nd_init(&nd, dims->numel, dims->rank, dims->sizes, strides, 1, 1);
  for (uint32_t d = 0; d < nd.rank; d++) {
    space->dims[begin + d] = nd.dims[d];
    space->strides[begin + d] = nd.strides[0][d];
  }
  space->flags |= (nd.flags & CRK_ND_WIDE) != 0 ? wide_flag : 0;
  return nd.rank;
}

/* ---- the geometry */

/* The elements of a part when a run of `length` is cut in 2^parts_log2 parts of whole vectors. */
static uint64_t part_length(uint64_t length, uint64_t vector, uint32_t parts_log2) {
  return crk_priv_ceil_div(crk_priv_ceil_div(length, (uint64_t)1 << parts_log2), vector) * vector;
}

/* Plans a reduction along contiguous runs. `wanted` is the number of blocks that the device holds at once. */
static void plan_reduce_rows(reduce_plan_t *plan, const void *src, uint64_t bytes, uint64_t wanted) {
  crk_reduce_space_t *space = &plan->space;
  const uint64_t length = space->dims[0].size, vector = 16 / bytes, row_bytes = space->per_output * bytes;
  plan->kernel = KERNEL_ROWS;
  space->runs = space->per_output / length;

  bool aligned = (uintptr_t)src % 16 == 0;
  for (uint32_t d = 1; d < space->reduced_rank + space->kept_rank; d++) {
    aligned = aligned && space->strides[d] % vector == 0;
  }
  space->flags |= aligned ? CRK_REDUCE_ALIGNED : 0;

  const bool few = space->outputs < wanted;
  const bool block = row_bytes > GROUP_ROW_BYTES || (few && row_bytes > BLOCK_ROW_BYTES);
  const uint32_t most = block ? BLOCK_LOG2 : 5;
  space->run_log2 = (uint32_t)crk_priv_least(crk_priv_log2_ceil(crk_priv_ceil_div(length, vector)), most);
  space->output_log2 =
      block ? BLOCK_LOG2 : (uint32_t)crk_priv_least(space->run_log2 + crk_priv_log2_ceil(space->runs), most);

  /* The blocks per output. `shares` blocks share the runs. If there are few runs, each run is also cut into
   * 2^parts_log2 parts. */
  uint64_t shares = 1;
  uint32_t parts_log2 = 0;
  if (block && space->outputs * 2 <= wanted && row_bytes >= 2 * SPLIT_BYTES) {
    const uint64_t splits = crk_priv_least(wanted / space->outputs, row_bytes / SPLIT_BYTES);
    const uint64_t teams = (uint64_t)1 << (BLOCK_LOG2 - space->run_log2);
    shares = crk_priv_least(splits, crk_priv_ceil_div(space->runs, teams));
    while (teams == 1 && shares << (parts_log2 + 1) <= splits && length * bytes >> (parts_log2 + 1) >= SPLIT_BYTES) {
      parts_log2++;
    }
  }
  while (length >> parts_log2 > greatest_part) {
    parts_log2++;
  }
  /* A part is a whole number of vectors, and the last part begins inside the run. */
  uint64_t part = part_length(length, vector, parts_log2);
  while (parts_log2 > 0 && (((uint64_t)1 << parts_log2) - 1) * part >= length) {
    part = part_length(length, vector, --parts_log2);
  }
  shares = crk_priv_least(shares, CRK_MOST_GRID_YZ >> parts_log2);
  space->parts_log2 = parts_log2;
  space->part = part;
  space->splits = (uint32_t)shares << parts_log2;
  plan->blocks = crk_priv_ceil_div(space->outputs, (uint64_t)1 << (BLOCK_LOG2 - space->output_log2));
}

/* Changes a plan of rows to even rows, if the rows are whole packs at a constant stride. A group of lanes then takes
 * several short rows one after the other, as long as every unit of the device still gets a block. */
static void plan_reduce_even(reduce_plan_t *plan, uint64_t bytes, uint64_t units) {
  const crk_reduce_space_t *space = &plan->space;
  const uint64_t length = space->dims[0].size, vector = 16 / bytes, packs = length / vector;
  const uint64_t stride = space->kept_rank > 0 ? space->strides[1] : 0;
  const bool is_short = space->output_log2 < BLOCK_LOG2 && packs <= (uint64_t)1 << space->output_log2;
  if (space->splits > 1 || space->runs > 1 || space->kept_rank > 1 || (space->flags & CRK_REDUCE_ALIGNED) == 0 ||
      length % vector != 0 || (is_short && stride > ((uint64_t)1 << 31) / CRK_REDUCE_THREADS / bytes)) {
    return;
  }
  plan->kernel = KERNEL_EVEN;
  plan->even = (crk_reduce_even_t){
      .outputs = space->outputs,
      .stride = stride,
      .packs = (uint32_t)packs,
      .lanes_log2 = space->output_log2,
      .is_short = is_short,
  };
  while (is_short && plan->even.turns_log2 < plan->even.lanes_log2 && plan->blocks / 2 >= units) {
    plan->even.turns_log2++;
    plan->blocks = crk_priv_ceil_div(plan->blocks, 2);
  }
}

/* Whether `rows_bytes` bytes of rows fit a block's shared memory, wherever in a 16-byte piece they begin. */
static bool dense_rows_fit(uint64_t rows_bytes, uint64_t bytes, bool aligned) {
  return rows_bytes + (aligned && rows_bytes % 16 == 0 ? 0 : 16 - bytes) <= CRK_REDUCE_DENSE_BYTES;
}

/* Changes a plan of rows to dense rows, if the rows are unaligned, short and without gaps between them. Fewer lanes per
 * row mean more rows per block; a row gets the fewest lanes for which the rows of a block fit its shared memory. If
 * there are few rows, some compute units get no block. That costs no time: a thread has only two loads, and with fewer
 * it would not end sooner. */
static void plan_reduce_dense(reduce_plan_t *plan, const void *src, uint64_t bytes) {
  const crk_reduce_space_t *space = &plan->space;
  const uint64_t length = space->dims[0].size;
  const bool gapless = space->kept_rank == 0 || (space->kept_rank == 1 && space->strides[1] == length);
  if (plan->kernel == KERNEL_EVEN || space->splits > 1 || space->runs > 1 || !gapless ||
      length * bytes > DENSE_ROW_BYTES) {
    return;
  }
  const bool aligned = (uintptr_t)src % 16 == 0;
  uint32_t rows_log2 = 16;
  while (rows_log2 > 0 && !dense_rows_fit(length * bytes << rows_log2, bytes, aligned)) {
    rows_log2--;
  }
  const uint32_t lanes_log2 = rows_log2 < BLOCK_LOG2 ? BLOCK_LOG2 - rows_log2 : 0;
  if (lanes_log2 > 5) {
    return;
  }
  plan->kernel = KERNEL_DENSE;
  plan->dense = (crk_reduce_dense_t){
      .outputs = space->outputs,
      .length = (uint32_t)length,
      .share = (uint32_t)crk_priv_ceil_div(length, (uint64_t)1 << lanes_log2),
      .lanes_log2 = lanes_log2,
      .rows_log2 = rows_log2,
  };
  plan->blocks = crk_priv_ceil_div(space->outputs, (uint64_t)1 << rows_log2);
}

/* Plans a reduction for outputs that are neighbours in memory, or for any strides. */
static void plan_reduce_columns(reduce_plan_t *plan, bool compares, const void *src, uint64_t bytes, uint64_t wanted) {
  crk_reduce_space_t *space = &plan->space;
  const uint32_t kept = space->reduced_rank, rank = kept + space->kept_rank;
  uint64_t vector = (uint64_t)CRK_REDUCE_COLUMNS(bytes, compares);
  bool packs = space->kept_rank > 0 && space->strides[kept] == 1 && space->dims[kept].size % vector == 0 &&
               (uintptr_t)src % (vector * bytes) == 0;
  for (uint32_t d = 0; d < rank; d++) {
    packs = packs && (d == kept || space->strides[d] % vector == 0);
  }
  plan->kernel = packs ? KERNEL_COLUMNS : KERNEL_STRIDED;
  vector = packs ? vector : 1;

  const uint64_t columns = space->outputs / vector, count = space->per_output;
  const bool along_reduced =
      space->reduced_rank > 0 && space->kept_rank > 0 && space->strides[0] < space->strides[kept];
  uint32_t lanes = BLOCK_LOG2;
  while (lanes > (along_reduced ? 0 : COLUMN_LANES_LOG2) && count >> (BLOCK_LOG2 + 1 - lanes) >= COLUMN_ELEMENTS) {
    lanes--;
  }
  space->output_log2 = (uint32_t)crk_priv_least(lanes, crk_priv_log2_ceil(columns));
  plan->blocks = crk_priv_ceil_div(columns, (uint64_t)1 << space->output_log2);

  const uint64_t rows = (uint64_t)CRK_REDUCE_THREADS >> space->output_log2;
  const uint64_t each = count / (rows * COLUMN_ELEMENTS);
  const uint64_t splits = plan->blocks * 2 <= wanted ? crk_priv_least(wanted / plan->blocks, each) : 1;
  space->splits = (uint32_t)crk_priv_least(splits > 0 ? splits : 1, CRK_MOST_GRID_YZ);
}

/* ---- launches */

static crk_status_t reduce_kernel_get(crk_device_t self, crk_reduce_op_t op, crk_dtype_t dtype, kernel_t kernel,
                                      crk_function_t *function) {
  const uint32_t slot =
      CRK_SLOT_REDUCE + ((uint32_t)op * CRK_DTYPE_COUNT + (uint32_t)dtype) * KERNELS + (uint32_t)kernel;
  return CRK_KERNEL_GET(self, slot, CRK_MODULE_REDUCE_DIMS, function, "%s_%s_%s", roots[op], crk_dtype_name(dtype),
                        kernel_names[kernel]);
}

/* Launches the planned kernel. If blocks share outputs, a second kernel then joins their partial results in
 * `states`. */
static crk_status_t launch_reduction(crk_device_t self, crk_reduce_op_t op, crk_dtype_t dtype, reduce_plan_t *plan,
                                     const void *src, void *dst, void *states) {
  crk_reduce_space_t *space = &plan->space;
  const crk_dim3_t block = {CRK_REDUCE_THREADS, 1, 1};
  crk_function_t function;
  CRK_TRY(reduce_kernel_get(self, op, dtype, plan->kernel, &function));
  const crk_dim3_t grid = {crk_priv_grid_blocks(self, plan->blocks, (uint64_t)CRK_REDUCE_THREADS * space->splits),
                           space->splits, 1};
  space->blocks = plan->even.blocks = plan->dense.blocks = grid.x;
  void *rows = plan->kernel == KERNEL_EVEN    ? (void *)&plan->even
               : plan->kernel == KERNEL_DENSE ? (void *)&plan->dense
                                              : (void *)space;
  const void *args[] = {rows, &src, &dst, &states};
  CRK_TRY(crk_priv_launch_blocks(self, function, grid, block, 0, args));
  if (space->splits == 1) {
    return CRK_OK;
  }
  CRK_TRY(reduce_kernel_get(self, op, dtype, KERNEL_JOIN, &function));
  const uint64_t teams = CRK_REDUCE_THREADS / 32; /* 32 lanes per output */
  const crk_dim3_t join_grid = {
      crk_priv_grid_blocks(self, crk_priv_ceil_div(space->outputs, teams), CRK_REDUCE_THREADS), 1, 1};
  const void *join_args[] = {&space->outputs, &space->splits, &join_grid.x, &states, &dst};
  return crk_priv_launch_blocks(self, function, join_grid, block, 0, join_args);
}

/* Marks the reduced dims in `reduced`. Fails where one of them is no dim, or is named twice. */
static crk_status_t mark_reduced_dims(const crk_layout_t *layout, const size_t *reduced_dims, size_t reduced_count,
                                      bool reduced[CRK_MAX_RANK]) {
  CRK_REFUSE_IF(reduced_dims == NULL && reduced_count > 0, "crk_reduce: reduced_dims is NULL");
  for (size_t i = 0; i < reduced_count; i++) {
    CRK_REFUSE_IF(reduced_dims[i] >= layout->rank,
                  "crk_reduce: reduced_dims[%zu] is %zu; it must be less than layout.rank, which is %u", i,
                  reduced_dims[i], (unsigned)layout->rank);
    CRK_REFUSE_IF(reduced[reduced_dims[i]],
                  "crk_reduce: reduced_dims[%zu] is %zu, like one before it; name each dim once", i, reduced_dims[i]);
    reduced[reduced_dims[i]] = true;
  }
  return CRK_OK;
}

crk_status_t crk_reduce(crk_device_t self, crk_reduce_op_t op, crk_dtype_t dtype, const crk_layout_t *layout,
                        crk_const_view_t src, const size_t *reduced_dims, size_t reduced_count, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_reduce");
  CRK_REFUSE_IF((unsigned)op >= CRK_REDUCE_COUNT, "crk_reduce: op %d is not a value of crk_reduce_op_t", (int)op);
  CRK_TRY(crk_priv_check_dtype("crk_reduce", "dtype", dtype));
  crk_extent_t extent;
  CRK_TRY(crk_priv_layout_extent("crk_reduce", "layout", layout, &extent));
  bool is_reduced[CRK_MAX_RANK] = {false};
  CRK_TRY(mark_reduced_dims(layout, reduced_dims, reduced_count, is_reduced));

  /* In an empty tensor the product of the other dims may overflow size_t. */
  dims_t reduced = {0, 1, {0}, {0}}, kept = {0, 1, {0}, {0}};
  for (uint32_t d = 0; d < layout->rank; d++) {
    dims_t *dims = is_reduced[d] ? &reduced : &kept;
    CRK_REFUSE_IF(!crk_priv_product_fits(dims->numel, layout->dims[d], SIZE_MAX),
                  "crk_reduce: the dims of layout make more than %zu elements", (size_t)SIZE_MAX);
    dims_append(dims, layout->dims[d], layout->strides[d]);
  }
  if (kept.numel == 0) {
    return CRK_OK;
  }
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  if (reduced.numel == 0) {
    CRK_REFUSE_IF(op != CRK_REDUCE_SUM,
                  "crk_reduce: layout has no elements, and only a sum of none is defined, not the %s", roots[op] + 5);
    const uint64_t zero = 0;
    return crk_priv_fill(self, "crk_reduce", bytes, dst, kept.numel, &zero);
  }
  const uint32_t dst_bytes = finds_position(op) ? 4 : bytes;
  if (extent.last == SIZE_MAX) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS, "crk_reduce: layout reaches element %zu, more than memory can hold",
                          extent.last);
  }
  CRK_TRY(crk_priv_check_elements("crk_reduce", "src", src, extent.last + 1, bytes));
  CRK_TRY(crk_priv_check_elements("crk_reduce", "dst", crk_const(dst), kept.numel, dst_bytes));
  const char *first = (const char *)src.ptr + layout->offset * bytes;
  CRK_TRY(crk_priv_check_apart("crk_reduce", "dst", dst.ptr, kept.numel * dst_bytes, "src", first,
                               (extent.last + 1 - layout->offset) * bytes));
  if (finds_position(op) && reduced.numel > UINT32_MAX) {
    return crk_priv_error(CRK_UNSUPPORTED,
                          "crk_reduce: positions among %" PRIu64 " elements do not fit u32; reduce fewer dims",
                          reduced.numel);
  }

  reduce_plan_t plan;
  memset(&plan, 0, sizeof plan);
  crk_reduce_space_t *space = &plan.space;
  if (!finds_position(op)) {
    dims_sort(&reduced);
  }
  space->outputs = kept.numel;
  space->per_output = reduced.numel;
  space->runs = 1;
  space->reduced_rank = space_append(space, 0, &reduced, CRK_REDUCE_WIDE);
  space->kept_rank = space_append(space, space->reduced_rank, &kept, CRK_REDUCE_KEPT_WIDE);
  const uint64_t held = crk_priv_held_blocks(self, NULL, CRK_REDUCE_THREADS, 0, 0);
  if (space->reduced_rank > 0 && space->strides[0] == 1) {
    plan_reduce_rows(&plan, first, bytes, held);
    plan_reduce_even(&plan, bytes, crk_priv_units(self));
    plan_reduce_dense(&plan, first, bytes);
  } else {
    plan_reduce_columns(&plan, compares(op, dtype), first, bytes, held);
  }
  if (space->splits == 1) {
    return launch_reduction(self, op, dtype, &plan, first, dst.ptr, NULL);
  }
  void *states;
  CRK_TRY(crk_alloc(self, space->outputs * space->splits * state_bytes(op, dtype), &states));
  const crk_status_t status = launch_reduction(self, op, dtype, &plan, first, dst.ptr, states);
  return crk_priv_free_after(self, status, states);
}
