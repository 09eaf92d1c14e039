/* Launchers that turn quantized weights into numbers, multiply them as numbers, and quantize activations to 8 bits. The
 * integer products are in mul_mat.c. */
#include "launch/quantized.h"

#include "call/launch_threads.h"
#include "call/quantized_call.h"

/* Matrix rows per block of crk_dequantize_mul_mat_vec. */
enum { ROWS_PER_BLOCK = CRK_LAUNCHED_THREADS / 32 * CRK_VECTOR_ROWS };

enum {
#define XX(name, value, text, elements, bytes) INDEX_##name,
  CRK_QUANT_MAP(XX)
#undef XX
};

static const crk_quant_info_t formats[CRK_QUANT_COUNT] = {
#define XX(name, value, text, elements, bytes) \
  {text, INDEX_##name, elements, bytes, INDEX_##name == INDEX_Q8_K ? 4 : 2},
    CRK_QUANT_MAP(XX)
#undef XX
};

/* ---- formats */

/* NULL where `quant` is no format. */
static const crk_quant_info_t *find_format(crk_quant_t quant) {
  switch (quant) {
#define XX(name, value, text, elements, bytes) \
  case CRK_QUANT_##name:                       \
    return &formats[INDEX_##name];
    CRK_QUANT_MAP(XX)
#undef XX
    default:
      return NULL;
  }
}

const char *crk_quant_name(crk_quant_t quant) {
  const crk_quant_info_t *info = find_format(quant);
  return info != NULL ? info->name : NULL;
}

size_t crk_quant_block_elements(crk_quant_t quant) {
  const crk_quant_info_t *info = find_format(quant);
  return info != NULL ? info->elements : 0;
}

size_t crk_quant_block_bytes(crk_quant_t quant) {
  const crk_quant_info_t *info = find_format(quant);
  return info != NULL ? info->bytes : 0;
}

crk_status_t crk_quant_from_name(const char *name, crk_quant_t *quant) {
  CRK_REFUSE_IF(name == NULL, "crk_quant_from_name: name is NULL");
  CRK_REFUSE_IF(quant == NULL, "crk_quant_from_name: quant is NULL");
#define XX(upper, value, text, elements, bytes) \
  if (crk_priv_alike(name, text, SIZE_MAX)) {   \
    *quant = CRK_QUANT_##upper;                 \
    return CRK_OK;                              \
  }
  CRK_QUANT_MAP(XX)
#undef XX
  return crk_priv_error(CRK_INVALID_ARGUMENT, "crk_quant_from_name: name '%.64s' is no format; use a name such as q4_0",
                        name);
}

/* ---- checks */

crk_status_t crk_priv_quant_get(const char *where, crk_quant_t quant, const crk_quant_info_t **info) {
  *info = find_format(quant);
  CRK_REFUSE_IF(*info == NULL, "%s: quant %d is not a value of crk_quant_t", where, (int)quant);
  return CRK_OK;
}

crk_status_t crk_priv_quant_get_product(const char *where, crk_quant_t quant, const crk_quant_info_t **info) {
  CRK_TRY(crk_priv_quant_get(where, quant, info));
  if (quant == CRK_QUANT_Q8_K) {
    return crk_priv_error(CRK_UNSUPPORTED, "%s: quant is %s, which no product takes; dequantize the weights first",
                          where, (*info)->name);
  }
  return CRK_OK;
}

crk_status_t crk_priv_check_blocks(const char *where, const char *name, size_t elements, const crk_quant_info_t *info) {
  CRK_REFUSE_IF(elements % info->elements != 0, "%s: %s is %zu, not a multiple of the %u elements of a block of %s",
                where, name, elements, info->elements, info->name);
  return CRK_OK;
}

crk_status_t crk_priv_check_count(const char *where, const char *name, size_t count) {
  CRK_REFUSE_IF(count > INT32_MAX, "%s: %s is %zu, at most %d is allowed", where, name, count, INT32_MAX);
  return CRK_OK;
}

crk_status_t crk_priv_check_weights(const char *where, const char *name, crk_const_view_t view, size_t rows,
                                    size_t elements, const crk_quant_info_t *info, size_t *bytes) {
  size_t blocks;
  CRK_TRY(crk_priv_checked_product(where, "blocks", rows, elements / info->elements, &blocks));
  if (blocks > view.bytes / info->bytes) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS, "%s: %zu blocks of %u bytes do not fit %s, which has %zu bytes", where,
                          blocks, info->bytes, name, view.bytes);
  }
  CRK_REFUSE_IF(view.ptr == NULL && blocks > 0, "%s: %s.ptr is NULL", where, name);
  CRK_REFUSE_IF((uintptr_t)view.ptr % info->alignment != 0,
                "%s: %s.ptr %p is not aligned to the %u bytes that %s needs", where, name, view.ptr, info->alignment,
                info->name);
  *bytes = blocks * info->bytes;
  return CRK_OK;
}

