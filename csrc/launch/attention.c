/* The launcher of attention (kernels/attention/attention_tile.h and attention_split.h). */
#include <math.h>

#include "call/attention_call.h"
#include "launch/quantized.h"
#include "launch/sliding.h"

static const char where[] = "crk_attention";

/* ---- the kernels */

/* What a kernel takes on NVIDIA GPUs. */
typedef struct cuda_sizes {
  uint32_t rows; /* queries per tile */
  uint32_t bytes, small_bytes; /* dynamic shared memory of a tile, and of a small one */
} cuda_sizes_t;

static const struct {
  uint32_t width; /* the largest d and dv */
  uint32_t rows; /* queries per tile */
  cuda_sizes_t cuda_half, cuda_float;
} widths[] = {
#define CUDA_SIZES(bytes, width, rows)                                                  \
  {CRK_ATTENTION_CUDA_ROWS(bytes, width, rows),                                         \
   CRK_ATTENTION_CUDA_BYTES(bytes, width, CRK_ATTENTION_CUDA_ROWS(bytes, width, rows)), \
   CRK_ATTENTION_CUDA_BYTES(bytes, width, CRK_ATTENTION_SMALL_ROWS)}
#define XX(width, rows, threads) {width, rows, CUDA_SIZES(2, width, rows), CUDA_SIZES(4, width, rows)},
    CRK_ATTENTION_WIDTHS(XX)
#undef XX
#undef CUDA_SIZES
};
enum {
  WIDTHS = sizeof widths / sizeof *widths,
#define XX(width, rows, threads) +1
  NARROW_WIDTHS = 0 CRK_ATTENTION_NARROW_WIDTHS(XX), /* the first ones */
  SMALL_WIDTHS = NARROW_WIDTHS CRK_ATTENTION_WIDE_WIDTHS(XX), /* these and the next ones: they have small tiles */
#undef XX
#define XX(width, rows, threads) *0 + width
  LAST_WIDTH = 0 CRK_ATTENTION_WIDTHS(XX), /* the last one in the list */
#undef XX
  FORMS = 2, /* plain, and general: also a cap, slopes, a mask or prefixes, and any scale */
  DIM_STEP = 8 /* d and dv are multiples of it */
};
_Static_assert((int)WIDTHS *(int)CRK_ACTIVATIONS *(int)FORMS == CRK_SLOTS_OF(ATTENTION_TILES) &&
                   (int)SMALL_WIDTHS * (int)CRK_ACTIVATIONS * (int)FORMS == CRK_SLOTS_OF(ATTENTION_SMALL_TILES),
               "as the list of slots counts");
_Static_assert((int)LAST_WIDTH == CRK_ATTENTION_MOST_DIM, "the kernels serve dims as large as the header says");

/* ---- the problem */

enum { BATCH, HEADS, TOKENS, COLUMNS, RANK }; /* the dims of q, k, v and dst */

/* An argument. Without a layout it is a row of `extent.numel` elements. */
typedef struct argument {
  crk_tensor_t tensor;
  crk_extent_t extent;
  const void *first;
  size_t bytes; /* from the first element to the last; 0 if it is absent or empty */
} argument_t;

typedef enum input { Q, K, V, SLOPES, MASK, Q_STARTS, K_STARTS, BLOCK_TABLE, PREFIXES, INPUTS } input_t;

typedef struct problem {
  crk_attention_t given;
  uint32_t dtype_index, element_bytes; /* of q, k, v and dst */
  argument_t inputs[INPUTS], dst, lse, columns;
  bool has_starts;
  size_t sequences, heads, kv_heads, queries, keys, d, dv; /* queries and keys: the most of a sequence */
  bool is_general; /* a score needs more than a positive scale and its window */
  crk_attention_call_t call;
} problem_t;

static bool is_given(const problem_t *problem, input_t input) { return problem->inputs[input].tensor.layout != NULL; }

/* ---- checks of sizes */

static crk_status_t check_dim(const argument_t *argument, uint32_t dim, size_t wanted, const char *as) {
  const size_t size = argument->tensor.layout->dims[dim];
  CRK_REFUSE_IF(size != wanted, "%s: %s.dims[%u] is %zu; it must be %zu, %s", where, argument->tensor.layout_name,
                (unsigned)dim, size, wanted, as);
  return CRK_OK;
}

/* Fails where a size, or a number of tokens, does not fit the kernels' 31 bits. */
static crk_status_t check_size(const char *name, size_t size) {
  CRK_REFUSE_IF(size > INT32_MAX, "%s: %s is %zu, at most %d is allowed", where, name, size, INT32_MAX);
  return CRK_OK;
}

static crk_status_t check_layout(argument_t *argument, uint32_t rank) {
  return crk_priv_check_rank(where, argument->tensor.layout_name, argument->tensor.layout, rank, &argument->extent);
}

