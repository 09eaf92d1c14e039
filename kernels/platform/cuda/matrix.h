/* platform/matrix.h for NVIDIA GPUs. */
#ifndef CRK_PLATFORM_CUDA_MATRIX_H
#define CRK_PLATFORM_CUDA_MATRIX_H

#include "platform/cuda/workarounds.h"

#if !defined(CRK_MATRIX_CORES)
#define CRK_MATRIX_CORES 1
#endif
#if CRK_MATRIX_CORES
namespace crk {

/* mma multiplies 16 rows with 8 columns; two of them make a square of 16. ldmatrix loads groups of 8 rows of 16 bytes.
 * 8 lanes give the addresses of a group, and each lane receives one word of it. The groups of `a` are rows 0 to 7, rows
 * 8 to 15, and then the same rows with the other half of 32 codes. The groups of `b` are both halves of columns 0 to 7,
 * and then of columns 8 to 15. */
struct matrix_core {
  enum { tall = 2, wide = 4 };
  CRK_FN static uint32_t first_row() { return lane() / 4; }
  CRK_FN static uint32_t first_column() { return lane() % 4 * 2; }
  CRK_FN static constexpr uint32_t next_row(uint32_t r) { return 8 * r; }
  CRK_FN static constexpr uint32_t next_column(uint32_t c) { return c / 2 * 8 + c % 2; }

  template <int Words>
  struct operand {
    uint32_t words[Words / 2];
  };
  template <int Words>
  CRK_FN static uint32_t row_word(uint32_t stride) {
    return lane() % 16 * stride + (Words == 8 ? lane() / 16 * 4 : 0);
  }
  template <int Words>
  CRK_FN static uint32_t column_word(uint32_t stride) {
    return Words == 8 ? (lane() % 8 + lane() / 16 * 8) * stride + lane() / 8 % 2 * 4 : lane() % 16 * stride;
  }
  template <int Words>
  CRK_FN static operand<Words> load(const uint32_t *codes) {
    operand<Words> loaded;
    uint32_t(&w)[Words / 2] = loaded.words;
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(codes));
    if constexpr (Words == 8) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                   : "r"(at));
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "r"(at));
    }
    return loaded;
  }

  template <int Words>
  CRK_FN static void multiply(const operand<Words> &a, const operand<Words> &b, int32_t start,
                              int32_t (&sum)[tall][wide]) {
    const uint32_t(&x)[Words / 2] = a.words, (&y)[Words / 2] = b.words;
    CRK_UNROLL
    for (int n = 0; n < 2; n++) {
      int32_t(&top)[wide] = sum[0], (&bottom)[wide] = sum[1];
      if constexpr (Words == 8) {
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%10, %10, %10, %10};"
            : "=r"(top[2 * n]), "=r"(top[2 * n + 1]), "=r"(bottom[2 * n]), "=r"(bottom[2 * n + 1])
            : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[2 * n]), "r"(y[2 * n + 1]), "r"(start));
      } else {
        asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
            : "=r"(top[2 * n]), "=r"(top[2 * n + 1]), "=r"(bottom[2 * n]), "=r"(bottom[2 * n + 1])
            : "r"(x[0]), "r"(x[1]), "r"(y[n]), "r"(start));
      }
    }
  }
};

}  // namespace crk
#endif

#endif
