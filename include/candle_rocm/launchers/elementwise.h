/* candle_rocm/launchers/elementwise.h: functions of one, two or three operands per element, casts, fills and copies.
 *
 * Each function is one launch and allocates nothing. `layout` says how the elements of a source lie in its buffer. A
 * destination is contiguous from the beginning of its view, unless the comment says otherwise. A destination may be the
 * same view as a source with a contiguous layout of offset 0; they must not overlap otherwise. An empty layout succeeds
 * and launches nothing.
 *
 * All fail with CRK_INVALID_ARGUMENT (a NULL, an unknown dtype or op, a rank above CRK_MAX_RANK, layouts of different
 * dims), CRK_OUT_OF_BOUNDS (a layout reaches beyond its view, or the destination is too small), CRK_UNSUPPORTED (no
 * kernel for the op and dtype) or CRK_DEVICE. Rounding, NaN and overflow follow Candle's CUDA kernels:
 * docs/parity.md in the sources. */
#ifndef CANDLE_ROCM_LAUNCHERS_ELEMENTWISE_H
#define CANDLE_ROCM_LAUNCHERS_ELEMENTWISE_H

#include "candle_rocm/device.h"
#include "candle_rocm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* XX(name, value, root): functions of one operand. `root` begins the names of Candle's kernels. */
#define CRK_UNARY_MAP(XX)       \
  XX(COPY, 0, "ucopy")          \
  XX(NEG, 1, "uneg")            \
  XX(RECIP, 2, "urecip")        \
  XX(EXP, 3, "uexp")            \
  XX(LOG, 4, "ulog")            \
  XX(SIN, 5, "usin")            \
  XX(COS, 6, "ucos")            \
  XX(TANH, 7, "utanh")          \
  XX(ERF, 8, "uerf")            \
  XX(CEIL, 9, "uceil")          \
  XX(FLOOR, 10, "ufloor")       \
  XX(ROUND, 11, "uround")       \
  XX(NORMCDF, 12, "unormcdf")   \
  XX(ABS, 13, "uabs")           \
  XX(SQR, 14, "usqr")           \
  XX(SQRT, 15, "usqrt")         \
  XX(GELU, 16, "ugelu")         \
  XX(GELU_ERF, 17, "ugelu_erf") \
  XX(RELU, 18, "urelu")         \
  XX(SILU, 19, "usilu")         \
  XX(SIGN, 20, "usign")         \
  XX(SIGMOID, 21, "usigmoid")   \
  XX(ELU, 22, "uelu")           \
  XX(POWF, 23, "upowf")

typedef enum crk_unary_op {
#define XX(name, value, root) CRK_UNARY_##name = value,
  CRK_UNARY_MAP(XX)
#undef XX
} crk_unary_op_t;

/* The op of a kernel root such as "uexp". Fails with CRK_INVALID_ARGUMENT. */
CRK_API crk_status_t crk_unary_op_from_root(const char *root, crk_unary_op_t *op);

/* dst[i] = op(src[i]) for every element i of `layout`. ELU and POWF have a parameter and need crk_unary_param.
 *
 * Float dtypes have every op. Integer dtypes have COPY, ABS, CEIL, FLOOR, ROUND, RELU and SIGN. They also have ERF,
 * GELU, GELU_ERF and SILU, which give 0 for integers as Candle's CPU backend does. */
CRK_API crk_status_t crk_unary(crk_device_t self, crk_unary_op_t op, crk_dtype_t dtype, const crk_layout_t *layout,
                               crk_const_view_t src, crk_view_t dst);

/* ELU: dst[i] = src[i] > 0 ? src[i] : param * (exp(src[i]) - 1). POWF: dst[i] = src[i] ^ param. `param` is rounded to
 * the dtype first. Float dtypes only. */
CRK_API crk_status_t crk_unary_param(crk_device_t self, crk_unary_op_t op, crk_dtype_t dtype,
                                     const crk_layout_t *layout, crk_const_view_t src, crk_view_t dst, double param);

/* dst[i] = fma(src[i], mul, add). `mul` and `add` are converted to the dtype as Candle's `from_f64` does; integers
 * wrap. */
CRK_API crk_status_t crk_affine(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_const_view_t src,
                                crk_view_t dst, double mul, double add);

/* XX(name, value, root): arithmetic of two operands. */
#define CRK_BINARY_MAP(XX)   \
  XX(ADD, 0, "badd")         \
  XX(SUB, 1, "bsub")         \
  XX(MUL, 2, "bmul")         \
  XX(DIV, 3, "bdiv")         \
  XX(MAXIMUM, 4, "bmaximum") \
  XX(MINIMUM, 5, "bminimum")

typedef enum crk_binary_op {
#define XX(name, value, root) CRK_BINARY_##name = value,
  CRK_BINARY_MAP(XX)
#undef XX
} crk_binary_op_t;

/* The op of a kernel root such as "badd". Fails with CRK_INVALID_ARGUMENT. */
CRK_API crk_status_t crk_binary_op_from_root(const char *root, crk_binary_op_t *op);