/* Checks the rank of q, k, v or dst, and its last dim. */
static crk_status_t check_heads_layout(argument_t *argument) {
  CRK_TRY(check_layout(argument, RANK));
  const crk_layout_t *layout = argument->tensor.layout;
  const size_t columns = layout->dims[COLUMNS];
  if (columns == 0 || columns % DIM_STEP != 0 || columns > CRK_ATTENTION_MOST_DIM) {
    return crk_priv_error(CRK_UNSUPPORTED,
                          "%s: %s.dims[%d] is %zu; there are kernels for multiples of %d from %d to %d", where,
                          argument->tensor.layout_name, COLUMNS, columns, DIM_STEP, DIM_STEP, CRK_ATTENTION_MOST_DIM);
  }
  CRK_REFUSE_IF(layout->strides[COLUMNS] != 1, "%s: %s.strides[%d] is %zu; the last dim must be contiguous", where,
                argument->tensor.layout_name, COLUMNS, layout->strides[COLUMNS]);
  return CRK_OK;
}

/* Checks the starts, and sets the number of sequences and their lengths. */
static crk_status_t check_starts(problem_t *problem) {
  const crk_attention_t *given = &problem->given;
  const crk_layout_t *q = given->q_layout, *k = given->k_layout;
  problem->has_starts = crk_priv_is_given(given->q_starts) || crk_priv_is_given(given->k_starts);
  if (!problem->has_starts) {
    CRK_REFUSE_IF(given->sequences != 0, "%s: sequences is %zu, but q_starts and k_starts are NULL", where,
                  given->sequences);
    CRK_REFUSE_IF(given->max_queries != 0, "%s: max_queries is %zu; without q_starts it must be 0", where,
                  given->max_queries);
    CRK_REFUSE_IF(given->max_keys != 0, "%s: max_keys is %zu; without k_starts it must be 0", where, given->max_keys);
    CRK_REFUSE_IF(is_given(problem, BLOCK_TABLE), "%s: block_table_layout needs q_starts and k_starts, which are NULL",
                  where);
    problem->sequences = q->dims[BATCH];
    problem->queries = q->dims[TOKENS];
    problem->keys = k->dims[TOKENS];
    return CRK_OK;
  }
  CRK_TRY(check_size("sequences", given->sequences));
  CRK_TRY(check_size("max_queries", given->max_queries));
  CRK_TRY(check_size("max_keys", given->max_keys));
  if (problem->inputs[Q].extent.numel != 0) {
    const size_t tokens = q->dims[TOKENS];
    CRK_REFUSE_IF(given->sequences == 0, "%s: sequences is 0, but q has %zu tokens", where, tokens);
    CRK_REFUSE_IF(given->max_queries == 0, "%s: max_queries is 0, but q has %zu tokens", where, tokens);
  }
  problem->sequences = given->sequences;
  problem->queries = crk_priv_least(given->max_queries, q->dims[TOKENS]); /* no sequence has more */
  problem->keys = given->max_keys;
  problem->inputs[Q_STARTS].extent.numel = problem->inputs[K_STARTS].extent.numel = given->sequences + 1;
  return check_dim(&problem->inputs[Q], BATCH, 1, "with q_starts");
}

static crk_status_t check_block_table(problem_t *problem) {
  argument_t *table = &problem->inputs[BLOCK_TABLE];
  const size_t block = problem->given.k_layout->dims[TOKENS];
  CRK_TRY(check_layout(table, 2));
  CRK_TRY(check_dim(table, 0, problem->sequences, "as sequences"));
  const crk_layout_t *layout = table->tensor.layout;
  CRK_REFUSE_IF(layout->dims[1] > 1 && layout->strides[1] != 1,
                "%s: block_table_layout.strides[1] is %zu; its rows must be contiguous", where, layout->strides[1]);
  CRK_REFUSE_IF(problem->keys != 0 && (block == 0 || layout->dims[1] < crk_priv_ceil_div(problem->keys, block)),
                "%s: block_table_layout.dims[1] is %zu; that many blocks of %zu keys (k_layout.dims[2]) are fewer than "
                "max_keys, %zu",
                where, layout->dims[1], block, problem->keys);
  return CRK_OK;
}

