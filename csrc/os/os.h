/* os.h: the folder os/ wraps the operating system: locks, threads, memory, folders, shared libraries.
 *
 *   posix.c, windows.c  the functions of this header, one file per system
 *   os.c                functions that are the same on every system
 *   library.c           the search for a GPU vendor's library; library.h describes it
 *   kfd.c               what Linux shows of AMD GPUs; kfd.h describes it */
#ifndef CRK_OS_H
#define CRK_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
typedef struct {
  void *opaque;
} crk_mutex_t;      /* an SRWLOCK */
typedef struct {
  void *opaque;
} crk_condition_t;  /* a CONDITION_VARIABLE */
typedef void *crk_thread_t; /* a HANDLE */
#define CRK_MUTEX_INIT     {0}
#define CRK_CONDITION_INIT {0}
#else
#include <pthread.h>
typedef pthread_mutex_t crk_mutex_t;
typedef pthread_cond_t crk_condition_t;
typedef pthread_t crk_thread_t;
#define CRK_MUTEX_INIT     PTHREAD_MUTEX_INITIALIZER
#define CRK_CONDITION_INIT PTHREAD_COND_INITIALIZER
#endif

void crk_priv_mutex_init(crk_mutex_t *mutex);
void crk_priv_mutex_deinit(crk_mutex_t *mutex);
void crk_priv_mutex_lock(crk_mutex_t *mutex);
bool crk_priv_mutex_try(crk_mutex_t *mutex); /* locks it, unless it is locked */
void crk_priv_mutex_unlock(crk_mutex_t *mutex);
void crk_priv_condition_init(crk_condition_t *condition);
void crk_priv_condition_deinit(crk_condition_t *condition);
void crk_priv_condition_wait(crk_condition_t *condition, crk_mutex_t *mutex);
/* The same for at most `seconds`, or a little longer; may return early. The caller looks at its condition again. */
void crk_priv_condition_wait_for(crk_condition_t *condition, crk_mutex_t *mutex, double seconds);
void crk_priv_condition_signal(crk_condition_t *condition); /* wakes one waiting thread */
void crk_priv_condition_broadcast(crk_condition_t *condition);

/* Starts a thread. It is detached unless `thread` is given, which crk_priv_thread_join then takes, once. */
bool crk_priv_thread_start(void (*body)(void *), void *context, crk_thread_t *thread);
void crk_priv_thread_join(crk_thread_t thread); /* waits for its end */

/* The number of threads that can run at once, at least 1. Respects the CPU affinity of the process. */
uint32_t crk_priv_cpu_count(void);

/* Bytes of physical memory in total, and available now; 0 if the system does not say. */
void crk_priv_system_memory(uint64_t *total, uint64_t *available);

/* The number of this process on its host, or in its container. */
uint64_t crk_priv_process(void);

/* Writes a text that no other running host has, the same in all its processes. Returns false where the system has
 * none. */
bool crk_priv_host(char *text, size_t size);

/* A monotonic clock, in seconds. */
double crk_priv_seconds(void);

/* Lets the calling thread sleep for about `seconds`, which are above 0. */
void crk_priv_sleep(double seconds);

/* Lets another thread run, if one is ready. */
void crk_priv_yield(void);

/* Allocates memory aligned to 256 bytes; NULL if there is none. */
void *crk_priv_aligned_alloc(size_t bytes);
void crk_priv_aligned_free(void *ptr);

/* The letter in lower case, in any locale: only A to Z have one. */
static inline char crk_priv_lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* Whether two texts, or their first `most` characters, are equal in any case of letters. */
static inline bool crk_priv_alike(const char *a, const char *b, size_t most) {
  size_t i = 0;
  while (i < most && a[i] != '\0' && crk_priv_lower(a[i]) == crk_priv_lower(b[i])) {
    i++;
  }
  return i == most || a[i] == b[i];
}

/* Copies an environment variable to `text`, which has `size` bytes. Returns false if it is not set or empty. A longer
 * value is cut off; on Windows, false is returned instead. On Windows, all text in this header is UTF-8. */
bool crk_priv_variable(const char *name, char *text, size_t size);

/* Whether this process can open a file to read and write. The file is opened and closed, because a container may refuse
 * a device file that its mode permits. On Windows the file is not opened. */
bool crk_priv_file_usable(const char *path);

/* Whether the file's owner, group and mode permit this process to read and write it. */
bool crk_priv_file_permitted(const char *path);

/* The group that owns a file, and its permission bits. Returns false if there is no such file. On Windows both are
 * 0. */
bool crk_priv_file_group(const char *path, uint32_t *group, uint32_t *mode);

/* Whether this process has a group, and the user that it runs as. On Windows: false, and 0. */
bool crk_priv_in_group(uint32_t group);
uint32_t crk_priv_user(void);

/* Called with one text per visit. Returns true to end the visits. */
typedef bool crk_visit_t(void *context, const char *text);

/* Visits the names in a folder. This and the next three functions return whether a visit returned true. */
bool crk_priv_folder_visit(const char *folder, crk_visit_t *visit, void *context);

/* Visits the environment, "NAME=VALUE" each. */
bool crk_priv_environment_visit(crk_visit_t *visit, void *context);

/* Visits the paths of the shared libraries that the process has loaded. `visit` must not open a library. */
bool crk_priv_loaded_visit(crk_visit_t *visit, void *context);

/* Visits the folders that the loader searches for shared libraries, as far as the system lists them. With `own` these
 * are the system's own folders. Without it these are the folders that the user or the program has set. */
bool crk_priv_loader_visit(bool own, crk_visit_t *visit, void *context);

/* Opens a shared library by name or path. Its symbols are not visible to other libraries. Returns NULL if it cannot be
 * opened, with the reason in `why`, which has `size` bytes. */
void *crk_priv_library_open(const char *name, char *why, size_t size);

/* Opens a shared library from its bytes in memory. `name` is for debuggers and error sentences. */
void *crk_priv_library_open_bytes(const char *name, const void *data, size_t bytes, char *why, size_t size);
void *crk_priv_library_symbol(void *library, const char *name);

/* Finds functions by name. `names` ends with NULL. A '?' before a name marks an optional function. Writes the addresses
 * to `functions`, a struct with a function pointer per name. (It is a void pointer because C has no cast from an object
 * pointer to a function pointer.) A missing function becomes NULL. Returns the name of the first missing function that
 * is not optional, or NULL. */
const char *crk_priv_library_functions(void *library, const char *const *names, void *functions);

/* Entries of such a list of names, for a list XX(name, parameters). */
#define CRK_SYMBOL(name, parameters)          #name,
#define CRK_SYMBOL_OPTIONAL(name, parameters) "?" #name,

void crk_priv_library_close(void *library);

/* Writes the folder of the shared library that contains `symbol` (from crk_priv_library_symbol), with the last
 * separator. Returns false if the system does not know it, or it does not fit in `size` bytes. */
bool crk_priv_library_folder(const void *symbol, char *folder, size_t size);

/* Whether a folder has a file with `word` in its name, followed by no letter or digit. Also searches up to `depth`
 * levels of folders below it. */
bool crk_priv_folder_has(const char *folder, const char *word, uint32_t depth);

#endif
