/* The launcher that quantizes activations to mmq blocks, which products with many columns read. */
#include "launch/mmq.h"

enum {
  LAYOUTS = 0 CRK_MMQ_MAP(CRK_COUNT_ONE),
  COLUMNS_PER_BLOCK = CRK_MMQ_THREADS / 16,
  PADDED_BLOCKS = 512 / CRK_MMQ_ELEMENTS /* a channel has a multiple of this many mmq blocks per column */
};
_Static_assert((int)LAYOUTS *(int)CRK_ACTIVATIONS == CRK_SLOTS_OF(QUANTIZE_MMQ), "as the list of slots counts");

static const char *const layout_names[LAYOUTS] = {
#define XX(name, value, text) text,
    CRK_MMQ_MAP(XX)
#undef XX
};

static crk_status_t check_mmq_layout(const char *where, crk_mmq_t layout) {
  switch (layout) {
#define XX(name, value, text) case CRK_MMQ_##name:
    CRK_MMQ_MAP(XX)
#undef XX
    return CRK_OK;
  }
  return crk_priv_error(CRK_INVALID_ARGUMENT, "%s: layout %d is not a value of crk_mmq_t", where, (int)layout);
}

crk_status_t crk_priv_mmq_of_quant(const char *where, crk_quant_t quant, const crk_quant_info_t **info,
                                   crk_mmq_t *layout) {
  CRK_TRY(crk_priv_quant_get(where, quant, info));
  switch (quant) {
#define XX(format, type, name, numbers) \
  case CRK_QUANT_##format:              \
    *layout = CRK_MMQ_##name;           \
    return CRK_OK;
    CRK_MMQ_FORMATS(XX)
#undef XX
    default:
      return crk_priv_error(CRK_UNSUPPORTED, "%s: quant is %s, which no product takes; dequantize the weights first",
                            where, (*info)->name);
  }
}

crk_status_t crk_mmq_of_quant(crk_quant_t quant, crk_mmq_t *layout) {
  const crk_quant_info_t *info;
  CRK_REFUSE_IF(layout == NULL, "crk_mmq_of_quant: layout is NULL");
  return crk_priv_mmq_of_quant("crk_mmq_of_quant", quant, &info, layout);
}

crk_status_t crk_priv_mmq_padded(const char *where, size_t k, size_t *padded) {
  const size_t last = CRK_MMQ_ELEMENTS - 1;
  CRK_REFUSE_IF(k > SIZE_MAX - last, "%s: k is %zu, at most %zu can be padded", where, k, SIZE_MAX - last);
  *padded = (k + last) & ~last;
  return CRK_OK;
}

/* *product *= factor. False where that is beyond 64 bits. */
static bool multiply_by(uint64_t *product, uint64_t factor) {
  const bool fits = crk_priv_product_fits(*product, factor, UINT64_MAX);
  *product *= factor;
  return fits;
}

/* The mmq blocks of a channel; UINT64_MAX where there are more. */
static uint64_t channel_blocks(const crk_mmq_rows_t *rows) {
  uint64_t blocks = crk_priv_ceil_div(rows->padded_k, 512) * PADDED_BLOCKS;
  return multiply_by(&blocks, rows->columns) ? blocks : UINT64_MAX;
}

size_t crk_mmq_bytes(const crk_mmq_rows_t *rows) {
  if (rows == NULL) {
    return 0;
  }
  uint64_t bytes = channel_blocks(rows);
  const bool fits = bytes != UINT64_MAX && multiply_by(&bytes, rows->channels) && multiply_by(&bytes, rows->samples) &&
                    multiply_by(&bytes, CRK_MMQ_BYTES);
  return fits && bytes <= SIZE_MAX ? (size_t)bytes : 0;
}

/* Elements of x from its start to the end of the first row of the last channel of the last sample. */
static crk_status_t outer_extent(const char *where, const crk_mmq_rows_t *rows, size_t *extent) {
  CRK_TRY(crk_priv_strided_extent(where, "elements of x in channels", rows->channels, rows->channel_stride, rows->k,
                                  extent));
  return crk_priv_strided_extent(where, "elements of x in samples", rows->samples, rows->sample_stride, *extent,
                                 extent);
}

/* The number of rows of x, and the elements from the start of x to the end of the last row. With ids x has as many rows
 * as the view holds, else one per column. */
static crk_status_t rows_of_x(const char *where, const crk_mmq_rows_t *rows, crk_const_view_t x, uint32_t element_bytes,
                              bool by_ids, size_t *count, size_t *elements) {
  CRK_TRY(outer_extent(where, rows, elements));
  if (by_ids) {
    const size_t held = x.bytes / element_bytes;
    const bool one = held >= *elements;
    *count = !one ? 0 : rows->row_stride == 0 ? 1 : (held - *elements) / rows->row_stride + 1;
    *elements = one ? *elements + (*count - 1) * rows->row_stride : 0;
  } else {
    *count = rows->columns;
    CRK_TRY(
        crk_priv_strided_extent(where, "elements of x in rows", rows->columns, rows->row_stride, *elements, elements));
  }
  if (rows->k == 0) {
    *elements = 0;
  }
  return CRK_OK;
}

