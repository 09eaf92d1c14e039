/* Kernels of the module `matmul`: the launcher's matrix products in floating point (matmul/matmul_cores.h,
 * matmul/matmul_short.h, matmul/matmul_tile.h, matmul/matmul_vec.h, matmul/matmul_wide.h). This file only names the
 * instances. */
#include "elementwise/instances.h"
#include "matmul/matmul_cores.h"
#if CRK_HALF_CORES && CRK_LARGE_SHARED
#include "matmul/matmul_short.h"
#endif
#include "matmul/matmul_tile.h"
#include "matmul/matmul_vec.h"
#include "matmul/matmul_wide.h"

#define CRK_MATMUL_TILE_OF(suffix, T, rows, columns, threads, m, n)                          \
  CRK_COOPERATIVE(matmul_##suffix##_##rows##x##columns##_tiles, threads,                     \
                  (crk_matmul_t call, const T *lhs, const T *rhs, T *dst)) {                 \
    crk::matmul_tile<T, rows, columns, threads, m, n>(CRK_ND_ARGUMENT(call), lhs, rhs, dst); \
  }
/* On matrix cores. Two waves per SIMD unit: else the compiler of CDNA moves sums between its two kinds of registers. */
#define CRK_MATMUL_CORES_OF(suffix, T, rows, columns, threads, m, n)                    \
  CRK_STREAMING(matmul_##suffix##_##rows##x##columns##_tiles, threads, 2,               \
                (crk_matmul_t call, const T *lhs, const T *rhs, T *dst)) {              \
    crk::matmul_cores<T, rows, columns, threads>(CRK_ND_ARGUMENT(call), lhs, rhs, dst); \
  }
#if CRK_HALF_CORES && defined(__CUDACC__) && !defined(__HIP__)
/* A team computes at most 64 x 64 elements: so four of them read half of what eight would read. */
#define CRK_MATMUL_HALF_OF(suffix, T, rows, columns, threads, m, n)                                                   \
  CRK_MATMUL_CORES_OF(suffix, T, rows, columns, ((rows) * (columns) >= 16384 ? (rows) * (columns) / 128 : (threads)), \
                      m, n)
#elif CRK_HALF_CORES
#define CRK_MATMUL_HALF_OF CRK_MATMUL_CORES_OF
#else
#define CRK_MATMUL_HALF_OF CRK_MATMUL_TILE_OF
#endif
#if CRK_FLOAT_CORES
#define CRK_MATMUL_FLOAT_OF CRK_MATMUL_CORES_OF
#else
#define CRK_MATMUL_FLOAT_OF CRK_MATMUL_TILE_OF
#endif
/* Also where f32 has cores that round products a little: small products stay without. */
#if CRK_SPLIT_CORES
#define CRK_MATMUL_LARGE_FLOAT_OF CRK_MATMUL_CORES_OF
#else
#define CRK_MATMUL_LARGE_FLOAT_OF CRK_MATMUL_FLOAT_OF
#endif
#if CRK_DOUBLE_CORES
#define CRK_MATMUL_DOUBLE_OF CRK_MATMUL_CORES_OF
#else
#define CRK_MATMUL_DOUBLE_OF CRK_MATMUL_TILE_OF
#endif
#define CRK_MATMUL_PARTS_OF(suffix, T)                                                               \
  CRK_KERNEL(matmul_##suffix##_parts, CRK_LAUNCHED_THREADS,                                          \
             (const crk::wide<T> *sums, uint64_t parts, uint64_t count, T *dst, uint32_t threads)) { \
    crk::matmul_parts<T>(sums, parts, count, dst, threads);                                          \
  }
#define CRK_MATMUL_VEC_OF(suffix, T)                                          \
  CRK_COOPERATIVE(matmul_##suffix##_rows_vec, CRK_MATMUL_VEC_THREADS,         \
                  (crk_matmul_t call, const T *x, const T *matrix, T *dst)) { \
    CRK_EARLY();                                                              \
    crk::matmul_rows<T>(CRK_ND_ARGUMENT(call), x, matrix, dst);               \
  }                                                                           \
  CRK_COOPERATIVE(matmul_##suffix##_columns_vec, CRK_MATMUL_VEC_THREADS,      \
                  (crk_matmul_t call, const T *x, const T *matrix, T *dst)) { \
    crk::matmul_columns<T>(CRK_ND_ARGUMENT(call), x, matrix, dst);            \
  }

