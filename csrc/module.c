/* Modules and functions: load modules on first use, find functions by name, keep both for the context's lifetime. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "image/images.h"
#include "image/unpack.h"
#include "rtc.h"

#define NAME_BYTES 128

/* Candle's kernel names spell F8E4M3 in these ways. */
static const char *const f8_spellings[] = {"fp8_e4m3", "f8_e4m3", "f8e4m3"};
enum { F8_SPELLINGS = sizeof f8_spellings / sizeof f8_spellings[0] };

size_t crk_module_count(void) { return CRK_MODULE_COUNT; }

const char *crk_module_name(size_t index) { return index < CRK_MODULE_COUNT ? crk_priv_module_name(index) : NULL; }

/* Returns the index of a built-in module; CRK_MODULE_COUNT if there is none of this name. */
static size_t builtin_index(const char *name) {
  size_t i = 0;
  while (i < CRK_MODULE_COUNT && strcmp(name, crk_priv_module_name(i)) != 0) {
    i++;
  }
  return i;
}

/* The cargo feature that builds kernels for a backend. */
static const char *feature_of(crk_backend_t backend) {
  return backend == CRK_BACKEND_HIP ? "rocm" : backend == CRK_BACKEND_CUDA ? "cuda" : "cpu";
}

/* The images that crk_module_image has unpacked. They are kept until the process ends. */
static struct {
  crk_mutex_t lock;
  crk_image_t hip[CRK_MODULE_COUNT], cuda[CRK_MODULE_COUNT];
} unpacked = {CRK_MUTEX_INIT, {{NULL, 0}}, {{NULL, 0}}};

crk_status_t crk_module_image(const char *module, crk_backend_t backend, crk_image_t *image) {
  CRK_REFUSE_IF(module == NULL, "crk_module_image: module is NULL");
  CRK_REFUSE_IF(image == NULL, "crk_module_image: image is NULL");
  const size_t index = builtin_index(module);
  if (index == CRK_MODULE_COUNT) {
    return crk_priv_error(CRK_NOT_FOUND,
                          "crk_module_image: this library has no module '%.64s'; crk_module_name lists its modules",
                          module);
  }
  CRK_REFUSE_IF(backend != CRK_BACKEND_HIP && backend != CRK_BACKEND_CUDA,
                "crk_module_image: backend %d has no images; allowed are CRK_BACKEND_HIP and CRK_BACKEND_CUDA",
                (int)backend);
  const bool is_hip = backend == CRK_BACKEND_HIP;
  const crk_image_t packed = (is_hip ? crk_priv_images_hip : crk_priv_images_cuda)[index];
  if (packed.data == NULL) {
    return crk_priv_error(CRK_NO_RUNTIME,
                          "crk_module_image: this build has no kernels for %s (the crate's feature '%s')",
                          is_hip ? "HIP" : "CUDA", feature_of(backend));
  }
  crk_priv_mutex_lock(&unpacked.lock);
  crk_image_t *kept = &(is_hip ? unpacked.hip : unpacked.cuda)[index];
  const crk_status_t status =
      kept->data == NULL ? crk_priv_unpack(crk_priv_module_name(index), packed.data, packed.bytes, kept) : CRK_OK;
  const crk_image_t whole = *kept;
  crk_priv_mutex_unlock(&unpacked.lock);
  CRK_TRY(status);
  *image = whole;
  return CRK_OK;
}

/* ---- loading; the caller holds the context's lock */

static crk_status_t module_create(crk_context_t *context, const char *name, const void *data, size_t bytes,
                                  crk_module_t **module) {
  const size_t length = strlen(name);
  crk_module_t *self = calloc(1, sizeof *self + length + 1);
  if (self == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "module '%s': no host memory to describe it", name);
  }
  memcpy(self->name, name, length + 1);
  const crk_status_t status =
      context->driver->module_load(context->driver_device, name, data, bytes, &self->driver_module);
  if (status != CRK_OK) {
    free(self);
    return status;
  }
  *module = self;
  return CRK_OK;
}

static void module_destroy(crk_context_t *context, crk_module_t *self) {
  context->driver->module_unload(context->driver_device, self->driver_module);
  free(self);
}

