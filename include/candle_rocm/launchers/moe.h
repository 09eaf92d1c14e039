/* candle_rocm/launchers/moe.h: Candle's mixtures of experts.
 *
 * Each of `tokens` tokens goes to one expert:
 *
 *   dst[token][i] = scale * the sum over j of weights[expert][i][j] * x[input][j]
 *
 * for token = sorted_token_ids[m] and expert = expert_ids[m], for m below `tokens`. With topk_weights, scale is
 * topk_weights[token] and input is token. Without them ({NULL, 0}) scale is 1 and input is token / topk, where tokens
 * is a multiple of topk.
 *
 * weights are `experts` matrices of `rows` rows of `k` elements. x has a row of k elements for each input, and dst has
 * `tokens` rows of `rows` elements. sorted_token_ids and expert_ids are i32, topk_weights f32; all are contiguous.
 * Neighbours in the lists with the same expert share the load of its weights, so lists that are sorted by expert are
 * fast. Other lists give the same results. A token that is in the list twice gets one of its two results.
 *
 * An expert or token out of range is skipped: nothing of dst is written for it, and the next synchronisation reports
 * one of them (crk_device_synchronize). Views must not overlap dst. An empty dst succeeds and launches nothing. Sizes
 * are below 2^31. All functions can be captured in a graph.
 *
 * All fail with CRK_INVALID_ARGUMENT (a NULL, an unknown format or dtype, sizes that do not fit each other, a view that
 * is not aligned), CRK_OUT_OF_BOUNDS (a view is too small), CRK_UNSUPPORTED (no kernel for the format or dtype),
 * CRK_DEVICE, or as crk_alloc fails. */
#ifndef CANDLE_ROCM_LAUNCHERS_MOE_H
#define CANDLE_ROCM_LAUNCHERS_MOE_H

#include "candle_rocm/launchers/quantized.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The product in integers. x has `dtype` F32, F16 or BF16; dst is f32. Every format except q8_K; k is a multiple of the
 * format's block. Sums and their accuracy are those of crk_mul_mat_vec. Then the scale multiplies, which rounds once.
 *
 * Two launches: x is quantized first, as for crk_mul_mat_vec, into crk_q8_1_bytes(inputs, k) bytes of scratch memory.
 * That memory is allocated and freed in stream order; in a capture it must be reserved (crk_memory_reserve) or cached.
 * inputs is tokens, or tokens / topk without topk_weights. The bytes must be below 2^32 (CRK_UNSUPPORTED). */
CRK_API crk_status_t crk_moe_gguf(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t experts, size_t rows,
                                  size_t k, size_t tokens, size_t topk, crk_const_view_t weights, crk_const_view_t x,
                                  crk_const_view_t sorted_token_ids, crk_const_view_t expert_ids,
                                  crk_const_view_t topk_weights, crk_view_t dst);

/* The same for activations that are quantized already: x has crk_columns_bytes(inputs, k) bytes, made by
 * crk_quantize_columns, and is aligned to 4. Results have the bits of crk_moe_gguf. One launch, no scratch memory. */
CRK_API crk_status_t crk_moe_gguf_columns(crk_device_t self, crk_quant_t quant, size_t experts, size_t rows, size_t k,
                                          size_t tokens, size_t topk, crk_const_view_t weights, crk_const_view_t x,
                                          crk_const_view_t sorted_token_ids, crk_const_view_t expert_ids,
                                          crk_const_view_t topk_weights, crk_view_t dst);

/* dst[i] = the sum over the `topk` results of crk_moe_gguf_columns for one token, in the order of the results' numbers:
 * dst has `rows` elements. x has topk rows, one per result, and so do the lists. One launch; scratch memory of
 * topk * rows floats, which is allocated and freed in stream order. sorted_token_ids has each result once. If it has
 * not, dst is undefined; also if an id is wrong, which the next synchronisation reports. topk is 1 to 65535, and k
 * above 0 (CRK_INVALID_ARGUMENT). */
CRK_API crk_status_t crk_moe_gguf_sum(crk_device_t self, crk_quant_t quant, size_t experts, size_t rows, size_t k,
                                      size_t topk, crk_const_view_t weights, crk_const_view_t x,
                                      crk_const_view_t sorted_token_ids, crk_const_view_t expert_ids,
                                      crk_const_view_t topk_weights, crk_view_t dst);

