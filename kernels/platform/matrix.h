/* Matrix cores, for 8-bit integers, for halves (f16 and bf16), for f32 and for f64.
 *
 * A part of platform/platform.h. The definitions are in matrix.h, matrix_half.h, matrix_float.h and matrix_double.h of
 * platform/hip, platform/cuda and platform/host. */
#ifndef CRK_PLATFORM_MATRIX_H
#define CRK_PLATFORM_MATRIX_H

/* ---- 8-bit integers ---- */

/* CRK_MATRIX_CORES: 1 where crk::matrix_core exists, else 0. Compile with -DCRK_MATRIX_CORES=0 to do without. */

/* struct matrix_core: products of 16 rows with 16 columns, by one wave. A row or a column has 32 8-bit codes, and sums
 * are i32. All lanes of the wave must come.
 *
 * Each lane gets `tall` * `wide` of the 256 sums. sum[r][c] belongs to row first_row() + next_row(r) and to column
 * first_column() + next_column(c), for r below `tall` and c below `wide`. place(row) is the row's place in an order in
 * which the `tall` rows of a lane follow each other.
 *
 *   enum { tall, wide };
 *   static uint32_t first_row(), first_column();
 *   static constexpr uint32_t next_row(uint32_t r), next_column(uint32_t c), place(uint32_t row);
 *
 * The codes have one sum (Parts 1), or the first and the last 16 have one each (Parts 2). Operands are loaded from rows
 * of 32 words in shared memory. The banks that loads use are different where rows are row_stride words apart, and
 * columns column_stride words: at least 32 and 36. A multiple of 4 keeps them aligned to 16 bytes, else they are
 * aligned to 8 bytes. A lane loads from word row_word<Parts>(stride) on for rows, and from word
 * column_word<Parts>(stride) on for columns.
 *
 *   static constexpr uint32_t row_stride, column_stride;
 *
 *   struct operand;
 *   template <int Parts> static uint32_t row_word(uint32_t stride), column_word(uint32_t stride);
 *   template <int Parts> static operand load(const uint32_t *codes);
 *
 * multiply sets sum[p][r][c] to `first`, made by start_of, plus the product of part p of its row of `a` and its column
 * of `b`.
 *
 *   struct start;
 *   static start start_of(int32_t x);
 *   template <int Parts> static void multiply(const operand &a, const operand &b, const start &first,
 *                                             int32_t (&sum)[Parts][tall][wide]);
 *
 * CRK_MATRIX_FOURS: 1 if `adds_fours` is true, where matrix cores also multiply floats, four along k. A lane has number
 * four() of the rows with the places fours_place(n), and of the columns fours_place(n), for n below `fours`. The
 * factors fit f16. add_fours adds the products to `sum`, which belongs to the rows and columns above.
 *
 *   static constexpr bool adds_fours;
 *   enum { fours };
 *   static uint32_t four(), fours_place(uint32_t n);
 *   static void add_fours(const float (&a)[fours], const float (&b)[fours], float (&sum)[tall][wide]); */

/* ---- Halves ---- */

/* CRK_HALF_CORES: 1 where crk::half_core exists, else 0. Compile with -DCRK_HALF_CORES=0 to do without.
 * numbers/square.h has the same interface on every platform; it is documented there.
 *
 * template <bool Bf16> struct half_core: sums of products of f16, or of bf16, in f32. A half is 16 bits of a word. */

/* ---- f32 ---- */

/* CRK_FLOAT_CORES: 1 where crk::float_core exists, else 0. Compile with -DCRK_FLOAT_CORES=0 to do without.
 *
 * struct float_core: sums of products of f32, in f32, with half_core's interface.
 *
 * CRK_SPLIT_CORES: 1 where crk::split_core exists, else 0. Compile with -DCRK_SPLIT_CORES=0 to do without.
 *
 * struct split_core: the same, but each product has a relative error of up to 2^-21. */

/* ---- f64 ---- */

/* CRK_DOUBLE_CORES: 1 where crk::double_core exists, else 0. Compile with -DCRK_DOUBLE_CORES=0 to do without.
 *
 * struct double_core: sums of products of f64, in f64, with half_core's interface. */

#endif
