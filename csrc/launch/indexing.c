/* Launchers of kernels/indexing.hip: index_select, gather, scatter, scatter_add, index_add. */
#include "call/index_call.h"

#include "launch/launcher.h"

enum {
  /* Updates by ranges launch this many times the blocks that the device holds, which keeps it busy. */
  HELD_TIMES = 2,
  /* Another range pays only with this many ids per range, since its block looks at all ids. */
  IDS_PER_RANGE = 64,
  /* Updates by columns use blocks of this size where there are few columns. One thread has one column, and waits for
   * memory at every step. */
  COLUMNS_PER_BLOCK = 64,
  /* A scatter with at most this many ids per column leaves each column to one thread. With more, several threads share
   * it if the device holds those of all columns at once. Along the last dim, blocks have ranges of dst's rows then. */
  FEW_IDS = 64,

  /* Gathers by strips. A strip of src has up to STRIP_BYTES. If src has many rows, a strip is one memory line wide and
   * may have up to STRIP_BYTES_MOST: the caches of GPUs hold that much beside other data. Strips are faster only if
   * there is at least one id per ROWS_PER_ID rows. */
  STRIP_BYTES = 2 << 20,
  STRIP_BYTES_MOST = 16 << 20,
  LINE_BYTES = 128,
  ROWS_PER_ID = 4
};

/* The memory of a tensor argument, from its first element to its last. */
typedef struct crk_reach {
  const char *name;
  const void *first;
  size_t bytes;
} crk_reach_t;

static crk_status_t check_types(const char *where, crk_dtype_t ids_dtype, crk_dtype_t dtype) {
  CRK_TRY(crk_priv_check_dtype(where, "ids_dtype", ids_dtype));
  CRK_TRY(crk_priv_check_dtype(where, "dtype", dtype));
  if (crk_priv_dtype_is_float(ids_dtype)) {
    return crk_priv_error(CRK_UNSUPPORTED, "%s: ids_dtype is %s; it must be an integer dtype", where,
                          crk_dtype_name(ids_dtype));
  }
  return CRK_OK;
}

/* Checks a tensor of any layout, and finds its memory: NULL where the tensor is empty. */
static crk_status_t check_strided(const char *where, const crk_tensor_t *tensor, crk_extent_t *extent,
                                  crk_reach_t *reach) {
  CRK_TRY(crk_priv_layout_extent(where, tensor->layout_name, tensor->layout, extent));
  *reach = (crk_reach_t){tensor->view_name, NULL, 0};
  CRK_TRY(crk_priv_tensor_first(where, tensor, extent, &reach->first));
  if (extent->numel > 0) {
    reach->bytes = (extent->last + 1 - tensor->layout->offset) * tensor->bytes;
  }
  return CRK_OK;
}

static crk_status_t check_contiguous(const char *where, const crk_tensor_t *tensor, crk_extent_t *extent,
                                     crk_reach_t *reach) {
  CRK_TRY(check_strided(where, tensor, extent, reach));
  CRK_REFUSE_IF(!extent->is_contiguous, "%s: %s is not contiguous; copy the tensor first", where, tensor->layout_name);
  return CRK_OK;
}

static crk_status_t check_reach_apart(const char *where, const crk_reach_t *written, const crk_reach_t *read) {
  return crk_priv_check_apart(where, written->name, written->first, written->bytes, read->name, read->first,
                              read->bytes);
}

static crk_status_t check_dim(const char *where, const char *name, const crk_layout_t *layout, size_t dim) {
  CRK_REFUSE_IF(dim >= layout->rank, "%s: dim is %zu, but %s.rank is %u; dim must be less than the rank", where, dim,
                name, (unsigned)layout->rank);
  return CRK_OK;
}

