/* Launcher of batch norm (kernels/elementwise/batch_norm.h). */
#include "launch/batch_norm.h"

static const char where[] = "crk_batch_norm";

enum { ANY_ROWS, EVEN_ROWS, ROW_FORMS };
_Static_assert((int)ROW_FORMS *(int)CRK_DTYPE_COUNT == CRK_SLOTS_OF(BATCH_NORM), "as the list of slots counts");

/* The fewest threads per row of whole packs where a thread has several packs: with fewer, a wave would read its packs
 * from many rows. */
enum { LEAST_LANES = 32 };

/* The threads for even rows, of `packs` packs each. A thread has one pack, or several if the device is full all the
 * same. */
static void share_even_rows(crk_device_t self, crk_batch_norm_t *call, uint64_t rows, uint64_t packs) {
  uint64_t lanes = crk_priv_ceil_div(packs, CRK_BATCH_NORM_DEPTH);
  if (lanes < LEAST_LANES || rows * lanes < crk_priv_held_threads(self)) {
    lanes = packs;
  }
  crk_priv_divisor_init(&call->lanes, lanes, call->wide != 0);
  call->steps = rows * lanes;
}

uint64_t crk_priv_batch_norm_walk(crk_device_t self, crk_batch_norm_t *walk, size_t numel, size_t rows, size_t channels,
                                  uint32_t bytes, const void *x, const void *dst, bool *is_even) {
  const uint32_t vector = 16 / bytes;
  const size_t inner = numel / rows;
  *is_even = inner % vector == 0 && ((uintptr_t)x | (uintptr_t)dst) % 16 == 0;
  *walk = (crk_batch_norm_t){.numel = numel, .wide = numel > INT32_MAX};
  crk_priv_divisor_init(&walk->inner, inner, walk->wide != 0);
  crk_priv_divisor_init(&walk->channels, channels, walk->wide != 0);
  if (!*is_even) {
    return inner < vector ? numel : numel / vector + 1;
  }
  share_even_rows(self, walk, rows, inner / vector);
  /* The CPU driver derives the number of cores from the number of threads, and its kernel counts elements. */
  return self->driver->backend == CRK_BACKEND_CPU ? numel / vector + 1 : walk->steps;
}

crk_status_t crk_batch_norm(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_const_view_t x,
                            crk_const_view_t mean, crk_const_view_t var, crk_const_view_t weight, crk_const_view_t bias,
                            crk_view_t dst, double eps) {
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(crk_priv_check_wide_float(where, dtype));
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  const crk_tensor_t source = {"layout", "x", layout, x, bytes};
  size_t numel;
  const void *first;
  CRK_TRY(crk_priv_tensor_check(where, &source, &numel, &first));
  CRK_REFUSE_IF(layout->rank < 2, "%s: layout.rank is %u; it must be at least 2", where, (unsigned)layout->rank);
  if (numel == 0) {
    return CRK_OK;
  }
  const size_t size = numel * bytes, channels = layout->dims[1], rows = layout->dims[0] * channels;
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), numel, bytes));
  if (first != dst.ptr) {
    CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, size, "x", first, size));
  }
  CRK_TRY(crk_priv_check_read(where, "mean", mean, channels, bytes, dst.ptr, size));
  CRK_TRY(crk_priv_check_read(where, "var", var, channels, bytes, dst.ptr, size));
  CRK_TRY(crk_priv_check_optional(where, "weight", weight, channels, bytes, dst.ptr, size));
  CRK_TRY(crk_priv_check_optional(where, "bias", bias, channels, bytes, dst.ptr, size));

  crk_batch_norm_t call;
  bool is_even;
  const uint64_t threads =
      crk_priv_batch_norm_walk(self, &call, numel, rows, channels, bytes, first, dst.ptr, &is_even);
  crk_function_t function;
  const uint32_t form = is_even ? EVEN_ROWS : ANY_ROWS;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_BATCH_NORM + form * CRK_DTYPE_COUNT + (uint32_t)dtype, CRK_MODULE_NORM,
                         &function, "batchnorm_%s_%s", crk_dtype_name(dtype), is_even ? "even" : "any"));
  const float eps_f32 = (float)eps;
  const void *args[9] = {&call,    &first,      &dst.ptr,  &mean.ptr,
                         &var.ptr, &weight.ptr, &bias.ptr, dtype == CRK_DTYPE_F64 ? (const void *)&eps : &eps_f32};
  return crk_priv_launch_threads(self, function, threads, args, 8);
}
