/* The search for a vendor's library; library.h describes its order. */
#include "os/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names */

#if defined(_WIN32)
enum { WINDOWS = 1 };
static const char separators[] = "/\\";
static const char *const library_folders[] = {"bin", "bin/x64"};
static const char *const rocm_variables[] = {"ROCM_PATH", "HIP_PATH", NULL};
static const char *const cuda_variables[] = {"CUDA_PATH", "CUDA_HOME", NULL};
const crk_vendor_t crk_priv_rocm = {rocm_variables, "C:/Program Files/AMD", "ROCm",
                                    "ROCM_PATH, HIP_PATH, the program's folder, System32, C:/Program Files/AMD/ROCm"};
const crk_vendor_t crk_priv_cuda = {cuda_variables, NULL, NULL, "CUDA_PATH, CUDA_HOME, the program's folder, System32"};
#else
enum { WINDOWS = 0 };
static const char separators[] = "/";
static const char *const library_folders[] = {"lib", "lib64"};
static const char *const rocm_variables[] = {"ROCM_PATH", "HIP_PATH", NULL};
static const char *const cuda_variables[] = {"CUDA_HOME", "CUDA_PATH", NULL};
const crk_vendor_t crk_priv_rocm = {rocm_variables, "/opt", "rocm",
                                    "ROCM_PATH, HIP_PATH, LD_LIBRARY_PATH, the system's folders, /opt/rocm*"};
const crk_vendor_t crk_priv_cuda = {cuda_variables, "/usr/local", "cuda",
                                    "CUDA_HOME, CUDA_PATH, LD_LIBRARY_PATH, the system's folders, /usr/local/cuda*"};
#endif

enum {
  PATH_BYTES = 1024,
  /* The highest version that is opened by name. ROCm's major version grows by one in a year or more. */
  GREATEST_VERSION = 63
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Returns the rest of `text` after `prefix`; NULL if it does not begin with `prefix`. */
static const char *after(const char *text, const char *prefix, bool any_case) {
  for (; *prefix != '\0'; text++, prefix++) {
    if (*text != *prefix && !(any_case && crk_priv_lower(*text) == crk_priv_lower(*prefix))) {
      return NULL;
    }
  }
  return text;
}

/* Reads up to `most` digits and advances `text` past them. */
static uint32_t take_number(const char **text, int most) {
  uint32_t number = 0;
  for (; is_digit(**text) && most > 0; ++*text, most--) {
    number = number * 10 + (uint32_t)(**text - '0');
  }
  return number;
}

static int64_t version_by_linux(const char *stem, const char *file) {
  const char *rest = after(file, "lib", false);
  rest = rest != NULL ? after(rest, stem, false) : NULL;
  rest = rest != NULL ? after(rest, ".so", false) : NULL;
  int64_t version = 0;
  for (int part = 0; rest != NULL && *rest != '\0'; part++) {
    if (rest[0] != '.' || !is_digit(rest[1])) {
      return -1;
    }
    rest++;
    const uint32_t number = take_number(&rest, 9);
    version = part == 0 ? number : version;
  }
  return rest != NULL ? version : -1;
}

/* Windows names are [lib]STEM[64], then nothing, _VERSION[_MINOR], or two digits of the major version and up to three
 * of the minor version. */
static int64_t version_by_windows(const char *stem, const char *file) {
  const char *bare = after(file, "lib", true);
  const char *rest = after(file, stem, true);
  rest = rest == NULL && bare != NULL ? after(bare, stem, true) : rest;
  if (rest == NULL) {
    return -1;
  }
  const char *wide = after(rest, "64", true);
  rest = wide != NULL && !is_digit(*wide) ? wide : rest;
  int64_t version = 0;
  if (is_digit(*rest)) {
    version = (int64_t)take_number(&rest, 2) * 1000;
    version += take_number(&rest, 3);
  }
  for (int part = 0; rest[0] == '_' && is_digit(rest[1]); part++) {
    rest++;
    const uint32_t number = take_number(&rest, 9);
    version = part == 0 ? number : version;
  }
  const char *end = after(rest, ".dll", true);
  return end != NULL && *end == '\0' ? version : -1;
}

int64_t crk_priv_library_version(const char *stem, const char *file, bool windows) {
  return windows ? version_by_windows(stem, file) : version_by_linux(stem, file);
}

/* Whether a folder's name is `name`, or `name` with a version ("core-10.0"). If `name` is "", whether it is a
 * version. */
static bool is_installation(const char *folder, const char *name) {
  const char *rest = after(folder, name, true);
  return rest != NULL && (*rest == '\0' || is_digit(*rest) || (*rest == '-' && is_digit(rest[1])));
}

/* Orders paths: a folder without a version before those with one, then higher versions before lower ones. */
static int compare_paths(const char *left, const char *right) {
  while (*left != '\0' && *left == *right && !is_digit(*left)) {
    left++;
    right++;
  }
  if (is_digit(*left) && is_digit(*right)) {
    const uint32_t a = take_number(&left, 9), b = take_number(&right, 9);
    return a != b ? (a < b) - (a > b) : compare_paths(left, right);
  }
  const bool left_ends = strchr(separators, *left) != NULL, right_ends = strchr(separators, *right) != NULL;
  return left_ends != right_ends ? right_ends - left_ends : (*left > *right) - (*left < *right);
}

/* ---- the search */

typedef struct candidate {
  int64_t version;
  int place; /* of equal versions, the one with the lower place is first */
  char path[PATH_BYTES];
} candidate_t;

typedef struct search {
  const crk_library_t *library;
  const char *folder; /* the folder being visited */
  int place;
  candidate_t *candidates; /* of the current step */
  size_t count, capacity;
  char *path; /* of the accepted library */
  size_t path_size;
  void *found;
  char reason[400]; /* why the first existing file cannot be used */
} search_t;

static bool join(char *path, const char *folder, const char *name) {
  const int length = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
  return length > 0 && length < PATH_BYTES;
}

static void add(search_t *self, const char *path) {
  const char *file = path;
  for (const char *at = path; *at != '\0'; at++) {
    file = strchr(separators, *at) != NULL ? at + 1 : file;
  }
  const int64_t version = crk_priv_library_version(self->library->stem, file, WINDOWS);
  if (version < 0 || strlen(path) >= PATH_BYTES) {
    return;
  }
  if (self->count == self->capacity) {
    const size_t capacity = 2 * self->capacity + 8;
    candidate_t *more = realloc(self->candidates, capacity * sizeof *more);
    if (more == NULL) {
      return;
    }
    self->candidates = more;
    self->capacity = capacity;
  }
  candidate_t *fresh = &self->candidates[self->count++];
  const bool preferred = version != 0 && version == (int64_t)self->library->version;
  fresh->version = preferred ? INT64_MAX : version;
  fresh->place = self->place;
  strcpy(fresh->path, path);
}

static bool visit_loaded(void *context, const char *path) {
  add(context, path);
  return false;
}

static bool visit_file(void *context, const char *file) {
  search_t *self = context;
  char path[PATH_BYTES];
  if (join(path, self->folder, file)) {
    add(self, path);
  }
  return false;
}

static void add_folder(search_t *self, const char *folder) {
  self->folder = folder;
  crk_priv_folder_visit(folder, visit_file, self);
}

static void add_installation(search_t *self, const char *root) {
  char path[PATH_BYTES];
  for (size_t i = 0; i < sizeof library_folders / sizeof *library_folders; i++) {
    if (join(path, root, library_folders[i])) {
      add_folder(self, path);
    }
  }
}

typedef struct versions {
  search_t *search;
  const char *folder, *name;
  void (*add)(search_t *search, const char *root);
} versions_t;

static bool visit_version(void *context, const char *entry) {
  const versions_t *self = context;
  char root[PATH_BYTES];
  if (is_installation(entry, self->name) && join(root, self->folder, entry)) {
    self->add(self->search, root);
  }
  return false;
}

/* Adds a root and the installations in it: core-10.0 in /opt/rocm; on Windows also 6.4 in ROCm. */
static void add_root(search_t *self, const char *root) {
  static const char *const names[] = {"core", ""};
  add_installation(self, root);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    versions_t inner = {self, root, names[i], add_installation};
    crk_priv_folder_visit(root, visit_version, &inner);
  }
}

