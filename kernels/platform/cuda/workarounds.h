/* platform/workarounds.h for NVIDIA GPUs. */
#ifndef CRK_PLATFORM_CUDA_WORKAROUNDS_H
#define CRK_PLATFORM_CUDA_WORKAROUNDS_H

#include "platform/generic/workarounds.h"

#define CRK_UNROLL     _Pragma("unroll")
#define CRK_NO_UNROLL  _Pragma("unroll 1")
#define CRK_ONE_BY_ONE _Pragma("unroll 1")

namespace crk {

CRK_FN uint32_t opaque(uint32_t x) {
  asm("" : "+r"(x));
  return x;
}

CRK_FN uint32_t settled(uint32_t x) { return opaque(x); }

/* An empty assembler statement does not stop ptxas, which does not see it. All bits seem to depend on `step`. */
CRK_FN uint32_t in_step(uint32_t word, uint32_t step) {
  return word ^ static_cast<uint32_t>(static_cast<int32_t>(step) >> 31);
}

CRK_FN void swap_if(uint32_t bit, float &a, float &b) {
  const uint32_t first = bit_cast<uint32_t>(a), second = bit_cast<uint32_t>(b), swap = (first ^ second) & (0u - bit);
  a = bit_cast<float>(first ^ swap);
  b = bit_cast<float>(second ^ swap);
}

CRK_FN float product(float a, float b) { return a * b; }
CRK_FN double product(double a, double b) { return a * b; }

}  // namespace crk

#endif
