/* Launcher of kernels/ternary.hip: a choice between two operands by a third. */
#include "launch/elementwise.h"

crk_status_t crk_where(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype, const crk_layout_t *ids_layout,
                       crk_const_view_t ids, const crk_layout_t *true_layout, crk_const_view_t on_true,
                       const crk_layout_t *false_layout, crk_const_view_t on_false, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_where");
  CRK_TRY(crk_priv_check_dtype("crk_where", "ids_dtype", ids_dtype));
  CRK_TRY(crk_priv_check_dtype("crk_where", "dtype", dtype));
  if (crk_priv_dtype_is_float(ids_dtype)) {
    return crk_priv_error(CRK_UNSUPPORTED, "crk_where: ids_dtype is %s; it must be an integer dtype",
                          crk_dtype_name(ids_dtype));
  }
  const uint32_t ids_bytes = (uint32_t)crk_dtype_size(ids_dtype), bytes = (uint32_t)crk_dtype_size(dtype);
  const crk_elementwise_t call = {
      .where = "crk_where",
      .kernel = {.module = CRK_MODULE_TERNARY,
                 .slot = CRK_SLOT_WHERE +
                         CRK_WALKS * (crk_priv_width_index(ids_bytes) * CRK_WIDTHS + crk_priv_width_index(bytes)),
                 .root = "where",
                 .first = crk_priv_width_name(ids_bytes),
                 .second = crk_priv_width_name(bytes)},
      .sources = {{"ids_layout", "ids", ids_layout, ids, ids_bytes},
                  {"true_layout", "on_true", true_layout, on_true, bytes},
                  {"false_layout", "on_false", false_layout, on_false, bytes}},
      .source_count = 3,
      .dst = dst,
      .dst_bytes = bytes,
      .shares_rows = ids_bytes == 1, /* the masks that comparisons make */
  };
  return crk_priv_elementwise(self, &call);
}
