/* Results in structs that begin with struct_bytes. */
#include "sized.h"

#include <string.h>

#include "error.h"

crk_status_t crk_priv_sized_give(const char *where, const char *name, size_t first_bytes, const void *known,
                                 size_t known_bytes, void *given) {
  size_t bytes;
  memcpy(&bytes, given, sizeof bytes);
  CRK_REFUSE_IF(bytes < first_bytes || bytes > CRK_SIZED_MOST,
                "%s: %s.struct_bytes is %zu; set it to the size of the struct, which is %zu or more, at most %d", where,
                name, bytes, first_bytes, CRK_SIZED_MOST);
  const size_t copied = bytes < known_bytes ? bytes : known_bytes;
  char *to = given;
  memcpy(to + sizeof bytes, (const char *)known + sizeof bytes, copied - sizeof bytes);
  memset(to + copied, 0, bytes - copied);
  return CRK_OK;
}
