/* platform/workarounds.h for the CPU. The macros for loops are empty: the compiler decides. */
#ifndef CRK_PLATFORM_HOST_WORKAROUNDS_H
#define CRK_PLATFORM_HOST_WORKAROUNDS_H

#include "platform/generic/workarounds.h"

/* Microsoft's compiler lacks these builtins. */
#if defined(_MSC_VER) && !defined(__clang__)
#define __builtin_memcpy               memcpy
#define __builtin_assume_aligned(p, n) (p)
#endif

#define CRK_UNROLL
#define CRK_NO_UNROLL
#define CRK_ONE_BY_ONE

namespace crk {

CRK_FN uint32_t opaque(uint32_t x) { return x; }
CRK_FN uint32_t settled(uint32_t x) { return x; }
CRK_FN uint32_t in_step(uint32_t word, uint32_t) { return word; }
CRK_FN void swap_if(uint32_t bit, float &a, float &b) {
  const float first = a;
  a = bit != 0 ? b : first;
  b = bit != 0 ? first : b;
}

CRK_FN float product(float a, float b) { return a * b; }
CRK_FN double product(double a, double b) { return a * b; }

}  // namespace crk

#endif
