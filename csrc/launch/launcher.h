/* launcher.h: shared by all launchers: the slots of their kernels, checks of their arguments, and launches. */
#ifndef CRK_LAUNCHER_H
#define CRK_LAUNCHER_H

#include "call/peers_call.h"
#include "core.h"
#include "dtype.h"
#include "layout.h"
#include "number.h"

#define CRK_COUNT_ONE(...) +1

enum {
  CRK_UNARY_COUNT = 0 CRK_UNARY_MAP(CRK_COUNT_ONE),
  CRK_BINARY_COUNT = 0 CRK_BINARY_MAP(CRK_COUNT_ONE),
  CRK_CMP_COUNT = 0 CRK_CMP_MAP(CRK_COUNT_ONE),
  CRK_GATE_COUNT = 0 CRK_GATE_MAP(CRK_COUNT_ONE),
  CRK_REDUCE_COUNT = 0 CRK_REDUCE_MAP(CRK_COUNT_ONE),
  CRK_POOL_COUNT = 0 CRK_POOL_MAP(CRK_COUNT_ONE),
  CRK_QUANT_COUNT = 0 CRK_QUANT_MAP(CRK_COUNT_ONE),
  CRK_ACTIVATIONS = 3, /* dtypes of activations: f32, f16 and bf16 */
  CRK_WIDTHS = 4, /* elements of 1, 2, 4 and 8 bytes, for kernels that only move bits */
  CRK_MOST_GRID_YZ = 65535, /* blocks along y and along z that every backend allows */
  CRK_SCRATCH_ALIGNMENT = 256 /* bytes, as of an allocation: for each tensor in a launcher's scratch memory */
};

/* The kernels of an element-wise op: one for contiguous operands and one for any strides. Some ops have a third one,
 * for matrices where one operand is a single row that all rows share. These are the binary ops in bf16, f16, f32 and
 * f64, and `where` with conditions of one byte. */
typedef enum crk_walk { CRK_WALK_CONTIGUOUS, CRK_WALK_STRIDED, CRK_WALK_SHARED_ROW, CRK_WALKS } crk_walk_t;

/* XX(NAME, count): the list of all kernel slots. A context keeps each kernel of a launcher in a slot. The slots of an
 * entry begin at CRK_SLOT_<NAME>. An entry is an array whose dims are the factors of `count`, in row-major order:
 * CRK_SLOT_UNARY + (op * CRK_DTYPE_COUNT + dtype) * 2 + walk. Some counts depend on lists in a launcher's file; that
 * file checks the count with CRK_SLOTS_OF. */
