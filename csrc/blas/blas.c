/* The choice of the BLAS libraries for a device handle, and the handles of these libraries.
 *
 * A library waits for the whole GPU while it makes or destroys a handle. That wait would invalidate a capture by
 * another thread. So library handles are made and destroyed only while nothing is captured on the GPU. A device handle
 * borrows a library handle from the pool of its GPU. The pool keeps one idle library handle until the last device
 * handle on the GPU closes.
 *
 * The libraries of a device handle share a workspace, because they work on one stream, one product after the other. */
#include "blas/blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

/* The states of a device handle. UNKNOWN: its next product looks for libraries. SHORT: memory for them was short;
 * crk_device_blas tries again, products do not. */
enum { UNKNOWN, READY, SHORT, ABSENT };

enum { LIBRARIES = 2 }; /* the most libraries of a device */

/* A handle of each library of a device. */
struct crk_blas_handle {
  struct crk_blas_handle *next; /* in the pool */
  void *workspace; /* NULL where no library takes one */
  void *of[LIBRARIES]; /* NULL where the library is missing */
};

/* The handles of a GPU. Like the driver's device it lives as long as the process. */
struct crk_blas_pool {
  struct crk_blas_pool *next;
  const crk_driver_device_t *gpu;
  crk_mutex_t
      lock; /* guards `devices` and `idle`; held while a handle is made or destroyed, so that no capture begins */
  uint32_t devices; /* open device handles */
  crk_blas_handle_t *idle;
  atomic_uint captures; /* device handles that are captured, or about to be; grows under `lock` */
};

/* Guards the list of pools, the opening of libraries, and `setting`. A product takes it only while its device handle
 * has no libraries yet. */
static crk_mutex_t blas_lock = CRK_MUTEX_INIT;
static crk_blas_pool_t *pools;

/* The environment variable CANDLE_ROCM_BLAS, read once: "0" for no library, else the file to open. */
static struct {
  bool is_read, is_off;
  char named[4096];
} setting;

static void read_setting(void) {
  setting.is_read = true;
  setting.is_off =
      crk_priv_variable("CANDLE_ROCM_BLAS", setting.named, sizeof setting.named) && strcmp(setting.named, "0") == 0;
}

/* Opens the library on the first call. False where it is missing or lacks a function. */
static bool load_blas_library(crk_backend_t backend, crk_blas_library_t *library) {
  if (!setting.is_read) {
    read_setting();
  }
  if (!library->is_tried && !setting.is_off) {
    const bool is_hip = backend == CRK_BACKEND_HIP;
    char why[800] = "";
    const crk_library_t search = {.stem = library->stem,
                                  .vendor = is_hip ? &crk_priv_rocm : &crk_priv_cuda,
                                  .named = setting.named,
                                  .symbols = library->symbols,
                                  .functions = library->functions,
                                  .runtime = is_hip ? crk_priv_hip_library() : NULL};
    library->is_tried = true;
    library->is_loaded = crk_priv_library_find(&search, library->found, sizeof library->found, why, sizeof why) != NULL;
    if (!library->is_loaded) {
      snprintf(library->found, sizeof library->found, "%s", why);
    }
  }
  return library->is_loaded;
}

/* Whether the library has kernels for the architecture. Without them rocBLAS ends the process, and hipBLASLt writes to
 * stderr. The kernels are files with the architecture in their names. They are in the folder that kernels_variable
 * names. Otherwise they are beside the library, in FOLDER/library, FOLDER/VERSION/library or
 * FOLDER/library/ARCHITECTURE. */
static bool has_kernel_files(const crk_blas_library_t *library, const char *architecture) {
  if (library->kernels_folder == NULL) {
    return true;
  }
  char folder[4096];
  if (crk_priv_variable(library->kernels_variable, folder, sizeof folder)) {
    return crk_priv_folder_has(folder, architecture, 0);
  }
  void *symbol;
  memcpy(&symbol, library->functions, sizeof symbol);
  if (!crk_priv_library_folder(symbol, folder, sizeof folder - strlen(library->kernels_folder))) {
    return false;
  }
  strcat(folder, library->kernels_folder);
  return crk_priv_folder_has(folder, architecture, 2);
}

