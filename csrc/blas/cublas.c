/* NVIDIA's BLAS library, libcublas, opened at run time. No header of CUDA is needed. */
#include "blas/blas.h"
#include "dtype.h"

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
  CUBLAS_ALLOC_FAILED = 3,
  CUBLAS_OP_N = 0,
  CUBLAS_OP_T = 1,
  CUDA_F32 = 0,
  CUDA_F64 = 1,
  CUDA_F16 = 2,
  CUDA_BF16 = 14,
  CUBLAS_COMPUTE_F32 = 68,
  CUBLAS_COMPUTE_F64 = 70,
  CUBLAS_COMPUTE_F32_FAST_TF32 = 77,
  CUBLAS_GEMM_DEFAULT = -1,
  CUBLAS_NO_REDUCED_PRECISION_REDUCTION = 16 /* partial sums stay f32 */
};

static const int types[CRK_DTYPE_COUNT] = {
    [CRK_DTYPE_F16] = CUDA_F16, [CRK_DTYPE_BF16] = CUDA_BF16, [CRK_DTYPE_F32] = CUDA_F32, [CRK_DTYPE_F64] = CUDA_F64};

static struct {
#define XX(name, params) int(*name) params;
  CRK_CUBLAS_MAP(XX)
#undef XX
} cublas;

static const char *const symbols[] = {CRK_CUBLAS_MAP(CRK_SYMBOL) NULL};

static crk_status_t create_cublas(void *workspace, size_t bytes, void **handle) {
  (void)workspace;
  (void)bytes;
  void *fresh = NULL;
  const int status = cublas.cublasCreate_v2(&fresh);
  if (status != CUBLAS_SUCCESS) {
    return status == CUBLAS_ALLOC_FAILED ? CRK_OUT_OF_MEMORY : CRK_NOT_FOUND;
  }
  if (cublas.cublasSetMathMode(fresh, CUBLAS_NO_REDUCED_PRECISION_REDUCTION) != CUBLAS_SUCCESS) {
    cublas.cublasDestroy_v2(fresh);
    return CRK_NOT_FOUND;
  }
  *handle = fresh;
  return CRK_OK;
}

static void destroy_cublas(void *handle) { cublas.cublasDestroy_v2(handle); }

static bool set_cublas_stream(void *handle, void *stream) {
  return cublas.cublasSetStream_v2(handle, stream) == CUBLAS_SUCCESS;
}

static bool multiply_by_cublas(void *handle, const crk_gemm_t *gemm) {
  const int type = types[gemm->dtype], dst_type = gemm->is_wide ? CUDA_F32 : type;
  const int dst_leading = gemm->dst_leading != 0 ? (int)gemm->dst_leading : gemm->n;
  const int compute_type = type == CUDA_F64 ? CUBLAS_COMPUTE_F64
                           : gemm->is_tf32  ? CUBLAS_COMPUTE_F32_FAST_TF32
                                            : CUBLAS_COMPUTE_F32;
  return cublas.cublasGemmStridedBatchedEx(
             handle, gemm->rhs.along_k ? CUBLAS_OP_T : CUBLAS_OP_N, gemm->lhs.along_k ? CUBLAS_OP_N : CUBLAS_OP_T,
             gemm->n, gemm->m, gemm->k, crk_gemm_factor(gemm, 1), gemm->rhs.first, type, (int)gemm->rhs.leading,
             gemm->rhs.batch_stride, gemm->lhs.first, type, (int)gemm->lhs.leading, gemm->lhs.batch_stride,
             crk_gemm_factor(gemm, 0), gemm->dst, dst_type, dst_leading, (long long)gemm->m * gemm->n, gemm->batch,
             compute_type, CUBLAS_GEMM_DEFAULT) == CUBLAS_SUCCESS;
}

crk_blas_library_t crk_priv_cublas = {.name = "cuBLAS",
                                      .stem = "cublas",
                                      .symbols = symbols,
                                      .functions = &cublas,
                                      .create = create_cublas,
                                      .destroy = destroy_cublas,
                                      .set_stream = set_cublas_stream,
                                      .multiply = multiply_by_cublas};
