/* Arguments of the kernel that rotates the queries and keys of a layer. Plain C; csrc/launch/rope.c fills them in,
 * kernels/reduce/rope_pairs.h reads them. */
#ifndef CRK_ROPE_CALL_H
#define CRK_ROPE_CALL_H

#include <stdint.h>

#include "call/sliding.h"

/* A tensor (batch, heads, tokens, d) and its result. */
typedef struct crk_rope_part {
  const void *src;
  void *dst;
  uint32_t heads;
  uint32_t unused; /* padding */
  uint64_t src_strides[3], dst_strides[3]; /* of batch, heads and tokens, in elements */
} crk_rope_part_t;

typedef struct crk_rope_qkv_call {
  crk_rope_part_t parts[3]; /* queries, keys and values */
  const void *cos, *sin; /* (tokens, d / 2) */
  uint64_t cos_stride, sin_stride; /* from one batch to the next; 0 where all share them */
  uint64_t numel; /* threads that have work, below 2^31: pieces, heads, tokens and batches together */
  crk_divisor_t pieces, heads, tokens; /* threads of a row; heads of a token, of all parts; tokens of a batch */
} crk_rope_qkv_call_t;

/* The same where queries and keys are RMS norms of their rows first. */
typedef struct crk_norm_rope_qkv_call {
  crk_rope_qkv_call_t rope;
  const void *q_alpha, *k_alpha; /* d factors each, of the sources' dtype */
  float eps;
  uint32_t unused; /* padding */
} crk_norm_rope_qkv_call_t;

/* How a product's results are rotated: the pairs of the heads of up to three parts. */
typedef struct crk_rope_heads {
  const void *cos, *sin; /* one of each for a pair of a head */
  uint64_t strides[3]; /* of each part's dst, from one head to the next, in elements */
  crk_divisor_t half; /* narrow: pairs of a head */
  uint32_t rotates; /* bit i: part i is rotated; else it is only stored */
  uint32_t interleaved; /* 1: neighbours are a pair; 0: the elements of a pair are half a head apart */
} crk_rope_heads_t;

#endif
