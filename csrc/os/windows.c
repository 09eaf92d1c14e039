/* os.h for Windows 7 and later. It is tested with mingw-w64 and Wine, and has not been run on Windows. */
#if !defined(WIN32_LEAN_AND_MEAN)
#define WIN32_LEAN_AND_MEAN
#endif
#if !defined(_WIN32_WINNT)
#define _WIN32_WINNT 0x0601
#endif

#include "os/os.h"

#include <malloc.h>
#include <process.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <windows.h>

#include <psapi.h> /* needs windows.h first */

/* crk_mutex_t and crk_condition_t have the size of the Windows types, so that os.h does not include windows.h. */
_Static_assert(sizeof(SRWLOCK) == sizeof(crk_mutex_t), "an SRWLOCK is one pointer");
_Static_assert(sizeof(CONDITION_VARIABLE) == sizeof(crk_condition_t), "a CONDITION_VARIABLE is one pointer");

void crk_priv_mutex_init(crk_mutex_t *mutex) { InitializeSRWLock((PSRWLOCK)mutex); }

void crk_priv_mutex_deinit(crk_mutex_t *mutex) { (void)mutex; }

void crk_priv_mutex_lock(crk_mutex_t *mutex) { AcquireSRWLockExclusive((PSRWLOCK)mutex); }

bool crk_priv_mutex_try(crk_mutex_t *mutex) { return TryAcquireSRWLockExclusive((PSRWLOCK)mutex) != 0; }

void crk_priv_mutex_unlock(crk_mutex_t *mutex) { ReleaseSRWLockExclusive((PSRWLOCK)mutex); }

void crk_priv_condition_init(crk_condition_t *condition) {
  InitializeConditionVariable((PCONDITION_VARIABLE)condition);
}

void crk_priv_condition_deinit(crk_condition_t *condition) { (void)condition; }

void crk_priv_condition_wait(crk_condition_t *condition, crk_mutex_t *mutex) {
  SleepConditionVariableSRW((PCONDITION_VARIABLE)condition, (PSRWLOCK)mutex, INFINITE, 0);
}

void crk_priv_condition_wait_for(crk_condition_t *condition, crk_mutex_t *mutex, double seconds) {
  const double longest = 0.05;
  const double wait = seconds < 0.0 ? 0.0 : seconds > longest ? longest : seconds;
  SleepConditionVariableSRW((PCONDITION_VARIABLE)condition, (PSRWLOCK)mutex, (DWORD)(wait * 1e3) + 1, 0);
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

bool crk_priv_thread_start(void (*body)(void *), void *context, crk_thread_t *thread) {
  start_t *start = malloc(sizeof *start);
  if (start == NULL) {
    return false;
  }
  start->body = body;
  start->context = context;
  const uintptr_t started = _beginthreadex(NULL, 0, thread_main, start, 0, NULL);
  if (started == 0) {
    free(start);
    return false;
  }
  if (thread != NULL) {
    *thread = (HANDLE)started;
  } else {
    CloseHandle((HANDLE)started);
  }
  return true;
}

void crk_priv_thread_join(crk_thread_t thread) {
  WaitForSingleObject(thread, INFINITE);
  CloseHandle(thread);
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

uint64_t crk_priv_process(void) { return GetCurrentProcessId(); }

bool crk_priv_host(char *text, size_t size) {
  (void)text;
  (void)size;
  return false;
}

void crk_priv_sleep(double seconds) { Sleep((DWORD)(seconds * 1e3) + 1); }

void crk_priv_yield(void) { SwitchToThread(); }

void *crk_priv_aligned_alloc(size_t bytes) { return _aligned_malloc(bytes, 256); }

void crk_priv_aligned_free(void *ptr) { _aligned_free(ptr); }

/* ---- text: UTF-8 in this library, UTF-16 in Windows */

enum { PATH_UNITS = 1024 };

static bool widen(const char *text, wchar_t *wide) {
  return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, PATH_UNITS) != 0;
}

static bool narrow(const wchar_t *wide, char *text, size_t size) {
  return WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, (int)size, NULL, NULL) != 0;
}

bool crk_priv_variable(const char *name, char *text, size_t size) {
  wchar_t wide_name[PATH_UNITS], value[PATH_UNITS];
  const DWORD length = widen(name, wide_name) ? GetEnvironmentVariableW(wide_name, value, PATH_UNITS) : 0;
  return length != 0 && length < PATH_UNITS && narrow(value, text, size);
}

bool crk_priv_environment_visit(crk_visit_t *visit, void *context) {
  wchar_t *block = GetEnvironmentStringsW();
  bool ended = false;
  for (const wchar_t *variable = block; variable != NULL && *variable != 0 && !ended;
       variable += wcslen(variable) + 1) {
    char text[4096];
    ended = narrow(variable, text, sizeof text) && visit(context, text);
  }
  if (block != NULL) {
    FreeEnvironmentStringsW(block);
  }
  return ended;
}

/* ---- files, folders and shared libraries */

bool crk_priv_file_usable(const char *path) {
  wchar_t wide[PATH_UNITS];
  const DWORD attributes = widen(path, wide) ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_READONLY) == 0;
}

bool crk_priv_file_permitted(const char *path) { return crk_priv_file_usable(path); }