/* dst[token] = op(product with gate) * (product with up), the gate of each token's expert; both products as those of
 * crk_moe_gguf_columns without scales, with the same experts and x. If `blocks` is not {NULL, 0}, it becomes
 * crk_quantize_columns of dst's tokens, and `rows` is a multiple of 32. The results equal, to the bit,
 * the results of the two products and crk_gate.
 *
 * Rows of dst and of `blocks` are undefined for tokens that are skipped or not listed.
 *
 * One launch with CRK_GATE_SILU or CRK_GATE_GELU and at most one token per expert on average, tokens <= experts; a
 * second launch for `blocks` where that is faster. Otherwise there are up to four launches, and scratch memory of twice
 * the size of dst. It is allocated and freed in stream order; in a capture it must be reserved or cached. */
CRK_API crk_status_t crk_moe_gguf_gate(crk_device_t self, crk_gate_op_t op, crk_quant_t quant, size_t experts,
                                       size_t rows, size_t k, size_t tokens, size_t topk, crk_const_view_t gate,
                                       crk_const_view_t up, crk_const_view_t x, crk_const_view_t sorted_token_ids,
                                       crk_const_view_t expert_ids, crk_view_t dst, crk_view_t blocks);

/* The product in floating point, for many tokens per expert. The weights become numbers of `dtype`, F16 or BF16, which
 * is also the dtype of x; dst is f32. Every format except q8_K; k is a multiple of the format's block.
 *
 * AMD GPUs: one launch without scratch memory. Other devices make numbers of the weights first, from 4 tokens per
 * expert on average: two launches for each 256 MiB of numbers, which are scratch memory as above. If that memory
 * lacks, they do as AMD GPUs.
 *
 * The numbers are those of Candle's kernel. For q2_K to q6_K they are computed in f16, and every step rounds. The steps
 * are d times the group's scale, dmin times its minimum, and then scale times code minus minimum, fused. q3_K and q6_K
 * have no minimum. q2_K and q6_K multiply scale and code first, and then d with their product. That product is exact,
 * except where that of q6_K is above 2048. The result is converted to `dtype`. The other formats are computed in f32
 * and rounded to dtype.
 *
 * Products are added up in f32, in the kernel's own order. The error is at most 1e-5 of the sum of the absolute
 * products, for k up to 2^16. The matrix cores of gfx90a may take an f16 below 2^-14 for 0. */
CRK_API crk_status_t crk_moe_gguf_prefill(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t experts,
                                          size_t rows, size_t k, size_t tokens, size_t topk, crk_const_view_t weights,
                                          crk_const_view_t x, crk_const_view_t sorted_token_ids,
                                          crk_const_view_t expert_ids, crk_const_view_t topk_weights, crk_view_t dst);

/* The product with weights that are not quantized: weights, x and dst have `dtype`, F16 or BF16; k is a multiple of 8.
 * Sums are f32 as in crk_moe_gguf_prefill, then the scale multiplies, and dst rounds once more. A bf16 below 2^-126 may
 * count as 0 (kernels/platform/hip/maths.h in the sources explains where), and so may an f16 below 2^-14 on gfx90a,
 * whose matrix cores take it for 0.
 *
 * expert_counts[e] becomes the number of times that e is in expert_ids. expert_offsets[e] becomes the sum of the counts
 * before e, and expert_offsets[experts] the sum of all. Both are i32, and either may be {NULL, 0}. One launch where
 * both are, else two. No scratch memory. */
CRK_API crk_status_t crk_moe_gemm(crk_device_t self, crk_dtype_t dtype, size_t experts, size_t rows, size_t k,
                                  size_t tokens, size_t topk, crk_const_view_t weights, crk_const_view_t x,
                                  crk_const_view_t sorted_token_ids, crk_const_view_t expert_ids,
                                  crk_const_view_t topk_weights, crk_view_t dst, crk_view_t expert_counts,
                                  crk_view_t expert_offsets);

/* The most experts, and the largest topk, of crk_moe_route and crk_moe_router. */
#define CRK_MOST_ROUTED_EXPERTS 512
#define CRK_MOST_ROUTED_TOPK    32