/* Finds the library's functions. If it cannot be used, writes the reason to `why`. */
static bool is_usable(const crk_library_t *self, void *library, const char *path, char *why, size_t size) {
  static const char call[] = "hipSetDevice"; /* a call of every HIP runtime, to tell one from another */
  const bool takes_streams = self->runtime != NULL && !self->is_compiler;
  const void *theirs = takes_streams ? crk_priv_library_symbol(library, call) : NULL;
  if (theirs != NULL && theirs != crk_priv_library_symbol(self->runtime, call)) {
    snprintf(why, size, "%s is linked to another HIP runtime than the one in use", path);
    return false;
  }
  const char *missing = crk_priv_library_functions(library, self->symbols, self->functions);
  if (self->accept != NULL) {
    return self->accept(self->context, missing, path, why, size);
  }
  if (missing != NULL) {
    snprintf(why, size, "%s is missing in %s", missing, path);
  }
  return missing == NULL;
}

static bool try_library(search_t *self, void *library, const char *path) {
  char why[400] = "";
  if (is_usable(self->library, library, path, why, sizeof why)) {
    snprintf(self->path, self->path_size, "%s", path);
    self->found = library;
  } else if (self->reason[0] == '\0') {
    memcpy(self->reason, why, sizeof why);
  }
  return self->found != NULL;
}

static bool try_file(search_t *self, const char *path) {
  char why[400] = "";
  void *library = crk_priv_library_open(path, why, sizeof why);
  if (library != NULL) {
    return try_library(self, library, path);
  }
  if (self->reason[0] == '\0') {
    memcpy(self->reason, why, sizeof why);
  }
  return false;
}

static int compare_candidates(const void *left, const void *right) {
  const candidate_t *a = left, *b = right;
  if (a->version != b->version) {
    return (a->version < b->version) - (a->version > b->version);
  }
  return a->place != b->place ? a->place - b->place : compare_paths(a->path, b->path);
}

