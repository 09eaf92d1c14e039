/* A test double of libhiprtc or, compiled with -DNVRTC, of libnvrtc.
 *
 * The source is a list of words. `kernels MODULE` makes code with the kernels of that module of this library. For an
 * AMD GPU that is the code object that the double of libamdhip64 writes for the architecture of the options, else a
 * little PTX. `warning` and `#error` add a line to the log, and `#error` also fails the compilation. `wait` makes
 * the compilation wait until rtc_double_go.
 *
 * RTC_DOUBLE_FAIL=call=code,... makes calls return a code. Compiled with -DWITHOUT_CODE the double lacks
 * hiprtcGetCode. */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "told.h"

#define EXPORT __attribute__((visibility("default")))
#if defined(NVRTC)
#define NAME(name) nvrtc##name
#define CODE(rest) nvrtcGetCUBIN##rest
#else
#define NAME(name) hiprtc##name
#define CODE(rest) hiprtcGetCode##rest
#endif
#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

enum { OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INVALID_OPTION = 5, COMPILATION = 6 };

typedef struct program {
  char *source, *name, *log, *code;
  size_t bytes;
} program_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int alive, waiting, gone;
static char options_seen[4096], name_seen[256], headers_seen[8192], source_seen[256];

/* Defines a call that RTC_DOUBLE_FAIL can make fail. */
#define CALL(name, ...)                                         \
  EXPORT int name(__VA_ARGS__);                                 \
  EXPORT int name(__VA_ARGS__) {                                \
    const int told_ = told_code("RTC_DOUBLE_FAIL", TEXT(name)); \
    if (told_ != 0) {                                           \
      return told_;                                             \
    }

/* ---- for the tests */

EXPORT int rtc_double_alive(void);
EXPORT int rtc_double_alive(void) { return alive; }

/* The number of compilations that wait. */
EXPORT int rtc_double_waiting(void);
EXPORT int rtc_double_waiting(void) {
  pthread_mutex_lock(&lock);
  const int count = waiting;
  pthread_mutex_unlock(&lock);
  return count;
}
EXPORT int rtc_double_go(void);
EXPORT int rtc_double_go(void) {
  pthread_mutex_lock(&lock);
  gone = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return 0;
}

/* The name and the options (one per line) of the last compiled program. */
EXPORT const char *rtc_double_name(void);
EXPORT const char *rtc_double_name(void) { return name_seen; }
EXPORT const char *rtc_double_options(void);
EXPORT const char *rtc_double_options(void) { return options_seen; }
/* Its headers, each with its length (one per line), and the beginning of its source. */
EXPORT const char *rtc_double_headers(void);
EXPORT const char *rtc_double_headers(void) { return headers_seen; }
EXPORT const char *rtc_double_source(void);
EXPORT const char *rtc_double_source(void) { return source_seen; }

/* ---- the library */

static void say(program_t *self, const char *kind, int index) {
  char line[128];
  snprintf(line, sizeof line, "%s:%d:1: %s: something is wrong here\n", self->name, index + 1, kind);
  const size_t used = self->log != NULL ? strlen(self->log) : 0;
  self->log = realloc(self->log, used + strlen(line) + 1);
  strcpy(self->log + used, line);
}

#if defined(NVRTC)
static int make_code(program_t *self, const char *module, const char *arch) {
  (void)module;
  char text[128];
  snprintf(text, sizeof text, ".version 8.0\n.target %s\n.address_size 64\n", arch);
  self->code = strdup(text);
  self->bytes = strlen(text) + 1;
  return 0;
}
#else
static int make_code(program_t *self, const char *module, const char *arch) {
  typedef int write_t(const char *, const char *, void **, size_t *);
  void *hip = dlopen(getenv("CANDLE_ROCM_HIP_LIBRARY"), RTLD_NOW);
  write_t *code_object = hip != NULL ? (write_t *)dlsym(hip, "hip_double_code_object") : NULL;
  void *code = NULL;
  if (code_object == NULL || code_object(module, arch, &code, &self->bytes) != 0) {
    return COMPILATION;
  }
  self->code = malloc(self->bytes);
  memcpy(self->code, code, self->bytes);
  ((void (*)(void *))dlsym(hip, "hip_double_code_object_free"))(code);
  return 0;
}
#endif

CALL(NAME(CreateProgram), program_t **program, const char *source, const char *name, int header_count,
     const char *const *headers, const char *const *include_names)
  if (program == NULL || source == NULL || name == NULL || (headers != NULL) != (header_count != 0) ||
      (include_names != NULL) != (header_count != 0)) {
    return INVALID_INPUT;
  }
  program_t *self = calloc(1, sizeof *self);
  self->source = strdup(source);
  self->name = strdup(name);
  *program = self;
  pthread_mutex_lock(&lock);
  alive++;
  snprintf(name_seen, sizeof name_seen, "%s", name);
  headers_seen[0] = '\0';
  for (int i = 0; i < header_count; i++) {
    const size_t used = strlen(headers_seen);
    snprintf(headers_seen + used, sizeof headers_seen - used, "%s %zu\n", include_names[i], strlen(headers[i]));
  }
  snprintf(source_seen, sizeof source_seen, "%s", source);
  pthread_mutex_unlock(&lock);
  return 0;
}