crk_status_t crk_priv_activation_index(const char *where, crk_dtype_t dtype, uint32_t *index) {
  return crk_priv_activation_named(where, "dtype", dtype, index);
}

crk_status_t crk_priv_activation_named(const char *where, const char *name, crk_dtype_t dtype, uint32_t *index) {
  CRK_TRY(crk_priv_check_dtype(where, name, dtype));
  switch (dtype) {
    case CRK_DTYPE_F32:
      *index = 0;
      return CRK_OK;
    case CRK_DTYPE_F16:
      *index = 1;
      return CRK_OK;
    case CRK_DTYPE_BF16:
      *index = 2;
      return CRK_OK;
    default:
      return crk_priv_error(CRK_UNSUPPORTED, "%s: %s is %s; there are kernels for f32, f16 and bf16", where, name,
                            crk_dtype_name(dtype));
  }
}

/* ---- numbers */

crk_status_t crk_dequantize(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t numel, crk_const_view_t src,
                            crk_view_t dst) {
  static const char where[] = "crk_dequantize";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  const crk_quant_info_t *info;
  uint32_t type;
  CRK_TRY(crk_priv_quant_get(where, quant, &info));
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  CRK_TRY(crk_priv_check_blocks(where, "numel", numel, info));
  if (numel == 0) {
    return CRK_OK;
  }
  const uint32_t element = (uint32_t)crk_dtype_size(dtype);
  size_t bytes;
  CRK_TRY(crk_priv_check_weights(where, "src", src, 1, numel, info, &bytes));
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), numel, element));
  CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, numel * element, "src", src.ptr, bytes));
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_DEQUANTIZE + info->index * CRK_ACTIVATIONS + type, CRK_MODULE_QUANTIZED,
                         &function, "dequantize_%s_%s_flat", info->name, crk_dtype_name(dtype)));
  uint64_t packs = numel / (16 / element);
  const uint64_t tile = CRK_DEQUANTIZE_TILE(info->bytes, info->elements);
  uint32_t blocks = crk_priv_grid_blocks(self, crk_priv_ceil_div(numel, tile), CRK_LAUNCHED_THREADS);
  const void *args[] = {&src.ptr, &dst.ptr, &packs, &blocks};
  return crk_priv_launch_blocks(self, function, (crk_dim3_t){blocks, 1, 1}, (crk_dim3_t){CRK_LAUNCHED_THREADS, 1, 1}, 0,
                                args);
}

/* Launches a kernel that copies the rows that ids name. The rows of src have `table_bytes` together. */
static crk_status_t launch_get_rows(crk_device_t self, const char *where, crk_fault_op_t op, crk_function_t function,
                                    size_t rows, size_t hidden, size_t count, crk_const_view_t src, size_t table_bytes,
                                    crk_const_view_t ids, crk_view_t dst) {
  size_t numel;
  CRK_TRY(crk_priv_checked_product(where, "elements", count, hidden, &numel));
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), numel, 4));
  CRK_TRY(crk_priv_check_read(where, "ids", ids, count, 4, dst.ptr, numel * 4));
  CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, numel * 4, "src", src.ptr, table_bytes));
  crk_fault_t fault;
  CRK_TRY(crk_priv_fault_get(self, op, &fault));
  /* Several short rows share a block. With many rows a thread makes four packs. */
  const uint64_t packs = (hidden + 3) / 4;
  uint32_t width_log2 = crk_priv_log2_ceil(crk_priv_least(packs, CRK_LAUNCHED_THREADS));
  const uint32_t across = 1u << width_log2, down = CRK_LAUNCHED_THREADS >> width_log2;
  const uint64_t enough = 2 * crk_priv_held_threads(self), steps = count >= enough / packs ? 4 : 1;
  const uint32_t y = (uint32_t)crk_priv_least(crk_priv_ceil_div(packs, across * steps), CRK_MOST_GRID_YZ);
  const uint32_t x = crk_priv_grid_blocks(self, crk_priv_ceil_div(count, down), CRK_LAUNCHED_THREADS * y);
  uint64_t sizes[] = {count, rows, hidden, (uint64_t)x * down, (uint64_t)y * across * 4};
  const void *args[] = {&fault,    &src.ptr,  &ids.ptr,  &dst.ptr,  &sizes[0],
                        &sizes[1], &sizes[2], &sizes[3], &sizes[4], &width_log2};
  return crk_priv_launch_blocks(self, function, (crk_dim3_t){x, y, 1}, (crk_dim3_t){across, down, 1}, 0, args);
}

