/* library.h: finds a shared library of a GPU vendor by its stem, in any installed version: libamdhip64.so.5, .6, .7 and
 * later ones. It finds HIP's runtime, run-time compilers, BLAS libraries, RCCL and NCCL. */
#ifndef CRK_LIBRARY_H
#define CRK_LIBRARY_H

#include "error.h"
#include "os/os.h"

/* The places where a vendor's libraries are installed. */
typedef struct crk_vendor {
  const char *const *variables; /* environment variables, each with the root of an installation; ends with NULL */
  const char *folder, *name; /* usual installations are folder/name and folder/name-VERSION; NULL if there are none */
  const char *places; /* all places that are searched, for the error sentence */
} crk_vendor_t;

extern const crk_vendor_t crk_priv_rocm, crk_priv_cuda;

typedef struct crk_library {
  const char *stem; /* "amdhip64" */
  const crk_vendor_t *vendor;
  const char *named; /* the file that the user has named; then no other file is tried. NULL or "" for none */
  const char *const *symbols; /* the needed functions, as crk_priv_library_functions takes them */
  void *functions; /* their pointers go here */
  void *runtime; /* the open HIP runtime, or NULL. Its folder is searched early */
  /* A run-time compiler. The runtime itself may have its functions, as until HIP 6. Any other library with a `runtime`
   * takes its streams, so it must not be linked to another HIP runtime: that one would follow a wild pointer. */
  bool is_compiler;
  uint32_t version; /* files of this version (crk_priv_library_version) are preferred; 0: the highest is */
  /* Called with the functions in place; `missing` is the first missing one, or NULL. Returns whether the library can be
   * used; if not, writes the reason to `why` (of `size` bytes). NULL: it can be used if no function is missing. */
  bool (*accept)(void *context, const char *missing, const char *path, char *why, size_t size);
  void *context;
  const char *name, *variable, *remedy; /* for crk_priv_library_load */
} crk_library_t;

/* Opens the first library that is accepted, and writes the path that it was opened by to `path`. The order is:
 *   1. the file that the user has named, and then nothing else;
 *   2. the libraries that the process has loaded already;
 *   3. the folder of `runtime`, then for a compiler the runtime itself;
 *   4. the installation that each of the vendor's variables names: ROOT, ROOT/core, ROOT/core-VERSION;
 *   5. the folders that the loader was told to search (LD_LIBRARY_PATH), one after the other;
 *   6. the loader's own folders, and the vendor's installations in their usual place, each as in 4;
 *   7. the loader's cache, by name.
 *
 * Each step tries the highest version first. An opened library stays open even if it is not accepted: it may have
 * loaded a runtime, which must not be closed. Returns NULL if no library is accepted. Then `why` says what was
 * searched, and why the first file that was found cannot be used. */
void *crk_priv_library_find(const crk_library_t *self, char *path, size_t path_size, char *why, size_t size);

/* The same for a library that the user may name in the environment variable `variable`. Fails with CRK_NO_RUNTIME. The
 * sentence begins with the public function `where` and has the library's `name`, such as "RCCL". If the user named no
 * file, it ends with the ways out: `remedy`, such as "install ROCm's package rccl", LD_LIBRARY_PATH and `variable`. */
crk_status_t crk_priv_library_load(const crk_library_t *self, const char *where, char *path, size_t path_size);

/* Returns the version in the name of a file of the library `stem`: 7 for "libamdhip64.so.7", 0 for "libamdhip64.so".
 * With Windows names, 7 for "amdhip64_7.dll", and 7014 (major and minor) for "hiprtc0714.dll". -1 for other libraries'
 * files. */
int64_t crk_priv_library_version(const char *stem, const char *file, bool windows);

#endif