#define CRK_MATMUL_SHORT_OF(suffix, T)                                                                              \
  CRK_COOPERATIVE(matmul_##suffix##_short, CRK_MATMUL_SHORT_THREADS,                                                \
                  (crk_matmul_t call, const T *lhs, const T *rhs, T *dst)) {                                        \
    crk::matmul_short<T, CRK_MATMUL_SHORT_ROWS, CRK_MATMUL_SHORT_COLUMNS, CRK_MATMUL_SHORT_THREADS>(call, lhs, rhs, \
                                                                                                    dst);           \
  }

/* nvcc is told twice the threads of a block: two of the largest blocks find room. The launcher counts on it. */
#define CRK_WIDE_BOUND ((crk::async_copies::present ? 2 : 1) * CRK_WIDE_THREADS)
#define CRK_MATMUL_WIDE_OF(suffix, T)                                                       \
  CRK_STREAMING(matmul_##suffix##_wide_vec, CRK_WIDE_BOUND, 4, (crk_wide_product_t call)) { \
    CRK_BEGINS_EARLY();                                                                     \
    crk::matmul_wide<T>(CRK_ND_ARGUMENT(call));                                             \
  }
#define CRK_MATMUL_GATE_OF(op, suffix, T)                                                    \
  CRK_STREAMING(matmul_gate_##op##_##suffix, CRK_WIDE_BOUND, 4, (crk_wide_product_t call)) { \
    CRK_BEGINS_EARLY();                                                                      \
    crk::matmul_gate<crk::op##_op, T>(CRK_ND_ARGUMENT(call));                                \
  }

#define CRK_MATMUL_ROPE_OF(suffix, T)                                                     \
  CRK_STREAMING(matmul_##suffix##_wide_rope, CRK_WIDE_BOUND, 4, (crk_wide_rope_t call)) { \
    CRK_BEGINS_EARLY();                                                                   \
    crk::matmul_rope<T>(CRK_ND_ARGUMENT(call));                                           \
  }

#define CRK_MATMUL_BF16(rows, columns, threads, m, n) CRK_MATMUL_HALF_OF(bf16, crk::bf16, rows, columns, threads, m, n)
#define CRK_MATMUL_F16(rows, columns, threads, m, n)  CRK_MATMUL_HALF_OF(f16, crk::f16, rows, columns, threads, m, n)
#define CRK_MATMUL_F32(rows, columns, threads, m, n)  CRK_MATMUL_FLOAT_OF(f32, float, rows, columns, threads, m, n)
#define CRK_MATMUL_LARGE_F32(rows, columns, threads, m, n) \
  CRK_MATMUL_LARGE_FLOAT_OF(f32, float, rows, columns, threads, m, n)
#define CRK_MATMUL_F64(rows, columns, threads, m, n) CRK_MATMUL_DOUBLE_OF(f64, double, rows, columns, threads, m, n)

#if CRK_HALF_CORES && CRK_LARGE_SHARED
CRK_MATMUL_WIDE_TILE(CRK_MATMUL_BF16)
CRK_MATMUL_WIDE_TILE(CRK_MATMUL_F16)
CRK_MATMUL_SHORT_OF(bf16, crk::bf16)
CRK_MATMUL_SHORT_OF(f16, crk::f16)
#endif
CRK_MATMUL_LARGE_TILE(CRK_MATMUL_BF16)
CRK_MATMUL_LARGE_TILE(CRK_MATMUL_F16)
CRK_MATMUL_LARGE_TILE(CRK_MATMUL_LARGE_F32)
CRK_MATMUL_TILES(CRK_MATMUL_BF16)
CRK_MATMUL_TILES(CRK_MATMUL_F16)
CRK_MATMUL_TILES(CRK_MATMUL_F32)
CRK_MATMUL_TILES(CRK_MATMUL_F64)
CRK_FLOAT_TYPES(CRK_MATMUL_PARTS_OF)
CRK_FLOAT_TYPES(CRK_MATMUL_VEC_OF)
CRK_FLOAT_TYPES(CRK_MATMUL_WIDE_OF)
CRK_FLOAT_TYPES(CRK_MATMUL_ROPE_OF)
CRK_GATE_OPS(CRK_MATMUL_GATE_OF, f32, float)
CRK_GATE_OPS(CRK_MATMUL_GATE_OF, f16, crk::f16)
CRK_GATE_OPS(CRK_MATMUL_GATE_OF, bf16, crk::bf16)

CRK_MODULE(matmul)
