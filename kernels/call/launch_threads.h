/* The block of the launchers' kernels whose threads work alone. Plain C: csrc/launch/launcher.c launches it, platform.h counts by it. */
#ifndef CRK_LAUNCH_THREADS_H
#define CRK_LAUNCH_THREADS_H

/* Threads of such a block: enough waves to fill a compute unit with few blocks, and on both wave widths a whole number. */
#define CRK_LAUNCHED_THREADS 256

#endif
