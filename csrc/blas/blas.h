/* Matrix products through the vendor's BLAS libraries, opened at run time: hipblaslt.c and rocblas.c for HIP devices,
 * cublas.c for CUDA devices. Without a library, or where all fail, the caller has kernels of its own. */
#ifndef CRK_BLAS_H
#define CRK_BLAS_H

#include <stdatomic.h>

#include "candle_rocm.h"
#include "os/library.h"
#include "os/os.h"

/* `rows` rows of k elements for each matrix of a batch: m of the left operand, n of the right one, seen with its dims exchanged. */
typedef struct crk_gemm_operand {
  const void *first;
  bool along_k; /* whether neighbours in memory follow each other along k, or along the rows */
  uint64_t leading; /* elements from one line of them to the next, at least a line's */
  int64_t batch_stride;
} crk_gemm_operand_t;

/* Bytes that dst of a product may have: of what hipBLASLt's kernels store 2^31 bytes and more behind its begin some is lost, and they
 * tell of no error (https://github.com/ROCm/hipBLASLt/issues/2299). rocBLAS hands products on to them. */
#define CRK_GEMM_MOST_BYTES ((uint64_t)INT32_MAX)

/* dst[b][i][j] = the sum over l of lhs[b][i][l] * rhs[b][j][l], dst without gaps; no size is 0. */
typedef struct crk_gemm {
  crk_dtype_t dtype; /* BF16, F16, F32 or F64 */
  int32_t m, n, k, batch;
  crk_gemm_operand_t lhs, rhs;
  void *dst;
} crk_gemm_t;

/* The text of a function's name, in a list of them. */
#define CRK_SYMBOL_NAME(name, params) #name,

/* A library; it is opened once, and never closed. Its functions are called with the device bound to the thread; those of one handle one
 * at a time. */
typedef struct crk_blas_library {
  const char *name;
  const char *stem; /* of its files' names */
  const char *const *symbols; /* what is needed of it, ends with NULL */
  void *functions; /* as many pointers */
  /* Where it has a file of kernels for each architecture: the variable that names their folder, and the folder beside the library.
   * NULL where it has them in itself. */
  const char *kernels_variable, *kernels_folder;
  bool takes_workspace; /* in place of memory of its own */
  /* Makes a handle. Where the library takes a workspace, products use `workspace`, of `bytes` bytes, until the handle
   * is destroyed; else it is NULL. Fails with CRK_OUT_OF_MEMORY or CRK_NOT_FOUND, without a sentence. Like `destroy` it
   * may wait for the GPU. */
  crk_status_t (*create)(void *workspace, size_t bytes, void **handle);
  void (*destroy)(void *handle);
  /* The stream that the handle works on; NULL in place of one that is about to go. Waits for nothing. */
  bool (*set_stream)(void *handle, void *stream);
  /* False where nothing was launched. The library's matrices lie column by column: dst is an n x m matrix to it, the product of rhs as
   * n x k and lhs as k x m. */
  bool (*multiply)(void *handle, const crk_gemm_t *gemm);
  bool is_tried, is_loaded; /* blas.c's */
} crk_blas_library_t;

extern crk_blas_library_t crk_priv_hipblaslt, crk_priv_rocblas, crk_priv_cublas;

/* 0 or 1 in the type that sums are made in: what a library multiplies the product by, and what dst held. */
static inline const void *crk_gemm_factor(const crk_gemm_t *gemm, int value) {
  static const float single[] = {0.0f, 1.0f};
  static const double wide[] = {0.0, 1.0};
  return gemm->dtype == CRK_DTYPE_F64 ? (const void *)&wide[value] : &single[value];
}

typedef struct crk_blas_handle crk_blas_handle_t;
typedef struct crk_blas_pool crk_blas_pool_t;

/* What a device handle keeps. */
typedef struct crk_blas {
  crk_blas_pool_t *pool; /* the GPU's */
  crk_mutex_t lock; /* for `handle` and its use, and to change `state`; taken before the pool's */
  atomic_int state; /* blas.c's */
  crk_blas_handle_t *handle;
} crk_blas_t;

crk_status_t crk_priv_blas_init(crk_device_t self);
void crk_priv_blas_deinit(crk_device_t self);

/* To be called before the device handle's capture begins, and after it ended: no library does anything meanwhile that
 * the capture would not survive. `begin` waits for a library handle that is being made, which may empty the caches: its
 * caller holds no lock of a device handle. `end` waits for nothing. */
void crk_priv_blas_capture_begin(crk_device_t self);
void crk_priv_blas_capture_end(crk_device_t self);

/* Gives the product to a library; false where nothing was launched. Once the device handle has its libraries this takes
 * no lock but the device handle's own. */
bool crk_priv_blas_multiply(crk_device_t self, const crk_gemm_t *gemm);

#endif
