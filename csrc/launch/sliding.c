/* What the launchers of convolutions, pools and upsampling share. */
#include "launch/sliding.h"

/* Sizes and indices stay below this, so that the sum of two does not overflow in a kernel, and divisions are exact. */
static const size_t LIMIT = SIZE_MAX >> 2;

/* *result = a * b + c. False where that reaches LIMIT. */
static bool multiply_add(size_t a, size_t b, size_t c, size_t *result) {
  if (!crk_priv_product_fits(a, b, LIMIT - 1)) {
    return false;
  }
  *result = a * b + c;
  return *result >= c && *result < LIMIT;
}

void crk_priv_divisor_init(crk_divisor_t *divisor, uint64_t size, bool wide) {
  const uint32_t shift = crk_priv_log2_ceil(size);
  const uint64_t rest = ((uint64_t)1 << shift) - size;
  *divisor = (crk_divisor_t){size, (wide ? crk_priv_wide_quotient(rest, size) : (rest << 32) / size) + 1, shift, 0};
}

void crk_priv_cache_order_init(crk_cache_order_t *order, uint64_t caches, uint64_t blocks, bool wide) {
  order->blocks = blocks / caches;
  crk_priv_divisor_init(&order->caches, caches, wide);
}

static crk_status_t check_window(const crk_window_t *w, size_t *reach) {
  CRK_REFUSE_IF(w->stride == 0, "%s: stride is 0; it must be at least 1", w->where);
  CRK_REFUSE_IF(w->dilation == 0, "%s: dilation is 0; it must be at least 1", w->where);
  CRK_REFUSE_IF(w->window == 0, "%s: %s is 0; it must be at least 1", w->where, w->window_name);
  CRK_REFUSE_IF(w->stride >= LIMIT, "%s: stride is %zu, at most %zu is allowed", w->where, w->stride, LIMIT - 1);
  CRK_REFUSE_IF(w->padding >= LIMIT / 2, "%s: padding is %zu, at most %zu is allowed", w->where, w->padding,
                LIMIT / 2 - 1);
  CRK_REFUSE_IF(w->size >= LIMIT, "%s: %s is %zu, at most %zu is allowed", w->where, w->size_name, w->size, LIMIT - 1);
  CRK_REFUSE_IF(!multiply_add(w->dilation, w->window - 1, 1, reach),
                "%s: %s is %zu, with dilation %zu more than the %zu elements allowed", w->where, w->window_name,
                w->window, w->dilation, LIMIT - 1);
  return CRK_OK;
}

crk_status_t crk_priv_window_count(const crk_window_t *w, size_t *count) {
  size_t reach;
  CRK_TRY(check_window(w, &reach));
  const size_t padded = w->size + 2 * w->padding;
  CRK_REFUSE_IF(padded >= LIMIT, "%s: %s is %zu, with padding %zu more than the %zu elements allowed", w->where,
                w->size_name, w->size, w->padding, LIMIT - 1);
  CRK_REFUSE_IF(reach > padded, "%s: %s is %zu, with dilation %zu it covers %zu elements, but %s with padding has %zu",
                w->where, w->window_name, w->window, w->dilation, reach, w->size_name, padded);
  *count = (padded - reach) / w->stride + 1;
  return CRK_OK;
}

crk_status_t crk_priv_window_reach(const crk_window_t *w, size_t output_padding, size_t *size) {
  size_t reach, whole = 0;
  CRK_TRY(check_window(w, &reach));
  CRK_REFUSE_IF(w->size == 0, "%s: %s is 0; it must be at least 1", w->where, w->size_name);
  CRK_REFUSE_IF(output_padding >= LIMIT - reach, "%s: output_padding is %zu, at most %zu is allowed", w->where,
                output_padding, LIMIT - reach - 1);
  CRK_REFUSE_IF(!multiply_add(w->size - 1, w->stride, reach + output_padding, &whole),
                "%s: %s is %zu, with stride %zu the output has more than the %zu elements allowed", w->where,
                w->size_name, w->size, w->stride, LIMIT - 1);
  CRK_REFUSE_IF(whole < 2 * w->padding,
                "%s: padding is %zu at both ends, but the output before it is cut has %zu elements", w->where,
                w->padding, whole);
  *size = whole - 2 * w->padding;
  return CRK_OK;
}

