/* The launch of every element-wise op: checks, the choice of the kernel, its arguments. */
#include "launch/elementwise.h"

static crk_status_t family_kernel_load(crk_device_t self, const crk_kernel_family_t *family, crk_walk_t walk,
                                       crk_function_t *function) {
  static const char *const suffixes[CRK_WALKS] = {
      [CRK_WALK_CONTIGUOUS] = "vec", [CRK_WALK_STRIDED] = "nd", [CRK_WALK_SHARED_ROW] = "row"};
  return crk_priv_kernel_load(self, family->slot + walk, family->module, function, "%s_%s%s%s_%s",
                              walk == CRK_WALK_STRIDED && family->nd_root != NULL ? family->nd_root : family->root,
                              family->first, family->second != NULL ? "_" : "",
                              family->second != NULL ? family->second : "", suffixes[walk]);
}

crk_status_t crk_priv_kernel_get(crk_device_t self, const crk_kernel_family_t *family, crk_walk_t walk,
                                 crk_function_t *function) {
  *function = atomic_load_explicit(&self->context->kernels[family->slot + walk], memory_order_acquire);
  return *function != NULL ? CRK_OK : family_kernel_load(self, family, walk, function);
}

/* Rows per thread when all rows share one operand row. AMD: many, so that few memory lines are read for the shared row.
 * NVIDIA: as many as a thread loads at once. With 4 rows per thread, adding a row to 16384 f32 reaches 0.98 of an
 * H200's copy speed, and with 16 rows 0.95; `where` reaches 0.99 and 0.95. */
static uint32_t shared_row_rows_per_thread(crk_device_t self) {
  return self->driver->backend == CRK_BACKEND_CUDA ? CRK_SHARED_ROW_DEPTH : 4 * CRK_SHARED_ROW_DEPTH;
}

/* The kernel for a shared row pays only if its launch has at least 1/SHARED_ROW_SHARE of the threads that the device
 * holds. */
enum { SHARED_ROW_SHARE = 2 };

/* Elements that the call's kernel handles per step: step_elements of kernels/elementwise/walk.h. */
static uint32_t step_elements(const crk_elementwise_t *call) {
  uint32_t narrowest = call->dst_bytes, widest = call->dst_bytes;
  for (uint32_t k = 0; k < call->source_count; k++) {
    const uint32_t bytes = call->sources[k].bytes;
    narrowest = bytes > 1 && bytes < narrowest ? bytes : narrowest;
    widest = bytes > widest ? bytes : widest;
  }
  return CRK_STEP_ELEMENTS(narrowest, widest);
}

/* Whether the kernel for a shared row suits the call; if so, fills `m` and `threads` for it. The space must be a large
 * matrix with rows of whole packs. One operand is a single row, the others are contiguous, and all addresses are
 * aligned. */
static bool shared_row_init(crk_device_t self, const crk_elementwise_t *call, const crk_nd_t *nd,
                            const void *const *first, crk_shared_row_t *m, uint64_t *threads) {
  if (nd->rank != 2 || (nd->flags & (CRK_ND_VECTOR | CRK_ND_WIDE)) != CRK_ND_VECTOR) {
    return false;
  }
  uint32_t shared = 0; /* operands that are a single row */
  uintptr_t addresses = (uintptr_t)call->dst.ptr;
  for (uint32_t k = 0; k < call->source_count; k++) {
    addresses |= (uintptr_t)first[k];
    if (nd->strides[k][0] != 1 || (nd->strides[k][1] != 0 && nd->strides[k][1] != nd->dims[0].size)) {
      return false;
    }
    if (nd->strides[k][1] == 0) {
      shared++;
      m->shared = k;
    }
  }
  if (shared != 1 || addresses % 16 != 0) {
    return false;
  }
  const uint32_t step = step_elements(call);
  m->rows = nd->dims[1].size;
  m->turns = shared_row_rows_per_thread(self);
  crk_priv_nd_dim_init(&m->packs, nd->dims[0].size / step, false);
  m->threads = crk_priv_ceil_div(m->rows, m->turns) * m->packs.size;
  /* The CPU driver derives the number of cores from the number of threads. So it gets the same number of threads as for
   * the kernel of any strides. */
  *threads = self->driver->backend == CRK_BACKEND_CPU ? crk_priv_nd_threads(nd, step, true) : m->threads;
  return m->threads >= crk_priv_held_threads(self) / SHARED_ROW_SHARE;
}

/* The columns of a strip where a source is transposed, as a logarithm. On an H200, the sum of two f32 matrices of
 * 16384 x 16384 reaches 0.87 of copy speed with 32 columns. It reaches 0.80 with 16, 0.86 with 64, and 0.37 with whole
 * rows. */
enum { TRANSPOSED_LOG2_WIDTH = 5 };

/* Lets the kernel walk the space in strips where a source is transposed (contiguous along the second dim) and rows are
 * whole packs. A block then covers a tile, and uses all bytes of the memory lines that it reads along either dim. */
static void walk_transposed(crk_nd_t *nd, uint32_t source_count) {
  bool is_transposed = false;
  for (uint32_t k = 0; nd->rank >= 2 && k < source_count; k++) {
    is_transposed = is_transposed || (nd->strides[k][0] > 1 && nd->strides[k][1] == 1);
  }
  if (is_transposed && (nd->flags & CRK_ND_VECTOR) != 0 && nd->dims[0].size > 1 << TRANSPOSED_LOG2_WIDTH) {
    crk_priv_nd_walk_strips(nd, nd->dims[1].size, nd->dims[0].size, TRANSPOSED_LOG2_WIDTH);
  }
}