/* Checks the dims of q, k, v and dst, and sets the problem's sizes. */
static crk_status_t check_dims(problem_t *problem) {
  argument_t *q = &problem->inputs[Q], *k = &problem->inputs[K], *v = &problem->inputs[V], *dst = &problem->dst;
  CRK_TRY(check_heads_layout(q));
  CRK_TRY(check_heads_layout(k));
  CRK_TRY(check_heads_layout(v));
  CRK_TRY(check_heads_layout(dst));
  const size_t *q_dims = q->tensor.layout->dims, *k_dims = k->tensor.layout->dims, *v_dims = v->tensor.layout->dims;
  problem->heads = q_dims[HEADS];
  problem->kv_heads = k_dims[HEADS];
  problem->d = q_dims[COLUMNS];
  problem->dv = v_dims[COLUMNS];
  CRK_TRY(check_dim(k, COLUMNS, problem->d, "as q_layout's"));
  CRK_TRY(check_dim(v, BATCH, k_dims[BATCH], "as k_layout's"));
  CRK_TRY(check_dim(v, HEADS, problem->kv_heads, "as k_layout's"));
  CRK_TRY(check_dim(v, TOKENS, k_dims[TOKENS], "as k_layout's"));
  CRK_TRY(check_dim(dst, BATCH, q_dims[BATCH], "as q_layout's"));
  CRK_TRY(check_dim(dst, HEADS, problem->heads, "as q_layout's"));
  CRK_TRY(check_dim(dst, TOKENS, q_dims[TOKENS], "as q_layout's"));
  CRK_TRY(check_dim(dst, COLUMNS, problem->dv, "as v_layout's"));
  CRK_REFUSE_IF(problem->kv_heads == 0 ? problem->heads != 0 : problem->heads % problem->kv_heads != 0,
                "%s: q_layout.dims[%d] is %zu heads; it must be a multiple of k_layout.dims[%d], %zu heads", where,
                HEADS, problem->heads, HEADS, problem->kv_heads);
  CRK_TRY(check_size("q_layout.dims[0]", q_dims[BATCH]));
  CRK_TRY(check_size("q_layout.dims[1]", q_dims[HEADS]));
  CRK_TRY(check_size("q_layout.dims[2]", q_dims[TOKENS]));
  CRK_TRY(check_size("k_layout.dims[2]", k_dims[TOKENS]));
  CRK_TRY(check_starts(problem));
  return is_given(problem, BLOCK_TABLE)
             ? check_block_table(problem)
             : check_dim(k, BATCH, q_dims[BATCH], problem->has_starts ? "with k_starts" : "as q_layout's");
}

/* Checks scale, softcap, slopes, mask and prefixes, but not their memory. */
static crk_status_t check_scores(problem_t *problem) {
  const crk_attention_t *given = &problem->given;
  argument_t *slopes = &problem->inputs[SLOPES], *mask = &problem->inputs[MASK], *prefixes = &problem->inputs[PREFIXES];
  static const char sequences[] = "the number of sequences";
  CRK_REFUSE_IF(!isfinite(given->scale), "%s: scale is %g; it must be a finite number", where, (double)given->scale);
  CRK_REFUSE_IF(!isfinite(given->softcap) || given->softcap < 0,
                "%s: softcap is %g; it must be a positive number, or 0 for none", where, (double)given->softcap);
  /* The plain kernels take the maximum of the scores before they scale them. */
  problem->is_general = !(given->scale > 0) || given->softcap != 0 || is_given(problem, SLOPES) ||
                        is_given(problem, MASK) || is_given(problem, PREFIXES);
  if (is_given(problem, SLOPES)) {
    CRK_TRY(check_layout(slopes, 2));
    CRK_TRY(check_dim(slopes, 0, problem->sequences, sequences));
    CRK_TRY(check_dim(slopes, 1, problem->heads, "as q_layout.dims[1]"));
  }
  if (is_given(problem, MASK)) {
    CRK_TRY(crk_priv_check_dtype(where, "mask_dtype", given->mask_dtype));
    if (given->mask_dtype != given->dtype && given->mask_dtype != CRK_DTYPE_F32 && given->mask_dtype != CRK_DTYPE_U8) {
      return crk_priv_error(CRK_UNSUPPORTED, "%s: mask_dtype is %s; use %s, f32 or u8", where,
                            crk_dtype_name(given->mask_dtype), crk_dtype_name(given->dtype));
    }
    mask->tensor.bytes = (uint32_t)crk_dtype_size(given->mask_dtype);
    CRK_TRY(check_layout(mask, RANK));
    CRK_TRY(check_dim(mask, 0, problem->sequences, sequences));
    CRK_TRY(check_dim(mask, 1, problem->heads, "as q_layout.dims[1]"));
    CRK_TRY(check_dim(mask, 2, problem->has_starts ? given->max_queries : problem->queries,
                      problem->has_starts ? "as max_queries" : "as q_layout.dims[2]"));
    CRK_TRY(check_dim(mask, 3, problem->keys, problem->has_starts ? "as max_keys" : "as k_layout.dims[2]"));
  }
  if (is_given(problem, PREFIXES)) {
    CRK_TRY(check_layout(prefixes, 3));
    CRK_TRY(check_dim(prefixes, 0, problem->sequences, sequences));
    CRK_TRY(check_dim(prefixes, 2, 2, "a beginning and an end"));
    CRK_TRY(check_size("prefixes_layout.dims[1]", prefixes->tensor.layout->dims[1]));
    CRK_REFUSE_IF(!prefixes->extent.is_contiguous, "%s: prefixes_layout is not contiguous; copy the tensor first",
                  where);
  }
  return CRK_OK;
}

/* ---- checks of memory */

/* Finds an argument's memory, and fails where its layout reaches beyond its view. */
static crk_status_t find_memory(argument_t *argument) {
  const crk_tensor_t *tensor = &argument->tensor;
  const size_t numel = argument->extent.numel;
  if (numel == 0) {
    return CRK_OK;
  }
  if (tensor->layout != NULL) {
    CRK_TRY(crk_priv_tensor_first(where, tensor, &argument->extent, &argument->first));
    argument->bytes = (argument->extent.last - tensor->layout->offset + 1) * tensor->bytes;
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_elements(where, tensor->view_name, tensor->view, numel, tensor->bytes));
  argument->first = tensor->view.ptr;
  argument->bytes = numel * tensor->bytes;
  return CRK_OK;
}

