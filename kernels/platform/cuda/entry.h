/* platform/entry.h for NVIDIA GPUs: nvcc 13, sm_80 and later. */
#ifndef CRK_PLATFORM_CUDA_ENTRY_H
#define CRK_PLATFORM_CUDA_ENTRY_H

#include "call/early.h"

#define CRK_FN __device__ __forceinline__

#define CRK_ELEMENTWISE(name, max_threads, params) CRK_KERNEL(name, max_threads, params)
#define CRK_COOPERATIVE(name, max_threads, params) CRK_KERNEL(name, max_threads, params)
#define CRK_KERNEL(name, max_threads, params)      extern "C" __global__ void __launch_bounds__(max_threads) name params
#define CRK_MODULE(stem)

#define CRK_WAVES(waves)

/* The assembly uses the variable, so it is in the image. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define CRK_BEGINS_EARLY()                             \
  static __device__ const char CRK_EARLY_VARIABLE = 1; \
  asm volatile("" ::"l"(&CRK_EARLY_VARIABLE))
#else
#define CRK_BEGINS_EARLY() ((void)0)
#endif
#define CRK_EARLY()   \
  CRK_BEGINS_EARLY(); \
  crk::wait_for_launch_before()

#define CRK_STREAMING(name, max_threads, waves, params) CRK_COOPERATIVE(name, max_threads, params)

/* Arguments lie in constant memory, where a variable index works. */
#define CRK_ND_ARGUMENT(nd) (nd)

#define CRK_LARGE_SHARED   1
#define CRK_LONG_STEPS     0
#define CRK_HAS_WIDE_MMQ   1
#define CRK_SEVERAL_CACHES 0
#define CRK_HAS_F16        1
#define CRK_HAS_BF16       1
#define CRK_HAS_CUDA_EXP   1

namespace crk {

inline constexpr bool on_host = false;

}  // namespace crk

#endif