/* The libraries for a device, in order of preference; ends with NULL. */
static crk_blas_library_t *const *libraries_for(crk_backend_t backend) {
  static crk_blas_library_t *const hip[LIBRARIES + 1] = {&crk_priv_hipblaslt, &crk_priv_rocblas};
  static crk_blas_library_t *const cuda[LIBRARIES + 1] = {&crk_priv_cublas};
  static crk_blas_library_t *const none[LIBRARIES + 1] = {NULL};
  return backend == CRK_BACKEND_HIP ? hip : backend == CRK_BACKEND_CUDA ? cuda : none;
}

static crk_blas_library_t *const *libraries_of(crk_device_t self) { return libraries_for(self->driver->backend); }

bool crk_priv_blas_look(crk_backend_t backend, size_t index, const char *architecture, crk_blas_view_t *view) {
  crk_blas_library_t *const *libraries = libraries_for(backend);
  for (size_t i = 0; i <= index; i++) {
    if (libraries[i] == NULL) {
      return false;
    }
  }
  crk_blas_library_t *library = libraries[index];
  crk_priv_mutex_lock(&blas_lock);
  view->name = library->name;
  view->is_loaded = load_blas_library(backend, library);
  view->has_kernels = view->is_loaded && has_kernel_files(library, architecture);
  snprintf(view->found, sizeof view->found, "%s", setting.is_off ? "CANDLE_ROCM_BLAS is 0" : library->found);
  crk_priv_mutex_unlock(&blas_lock);
  return true;
}

/* ---- library handles; the caller holds the lock of the pool */

/* The size of the workspace: what rocBLAS allocates by itself, 128 MiB on gfx94x and later gfx9, else 32 MiB (its
 * handle.hpp: DEFAULT_DEVICE_MEMORY_SIZE_EXTENDED and DEFAULT_DEVICE_MEMORY_SIZE). This is enough for hipBLASLt too,
 * with up to 256 x 256 sums per compute unit: 76 MiB on gfx942, 26 MiB on gfx90a. */
static size_t workspace_bytes(crk_device_t self) {
  const char *architecture = self->context->info.architecture;
  return strncmp(architecture, "gfx9", 4) == 0 && architecture[4] >= '4' ? (size_t)128 << 20 : (size_t)32 << 20;
}

/* Makes a handle of one library, which allocates up to workspace_bytes of device memory for it. Where memory is short,
 * this function allocates that much, which empties the caches, frees it again, and asks the library once more. */
static crk_status_t library_create(crk_device_t self, const crk_blas_library_t *library, void *workspace,
                                   void **handle) {
  const size_t bytes = workspace_bytes(self);
  crk_status_t status = library->create(workspace, bytes, handle);
  void *room;
  if (status == CRK_OUT_OF_MEMORY && crk_priv_heap_driver_alloc(self, bytes, &room) == CRK_OK) {
    self->driver->free(self->driver_device, room);
    status = library->create(workspace, bytes, handle);
  }
  return status;
}

static void blas_handle_destroy(crk_device_t self, crk_blas_handle_t *handle) {
  for (size_t i = 0; i < LIBRARIES; i++) {
    if (handle->of[i] != NULL) {
      libraries_of(self)[i]->destroy(handle->of[i]);
    }
  }
  if (handle->workspace != NULL) {
    self->driver->free(self->driver_device, handle->workspace);
  }
  free(handle);
}

/* Makes a handle of each library that is present. CRK_NOT_FOUND where there is none, CRK_OUT_OF_MEMORY where memory was
 * too short for all. */
