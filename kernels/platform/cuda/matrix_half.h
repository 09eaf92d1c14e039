/* platform/matrix.h's half_core for NVIDIA GPUs. numbers/square.h documents its members.
 *
 * mma multiplies 16 rows with 8 columns; two of them make a square of 16. ldmatrix loads groups of 8 rows of 16 bytes:
 * 8 lanes give the addresses of a group, and each lane receives a word of it. A tile keeps the rows of global memory.
 * If these lie across the columns, ldmatrix transposes them. */
#ifndef CRK_PLATFORM_CUDA_MATRIX_HALF_H
#define CRK_PLATFORM_CUDA_MATRIX_HALF_H

#include "platform/cuda/memory.h"
#include "platform/cuda/threads.h"

#if !defined(CRK_HALF_CORES)
#define CRK_HALF_CORES 1
#endif
#if CRK_HALF_CORES
namespace crk {

template <bool Bf16>
struct half_core {
  using total = float;
  static constexpr uint32_t team = 32, span = 16;
  enum { rows = 2, columns = 4 };
  static constexpr int piece = 8;

  CRK_FN static uint32_t row(uint32_t r) { return lane() / 4 + r * 8; }
  CRK_FN static constexpr uint32_t next_column(uint32_t c) { return c / 2 * 8 + c % 2; }
  CRK_FN static uint32_t column(uint32_t c) { return lane() % 4 * 2 + next_column(c); }

  template <class Op>
  CRK_FN static float combine(float value, Op op) {
    value = op(value, exchange_xor<1>(value));
    return op(value, exchange_xor<2>(value));
  }

