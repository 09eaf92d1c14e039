/* platform/matrix.h for AMD GPUs.
 *
 * RDNA 3 and 4 multiply bytes with WMMA. CDNA multiplies f16 with MFMA: each byte becomes an f16, and f32 holds the
 * sums of products exactly. MFMA of f16 is as fast as MFMA of bytes on MI100 and MI200, and half as fast on MI300. A
 * loop over 32 elements takes half the vector instructions that it takes with dot4: 158, conversions included, and 16
 * MFMA, in place of 336. */
#ifndef CRK_PLATFORM_HIP_MATRIX_H
#define CRK_PLATFORM_HIP_MATRIX_H

#include "platform/hip/workarounds.h"

#if defined(CRK_MATRIX_CORES)
/* Set on the command line. */
#elif CRK_ARCH_MATRIX == CRK_MATRIX_WMMA3 || CRK_ARCH_MATRIX == CRK_MATRIX_WMMA4
#define CRK_MATRIX_CORES 1
namespace crk {

typedef int32_t matrix_results __attribute__((ext_vector_type(8)));

/* WMMA of 16 codes. On RDNA 3, lanes 16 to 31 hold the same operands as lanes 0 to 15. On RDNA 4, they hold the other
 * half of the codes. */
struct matrix_core {
  enum { tall = 8, wide = 1 };
#if CRK_ARCH_MATRIX == CRK_MATRIX_WMMA4
  typedef int32_t codes __attribute__((ext_vector_type(2)));
  CRK_FN static uint32_t first_word() { return lane() / 16 * 2; }
  CRK_FN static uint32_t first_row() { return lane() / 16 * 8; }
  CRK_FN static constexpr uint32_t next_row(uint32_t r) { return r; }
  CRK_FN static matrix_results add_product(codes a, codes b, matrix_results c) {
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, true, b, c, false);
  }
#else
  typedef int32_t codes __attribute__((ext_vector_type(4)));
  CRK_FN static uint32_t first_word() { return 0; }
  CRK_FN static uint32_t first_row() { return lane() / 16; }
  CRK_FN static constexpr uint32_t next_row(uint32_t r) { return 2 * r; }
  CRK_FN static matrix_results add_product(codes a, codes b, matrix_results c) {
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a, true, b, c, false);
  }
#endif
  CRK_FN static uint32_t first_column() { return lane() % 16; }
  CRK_FN static constexpr uint32_t next_column(uint32_t) { return 0; }

  template <int Words>
  struct operand {
    codes sixteen[Words / 4];
  };
  template <int Words>
  CRK_FN static uint32_t row_word(uint32_t stride) {
    return lane() % 16 * stride + first_word();
  }
  template <int Words>
  CRK_FN static uint32_t column_word(uint32_t stride) {
    return row_word<Words>(stride);
  }
  template <int Words>
  CRK_FN static operand<Words> load(const uint32_t *from) {
    operand<Words> loaded;
    CRK_UNROLL
    for (int i = 0; i < Words / 4; i++) {
      loaded.sixteen[i] = *static_cast<const codes *>(static_cast<const void *>(from + 4 * i));
    }
    return loaded;
  }
  template <int Words>
  CRK_FN static void multiply(const operand<Words> &a, const operand<Words> &b, int32_t start,
                              int32_t (&sum)[tall][wide]) {
    matrix_results results = start;
    CRK_UNROLL
    for (int i = 0; i < Words / 4; i++) {
      results = add_product(a.sixteen[i], b.sixteen[i], results);
    }
    CRK_UNROLL
    for (int r = 0; r < tall; r++) {
      sum[r][0] = results[r];
    }
  }
};

}  // namespace crk

#elif CRK_MATRIX_IS_MFMA(CRK_ARCH_MATRIX)
#define CRK_MATRIX_CORES 1
namespace crk {

/* MFMA of 16 codes. A lane holds four codes of a row. Which four does not matter, as long as it is the same four for
 * `a` and for `b`. */
struct matrix_core {
  enum { tall = 4, wide = 1 };
  typedef _Float16 halves __attribute__((ext_vector_type(2)));
  typedef _Float16 codes __attribute__((ext_vector_type(4)));
  typedef float results __attribute__((ext_vector_type(4)));
  CRK_FN static uint32_t first_row() { return lane() / 16 * 4; }
  CRK_FN static uint32_t first_column() { return lane() % 16; }
  CRK_FN static constexpr uint32_t next_row(uint32_t r) { return r; }
  CRK_FN static constexpr uint32_t next_column(uint32_t) { return 0; }

  template <int Words>
  struct operand {
    codes fours[Words / 4];
  };
  template <int Words>
  CRK_FN static uint32_t row_word(uint32_t stride) {
    return lane() % 16 * stride + lane() / 16 * (Words / 4);
  }
  template <int Words>
  CRK_FN static uint32_t column_word(uint32_t stride) {
    return row_word<Words>(stride);
  }

  /* Two bytes as f16. A byte plus 128 becomes the low bits of an f16 of at least 1024, where neighbours differ by 1.
   * The subtraction of 1024 + 128 then leaves the byte. */
  CRK_FN static halves two_codes(uint32_t word, uint32_t from) {
    return bit_cast<halves>(permute_bytes(word ^ 0x80808080u, 0x64646464u, from)) - static_cast<_Float16>(1152.0f);
  }
  template <int Words>
  CRK_FN static operand<Words> load(const uint32_t *from) {
    typedef uint32_t words __attribute__((ext_vector_type(Words / 4)));
    const words loaded = *static_cast<const words *>(static_cast<const void *>(from));
    operand<Words> four;
    CRK_UNROLL
    for (int i = 0; i < Words / 4; i++) {
      four.fours[i] =
          __builtin_shufflevector(two_codes(loaded[i], 0x04010400), two_codes(loaded[i], 0x04030402), 0, 1, 2, 3);
    }
    return four;
  }
  template <int Words>
  CRK_FN static void multiply(const operand<Words> &a, const operand<Words> &b, int32_t start,
                              int32_t (&sum)[tall][wide]) {
    results sums = bit_cast<float>(start);
    CRK_UNROLL
    for (int i = 0; i < Words / 4; i++) {
      sums = __builtin_amdgcn_mfma_f32_16x16x16f16(a.fours[i], b.fours[i], sums, 0, 0, 0);
    }
    CRK_UNROLL
    for (int r = 0; r < tall; r++) {
      sum[r][0] = bit_cast<int32_t>(sums[r]);
    }
  }
};

}  // namespace crk

#else
#define CRK_MATRIX_CORES 0
#endif

#endif
