/* Memory of the HIP driver: allocations, copies, and the memory of other GPUs. */
#include "driver/hip/hip_calls.h"
#include "driver/hip/hip_driver.h"
#include "image/code_object.h"

crk_status_t crk_priv_hip_alloc(crk_driver_device_t *device, size_t bytes, void **ptr) {
  CRK_TRY(crk_priv_hip_bind(device));
  void *fresh = NULL;
  HIP_TRY(crk_priv_hip.hipMalloc(&fresh, bytes), "hipMalloc(%zu bytes)", bytes);
  *ptr = fresh;
  return CRK_OK;
}

void crk_priv_hip_free(crk_driver_device_t *device, void *ptr) { RELEASE(device, crk_priv_hip.hipFree(ptr)); }

/* Uncached: loads of this GPU then see the stores of other GPUs while a kernel runs. Without fine-grained memory of the
 * device, a runtime gives ordinary memory for this flag. Its stores may never be seen. That is so on PCIe, unless
 * HSA_FORCE_FINE_GRAIN_PCIE is set. */
crk_status_t crk_priv_hip_peer_alloc(crk_driver_device_t *device, size_t bytes, void **ptr) {
  NEED(hipExtMallocWithFlags);
  CRK_TRY(crk_priv_hip_bind(device));
  int is_fine_grained = 0;
  if (crk_priv_hip.hipDeviceGetAttribute(&is_fine_grained, HIP_ATTRIBUTE_FINE_GRAIN_SUPPORT, device->ordinal) !=
      HIP_SUCCESS) {
    crk_priv_hip_forget_error();
    is_fine_grained = 0;
  }
  if (!is_fine_grained) {
    return crk_priv_error(CRK_UNSUPPORTED, "hip:%d has no fine-grained memory", device->ordinal);
  }
  void *fresh = NULL;
  HIP_TRY(crk_priv_hip.hipExtMallocWithFlags(&fresh, bytes, HIP_MALLOC_UNCACHED),
          "hipExtMallocWithFlags(%zu bytes, uncached)", bytes);
  *ptr = fresh;
  return CRK_OK;
}

/* Writes over PCIe pass a buffer of the receiver (HDP). It must be flushed between the bytes and the store that tells
 * of them, as RCCL does on GPUs before CDNA 2. */
bool crk_priv_hip_peer_writes_in_order(const crk_driver_device_t *device) {
  const crk_architecture_t *architecture = crk_priv_architecture_find(device->info.architecture);
  return architecture != NULL && CRK_MATRIX_IS_MFMA(architecture->matrix) && architecture->matrix != CRK_MATRIX_MFMA1;
}

crk_status_t crk_priv_hip_peer_export(crk_driver_device_t *device, void *ptr, crk_peer_handle_t *handle) {
  NEED(hipIpcGetMemHandle);
  CRK_TRY(crk_priv_hip_bind(device));
  HIP_TRY(crk_priv_hip.hipIpcGetMemHandle(handle, ptr), "hipIpcGetMemHandle");
  return CRK_OK;
}

