/* Sums of many elements between two GPUs of one host, by the copy engines: each rank copies its elements to the other
 * one, and both add. The library's kernels would take units from whatever is computed beside the sum. Without other
 * work the library is faster for more than 8 MiB, because it copies and adds at the same time.
 *
 * The elements are cut into pieces. A rank copies a piece to a slot in the other rank's exchange area, and the kernel
 * `meet` waits for the other's piece. Then a launch reads both and adds: an element-wise kernel in the same stream, or
 * later a norm in another one, which needs no free units beside the products of the rest of a model.
 *
 * The slots take turns, and nothing tells that a slot is free. Instead, a rank sends piece n only once it has read piece
 * n - 2, in the order of its streams. Before it sends piece n, it has met the other rank, which has sent piece n - 1,
 * and so has read piece n - 3. So three slots are enough. All ranks make the same calls in the same order, so they all
 * leave a sum to the library where this does not hold.
 *
 * No kernel here releases or acquires memory of another GPU. On AMD GPUs an exchange area is fine-grained memory:
 * writes of other GPUs to it leave no stale lines in the caches of its own GPU. A GPU that sees copies out of order
 * takes no pieces (`peer_copies_in_order`). */
#include "comm/transport.h"
#include "launch/elementwise.h"
#include "launch/norm.h"

enum { LEAST_BYTES = 1 << 20, MOST_BYTES_ALONE = 8 << 20 };
_Static_assert(CRK_PIECE_SLOTS == 3, "as the text above says");

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
    CRK_TRY(crk_priv_add_add_rms_norm_load(device, "crk_comm_create", dtype));
  }
  return meet_kernel(device, &function);
}

static size_t bytes_of(const crk_comm_call_t *call) { return call->count * crk_dtype_size(call->dtype); }

/* Whether this rank may send as many pieces as a sum has: it will have read each piece but the last and the one before,
 * and its stream can wait for whoever reads. */
static bool has_slots(const crk_comm_call_t *call) {
  const crk_comm_peers_t *peers = &call->comm->peers;
  const uint64_t last = peers->piece + crk_priv_ceil_div(bytes_of(call), CRK_PIECE_BYTES);
  for (int i = 0; i < 2; i++) {
    if (peers->unread[i].number != 0 && peers->unread[i].number + 1 < last) {
      return false;
    }
  }
  return peers->reader == NULL || !crk_priv_capturing(peers->reader);
}

bool crk_priv_copied_takes(const crk_comm_call_t *call) {
  crk_comm_t self = call->comm;
  const size_t bytes = bytes_of(call);
  return crk_priv_peers_add(call) && self->peers.takes_copies && self->size == 2 && bytes >= LEAST_BYTES &&
         (bytes <= MOST_BYTES_ALONE || call->device != self->device) && !crk_priv_capturing(call->device) &&
         has_slots(call);
}

bool crk_priv_copied_norm_takes(const crk_comm_call_t *call) {
  return bytes_of(call) <= CRK_PIECE_BYTES && crk_priv_copied_takes(call);
}

static crk_status_t meet(crk_comm_t self, crk_device_t device) {
  crk_function_t function;
  CRK_TRY(meet_kernel(device, &function));
  const crk_meet_call_t argument = {.ranks = crk_priv_peers_exchange(self), .piece = self->peers.piece};
  const crk_dim3_t grid = {1, 1, 1}, block = {CRK_MEET_THREADS, 1, 1};
  const void *args[] = {&argument};
  return crk_priv_launch(device, function, grid, block, 0, args);
}

static uint64_t slot_of(uint64_t number) {
  return CRK_AREA_PIECES(2) + number % CRK_PIECE_SLOTS * (uint64_t)CRK_PIECE_BYTES;
}

/* Sends the next piece to the other rank, and waits for the other's. */
static crk_status_t exchange(const crk_comm_call_t *call, const char *src, size_t bytes) {
  crk_comm_t self = call->comm;
  crk_device_t device = call->device;
  if (self->peers.reader != NULL && self->peers.reader != device) {
    CRK_TRY(crk_priv_follow(device, self->peers.reader));
  }
  self->peers.reader = NULL;
  self->peers.piece++;
  char *theirs = (char *)self->peers.areas[1 - self->rank] + slot_of(self->peers.piece);
  CRK_TRY(device->driver->copy(device->driver_device, crk_priv_stream(device), theirs, src, bytes, CRK_COPY_ON_DEVICE));
  return meet(self, device);
}

