/* Launchers of rotary embeddings (kernels/reduce/rope_pairs.h). */
#include "call/rope_call.h"
#include "launch/quantized.h"
#include "launch/sliding.h"

CRK_OP_FROM_ROOT(crk_rope_kind_from_root, crk_rope_kind_t, roots, CRK_ROPE_MAP)

enum { ROPE_KINDS = 0 CRK_ROPE_MAP(CRK_COUNT_ONE) };

/* The kernels, by what a thread rotates: one pair, or 16 bytes of pairs in one, two or four heads. These heads share
 * angles, and their loads are in flight at once. Halves have no HEADS4: their pairs would take too many registers. */
enum { PAIR, HEADS1, HEADS2, HEADS4, ROPE_WAYS };
static const char *const suffixes[ROPE_WAYS] = {"pair", "heads1", "heads2", "heads4"};
_Static_assert(2 * (int)ROPE_WAYS * (int)CRK_DTYPE_COUNT == CRK_SLOTS_OF(ROPE), "as the list of slots counts");

typedef struct angles {
  const char *layout_name, *view_name;
  const crk_layout_t *layout;
  crk_const_view_t view;
  const void *first;
  size_t numel;
  size_t batch_stride; /* 0 where all batches share the angles */
} angles_t;

typedef struct shape {
  size_t batch, heads, tokens, d;
} shape_t;

static crk_status_t check_angles(const char *where, angles_t *angles, const shape_t *shape, uint32_t bytes) {
  const char *name = angles->layout_name;
  const crk_layout_t *l = angles->layout;
  const crk_tensor_t tensor = {name, angles->view_name, l, angles->view, bytes};
  CRK_TRY(crk_priv_tensor_check(where, &tensor, &angles->numel, &angles->first));
  CRK_REFUSE_IF(l->rank != 2 && l->rank != 3, "%s: %s.rank is %u; it must be 2 or 3", where, name, (unsigned)l->rank);
  const size_t *dims = l->dims + (l->rank - 2);
  CRK_REFUSE_IF(l->rank == 3 && l->dims[0] != shape->batch,
                "%s: %s.dims[0] is %zu, but src_layout has %zu batches; they must be equal", where, name, l->dims[0],
                shape->batch);
  CRK_REFUSE_IF(dims[0] < shape->tokens, "%s: %s.dims[%u] is %zu, less than the %zu tokens of src_layout", where, name,
                l->rank - 2, dims[0], shape->tokens);
  CRK_REFUSE_IF(dims[1] != shape->d / 2, "%s: %s.dims[%u] is %zu; it must be %zu, half of src_layout.dims[3]", where,
                name, l->rank - 1, dims[1], shape->d / 2);
  angles->batch_stride = l->rank == 3 ? dims[0] * dims[1] : 0;
  return CRK_OK;
}

