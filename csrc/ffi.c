/* Candle's static launchers: each is a launcher, of memory whose size follows from the numbers. */
#include "core.h"
#include "launch/quantized.h"

/* The handle whose stream it is. */
static crk_status_t device_of(const char *where, const void *stream, crk_device_t *self) {
  *self = crk_priv_device_of_stream(stream);
  CRK_REFUSE_IF(*self == NULL, "%s: stream %p is of no live device handle", where, stream);
  return CRK_OK;
}

/* The body of a function that returns nothing: does `work` on the stream's handle, `self`, and keeps its failure. */
#define CRK_STATIC_RUN(work)                         \
  do {                                               \
    crk_device_t self;                               \
    if (device_of(where, stream, &self) == CRK_OK) { \
      const crk_status_t status = work;              \
      if (status != CRK_OK) {                        \
        crk_priv_error_defer(self, status);          \
      }                                              \
    }                                                \
  } while (0)

/* An argument that counts something. */
static crk_status_t count(const char *where, const char *name, int64_t value, size_t *result) {
  *result = value > 0 ? (size_t)value : 0;
  CRK_REFUSE_IF(value < 0, "%s: %s is %lld", where, name, (long long)value);
  return CRK_OK;
}

/* Memory of a size that cannot be known: what is checked of it is that it is there, aligned and apart from others. */
static crk_view_t unbounded(const void *ptr) { return (crk_view_t){(void *)(uintptr_t)ptr, SIZE_MAX - (uintptr_t)ptr}; }

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
  CRK_TRY(crk_priv_check_elements(where, "x", unbounded(x), rows * k, (uint32_t)crk_dtype_size(dtype)));
  CRK_TRY(crk_priv_check_elements(where, "vy", unbounded(vy), 1, 4));
  return crk_priv_quantize_q8_1_padded(self, dtype, rows, k, padded, x, vy);
}

#define XX(name, dtype)                                                                                  \
  void crk_launch_mmvq_gguf_quantize_q8_1_##name(const void *x, void *vy, int32_t kx, int32_t kx_padded, \
                                                 int32_t num_rows, void *stream) {                       \
    static const char where[] = "crk_launch_mmvq_gguf_quantize_q8_1_" #name;                             \
    CRK_STATIC_RUN(quantize(where, self, dtype, x, vy, kx, kx_padded, num_rows));                        \
  }
XX(f32, CRK_DTYPE_F32)
XX(f16, CRK_DTYPE_F16)
XX(bf16, CRK_DTYPE_BF16)
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
  const crk_view_t numbers = ids != NULL ? unbounded(ids) : (crk_view_t){NULL, 0};
  return crk_quantize_mmq(self, layout, CRK_DTYPE_F32, &rows, unbounded(x), numbers, unbounded(vy));
}

#define XX(name, value, text)                                                                                          \
  void crk_launch_mmq_quantize_q8_1_##name(const void *x, const int32_t *ids, void *vy, int32_t type_x, int64_t ne00,  \
                                           int64_t s01, int64_t s02, int64_t s03, int64_t ne0, int64_t ne1,            \
                                           int64_t ne2, int64_t ne3, void *stream) {                                   \
    static const char where[] = "crk_launch_mmq_quantize_q8_1_" text;                                                  \
    (void)type_x;                                                                                                      \
    CRK_STATIC_RUN(quantize_blocks(where, self, CRK_MMQ_##name, x, ids, vy, ne00, s01, s02, s03, ne0, ne1, ne2, ne3)); \
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
  return crk_mul_mat_mmq(self, quant, CRK_DTYPE_F32, rows, k, columns, unbounded(x), weight_stride, unbounded(y),
                         unbounded(dst), dst_stride);
}

#define XX(type, upper)                                                                                               \
  void crk_launch_mmq_gguf_##type(void *tmp_fixup, const void *x, const void *y, void *dst, int64_t ncols_x,          \
                                  int64_t nrows_x, int64_t ncols_y, int64_t stride_row_x, int64_t stride_col_dst,     \
                                  int32_t cc, int32_t nsm, int64_t smpbo, int32_t warp_size, void *stream) {          \
    static const char where[] = "crk_launch_mmq_gguf_" #type;                                                         \
    (void)tmp_fixup, (void)cc, (void)nsm, (void)smpbo, (void)warp_size;                                               \
    CRK_STATIC_RUN(                                                                                                   \
        mat_mat(where, self, CRK_QUANT_##upper, x, y, dst, ncols_x, nrows_x, ncols_y, stride_row_x, stride_col_dst)); \
  }
CRK_STATIC_QUANT_MAP(XX)
#undef XX
