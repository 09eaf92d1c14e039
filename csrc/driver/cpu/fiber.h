/* A fiber is a stack with a function that runs on it. A CPU thread switches between fibers. Each GPU thread of a
 * cooperative kernel runs on a fiber of its own.
 *
 * A switch is a few instructions of assembly on x86-64 (System V) and on aarch64. Other POSIX systems use ucontext, and
 * Windows uses its Fibers API. AddressSanitizer and ThreadSanitizer are told about every switch. */
#ifndef CRK_CPU_FIBER_H
#define CRK_CPU_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sanitizer.h"

#if defined(_WIN32)
#define CRK_FIBER_WINDOWS 1
#elif defined(CRK_FIBER_FORCE_UCONTEXT)
#define CRK_FIBER_UCONTEXT 1
#elif defined(__x86_64__) && defined(__LP64__)
#define CRK_FIBER_X86_64 1
#elif defined(__aarch64__) && defined(__LP64__)
#define CRK_FIBER_AARCH64 1
#else
#define CRK_FIBER_UCONTEXT 1
#endif

#if defined(CRK_FIBER_UCONTEXT)
#include <ucontext.h>
#endif

typedef struct crk_fiber {
  void (*body)(void *argument);
  void *argument;
  char *stack;        /* the lowest address, which is that of the guard page; NULL for a thread's own stack */
  size_t stack_bytes; /* with the guard page */
  size_t begin;       /* the distance of the first frame from the top, in bytes */
#if defined(CRK_FIBER_WINDOWS)
  void *handle;
  bool converted; /* crk_priv_fiber_enter made the thread a fiber */
#elif defined(CRK_FIBER_UCONTEXT)
  ucontext_t context;
#else
  void *stack_pointer;
#endif
#if defined(CRK_ASAN)
  struct crk_fiber *previous; /* the fiber that switched to this one */
  void *fake_stack;
  const void *bottom;
  size_t bytes;
#endif
#if defined(CRK_TSAN)
  void *tsan;
#endif
} crk_fiber_t;

/* Makes a fiber that runs body(argument) after the first switch to it; `body` must never return. `index` numbers the
 * fibers that are used together. Their first frames have different offsets in a page, and so use different sets of the
 * cache. Returns false if there is no memory for a stack. */
bool crk_priv_fiber_init(crk_fiber_t *self, uint32_t index, void (*body)(void *argument), void *argument);

/* Makes the fiber start again at the beginning of its body. The frames on its stack are dropped without unwinding. The
 * fiber must not be running. Returns false if the system refuses (Windows only); the fiber is then deinitialised. */
bool crk_priv_fiber_reset(crk_fiber_t *self);

/* Frees the stack. The fiber must not be running. */
void crk_priv_fiber_deinit(crk_fiber_t *self);

/* Makes `self` stand for the stack of the calling thread, which can then switch to fibers and back. Call
 * crk_priv_fiber_leave on the same thread. Returns false if the system refuses (Windows only). */
bool crk_priv_fiber_enter(crk_fiber_t *self);
void crk_priv_fiber_leave(crk_fiber_t *self);

/* Continues `to` where it last switched away. `from` must be the running fiber; the call returns when another one
 * switches to it. A fiber may continue on another thread than before. */
void crk_priv_fiber_switch(crk_fiber_t *from, crk_fiber_t *to);

#endif
