/* Copies between host and device and within a device; memset. peer.c copies between devices. */
#include <stdlib.h>

#include "core.h"

crk_status_t crk_priv_check_copy(const char *where, const char *name, crk_const_view_t view, size_t bytes) {
  CRK_REFUSE_IF(view.ptr == NULL && bytes > 0, "%s: %s.ptr is NULL", where, name);
  if (bytes > view.bytes) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS, "%s: %zu bytes do not fit in %s, which has %zu bytes", where, bytes, name,
                          view.bytes);
  }
  return CRK_OK;
}

crk_status_t crk_priv_copy_start(crk_device_t self, const char *where, void *dst, const void *src, size_t bytes,
                                 crk_copy_kind_t kind) {
  return crk_priv_operation(self, where,
                            self->driver->copy(self->driver_device, crk_priv_stream(self), dst, src, bytes, kind));
}

static crk_status_t check_upload(const char *where, crk_view_t dst, const void *src, size_t bytes) {
  CRK_TRY(crk_priv_check_copy(where, "dst", crk_const(dst), bytes));
  CRK_REFUSE_IF(src == NULL && bytes > 0, "%s: src is NULL", where);
  return CRK_OK;
}

static crk_status_t check_download(const char *where, const void *dst, crk_const_view_t src, size_t bytes) {
  CRK_TRY(crk_priv_check_copy(where, "src", src, bytes));
  CRK_REFUSE_IF(dst == NULL && bytes > 0, "%s: dst is NULL", where);
  return CRK_OK;
}

static crk_status_t upload(crk_device_t self, const char *where, void *dst, const void *src, size_t bytes) {
  bool is_staged;
  CRK_TRY(crk_priv_staging_takes(self, bytes, &is_staged));
  if (is_staged) {
    return crk_priv_staging_upload(self, where, dst, src, bytes);
  }
  CRK_TRY(crk_priv_copy_start(self, where, dst, src, bytes, CRK_COPY_TO_DEVICE));
  return crk_priv_stream_wait(self);
}

static crk_status_t download(crk_device_t self, const char *where, void *dst, const void *src, size_t bytes) {
  bool is_staged;
  CRK_TRY(crk_priv_staging_takes(self, bytes, &is_staged));
  if (is_staged) {
    return crk_priv_staging_download(self, where, dst, src, bytes);
  }
  CRK_TRY(crk_priv_copy_start(self, where, dst, src, bytes, CRK_COPY_TO_HOST));
  return crk_priv_errors_wait(self);
}

crk_status_t crk_copy_to_device(crk_device_t self, crk_view_t dst, const void *src, size_t bytes) {
  static const char where[] = "crk_copy_to_device";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(check_upload(where, dst, src, bytes));
  CRK_TRY(crk_priv_capture_bar(self, where));
  const crk_status_t status = bytes == 0 ? CRK_OK : upload(self, where, dst.ptr, src, bytes);
  crk_priv_turns_leave(&self->capture_turns);
  return status;
}

crk_status_t crk_copy_to_host(crk_device_t self, void *dst, crk_const_view_t src, size_t bytes) {
  static const char where[] = "crk_copy_to_host";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(check_download(where, dst, src, bytes));
  CRK_TRY(crk_priv_capture_bar(self, where));
  const crk_status_t status = bytes == 0 ? CRK_OK : download(self, where, dst, src.ptr, bytes);
  crk_priv_turns_leave(&self->capture_turns);
  return status;
}

crk_status_t crk_copy_to_device_async(crk_device_t self, crk_view_t dst, const void *src, size_t bytes) {
  static const char where[] = "crk_copy_to_device_async";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(check_upload(where, dst, src, bytes));
  return bytes == 0 ? CRK_OK : crk_priv_copy_start(self, where, dst.ptr, src, bytes, CRK_COPY_TO_DEVICE);
}

crk_status_t crk_copy_to_host_async(crk_device_t self, void *dst, crk_const_view_t src, size_t bytes) {
  static const char where[] = "crk_copy_to_host_async";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(check_download(where, dst, src, bytes));
  return bytes == 0 ? CRK_OK : crk_priv_copy_start(self, where, dst, src.ptr, bytes, CRK_COPY_TO_HOST);
}

crk_status_t crk_priv_check_distance(const char *where, const void *dst, const void *src, size_t bytes) {
  const uintptr_t to = (uintptr_t)dst, from = (uintptr_t)src;
  const uintptr_t distance = to > from ? to - from : from - to;
  CRK_REFUSE_IF(distance != 0 && distance < bytes,
                "%s: dst and src overlap: they are %zu bytes apart, and bytes is %zu", where, (size_t)distance, bytes);
  return CRK_OK;
}

crk_status_t crk_priv_copy(crk_device_t self, const char *where, void *dst, const void *src, size_t bytes) {
  if (bytes == 0 || dst == src) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_distance(where, dst, src, bytes));
  return crk_priv_copy_start(self, where, dst, src, bytes, CRK_COPY_ON_DEVICE);
}

crk_status_t crk_copy(crk_device_t self, crk_view_t dst, crk_const_view_t src, size_t bytes) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_copy");
  CRK_TRY(crk_priv_check_copy("crk_copy", "dst", crk_const(dst), bytes));
  CRK_TRY(crk_priv_check_copy("crk_copy", "src", src, bytes));
  return crk_priv_copy(self, "crk_copy", dst.ptr, src.ptr, bytes);
}

crk_status_t crk_memset(crk_device_t self, crk_view_t dst, uint8_t value, size_t bytes) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_memset");
  CRK_TRY(crk_priv_check_copy("crk_memset", "dst", crk_const(dst), bytes));
  if (bytes == 0) {
    return CRK_OK;
  }
  return crk_priv_operation(self, "crk_memset",
                            self->driver->memset(self->driver_device, crk_priv_stream(self), dst.ptr, value, bytes));
}
