/* Arguments of the kernels of mixtures of experts, and the numbers that launcher and kernels share. Plain C;
 * csrc/launch/moe.c, moe_order.c and moe_route.c fill the structs in, the headers of kernels/moe read them.
 *
 * A position is an index into the lists of tokens and experts. A run is a series of neighbouring positions with the
 * same expert. Runs are cut at every multiple of `Most` positions, a constant of each kernel. A list that is sorted by
 * expert has few runs. An unsorted list has more runs and gives the same result. Each block finds its runs itself; no
 * other kernel has to run before. */
#ifndef CRK_MOE_CALL_H
#define CRK_MOE_CALL_H

#include <stdint.h>

#include "call/fault_word.h"
#include "call/quantized_call.h"
#include "call/sliding.h"

enum { CRK_MOE_ORDER_THREADS = 256 }; /* threads per block of moe_order.h */

/* XX(tokens, rows, threads, ...): the tiles of moe_tile.h: tokens of a run, rows of weights, and threads of a block. On
 * NVIDIA GPUs some tiles have other numbers of threads (moe.hip). The launcher takes the number from the kernel's
 * signature (max_threads). */
#define CRK_MOE_TILES(XX, ...) \
  XX(16, 64, 128, __VA_ARGS__) \
  XX(64, 64, 128, __VA_ARGS__) \
  XX(128, 128, 256, __VA_ARGS__)

/* Rows of weights that 32 lanes multiply at once with up to `columns` tokens, 4 or 8. Registers limit the number of
 * sums. */
#define CRK_MOE_VEC_ROWS(columns) ((columns) == 4 ? 2 : 1)

/* The shape of a mixture. 32-bit fields save scalar registers: every size is below 2^31. */
typedef struct crk_moe {
  uint32_t experts, rows, k; /* experts; rows of weights per expert; elements per row of weights and of x */
  uint32_t positions; /* entries of the lists, and rows of dst: one per token */
  uint32_t input_stride; /* from one row of x to the next: bytes if x is q8_1 (all of x: below 2^32), else elements */
  uint32_t input_mul, input_shift; /* a narrow crk_divisor_t: the tokens that share one row of x */
  uint32_t groups, block_groups; /* groups of 32 lanes: in one row of the grid, in one block */
  uint32_t blocks_y; /* blocks of the grid along y: the step of each block's loop */
  uint32_t sign; /* upper word of a negative expert id in a report: all ones if the ids are signed, 0 if unsigned */
  uint32_t dtype; /* type of dst: 0 is f32, 1 is f16, 2 is bf16 */
} crk_moe_t;

/* Arguments of the kernel in which each block multiplies the token of one position. */
typedef struct crk_moe_vec {
  crk_vec_product_t product; /* the sizes are those of one expert and one token; the pointers are to all of them */
  const int32_t *tokens, *experts; /* lists by position; tokens is NULL if the token is the position */
  const float *scales; /* factor of each token's result; NULL: all are 1 */
  float *sum; /* NULL, or the sum of all tokens' results, which are then f32 and only the launch's own */
  uint32_t *tickets; /* with sum: a counter for each block along x, for last_of_blocks (platform/blocks.h) */
  crk_moe_t shape; /* sizes of the lists and of the grid */
  crk_fault_t fault; /* where wrong experts are reported; wrong tokens are reported under the next number */
} crk_moe_vec_t;

/* The same for the gate of a feed-forward layer: the product has the weights of gate and up in its parts 0 and 1. */
typedef struct crk_moe_gate {
  crk_moe_vec_t vec;
  void *blocks; /* dst as q8_1 blocks, or NULL (crk_vec_gate_t) */
  uint32_t gelu; /* 1: the activation is gelu; 0: silu */
  uint32_t unused; /* padding */
} crk_moe_gate_t;

/* Arguments of moe_tile.h. */
typedef struct crk_moe_tiles {
  const void *weights, *x;
  void *dst;
  const int32_t *tokens, *experts; /* as in crk_moe_vec_t */
  const float *scales;
  crk_moe_t shape;
  crk_fault_t fault;
  /* Positions in which a block looks for runs, and the blocks that take turns with the runs that begin there. */
  uint32_t slot, turns;
  uint32_t way; /* how weights that are numbers lie in memory: CRK_MATMUL_ALONG_K or _ANY */
  uint32_t by_vectors; /* 1: rows of dst can be written in packs of 8 */
  uint32_t first_expert, expert_count; /* only these experts' tokens; `weights` begins with the first of them */
} crk_moe_tiles_t;

/* Threads per block that makes numbers of quantized weights for moe_tile.h, and weights of a thread. */
enum { CRK_MOE_NUMBERS_THREADS = 256, CRK_MOE_NUMBERS = 8 };

/* Threads per block that routes tokens. One block sorts up to as many results. */
enum { CRK_MOE_ROUTE_THREADS = 256 };

/* The experts that 32 lanes can choose from, by the experts of a lane: XX(share). */
#define CRK_MOE_ROUTES(XX) XX(4) XX(8) XX(16)

/* Routes tokens to experts. */
typedef struct crk_moe_route {
  const float *logits; /* `experts` numbers of each token */
  float *weights; /* `topk` of each token */
  uint32_t *ids; /* the same for their experts */
  uint32_t *sorted_experts, *sorted_tokens; /* both NULL, or the results sorted by expert */
  uint32_t tokens, experts, topk;
  uint32_t normalise; /* 1: the weights of a token add up to 1 */
  uint32_t blocks; /* of the grid */
  uint32_t unused; /* padding */
} crk_moe_route_t;

/* Routes one token, whose logits the same launch makes. A block makes those of two experts. */
typedef struct crk_moe_router {
  const void *x, *weights; /* k elements, and a row of k for each expert; aligned to 16 bytes, and so is each row */
  float *logits; /* scratch memory: an even number of them */
  uint32_t *ticket;
  uint64_t k;
  crk_moe_route_t route; /* of one token in one block; its logits are not read */
  uint32_t blocks; /* of the grid */
  uint32_t unused; /* padding */
} crk_moe_router_t;

/* Counts and groups tokens by expert. */
typedef struct crk_moe_order {
  uint64_t count; /* number of ids */
  uint64_t experts; /* number of experts; ids from it on are reported */
  uint64_t most; /* room of the result: tokens after padding */
  crk_divisor_t by_block; /* narrow: tokens per block; each expert's tokens are padded to a multiple of it */
} crk_moe_order_t;

#endif
