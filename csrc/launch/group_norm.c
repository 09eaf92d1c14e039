/* Launcher of group norm: statistics of the groups, in parts where groups are long (kernels/reduce/group_norm.h), then
 * the norm of their elements (kernels/elementwise/batch_norm.h). */
#include "call/group_norm_call.h"
#include "launch/batch_norm.h"

static const char where[] = "crk_group_norm";

enum { FORMS = 4 }; /* any rows and even rows, without silu and with it */
_Static_assert((int)FORMS *(int)CRK_DTYPE_COUNT == CRK_SLOTS_OF(GROUP_NORM), "as the list of slots counts");

/* The fewest packs of 16 bytes of a part, and the most parts of all rows together. */
enum { PART_PACKS = 2 * CRK_GROUP_NORM_THREADS, MOST_PARTS = 4096 };

/* The parts of a row: as many as fill the device. */
static uint64_t choose_parts(crk_device_t self, uint64_t rows, uint64_t packs) {
  const uint64_t blocks = crk_priv_least(crk_priv_held_threads(self) / CRK_GROUP_NORM_THREADS, MOST_PARTS);
  const uint64_t parts = crk_priv_least(blocks / rows, packs / PART_PACKS);
  return crk_priv_greatest(parts, 1);
}

/* The statistics of the parts of rows, or the join of a row's parts. */
static crk_status_t launch_stats(crk_device_t self, crk_dtype_t dtype, bool join, crk_group_norm_t *call,
                                 uint64_t blocks) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_GROUP_STATS + join * CRK_DTYPE_COUNT + (uint32_t)dtype, CRK_MODULE_NORM,
                         &function, "groupstats_%s%s", crk_dtype_name(dtype), join ? "_join" : ""));
  const void *args[] = {call};
  return crk_priv_launch_all_blocks(self, function, blocks, CRK_GROUP_NORM_THREADS, 0, &call->first_block, args);
}

static crk_status_t launch_norm(crk_device_t self, crk_dtype_t dtype, crk_batch_norm_t *rows, bool is_even, bool silu,
                                uint64_t threads, const void *x, void *dst, const void *norms) {
  crk_function_t function;
  const uint32_t form = 2 * silu + is_even;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_GROUP_NORM + form * CRK_DTYPE_COUNT + (uint32_t)dtype, CRK_MODULE_NORM,
                         &function, "groupnorm_%s_%s%s", crk_dtype_name(dtype), is_even ? "even" : "any",
                         silu ? "_silu" : ""));
  const void *args[5] = {rows, &x, &dst, &norms};
  return crk_priv_launch_threads(self, function, threads, args, 4);
}

crk_status_t crk_group_norm(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, size_t groups, bool silu,
                            crk_const_view_t x, crk_const_view_t weight, crk_const_view_t bias, crk_view_t dst,
                            double eps) {
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(crk_priv_check_wide_float(where, dtype));
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  const crk_tensor_t source = {"layout", "x", layout, x, bytes};
  size_t numel;
  const void *first;
  CRK_TRY(crk_priv_tensor_check(where, &source, &numel, &first));
  CRK_REFUSE_IF(layout->rank < 2, "%s: layout.rank is %u; it must be at least 2", where, (unsigned)layout->rank);
  const size_t channels = layout->dims[1];
  CRK_REFUSE_IF(groups == 0 || channels % groups != 0, "%s: groups is %zu; it must divide layout.dims[1], %zu channels",
                where, groups, channels);
  if (numel == 0) {
    return CRK_OK;
  }
  CRK_REFUSE_IF(channels > INT32_MAX, "%s: layout.dims[1] is %zu; at most %d is allowed", where, channels, INT32_MAX);
  const size_t size = numel * bytes;
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), numel, bytes));
  if (first != dst.ptr) {
    CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, size, "x", first, size));
  }
  CRK_TRY(crk_priv_check_optional(where, "weight", weight, channels, bytes, dst.ptr, size));
  CRK_TRY(crk_priv_check_optional(where, "bias", bias, channels, bytes, dst.ptr, size));

  const uint64_t rows = layout->dims[0] * groups;
  crk_group_norm_t call = {.x = first,
                           .weight = weight.ptr,
                           .bias = bias.ptr,
                           .size = numel / rows,
                           .channels = (uint32_t)(channels / groups),
                           .eps = eps};
  const uint64_t packs = call.size / (16 / bytes), parts = choose_parts(self, rows, packs);
  call.part_packs = crk_priv_ceil_div(packs, parts);
  crk_priv_divisor_init(&call.parts, parts, true);
  crk_priv_divisor_init(&call.groups, groups, true);
  const size_t state = 4 * (dtype == CRK_DTYPE_F64 ? sizeof(double) : sizeof(float));
  const size_t norms = layout->dims[0] * channels * state, states = parts > 1 ? rows * parts * state : 0;
  void *scratch;
  CRK_TRY(crk_alloc(self, norms + states, &scratch));
  call.norms = scratch;
  call.states = parts > 1 ? (char *)scratch + norms : NULL;

  crk_batch_norm_t walk;
  bool is_even;
  const uint64_t threads = crk_priv_batch_norm_walk(self, &walk, numel, layout->dims[0] * channels, channels, bytes,
                                                    first, dst.ptr, &is_even);
  crk_status_t status = launch_stats(self, dtype, false, &call, rows * parts);
  if (status == CRK_OK && parts > 1) {
    status = launch_stats(self, dtype, true, &call, rows);
  }
  if (status == CRK_OK) {
    status = launch_norm(self, dtype, &walk, is_even, silu, threads, first, dst.ptr, call.norms);
  }
  return crk_priv_free_after(self, status, scratch);
}
