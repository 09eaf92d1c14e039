/* Another name of the platform's, beside platform.h:
 *
 *   dot2<T>(a, b, c)          c plus the products of the two numbers of T, f16 or bf16, in each of two words; in f32
 *
 * f16: gfx906, gfx908, gfx942, gfx950, gfx1011, gfx1012 and RDNA 2, 3 and 4 have it as one instruction (v_dot2_f32_f16), which takes
 * subnormal f16 as they are; that it flushes subnormal f32 loses nothing, since sums of products of f16 are multiples of
 * 2^-48. That of gfx90a flushes subnormal f16 (PyTorch's notes on numerical accuracy say so of the MI200), so there a product
 * is an fma that takes halves of registers (v_fma_mix_f32). bf16: one instruction on gfx950, RDNA 3 and 4
 * (v_dot2_f32_bf16), to which a number below 2^-126 may be 0. Elsewhere, and on other GPUs, two fma. */
#ifndef CRK_PLATFORM_DOT_H
#define CRK_PLATFORM_DOT_H

#include "dtype.h"

#if defined(__HIP__) &&                                                                              \
    (defined(__gfx906__) || defined(__gfx908__) || defined(__gfx942__) || defined(__gfx950__) ||     \
     defined(__gfx1011__) || defined(__gfx1012__) || defined(__gfx1030__) || defined(__gfx1031__) || \
     defined(__gfx1032__) || defined(__gfx1033__) || defined(__gfx1034__) || defined(__gfx1035__) || \
     defined(__gfx1036__) || defined(__GFX11__) || defined(__GFX12__))
#define CRK_DOT2_F16
#endif
#if defined(__HIP__) && (defined(__gfx950__) || defined(__GFX11__) || defined(__GFX12__))
#define CRK_DOT2_BF16
#endif

namespace crk {

CRK_FN float low_number(f16, uint32_t word) { return f16_decode(static_cast<uint16_t>(word)); }
CRK_FN float high_number(f16, uint32_t word) { return f16_decode(static_cast<uint16_t>(word >> 16)); }
CRK_FN float low_number(bf16, uint32_t word) { return bit_cast<float>(word << 16); }
CRK_FN float high_number(bf16, uint32_t word) { return bit_cast<float>(word & 0xffff0000u); }

template <class T>
CRK_FN float dot2(uint32_t a, uint32_t b, float c) {
#if defined(CRK_DOT2_F16)
  if constexpr (same<T, f16>) {
    typedef _Float16 two __attribute__((ext_vector_type(2)));
    return __builtin_amdgcn_fdot2(bit_cast<two>(a), bit_cast<two>(b), c, false);
  }
#endif
#if defined(CRK_DOT2_BF16)
  if constexpr (same<T, bf16>) {
    typedef short two __attribute__((ext_vector_type(2)));
    return __builtin_amdgcn_fdot2_f32_bf16(bit_cast<two>(a), bit_cast<two>(b), c, false);
  }
#endif
  return fma(high_number(T(), a), high_number(T(), b), fma(low_number(T(), a), low_number(T(), b), c));
}

}  // namespace crk

#undef CRK_DOT2_F16
#undef CRK_DOT2_BF16

#endif
