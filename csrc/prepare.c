/* What the first calls on a device would do, ahead of them: modules, and the vendors' BLAS libraries. */
#include "core.h"

enum { SIDE = 512 }; /* of a product; the libraries take products of this size from this library */

/* Multiplies two matrices in each dtype that has matrix cores, so that the BLAS libraries load their kernels. Products
 * of quantized weights with many columns may use other kernels of theirs. */
static crk_status_t multiply(crk_device_t self, crk_view_t room) {
  static const crk_dtype_t dtypes[] = {CRK_DTYPE_BF16, CRK_DTYPE_F16, CRK_DTYPE_F32};
  const size_t dims[] = {1, SIDE, SIDE};
  crk_layout_t layout;
  CRK_TRY(crk_layout_contiguous(dims, 3, &layout));
  const size_t half = room.bytes / 2;
  const crk_const_view_t operand = {room.ptr, half};
  const crk_view_t dst = {(unsigned char *)room.ptr + half, half};
  CRK_TRY(crk_memset(self, room, 0, room.bytes));
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    CRK_TRY(crk_matmul(self, dtypes[i], &layout, operand, &layout, operand, dst));
  }
  CRK_TRY(crk_mul_mat(self, CRK_QUANT_Q8_0, CRK_DTYPE_F32, SIDE, SIDE, SIDE, operand, operand, dst));
  return crk_device_synchronize(self);
}

/* Uses a handle of its own. When that closes, its handles of the libraries wait for the next device handle. */
static crk_status_t prepare_blas(crk_device_t self) {
  crk_device_t own;
  CRK_TRY(crk_device_clone(self, &own));
  crk_view_t room = {NULL, 2 * SIDE * SIDE * sizeof(float)};
  crk_status_t status = crk_alloc(own, room.bytes, &room.ptr);
  if (status == CRK_OK) {
    status = multiply(own, room);
  }
  crk_device_close(own);
  return status;
}

crk_status_t crk_device_prepare(crk_device_t self) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_prepare");
  for (size_t i = 0; i < CRK_MODULE_COUNT; i++) {
    CRK_TRY(crk_priv_module_load("crk_device_prepare", self->context, i));
  }
  return self->driver->backend == CRK_BACKEND_CPU ? CRK_OK : prepare_blas(self);
}
