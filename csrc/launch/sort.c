/* The launcher of argsort over the last dim (kernels/sort.hip). */
#include "call/sort_call.h"
#include "launch/launcher.h"

enum {
  BUSY_THREADS = 256, /* threads per unit that keep the device busy; with fewer, each thread holds fewer elements */
  PIECE_ELEMENTS = 1 << 23 /* elements of long rows that are sorted at once, with one piece of scratch memory */
};

/* A call. */
typedef struct crk_sort {
  crk_device_t device;
  crk_dtype_t dtype;
  uint32_t element_bytes, key_bytes; /* of a key as passes store it */
  const char *src;
  uint32_t *indices;
  char *values; /* or NULL */
  uint64_t rows, columns;
  uint64_t flip; /* all ones to sort in descending order, else 0 */
} crk_sort_t;

/* The elements that a thread of the rows kernel holds, as a logarithm. */
static uint32_t held_log2(const crk_sort_t *sort, bool many) {
  return crk_priv_log2_ceil(many ? CRK_SORT_MANY(sort->element_bytes) : CRK_SORT_FEW);
}

/* Whether `elements` elements keep the device busy when each thread holds many. */
static bool is_plenty(const crk_sort_t *sort, uint64_t elements) {
  const uint64_t threads = crk_priv_units(sort->device) * BUSY_THREADS;
  return elements >> held_log2(sort, true) >= threads;
}

static crk_status_t rows_kernel(const crk_sort_t *sort, bool many, crk_function_t *function) {
  return CRK_KERNEL_GET(sort->device, (many ? CRK_SLOT_SORT_MANY : CRK_SLOT_SORT_FEW) + (uint32_t)sort->dtype,
                        CRK_MODULE_SORT, function, "argsort_%s_%s", many ? "many" : "few", crk_dtype_name(sort->dtype));
}

static crk_status_t merge_kernel(const crk_sort_t *sort, crk_function_t *function) {
  const bool wide = sort->key_bytes == 8;
  return CRK_KERNEL_GET(sort->device, CRK_SLOT_SORT_MERGE + wide, CRK_MODULE_SORT, function, "argsort_merge_%s",
                        wide ? "b64" : "b32");
}

/* Sorts rows that a block can hold, in one launch. */
static crk_status_t sort_short_rows(const crk_sort_t *sort) {
  const uint32_t row_log2 = crk_priv_log2_ceil(sort->columns), few = held_log2(sort, false),
                 many = held_log2(sort, true);
  const bool fits_few = sort->columns <= (uint64_t)CRK_SORT_THREADS << few;
  const bool is_many = !fits_few || (row_log2 >= 6 && is_plenty(sort, sort->rows << row_log2));
  const uint32_t held = is_many ? many : few, group_log2 = row_log2 > held ? row_log2 - held : 0;
  crk_function_t function;
  CRK_TRY(rows_kernel(sort, is_many, &function));
  const uint32_t group = 1u << group_log2, threads = CRK_SORT_BLOCK(group);
  const uint64_t rows_at_once = threads >> group_log2;
  const uint32_t blocks = crk_priv_grid_blocks(sort->device, crk_priv_ceil_div(sort->rows, rows_at_once), threads);
  crk_sort_rows_t call = {.src = sort->src,
                          .indices = sort->indices,
                          .values = sort->values,
                          .rows = sort->rows,
                          .columns = sort->columns,
                          .row_step = blocks * rows_at_once,
                          .group_log2 = group_log2,
                          .flip = sort->flip};
  const void *args[] = {&call};
  const crk_dim3_t grid = {blocks, 1, 1};
  return crk_priv_launch_blocks(sort->device, function, grid, (crk_dim3_t){threads, 1, 1},
                                threads * CRK_SORT_SHARED_BYTES, args);
}

/* The scratch memory to which a pass writes keys and indices in order. */
typedef struct crk_sort_pass {
  char *keys;
  uint32_t *indices;
} crk_sort_pass_t;

/* Sorts rows of several tiles: first each tile, then passes that merge neighbouring runs. scratch[0] and scratch[1]
 * take turns as source and destination of a pass. The last pass writes the result. */
