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

/* Starts a checked norm in one launch. */
static crk_status_t start_norm(crk_comm_t self, const crk_comm_norm_t *norm,
                               crk_status_t (*start)(crk_comm_t, crk_device_t, const crk_comm_norm_t *)) {
  const crk_comm_call_t call = {.comm = self,
                                .kind = CRK_COMM_ALL_REDUCE,
                                .dtype = norm->dtype,
                                .op = CRK_COMM_OP_SUM,
                                .src = norm->x.ptr,
                                .dst = norm->x.ptr,
                                .count = norm->rows * norm->cols,
                                .device = crk_priv_comm_device(self)};
  crk_comm_set_t set;
  CRK_TRY(crk_priv_comms_enter(&call, 1, &set));
  CRK_TRY(crk_priv_comms_leave(&set, start(self, call.device, norm)));
  return crk_priv_comm_count(&call, 1);
}

crk_status_t crk_comm_add_rms_norm(crk_comm_t self, crk_dtype_t dtype, size_t rows, size_t cols, crk_view_t x,
                                   crk_const_view_t residual, crk_const_view_t alpha, crk_view_t sum, crk_view_t dst,
                                   float eps) {
  static const char where[] = "crk_comm_add_rms_norm";
  CRK_CHECK_HANDLE(self, COMM, where);
  uint32_t type;
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  CRK_TRY(crk_priv_comm_no_group(where));
  const crk_comm_norm_t norm = {dtype, rows, cols, x, residual, alpha, sum, dst, eps};
  size_t numel;
  CRK_TRY(crk_priv_checked_product(where, "elements", rows, cols, &numel));
  CRK_TRY(check_norm(where, &norm, numel));
  if (numel == 0) {
    return CRK_OK;
  }
  if (crk_priv_one_shot_norm_takes(self, &norm)) {
    return start_norm(self, &norm, crk_priv_one_shot_norm_start);
  }
  if (crk_priv_marked_norm_takes(self, &norm)) {
    return start_norm(self, &norm, crk_priv_marked_norm_start);
  }
  CRK_TRY(crk_comm_all_reduce(self, dtype, CRK_COMM_OP_SUM, crk_const(x), x, numel));
  return crk_add_rms_norm(crk_priv_comm_device(self), dtype, rows, cols, crk_const(x), residual, alpha, sum, dst,
                          (crk_view_t){NULL, 0}, eps);
}
