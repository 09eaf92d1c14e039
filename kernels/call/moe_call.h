/* What a launcher of a mixture of experts passes to its kernel, by value, and how these share the work. Plain C: csrc/launch/moe.c
 * fills it in, moe.h and the headers above it read it.
 *
 * A position is a place in the list of tokens. A run is positions that follow each other with the same expert, and lie in
 * the same `Most` positions counted from the list's beginning, Most being the kernel's: a list that is sorted by expert has
 * hardly more of them than needed, any other has enough. Nothing has to be found before the kernel begins. */
#ifndef CRK_MOE_CALL_H
#define CRK_MOE_CALL_H

#include <stdint.h>

#include "call/fault_word.h"
#include "call/quantized_call.h"
#include "call/sliding.h"

enum {
  CRK_MOE_TILE_ROWS = 64, /* of weights, and of k, in a tile */
  CRK_MOE_TILE_THREADS = 256,
  CRK_MOE_SLOT = 8, /* positions whose runs one block of tiles makes */
  CRK_MOE_ORDER_THREADS = 256
};

/* Rows of weights that 32 lanes multiply at once with up to `columns` tokens, four or eight: as many sums as there are registers for. */
#define CRK_MOE_VEC_ROWS(columns) ((columns) == 4 ? 2 : 1)

/* Sizes are below 2^31: scalar registers are few. */
typedef struct crk_moe {
  uint32_t experts, rows, k; /* of the weights; k in elements, of a row */
  uint32_t positions; /* in the list, and tokens in dst */
  uint32_t input_stride; /* of a row of x: in bytes of q8_1, which are less than 2^32, else in elements */
  uint32_t input_mul, input_shift; /* of a narrow crk_divisor_t: tokens that a row of x is for */
  uint32_t groups, block_groups; /* of 32 lanes in a row of the grid, in a block */
  uint32_t blocks_y;
  uint32_t sign; /* upper word of an expert's id where it is negative */
  uint32_t dtype; /* of dst: its place among f32, f16 and bf16 */
} crk_moe_t;

/* A product of one token an expert: of each position. */
typedef struct crk_moe_vec {
  crk_vec_product_t product; /* of one expert's rows and one row of x; with all weights, x and dst */
  const int32_t *tokens, *experts;
  const float *scales;
  crk_moe_t shape;
  crk_fault_t fault;
} crk_moe_vec_t;

/* Tokens grouped by expert. */
typedef struct crk_moe_order {
  uint64_t count; /* ids */
  uint64_t experts;
  uint64_t most; /* tokens after padding that there is room for */
  crk_divisor_t by_block; /* narrow */
} crk_moe_order_t;

#endif
