/* Stacks that one thread switches between: what the threads of a cooperative kernel run on.
 *
 * The switch is a few instructions of assembly on x86-64 (System V) and on aarch64, ucontext on other POSIX systems,
 * and the Fibers API on Windows (compiled, never run). Address and thread sanitizer are told of every switch. */
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
  char *stack;        /* the lowest address, the guard page; NULL for a thread's own stack */
  size_t stack_bytes; /* with the guard page */
  size_t begin;       /* bytes from the top at which the first frame lies */
#if defined(CRK_FIBER_WINDOWS)
  void *handle;
  bool converted; /* the thread was no fiber before crk_priv_fiber_enter */
#elif defined(CRK_FIBER_UCONTEXT)
  ucontext_t context;
#else
  void *stack_pointer;
#endif
#if defined(CRK_ASAN)
  struct crk_fiber *previous; /* who switched here */
  void *fake_stack;
  const void *bottom;
  size_t bytes;
#endif
#if defined(CRK_TSAN)
  void *tsan;
#endif
} crk_fiber_t;

/* Makes a fiber that runs body(argument) once it is switched to; `body` must never return. `index` numbers the fibers
 * that are used together: their first frames are spread over the cache's sets, which begin anew with every page. False
 * where there is no memory for a stack. */
bool crk_priv_fiber_init(crk_fiber_t *self, uint32_t index, void (*body)(void *argument), void *argument);

/* Back to the beginning of the body: what is on the stack is dropped, without unwinding. The fiber must not be running.
 * False where the system refuses (Windows only); the fiber is then deinitialised. */
bool crk_priv_fiber_reset(crk_fiber_t *self);

/* The fiber must not be running. */
void crk_priv_fiber_deinit(crk_fiber_t *self);

/* Makes `self` stand for the calling thread's own stack, so that fibers can be switched to and back from; leave it on
 * the same thread. False where the system refuses (Windows only). */
bool crk_priv_fiber_enter(crk_fiber_t *self);
void crk_priv_fiber_leave(crk_fiber_t *self);

/* Continues `to` where it last switched away. Returns when somebody switches to `from`, which must be the running one.
 * A fiber may be continued by another thread than the one it ran on last. */
void crk_priv_fiber_switch(crk_fiber_t *from, crk_fiber_t *to);

#endif
