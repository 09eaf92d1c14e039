/* platform/matrix.h's float_core for AMD GPUs: MFMA of CDNA. There is no split_core. numbers/square.h documents its
 * members.
 *
 * v_mfma_f32_16x16x4_f32 multiplies 16 columns by 4 numbers along k; lane l gives the number l / 16 of column and of
 * row l % 16. A product has 16 numbers along k and takes four instructions. Instruction i takes the numbers 4 * n + i,
 * so lane l has the neighbours from 4 * (l / 16) on: 16 bytes.
 *
 * The instructions compute the transpose (platform/hip/matrix_half.h). Lane l's results have the columns from
 * 4 * (l / 16) on of row l % 16. That is the layout of an operand: a result becomes one without any instruction, and
 * without being rounded. */
#ifndef CRK_PLATFORM_HIP_MATRIX_FLOAT_H
#define CRK_PLATFORM_HIP_MATRIX_FLOAT_H

#include "platform/hip/memory.h"
#include "platform/hip/threads.h"

#define CRK_SPLIT_CORES 0

#if defined(CRK_FLOAT_CORES)
/* Set on the command line. */
#elif CRK_MATRIX_IS_MFMA(CRK_ARCH_MATRIX)
#define CRK_FLOAT_CORES 1
namespace crk {

struct float_core {
  using total = float;
  static constexpr uint32_t team = 64, span = 16;
  enum { rows = 1, columns = 4 };
  typedef float four_floats __attribute__((ext_vector_type(4)));

  CRK_FN static uint32_t row(uint32_t) { return lane() % 16; }
  CRK_FN static constexpr uint32_t next_column(uint32_t c) { return c; }
  CRK_FN static uint32_t column(uint32_t c) { return lane() / 16 * 4 + c; }

  template <class Op>
  CRK_FN static float combine(float value, Op op) {
    return over_rows16(value, op);
  }

  /* `present`: whether the numbers are there, else they are 0. A load is under way until multiply asks. */
  struct left {
    four_floats four;
    bool present;
  };
  CRK_FN static left load_left(const float *const (&from)[rows], uint32_t k, uint32_t d) {
    /* Without a branch: the compiler does not count loads behind one, and waits for all of them. */
    const uint32_t at = k + flat_lane() / 16 * 4;
    const four_floats four = bit_cast<four_floats>(load_pack<float, 4>(from[0] + (at < d ? at : 0)));
    return {four, at < d};
  }
  CRK_FN static left as_left(const float (&sum)[rows][columns]) {
    return {{sum[0][0], sum[0][1], sum[0][2], sum[0][3]}, true};
  }

  struct right {
    four_floats four;
  };
  /* A tile consists of pieces: four numbers along k. A line of 128 bytes has eight pieces of one column, or two columns
   * of four pieces where Depth is 16. In its line, a piece has the place number ^ twist(column).
   *
   * LDS serves accesses of 16 bytes in groups of eight lanes, and the twist gives these lanes different banks. A group
   * of a store has the lanes 8 * n to 8 * n + 7. A group of a load has the same lanes, or the lanes 8 * n to 8 * n + 3
   * and 8 * n + 20 to 8 * n + 23. */
  template <int Columns, int Depth, bool Across>
  struct tile {
    static constexpr uint32_t words = Columns * Depth;
    static constexpr bool copies_pieces = false;
    static constexpr int together = Across ? 4 : 1, rows_apart = 1;
    static_assert(Depth == 16 || Depth % 32 == 0, "whole lines");

    CRK_FN static uint32_t twist(uint32_t column) {
      return Depth == 16 ? column / 2 % 8 : (column % 8) ^ (column / 8 % 2 * 2);
    }
    CRK_FN static uint32_t word(uint32_t column, uint32_t piece) {
      return ((column * (Depth / 4) + piece) ^ twist(column)) * 4;
    }

    CRK_FN static void store(uint32_t *room, uint32_t row, uint32_t part, const pack<float, 4> (&packs)[together]) {
      if constexpr (Across) {
        four_floats row4[together];
        CRK_UNROLL
        for (int i = 0; i < together; i++) {
          row4[i] = bit_cast<four_floats>(packs[i]);
          /* Else the compiler takes a load apart right behind it, and waits for it there. */
          __asm__("" : "+v"(row4[i]));
        }
        CRK_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
          put(room, part * 4 + i, row / 4, {row4[0][i], row4[1][i], row4[2][i], row4[3][i]});
        }
      } else {
        put(room, row, part, bit_cast<four_floats>(packs[0]));
      }
    }
    CRK_FN static right load(const uint32_t *room, uint32_t column, uint32_t k) {
      /* Only the lane's place in a line depends on k, and only by whether k is a multiple of 32. */
      const uint32_t own = word(flat_lane() % 16, flat_lane() / 16) ^ (k % 32);
      return {*reinterpret_cast<const four_floats *>(room + own + (column * Depth + k / 32 * 32))};
    }
    CRK_FN static left load_rows(const uint32_t *room, uint32_t row, uint32_t k) {
      return {load(room, row, k).four, true};
    }

   private:
    CRK_FN static void put(uint32_t *room, uint32_t column, uint32_t piece, four_floats four) {
      *reinterpret_cast<four_floats *>(room + word(column, piece)) = four;
    }
  };

  CRK_FN static void multiply(const left &a, const right &b, float (&sum)[rows][columns]) {
    const four_floats left_four = a.present ? a.four : 0.0f;
    four_floats four = as_left(sum).four;
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      four = __builtin_amdgcn_mfma_f32_16x16x4f32(b.four[i], left_four[i], four, 0, 0, 0);
    }
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      sum[0][i] = four[i];
    }
  }
};

}  // namespace crk
#else
#define CRK_FLOAT_CORES 0
#endif

#endif