crk_status_t crk_priv_quantize_mmq(crk_device_t self, crk_mmq_t layout, crk_dtype_t dtype, const crk_mmq_rows_t *rows,
                                   size_t x_rows, uint32_t sums, const void *x, const void *ids, void *dst) {
  uint32_t type;
  CRK_TRY(crk_priv_activation_index("crk_quantize_mmq", dtype, &type));
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_QUANTIZE_MMQ + (uint32_t)layout * CRK_ACTIVATIONS + type,
                         CRK_MODULE_QUANTIZED_MAT, &function, "quantize_mmq_%s_%s", layout_names[layout],
                         crk_dtype_name(dtype)));
  crk_fault_t fault;
  CRK_TRY(crk_priv_fault_get(self, CRK_FAULT_QUANTIZE_MMQ, &fault));
  const uint64_t most = self->context->info.max_grid_threads / CRK_MMQ_THREADS;
  crk_dim3_t grid;
  grid.x = crk_priv_grid_blocks(self, crk_priv_ceil_div(rows->columns, COLUMNS_PER_BLOCK), CRK_MMQ_THREADS);
  grid.y = (uint32_t)crk_priv_least(rows->padded_k / CRK_MMQ_ELEMENTS, crk_priv_least(most / grid.x, CRK_MOST_GRID_YZ));
  grid.z = (uint32_t)crk_priv_least(rows->channels, crk_priv_least(most / grid.x / grid.y, CRK_MOST_GRID_YZ));
  crk_mmq_quantize_t shape = {
      .k = rows->k,
      .padded_k = rows->padded_k,
      .columns = rows->columns,
      .channels = rows->channels,
      .samples = rows->samples,
      .rows = x_rows,
      .row_stride = rows->row_stride,
      .channel_stride = rows->channel_stride,
      .sample_stride = rows->sample_stride,
      .channel_blocks = channel_blocks(rows),
      .blocks_x = grid.x,
      .blocks_y = grid.y,
      .blocks_z = grid.z,
      .sums = sums,
  };
  const void *args[] = {&x, &ids, &dst, &shape, &fault};
  return crk_priv_launch_blocks(self, function, grid, (crk_dim3_t){CRK_MMQ_THREADS, 1, 1}, 0, args);
}

crk_status_t crk_quantize_mmq(crk_device_t self, crk_mmq_t layout, crk_dtype_t dtype, const crk_mmq_rows_t *rows,
                              crk_const_view_t x, crk_const_view_t ids, crk_view_t dst) {
  static const char where[] = "crk_quantize_mmq";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(check_mmq_layout(where, layout));
  uint32_t type;
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  CRK_REFUSE_IF(rows == NULL, "%s: rows is NULL", where);
  CRK_REFUSE_IF(rows->padded_k % CRK_MMQ_ELEMENTS != 0, "%s: rows->padded_k is %zu, not a multiple of %d", where,
                rows->padded_k, CRK_MMQ_ELEMENTS);
  CRK_REFUSE_IF(rows->k > rows->padded_k, "%s: rows->k is %zu, more than rows->padded_k, which is %zu", where, rows->k,
                rows->padded_k);
  if (rows->padded_k == 0 || rows->columns == 0 || rows->channels == 0 || rows->samples == 0) {
    return CRK_OK;
  }
  const size_t bytes = crk_mmq_bytes(rows);
  if (bytes == 0) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS,
                          "%s: dst for %zu samples of %zu channels of %zu columns of %zu elements would have more than "
                          "%zu bytes",
                          where, rows->samples, rows->channels, rows->columns, rows->padded_k, (size_t)SIZE_MAX);
  }
  const bool by_ids = crk_priv_is_given(ids);
  const uint32_t element_bytes = (uint32_t)crk_dtype_size(dtype);
  size_t x_rows, elements;
  CRK_TRY(rows_of_x(where, rows, x, element_bytes, by_ids, &x_rows, &elements));
  CRK_TRY(crk_priv_check_elements(where, "x", x, elements, element_bytes));
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), bytes / 4, 4));
  CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, bytes, "x", x.ptr, elements * element_bytes));
  if (by_ids) {
    CRK_TRY(crk_priv_check_elements(where, "ids", ids, rows->columns, 4));
    CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, bytes, "ids", ids.ptr, rows->columns * 4));
  }
  return crk_priv_quantize_mmq(self, layout, dtype, rows, x_rows, CRK_SUM_OF_VALUES, x.ptr, ids.ptr, dst.ptr);
}