/* Checks that two layouts have the same dims; dim `except` may differ. */
static crk_status_t check_dims_except(const char *where, const char *name, const crk_layout_t *a,
                                      const char *other_name, const crk_layout_t *b, size_t except) {
  CRK_REFUSE_IF(a->rank != b->rank, "%s: %s.rank is %u, but %s.rank is %u; they must be equal", where, name,
                (unsigned)a->rank, other_name, (unsigned)b->rank);
  for (uint32_t i = 0; i < a->rank; i++) {
    CRK_REFUSE_IF(i != except && a->dims[i] != b->dims[i],
                  "%s: %s.dims[%u] is %zu, but %s.dims[%u] is %zu; they must be equal", where, name, i, a->dims[i],
                  other_name, i, b->dims[i]);
  }
  return CRK_OK;
}

/* The product of dims[from .. to]. */
static uint64_t dims_product(const crk_layout_t *layout, size_t from, size_t to) {
  uint64_t all = 1;
  for (size_t i = from; i < to; i++) {
    all *= layout->dims[i];
  }
  return all;
}

/* Fills in what kernels are told of ids into a dim of `size`. */
static crk_status_t ids_init(crk_device_t self, crk_dtype_t dtype, const void *first, uint64_t size, crk_fault_op_t op,
                             crk_ids_t *ids) {
  int64_t sentinel = INT64_MAX;
  switch (dtype) {
    case CRK_DTYPE_U8:
      sentinel = UINT8_MAX;
      break;
    case CRK_DTYPE_U32:
      sentinel = UINT32_MAX;
      break;
    case CRK_DTYPE_I16:
      sentinel = INT16_MAX;
      break;
    case CRK_DTYPE_I32:
      sentinel = INT32_MAX;
      break;
    default:
      break;
  }
  *ids = (crk_ids_t){.ptr = first,
                     .limit = size < (uint64_t)sentinel ? size : (uint64_t)sentinel,
                     .sentinel = sentinel,
                     .dtype = (uint32_t)dtype};
  return crk_priv_fault_get(self, op, &ids->fault);
}

/* ---- index_select, gather */

/* Lets the kernel walk a gather in strips of columns, if a strip of src fits a cache and the whole src does not. The
 * columns are the elements after the indexed dim. An id needs one element of a memory line; the ids of the next columns
 * need the line's other elements. In row-major order these ids come so much later that the line has left the cache, and
 * src is read once per element of a line. */
static void walk_gather(crk_nd_t *nd, uint32_t bytes, uint64_t ids, uint64_t size, uint64_t columns) {
  const uint64_t least = LINE_BYTES / bytes;
  if (columns <= least || ((nd->flags & CRK_ND_VECTOR) != 0 && columns % CRK_GATHER_ELEMENTS(bytes) != 0) ||
      ids * ROWS_PER_ID < size || size > STRIP_BYTES_MOST / LINE_BYTES || columns * size * bytes <= STRIP_BYTES) {
    return;
  }
  uint32_t log2_width = crk_priv_log2_ceil(least);
  while (bytes * size << (log2_width + 1) <= STRIP_BYTES) {
    log2_width++;
  }
  crk_priv_nd_walk_strips(nd, ids, columns, log2_width);
}

/* dst[i] = src[i with the id in place of its index in `dim`] over `dims`, for any strides. */
static crk_status_t launch_gather(crk_device_t self, uint32_t bytes, const crk_ids_t *ids, size_t numel, uint32_t rank,
                                  const size_t *dims, const crk_layout_t *src_layout, const size_t *ids_strides,
                                  size_t dim, const void *src, void *dst) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_GATHER + crk_priv_width_index(bytes), CRK_MODULE_INDEXING, &function,
                         "gather_%s_nd", crk_priv_width_name(bytes)));
  size_t fixed[CRK_MAX_RANK], columns = 1;
  for (uint32_t i = 0; i < rank; i++) {
    fixed[i] = i == dim ? 0 : src_layout->strides[i];
    columns *= i > dim ? dims[i] : 1;
  }
  const size_t *strides[] = {fixed, ids_strides};
  const uint32_t vector = CRK_GATHER_ELEMENTS(bytes);
  crk_nd_t nd;
  crk_priv_nd_init(&nd, numel, rank, dims, strides, 2, vector);
  walk_gather(&nd, bytes, dims[dim], src_layout->dims[dim], columns);
  crk_gather_t call = {.ids = *ids, .src = src, .dst = dst, .src_stride = src_layout->strides[dim]};
  const void *args[3] = {&nd, &call};
  return crk_priv_launch_threads(self, function, crk_priv_nd_threads(&nd, vector, false), args, 2);
}

