/* Dot products of f16 or bf16 numbers that are packed in pairs in 32-bit words, summed in f32. For every kernel. Main
 * function: dot2. */
#ifndef CRK_DOT_HALF_H
#define CRK_DOT_HALF_H

#include "numbers/element_types.h"

namespace crk {

/* The number in the lower or the upper half of a word; the first argument selects the type. */
CRK_FN float low_number(f16, uint32_t word) { return f16_decode(static_cast<uint16_t>(word)); }
CRK_FN float high_number(f16, uint32_t word) { return f16_decode(static_cast<uint16_t>(word >> 16)); }
CRK_FN float low_number(bf16, uint32_t word) { return bit_cast<float>(word << 16); }
CRK_FN float high_number(bf16, uint32_t word) { return bit_cast<float>(word & 0xffff0000u); }

/* Whether the GPU has an instruction for dot2. */
#if defined(CRK_HAS_DOT2_F16)
inline constexpr bool has_dot2_f16 = true;
#else
inline constexpr bool has_dot2_f16 = false;
#endif
#if defined(CRK_HAS_DOT2_BF16)
inline constexpr bool has_dot2_bf16 = true;
#else
inline constexpr bool has_dot2_bf16 = false;
#endif
template <class T>
inline constexpr bool multiplies_pairs = (same<T, f16> && has_dot2_f16) || (same<T, bf16> && has_dot2_bf16);

/* c + low(a) * low(b) + high(a) * high(b), for T f16 or bf16. One instruction if the GPU has it (platform/hip/maths.h),
 * else two fma. gfx90a and gfx942 execute those for two sums at once (v_pk_fma_f32). */
template <class T>
CRK_FN float dot2(uint32_t a, uint32_t b, float c) {
#if defined(CRK_HAS_DOT2_F16)
  if constexpr (same<T, f16>) {
    return dot2_f16(a, b, c);
  }
#endif
#if defined(CRK_HAS_DOT2_BF16)
  if constexpr (same<T, bf16>) {
    return dot2_bf16(a, b, c);
  }
#endif
  return fma(high_number(T(), a), high_number(T(), b), fma(low_number(T(), a), low_number(T(), b), c));
}

}  // namespace crk

#endif
