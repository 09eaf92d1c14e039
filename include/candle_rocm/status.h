/* candle_rocm/status.h: the library's version, the statuses that functions return, and the sentences that go with
 * them. */
#ifndef CANDLE_ROCM_STATUS_H
#define CANDLE_ROCM_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of these headers. crk_version() is the version of the library that the program runs with. */
#define CRK_VERSION_MAJOR 0
#define CRK_VERSION_MINOR 1
#define CRK_VERSION_PATCH 0

/* Stands before every public function. Programs define nothing for the libraries that `make install` installs.
 *
 * For a DLL on Windows define CRK_SHARED when you compile the library and when you compile programs that use it; define
 * CRK_BUILD for the library alone. */
#if !defined(CRK_SHARED)
#define CRK_API
#elif defined(_WIN32) || defined(__CYGWIN__)
#if defined(CRK_BUILD)
#define CRK_API __declspec(dllexport)
#else
#define CRK_API __declspec(dllimport)
#endif
#else
#define CRK_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* XX(name, value, sentence). The values are ABI: append, never renumber. */
#define CRK_STATUS_MAP(XX)                                                \
  XX(OK, 0, "success")                                                    \
  XX(INVALID_ARGUMENT, 1, "an argument is not valid")                     \
  XX(OUT_OF_BOUNDS, 2, "a layout reaches outside its buffer")             \
  XX(UNSUPPORTED, 3, "no kernel for this combination")                    \
  XX(NOT_FOUND, 4, "no module or kernel of this name")                    \
  XX(OUT_OF_MEMORY, 5, "out of memory")                                   \
  XX(NO_RUNTIME, 6, "the GPU runtime is not installed")                   \
  XX(NO_DEVICE, 7, "no such device")                                      \
  XX(INVALID_IMAGE, 8, "not a usable code object")                        \
  XX(WRONG_ARCHITECTURE, 9, "the code object is for other architectures") \
  XX(CAPTURE, 10, "not possible while the stream is captured")            \
  XX(NOT_READY, 11, "the work is not done yet")                           \
  XX(DEVICE, 12, "the driver reports an error")                           \
  XX(OUT_OF_RANGE, 13, "a kernel met an id out of range")                 \
  XX(PEER_LOST, 14, "another rank failed, left or did not come in time")

typedef enum crk_status {
#define XX(name, value, sentence) CRK_##name = value,
  CRK_STATUS_MAP(XX)
#undef XX
} crk_status_t;

/* The name of a status, such as "CRK_OUT_OF_MEMORY"; "CRK_UNKNOWN" for a value that this build does not know. */
CRK_API const char *crk_status_name(crk_status_t status);

/* The general sentence of a status. The text is static and never NULL. */
CRK_API const char *crk_status_message(crk_status_t status);

/* The sentence of this thread's last failed call: the function, the argument, its value, and the driver's answer. Never
 * NULL; "" before the first failure. Valid until the thread's next failure. */
CRK_API const char *crk_last_error(void);

/* The driver's own error number (a hipError_t or CUresult; of collectives an ncclResult_t) of this thread's last
 * CRK_DEVICE, else 0. */
CRK_API int crk_last_device_error(void);

/* The library's version, "MAJOR.MINOR.PATCH". The text is static. */
CRK_API const char *crk_version(void);

#ifdef __cplusplus
}
#endif
#endif
