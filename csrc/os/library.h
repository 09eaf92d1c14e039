/* Finds a shared library of a GPU's vendor by its stem, in whatever version is installed: libamdhip64.so.5 to .8 and
 * those to come. The one search of this library: runtimes, run-time compilers and BLAS libraries go through it. */
#ifndef CRK_LIBRARY_H
#define CRK_LIBRARY_H

#include "os/os.h"

/* Where a vendor's libraries are installed. */
typedef struct crk_vendor {
  const char *const *variables; /* of the environment; each names the root of an installation; ends with NULL */
  const char *folder, *name; /* installations are folder/name and folder/name-VERSION; NULL for none */
  const char *places; /* the two above, in a sentence */
} crk_vendor_t;

extern const crk_vendor_t crk_priv_rocm, crk_priv_cuda;

typedef struct crk_library {
  const char *stem; /* "amdhip64" */
  const crk_vendor_t *vendor;
  const char *named; /* the file that the user names; then no other is tried. NULL or "" for none */
  const void *beside; /* a symbol of an open library, whose folder comes first; NULL for none */
  void *instead; /* an open library that may have all that is needed; NULL for none */
  uint32_t version; /* files of this version (crk_priv_library_version) come first in their folder; 0 for the highest */
  /* Whether the open library has what is needed; else says in `why` (of `size` bytes) what it lacks. */
  bool (*accept)(void *context, void *library, const char *path, char *why, size_t size);
  void *context;
} crk_library_t;

/* Opens the first library that is accepted and writes the path it was opened by into `path`. Tries, in this order:
 *   1. the file that is named, and then nothing else;
 *   2. what the process has loaded already;
 *   3. the folder of `beside`, then the library `instead`;
 *   4. the installation that each of the vendor's variables names: ROOT, ROOT/core, ROOT/core-VERSION;
 *   5. the folders in which the loader was told to look (LD_LIBRARY_PATH), one after the other;
 *   6. the loader's own folders, and the vendor's installations in their usual place, each as in 4;
 *   7. the loader's cache, by name.
 * The highest version of each step comes first. What is opened stays open, accepted or not: it may
 * have loaded a runtime, which must not be closed. NULL where nothing is accepted; `why` then tells what was looked for
 * and the reason of the first file that was found. */
void *crk_priv_library_find(const crk_library_t *self, char *path, size_t path_size, char *why, size_t size);

/* The version in the name of a file of the library `stem`: 7 of "libamdhip64.so.7", 0 of "libamdhip64.so"; by Windows'
 * names 7 of "amdhip64_7.dll" and 7014, major and minor, of "hiprtc0714.dll". -1 for another library's file. */
int64_t crk_priv_library_version(const char *stem, const char *file, bool windows);

#endif
