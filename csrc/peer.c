/* Several devices in one process: peer access, and copies between devices. */
#include <stdlib.h>

#include "core.h"

/* Whether the GPU of `self` reaches the memory of the GPU of `peer`, both of one driver. The driver is asked once for
 * each pair of GPUs, as far as their ordinals fit in 64 bits. */
static crk_status_t ask_for_access(crk_device_t self, crk_device_t peer, bool *has_access) {
  if (self->driver_device == peer->driver_device) {
    *has_access = true;
    return CRK_OK;
  }
  crk_context_t *context = self->context;
  const int32_t ordinal = peer->context->info.ordinal;
  const uint64_t bit = ordinal < 64 ? (uint64_t)1 << ordinal : 0;
  if ((atomic_load_explicit(&context->peers_asked, memory_order_acquire) & bit) != 0) {
    *has_access = (atomic_load_explicit(&context->peers_reached, memory_order_relaxed) & bit) != 0;
    return CRK_OK;
  }
  CRK_TRY(self->driver->peer_access(self->driver_device, peer->driver_device, has_access));
  if (*has_access) {
    atomic_fetch_or_explicit(&context->peers_reached, bit, memory_order_relaxed);
  }
  atomic_fetch_or_explicit(&context->peers_asked, bit, memory_order_release);
  return CRK_OK;
}

crk_status_t crk_device_peer_access(crk_device_t self, crk_device_t peer, bool *has_access) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_peer_access");
  CRK_CHECK_HANDLE(peer, DEVICE, "crk_device_peer_access");
  CRK_REFUSE_IF(has_access == NULL, "crk_device_peer_access: has_access is NULL");
  if (self->driver != peer->driver) {
    *has_access = false;
    return CRK_OK;
  }
  bool answer = false;
  CRK_TRY(ask_for_access(self, peer, &answer));
  *has_access = answer;
  return CRK_OK;
}

/* Starts a copy between host and device, and waits for it. Errors that kernels reported stay for the handle's next
 * synchronisation. */
static crk_status_t copy_and_wait(crk_device_t self, const char *where, void *dst, const void *src, size_t bytes,
                                  crk_copy_kind_t kind) {
  CRK_TRY(crk_priv_capture_bar(self, where));
  crk_status_t status = crk_priv_copy_start(self, where, dst, src, bytes, kind);
  if (status == CRK_OK) {
    status = crk_priv_stream_wait(self);
  }
  crk_priv_turns_leave(&self->capture_turns);
  return status;
}

/* Between devices of different runtimes, through host memory. */
static crk_status_t copy_through_host(crk_device_t dst_device, void *dst, crk_device_t src_device, const void *src,
                                      size_t bytes) {
  static const char where[] = "crk_copy_between";
  void *staging = malloc(bytes);
  if (staging == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "%s: no host memory for a staging buffer of %zu bytes", where, bytes);
  }
  crk_status_t status = copy_and_wait(src_device, where, staging, src, bytes, CRK_COPY_TO_HOST);
  if (status == CRK_OK) {
    status = copy_and_wait(dst_device, where, dst, staging, bytes, CRK_COPY_TO_DEVICE);
  }
  free(staging);
  return status;
}

crk_status_t crk_copy_between(crk_device_t dst_device, crk_view_t dst, crk_device_t src_device, crk_const_view_t src,
                              size_t bytes) {
  CRK_CHECK_HANDLE(dst_device, DEVICE, "crk_copy_between");
  CRK_CHECK_HANDLE(src_device, DEVICE, "crk_copy_between");
  CRK_TRY(crk_priv_check_copy("crk_copy_between", "dst", crk_const(dst), bytes));
  CRK_TRY(crk_priv_check_copy("crk_copy_between", "src", src, bytes));
  CRK_TRY(crk_priv_refuse_capture(dst_device, "crk_copy_between"));
  CRK_TRY(crk_priv_refuse_capture(src_device, "crk_copy_between"));
  if (bytes == 0) {
    return CRK_OK;
  }
  if (dst_device == src_device) {
    return crk_priv_copy(dst_device, "crk_copy_between", dst.ptr, src.ptr, bytes);
  }
  const bool is_same = dst_device->driver_device == src_device->driver_device;
  if (is_same) {
    CRK_TRY(crk_priv_check_distance("crk_copy_between", dst.ptr, src.ptr, bytes));
  }
  const crk_driver_t *driver = dst_device->driver;
  if (driver != src_device->driver) {
    return copy_through_host(dst_device, dst.ptr, src_device, src.ptr, bytes);
  }
  /* For speed only: without it the runtime copies through host memory. */
  bool has_access = false;
  (void)ask_for_access(dst_device, src_device, &has_access);
  CRK_TRY(crk_priv_follow(dst_device, src_device));
  const crk_status_t copied = is_same && dst.ptr == src.ptr
                                  ? CRK_OK
                                  : driver->copy_peer(dst_device->driver_device, dst.ptr, src_device->driver_device,
                                                      src.ptr, bytes, crk_priv_stream(dst_device));
  CRK_TRY(crk_priv_operation(dst_device, "crk_copy_between", copied));
  const crk_status_t followed = crk_priv_follow(src_device, dst_device);
  if (followed != CRK_OK) { /* the source may change after a failure too */
    crk_priv_turns_enter(&dst_device->capture_turns);
    if (!crk_priv_capturing(dst_device)) { /* a capture began when the stream was idle, and the wait would spoil it */
      (void)dst_device->driver->stream_synchronize(dst_device->driver_device, crk_priv_stream(dst_device));
    }
    crk_priv_turns_leave(&dst_device->capture_turns);
  }
  return followed;
}