crk_status_t crk_priv_hip_peer_open(crk_driver_device_t *device, const crk_peer_handle_t *handle, void **ptr) {
  NEED(hipIpcOpenMemHandle);
  NEED(hipIpcCloseMemHandle);
  CRK_TRY(crk_priv_hip_bind(device));
  void *opened = NULL;
  HIP_TRY(crk_priv_hip.hipIpcOpenMemHandle(&opened, *handle, HIP_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
          "hipIpcOpenMemHandle(device %d)", device->ordinal);
  *ptr = opened;
  return CRK_OK;
}

void crk_priv_hip_peer_close(crk_driver_device_t *device, void *ptr) {
  RELEASE(device, crk_priv_hip.hipIpcCloseMemHandle(ptr));
}

static crk_status_t hip_host_alloc_flags(crk_driver_device_t *device, size_t bytes, unsigned flags, void **ptr) {
  CRK_TRY(crk_priv_hip_bind(device));
  void *fresh = NULL;
  HIP_TRY(crk_priv_hip.hipHostMalloc(&fresh, bytes, flags), "hipHostMalloc(%zu bytes)", bytes);
  *ptr = fresh;
  return CRK_OK;
}

crk_status_t crk_priv_hip_host_alloc(crk_driver_device_t *device, size_t bytes, void **ptr) {
  return hip_host_alloc_flags(device, bytes, HIP_HOST_MALLOC_PORTABLE, ptr);
}

crk_status_t crk_priv_hip_host_alloc_coherent(crk_driver_device_t *device, size_t bytes, void **ptr) {
  return hip_host_alloc_flags(device, bytes, HIP_HOST_MALLOC_PORTABLE | HIP_HOST_MALLOC_COHERENT, ptr);
}

void crk_priv_hip_host_free(crk_driver_device_t *device, void *ptr) { RELEASE(device, crk_priv_hip.hipHostFree(ptr)); }

crk_status_t crk_priv_hip_copy(crk_driver_device_t *device, crk_driver_stream_t *stream, void *dst, const void *src,
                               size_t bytes, crk_copy_kind_t kind) {
  static const int kinds[] = {HIP_COPY_TO_DEVICE, HIP_COPY_TO_HOST, HIP_COPY_ON_DEVICE};
  static const char *const names[] = {"to the device", "to the host", "on the device"};
  CRK_TRY(crk_priv_hip_bind(device));
  HIP_TRY(crk_priv_hip.hipMemcpyAsync(dst, src, bytes, kinds[kind], stream), "hipMemcpyAsync(%zu bytes %s)", bytes,
          names[kind]);
  return CRK_OK;
}

crk_status_t crk_priv_hip_copy_peer(crk_driver_device_t *dst_device, void *dst, crk_driver_device_t *src_device,
                                    const void *src, size_t bytes, crk_driver_stream_t *dst_stream) {
  NEED(hipMemcpyPeerAsync);
  CRK_TRY(crk_priv_hip_bind(dst_device));
  HIP_TRY(crk_priv_hip.hipMemcpyPeerAsync(dst, dst_device->ordinal, src, src_device->ordinal, bytes, dst_stream),
          "hipMemcpyPeerAsync(%zu bytes from device %d to %d)", bytes, src_device->ordinal, dst_device->ordinal);
  return CRK_OK;
}

crk_status_t crk_priv_hip_peer_access(crk_driver_device_t *device, crk_driver_device_t *peer, bool *has_access) {
  if (crk_priv_hip.hipDeviceCanAccessPeer == NULL || crk_priv_hip.hipDeviceEnablePeerAccess == NULL) {
    *has_access = false;
    return CRK_OK;
  }
  CRK_TRY(crk_priv_hip_bind(device));
  int can_access = 0;
  HIP_TRY(crk_priv_hip.hipDeviceCanAccessPeer(&can_access, device->ordinal, peer->ordinal),
          "hipDeviceCanAccessPeer(device %d, peer %d)", device->ordinal, peer->ordinal);
  if (can_access != 0) {
    const int code = crk_priv_hip.hipDeviceEnablePeerAccess(peer->ordinal, 0);
    if (code == HIP_PEER_ACCESS_ALREADY_ENABLED) {
      crk_priv_hip_forget_error();
    } else {
      HIP_TRY(code, "hipDeviceEnablePeerAccess(device %d, peer %d)", device->ordinal, peer->ordinal);
    }
  }
  *has_access = can_access != 0;
  return CRK_OK;
}

crk_status_t crk_priv_hip_memset(crk_driver_device_t *device, crk_driver_stream_t *stream, void *dst, uint8_t value,
                                 size_t bytes) {
  CRK_TRY(crk_priv_hip_bind(device));
  HIP_TRY(crk_priv_hip.hipMemsetAsync(dst, value, bytes, stream), "hipMemsetAsync(%zu bytes)", bytes);
  return CRK_OK;
}
