/* elementwise.h: what the launchers of the element-wise families share. A launcher describes its call in a
 * crk_elementwise_t; crk_priv_elementwise checks it, picks the contiguous or the strided kernel and launches. */
#ifndef CRK_ELEMENTWISE_H
#define CRK_ELEMENTWISE_H

#include "core.h"
#include "dtype.h"
#include "layout.h"

#define CRK_COUNT_ONE(...) +1

enum {
  CRK_UNARY_COUNT = 0 CRK_UNARY_MAP(CRK_COUNT_ONE),
  CRK_BINARY_COUNT = 0 CRK_BINARY_MAP(CRK_COUNT_ONE),
  CRK_CMP_COUNT = 0 CRK_CMP_MAP(CRK_COUNT_ONE),
  CRK_WIDTHS = 4 /* elements of 1, 2, 4 and 8 bytes, for kernels that only move bits */
};

/* Where the kernels of each family lie among a context's slots. Every slot number is of the contiguous kernel; the strided
 * one follows it. */
enum {
  CRK_SLOT_AFFINE = 0,
  CRK_SLOT_UNARY = CRK_SLOT_AFFINE + 2 * CRK_DTYPE_COUNT,
  CRK_SLOT_BINARY = CRK_SLOT_UNARY + 2 * CRK_UNARY_COUNT * CRK_DTYPE_COUNT,
  CRK_SLOT_CMP = CRK_SLOT_BINARY + 2 * CRK_BINARY_COUNT * CRK_DTYPE_COUNT,
  CRK_SLOT_CAST = CRK_SLOT_CMP + 2 * CRK_CMP_COUNT * CRK_DTYPE_COUNT,
  CRK_SLOT_WHERE = CRK_SLOT_CAST + 2 * CRK_DTYPE_COUNT * CRK_DTYPE_COUNT,
  CRK_SLOT_COPY = CRK_SLOT_WHERE + 2 * CRK_WIDTHS * CRK_WIDTHS,
  CRK_SLOT_FILL = CRK_SLOT_COPY + 2 * CRK_WIDTHS,
  CRK_SLOT_COPY2D = CRK_SLOT_FILL + 2 * CRK_WIDTHS,
  CRK_SLOTS_USED = CRK_SLOT_COPY2D + 2 * CRK_WIDTHS
};
_Static_assert((int)CRK_SLOTS_USED <= (int)CRK_KERNEL_SLOTS, "more kernels than slots");

/* The kernels of a call are named <root>_<first>[_<second>]_vec and ..._nd. */
typedef struct crk_kernel_family {
  crk_module_index_t module;
  uint32_t slot;
  const char *root;
  const char *nd_root; /* of the strided kernel where it differs, else NULL */
  const char *first; /* a dtype or a width; `second` may be NULL */
  const char *second;
} crk_kernel_family_t;

/* A source, and the names that errors call it by. */
typedef struct crk_source {
  const char *layout_name, *view_name;
  const crk_layout_t *layout;
  crk_view_t view;
  uint32_t bytes; /* of an element */
} crk_source_t;

typedef struct crk_elementwise {
  const char *where; /* the public function */
  crk_kernel_family_t kernel;
  crk_source_t sources[CRK_ND_OPERANDS];
  uint32_t source_count;
  crk_view_t dst;
  uint32_t dst_bytes; /* of an element */
  const void *scalar_before; /* an argument before the pointers, or NULL */
  const void *scalars_after[2];
  uint32_t scalars_after_count;
} crk_elementwise_t;

/* dst = kernel(sources) over the dims of sources[0]: one launch. */
crk_status_t crk_priv_elementwise(crk_device_t self, const crk_elementwise_t *call);

/* dst becomes `numel` copies of the element at `value`. */
crk_status_t crk_priv_fill(crk_device_t self, const char *where, uint32_t bytes, crk_view_t dst, size_t numel,
                           const void *value);

/* dst = source, bit for bit. */
crk_status_t crk_priv_copy_elements(crk_device_t self, const char *where, const crk_source_t *source, crk_view_t dst);

/* The kernel of a family, contiguous or strided; loaded on first use. */
crk_status_t crk_priv_kernel_get(crk_device_t self, const crk_kernel_family_t *family, bool strided,
                                 crk_function_t *function);

/* Launches over `threads` independent threads, in a geometry that the device can count. */
crk_status_t crk_priv_launch_threads(crk_device_t self, crk_function_t function, uint64_t threads, void **args);

/* Fails where `bytes` bytes of a view from an element on cannot be used, or it is not aligned to its elements. */
crk_status_t crk_priv_check_elements(const char *where, const char *name, crk_view_t view, size_t elements,
                                     uint32_t bytes);

/* The position of `root` among `count` roots. Fails with CRK_INVALID_ARGUMENT. */
crk_status_t crk_priv_root_index(const char *where, const char *root, const char *const *roots, int count, int *index);

/* "b8", "b16", "b32" or "b64", and its number. */
const char *crk_priv_width_name(uint32_t bytes);
uint32_t crk_priv_width_index(uint32_t bytes);

#endif