static crk_status_t sort_piece(const crk_sort_t *sort, uint64_t first_row, uint64_t rows, bool is_many,
                               crk_sort_pass_t scratch[2], crk_function_t rows_function,
                               crk_function_t merge_function) {
  const uint64_t first = first_row * sort->columns;
  const uint32_t threads = CRK_SORT_THREADS;
  uint64_t run = (uint64_t)threads << held_log2(sort, is_many);
  const char *src = sort->src + first * sort->element_bytes;
  crk_sort_rows_t tiles = {.src = src,
                           .indices = scratch[0].indices,
                           .keys = scratch[0].keys,
                           .rows = rows,
                           .columns = sort->columns,
                           .row_step = rows,
                           .group_log2 = crk_priv_log2_ceil(threads),
                           .tiled = true,
                           .flip = sort->flip};
  const void *tile_args[] = {&tiles};
  const crk_dim3_t tile_grid = {(uint32_t)((sort->columns - 1) / run + 1), (uint32_t)rows, 1};
  CRK_TRY(crk_priv_launch_blocks(sort->device, rows_function, tile_grid, (crk_dim3_t){threads, 1, 1},
                                 threads * CRK_SORT_SHARED_BYTES, tile_args));
  const crk_dim3_t grid = {(uint32_t)((sort->columns - 1) / CRK_MERGE_TILE + 1), (uint32_t)rows, 1};
  for (uint32_t from = 0; run < sort->columns; run *= 2, from ^= 1) {
    const bool is_last = 2 * run >= sort->columns;
    crk_sort_merge_t merge = {.keys = scratch[from].keys,
                              .indices = scratch[from].indices,
                              .merged_keys = is_last ? NULL : scratch[from ^ 1].keys,
                              .merged_indices = is_last ? sort->indices + first : scratch[from ^ 1].indices,
                              .src = src,
                              .columns = sort->columns,
                              .run = run,
                              .element_bytes = sort->element_bytes};
    if (is_last && sort->values != NULL) {
      merge.values = sort->values + first * sort->element_bytes;
    }
    const void *args[] = {&merge};
    CRK_TRY(crk_priv_launch_blocks(sort->device, merge_function, grid, (crk_dim3_t){CRK_MERGE_THREADS, 1, 1}, 0, args));
  }
  return CRK_OK;
}

/* Sorts `rows_at_once` rows at a time. */
static crk_status_t sort_pieces(const crk_sort_t *sort, uint64_t rows_at_once, bool is_many,
                                crk_sort_pass_t scratch[2]) {
  crk_function_t rows_function, merge_function;
  CRK_TRY(rows_kernel(sort, is_many, &rows_function));
  CRK_TRY(merge_kernel(sort, &merge_function));
  for (uint64_t row = 0; row < sort->rows; row += rows_at_once) {
    const uint64_t rows = sort->rows - row < rows_at_once ? sort->rows - row : rows_at_once;
    CRK_TRY(sort_piece(sort, row, rows, is_many, scratch, rows_function, merge_function));
  }
  return CRK_OK;
}

/* The bytes of `elements` elements, rounded up to CRK_SCRATCH_ALIGNMENT. */
static size_t aligned_bytes(uint64_t elements, uint32_t bytes) {
  return (size_t)crk_priv_round_up(elements * bytes, CRK_SCRATCH_ALIGNMENT);
}

static crk_status_t sort_long_rows(const crk_sort_t *sort) {
  const uint64_t share = PIECE_ELEMENTS / sort->columns, at_once = share > 1 ? share : 1;
  const uint64_t rows = at_once < sort->rows ? at_once : sort->rows, elements = rows * sort->columns;
  const size_t keys = aligned_bytes(elements, sort->key_bytes), indices = aligned_bytes(elements, sizeof(uint32_t));
  char *memory;
  CRK_TRY(crk_alloc(sort->device, 2 * (keys + indices), (void **)&memory));
  crk_sort_pass_t scratch[2] = {{memory, (uint32_t *)(void *)(memory + 2 * keys)},
                                {memory + keys, (uint32_t *)(void *)(memory + 2 * keys + indices)}};
  const crk_status_t status = sort_pieces(sort, rows, is_plenty(sort, elements), scratch);
  return crk_priv_free_after(sort->device, status, memory);
}

crk_status_t crk_argsort(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_const_view_t src,
                         bool ascending, crk_view_t dst, crk_view_t values) {
  static const char where[] = "crk_argsort";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(crk_priv_check_dtype(where, "dtype", dtype));
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  const crk_tensor_t tensor = {"layout", "src", layout, src, bytes};
  size_t numel;
  const void *first;
  CRK_TRY(crk_priv_tensor_check(where, &tensor, &numel, &first));
  CRK_REFUSE_IF(layout->rank == 0, "crk_argsort: layout.rank is 0; it must be at least 1");
  if (numel == 0) {
    return CRK_OK;
  }
  const uint64_t columns = layout->dims[layout->rank - 1];
  CRK_REFUSE_IF(columns > UINT32_MAX, "crk_argsort: layout.dims[%u] is %zu, at most %u can be counted by u32 indices",
                (unsigned)layout->rank - 1, (size_t)columns, UINT32_MAX);
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), numel, sizeof(uint32_t)));
  CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, numel * sizeof(uint32_t), "src", first, numel * bytes));
  if (crk_priv_is_given(crk_const(values))) {
    CRK_TRY(crk_priv_check_elements(where, "values", crk_const(values), numel, bytes));
    CRK_TRY(crk_priv_check_apart(where, "values", values.ptr, numel * bytes, "src", first, numel * bytes));
    CRK_TRY(crk_priv_check_apart(where, "values", values.ptr, numel * bytes, "dst", dst.ptr, numel * sizeof(uint32_t)));
  }
  const crk_sort_t sort = {.device = self,
                           .dtype = dtype,
                           .element_bytes = bytes,
                           .key_bytes = bytes == 8 ? 8 : 4,
                           .src = first,
                           .indices = dst.ptr,
                           .values = values.ptr,
                           .rows = numel / columns,
                           .columns = columns,
                           .flip = ascending ? 0 : UINT64_MAX};
  const uint64_t tile = (uint64_t)CRK_SORT_THREADS << held_log2(&sort, true);
  return columns <= tile ? sort_short_rows(&sort) : sort_long_rows(&sort);
}