static crk_module_t *find_user_module(const crk_context_t *context, const char *name) {
  crk_module_t *module = context->user;
  while (module != NULL && strcmp(module->name, name) != 0) {
    module = module->next;
  }
  return module;
}

/* Loads a built-in module, if that has not happened yet. */
static crk_status_t load_builtin(const char *where, crk_context_t *context, size_t index) {
  if (context->builtin[index] != NULL) {
    return CRK_OK;
  }
  const crk_image_t image = context->driver->builtin(index);
  if (image.data == NULL) {
    char folder[256];
    if (context->driver->backend == CRK_BACKEND_HIP &&
        crk_priv_variable("CANDLE_ROCM_HSACO_DIR", folder, sizeof folder)) {
      return crk_priv_error(CRK_NO_RUNTIME,
                            "%s: CANDLE_ROCM_HSACO_DIR=%s has no readable file %s.hsaco; add it, or unset the variable",
                            where, folder, crk_priv_module_name(index));
    }
    return crk_priv_error(CRK_NO_RUNTIME,
                          "%s: this build has no kernels of module '%s' for %s (the crate's feature '%s')", where,
                          crk_priv_module_name(index), context->info.name, feature_of(context->driver->backend));
  }
  const crk_status_t status =
      module_create(context, crk_priv_module_name(index), image.data, image.bytes, &context->builtin[index]);
  if (status == CRK_WRONG_ARCHITECTURE && context->driver->backend == CRK_BACKEND_HIP) {
    return crk_priv_advise(status, "build with CANDLE_ROCM_ARCHS=%s", context->info.architecture);
  }
  return status;
}

static crk_status_t find_module(crk_context_t *context, const char *name, crk_module_t **module) {
  const size_t index = builtin_index(name);
  if (index == CRK_MODULE_COUNT) {
    *module = find_user_module(context, name);
    return *module != NULL
               ? CRK_OK
               : crk_priv_error(
                     CRK_NOT_FOUND,
                     "crk_function_get: module '%.64s' is not built in and was not loaded; see crk_module_load", name);
  }
  CRK_TRY(load_builtin("crk_function_get", context, index));
  *module = context->builtin[index];
  return CRK_OK;
}

/* Copies `name` to `out`, with every spelling of F8E4M3 replaced by `spelling`. Returns false if there is nothing to
 * replace, or the result does not fit. */
static bool respell(const char *name, const char *spelling, char *out) {
  bool replaced = false;
  size_t length = 0;
  while (*name != '\0') {
    size_t taken = 0;
    for (size_t i = 0; i < F8_SPELLINGS && taken == 0; i++) {
      const size_t size = strlen(f8_spellings[i]);
      taken = strncmp(name, f8_spellings[i], size) == 0 ? size : 0;
    }
    const char *from = taken > 0 ? spelling : name;
    const size_t count = taken > 0 ? strlen(spelling) : 1;
    if (length + count >= NAME_BYTES) {
      return false;
    }
    memcpy(out + length, from, count);
    length += count;
    name += taken > 0 ? taken : 1;
    replaced = replaced || taken > 0;
  }
  out[length] = '\0';
  return replaced;
}

static crk_status_t find_in_driver(crk_context_t *context, crk_module_t *module, const char *kernel,
                                   crk_driver_function_t **function, crk_signature_t *signature) {
  const crk_driver_t *driver = context->driver;
  crk_status_t status =
      driver->module_function(context->driver_device, module->driver_module, kernel, function, signature);
  char other[NAME_BYTES];
  for (size_t i = 0; i < F8_SPELLINGS && status == CRK_NOT_FOUND && respell(kernel, f8_spellings[i], other); i++) {
    status = driver->module_function(context->driver_device, module->driver_module, other, function, signature);
  }
  if (status == CRK_NOT_FOUND) {
    return crk_priv_error(CRK_NOT_FOUND, "crk_function_get: module '%s' has no kernel '%.96s'", module->name, kernel);
  }
  return status;
}

/* FNV-1a of "<module>/<kernel>". */
static uint32_t hash_of(const char *module, const char *kernel) {
  uint32_t hash = 2166136261u;
  for (; *module != '\0'; module++) {
    hash = (hash ^ (uint8_t)*module) * 16777619u;
  }
  hash = (hash ^ '/') * 16777619u;
  for (; *kernel != '\0'; kernel++) {
    hash = (hash ^ (uint8_t)*kernel) * 16777619u;
  }
  return hash;
}