crk_status_t crk_priv_check_rank(const char *where, const char *name, const crk_layout_t *layout, uint32_t rank,
                                 crk_extent_t *extent) {
  CRK_TRY(crk_priv_layout_extent(where, name, layout, extent));
  CRK_REFUSE_IF(layout->rank != rank, "%s: %s.rank is %u; it must be %u", where, name, (unsigned)layout->rank,
                (unsigned)rank);
  return CRK_OK;
}

crk_status_t crk_priv_check_source(const char *where, const crk_tensor_t *source, const crk_extent_t *extent,
                                   const void *instead, const void **first) {
  CRK_TRY(crk_priv_tensor_first(where, source, extent, first));
  *first = *first != NULL ? *first : instead;
  return CRK_OK;
}

crk_status_t crk_priv_dst_numel(const char *where, const size_t *dims, uint32_t count, size_t *numel) {
  size_t product = 1;
  bool fits = true, is_empty = false;
  for (uint32_t i = 0; i < count; i++) {
    is_empty = is_empty || dims[i] == 0;
    fits = fits && multiply_add(product, dims[i], 0, &product);
  }
  CRK_REFUSE_IF(!fits && !is_empty, "%s: dst would have more than %zu elements", where, LIMIT - 1);
  *numel = is_empty ? 0 : product;
  return CRK_OK;
}

crk_status_t crk_priv_check_dst(const char *where, crk_view_t dst, size_t numel, uint32_t bytes) {
  return crk_priv_check_elements(where, "dst", crk_const(dst), numel, bytes);
}

crk_status_t crk_priv_check_dst_apart(const char *where, crk_view_t dst, size_t numel, const crk_tensor_t *source,
                                      const crk_extent_t *extent, const void *first) {
  if (extent->numel == 0) {
    return CRK_OK;
  }
  const size_t bytes = (extent->last - source->layout->offset + 1) * source->bytes;
  return crk_priv_check_apart(where, "dst", dst.ptr, numel * source->bytes, source->view_name, first, bytes);
}

crk_status_t crk_priv_launch_all_blocks(crk_device_t self, crk_function_t function, uint64_t blocks, uint32_t threads,
                                        uint32_t shared_bytes, uint64_t *first_block, const void *const *args) {
  const uint64_t most = crk_priv_grid_blocks(self, blocks, threads);
  for (*first_block = 0; *first_block < blocks; *first_block += most) {
    const uint64_t left = blocks - *first_block;
    CRK_TRY(crk_priv_launch_blocks(self, function, (crk_dim3_t){(uint32_t)crk_priv_least(left, most), 1, 1},
                                   (crk_dim3_t){threads, 1, 1}, shared_bytes, args));
  }
  return CRK_OK;
}

void crk_priv_image_strides(const crk_layout_t *layout, uint64_t strides[4]) {
  const uint32_t rank = layout->rank;
  strides[0] = layout->strides[0];
  strides[1] = layout->strides[1];
  strides[2] = rank == 4 ? layout->strides[2] : 0;
  strides[3] = layout->strides[rank - 1];
}

crk_status_t crk_priv_check_no_sharing(const char *where, const char *name, const crk_layout_t *layout) {
  uint32_t order[CRK_MAX_RANK];
  for (uint32_t i = 0; i < layout->rank; i++) {
    const uint32_t dim = layout->rank - 1 - i;
    uint32_t at = i;
    for (; at > 0 && layout->strides[order[at - 1]] > layout->strides[dim]; at--) {
      order[at] = order[at - 1];
    }
    order[at] = dim;
  }
  size_t reach = 1;
  for (uint32_t i = 0; i < layout->rank; i++) {
    const size_t size = layout->dims[order[i]], stride = layout->strides[order[i]];
    if (size > 1) {
      CRK_REFUSE_IF(stride < reach, "%s: %s_layout.strides[%u] is %zu; elements of %s would share memory", where, name,
                    (unsigned)order[i], stride, name);
      reach += (size - 1) * stride;
    }
  }
  return CRK_OK;
}
