/* Matrix cores of AMD GPUs for 8-bit integers: matrix_core of platform.h. A part of platform/hip.h. -DCRK_MATRIX_CORES=0 does without.
 *
 * RDNA 3 and 4 have WMMA for bytes. Of CDNA's MFMA the one in f16 is used: every byte is an f16, and f32 holds the sums of their
 * products exactly. It has the rate of the one for bytes on MI100 and MI200, half of it on MI300; and in a loop over 32 elements,
 * conversions included, half the vector instructions of dot products of four bytes: 158 and 16 MFMA for 336. */
#ifndef CRK_PLATFORM_HIP_MATRIX_H
#define CRK_PLATFORM_HIP_MATRIX_H

#if defined(CRK_MATRIX_CORES)
/* The compiler was told. */
#elif CRK_ARCH_MATRIX == CRK_MATRIX_WMMA3 || CRK_ARCH_MATRIX == CRK_MATRIX_WMMA4
#define CRK_MATRIX_CORES 1
namespace crk {

typedef int32_t matrix_results __attribute__((ext_vector_type(8)));

/* WMMA of 16 codes: the lanes of RDNA 3 from 16 on give what the first 16 give; those of RDNA 4 the other half of the codes. */
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

#elif CRK_ARCH_MATRIX == CRK_MATRIX_MFMA
#define CRK_MATRIX_CORES 1
namespace crk {

/* MFMA of 16 codes. A lane gives four of one row: from where in the row does not matter, as it is the same for a and b. */
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
  /* Two bytes, plus 128, as the low bits of f16 from 1024 on, whose neighbours differ by 1; then what they are more is subtracted. */
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
