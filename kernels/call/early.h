/* The variable by which the driver knows a kernel that may begin before the launch before has ended. Plain C; the
 * kernels of NVIDIA GPUs have it (CRK_BEGINS_EARLY in platform/entry.h), and csrc/driver/cuda.c looks for it. */
#ifndef CRK_EARLY_H
#define CRK_EARLY_H

#define CRK_EARLY_VARIABLE begins_early

#endif
