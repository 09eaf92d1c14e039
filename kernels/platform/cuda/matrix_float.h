/* platform/matrix.h's split_core for NVIDIA GPUs; they have no float_core. numbers/square.h documents its members.
 *
 * A float is the sum of two TF32 numbers and a rest: `high` has its first 11 bits, and `low` the next 11. A product of
 * two floats takes three of TF32: high * high, high * low and low * high. (The method is that of Ootomo and Yokota,
 * "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance",
 * 2022.) mma rounds its sums toward 0, so sums are added up outside of it.
 *
 * mma multiplies 16 rows with 8 columns, 8 numbers along k. Lane l has the rows l / 4 of both halves, the columns
 * l / 4, and the numbers l % 4 and l % 4 + 4 along k. Rows, columns and k are numbered here so that a lane has four
 * neighbours along k of two neighbouring rows, and four neighbouring columns of the sums. */
#ifndef CRK_PLATFORM_CUDA_MATRIX_FLOAT_H
#define CRK_PLATFORM_CUDA_MATRIX_FLOAT_H

#include "platform/cuda/memory.h"
#include "platform/cuda/threads.h"

#define CRK_FLOAT_CORES 0

#if !defined(CRK_SPLIT_CORES)
#define CRK_SPLIT_CORES 1
#endif
#if CRK_SPLIT_CORES
namespace crk {

struct split_core {
  using total = float;
  static constexpr uint32_t team = 32, span = 16;
  enum { rows = 2, columns = 4 };

  CRK_FN static uint32_t row(uint32_t r) { return lane() / 4 * 2 + r; }
  CRK_FN static constexpr uint32_t next_column(uint32_t c) { return c; }
  CRK_FN static uint32_t column(uint32_t c) { return lane() % 4 * 4 + c; }

  template <class Op>
  CRK_FN static float combine(float value, Op op) {
    value = op(value, exchange_xor<1>(value));
    return op(value, exchange_xor<2>(value));
  }

  /* Numbers 4 * (l % 4) to 4 * (l % 4) + 3 along k of two rows or of two columns. */
  struct operand {
    uint32_t high[2][4], low[2][4];

    /* cvt.rna.tf32 takes four instructions, this takes two. It leaves infinity as it is, and may take a NaN for 0. Both
     * have a NaN as `low`. */
    CRK_FN void set(uint32_t line, int i, float value) {
      high[line][i] = (bit_cast<uint32_t>(value) + 0x1000) & ~0x1fffu;
      low[line][i] = bit_cast<uint32_t>(value - bit_cast<float>(high[line][i])); /* mma takes the first 11 bits */
    }
    /* The same, with every NaN in `high`. */
    CRK_FN operand with_nan() const {
      operand all = *this;
      CRK_UNROLL
      for (int i = 0; i < 8; i++) {
        uint32_t &mine = all.high[i / 4][i % 4];
        const bool is_infinite = (mine & 0x7fffffff) == infinity;
        mine = is_nan(bit_cast<float>(low[i / 4][i % 4])) && !is_infinite ? low[i / 4][i % 4] : mine;
      }
      return all;
    }
    CRK_FN void set4(uint32_t line, const float (&values)[4]) {
      CRK_UNROLL
      for (int i = 0; i < 4; i++) {
        set(line, i, values[i]);
      }
    }
  };
  using left = operand;
  using right = operand;