/* clang-format off */
#define CRK_SLOT_MAP(XX)                                        \
  XX(AFFINE, CRK_DTYPE_COUNT * 2)                               \
  XX(UNARY, CRK_UNARY_COUNT * CRK_DTYPE_COUNT * 2)              \
  XX(BINARY, CRK_BINARY_COUNT * CRK_DTYPE_COUNT * CRK_WALKS)    \
  XX(CMP, CRK_CMP_COUNT * CRK_DTYPE_COUNT * 2)                  \
  XX(GATE, CRK_GATE_COUNT * CRK_DTYPE_COUNT * 2)                \
  XX(GATE_COLUMNS, CRK_GATE_COUNT * CRK_ACTIVATIONS)            \
  XX(CAST, CRK_DTYPE_COUNT * CRK_DTYPE_COUNT * 2)               \
  XX(WHERE, CRK_WIDTHS * CRK_WIDTHS * CRK_WALKS)                \
  XX(COPY, CRK_WIDTHS * 2)                                      \
  XX(COPY_TILE, CRK_WIDTHS)                                     \
  XX(FILL, CRK_WIDTHS * 2)                                      \
  XX(COPY2D, CRK_WIDTHS * 2)                                    \
  XX(INDEX_SELECT_PIECES, CRK_WIDTHS)                           \
  XX(INDEX_SELECT_ROWS, CRK_WIDTHS)                             \
  XX(GATHER, CRK_WIDTHS)                                        \
  XX(SCATTER_COLUMNS, CRK_WIDTHS)                               \
  XX(SCATTER_SHARED, CRK_WIDTHS)                                \
  XX(SCATTER_RANGES, CRK_WIDTHS)                                \
  XX(SCATTER_ADD_COLUMNS, CRK_DTYPE_COUNT)                      \
  XX(SCATTER_ADD_SHARED, CRK_DTYPE_COUNT)                       \
  XX(INDEX_ADD_RANGES, CRK_DTYPE_COUNT)                         \
  XX(REDUCE, CRK_REDUCE_COUNT * CRK_DTYPE_COUNT * 6)            \
  XX(NORM, 3 * 5 * 3 * CRK_DTYPE_COUNT)                         \
  XX(ADD_NORM, 2 * 5 * CRK_ACTIVATIONS)                         \
  XX(BATCH_NORM, 2 * CRK_DTYPE_COUNT)                           \
  XX(GROUP_STATS, 2 * CRK_DTYPE_COUNT)                          \
  XX(GROUP_NORM, 2 * 2 * CRK_DTYPE_COUNT)                       \
  XX(ROPE, 2 * 4 * CRK_DTYPE_COUNT)                             \
  XX(ROPE_QKV, 2 * 2 * CRK_DTYPE_COUNT)                         \
  XX(NORM_ROPE_QKV, CRK_ACTIVATIONS * CRK_ACTIVATIONS)          \
  XX(SORT_FEW, CRK_DTYPE_COUNT)                                 \
  XX(SORT_MANY, CRK_DTYPE_COUNT)                                \
  XX(SORT_MERGE, 2)                                             \
  XX(CONV, CRK_DTYPE_COUNT)                                     \
  XX(CONV_TRANSPOSE, CRK_DTYPE_COUNT)                           \
  XX(CONV_GROUPS, 2 * CRK_DTYPE_COUNT)                          \
  XX(DEPTHWISE, 7 * CRK_DTYPE_COUNT)                            \
  XX(CONV_CORES, 2 * 6 * CRK_DTYPE_COUNT)                       \
  XX(CONV_PIXELS, 2)                                            \
  XX(IM2COL, CRK_WIDTHS)                                        \
  XX(IM2COL_TILE, CRK_WIDTHS)                                   \
  XX(COL2IM1D, CRK_DTYPE_COUNT)                                 \
  XX(POOL2D, CRK_POOL_COUNT * CRK_DTYPE_COUNT)                  \
  XX(UPSAMPLE_NEAREST2D, CRK_WIDTHS)                            \
  XX(UPSAMPLE_BILINEAR2D, CRK_DTYPE_COUNT)                      \
  XX(DEQUANTIZE, CRK_QUANT_COUNT * CRK_ACTIVATIONS)             \
  XX(DEQUANTIZE_MUL_MAT_VEC, CRK_QUANT_COUNT * CRK_ACTIVATIONS) \
  XX(GET_ROWS, CRK_QUANT_COUNT)                                 \
  XX(GET_ROWS_FLOAT, CRK_ACTIVATIONS)                           \
  XX(QUANTIZE_Q8_1, CRK_ACTIVATIONS)                            \
  XX(QUANTIZE_MMQ, 3 * CRK_ACTIVATIONS)                         \
  XX(MUL_MAT_VEC, CRK_QUANT_COUNT * 4)                          \
  XX(GATE_MAT_VEC, CRK_QUANT_COUNT)                             \
  XX(ROPE_MAT_VEC, 2 * CRK_QUANT_COUNT)                         \
  XX(MUL_MAT_TILES, CRK_QUANT_COUNT * 4)                        \
  XX(MOE_VEC, CRK_QUANT_COUNT * 3)                              \
  XX(MOE_GATE, CRK_QUANT_COUNT)                                 \
  XX(MOE_TILES_QUANTIZED, CRK_QUANT_COUNT * 2 * 3)              \
  XX(MOE_TILES, 2 * 2 * 3)                                      \
  XX(MOE_NUMBERS, CRK_QUANT_COUNT * 2)                          \
  XX(MOE_ROUTE, 3)                                              \
  XX(MOE_ROUTER, CRK_ACTIVATIONS * 3)                           \
  XX(MOE_COUNTS, 1)                                             \
  XX(MOE_STARTS, 1)                                             \
  XX(MOE_ALIGN, 1)                                              \
  XX(MATMUL_TILES, 5 * CRK_DTYPE_COUNT)                         \
  XX(MATMUL_SHORT, CRK_DTYPE_COUNT)                             \
  XX(MATMUL_ROWS, CRK_DTYPE_COUNT)                              \
  XX(MATMUL_COLUMNS, CRK_DTYPE_COUNT)                           \
  XX(MATMUL_PARTS, CRK_DTYPE_COUNT)                             \
  XX(MATMUL_WIDE, CRK_DTYPE_COUNT)                              \
  XX(MATMUL_ROPE, CRK_DTYPE_COUNT)                              \
  XX(MATMUL_GATE, CRK_GATE_COUNT * CRK_ACTIVATIONS)             \
  XX(RANDOM_SEED, 1)                                            \
  XX(RANDOM_UNIFORM, CRK_DTYPE_COUNT)                           \
  XX(RANDOM_NORMAL, CRK_DTYPE_COUNT)                            \
  XX(ATTENTION_TILES, 6 * CRK_ACTIVATIONS * 2)                  \
  XX(ATTENTION_SMALL_TILES, 5 * CRK_ACTIVATIONS * 2)            \
  XX(ATTENTION_SPLIT, 6 * CRK_ACTIVATIONS * 2)                  \
  XX(ATTENTION_COMBINE, CRK_ACTIVATIONS)                        \
  XX(ONE_SHOT, CRK_ACTIVATIONS)                                 \
  XX(ONE_SHOT_NORM, CRK_ACTIVATIONS * CRK_MOST_NORM_LINES)      \
  XX(MARKED, CRK_ACTIVATIONS)                                   \
  XX(MARKED_NORM, CRK_ACTIVATIONS)                              \
  XX(MEET, 1)
