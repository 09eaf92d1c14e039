/* platform/matrix.h's double_core for AMD GPUs: MFMA of CDNA 2 and later. numbers/square.h documents its members.
 *
 * v_mfma_f64_16x16x4_f64 multiplies 16 columns by 4 numbers along k; lane l gives the number l / 16 of column and of
 * row l % 16. A product has 16 numbers along k and takes four instructions. Instruction i takes the numbers 4 * n + i,
 * so lane l has the neighbours from 4 * (l / 16) on.
 *
 * The instructions compute the transpose (platform/hip/matrix_half.h). Lane l's result r is row 4 * r + l / 16 of the
 * instruction, which is column 4 * (l / 16) + r of the product: so its results are neighbours. */
#ifndef CRK_PLATFORM_HIP_MATRIX_DOUBLE_H
#define CRK_PLATFORM_HIP_MATRIX_DOUBLE_H

#include "platform/hip/memory.h"
#include "platform/hip/threads.h"

#if defined(CRK_DOUBLE_CORES)
/* Set on the command line. */
#elif CRK_MATRIX_IS_MFMA(CRK_ARCH_MATRIX) && CRK_ARCH_MATRIX != CRK_MATRIX_MFMA1
#define CRK_DOUBLE_CORES 1
namespace crk {

struct double_core {
  using total = double;
  static constexpr uint32_t team = 64, span = 16;
  enum { rows = 1, columns = 4 };
  typedef double four_doubles __attribute__((ext_vector_type(4)));

  CRK_FN static uint32_t row(uint32_t) { return lane() % 16; }
  CRK_FN static constexpr uint32_t next_column(uint32_t c) { return c; }
  CRK_FN static uint32_t column(uint32_t c) { return lane() / 16 * 4 + c; }

  struct operand {
    four_doubles four;
  };
  using left = operand;
  using right = operand;

  /* A tile has the numbers of a column one after the other; two more spread the columns over the banks. */
  template <int Columns, int Depth, bool Across>
  struct tile {
    static constexpr uint32_t pitch = Depth + 2;
    static constexpr uint32_t words = Columns * pitch * 2;
    static constexpr bool copies_pieces = false;
    static constexpr int together = Across ? 2 : 1, rows_apart = 1;
    typedef double two_doubles __attribute__((ext_vector_type(2)));

    CRK_FN static void store(uint32_t *room, uint32_t row, uint32_t part, const pack<double, 2> (&packs)[together]) {
      if constexpr (Across) {
        put(room, part * 2, row, packs[0].v[0], packs[1].v[0]);
        put(room, part * 2 + 1, row, packs[0].v[1], packs[1].v[1]);
      } else {
        put(room, row, part * 2, packs[0].v[0], packs[0].v[1]);
      }
    }
    CRK_FN static right load(const uint32_t *room, uint32_t column, uint32_t k) {
      return load_row(room, column + flat_lane() % 4 * 4 + flat_lane() % 16 / 4, k);
    }
    CRK_FN static left load_rows(const uint32_t *room, uint32_t row, uint32_t k) {
      return load_row(room, row + flat_lane() % 16, k);
    }

   private:
    CRK_FN static void put(uint32_t *room, uint32_t column, uint32_t k, double low, double high) {
      *reinterpret_cast<two_doubles *>(room + (column * pitch + k) * 2) = two_doubles{low, high};
    }
    CRK_FN static operand load_row(const uint32_t *room, uint32_t row, uint32_t k) {
      const two_doubles *from =
          reinterpret_cast<const two_doubles *>(room + (row * pitch + k + flat_lane() / 16 * 4) * 2);
      const two_doubles low = from[0], high = from[1];
      return {{low[0], low[1], high[0], high[1]}};
    }
  };

  CRK_FN static void multiply(const left &a, const right &b, double (&sum)[rows][columns]) {
    four_doubles four = {sum[0][0], sum[0][1], sum[0][2], sum[0][3]};
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      four = __builtin_amdgcn_mfma_f64_16x16x4f64(b.four[i], a.four[i], four, 0, 0, 0);
    }
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      sum[0][i] = four[i];
    }
  }
};

}  // namespace crk
#else
#define CRK_DOUBLE_CORES 0
#endif

#endif
