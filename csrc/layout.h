/* layout.h: the extent of a layout, and the iteration space (crk_nd_t, kernels/call/nd.h) that a launcher passes to a
 * kernel by value. */
#ifndef CRK_LAYOUT_H
#define CRK_LAYOUT_H

#include "call/nd.h"
#include "candle_rocm.h"

/* The range of elements that a layout covers. */
typedef struct crk_extent {
  size_t numel;
  size_t last; /* the greatest element index, offset included; 0 if the layout is empty */
  bool is_contiguous; /* row-major without gaps, from its offset on */
} crk_extent_t;

/* Computes the extent. Fails with CRK_INVALID_ARGUMENT if the rank is too high or a number overflows size_t. `where` is
 * the public function and `name` its argument, for the sentence. */
crk_status_t crk_priv_layout_extent(const char *where, const char *name, const crk_layout_t *layout,
                                    crk_extent_t *extent);

/* Describes the space dims[0 .. rank] to a kernel with `operands` strided operands; operand k has strides[k]. Drops
 * dims of size 1, joins dims that are contiguous with each other in every operand, and prepares the divisions.
 * `rank` is at most CRK_MAX_RANK. `numel` is the product of the dims and not 0. `vector` is the number of elements
 * per thread. */
void crk_priv_nd_init(crk_nd_t *nd, size_t numel, uint32_t rank, const size_t *dims, const size_t *const *strides,
                      uint32_t operands, uint32_t vector);

/* Makes kernels walk the space in strips (crk_nd_strips_t). The space is a series of matrices of `rows` rows and
 * `columns` columns. A strip is 2^log2_width columns wide. That width is less than `columns`; it is a multiple of the
 * vector if `columns` is. Does nothing for a CRK_ND_WIDE space. */
void crk_priv_nd_walk_strips(crk_nd_t *nd, uint64_t rows, uint64_t columns, uint32_t log2_width);

/* Sets `size`, and prepares the division by it that kernels/call/nd.h describes. A size of 1 has no multiplier: kernels
 * test `size`. For divisors that may be 1 there is crk_priv_divisor_init (launch/sliding.h). */
void crk_priv_nd_dim_init(crk_nd_dim_t *dim, uint64_t size, bool wide);

/* The number of threads for the space: one per vector if the space has CRK_ND_VECTOR, else one per element. With
 * `over_rows`, vectors may cross the end of a row. Then more spaces have one thread per vector: those that are not
 * CRK_ND_WIDE and have rows of at least one vector. */
static inline uint64_t crk_priv_nd_threads(const crk_nd_t *nd, uint32_t vector, bool over_rows) {
  over_rows = over_rows && (nd->flags & CRK_ND_WIDE) == 0 && nd->rank > 0 && nd->dims[0].size >= vector;
  return (nd->flags & CRK_ND_VECTOR) != 0 || over_rows ? (nd->numel + vector - 1) / vector : nd->numel;
}

#endif