/* Whether dims[from .. to] of a layout can be counted as one dim. Its stride is that of the last of them that is longer
 * than 1, or 0 where there is none. */
static bool is_joined(const crk_layout_t *layout, size_t from, size_t to, size_t *stride) {
  size_t next = 0;
  *stride = 0;
  for (size_t i = to; i-- > from;) {
    if (layout->dims[i] == 1) {
      continue;
    }
    if (next == 0) {
      *stride = layout->strides[i];
    } else if (layout->strides[i] != next) {
      return false;
    }
    next = layout->strides[i] * layout->dims[i];
    if (next == 0) {
      return false;
    }
  }
  return true;
}

crk_status_t crk_index_select(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype,
                              const crk_layout_t *src_layout, crk_const_view_t src, const crk_layout_t *ids_layout,
                              crk_const_view_t ids, size_t dim, crk_view_t dst) {
  static const char where[] = "crk_index_select";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(check_types(where, ids_dtype, dtype));
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  const crk_tensor_t src_tensor = {"src_layout", "src", src_layout, src, bytes};
  const crk_tensor_t ids_tensor = {"ids_layout", "ids", ids_layout, ids, (uint32_t)crk_dtype_size(ids_dtype)};
  crk_extent_t src_extent, ids_extent;
  crk_reach_t from, places;
  CRK_TRY(check_strided(where, &src_tensor, &src_extent, &from));
  CRK_TRY(check_strided(where, &ids_tensor, &ids_extent, &places));
  CRK_REFUSE_IF(ids_layout->rank != 1, "%s: ids_layout.rank is %u; it must be 1", where, (unsigned)ids_layout->rank);
  CRK_TRY(check_dim(where, "src_layout", src_layout, dim));

  crk_layout_t out = *src_layout;
  out.offset = 0;
  out.dims[dim] = ids_layout->dims[0];
  for (uint32_t i = 0; i < out.rank; i++) {
    out.strides[i] = 0; /* dst is contiguous; this layout is only for its number of elements */
  }
  crk_extent_t out_extent;
  CRK_TRY(crk_priv_layout_extent(where, "dst", &out, &out_extent));
  const size_t numel = out_extent.numel;
  if (numel == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), numel, bytes));
  const crk_reach_t to = {"dst", dst.ptr, numel * bytes};
  CRK_TRY(check_reach_apart(where, &to, &from));
  CRK_TRY(check_reach_apart(where, &to, &places));

  crk_ids_t taken;
  CRK_TRY(ids_init(self, ids_dtype, places.first, src_layout->dims[dim], CRK_FAULT_INDEX_SELECT, &taken));
  size_t left_stride, right_stride;
  const uint64_t right = dims_product(src_layout, dim + 1, src_layout->rank);
  if (!is_joined(src_layout, 0, dim, &left_stride) ||
      !is_joined(src_layout, dim + 1, src_layout->rank, &right_stride) || (right > 1 && right_stride != 1)) {
    size_t ids_strides[CRK_MAX_RANK] = {0};
    ids_strides[dim] = ids_layout->strides[0];
    return launch_gather(self, bytes, &taken, numel, out.rank, out.dims, src_layout, ids_strides, dim, from.first,
                         dst.ptr);
  }
  const uint32_t vector = CRK_VECTOR_ELEMENTS(bytes);
  const uint64_t most = (uint64_t)1 << 32;
  const uint64_t src_row = src_layout->strides[dim];
  const bool rows = (right | src_row | left_stride) % vector == 0 &&
                    ((uintptr_t)dst.ptr | (uintptr_t)from.first) % 16 == 0 && (uint64_t)numel * bytes < most &&
                    (uint64_t)from.bytes < most && (uint64_t)places.bytes < most;
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(
      self, (rows ? CRK_SLOT_INDEX_SELECT_ROWS : CRK_SLOT_INDEX_SELECT_PIECES) + crk_priv_width_index(bytes),
      CRK_MODULE_INDEXING, &function, "index_select_%s_%s", crk_priv_width_name(bytes), rows ? "rows" : "pieces"));
  const bool wide = numel > INT32_MAX;
  crk_index_select_t call = {.ids = taken,
                             .ids_stride = ids_layout->strides[0],
                             .src = from.first,
                             .dst = dst.ptr,
                             .numel = numel,
                             .src_left = left_stride,
                             .src_row = src_row,
                             .wide = wide};
  crk_priv_nd_dim_init(&call.right, right, wide);
  crk_priv_nd_dim_init(&call.count, ids_layout->dims[0], wide && !rows);
  const void *args[2] = {&call};
  if (!rows) {
    return crk_priv_launch_threads(self, function, numel / vector + 2, args, 1);
  }
  call.pieces = (uint32_t)(numel / vector);
  call.left = (uint32_t)(numel / right / ids_layout->dims[0]);
  crk_priv_nd_dim_init(&call.row_pieces, right / vector, false);
  const uint32_t block = CRK_INDEX_THREADS * CRK_INDEX_PIECES, blocks = (call.pieces + block - 1) / block;
  return crk_priv_launch_blocks(self, function, (crk_dim3_t){blocks, 1, 1}, (crk_dim3_t){CRK_INDEX_THREADS, 1, 1}, 0,
                                args);
}