/* Chooses the `topk` experts of each of `tokens` tokens. logits are f32, `experts` per token. p is their softmax.
 * topk_weights (f32) and topk_ids (u32), both topk per token, get the largest p and their experts, largest first; of
 * equal p, the first expert. With `normalise`, a token's weights are divided by their sum. A token with NaN or +inf
 * among its logits gets weights of NaN.
 *
 * sorted_token_ids and expert_ids (u32, tokens * topk) get the numbers m of the results and topk_ids[m], sorted by
 * expert and then by m, as the products above take them. Both may be {NULL, 0}.
 *
 * One launch. More than 256 sorted results also take the launches of crk_argsort, and more than 8192 its scratch
 * memory: the call then fails as crk_argsort does. At most CRK_MOST_ROUTED_EXPERTS experts, and a topk of at most
 * CRK_MOST_ROUTED_TOPK (CRK_UNSUPPORTED) and of at most experts. All views are contiguous, and no two may overlap. */
CRK_API crk_status_t crk_moe_route(crk_device_t self, size_t experts, size_t tokens, size_t topk, bool normalise,
                                   crk_const_view_t logits, crk_view_t topk_weights, crk_view_t topk_ids,
                                   crk_view_t sorted_token_ids, crk_view_t expert_ids);

/* crk_moe_route of one token whose logits are products: logits[e] = the sum over j of weights[e][j] * x[j]. weights
 * have `experts` rows of k elements; x has k. Both have `dtype`, F32, F16 or BF16. Sums are f32, in the kernel's own
 * order; in F16 and BF16 each logit is rounded to dtype, as crk_matmul would. The result is the same in each call.
 *
 * It is one launch if k elements are a whole number of 16 bytes, and weights and x are aligned to 16 bytes. Otherwise
 * it launches what crk_matmul, crk_cast (unless dtype is F32) and crk_moe_route launch. Scratch memory of up to
 * 6 * experts + 4 bytes is allocated and freed in stream order; in a capture it must be reserved or cached. With a topk
 * of 0 nothing happens. Limits of experts and topk are those of crk_moe_route. All views are contiguous, and no two may
 * overlap, except weights and x. */
CRK_API crk_status_t crk_moe_router(crk_device_t self, crk_dtype_t dtype, size_t experts, size_t k, size_t topk,
                                    bool normalise, crk_const_view_t weights, crk_const_view_t x,
                                    crk_view_t topk_weights, crk_view_t topk_ids, crk_view_t sorted_token_ids,
                                    crk_view_t expert_ids);

/* Groups tokens by expert. sorted_token_ids gets the numbers m below `count` with topk_ids[m] = 0, in order. They are
 * followed by the value `count` up to a multiple of block_size. Then come the numbers with topk_ids[m] = 1, and so on.
 * After the last expert the rest of the `padded` entries is filled with `count`.
 *
 * expert_ids[b] becomes the expert of block b, which has block_size entries; -1 after the last block. It has one entry
 * for each block of `padded` entries, rounded up. cumsum has experts + 1 entries: entry e is the position where the
 * tokens of expert e end, without the padding. The last entry and num_tokens_post_pad[0] are the number of entries of
 * all blocks. All
 * tensors are i32. Two launches, no scratch memory; the result is the same in each call.
 *
 * The next synchronisation reports an id that is not an expert; such an id is skipped. It also reports a `padded` that
 * is too small; the entries beyond it are not written. count + min(count, experts) * (block_size - 1) entries are
 * always enough. No two views may overlap. */
CRK_API crk_status_t crk_moe_align(crk_device_t self, size_t experts, size_t block_size, size_t count, size_t padded,
                                   crk_const_view_t topk_ids, crk_view_t sorted_token_ids, crk_view_t expert_ids,
                                   crk_view_t num_tokens_post_pad, crk_view_t cumsum);

/* dst[b][t][i] = the sum over j of weights[ids[b][t]][i][j] * x[b][t or 0][j], in integers as crk_moe_gguf. ids are
 * u32, of batch * topk elements. x has batch * inputs * k elements; `inputs` is topk, or 1 where all experts of a batch
 * share one row. `dtype` is that of x and dst. The outputs of an id that is not an expert stay unchanged, and the next
 * synchronisation reports it. */
CRK_API crk_status_t crk_indexed_moe(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t experts,
                                     size_t rows, size_t k, size_t batch, size_t topk, size_t inputs,
                                     crk_const_view_t weights, crk_const_view_t x, crk_const_view_t ids,
                                     crk_view_t dst);

#ifdef __cplusplus
}
#endif
#endif
