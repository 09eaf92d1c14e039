/* hipRTC and NVRTC: two libraries whose calls differ only in their names. Each library is opened when the first source
 * for it is compiled, and is never closed. */
#include "rtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "error.h"
#include "os/library.h"
#include "rtc_headers.h"

/* XX(field, hipRTC's name, NVRTC's name, parameters). Each call returns 0, or an error code. */
#define CRK_RTC_MAP(XX)                                                                                   \
  XX(create, hiprtcCreateProgram, nvrtcCreateProgram,                                                     \
     (void **program, const char *source, const char *name, int header_count, const char *const *headers, \
      const char *const *include_names))                                                                  \
  XX(compile, hiprtcCompileProgram, nvrtcCompileProgram,                                                  \
     (void *program, int option_count, const char *const *options))                                       \
  XX(log_size, hiprtcGetProgramLogSize, nvrtcGetProgramLogSize, (void *program, size_t *bytes))           \
  XX(log, hiprtcGetProgramLog, nvrtcGetProgramLog, (void *program, char *text))                           \
  XX(code_size, hiprtcGetCodeSize, nvrtcGetCUBINSize, (void *program, size_t *bytes))                     \
  XX(code, hiprtcGetCode, nvrtcGetCUBIN, (void *program, char *code))                                     \
  XX(destroy, hiprtcDestroyProgram, nvrtcDestroyProgram, (void **program))

enum { RTC_OUT_OF_MEMORY = 1, RTC_INVALID_OPTION = 5, RTC_COMPILATION = 6 };

static const char *const hip_symbols[] = {
#define XX(field, hip, nv, parameters) #hip,
    CRK_RTC_MAP(XX) "hiprtcGetErrorString", NULL
#undef XX
};
static const char *const nv_symbols[] = {
#define XX(field, hip, nv, parameters) #nv,
    CRK_RTC_MAP(XX) "nvrtcGetErrorString", NULL
#undef XX
};

typedef struct compiler {
  crk_library_t library;
  const char *arch_option, *extension;
  bool loaded;
  struct { /* in the order of the symbols */
#define XX(field, hip, nv, parameters) int(*field) parameters;
    CRK_RTC_MAP(XX)
#undef XX
    const char *(*error_string)(int code);
  } calls;
} compiler_t;

static compiler_t hiprtc = {
    .library = {.name = "hipRTC",
                .stem = "hiprtc",
                .vendor = &crk_priv_rocm,
                .symbols = hip_symbols,
                .functions = &hiprtc.calls,
                .is_compiler = true,
                .variable = "CANDLE_ROCM_HIPRTC_LIBRARY",
                .remedy = "install ROCm's hipRTC"},
    .arch_option = "--offload-arch",
    .extension = "hip",
};
static compiler_t nvrtc = {
    .library = {.name = "NVRTC",
                .stem = "nvrtc",
                .vendor = &crk_priv_cuda,
                .symbols = nv_symbols,
                .functions = &nvrtc.calls,
                .is_compiler = true,
                .variable = "CANDLE_ROCM_NVRTC_LIBRARY",
                .remedy = "install CUDA's NVRTC"},
    .arch_option = "--gpu-architecture",
    .extension = "cu",
};

/* ---- loading */

static crk_mutex_t load_lock = CRK_MUTEX_INIT;

static crk_status_t load_locked(compiler_t *self, uint32_t runtime_version) {
  if (self->loaded) {
    return CRK_OK;
  }
  if (self == &hiprtc) {
    /* A machine may have several ROCm versions, and hipRTC must belong to the runtime in use. Runtime version 71460850
     * is 7.14. On Windows, hipRTC's file name contains 0714 for it. */
    self->library.runtime = crk_priv_hip_library();
    self->library.version = CRK_HIP_VERSION_MAJOR(runtime_version) * 1000 + CRK_HIP_VERSION_MINOR(runtime_version);
  }
  char path[1024];
  const crk_status_t status = crk_priv_library_load(&self->library, "crk_module_compile", path, sizeof path);
  self->loaded = status == CRK_OK;
  return self->loaded ? CRK_OK
                      : crk_priv_advise(status, "code compiled ahead of time needs no %s: load it with crk_module_load",
                                        self->library.name);
}

static crk_status_t load(compiler_t *self, uint32_t runtime_version) {
  crk_priv_mutex_lock(&load_lock);
  const crk_status_t status = load_locked(self, runtime_version);
  crk_priv_mutex_unlock(&load_lock);
  return status;
}

/* ---- compiling */

/* Reports that a call failed with `code`; `call` is its index in CRK_RTC_MAP. */
static crk_status_t rtc_failed(const compiler_t *self, size_t call, int code) {
  const char *text = self->calls.error_string(code);
  text = text != NULL ? text : "no name";
  if (code == RTC_OUT_OF_MEMORY) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_module_compile: %s answers %d (%s)", self->library.symbols[call],
                          code, text);
  }
  return crk_priv_device_error(code, "crk_module_compile: %s answers %d (%s)", self->library.symbols[call], code, text);
}