crk_status_t crk_gather(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype, const crk_layout_t *src_layout,
                        crk_const_view_t src, const crk_layout_t *ids_layout, crk_const_view_t ids, size_t dim,
                        crk_view_t dst) {
  static const char where[] = "crk_gather";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(check_types(where, ids_dtype, dtype));
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  const crk_tensor_t src_tensor = {"src_layout", "src", src_layout, src, bytes};
  const crk_tensor_t ids_tensor = {"ids_layout", "ids", ids_layout, ids, (uint32_t)crk_dtype_size(ids_dtype)};
  crk_extent_t src_extent, ids_extent;
  crk_reach_t from, places;
  CRK_TRY(check_strided(where, &src_tensor, &src_extent, &from));
  CRK_TRY(check_strided(where, &ids_tensor, &ids_extent, &places));
  CRK_TRY(check_dim(where, "src_layout", src_layout, dim));
  CRK_REFUSE_IF(ids_layout->rank != src_layout->rank,
                "%s: ids_layout.rank is %u, but src_layout.rank is %u; they must be equal", where,
                (unsigned)ids_layout->rank, (unsigned)src_layout->rank);
  for (uint32_t i = 0; i < src_layout->rank; i++) {
    CRK_REFUSE_IF(i != dim && ids_layout->dims[i] > src_layout->dims[i],
                  "%s: ids_layout.dims[%u] is %zu, more than src_layout.dims[%u], which is %zu", where, i,
                  ids_layout->dims[i], i, src_layout->dims[i]);
  }
  const size_t numel = ids_extent.numel;
  if (numel == 0) {
    return CRK_OK;
  }
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), numel, bytes));
  const crk_reach_t to = {"dst", dst.ptr, numel * bytes};
  CRK_TRY(check_reach_apart(where, &to, &from));
  CRK_TRY(check_reach_apart(where, &to, &places));
  crk_ids_t taken;
  CRK_TRY(ids_init(self, ids_dtype, places.first, src_layout->dims[dim], CRK_FAULT_GATHER, &taken));
  return launch_gather(self, bytes, &taken, numel, ids_layout->rank, ids_layout->dims, src_layout, ids_layout->strides,
                       dim, from.first, dst.ptr);
}

/* ---- scatter, scatter_add, index_add */

/* An update of dst by src at the positions that ids name. */
typedef struct crk_update {
  const char *where;
  crk_fault_op_t fault;
  bool adds;
  crk_dtype_t ids_dtype, dtype;
  crk_tensor_t ids, src, dst;
  void *dst_ptr; /* of dst's view, to be written */
  size_t dim;
} crk_update_t;

