/* platform/matrix.h's half_core for AMD GPUs. numbers/square.h documents its members.
 *
 * The instructions compute the transpose: the product's columns are their rows. A lane's results then have one row of
 * the product, and they follow each other along its columns, which is the layout of an operand too. A result becomes an
 * operand without leaving the lane, apart from RDNA 3, whose operands are in both halves of a wave.
 *
 * Which column of the product is which row of an instruction is free. It is chosen so that a lane's 8 results are
 * neighbours: both the next operand and a store of the result then are 16 bytes of a lane. */
#ifndef CRK_PLATFORM_HIP_MATRIX_HALF_H
#define CRK_PLATFORM_HIP_MATRIX_HALF_H

#include "platform/hip/memory.h"
#include "platform/hip/threads.h"

#if defined(CRK_HALF_CORES)
/* Set on the command line. */
#elif CRK_ARCH_MATRIX != CRK_MATRIX_NONE
#define CRK_HALF_CORES 1
namespace crk {

typedef _Float16 f16_values2 __attribute__((ext_vector_type(2)));
typedef _Float16 f16_values4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16_values8 __attribute__((ext_vector_type(8)));
typedef _Float16 f16_values16 __attribute__((ext_vector_type(16)));
typedef short short_values2 __attribute__((ext_vector_type(2)));
typedef short short_values4 __attribute__((ext_vector_type(4)));
typedef short short_values8 __attribute__((ext_vector_type(8)));
typedef short short_values16 __attribute__((ext_vector_type(16)));
typedef float f32_values4 __attribute__((ext_vector_type(4)));
typedef float f32_values8 __attribute__((ext_vector_type(8)));

/* Two numbers, none negative, rounded to halves. A tie of bf16 is rounded up. */
template <bool Bf16>
CRK_FN uint32_t two_halves_of(float low, float high) {
  if constexpr (Bf16) {
    return permute_bytes(bit_cast<uint32_t>(low) + 0x8000u, bit_cast<uint32_t>(high) + 0x8000u, 0x07060302u);
  } else {
    const f16_values2 both = {static_cast<_Float16>(low), static_cast<_Float16>(high)};
    return bit_cast<uint32_t>(both);
  }
}

/* How the columns of a tile lie in the 32 banks of shared memory. half_padding halves lie between two columns, and
 * 8 * half_spread more behind each eighth column, or fewer. half_rows_apart is rows_apart of a tile.
 *
 * Shared memory serves 16 bytes of 8 lanes at a time. Loads of CDNA and RDNA 3 have lanes 0 to 3 with 20 to 23, 4 to 7
 * with 16 to 19, 8 to 11 with 28 to 31, 12 to 15 with 24 to 27, and so on from lane 32 on. All stores, and loads of
 * RDNA 4, have neighbouring lanes. (Sources: "LDS and bank conflicts" in the documentation of AMD's Composable Kernel;
 * docs/empirical-lds of AMD's repository amd-shark-ai.) A piece is 16 bytes.
 *
 *   CDNA     Lane l loads piece l / 16 of column l % 16. So columns begin two pieces apart, modulo 4. Groups of eight
 *            columns begin two pieces before a multiple of 16 pieces, which takes the place of a padding.
 *   RDNA 3   Lanes 0 to 15 load the columns 0, 8, 1, 9 and so on, lanes 16 to 31 the same. So columns begin one piece
 *            apart, modulo 2, and groups of eight columns four pieces behind a multiple of eight pieces.
 *   RDNA 4   Lane l loads column l % 16. So columns begin one piece apart, modulo 2, and groups of eight columns two
 *            pieces behind a multiple of eight pieces.
 *
 * Stores across columns go to four groups of eight columns at a time. On CDNA and RDNA 4 the groups have different
 * banks; on RDNA 3 two of them have the same. */
#if CRK_MATRIX_IS_MFMA(CRK_ARCH_MATRIX)
inline constexpr int half_padding = 16, half_spread = -2, half_rows_apart = 2;
#elif CRK_ARCH_MATRIX == CRK_MATRIX_WMMA3
inline constexpr int half_padding = 8, half_spread = 4, half_rows_apart = 4;
#else
inline constexpr int half_padding = 8, half_spread = 2, half_rows_apart = 4;
#endif

/* What the three kinds of cores share. A tile has the numbers of a column one after the other. */
template <bool Bf16>
struct half_core_tiles {
  using total = float;
  enum { rows = 1, columns = 8 };
  static constexpr int piece = 8;
  typedef pack<uint16_t, piece> halves;

