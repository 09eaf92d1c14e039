/* Launchers of kernels/binary.hip: arithmetic and comparison of two operands. */
#include "launch/elementwise.h"

CRK_OP_FROM_ROOT(crk_binary_op_from_root, crk_binary_op_t, binary_roots, CRK_BINARY_MAP)
CRK_OP_FROM_ROOT(crk_cmp_op_from_root, crk_cmp_op_t, cmp_roots, CRK_CMP_MAP)

crk_status_t crk_binary(crk_device_t self, crk_binary_op_t op, crk_dtype_t dtype, const crk_layout_t *lhs_layout,
                        crk_const_view_t lhs, const crk_layout_t *rhs_layout, crk_const_view_t rhs, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_binary");
  CRK_REFUSE_IF((unsigned)op >= CRK_BINARY_COUNT, "crk_binary: op %d is not a value of crk_binary_op_t", (int)op);
  CRK_TRY(crk_priv_check_dtype("crk_binary", "dtype", dtype));
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  const crk_elementwise_t call = {
      .where = "crk_binary",
      .kernel = {.module = CRK_MODULE_BINARY,
                 .slot = CRK_SLOT_BINARY + CRK_WALKS * ((uint32_t)op * CRK_DTYPE_COUNT + (uint32_t)dtype),
                 .root = binary_roots[op],
                 .first = crk_dtype_name(dtype)},
      .sources = {{"lhs_layout", "lhs", lhs_layout, lhs, bytes}, {"rhs_layout", "rhs", rhs_layout, rhs, bytes}},
      .source_count = 2,
      .dst = dst,
      .dst_bytes = bytes,
      .shares_rows = crk_priv_dtype_is_float(dtype) && dtype != CRK_DTYPE_F8E4M3,
  };
  return crk_priv_elementwise(self, &call);
}

crk_status_t crk_cmp(crk_device_t self, crk_cmp_op_t op, crk_dtype_t dtype, const crk_layout_t *lhs_layout,
                     crk_const_view_t lhs, const crk_layout_t *rhs_layout, crk_const_view_t rhs, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_cmp");
  CRK_REFUSE_IF((unsigned)op >= CRK_CMP_COUNT, "crk_cmp: op %d is not a value of crk_cmp_op_t", (int)op);
  CRK_TRY(crk_priv_check_dtype("crk_cmp", "dtype", dtype));
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  const crk_elementwise_t call = {
      .where = "crk_cmp",
      .kernel = {.module = CRK_MODULE_BINARY,
                 .slot = CRK_SLOT_CMP + 2 * ((uint32_t)op * CRK_DTYPE_COUNT + (uint32_t)dtype),
                 .root = cmp_roots[op],
                 .first = crk_dtype_name(dtype)},
      .sources = {{"lhs_layout", "lhs", lhs_layout, lhs, bytes}, {"rhs_layout", "rhs", rhs_layout, rhs, bytes}},
      .source_count = 2,
      .dst = dst,
      .dst_bytes = 1,
  };
  return crk_priv_elementwise(self, &call);
}
