/* elementwise.h: shared by the launchers of element-wise ops. A launcher describes its call in a crk_elementwise_t;
 * crk_priv_elementwise checks the call, picks the kernel and launches it. */
#ifndef CRK_ELEMENTWISE_H
#define CRK_ELEMENTWISE_H

#include "call/shared_row_call.h"
#include "call/tile_call.h"
#include "launch/launcher.h"

/* The kernels of one call, one per crk_walk_t. Their names are <root>_<first>[_<second>] with the suffix _vec, _nd or
 * _row. Their slots follow each other from `slot` on. */
typedef struct crk_kernel_family {
  crk_module_index_t module;
  uint32_t slot;
  const char *root;
  const char *nd_root; /* the strided kernel's root; NULL where it is `root` too */
  const char *first;   /* a dtype or a width */
  const char *second;  /* the same, or NULL */
} crk_kernel_family_t;

typedef struct crk_elementwise {
  const char *where; /* the public function's name */
  crk_kernel_family_t kernel;
  crk_tensor_t sources[CRK_ND_OPERANDS];
  uint32_t source_count;
  crk_view_t dst;
  uint32_t dst_bytes; /* of an element */
  const void *scalar_before; /* a kernel argument before the pointers, or NULL */
  const void *scalars_after[2]; /* kernel arguments after the pointers */
  uint32_t scalars_after_count;
  bool is_copy; /* the op only moves bits, so that the tiled copy kernel may do it */
  bool shares_rows; /* the family has a kernel for CRK_WALK_SHARED_ROW */
} crk_elementwise_t;

/* dst = kernel(sources) over the dims of sources[0], in one launch. */
crk_status_t crk_priv_elementwise(crk_device_t self, const crk_elementwise_t *call);

/* Checks `op`. crk_priv_gate_root also returns the root of its kernels' names, such as "gate_silu". */
crk_status_t crk_priv_gate_check(const char *where, crk_gate_op_t op);
crk_status_t crk_priv_gate_root(const char *where, crk_gate_op_t op, const char **root);

/* Fills dst with `numel` copies of the element at `value`. */
crk_status_t crk_priv_fill(crk_device_t self, const char *where, uint32_t bytes, crk_view_t dst, size_t numel,
                           const void *value);

/* Copies the source to dst, bit for bit. */
crk_status_t crk_priv_copy_elements(crk_device_t self, const char *where, const crk_tensor_t *source, crk_view_t dst);

/* Whether the tiled kernel suits a copy over `nd` of elements of `bytes` bytes; operand 0 is the source. If so, fills
 * `tile`. */
bool crk_priv_tile_init(const crk_nd_t *nd, uint32_t bytes, const void *src, const void *dst, crk_tile_t *tile);
crk_status_t crk_priv_tile_launch(crk_device_t self, uint32_t bytes, crk_tile_t *tile, const void *src, void *dst);

/* A kernel of a family. Its first use loads it. */
crk_status_t crk_priv_kernel_get(crk_device_t self, const crk_kernel_family_t *family, crk_walk_t walk,
                                 crk_function_t *function);

#endif
