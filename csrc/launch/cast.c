/* Launcher of kernels/cast.hip. */
#include "launch/elementwise.h"

crk_status_t crk_cast(crk_device_t self, crk_dtype_t src_dtype, crk_dtype_t dst_dtype, const crk_layout_t *layout,
                      crk_const_view_t src, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_cast");
  CRK_TRY(crk_priv_check_dtype("crk_cast", "src_dtype", src_dtype));
  CRK_TRY(crk_priv_check_dtype("crk_cast", "dst_dtype", dst_dtype));
  const crk_tensor_t source = {"layout", "src", layout, src, (uint32_t)crk_dtype_size(src_dtype)};
  if (src_dtype == dst_dtype) {
    return crk_priv_copy_elements(self, "crk_cast", &source, dst);
  }
  const crk_elementwise_t call = {
      .where = "crk_cast",
      .kernel = {.module = CRK_MODULE_CAST,
                 .slot = CRK_SLOT_CAST + 2 * ((uint32_t)src_dtype * CRK_DTYPE_COUNT + (uint32_t)dst_dtype),
                 .root = "cast",
                 .first = crk_dtype_name(src_dtype),
                 .second = crk_dtype_name(dst_dtype)},
      .sources = {source},
      .source_count = 1,
      .dst = dst,
      .dst_bytes = (uint32_t)crk_dtype_size(dst_dtype),
  };
  return crk_priv_elementwise(self, &call);
}