static crk_status_t function_create(crk_context_t *context, const char *module_name, const char *kernel,
                                    crk_function_t *function) {
  crk_module_t *module;
  CRK_TRY(find_module(context, module_name, &module));
  const size_t length = strlen(kernel);
  CRK_REFUSE_IF(length >= NAME_BYTES, "crk_function_get: kernel is a name of %zu bytes, the most is %d", length,
                NAME_BYTES - 1);
  crk_function_t self = calloc(1, sizeof *self + length + 1);
  if (self == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_function_get: no host memory for '%s'", kernel);
  }
  const crk_status_t status = find_in_driver(context, module, kernel, &self->driver_function, &self->signature);
  if (status != CRK_OK) {
    free(self);
    return status;
  }
  memcpy(self->name, kernel, length + 1);
  self->context = context;
  self->module = module;
  self->magic = CRK_MAGIC_FUNCTION;
  *function = self;
  return CRK_OK;
}

static crk_status_t find_function(crk_context_t *context, const char *module, const char *kernel,
                                  crk_function_t *function) {
  const uint32_t hash = hash_of(module, kernel);
  crk_function_t *bucket = &context->functions[hash % CRK_FUNCTION_BUCKETS];
  for (crk_function_t found = *bucket; found != NULL; found = found->next) {
    if (found->hash == hash && strcmp(found->name, kernel) == 0 && strcmp(found->module->name, module) == 0) {
      *function = found;
      return CRK_OK;
    }
  }
  crk_function_t created = NULL;
  CRK_TRY(function_create(context, module, kernel, &created));
  created->hash = hash;
  created->next = *bucket;
  *bucket = created;
  *function = created;
  return CRK_OK;
}

crk_status_t crk_priv_function_get(crk_context_t *context, const char *module, const char *kernel,
                                   crk_function_t *function) {
  crk_priv_mutex_lock(&context->lock);
  const crk_status_t status = find_function(context, module, kernel, function);
  crk_priv_mutex_unlock(&context->lock);
  return status;
}

crk_status_t crk_priv_module_load(const char *where, crk_context_t *context, size_t index) {
  crk_priv_mutex_lock(&context->lock);
  const crk_status_t status = load_builtin(where, context, index);
  crk_priv_mutex_unlock(&context->lock);
  return status;
}

void crk_priv_modules_deinit(crk_context_t *context) {
  for (size_t i = 0; i < CRK_FUNCTION_BUCKETS; i++) {
    for (crk_function_t function = context->functions[i], next; function != NULL; function = next) {
      next = function->next;
      function->magic = 0;
      free(function);
    }
  }
  for (size_t i = 0; i < CRK_MODULE_COUNT; i++) {
    if (context->builtin[i] != NULL) {
      module_destroy(context, context->builtin[i]);
    }
  }
  for (crk_module_t *module = context->user, *next; module != NULL; module = next) {
    next = module->next;
    module_destroy(context, module);
  }
}

/* ---- the public functions */

crk_status_t crk_function_get(crk_device_t self, const char *module, const char *kernel, crk_function_t *function) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_function_get");
  CRK_REFUSE_IF(module == NULL, "crk_function_get: module is NULL");
  CRK_REFUSE_IF(kernel == NULL, "crk_function_get: kernel is NULL");
  CRK_REFUSE_IF(function == NULL, "crk_function_get: function is NULL");
  return crk_priv_function_get(self->context, module, kernel, function);
}

/* Fails if a user's module must not have this name. */
static crk_status_t check_name(const char *where, const char *module) {
  CRK_REFUSE_IF(module == NULL, "%s: module is NULL", where);
  const size_t length = strlen(module);
  CRK_REFUSE_IF(length == 0 || length >= NAME_BYTES, "%s: module is a name of %zu bytes, allowed are 1 to %d", where,
                length, NAME_BYTES - 1);
  CRK_REFUSE_IF(builtin_index(module) != CRK_MODULE_COUNT,
                "%s: module '%s' is one of this library's own; choose another name", where, module);
  return CRK_OK;
}

