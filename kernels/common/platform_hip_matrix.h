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

/* WMMA: the lanes of RDNA 3 from 16 on give what the first 16 give; those of RDNA 4 the other half of the codes. */
struct matrix_core {
#if defined(__GFX12__)
  enum { codes = 16, words = 2, results = 8 };
  typedef int32_t operand __attribute__((ext_vector_type(2)));
  CRK_FN static uint32_t first_word() { return lane() / 16 * 2; }
  CRK_FN static uint32_t result_row(uint32_t r) { return r + lane() / 16 * 8; }
  CRK_FN static matrix_results multiply(operand a, operand b, matrix_results c) {
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, true, b, c, false);
  }
#else
  enum { codes = 16, words = 4, results = 8 };
  typedef int32_t operand __attribute__((ext_vector_type(4)));
  CRK_FN static uint32_t first_word() { return 0; }
  CRK_FN static uint32_t result_row(uint32_t r) { return 2 * r + lane() / 16; }
  CRK_FN static matrix_results multiply(operand a, operand b, matrix_results c) {
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a, true, b, c, false);
  }
#endif
};

}  // namespace crk

#else
#define CRK_MATRIX_CORES 0
#endif

#endif
