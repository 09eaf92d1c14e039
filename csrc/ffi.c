/* Candle's static launchers, with the signatures that Candle declares. Each calls one launcher of this library. They
 * take pointers without sizes and a stream instead of a handle. */
#include "core.h"
#include "launch/mmq.h"
#include "launch/quantized.h"

/* Finds the live handle that owns the stream. */
static crk_status_t device_of(const char *where, const void *stream, crk_device_t *self) {
  *self = crk_priv_device_of_stream(stream);
  CRK_REFUSE_IF(*self == NULL, "%s: stream %p is of no live device handle; pass the stream of crk_device_stream", where,
                stream);
  return CRK_OK;
}

/* The body of a function that returns nothing. Evaluates `work` with `self`, the stream's handle. A failure is kept for
 * the handle's next synchronisation. */
#define CRK_STATIC_RUN(stream, work)                 \
  do {                                               \
    crk_device_t self;                               \
    if (device_of(where, stream, &self) == CRK_OK) { \
      const crk_status_t status = work;              \
      if (status != CRK_OK) {                        \
        crk_priv_error_defer(self, status);          \
      }                                              \
    }                                                \
  } while (0)

/* Converts an argument that counts something; it must not be negative. */
static crk_status_t count(const char *where, const char *name, int64_t value, size_t *result) {
  *result = value > 0 ? (size_t)value : 0;
  CRK_REFUSE_IF(value < 0, "%s: %s is %lld, it must not be negative", where, name, (long long)value);
  return CRK_OK;
}

/* Views of memory of unknown size: it is read, or written. They reach to the end of the address space. So launchers can
 * only check that the pointer is not NULL, that it is aligned, and that memory does not overlap. */
static crk_const_view_t source(const void *ptr) { return (crk_const_view_t){ptr, SIZE_MAX - (uintptr_t)ptr}; }
static crk_view_t target(void *ptr) { return (crk_view_t){ptr, source(ptr).bytes}; }
static crk_view_t optional(void *ptr) { return ptr != NULL ? target(ptr) : (crk_view_t){NULL, 0}; }

/* ---- mat-vec */

static crk_status_t quantize(const char *where, crk_device_t self, crk_dtype_t dtype, const void *x, void *vy,
                             int32_t kx, int32_t kx_padded, int32_t num_rows) {
  size_t k, padded, rows;
  CRK_TRY(count(where, "kx", kx, &k));
  CRK_TRY(count(where, "kx_padded", kx_padded, &padded));
  CRK_TRY(count(where, "num_rows", num_rows, &rows));
  CRK_REFUSE_IF(padded < k || padded % CRK_Q8_1_BLOCK != 0,
                "%s: kx_padded is %zu, it must be a multiple of %d and at least kx, which is %zu", where, padded,
                CRK_Q8_1_BLOCK, k);
  if (rows == 0 || padded == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_elements(where, "x", source(x), rows * k, (uint32_t)crk_dtype_size(dtype)));
  CRK_TRY(crk_priv_check_elements(where, "vy", source(vy), 1, 4));
  return crk_priv_quantize_q8_1(self, dtype, rows, k, padded, CRK_SUM_OF_VALUES, x, vy);
}

#define XX(name, dtype)                                                                                  \
  void crk_launch_mmvq_gguf_quantize_q8_1_##name(const void *x, void *vy, int32_t kx, int32_t kx_padded, \
                                                 int32_t num_rows, void *stream) {                       \
    static const char where[] = "crk_launch_mmvq_gguf_quantize_q8_1_" #name;                             \
    CRK_STATIC_RUN(stream, quantize(where, self, dtype, x, vy, kx, kx_padded, num_rows));                \
  }
XX(f32, CRK_DTYPE_F32)
XX(f16, CRK_DTYPE_F16)
XX(bf16, CRK_DTYPE_BF16)
#undef XX

static crk_status_t mat_vec(const char *where, crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, const void *vx,
                            const void *vy, void *dst, int32_t ncols_x, int32_t nrows_x, int32_t stride_col_y,
                            int32_t stride_col_dst, int32_t b_size) {
  size_t k, rows, x_stride, dst_stride, columns;
  CRK_TRY(count(where, "ncols_x", ncols_x, &k));
  CRK_TRY(count(where, "nrows_x", nrows_x, &rows));
  CRK_TRY(count(where, "stride_col_y", stride_col_y, &x_stride));
  CRK_TRY(count(where, "stride_col_dst", stride_col_dst, &dst_stride));
  CRK_TRY(count(where, "b_size", b_size, &columns));
  return crk_mul_mat_vec_q8_1(self, quant, dtype, rows, k, columns, source(vx), source(vy), x_stride, target(dst),
                              dst_stride);
}

