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
