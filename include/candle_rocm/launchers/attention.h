/* candle_rocm/launchers/attention.h: fused attention. docs/attention.md in the sources explains it. */
#ifndef CANDLE_ROCM_LAUNCHERS_ATTENTION_H
#define CANDLE_ROCM_LAUNCHERS_ATTENTION_H

#include <string.h>

#include "candle_rocm/device.h"
#include "candle_rocm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A window without a limit on one side. */
#define CRK_ATTENTION_UNLIMITED SIZE_MAX

/* The largest d and dv. */
#define CRK_ATTENTION_MOST_DIM 512

/* The arguments of crk_attention. Begin with crk_attention_defaults(), and set what the call needs. Fields may be added
 * at the end: see `struct_bytes` in candle_rocm.h.
 *
 * A tensor is a layout and the view of its memory. A layout of NULL leaves an optional tensor out. A stride of 0
 * broadcasts. The stride of a dim of size 1 does not matter.
 *
 * A sequence has `queries` queries and `keys` keys, in `heads` heads. Without starts, the sequences are the batch, and
 * all have the same lengths. With starts (q_starts and k_starts), the batch dim of q, dst, k and v is 1, their tokens
 * are those of all sequences, one after the other, and sequence s has the queries q_starts[s] to q_starts[s + 1] - 1
 * and the keys k_starts[s] to k_starts[s + 1] - 1. Unless q is empty, `sequences` and `max_queries` are at least 1
 * then. With a block table, k and v are a cache of blocks, and key j of sequence s is row j % block of block
 * block_table[s][j / block]; k_starts then only gives the lengths. A block table needs starts. A mask has max_queries
 * rows and max_keys columns for each sequence then. */
typedef struct crk_attention {
  size_t struct_bytes; /* set by the caller: sizeof(crk_attention_t) */
  crk_dtype_t dtype; /* of q, k, v and dst: F16, BF16 or F32 */
  const crk_layout_t *q_layout; /* (batch, heads, queries, d); the last dim is contiguous */
  crk_const_view_t q;
  const crk_layout_t *k_layout; /* (batch, kv heads, keys, d), or (blocks, kv heads, block, d); as q */
  crk_const_view_t k;
  const crk_layout_t *v_layout; /* (batch, kv heads, keys, dv), or (blocks, kv heads, block, dv); as q */
  crk_const_view_t v;
  const crk_layout_t *dst_layout; /* (batch, heads, queries, dv); as q. Each stride passes all elements of the dims
                                   * with smaller strides */
  crk_view_t dst;
  float scale; /* of the scores; any finite number */
  float softcap; /* a score s becomes softcap * tanh(s / softcap); 0 for none */
  bool causal; /* the same as a `right` of 0 */
  size_t left, right; /* keys that a query sees before and after its own place; CRK_ATTENTION_UNLIMITED for all */
  const crk_layout_t *slopes_layout; /* optional, f32: (sequences, heads), ALiBi's slopes */
  crk_const_view_t slopes;
  const crk_layout_t *mask_layout; /* optional: (sequences, heads, queries, keys); any strides */
  crk_dtype_t mask_dtype; /* `dtype` or F32: is added to the scores. U8: 0 hides the key */
  crk_const_view_t mask;
  size_t sequences; /* the number of sequences if there are starts, else 0 */
  crk_const_view_t q_starts, k_starts; /* optional, u32: sequences + 1 numbers each, which do not fall */
  size_t max_queries, max_keys; /* with starts: no sequence is longer. Else 0 */
  const crk_layout_t *block_table_layout; /* optional, u32: (sequences, blocks per sequence); rows are contiguous */
  crk_const_view_t block_table;
  const crk_layout_t *prefixes_layout; /* optional, i32: (sequences, ranges, 2), contiguous: [begin, end) each */
  crk_const_view_t prefixes;
  crk_view_t lse; /* optional, f32, contiguous: (batch, heads, queries); with starts (heads, tokens) */
  crk_view_t columns; /* optional: crk_quantize_columns of dst, whose tokens are the columns; see below */
} crk_attention_t;

/* Arguments without any option: no tensors, no window, a scale of 0. `struct_bytes` is set. */
static inline crk_attention_t crk_attention_defaults(void) {
  crk_attention_t call;
  memset(&call, 0, sizeof call);
  call.struct_bytes = sizeof call;
  call.left = CRK_ATTENTION_UNLIMITED;
  call.right = CRK_ATTENTION_UNLIMITED;
  return call;
}

