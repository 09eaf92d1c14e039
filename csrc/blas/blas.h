/* Matrix products by the vendors' BLAS libraries, which are opened at run time: hipblaslt.c and rocblas.c for HIP
 * devices, cublas.c for CUDA devices. Without a library, or where all fail, the caller uses kernels of its own. */
#ifndef CRK_BLAS_H
#define CRK_BLAS_H

#include <stdatomic.h>

#include "candle_rocm.h"
#include "os/library.h"
#include "os/os.h"

/* An operand, a batch of matrices with rows of k elements. A left matrix has m rows. A right matrix is transposed: it
 * has n rows. */
typedef struct crk_gemm_operand {
  const void *first;
  bool along_k; /* true: each row is contiguous; false: each column is */
  uint64_t leading; /* elements from one row (column) to the next, at least the length of one */
  int64_t batch_stride;
} crk_gemm_operand_t;

/* The most bytes of dst. Some kernels of hipBLASLt lose elements that are 2^31 bytes or more behind the beginning of
 * dst, and report no error (https://github.com/ROCm/hipBLASLt/issues/2299). rocBLAS uses these kernels too. */
#define CRK_GEMM_MOST_BYTES ((uint64_t)INT32_MAX)

/* dst[b][i][j] = the sum over l of lhs[b][i][l] * rhs[b][j][l]. No size is 0. Only cuBLAS takes is_wide and gaps. */
typedef struct crk_gemm {
  crk_dtype_t dtype; /* BF16, F16, F32 or F64 */
  bool is_wide; /* of BF16: dst is F32 */
  bool is_tf32; /* of F32: the library may round the operands to TF32 */
  int32_t m, n, k, batch;
  crk_gemm_operand_t lhs, rhs;
  void *dst;
  uint64_t dst_leading; /* elements from one row of dst to the next, if batch is 1; 0: dst has no gaps */
} crk_gemm_t;

/* A library. It is opened once and never closed. Its functions are called with the device bound to the thread. Calls
 * with the same handle do not overlap. */
typedef struct crk_blas_library {
  const char *name;
  const char *stem; /* of its file name */
  const char *const *symbols; /* the needed functions, as crk_priv_library_functions takes them */
  void *functions; /* their pointers go here */
  /* Some libraries have their kernels in files, one per architecture. The variable of the environment names the folder
   * of these files; the other is the folder's name beside the library. NULL if the library contains its kernels. */
  const char *kernels_variable, *kernels_folder;
  bool takes_workspace; /* uses the caller's scratch memory */
  /* Makes a handle. If the library takes a workspace, products use the `bytes` bytes at `workspace` until the handle is
   * destroyed; else `workspace` is NULL. Fails with CRK_OUT_OF_MEMORY or CRK_NOT_FOUND, without a sentence. Like
   * `destroy` it may wait for the GPU. */
  crk_status_t (*create)(void *workspace, size_t bytes, void **handle);
  void (*destroy)(void *handle);
  /* Sets the stream that the handle works on; NULL before that stream is destroyed. Waits for nothing. */
  bool (*set_stream)(void *handle, void *stream);
  /* Launches a product. Returns false if nothing was launched. The libraries' matrices are column-major, so the library
   * sees the transposed product: dst (n x m) = rhs (n x k) times lhs (k x m). */
  bool (*multiply)(void *handle, const crk_gemm_t *gemm);
  /* For blas.c. */
  bool is_tried, is_loaded;
  char found[1024]; /* the path that it was opened by, or why it was not opened */
} crk_blas_library_t;

extern crk_blas_library_t crk_priv_hipblaslt, crk_priv_rocblas, crk_priv_cublas;

/* 0 or 1 in the type of the sums. A library multiplies the product and the old dst by such numbers. */
static inline const void *crk_gemm_factor(const crk_gemm_t *gemm, int value) {
  static const float single[] = {0.0f, 1.0f};
  static const double wide[] = {0.0, 1.0};
  return gemm->dtype == CRK_DTYPE_F64 ? (const void *)&wide[value] : &single[value];
}

typedef struct crk_blas_handle crk_blas_handle_t;
typedef struct crk_blas_pool crk_blas_pool_t;

/* The BLAS part of a device handle. */
typedef struct crk_blas {
  crk_blas_pool_t *pool; /* of the GPU */
  crk_mutex_t lock; /* guards `handle` and its use, and changes of `state`; taken before the pool's lock */
  atomic_int state; /* for blas.c */
  crk_blas_handle_t *handle;
} crk_blas_t;

crk_status_t crk_priv_blas_init(crk_device_t self);
void crk_priv_blas_deinit(crk_device_t self);

/* What crk_diagnose tells of a library. */
typedef struct crk_blas_view {
  const char *name;
  bool is_loaded;
  bool has_kernels; /* for the architecture */
  char found[1024]; /* its path, or why it is not loaded */
} crk_blas_view_t;

/* Opens library `index` of a backend as a product would, and describes it. Returns false if the backend has fewer
 * libraries. Call it only after the driver's `load` has succeeded. */
bool crk_priv_blas_look(crk_backend_t backend, size_t index, const char *architecture, crk_blas_view_t *view);

/* Called before a capture of the device handle begins, and after it has ended. In between no library handle is made or
 * destroyed, which would spoil the capture. `begin` waits for a library handle that is being made. That may empty the
 * caches, so the caller holds no lock of a device handle. `end` waits for nothing. */
void crk_priv_blas_capture_begin(crk_device_t self);
void crk_priv_blas_capture_end(crk_device_t self);

/* Whether the device handle has a library. Makes its handle, if that is possible now. */
bool crk_priv_blas_is_ready(crk_device_t self);

/* Gives the product to a library; false where nothing was launched. Once the device handle has its libraries, this only
 * takes the lock of the device handle. */
bool crk_priv_blas_multiply(crk_device_t self, const crk_gemm_t *gemm);

#endif
