/* NVIDIA's BLAS library: libcublas, opened at run time, for measurements beside the kernels here. Needs no header of CUDA's. The library
 * is never closed. */
#include <string.h>

#include "blas.h"
#include "error.h"

/* XX(name, parameters). All return a cublasStatus_t. */
#define CRK_CUBLAS_MAP(XX)                                                                                   \
  XX(cublasCreate_v2, (void **handle))                                                                       \
  XX(cublasDestroy_v2, (void *handle))                                                                       \
  XX(cublasSetStream_v2, (void *handle, void *stream))                                                       \
  XX(cublasSetMathMode, (void *handle, int mode))                                                            \
  XX(cublasGemmStridedBatchedEx,                                                                             \
     (void *handle, int a_operation, int b_operation, int m, int n, int k, const void *alpha, const void *a, \
      int a_type, int lda, long long a_stride, const void *b, int b_type, int ldb, long long b_stride,       \
      const void *beta, void *c, int c_type, int ldc, long long c_stride, int batch, int compute_type, int algorithm))

/* The numbers of the API that are used here. */
enum {
  CUBLAS_SUCCESS = 0,
  CUBLAS_OP_N = 0,
  CUBLAS_OP_T = 1,
  CUDA_F32 = 0,
  CUDA_F64 = 1,
  CUDA_F16 = 2,
  CUDA_BF16 = 14,
  CUBLAS_COMPUTE_F32 = 68,
  CUBLAS_COMPUTE_F64 = 70,
  CUBLAS_GEMM_DEFAULT = -1,
  CUBLAS_NO_REDUCED_PRECISION_REDUCTION = 16 /* partial sums stay f32 */
};

static struct {
#define XX(name, params) int(*name) params;
  CRK_CUBLAS_MAP(XX)
#undef XX
  bool tried, loaded;
} cublas;

static const char *const library_names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"};

static bool find_all(void *library) {
#define XX(name, params)                                          \
  {                                                               \
    void *const symbol = crk_priv_library_symbol(library, #name); \
    memcpy(&cublas.name, &symbol, sizeof symbol);                 \
    if (symbol == NULL) {                                         \
      return false;                                               \
    }                                                             \
  }
  CRK_CUBLAS_MAP(XX)
#undef XX
  return true;
}

static bool cublas_load(const char *named) {
  if (!cublas.tried) {
    char why[200];
    void *library = named != NULL ? crk_priv_library_open(named, why, sizeof why) : NULL;
    for (size_t i = 0; named == NULL && library == NULL && i < sizeof library_names / sizeof *library_names; i++) {
      library = crk_priv_library_open(library_names[i], why, sizeof why);
    }
    cublas.tried = true;
    cublas.loaded = library != NULL && find_all(library);
  }
  return cublas.loaded;
}

static bool cublas_create(const char *architecture, void *stream, void **handle) {
  (void)architecture;
  void *fresh = NULL;
  if (cublas.cublasCreate_v2(&fresh) != CUBLAS_SUCCESS) {
    return false;
  }
  if (cublas.cublasSetStream_v2(fresh, stream) != CUBLAS_SUCCESS ||
      cublas.cublasSetMathMode(fresh, CUBLAS_NO_REDUCED_PRECISION_REDUCTION) != CUBLAS_SUCCESS) {
    cublas.cublasDestroy_v2(fresh);
    return false;
  }
  *handle = fresh;
  return true;
}

static void cublas_destroy(void *handle) { cublas.cublasDestroy_v2(handle); }

/* The library's matrices lie column by column: dst is an n x m matrix to it, the product of rhs as n x k and lhs as k x m. */
static bool cublas_multiply(void *handle, const crk_gemm_t *gemm) {
  const int type = gemm->dtype == CRK_DTYPE_F16    ? CUDA_F16
                   : gemm->dtype == CRK_DTYPE_BF16 ? CUDA_BF16
                   : gemm->dtype == CRK_DTYPE_F32  ? CUDA_F32
                                                   : CUDA_F64;
  const float one = 1.0f, zero = 0.0f;
  const double wide_one = 1.0, wide_zero = 0.0;
  const void *alpha = type == CUDA_F64 ? (const void *)&wide_one : &one;
  const void *beta = type == CUDA_F64 ? (const void *)&wide_zero : &zero;
  return cublas.cublasGemmStridedBatchedEx(
             handle, gemm->rhs.along_k ? CUBLAS_OP_T : CUBLAS_OP_N, gemm->lhs.along_k ? CUBLAS_OP_N : CUBLAS_OP_T,
             gemm->n, gemm->m, gemm->k, alpha, gemm->rhs.first, type, (int)gemm->rhs.leading, gemm->rhs.batch_stride,
             gemm->lhs.first, type, (int)gemm->lhs.leading, gemm->lhs.batch_stride, beta, gemm->dst, type, gemm->n,
             (long long)gemm->m * gemm->n, gemm->batch, type == CUDA_F64 ? CUBLAS_COMPUTE_F64 : CUBLAS_COMPUTE_F32,
             CUBLAS_GEMM_DEFAULT) == CUBLAS_SUCCESS;
}

const crk_blas_library_t crk_priv_cublas = {"cuBLAS", cublas_load, cublas_create, cublas_destroy, cublas_multiply};