crk_status_t crk_rope(crk_device_t self, crk_rope_kind_t kind, crk_dtype_t dtype, const crk_layout_t *src_layout,
                      crk_const_view_t src, const crk_layout_t *cos_layout, crk_const_view_t cos,
                      const crk_layout_t *sin_layout, crk_const_view_t sin, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_rope");
  CRK_REFUSE_IF((unsigned)kind >= ROPE_KINDS, "crk_rope: kind %d is not a value of crk_rope_kind_t", (int)kind);
  CRK_TRY(crk_priv_check_wide_float("crk_rope", dtype));
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  const crk_tensor_t source = {"src_layout", "src", src_layout, src, bytes};
  size_t numel;
  const void *from;
  void *to = dst.ptr;
  CRK_TRY(crk_priv_tensor_check("crk_rope", &source, &numel, &from));
  CRK_REFUSE_IF(src_layout->rank != 4, "crk_rope: src_layout.rank is %u; it must be 4", (unsigned)src_layout->rank);
  const size_t *dims = src_layout->dims;
  const bool is_thd = kind == CRK_ROPE_KIND_ROPE_THD;
  const shape_t shape = {dims[0], dims[is_thd ? 2 : 1], dims[is_thd ? 1 : 2], dims[3]};
  CRK_REFUSE_IF(shape.d % 2 != 0, "crk_rope: src_layout.dims[3] is %zu, not even", shape.d);
  angles_t angles[2] = {{.layout_name = "cos_layout", .view_name = "cos", .layout = cos_layout, .view = cos},
                        {.layout_name = "sin_layout", .view_name = "sin", .layout = sin_layout, .view = sin}};
  for (int i = 0; i < 2; i++) {
    CRK_TRY(check_angles("crk_rope", &angles[i], &shape, bytes));
  }
  if (numel == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_elements("crk_rope", "dst", crk_const(dst), numel, bytes));
  if (from != to) {
    CRK_TRY(crk_priv_check_apart("crk_rope", "dst", to, numel * bytes, "src", from, numel * bytes));
  }
  for (int i = 0; i < 2; i++) {
    CRK_TRY(crk_priv_check_apart("crk_rope", "dst", to, numel * bytes, angles[i].view_name, angles[i].first,
                                 angles[i].numel * bytes));
  }

  /* A thread has the pairs of a pack in one head, or in two or four heads if every unit then still gets a block. */
  const size_t half = shape.d / 2, vector = 16 / bytes;
  const uintptr_t addresses = (uintptr_t)from | (uintptr_t)angles[0].first | (uintptr_t)angles[1].first | (uintptr_t)to;
  const bool in_packs = half % vector == 0 && addresses % 16 == 0;
  const size_t unit = in_packs ? vector : 1;
  const size_t enough = (size_t)crk_priv_units(self) * 256;
  const uint32_t last_way = !in_packs ? PAIR : bytes < 4 ? HEADS2 : HEADS4;
  uint32_t way = in_packs ? HEADS1 : PAIR;
  size_t at_once = 1;
  while (way != last_way && shape.heads % (2 * at_once) == 0 && numel / (4 * unit * at_once) >= enough) {
    way++;
    at_once *= 2;
  }
  const size_t token_step = is_thd ? shape.heads * shape.d : shape.d;
  const uint64_t head_step = is_thd ? shape.d : shape.tokens * shape.d;
  const bool is_interleaved = kind == CRK_ROPE_KIND_ROPE_I;
  const size_t heads = shape.heads / at_once, between = at_once * head_step;
  const size_t inner = is_interleaved && !in_packs ? 2 : unit;
  /* Interleaved packs have half as many pairs each. */
  const size_t inner_angle = is_interleaved && in_packs ? unit / 2 : unit;
  /* The order of dims that makes neighbouring threads read neighbouring memory. */
  const size_t space[4] = {shape.batch, is_thd ? shape.tokens : heads, is_thd ? heads : shape.tokens, half / unit};
  size_t strides[3][4] = {
      {shape.heads * shape.tokens * shape.d, is_thd ? token_step : between, is_thd ? between : token_step, inner}};
  for (int i = 0; i < 2; i++) {
    const size_t of_angles[4] = {angles[i].batch_stride, is_thd ? half : 0, is_thd ? 0 : half, inner_angle};
    for (int k = 0; k < 4; k++) {
      strides[i + 1][k] = of_angles[k];
    }
  }
  const size_t *const operands[3] = {strides[0], strides[1], strides[2]};
  crk_nd_t nd;
  crk_priv_nd_init(&nd, numel / (2 * unit * at_once), 4, space, operands, 3, 1);

  /* The kinds ROPE and ROPE_THD share kernels: they only differ in strides. */
  const char *root = is_interleaved ? "rope_i" : "rope";
  const uint32_t slot =
      CRK_SLOT_ROPE + ((is_interleaved ? 1 : 0) * (uint32_t)ROPE_WAYS + way) * CRK_DTYPE_COUNT + (uint32_t)dtype;
  crk_function_t function;
  CRK_TRY(
      CRK_KERNEL_GET(self, slot, CRK_MODULE_ROPE, &function, "%s_%s_%s", root, crk_dtype_name(dtype), suffixes[way]));
  const uint64_t to_second = half;
  const void *args[8] = {&nd, &from, &angles[0].first, &angles[1].first, &to, &to_second, &head_step};
  return crk_priv_launch_threads(self, function, nd.numel, args, 7);
}

/* ---- queries, keys and values together */

enum { BATCH, HEADS, TOKENS, COLUMNS, RANK };
enum { PARTS = 3, SOURCES = PARTS + 4 };

/* The arguments of crk_rope_qkv or of crk_norm_rope_qkv. */
typedef struct qkv {
  const char *where;
  crk_rope_kind_t kind;
  crk_dtype_t src_dtype, dtype;
  const crk_rope_rows_t *rows;
  const crk_layout_t *cos_layout, *sin_layout;
  crk_const_view_t cos, sin;
  bool has_norm;
  crk_const_view_t alphas[2]; /* of queries and keys */
  float eps;
} qkv_t;