/* The operands of the sum of a piece. The elements of rank 0 are the first one on both ranks, so that both get the same
 * NaN. */
static void operands_of(crk_comm_t self, uint64_t number, const void *src, size_t bytes, crk_const_view_t operands[2]) {
  operands[self->rank] = (crk_const_view_t){src, bytes};
  operands[1 - self->rank] = (crk_const_view_t){(const char *)self->peers.areas[self->rank] + slot_of(number), bytes};
}

static crk_status_t add_piece(const crk_comm_call_t *call, const char *src, char *dst, size_t bytes) {
  crk_comm_t self = call->comm;
  CRK_TRY(exchange(call, src, bytes));
  crk_const_view_t operands[2];
  operands_of(self, self->peers.piece, src, bytes, operands);
  const crk_view_t sum = {dst, bytes};
  const size_t count = bytes / crk_dtype_size(call->dtype);
  crk_layout_t layout;
  CRK_TRY(crk_layout_contiguous(&count, 1, &layout));
  return crk_binary(call->device, CRK_BINARY_ADD, call->dtype, &layout, operands[0], &layout, operands[1], sum);
}

crk_status_t crk_priv_copied_start(const crk_comm_call_t *call) {
  const size_t bytes = bytes_of(call);
  for (size_t done = 0; done < bytes; done += CRK_PIECE_BYTES) {
    const size_t piece = crk_priv_least(bytes - done, CRK_PIECE_BYTES);
    CRK_TRY(add_piece(call, (const char *)call->src + done, (char *)call->dst + done, piece));
  }
  return CRK_OK;
}

/* ---- the sum, the residual and the norm */

crk_status_t crk_priv_copied_norm_begin(const crk_comm_call_t *call, uint64_t *number) {
  crk_comm_peers_t *peers = &call->comm->peers;
  CRK_TRY(exchange(call, call->src, bytes_of(call)));
  peers->unread[peers->piece & 1] = (crk_comm_piece_t){peers->piece, call->src, bytes_of(call)};
  *number = peers->piece;
  return CRK_OK;
}

crk_status_t crk_priv_copied_norm_check(crk_comm_t self, const char *where, uint64_t number,
                                        const crk_comm_norm_t *norm) {
  const crk_comm_piece_t *piece = &self->peers.unread[number & 1];
  CRK_REFUSE_IF(piece->number != number, "%s: begun is %llu, and no such sum is under way; each sum ends once", where,
                (unsigned long long)number);
  if (self->peers.reader != NULL) {
    CRK_TRY(crk_priv_refuse_capture(self->peers.reader, where));
  }
  const size_t bytes = norm->rows * norm->cols * crk_dtype_size(norm->dtype);
  CRK_REFUSE_IF(bytes > 0 && (piece->src != norm->x.ptr || piece->bytes != bytes),
                "%s: x is %p (%zu bytes), and the sum has begun with %p (%zu bytes)", where, norm->x.ptr, bytes,
                piece->src, piece->bytes);
  return CRK_OK;
}

crk_status_t crk_priv_copied_norm_end(crk_comm_t self, crk_device_t device, const char *where, uint64_t number,
                                      const crk_comm_norm_t *norm) {
  crk_comm_piece_t *piece = &self->peers.unread[number & 1];
  const size_t bytes = piece->bytes;
  piece->number = 0;
  if (norm->rows == 0 || norm->cols == 0) {
    return CRK_OK;
  }
  if (self->peers.reader != NULL && self->peers.reader != device) { /* whoever follows this one follows both */
    CRK_TRY(crk_priv_follow(device, self->peers.reader));
  }
  self->peers.reader = device;
  crk_const_view_t operands[2];
  operands_of(self, number, norm->x.ptr, bytes, operands);
  return crk_priv_add_add_rms_norm(device, where, norm->dtype, norm->rows, norm->cols, operands[0], operands[1],
                                   norm->residual, norm->alpha, norm->sum, norm->dst, norm->eps);
}