static crk_status_t check_overlap(const argument_t *written, const argument_t *other) {
  return crk_priv_check_apart(where, written->tensor.view_name, written->first, written->bytes, other->tensor.view_name,
                              other->first, other->bytes);
}

/* Fails where dst cannot become columns. */
static crk_status_t check_columns(problem_t *problem) {
  const crk_layout_t *layout = problem->dst.tensor.layout;
  const size_t row = problem->heads * problem->dv;
  const size_t gapless[RANK] = {problem->queries * row, problem->dv, row, 1};
  CRK_REFUSE_IF(problem->has_starts, "%s: columns with q_starts and k_starts; quantize dst after the call", where);
  for (uint32_t dim = 0; dim < RANK; dim++) {
    CRK_REFUSE_IF(layout->dims[dim] > 1 && layout->strides[dim] != gapless[dim],
                  "%s: dst_layout.strides[%u] is %zu; with columns it must be %zu", where, (unsigned)dim,
                  layout->strides[dim], gapless[dim]);
  }
  CRK_REFUSE_IF(row % CRK_Q8_1_BLOCK != 0,
                "%s: dst_layout has %zu heads of %zu elements; with columns a token must have a multiple of %d", where,
                problem->heads, problem->dv, CRK_Q8_1_BLOCK);
  problem->columns.extent.numel = problem->dst.extent.numel / CRK_Q8_1_BLOCK * (CRK_Q8_1_BYTES / sizeof(uint32_t));
  return find_memory(&problem->columns);
}

static crk_status_t check_memory(problem_t *problem) {
  argument_t *dst = &problem->dst, *lse = &problem->lse, *columns = &problem->columns;
  CRK_TRY(crk_priv_check_no_sharing(where, "dst", dst->tensor.layout));
  CRK_TRY(find_memory(dst));
  if (crk_priv_is_given(lse->tensor.view)) {
    lse->extent.numel = dst->extent.numel / problem->dv;
    CRK_TRY(find_memory(lse));
  }
  if (crk_priv_is_given(columns->tensor.view)) {
    CRK_TRY(check_columns(problem));
  }
  CRK_TRY(check_overlap(dst, lse));
  CRK_TRY(check_overlap(columns, dst));
  CRK_TRY(check_overlap(columns, lse));
  for (int i = 0; i < INPUTS; i++) {
    CRK_TRY(find_memory(&problem->inputs[i]));
    CRK_TRY(check_overlap(dst, &problem->inputs[i]));
    CRK_TRY(check_overlap(lse, &problem->inputs[i]));
    CRK_TRY(check_overlap(columns, &problem->inputs[i]));
  }
  return CRK_OK;
}

/* ---- the kernels' arguments */

/* The stride of a dim. Strides of dims of size 1 do not matter, and are 0 so that they do not spoil `by_vectors`. */
static uint64_t stride_of(const argument_t *argument, uint32_t dim) {
  const crk_layout_t *layout = argument->tensor.layout;
  return layout->dims[dim] > 1 ? layout->strides[dim] : 0;
}

static crk_attention_strides_t strides_of(const argument_t *argument) {
  return (crk_attention_strides_t){stride_of(argument, BATCH), stride_of(argument, HEADS), stride_of(argument, TOKENS)};
}

/* Whether all rows begin at multiples of 16 bytes. */
static bool has_aligned_rows(const argument_t *argument, const crk_attention_strides_t *strides) {
  const uint64_t vector = 16 / argument->tensor.bytes;
  return (uintptr_t)argument->first % 16 == 0 && (strides->sequence | strides->head | strides->row) % vector == 0;
}

/* One side of a window as the kernels take it. There is no limit where a window hides none of `tokens` tokens. */
static uint32_t window_of(size_t window, size_t tokens) {
  return tokens > 0 && window < tokens - 1 ? (uint32_t)window : UINT32_MAX;
}

static void describe_scores(problem_t *problem) {
  const crk_attention_t *given = &problem->given;
  const argument_t *inputs = problem->inputs;
  crk_attention_call_t *call = &problem->call;
  call->scale = given->scale;
  call->softcap = given->softcap;
  /* Places are between keys - queries and keys - 1. */
  call->left = window_of(given->left, problem->keys);
  call->right = window_of(given->causal ? 0 : given->right, problem->queries);
  if (is_given(problem, SLOPES)) {
    call->slopes = inputs[SLOPES].first;
    call->slopes_sequence = stride_of(&inputs[SLOPES], 0);
    call->slopes_head = stride_of(&inputs[SLOPES], 1);
  }
  if (inputs[MASK].bytes != 0) {
    call->mask = inputs[MASK].first;
    call->mask_strides = strides_of(&inputs[MASK]);
    call->mask_column = stride_of(&inputs[MASK], COLUMNS);
    call->mask_kind = given->mask_dtype == CRK_DTYPE_U8   ? CRK_ATTENTION_BYTE_MASK
                      : given->mask_dtype == given->dtype ? CRK_ATTENTION_ADD_MASK
                                                          : CRK_ATTENTION_ADD_F32_MASK;
  }
  if (inputs[PREFIXES].bytes != 0) {
    call->prefixes = inputs[PREFIXES].first;
    call->prefix_count = (uint32_t)inputs[PREFIXES].tensor.layout->dims[1];
  }
}

