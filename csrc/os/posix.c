/* os.h for Linux, macOS and other POSIX systems. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* sched_getaffinity, memfd_create, MAP_ANONYMOUS */
#endif

#include "os/os.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <link.h>
#elif defined(__APPLE__)
#include <crt_externs.h>
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Locks. These calls fail only after a bug in this library, such as an uninitialised lock. Their results are not
 * checked, because such a failure cannot be handled.
 * ------------------------------------------------------------------------------------------------------------------ */

void crk_priv_mutex_init(crk_mutex_t *mutex) { pthread_mutex_init(mutex, NULL); }

void crk_priv_mutex_deinit(crk_mutex_t *mutex) { pthread_mutex_destroy(mutex); }

void crk_priv_mutex_lock(crk_mutex_t *mutex) { pthread_mutex_lock(mutex); }

bool crk_priv_mutex_try(crk_mutex_t *mutex) { return pthread_mutex_trylock(mutex) == 0; }

void crk_priv_mutex_unlock(crk_mutex_t *mutex) { pthread_mutex_unlock(mutex); }

void crk_priv_condition_init(crk_condition_t *condition) { pthread_cond_init(condition, NULL); }

void crk_priv_condition_deinit(crk_condition_t *condition) { pthread_cond_destroy(condition); }

void crk_priv_condition_wait(crk_condition_t *condition, crk_mutex_t *mutex) { pthread_cond_wait(condition, mutex); }

/* The clock of a condition is the system's, which may be set meanwhile. So one wait is short. */
void crk_priv_condition_wait_for(crk_condition_t *condition, crk_mutex_t *mutex, double seconds) {
  const double longest = 0.05;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  const double wait = seconds < 0.0 ? 0.0 : seconds > longest ? longest : seconds;
  until.tv_nsec += (long)(wait * 1e9);
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  pthread_cond_timedwait(condition, mutex, &until);
}

void crk_priv_condition_signal(crk_condition_t *condition) { pthread_cond_signal(condition); }

void crk_priv_condition_broadcast(crk_condition_t *condition) { pthread_cond_broadcast(condition); }

/* ------------------------------------------------------------------------------------------------------------------
 * Threads
 * ------------------------------------------------------------------------------------------------------------------ */

typedef struct start {
  void (*body)(void *);
  void *context;
} start_t;

static void *thread_main(void *argument) {
  const start_t start = *(start_t *)argument;
  free(argument);
  start.body(start.context);
  return NULL;
}

bool crk_priv_thread_start(void (*body)(void *), void *context, crk_thread_t *thread) {
  start_t *start = malloc(sizeof *start);
  if (start == NULL) {
    return false;
  }
  start->body = body;
  start->context = context;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) {
    free(start);
    return false;
  }
  pthread_attr_setdetachstate(&attributes, thread != NULL ? PTHREAD_CREATE_JOINABLE : PTHREAD_CREATE_DETACHED);
  pthread_t started;
  const int code = pthread_create(&started, &attributes, thread_main, start);
  pthread_attr_destroy(&attributes);
  if (code != 0) {
    free(start);
  } else if (thread != NULL) {
    *thread = started;
  }
  return code == 0;
}

void crk_priv_thread_join(crk_thread_t thread) { pthread_join(thread, NULL); }

uint32_t crk_priv_cpu_count(void) {
#if defined(__linux__)
  /* A machine may have more CPUs than a set holds; the call then fails with EINVAL. */
  for (size_t cpus = 1024; cpus <= 1u << 20; cpus *= 4) {
    cpu_set_t *set = CPU_ALLOC(cpus);
    if (set == NULL) {
      break;
    }
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    const int code = sched_getaffinity(0, bytes, set);
    const bool retry = code != 0 && errno == EINVAL;
    const int count = code == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) {
      return (uint32_t)count;
    }
    if (!retry) {
      break;
    }
  }
#endif
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (uint32_t)online : 1;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Memory and time
 * ------------------------------------------------------------------------------------------------------------------ */

#if defined(__linux__)
/* Reads the number after `key` in the first line that begins with it; with the key "", the number at the start of the
 * file. 0 if there is no number ("max"). */
static uint64_t read_number(const char *path, const char *key) {
  FILE *file = fopen(path, "re");
  if (file == NULL) {
    return 0;
  }
  uint64_t number = 0;
  char line[256];
  const size_t length = strlen(key);
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, key, length) == 0) {
      number = strtoull(line + length, NULL, 10);
      break;
    }
  }
  fclose(file);
  return number;
}
#endif