  CRK_FN static left load_left(const float *const (&from)[rows], uint32_t k, uint32_t d) {
    const uint32_t at = k + lane() % 4 * 4;
    left loaded;
    CRK_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
      pack<float, 4> four = {};
      if (at < d) {
        four = load_pack<float, 4>(from[r] + at);
      }
      loaded.set4(r, four.v);
    }
    return loaded;
  }
  CRK_FN static left as_left(const float (&sum)[rows][columns]) {
    left both;
    CRK_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
      both.set4(r, sum[r]);
    }
    return both;
  }

  /* Rows of global memory, unchanged. A row consists of lines of 128 bytes, which have eight pieces of 16 bytes. In its
   * line, a piece has the place number ^ twist(row). So eight lanes that load the pieces of load_lines, and sixteen
   * that load the half pieces of load_across, find them in different banks. */
  template <int Columns, int Depth, bool Across>
  struct tile {
    static constexpr uint32_t rows_of_tile = Across ? Depth : Columns, width = Across ? Columns : Depth;
    static constexpr uint32_t words = rows_of_tile * width;
    static constexpr bool copies_pieces = true;
    static constexpr int together = 1, rows_apart = 1;
    static_assert(width % 32 == 0, "whole lines");

    CRK_FN static uint32_t twist(uint32_t row) { return row / 4 % 2 * 2 + (row / 2 + row / 8) % 2 * 4; }
    /* Bytes from a piece to the one `rows` rows and `parts` parts later, multiples of 16 and of 8. */
    CRK_FN static constexpr uint32_t distance(uint32_t rows, uint32_t parts) { return (rows * width + parts * 4) * 4; }
    CRK_FN static uint32_t *address(uint32_t *room, uint32_t row, uint32_t part) {
      return room + row * width + (part ^ twist(row)) * 4;
    }
    template <class Pack>
    CRK_FN static void store(uint32_t *room, uint32_t row, uint32_t part, const Pack (&packs)[together]) {
      *reinterpret_cast<uint4 *>(address(room, row, part)) = bit_cast<uint4>(packs[0]);
    }

    CRK_FN static right load(const uint32_t *room, uint32_t column, uint32_t k) {
      if constexpr (Across) {
        return load_across(room, column, k);
      } else {
        return load_lines(room, column, k);
      }
    }
    CRK_FN static left load_rows(const uint32_t *room, uint32_t row, uint32_t k) { return load_lines(room, row, k); }

   private:
    /* Of rows first + 2 * (l / 4) and the next: the piece k / 4 + l % 4. `first` and k are multiples of 16. */
    CRK_FN static operand load_lines(const uint32_t *room, uint32_t first, uint32_t k) {
      const uint32_t own = lane() / 4 * 2;
      operand loaded;
      CRK_UNROLL
      for (uint32_t line = 0; line < 2; line++) {
        const uint32_t piece = lane() % 4 ^ twist(own) ^ k / 4 % 8;
        const uint4 four =
            *reinterpret_cast<const uint4 *>(room + (own + line) * width + piece * 4 + (first * width + k / 32 * 32));
        const float values[4] = {bit_cast<float>(four.x), bit_cast<float>(four.y), bit_cast<float>(four.z),
                                 bit_cast<float>(four.w)};
        loaded.set4(line, values);
      }
      return loaded;
    }
    /* Of rows first + 4 * (l % 4) to the third after it: columns column + 2 * (l / 4) and the next. */
    CRK_FN static operand load_across(const uint32_t *room, uint32_t column, uint32_t first) {
      operand loaded;
      CRK_UNROLL
      for (uint32_t i = 0; i < 4; i++) {
        const uint32_t row = lane() % 4 * 4 + i;
        const uint32_t piece = lane() / 8 ^ twist(row) ^ column / 4 % 8;
        const uint2 two = *reinterpret_cast<const uint2 *>(room + row * width + piece * 4 + lane() / 4 % 2 * 2 +
                                                           (first * width + column / 32 * 32));
        loaded.set(0, static_cast<int>(i), bit_cast<float>(two.x));
        loaded.set(1, static_cast<int>(i), bit_cast<float>(two.y));
      }
      return loaded;
    }
  };

  /* A sum is NaN where an operand is infinite. */
  CRK_FN static void multiply(const left &a, const right &b, float (&sum)[rows][columns]) {
    float total[2][4] = {};
    add_rest(a, b, total);
    add_whole(a, b, total);
    CRK_UNROLL
    for (int i = 0; i < 8; i++) {
      sum[i % 4 / 2][i % 2 * 2 + i / 4] += total[i / 4][i % 4];
    }
  }
  /* With infinities as in C. Not fast. Numbers of 2^128 - 2^116 and more count as infinite, and so does a NaN whose
   * upper bits of the mantissa are 0, which no operation makes. */
  CRK_FN static void multiply_infinite(const left &a, const right &b, float (&sum)[rows][columns]) {
    float rest[2][4] = {}, whole[2][4] = {};
    add_rest(a, b, rest);
    add_whole(a.with_nan(), b.with_nan(), whole);
    CRK_UNROLL
    for (int i = 0; i < 8; i++) {
      const float most = whole[i / 4][i % 4];
      const bool is_finite = (bit_cast<uint32_t>(most) & infinity) != infinity;
      sum[i % 4 / 2][i % 2 * 2 + i / 4] += is_finite ? most + rest[i / 4][i % 4] : most;
    }
  }

 private:
  static constexpr uint32_t infinity = 0x7f800000;

  CRK_FN static bool is_nan(float x) { return x != x; }
  CRK_FN static void add_whole(const left &a, const right &b, float (&sum)[2][4]) {
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      add(a.high, b.high[i % 2], i / 2, sum[i % 2]);
    }
  }
  CRK_FN static void add_rest(const left &a, const right &b, float (&sum)[2][4]) {
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      add(a.low, b.high[i % 2], i / 2, sum[i % 2]);
    }
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      add(a.high, b.low[i % 2], i / 2, sum[i % 2]);
    }
  }
  /* Numbers 2 * s and 2 * s + 1 of each lane. */
  CRK_FN static void add(const uint32_t (&a)[2][4], const uint32_t (&b)[4], int s, float (&sum)[4]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0][2 * s]), "r"(a[1][2 * s]), "r"(a[0][2 * s + 1]), "r"(a[1][2 * s + 1]), "r"(b[2 * s]),
          "r"(b[2 * s + 1]));
  }
};

}  // namespace crk
#endif

#endif