  /* Words: rows 0 to 7, rows 8 to 15, and the same with the upper 8 numbers along k. */
  struct left {
    uint32_t words[4];
  };
  template <class T>
  CRK_FN static left load_left(const T *const (&from)[rows], uint32_t k, uint32_t d) {
    left loaded;
    CRK_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
      const uint32_t at = k + i / 2 * 8;
      loaded.words[i] = at < d ? bit_cast<uint32_t>(load_pack<T, 2>(from[i % 2] + at + lane() % 4 * 2)) : 0;
    }
    return loaded;
  }
  CRK_FN static left as_left(const float (&sum)[rows][columns]) {
    left both;
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      both.words[i] = two_halves(sum[i % 2][i / 2 * 2], sum[i % 2][i / 2 * 2 + 1]);
    }
    return both;
  }

  /* Words: the lower and the upper 8 numbers along k of columns 0 to 7, and the same of columns 8 to 15. */
  struct right {
    uint32_t words[4];
  };
  /* Pieces of 16 bytes. Eight of them make a line of 128 bytes, which the GPU copies from global memory at once. A line
   * has a part of one row, or of two rows where a row is no whole number of lines. Within a line, the pieces are in an
   * order that depends on the row, so that ldmatrix, which reads the same piece of 8 rows, finds them in different
   * banks. */
  template <int Columns, int Depth, bool Across>
  struct tile {
    static constexpr uint32_t rows_of_tile = Across ? Depth : Columns, width = Across ? Columns : Depth;
    static constexpr uint32_t words = rows_of_tile * width / 2;
    static constexpr bool copies_pieces = true;
    static constexpr int together = 1, rows_apart = 1;
    static_assert(width % 32 == 0, "whole halves of a line");

    /* Bytes of a row in a line, pairs of pieces in that, and bytes from one line of a row to its next. */
    static constexpr uint32_t row_bytes = width % 64 == 0 ? width * 2 : 64;
    static constexpr uint32_t pairs = width % 64 == 0 ? 4 : 2;
    static constexpr uint32_t next_line = width % 64 == 0 ? 128 : rows_of_tile * 64;

    /* The byte of piece 0 or 1 of a row. Piece 2 * n + 0 or 1 of the row, for n below `pairs`, is at this byte, xor
     * 32 * n. */
    CRK_FN static uint32_t byte_of(uint32_t row, uint32_t odd) {
      return row * row_bytes + (odd ^ (width % 64 == 0 ? row % 8 : row / 2 % 4)) * 16;
    }
    /* Bytes from a piece to the one `rows` rows and `parts` parts later, multiples of 8 and of 2 * pairs. */
    CRK_FN static constexpr uint32_t distance(uint32_t rows, uint32_t parts) {
      return rows * row_bytes + parts / (2 * pairs) * next_line;
    }
    CRK_FN static uint32_t *address(uint32_t *room, uint32_t row, uint32_t part) {
      const uint32_t pair = part / 2, byte = (byte_of(row, part % 2) ^ pair % pairs * 32) + pair / pairs * next_line;
      return reinterpret_cast<uint32_t *>(reinterpret_cast<unsigned char *>(room) + byte);
    }
    template <class Pack>
    CRK_FN static void store(uint32_t *room, uint32_t row, uint32_t part, const Pack (&packs)[together]) {
      *reinterpret_cast<uint4 *>(address(room, row, part)) = bit_cast<uint4>(packs[0]);
    }
    /* The word with `column`, an even number, and the next one. */
    CRK_FN static uint32_t &word(uint32_t *room, uint32_t row, uint32_t column) {
      return address(room, row, column / 8)[column % 8 / 2];
    }

    CRK_FN static right load(const uint32_t *room, uint32_t column, uint32_t k) {
      right loaded;
      if constexpr (Across) {
        load_pieces<true>(room, lane() % 16, lane() / 16, k, column / 16, loaded.words);
      } else {
        load_pieces<false>(room, lane() % 8 + lane() / 16 * 8, lane() / 8 % 2, column, k / 16, loaded.words);
      }
      return loaded;
    }
    /* The left operand whose rows are columns of this tile. */
    CRK_FN static left load_rows(const uint32_t *room, uint32_t row, uint32_t k) {
      left loaded;
      load_pieces<false>(room, lane() % 16, lane() / 16, row, k / 16, loaded.words);
      return loaded;
    }

   private:
    /* Pieces 2 * pair + odd of rows first_row + row. Only `row` and `odd` depend on the lane, and first_row is a
     * multiple of 16: the rest of the address is in the instruction, apart from the xor. `room` is aligned to 128
     * bytes. */
    template <bool Transposed>
    CRK_FN static void load_pieces(const uint32_t *room, uint32_t row, uint32_t odd, uint32_t first_row, uint32_t pair,
                                   uint32_t (&words)[4]) {
      const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(room)) + byte_of(row, odd);
      load_matrices<Transposed>((base ^ pair % pairs * 32) + (first_row * row_bytes + pair / pairs * next_line), words);
    }
  };

  CRK_FN static void multiply(const left &a, const right &b, float (&sum)[rows][columns]) {
    CRK_UNROLL
    for (int n = 0; n < 2; n++) {
      float(&top)[columns] = sum[0], (&bottom)[columns] = sum[1];
      if constexpr (Bf16) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(top[2 * n]), "+f"(top[2 * n + 1]), "+f"(bottom[2 * n]), "+f"(bottom[2 * n + 1])
            : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b.words[2 * n]),
              "r"(b.words[2 * n + 1]));
      } else {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(top[2 * n]), "+f"(top[2 * n + 1]), "+f"(bottom[2 * n]), "+f"(bottom[2 * n + 1])
            : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b.words[2 * n]),
              "r"(b.words[2 * n + 1]));
      }
    }
  }

 private:
  CRK_FN static uint32_t two_halves(float low, float high) {
    uint32_t word;
    if constexpr (Bf16) {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    } else {
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    }
    return word;
  }
  /* `at` is an address in shared memory. */
  template <bool Transposed>
  CRK_FN static void load_matrices(uint32_t at, uint32_t (&w)[4]) {
    if constexpr (Transposed) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                   : "r"(at)
                   : "memory");
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                   : "r"(at)
                   : "memory");
    }
  }
};

}  // namespace crk
#endif

#endif
