/* Launchers of kernels/fill.hip: fill, const_set, copy2d. */
#include "launch/elementwise.h"

static crk_kernel_family_t fill_family(uint32_t bytes) {
  return (crk_kernel_family_t){.module = CRK_MODULE_FILL,
                               .slot = CRK_SLOT_FILL + 2 * crk_priv_width_index(bytes),
                               .root = "fill",
                               .nd_root = "const_set",
                               .first = crk_priv_width_name(bytes)};
}

crk_status_t crk_priv_fill(crk_device_t self, const char *where, uint32_t bytes, crk_view_t dst, size_t numel,
                           const void *value) {
  if (numel == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), numel, bytes));
  const crk_kernel_family_t family = fill_family(bytes);
  crk_function_t function;
  CRK_TRY(crk_priv_kernel_get(self, &family, CRK_WALK_CONTIGUOUS, &function));
  const void *args[4] = {&numel, value, &dst.ptr};
  return crk_priv_launch_threads(self, function, numel / CRK_VECTOR_ELEMENTS(bytes) + 1, args, 3);
}

crk_status_t crk_fill(crk_device_t self, crk_dtype_t dtype, crk_view_t dst, size_t numel, const void *value) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_fill");
  CRK_TRY(crk_priv_check_dtype("crk_fill", "dtype", dtype));
  CRK_REFUSE_IF(value == NULL, "crk_fill: value is NULL");
  return crk_priv_fill(self, "crk_fill", (uint32_t)crk_dtype_size(dtype), dst, numel, value);
}

crk_status_t crk_const_set(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_view_t dst,
                           const void *value) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_const_set");
  CRK_TRY(crk_priv_check_dtype("crk_const_set", "dtype", dtype));
  CRK_REFUSE_IF(value == NULL, "crk_const_set: value is NULL");
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  crk_extent_t extent;
  CRK_TRY(crk_priv_layout_extent("crk_const_set", "layout", layout, &extent));
  const void *found;
  const crk_tensor_t tensor = {"layout", "dst", layout, crk_const(dst), bytes};
  CRK_TRY(crk_priv_tensor_first("crk_const_set", &tensor, &extent, &found));
  if (extent.numel == 0) {
    return CRK_OK;
  }
  char *first = (char *)dst.ptr + layout->offset * bytes;
  if (extent.is_contiguous) {
    return crk_priv_fill(self, "crk_const_set", bytes, (crk_view_t){first, extent.numel * bytes}, extent.numel, value);
  }
  const crk_kernel_family_t family = fill_family(bytes);
  crk_function_t function;
  CRK_TRY(crk_priv_kernel_get(self, &family, CRK_WALK_STRIDED, &function));
  const uint32_t vector = CRK_VECTOR_ELEMENTS(bytes);
  const size_t *strides[] = {layout->strides};
  crk_nd_t nd;
  crk_priv_nd_init(&nd, extent.numel, layout->rank, layout->dims, strides, 1, vector);
  const void *args[4] = {&nd, value, &first};
  return crk_priv_launch_threads(self, function, crk_priv_nd_threads(&nd, vector, false), args, 3);
}

crk_status_t crk_copy2d(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t cols, crk_const_view_t src,
                        size_t src_stride, size_t src_offset, crk_view_t dst, size_t dst_stride, size_t dst_offset) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_copy2d");
  CRK_TRY(crk_priv_check_dtype("crk_copy2d", "dtype", dtype));
  if (rows == 0 || cols == 0) {
    return CRK_OK;
  }
  CRK_REFUSE_IF(rows > 1 && dst_stride < cols,
                "crk_copy2d: dst_stride is %zu, less than cols, which is %zu; rows of dst would overlap", dst_stride,
                cols);
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  const crk_layout_t src_layout = {.rank = 2, .dims = {rows, cols}, .strides = {src_stride, 1}, .offset = src_offset};
  const crk_layout_t dst_layout = {.rank = 2, .dims = {rows, cols}, .strides = {dst_stride, 1}, .offset = dst_offset};
  crk_extent_t from, to;
  CRK_TRY(crk_priv_layout_extent("crk_copy2d", "src", &src_layout, &from));
  CRK_TRY(crk_priv_layout_extent("crk_copy2d", "dst", &dst_layout, &to));
  if (from.last == SIZE_MAX || to.last == SIZE_MAX) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS,
                          "crk_copy2d: offsets and strides reach element %zu, more than memory can hold",
                          (size_t)SIZE_MAX);
  }
  CRK_TRY(crk_priv_check_elements("crk_copy2d", "src", src, from.last + 1, bytes));
  CRK_TRY(crk_priv_check_elements("crk_copy2d", "dst", crk_const(dst), to.last + 1, bytes));
  const char *first = (const char *)src.ptr + src_offset * bytes,
             *src_end = (const char *)src.ptr + (from.last + 1) * bytes;
  char *target = (char *)dst.ptr + dst_offset * bytes, *dst_end = (char *)dst.ptr + (to.last + 1) * bytes;
  CRK_REFUSE_IF((uintptr_t)first < (uintptr_t)dst_end && (uintptr_t)target < (uintptr_t)src_end,
                "crk_copy2d: dst and src overlap; they must not share memory");
  const crk_kernel_family_t family = {.module = CRK_MODULE_FILL,
                                      .slot = CRK_SLOT_COPY2D + 2 * crk_priv_width_index(bytes),
                                      .root = "copy2d",
                                      .first = crk_priv_width_name(bytes)};
  crk_function_t function;
  CRK_TRY(crk_priv_kernel_get(self, &family, CRK_WALK_STRIDED, &function));
  /* A thread writes 16 aligned bytes of dst. A row that does not begin with such a piece needs one thread more. */
  const size_t vector = CRK_VECTOR_ELEMENTS(bytes);
  const bool aligned = (uintptr_t)target % 16 == 0 && (rows == 1 || dst_stride % vector == 0);
  const size_t dims[] = {rows, (cols - 1) / vector + (aligned ? 1 : 2)};
  const size_t of_src[] = {src_stride, vector}, of_dst[] = {dst_stride, vector}, of_column[] = {0, vector};
  const size_t *strides[] = {of_src, of_dst, of_column};
  crk_nd_t nd;
  crk_priv_nd_init(&nd, dims[0] * dims[1], 2, dims, strides, 3, 1);
  const void *args[5] = {&nd, &first, &target, &cols};
  return crk_priv_launch_threads(self, function, nd.numel, args, 4);
}
