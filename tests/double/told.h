/* Reads from the environment which codes a double's calls return. */
#ifndef TOLD_H
#define TOLD_H

#include <stdlib.h>
#include <string.h>

/* The code after "name=" in a variable's list "call=code,call=code"; 0 if the name is not in it. */
static inline int told_code(const char *variable, const char *name) {
  const size_t length = strlen(name);
  for (const char *rule = getenv(variable); rule != NULL && *rule != '\0'; rule = strchr(rule, ',')) {
    rule += *rule == ',';
    if (strncmp(rule, name, length) == 0 && rule[length] == '=') {
      return atoi(rule + length + 1);
    }
  }
  return 0;
}

#endif