typedef enum update_way { UPDATE_COLUMNS, UPDATE_SHARED, UPDATE_RANGES } update_way_t;

/* The kernel of an update. Kernels that add are chosen by dtype, others by width. */
static crk_status_t update_kernel(crk_device_t self, const crk_update_t *update, update_way_t way,
                                  crk_function_t *function) {
  static const uint32_t slots[] = {CRK_SLOT_SCATTER_COLUMNS, CRK_SLOT_SCATTER_SHARED, CRK_SLOT_SCATTER_RANGES},
                        add_slots[] = {CRK_SLOT_SCATTER_ADD_COLUMNS, CRK_SLOT_SCATTER_ADD_SHARED,
                                       CRK_SLOT_INDEX_ADD_RANGES};
  static const char *const ways[] = {"columns", "shared", "ranges"};
  const uint32_t bytes = update->src.bytes;
  const uint32_t slot =
      update->adds ? add_slots[way] + (uint32_t)update->dtype : slots[way] + crk_priv_width_index(bytes);
  return CRK_KERNEL_GET(self, slot, CRK_MODULE_INDEXING, function, "%s_%s_%s",
                        !update->adds          ? "scatter"
                        : way == UPDATE_RANGES ? "index_add"
                                               : "scatter_add",
                        update->adds ? crk_dtype_name(update->dtype) : crk_priv_width_name(bytes), ways[way]);
}

/* Launches one thread per column of ids and src, which have the same dims, or several. */
static crk_status_t update_columns(crk_device_t self, const crk_update_t *update, const crk_ids_t *ids, const void *src,
                                   void *dst) {
  const crk_layout_t *layout = update->src.layout;
  const uint64_t right = dims_product(layout, update->dim + 1, layout->rank);
  crk_scatter_t call = {.ids = *ids,
                        .src = src,
                        .dst = dst,
                        .columns = dims_product(layout, 0, update->dim) * right,
                        .count = layout->dims[update->dim],
                        .dst_dim = update->dst.layout->dims[update->dim]};
  call.wide = call.columns > INT32_MAX;
  crk_priv_nd_dim_init(&call.right, right, call.wide != 0);
  const void *args[] = {&call};
  /* On the CPU a thread reads memory in order anyway. */
  const bool is_shared = self->driver->backend != CRK_BACKEND_CPU &&
                         call.columns * CRK_SCATTER_OWNERS <= crk_priv_held_threads(self) && call.count > FEW_IDS &&
                         call.dst_dim < UINT32_MAX;
  crk_function_t function;
  CRK_TRY(update_kernel(self, update, is_shared ? UPDATE_SHARED : UPDATE_COLUMNS, &function));
  /* Small blocks spread few columns over the device's units. */
  const bool is_few = !is_shared && call.columns < crk_priv_units(self) * CRK_INDEX_THREADS;
  call.block = is_few ? COLUMNS_PER_BLOCK : CRK_INDEX_THREADS;
  const uint64_t wanted = crk_priv_ceil_div(call.columns, is_shared ? CRK_SCATTER_COLUMNS : call.block);
  const uint32_t blocks = crk_priv_grid_blocks(self, wanted, call.block);
  call.threads = blocks * call.block;
  return crk_priv_launch_blocks(self, function, (crk_dim3_t){blocks, 1, 1}, (crk_dim3_t){call.block, 1, 1}, 0, args);
}