static crk_status_t blas_handle_create(crk_device_t self, crk_blas_handle_t **handle) {
  crk_blas_library_t *const *libraries = libraries_of(self);
  bool is_usable[LIBRARIES] = {false}, takes_workspace = false, is_any = false;
  crk_priv_mutex_lock(&blas_lock);
  for (size_t i = 0; libraries[i] != NULL; i++) {
    is_usable[i] = load_blas_library(self->driver->backend, libraries[i]) &&
                   has_kernel_files(libraries[i], self->context->info.architecture);
    is_any = is_any || is_usable[i];
    takes_workspace = takes_workspace || (is_usable[i] && libraries[i]->takes_workspace);
  }
  crk_priv_mutex_unlock(&blas_lock);
  if (!is_any) {
    return CRK_NOT_FOUND;
  }
  crk_blas_handle_t *fresh = calloc(1, sizeof *fresh);
  if (fresh == NULL) {
    return CRK_OUT_OF_MEMORY;
  }
  if (takes_workspace && crk_priv_heap_driver_alloc(self, workspace_bytes(self), &fresh->workspace) != CRK_OK) {
    free(fresh);
    return CRK_OUT_OF_MEMORY;
  }
  crk_status_t status = CRK_NOT_FOUND;
  for (size_t i = 0; libraries[i] != NULL; i++) {
    if (!is_usable[i]) {
      continue;
    }
    const crk_status_t created = library_create(self, libraries[i], fresh->workspace, &fresh->of[i]);
    if (created == CRK_OK || status == CRK_NOT_FOUND) {
      status = created;
    }
  }
  if (status != CRK_OK) {
    blas_handle_destroy(self, fresh);
    return status;
  }
  *handle = fresh;
  return CRK_OK;
}

static bool blas_handle_set_stream(crk_device_t self, const crk_blas_handle_t *handle, void *stream) {
  bool is_set = true;
  for (size_t i = 0; i < LIBRARIES; i++) {
    if (handle->of[i] != NULL) {
      is_set = libraries_of(self)[i]->set_stream(handle->of[i], stream) && is_set;
    }
  }
  return is_set;
}

/* Gives the device handle an idle library handle, or a new one where there is none. Fails as blas_handle_create
 * does. */
static crk_status_t take_blas_handle(crk_device_t self) {
  crk_blas_pool_t *pool = self->blas.pool;
  CRK_TRY(self->driver->bind(self->driver_device));
  if (pool->idle == NULL) {
    CRK_TRY(blas_handle_create(self, &pool->idle));
  }
  if (!blas_handle_set_stream(self, pool->idle, crk_priv_stream(self))) {
    return CRK_NOT_FOUND;
  }
  self->blas.handle = pool->idle;
  pool->idle = pool->idle->next;
  return CRK_OK;
}

/* Destroys idle library handles, except `kept` of them. Stops as soon as something is captured on the GPU. */
static void destroy_idle(crk_device_t self, size_t kept) {
  crk_blas_handle_t **link = &self->blas.pool->idle;
  for (; *link != NULL && kept > 0; kept--) {
    link = &(*link)->next;
  }
  while (*link != NULL && atomic_load(&self->blas.pool->captures) == 0) {
    crk_blas_handle_t *handle = *link;
    *link = handle->next;
    blas_handle_destroy(self, handle);
  }
}

/* ---- device handles */

/* The pool of the GPU, which the first call makes; NULL without host memory. The caller holds `blas_lock`. */
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
      crk_priv_mutex_init(&pool->lock);
      atomic_init(&pool->captures, 0);
      pools = pool;
    }
  }
  return pool;
}

crk_status_t crk_priv_blas_init(crk_device_t self) {
  crk_priv_mutex_lock(&blas_lock);
  crk_blas_pool_t *pool = pool_of(self->driver_device);
  crk_priv_mutex_unlock(&blas_lock);
  if (pool == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_device_open: no host memory for the device handle");
  }
  crk_priv_mutex_lock(&pool->lock);
  pool->devices++;
  crk_priv_mutex_unlock(&pool->lock);
  self->blas.pool = pool;
  crk_priv_mutex_init(&self->blas.lock);
  atomic_init(&self->blas.state, libraries_of(self)[0] == NULL ? ABSENT : UNKNOWN);
  return CRK_OK;
}

