/* Integer codes in packed bytes, four per 32-bit word: dot products, sums and bit manipulation. For the kernels that
 * multiply quantized weights. Main type: codes16. Main functions: dot16, sum16, subtract, bits_at, with_high_bits,
 * spread_bits. */
#ifndef CRK_DOT_H
#define CRK_DOT_H

#include "platform/platform.h"

namespace crk {

/* 16 codes of one byte each, in the order of their elements. The first code is the lowest byte of the first word. */
using codes16 = pack<uint32_t, 4>;
struct alignas(16) aligned_codes16 : codes16 {};

/* Loads from, and stores to, an address that is aligned to 16 bytes. The load goes through the aligned type: from
 * codes16 alone nvcc would make four loads. */
CRK_FN codes16 load_aligned16(const uint32_t *src) {
  const aligned_codes16 codes = *static_cast<const aligned_codes16 *>(static_cast<const void *>(src));
  return codes;
}
CRK_FN void store_aligned16(uint32_t *dst, const codes16 &codes) {
  *static_cast<aligned_codes16 *>(static_cast<void *>(dst)) = {codes};
}
/* Stores to an address that is aligned to 4 bytes. */
CRK_FN void store_words(uint32_t *dst, const codes16 &codes) { __builtin_memcpy(dst, &codes, sizeof(codes)); }

/* Returns c plus the 16 products of the codes of a and b. b is signed. a is signed if Signed; else its codes are from 0
 * to below 2^code_bits (platform/platform.h). */
template <bool Signed>
CRK_FN int32_t dot16(const codes16 &a, const codes16 &b, int32_t c) {
  CRK_UNROLL
  for (int i = 0; i < 4; i++) {
    const int32_t left = static_cast<int32_t>(a.v[i]), right = static_cast<int32_t>(b.v[i]);
    c = Signed ? dot4(left, right, c) : dot4_codes(left, right, c);
  }
  return c;
}

/* The sum of 16 signed codes. */
CRK_FN int32_t sum16(const codes16 &a) {
  int32_t sum = 0;
  CRK_UNROLL
  for (int i = 0; i < 4; i++) {
    sum = dot4(static_cast<int32_t>(a.v[i]), 0x01010101, sum);
  }
  return sum;
}

/* Each byte minus `Zero`, for bytes below 128. Setting bit 7 first keeps a byte from borrowing from its neighbour; it
 * is inverted afterwards. */
template <int Zero>
CRK_FN codes16 subtract(codes16 a) {
  if constexpr (Zero != 0) {
    constexpr uint32_t each = 0x01010101u;
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      a.v[i] = (a.v[i] + (0x80 - Zero) * each) ^ (0x80 * each);
    }
  }
  return a;
}

/* 16 * (code - 8) for each code below 16, as a signed byte: inverting the highest bit subtracts. Codes that come from
 * the upper halves of bytes are then not shifted at all. */
CRK_FN codes16 sixteenfold_minus_8(codes16 a) {
  CRK_UNROLL
  for (int i = 0; i < 4; i++) {
    a.v[i] = (a.v[i] << 4) ^ 0x80808080u;
  }
  return a;
}

/* `Count` bits of each byte, from bit `at` on. */
template <int Count>
CRK_FN codes16 bits_at(const codes16 &a, uint32_t at) {
  codes16 bits;
  CRK_UNROLL
  for (int i = 0; i < 4; i++) {
    bits.v[i] = a.v[i] >> at & ((1u << Count) - 1) * 0x01010101u;
  }
  return bits;
}

/* low | high << Shift for each code: `low` has the lowest `Shift` bits, `high` the bits above them. */
template <int Shift>
CRK_FN codes16 with_high_bits(codes16 low, const codes16 &high) {
  CRK_UNROLL
  for (int i = 0; i < 4; i++) {
    low.v[i] |= high.v[i] << Shift;
  }
  return low;
}

/* Code i is bit i of `bits`, 0 or 1. */
CRK_FN codes16 spread_bits(uint32_t bits) {
  codes16 codes;
  CRK_UNROLL
  for (int i = 0; i < 4; i++) {
    codes.v[i] = (bits >> 4 * i & 15) * 0x204081u & 0x01010101u;
  }
  return codes;
}

}  // namespace crk

#endif
