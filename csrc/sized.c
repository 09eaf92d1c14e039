/* Results and arguments in structs that begin with struct_bytes. */
#include "sized.h"

#include <string.h>

#include "error.h"

/* Reads the size of the caller's struct. */
static crk_status_t read_size(const char *where, const char *name, size_t first_bytes, const void *given,
                              size_t *bytes) {
  memcpy(bytes, given, sizeof *bytes);
  CRK_REFUSE_IF(*bytes < first_bytes || *bytes > CRK_SIZED_MOST,
                "%s: %s.struct_bytes is %zu; set it to the size of the struct, which is %zu or more, at most %d", where,
                name, *bytes, first_bytes, CRK_SIZED_MOST);
  return CRK_OK;
}

crk_status_t crk_priv_sized_give(const char *where, const char *name, size_t first_bytes, const void *known,
                                 size_t known_bytes, void *given) {
  size_t bytes;
  CRK_TRY(read_size(where, name, first_bytes, given, &bytes));
  const size_t copied = bytes < known_bytes ? bytes : known_bytes;
  char *to = given;
  memcpy(to + sizeof bytes, (const char *)known + sizeof bytes, copied - sizeof bytes);
  memset(to + copied, 0, bytes - copied);
  return CRK_OK;
}

crk_status_t crk_priv_sized_take(const char *where, const char *name, size_t first_bytes, const void *given,
                                 void *known, size_t known_bytes) {
  size_t bytes;
  CRK_TRY(read_size(where, name, first_bytes, given, &bytes));
  for (size_t i = known_bytes; i < bytes; i++) {
    if (((const char *)given)[i] != 0) {
      return crk_priv_error(CRK_UNSUPPORTED,
                            "%s: byte %zu of %s is not 0, but this library knows only its first %zu bytes", where, i,
                            name, known_bytes);
    }
  }
  const size_t copied = bytes < known_bytes ? bytes : known_bytes;
  memcpy(known, given, copied);
  memset((char *)known + copied, 0, known_bytes - copied);
  memcpy(known, &known_bytes, sizeof known_bytes);
  return CRK_OK;
}
