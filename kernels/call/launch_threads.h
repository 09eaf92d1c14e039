/* The block size of the launchers' kernels whose threads do not cooperate. Plain C: csrc/launch/launcher.c launches
 * blocks of this size, and `elements` of kernels/platform/platform.h counts threads by it. */
#ifndef CRK_LAUNCH_THREADS_H
#define CRK_LAUNCH_THREADS_H

/* Threads per block, a whole number of waves of 32 and of 64 lanes. A few blocks of this size fill a compute unit. */
#define CRK_LAUNCHED_THREADS 256

#endif
