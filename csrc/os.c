/* os.h: what is the same on every system. */
#include "os.h"

#include <string.h>

const char *crk_priv_library_functions(void *library, const char *const *names, size_t count, void *functions) {
  const char *missing = NULL;
  for (size_t i = 0; i < count; i++) {
    void *const symbol = crk_priv_library_symbol(library, names[i]);
    memcpy((char *)functions + i * sizeof symbol, &symbol, sizeof symbol);
    missing = missing == NULL && symbol == NULL ? names[i] : missing;
  }
  return missing;
}