CALL(NAME(CompileProgram), program_t *self, int count, const char *const *options)
  char arch[64] = "";
  pthread_mutex_lock(&lock);
  options_seen[0] = '\0';
  for (int i = 0; i < count; i++) {
    const size_t used = strlen(options_seen);
    snprintf(options_seen + used, sizeof options_seen - used, "%s\n", options[i]);
    if (strncmp(options[i], "--offload-arch=", 15) == 0 || strncmp(options[i], "--gpu-architecture=", 19) == 0 ||
        strncmp(options[i], "-arch=", 6) == 0) {
      snprintf(arch, sizeof arch, "%s", strchr(options[i], '=') + 1);
    }
  }
  const int refused = strstr(options_seen, "--no-such-option") != NULL;
  pthread_mutex_unlock(&lock);
  if (refused) {
    say(self, "error", 0);
    return INVALID_OPTION;
  }
  int index = 0, failed = 0, answer = 0;
  char *words = strdup(self->source), *rest = NULL;
  for (char *word = strtok_r(words, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest), index++) {
    if (strcmp(word, "warning") == 0) {
      say(self, "warning", index);
    } else if (strcmp(word, "#error") == 0) {
      say(self, "error", index);
      failed = 1;
    } else if (strcmp(word, "wait") == 0) {
      pthread_mutex_lock(&lock);
      waiting++;
      while (!gone) {
        pthread_cond_wait(&changed, &lock);
      }
      pthread_mutex_unlock(&lock);
    } else if (strcmp(word, "kernels") == 0) {
      answer = make_code(self, strtok_r(NULL, " \n", &rest), arch);
    }
  }
  free(words);
  return failed ? COMPILATION : answer;
}

CALL(NAME(GetProgramLogSize), program_t *self, size_t *bytes)
  *bytes = (self->log != NULL ? strlen(self->log) : 0) + 1;
  return 0;
}
CALL(NAME(GetProgramLog), program_t *self, char *text)
  strcpy(text, self->log != NULL ? self->log : "");
  return 0;
}
#if !defined(WITHOUT_CODE)
CALL(CODE(Size), program_t *self, size_t *bytes)
  *bytes = self->bytes;
  return 0;
}
CALL(CODE(), program_t *self, char *code)
  memcpy(code, self->code, self->bytes);
  return 0;
}
#endif

/* Destroys the program even when told to fail. A caller could not release it later, and the count of programs would
 * never return to 0. */
EXPORT int NAME(DestroyProgram)(program_t **program);
EXPORT int NAME(DestroyProgram)(program_t **program) {
  program_t *self = *program;
  free(self->source);
  free(self->name);
  free(self->log);
  free(self->code);
  free(self);
  *program = NULL;
  pthread_mutex_lock(&lock);
  alive--;
  pthread_mutex_unlock(&lock);
  return told_code("RTC_DOUBLE_FAIL", TEXT(NAME(DestroyProgram)));
}

EXPORT const char *NAME(GetErrorString)(int code);
EXPORT const char *NAME(GetErrorString)(int code) {
  return code == 999 ? NULL : code == 11 ? "RTC_ERROR_INTERNAL_ERROR" : "RTC_ERROR";
}
