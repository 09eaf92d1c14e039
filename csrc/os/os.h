/* What the library asks of the operating system: threads, locks, shared libraries. posix.c and windows.c. */
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
#define CRK_MUTEX_INIT     {0}
#define CRK_CONDITION_INIT {0}
#else
#include <pthread.h>
typedef pthread_mutex_t crk_mutex_t;
typedef pthread_cond_t crk_condition_t;
#define CRK_MUTEX_INIT     PTHREAD_MUTEX_INITIALIZER
#define CRK_CONDITION_INIT PTHREAD_COND_INITIALIZER
#endif

void crk_priv_mutex_init(crk_mutex_t *mutex);
void crk_priv_mutex_deinit(crk_mutex_t *mutex);
void crk_priv_mutex_lock(crk_mutex_t *mutex);
void crk_priv_mutex_unlock(crk_mutex_t *mutex);
void crk_priv_condition_init(crk_condition_t *condition);
void crk_priv_condition_deinit(crk_condition_t *condition);
void crk_priv_condition_wait(crk_condition_t *condition, crk_mutex_t *mutex);
void crk_priv_condition_signal(crk_condition_t *condition); /* wakes one of those who wait */
void crk_priv_condition_broadcast(crk_condition_t *condition);

/* Starts a detached thread. */
bool crk_priv_thread_start(void (*body)(void *), void *context);

/* Threads that can run at once, at least 1; honours the process's CPU affinity. */
uint32_t crk_priv_cpu_count(void);

/* Bytes of physical memory, and of it what is free now; 0 where the system does not tell. */
void crk_priv_system_memory(uint64_t *total, uint64_t *available);

/* A clock that never goes back, in seconds. */
double crk_priv_seconds(void);

/* Memory aligned to 256 bytes, or NULL. */
void *crk_priv_aligned_alloc(size_t bytes);
void crk_priv_aligned_free(void *ptr);

/* Copies a variable of the environment, cut off at `size` bytes. False where it is not set or empty, on Windows also
 * where it is longer. All text here is UTF-8 on Windows. */
bool crk_priv_variable(const char *name, char *text, size_t size);

/* Takes a text; true ends what visits with it. */
typedef bool crk_visit_t(void *context, const char *text);

/* Visits the names in a folder. These three return whether a visit returned true. */
bool crk_priv_folder_visit(const char *folder, crk_visit_t *visit, void *context);

/* Visits the paths of the shared libraries that the process has loaded. `visit` may not open any. */
bool crk_priv_loaded_visit(crk_visit_t *visit, void *context);

/* Visits the folders in which the system looks for a shared library, as far as it tells: its own, or those that the user
 * or the program has set. */
bool crk_priv_loader_visit(bool own, crk_visit_t *visit, void *context);

/* Opens a shared library by name or path, its symbols kept to itself. NULL where it cannot be opened; `why` (of `size`
 * bytes) then says why. */
void *crk_priv_library_open(const char *name, char *why, size_t size);

/* Opens a shared library from its bytes. */
void *crk_priv_library_open_bytes(const char *name, const void *data, size_t bytes, char *why, size_t size);
void *crk_priv_library_symbol(void *library, const char *name);

/* Finds functions by name and writes their addresses one after the other, as into a struct of pointers to functions (C has no cast
 * between the two kinds of pointers). Those that are missing become NULL; gives the first of them, or NULL where all are there. */
const char *crk_priv_library_functions(void *library, const char *const *names, size_t count, void *functions);
void crk_priv_library_close(void *library);

/* The folder of the shared library that a symbol of crk_priv_library_symbol is in, with its last '/'. False where the system does
 * not tell, or it is longer. */
bool crk_priv_library_folder(const void *symbol, char *folder, size_t size);

/* Whether a file whose name contains `word`, and no letter or number right after it, lies in a folder or up to `depth` folders below
 * it. */
bool crk_priv_folder_has(const char *folder, const char *word, uint32_t depth);

#endif
