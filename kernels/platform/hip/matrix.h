/* platform/matrix.h for AMD GPUs: WMMA of RDNA 3 and 4, MFMA of CDNA. */
#ifndef CRK_PLATFORM_HIP_MATRIX_H
#define CRK_PLATFORM_HIP_MATRIX_H

#include "platform/hip/threads.h"
#include "platform/hip/workarounds.h"

#if defined(CRK_MATRIX_CORES)
/* Set on the command line. */
#elif CRK_ARCH_MATRIX == CRK_MATRIX_WMMA3 || CRK_ARCH_MATRIX == CRK_MATRIX_WMMA4
#define CRK_MATRIX_CORES 1
#define CRK_MATRIX_FOURS 0
namespace crk {

typedef int32_t matrix_results __attribute__((ext_vector_type(8)));

/* WMMA of 16 codes. On RDNA 3, lanes 16 to 31 hold the same operands as lanes 0 to 15. On RDNA 4, they hold the other
 * half of the codes. */
struct matrix_core {
  enum { tall = 8, wide = 1 };
  static constexpr bool adds_fours = false;
#if CRK_ARCH_MATRIX == CRK_MATRIX_WMMA4
  static constexpr uint32_t row_stride = 34, column_stride = 38;
  typedef int32_t codes __attribute__((ext_vector_type(2)));
  CRK_FN static uint32_t first_word() { return flat_lane() / 16 * 2; }
  CRK_FN static uint32_t first_row() { return flat_lane() / 16 * 8; }
  CRK_FN static constexpr uint32_t next_row(uint32_t r) { return r; }
  CRK_FN static constexpr uint32_t place(uint32_t row) { return row; }
  CRK_FN static matrix_results add_product(codes a, codes b, matrix_results c) {
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, true, b, c, false);
  }
#else
  static constexpr uint32_t row_stride = 36, column_stride = 36;
  typedef int32_t codes __attribute__((ext_vector_type(4)));
  CRK_FN static uint32_t first_word() { return 0; }
  CRK_FN static uint32_t first_row() { return flat_lane() / 16; }
  CRK_FN static constexpr uint32_t next_row(uint32_t r) { return 2 * r; }
  CRK_FN static constexpr uint32_t place(uint32_t row) { return row % 2 * 8 + row / 2; }
  CRK_FN static matrix_results add_product(codes a, codes b, matrix_results c) {
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a, true, b, c, false);
  }
#endif
  CRK_FN static uint32_t first_column() { return flat_lane() % 16; }
  CRK_FN static constexpr uint32_t next_column(uint32_t) { return 0; }

  struct operand {
    codes sixteen[2];
  };
  template <int>
  CRK_FN static uint32_t row_word(uint32_t stride) {
    return flat_lane() % 16 * stride + first_word();
  }
  template <int Parts>
  CRK_FN static uint32_t column_word(uint32_t stride) {
    return row_word<Parts>(stride);
  }
  template <int>
  CRK_FN static operand load(const uint32_t *from) {
    operand loaded;
    CRK_UNROLL
    for (int i = 0; i < 2; i++) {
      loaded.sixteen[i] = *static_cast<const codes *>(static_cast<const void *>(from + 4 * i));
    }
    return loaded;
  }
  using start = matrix_results;
  CRK_FN static start start_of(int32_t x) { return start(static_cast<int32_t>(opaque(static_cast<uint32_t>(x)))); }
  template <int Parts>
  CRK_FN static void multiply(const operand &a, const operand &b, const start &first,
                              int32_t (&sum)[Parts][tall][wide]) {
    matrix_results results = add_product(a.sixteen[0], b.sixteen[0], first);
    if constexpr (Parts == 1) {
      results = add_product(a.sixteen[1], b.sixteen[1], results);
    }
    put(results, sum[0]);
    if constexpr (Parts == 2) {
      put(add_product(a.sixteen[1], b.sixteen[1], first), sum[1]);
    }
  }

 private:
  CRK_FN static void put(matrix_results results, int32_t (&sum)[tall][wide]) {
    CRK_UNROLL
    for (int r = 0; r < tall; r++) {
      sum[r][0] = results[r];
    }
  }
};

}  // namespace crk