/* Fills in the call, apart from how blocks share the work. */
static void describe_problem(problem_t *problem) {
  const argument_t *inputs = problem->inputs, *dst = &problem->dst;
  crk_attention_call_t *call = &problem->call;
  call->q = inputs[Q].first;
  /* Without keys, k and v may be NULL. Kernels load nothing from them then, but they add offsets to them. */
  call->k = inputs[K].first != NULL ? inputs[K].first : call->q;
  call->v = inputs[V].first != NULL ? inputs[V].first : call->q;
  call->dst = (char *)problem->given.dst.ptr + dst->tensor.layout->offset * dst->tensor.bytes;
  call->q_strides = strides_of(&inputs[Q]);
  call->k_strides = strides_of(&inputs[K]);
  call->v_strides = strides_of(&inputs[V]);
  call->dst_strides = strides_of(dst);
  call->by_vectors = has_aligned_rows(&inputs[Q], &call->q_strides) && has_aligned_rows(&inputs[K], &call->k_strides) &&
                     has_aligned_rows(&inputs[V], &call->v_strides) && has_aligned_rows(dst, &call->dst_strides);
  const size_t tokens = dst->tensor.layout->dims[TOKENS];
  call->lse = problem->given.lse.ptr;
  call->lse_sequence = problem->has_starts ? 0 : problem->heads * tokens;
  call->lse_head = tokens;
  call->q_starts = inputs[Q_STARTS].first;
  call->k_starts = inputs[K_STARTS].first;
  size_t block = 1;
  if (inputs[BLOCK_TABLE].bytes != 0) {
    call->block_table = inputs[BLOCK_TABLE].first;
    call->block_table_row = stride_of(&inputs[BLOCK_TABLE], 0);
    block = inputs[K].tensor.layout->dims[TOKENS];
  }
  crk_priv_divisor_init(&call->block, block, false);
  crk_priv_divisor_init(&call->heads, problem->heads, false);
  crk_priv_divisor_init(&call->group, problem->heads / problem->kv_heads, false);
  call->queries = (uint32_t)problem->queries;
  call->keys = (uint32_t)problem->keys;
  call->d = (uint32_t)problem->d;
  call->dv = (uint32_t)problem->dv;
  describe_scores(problem);
}

/* ---- launches */

static crk_status_t too_many_blocks(const problem_t *problem) {
  return crk_priv_error(CRK_UNSUPPORTED, "%s: %zu queries, %zu heads and %zu sequences are more than %d blocks", where,
                        problem->queries, problem->heads, problem->sequences, INT32_MAX);
}

/* Launches `per_head` blocks for each head of each sequence, in several launches if the device's limit is lower. */
static crk_status_t launch_heads(crk_device_t self, crk_function_t function, problem_t *problem, uint64_t per_head,
                                 uint32_t shared_bytes) {
  crk_attention_call_t *call = &problem->call;
  if (!crk_priv_product_fits(per_head, problem->heads, INT32_MAX) ||
      !crk_priv_product_fits(per_head * problem->heads, problem->sequences, INT32_MAX)) {
    return too_many_blocks(problem);
  }
  uint32_t threads;
  CRK_TRY(crk_priv_block_threads(function, &threads));
  const void *args[] = {call};
  return crk_priv_launch_all_blocks(self, function, per_head * problem->heads * problem->sequences, threads,
                                    shared_bytes, &call->first_block, args);
}

/* The kernel for this problem's widths, one of a table of slots that begins at `slot`. */
static uint32_t slot_of(const problem_t *problem, uint32_t slot, uint32_t width) {
  return slot + (width * CRK_ACTIVATIONS + problem->dtype_index) * FORMS + problem->is_general;
}

static uint32_t choose_width(const problem_t *problem) {
  const size_t most = crk_priv_greatest(problem->d, problem->dv);
  uint32_t width = 0;
  while (widths[width].width < most) {
    width++;
  }
  return width;
}

/* ---- parts of the keys */

/* A row is one query of one head. */
static uint64_t rows_per_kv_head(const problem_t *problem) {
  return problem->queries * (problem->heads / problem->kv_heads);
}

/* The keys that any query sees, about. */
static uint64_t count_seen_keys(const problem_t *problem) {
  const crk_attention_call_t *call = &problem->call;
  const bool has_limit = call->left != UINT32_MAX && call->prefix_count == 0;
  return has_limit ? crk_priv_least(problem->keys, (uint64_t)call->left + problem->queries) : problem->keys;
}

/* Who adds up the parts: the last block of each row to finish, or a second launch. */
typedef enum adder { LAST_BLOCK, SECOND_LAUNCH } adder_t;

