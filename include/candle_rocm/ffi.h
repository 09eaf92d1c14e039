/* candle_rocm/ffi.h: Candle's static launchers: the functions of candle-kernels' module `ffi`, which Candle's quantized
 * matrices and mixtures of experts call. The names are Candle's with crk_ before them, and the arguments are Candle's.
 * Each comment names the launcher of this library that the function calls; the result is described there.
 *
 * The last argument is the stream of a live handle (crk_device_stream), and the pointers belong to that handle's
 * device. The sizes of the memory follow from the numbers, as for the launcher; they cannot be checked. A function that
 * returns nothing keeps its first failure for the handle's next synchronisation (crk_device_synchronize) and for this
 * thread's crk_last_error. For a stream of no live handle only crk_last_error has the failure. */
#ifndef CANDLE_ROCM_FFI_H
#define CANDLE_ROCM_FFI_H

#include "candle_rocm/launchers/quantized.h"

#ifdef __cplusplus
extern "C" {
#endif

/* XX(name, NAME): the formats with integer products, in the spelling of these functions and in that of crk_quant_t. */
#define CRK_STATIC_QUANT_MAP(XX) \
  XX(q4_0, Q4_0)                 \
  XX(q4_1, Q4_1)                 \
  XX(q5_0, Q5_0)                 \
  XX(q5_1, Q5_1)                 \
  XX(q8_0, Q8_0)                 \
  XX(q2_k, Q2_K)                 \
  XX(q3_k, Q3_K)                 \
  XX(q4_k, Q4_K)                 \
  XX(q5_k, Q5_K)                 \
  XX(q6_k, Q6_K)

/* crk_quantize_q8_1 for `num_rows` rows of `kx` elements, padded to `kx_padded`, a multiple of 32. */
CRK_API void crk_launch_mmvq_gguf_quantize_q8_1_f32(const void *x, void *vy, int32_t kx, int32_t kx_padded,
                                                    int32_t num_rows, void *stream);
CRK_API void crk_launch_mmvq_gguf_quantize_q8_1_f16(const void *x, void *vy, int32_t kx, int32_t kx_padded,
                                                    int32_t num_rows, void *stream);
CRK_API void crk_launch_mmvq_gguf_quantize_q8_1_bf16(const void *x, void *vy, int32_t kx, int32_t kx_padded,
                                                     int32_t num_rows, void *stream);

/* crk_mul_mat_vec_q8_1: `nrows_x` rows of `ncols_x` weights times `b_size` columns, 1 to 8, of q8_1 blocks. Columns are
 * `stride_col_y` blocks apart, columns of dst `stride_col_dst` elements. The names are
 * crk_launch_mmvq_gguf_q4_0_f32_plain and so on: for every format a dst of f32, f16 and bf16. */
#define CRK_STATIC_MMVQ(type, dtype)                                                                                 \
  CRK_API void crk_launch_mmvq_gguf_##type##_##dtype##_plain(const void *vx, const void *vy, void *dst,              \
                                                             int32_t ncols_x, int32_t nrows_x, int32_t stride_col_y, \
                                                             int32_t stride_col_dst, int32_t b_size, void *stream);
#define XX(type, upper)      \
  CRK_STATIC_MMVQ(type, f32) \
  CRK_STATIC_MMVQ(type, f16) \
  CRK_STATIC_MMVQ(type, bf16)
CRK_STATIC_QUANT_MAP(XX)
#undef XX
#undef CRK_STATIC_MMVQ

/* crk_quantize_mmq for `ne1` * `ne2` * `ne3` rows of `ne00` f32 elements, s01, s02 and s03 elements apart, padded to
 * `ne0`, a multiple of 128. The row numbers `ids` may be NULL; type_x is ignored. */
