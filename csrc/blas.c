/* Which BLAS library a device handle uses, if any. */
#include "blas.h"

#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { UNKNOWN, READY, ABSENT };

/* The environment variable CANDLE_ROCM_BLAS is read once: "0" for no library, else the file to open. */
static struct {
  crk_mutex_t lock;
  bool is_read, is_off;
  char *named;
} setting = {CRK_MUTEX_INIT, false, false, NULL};

static bool load(const crk_blas_library_t *library) {
  crk_priv_mutex_lock(&setting.lock);
  if (!setting.is_read) {
    const char *text = getenv("CANDLE_ROCM_BLAS");
    setting.is_read = true;
    if (text != NULL && *text != '\0') {
      const size_t bytes = strlen(text) + 1;
      setting.is_off = strcmp(text, "0") == 0;
      setting.named = setting.is_off ? NULL : malloc(bytes);
      setting.is_off = setting.named == NULL;
      if (setting.named != NULL) {
        memcpy(setting.named, text, bytes);
      }
    }
  }
  const bool loaded = !setting.is_off && library->load(setting.named);
  crk_priv_mutex_unlock(&setting.lock);
  return loaded;
}

static const crk_blas_library_t *library_of(crk_device_t self) {
  return self->driver->backend == CRK_BACKEND_HIP    ? &crk_priv_rocblas
         : self->driver->backend == CRK_BACKEND_CUDA ? &crk_priv_cublas
                                                     : NULL;
}

void crk_priv_blas_init(crk_device_t self) {
  crk_priv_mutex_init(&self->blas.lock);
  atomic_init(&self->blas.state, library_of(self) == NULL ? ABSENT : UNKNOWN);
}

void crk_priv_blas_deinit(crk_device_t self) {
  if (self->blas.handle != NULL && self->driver->bind(self->driver_device) == CRK_OK) {
    library_of(self)->destroy(self->blas.handle);
  }
  crk_priv_mutex_deinit(&self->blas.lock);
}

/* Makes the library's handle at the first call, which must not be in a capture: it allocates. The caller holds the lock. */
static bool is_ready(crk_device_t self, const crk_blas_library_t *library) {
  crk_blas_t *blas = &self->blas;
  if (atomic_load_explicit(&blas->state, memory_order_relaxed) == UNKNOWN && !crk_priv_capturing(self)) {
    void *handle = NULL;
    const bool made = load(library) && self->driver->bind(self->driver_device) == CRK_OK &&
                      library->create(self->context->info.architecture, self->stream, &handle);
    blas->handle = made ? handle : NULL;
    atomic_store_explicit(&blas->state, made ? READY : ABSENT, memory_order_relaxed);
  }
  return blas->handle != NULL;
}

static bool may_be_there(crk_device_t self) {
  return atomic_load_explicit(&self->blas.state, memory_order_relaxed) != ABSENT;
}

bool crk_priv_blas_multiply(crk_device_t self, const crk_gemm_t *gemm) {
  if (!may_be_there(self)) {
    return false;
  }
  const crk_blas_library_t *library = library_of(self);
  crk_priv_mutex_lock(&self->blas.lock);
  const bool done = is_ready(self, library) && self->driver->bind(self->driver_device) == CRK_OK &&
                    library->multiply(self->blas.handle, gemm);
  crk_priv_mutex_unlock(&self->blas.lock);
  return done;
}

crk_status_t crk_device_blas(crk_device_t self, const char **name) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_blas");
  CRK_REFUSE_IF(name == NULL, "crk_device_blas: name is NULL");
  bool ready = false;
  if (may_be_there(self)) {
    crk_priv_mutex_lock(&self->blas.lock);
    ready = is_ready(self, library_of(self));
    crk_priv_mutex_unlock(&self->blas.lock);
  }
  *name = ready ? library_of(self)->name : "own kernels";
  return CRK_OK;
}
