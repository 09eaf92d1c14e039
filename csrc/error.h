/* error.h: reports of failures. A failing function returns a status; the thread keeps a sentence for crk_last_error. */
#ifndef CRK_ERROR_H
#define CRK_ERROR_H

#include "candle_rocm.h"

#if defined(__GNUC__) || defined(__clang__)
#if defined(__MINGW32__)
#define CRK_PRINTF_STYLE gnu_printf /* mingw's own snprintf, which knows %zu */
#else
#define CRK_PRINTF_STYLE printf
#endif
#define CRK_PRINTF(text, first) __attribute__((format(CRK_PRINTF_STYLE, text, first), cold))
#else
#define CRK_PRINTF(text, first)
#endif

/* Keeps the sentence and returns `status`, so that a function can `return crk_priv_error(...)`. A sentence begins with
 * the public function or the driver's call. It names the argument and its value, and says which values are allowed. It
 * has no full stop. */
crk_status_t crk_priv_error(crk_status_t status, const char *format, ...) CRK_PRINTF(2, 3);

/* The same for CRK_DEVICE. Also keeps the driver's error code for crk_last_device_error. */
crk_status_t crk_priv_device_error(int code, const char *format, ...) CRK_PRINTF(2, 3);

/* Appends "; " and what to do to the sentence of the thread's last error. Returns `status`. A format must not use the
 * last error's text. */
crk_status_t crk_priv_advise(crk_status_t status, const char *format, ...) CRK_PRINTF(2, 3);

/* What crk_priv_advise appended to the thread's last error: the end of crk_last_error's text. "" if nothing. */
const char *crk_priv_last_remedy(void);

/* The body of a function that gives a text for each value of a list: `cases` is the list, with a CRK_TEXT for each of
 * its items. */
#define CRK_TEXT(value, text) \
  case value:                 \
    return text;
#define CRK_TEXT_OF(value, cases, unknown) \
  switch (value) { cases }                 \
  return unknown

/* Returns from the calling function if `expr` fails. */
#define CRK_TRY(expr)                            \
  do {                                           \
    const crk_status_t crk_try_status_ = (expr); \
    if (crk_try_status_ != CRK_OK) {             \
      return crk_try_status_;                    \
    }                                            \
  } while (0)

/* Returns CRK_INVALID_ARGUMENT with a sentence if `condition` holds. */
#define CRK_REFUSE_IF(condition, ...)                           \
  do {                                                          \
    if (condition) {                                            \
      return crk_priv_error(CRK_INVALID_ARGUMENT, __VA_ARGS__); \
    }                                                           \
  } while (0)

#endif