enum {
#define XX(field, hip, nv, parameters) CALL_##field,
  CRK_RTC_MAP(XX)
#undef XX
};

/* Returns from the calling function if a call fails. */
#define RTC_TRY(self, call, ...)                               \
  do {                                                         \
    const int rtc_try_code_ = (self)->calls.call(__VA_ARGS__); \
    if (rtc_try_code_ != 0) {                                  \
      return rtc_failed((self), CALL_##call, rtc_try_code_);   \
    }                                                          \
  } while (0)

/* Returns the compiler's log, which the caller frees; NULL if there is none. */
static char *read_log(const compiler_t *self, void *program) {
  size_t bytes = 0;
  if (self->calls.log_size(program, &bytes) != 0 || bytes <= 1) {
    return NULL;
  }
  char *text = calloc(1, bytes + 1);
  if (text != NULL && self->calls.log(program, text) != 0) {
    free(text);
    return NULL;
  }
  return text;
}

/* Reports that the compiler refused the source or an option. The sentence has the log from its first error on, cut off
 * at the length of a sentence. */
static crk_status_t refused(const compiler_t *self, void *program, const char *module, const char *arch, int code) {
  char *log = read_log(self, program);
  const char *from = "it has no log";
  if (log != NULL) {
    size_t length = strlen(log);
    while (length > 0 && (log[length - 1] == '\n' || log[length - 1] == ' ')) {
      log[--length] = '\0';
    }
    const char *error = strstr(log, "error:");
    from = error != NULL ? error : log;
    while (from > log && from[-1] != '\n') {
      from--;
    }
  }
  const bool by_option = code == RTC_INVALID_OPTION;
  const crk_status_t status =
      crk_priv_error(by_option ? CRK_INVALID_ARGUMENT : CRK_INVALID_IMAGE,
                     by_option ? "crk_module_compile: module '%s': %s refuses one of options for %s: %s"
                               : "crk_module_compile: module '%s' does not compile, says %s for %s: %s",
                     module, self->library.name, arch, from);
  free(log);
  return status;
}

static crk_status_t compile(const compiler_t *self, void *program, const char *module, const char *arch,
                            const char *const *options, size_t option_count, void **code, size_t *bytes) {
  const int answer = self->calls.compile(program, (int)option_count, options);
  if (answer == RTC_COMPILATION || answer == RTC_INVALID_OPTION) {
    return refused(self, program, module, arch, answer);
  }
  if (answer != 0) {
    return rtc_failed(self, CALL_compile, answer);
  }
  size_t size = 0;
  RTC_TRY(self, code_size, program, &size);
  if (size == 0) {
    return crk_priv_error(CRK_INVALID_IMAGE, "crk_module_compile: %s produced no code of module '%s' for %s",
                          self->library.name, module, arch);
  }
  char *image = malloc(size);
  if (image == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_module_compile: no host memory for the %zu bytes of module '%s'",
                          size, module);
  }
  const int read = self->calls.code(program, image);
  if (read != 0) {
    free(image);
    return rtc_failed(self, CALL_code, read);
  }
  *code = image;
  *bytes = size;
  return CRK_OK;
}

/* Whether an option names the GPU to compile for. */
static bool names_arch(const char *option) {
  return strncmp(option, "--offload-arch", strlen("--offload-arch")) == 0 ||
         strncmp(option, "--gpu-architecture", strlen("--gpu-architecture")) == 0 ||
         strncmp(option, "-arch", strlen("-arch")) == 0;
}

/* Refuses an option that names another AMD GPU than the device. The device could not load that code, and hipRTC 6.4
 * ends the process if it does not know the GPU. */
static crk_status_t check_arch(const crk_device_info_t *device, const char *option) {
  const char *equals = strchr(option, '=');
  if (device->backend != CRK_BACKEND_HIP || equals == NULL || strstr(equals, "-generic") != NULL) {
    return CRK_OK;
  }
  const size_t length = strcspn(equals + 1, ":");
  if (length != strlen(device->architecture) || strncmp(equals + 1, device->architecture, length) != 0) {
    return crk_priv_error(CRK_WRONG_ARCHITECTURE,
                          "crk_module_compile: option '%.100s' is not for this GPU, a %s; leave it out", option,
                          device->architecture);
  }
  return CRK_OK;
}

/* Refuses PTX: text that begins with `.version`, after comments. */
static crk_status_t check_source(const char *module, const char *source) {
  int line = 1;
  for (const char *at = source; *at != '\0'; at++) {
    if (*at == '\n') {
      line++;
    } else if (at[0] == '/' && at[1] == '/') {
      at += strcspn(at, "\n") - 1;
    } else if (*at != ' ' && *at != '\t' && *at != '\r') {
      if (strncmp(at, ".version", strlen(".version")) != 0) {
        break;
      }
      return crk_priv_error(CRK_INVALID_IMAGE,
                            "crk_module_compile: module '%s' does not compile: %s.cu:%d: '%.*s' begins PTX, which is "
                            "assembly for NVIDIA GPUs; give the text of the .cu file",
                            module, module, line, (int)strcspn(at, "\r\n") < 40 ? (int)strcspn(at, "\r\n") : 40, at);
    }
  }
  return CRK_OK;
}

