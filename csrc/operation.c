/* Operations: each piece of work that a public function puts into a handle's stream. They are counted, so that an error
 * can say which one it is about. With CANDLE_ROCM_SYNC=1 each is waited for, so that the error comes from its call. */
#include <string.h>

#include "core.h"

void crk_priv_operations_init(crk_device_t self) {
  char setting[8];
  self->is_synchronous = crk_priv_variable("CANDLE_ROCM_SYNC", setting, sizeof setting) && strcmp(setting, "0") != 0;
}

crk_status_t crk_priv_operation_wait(crk_device_t self, const char *name) {
  /* Reports of another thread's operation stay for that thread. */
  const bool may_report = crk_priv_fault_is_expected();
  if (crk_priv_capturing(self)) {
    return CRK_OK;
  }
  const crk_status_t status = self->driver->stream_synchronize(self->driver_device, crk_priv_stream(self));
  if (status == CRK_OK) {
    return may_report ? crk_priv_fault_take(self) : CRK_OK;
  }
  return crk_priv_advise(status, "this is operation %llu of the handle, %s",
                         (unsigned long long)crk_priv_operations(self), name);
}

crk_status_t crk_device_operations(crk_device_t self, uint64_t *count) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_operations");
  CRK_REFUSE_IF(count == NULL, "crk_device_operations: count is NULL");
  *count = crk_priv_operations(self);
  return CRK_OK;
}
