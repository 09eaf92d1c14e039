/* The one way that every element-wise launcher goes. */
#include "elementwise.h"

static crk_status_t kernel_load(crk_device_t self, const crk_kernel_family_t *family, crk_walk_t walk,
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
  return *function != NULL ? CRK_OK : kernel_load(self, family, walk, function);
}

/* A thread takes CRK_SHARED_ROW_TURNS rows only where that leaves a compute unit so many threads: half of what most hold. */
enum { SHARED_ROW_THREADS = 1024 };

/* Whether the space is a matrix of whole packs, large enough, of which one operand is contiguous and the other one row; `m` and
 * `threads` are for its kernel then. */
static bool shared_row_init(crk_device_t self, const crk_nd_t *nd, uint32_t vector, crk_shared_row_t *m,
                            uint64_t *threads) {
  const uint32_t wanted = CRK_ND_VECTOR | CRK_ND_UNIT | CRK_ND_UNIT << 1;
  if (nd->rank != 2 || (nd->flags & (wanted | CRK_ND_WIDE)) != wanted ||
      (nd->strides[0][1] == 0) == (nd->strides[1][1] == 0) ||
      nd->strides[0][1] + nd->strides[1][1] != nd->dims[0].size) {
    return false;
  }
  m->rows = nd->dims[1].size;
  m->is_lhs = nd->strides[0][1] == 0;
  crk_priv_division_init(&m->packs, nd->dims[0].size / vector, false);
  const uint64_t all_turns = crk_priv_ceil_div(m->rows, CRK_SHARED_ROW_TURNS) * m->packs.size;
  /* A CPU finds by the number of threads how many cores are worth it, each of what a thread has elsewhere. */
  *threads = self->driver->backend == CRK_BACKEND_CPU ? crk_priv_nd_threads(nd, vector) : all_turns;
  return all_turns >= (uint64_t)self->context->info.compute_units * SHARED_ROW_THREADS;
}

static crk_status_t check_same_dims(const char *where, const crk_tensor_t *a, const crk_tensor_t *b) {
  const crk_layout_t *x = a->layout, *y = b->layout;
  CRK_REFUSE_IF(x->rank != y->rank, "%s: %s.rank is %u, %s.rank is %u", where, a->layout_name, (unsigned)x->rank,
                b->layout_name, (unsigned)y->rank);
  for (uint32_t i = 0; i < x->rank; i++) {
    CRK_REFUSE_IF(x->dims[i] != y->dims[i], "%s: %s.dims[%u] is %zu, %s.dims[%u] is %zu", where, a->layout_name, i,
                  x->dims[i], b->layout_name, i, y->dims[i]);
  }
  return CRK_OK;
}

/* A source may be the destination itself where each element is read and written by the same thread at the same place;
 * any other overlap would be a race. */
static crk_status_t check_overlap(const char *where, const crk_tensor_t *source, const crk_extent_t *extent,
                                  const void *first, crk_view_t dst, uint32_t dst_bytes) {
  const uintptr_t src_from = (uintptr_t)first;
  const uintptr_t src_to = (uintptr_t)source->view.ptr + (extent->last + 1) * source->bytes;
  const uintptr_t dst_from = (uintptr_t)dst.ptr, dst_to = dst_from + extent->numel * dst_bytes;
  if (src_from >= dst_to || dst_from >= src_to) {
    return CRK_OK;
  }
  CRK_REFUSE_IF(!(src_from == dst_from && extent->is_contiguous && source->bytes == dst_bytes),
                "%s: dst overlaps %s without being the same contiguous elements", where, source->view_name);
  return CRK_OK;
}

crk_status_t crk_priv_elementwise(crk_device_t self, const crk_elementwise_t *call) {
  crk_extent_t extents[CRK_ND_OPERANDS];
  void *first[CRK_ND_OPERANDS]; /* each source's first element */
  bool is_contiguous = true;
  uint32_t narrowest = call->dst_bytes;
  for (uint32_t k = 0; k < call->source_count; k++) {
    const crk_tensor_t *source = &call->sources[k];
    CRK_TRY(crk_priv_layout_extent(call->where, source->layout_name, source->layout, &extents[k]));
    if (k > 0) {
      CRK_TRY(check_same_dims(call->where, &call->sources[0], source));
    }
    CRK_TRY(crk_priv_tensor_first(call->where, source, &extents[k], &first[k]));
    is_contiguous = is_contiguous && extents[k].is_contiguous;
    narrowest = source->bytes < narrowest ? source->bytes : narrowest;
  }
  size_t numel = extents[0].numel;
  if (numel == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_elements(call->where, "dst", call->dst, numel, call->dst_bytes));
  for (uint32_t k = 0; k < call->source_count; k++) {
    CRK_TRY(check_overlap(call->where, &call->sources[k], &extents[k], first[k], call->dst, call->dst_bytes));
  }

  crk_nd_t nd;
  crk_shared_row_t matrix;
  crk_walk_t walk = CRK_WALK_CONTIGUOUS;
  const uint32_t vector = CRK_VECTOR_ELEMENTS(narrowest);
  uint64_t threads;
  void *args[8], *dst = call->dst.ptr;
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
    if (call->shares_rows && (uintptr_t)dst % 16 == 0 && shared_row_init(self, &nd, vector, &matrix, &threads)) {
      walk = CRK_WALK_SHARED_ROW;
      args[count++] = &matrix;
    } else {
      walk = CRK_WALK_STRIDED;
      args[count++] = &nd;
      threads = crk_priv_nd_threads(&nd, vector);
    }
  }
  crk_function_t function;
  CRK_TRY(crk_priv_kernel_get(self, &call->kernel, walk, &function));
  if (call->scalar_before != NULL) {
    args[count++] = (void *)(uintptr_t)call->scalar_before;
  }
  for (uint32_t k = 0; k < call->source_count; k++) {
    args[count++] = &first[k];
  }
  args[count++] = &dst;
  for (uint32_t i = 0; i < call->scalars_after_count; i++) {
    args[count++] = (void *)(uintptr_t)call->scalars_after[i];
  }
  return crk_priv_launch_threads(self, function, threads, args);
}