/* `source` behind the line that includes the port of CUDA. The compiler counts lines from the source's own first one.
 * The caller frees it; NULL without memory. */
static char *with_port(const char *module, const char *source) {
  static const char form[] = "#include \"cuda_port/detail/port.h\"\n#line 1 \"%s.cu\"\n";
  const size_t bytes = sizeof form + strlen(module) + strlen(source);
  char *text = malloc(bytes);
  if (text != NULL) {
    const int used = snprintf(text, bytes, form, module);
    memcpy(text + used, source, strlen(source) + 1);
  }
  return text;
}

/* Creates a program of `source`, compiles it and destroys it. `file` is the source's name in the compiler's log. */
static crk_status_t run(const compiler_t *self, const crk_device_info_t *device, const char *module, const char *file,
                        const char *source, bool port, const char *const *options, size_t option_count, void **code,
                        size_t *bytes) {
  void *program = NULL;
  const int created = port ? self->calls.create(&program, source, file, crk_priv_rtc_header_count, crk_priv_rtc_texts,
                                                crk_priv_rtc_names)
                           : self->calls.create(&program, source, file, 0, NULL, NULL);
  if (created != 0) {
    return rtc_failed(self, CALL_create, created);
  }
  const crk_status_t status = compile(self, program, module, device->architecture, options, option_count, code, bytes);
  const int destroyed = self->calls.destroy(&program);
  if (status == CRK_OK && destroyed != 0) {
    free(*code);
    return rtc_failed(self, CALL_destroy, destroyed);
  }
  return status;
}

crk_status_t crk_priv_rtc_compile(const crk_device_info_t *device, crk_language_t language, const char *module,
                                  const char *source, const char *const *options, size_t option_count, void **code,
                                  size_t *bytes) {
  if (device->backend == CRK_BACKEND_CPU && language == CRK_LANGUAGE_CUDA) {
    return crk_priv_error(CRK_UNSUPPORTED,
                          "crk_module_compile: %s has no compiler for the CUDA source of module '%s'; run it on a GPU; "
                          "or write the kernel with the headers in kernels/, compile it into a shared object and load "
                          "it with crk_module_load",
                          device->name, module);
  }
  if (device->backend != CRK_BACKEND_HIP && device->backend != CRK_BACKEND_CUDA) {
    return crk_priv_error(CRK_UNSUPPORTED,
                          "crk_module_compile: %s has no compiler at run time; compile module '%s' with the headers in "
                          "kernels/ into a shared object and load it with crk_module_load",
                          device->name, module);
  }
  CRK_REFUSE_IF(option_count >= INT32_MAX - 1, "crk_module_compile: option_count is %zu, the most is %d", option_count,
                INT32_MAX - 2);
  const bool port = language == CRK_LANGUAGE_CUDA && device->backend == CRK_BACKEND_HIP;
  if (port) {
    CRK_TRY(check_source(module, source));
  }
  bool has_arch = false;
  for (size_t i = 0; i < option_count; i++) {
    if (names_arch(options[i])) {
      CRK_TRY(check_arch(device, options[i]));
      has_arch = true;
    }
  }
  compiler_t *self = device->backend == CRK_BACKEND_HIP ? &hiprtc : &nvrtc;
  CRK_TRY(load(self, device->runtime_version));

  char arch[128], file[192];
  snprintf(arch, sizeof arch, "%s=%s", self->arch_option, device->architecture);
  snprintf(file, sizeof file, "%s.%s", module, port ? "cu" : self->extension);
  const char **all = malloc((option_count + 2) * sizeof *all);
  char *text = port ? with_port(module, source) : NULL;
  if (all == NULL || (port && text == NULL)) {
    free(all);
    free(text);
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_module_compile: no host memory for %zu options and the source",
                          option_count);
  }
  size_t count = 0;
  if (port) {
    all[count++] = "-std=c++17"; /* the port's; a later option of the caller's replaces it */
  }
  for (size_t i = 0; i < option_count; i++) {
    all[count++] = options[i];
  }
  if (!has_arch) {
    all[count++] = arch;
  }
  /* hipRTC 5.2 crashes when it compiles in two threads at once. */
  static crk_mutex_t old_hiprtc_lock = CRK_MUTEX_INIT;
  const bool one_at_a_time = self == &hiprtc && CRK_HIP_VERSION_MAJOR(device->runtime_version) < 6;
  if (one_at_a_time) {
    crk_priv_mutex_lock(&old_hiprtc_lock);
  }
  const crk_status_t status = run(self, device, module, file, port ? text : source, port, all, count, code, bytes);
  if (one_at_a_time) {
    crk_priv_mutex_unlock(&old_hiprtc_lock);
  }
  free(text);
  free(all);
  return status;
}
