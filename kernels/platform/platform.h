/* The platform layer. Kernels use the machine that they run on through these names alone, in namespace crk.
 *
 * Kernels include this file. It is the only header that chooses between compilers, so kernels are the same for all of
 * them. Each name is documented where it is declared:
 *
 *   types.h        arithmetic on types
 *   entry.h        macros that declare kernels; which features this platform has
 *   threads.h      places of threads, their shares of the elements, waves, barriers, shuffles, votes
 *   memory.h       shared memory, loads, stores and packs, atomics, asynchronous copies
 *   maths.h        bits, integers, functions of one number, dot products, 16-bit floats
 *   matrix.h       matrix cores
 *   stream.h       matrix cores for numbers that come straight from global memory
 *   workarounds.h  hints to compilers, and ways around their faults
 *
 * Files of the same names in hip/ (clang for AMD GPUs), cuda/ (nvcc) and host/ (any C++17 compiler, for the CPU) define
 * these names for one compiler. Files in generic/ hold definitions that two of the three share.
 *
 * Two more headers serve the core too, as plain C: architectures.h lists AMD's architectures, and host_abi.h describes
 * kernels for the CPU to the driver that runs them. */
#ifndef CRK_PLATFORM_H
#define CRK_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#include "call/fault_word.h"
#include "call/launch_threads.h"
#include "call/nd.h"
#include "platform/types.h"

/* The macros of this compiler, which the declarations need. */
#if defined(__HIP__)
#include "platform/hip/entry.h"
#elif defined(__CUDACC__)
#include "platform/cuda/entry.h"
#else
#include "platform/host/entry.h"
#endif

/* Declarations, the same for every compiler. */
#include "platform/entry.h"
#include "platform/maths.h"
#include "platform/matrix.h"
#include "platform/memory.h"
#include "platform/stream.h"
#include "platform/threads.h"
#include "platform/workarounds.h"

/* Definitions for this compiler. */
#if defined(__HIP__)
#include "platform/hip/maths.h"
#include "platform/hip/matrix.h"
#include "platform/hip/matrix_double.h"
#include "platform/hip/matrix_float.h"
#include "platform/hip/matrix_half.h"
#include "platform/hip/memory.h"
#include "platform/hip/stream.h"
#include "platform/hip/threads.h"
#include "platform/hip/workarounds.h"
#elif defined(__CUDACC__)
#include "platform/cuda/maths.h"
#include "platform/cuda/matrix.h"
#include "platform/cuda/matrix_double.h"
#include "platform/cuda/matrix_float.h"
#include "platform/cuda/matrix_half.h"
#include "platform/cuda/memory.h"
#include "platform/cuda/stream.h"
#include "platform/cuda/threads.h"
#include "platform/cuda/workarounds.h"
#else
#include "platform/host/maths.h"
#include "platform/host/matrix.h"
#include "platform/host/matrix_double.h"
#include "platform/host/matrix_float.h"
#include "platform/host/matrix_half.h"
#include "platform/host/memory.h"
#include "platform/host/stream.h"
#include "platform/host/threads.h"
#include "platform/host/workarounds.h"
#endif

#undef CRK_MATHS_MAP
#undef CRK_MATHS_GPU_MAP
#undef CRK_MATHS_C

#endif