/* Checks one of the tensors of a part, and gives its memory. `extent` is that of its layout. */
static crk_status_t check_rows(const char *where, const crk_tensor_t *tensor, const crk_extent_t *extent,
                               const shape_t *shape, crk_region_t *region) {
  const char *layout_name = tensor->layout_name;
  const crk_layout_t *layout = tensor->layout;
  const size_t wanted[RANK] = {shape->batch, shape->heads, shape->tokens, shape->d};
  for (int i = 0; i < RANK; i++) {
    CRK_REFUSE_IF(layout->dims[i] != wanted[i], "%s: %s.dims[%d] is %zu; it must be %zu, as of the others", where,
                  layout_name, i, layout->dims[i], wanted[i]);
  }
  CRK_REFUSE_IF(layout->strides[COLUMNS] != 1 && shape->d > 1,
                "%s: %s.strides[%d] is %zu; the last dim must be contiguous", where, layout_name, COLUMNS,
                layout->strides[COLUMNS]);
  *region = (crk_region_t){tensor->view_name, NULL,
                           extent->numel != 0 ? (extent->last - layout->offset + 1) * tensor->bytes : 0};
  return crk_priv_tensor_first(where, tensor, extent, &region->first);
}

/* A call as it was checked. */
typedef struct checked {
  crk_rope_qkv_call_t call;
  size_t batch, heads, tokens, d; /* heads of all parts */
  uintptr_t src_places, dst_places; /* all addresses and strides, as bytes, with their bits together; cos and sin are
                                     * with dst */
} checked_t;

/* Checks part `i` and adds it to the call. The first part sets `shape`; each sets `shape->heads`. */
static crk_status_t check_part(const qkv_t *given, int i, shape_t *shape, crk_region_t *source, crk_region_t *result,
                               checked_t *checked) {
  static const char *const names[PARTS][4] = {
      {"rows[0].src_layout", "rows[0].src", "rows[0].dst_layout", "rows[0].dst"},
      {"rows[1].src_layout", "rows[1].src", "rows[1].dst_layout", "rows[1].dst"},
      {"rows[2].src_layout", "rows[2].src", "rows[2].dst_layout", "rows[2].dst"}};
  const char *where = given->where;
  const uint32_t src_bytes = (uint32_t)crk_dtype_size(given->src_dtype), bytes = (uint32_t)crk_dtype_size(given->dtype);
  const crk_rope_rows_t *rows = &given->rows[i];
  const crk_tensor_t src = {names[i][0], names[i][1], rows->src_layout, rows->src, src_bytes};
  const crk_tensor_t dst = {names[i][2], names[i][3], rows->dst_layout, crk_const(rows->dst), bytes};
  crk_extent_t src_extent, dst_extent;
  CRK_TRY(crk_priv_check_rank(where, src.layout_name, src.layout, RANK, &src_extent));
  CRK_TRY(crk_priv_check_rank(where, dst.layout_name, dst.layout, RANK, &dst_extent));
  const size_t *dims = rows->src_layout->dims;
  const shape_t first = {dims[BATCH], dims[HEADS], dims[TOKENS], dims[COLUMNS]};
  *shape = i == 0 ? first : (shape_t){shape->batch, dims[HEADS], shape->tokens, shape->d};
  CRK_TRY(check_rows(where, &src, &src_extent, shape, source));
  CRK_TRY(check_rows(where, &dst, &dst_extent, shape, result));
  if (dst_extent.numel != 0) {
    CRK_TRY(crk_priv_check_no_sharing(where, dst.view_name, dst.layout));
  }
  CRK_REFUSE_IF(shape->heads > INT32_MAX, "%s: %s.dims[1] is %zu, at most %d is allowed", where, names[i][0],
                shape->heads, INT32_MAX);
  crk_rope_part_t *part = &checked->call.parts[i];
  *part = (crk_rope_part_t){.src = source->first, .dst = (void *)result->first, .heads = (uint32_t)shape->heads};
  for (int k = 0; k < COLUMNS; k++) {
    part->src_strides[k] = rows->src_layout->strides[k];
    part->dst_strides[k] = rows->dst_layout->strides[k];
    checked->src_places |= (dims[k] > 1 ? part->src_strides[k] : 0) * src_bytes;
    checked->dst_places |= (dims[k] > 1 ? part->dst_strides[k] : 0) * bytes;
  }
  checked->src_places |= (uintptr_t)source->first;
  checked->dst_places |= (uintptr_t)result->first;
  checked->heads += shape->heads;
  return CRK_OK;
}

