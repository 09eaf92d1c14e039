/* Launchers of kernels/unary.hip: functions of one operand, and copies. */
#include "launch/elementwise.h"

CRK_OP_FROM_ROOT(crk_unary_op_from_root, crk_unary_op_t, roots, CRK_UNARY_MAP)

crk_status_t crk_priv_copy_elements(crk_device_t self, const char *where, const crk_tensor_t *source, crk_view_t dst) {
  const crk_elementwise_t call = {
      .where = where,
      .kernel = {.module = CRK_MODULE_UNARY,
                 .slot = CRK_SLOT_COPY + 2 * crk_priv_width_index(source->bytes),
                 .root = "ucopy",
                 .first = crk_priv_width_name(source->bytes)},
      .sources = {*source},
      .source_count = 1,
      .dst = dst,
      .dst_bytes = source->bytes,
      .is_copy = true,
  };
  return crk_priv_elementwise(self, &call);
}

crk_status_t crk_copy_strided(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_const_view_t src,
                              crk_view_t dst, size_t dst_offset) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_copy_strided");
  CRK_TRY(crk_priv_check_dtype("crk_copy_strided", "dtype", dtype));
  const size_t bytes = crk_dtype_size(dtype);
  if (dst_offset > dst.bytes / bytes) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS, "crk_copy_strided: dst_offset is %zu, but dst has only %zu elements",
                          dst_offset, dst.bytes / bytes);
  }
  const crk_view_t rest = {dst.ptr != NULL ? (char *)dst.ptr + dst_offset * bytes : NULL,
                           dst.bytes - dst_offset * bytes};
  const crk_tensor_t source = {"layout", "src", layout, src, (uint32_t)bytes};
  return crk_priv_copy_elements(self, "crk_copy_strided", &source, rest);
}

/* The meaning of an op for integers, as in Candle's CPU backend: unsupported, a copy, zeros, or a kernel of its own. */
typedef enum integer_meaning { INTEGER_NONE, INTEGER_IDENTITY, INTEGER_ZERO, INTEGER_KERNEL } integer_meaning_t;

static integer_meaning_t integer_meaning(crk_unary_op_t op, bool is_signed) {
  switch (op) {
    case CRK_UNARY_COPY:
    case CRK_UNARY_CEIL:
    case CRK_UNARY_FLOOR:
    case CRK_UNARY_ROUND:
      return INTEGER_IDENTITY;
    case CRK_UNARY_ABS:
    case CRK_UNARY_RELU:
      return is_signed ? INTEGER_KERNEL : INTEGER_IDENTITY;
    case CRK_UNARY_SIGN:
      return INTEGER_KERNEL;
    case CRK_UNARY_ERF:
    case CRK_UNARY_GELU:
    case CRK_UNARY_GELU_ERF:
    case CRK_UNARY_SILU:
      return INTEGER_ZERO;
    default:
      return INTEGER_NONE;
  }
}

static crk_status_t fill_with_zero(crk_device_t self, const crk_tensor_t *source, crk_view_t dst) {
  crk_extent_t extent;
  CRK_TRY(crk_priv_layout_extent("crk_unary", source->layout_name, source->layout, &extent));
  const void *first;
  CRK_TRY(crk_priv_tensor_first("crk_unary", source, &extent, &first));
  const uint64_t zero = 0;
  return crk_priv_fill(self, "crk_unary", source->bytes, dst, extent.numel, &zero);
}

static crk_status_t launch_unary(crk_device_t self, const char *where, crk_unary_op_t op, crk_dtype_t dtype,
                                 const crk_tensor_t *source, crk_view_t dst, const void *param) {
  const crk_elementwise_t call = {
      .where = where,
      .kernel = {.module = CRK_MODULE_UNARY,
                 .slot = CRK_SLOT_UNARY + 2 * ((uint32_t)op * CRK_DTYPE_COUNT + (uint32_t)dtype),
                 .root = roots[op],
                 .first = crk_dtype_name(dtype)},
      .sources = {*source},
      .source_count = 1,
      .dst = dst,
      .dst_bytes = source->bytes,
      .scalar_before = param,
  };
  return crk_priv_elementwise(self, &call);
}

crk_status_t crk_unary(crk_device_t self, crk_unary_op_t op, crk_dtype_t dtype, const crk_layout_t *layout,
                       crk_const_view_t src, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_unary");
  CRK_REFUSE_IF((unsigned)op >= CRK_UNARY_COUNT, "crk_unary: op %d is not a value of crk_unary_op_t", (int)op);
  CRK_REFUSE_IF(op == CRK_UNARY_ELU || op == CRK_UNARY_POWF, "crk_unary: op %s takes a parameter; use crk_unary_param",
                roots[op]);
  CRK_TRY(crk_priv_check_dtype("crk_unary", "dtype", dtype));
  const crk_tensor_t source = {"layout", "src", layout, src, (uint32_t)crk_dtype_size(dtype)};
  if (op == CRK_UNARY_COPY) {
    return crk_priv_copy_elements(self, "crk_unary", &source, dst);
  }
  if (!crk_priv_dtype_is_float(dtype)) {
    switch (integer_meaning(op, dtype != CRK_DTYPE_U8 && dtype != CRK_DTYPE_U32)) {
      case INTEGER_NONE:
        return crk_priv_error(CRK_UNSUPPORTED, "crk_unary: op %s has no kernel for %s; cast to a float dtype first",
                              roots[op], crk_dtype_name(dtype));
      case INTEGER_IDENTITY:
        return crk_priv_copy_elements(self, "crk_unary", &source, dst);
      case INTEGER_ZERO:
        return fill_with_zero(self, &source, dst);
      case INTEGER_KERNEL:
        break;
    }
  }
  return launch_unary(self, "crk_unary", op, dtype, &source, dst, NULL);
}

crk_status_t crk_unary_param(crk_device_t self, crk_unary_op_t op, crk_dtype_t dtype, const crk_layout_t *layout,
                             crk_const_view_t src, crk_view_t dst, double param) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_unary_param");
  CRK_REFUSE_IF(op != CRK_UNARY_ELU && op != CRK_UNARY_POWF,
                "crk_unary_param: op %d is neither ELU nor POWF; use crk_unary", (int)op);
  CRK_TRY(crk_priv_check_dtype("crk_unary_param", "dtype", dtype));
  if (!crk_priv_dtype_is_float(dtype)) {
    return crk_priv_error(CRK_UNSUPPORTED, "crk_unary_param: op %s has no kernel for %s; cast to a float dtype first",
                          roots[op], crk_dtype_name(dtype));
  }
  uint64_t converted = 0;
  crk_priv_from_f64(dtype, param, &converted);
  const crk_tensor_t source = {"layout", "src", layout, src, (uint32_t)crk_dtype_size(dtype)};
  return launch_unary(self, "crk_unary_param", op, dtype, &source, dst, &converted);
}
