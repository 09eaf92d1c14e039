/* Kernels of the module `quantized_mat`: the launchers' products of quantized weights with many columns
 * (quantized/matmat.h), and the quantization of those columns (quantized/mmq.h). This file only names the instances. */
#include "elementwise/instances.h"
#include "quantized/matmat.h"

#define CRK_QUANTIZE_MMQ(layout, suffix, T)                                                                       \
  CRK_COOPERATIVE(quantize_mmq_##layout##_##suffix, CRK_MMQ_THREADS,                                              \
                  (const T *x, const int32_t *ids, uint32_t *dst, crk_mmq_quantize_t shape, crk_fault_t fault)) { \
    crk::quantize_mmq<crk::mmq::layout>(x, ids, dst, shape, fault);                                               \
  }
#define CRK_QUANTIZE_MMQ_FLOATS(layout)   \
  CRK_QUANTIZE_MMQ(layout, f32, float)    \
  CRK_QUANTIZE_MMQ(layout, f16, crk::f16) \
  CRK_QUANTIZE_MMQ(layout, bf16, crk::bf16)
CRK_MMQ_LAYOUTS(CRK_QUANTIZE_MMQ_FLOATS)

/* Two waves per SIMD unit leave room for the sums beside the operands. Without a number, the compiler of CDNA moves
 * sums to accumulation registers and back. The kernels are named by the numbers that a row has per step: with 16 of
 * them, shared memory has no room for a second block. */
#define CRK_MUL_MAT_KERNEL_4(name, max_threads, params)  CRK_STREAMING(name, max_threads, 2, params)
#define CRK_MUL_MAT_KERNEL_8(name, max_threads, params)  CRK_STREAMING(name, max_threads, 2, params)
#define CRK_MUL_MAT_KERNEL_16(name, max_threads, params) CRK_COOPERATIVE(name, max_threads, params)
#define CRK_MUL_MAT(KERNEL, rows, columns, type)                                                          \
  KERNEL(mul_mat_##type##_##rows##x##columns##_tiles, crk::mmq_threads<crk::block_##type>(rows, columns), \
         (const crk::block_##type *weights, const uint32_t *y, void *dst, crk_mmq_product_t shape)) {     \
    crk::mul_mat_mmq<crk::block_##type, rows, columns>(weights, y, dst, shape);                           \
  }
#define CRK_MUL_MAT_TILES(rows, columns, type, numbers)   CRK_MUL_MAT(CRK_MUL_MAT_KERNEL_##numbers, rows, columns, type)
#define CRK_MUL_MAT_FORMAT(format, type, layout, numbers) CRK_MMQ_TILES(CRK_MUL_MAT_TILES, type, numbers)
CRK_MMQ_FORMATS(CRK_MUL_MAT_FORMAT)

#if CRK_HAS_WIDE_MMQ
#define CRK_MUL_MAT_WIDE_FORMAT(format, type, layout, numbers) CRK_MMQ_WIDE_TILES(CRK_MUL_MAT_TILES, type, numbers)
CRK_MMQ_FORMATS(CRK_MUL_MAT_WIDE_FORMAT)
#endif

CRK_MODULE(quantized_mat)
