/* Which BLAS libraries a device handle uses, if any, and the libraries' handles.
 *
 * Making or destroying one of those waits for the whole GPU, which would spoil what another thread captures there. So a device
 * handle borrows one from its GPU's pool; one is made only while nothing is captured on the GPU, and they are destroyed when the
 * last device handle on it closes. */
#include "blas.h"

#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { UNKNOWN, READY, ABSENT };

enum { LIBRARIES = 2 }; /* for a device, at most */

/* The handles of a device's libraries, one of each. */
struct crk_blas_handle {
  struct crk_blas_handle *next; /* in the pool */
  struct {
    void *handle, *workspace; /* NULL where the library is not there */
  } of[LIBRARIES];
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

/* Whether a library is linked to the HIP runtime that the driver has opened, or to none; to another one a stream of ours is
 * a wild pointer. */
static bool has_our_runtime(void *opened) {
  const char *name;
  const void *theirs = crk_priv_library_symbol(opened, "hipSetDevice");
  return theirs == NULL || theirs == crk_priv_library_symbol(crk_priv_hip_library(&name), "hipSetDevice");
}

static void *open_library(const char *file) {
  char why[200];
  void *opened = crk_priv_library_open(file, why, sizeof why);
  if (opened != NULL && !has_our_runtime(opened)) {
    crk_priv_library_close(opened);
    opened = NULL;
  }
  return opened;
}

/* Opens the library, the first time; false where it is not there or has not what is needed. */
static bool load(crk_blas_library_t *library) {
  if (!setting.is_read) {
    read_setting();
  }
  if (!library->is_tried && !setting.is_off) {
    void *opened = setting.named != NULL ? open_library(setting.named) : NULL;
    for (size_t i = 0; setting.named == NULL && opened == NULL && library->files[i] != NULL; i++) {
      opened = open_library(library->files[i]);
    }
    size_t count = 0;
    while (library->symbols[count] != NULL) {
      count++;
    }
    library->is_tried = true;
    library->is_loaded =
        opened != NULL && crk_priv_library_functions(opened, library->symbols, count, library->functions) == NULL;
  }
  return library->is_loaded;
}

/* Without kernels for the architecture rocBLAS ends the process, and hipBLASLt writes to stderr. They are files with the
 * architecture in their names, in the folder that the variable names, else in FOLDER/library, FOLDER/VERSION/library or
 * FOLDER/library/ARCHITECTURE beside the library. */
static bool has_kernels(const crk_blas_library_t *library, const char *architecture) {
  if (library->kernels_folder == NULL) {
    return true;
  }
  char folder[1024];
  const char *named = getenv(library->kernels_variable);
  if (named != NULL && *named != '\0') {
    return crk_priv_folder_has(named, architecture, 0);
  }
  void *symbol;
  memcpy(&symbol, library->functions, sizeof symbol);
  if (!crk_priv_library_folder(symbol, folder, sizeof folder - strlen(library->kernels_folder))) {
    return false;
  }
  strcat(folder, library->kernels_folder);
  return crk_priv_folder_has(folder, architecture, 2);
}

/* The libraries for a device, the first choice first; ends with NULL. */
static crk_blas_library_t *const *libraries_of(crk_device_t self) {
  static crk_blas_library_t *const hip[LIBRARIES + 1] = {&crk_priv_hipblaslt, &crk_priv_rocblas};
  static crk_blas_library_t *const cuda[LIBRARIES + 1] = {&crk_priv_cublas};
  static crk_blas_library_t *const none[LIBRARIES + 1] = {NULL};
  return self->driver->backend == CRK_BACKEND_HIP ? hip : self->driver->backend == CRK_BACKEND_CUDA ? cuda : none;
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

/* Makes what there can be of a handle. CRK_NOT_FOUND where that is nothing, CRK_OUT_OF_MEMORY where a shortage is why. */
static crk_status_t handle_create(crk_device_t self, crk_blas_handle_t **handle) {
  crk_blas_library_t *const *libraries = libraries_of(self);
  crk_blas_handle_t *fresh = calloc(1, sizeof *fresh);
  crk_status_t status = fresh == NULL ? CRK_OUT_OF_MEMORY : CRK_NOT_FOUND;
  for (size_t i = 0; fresh != NULL && libraries[i] != NULL; i++) {
    crk_blas_library_t *library = libraries[i];
    void *workspace = NULL;
    if (!load(library) || !has_kernels(library, self->context->info.architecture)) {
      continue;
    }
    if (library->workspace_bytes != 0 &&
        self->driver->alloc(self->driver_device, library->workspace_bytes, &workspace) != CRK_OK) {
      status = status == CRK_OK ? CRK_OK : CRK_OUT_OF_MEMORY;
      continue;
    }
    if (library->create(workspace, &fresh->of[i].handle)) {
      fresh->of[i].workspace = workspace;
      status = CRK_OK;
    } else if (workspace != NULL) {
      self->driver->free(self->driver_device, workspace);
    }
  }
  if (status == CRK_OK) {
    *handle = fresh;
  } else {
    free(fresh);
  }
  return status;
}

static void handle_destroy(crk_device_t self, crk_blas_handle_t *handle) {
  for (size_t i = 0; i < LIBRARIES; i++) {
    if (handle->of[i].handle != NULL) {
      libraries_of(self)[i]->destroy(handle->of[i].handle);
    }
    if (handle->of[i].workspace != NULL) {
      self->driver->free(self->driver_device, handle->of[i].workspace);
    }
  }
  free(handle);
}

static bool handle_set_stream(crk_device_t self, const crk_blas_handle_t *handle, void *stream) {
  bool is_set = true;
  for (size_t i = 0; i < LIBRARIES; i++) {
    if (handle->of[i].handle != NULL) {
      is_set = libraries_of(self)[i]->set_stream(handle->of[i].handle, stream) && is_set;
    }
  }
  return is_set;
}

static void pool_destroy(crk_blas_pool_t *pool, crk_device_t last) {
  while (pool->idle != NULL) {
    crk_blas_handle_t *handle = pool->idle;
    pool->idle = handle->next;
    handle_destroy(last, handle);
  }
  crk_blas_pool_t **link = &pools;
  while (*link != pool) {
    link = &(*link)->next;
  }
  *link = pool->next;
  free(pool);
}

/* Gives the device handle one that nobody has, made where there is none; fails as handle_create does. */
static crk_status_t take_handle(crk_device_t self) {
  crk_blas_pool_t *pool = self->blas.pool;
  CRK_TRY(self->driver->bind(self->driver_device));
  if (pool->idle == NULL) {
    CRK_TRY(handle_create(self, &pool->idle));
  }
  if (!handle_set_stream(self, pool->idle, self->stream)) {
    return CRK_NOT_FOUND;
  }
  self->blas.handle = pool->idle;
  pool->idle = pool->idle->next;
  return CRK_OK;
}

/* The device handle's stream is about to go. */
static void give_handle_back(crk_device_t self) {
  crk_blas_handle_t *handle = self->blas.handle;
  handle_set_stream(self, handle, NULL);
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
  atomic_init(&self->blas.state, libraries_of(self)[0] == NULL ? ABSENT : UNKNOWN);
  return CRK_OK;
}

void crk_priv_blas_deinit(crk_device_t self) {
  self->driver->bind(self->driver_device);
  crk_priv_mutex_lock(&lock);
  if (self->blas.handle != NULL) {
    give_handle_back(self);
  }
  if (--self->blas.pool->devices == 0) {
    pool_destroy(self->blas.pool, self);
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

/* Takes a handle at the first call at which there is one, or one may be made and memory lasts. The caller holds blas.lock. */
static bool is_ready(crk_device_t self) {
  crk_blas_t *blas = &self->blas;
  if (atomic_load_explicit(&blas->state, memory_order_relaxed) == UNKNOWN) {
    crk_priv_mutex_lock(&lock);
    if (blas->pool->idle != NULL || blas->pool->captures == 0) {
      const crk_status_t status = take_handle(self);
      if (status != CRK_OUT_OF_MEMORY) {
        atomic_store_explicit(&blas->state, status == CRK_OK ? READY : ABSENT, memory_order_relaxed);
      }
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
  bool done = false;
  crk_priv_mutex_lock(&self->blas.lock);
  if (is_ready(self) && self->driver->bind(self->driver_device) == CRK_OK) {
    const crk_blas_handle_t *handle = self->blas.handle;
    for (size_t i = 0; i < LIBRARIES && !done; i++) {
      done = handle->of[i].handle != NULL && libraries_of(self)[i]->multiply(handle->of[i].handle, gemm);
    }
  }
  crk_priv_mutex_unlock(&self->blas.lock);
  return done;
}

crk_status_t crk_device_blas(crk_device_t self, const char **name) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_blas");
  CRK_REFUSE_IF(name == NULL, "crk_device_blas: name is NULL");
  const char *found = "own kernels";
  if (may_be_there(self)) {
    crk_priv_mutex_lock(&self->blas.lock);
    if (is_ready(self)) {
      const size_t first = self->blas.handle->of[0].handle == NULL;
      found = libraries_of(self)[first]->name;
    }
    crk_priv_mutex_unlock(&self->blas.lock);
  }
  *name = found;
  return CRK_OK;
}