#define CRK_STATIC_MMVQ(type, quant, name, dtype)                                                                  \
  void crk_launch_mmvq_gguf_##type##_##name##_plain(const void *vx, const void *vy, void *dst, int32_t ncols_x,    \
                                                    int32_t nrows_x, int32_t stride_col_y, int32_t stride_col_dst, \
                                                    int32_t b_size, void *stream) {                                \
    static const char where[] = "crk_launch_mmvq_gguf_" #type "_" #name "_plain";                                  \
    CRK_STATIC_RUN(stream, mat_vec(where, self, quant, dtype, vx, vy, dst, ncols_x, nrows_x, stride_col_y,         \
                                   stride_col_dst, b_size));                                                       \
  }
#define XX(type, upper)                                        \
  CRK_STATIC_MMVQ(type, CRK_QUANT_##upper, f32, CRK_DTYPE_F32) \
  CRK_STATIC_MMVQ(type, CRK_QUANT_##upper, f16, CRK_DTYPE_F16) \
  CRK_STATIC_MMVQ(type, CRK_QUANT_##upper, bf16, CRK_DTYPE_BF16)
CRK_STATIC_QUANT_MAP(XX)
#undef XX

/* ---- mat-mat */

static crk_status_t quantize_blocks(const char *where, crk_device_t self, crk_mmq_t layout, const void *x,
                                    const int32_t *ids, void *vy, int64_t ne00, int64_t s01, int64_t s02, int64_t s03,
                                    int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
  crk_mmq_rows_t rows;
  CRK_TRY(count(where, "ne00", ne00, &rows.k));
  CRK_TRY(count(where, "s01", s01, &rows.row_stride));
  CRK_TRY(count(where, "s02", s02, &rows.channel_stride));
  CRK_TRY(count(where, "s03", s03, &rows.sample_stride));
  CRK_TRY(count(where, "ne0", ne0, &rows.padded_k));
  CRK_TRY(count(where, "ne1", ne1, &rows.columns));
  CRK_TRY(count(where, "ne2", ne2, &rows.channels));
  CRK_TRY(count(where, "ne3", ne3, &rows.samples));
  const bool is_empty = rows.columns == 0 || rows.channels == 0 || rows.samples == 0;
  if (ids == NULL || is_empty) {
    return crk_quantize_mmq(self, layout, CRK_DTYPE_F32, &rows, source(x), (crk_const_view_t){NULL, 0}, target(vy));
  }
  /* crk_quantize_mmq derives the number of rows from the size of x. That size is not known here; all ids are below
   * 2^31. */
  CRK_REFUSE_IF(rows.padded_k < rows.k || rows.padded_k % CRK_MMQ_ELEMENTS != 0,
                "%s: ne0 is %zu, it must be a multiple of %d and at least ne00, which is %zu", where, rows.padded_k,
                CRK_MMQ_ELEMENTS, rows.k);
  if (rows.padded_k == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_elements(where, "x", source(x), 1, sizeof(float)));
  CRK_TRY(crk_priv_check_elements(where, "ids", source(ids), 1, sizeof(int32_t)));
  CRK_TRY(crk_priv_check_elements(where, "vy", source(vy), 1, sizeof(uint32_t)));
  return crk_priv_quantize_mmq(self, layout, CRK_DTYPE_F32, &rows, INT32_MAX, CRK_SUM_OF_VALUES, x, ids, vy);
}

#define XX(name, value, text)                                                                                          \
  void crk_launch_mmq_quantize_q8_1_##name(const void *x, const int32_t *ids, void *vy, int32_t type_x, int64_t ne00,  \
                                           int64_t s01, int64_t s02, int64_t s03, int64_t ne0, int64_t ne1,            \
                                           int64_t ne2, int64_t ne3, void *stream) {                                   \
    static const char where[] = "crk_launch_mmq_quantize_q8_1_" text;                                                  \
    (void)type_x;                                                                                                      \
    CRK_STATIC_RUN(stream,                                                                                             \
                   quantize_blocks(where, self, CRK_MMQ_##name, x, ids, vy, ne00, s01, s02, s03, ne0, ne1, ne2, ne3)); \
  }
CRK_MMQ_MAP(XX)
#undef XX

static crk_status_t mat_mat(const char *where, crk_device_t self, crk_quant_t quant, const void *x, const void *y,
                            void *dst, int64_t ncols_x, int64_t nrows_x, int64_t ncols_y, int64_t stride_row_x,
                            int64_t stride_col_dst) {
  size_t k, rows, columns, weight_stride, dst_stride;
  CRK_TRY(count(where, "ncols_x", ncols_x, &k));
  CRK_TRY(count(where, "nrows_x", nrows_x, &rows));
  CRK_TRY(count(where, "ncols_y", ncols_y, &columns));
  CRK_TRY(count(where, "stride_row_x", stride_row_x, &weight_stride));
  CRK_TRY(count(where, "stride_col_dst", stride_col_dst, &dst_stride));
  return crk_mul_mat_mmq(self, quant, CRK_DTYPE_F32, rows, k, columns, source(x), weight_stride, source(y), target(dst),
                         dst_stride);
}

#define XX(type, upper)                                                                                                \
  void crk_launch_mmq_gguf_##type(void *tmp_fixup, const void *x, const void *y, void *dst, int64_t ncols_x,           \
                                  int64_t nrows_x, int64_t ncols_y, int64_t stride_row_x, int64_t stride_col_dst,      \
                                  int32_t cc, int32_t nsm, int64_t smpbo, int32_t warp_size, void *stream) {           \
    static const char where[] = "crk_launch_mmq_gguf_" #type;                                                          \
    (void)tmp_fixup, (void)cc, (void)nsm, (void)smpbo, (void)warp_size;                                                \
    CRK_STATIC_RUN(stream, mat_mat(where, self, CRK_QUANT_##upper, x, y, dst, ncols_x, nrows_x, ncols_y, stride_row_x, \
                                   stride_col_dst));                                                                   \
  }
CRK_STATIC_QUANT_MAP(XX)
#undef XX

/* ---- mixtures of experts */

/* The arguments that the three mixture-of-experts functions share: as Candle passes them, and as the launchers take
 * them. */
typedef struct given_experts {
  const int32_t *sorted_token_ids, *expert_ids;
  const float *topk_weights;
  int32_t num_experts, topk, size_m, size_n, size_k;
} given_experts_t;
typedef struct experts {
  size_t count, rows, k, tokens, topk;
  crk_const_view_t sorted_token_ids, expert_ids, topk_weights;
} experts_t;

static crk_status_t experts_get(const char *where, const given_experts_t *given, experts_t *e) {
  CRK_TRY(count(where, "num_experts", given->num_experts, &e->count));
  CRK_TRY(count(where, "topk", given->topk, &e->topk));
  CRK_TRY(count(where, "size_m", given->size_m, &e->tokens));
  CRK_TRY(count(where, "size_n", given->size_n, &e->rows));
  CRK_TRY(count(where, "size_k", given->size_k, &e->k));
  e->sorted_token_ids = source(given->sorted_token_ids);
  e->expert_ids = source(given->expert_ids);
  e->topk_weights = given->topk_weights != NULL ? source(given->topk_weights) : (crk_const_view_t){NULL, 0};
  return CRK_OK;
}

static crk_status_t expert_quant(const char *where, int32_t gguf_dtype, crk_quant_t *quant) {
  switch (gguf_dtype) {
#define XX(value, upper)        \
  case value:                   \
    *quant = CRK_QUANT_##upper; \
    return CRK_OK;
    CRK_STATIC_EXPERT_QUANT_MAP(XX)
#undef XX
    default:
      return crk_priv_error(CRK_INVALID_ARGUMENT, "%s: gguf_dtype is %d, which is no format of this function", where,
                            (int)gguf_dtype);
  }
}

static crk_status_t half_type(const char *where, const char *name, int32_t value, crk_dtype_t *dtype) {
  *dtype = value == 0 ? CRK_DTYPE_F16 : CRK_DTYPE_BF16;
  CRK_REFUSE_IF(value != 0 && value != 1, "%s: %s is %d; allowed are 0 (f16) and 1 (bf16)", where, name, (int)value);
  return CRK_OK;
}

static crk_status_t moe_gguf(const char *where, crk_device_t self, const given_experts_t *given, int32_t gguf_dtype,
                             const float *input, const void *weights, void *output) {
  experts_t e;
  CRK_TRY(experts_get(where, given, &e));
  crk_quant_t quant;
  CRK_TRY(expert_quant(where, gguf_dtype, &quant));
  return crk_moe_gguf(self, quant, CRK_DTYPE_F32, e.count, e.rows, e.k, e.tokens, e.topk, source(weights),
                      source(input), e.sorted_token_ids, e.expert_ids, e.topk_weights, target(output));
}

static crk_status_t moe_prefill(const char *where, crk_device_t self, const given_experts_t *given, int32_t input_dtype,
                                int32_t gguf_dtype, const void *input, const uint8_t *weights, void *output) {
  experts_t e;
  CRK_TRY(experts_get(where, given, &e));
  crk_quant_t quant;
  crk_dtype_t dtype;
  CRK_TRY(half_type(where, "input_dtype", input_dtype, &dtype));
  CRK_TRY(expert_quant(where, gguf_dtype, &quant));
  return crk_moe_gguf_prefill(self, quant, dtype, e.count, e.rows, e.k, e.tokens, e.topk, source(weights),
                              source(input), e.sorted_token_ids, e.expert_ids, e.topk_weights, target(output));
}

static crk_status_t moe_gemm(const char *where, crk_device_t self, const given_experts_t *given, int32_t dtype_number,
                             const void *input, const void *weights, void *output, int32_t *expert_counts,
                             int32_t *expert_offsets) {
  experts_t e;
  CRK_TRY(experts_get(where, given, &e));
  crk_dtype_t dtype;
  CRK_TRY(half_type(where, "dtype", dtype_number, &dtype));
  return crk_moe_gemm(self, dtype, e.count, e.rows, e.k, e.tokens, e.topk, source(weights), source(input),
                      e.sorted_token_ids, e.expert_ids, e.topk_weights, target(output), optional(expert_counts),
                      optional(expert_offsets));
}

void crk_moe_gemm_gguf(const float *input, const void *weights, const int32_t *sorted_token_ids,
                       const int32_t *expert_ids, const float *topk_weights, void *output, int32_t num_experts,
                       int32_t topk, int32_t size_m, int32_t size_n, int32_t size_k, int32_t gguf_dtype,
                       int64_t stream) {
  static const char where[] = "crk_moe_gemm_gguf";
  const given_experts_t given = {sorted_token_ids, expert_ids, topk_weights, num_experts, topk, size_m, size_n, size_k};
  CRK_STATIC_RUN((const void *)(intptr_t)stream, moe_gguf(where, self, &given, gguf_dtype, input, weights, output));
}

void crk_moe_gemm_gguf_prefill(const void *input, const uint8_t *weights, const int32_t *sorted_token_ids,
                               const int32_t *expert_ids, const float *topk_weights, void *output, int32_t num_experts,
                               int32_t topk, int32_t size_m, int32_t size_n, int32_t size_k, int32_t input_dtype,
                               int32_t gguf_dtype, int64_t stream) {
  static const char where[] = "crk_moe_gemm_gguf_prefill";
  const given_experts_t given = {sorted_token_ids, expert_ids, topk_weights, num_experts, topk, size_m, size_n, size_k};
  CRK_STATIC_RUN((const void *)(intptr_t)stream,
                 moe_prefill(where, self, &given, input_dtype, gguf_dtype, input, weights, output));
}

void crk_moe_gemm_wmma(const void *input, const void *weights, const int32_t *sorted_token_ids,
                       const int32_t *expert_ids, const float *topk_weights, void *output, int32_t *expert_counts,
                       int32_t *expert_offsets, int32_t num_experts, int32_t topk, int32_t size_m, int32_t size_n,
                       int32_t size_k, int32_t dtype, bool is_prefill, int64_t stream) {
  static const char where[] = "crk_moe_gemm_wmma";
  const given_experts_t given = {sorted_token_ids, expert_ids, topk_weights, num_experts, topk, size_m, size_n, size_k};
  (void)is_prefill;
  CRK_STATIC_RUN((const void *)(intptr_t)stream,
                 moe_gemm(where, self, &given, dtype, input, weights, output, expert_counts, expert_offsets));
}

static crk_status_t moe_align(const char *where, const void *stream, const int32_t *topk_ids, int32_t *sorted_token_ids,
                              int32_t *expert_ids, int32_t *num_tokens_post_pad, int32_t *cumsum, int32_t num_experts,
                              int32_t block_size, int32_t numel, int32_t max_num_tokens_padded) {
  crk_device_t self;
  size_t experts, block, ids, padded;
  CRK_TRY(device_of(where, stream, &self));
  CRK_TRY(count(where, "num_experts", num_experts, &experts));
  CRK_TRY(count(where, "block_size", block_size, &block));
  CRK_TRY(count(where, "numel", numel, &ids));
  CRK_TRY(count(where, "max_num_tokens_padded", max_num_tokens_padded, &padded));
  return crk_moe_align(self, experts, block, ids, padded, source(topk_ids), target(sorted_token_ids),
                       target(expert_ids), target(num_tokens_post_pad), target(cumsum));
}

int32_t crk_candle_launch_moe_align(const int32_t *topk_ids, int32_t *sorted_token_ids, int32_t *expert_ids,
                                    int32_t *num_tokens_post_pad, int32_t *cumsum, int32_t num_experts,
                                    int32_t block_size, int32_t numel, int32_t max_num_tokens_padded, void *stream) {
  return (int32_t)moe_align("crk_candle_launch_moe_align", stream, topk_ids, sorted_token_ids, expert_ids,
                            num_tokens_post_pad, cumsum, num_experts, block_size, numel, max_num_tokens_padded);
}