/* clang-format on */

/* CRK_SLOT_<NAME> of each entry. An enumerator without a value is one more than the one before it, so that each entry
 * begins after the last slot of the previous one. */
enum {
#define XX(name, count) CRK_SLOT_##name, CRK_SLOT_LAST_##name = CRK_SLOT_##name - 1 + (int)(count),
  CRK_SLOT_MAP(XX)
#undef XX
      CRK_SLOT_COUNT
};
_Static_assert((int)CRK_SLOT_COUNT <= (int)CRK_KERNEL_SLOTS, "more kernels than slots");

/* The count of an entry. */
#define CRK_SLOTS_OF(name) ((int)CRK_SLOT_LAST_##name - (int)CRK_SLOT_##name + 1)

/* Gets the kernel in a slot of the context. The first use finds it in `module`, by the name that `format` makes. */
crk_status_t crk_priv_kernel_load(crk_device_t self, uint32_t slot, crk_module_index_t module, crk_function_t *function,
                                  const char *format, ...) CRK_PRINTF(5, 6);
#define CRK_KERNEL_GET(self, slot, module, function, ...)                                              \
  ((*(function) = atomic_load_explicit(&(self)->context->kernels[slot], memory_order_acquire)) != NULL \
       ? CRK_OK                                                                                        \
       : crk_priv_kernel_load(self, slot, module, function, __VA_ARGS__))

/* Whether an optional view is there: {NULL, 0} stands for none. */
static inline bool crk_priv_is_given(crk_const_view_t view) { return view.ptr != NULL || view.bytes != 0; }

/* The threads of a block of a kernel that is made for one number of them. Fails where a code object does not say it, as
 * one of CANDLE_ROCM_HSACO_DIR may not. */
crk_status_t crk_priv_block_threads(crk_function_t function, uint32_t *threads);

/* Launches blocks. The caller has made sure that the device accepts the geometry. */
static inline crk_status_t crk_priv_launch_blocks(crk_device_t self, crk_function_t function, crk_dim3_t grid,
                                                  crk_dim3_t block, uint32_t shared_bytes, const void *const *args) {
  return crk_priv_operation(self, function->name, crk_priv_launch(self, function, grid, block, shared_bytes, args));
}

/* Frees scratch memory after a launch with `status`. Fails with that status if it is a failure, else as crk_free. */
static inline crk_status_t crk_priv_free_after(crk_device_t self, crk_status_t status, void *scratch) {
  const crk_status_t freed = crk_free(self, scratch);
  return status != CRK_OK ? status : freed;
}

/* The device's units (occupancy.h), and the threads that they hold at once. */
static inline uint64_t crk_priv_units(crk_device_t self) { return self->context->occupancy.units; }
static inline uint64_t crk_priv_held_threads(crk_device_t self) {
  return crk_priv_units(self) * self->context->occupancy.threads;
}

/* Blocks of `threads` threads and `shared_bytes` bytes of dynamic shared memory that the device holds at once, at least
 * one per unit. The registers and the static shared memory of `function` count too, unless it is NULL. `most` bounds
 * the blocks per unit, unless it is 0. */
uint64_t crk_priv_held_blocks(crk_device_t self, crk_function_t function, uint32_t threads, uint32_t shared_bytes,
                              uint32_t most);

/* Limits `wanted` blocks of `threads` threads to the number that the device allows along x. The limit is below 2^32
 * threads in total, because kernels count threads in 32 bits. The threads loop over the rest of the work. */
static inline uint32_t crk_priv_grid_blocks(crk_device_t self, uint64_t wanted, uint64_t threads) {
  const uint64_t most = crk_priv_least(self->context->info.max_grid_threads, UINT32_MAX) / threads;
  return (uint32_t)crk_priv_least(wanted, crk_priv_least(most, INT32_MAX));
}

/* Launches a kernel over `threads` independent threads, in a geometry that the device allows. The kernel's last
 * argument is a u32, the number of threads in the grid. This function stores it in args[count], after the caller's
 * `count` arguments. */
crk_status_t crk_priv_launch_threads(crk_device_t self, crk_function_t function, uint64_t threads, const void **args,
                                     uint32_t count);

