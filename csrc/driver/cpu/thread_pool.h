/* The worker threads of the CPU driver: one pool per process, started by the first job for several threads. */
#ifndef CRK_THREAD_POOL_H
#define CRK_THREAD_POOL_H

#include <stdint.h>

/* The threads that can work at once, the caller included; at least 1. */
uint32_t crk_priv_pool_width(void);

/* Calls body(context) on the calling thread and on up to `width` - 1 workers at once, and returns when all of these
 * calls have returned. The body takes pieces of work, by a counter of its own, until none is left. So the work is done
 * with any number of workers, even with none. Several threads may run jobs at once. A body must not run a job. */
void crk_priv_pool_run(uint32_t width, void (*body)(void *context), void *context);

#endif
