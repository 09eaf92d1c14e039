/* How a kernel is declared, and which features this platform has. A part of platform/platform.h.
 *
 * Everything here is a macro or a constant. platform/hip/entry.h, platform/cuda/entry.h and platform/host/entry.h have
 * the definitions.
 *
 *   CRK_KERNEL(example, 256, (const float *src, float *dst)) { body }
 *
 * declares an extern "C" entry point `example` for blocks of up to 256 threads. Parameters are passed by value. */
#ifndef CRK_PLATFORM_ENTRY_H
#define CRK_PLATFORM_ENTRY_H

#if !defined(CRK_FN)
#error "include platform/platform.h"
#endif

/* CRK_FN stands before every function that kernels call. The function is always inlined,
 * except for the CPU in profiles that optimise little (platform/host/entry.h). */

/* CRK_ELEMENTWISE(name, max_threads, (params)) { body }
 *
 * A kernel with independent elements. Each thread finds its elements through crk::elements or crk::named_elements. */

/* CRK_KERNEL(name, max_threads, (params)) { body }
 *
 * A kernel with independent threads: no barrier, no shuffle, no vote. */

/* CRK_COOPERATIVE(name, max_threads, (params)) { body }
 *
 * A kernel with threads that meet at barriers, shuffles or votes. */

/* CRK_STREAMING(name, max_threads, waves, (params)) { body }
 *
 * CRK_COOPERATIVE for a kernel that mostly waits for memory. On AMD GPUs, the compiler limits the kernel's registers,
 * so that `waves` waves fit on a SIMD unit. clang 15 sets no limit, and no compiler does for SIMD units with 256
 * registers per lane. */

/* CRK_WAVES(waves)
 *
 * Stands before another kernel macro. On AMD GPUs, the compiler limits that kernel's registers, so that `waves` waves
 * fit on any SIMD unit. clang 15 sets no limit. */

/* CRK_EARLY()
 *
 * The first statement of a kernel: all threads come, and no access to global memory is before it. On NVIDIA GPUs from
 * compute capability 9.0 on, the launch may begin before the stores of the launch before can be seen. CRK_EARLY waits
 * until they can. This saves 0.3 us per launch on an H200, so only kernels that take a few microseconds in a decode
 * step have it. Elsewhere it does nothing.
 *
 * CRK_BEGINS_EARLY() in its place does not wait: the kernel calls wait_for_launch_before (platform/threads.h). */

/* CRK_MODULE(stem) stands once, at the end of kernels/<stem>.hip. */

/* CRK_ND_ARGUMENT(param)
 *
 * A reference to the kernel's first parameter, a struct such as crk_nd_t that a launcher fills. Kernels name the struct
 * only through this macro, so that the struct is read in place and not copied. */

/* CRK_HOST_FMA
 *
 * A module defines it before its first #include if its kernels do little more than an fma. For the CPU, x86-64
 * compilers then make two versions of each kernel, one of them with the fma instruction. The program chooses as it is
 * loaded. */

/* constexpr bool on_host: true where the CPU runs the kernel. */

/* Features. The first four are 0 or 1. Each of the others is defined if the platform has the feature;
 * platform/maths.h declares the feature's functions.
 *
 *   CRK_LARGE_SHARED   shared memory has room for two steps of a wide tile
 *   CRK_LONG_STEPS     shared memory has room for long steps of large tiles, in two blocks (CRK_MATMUL_DEPTH)
 *   CRK_HAS_WIDE_MMQ   kernels/quantized_mat.hip has the wide tiles: two blocks or more find room for them
 *   CRK_SEVERAL_CACHES the GPU may have several L2 caches (numbers/cache_order.h)
 *   CRK_HAS_F16        arithmetic of f16
 *   CRK_HAS_BF16       arithmetic of bf16
 *   CRK_HAS_DOT2_F16   sums of two products of f16
 *   CRK_HAS_DOT2_BF16  sums of two products of bf16
 *   CRK_HAS_SILU       x / (1 + e^-x) in fewer instructions than exp and a division take
 *   CRK_HAS_CUDA_EXP   exp of a float is CUDA's; kernels/unary.hip imitates its rounding on other platforms */

#endif