static crk_status_t check_qkv(const qkv_t *given, checked_t *checked) {
  static const char *const alpha_names[] = {"q_alpha", "k_alpha"};
  const char *where = given->where;
  CRK_REFUSE_IF(given->rows == NULL, "%s: rows is NULL", where);
  const uint32_t src_bytes = (uint32_t)crk_dtype_size(given->src_dtype), bytes = (uint32_t)crk_dtype_size(given->dtype);
  *checked = (checked_t){.heads = 0};
  crk_region_t sources[SOURCES] = {{NULL, NULL, 0}}, results[PARTS];
  shape_t shape = {0};
  for (int i = 0; i < PARTS; i++) {
    CRK_TRY(check_part(given, i, &shape, &sources[i], &results[i], checked));
  }
  checked->batch = shape.batch;
  checked->tokens = shape.tokens;
  checked->d = shape.d;
  CRK_REFUSE_IF(shape.d % 2 != 0, "%s: rows[0].src_layout.dims[3] is %zu, not even", where, shape.d);
  angles_t angles[2] = {
      {.layout_name = "cos_layout", .view_name = "cos", .layout = given->cos_layout, .view = given->cos},
      {.layout_name = "sin_layout", .view_name = "sin", .layout = given->sin_layout, .view = given->sin}};
  for (int i = 0; i < 2; i++) {
    CRK_TRY(check_angles(where, &angles[i], &shape, bytes));
    sources[PARTS + i] = (crk_region_t){angles[i].view_name, angles[i].first, angles[i].numel * bytes};
    checked->dst_places |= (uintptr_t)angles[i].first;
  }
  for (int i = 0; i < 2 && given->has_norm; i++) {
    CRK_TRY(crk_priv_check_elements(where, alpha_names[i], given->alphas[i], shape.d, src_bytes));
    sources[PARTS + 2 + i] = (crk_region_t){alpha_names[i], given->alphas[i].ptr, shape.d * src_bytes};
    checked->src_places |= (uintptr_t)given->alphas[i].ptr;
  }
  CRK_TRY(crk_priv_check_all_apart(where, results, PARTS, sources, SOURCES));
  crk_rope_qkv_call_t *call = &checked->call;
  call->cos = angles[0].first;
  call->sin = angles[1].first;
  call->cos_stride = angles[0].batch_stride;
  call->sin_stride = angles[1].batch_stride;
  return CRK_OK;
}

/* Shares the pairs out: `unit` of them for each thread. numel is 0 where there is nothing to do. */
static crk_status_t share_pairs(const char *where, checked_t *checked, size_t unit) {
  const size_t half = checked->d / 2;
  size_t pairs;
  CRK_TRY(crk_priv_checked_product(where, "rows", checked->batch * checked->tokens, checked->heads, &pairs));
  CRK_TRY(crk_priv_checked_product(where, "pairs", pairs, half, &pairs));
  if (pairs > INT32_MAX) {
    return crk_priv_error(CRK_UNSUPPORTED, "%s: %zu pairs, at most %d are allowed", where, pairs, INT32_MAX);
  }
  crk_rope_qkv_call_t *call = &checked->call;
  call->numel = pairs / unit;
  if (pairs != 0) {
    crk_priv_divisor_init(&call->pieces, half / unit, false);
    crk_priv_divisor_init(&call->heads, checked->heads, false);
    crk_priv_divisor_init(&call->tokens, checked->tokens, false);
  }
  return CRK_OK;
}

