/* Matrix products through the vendor's BLAS library, opened at run time: blas_rocblas.c for HIP devices, blas_cublas.c for CUDA devices.
 * Without the library, or where it fails, the caller has kernels of its own. */
#ifndef CRK_BLAS_H
#define CRK_BLAS_H

#include <stdatomic.h>

#include "candle_rocm.h"
#include "os.h"

/* `rows` rows of k elements for each matrix of a batch: m of the left operand, n of the right one, seen with its dims exchanged. */
typedef struct crk_gemm_operand {
  const void *first;
  bool along_k; /* whether neighbours in memory follow each other along k, or along the rows */
  uint64_t leading; /* elements from one line of them to the next, at least a line's */
  int64_t batch_stride;
} crk_gemm_operand_t;

/* dst[b][i][j] = the sum over l of lhs[b][i][l] * rhs[b][j][l], dst without gaps; no size is 0. */
typedef struct crk_gemm {
  crk_dtype_t dtype; /* BF16, F16, F32 or F64 */
  int32_t m, n, k, batch;
  crk_gemm_operand_t lhs, rhs;
  void *dst;
} crk_gemm_t;

/* A library. Its functions are called with the device bound to the thread; those of one handle one at a time. */
typedef struct crk_blas_library {
  const char *name;
  /* Opens the library, at the first call; false where it is not there or has not what is needed. `named` is the file to open, or
   * NULL for the usual ones. */
  bool (*load)(const char *named);
  /* A handle that works on `stream`. False where the library cannot be used on the architecture. */
  bool (*create)(const char *architecture, void *stream, void **handle);
  void (*destroy)(void *handle);
  /* False where nothing was launched. */
  bool (*multiply)(void *handle, const crk_gemm_t *gemm);
} crk_blas_library_t;

extern const crk_blas_library_t crk_priv_rocblas, crk_priv_cublas;

/* What a device handle has of it. */
typedef struct crk_blas {
  crk_mutex_t lock;
  atomic_int state; /* 0: not known yet */
  void *handle;
} crk_blas_t;

void crk_priv_blas_init(crk_device_t self);
void crk_priv_blas_deinit(crk_device_t self);

/* Gives the product to the library; false where nothing was launched. */
bool crk_priv_blas_multiply(crk_device_t self, const crk_gemm_t *gemm);

#endif