static crk_status_t check_not_loaded(const char *where, const crk_context_t *context, const char *module) {
  CRK_REFUSE_IF(find_user_module(context, module) != NULL, "%s: module '%s' was loaded before", where, module);
  return CRK_OK;
}

static crk_status_t add_locked(const char *where, crk_context_t *context, const char *module, const void *data,
                               size_t bytes) {
  CRK_TRY(check_not_loaded(where, context, module));
  crk_module_t *loaded;
  CRK_TRY(module_create(context, module, data, bytes, &loaded));
  loaded->next = context->user;
  context->user = loaded;
  return CRK_OK;
}

static crk_status_t add_module(const char *where, crk_device_t self, const char *module, const void *data,
                               size_t bytes) {
  crk_context_t *context = self->context;
  crk_priv_mutex_lock(&context->lock);
  const crk_status_t status = add_locked(where, context, module, data, bytes);
  crk_priv_mutex_unlock(&context->lock);
  return status;
}

crk_status_t crk_module_load(crk_device_t self, const char *module, const void *data, size_t bytes) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_module_load");
  CRK_TRY(check_name("crk_module_load", module));
  CRK_REFUSE_IF(data == NULL, "crk_module_load: data is NULL");
  if (bytes == 0) {
    return crk_priv_error(CRK_INVALID_IMAGE, "crk_module_load: the code object for '%s' has 0 bytes", module);
  }
  CRK_TRY(crk_priv_refuse_capture(self, "crk_module_load"));
  return add_module("crk_module_load", self, module, data, bytes);
}

static crk_status_t compile_module(const char *where, crk_language_t language, crk_device_t self, const char *module,
                                   const char *source, const char *const *options, size_t option_count) {
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(check_name(where, module));
  CRK_REFUSE_IF(source == NULL, "%s: source is NULL", where);
  CRK_REFUSE_IF(source[0] == '\0', "%s: source is empty", where);
  CRK_REFUSE_IF(options == NULL && option_count > 0, "%s: options is NULL", where);
  for (size_t i = 0; i < option_count; i++) {
    CRK_REFUSE_IF(options[i] == NULL, "%s: options[%zu] is NULL", where, i);
  }
  CRK_TRY(crk_priv_refuse_capture(self, where));
  /* The name is checked before the compilation, which takes long. add_module checks it again, because another thread
   * may load a module of that name meanwhile. */
  crk_context_t *context = self->context;
  crk_priv_mutex_lock(&context->lock);
  crk_status_t status = check_not_loaded(where, context, module);
  crk_priv_mutex_unlock(&context->lock);
  CRK_TRY(status);
  void *code = NULL;
  size_t bytes = 0;
  CRK_TRY(crk_priv_rtc_compile(&context->info, language, module, source, options, option_count, &code, &bytes));
  status = add_module(where, self, module, code, bytes);
  free(code);
  return status;
}

crk_status_t crk_module_compile(crk_device_t self, const char *module, const char *source, const char *const *options,
                                size_t option_count) {
  return compile_module("crk_module_compile", CRK_LANGUAGE_HIP, self, module, source, options, option_count);
}

crk_status_t crk_module_compile_cuda(crk_device_t self, const char *module, const char *source,
                                     const char *const *options, size_t option_count) {
  return compile_module("crk_module_compile_cuda", CRK_LANGUAGE_CUDA, self, module, source, options, option_count);
}

crk_status_t crk_function_params(crk_function_t self, size_t *count, crk_param_t *params, size_t capacity) {
  CRK_CHECK_HANDLE(self, FUNCTION, "crk_function_params");
  CRK_REFUSE_IF(count == NULL, "crk_function_params: count is NULL");
  CRK_REFUSE_IF(params == NULL && capacity > 0, "crk_function_params: params is NULL");
  if (self->signature.params == NULL && self->signature.count == 0) {
    return crk_priv_error(CRK_UNSUPPORTED,
                          "crk_function_params: the driver gives no information on the arguments of '%s'", self->name);
  }
  const size_t copied = capacity < self->signature.count ? capacity : self->signature.count;
  if (copied > 0) {
    memcpy(params, self->signature.params, copied * sizeof *params);
  }
  *count = self->signature.count;
  return CRK_OK;
}
