/* platform/matrix.h for NVIDIA GPUs. */
#ifndef CRK_PLATFORM_CUDA_MATRIX_H
#define CRK_PLATFORM_CUDA_MATRIX_H

#include "platform/cuda/workarounds.h"

#if !defined(CRK_MATRIX_CORES)
#define CRK_MATRIX_CORES 1
#endif
#if CRK_MATRIX_CORES
#define CRK_MATRIX_FOURS 1
namespace crk {

/* mma multiplies 16 rows with 8 columns; two of them make a square of 16. ldmatrix loads groups of 8 rows of 16 bytes.
 * 8 lanes give the addresses of a group, and each lane receives one word of it. The groups of `a` are rows 0 to 7, rows
 * 8 to 15, and then the same rows with the other half of 32 codes. The groups of `b` are both halves of columns 0 to 7,
 * and then of columns 8 to 15. */
struct matrix_core {
  enum { tall = 2, wide = 4, fours = 2 };
  static constexpr bool adds_fours = true;
  static constexpr uint32_t row_stride = 36, column_stride = 36;
  CRK_FN static uint32_t first_row() { return lane() / 4; }
  CRK_FN static uint32_t first_column() { return lane() % 4 * 2; }
  CRK_FN static constexpr uint32_t next_row(uint32_t r) { return 8 * r; }
  CRK_FN static constexpr uint32_t next_column(uint32_t c) { return c / 2 * 8 + c % 2; }
  CRK_FN static constexpr uint32_t place(uint32_t row) { return row % 8 * 2 + row / 8; }

  struct operand {
    uint32_t words[4];
  };
  template <int>
  CRK_FN static uint32_t row_word(uint32_t stride) {
    return lane() % 16 * stride + lane() / 16 * 4;
  }
  template <int>
  CRK_FN static uint32_t column_word(uint32_t stride) {
    return (lane() % 8 + lane() / 16 * 8) * stride + lane() / 8 % 2 * 4;
  }
  template <int>
  CRK_FN static operand load(const uint32_t *codes) {
    operand loaded;
    uint32_t(&w)[4] = loaded.words;
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(codes));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(at));
    return loaded;
  }

  using start = int32_t;
  CRK_FN static start start_of(int32_t x) { return x; }
  template <int Parts>
  CRK_FN static void multiply(const operand &a, const operand &b, int32_t first, int32_t (&sum)[Parts][tall][wide]) {
    const uint32_t(&x)[4] = a.words, (&y)[4] = b.words;
    CRK_UNROLL
    for (int n = 0; n < 2; n++) {
      if constexpr (Parts == 1) {
        int32_t(&top)[wide] = sum[0][0], (&bottom)[wide] = sum[0][1];
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%10, %10, %10, %10};"
            : "=r"(top[2 * n]), "=r"(top[2 * n + 1]), "=r"(bottom[2 * n]), "=r"(bottom[2 * n + 1])
            : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[2 * n]), "r"(y[2 * n + 1]), "r"(first));
      } else {
        CRK_UNROLL
        for (int p = 0; p < 2; p++) {
          int32_t(&top)[wide] = sum[p][0], (&bottom)[wide] = sum[p][1];
          asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
              : "=r"(top[2 * n]), "=r"(top[2 * n + 1]), "=r"(bottom[2 * n]), "=r"(bottom[2 * n + 1])
              : "r"(x[2 * p]), "r"(x[2 * p + 1]), "r"(y[2 * n + p]), "r"(first));
        }
      }
    }
  }

  /* The sums of four products are added in f32 here: mma would not round their sum with `sum` to nearest. */
  CRK_FN static uint32_t four() { return lane() % 4; }
  CRK_FN static uint32_t fours_place(uint32_t n) { return lane() / 4 + 8 * n; }
  CRK_FN static void add_fours(const float (&a)[fours], const float (&b)[fours], float (&sum)[tall][wide]) {
    CRK_UNROLL
    for (int n = 0; n < 2; n++) {
      float d[4];
      asm("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
          : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
          : "r"(bit_cast<uint32_t>(a[0])), "r"(bit_cast<uint32_t>(a[1])), "r"(bit_cast<uint32_t>(b[n])), "f"(0.0f));
      sum[0][2 * n] += d[0];
      sum[0][2 * n + 1] += d[1];
      sum[1][2 * n] += d[2];
      sum[1][2 * n + 1] += d[3];
    }
  }
};

}  // namespace crk
#endif

#endif