crk_status_t crk_get_rows(crk_device_t self, crk_quant_t quant, size_t rows, size_t hidden, size_t count,
                          crk_const_view_t src, crk_const_view_t ids, crk_view_t dst) {
  static const char where[] = "crk_get_rows";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  const crk_quant_info_t *info;
  CRK_TRY(crk_priv_quant_get(where, quant, &info));
  CRK_TRY(crk_priv_check_blocks(where, "hidden", hidden, info));
  CRK_TRY(crk_priv_check_count(where, "hidden", hidden));
  if (hidden == 0 || count == 0) {
    return CRK_OK;
  }
  size_t bytes;
  CRK_TRY(crk_priv_check_weights(where, "src", src, rows, hidden, info, &bytes));
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_GET_ROWS + info->index, CRK_MODULE_QUANTIZED, &function, "get_rows_%s_rows",
                         info->name));
  return launch_get_rows(self, where, CRK_FAULT_GET_ROWS, function, rows, hidden, count, src, bytes, ids, dst);
}

crk_status_t crk_get_rows_float(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t hidden, size_t count,
                                crk_const_view_t src, crk_const_view_t ids, crk_view_t dst) {
  static const char where[] = "crk_get_rows_float";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  uint32_t type = 0;
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  if (hidden == 0 || count == 0) {
    return CRK_OK;
  }
  size_t numel;
  const uint32_t element = (uint32_t)crk_dtype_size(dtype);
  CRK_TRY(crk_priv_checked_product(where, "elements", rows, hidden, &numel));
  CRK_TRY(crk_priv_check_elements(where, "src", src, numel, element));
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_GET_ROWS_FLOAT + type, CRK_MODULE_QUANTIZED, &function, "get_rows_%s_rows",
                         crk_dtype_name(dtype)));
  return launch_get_rows(self, where, CRK_FAULT_GET_ROWS_FLOAT, function, rows, hidden, count, src, numel * element,
                         ids, dst);
}

/* ---- activations */

size_t crk_q8_1_bytes(size_t rows, size_t k) {
  if (k > SIZE_MAX - 511) {
    return 0;
  }
  const size_t row = CRK_Q8_1_PADDED(k) / CRK_Q8_1_BLOCK;
  return crk_priv_product_fits(rows, row, SIZE_MAX / CRK_Q8_1_BYTES) ? rows * row * CRK_Q8_1_BYTES : 0;
}

crk_status_t crk_priv_quantize_q8_1(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t k, size_t padded,
                                    uint32_t sums, const void *x, void *dst) {
  uint32_t type;
  CRK_TRY(crk_priv_activation_index("crk_quantize_q8_1", dtype, &type));
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_QUANTIZE_Q8_1 + type, CRK_MODULE_QUANTIZED, &function, "quantize_q8_1_%s_rows",
                         crk_dtype_name(dtype)));
  uint64_t sizes[] = {rows, k, padded};
  uint32_t y = (uint32_t)crk_priv_least(rows, CRK_MOST_GRID_YZ),
           blocks = crk_priv_grid_blocks(self, crk_priv_ceil_div(padded, 512), CRK_QUANTIZE_THREADS * y);
  const void *args[] = {&x, &dst, &sizes[0], &sizes[1], &sizes[2], &blocks, &y, &sums};
  return crk_priv_launch_blocks(self, function, (crk_dim3_t){blocks, y, 1}, (crk_dim3_t){CRK_QUANTIZE_THREADS, 1, 1}, 0,
                                args);
}