#define CRK_STATIC_MMQ_QUANTIZE(layout)                                                                                \
  CRK_API void crk_launch_mmq_quantize_q8_1_##layout(const void *x, const int32_t *ids, void *vy, int32_t type_x,      \
                                                     int64_t ne00, int64_t s01, int64_t s02, int64_t s03, int64_t ne0, \
                                                     int64_t ne1, int64_t ne2, int64_t ne3, void *stream);
#define XX(name, value, text) CRK_STATIC_MMQ_QUANTIZE(name)
CRK_MMQ_MAP(XX)
#undef XX
#undef CRK_STATIC_MMQ_QUANTIZE

/* crk_mul_mat_mmq: `nrows_x` rows of `ncols_x` weights, `stride_row_x` blocks apart, times `ncols_y` columns of mmq
 * blocks. dst is f32, and its columns are `stride_col_dst` elements apart. There is no stream-k split: tmp_fixup, cc,
 * nsm, smpbo and warp_size are ignored. The names are crk_launch_mmq_gguf_q4_0 and so on, for every format. */
#define XX(type, upper)                                                                                              \
  CRK_API void crk_launch_mmq_gguf_##type(void *tmp_fixup, const void *x, const void *y, void *dst, int64_t ncols_x, \
                                          int64_t nrows_x, int64_t ncols_y, int64_t stride_row_x,                    \
                                          int64_t stride_col_dst, int32_t cc, int32_t nsm, int64_t smpbo,            \
                                          int32_t warp_size, void *stream);
CRK_STATIC_QUANT_MAP(XX)
#undef XX

/* XX(value, NAME): how the functions below number the formats. */
#define CRK_STATIC_EXPERT_QUANT_MAP(XX) \
  XX(0, Q8_0)                           \
  XX(1, Q4_K)                           \
  XX(2, Q2_K)                           \
  XX(3, Q3_K)                           \
  XX(4, Q5_K)                           \
  XX(5, Q6_K)

/* crk_moe_gguf for f32 activations: `size_m` tokens, and per expert `size_n` rows of `size_k` elements. topk_weights
 * may be NULL. It allocates crk_moe_gguf's scratch memory for the quantized activations. */
CRK_API void crk_moe_gemm_gguf(const float *input, const void *weights, const int32_t *sorted_token_ids,
                               const int32_t *expert_ids, const float *topk_weights, void *output, int32_t num_experts,
                               int32_t topk, int32_t size_m, int32_t size_n, int32_t size_k, int32_t gguf_dtype,
                               int64_t stream);

/* crk_moe_gguf_prefill for activations of f16 (input_dtype 0) or bf16 (1). expert_ids are device memory. */
CRK_API void crk_moe_gemm_gguf_prefill(const void *input, const uint8_t *weights, const int32_t *sorted_token_ids,
                                       const int32_t *expert_ids, const float *topk_weights, void *output,
                                       int32_t num_experts, int32_t topk, int32_t size_m, int32_t size_n,
                                       int32_t size_k, int32_t input_dtype, int32_t gguf_dtype, int64_t stream);

/* crk_moe_gemm for f16 (dtype 0) or bf16 (1); is_prefill is ignored. expert_ids are device memory. */
CRK_API void crk_moe_gemm_wmma(const void *input, const void *weights, const int32_t *sorted_token_ids,
                               const int32_t *expert_ids, const float *topk_weights, void *output,
                               int32_t *expert_counts, int32_t *expert_offsets, int32_t num_experts, int32_t topk,
                               int32_t size_m, int32_t size_n, int32_t size_k, int32_t dtype, bool is_prefill,
                               int64_t stream);

/* crk_moe_align for `numel` ids. Returns a crk_status_t at once, 0 for success, and keeps no failure. */
CRK_API int32_t crk_candle_launch_moe_align(const int32_t *topk_ids, int32_t *sorted_token_ids, int32_t *expert_ids,
                                            int32_t *num_tokens_post_pad, int32_t *cumsum, int32_t num_experts,
                                            int32_t block_size, int32_t numel, int32_t max_num_tokens_padded,
                                            void *stream);

#ifdef __cplusplus
}
#endif
#endif
