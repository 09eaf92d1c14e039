/* elementwise.h: what the launchers of the element-wise families share. A launcher describes its call in a
 * crk_elementwise_t; crk_priv_elementwise checks it, picks the contiguous or the strided kernel and launches. */
#ifndef CRK_ELEMENTWISE_H
#define CRK_ELEMENTWISE_H

#include "call/shared_row_call.h"
#include "call/tile_call.h"
#include "launch/launcher.h"

/* The kernels of a call are named <root>_<first>[_<second>]_vec, ..._nd and ..._row, and have slots one after the other. */
typedef struct crk_kernel_family {
  crk_module_index_t module;
  uint32_t slot;
  const char *root;
  const char *nd_root; /* of the strided kernel where it differs, else NULL */
  const char *first; /* a dtype or a width; `second` may be NULL */
  const char *second;
} crk_kernel_family_t;

typedef struct crk_elementwise {
  const char *where; /* the public function */
  crk_kernel_family_t kernel;
  crk_tensor_t sources[CRK_ND_OPERANDS];
  uint32_t source_count;
  crk_view_t dst;
  uint32_t dst_bytes; /* of an element */
  const void *scalar_before; /* an argument before the pointers, or NULL */
  const void *scalars_after[2];
  uint32_t scalars_after_count;
  bool is_copy; /* bits move, and nothing else: tiles may carry them */
  bool shares_rows; /* there is a kernel for CRK_WALK_SHARED_ROW */
} crk_elementwise_t;

/* dst = kernel(sources) over the dims of sources[0]: one launch. */
crk_status_t crk_priv_elementwise(crk_device_t self, const crk_elementwise_t *call);

/* dst becomes `numel` copies of the element at `value`. */
crk_status_t crk_priv_fill(crk_device_t self, const char *where, uint32_t bytes, crk_view_t dst, size_t numel,
                           const void *value);

/* dst = source, bit for bit. */
crk_status_t crk_priv_copy_elements(crk_device_t self, const char *where, const crk_tensor_t *source, crk_view_t dst);

/* Whether a copy of elements of `bytes` bytes over `nd` (operand 0 the source) goes through tiles; fills `tile` then. */
bool crk_priv_tile_init(const crk_nd_t *nd, uint32_t bytes, const void *src, const void *dst, crk_tile_t *tile);
crk_status_t crk_priv_tile_launch(crk_device_t self, uint32_t bytes, crk_tile_t *tile, const void *src, void *dst);

/* The kernel of a family; loaded on first use. */
crk_status_t crk_priv_kernel_get(crk_device_t self, const crk_kernel_family_t *family, crk_walk_t walk,
                                 crk_function_t *function);

#endif