#elif CRK_MATRIX_IS_MFMA(CRK_ARCH_MATRIX)
#define CRK_MATRIX_CORES 1
#define CRK_MATRIX_FOURS 1
/* From CDNA 3 on, the instructions for 8-bit integers of CDNA 1 and 2 are gone. */
#if CRK_ARCH_MATRIX >= CRK_MATRIX_MFMA3
#define CRK_MFMA_OF_32 1
#else
#define CRK_MFMA_OF_32 0
#endif
namespace crk {

/* MFMA. CDNA 3 and 4 multiply 32 codes at once, CDNA 1 and 2 16 codes. Lane l has two words of a row, and both operands
 * have the same: words 2 * (l / 16) and the next one where all 32 codes have one sum, else words l / 16 and 4 + l / 16,
 * one of each part. A product of one part of 32 codes then has zeros in the place of the other part's row.
 *
 * Shared memory has 32 banks of a word, and serves 16 lanes with two words each at a time, or 32 lanes with one. The
 * strides are twice an odd number, so that 16 rows, or columns, have different banks. */
struct matrix_core {
  enum { tall = 4, wide = 1, fours = 1 };
  static constexpr bool adds_fours = true;
  static constexpr uint32_t row_stride = 34, column_stride = 38;
  typedef int32_t words2 __attribute__((ext_vector_type(2)));
  typedef int32_t results __attribute__((ext_vector_type(4)));
  CRK_FN static uint32_t first_row() { return flat_lane() / 16 * 4; }
  CRK_FN static uint32_t first_column() { return flat_lane() % 16; }
  CRK_FN static constexpr uint32_t next_row(uint32_t r) { return r; }
  CRK_FN static constexpr uint32_t next_column(uint32_t) { return 0; }
  CRK_FN static constexpr uint32_t place(uint32_t row) { return row; }

  struct operand {
    words2 words;
  };
  template <int Parts>
  CRK_FN static uint32_t row_word(uint32_t stride) {
    return flat_lane() % 16 * stride + flat_lane() / 16 * (Parts == 1 ? 2 : 1);
  }
  template <int Parts>
  CRK_FN static uint32_t column_word(uint32_t stride) {
    return row_word<Parts>(stride);
  }
  template <int Parts>
  CRK_FN static operand load(const uint32_t *from) {
    if constexpr (Parts == 1) {
      return {*static_cast<const words2 *>(static_cast<const void *>(from))};
    } else {
      return {{static_cast<int32_t>(from[0]), static_cast<int32_t>(from[4])}};
    }
  }
  using start = results;
  CRK_FN static start start_of(int32_t x) { return start(static_cast<int32_t>(opaque(static_cast<uint32_t>(x)))); }
  template <int Parts>
  CRK_FN static void multiply(const operand &a, const operand &b, const start &first,
                              int32_t (&sum)[Parts][tall][wide]) {
    const words2 w = a.words, x = b.words;
    if constexpr (Parts == 1) {
      put(add_32(w, x, first), sum[0]);
    } else {
      put(add_first(w, x, first), sum[0]);
      put(add_second(w, x, first), sum[1]);
    }
  }

  CRK_FN static uint32_t four() { return flat_lane() / 16; }
  CRK_FN static uint32_t fours_place(uint32_t) { return flat_lane() % 16; }
  CRK_FN static void add_fours(const float (&a)[fours], const float (&b)[fours], float (&sum)[tall][wide]) {
    typedef float floats __attribute__((ext_vector_type(4)));
    floats all = {sum[0][0], sum[1][0], sum[2][0], sum[3][0]};
    all = __builtin_amdgcn_mfma_f32_16x16x4f32(a[0], b[0], all, 0, 0, 0);
    CRK_UNROLL
    for (int r = 0; r < tall; r++) {
      sum[r][0] = all[r];
    }
  }

 private:
  CRK_FN static void put(results from, int32_t (&sum)[tall][wide]) {
    CRK_UNROLL
    for (int r = 0; r < tall; r++) {
      sum[r][0] = from[r];
    }
  }
#if CRK_MFMA_OF_32
  CRK_FN static results add_32(words2 a, words2 b, results sum) {
    return __builtin_amdgcn_mfma_i32_16x16x32_i8(bit_cast<int64_t>(a), bit_cast<int64_t>(b), sum, 0, 0, 0);
  }
  CRK_FN static results add_first(words2 a, words2 b, results sum) { return add_32(words2{a[0], 0}, b, sum); }
  CRK_FN static results add_second(words2 a, words2 b, results sum) { return add_32(words2{0, a[1]}, b, sum); }
#else
  CRK_FN static results add_first(words2 a, words2 b, results sum) {
    return __builtin_amdgcn_mfma_i32_16x16x16i8(a[0], b[0], sum, 0, 0, 0);
  }
  CRK_FN static results add_second(words2 a, words2 b, results sum) {
    return __builtin_amdgcn_mfma_i32_16x16x16i8(a[1], b[1], sum, 0, 0, 0);
  }
  CRK_FN static results add_32(words2 a, words2 b, results sum) { return add_second(a, b, add_first(a, b, sum)); }
#endif
};

}  // namespace crk

#else
#define CRK_MATRIX_CORES 0
#endif

#endif