/* What a call with several parts needs beside its own kernel; empty with one part. */
typedef struct parts {
  void *scratch; /* the parts' sums */
  crk_function_t combine; /* the kernel of the second launch; NULL without one */
} parts_t;

/* Cuts the keys into `count` parts. */
static crk_status_t begin_parts(crk_device_t self, problem_t *problem, uint64_t count, adder_t adder, parts_t *parts) {
  crk_attention_call_t *call = &problem->call;
  crk_priv_divisor_init(&call->parts, count, false);
  crk_priv_divisor_init(&call->kv_heads, problem->kv_heads, false);
  *parts = (parts_t){NULL, NULL};
  if (count == 1) {
    return CRK_OK;
  }
  const uint64_t rows = problem->sequences * problem->heads * problem->queries;
  if (adder == LAST_BLOCK && rows <= CRK_TICKETS) {
    CRK_TRY(crk_priv_tickets_get(self, &call->tickets));
  } else {
    CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_ATTENTION_COMBINE + problem->dtype_index, CRK_MODULE_ATTENTION_SPLIT,
                           &parts->combine, "attention_%s_combine", crk_dtype_name(problem->given.dtype)));
  }
  CRK_TRY(crk_alloc(self, count * rows * (problem->dv + 2) * sizeof(float), &parts->scratch));
  call->sums = parts->scratch;
  call->weights = call->sums + count * rows * problem->dv;
  return CRK_OK;
}

/* Adds up the parts, unless the last blocks do. `status` is that of the launches since begin_parts. */
static crk_status_t end_parts(crk_device_t self, problem_t *problem, crk_status_t status, const parts_t *parts) {
  if (parts->scratch == NULL) {
    return status;
  }
  if (status == CRK_OK && parts->combine != NULL) {
    crk_priv_divisor_init(&problem->call.tiles, rows_per_kv_head(problem), false);
    status = launch_heads(self, parts->combine, problem, problem->queries, 0);
  }
  return crk_priv_free_after(self, status, parts->scratch);
}

/* ---- many queries */

enum {
  TILE_PART_KEYS = 256, /* the fewest keys of a part */
  RUN_SHARE = 4 /* a run has at most units / RUN_SHARE heads, or one */
};

/* The number of parts of the keys. More than one only where few queries see many keys, as behind a long cache: a prompt
 * takes no scratch memory. */
static uint64_t choose_tile_parts(crk_device_t self, const problem_t *problem, uint64_t blocks) {
  const uint64_t keys = count_seen_keys(problem);
  if (keys / 4 < problem->queries) {
    return 1;
  }
  const uint64_t parts = crk_priv_least(crk_priv_units(self) * 2 / blocks, keys / TILE_PART_KEYS);
  return crk_priv_greatest(parts, 1);
}

/* How many of `heads` heads take turns with their tiles on `units` units. In a causal call, later tiles see more keys.
 * If the tiles of a head followed each other, the last heads' longest ones would begin when the other units have
 * nothing left to do. In runs, the blocks that the units hold at once still have several tiles of each head, which
 * share its keys in the cache. */
static uint64_t choose_run(const problem_t *problem, uint64_t units, uint64_t heads) {
  if (problem->call.right == UINT32_MAX) {
    return 1;
  }
  uint64_t run = crk_priv_least(crk_priv_greatest(units / RUN_SHARE, 1), heads);
  while (heads % run != 0) {
    run--;
  }
  return run;
}

/* Whether tiles are small. They are where tiles of `rows` queries would be at most one per unit of the device, and
 * where a wave of 64 lanes has too few registers for more queries (CRK_ATTENTION_NARROW_WIDTHS). */
static bool are_tiles_small(crk_device_t self, const problem_t *problem, uint32_t width, uint32_t rows) {
  const bool is_half = problem->element_bytes == 2, is_wide = width >= NARROW_WIDTHS;
  if (is_wide) {
    if (!is_half || width >= SMALL_WIDTHS || self->driver->backend == CRK_BACKEND_CUDA) {
      return false;
    }
    if (self->context->info.wave_size == 64) {
      return true;
    }
  } else if (!is_half && problem->is_general) {
    return false;
  }
  return crk_priv_ceil_div(problem->queries, rows) <= crk_priv_units(self) / (problem->heads * problem->sequences);
}

/* A block per tile of queries of a head. On a device with several L2 caches, each cache gets the same number of heads,
 * so that a head's keys are in one cache. */