bool crk_priv_file_group(const char *path, uint32_t *group, uint32_t *mode) {
  wchar_t wide[PATH_UNITS];
  *group = 0;
  *mode = 0;
  return widen(path, wide) && GetFileAttributesW(wide) != INVALID_FILE_ATTRIBUTES;
}

bool crk_priv_in_group(uint32_t group) {
  (void)group;
  return false;
}

uint32_t crk_priv_user(void) { return 0; }

bool crk_priv_folder_visit(const char *folder, crk_visit_t *visit, void *context) {
  char pattern[PATH_UNITS], name[PATH_UNITS];
  wchar_t wide[PATH_UNITS];
  const int length = snprintf(pattern, sizeof pattern, "%s\\*", folder);
  if (length < 0 || length >= PATH_UNITS || !widen(pattern, wide)) {
    return false;
  }
  WIN32_FIND_DATAW entry;
  const HANDLE entries = FindFirstFileW(wide, &entry);
  if (entries == INVALID_HANDLE_VALUE) {
    return false;
  }
  bool ended = false;
  do {
    ended = narrow(entry.cFileName, name, sizeof name) && visit(context, name);
  } while (!ended && FindNextFileW(entries, &entry));
  FindClose(entries);
  return ended;
}

static bool module_path(HMODULE module, char *path, size_t size) {
  wchar_t wide[PATH_UNITS];
  const DWORD length = GetModuleFileNameW(module, wide, PATH_UNITS);
  return length != 0 && length < PATH_UNITS && narrow(wide, path, size);
}

bool crk_priv_loaded_visit(crk_visit_t *visit, void *context) {
  HMODULE modules[1024];
  DWORD bytes = 0;
  char path[PATH_UNITS];
  bool ended = false;
  if (K32EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &bytes)) {
    bytes = bytes < sizeof modules ? bytes : sizeof modules;
    for (size_t i = 0; i < bytes / sizeof *modules && !ended; i++) {
      ended = module_path(modules[i], path, sizeof path) && visit(context, path);
    }
  }
  return ended;
}

/* Cuts off a path after its last separator. */
static bool cut_to_folder(char *path) {
  char *end = strrchr(path, '\\');
  if (end != NULL) {
    end[1] = '\0';
  }
  return end != NULL;
}

/* The folders of LOAD_LIBRARY_SEARCH_DEFAULT_DIRS: the program's folder and System32, without those that the program
 * added. */
bool crk_priv_loader_visit(bool own, crk_visit_t *visit, void *context) {
  char path[PATH_UNITS];
  wchar_t wide[PATH_UNITS];
  if (!own) {
    return module_path(NULL, path, sizeof path) && cut_to_folder(path) && visit(context, path);
  }
  const UINT length = GetSystemDirectoryW(wide, PATH_UNITS);
  return length != 0 && length < PATH_UNITS && narrow(wide, path, sizeof path) && visit(context, path);
}

static void say(char *why, size_t size, const char *call) {
  if (size != 0) {
    snprintf(why, size, "%s: Windows error %lu", call, GetLastError());
  }
}

/* Opens a library. A bare name is searched in the program's folder and in System32, never in the current folder or in
 * PATH. For a path, the libraries that it needs are searched in its folder first. */
static HMODULE open_wide(const wchar_t *name) {
  wchar_t path[PATH_UNITS];
  if (wcspbrk(name, L"/\\") == NULL) {
    return LoadLibraryExW(name, NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
  }
  const DWORD length = GetFullPathNameW(name, PATH_UNITS, path, NULL);
  if (length == 0 || length >= PATH_UNITS) {
    return NULL;
  }
  return LoadLibraryExW(path, NULL, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
}

void *crk_priv_library_open(const char *name, char *why, size_t size) {
  wchar_t wide[PATH_UNITS];
  HMODULE library = widen(name, wide) ? open_wide(wide) : NULL;
  if (library == NULL) {
    say(why, size, name);
  }
  return (void *)library;
}

/* Windows loads libraries only from files and cannot delete a loaded one. The file is deleted at the next restart, or
 * stays if the process has no right to request that. */
void *crk_priv_library_open_bytes(const char *name, const void *data, size_t bytes, char *why, size_t size) {
  wchar_t folder[MAX_PATH + 1], path[MAX_PATH + 1];
  const DWORD length = GetTempPathW(MAX_PATH + 1, folder);
  if (length == 0 || length > MAX_PATH || GetTempFileNameW(folder, L"crk", 0, path) == 0) {
    say(why, size, "GetTempFileName");
    return NULL;
  }
  FILE *file = _wfopen(path, L"wb");
  const bool written = file != NULL && fwrite(data, 1, bytes, file) == bytes;
  const bool closed = file != NULL && fclose(file) == 0;
  void *library = written && closed ? (void *)open_wide(path) : NULL;
  if (library == NULL) {
    say(why, size, name);
    DeleteFileW(path);
  } else {
    MoveFileExW(path, NULL, MOVEFILE_DELAY_UNTIL_REBOOT);
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
  HMODULE module = NULL;
  const DWORD by_address = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  return GetModuleHandleExW(by_address, (const wchar_t *)symbol, &module) && module_path(module, folder, size) &&
         cut_to_folder(folder);
}
