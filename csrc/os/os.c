/* The functions of os.h that are the same on every system. */
#include "os/os.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const char *crk_priv_library_functions(void *library, const char *const *names, void *functions) {
  const char *missing = NULL;
  for (size_t i = 0; names[i] != NULL; i++) {
    const bool is_optional = names[i][0] == '?';
    void *const symbol = crk_priv_library_symbol(library, names[i] + is_optional);
    memcpy((char *)functions + i * sizeof symbol, &symbol, sizeof symbol);
    missing = missing == NULL && symbol == NULL && !is_optional ? names[i] : missing;
  }
  return missing;
}

static bool has_word(const char *name, const char *word) {
  const size_t length = strlen(word);
  const char *at = strstr(name, word);
  while (at != NULL && isalnum((unsigned char)at[length])) {
    at = strstr(at + 1, word);
  }
  return at != NULL;
}

typedef struct word_search {
  const char *folder, *word;
  uint32_t depth;
} word_search_t;

static bool visit_entry(void *context, const char *name) {
  const word_search_t *self = context;
  if (has_word(name, self->word) || self->depth == 0 || name[0] == '.') {
    return has_word(name, self->word);
  }
  char below[1280];
  const int length = snprintf(below, sizeof below, "%s/%s", self->folder, name);
  return length > 0 && (size_t)length < sizeof below && crk_priv_folder_has(below, self->word, self->depth - 1);
}

bool crk_priv_folder_has(const char *folder, const char *word, uint32_t depth) {
  word_search_t search = {folder, word, depth};
  return crk_priv_folder_visit(folder, visit_entry, &search);
}
