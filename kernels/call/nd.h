/* The one struct that carries a strided iteration space to a launcher's kernel, by value. Plain C: csrc/layout.c fills it,
 * kernels/elementwise/walk.h reads it.
 *
 * The space's elements are counted in row-major order of the collapsed dims; no dim has size 1. A kernel has up to CRK_ND_OPERANDS
 * strided operands; an operand that is contiguous in that order (a destination, mostly) needs no strides.
 *
 * Division by a dim: for 0 <= n < 2^31 (narrow) or 2^63 (CRK_ND_WIDE), n / size == mulhi(n, mul) >> shift, where mulhi is
 * the upper half of the 32 x 32 or 64 x 64 bit product, shift = ceil(log2(size)) - 1 and
 * mul = floor(2^(31 + shift + 1) / size) + 1, or with 63 in the wide case (Granlund and Montgomery, "Division by invariant
 * integers using multiplication", 1994). */
#ifndef CRK_ND_H
#define CRK_ND_H

#include <stdint.h>

#define CRK_ND_RANK     8
#define CRK_ND_OPERANDS 3

/* Elements a thread handles at once where it can: 16 bytes of the narrowest operand. */
#define CRK_VECTOR_ELEMENTS(narrowest_bytes) (16 / (narrowest_bytes))
/* Those of one step of its walk: 64 bytes at most of the widest operand, and no matter that a source is of single bytes. */
#define CRK_STEP_ELEMENTS(narrowest_bytes, widest_bytes) \
  (16 / (narrowest_bytes) < 64 / (widest_bytes) ? 16 / (narrowest_bytes) : 64 / (widest_bytes))

enum {
  CRK_ND_WIDE = 1, /* an index or an offset may reach 2^31: 64-bit arithmetic, 64-bit `mul` */
  CRK_ND_VECTOR = 2, /* the innermost dim is a multiple of the kernel's vector, or the rank is 1 */
  CRK_ND_UNIT = 4, /* << k: operand k's innermost stride is 1 and every other one a multiple of the vector */
  CRK_ND_STRIPS = 4 << CRK_ND_OPERANDS /* walked in strips; not with CRK_ND_WIDE */
};

typedef struct crk_nd_dim {
  uint64_t size; /* at least 2 */
  uint64_t mul;
  uint32_t shift;
  uint32_t unused;
} crk_nd_dim_t;

/* Another order to walk the space in, as matrices of `columns` elements a row that follow each other: strips of 2^log2_width columns,
 * one after the other, each row by row. What lies in memory across rows, beside what lies along them, is then in a cache when
 * it is wanted again. */
typedef struct crk_nd_strips {
  crk_nd_dim_t matrix, strip; /* elements of one, of a whole strip */
  crk_nd_dim_t last; /* columns of the last strip, if it is narrower */
  uint32_t columns, whole; /* of a row; whole strips of a matrix */
  uint32_t log2_width;
  uint32_t unused;
} crk_nd_strips_t;

typedef struct crk_nd {
  uint64_t numel;
  uint32_t rank; /* 0 for a single element; dims[0] is the innermost */
  uint32_t flags;
  crk_nd_dim_t dims[CRK_ND_RANK];
  uint64_t strides[CRK_ND_OPERANDS][CRK_ND_RANK]; /* in elements */
  crk_nd_strips_t strips; /* with CRK_ND_STRIPS */
} crk_nd_t;

#endif