/* Launches one block per range of dst's rows and tile of their columns. */
static crk_status_t update_ranges(crk_device_t self, const crk_update_t *update, const crk_ids_t *ids,
                                  uint64_t ids_left, uint64_t ids_stride, const void *src, void *dst) {
  crk_function_t function;
  CRK_TRY(update_kernel(self, update, UPDATE_RANGES, &function));
  const crk_layout_t *layout = update->src.layout;
  const uint32_t bytes = update->src.bytes, pack = CRK_UPDATE_ELEMENTS(bytes);
  const uint64_t left = dims_product(layout, 0, update->dim),
                 right = dims_product(layout, update->dim + 1, layout->rank);
  const uint64_t count = layout->dims[update->dim], rows = update->dst.layout->dims[update->dim];
  /* A dst without rows may be NULL. The kernel then writes nothing and reports every id, but still computes with an
   * address. */
  dst = dst != NULL ? dst : ids->fault.word;
  const bool packs = right % pack == 0 && (uintptr_t)dst % (pack * bytes) == 0;
  const uint64_t pieces = packs ? right / pack : right;
  uint32_t lanes_log2 = 0;
  while (lanes_log2 < 8 && (uint64_t)1 << lanes_log2 < pieces) {
    lanes_log2++;
  }
  const uint64_t lanes = (uint64_t)1 << lanes_log2, groups = CRK_INDEX_THREADS / lanes;
  const uint64_t tiles = (pieces + lanes - 1) / lanes;

  /* As many ranges as keep the device busy, but each with at least one row per group and IDS_PER_RANGE ids. */
  const uint64_t wanted = HELD_TIMES * crk_priv_held_blocks(self, NULL, CRK_INDEX_THREADS, 0, 0) / (left * tiles) + 1;
  const uint64_t by_rows = (rows + groups - 1) / groups, by_ids = count / IDS_PER_RANGE + 1;
  uint64_t ranges = wanted < by_rows ? wanted : by_rows;
  ranges = ranges < by_ids ? ranges : by_ids;
  const uint64_t least = (rows >> 31) + 1; /* the kernel counts a range's rows in 32 bits */
  ranges = ranges > least ? ranges : least;

  crk_index_update_t call = {.ids = *ids,
                             .ids_left = ids_left,
                             .ids_stride = ids_stride,
                             .src = src,
                             .dst = dst,
                             .count = count,
                             .right = right,
                             .src_left = count * right,
                             .dst_left = rows * right,
                             .range = rows == 0 ? 1 : (rows + ranges - 1) / ranges,
                             .lanes_log2 = lanes_log2,
                             .packs = packs};
  ranges = rows == 0 ? 1 : (rows + call.range - 1) / call.range;
  call.blocks = left * tiles * ranges;
  call.step = crk_priv_grid_blocks(self, call.blocks, CRK_INDEX_THREADS);
  crk_priv_nd_dim_init(&call.tiles, tiles, true);
  crk_priv_nd_dim_init(&call.ranges, ranges, true);
  const void *args[] = {&call};
  return crk_priv_launch_blocks(self, function, (crk_dim3_t){(uint32_t)call.step, 1, 1},
                                (crk_dim3_t){CRK_INDEX_THREADS, 1, 1}, 0, args);
}

/* Checks an update. Without elements in src only `numel` is set. `id_each`: ids has the dims of src; else one id per
 * row. */
static crk_status_t check_update(crk_device_t self, const crk_update_t *update, bool id_each, crk_ids_t *taken,
                                 crk_reach_t *from, crk_reach_t *to, size_t *numel) {
  const char *where = update->where;
  crk_extent_t ids_extent, src_extent, dst_extent;
  crk_reach_t places;
  CRK_TRY(id_each ? check_contiguous(where, &update->ids, &ids_extent, &places)
                  : check_strided(where, &update->ids, &ids_extent, &places));
  CRK_TRY(check_contiguous(where, &update->src, &src_extent, from));
  CRK_TRY(check_contiguous(where, &update->dst, &dst_extent, to));
  const crk_layout_t *ids = update->ids.layout, *src = update->src.layout, *dst = update->dst.layout;
  CRK_TRY(check_dim(where, "src_layout", src, update->dim));
  CRK_TRY(check_dims_except(where, "src_layout", src, "dst_layout", dst, update->dim));
  if (id_each) {
    CRK_TRY(check_dims_except(where, "ids_layout", ids, "src_layout", src, SIZE_MAX));
  } else {
    CRK_REFUSE_IF(ids->rank != 1, "%s: ids_layout.rank is %u; it must be 1", where, (unsigned)ids->rank);
    CRK_REFUSE_IF(ids->dims[0] != src->dims[update->dim],
                  "%s: ids_layout.dims[0] is %zu, but src_layout.dims[%zu] is %zu; they must be equal", where,
                  ids->dims[0], update->dim, src->dims[update->dim]);
  }
  *numel = src_extent.numel;
  if (*numel == 0) {
    return CRK_OK;
  }
  CRK_TRY(check_reach_apart(where, to, from));
  CRK_TRY(check_reach_apart(where, to, &places));
  return ids_init(self, update->ids_dtype, places.first, dst->dims[update->dim], update->fault, taken);
}