  CRK_FN static uint32_t row(uint32_t) { return lane() % 16; }
  CRK_FN static constexpr uint32_t next_column(uint32_t c) { return c; }
  CRK_FN static uint32_t column(uint32_t c) { return lane() / 16 * 8 + c; }

  template <class Op>
  CRK_FN static float combine(float value, Op op) {
    return over_rows16(value, op);
  }

  template <int Columns, int Depth, bool Across>
  struct tile_store {
    static constexpr uint32_t pitch = (Depth + half_padding) / 2, spread = static_cast<uint32_t>(half_spread / 2);
    static constexpr uint32_t mean = pitch + spread, words = Columns * mean;
    static constexpr bool copies_pieces = false;
    static constexpr int together = Across ? 2 : 1, rows_apart = half_rows_apart;

    /* The word where a column begins: `mean` words apart per group of eight columns, and `pitch` words within it. */
    CRK_FN static constexpr uint32_t begin(uint32_t column) { return column * mean - column % 8 * spread; }
    /* The same for column first + more, where `first` is a multiple of 8. */
    CRK_FN static constexpr uint32_t begin(uint32_t first, uint32_t more) {
      return first * mean + more * pitch + (more & ~7u) * spread;
    }

    template <class Pack>
    CRK_FN static void store(uint32_t *room, uint32_t row, uint32_t part, const Pack (&packs)[together]) {
      if constexpr (Across) {
        const pack<uint32_t, 4> even = bit_cast<pack<uint32_t, 4> >(packs[0]);
        const pack<uint32_t, 4> odd = bit_cast<pack<uint32_t, 4> >(packs[together - 1]);
        uint32_t *to = room + begin(part * 8, 0) + row / 2;
        CRK_UNROLL
        for (int i = 0; i < 4; i++) {
          to[static_cast<uint32_t>(2 * i) * pitch] = permute_bytes(even.v[i], odd.v[i], 0x05040100u);
          to[static_cast<uint32_t>(2 * i + 1) * pitch] = permute_bytes(even.v[i], odd.v[i], 0x07060302u);
        }
      } else {
        *reinterpret_cast<words16 *>(room + begin(row) + part * 4) = bit_cast<words16>(packs[0]);
      }
    }
  };

  /* 8 numbers along k, from memory. */
  template <class T>
  CRK_FN static words16 load_eight(const T *from, uint32_t k, uint32_t d) {
    words16 words = {0, 0, 0, 0};
    if (k < d) {
      words = bit_cast<words16>(load_pack<T, 8>(from + k));
    }
    return words;
  }
  CRK_FN static words16 load_shared(const uint32_t *from) { return *reinterpret_cast<const words16 *>(from); }
  CRK_FN static words16 pack_eight(const float (&sum)[rows][columns]) {
    words16 words;
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      words[i] = two_halves_of<Bf16>(sum[0][2 * i], sum[0][2 * i + 1]);
    }
    return words;
  }
};

#if CRK_MATRIX_IS_MFMA(CRK_ARCH_MATRIX)

/* A wave multiplies 32 columns by 32 numbers along k, as two squares of 16. Lane l has 8 numbers along k, from
 * 8 * (l / 16) on. Its results of square t have the rows 4 * (l / 16) + i of the instruction, and row r of square t is
 * column 8 * (r / 4) + 4 * t + r % 4 of the product. */
template <bool Bf16>
struct half_core : half_core_tiles<Bf16> {
  using base = half_core_tiles<Bf16>;
  using base::columns;
  using base::rows;
  static constexpr uint32_t team = 64, span = 32;

