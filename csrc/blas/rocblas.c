/* AMD's BLAS library, librocblas, opened at run time. No header of ROCm is needed: the prototypes below are those of
 * the public API, with the ABI of ROCm 5 and later. All handles are opaque pointers, and every enum is an int. */
#include "blas/blas.h"
#include "dtype.h"

/* XX(name, parameters). All return a rocblas_status. */
#define CRK_ROCBLAS_MAP(XX)                                                                                        \
  XX(rocblas_create_handle, (void **handle))                                                                       \
  XX(rocblas_destroy_handle, (void *handle))                                                                       \
  XX(rocblas_set_stream, (void *handle, void *stream))                                                             \
  XX(rocblas_set_atomics_mode, (void *handle, int mode))                                                           \
  XX(rocblas_set_workspace, (void *handle, void *workspace, size_t bytes))                                         \
  XX(rocblas_gemm_strided_batched_ex,                                                                              \
     (void *handle, int a_operation, int b_operation, int32_t m, int32_t n, int32_t k, const void *alpha,          \
      const void *a, int a_type, int32_t lda, int64_t a_stride, const void *b, int b_type, int32_t ldb,            \
      int64_t b_stride, const void *beta, const void *c, int c_type, int32_t ldc, int64_t c_stride, void *d,       \
      int d_type, int32_t ldd, int64_t d_stride, int32_t batch, int compute_type, int algorithm, int32_t solution, \
      uint32_t flags))

/* The numbers of the API that are used here. */
enum {
  ROCBLAS_SUCCESS = 0,
  ROCBLAS_MEMORY_ERROR = 5,
  ROCBLAS_OPERATION_NONE = 111,
  ROCBLAS_OPERATION_TRANSPOSE = 112,
  ROCBLAS_F16 = 150,
  ROCBLAS_F32 = 151,
  ROCBLAS_F64 = 152,
  ROCBLAS_BF16 = 168,
  ROCBLAS_ATOMICS_NOT_ALLOWED = 0,
  ROCBLAS_GEMM_STANDARD = 0,
  ROCBLAS_FLAGS_NONE = 0
};

static const int types[CRK_DTYPE_COUNT] = {[CRK_DTYPE_F16] = ROCBLAS_F16,
                                           [CRK_DTYPE_BF16] = ROCBLAS_BF16,
                                           [CRK_DTYPE_F32] = ROCBLAS_F32,
                                           [CRK_DTYPE_F64] = ROCBLAS_F64};

static struct {
#define XX(name, params) int(*name) params;
  CRK_ROCBLAS_MAP(XX)
#undef XX
} rocblas;

static const char *const symbols[] = {CRK_ROCBLAS_MAP(CRK_SYMBOL) NULL};

static crk_status_t create_rocblas(void *workspace, size_t bytes, void **handle) {
  void *fresh = NULL;
  int status = rocblas.rocblas_create_handle(&fresh);
  if (status != ROCBLAS_SUCCESS) {
    return status == ROCBLAS_MEMORY_ERROR ? CRK_OUT_OF_MEMORY : CRK_NOT_FOUND;
  }
  /* Without atomic additions every call gives the same sums. */
  status = rocblas.rocblas_set_atomics_mode(fresh, ROCBLAS_ATOMICS_NOT_ALLOWED);
  /* rocBLAS would replace memory of its own when a product needs more. That waits for the GPU, and graphs would keep
   * pointers to the old memory. */
  if (status == ROCBLAS_SUCCESS) {
    status = rocblas.rocblas_set_workspace(fresh, workspace, bytes);
  }
  if (status != ROCBLAS_SUCCESS) {
    rocblas.rocblas_destroy_handle(fresh);
    return CRK_NOT_FOUND;
  }
  *handle = fresh;
  return CRK_OK;
}

static void destroy_rocblas(void *handle) { rocblas.rocblas_destroy_handle(handle); }

static bool set_rocblas_stream(void *handle, void *stream) {
  return rocblas.rocblas_set_stream(handle, stream) == ROCBLAS_SUCCESS;
}

static bool multiply_by_rocblas(void *handle, const crk_gemm_t *gemm) {
  const int type = types[gemm->dtype], compute_type = type == ROCBLAS_F64 ? ROCBLAS_F64 : ROCBLAS_F32;
  const int64_t dst_stride = (int64_t)gemm->m * gemm->n;
  return rocblas.rocblas_gemm_strided_batched_ex(
             handle, gemm->rhs.along_k ? ROCBLAS_OPERATION_TRANSPOSE : ROCBLAS_OPERATION_NONE,
             gemm->lhs.along_k ? ROCBLAS_OPERATION_NONE : ROCBLAS_OPERATION_TRANSPOSE, gemm->n, gemm->m, gemm->k,
             crk_gemm_factor(gemm, 1), gemm->rhs.first, type, (int32_t)gemm->rhs.leading, gemm->rhs.batch_stride,
             gemm->lhs.first, type, (int32_t)gemm->lhs.leading, gemm->lhs.batch_stride, crk_gemm_factor(gemm, 0),
             gemm->dst, type, gemm->n, dst_stride, gemm->dst, type, gemm->n, dst_stride, gemm->batch, compute_type,
             ROCBLAS_GEMM_STANDARD, 0, ROCBLAS_FLAGS_NONE) == ROCBLAS_SUCCESS;
}

crk_blas_library_t crk_priv_rocblas = {.name = "rocBLAS",
                                       .stem = "rocblas",
                                       .symbols = symbols,
                                       .functions = &rocblas,
                                       .kernels_variable = "ROCBLAS_TENSILE_LIBPATH",
                                       .kernels_folder = "rocblas",
                                       .takes_workspace = true,
                                       .create = create_rocblas,
                                       .destroy = destroy_rocblas,
                                       .set_stream = set_rocblas_stream,
                                       .multiply = multiply_by_rocblas};
