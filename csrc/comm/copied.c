/* Sums of many elements between two GPUs of one host, by the copy engines: each rank copies its elements to the other
 * one, and both add. Kernels, the library's and those of marked.c, would take units from whatever is computed beside
 * the sum. Without other work they are faster, because they send and add at the same time.
 *
 * The elements are cut into pieces. A rank copies a piece to one of two slots in the other rank's exchange area, the
 * kernel `meet` waits for the other's piece, and an element-wise kernel adds. All of it is in one stream. So a rank
 * that has sent piece n + 1 has added piece n, and its slot is free for piece n + 2.
 *
 * No kernel here releases or acquires memory of another GPU. On AMD GPUs an exchange area is fine-grained memory:
 * writes of other GPUs to it leave no stale lines in the caches of its own GPU. A GPU that sees copies out of order
 * takes no pieces (`peer_writes_in_order`). */
#include "comm/transport.h"
#include "launch/elementwise.h"

enum { LEAST_BYTES = 1 << 20 };

static crk_status_t meet_kernel(crk_device_t device, crk_function_t *function) {
  return CRK_KERNEL_GET(device, CRK_SLOT_MEET, CRK_MODULE_COMM, function, "meet");
}

/* Kernels are loaded before any rank waits: a load may wait for the device. */
crk_status_t crk_priv_copied_load(crk_device_t device) {
  crk_function_t function;
  for (uint32_t type = 0; type < CRK_ACTIVATIONS; type++) {
    const crk_dtype_t dtype = crk_priv_peers_types[type];
    const crk_kernel_family_t add = {
        .module = CRK_MODULE_BINARY,
        .slot = CRK_SLOT_BINARY + CRK_WALKS * (CRK_BINARY_ADD * CRK_DTYPE_COUNT + (uint32_t)dtype),
        .root = "badd",
        .first = crk_dtype_name(dtype)};
    CRK_TRY(crk_priv_kernel_get(device, &add, CRK_WALK_CONTIGUOUS, &function));
  }
  return meet_kernel(device, &function);
}

bool crk_priv_copied_takes(const crk_comm_call_t *call) {
  crk_comm_t self = call->comm;
  const size_t bytes = call->count * crk_dtype_size(call->dtype);
  return crk_priv_peers_add(call) && self->peers.keeps_order && self->size == 2 && bytes >= LEAST_BYTES &&
         call->device != self->device && !crk_priv_capturing(call->device);
}

static crk_status_t meet(crk_comm_t self, crk_device_t device) {
  crk_function_t function;
  CRK_TRY(meet_kernel(device, &function));
  const crk_meet_call_t argument = {.ranks = crk_priv_peers_exchange(self), .piece = self->peers.piece};
  const crk_dim3_t grid = {1, 1, 1}, block = {CRK_MEET_THREADS, 1, 1};
  const void *args[] = {&argument};
  return crk_priv_launch(device, function, grid, block, 0, args);
}

static crk_status_t add_piece(const crk_comm_call_t *call, const char *src, char *dst, size_t bytes) {
  crk_comm_t self = call->comm;
  crk_device_t device = call->device;
  self->peers.piece++;
  const uint64_t slot = CRK_AREA_PIECES(2) + (self->peers.piece & 1) * CRK_PIECE_BYTES;
  char *theirs = (char *)self->peers.areas[1 - self->rank] + slot;
  const char *ours = (const char *)self->peers.areas[self->rank] + slot;
  CRK_TRY(device->driver->copy(device->driver_device, crk_priv_stream(device), theirs, src, bytes, CRK_COPY_ON_DEVICE));
  CRK_TRY(meet(self, device));
  /* The elements of rank 0 are the first operand on both ranks, so that both get the same NaN. */
  const crk_const_view_t sent = {src, bytes}, got = {ours, bytes};
  const crk_view_t sum = {dst, bytes};
  const size_t count = bytes / crk_dtype_size(call->dtype);
  crk_layout_t layout;
  CRK_TRY(crk_layout_contiguous(&count, 1, &layout));
  return crk_binary(device, CRK_BINARY_ADD, call->dtype, &layout, self->rank == 0 ? sent : got, &layout,
                    self->rank == 0 ? got : sent, sum);
}

crk_status_t crk_priv_copied_start(const crk_comm_call_t *call) {
  const size_t bytes = call->count * crk_dtype_size(call->dtype);
  for (size_t done = 0; done < bytes; done += CRK_PIECE_BYTES) {
    const size_t piece = crk_priv_least(bytes - done, CRK_PIECE_BYTES);
    CRK_TRY(add_piece(call, (const char *)call->src + done, (char *)call->dst + done, piece));
  }
  return CRK_OK;
}
