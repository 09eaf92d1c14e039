/* The CPU driver's worker threads: one pool for the process, started when the first job that is worth it comes. */
#ifndef CRK_CPU_POOL_H
#define CRK_CPU_POOL_H

#include <stdint.h>

/* Threads that can work at once, the caller's among them; at least 1. */
uint32_t crk_priv_pool_width(void);

/* Calls body(context) on the calling thread and on up to `width` - 1 workers at once, and returns when all of these
 * calls have. The body takes its work from a counter of its own until there is none left: it does not matter how many
 * workers come, and the work gets done even if none does. Several threads may run jobs at once. A body must not run a
 * job. */
void crk_priv_pool_run(uint32_t width, void (*body)(void *context), void *context);

#endif
