/* Which BLAS library a device handle uses, if any, and the library's handles.
 *
 * Making or destroying one of those waits for the whole GPU, which would spoil what another thread captures there. So a device
 * handle borrows one from its GPU's pool; one is made only while nothing is captured on the GPU, and they are destroyed when the
 * last device handle on it closes. */
#include "blas.h"

#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { UNKNOWN, READY, ABSENT };

struct crk_blas_handle {
  struct crk_blas_handle *next; /* in the pool */
  void *library_handle;
};

/* A GPU with device handles. */
struct crk_blas_pool {
  struct crk_blas_pool *next;
  const crk_driver_device_t *gpu;
  uint32_t devices, captures; /* device handles, and those of them that are captured */
  crk_blas_handle_t *idle;
};

/* Guards the pools, and what is read of the environment. It is held while a library is opened and while a handle is made, so that no
 * capture begins meanwhile. */
static crk_mutex_t lock = CRK_MUTEX_INIT;
static crk_blas_pool_t *pools;

/* The environment variable CANDLE_ROCM_BLAS is read once: "0" for no library, else the file to open. */
static struct {
  bool is_read, is_off;
  char *named;
} setting;

static void read_setting(void) {
  const char *text = getenv("CANDLE_ROCM_BLAS");
  setting.is_read = true;
  if (text == NULL || *text == '\0') {
    return;
  }
  const size_t bytes = strlen(text) + 1;
  setting.named = strcmp(text, "0") == 0 ? NULL : malloc(bytes);
  setting.is_off = setting.named == NULL;
  if (setting.named != NULL) {
    memcpy(setting.named, text, bytes);
  }
}

/* Opens the library, the first time; false where it is not there or has not what is needed. */
static bool load(crk_blas_library_t *library) {
  if (!setting.is_read) {
    read_setting();
  }
  if (!library->is_tried && !setting.is_off) {
    char why[200];
    void *opened = setting.named != NULL ? crk_priv_library_open(setting.named, why, sizeof why) : NULL;
    for (size_t i = 0; setting.named == NULL && opened == NULL && library->files[i] != NULL; i++) {
      opened = crk_priv_library_open(library->files[i], why, sizeof why);
    }
    library->is_tried = true;
    library->is_loaded = opened != NULL && library->find(opened);
  }
  return library->is_loaded;
}

static crk_blas_library_t *library_of(crk_device_t self) {
  return self->driver->backend == CRK_BACKEND_HIP    ? &crk_priv_rocblas
         : self->driver->backend == CRK_BACKEND_CUDA ? &crk_priv_cublas
                                                     : NULL;
}

/* ---- pools; the caller holds `lock` */

/* The GPU's pool, made where there is none; NULL without host memory. */
static crk_blas_pool_t *pool_of(const crk_driver_device_t *gpu) {
  crk_blas_pool_t *pool = pools;
  while (pool != NULL && pool->gpu != gpu) {
    pool = pool->next;
  }
  if (pool == NULL) {
    pool = calloc(1, sizeof *pool);
    if (pool != NULL) {
      pool->gpu = gpu;
      pool->next = pools;
      pools = pool;
    }
  }
  return pool;
}

static void pool_destroy(crk_blas_pool_t *pool, crk_blas_library_t *library) {
  while (pool->idle != NULL) {
    crk_blas_handle_t *handle = pool->idle;
    pool->idle = handle->next;
    library->destroy(handle->library_handle);
    free(handle);
  }
  crk_blas_pool_t **link = &pools;
  while (*link != pool) {
    link = &(*link)->next;
  }
  *link = pool->next;
  free(pool);
}

static bool add_handle(crk_device_t self, crk_blas_library_t *library) {
  crk_blas_handle_t *handle = load(library) ? calloc(1, sizeof *handle) : NULL;
  if (handle == NULL || !library->create(self->context->info.architecture, &handle->library_handle)) {
    free(handle);
    return false;
  }
  handle->next = self->blas.pool->idle;
  self->blas.pool->idle = handle;
  return true;
}

static bool take_handle(crk_device_t self, crk_blas_library_t *library) {
  crk_blas_pool_t *pool = self->blas.pool;
  if (self->driver->bind(self->driver_device) != CRK_OK || (pool->idle == NULL && !add_handle(self, library)) ||
      !library->set_stream(pool->idle->library_handle, self->stream)) {
    return false;
  }
  self->blas.handle = pool->idle;
  pool->idle = pool->idle->next;
  return true;
}

/* The handle's stream is about to go. */
static void give_handle_back(crk_device_t self, crk_blas_library_t *library) {
  crk_blas_handle_t *handle = self->blas.handle;
  library->set_stream(handle->library_handle, NULL);
  handle->next = self->blas.pool->idle;
  self->blas.pool->idle = handle;
}

/* ---- device handles */

crk_status_t crk_priv_blas_init(crk_device_t self) {
  crk_priv_mutex_lock(&lock);
  crk_blas_pool_t *pool = pool_of(self->driver_device);
  if (pool != NULL) {
    pool->devices++;
  }
  crk_priv_mutex_unlock(&lock);
  if (pool == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_device_open: no host memory for a device");
  }
  self->blas.pool = pool;
  crk_priv_mutex_init(&self->blas.lock);
  atomic_init(&self->blas.state, library_of(self) == NULL ? ABSENT : UNKNOWN);
  return CRK_OK;
}

void crk_priv_blas_deinit(crk_device_t self) {
  crk_blas_library_t *library = library_of(self);
  self->driver->bind(self->driver_device);
  crk_priv_mutex_lock(&lock);
  if (self->blas.handle != NULL) {
    give_handle_back(self, library);
  }
  if (--self->blas.pool->devices == 0) {
    pool_destroy(self->blas.pool, library);
  }
  crk_priv_mutex_unlock(&lock);
  crk_priv_mutex_deinit(&self->blas.lock);
}

void crk_priv_blas_capture_begin(crk_device_t self) {
  crk_priv_mutex_lock(&lock);
  self->blas.pool->captures++;
  crk_priv_mutex_unlock(&lock);
}

void crk_priv_blas_capture_end(crk_device_t self) {
  crk_priv_mutex_lock(&lock);
  self->blas.pool->captures--;
  crk_priv_mutex_unlock(&lock);
}

/* Takes a handle of the library's at the first call for which there is one, or one may be made. The caller holds blas.lock. */
static bool is_ready(crk_device_t self, crk_blas_library_t *library) {
  crk_blas_t *blas = &self->blas;
  if (atomic_load_explicit(&blas->state, memory_order_relaxed) == UNKNOWN) {
    crk_priv_mutex_lock(&lock);
    if (blas->pool->idle != NULL || blas->pool->captures == 0) {
      const int state = take_handle(self, library) ? READY : ABSENT;
      atomic_store_explicit(&blas->state, state, memory_order_relaxed);
    }
    crk_priv_mutex_unlock(&lock);
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
  crk_blas_library_t *library = library_of(self);
  crk_priv_mutex_lock(&self->blas.lock);
  const bool done = is_ready(self, library) && self->driver->bind(self->driver_device) == CRK_OK &&
                    library->multiply(self->blas.handle->library_handle, gemm);
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
