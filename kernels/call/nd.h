/* crk_nd_t: a strided iteration space that a launcher passes to its kernel by value. Plain C, shared by the core and
 * the kernels. csrc/layout.c fills it in (crk_priv_nd_init); kernels/elementwise/walk.h reads it (locate, map_nd).
 * Other structs of this folder contain it.
 *
 * Elements are counted in row-major order of the collapsed dims; no dim has size 1. A kernel has up to CRK_ND_OPERANDS
 * strided operands. An operand that is contiguous in that order, as most destinations are, needs no strides.
 *
 * Division by a dim: for 0 <= n < 2^31 (narrow) or 2^63 (CRK_ND_WIDE), n / size == mulhi(n, mul) >> shift. Here mulhi
 * is the upper half of the 32 x 32 or 64 x 64 bit product.
 *
 *   shift = ceil(log2(size)) - 1, mul = floor(2^(32 + shift) / size) + 1, or with 64 instead of 32 if wide
 *
 * (Granlund and Montgomery, "Division by invariant integers using multiplication", 1994). */
#ifndef CRK_ND_H
#define CRK_ND_H

#include <stdint.h>

#define CRK_ND_RANK     8 /* most dims */
#define CRK_ND_OPERANDS 3 /* most operands */

/* Elements that a thread loads at once if it can: 16 bytes of the narrowest operand. */
#define CRK_VECTOR_ELEMENTS(narrowest_bytes) (16 / (narrowest_bytes))
/* Elements per step of a thread's walk: 16 bytes of the narrowest operand, but at most 64 bytes of the widest. A caller
 * leaves sources of single bytes out of `narrowest_bytes`. */
#define CRK_STEP_ELEMENTS(narrowest_bytes, widest_bytes) \
  (16 / (narrowest_bytes) < 64 / (widest_bytes) ? 16 / (narrowest_bytes) : 64 / (widest_bytes))

/* Flags of crk_nd_t. */
enum {
  CRK_ND_WIDE = 1, /* an index or an offset may reach 2^31: the kernel uses 64-bit arithmetic, and `mul` has 64 bits */
  CRK_ND_VECTOR = 2, /* the innermost dim is a multiple of the kernel's vector, or the rank is 0 or 1 */
  CRK_ND_UNIT = 4, /* << k: operand k's innermost stride is 1, and its other strides are multiples of the vector */
  CRK_ND_STRIPS = 4 << CRK_ND_OPERANDS /* the space is walked in strips; never together with CRK_ND_WIDE */
};

/* A dim, and the numbers that divide by it. */
typedef struct crk_nd_dim {
  uint64_t size; /* at least 2 in crk_nd_t; 1 is possible elsewhere, and the formula does not hold for it */
  uint64_t mul; /* the multiplier of the formula above; 32 bits unless wide */
  uint32_t shift; /* the shift of the formula above */
  uint32_t unused; /* padding */
} crk_nd_dim_t;

/* A second order of the same elements. The space is seen as matrices that follow each other, with rows of `columns`
 * elements. Each matrix is cut into strips of 2^log2_width columns. The walk takes strip after strip, and each strip
 * row by row. An operand whose neighbours in memory lie in the next row then finds their cache line still cached. */
typedef struct crk_nd_strips {
  crk_nd_dim_t matrix, strip; /* elements of a matrix, and of a full strip */
  crk_nd_dim_t last; /* columns of the last strip, if it is narrower than the others; else 1 */
  uint32_t columns, whole; /* columns of a row; full strips of a matrix */
  uint32_t log2_width; /* log2 of the columns of a full strip */
  uint32_t unused; /* padding */
} crk_nd_strips_t;

typedef struct crk_nd {
  uint64_t numel; /* elements of the space */
  uint32_t rank; /* used dims; 0 for a single element */
  uint32_t flags; /* CRK_ND_WIDE and so on */
  crk_nd_dim_t dims[CRK_ND_RANK]; /* dims[0] is the innermost one */
  uint64_t strides[CRK_ND_OPERANDS][CRK_ND_RANK]; /* by operand and dim, in elements */
  crk_nd_strips_t strips; /* set if flags has CRK_ND_STRIPS */
} crk_nd_t;

#endif
