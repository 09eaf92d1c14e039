/* Hints to compilers, and ways around their faults. Part of platform/platform.h; hip/workarounds.h, cuda/workarounds.h
 * and host/workarounds.h have the definitions.
 *
 * Each function returns its argument. It changes what the compiler makes of the code, never the result. Most are for AMD
 * GPUs and do nothing elsewhere. The kernel macros of entry.h hint at registers; flags that work around a compiler are
 * in build/toolchain.rs. */
#ifndef CRK_PLATFORM_WORKAROUNDS_H
#define CRK_PLATFORM_WORKAROUNDS_H

/* Before a loop: CRK_UNROLL unrolls it, CRK_NO_UNROLL keeps it a loop. CRK_ONE_BY_ONE also forbids to interleave its
 * steps, so that no two are at work at once. */

namespace crk {

/* Returns `word`, and hides from the compiler what it knows of its value. */
CRK_FN uint32_t opaque(uint32_t word);

/* Returns `word`. Without this, clang 15 splits a computation on it into computations on single bits. */
CRK_FN uint32_t whole_word(uint32_t word);

/* Returns `word`; its bytes are then converted to floats. Without this, clang extracts those bytes first of which it
 * knows some bits, in instructions that the conversion does not need. */
CRK_FN uint32_t whole_bytes(uint32_t word);

/* Returns `word`. The compiler starts no computation on it before `first`, of 4 bytes, has arrived. For places where the
 * registers of both at once would leave fewer waves on a SIMD unit. Does nothing from RDNA 3 on. */
template <class T>
CRK_FN uint32_t in_turn(uint32_t word, T first);

/* Returns a kernel's first argument, read again here. AMD GPUs then keep no part of it in registers until here. */
template <class T>
CRK_FN const T &reread(const T &argument);

/* a * b. If the result is then rounded to f16, clang for AMD GPUs makes one instruction of both, which also adds 0: a
 * product of -0 becomes 0. This product keeps its sign. */
CRK_FN float product(float a, float b);
CRK_FN double product(double a, double b);

}  // namespace crk

#endif