void crk_priv_system_memory(uint64_t *total, uint64_t *available) {
  *total = 0;
  *available = 0;
#if defined(__linux__)
  *total = read_number("/proc/meminfo", "MemTotal:") * 1024;
  *available = read_number("/proc/meminfo", "MemAvailable:") * 1024;
  /* In a container, the control group's limit applies. */
  const uint64_t bound = read_number("/sys/fs/cgroup/memory.max", "");
  if (bound != 0 && bound < *total) {
    const uint64_t used = read_number("/sys/fs/cgroup/memory.current", "");
    const uint64_t left = used < bound ? bound - used : 0;
    *total = bound;
    *available = left < *available ? left : *available;
  }
#elif defined(__APPLE__)
  uint64_t bytes = 0;
  size_t size = sizeof bytes;
  if (sysctlbyname("hw.memsize", &bytes, &size, NULL, 0) == 0) {
    *total = bytes;
  }
  vm_statistics64_data_t figures;
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&figures, &count) == KERN_SUCCESS) {
    *available = ((uint64_t)figures.free_count + figures.inactive_count) * (uint64_t)sysconf(_SC_PAGESIZE);
  }
#elif defined(_SC_PHYS_PAGES)
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) {
    *total = (uint64_t)pages * (uint64_t)page;
  }
#if defined(_SC_AVPHYS_PAGES)
  const long left = sysconf(_SC_AVPHYS_PAGES);
  if (left > 0 && page > 0) {
    *available = (uint64_t)left * (uint64_t)page;
  }
#endif
#endif
}

double crk_priv_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

uint64_t crk_priv_process(void) { return (uint64_t)getpid(); }

bool crk_priv_host(char *text, size_t size) {
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  const bool found = file != NULL && fgets(text, (int)size, file) != NULL;
  if (file != NULL) {
    (void)fclose(file);
  }
  return found;
}

void crk_priv_sleep(double seconds) {
  struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

void crk_priv_yield(void) { sched_yield(); }

void *crk_priv_aligned_alloc(size_t bytes) {
  /* Not C11's aligned_alloc: it needs a size that is a multiple of the alignment, and a sanitizer would then miss
   * accesses beyond the true end. */
  void *ptr = NULL;
  return posix_memalign(&ptr, 256, bytes) == 0 ? ptr : NULL;
}

void crk_priv_aligned_free(void *ptr) { free(ptr); }

/* ------------------------------------------------------------------------------------------------------------------
 * Shared libraries
 * ------------------------------------------------------------------------------------------------------------------ */

static void say(char *why, size_t size, const char *what, const char *detail) {
  if (size != 0) {
    snprintf(why, size, "%s: %s", what, detail);
  }
}

void *crk_priv_library_open(const char *name, char *why, size_t size) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL && size != 0) {
    const char *detail = dlerror();
    snprintf(why, size, "%s", detail != NULL ? detail : "dlopen failed");
  }
  return library;
}

static bool write_all(int file, const char *data, size_t bytes) {
  while (bytes != 0) {
    const ssize_t written = write(file, data, bytes < (1u << 30) ? bytes : (1u << 30));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    data += written;
    bytes -= (size_t)written;
  }
  return true;
}

/* Opens a library through a temporary file, which is unlinked as soon as it is mapped. */
static void *open_through_file(const void *data, size_t bytes, char *why, size_t size) {
  const char *folder = getenv("TMPDIR");
  char path[1024];
  const int length =
      snprintf(path, sizeof path, "%s/candle-rocm-XXXXXX", folder != NULL && folder[0] != '\0' ? folder : "/tmp");
  if (length < 0 || (size_t)length >= sizeof path) {
    say(why, size, "TMPDIR", strerror(ENAMETOOLONG));
    return NULL;
  }
  const int file = mkstemp(path);
  if (file < 0) {
    say(why, size, path, strerror(errno));
    return NULL;
  }
  void *library = NULL;
  const bool written = write_all(file, data, bytes);
  if (!written) {
    say(why, size, path, strerror(errno));
  }
  close(file);
  if (written) {
    library = crk_priv_library_open(path, why, size);
  }
  unlink(path);
  return library;
}

#if defined(__linux__) && defined(MFD_CLOEXEC)
/* Writes a path of a descriptor that differs from the paths of all earlier calls. Descriptors are reused, and the
 * loader takes a path that it knows for the library that it loaded then. So the number of the call is encoded in extra
 * "/." and "/" parts of the path. */
static void spell_descriptor(char *path, size_t size, int file) {
  static atomic_uint calls;
  char number[32 * 3 + 1];
  char *end = number;
  for (unsigned call = atomic_fetch_add(&calls, 1) + 1; call != 0; call >>= 1) {
    if (call & 1) {
      *end++ = '/';
    }
    *end++ = '/';
    *end++ = '.';
  }
  *end = '\0';
  snprintf(path, size, "/proc/self%s/fd/%d", number, file);
}
#endif

void *crk_priv_library_open_bytes(const char *name, const void *data, size_t bytes, char *why, size_t size) {
#if defined(__linux__) && defined(MFD_CLOEXEC)
  /* A file in memory needs no permission to execute files in a temporary folder. A temporary file is used if /proc is
   * not mounted or the system call is filtered. */
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file >= 0) {
    void *library = NULL;
    char path[160];
    spell_descriptor(path, sizeof path, file);
    struct stat unused;
    const bool usable = write_all(file, data, bytes) && stat(path, &unused) == 0;
    if (usable) {
      library = crk_priv_library_open(path, why, size);
    }
    close(file);
    if (usable) {
      return library;
    }
  }