/* Ends a step: tries its candidates in order and clears them. */
static bool try_candidates(search_t *self) {
  if (self->count > 1) {
    qsort(self->candidates, self->count, sizeof *self->candidates, compare_candidates);
  }
  for (size_t i = 0; i < self->count && self->found == NULL; i++) {
    try_file(self, self->candidates[i].path);
  }
  self->count = 0;
  return self->found != NULL;
}

static bool visit_told_folder(void *context, const char *folder) {
  add_folder(context, folder);
  return try_candidates(context);
}

static bool visit_own_folder(void *context, const char *folder) {
  add_folder(context, folder);
  return false;
}

static bool try_beside_runtime(search_t *self) {
  void *const runtime = self->library->runtime;
  char folder[PATH_BYTES];
  if (runtime != NULL &&
      crk_priv_library_folder(crk_priv_library_symbol(runtime, "hipSetDevice"), folder, sizeof folder)) {
    add_folder(self, folder);
  }
  return try_candidates(self);
}

/* It is normal that the runtime lacks a compiler's functions, so the error sentence does not mention it. */
static bool try_runtime(search_t *self) {
  const crk_library_t *library = self->library;
  char why[400];
  if (library->is_compiler && library->runtime != NULL && is_usable(library, library->runtime, "", why, sizeof why)) {
    self->found = library->runtime;
  }
  return self->found != NULL;
}

static bool try_variables(search_t *self) {
  for (const char *const *variable = self->library->vendor->variables; *variable != NULL; variable++) {
    char root[PATH_BYTES];
    if (crk_priv_variable(*variable, root, sizeof root)) {
      add_root(self, root);
      if (try_candidates(self)) {
        return true;
      }
    }
  }
  return false;
}

static bool try_usual_places(search_t *self) {
  const crk_vendor_t *vendor = self->library->vendor;
  crk_priv_loader_visit(true, visit_own_folder, self);
  self->place = 1;
  if (vendor->folder != NULL) {
    versions_t installed = {self, vendor->folder, vendor->name, add_root};
    crk_priv_folder_visit(vendor->folder, visit_version, &installed);
  }
  return try_candidates(self);
}

/* The loader's cache cannot be listed, so each name is opened in turn. If there is no file of that name, the loader's
 * message begins with the name, in every language. If the file cannot be used, the message begins with the path or with
 * a library that the file needs; only this message is kept as the reason. */
static bool try_names(search_t *self) {
  if (WINDOWS) { /* Windows has no cache, and no folders beside those visited */
    return false;
  }
  for (int version = GREATEST_VERSION; version >= -1; version--) {
    char name[128], why[400] = "";
    const int length = snprintf(name, sizeof name, "lib%s.so", self->library->stem);
    if (version >= 0) {
      snprintf(name + length, sizeof name - (size_t)length, ".%d", version);
    }
    void *library = crk_priv_library_open(name, why, sizeof why);
    if (library != NULL && try_library(self, library, name)) {
      return true;
    }
    if (library == NULL && self->reason[0] == '\0' && after(why, name, false) == NULL) {
      memcpy(self->reason, why, sizeof why);
    }
  }
  return false;
}

void *crk_priv_library_find(const crk_library_t *library, char *path, size_t path_size, char *why, size_t size) {
  search_t self = {.library = library, .path = path, .path_size = path_size};
  if (library->named != NULL && library->named[0] != '\0') {
    try_file(&self, library->named);
    snprintf(why, size, "%s", self.reason);
    return self.found;
  }
  crk_priv_loaded_visit(visit_loaded, &self);
  if (!try_candidates(&self) && !try_beside_runtime(&self) && !try_runtime(&self) && !try_variables(&self) &&
      !crk_priv_loader_visit(false, visit_told_folder, &self) && !try_usual_places(&self) && !try_names(&self)) {
    snprintf(why, size, WINDOWS ? "no %s.dll of any version in %s%s (%s)" : "no lib%s.so of any version in %s%s (%s)",
             library->stem, library->vendor->places, library->runtime != NULL ? " and beside the runtime" : "",
             self.reason[0] != '\0' ? self.reason : "there is none");
  }
  free(self.candidates);
  return self.found;
}

crk_status_t crk_priv_library_load(const crk_library_t *self, const char *where, char *path, size_t path_size) {
  char named[4096] = "", why[800] = "";
  const bool is_named = crk_priv_variable(self->variable, named, sizeof named);
  crk_library_t search = *self;
  search.named = named;
  if (crk_priv_library_find(&search, path, path_size, why, sizeof why) != NULL) {
    return CRK_OK;
  }
  if (is_named) {
    return crk_priv_error(CRK_NO_RUNTIME, "%s: %s names %s, which cannot be used for %s: %s", where, self->variable,
                          named, self->name, why);
  }
  return crk_priv_advise(crk_priv_error(CRK_NO_RUNTIME, "%s: no %s: %s", where, self->name, why),
                         "%s, put its folder on LD_LIBRARY_PATH, or name the file in %s", self->remedy, self->variable);
}
