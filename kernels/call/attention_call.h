/* Arguments of the attention kernels, and the tile sizes that launcher and kernels share. Plain C;
 * csrc/launch/attention.c fills crk_attention_call_t in, the headers of kernels/attention read it. The names and
 * formulas are those of candle_rocm/launchers/attention.h. Sizes and strides are in elements. */
#ifndef CRK_ATTENTION_CALL_H
#define CRK_ATTENTION_CALL_H

#include <stdint.h>

#include "call/sliding.h"

/* XX(width, rows, threads): the widths of the kernels. A kernel serves heads with d and dv up to its width. A block of
 * attention_tile.h computes `rows` queries of a head, with `threads` threads. The launcher takes the number from the
 * kernel's signature (max_threads). */
#define CRK_ATTENTION_WIDTHS(XX)  \
  CRK_ATTENTION_NARROW_WIDTHS(XX) \
  CRK_ATTENTION_WIDE_WIDTHS(XX)   \
  XX(512, 64, 256)

/* Widths that also have small kernels: a block of these computes CRK_ATTENTION_SMALL_ROWS queries. They serve calls
 * that would have few blocks otherwise. In f32 there are only plain ones, up to a width of 128. The wide ones in halves
 * also serve all calls on GPUs with waves of 64 lanes, whose registers have no room for the sums of more queries. On
 * NVIDIA GPUs, all kernels of these widths have that many queries. */
#define CRK_ATTENTION_NARROW_WIDTHS(XX) \
  XX(64, 128, 256)                      \
  XX(96, 128, 256)                      \
  XX(128, 128, 256)
#define CRK_ATTENTION_WIDE_WIDTHS(XX) \
  XX(192, 128, 256)                   \
  XX(256, 128, 256)
#define CRK_ATTENTION_SMALL_ROWS 64

/* On NVIDIA GPUs, kernels with matrix cores have half the threads and dynamic shared memory. These are all kernels but
 * those of f32 with a width of 512. For elements of `bytes` bytes: the rows of a block, keys per step, and bytes of
 * shared memory for a block of `rows` rows. */
#define CRK_ATTENTION_CUDA_CORES(bytes, width) ((bytes) * (width) <= 1024)
#define CRK_ATTENTION_CUDA_ROWS(bytes, width, rows) \
  ((width) > 128 && CRK_ATTENTION_CUDA_CORES(bytes, width) ? (rows) / 2 : (rows))
#define CRK_ATTENTION_CUDA_KEYS(bytes, width) \
  ((bytes) == 2     ? ((width) <= 64    ? 128 \
                       : (width) <= 96  ? 96  \
                       : (width) <= 256 ? 64  \
                                        : 32) \
   : (width) <= 64  ? 64                      \
   : (width) <= 128 ? 32                      \
                    : 16)
#define CRK_ATTENTION_CUDA_BYTES(bytes, width, rows) \
  (CRK_ATTENTION_CUDA_CORES(bytes, width) * ((rows) + 2 * CRK_ATTENTION_CUDA_KEYS(bytes, width)) * (width) * (bytes))
/* Decoding: the fewest rows that a block of attention_split.h computes, and the threads of a block that adds up the
 * parts of a row. A row is one query of one head. */
enum { CRK_ATTENTION_SPLIT_ROWS = 4, CRK_ATTENTION_COMBINE_THREADS = 256 };

/* Kinds of masks. */
enum {
  CRK_ATTENTION_NO_MASK,
  CRK_ATTENTION_ADD_MASK, /* numbers of the call's dtype */
  CRK_ATTENTION_ADD_F32_MASK,
  CRK_ATTENTION_BYTE_MASK /* 0 hides a key */
};

/* How a tensor lies in memory; its last dim is contiguous. */
typedef struct crk_attention_strides {
  uint64_t sequence; /* from one sequence, or one block of a cache, to the next; 0 with starts */
  uint64_t head, row;
} crk_attention_strides_t;

typedef struct crk_attention_call {
  const void *q, *k, *v; /* the first elements */
  void *dst;
  float *lse; /* NULL if it is not wanted */
  /* NULL, or dst as blocks of q8_1 (quantized/q8_1.h). dst has no gaps then, and is f32. For attention_split.h. */
  void *columns;
  const uint32_t *q_starts, *k_starts; /* NULL, or sequences + 1 numbers each */
  const uint32_t *block_table; /* NULL, or the blocks of each sequence */
  const int32_t *prefixes; /* NULL, or `prefix_count` ranges of each sequence */
  const float *slopes; /* NULL, or ALiBi's slopes */
  const void *mask; /* NULL if mask_kind is CRK_ATTENTION_NO_MASK */
  crk_attention_strides_t q_strides, k_strides, v_strides, dst_strides, mask_strides;
  uint64_t mask_column; /* stride of a mask along the keys */
  uint64_t slopes_sequence, slopes_head; /* strides of the slopes */
  uint64_t block_table_row; /* stride of the block table */
  uint64_t lse_sequence, lse_head; /* strides of lse */
  crk_divisor_t block; /* narrow: keys per block of the cache; 1 without a block table */
  crk_divisor_t tiles, heads, group; /* narrow: tiles per head; heads; heads per kv head */
  crk_divisor_t run; /* narrow: heads of a run (attention_tile.h), a divisor of the heads of all sequences */
  crk_cache_order_t order; /* of the blocks of attention_tile.h; narrow */
  uint64_t first_block; /* number of this launch's first block: a large call takes several launches */
  uint32_t queries, keys; /* per sequence; with starts, the most of any sequence */
  uint32_t d, dv;
  uint32_t left, right; /* UINT32_MAX for no limit */
  uint32_t mask_kind;
  uint32_t prefix_count;
  float scale, softcap;
  uint32_t by_vectors; /* 1: all rows of q, k, v and dst are aligned to 16 bytes */
  /* For attention_tile.h. Not 0: the units that share a cache. They hold all of its blocks at once, at most two each;
   * these are one run of heads then. */
  uint32_t paired_units;
  /* The keys of a sequence are cut into `parts` parts. A part in attention_tile.h is a range of keys. A part in
   * attention_split.h is every n-th tile of keys, for n parts. With several parts, each part of a row leaves dv sums, a
   * base and a sum of weights in scratch memory. These are numbered by sequence, kv head, row and part.
   * attention_combine.h adds the parts up; in a second launch, `tiles` has the number of rows per kv head. */
  crk_divisor_t parts, kv_heads; /* narrow: parts; kv heads */
  float *sums; /* scratch memory; NULL with one part */
  float *weights; /* scratch memory: a base and a sum each; NULL with one part */
  /* Counters, one per row, for last_of_blocks (platform/blocks.h). NULL with one part, and where a second launch adds
   * the parts up. */
  uint32_t *tickets;
} crk_attention_call_t;

#endif
