/* Modules, functions and launches of the HIP driver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/hip/hip_calls.h"
#include "driver/hip/hip_driver.h"
#include "image/code_object.h"
#include "image/images.h"
#include "image/unpack.h"
#include "os/os.h"

struct crk_driver_module {
  void *handle;
  void *image; /* the runtime may read it until the module is unloaded */
  crk_code_kernels_t *kernels; /* has no pointers into `image`; NULL where the code object has no such metadata */
  crk_mutex_t lock; /* guards `functions` */
  crk_driver_function_t *functions;
};

/* The files of CANDLE_ROCM_HSACO_DIR, read once and kept for the life of the process, like embedded code. */
static struct {
  crk_mutex_t lock;
  crk_image_t images[CRK_MODULE_COUNT];
} override = {CRK_MUTEX_INIT, {{NULL, 0}}};

/* The contents of a file; {NULL, 0} where it cannot be read. */
static crk_image_t read_file(const char *path) {
  crk_image_t image = {NULL, 0};
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    return image;
  }
  size_t capacity = (size_t)1 << 16, used = 0;
  unsigned char *data = malloc(capacity);
  while (data != NULL) {
    used += fread(data + used, 1, capacity - used, file);
    if (used < capacity) {
      break;
    }
    capacity *= 2;
    unsigned char *more = realloc(data, capacity);
    if (more == NULL) {
      free(data);
    }
    data = more;
  }
  if (data != NULL && ferror(file)) {
    free(data);
    data = NULL;
  }
  fclose(file);
  if (data != NULL) {
    image.data = data;
    image.bytes = used;
  }
  return image;
}

/* With the environment variable CANDLE_ROCM_HSACO_DIR, the files <dir>/<module>.hsaco replace the embedded images, for
 * work on a kernel and for tests. A module without a file there has no code. */
crk_image_t crk_priv_hip_builtin(size_t index) {
  const char *folder = getenv("CANDLE_ROCM_HSACO_DIR");
  if (folder == NULL || folder[0] == 0) {
    return crk_priv_images_hip[index];
  }
  crk_priv_mutex_lock(&override.lock);
  if (override.images[index].data == NULL) {
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/%s.hsaco", folder, crk_priv_module_name(index));
    if (length > 0 && (size_t)length < sizeof path) {
      override.images[index] = read_file(path);
    }
  }
  const crk_image_t image = override.images[index];
  crk_priv_mutex_unlock(&override.lock);
  return image;
}

static void hip_destroy_module(crk_driver_module_t *module) {
  if (module != NULL) {
    for (crk_driver_function_t *function = module->functions; function != NULL;) {
      crk_driver_function_t *next = function->next;
      free(function);
      function = next;
    }
    crk_priv_code_kernels_destroy(module->kernels);
    crk_priv_aligned_free(module->image);
    crk_priv_mutex_deinit(&module->lock);
    free(module);
  }
}

static crk_status_t hip_module_load_failed(int code, const char *name, const crk_driver_device_t *device,
                                           const char *generic) {
  const crk_status_t status = crk_priv_hip_failed(code, "module %s: hipModuleLoadData on a %s", name, device->target);
  int version = 0;
  if (generic != NULL && status != CRK_OUT_OF_MEMORY && crk_priv_hip.hipRuntimeGetVersion(&version) == HIP_SUCCESS &&
      version < CRK_HIP_VERSION_GENERIC) {
    return crk_priv_advise(
        crk_priv_error(CRK_WRONG_ARCHITECTURE,
                       "%s; the code is for %s, which needs ROCm %d.%d or later, and this HIP runtime has version "
                       "%d.%d",
                       crk_last_error(), generic, CRK_HIP_VERSION_MAJOR(CRK_HIP_VERSION_GENERIC),
                       CRK_HIP_VERSION_MINOR(CRK_HIP_VERSION_GENERIC), CRK_HIP_VERSION_MAJOR(version),
                       CRK_HIP_VERSION_MINOR(version)),
        "update ROCm, or take code for %.*s", (int)strcspn(device->target, ":"), device->target);
  }
  switch (code) {
    case HIP_NO_BINARY_FOR_GPU:
      return crk_priv_error(CRK_WRONG_ARCHITECTURE, "%s", crk_last_error());
    case HIP_INVALID_IMAGE:
    case HIP_INVALID_KERNEL_FILE:
      return crk_priv_error(CRK_INVALID_IMAGE, "%s", crk_last_error());
    default:
      return status;
  }
}

/* Copies the ELF for a device to memory of its own. The runtime gets no size, and keeps pointers into the ELF. So the
 * ELF must be complete and aligned, and must live as long as the module. Free its data with crk_priv_aligned_free. */
