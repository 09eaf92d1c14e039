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
  template <int Columns, int Depth, bool Across>
  struct tile {
    static constexpr uint32_t pitch = (Across ? Columns : Depth) + 8;
    static constexpr uint32_t words = (Across ? Depth : Columns) * pitch / 2;
    static constexpr bool copies_pieces = true;
    static constexpr int together = 1;

    CRK_FN static uint32_t *address(uint32_t *room, uint32_t row, uint32_t part) {
      return room + (row * pitch + part * 8) / 2;
    }
    template <class Pack>
    CRK_FN static void store(uint32_t *room, uint32_t row, uint32_t part, const Pack (&packs)[together]) {
      *reinterpret_cast<uint4 *>(address(room, row, part)) = bit_cast<uint4>(packs[0]);
    }
    CRK_FN static right load(const uint32_t *room, uint32_t column, uint32_t k) {
      right loaded;
      if constexpr (Across) {
        load_matrices<true>(room + ((k + lane() % 16) * pitch + column + lane() / 16 * 8) / 2, loaded.words);
      } else {
        const uint32_t first = column + lane() % 8 + lane() / 16 * 8;
        load_matrices<false>(room + (first * pitch + k + lane() / 8 % 2 * 8) / 2, loaded.words);
      }
      return loaded;
    }
    /* The left operand whose rows are columns of this tile. */
    CRK_FN static left load_rows(const uint32_t *room, uint32_t row, uint32_t k) {
      left loaded;
      load_matrices<false>(room + ((row + lane() % 16) * pitch + k + lane() / 16 * 8) / 2, loaded.words);
      return loaded;
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
  template <bool Transposed>
  CRK_FN static void load_matrices(const uint32_t *from, uint32_t (&w)[4]) {
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(from));
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
