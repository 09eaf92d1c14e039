/* candle_rocm/layout.h: element types, views of memory, and the layouts of tensors. Nothing here needs a device. */
#ifndef CANDLE_ROCM_LAYOUT_H
#define CANDLE_ROCM_LAYOUT_H

#include "candle_rocm/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Element types
 * ------------------------------------------------------------------------------------------------------------------ */

/* XX(name, value, Candle's name, bytes). The element types of candle-core 0.11.1 that have kernels. */
#define CRK_DTYPE_MAP(XX) \
  XX(U8, 0, "u8", 1)      \
  XX(U32, 1, "u32", 4)    \
  XX(I16, 2, "i16", 2)    \
  XX(I32, 3, "i32", 4)    \
  XX(I64, 4, "i64", 8)    \
  XX(BF16, 5, "bf16", 2)  \
  XX(F16, 6, "f16", 2)    \
  XX(F32, 7, "f32", 4)    \
  XX(F64, 8, "f64", 8)    \
  XX(F8E4M3, 9, "f8e4m3", 1)

typedef enum crk_dtype {
#define XX(name, value, text, bytes) CRK_DTYPE_##name = value,
  CRK_DTYPE_MAP(XX)
#undef XX
} crk_dtype_t;

/* Candle's name of a dtype, such as "bf16"; NULL for a value that is not a dtype. */
CRK_API const char *crk_dtype_name(crk_dtype_t dtype);

/* Bytes of one element; 0 for a value that is not a dtype. */
CRK_API size_t crk_dtype_size(crk_dtype_t dtype);

/* The dtype of a name. "f8_e4m3" and "fp8_e4m3" also mean F8E4M3. Fails with CRK_INVALID_ARGUMENT for an unknown
 * name. */
CRK_API crk_status_t crk_dtype_from_name(const char *name, crk_dtype_t *dtype);

/* ------------------------------------------------------------------------------------------------------------------
 * Views and layouts
 * ------------------------------------------------------------------------------------------------------------------ */

/* Memory that a function writes: its address and its size. Memory of any origin can be viewed. A view of 0 bytes may
 * have a NULL pointer. `ptr` must be aligned to the dtype that the view is used with. */
typedef struct crk_view {
  void *ptr;
  size_t bytes;
} crk_view_t;

/* Memory that a function only reads. The rules of crk_view_t hold. */
typedef struct crk_const_view {
  const void *ptr;
  size_t bytes;
} crk_const_view_t;

/* The memory of a view, to be read. */
static inline crk_const_view_t crk_const(crk_view_t view) {
  crk_const_view_t read = {view.ptr, view.bytes};
  return read;
}

#define CRK_MAX_RANK 8

/* How a tensor lies in a buffer: element (i0, i1, ...) is at offset + i0 * strides[0] + i1 * strides[1] + ... A stride
 * of 0 broadcasts. Rank 0 is a single element; a dim of 0 makes the tensor empty. */
typedef struct crk_layout {
  uint32_t rank; /* at most CRK_MAX_RANK */
  size_t dims[CRK_MAX_RANK];
  size_t strides[CRK_MAX_RANK]; /* in elements */
  size_t offset; /* in elements */
} crk_layout_t;

/* The contiguous layout (row-major, offset 0) of dims[0 .. rank]. Fails with CRK_INVALID_ARGUMENT for a rank above
 * CRK_MAX_RANK or a number of elements that size_t cannot hold. */
CRK_API crk_status_t crk_layout_contiguous(const size_t *dims, size_t rank, crk_layout_t *layout);

/* The number of elements of a layout. */
CRK_API crk_status_t crk_layout_numel(const crk_layout_t *layout, size_t *numel);

/* Whether the elements of a layout follow each other without gaps, in row-major order from its offset on. This is
 * Candle's definition: strides of dims of size 1 do not matter. */
CRK_API crk_status_t crk_layout_is_contiguous(const crk_layout_t *layout, bool *contiguous);

#ifdef __cplusplus
}
#endif
#endif
