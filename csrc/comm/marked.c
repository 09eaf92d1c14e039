/* Sums of many elements between two GPUs of one host, by kernels of our own (kernels/comm/marked.h). Each rank sends
 * its elements to the other one in a single step, and a norm follows in the same launch. */
#include "comm/transport.h"
#include "launch/launcher.h"

/* A sum of more bytes is the library's. On two H200s each 16 MiB of a large sum take 58 us here and 52 us by NCCL,
 * which takes 15 us more to begin. A norm has no such limit: after the library's sum it is one more launch, of 16 us
 * per 16 MiB. Rows of fewer than LEAST_ROW_BYTES would leave most of their parts empty. */
enum { MOST_SUM_BYTES = 32 << 20, LEAST_ROW_BYTES = CRK_PART_BYTES / 4 };

static crk_status_t sum_kernel(crk_device_t device, uint32_t type, crk_function_t *function) {
  return crk_priv_peers_kernel(device, CRK_SLOT_MARKED, "marked_sum", type, function);
}

static crk_status_t norm_kernel(crk_device_t device, uint32_t type, crk_function_t *function) {
  return crk_priv_peers_kernel(device, CRK_SLOT_MARKED_NORM, "marked_norm", type, function);
}

crk_status_t crk_priv_marked_load(crk_device_t device) {
  crk_function_t function;
  for (uint32_t type = 0; type < CRK_ACTIVATIONS; type++) {
    CRK_TRY(sum_kernel(device, type, &function));
    CRK_TRY(norm_kernel(device, type, &function));
  }
  return CRK_OK;
}

/* Whether two ranks may use parts in the stream of `device`. Not beside other work: its blocks would wait for these. */
static bool are_two(crk_comm_t self, crk_device_t device) {
  return self->size == 2 && self->peers.is_ready && self->peers.keeps_order && device == self->device;
}

bool crk_priv_marked_takes(const crk_comm_call_t *call) {
  return crk_priv_peers_add(call) && are_two(call->comm, call->device) &&
         call->count * crk_dtype_size(call->dtype) <= MOST_SUM_BYTES;
}

static crk_status_t start_sum(const crk_comm_call_t *call, crk_function_t function, size_t first, size_t count) {
  const size_t element = crk_dtype_size(call->dtype);
  const crk_peer_sum_call_t argument = {.ranks = crk_priv_peers_exchange(call->comm),
                                        .src = (const char *)call->src + first * element,
                                        .dst = (char *)call->dst + first * element,
                                        .count = count};
  const crk_dim3_t grid = {(uint32_t)crk_priv_ceil_div(count * element, CRK_PART_BYTES), 1, 1};
  const crk_dim3_t block = {CRK_PART_THREADS, 1, 1};
  const void *args[] = {&argument};
  return crk_priv_launch(call->device, function, grid, block, 0, args);
}

crk_status_t crk_priv_marked_start(const crk_comm_call_t *call) {
  uint32_t type = 0;
  (void)crk_priv_peers_type(call->dtype, &type);
  crk_function_t function;
  CRK_TRY(sum_kernel(call->device, type, &function));
  const size_t most = (size_t)CRK_PARTS * CRK_PART_BYTES / crk_dtype_size(call->dtype);
  for (size_t first = 0; first < call->count; first += most) {
    CRK_TRY(start_sum(call, function, first, crk_priv_least(call->count - first, most)));
  }
  return CRK_OK;
}

static size_t parts_of_row(const crk_comm_norm_t *norm) {
  return crk_priv_ceil_div(norm->cols * crk_dtype_size(norm->dtype), CRK_PART_BYTES);
}

bool crk_priv_marked_norm_takes(crk_comm_t self, const crk_comm_norm_t *norm) {
  uint32_t type;
  if (!are_two(self, crk_priv_comm_device(self)) || !crk_priv_peers_type(norm->dtype, &type) ||
      norm->cols > CRK_PARTS * CRK_PART_BYTES) {
    return false;
  }
  const size_t row_bytes = norm->cols * crk_dtype_size(norm->dtype);
  return row_bytes % CRK_PACK_BYTES == 0 && row_bytes >= LEAST_ROW_BYTES &&
         parts_of_row(norm) * CRK_PART_THREADS <= CRK_MOST_NORM_THREADS;
}

static crk_status_t start_norm(crk_comm_t self, crk_device_t device, crk_function_t function,
                               const crk_comm_norm_t *norm, size_t first, size_t rows) {
  const uint32_t threads = (uint32_t)parts_of_row(norm) * CRK_PART_THREADS;
  const crk_peer_norm_call_t argument = crk_priv_peers_norm(self, norm, first, threads);
  const crk_dim3_t grid = {(uint32_t)rows, 1, 1}, block = {threads, 1, 1};
  const void *args[] = {&argument};
  return crk_priv_launch(device, function, grid, block, 0, args);
}

crk_status_t crk_priv_marked_norm_start(crk_comm_t self, crk_device_t device, const crk_comm_norm_t *norm) {
  uint32_t type = 0;
  (void)crk_priv_peers_type(norm->dtype, &type);
  crk_function_t function;
  CRK_TRY(norm_kernel(device, type, &function));
  const size_t most = CRK_PARTS / parts_of_row(norm);
  for (size_t first = 0; first < norm->rows; first += most) {
    CRK_TRY(start_norm(self, device, function, norm, first, crk_priv_least(norm->rows - first, most)));
  }
  return CRK_OK;
}
