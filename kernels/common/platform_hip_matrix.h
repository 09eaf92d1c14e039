/* Matrix cores of AMD GPUs for 8-bit integers: matrix_core of platform.h. A part of platform_hip.h. -DCRK_MATRIX_CORES=0 does without.
 *
 * RDNA 3 and 4 have WMMA. CDNA's MFMA is not used yet: nothing that these kernels could be tried on runs it for bytes. */
#ifndef CRK_PLATFORM_HIP_MATRIX_H
#define CRK_PLATFORM_HIP_MATRIX_H

#if defined(CRK_MATRIX_CORES)
/* The compiler was told. */
#elif defined(__GFX11__) || defined(__GFX12__)
#define CRK_MATRIX_CORES 1
namespace crk {

typedef int32_t matrix_results __attribute__((ext_vector_type(8)));

/* WMMA of 16 codes: the lanes of RDNA 3 from 16 on give what the first 16 give; those of RDNA 4 the other half of the codes. */
struct matrix_core {
  enum { tall = 8, wide = 1 };
#if defined(__GFX12__)
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

#else
#define CRK_MATRIX_CORES 0
#endif

#endif
