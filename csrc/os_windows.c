/* os.h for Windows 7 and later. It compiles and links with mingw-w64; it has not been run on Windows. */
#if !defined(WIN32_LEAN_AND_MEAN)
#define WIN32_LEAN_AND_MEAN
#endif
#if !defined(_WIN32_WINNT)
#define _WIN32_WINNT 0x0601
#endif

#include "os.h"

#include <malloc.h>
#include <process.h>
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

/* crk_mutex_t and crk_condition_t hold what Windows keeps in one pointer, so that os.h needs no windows.h. */
_Static_assert(sizeof(SRWLOCK) == sizeof(crk_mutex_t), "an SRWLOCK is one pointer");
_Static_assert(sizeof(CONDITION_VARIABLE) == sizeof(crk_condition_t), "a CONDITION_VARIABLE is one pointer");

void crk_priv_mutex_init(crk_mutex_t *mutex) { InitializeSRWLock((PSRWLOCK)mutex); }

void crk_priv_mutex_deinit(crk_mutex_t *mutex) { (void)mutex; }

void crk_priv_mutex_lock(crk_mutex_t *mutex) { AcquireSRWLockExclusive((PSRWLOCK)mutex); }

void crk_priv_mutex_unlock(crk_mutex_t *mutex) { ReleaseSRWLockExclusive((PSRWLOCK)mutex); }

void crk_priv_condition_init(crk_condition_t *condition) {
  InitializeConditionVariable((PCONDITION_VARIABLE)condition);
}

void crk_priv_condition_deinit(crk_condition_t *condition) { (void)condition; }

void crk_priv_condition_wait(crk_condition_t *condition, crk_mutex_t *mutex) {
  SleepConditionVariableSRW((PCONDITION_VARIABLE)condition, (PSRWLOCK)mutex, INFINITE, 0);
}

void crk_priv_condition_signal(crk_condition_t *condition) { WakeConditionVariable((PCONDITION_VARIABLE)condition); }

void crk_priv_condition_broadcast(crk_condition_t *condition) {
  WakeAllConditionVariable((PCONDITION_VARIABLE)condition);
}

typedef struct start {
  void (*body)(void *);
  void *context;
} start_t;

static unsigned __stdcall thread_main(void *argument) {
  const start_t start = *(start_t *)argument;
  free(argument);
  start.body(start.context);
  return 0;
}

bool crk_priv_thread_start(void (*body)(void *), void *context) {
  start_t *start = malloc(sizeof *start);
  if (start == NULL) {
    return false;
  }
  start->body = body;
  start->context = context;
  const uintptr_t thread = _beginthreadex(NULL, 0, thread_main, start, 0, NULL);
  if (thread == 0) {
    free(start);
    return false;
  }
  CloseHandle((HANDLE)thread);
  return true;
}

uint32_t crk_priv_cpu_count(void) {
  DWORD_PTR process = 0;
  DWORD_PTR system = 0;
  uint32_t count = 0;
  if (GetProcessAffinityMask(GetCurrentProcess(), &process, &system)) {
    for (; process != 0; process &= process - 1) {
      count++;
    }
  }
  return count != 0 ? count : 1;
}

void crk_priv_system_memory(uint64_t *total, uint64_t *available) {
  MEMORYSTATUSEX status;
  status.dwLength = sizeof status;
  *total = 0;
  *available = 0;
  if (GlobalMemoryStatusEx(&status)) {
    *total = status.ullTotalPhys;
    *available = status.ullAvailPhys;
  }
}

double crk_priv_seconds(void) {
  LARGE_INTEGER frequency, now;
  QueryPerformanceFrequency(&frequency);
  QueryPerformanceCounter(&now);
  return (double)now.QuadPart / (double)frequency.QuadPart;
}

void *crk_priv_aligned_alloc(size_t bytes) { return _aligned_malloc(bytes, 256); }

void crk_priv_aligned_free(void *ptr) { _aligned_free(ptr); }

static void say(char *why, size_t size, const char *call) {
  if (size != 0) {
    snprintf(why, size, "%s: Windows error %lu", call, GetLastError());
  }
}

void *crk_priv_library_open(const char *name, char *why, size_t size) {
  HMODULE library = LoadLibraryA(name);
  if (library == NULL) {
    say(why, size, "LoadLibrary");
  }
  return (void *)library;
}

/* Windows loads from files only, and cannot delete one that is loaded: the file goes at the next restart, or stays
 * where the process may not ask for that. */
void *crk_priv_library_open_bytes(const char *name, const void *data, size_t bytes, char *why, size_t size) {
  (void)name;
  char folder[MAX_PATH + 1];
  char path[MAX_PATH + 1];
  const DWORD length = GetTempPathA(sizeof folder, folder);
  if (length == 0 || length > MAX_PATH || GetTempFileNameA(folder, "crk", 0, path) == 0) {
    say(why, size, "GetTempFileName");
    return NULL;
  }
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(data, 1, bytes, file) != bytes) {
    say(why, size, path);
    if (file != NULL) {
      fclose(file);
    }
    DeleteFileA(path);
    return NULL;
  }
  if (fclose(file) != 0) {
    say(why, size, path);
    DeleteFileA(path);
    return NULL;
  }
  void *library = crk_priv_library_open(path, why, size);
  if (library == NULL) {
    DeleteFileA(path);
  } else {
    MoveFileExA(path, NULL, MOVEFILE_DELAY_UNTIL_REBOOT);
  }
  return library;
}

void *crk_priv_library_symbol(void *library, const char *name) {
  return (void *)(uintptr_t)GetProcAddress((HMODULE)library, name);
}

void crk_priv_library_close(void *library) {
  if (library != NULL) {
    FreeLibrary((HMODULE)library);
  }
}

bool crk_priv_library_folder(const void *symbol, char *folder, size_t size) {
  (void)symbol;
  (void)folder;
  (void)size;
  return false;
}

bool crk_priv_folder_has(const char *folder, const char *word, uint32_t depth) {
  (void)folder;
  (void)word;
  (void)depth;
  return false;
}