/* The first element of dst, to be written; NULL where dst is empty. */
static void *update_dst(const crk_update_t *update, const crk_reach_t *to) {
  return to->first != NULL ? (char *)update->dst_ptr + update->dst.layout->offset * update->dst.bytes : NULL;
}

static crk_status_t scatter(crk_device_t self, const crk_update_t *update) {
  crk_ids_t ids;
  crk_reach_t from, to;
  size_t numel;
  CRK_TRY(check_types(update->where, update->ids_dtype, update->dtype));
  CRK_TRY(check_update(self, update, true, &ids, &from, &to, &numel));
  if (numel == 0) {
    return CRK_OK;
  }
  const crk_layout_t *layout = update->src.layout;
  const uint64_t count = layout->dims[update->dim];
  if (dims_product(layout, update->dim + 1, layout->rank) == 1 && count > FEW_IDS) {
    return update_ranges(self, update, &ids, count, 1, from.first, update_dst(update, &to));
  }
  return update_columns(self, update, &ids, from.first, update_dst(update, &to));
}

/* The update that the arguments of its launcher describe. */
#define UPDATE(name, fault_op, does_add)                                                                           \
  (crk_update_t) {                                                                                                 \
    .where = name, .fault = fault_op, .adds = does_add, .ids_dtype = ids_dtype, .dtype = dtype,                    \
    .ids = {"ids_layout", "ids", ids_layout, ids, (uint32_t)crk_dtype_size(ids_dtype)},                            \
    .src = {"src_layout", "src", src_layout, src, (uint32_t)crk_dtype_size(dtype)},                                \
    .dst = {"dst_layout", "dst", dst_layout, crk_const(dst), (uint32_t)crk_dtype_size(dtype)}, .dst_ptr = dst.ptr, \
    .dim = dim,                                                                                                    \
  }

crk_status_t crk_scatter(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype, const crk_layout_t *ids_layout,
                         crk_const_view_t ids, const crk_layout_t *src_layout, crk_const_view_t src, size_t dim,
                         const crk_layout_t *dst_layout, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_scatter");
  const crk_update_t update = UPDATE("crk_scatter", CRK_FAULT_SCATTER, false);
  return scatter(self, &update);
}

crk_status_t crk_scatter_add(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype,
                             const crk_layout_t *ids_layout, crk_const_view_t ids, const crk_layout_t *src_layout,
                             crk_const_view_t src, size_t dim, const crk_layout_t *dst_layout, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_scatter_add");
  const crk_update_t update = UPDATE("crk_scatter_add", CRK_FAULT_SCATTER_ADD, true);
  return scatter(self, &update);
}

crk_status_t crk_index_add(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype, const crk_layout_t *ids_layout,
                           crk_const_view_t ids, const crk_layout_t *src_layout, crk_const_view_t src, size_t dim,
                           const crk_layout_t *dst_layout, crk_view_t dst) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_index_add");
  const crk_update_t update = UPDATE("crk_index_add", CRK_FAULT_INDEX_ADD, true);
  crk_ids_t taken;
  crk_reach_t from, to;
  size_t numel;
  CRK_TRY(check_types(update.where, ids_dtype, dtype));
  CRK_TRY(check_update(self, &update, false, &taken, &from, &to, &numel));
  return numel == 0
             ? CRK_OK
             : update_ranges(self, &update, &taken, 0, ids_layout->strides[0], from.first, update_dst(&update, &to));
}