/* For each query i of a head, over the keys j that it sees:
 *
 *   score[j] = scale * (the dot product of q[i] and k[j]), then capped by `softcap`
 *            + mask[i][j] - slope * |place - j|
 *   dst[i] = the sum over j of v[j] * e^(score[j] - lse[i])
 *   lse[i] = log(the sum over j of e^score[j])
 *
 * place = i + keys - queries aligns the last query with the last key. Query i sees key j if place - left <= j, j <=
 * place + right, and the mask does not hide it. It also sees a key outside its window if one of the sequence's prefixes
 * contains both `place` and j. A query that sees no key gets zeros and an lse of -infinity. (The online softmax is that
 * of Dao et al., "FlashAttention", 2022, and Dao, "FlashAttention-2", 2023; ALiBi is that of Press et al., "Train
 * short, test long", 2022.)
 *
 * heads is a multiple of kv heads: query head h uses kv head h / (heads / kv heads). d and dv are multiples of 8, from
 * 8 to CRK_ATTENTION_MOST_DIM. Numbers of tokens are below 2^31; memory may have any size. Sizes of a block of the
 * cache: any.
 *
 * Products are added up in f32. For f16 and bf16, e^(score - maximum) is rounded to the dtype before the second
 * product, but not in lse. The result is rounded once. The error is at most 2 half-units of the result's dtype, plus
 * (2^-11 for f16, 2^-8 for bf16 or 2^-20 for f32, and 2^-24 per key) times the sum of |v[j]| * e^(score[j] - lse), plus
 * the effect of the scores' errors. The error of a score is at most
 *
 *   2^-23 * d * |scale| * the sum of |q[i] * k[j]| + 2^-20 * softcap + 2^-21 * (|mask[i][j]| + |slope * (place - j)|)
 *
 * In f16, a key whose e^(score - maximum) is below 2^-20 may add an error of 2^-30 * |v[j]|, because smaller halves
 * have fewer bits. gfx90a's matrix cores take an f16 below 2^-14 for 0. There, such a key may add 2^-20 * |v[j]|, and a
 * q, k or v below 2^-14 may count as 0. In every dtype, an e^(score - maximum) below 2^-126 may count as 0, and so may
 * a bf16 below 2^-126.
 *
 * lse has the largest error of its scores, plus 2^-20, 2^-22 * |lse| and 2^-28 * keys. The order of a sum depends on
 * the sizes and the device, and is the same in each call. NaN propagates. A hidden key may be NaN. Its weight is 0, so
 * its value must be finite. A mask below -2^127 counts as -infinity. In f32 on NVIDIA GPUs, an infinite value that is
 * seen may give NaN, and numbers of 2^128 - 2^116 and more may count as infinite.
 *
 * With `columns`, dst also becomes activations of crk_mul_mat_vec_q8_1: batch * queries columns of heads * dv elements,
 * crk_columns_bytes(batch * queries, heads * dv) bytes, aligned to 4. They have the bits of crk_quantize_columns. Then
 * dst is (batch, queries, heads, dv) without gaps, heads * dv is a multiple of 32, and there are no starts. With few
 * queries and a dv that is a multiple of 32, this takes no further launch.
 *
 * One launch, and no scratch memory. Where queries are few, or at most a quarter of the keys, the keys are shared out:
 * one or two launches, and scratch memory from crk_alloc, freed before the return. It is at most 4 * (dv + 2) bytes
 * per query, head and part; parts are at most 2 per compute unit. Before a capture, reserve it (crk_memory_reserve) or
 * run the call once. A graph reads starts, block tables and masks when it is replayed, so lengths may change up to
 * max_queries and max_keys.
 *
 * A start, length or block out of range is the caller's mistake that this function cannot see: it must not happen.
 *
 * An empty dst succeeds and launches nothing. Fails with CRK_INVALID_ARGUMENT (a NULL, an unknown dtype, dims that do
 * not fit each other, a last dim that is not contiguous, a view that is not aligned, a dst whose elements may share
 * memory, a dst or an lse that overlaps another argument), CRK_OUT_OF_BOUNDS (a layout reaches beyond its view),
 * CRK_UNSUPPORTED (another dtype, a d or dv without a kernel, 2^31 tiles of queries or more, a field of a newer version
 * that is not 0), CRK_OUT_OF_MEMORY or CRK_CAPTURE (no scratch memory), or CRK_DEVICE. */
CRK_API crk_status_t crk_attention(crk_device_t self, const crk_attention_t *call);

#ifdef __cplusplus
}
#endif
#endif