crk_status_t crk_quantize_q8_1(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t k, crk_const_view_t x,
                               crk_view_t dst) {
  static const char where[] = "crk_quantize_q8_1";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  uint32_t type;
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  if (rows == 0 || k == 0) {
    return CRK_OK;
  }
  size_t numel;
  CRK_TRY(crk_priv_checked_product(where, "elements", rows, k, &numel));
  const size_t bytes = crk_q8_1_bytes(rows, k);
  if (bytes == 0) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS, "%s: dst for %zu rows of k %zu elements would have more than %zu bytes",
                          where, rows, k, (size_t)SIZE_MAX);
  }
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), bytes / 4, 4));
  CRK_TRY(crk_priv_check_read(where, "x", x, numel, (uint32_t)crk_dtype_size(dtype), dst.ptr, bytes));
  return crk_priv_quantize_q8_1(self, dtype, rows, k, CRK_Q8_1_PADDED(k), CRK_SUM_OF_VALUES, x.ptr, dst.ptr);
}

size_t crk_columns_bytes(size_t columns, size_t k) {
  const size_t blocks = k / CRK_Q8_1_BLOCK;
  return crk_priv_product_fits(columns, blocks, SIZE_MAX / CRK_Q8_1_BYTES) ? columns * blocks * CRK_Q8_1_BYTES : 0;
}

crk_status_t crk_priv_check_columns(const char *where, const char *name, size_t columns, const char *length_name,
                                    size_t length, crk_view_t blocks, size_t *bytes) {
  CRK_REFUSE_IF(length % CRK_Q8_1_BLOCK != 0, "%s: %s is %zu, not a multiple of the %d elements of a block", where,
                length_name, length, CRK_Q8_1_BLOCK);
  CRK_TRY(
      crk_priv_checked_product(where, "bytes of blocks", columns * (length / CRK_Q8_1_BLOCK), CRK_Q8_1_BYTES, bytes));
  return crk_priv_check_elements(where, name, crk_const(blocks), *bytes / 4, 4);
}

crk_status_t crk_quantize_columns(crk_device_t self, crk_dtype_t dtype, size_t columns, size_t k, crk_const_view_t x,
                                  crk_view_t dst) {
  static const char where[] = "crk_quantize_columns";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  uint32_t type;
  size_t numel, bytes;
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  CRK_TRY(crk_priv_checked_product(where, "elements", columns, k, &numel));
  if (numel == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_columns(where, "dst", columns, "k", k, dst, &bytes));
  CRK_TRY(crk_priv_check_read(where, "x", x, numel, (uint32_t)crk_dtype_size(dtype), dst.ptr, bytes));
  return crk_priv_quantize_q8_1(self, dtype, columns, k, k, CRK_SUM_OF_CODES, x.ptr, dst.ptr);
}

/* ---- a matrix times a vector */

crk_status_t crk_dequantize_mul_mat_vec(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                                        crk_const_view_t src, crk_const_view_t y, crk_view_t dst) {
  static const char where[] = "crk_dequantize_mul_mat_vec";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  const crk_quant_info_t *info;
  uint32_t type;
  CRK_TRY(crk_priv_quant_get(where, quant, &info));
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  CRK_TRY(crk_priv_check_blocks(where, "k", k, info));
  CRK_TRY(crk_priv_check_count(where, "k", k));
  if (rows == 0) {
    return CRK_OK;
  }
  size_t bytes;
  CRK_TRY(crk_priv_check_weights(where, "src", src, rows, k, info, &bytes));
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), rows, 4));
  CRK_TRY(crk_priv_check_read(where, "y", y, k, (uint32_t)crk_dtype_size(dtype), dst.ptr, rows * 4));
  CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, rows * 4, "src", src.ptr, bytes));
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_DEQUANTIZE_MUL_MAT_VEC + info->index * CRK_ACTIVATIONS + type,
                         CRK_MODULE_QUANTIZED, &function, "dequantize_mul_mat_vec_%s_%s_rows", info->name,
                         crk_dtype_name(dtype)));
  uint64_t sizes[] = {k, rows};
  uint32_t blocks = crk_priv_grid_blocks(self, crk_priv_ceil_div(rows, ROWS_PER_BLOCK), CRK_LAUNCHED_THREADS);
  const void *args[] = {&src.ptr, &y.ptr, &dst.ptr, &sizes[0], &sizes[1], &blocks};
  return crk_priv_launch_blocks(self, function, (crk_dim3_t){blocks, 1, 1}, (crk_dim3_t){CRK_LAUNCHED_THREADS, 1, 1}, 0,
                                args);
}