#endif
  (void)name;
  return open_through_file(data, bytes, why, size);
}

void *crk_priv_library_symbol(void *library, const char *name) { return dlsym(library, name); }

void crk_priv_library_close(void *library) {
  if (library != NULL) {
    dlclose(library);
  }
}

bool crk_priv_library_folder(const void *symbol, char *folder, size_t size) {
  Dl_info info;
  if (dladdr(symbol, &info) == 0 || info.dli_fname == NULL) {
    return false;
  }
  const char *end = strrchr(info.dli_fname, '/');
  const size_t length = end != NULL ? (size_t)(end - info.dli_fname) + 1 : 0;
  if (length == 0 || length >= size) {
    return false;
  }
  memcpy(folder, info.dli_fname, length);
  folder[length] = '\0';
  return true;
}

bool crk_priv_variable(const char *name, char *text, size_t size) {
  const char *value = getenv(name);
  if (value == NULL || value[0] == '\0') {
    return false;
  }
  snprintf(text, size, "%s", value);
  return true;
}

bool crk_priv_file_usable(const char *path) {
  const int file = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file >= 0) {
    close(file);
    return true;
  }
  /* Other errors, such as too many open files, tell nothing about the file. */
  return errno != EACCES && errno != EPERM && errno != ENXIO && errno != ENODEV && errno != ENOENT && errno != EISDIR;
}

bool crk_priv_file_permitted(const char *path) { return access(path, R_OK | W_OK) == 0; }

bool crk_priv_file_group(const char *path, uint32_t *group, uint32_t *mode) {
  struct stat facts;
  if (stat(path, &facts) != 0) {
    return false;
  }
  *group = (uint32_t)facts.st_gid;
  *mode = (uint32_t)facts.st_mode & 07777;
  return true;
}

bool crk_priv_in_group(uint32_t group) {
  bool found = (uint32_t)getegid() == group;
  const int count = getgroups(0, NULL);
  gid_t *groups = count > 0 ? malloc((size_t)count * sizeof *groups) : NULL;
  const int filled = groups != NULL ? getgroups(count, groups) : 0;
  for (int i = 0; i < filled; i++) {
    found = found || (uint32_t)groups[i] == group;
  }
  free(groups);
  return found;
}

uint32_t crk_priv_user(void) { return (uint32_t)geteuid(); }

/* A dynamic library of macOS has no `environ`. */
#if defined(__APPLE__)
static char **environment(void) { return *_NSGetEnviron(); }
#else
extern char **environ;
static char **environment(void) { return environ; }
#endif

bool crk_priv_environment_visit(crk_visit_t *visit, void *context) {
  bool ended = false;
  for (char **variable = environment(); variable != NULL && *variable != NULL && !ended; variable++) {
    ended = visit(context, *variable);
  }
  return ended;
}

bool crk_priv_folder_visit(const char *folder, crk_visit_t *visit, void *context) {
  DIR *entries = opendir(folder);
  if (entries == NULL) {
    return false;
  }
  bool ended = false;
  for (const struct dirent *entry = readdir(entries); entry != NULL && !ended; entry = readdir(entries)) {
    ended = visit(context, entry->d_name);
  }
  closedir(entries);
  return ended;
}

#if defined(__linux__)
typedef struct loaded_visit {
  crk_visit_t *visit;
  void *context;
} loaded_visit_t;

static int visit_object(struct dl_phdr_info *object, size_t size, void *context) {
  const loaded_visit_t *self = context;
  (void)size;
  return object->dlpi_name != NULL && object->dlpi_name[0] != '\0' && self->visit(self->context, object->dlpi_name);
}
#endif

bool crk_priv_loaded_visit(crk_visit_t *visit, void *context) {
#if defined(__linux__)
  loaded_visit_t both = {visit, context};
  return dl_iterate_phdr(visit_object, &both) != 0;
#else
  (void)visit, (void)context;
  return false;
#endif
}

bool crk_priv_loader_visit(bool own, crk_visit_t *visit, void *context) {
  bool ended = false;
#if defined(__GLIBC__)
  void *program = dlopen(NULL, RTLD_NOW | RTLD_LOCAL);
  Dl_serinfo head;
  if (program != NULL && dlinfo(program, RTLD_DI_SERINFOSIZE, &head) == 0) {
    Dl_serinfo *folders = malloc(head.dls_size);
    if (folders != NULL) {
      *folders = head;
      const bool told = dlinfo(program, RTLD_DI_SERINFO, folders) == 0;
      for (unsigned i = 0; told && i < folders->dls_cnt && !ended; i++) {
        const bool is_own = (folders->dls_serpath[i].dls_flags & LA_SER_DEFAULT) != 0;
        ended = is_own == own && visit(context, folders->dls_serpath[i].dls_name);
      }
      free(folders);
    }
  }
  crk_priv_library_close(program);
#else
  (void)own, (void)visit, (void)context;
#endif
  return ended;
}
