/* layout.h: what the core computes from a layout, and the iteration space that a launcher passes to a kernel by value. */
#ifndef CRK_LAYOUT_H
#define CRK_LAYOUT_H

#include "call/nd.h"
#include "candle_rocm.h"

/* Where a layout's elements lie. */
typedef struct crk_extent {
  size_t numel;
  size_t last; /* the greatest index that the layout reaches, its offset included; 0 when empty */
  bool is_contiguous; /* from its offset on */
} crk_extent_t;

/* Computes the extent. Fails with CRK_INVALID_ARGUMENT where the rank is too high or a number overflows size_t; `where` is
 * the public function, `name` its argument. */
crk_status_t crk_priv_layout_extent(const char *where, const char *name, const crk_layout_t *layout,
                                    crk_extent_t *extent);

/* Describes the space of `dims` (of `rank`, at most CRK_MAX_RANK) to a kernel that has `operands` strided operands, operand
 * k with strides[k]: drops dims of size 1, joins dims that follow each other in every operand, and prepares the divisions.
 * `numel` is the product of the dims, not 0. `vector` is the kernel's elements a thread. */
void crk_priv_nd_init(crk_nd_t *nd, size_t numel, uint32_t rank, const size_t *dims, const size_t *const *strides,
                      uint32_t operands, uint32_t vector);

/* Has the space, if it is not CRK_ND_WIDE, walked in strips of 2^log2_width of the `columns` elements of a row, `rows` of which are a
 * matrix. The width is less than `columns`, and a multiple of the vector where rows are. */
void crk_priv_nd_walk_strips(crk_nd_t *nd, uint64_t rows, uint64_t columns, uint32_t log2_width);

/* Prepares the division by `size` of nd.h. By 1 there is nothing to multiply by: a kernel looks at `size`. */
void crk_priv_division_init(crk_nd_dim_t *dim, uint64_t size, bool wide);

/* Threads that the space occupies: one for each vector, or each element; of a walk whose vectors may go over the end of a row, one for
 * each vector where a row has one. */
static inline uint64_t crk_priv_nd_threads(const crk_nd_t *nd, uint32_t vector, bool over_rows) {
  over_rows = over_rows && (nd->flags & CRK_ND_WIDE) == 0 && nd->rank > 0 && nd->dims[0].size >= vector;
  return (nd->flags & CRK_ND_VECTOR) != 0 || over_rows ? (nd->numel + vector - 1) / vector : nd->numel;
}

#endif
