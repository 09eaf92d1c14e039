/* Sums of few elements among the GPUs of one host, by kernels of our own (kernels/comm/one_shot.h). RCCL and NCCL need
 * longer for them, and a model on many GPUs waits for two such sums in each layer. */
#include "comm/transport.h"
#include "launch/launcher.h"

_Static_assert(sizeof crk_priv_peers_types / sizeof *crk_priv_peers_types == CRK_ACTIVATIONS, "a slot for each type");

static crk_status_t sum_kernel(crk_device_t device, uint32_t type, crk_function_t *function) {
  return crk_priv_peers_kernel(device, CRK_SLOT_ONE_SHOT, "one_shot_sum", type, function);
}

/* The kernel whose threads have `lines` lines each. */
static crk_status_t norm_kernel(crk_device_t device, uint32_t type, uint32_t lines, crk_function_t *function) {
  return CRK_KERNEL_GET(device, CRK_SLOT_ONE_SHOT_NORM + type * CRK_MOST_NORM_LINES + lines - 1, CRK_MODULE_COMM,
                        function, "one_shot_norm_%s_%u", crk_dtype_name(crk_priv_peers_types[type]), (unsigned)lines);
}

crk_status_t crk_priv_one_shot_load(crk_device_t device) {
  crk_function_t function;
  for (uint32_t type = 0; type < CRK_ACTIVATIONS; type++) {
    CRK_TRY(sum_kernel(device, type, &function));
    for (uint32_t lines = 1; lines <= CRK_MOST_NORM_LINES; lines++) {
      CRK_TRY(norm_kernel(device, type, lines, &function));
    }
  }
  return CRK_OK;
}

bool crk_priv_one_shot_takes(const crk_comm_call_t *call) {
  return crk_priv_peers_add(call) && call->count <= CRK_CHUNKS * CRK_CHUNK_BYTES / crk_dtype_size(call->dtype);
}

crk_status_t crk_priv_one_shot_start(const crk_comm_call_t *call) {
  crk_device_t device = call->device;
  uint32_t type = 0;
  (void)crk_priv_peers_type(call->dtype, &type);
  crk_function_t function;
  CRK_TRY(sum_kernel(device, type, &function));
  const crk_peer_sum_call_t argument = {
      .ranks = crk_priv_peers_exchange(call->comm), .src = call->src, .dst = call->dst, .count = call->count};
  const uint64_t bytes = call->count * crk_dtype_size(call->dtype);
  const crk_dim3_t grid = {(uint32_t)crk_priv_ceil_div(bytes, CRK_CHUNK_BYTES), 1, 1}, block = {CRK_CHUNK_LINES, 1, 1};
  const void *args[] = {&argument};
  return crk_priv_launch(device, function, grid, block, 0, args);
}

/* The chunks of a row. Writes how many lines each thread has. */
static size_t chunks_of_row(size_t bytes, uint32_t *lines) {
  const size_t most = CRK_MOST_NORM_THREADS * CRK_LINE_DATA;
  *lines = (uint32_t)crk_priv_ceil_div(bytes, most);
  return crk_priv_ceil_div(bytes, (size_t)CRK_CHUNK_BYTES * *lines) * *lines;
}

bool crk_priv_one_shot_norm_takes(crk_comm_t self, const crk_comm_norm_t *norm) {
  uint32_t type, lines;
  if (!self->peers.is_ready || !crk_priv_peers_type(norm->dtype, &type) || norm->rows > CRK_CHUNKS ||
      norm->cols > CRK_CHUNKS * CRK_CHUNK_BYTES) {
    return false;
  }
  const size_t bytes = norm->cols * crk_dtype_size(norm->dtype);
  return bytes % CRK_LINE_DATA == 0 && chunks_of_row(bytes, &lines) * norm->rows <= CRK_CHUNKS &&
         lines <= CRK_MOST_NORM_LINES;
}

crk_status_t crk_priv_one_shot_norm_start(crk_comm_t self, crk_device_t device, const crk_comm_norm_t *norm) {
  uint32_t type = 0, lines = 0;
  (void)crk_priv_peers_type(norm->dtype, &type);
  const size_t chunks = chunks_of_row(norm->cols * crk_dtype_size(norm->dtype), &lines);
  crk_function_t function;
  CRK_TRY(norm_kernel(device, type, lines, &function));
  const uint32_t threads = (uint32_t)chunks / lines * CRK_CHUNK_LINES;
  const crk_peer_norm_call_t argument = crk_priv_peers_norm(self, norm, 0, threads);
  const crk_dim3_t grid = {(uint32_t)norm->rows, 1, 1}, block = {threads, 1, 1};
  const void *args[] = {&argument};
  return crk_priv_launch(device, function, grid, block, 0, args);
}
