/* modules.h: the list of kernel modules. Module <stem> is compiled from kernels/<stem>.hip. Candle's eleven modules
 * come first, in the order of candle-kernels' `Id`; the others are used by launchers only. The build script reads this
 * file. */
#ifndef CRK_MODULES_H
#define CRK_MODULES_H

/* XX(STEM, stem) */
#define CRK_MODULE_MAP(XX)             \
  XX(AFFINE, affine)                   \
  XX(BINARY, binary)                   \
  XX(CAST, cast)                       \
  XX(CONV, conv)                       \
  XX(FILL, fill)                       \
  XX(INDEXING, indexing)               \
  XX(QUANTIZED, quantized)             \
  XX(REDUCE, reduce)                   \
  XX(SORT, sort)                       \
  XX(TERNARY, ternary)                 \
  XX(UNARY, unary)                     \
  XX(REDUCE_DIMS, reduce_dims)         \
  XX(NORM, norm)                       \
  XX(ROPE, rope)                       \
  XX(QUANTIZED_VEC, quantized_vec)     \
  XX(QUANTIZED_MAT, quantized_mat)     \
  XX(MOE, moe)                         \
  XX(MATMUL, matmul)                   \
  XX(RANDOM, random)                   \
  XX(ATTENTION, attention)             \
  XX(ATTENTION_SPLIT, attention_split) \
  XX(CONV_CORES, conv_cores)           \
  XX(GATE, gate)                       \
  XX(COMM, comm)

typedef enum crk_module_index {
#define XX(upper, lower) CRK_MODULE_##upper,
  CRK_MODULE_MAP(XX)
#undef XX
      CRK_MODULE_COUNT
} crk_module_index_t;

#endif
