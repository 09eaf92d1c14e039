/* Fault words and deferred failures; fault.h explains them. The fault word is in coherent host memory: it costs nothing
 * while all ids are in range, and the host reads it without a copy. */
#include "fault.h"

#include <stdio.h>

#include "core.h"

crk_status_t crk_priv_fault_prepare(crk_device_t self) {
  if (atomic_load_explicit(&self->fault, memory_order_acquire) != NULL) {
    return CRK_OK;
  }
  void *word = NULL;
  CRK_TRY(crk_priv_heap_coherent_alloc(self, sizeof(_Atomic(uint64_t)), &word));
  atomic_init((_Atomic(uint64_t) *)word, 0);
  atomic_store_explicit(&self->fault, (_Atomic(uint64_t) *)word, memory_order_release);
  return CRK_OK;
}

crk_status_t crk_priv_fault_get(crk_device_t self, crk_fault_op_t op, crk_fault_t *fault) {
  if (atomic_load_explicit(&self->fault, memory_order_acquire) == NULL) {
    crk_priv_mutex_lock(&self->lock);
    const crk_status_t status = crk_priv_fault_prepare(self);
    crk_priv_mutex_unlock(&self->lock);
    CRK_TRY(status);
  }
  *fault = (crk_fault_t){(uint64_t *)atomic_load_explicit(&self->fault, memory_order_acquire), (uint64_t)op};
  return CRK_OK;
}

static const char *name_of(uint64_t op) {
  switch (op) {
#define XX(name, value, text) \
  case value:                 \
    return text;
    CRK_FAULT_MAP(XX)
#undef XX
    default:
      return "ids";
  }
}

void crk_priv_error_defer(crk_device_t self, crk_status_t status) {
  crk_priv_mutex_lock(&self->lock);
  if (atomic_load(&self->deferred.status) == CRK_OK) {
    snprintf(self->deferred.sentence, sizeof self->deferred.sentence, "%s", crk_last_error());
    atomic_store(&self->deferred.status, status);
  }
  crk_priv_mutex_unlock(&self->lock);
}

static crk_status_t deferred_take(crk_device_t self) {
  if (atomic_load(&self->deferred.status) == CRK_OK) {
    return CRK_OK;
  }
  crk_priv_mutex_lock(&self->lock);
  crk_status_t status = (crk_status_t)atomic_exchange(&self->deferred.status, CRK_OK);
  if (status != CRK_OK) {
    status = crk_priv_error(status, "%s", self->deferred.sentence);
  }
  crk_priv_mutex_unlock(&self->lock);
  return status;
}

crk_status_t crk_priv_errors_take(crk_device_t self) {
  CRK_TRY(deferred_take(self));
  _Atomic(uint64_t) *word = atomic_load_explicit(&self->fault, memory_order_acquire);
  const uint64_t report = word != NULL ? atomic_exchange(word, 0) : 0;
  if (report == 0) {
    return CRK_OK;
  }
  return crk_priv_error(CRK_OUT_OF_RANGE, "%s has %lld, which is out of range", name_of(CRK_FAULT_WORD_OP(report)),
                        (long long)CRK_FAULT_WORD_ID(report));
}

void crk_priv_fault_deinit(crk_device_t self) {
  void *word = (void *)atomic_load(&self->fault);
  if (word != NULL) {
    self->driver->host_free(self->driver_device, word);
  }
}
