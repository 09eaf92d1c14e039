/* What the environment tells a double's calls to answer. */
#ifndef TOLD_H
#define TOLD_H

#include <stdlib.h>
#include <string.h>

/* The code after "name=" in the list "call=code,call=code" of a variable; 0 where it is not there. */
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
