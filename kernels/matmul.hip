/* Kernels of the module `matmul`: the launcher's matrix products in floating point (matmul/matmul_tile.h,
 * matmul/matmul_vec.h). This file only names the instances. */
#include "elementwise/instances.h"
#include "matmul/matmul_tile.h"
#include "matmul/matmul_vec.h"

#define CRK_MATMUL_TILE_OF(suffix, T, rows, columns, threads, m, n)                          \
  CRK_COOPERATIVE(matmul_##suffix##_##rows##x##columns##_tiles, threads,                     \
                  (crk_matmul_t call, const T *lhs, const T *rhs, T *dst)) {                 \
    crk::matmul_tile<T, rows, columns, threads, m, n>(CRK_ND_ARGUMENT(call), lhs, rhs, dst); \
  }
#define CRK_MATMUL_PARTS_OF(suffix, T)                                                               \
  CRK_KERNEL(matmul_##suffix##_parts, CRK_LAUNCHED_THREADS,                                          \
             (const crk::wide<T> *sums, uint64_t parts, uint64_t count, T *dst, uint32_t threads)) { \
    crk::matmul_parts<T>(sums, parts, count, dst, threads);                                          \
  }
#define CRK_MATMUL_VEC_OF(suffix, T)                                          \
  CRK_COOPERATIVE(matmul_##suffix##_rows_vec, CRK_MATMUL_VEC_THREADS,         \
                  (crk_matmul_t call, const T *x, const T *matrix, T *dst)) { \
    crk::matmul_rows<T>(CRK_ND_ARGUMENT(call), x, matrix, dst);               \
  }                                                                           \
  CRK_COOPERATIVE(matmul_##suffix##_columns_vec, CRK_MATMUL_VEC_THREADS,      \
                  (crk_matmul_t call, const T *x, const T *matrix, T *dst)) { \
    crk::matmul_columns<T>(CRK_ND_ARGUMENT(call), x, matrix, dst);            \
  }

#define CRK_MATMUL_BF16(rows, columns, threads, m, n) CRK_MATMUL_TILE_OF(bf16, crk::bf16, rows, columns, threads, m, n)
#define CRK_MATMUL_F16(rows, columns, threads, m, n)  CRK_MATMUL_TILE_OF(f16, crk::f16, rows, columns, threads, m, n)
#define CRK_MATMUL_F32(rows, columns, threads, m, n)  CRK_MATMUL_TILE_OF(f32, float, rows, columns, threads, m, n)
#define CRK_MATMUL_F64(rows, columns, threads, m, n)  CRK_MATMUL_TILE_OF(f64, double, rows, columns, threads, m, n)

CRK_MATMUL_LARGE_TILE(CRK_MATMUL_BF16)
CRK_MATMUL_LARGE_TILE(CRK_MATMUL_F16)
CRK_MATMUL_LARGE_TILE(CRK_MATMUL_F32)
CRK_MATMUL_TILES(CRK_MATMUL_BF16)
CRK_MATMUL_TILES(CRK_MATMUL_F16)
CRK_MATMUL_TILES(CRK_MATMUL_F32)
CRK_MATMUL_TILES(CRK_MATMUL_F64)
CRK_FLOAT_TYPES(CRK_MATMUL_PARTS_OF)
CRK_FLOAT_TYPES(CRK_MATMUL_VEC_OF)

CRK_MODULE(matmul)
