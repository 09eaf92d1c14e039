/* Fault words and deferred failures; fault.h explains them. The fault words are in coherent host memory: they cost
 * nothing while all ids are in range, and the host reads them without a copy. */
#include "fault.h"

#include <stdio.h>

#include "core.h"

/* The reports that this thread uses, on the handle that gave them. */
static _Thread_local uint32_t reports_used;

/* Whether the thread's next operation may report. */
static _Thread_local bool is_report_expected;

/* The number of the reports that the thread uses on this handle. */
static uint32_t reports_of(crk_device_t self) {
  const uint64_t taken = atomic_load_explicit(&self->faults.taken, memory_order_relaxed);
  return (taken >> reports_used & 1) != 0 ? reports_used : 0;
}

crk_status_t crk_priv_fault_prepare(crk_device_t self) {
  if (atomic_load_explicit(&self->faults.words, memory_order_acquire) != NULL) {
    return CRK_OK;
  }
  enum { WORDS = 2 * CRK_REPORTS };
  void *memory = NULL;
  CRK_TRY(crk_priv_heap_coherent_alloc(self, WORDS * sizeof(_Atomic(uint64_t)), &memory));
  _Atomic(uint64_t) *words = memory;
  for (int i = 0; i < WORDS; i++) {
    atomic_init(&words[i], 0);
  }
  atomic_store_explicit(&self->faults.words, words, memory_order_release);
  return CRK_OK;
}

crk_status_t crk_priv_fault_get(crk_device_t self, crk_fault_op_t op, crk_fault_t *fault) {
  _Atomic(uint64_t) *words = atomic_load_explicit(&self->faults.words, memory_order_acquire);
  if (words == NULL) {
    crk_priv_mutex_lock(&self->lock);
    const crk_status_t status = crk_priv_fault_prepare(self);
    crk_priv_mutex_unlock(&self->lock);
    CRK_TRY(status);
    words = atomic_load_explicit(&self->faults.words, memory_order_acquire);
  }
  crk_priv_fault_expect();
  const uint64_t number = crk_priv_operations(self) + 1;
  *fault = (crk_fault_t){(uint64_t *)(words + 2 * reports_of(self)), (uint64_t)op | number << 8};
  return CRK_OK;
}

/* ---- reports */

crk_status_t crk_reports_create(crk_device_t self, uint32_t *reports) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_reports_create");
  CRK_REFUSE_IF(reports == NULL, "crk_reports_create: reports is NULL");
  crk_priv_mutex_lock(&self->lock);
  const uint64_t taken = atomic_load(&self->faults.taken);
  uint32_t number = 1;
  while (number < CRK_REPORTS && (taken >> number & 1) != 0) {
    number++;
  }
  if (number < CRK_REPORTS) {
    atomic_store_explicit(&self->faults.since[number], crk_priv_operations(self), memory_order_relaxed);
    atomic_fetch_or(&self->faults.taken, (uint64_t)1 << number);
  }
  crk_priv_mutex_unlock(&self->lock);
  *reports = number % CRK_REPORTS;
  return CRK_OK;
}

void crk_reports_destroy(crk_device_t self, uint32_t reports) {
  if (self != NULL && self->magic == CRK_MAGIC_DEVICE && reports > 0 && reports < CRK_REPORTS) {
    crk_priv_mutex_lock(&self->lock);
    atomic_fetch_and(&self->faults.taken, ~((uint64_t)1 << reports));
    crk_priv_mutex_unlock(&self->lock);
  }
}

uint32_t crk_reports_use(uint32_t reports) {
  const uint32_t before = reports_used;
  reports_used = reports < CRK_REPORTS ? reports : 0;
  return before;
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

crk_status_t crk_priv_fault_take(crk_device_t self) {
  _Atomic(uint64_t) *words = atomic_load_explicit(&self->faults.words, memory_order_acquire);
  if (words == NULL) {
    return CRK_OK;
  }
  const uint32_t reports = reports_of(self);
  words += 2 * reports;
  const uint64_t report = atomic_exchange(&words[0], 0), number = atomic_exchange(&words[1], 0);
  /* A kernel of whoever had these reports before may have reported after they were destroyed. A number of 0 is of a
   * kernel of another thread, which has written one of its two words so far. */
  if (report == 0 ||
      (number != 0 && number <= atomic_load_explicit(&self->faults.since[reports], memory_order_relaxed))) {
    return CRK_OK;
  }
  const char *argument = name_of(CRK_FAULT_WORD_OP(report));
  const long long id = CRK_FAULT_WORD_ID(report);
  const uint64_t last = crk_priv_operations(self);
  const unsigned long long which = number, followed = last > number ? last - number : 0;
  if (number == 0) {
    return crk_priv_error(CRK_OUT_OF_RANGE, "%s has %lld, which is out of range, in an operation that still runs",
                          argument, id);
  }
  if (self->is_synchronous && followed == 0) {
    return crk_priv_error(CRK_OUT_OF_RANGE, "%s has %lld, which is out of range, in operation %llu of the handle",
                          argument, id, which);
  }
  const crk_status_t status = crk_priv_error(CRK_OUT_OF_RANGE,
                                             "%s has %lld, which is out of range, in an earlier operation: number %llu "
                                             "of the handle; %llu followed it",
                                             argument, id, which, followed);
  return self->is_synchronous ? status : crk_priv_advise(status, "with CANDLE_ROCM_SYNC=1 the call itself fails");
}

void crk_priv_fault_expect(void) { is_report_expected = true; }

bool crk_priv_fault_is_expected(void) {
  const bool is_expected = is_report_expected;
  is_report_expected = false;
  return is_expected;
}

/* Says where a failure of waiting for the stream comes from. */
static crk_status_t advise_earlier(crk_device_t self, crk_status_t status) {
  return status != CRK_DEVICE || self->is_synchronous
             ? status
             : crk_priv_advise(status, "an earlier operation of the handle failed, and CANDLE_ROCM_SYNC=1 finds it");
}

crk_status_t crk_priv_stream_wait(crk_device_t self) {
  return advise_earlier(self, self->driver->stream_synchronize(self->driver_device, crk_priv_stream(self)));
}

crk_status_t crk_priv_errors_take(crk_device_t self) {
  CRK_TRY(crk_priv_replay_take(self));
  CRK_TRY(deferred_take(self));
  return crk_priv_fault_take(self);
}

crk_status_t crk_priv_idle_wait(crk_device_t self) { return advise_earlier(self, crk_priv_heap_synchronize(self)); }

crk_status_t crk_priv_errors_wait(crk_device_t self) {
  CRK_TRY(crk_priv_idle_wait(self));
  return crk_priv_errors_take(self);
}

void crk_priv_fault_deinit(crk_device_t self) {
  void *words = (void *)atomic_load(&self->faults.words);
  if (words != NULL) {
    self->driver->host_free(self->driver_device, words);
  }
}