static crk_status_t hip_take_elf(const crk_driver_device_t *device, const char *name, const void *data, size_t bytes,
                                 crk_image_t *elf) {
  if (crk_priv_is_packed(data, bytes)) {
    return crk_priv_unpack_elf(name, device->target, data, bytes, elf);
  }
  crk_image_t bundle = {NULL, 0}, found = {NULL, 0};
  CRK_TRY(crk_priv_bundle_decompress(name, data, bytes, &bundle));
  crk_status_t status = crk_priv_code_object_find(name, device->target, bundle.data, bundle.bytes, &found);
  void *copy = status == CRK_OK ? crk_priv_aligned_alloc(found.bytes) : NULL;
  if (copy != NULL) {
    memcpy(copy, found.data, found.bytes);
    elf->data = copy;
    elf->bytes = found.bytes;
  } else if (status == CRK_OK) {
    status = crk_priv_error(CRK_OUT_OF_MEMORY, "module %s: no host memory for its %zu bytes", name, found.bytes);
  }
  if (bundle.data != data) {
    crk_priv_aligned_free((void *)bundle.data);
  }
  return status;
}

crk_status_t crk_priv_hip_module_load(crk_driver_device_t *device, const char *name, const void *data, size_t bytes,
                                      crk_driver_module_t **module) {
  crk_image_t elf = {NULL, 0};
  CRK_TRY(hip_take_elf(device, name, data, bytes, &elf));
  crk_driver_module_t *fresh = calloc(1, sizeof *fresh);
  if (fresh == NULL) {
    crk_priv_aligned_free((void *)elf.data);
    return crk_priv_error(CRK_OUT_OF_MEMORY, "module %s: no host memory for its description", name);
  }
  fresh->image = (void *)elf.data;
  crk_priv_mutex_init(&fresh->lock);
  crk_status_t status = crk_priv_hip_bind(device);
  if (status != CRK_OK) {
    goto fail;
  }
  status = crk_priv_code_kernels_create(name, elf, &fresh->kernels);
  if (status != CRK_OK) {
    goto fail;
  }
  const int code = crk_priv_hip.hipModuleLoadData(&fresh->handle, fresh->image);
  if (code != HIP_SUCCESS) {
    status = hip_module_load_failed(code, name, device, crk_priv_code_object_generic(elf));
    goto fail;
  }
  *module = fresh;
  return CRK_OK;

fail:
  hip_destroy_module(fresh);
  return status;
}

void crk_priv_hip_module_unload(crk_driver_device_t *device, crk_driver_module_t *module) {
  RELEASE(device, crk_priv_hip.hipModuleUnload(module->handle));
  hip_destroy_module(module);
}

crk_status_t crk_priv_hip_module_function(crk_driver_device_t *device, crk_driver_module_t *module, const char *name,
                                          crk_driver_function_t **function, crk_signature_t *signature) {
  const crk_code_kernel_t *kernel = NULL;
  if (module->kernels != NULL) {
    kernel = crk_priv_code_kernels_find(module->kernels, name);
    if (kernel == NULL) {
      return CRK_NOT_FOUND;
    }
  }
  CRK_TRY(crk_priv_hip_bind(device));
  void *handle = NULL;
  const int code = crk_priv_hip.hipModuleGetFunction(&handle, module->handle, name);
  if (code == HIP_NOT_FOUND) {
    crk_priv_hip_forget_error();
    return CRK_NOT_FOUND;
  }
  HIP_TRY(code, "hipModuleGetFunction(%s)", name);
  crk_driver_function_t *fresh = calloc(1, sizeof *fresh);
  if (fresh == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "kernel %s: no host memory for its description", name);
  }
  fresh->handle = handle;
  crk_priv_mutex_lock(&module->lock);
  fresh->next = module->functions;
  module->functions = fresh;
  crk_priv_mutex_unlock(&module->lock);
  *function = fresh;
  const crk_signature_t unknown = {NULL, 0, 0, 0, 0};
  *signature = unknown;
  if (kernel != NULL) {
    signature->params = kernel->params;
    signature->count = kernel->param_count;
    signature->max_threads = kernel->max_threads;
    signature->shared_bytes = kernel->shared_bytes;
    signature->registers = kernel->registers;
  }
  return CRK_OK;
}

crk_status_t crk_priv_hip_launch(crk_driver_device_t *device, crk_driver_stream_t *stream,
                                 crk_driver_function_t *function, crk_dim3_t grid, crk_dim3_t block,
                                 uint32_t shared_bytes, const void *const *args) {
  CRK_TRY(crk_priv_hip_bind(device));
  HIP_TRY(crk_priv_hip.hipModuleLaunchKernel(function->handle, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                             shared_bytes, stream, crk_priv_driver_args(args), NULL),
          "hipModuleLaunchKernel(grid %u x %u x %u, block %u x %u x %u, %u bytes shared)", grid.x, grid.y, grid.z,
          block.x, block.y, block.z, shared_bytes);
  return CRK_OK;
}
