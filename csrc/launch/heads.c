/* Shared by the launchers of products and of rotary embeddings (kernels/reduce/rope_heads.h). */
#include "launch/heads.h"

#include "launch/sliding.h"

#define PART_NAMES(i) {"parts[" #i "].layout", "parts[" #i "].weights", "parts[" #i "].dst", "parts[" #i "].bias"}
const crk_matrix_names_t crk_priv_head_names[CRK_MOST_GROUPED] = {PART_NAMES(0), PART_NAMES(1), PART_NAMES(2)};

static uint32_t element_bytes(const crk_heads_t *heads) { return (uint32_t)crk_dtype_size(heads->dtype); }

/* Elements of a part's dst, from its first to its last one. */
static crk_status_t dst_elements(const crk_heads_t *heads, size_t i, size_t *elements) {
  const crk_head_weights_t *part = &heads->parts[i];
  *elements = 0;
  return part->heads == 0 ? CRK_OK
                          : crk_priv_strided_extent(heads->where, "elements of dst", part->heads, part->head_stride,
                                                    heads->d, elements);
}

crk_status_t crk_priv_heads_check(const crk_heads_t *heads) {
  const char *where = heads->where;
  const size_t d = heads->d;
  CRK_REFUSE_IF(heads->kind != CRK_ROPE_KIND_ROPE && heads->kind != CRK_ROPE_KIND_ROPE_I,
                "%s: kind %d is neither ROPE nor ROPE_I", where, (int)heads->kind);
  CRK_REFUSE_IF(d == 0 || d % 2 != 0, "%s: d is %zu; it must be even and not 0", where, d);
  CRK_REFUSE_IF(heads->count == 0 || heads->count > CRK_MOST_GROUPED, "%s: count is %zu; it must be 1 to %d", where,
                heads->count, CRK_MOST_GROUPED);
  CRK_REFUSE_IF(heads->parts == NULL, "%s: parts is NULL", where);
  CRK_TRY(crk_priv_check_elements(where, "cos", heads->cos, d / 2, element_bytes(heads)));
  CRK_TRY(crk_priv_check_elements(where, "sin", heads->sin, d / 2, element_bytes(heads)));
  for (size_t i = 0; i < heads->count; i++) {
    const crk_head_weights_t *part = &heads->parts[i];
    size_t rows, elements;
    CRK_TRY(crk_priv_checked_product(where, "rows", part->heads, d, &rows));
    CRK_REFUSE_IF(rows > INT32_MAX, "%s: parts[%zu].heads is %zu, and d is %zu; at most %d rows are allowed", where, i,
                  part->heads, d, INT32_MAX);
    CRK_REFUSE_IF(part->heads > 1 && part->head_stride < d,
                  "%s: parts[%zu].head_stride is %zu, less than d, which is %zu", where, i, part->head_stride, d);
    CRK_TRY(dst_elements(heads, i, &elements));
    CRK_TRY(crk_priv_check_elements(where, crk_priv_head_names[i].dst, crk_const(part->dst), elements,
                                    element_bytes(heads)));
    if (crk_priv_is_given(part->bias)) {
      CRK_TRY(crk_priv_check_elements(where, crk_priv_head_names[i].bias, part->bias, rows, element_bytes(heads)));
    }
  }
  return CRK_OK;
}

crk_status_t crk_priv_heads_check_apart(const crk_heads_t *heads) {
  const size_t bytes = element_bytes(heads), angles = heads->d / 2 * bytes;
  crk_region_t results[CRK_MOST_GROUPED],
      sources[2 * CRK_MOST_GROUPED + 3] = {
          {"x", heads->x.ptr, heads->x_bytes}, {"cos", heads->cos.ptr, angles}, {"sin", heads->sin.ptr, angles}};
  for (size_t i = 0; i < heads->count; i++) {
    const crk_head_weights_t *part = &heads->parts[i];
    const crk_matrix_names_t *names = &crk_priv_head_names[i];
    size_t elements;
    CRK_TRY(dst_elements(heads, i, &elements));
    results[i] = (crk_region_t){names->dst, part->dst.ptr, elements * bytes};
    sources[2 * i + 3] = (crk_region_t){names->weights, heads->weights[i], heads->weights_bytes[i]};
    sources[2 * i + 4] =
        (crk_region_t){names->bias, part->bias.ptr, part->bias.ptr == NULL ? 0 : part->heads * heads->d * bytes};
  }
  return crk_priv_check_all_apart(heads->where, results, heads->count, sources, 2 * heads->count + 3);
}

crk_rope_heads_t crk_priv_heads_args(const crk_heads_t *heads) {
  crk_rope_heads_t args = {
      .cos = heads->cos.ptr, .sin = heads->sin.ptr, .interleaved = heads->kind == CRK_ROPE_KIND_ROPE_I};
  crk_priv_divisor_init(&args.half, heads->d / 2, false);
  for (size_t i = 0; i < heads->count; i++) {
    args.strides[i] = heads->parts[i].head_stride;
    args.rotates |= (uint32_t)heads->parts[i].rotates << i;
  }
  return args;
}