crk_status_t crk_rope_qkv(crk_device_t self, crk_rope_kind_t kind, crk_dtype_t dtype, const crk_rope_rows_t rows[3],
                          const crk_layout_t *cos_layout, crk_const_view_t cos, const crk_layout_t *sin_layout,
                          crk_const_view_t sin) {
  static const char where[] = "crk_rope_qkv";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_REFUSE_IF(kind != CRK_ROPE_KIND_ROPE && kind != CRK_ROPE_KIND_ROPE_I, "%s: kind %d is neither ROPE nor ROPE_I",
                where, (int)kind);
  CRK_TRY(crk_priv_check_wide_float(where, dtype));
  const qkv_t given = {.where = where,
                       .kind = kind,
                       .src_dtype = dtype,
                       .dtype = dtype,
                       .rows = rows,
                       .cos_layout = cos_layout,
                       .sin_layout = sin_layout,
                       .cos = cos,
                       .sin = sin};
  checked_t checked;
  CRK_TRY(check_qkv(&given, &checked));
  const size_t vector = 16 / crk_dtype_size(dtype);
  const bool in_packs = checked.d / 2 % vector == 0 && (checked.src_places | checked.dst_places) % 16 == 0;
  CRK_TRY(share_pairs(where, &checked, in_packs ? vector : 1));
  if (checked.call.numel == 0) {
    return CRK_OK;
  }
  const bool is_interleaved = kind == CRK_ROPE_KIND_ROPE_I;
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(
      self, CRK_SLOT_ROPE_QKV + ((is_interleaved ? 2 : 0) + (in_packs ? 1 : 0)) * CRK_DTYPE_COUNT + (uint32_t)dtype,
      CRK_MODULE_ROPE, &function, "%s_qkv_%s_%s", is_interleaved ? "rope_i" : "rope", crk_dtype_name(dtype),
      in_packs ? "vec" : "pair"));
  const void *args[2] = {&checked.call};
  return crk_priv_launch_threads(self, function, checked.call.numel, args, 1);
}

crk_status_t crk_norm_rope_qkv(crk_device_t self, crk_dtype_t src_dtype, crk_dtype_t dtype,
                               const crk_rope_rows_t rows[3], crk_const_view_t q_alpha, crk_const_view_t k_alpha,
                               float eps, const crk_layout_t *cos_layout, crk_const_view_t cos,
                               const crk_layout_t *sin_layout, crk_const_view_t sin) {
  static const char where[] = "crk_norm_rope_qkv";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  uint32_t from, to;
  CRK_TRY(crk_priv_activation_named(where, "src_dtype", src_dtype, &from));
  CRK_TRY(crk_priv_activation_index(where, dtype, &to));
  if (src_dtype != CRK_DTYPE_F32 && dtype != src_dtype) {
    return crk_priv_error(CRK_UNSUPPORTED, "%s: no kernel from %s to %s", where, crk_dtype_name(src_dtype),
                          crk_dtype_name(dtype));
  }
  const qkv_t given = {.where = where,
                       .kind = CRK_ROPE_KIND_ROPE,
                       .src_dtype = src_dtype,
                       .dtype = dtype,
                       .rows = rows,
                       .cos_layout = cos_layout,
                       .sin_layout = sin_layout,
                       .cos = cos,
                       .sin = sin,
                       .has_norm = true,
                       .alphas = {q_alpha, k_alpha},
                       .eps = eps};
  checked_t checked;
  CRK_TRY(check_qkv(&given, &checked));
  const size_t element = crk_dtype_size(src_dtype), vector = 16 / element, row = checked.d * element;
  /* A row has at most 32 packs of 16 bytes. crk_rms_norm gives each pack to a lane of its own. */
  if (row < CRK_NORM_ROPE_LEAST_BYTES || row > CRK_NORM_ROPE_MOST_BYTES || (row & (row - 1)) != 0) {
    return crk_priv_error(CRK_UNSUPPORTED, "%s: rows[0].src_layout.dims[3] is %zu; rows of %zu bytes have no kernel",
                          where, checked.d, row);
  }
  const size_t dst_pack = vector * crk_dtype_size(dtype);
  if (checked.src_places % 16 != 0 || checked.dst_places % dst_pack != 0) {
    return crk_priv_error(CRK_UNSUPPORTED,
                          "%s: an address or a stride of the sources is not a multiple of 16 bytes, or one of the "
                          "results, cos or sin not of %zu",
                          where, dst_pack);
  }
  CRK_TRY(share_pairs(where, &checked, vector));
  if (checked.call.numel == 0) {
    return CRK_OK;
  }
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_NORM_ROPE_QKV + from * CRK_ACTIVATIONS + to, CRK_MODULE_ROPE, &function,
                         "norm_rope_qkv_%s_%s", crk_dtype_name(src_dtype), crk_dtype_name(dtype)));
  const crk_norm_rope_qkv_call_t call = {
      .rope = checked.call, .q_alpha = q_alpha.ptr, .k_alpha = k_alpha.ptr, .eps = eps};
  const void *args[2] = {&call};
  return crk_priv_launch_threads(self, function, call.rope.numel, args, 1);
}
