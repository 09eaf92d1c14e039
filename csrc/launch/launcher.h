/* launcher.h: what all launchers share: kernels found once, checks of what they are given, launches. */
#ifndef CRK_LAUNCHER_H
#define CRK_LAUNCHER_H

#include "core.h"
#include "dtype.h"
#include "layout.h"
#include "number.h"

#define CRK_COUNT_ONE(...) +1

enum {
  CRK_UNARY_COUNT = 0 CRK_UNARY_MAP(CRK_COUNT_ONE),
  CRK_BINARY_COUNT = 0 CRK_BINARY_MAP(CRK_COUNT_ONE),
  CRK_CMP_COUNT = 0 CRK_CMP_MAP(CRK_COUNT_ONE),
  CRK_FAMILY_SLOTS = 400, /* of a family that numbers its own */
  CRK_WIDTHS = 4 /* elements of 1, 2, 4 and 8 bytes, for kernels that only move bits */
};

/* An element-wise op has a kernel for what is contiguous, one for any strides and, if it is arithmetic of two floats wider than 8
 * bits or where by bytes, one for a matrix whose rows meet the same row. */
typedef enum crk_walk { CRK_WALK_CONTIGUOUS, CRK_WALK_STRIDED, CRK_WALK_SHARED_ROW, CRK_WALKS } crk_walk_t;

/* Where the kernels of each family lie among a context's slots. Element-wise families have theirs in the order of
 * crk_walk_t. */
enum {
  CRK_SLOT_AFFINE = 0,
  CRK_SLOT_UNARY = CRK_SLOT_AFFINE + 2 * CRK_DTYPE_COUNT,
  CRK_SLOT_BINARY = CRK_SLOT_UNARY + 2 * CRK_UNARY_COUNT * CRK_DTYPE_COUNT,
  CRK_SLOT_CMP = CRK_SLOT_BINARY + CRK_WALKS * CRK_BINARY_COUNT * CRK_DTYPE_COUNT,
  CRK_SLOT_CAST = CRK_SLOT_CMP + 2 * CRK_CMP_COUNT * CRK_DTYPE_COUNT,
  CRK_SLOT_WHERE = CRK_SLOT_CAST + 2 * CRK_DTYPE_COUNT * CRK_DTYPE_COUNT,
  CRK_SLOT_COPY = CRK_SLOT_WHERE + CRK_WALKS * CRK_WIDTHS * CRK_WIDTHS,
  CRK_SLOT_FILL = CRK_SLOT_COPY + 2 * CRK_WIDTHS,
  CRK_SLOT_COPY2D = CRK_SLOT_FILL + 2 * CRK_WIDTHS,
  CRK_SLOT_TILE = CRK_SLOT_COPY2D + 2 * CRK_WIDTHS,
  CRK_SLOT_INDEXING = CRK_SLOT_TILE + CRK_WIDTHS,
  CRK_SLOT_REDUCE = CRK_SLOT_INDEXING + CRK_FAMILY_SLOTS,
  CRK_SLOT_NORM = CRK_SLOT_REDUCE + CRK_FAMILY_SLOTS,
  CRK_SLOT_ROPE = CRK_SLOT_NORM + CRK_FAMILY_SLOTS,
  CRK_SLOT_SORT = CRK_SLOT_ROPE + CRK_FAMILY_SLOTS,
  CRK_SLOT_CONV = CRK_SLOT_SORT + CRK_FAMILY_SLOTS,
  CRK_SLOT_QUANTIZED = CRK_SLOT_CONV + CRK_FAMILY_SLOTS,
  CRK_SLOT_MATVEC = CRK_SLOT_QUANTIZED + CRK_FAMILY_SLOTS,
  CRK_SLOT_MATMAT = CRK_SLOT_MATVEC + CRK_FAMILY_SLOTS,
  CRK_SLOT_MOE = CRK_SLOT_MATMAT + CRK_FAMILY_SLOTS,
  CRK_SLOT_MATMUL = CRK_SLOT_MOE + CRK_FAMILY_SLOTS,
  CRK_SLOT_RANDOM = CRK_SLOT_MATMUL + CRK_FAMILY_SLOTS,
  CRK_SLOTS_USED = CRK_SLOT_RANDOM + CRK_FAMILY_SLOTS
};
_Static_assert((int)CRK_SLOTS_USED <= (int)CRK_KERNEL_SLOTS, "more kernels than slots");

