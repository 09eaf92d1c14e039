/* Names and sentences of status codes; the last error of each thread. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ERROR_BYTES 1024

static _Thread_local char last_error[ERROR_BYTES];
static _Thread_local size_t last_remedy; /* where the remedy begins in last_error; 0 for none */
static _Thread_local int last_device_error;

const char *crk_status_name(crk_status_t status) {
#define XX(name, value, sentence) CRK_TEXT(CRK_##name, "CRK_" #name)
  CRK_TEXT_OF(status, CRK_STATUS_MAP(XX), "CRK_UNKNOWN");
#undef XX
}

const char *crk_status_message(crk_status_t status) {
#define XX(name, value, sentence) CRK_TEXT(CRK_##name, sentence)
  CRK_TEXT_OF(status, CRK_STATUS_MAP(XX), "a status that this version does not know");
#undef XX
}

const char *crk_last_error(void) { return last_error; }

int crk_last_device_error(void) { return last_device_error; }

const char *crk_version(void) { return CRK_VERSION; }

static void keep(int device_code, const char *format, va_list args) {
  /* Formatted in a buffer of its own, because an argument may be last_error itself. */
  char sentence[ERROR_BYTES];
  vsnprintf(sentence, sizeof sentence, format, args);
  snprintf(last_error, sizeof last_error, "%s", sentence);
  last_remedy = 0;
  last_device_error = device_code;
}

crk_status_t crk_priv_error(crk_status_t status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  keep(0, format, args);
  va_end(args);
  return status;
}

crk_status_t crk_priv_advise(crk_status_t status, const char *format, ...) {
  const size_t used = strlen(last_error);
  if (used + 3 < sizeof last_error) {
    memcpy(last_error + used, "; ", 2);
    last_remedy = used + 2;
    va_list args;
    va_start(args, format);
    vsnprintf(last_error + last_remedy, sizeof last_error - last_remedy, format, args);
    va_end(args);
  }
  return status;
}

const char *crk_priv_last_remedy(void) { return last_remedy != 0 ? last_error + last_remedy : ""; }

crk_status_t crk_priv_device_error(int code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  keep(code, format, args);
  va_end(args);
  return CRK_DEVICE;
}
