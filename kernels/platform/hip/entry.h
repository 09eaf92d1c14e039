/* platform/entry.h for AMD GPUs: clang 15 (HIP 5.2) and later, with `-x hip --cuda-device-only -nogpuinc`.
 *
 * No file of this folder includes a header of HIP. Clang's builtins and the functions of AMD's device library suffice,
 * and they do not change with ROCm's version. */
#ifndef CRK_PLATFORM_HIP_ENTRY_H
#define CRK_PLATFORM_HIP_ENTRY_H

#include "platform/architectures.h"
#if CRK_ARCH_LANES == 0
#error "kernels/platform/architectures.h has no line for this architecture"
#endif

#define CRK_FN __attribute__((device, always_inline)) inline

#define CRK_ELEMENTWISE(name, max_threads, params) CRK_KERNEL(name, max_threads, params)
#define CRK_COOPERATIVE(name, max_threads, params) CRK_KERNEL(name, max_threads, params)
#define CRK_KERNEL(name, max_threads, params) \
  extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, max_threads))) void name params

/* clang 15 would keep a limit by moving values to memory. */
#if __clang_major__ < 16
#define CRK_WAVES(waves)
#else
#define CRK_WAVES(waves) __attribute__((amdgpu_waves_per_eu(waves)))
#endif
/* A SIMD unit with 256 registers per lane would leave eight waves 32 registers each, which is too few. */
#if CRK_ARCH_REGISTERS == 256
#define CRK_STREAMING(name, max_threads, waves, params) CRK_KERNEL(name, max_threads, params)
#else
#define CRK_STREAMING(name, max_threads, waves, params) CRK_WAVES(waves) CRK_KERNEL(name, max_threads, params)
#endif
#define CRK_MODULE(stem)

#define CRK_LARGE_SHARED 0
#if CRK_ARCH_MATRIX == CRK_MATRIX_MFMA4
#define CRK_LONG_STEPS 1 /* a compute unit has 160 KiB */
#else
#define CRK_LONG_STEPS 0
#endif
#define CRK_HAS_WIDE_MMQ (CRK_ARCH_LANES == 32)
/* CDNA 2 and later: one instruction computes two f32, and barrier() waits for shared memory alone. */
#define CRK_HAS_FLOAT_PAIRS   (CRK_MATRIX_IS_MFMA(CRK_ARCH_MATRIX) && CRK_ARCH_MATRIX != CRK_MATRIX_MFMA1)
#define CRK_HAS_LIGHT_BARRIER CRK_HAS_FLOAT_PAIRS
#define CRK_SEVERAL_CACHES \
  (CRK_ARCH_MATRIX == CRK_MATRIX_MFMA3 || CRK_ARCH_MATRIX == CRK_MATRIX_MFMA4) /* MI300, MI350 */
#define CRK_HAS_F16  1
#define CRK_HAS_SILU 1
#if CRK_ARCH_DOT2 != CRK_DOT2_NONE
#define CRK_HAS_DOT2_F16 1
#endif
#if CRK_ARCH_DOT2 == CRK_DOT2_BOTH
#define CRK_HAS_DOT2_BF16 1
#endif

namespace crk {

inline constexpr bool on_host = false;

/* Requests a word of each line of 64 bytes of the first argument, all at once. The arguments of a launch are in no
 * cache: else a kernel would come upon line after line, and wait for memory at each. */
template <uint32_t Bytes>
CRK_FN void request_arguments() {
  typedef const __attribute__((address_space(4))) uint32_t *words_type;
  constexpr uint32_t last = Bytes / 4 - 1;
  static_assert(Bytes <= 18 * 64, "a word of each line below");
  auto words = (words_type)__builtin_amdgcn_kernarg_segment_ptr();
  __asm__ volatile("" : "+s"(words)); /* else the words would stay in registers until the kernel reads them again */
  const auto line = [&](uint32_t i) { return words[i * 16 < last ? i * 16 : last]; };
  __asm__ volatile("" ::"s"(line(0)), "s"(line(1)), "s"(line(2)), "s"(line(3)), "s"(line(4)), "s"(line(5)),
                   "s"(line(6)), "s"(line(7)), "s"(line(8)), "s"(line(9)), "s"(line(10)), "s"(line(11)), "s"(line(12)),
                   "s"(line(13)), "s"(line(14)), "s"(line(15)), "s"(line(16)), "s"(line(17)));
}

/* Reads the struct in place, in constant memory. A copy in registers would take 100 of them, and an indexed copy would
 * lie in scratch memory. The struct is the kernel's first argument, so it begins where the arguments begin. */
#define CRK_ND_ARGUMENT(nd) crk::first_argument(nd)
template <class T>
CRK_FN const T &first_argument(const T &) {
  if constexpr (sizeof(T) > 64) {
    request_arguments<sizeof(T)>();
  }
  return *(const T *)(const __attribute__((address_space(4))) T *)__builtin_amdgcn_kernarg_segment_ptr();
}

}  // namespace crk

#endif