/* The kernel in a slot of the context; at first use it is found in `module` by the name that the format makes. */
crk_status_t crk_priv_kernel_load(crk_device_t self, uint32_t slot, crk_module_index_t module, crk_function_t *function,
                                  const char *format, ...) CRK_PRINTF(5, 6);
#define CRK_KERNEL_GET(self, slot, module, function, ...)                                              \
  ((*(function) = atomic_load_explicit(&(self)->context->kernels[slot], memory_order_acquire)) != NULL \
       ? CRK_OK                                                                                        \
       : crk_priv_kernel_load(self, slot, module, function, __VA_ARGS__))

/* Launches blocks of a geometry that the caller has made sure of. */
static inline crk_status_t crk_priv_launch_blocks(crk_device_t self, crk_function_t function, crk_dim3_t grid,
                                                  crk_dim3_t block, uint32_t shared_bytes, void **args) {
  return self->driver->launch(self->driver_device, self->stream, function->driver_function, grid, block, shared_bytes,
                              args);
}

/* The device's units (occupancy.h), and the threads that they hold at once. */
static inline uint64_t crk_priv_units(crk_device_t self) { return self->context->occupancy.units; }
static inline uint64_t crk_priv_held_threads(crk_device_t self) {
  return crk_priv_units(self) * self->context->occupancy.threads;
}

/* Blocks of `threads` threads that the device holds at once: by the registers and the shared memory of `function` too,
 * unless that is NULL. At most `most` per unit, unless that is 0; one per unit at least. */
uint64_t crk_priv_held_blocks(crk_device_t self, crk_function_t function, uint32_t threads, uint32_t most);

/* As many blocks of `threads` threads as are wanted, or as a grid of the device may have along x, below 2^32 threads: kernels, which
 * count the threads in 32 bits, stride over the rest. */
static inline uint32_t crk_priv_grid_blocks(crk_device_t self, uint64_t wanted, uint64_t threads) {
  const uint64_t most = crk_priv_least(self->context->info.max_grid_threads, UINT32_MAX) / threads;
  return (uint32_t)crk_priv_least(wanted, crk_priv_least(most, INT32_MAX));
}

/* Launches over `threads` independent threads, in a geometry that the device can count. args[count], behind the `count` others, is set
 * here: the kernel's last argument is a u32, the threads of the grid. */
crk_status_t crk_priv_launch_threads(crk_device_t self, crk_function_t function, uint64_t threads, void **args,
                                     uint32_t count);

/* Fails where `bytes` bytes of a view from an element on cannot be used, or it is not aligned to its elements. */
crk_status_t crk_priv_check_elements(const char *where, const char *name, crk_view_t view, size_t elements,
                                     uint32_t bytes);

/* The position of `root` among `count` roots. Fails with CRK_INVALID_ARGUMENT. */
crk_status_t crk_priv_root_index(const char *where, const char *root, const char *const *roots, int count, int *index);

/* Defines `roots`, the roots of a family's ops in the order of its list of ops, and with it the public function that finds
 * an op of `type` by its root. For a list of XX(name, value, root) whose values count from 0. */
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

/* A tensor argument, and the names that errors call it by. */
typedef struct crk_tensor {
  const char *layout_name, *view_name;
  const crk_layout_t *layout;
  crk_view_t view;
  uint32_t bytes; /* of an element */
} crk_tensor_t;

/* Fails where the view does not hold what a layout of `extent` reaches; finds the first element, NULL where there is none. */
crk_status_t crk_priv_tensor_first(const char *where, const crk_tensor_t *tensor, const crk_extent_t *extent,
                                   void **first);

/* Checks a tensor that must be contiguous from its offset on, and finds its first element. Fails as the launchers say. */
crk_status_t crk_priv_tensor_check(const char *where, const crk_tensor_t *tensor, size_t *numel, void **first);

/* Fails where `numel` elements from `first` on, written, overlap a tensor's memory. */
crk_status_t crk_priv_check_apart(const char *where, const char *name, const void *first, size_t bytes,
                                  const char *other_name, const void *other, size_t other_bytes);

/* "b8", "b16", "b32" or "b64", and its number. */
const char *crk_priv_width_name(uint32_t bytes);
uint32_t crk_priv_width_index(uint32_t bytes);

#endif
