/* Sums of few elements among the GPUs of one host, by a kernel of our own (kernels/comm/one_shot.h). RCCL and NCCL need
 * longer for them, and a model on many GPUs waits for two such sums in each layer. */
#include <string.h>

#include "comm/transport.h"
#include "launch/launcher.h"

static const crk_dtype_t types[CRK_ACTIVATIONS] = {CRK_DTYPE_F32, CRK_DTYPE_F16, CRK_DTYPE_BF16};

static crk_status_t kernel_of(crk_device_t device, uint32_t type, crk_function_t *function) {
  return CRK_KERNEL_GET(device, CRK_SLOT_ONE_SHOT + type, CRK_MODULE_COMM, function, "one_shot_sum_%s",
                        crk_dtype_name(types[type]));
}

crk_status_t crk_priv_one_shot_load(crk_device_t device) {
  for (uint32_t type = 0; type < CRK_ACTIVATIONS; type++) {
    crk_function_t function;
    CRK_TRY(kernel_of(device, type, &function));
  }
  return CRK_OK;
}

static bool type_of(crk_dtype_t dtype, uint32_t *type) {
  for (*type = 0; *type < CRK_ACTIVATIONS; (*type)++) {
    if (types[*type] == dtype) {
      return true;
    }
  }
  return false;
}

bool crk_priv_one_shot_takes(const crk_comm_call_t *call) {
  uint32_t type;
  return call->comm->peers.is_ready && call->kind == CRK_COMM_ALL_REDUCE && call->op == CRK_COMM_OP_SUM &&
         type_of(call->dtype, &type) && call->count <= CRK_CHUNKS * CRK_CHUNK_BYTES / crk_dtype_size(call->dtype);
}

crk_status_t crk_priv_one_shot_start(const crk_comm_call_t *call) {
  crk_comm_t self = call->comm;
  crk_device_t device = self->beside;
  uint32_t type = 0;
  (void)type_of(call->dtype, &type);
  crk_function_t function;
  CRK_TRY(kernel_of(device, type, &function));
  crk_one_shot_call_t argument = {.src = call->src,
                                  .dst = call->dst,
                                  .count = call->count,
                                  .rank = self->rank,
                                  .size = self->size,
                                  .stop = self->peers.host};
  memcpy(argument.areas, self->peers.areas, sizeof argument.areas);
  const uint64_t bytes = call->count * crk_dtype_size(call->dtype);
  const crk_dim3_t grid = {(uint32_t)crk_priv_ceil_div(bytes, CRK_CHUNK_BYTES), 1, 1}, block = {CRK_CHUNK_LINES, 1, 1};
  const void *args[] = {&argument};
  return device->driver->launch(device->driver_device, device->stream, function->driver_function, grid, block, 0, args);
}