void crk_priv_blas_deinit(crk_device_t self) {
  crk_blas_pool_t *pool = self->blas.pool;
  crk_blas_handle_t *handle = self->blas.handle;
  self->driver->bind(self->driver_device);
  crk_priv_mutex_lock(&pool->lock);
  if (handle != NULL) {
    /* The stream is about to be destroyed. */
    blas_handle_set_stream(self, handle, NULL);
    handle->next = pool->idle;
    pool->idle = handle;
  }
  pool->devices--;
  destroy_idle(self, pool->devices > 0);
  crk_priv_mutex_unlock(&pool->lock);
  crk_priv_mutex_deinit(&self->blas.lock);
}

void crk_priv_blas_capture_begin(crk_device_t self) {
  crk_priv_mutex_lock(&self->blas.pool->lock);
  atomic_fetch_add(&self->blas.pool->captures, 1);
  crk_priv_mutex_unlock(&self->blas.pool->lock);
}

void crk_priv_blas_capture_end(crk_device_t self) { atomic_fetch_sub(&self->blas.pool->captures, 1); }

static int blas_state(crk_device_t self) { return atomic_load_explicit(&self->blas.state, memory_order_relaxed); }

/* Takes a library handle, if one is idle or may be made now. The caller holds blas.lock. */
static void find_blas_handle(crk_device_t self) {
  crk_blas_pool_t *pool = self->blas.pool;
  crk_priv_mutex_lock(&pool->lock);
  if (pool->idle != NULL || atomic_load(&pool->captures) == 0) {
    const crk_status_t status = take_blas_handle(self);
    const int state = status == CRK_OK ? READY : status == CRK_OUT_OF_MEMORY ? SHORT : ABSENT;
    atomic_store_explicit(&self->blas.state, state, memory_order_relaxed);
  }
  crk_priv_mutex_unlock(&pool->lock);
}

bool crk_priv_blas_is_ready(crk_device_t self) {
  if (blas_state(self) == UNKNOWN) {
    crk_priv_mutex_lock(&self->blas.lock);
    if (blas_state(self) == UNKNOWN) {
      find_blas_handle(self);
    }
    crk_priv_mutex_unlock(&self->blas.lock);
  }
  return blas_state(self) == READY;
}

bool crk_priv_blas_multiply(crk_device_t self, const crk_gemm_t *gemm) {
  const int state = blas_state(self);
  if (state == SHORT || state == ABSENT) {
    return false;
  }
  bool done = false;
  crk_priv_mutex_lock(&self->blas.lock);
  if (blas_state(self) == UNKNOWN) {
    find_blas_handle(self);
  }
  const crk_blas_handle_t *handle = self->blas.handle;
  if (handle != NULL && self->driver->bind(self->driver_device) == CRK_OK) {
    (void)crk_priv_stream(self); /* the library has it, and launches that are kept go first */
    for (size_t i = 0; i < LIBRARIES && !done; i++) {
      done = handle->of[i] != NULL && libraries_of(self)[i]->multiply(handle->of[i], gemm);
    }
  }
  crk_priv_mutex_unlock(&self->blas.lock);
  return done;
}

crk_status_t crk_device_blas(crk_device_t self, const char **name) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_blas");
  CRK_REFUSE_IF(name == NULL, "crk_device_blas: name is NULL");
  const char *found = "own kernels";
  if (blas_state(self) != ABSENT) {
    crk_priv_mutex_lock(&self->blas.lock);
    const crk_blas_handle_t *handle = self->blas.handle;
    if (handle == NULL) {
      find_blas_handle(self);
      handle = self->blas.handle;
    }
    if (handle != NULL) {
      found = libraries_of(self)[handle->of[0] == NULL]->name;
    }
    crk_priv_mutex_unlock(&self->blas.lock);
  }
  *name = found;
  return CRK_OK;
}
