/* The one way that every element-wise launcher goes. */
#include "elementwise.h"

#include <stdio.h>
#include <string.h>

/* 256 threads a block: enough waves to fill a compute unit with few blocks, and on both wave widths a whole number. */
enum { BLOCK_THREADS = 256 };

const char *crk_priv_width_name(uint32_t bytes) {
  static const char *const names[CRK_WIDTHS] = {"b8", "b16", "b32", "b64"};
  return names[crk_priv_width_index(bytes)];
}

uint32_t crk_priv_width_index(uint32_t bytes) { return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3; }

crk_status_t crk_priv_root_index(const char *where, const char *root, const char *const *roots, int count, int *index) {
  CRK_REFUSE_IF(root == NULL, "%s: root is NULL", where);
  for (int i = 0; i < count; i++) {
    if (strcmp(root, roots[i]) == 0) {
      *index = i;
      return CRK_OK;
    }
  }
  return crk_priv_error(CRK_INVALID_ARGUMENT, "%s: root '%.64s' is none of these ops", where, root);
}

static crk_status_t kernel_load(crk_device_t self, const crk_kernel_family_t *family, bool strided,
                                crk_function_t *function) {
  char name[96];
  snprintf(name, sizeof name, "%s_%s%s%s_%s", strided && family->nd_root != NULL ? family->nd_root : family->root,
           family->first, family->second != NULL ? "_" : "", family->second != NULL ? family->second : "",
           strided ? "nd" : "vec");
  crk_function_t loaded;
  CRK_TRY(crk_priv_function_get(self->context, crk_module_name(family->module), name, &loaded));
  atomic_store_explicit(&self->context->kernels[family->slot + strided], loaded, memory_order_release);
  *function = loaded;
  return CRK_OK;
}

crk_status_t crk_priv_kernel_get(crk_device_t self, const crk_kernel_family_t *family, bool strided,
                                 crk_function_t *function) {
  *function = atomic_load_explicit(&self->context->kernels[family->slot + strided], memory_order_acquire);
  return *function != NULL ? CRK_OK : kernel_load(self, family, strided, function);
}

crk_status_t crk_priv_launch_threads(crk_device_t self, crk_function_t function, uint64_t threads, void **args) {
  /* Element-wise kernels stride over the grid, so that a capped grid is right too. */
  const uint64_t most = self->context->info.max_grid_threads / BLOCK_THREADS;
  const uint64_t wanted = (threads + BLOCK_THREADS - 1) / BLOCK_THREADS;
  const uint64_t blocks = wanted < most ? wanted : most;
  return self->driver->launch(self->driver_device, self->stream, function->driver_function,
                              (crk_dim3_t){blocks < INT32_MAX ? (uint32_t)blocks : INT32_MAX, 1, 1},
                              (crk_dim3_t){BLOCK_THREADS, 1, 1}, 0, args);
}

crk_status_t crk_priv_check_elements(const char *where, const char *name, crk_view_t view, size_t elements,
                                     uint32_t bytes) {
  if (elements > view.bytes / bytes) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS, "%s: %zu elements of %u bytes do not fit %s, which has %zu bytes", where,
                          elements, bytes, name, view.bytes);
  }
  CRK_REFUSE_IF(view.ptr == NULL && elements > 0, "%s: %s.ptr is NULL", where, name);
  CRK_REFUSE_IF((uintptr_t)view.ptr % bytes != 0, "%s: %s.ptr %p is not aligned to its elements of %u bytes", where,
                name, view.ptr, bytes);
  return CRK_OK;
}

static crk_status_t check_same_dims(const char *where, const crk_source_t *a, const crk_source_t *b) {
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
static crk_status_t check_overlap(const char *where, const crk_source_t *source, const crk_extent_t *extent,
                                  const char *first, crk_view_t dst, uint32_t dst_bytes) {
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
  const char *first[CRK_ND_OPERANDS]; /* each source's first element */
  bool is_contiguous = true;
  uint32_t narrowest = call->dst_bytes;
  for (uint32_t k = 0; k < call->source_count; k++) {
    const crk_source_t *source = &call->sources[k];
    CRK_TRY(crk_priv_layout_extent(call->where, source->layout_name, source->layout, &extents[k]));
    if (k > 0) {
      CRK_TRY(check_same_dims(call->where, &call->sources[0], source));
    }
    if (extents[k].numel == 0) {
      continue;
    }
    if (extents[k].last == SIZE_MAX) {
      return crk_priv_error(CRK_OUT_OF_BOUNDS, "%s: %s reaches element %zu", call->where, source->layout_name,
                            extents[k].last);
    }
    CRK_TRY(crk_priv_check_elements(call->where, source->view_name, source->view, extents[k].last + 1, source->bytes));
    first[k] = (const char *)source->view.ptr + source->layout->offset * source->bytes;
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

  crk_function_t function;
  CRK_TRY(crk_priv_kernel_get(self, &call->kernel, !is_contiguous, &function));

  crk_nd_t nd;
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
    args[count++] = &nd;
    threads = crk_priv_nd_threads(&nd, vector);
  }
  if (call->scalar_before != NULL) {
    args[count++] = (void *)(uintptr_t)call->scalar_before;
  }
  for (uint32_t k = 0; k < call->source_count; k++) {
    args[count++] = (void *)&first[k];
  }
  args[count++] = &dst;
  for (uint32_t i = 0; i < call->scalars_after_count; i++) {
    args[count++] = (void *)(uintptr_t)call->scalars_after[i];
  }
  return crk_priv_launch_threads(self, function, threads, args);
}