/* dst[i] = lhs[i] op rhs[i]. Both layouts have the same dims; broadcast with strides of 0. An integer divided by 0
 * gives an unspecified value and does not fault. */
CRK_API crk_status_t crk_binary(crk_device_t self, crk_binary_op_t op, crk_dtype_t dtype,
                                const crk_layout_t *lhs_layout, crk_const_view_t lhs, const crk_layout_t *rhs_layout,
                                crk_const_view_t rhs, crk_view_t dst);

/* XX(name, value, root): comparisons. */
#define CRK_CMP_MAP(XX) \
  XX(EQ, 0, "eq")       \
  XX(NE, 1, "ne")       \
  XX(LT, 2, "lt")       \
  XX(LE, 3, "le")       \
  XX(GT, 4, "gt")       \
  XX(GE, 5, "ge")

typedef enum crk_cmp_op {
#define XX(name, value, root) CRK_CMP_##name = value,
  CRK_CMP_MAP(XX)
#undef XX
} crk_cmp_op_t;

/* The op of a kernel root such as "eq". Fails with CRK_INVALID_ARGUMENT. */
CRK_API crk_status_t crk_cmp_op_from_root(const char *root, crk_cmp_op_t *op);

/* dst[i] = lhs[i] op rhs[i] ? 1 : 0; `dst` is u8. */
CRK_API crk_status_t crk_cmp(crk_device_t self, crk_cmp_op_t op, crk_dtype_t dtype, const crk_layout_t *lhs_layout,
                             crk_const_view_t lhs, const crk_layout_t *rhs_layout, crk_const_view_t rhs,
                             crk_view_t dst);

/* The most matrices of a product of one input with several (crk_matmul_grouped, crk_mul_mat_vec_grouped). */
#define CRK_MOST_GROUPED 3

/* XX(name, value, text): activations of crk_gate. They are the ops of these names of crk_unary. */
#define CRK_GATE_MAP(XX)      \
  XX(SILU, 0, "silu")         \
  XX(GELU, 1, "gelu")         \
  XX(GELU_ERF, 2, "gelu_erf") \
  XX(RELU, 3, "relu")         \
  XX(SIGMOID, 4, "sigmoid")

typedef enum crk_gate_op {
#define XX(name, value, text) CRK_GATE_##name = value,
  CRK_GATE_MAP(XX)
#undef XX
} crk_gate_op_t;

/* dst[i] = op(gate[i]) * up[i]: the gate of a feed-forward layer, in one launch. Both layouts have the same dims. The
 * activation is rounded to the dtype first: the result is that of crk_unary and crk_binary, within two units in the
 * last place. BF16, F16, F32 and F64 only (CRK_UNSUPPORTED). */
CRK_API crk_status_t crk_gate(crk_device_t self, crk_gate_op_t op, crk_dtype_t dtype, const crk_layout_t *gate_layout,
                              crk_const_view_t gate, const crk_layout_t *up_layout, crk_const_view_t up,
                              crk_view_t dst);

/* dst[i] = src[i] converted to `dst_dtype`. */
CRK_API crk_status_t crk_cast(crk_device_t self, crk_dtype_t src_dtype, crk_dtype_t dst_dtype,
                              const crk_layout_t *layout, crk_const_view_t src, crk_view_t dst);

/* dst[i] = ids[i] != 0 ? on_true[i] : on_false[i]; `ids` has an integer dtype. The three layouts have the same dims. */
CRK_API crk_status_t crk_where(crk_device_t self, crk_dtype_t ids_dtype, crk_dtype_t dtype,
                               const crk_layout_t *ids_layout, crk_const_view_t ids, const crk_layout_t *true_layout,
                               crk_const_view_t on_true, const crk_layout_t *false_layout, crk_const_view_t on_false,
                               crk_view_t dst);

/* dst[i] = value for i below `numel`. `value` points at one element of `dtype` on the host; it is read before the call
 * returns. */
CRK_API crk_status_t crk_fill(crk_device_t self, crk_dtype_t dtype, crk_view_t dst, size_t numel, const void *value);

/* Sets every element of `layout` in `dst` to `value`, which is read as for crk_fill. Elements outside the layout
 * stay. */
CRK_API crk_status_t crk_const_set(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_view_t dst,
                                   const void *value);

/* dst[dst_offset + i * dst_stride + j] = src[src_offset + i * src_stride + j] for i below `rows` and j below `cols`.
 * Strides and offsets are in elements. Rows of `dst` must not overlap: dst_stride is at least `cols`, unless rows is
 * 1. */
CRK_API crk_status_t crk_copy2d(crk_device_t self, crk_dtype_t dtype, size_t rows, size_t cols, crk_const_view_t src,
                                size_t src_stride, size_t src_offset, crk_view_t dst, size_t dst_stride,
                                size_t dst_offset);

/* dst[dst_offset + i] = src[i] for every element i of `layout`, bit for bit: makes a strided tensor contiguous. */
CRK_API crk_status_t crk_copy_strided(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout,
                                      crk_const_view_t src, crk_view_t dst, size_t dst_offset);

#ifdef __cplusplus
}
#endif
#endif
