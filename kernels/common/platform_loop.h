/* Another name of the platform's, beside platform.h:
 *
 *   CRK_ONE_BY_ONE            before a loop, no two steps of which are to be at work at once: neither unrolled nor interleaved */
#ifndef CRK_PLATFORM_LOOP_H
#define CRK_PLATFORM_LOOP_H

#if defined(__HIP__)
#define CRK_ONE_BY_ONE _Pragma("clang loop unroll(disable) vectorize(disable) interleave(disable)")
#elif defined(__CUDACC__)
#define CRK_ONE_BY_ONE _Pragma("unroll 1")
#else
#define CRK_ONE_BY_ONE
#endif

#endif