static crk_status_t check_same_dims(const char *where, const crk_tensor_t *a, const crk_tensor_t *b) {
  const crk_layout_t *x = a->layout, *y = b->layout;
  CRK_REFUSE_IF(x->rank != y->rank, "%s: %s.rank is %u, but %s.rank is %u; they must be equal", where, a->layout_name,
                (unsigned)x->rank, b->layout_name, (unsigned)y->rank);
  for (uint32_t i = 0; i < x->rank; i++) {
    CRK_REFUSE_IF(x->dims[i] != y->dims[i], "%s: %s.dims[%u] is %zu, but %s.dims[%u] is %zu; they must be equal", where,
                  a->layout_name, i, x->dims[i], b->layout_name, i, y->dims[i]);
  }
  return CRK_OK;
}

/* A source may be dst itself where the same thread reads and writes each element at the same address. Any other overlap
 * would be a race. */
static crk_status_t check_overlap(const char *where, const crk_tensor_t *source, const crk_extent_t *extent,
                                  const void *first, crk_view_t dst, uint32_t dst_bytes) {
  const uintptr_t src_from = (uintptr_t)first;
  const uintptr_t src_to = (uintptr_t)source->view.ptr + (extent->last + 1) * source->bytes;
  const uintptr_t dst_from = (uintptr_t)dst.ptr, dst_to = dst_from + extent->numel * dst_bytes;
  if (src_from >= dst_to || dst_from >= src_to) {
    return CRK_OK;
  }
  CRK_REFUSE_IF(!(src_from == dst_from && extent->is_contiguous && source->bytes == dst_bytes),
                "%s: dst overlaps %s; it must be apart from it or hold exactly the same contiguous elements", where,
                source->view_name);
  return CRK_OK;
}

/* Checks the operands. `first` gets the address of each source's first element. If `numel` is 0, dst is not checked. */
static crk_status_t check_operands(const crk_elementwise_t *call, const void **first, size_t *numel,
                                   bool *is_contiguous) {
  crk_extent_t extents[CRK_ND_OPERANDS];
  *is_contiguous = true;
  for (uint32_t k = 0; k < call->source_count; k++) {
    const crk_tensor_t *source = &call->sources[k];
    CRK_TRY(crk_priv_layout_extent(call->where, source->layout_name, source->layout, &extents[k]));
    if (k > 0) {
      CRK_TRY(check_same_dims(call->where, &call->sources[0], source));
    }
    CRK_TRY(crk_priv_tensor_first(call->where, source, &extents[k], &first[k]));
    *is_contiguous = *is_contiguous && extents[k].is_contiguous;
  }
  *numel = extents[0].numel;
  if (*numel == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_elements(call->where, "dst", crk_const(call->dst), *numel, call->dst_bytes));
  for (uint32_t k = 0; k < call->source_count; k++) {
    CRK_TRY(check_overlap(call->where, &call->sources[k], &extents[k], first[k], call->dst, call->dst_bytes));
  }
  return CRK_OK;
}

/* Elements that a thread loads at once. */
static uint32_t vector_elements(const crk_elementwise_t *call) {
  uint32_t narrowest = call->dst_bytes;
  for (uint32_t k = 0; k < call->source_count; k++) {
    narrowest = call->sources[k].bytes < narrowest ? call->sources[k].bytes : narrowest;
  }
  return CRK_VECTOR_ELEMENTS(narrowest);
}

crk_status_t crk_priv_elementwise(crk_device_t self, const crk_elementwise_t *call) {
  const void *first[CRK_ND_OPERANDS];
  size_t numel;
  bool is_contiguous;
  CRK_TRY(check_operands(call, first, &numel, &is_contiguous));
  if (numel == 0) {
    return CRK_OK;
  }
  crk_nd_t nd;
  crk_shared_row_t matrix;
  crk_walk_t walk = CRK_WALK_CONTIGUOUS;
  const uint32_t vector = vector_elements(call);
  uint64_t threads;
  const void *args[9];
  void *dst = call->dst.ptr;
  uint32_t count = 0;
  if (is_contiguous) {
    args[count++] = &numel;
    threads = numel / vector + 1;
  } else {
    const size_t *strides[CRK_ND_OPERANDS];
    for (uint32_t k = 0; k < call->source_count; k++) {
      strides[k] = call->sources[k].layout->strides;
    }
    const crk_layout_t *shape = call->sources[0].layout;
    crk_priv_nd_init(&nd, numel, shape->rank, shape->dims, strides, call->source_count, vector);
    crk_tile_t tile;
    if (call->is_copy && crk_priv_tile_init(&nd, call->dst_bytes, first[0], dst, &tile)) {
      return crk_priv_tile_launch(self, call->dst_bytes, &tile, first[0], dst);
    }
    if (call->shares_rows && shared_row_init(self, call, &nd, first, &matrix, &threads)) {
      walk = CRK_WALK_SHARED_ROW;
      args[count++] = &matrix;
    } else {
      walk = CRK_WALK_STRIDED;
      walk_transposed(&nd, call->source_count);
      args[count++] = &nd;
      threads = crk_priv_nd_threads(&nd, vector, true);
    }
  }
  crk_function_t function;
  CRK_TRY(crk_priv_kernel_get(self, &call->kernel, walk, &function));
  if (call->scalar_before != NULL) {
    args[count++] = call->scalar_before;
  }
  for (uint32_t k = 0; k < call->source_count; k++) {
    args[count++] = &first[k];
  }
  args[count++] = &dst;
  for (uint32_t i = 0; i < call->scalars_after_count; i++) {
    args[count++] = call->scalars_after[i];
  }
  return crk_priv_launch_threads(self, function, threads, args, count);
}
