/* What follows a layer that is split among ranks: the sum over all ranks, the residual and the RMS norm. */
#include "comm/transport.h"
#include "launch/launcher.h"
#include "launch/quantized.h"

static crk_status_t check_norm(const char *where, const crk_comm_norm_t *norm, size_t numel) {
  const uint32_t element = (uint32_t)crk_dtype_size(norm->dtype);
  const struct {
    const char *name;
    crk_const_view_t view;
    size_t count;
  } views[] = {{"x", crk_const(norm->x), numel},
               {"residual", norm->residual, numel},
               {"alpha", norm->alpha, norm->cols},
               {"sum", crk_const(norm->sum), numel},
               {"dst", crk_const(norm->dst), numel}};
  enum { SOURCES = 3, VIEWS = sizeof views / sizeof *views };
  for (int i = 0; i < VIEWS; i++) {
    CRK_TRY(crk_priv_check_elements(where, views[i].name, views[i].view, views[i].count, element));
    for (int before = 0; before < i && (i >= SOURCES || before == 0); before++) { /* x is written too */
      CRK_TRY(crk_priv_check_apart(where, views[i].name, views[i].view.ptr, views[i].count * element,
                                   views[before].name, views[before].view.ptr, views[before].count * element));
    }
  }
  return CRK_OK;
}

/* The sum of a norm, in place. */
static crk_comm_call_t sum_of(crk_comm_t self, crk_dtype_t dtype, void *x, size_t count) {
  return (crk_comm_call_t){.comm = self,
                           .kind = CRK_COMM_ALL_REDUCE,
                           .dtype = dtype,
                           .op = CRK_COMM_OP_SUM,
                           .src = x,
                           .dst = x,
                           .count = count,
                           .device = crk_priv_comm_device(self)};
}

/* Starts a checked norm in one launch. */
static crk_status_t start_one_shot(crk_comm_t self, const crk_comm_norm_t *norm) {
  const crk_comm_call_t call = sum_of(self, norm->dtype, norm->x.ptr, norm->rows * norm->cols);
  crk_comm_set_t set;
  CRK_TRY(crk_priv_comms_enter(&call, 1, &set));
  CRK_TRY(crk_priv_comms_leave(&set, crk_priv_one_shot_norm_start(self, call.device, norm)));
  return crk_priv_comm_count(&call, 1);
}

/* Begins a checked sum. Writes 0 to `begun` where x gets the sum itself. */
static crk_status_t begin(crk_comm_t self, crk_dtype_t dtype, crk_view_t x, size_t count, uint64_t *begun) {
  *begun = 0;
  if (self->peers.is_ready) {
    const crk_comm_call_t call = sum_of(self, dtype, x.ptr, count);
    crk_comm_set_t set;
    CRK_TRY(crk_priv_comms_enter(&call, 1, &set));
    const bool takes = crk_priv_copied_norm_takes(&call);
    CRK_TRY(crk_priv_comms_leave(&set, takes ? crk_priv_copied_norm_begin(&call, begun) : CRK_OK));
    if (takes) {
      return crk_priv_comm_count(&call, 1);
    }
  }
  return crk_comm_all_reduce(self, dtype, CRK_COMM_OP_SUM, crk_const(x), x, count);
}

/* Ends a sum that `begin` has begun. The arguments are checked, but for `begun`. */
static crk_status_t end(crk_comm_t self, const char *where, uint64_t begun, const crk_comm_norm_t *norm) {
  crk_device_t device = crk_priv_comm_device(self);
  if (begun == 0) {
    return crk_add_rms_norm(device, norm->dtype, norm->rows, norm->cols, crk_const(norm->x), norm->residual,
                            norm->alpha, norm->sum, norm->dst, (crk_view_t){NULL, 0}, norm->eps);
  }
  CRK_TRY(crk_priv_refuse_capture(device, where));
  crk_comm_set_t set;
  CRK_TRY(crk_priv_comm_enter(self, where, &set));
  const crk_status_t refused = crk_priv_copied_norm_check(self, where, begun, norm);
  const crk_status_t ended = crk_priv_comms_leave(
      &set, refused != CRK_OK ? CRK_OK : crk_priv_copied_norm_end(self, device, where, begun, norm));
  return refused != CRK_OK ? refused : ended;
}

/* Checks a norm. Writes the number of its elements. */
static crk_status_t check(crk_comm_t self, const char *where, const crk_comm_norm_t *norm, size_t *numel) {
  CRK_CHECK_HANDLE(self, COMM, where);
  uint32_t type;
  CRK_TRY(crk_priv_activation_index(where, norm->dtype, &type));
  CRK_TRY(crk_priv_comm_no_group(where));
  CRK_TRY(crk_priv_checked_product(where, "elements", norm->rows, norm->cols, numel));
  return *numel == 0 ? CRK_OK : check_norm(where, norm, *numel);
}

crk_status_t crk_comm_add_rms_norm(crk_comm_t self, crk_dtype_t dtype, size_t rows, size_t cols, crk_view_t x,
                                   crk_const_view_t residual, crk_const_view_t alpha, crk_view_t sum, crk_view_t dst,
                                   float eps) {
  static const char where[] = "crk_comm_add_rms_norm";
  const crk_comm_norm_t norm = {dtype, rows, cols, x, residual, alpha, sum, dst, eps};
  size_t numel;
  CRK_TRY(check(self, where, &norm, &numel));
  if (numel == 0) {
    return CRK_OK;
  }
  if (crk_priv_one_shot_norm_takes(self, &norm)) {
    return start_one_shot(self, &norm);
  }
  uint64_t begun;
  CRK_TRY(begin(self, dtype, x, numel, &begun));
  return end(self, where, begun, &norm);
}

crk_status_t crk_comm_begin_add_rms_norm(crk_comm_t self, crk_dtype_t dtype, crk_view_t x, size_t count,
                                         uint64_t *begun) {
  static const char where[] = "crk_comm_begin_add_rms_norm";
  CRK_CHECK_HANDLE(self, COMM, where);
  uint32_t type;
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  CRK_TRY(crk_priv_comm_no_group(where));
  CRK_REFUSE_IF(begun == NULL, "%s: begun is NULL", where);
  CRK_TRY(crk_priv_check_elements(where, "x", crk_const(x), count, (uint32_t)crk_dtype_size(dtype)));
  *begun = 0;
  return count == 0 ? CRK_OK : begin(self, dtype, x, count, begun);
}

crk_status_t crk_comm_end_add_rms_norm(crk_comm_t self, uint64_t begun, crk_dtype_t dtype, size_t rows, size_t cols,
                                       crk_view_t x, crk_const_view_t residual, crk_const_view_t alpha, crk_view_t sum,
                                       crk_view_t dst, float eps) {
  static const char where[] = "crk_comm_end_add_rms_norm";
  const crk_comm_norm_t norm = {dtype, rows, cols, x, residual, alpha, sum, dst, eps};
  size_t numel;
  CRK_TRY(check(self, where, &norm, &numel));
  return numel == 0 && begun == 0 ? CRK_OK : end(self, where, begun, &norm);
}
