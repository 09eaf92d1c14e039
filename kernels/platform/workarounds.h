/* Hints to compilers, and ways around compilers' faults.
 *
 * A part of platform/platform.h. The definitions are in platform/hip/workarounds.h, platform/cuda/workarounds.h and
 * platform/host/workarounds.h.
 *
 * Most hints are for AMD GPUs and do nothing elsewhere. The macros that limit a kernel's registers are in entry.h,
 * and the flags that work around a compiler's faults are in build/toolchain.rs. */
#ifndef CRK_PLATFORM_WORKAROUNDS_H
#define CRK_PLATFORM_WORKAROUNDS_H

/* CRK_UNROLL, CRK_NO_UNROLL and CRK_ONE_BY_ONE stand before a loop. CRK_UNROLL unrolls it, CRK_NO_UNROLL does not.
 * CRK_ONE_BY_ONE neither unrolls nor interleaves it, so that no two steps are at work at once. */

namespace crk {

/* Returns `word`. A compiler for GPUs knows nothing about the result's value. */
CRK_FN uint32_t opaque(uint32_t word);

/* Returns `word`. Without this, clang 15 splits a computation on it into computations on single bits. */
CRK_FN uint32_t whole_word(uint32_t word);

/* Returns `word`, before its bytes are converted to floats. An AMD GPU converts any byte of a word in one instruction.
 * If clang knows some bits of a byte, it extracts the byte first; here it knows none. */
CRK_FN uint32_t whole_bytes(uint32_t word);

/* Returns `word`. The compiler starts no computation on it before `first`, of 4 bytes, has arrived. For places where
 * both at once take so many registers that fewer waves fit on a SIMD unit. Does nothing from RDNA 3 on. */
template <class T>
CRK_FN uint32_t in_turn(uint32_t word, T first);

/* Returns `p`, an address in global memory that is the same in all lanes of the wave. The compiler knows nothing else
 * about it. An access at `p` plus a 32-bit offset of a lane then takes no vector instructions for its address. */
template <class T>
CRK_FN T *uniform_pointer(T *p);

/* Returns `word`. In a loop, the compiler computes nothing from it before step `step`, which is below 2^31 and differs
 * in each step. nvcc would move computations on what a loop keeps before the loop, and then lack registers. */
CRK_FN uint32_t in_step(uint32_t word, uint32_t step);

/* Returns `word`, which is the same in all lanes of the wave. The compiler computes it here, and not again at each use.
 */
CRK_FN uint32_t settled(uint32_t word);

/* The compiler moves no instruction past this call. For places where many loads at once take too many registers. */
CRK_FN void keep_order();

/* Returns a kernel's first argument, read again from memory. Nothing of it then stays in registers on an AMD GPU. */
template <class T>
CRK_FN const T &reread(const T &argument);

/* Swaps a and b if `bit` is 1, not 0; never a branch. nvcc would make a branch of a condition, with all that follows,
 * such as exchanges between lanes, on both sides. */
CRK_FN void swap_if(uint32_t bit, float &a, float &b);

/* a * b. If a product is then rounded to f16, clang for AMD GPUs makes one instruction of both steps. That instruction
 * adds 0, which turns a product of -0 into +0. This function keeps the sign. */
CRK_FN float product(float a, float b);
CRK_FN double product(double a, double b);

}  // namespace crk

#endif
