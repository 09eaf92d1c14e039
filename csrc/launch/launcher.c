/* What all launchers share: kernels, checks and launches. */
#include "launch/launcher.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "call/launch_threads.h"

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
  return crk_priv_error(CRK_INVALID_ARGUMENT, "%s: root '%.64s' names no op of this family", where, root);
}

crk_status_t crk_priv_kernel_load(crk_device_t self, uint32_t slot, crk_module_index_t module, crk_function_t *function,
                                  const char *format, ...) {
  char name[96];
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name, format, args);
  va_end(args);
  crk_function_t loaded;
  CRK_TRY(crk_priv_function_get(self->context, crk_module_name(module), name, &loaded));
  atomic_store_explicit(&self->context->kernels[slot], loaded, memory_order_release);
  *function = loaded;
  return CRK_OK;
}

crk_status_t crk_priv_block_threads(crk_function_t function, uint32_t *threads) {
  *threads = function->signature.max_threads;
  return *threads != 0 ? CRK_OK
                       : crk_priv_error(CRK_INVALID_IMAGE,
                                        "kernel %s: its code object does not say how many threads a "
                                        "block has",
                                        function->name);
}

uint64_t crk_priv_held_blocks(crk_device_t self, crk_function_t function, uint32_t threads, uint32_t shared_bytes,
                              uint32_t most) {
  crk_block_needs_t needs = {.threads = threads, .shared_bytes = shared_bytes, .most = most};
  if (function != NULL) {
    needs.shared_bytes += function->signature.shared_bytes;
    needs.registers = function->signature.registers;
  }
  return crk_priv_occupancy_blocks(&self->context->occupancy, &needs);
}

crk_status_t crk_priv_launch_threads(crk_device_t self, crk_function_t function, uint64_t threads, const void **args,
                                     uint32_t count) {
  const crk_dim3_t block = {CRK_LAUNCHED_THREADS, 1, 1};
  const crk_dim3_t grid = {crk_priv_grid_blocks(self, crk_priv_ceil_div(threads, block.x), block.x), 1, 1};
  uint32_t launched = grid.x * block.x;
  args[count] = &launched;
  return crk_priv_launch_blocks(self, function, grid, block, 0, args);
}

crk_status_t crk_priv_check_wide_float(const char *where, crk_dtype_t dtype) {
  CRK_TRY(crk_priv_check_dtype(where, "dtype", dtype));
  if (!crk_priv_dtype_is_float(dtype) || dtype == CRK_DTYPE_F8E4M3) {
    return crk_priv_error(CRK_UNSUPPORTED, "%s: no kernel for dtype %s; use f64, f32, f16 or bf16", where,
                          crk_dtype_name(dtype));
  }
  return CRK_OK;
}

crk_status_t crk_priv_checked_product(const char *where, const char *what, size_t a, size_t b, size_t *product) {
  if (!crk_priv_multiply(a, b, product)) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS, "%s: %zu times %zu %s are beyond %zu", where, a, b, what,
                          (size_t)SIZE_MAX);
  }
  return CRK_OK;
}

crk_status_t crk_priv_strided_extent(const char *where, const char *what, size_t count, size_t stride, size_t length,
                                     size_t *extent) {
  CRK_TRY(crk_priv_checked_product(where, what, count - 1, stride, extent));
  if (length > SIZE_MAX - *extent) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS, "%s: %zu more than %zu %s are beyond %zu", where, length, *extent, what,
                          (size_t)SIZE_MAX);
  }
  *extent += length;
  return CRK_OK;
}

crk_status_t crk_priv_check_elements(const char *where, const char *name, crk_const_view_t view, size_t elements,
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

crk_status_t crk_priv_tensor_first(const char *where, const crk_tensor_t *tensor, const crk_extent_t *extent,
                                   const void **first) {
  *first = NULL;
  if (extent->numel == 0) {
    return CRK_OK;
  }
  if (extent->last == SIZE_MAX) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS, "%s: %s reaches element %zu, more than memory can hold", where,
                          tensor->layout_name, extent->last);
  }
  CRK_TRY(crk_priv_check_elements(where, tensor->view_name, tensor->view, extent->last + 1, tensor->bytes));
  *first = (const char *)tensor->view.ptr + tensor->layout->offset * tensor->bytes;
  return CRK_OK;
}

crk_status_t crk_priv_tensor_check(const char *where, const crk_tensor_t *tensor, size_t *numel, const void **first) {
  crk_extent_t extent;
  CRK_TRY(crk_priv_layout_extent(where, tensor->layout_name, tensor->layout, &extent));
  *numel = extent.numel;
  CRK_REFUSE_IF(extent.numel > 0 && !extent.is_contiguous, "%s: %s is not contiguous; copy the tensor first", where,
                tensor->layout_name);
  return crk_priv_tensor_first(where, tensor, &extent, first);
}

crk_status_t crk_priv_check_apart(const char *where, const char *name, const void *first, size_t bytes,
                                  const char *other_name, const void *other, size_t other_bytes) {
  const uintptr_t a = (uintptr_t)first, b = (uintptr_t)other;
  CRK_REFUSE_IF(bytes != 0 && other_bytes != 0 && a < b + other_bytes && b < a + bytes,
                "%s: %s overlaps %s; they must not share memory", where, name, other_name);
  return CRK_OK;
}

crk_status_t crk_priv_check_read(const char *where, const char *name, crk_const_view_t view, size_t elements,
                                 uint32_t bytes, const void *dst, size_t dst_bytes) {
  CRK_TRY(crk_priv_check_elements(where, name, view, elements, bytes));
  return crk_priv_check_apart(where, "dst", dst, dst_bytes, name, view.ptr, elements * bytes);
}

static crk_status_t check_region_apart(const char *where, const crk_region_t *region, const crk_region_t *others,
                                       size_t count) {
  for (size_t i = 0; i < count; i++) {
    const crk_region_t *other = &others[i];
    CRK_TRY(crk_priv_check_apart(where, region->name, region->first, region->bytes, other->name, other->first,
                                 other->bytes));
  }
  return CRK_OK;
}

crk_status_t crk_priv_check_all_apart(const char *where, const crk_region_t *written, size_t writes,
                                      const crk_region_t *read, size_t reads) {
  for (size_t i = 0; i < writes; i++) {
    CRK_TRY(check_region_apart(where, &written[i], read, reads));
    CRK_TRY(check_region_apart(where, &written[i], written, i));
  }
  return CRK_OK;
}