  struct left {
    words16 eight;
  };
  template <class T>
  CRK_FN static left load_left(const T *const (&from)[rows], uint32_t k, uint32_t d) {
    return {base::load_eight(from[0], k + flat_lane() / 16 * 8, d)};
  }
  CRK_FN static left as_left(const float (&sum)[rows][columns]) { return {base::pack_eight(sum)}; }

  struct right {
    words16 square[2];
  };
  template <int Columns, int Depth, bool Across>
  struct tile : base::template tile_store<Columns, Depth, Across> {
    using store_of = typename base::template tile_store<Columns, Depth, Across>;
    CRK_FN static right load(const uint32_t *room, uint32_t column, uint32_t k) {
      const uint32_t r = flat_lane() % 16;
      const uint32_t *from = room + store_of::begin(column, r / 4 * 8 + r % 4) + k / 2 + flat_lane() / 16 * 4;
      return {{base::load_shared(from), base::load_shared(from + 4 * store_of::pitch)}};
    }
    CRK_FN static left load_rows(const uint32_t *room, uint32_t row, uint32_t k) {
      return {base::load_shared(room + store_of::begin(row, flat_lane() % 16) + k / 2 + flat_lane() / 16 * 4)};
    }
  };

  CRK_FN static void multiply(const left &a, const right &b, float (&sum)[rows][columns]) {
    CRK_UNROLL
    for (int t = 0; t < 2; t++) {
      f32_values4 four = {sum[0][4 * t], sum[0][4 * t + 1], sum[0][4 * t + 2], sum[0][4 * t + 3]};
      four = add_product(b.square[t], a.eight, four);
      CRK_UNROLL
      for (int i = 0; i < 4; i++) {
        sum[0][4 * t + i] = four[i];
      }
    }
  }

 private:
  CRK_FN static f32_values4 add_product(words16 a, words16 b, f32_values4 sum) {
#if CRK_ARCH_MATRIX == CRK_MATRIX_MFMA4 && __has_builtin(__builtin_amdgcn_mfma_f32_16x16x32_f16)
    typedef __bf16 bf16_values8 __attribute__((ext_vector_type(8)));
    if constexpr (Bf16) {
      return __builtin_amdgcn_mfma_f32_16x16x32_bf16(bit_cast<bf16_values8>(a), bit_cast<bf16_values8>(b), sum, 0, 0,
                                                     0);
    } else {
      return __builtin_amdgcn_mfma_f32_16x16x32_f16(bit_cast<f16_values8>(a), bit_cast<f16_values8>(b), sum, 0, 0, 0);
    }
#else
    CRK_UNROLL
    for (int i = 0; i < 4; i += 2) {
      typedef uint32_t words8 __attribute__((ext_vector_type(2)));
      const words8 x = {a[i], a[i + 1]}, y = {b[i], b[i + 1]};
      if constexpr (!Bf16) {
        sum = __builtin_amdgcn_mfma_f32_16x16x16f16(bit_cast<f16_values4>(x), bit_cast<f16_values4>(y), sum, 0, 0, 0);
      } else {
#if CRK_ARCH_MATRIX == CRK_MATRIX_MFMA1
        const uint32_t x0 = a[i], x1 = a[i + 1], y0 = b[i], y1 = b[i + 1];
        sum = __builtin_amdgcn_mfma_f32_16x16x8bf16(bit_cast<short_values2>(x0), bit_cast<short_values2>(y0), sum, 0, 0,
                                                    0);
        sum = __builtin_amdgcn_mfma_f32_16x16x8bf16(bit_cast<short_values2>(x1), bit_cast<short_values2>(y1), sum, 0, 0,
                                                    0);
#else
        sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bit_cast<short_values4>(x), bit_cast<short_values4>(y), sum, 0,
                                                        0, 0);
#endif
      }
    }
    return sum;
#endif
  }
};

#else

