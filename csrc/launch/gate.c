/* Launchers of kernels/gate.hip: an activation times another operand. */
#include "launch/elementwise.h"
#include "launch/quantized.h"

crk_status_t crk_priv_gate_check(const char *where, crk_gate_op_t op) {
  CRK_REFUSE_IF((unsigned)op >= CRK_GATE_COUNT, "%s: op %d is not a value of crk_gate_op_t", where, (int)op);
  return CRK_OK;
}

crk_status_t crk_priv_gate_root(const char *where, crk_gate_op_t op, const char **root) {
  static const char *const roots[CRK_GATE_COUNT] = {
#define XX(name, value, text) [CRK_GATE_##name] = "gate_" text,
      CRK_GATE_MAP(XX)
#undef XX
  };
  CRK_TRY(crk_priv_gate_check(where, op));
  *root = roots[op];
  return CRK_OK;
}

crk_status_t crk_gate(crk_device_t self, crk_gate_op_t op, crk_dtype_t dtype, const crk_layout_t *gate_layout,
                      crk_const_view_t gate, const crk_layout_t *up_layout, crk_const_view_t up, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_gate");
  const char *root;
  CRK_TRY(crk_priv_gate_root("crk_gate", op, &root));
  CRK_TRY(crk_priv_check_wide_float("crk_gate", dtype));
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  const crk_elementwise_t call = {
      .where = "crk_gate",
      .kernel = {.module = CRK_MODULE_GATE,
                 .slot = CRK_SLOT_GATE + 2 * ((uint32_t)op * CRK_DTYPE_COUNT + (uint32_t)dtype),
                 .root = root,
                 .first = crk_dtype_name(dtype)},
      .sources = {{"gate_layout", "gate", gate_layout, gate, bytes}, {"up_layout", "up", up_layout, up, bytes}},
      .source_count = 2,
      .dst = dst,
      .dst_bytes = bytes,
  };
  return crk_priv_elementwise(self, &call);
}

crk_status_t crk_gate_columns(crk_device_t self, crk_gate_op_t op, crk_dtype_t dtype, size_t columns, size_t k,
                              crk_const_view_t gate, crk_const_view_t up, crk_view_t dst, crk_view_t blocks) {
  static const char where[] = "crk_gate_columns";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  const char *root;
  CRK_TRY(crk_priv_gate_root(where, op, &root));
  uint32_t type;
  size_t numel, blocks_bytes;
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  CRK_TRY(crk_priv_checked_product(where, "elements", columns, k, &numel));
  if (numel == 0) {
    return CRK_OK;
  }
  const uint32_t element = (uint32_t)crk_dtype_size(dtype);
  CRK_TRY(crk_priv_check_elements(where, "gate", gate, numel, element));
  CRK_TRY(crk_priv_check_elements(where, "up", up, numel, element));
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), numel, element));
  CRK_TRY(crk_priv_check_columns(where, "blocks", columns, "k", k, blocks, &blocks_bytes));
  const size_t bytes = numel * element;
  const crk_region_t sources[] = {{"gate", gate.ptr, bytes}, {"up", up.ptr, bytes}},
                     results[] = {{"dst", dst.ptr, bytes}, {"blocks", blocks.ptr, blocks_bytes}};
  CRK_TRY(crk_priv_check_all_apart(where, results, 2, sources, 2));
  if (((uintptr_t)gate.ptr | (uintptr_t)up.ptr | (uintptr_t)dst.ptr) % 16 != 0) {
    crk_layout_t layout;
    CRK_TRY(crk_layout_contiguous(&numel, 1, &layout));
    CRK_TRY(crk_gate(self, op, dtype, &layout, gate, &layout, up, dst));
    return crk_priv_quantize_q8_1(self, dtype, columns, k, k, CRK_SUM_OF_CODES, dst.ptr, blocks.ptr);
  }
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_GATE_COLUMNS + (uint32_t)op * CRK_ACTIVATIONS + type, CRK_MODULE_GATE,
                         &function, "%s_%s_columns", root, crk_dtype_name(dtype)));
  const uint64_t packs = bytes / 16;
  const uint32_t grid =
      crk_priv_grid_blocks(self, crk_priv_ceil_div(packs, CRK_QUANTIZE_THREADS), CRK_QUANTIZE_THREADS);
  const void *args[] = {&gate.ptr, &up.ptr, &dst.ptr, &blocks.ptr, &packs, &grid};
  return crk_priv_launch_blocks(self, function, (crk_dim3_t){grid, 1, 1}, (crk_dim3_t){CRK_QUANTIZE_THREADS, 1, 1}, 0,
                                args);
}
