/* product.h: shared by the launchers of products with quantized weights: the checked product, and its launches. */
#ifndef CRK_PRODUCT_H
#define CRK_PRODUCT_H

#include "call/quantized_call.h"
#include "launch/quantized.h"

/* A product of weights with rows of activations. */
typedef struct crk_product {
  const char *where; /* the public function's name */
  crk_quant_t quant;
  const crk_quant_info_t *info; /* of `quant` */
  crk_dtype_t dtype; /* of x and dst */
  uint32_t dtype_index, dtype_bytes;
  size_t rows, k; /* of the weights */
  size_t columns; /* rows of x and of dst */
  const void *weights, *x;
  void *dst;
  size_t dst_bytes; /* 0: nothing is left to do */
} crk_product_t;

/* Checks a product of contiguous tensors and describes it. If k is 0, this function fills dst with zeros itself. In
 * that case, and if dst is empty, dst_bytes is 0. */
crk_status_t crk_priv_product_begin(crk_device_t self, crk_product_t *product, const char *where, crk_quant_t quant,
                                    crk_dtype_t dtype, size_t rows, size_t k, size_t columns, crk_const_view_t weights,
                                    crk_const_view_t x, crk_view_t dst);

/* Fails where there are more columns than a matrix-vector product takes. */
crk_status_t crk_priv_check_vec_columns(const char *where, size_t columns);

/* Threads of a group, which has rows of its own: mixtures of experts, long dense rows. */
enum { CRK_GROUP_THREADS = 32 };

/* Quantize the activations and multiply. by_vectors takes up to CRK_MOST_VEC_COLUMNS columns (matvec.c). by_tiles takes
 * any number of columns and makes dst in tiles (matmat.c). dst_bytes is not 0. */
crk_status_t crk_priv_product_by_vectors(crk_device_t self, const crk_product_t *product);
crk_status_t crk_priv_product_by_tiles(crk_device_t self, const crk_product_t *product);

/* Makes numbers of the weights and multiplies by the device's BLAS library, if that is faster than by_tiles. Sets
 * is_done to false if it is not, or if the library or the memory lacks: dst is then not made. */
crk_status_t crk_priv_product_by_blas(crk_device_t self, const crk_product_t *product, bool *is_done);

/* Divides a product's rows among blocks of CRK_VEC_WAVES waves, and returns the number of blocks, at least one. It is
 * small enough for the GPU to hold all blocks of `products` such products at once. The product's `rows` and `columns`
 * are set. Rows stay together in shares of `grain`, which divides them; block_rows and larger count shares. */
uint32_t crk_priv_divide_rows(crk_device_t self, crk_function_t function, uint64_t products, uint32_t grain,
                              crk_vec_product_t *product);

/* Sets the parts of a product with quantized activations, and its rows. `count` is from 1 to CRK_MOST_GROUPED. */
void crk_priv_vec_parts_set(crk_vec_product_t *product, const crk_grouped_product_t *products, size_t count);

/* Whether kernels compute this gate in the launch of its products with quantized weights: crk_vec_gate_t.gelu is false
 * for SiLU. */
static inline bool crk_priv_gate_has_kernels(crk_gate_op_t op) { return op == CRK_GATE_SILU || op == CRK_GATE_GELU; }

/* crk_priv_divide_rows for a gate of `products` experts at once. `info` is the format of their weights. With
 * `quantizes`, *in_groups says that the rows are divided in groups of CRK_GATE_ROWS, which the kernel then quantizes.
 */
uint32_t crk_priv_divide_gate(crk_device_t self, crk_function_t function, const crk_quant_info_t *info,
                              uint64_t products, bool quantizes, crk_vec_product_t *product, bool *in_groups);

/* crk_gate of contiguous results, or crk_gate_columns if blocks.ptr is not NULL. */
crk_status_t crk_priv_gate_results(crk_device_t self, crk_gate_op_t op, crk_dtype_t dtype, size_t columns, size_t rows,
                                   crk_const_view_t gate, crk_const_view_t up, crk_view_t dst, crk_view_t blocks);

#endif
