/* Launcher of kernels/affine.hip. */
#include "launch/elementwise.h"

crk_status_t crk_affine(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_const_view_t src,
                        crk_view_t dst, double mul, double add) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_affine");
  CRK_TRY(crk_priv_check_dtype("crk_affine", "dtype", dtype));
  uint64_t factor = 0, summand = 0;
  crk_priv_from_f64(dtype, mul, &factor);
  crk_priv_from_f64(dtype, add, &summand);
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  const crk_elementwise_t call = {
      .where = "crk_affine",
      .kernel = {.module = CRK_MODULE_AFFINE,
                 .slot = CRK_SLOT_AFFINE + 2 * (uint32_t)dtype,
                 .root = "affine",
                 .first = crk_dtype_name(dtype)},
      .sources = {{"layout", "src", layout, src, bytes}},
      .source_count = 1,
      .dst = dst,
      .dst_bytes = bytes,
      .scalars_after = {&factor, &summand},
      .scalars_after_count = 2,
  };
  return crk_priv_elementwise(self, &call);
}