/* Fails with CRK_INVALID_ARGUMENT where the argument `name` is no dtype. */
static inline crk_status_t crk_priv_check_dtype(const char *where, const char *name, crk_dtype_t dtype) {
  CRK_REFUSE_IF(!crk_priv_dtype_valid(dtype), "%s: %s %d is not a value of crk_dtype_t", where, name, (int)dtype);
  return CRK_OK;
}

/* The same for `dtype`, and fails with CRK_UNSUPPORTED unless it is F64, F32, F16 or BF16. */
crk_status_t crk_priv_check_wide_float(const char *where, crk_dtype_t dtype);

/* Fails where the view has fewer than `elements` elements of `bytes` bytes, or is not aligned to one. */
crk_status_t crk_priv_check_elements(const char *where, const char *name, crk_const_view_t view, size_t elements,
                                     uint32_t bytes);

/* *product = a * b. Fails with CRK_OUT_OF_BOUNDS if size_t cannot hold the product. `what` names the counted things in
 * the error sentence. */
crk_status_t crk_priv_checked_product(const char *where, const char *what, size_t a, size_t b, size_t *product);

/* *extent = (count - 1) * stride + length, for `count` lines of `length`; `count` is not 0. Fails as
 * crk_priv_checked_product does. */
crk_status_t crk_priv_strided_extent(const char *where, const char *what, size_t count, size_t stride, size_t length,
                                     size_t *extent);

/* The position of `root` among `count` roots. Fails with CRK_INVALID_ARGUMENT. */
crk_status_t crk_priv_root_index(const char *where, const char *root, const char *const *roots, int count, int *index);

/* Defines the array `roots`, which has the roots of a family's ops in the order of its list. Also defines the public
 * function `function`, which finds an op by its root. MAP is a list of XX(name, value, root); its values count from
 * 0. */
#define CRK_OP_ROOT(name, value, root) root,
#define CRK_OP_FROM_ROOT(function, type, roots, MAP)                                                       \
  static const char *const roots[] = {MAP(CRK_OP_ROOT)};                                                   \
  crk_status_t function(const char *root, type *op) {                                                      \
    CRK_REFUSE_IF(op == NULL, #function ": op is NULL");                                                   \
    int index;                                                                                             \
    CRK_TRY(crk_priv_root_index(#function, root, roots, (int)(sizeof(roots) / sizeof(*(roots))), &index)); \
    *op = (type)index;                                                                                     \
    return CRK_OK;                                                                                         \
  }

/* A tensor argument, and the names that errors use for it. */
typedef struct crk_tensor {
  const char *layout_name, *view_name;
  const crk_layout_t *layout;
  crk_const_view_t view;
  uint32_t bytes; /* of an element */
} crk_tensor_t;

/* Returns in `first` the address of a tensor's first element; NULL if it has no elements. `extent` is the extent of its
 * layout. Fails if the layout reaches beyond the view. */
crk_status_t crk_priv_tensor_first(const char *where, const crk_tensor_t *tensor, const crk_extent_t *extent,
                                   const void **first);

/* Returns the number of elements of a tensor, and the address of the first one. Fails if its layout is invalid or not
 * contiguous, or if the view is too small. */
crk_status_t crk_priv_tensor_check(const char *where, const crk_tensor_t *tensor, size_t *numel, const void **first);

/* Fails if the memory that the kernel writes (`bytes` bytes from `first` on) overlaps another argument's memory. */
crk_status_t crk_priv_check_apart(const char *where, const char *name, const void *first, size_t bytes,
                                  const char *other_name, const void *other, size_t other_bytes);

/* Checks an argument that the kernel only reads. Fails where its view has fewer elements than the kernel reads, or
 * where dst, of `dst_bytes` bytes, overlaps them. */
crk_status_t crk_priv_check_read(const char *where, const char *name, crk_const_view_t view, size_t elements,
                                 uint32_t bytes, const void *dst, size_t dst_bytes);

/* The same for an argument that may be absent. */
static inline crk_status_t crk_priv_check_optional(const char *where, const char *name, crk_const_view_t view,
                                                   size_t elements, uint32_t bytes, const void *dst, size_t dst_bytes) {
  return crk_priv_is_given(view) ? crk_priv_check_read(where, name, view, elements, bytes, dst, dst_bytes) : CRK_OK;
}

/* Memory of an argument, from its first element to its last one. Without bytes it overlaps nothing. */
typedef struct crk_region {
  const char *name;
  const void *first;
  size_t bytes;
} crk_region_t;

/* Fails if memory that the kernel writes overlaps memory that it reads, or other memory that it writes. */
crk_status_t crk_priv_check_all_apart(const char *where, const crk_region_t *written, size_t writes,
                                      const crk_region_t *read, size_t reads);

/* "b8", "b16", "b32" or "b64", and its number. */
const char *crk_priv_width_name(uint32_t bytes);
uint32_t crk_priv_width_index(uint32_t bytes);

#endif