static crk_status_t launch_tiles(crk_device_t self, problem_t *problem) {
  const uint32_t width = choose_width(problem);
  const bool is_cuda = self->driver->backend == CRK_BACKEND_CUDA;
  const cuda_sizes_t *cuda = problem->element_bytes == 2 ? &widths[width].cuda_half : &widths[width].cuda_float;
  uint32_t rows = is_cuda ? cuda->rows : widths[width].rows, shared_bytes = is_cuda ? cuda->bytes : 0;
  const uint64_t all_heads = problem->heads * problem->sequences, units = crk_priv_units(self);
  const bool is_small = are_tiles_small(self, problem, width, rows);
  if (is_small) {
    rows = CRK_ATTENTION_SMALL_ROWS;
    shared_bytes = is_cuda ? cuda->small_bytes : 0;
  }
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(
      self, slot_of(problem, is_small ? CRK_SLOT_ATTENTION_SMALL_TILES : CRK_SLOT_ATTENTION_TILES, width),
      CRK_MODULE_ATTENTION, &function, "attention_%s_%u_tiles%s%s", crk_dtype_name(problem->given.dtype),
      (unsigned)widths[width].width, is_small ? "64" : "", problem->is_general ? "_general" : ""));
  uint32_t threads;
  CRK_TRY(crk_priv_block_threads(function, &threads));
  const uint64_t tiles = crk_priv_ceil_div(problem->queries, rows);
  uint64_t count = 1, run = 1;
  crk_priv_divisor_init(&problem->call.tiles, tiles, false);
  if (tiles <= units / all_heads) {
    count = choose_tile_parts(self, problem, tiles * all_heads);
  } else {
    const uint64_t l2_caches = self->context->info.l2_caches, caches = all_heads % l2_caches == 0 ? l2_caches : 1;
    const uint64_t cache_units = crk_priv_greatest(units / caches, 1), cache_heads = all_heads / caches;
    crk_priv_cache_order_init(&problem->call.order, caches, tiles * all_heads, false);
    if (tiles <= crk_priv_held_blocks(self, function, threads, shared_bytes, 2) / all_heads) {
      problem->call.paired_units = (uint32_t)cache_units;
      run = cache_heads;
    } else {
      run = choose_run(problem, cache_units, cache_heads);
    }
  }
  crk_priv_divisor_init(&problem->call.run, run, false);
  parts_t parts;
  CRK_TRY(begin_parts(self, problem, count, SECOND_LAUNCH, &parts));
  return end_parts(self, problem, launch_heads(self, function, problem, tiles * count, shared_bytes), &parts);
}

/* ---- few queries: the keys are shared out */

enum {
  SPLIT_MOST_ROWS = 16, /* of several queries; a row is one query of one head */
  SPLIT_BLOCK_ROWS = 8, /* rows of a block, about */
  SPLIT_LEAST_KEYS = 64, /* per part */
  SPLIT_ROW_KEYS = 128, /* per part and row on AMD GPUs, up to SPLIT_MOST_ROW_KEYS: else sums are much of the memory */
  SPLIT_MOST_ROW_KEYS = 512,
  LAST_BLOCK_PARTS = 64 /* of all rows of a block */
};

/* The number of parts of the keys that gives each unit of the device a block, about. Where long parts would leave more
 * than half of an AMD GPU's units without a block, parts are shorter, as long as one launch adds them up. */
static uint64_t choose_parts(crk_device_t self, const problem_t *problem) {
  const uint64_t keys = count_seen_keys(problem), rows = rows_per_kv_head(problem), units = crk_priv_units(self);
  const bool is_hip = self->driver->backend == CRK_BACKEND_HIP;
  const uint64_t least_keys = is_hip ? crk_priv_least(rows * SPLIT_ROW_KEYS, SPLIT_MOST_ROW_KEYS) : SPLIT_LEAST_KEYS;
  const uint64_t others = crk_priv_ceil_div(rows, SPLIT_BLOCK_ROWS) * problem->kv_heads * problem->sequences;
  uint64_t parts = crk_priv_least(units / others, crk_priv_ceil_div(keys, least_keys));
  if (is_hip && parts * others < units / 2) {
    const uint64_t most = crk_priv_least(crk_priv_ceil_div(keys, SPLIT_ROW_KEYS),
                                         LAST_BLOCK_PARTS / crk_priv_least(rows, SPLIT_BLOCK_ROWS));
    parts = crk_priv_greatest(parts, crk_priv_least(units / 2 / others, most));
  }
  return crk_priv_greatest(parts, 1);
}

/* Launches a block per part of the keys, kv head and sequence. With several parts there are at most as many blocks as
 * units, so one launch has all parts of a row, as LAST_BLOCK needs. */
static crk_status_t launch_parts(crk_device_t self, crk_function_t split, problem_t *problem) {
  crk_attention_call_t *call = &problem->call;
  const uint64_t passes = crk_priv_ceil_div(rows_per_kv_head(problem), CRK_ATTENTION_SPLIT_ROWS);
  const uint64_t heads = call->parts.size * problem->kv_heads;
  if (!crk_priv_product_fits(heads, problem->sequences, INT32_MAX) || passes > CRK_MOST_GRID_YZ) {
    return too_many_blocks(problem);
  }
  uint32_t threads;
  CRK_TRY(crk_priv_block_threads(split, &threads));
  const uint64_t blocks = heads * problem->sequences, most = crk_priv_grid_blocks(self, blocks, threads * passes);
  const void *args[] = {call};
  for (call->first_block = 0; call->first_block < blocks; call->first_block += most) {
    const crk_dim3_t grid = {(uint32_t)crk_priv_least(blocks - call->first_block, most), (uint32_t)passes, 1};
    CRK_TRY(crk_priv_launch_blocks(self, split, grid, (crk_dim3_t){threads, 1, 1}, 0, args));
  }
  return CRK_OK;
}

