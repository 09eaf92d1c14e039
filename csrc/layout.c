/* Layouts and the iteration spaces made from them; layout.h explains both. */
#include "layout.h"

#include <string.h>

#include "error.h"
#include "number.h"

static bool add(size_t a, size_t b, size_t *sum) {
  *sum = a + b;
  return *sum >= a;
}

crk_status_t crk_priv_layout_extent(const char *where, const char *name, const crk_layout_t *layout,
                                    crk_extent_t *extent) {
  CRK_REFUSE_IF(layout == NULL, "%s: %s is NULL", where, name);
  CRK_REFUSE_IF(layout->rank > CRK_MAX_RANK, "%s: %s.rank is %u, the most is %d", where, name, (unsigned)layout->rank,
                CRK_MAX_RANK);
  size_t numel = 1, last = layout->offset;
  bool is_contiguous = true, is_empty = false, fits = true;
  for (uint32_t i = layout->rank; i-- > 0;) {
    const size_t dim = layout->dims[i], stride = layout->strides[i];
    if (dim == 0) {
      is_empty = true;
      break;
    }
    if (dim == 1) {
      continue;
    }
    is_contiguous = is_contiguous && stride == numel;
    size_t span;
    fits = fits && crk_priv_multiply(numel, dim, &numel) && crk_priv_multiply(dim - 1, stride, &span) &&
           add(last, span, &last);
  }
  if (is_empty) {
    *extent = (crk_extent_t){0, 0, true};
    return CRK_OK;
  }
  CRK_REFUSE_IF(!fits, "%s: the dims and strides of %s exceed the range of size_t, %zu", where, name, (size_t)SIZE_MAX);
  *extent = (crk_extent_t){numel, last, is_contiguous};
  return CRK_OK;
}

crk_status_t crk_layout_contiguous(const size_t *dims, size_t rank, crk_layout_t *layout) {
  CRK_REFUSE_IF(layout == NULL, "crk_layout_contiguous: layout is NULL");
  CRK_REFUSE_IF(dims == NULL && rank > 0, "crk_layout_contiguous: dims is NULL");
  CRK_REFUSE_IF(rank > CRK_MAX_RANK, "crk_layout_contiguous: rank is %zu, the most is %d", rank, CRK_MAX_RANK);
  crk_layout_t made;
  memset(&made, 0, sizeof made);
  made.rank = (uint32_t)rank;
  size_t stride = 1;
  for (size_t i = rank; i-- > 0;) {
    made.dims[i] = dims[i];
    made.strides[i] = stride;
    const size_t dim = dims[i] == 0 ? 1 : dims[i]; /* the strides of an empty tensor are never used */
    CRK_REFUSE_IF(!crk_priv_multiply(stride, dim, &stride),
                  "crk_layout_contiguous: the product of dims exceeds the range of size_t, %zu", (size_t)SIZE_MAX);
  }
  *layout = made;
  return CRK_OK;
}

crk_status_t crk_layout_numel(const crk_layout_t *layout, size_t *numel) {
  CRK_REFUSE_IF(numel == NULL, "crk_layout_numel: numel is NULL");
  crk_extent_t extent;
  CRK_TRY(crk_priv_layout_extent("crk_layout_numel", "layout", layout, &extent));
  *numel = extent.numel;
  return CRK_OK;
}

crk_status_t crk_layout_is_contiguous(const crk_layout_t *layout, bool *contiguous) {
  CRK_REFUSE_IF(contiguous == NULL, "crk_layout_is_contiguous: contiguous is NULL");
  crk_extent_t extent;
  CRK_TRY(crk_priv_layout_extent("crk_layout_is_contiguous", "layout", layout, &extent));
  *contiguous = extent.is_contiguous;
  return CRK_OK;
}

/* ---- iteration spaces */

void crk_priv_nd_dim_init(crk_nd_dim_t *dim, uint64_t size, bool wide) {
  dim->size = size;
  dim->shift = size > 1 ? crk_priv_log2_ceil(size) - 1 : 0;
  const uint64_t power = (uint64_t)1 << dim->shift;
  dim->mul = (wide ? crk_priv_wide_quotient(power, size) : (power << 32) / size) + 1;
  dim->unused = 0;
}

void crk_priv_nd_init(crk_nd_t *nd, size_t numel, uint32_t rank, const size_t *dims, const size_t *const *strides,
                      uint32_t operands, uint32_t vector) {
  nd->numel = numel;
  uint32_t kept = 0;
  uint64_t reach[CRK_ND_OPERANDS] = {0};
  for (uint32_t i = rank; i-- > 0;) {
    if (dims[i] == 1) {
      continue;
    }
    bool joins = kept > 0;
    for (uint32_t k = 0; k < operands; k++) {
      reach[k] += (dims[i] - 1) * strides[k][i];
      joins = joins && strides[k][i] == nd->strides[k][kept - 1] * nd->dims[kept - 1].size;
    }
    if (joins) {
      nd->dims[kept - 1].size *= dims[i];
      continue;
    }
    nd->dims[kept].size = dims[i];
    for (uint32_t k = 0; k < operands; k++) {
      nd->strides[k][kept] = strides[k][i];
    }
    kept++;
  }
  nd->rank = kept;

  bool wide = numel > INT32_MAX;
  for (uint32_t k = 0; k < operands; k++) {
    wide = wide || reach[k] > INT32_MAX;
  }
  for (uint32_t d = 0; d < kept; d++) {
    crk_priv_nd_dim_init(&nd->dims[d], nd->dims[d].size, wide);
  }

  nd->flags = wide ? CRK_ND_WIDE : 0;
  if (kept <= 1 || nd->dims[0].size % vector == 0) {
    nd->flags |= CRK_ND_VECTOR;
  }
  for (uint32_t k = 0; k < operands; k++) {
    bool unit = kept == 0 || nd->strides[k][0] == 1;
    for (uint32_t d = 1; d < kept; d++) {
      unit = unit && nd->strides[k][d] % vector == 0;
    }
    if (unit) {
      nd->flags |= (uint32_t)CRK_ND_UNIT << k;
    }
  }
}

void crk_priv_nd_walk_strips(crk_nd_t *nd, uint64_t rows, uint64_t columns, uint32_t log2_width) {
  if ((nd->flags & CRK_ND_WIDE) != 0) {
    return;
  }
  const uint64_t last = columns & (((uint64_t)1 << log2_width) - 1);
  crk_nd_strips_t *strips = &nd->strips;
  crk_priv_nd_dim_init(&strips->matrix, rows * columns, false);
  crk_priv_nd_dim_init(&strips->strip, rows << log2_width, false);
  crk_priv_nd_dim_init(&strips->last, last != 0 ? last : 1, false);
  strips->columns = (uint32_t)columns;
  strips->log2_width = log2_width;
  strips->whole = (uint32_t)(columns >> log2_width);
  strips->unused = 0;
  nd->flags |= CRK_ND_STRIPS;
}