/* A wave multiplies 16 columns by 16 numbers along k. RDNA 4: lane l has the 8 numbers along k from 8 * (l / 16) on,
 * and the results of rows 8 * (l / 16) + i of the instruction. RDNA 3: both halves of the wave have all 16 numbers, and
 * lane l has the results of rows 2 * i + l / 16; row r is column 8 * (r % 2) + r / 2 of the product. */
template <bool Bf16>
struct half_core : half_core_tiles<Bf16> {
  using base = half_core_tiles<Bf16>;
  using base::columns;
  using base::rows;
  static constexpr uint32_t team = 32, span = 16;
#if CRK_ARCH_MATRIX == CRK_MATRIX_WMMA4
  static constexpr int pieces = 1;
  CRK_FN static uint32_t first_k() { return flat_lane() / 16 * 8; }
  CRK_FN static uint32_t own_column() { return flat_lane() % 16; }
#else
  static constexpr int pieces = 2;
  CRK_FN static uint32_t first_k() { return 0; }
  CRK_FN static uint32_t own_column() { return flat_lane() % 2 * 8 + flat_lane() % 16 / 2; }
#endif

  struct operand {
    words16 eight[pieces];
  };
  using left = operand;
  using right = operand;
  template <class T>
  CRK_FN static left load_left(const T *const (&from)[rows], uint32_t k, uint32_t d) {
    left loaded;
    CRK_UNROLL
    for (int p = 0; p < pieces; p++) {
      loaded.eight[p] = base::load_eight(from[0], k + first_k() + static_cast<uint32_t>(p) * 8, d);
    }
    return loaded;
  }
  CRK_FN static left as_left(const float (&sum)[rows][columns]) {
    const words16 own = base::pack_eight(sum);
#if CRK_ARCH_MATRIX == CRK_MATRIX_WMMA4
    return {{ own }};
#else
    left both;
    const bool second = flat_lane() >= 16;
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      const uint32_t mine = own[i], other = exchange_xor<16>(mine);
      both.eight[0][i] = second ? other : mine;
      both.eight[1][i] = second ? mine : other;
    }
    return both;
#endif
  }

  template <int Columns, int Depth, bool Across>
  struct tile : base::template tile_store<Columns, Depth, Across> {
    using store_of = typename base::template tile_store<Columns, Depth, Across>;
    CRK_FN static right load(const uint32_t *room, uint32_t column, uint32_t k) {
      return load_pieces(room + store_of::begin(column, own_column()) + k / 2);
    }
    CRK_FN static left load_rows(const uint32_t *room, uint32_t row, uint32_t k) {
      return load_pieces(room + store_of::begin(row, flat_lane() % 16) + k / 2);
    }

   private:
    CRK_FN static operand load_pieces(const uint32_t *from) {
      operand loaded;
      CRK_UNROLL
      for (int p = 0; p < pieces; p++) {
        loaded.eight[p] = base::load_shared(from + first_k() / 2 + static_cast<uint32_t>(p) * 4);
      }
      return loaded;
    }
  };

  CRK_FN static void multiply(const left &a, const right &b, float (&sum)[rows][columns]) {
    f32_values8 eight;
    CRK_UNROLL
    for (int i = 0; i < 8; i++) {
      eight[i] = sum[0][i];
    }
#if CRK_ARCH_MATRIX == CRK_MATRIX_WMMA4
    if constexpr (Bf16) {
      eight = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(bit_cast<short_values8>(b.eight[0]),
                                                                bit_cast<short_values8>(a.eight[0]), eight);
    } else {
      eight = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(bit_cast<f16_values8>(b.eight[0]),
                                                               bit_cast<f16_values8>(a.eight[0]), eight);
    }
#else
    if constexpr (Bf16) {
      eight =
          __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(bit_cast<short_values16>(b), bit_cast<short_values16>(a), eight);
    } else {
      eight = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(bit_cast<f16_values16>(b), bit_cast<f16_values16>(a), eight);
    }
#endif
    CRK_UNROLL
    for (int i = 0; i < 8; i++) {
      sum[0][i] = eight[i];
    }
  }
};

#endif

}  // namespace crk
#else
#define CRK_HALF_CORES 0
#endif

#endif