/* The last block of a row reads all its parts alone. Many parts, and parts of many rows, are for a second launch, which
 * has a block per row. So are general calls: their kernels are long enough. */
static adder_t choose_adder(const problem_t *problem, uint64_t parts) {
  const uint64_t rows = crk_priv_least(rows_per_kv_head(problem), SPLIT_BLOCK_ROWS);
  return problem->is_general || rows * parts > LAST_BLOCK_PARTS ? SECOND_LAUNCH : LAST_BLOCK;
}

static crk_status_t launch_split(crk_device_t self, problem_t *problem) {
  const uint32_t width = choose_width(problem);
  crk_function_t split;
  CRK_TRY(CRK_KERNEL_GET(self, slot_of(problem, CRK_SLOT_ATTENTION_SPLIT, width), CRK_MODULE_ATTENTION_SPLIT, &split,
                         "attention_%s_%u_split%s", crk_dtype_name(problem->given.dtype), (unsigned)widths[width].width,
                         problem->is_general ? "_general" : ""));
  parts_t parts;
  const uint64_t count = choose_parts(self, problem);
  CRK_TRY(begin_parts(self, problem, count, choose_adder(problem, count), &parts));
  return end_parts(self, problem, launch_parts(self, split, problem), &parts);
}

static crk_status_t choose_and_launch(crk_device_t self, problem_t *problem) {
  const bool are_few = problem->queries == 1 || rows_per_kv_head(problem) <= SPLIT_MOST_ROWS;
  if (problem->columns.bytes == 0) {
    return are_few ? launch_split(self, problem) : launch_tiles(self, problem);
  }
  void *columns = problem->given.columns.ptr;
  if (are_few && problem->dv % CRK_Q8_1_BLOCK == 0) {
    problem->call.columns = columns;
    return launch_split(self, problem);
  }
  const size_t k = problem->heads * problem->dv;
  CRK_TRY(are_few ? launch_split(self, problem) : launch_tiles(self, problem));
  return crk_priv_quantize_q8_1(self, problem->given.dtype, problem->dst.extent.numel / k, k, k, CRK_SUM_OF_CODES,
                                problem->call.dst, columns);
}

/* ---- the call */

static argument_t argument_of(const char *layout_name, const char *name, const crk_layout_t *layout,
                              crk_const_view_t view, uint32_t bytes) {
  return (argument_t){.tensor = {layout_name, name, layout, view, bytes}};
}

static void name_arguments(problem_t *problem) {
  const crk_attention_t *given = &problem->given;
  const uint32_t bytes = problem->element_bytes;
  argument_t *inputs = problem->inputs;
  inputs[Q] = argument_of("q_layout", "q", given->q_layout, given->q, bytes);
  inputs[K] = argument_of("k_layout", "k", given->k_layout, given->k, bytes);
  inputs[V] = argument_of("v_layout", "v", given->v_layout, given->v, bytes);
  inputs[SLOPES] = argument_of("slopes_layout", "slopes", given->slopes_layout, given->slopes, sizeof(float));
  inputs[MASK] = argument_of("mask_layout", "mask", given->mask_layout, given->mask, bytes);
  inputs[Q_STARTS] = argument_of(NULL, "q_starts", NULL, given->q_starts, sizeof(uint32_t));
  inputs[K_STARTS] = argument_of(NULL, "k_starts", NULL, given->k_starts, sizeof(uint32_t));
  inputs[BLOCK_TABLE] =
      argument_of("block_table_layout", "block_table", given->block_table_layout, given->block_table, sizeof(uint32_t));
  inputs[PREFIXES] =
      argument_of("prefixes_layout", "prefixes", given->prefixes_layout, given->prefixes, sizeof(int32_t));
  problem->dst = argument_of("dst_layout", "dst", given->dst_layout, crk_const(given->dst), bytes);
  problem->lse = argument_of(NULL, "lse", NULL, crk_const(given->lse), sizeof(float));
  problem->columns = argument_of(NULL, "columns", NULL, crk_const(given->columns), sizeof(uint32_t));
}

crk_status_t crk_attention(crk_device_t self, const crk_attention_t *call) {
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_REFUSE_IF(call == NULL, "%s: call is NULL", where);
  problem_t problem = {.dtype_index = 0};
  CRK_TRY(crk_priv_sized_take(where, "call", CRK_SIZED_UP_TO(crk_attention_t, lse), call, &problem.given,
                              sizeof problem.given));
  CRK_TRY(crk_priv_activation_index(where, problem.given.dtype, &problem.dtype_index));
  problem.element_bytes = (uint32_t)crk_dtype_size(problem.given.dtype);
  name_arguments(&problem);
  CRK_TRY(check_dims(&problem));
  CRK_TRY(check_scores(&problem));
  if (problem.dst.extent.numel == 0) {
    return CRK_OK;
  }
  CRK_TRY(check_memory(&problem));
  describe_problem(&problem);
  return choose_and_launch(self, &problem);
}
