/* AMD's BLAS library: librocblas, opened at run time. Needs no header of ROCm's: the prototypes below are those of the public API, whose
 * ABI is the same from ROCm 5 to 7; all handles are opaque pointers, and every enum is an int. The library is never closed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "error.h"

/* XX(name, parameters). All return a rocblas_status. */
#define CRK_ROCBLAS_MAP(XX)                                                                                        \
  XX(rocblas_create_handle, (void **handle))                                                                       \
  XX(rocblas_destroy_handle, (void *handle))                                                                       \
  XX(rocblas_set_stream, (void *handle, void *stream))                                                             \
  XX(rocblas_set_atomics_mode, (void *handle, int mode))                                                           \
  XX(rocblas_gemm_strided_batched_ex,                                                                              \
     (void *handle, int a_operation, int b_operation, int32_t m, int32_t n, int32_t k, const void *alpha,          \
      const void *a, int a_type, int32_t lda, int64_t a_stride, const void *b, int b_type, int32_t ldb,            \
      int64_t b_stride, const void *beta, const void *c, int c_type, int32_t ldc, int64_t c_stride, void *d,       \
      int d_type, int32_t ldd, int64_t d_stride, int32_t batch, int compute_type, int algorithm, int32_t solution, \
      uint32_t flags))

/* The numbers of the API that are used here. */
enum {
  ROCBLAS_SUCCESS = 0,
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

static struct {
#define XX(name, params) int(*name) params;
  CRK_ROCBLAS_MAP(XX)
#undef XX
  bool tried, loaded;
} rocblas;

/* The last ones are where ROCm's packages put it, for systems whose loader was not told. */
static const char *const library_names[] = {"librocblas.so.5", "librocblas.so.4", "librocblas.so.3",
                                            "librocblas.so.0", "librocblas.so",   "/opt/rocm/lib/librocblas.so"};

static void *open_library(const char *named) {
  char why[200];
  if (named != NULL) {
    return crk_priv_library_open(named, why, sizeof why);
  }
  void *library = NULL;
  for (size_t i = 0; library == NULL && i < sizeof library_names / sizeof *library_names; i++) {
    library = crk_priv_library_open(library_names[i], why, sizeof why);
  }
  return library;
}

static bool find_all(void *library) {
#define XX(name, params)                                          \
  {                                                               \
    void *const symbol = crk_priv_library_symbol(library, #name); \
    memcpy(&rocblas.name, &symbol, sizeof symbol);                \
    if (symbol == NULL) {                                         \
      return false;                                               \
    }                                                             \
  }
  CRK_ROCBLAS_MAP(XX)
#undef XX
  return true;
}

static bool rocblas_load(const char *named) {
  if (!rocblas.tried) {
    void *library = open_library(named);
    rocblas.tried = true;
    rocblas.loaded = library != NULL && find_all(library);
  }
  return rocblas.loaded;
}

/* rocBLAS ends the process where it has no kernels for an architecture. They are files with the architecture in their names, in the
 * folder that ROCBLAS_TENSILE_LIBPATH names, else in rocblas/library, or rocblas/VERSION/library, beside the library. */
static bool has_kernels(const char *architecture) {
  char folder[1024];
  const char *named = getenv("ROCBLAS_TENSILE_LIBPATH");
  if (named != NULL && *named != '\0') {
    return crk_priv_folder_has(named, architecture, 0);
  }
  void *symbol;
  memcpy(&symbol, &rocblas.rocblas_create_handle, sizeof symbol);
  if (!crk_priv_library_folder(symbol, folder, sizeof folder - sizeof "rocblas")) {
    return false;
  }
  strcat(folder, "rocblas");
  return crk_priv_folder_has(folder, architecture, 2);
}

static bool rocblas_create(const char *architecture, void *stream, void **handle) {
  void *fresh = NULL;
  if (!has_kernels(architecture) || rocblas.rocblas_create_handle(&fresh) != ROCBLAS_SUCCESS) {
    return false;
  }
  /* Sums without atomic additions are the same in each call. */
  if (rocblas.rocblas_set_stream(fresh, stream) != ROCBLAS_SUCCESS ||
      rocblas.rocblas_set_atomics_mode(fresh, ROCBLAS_ATOMICS_NOT_ALLOWED) != ROCBLAS_SUCCESS) {
    rocblas.rocblas_destroy_handle(fresh);
    return false;
  }
  *handle = fresh;
  return true;
}

static void rocblas_destroy(void *handle) { rocblas.rocblas_destroy_handle(handle); }

/* The library's matrices lie column by column: dst is an n x m matrix to it, the product of rhs as n x k and lhs as k x m. */
static bool rocblas_multiply(void *handle, const crk_gemm_t *gemm) {
  const int type = gemm->dtype == CRK_DTYPE_F16    ? ROCBLAS_F16
                   : gemm->dtype == CRK_DTYPE_BF16 ? ROCBLAS_BF16
                   : gemm->dtype == CRK_DTYPE_F32  ? ROCBLAS_F32
                                                   : ROCBLAS_F64;
  const int compute_type = type == ROCBLAS_F64 ? ROCBLAS_F64 : ROCBLAS_F32;
  const float one = 1.0f, zero = 0.0f;
  const double wide_one = 1.0, wide_zero = 0.0;
  const void *alpha = type == ROCBLAS_F64 ? (const void *)&wide_one : &one;
  const void *beta = type == ROCBLAS_F64 ? (const void *)&wide_zero : &zero;
  const int64_t dst_stride = (int64_t)gemm->m * gemm->n;
  return rocblas.rocblas_gemm_strided_batched_ex(
             handle, gemm->rhs.along_k ? ROCBLAS_OPERATION_TRANSPOSE : ROCBLAS_OPERATION_NONE,
             gemm->lhs.along_k ? ROCBLAS_OPERATION_NONE : ROCBLAS_OPERATION_TRANSPOSE, gemm->n, gemm->m, gemm->k, alpha,
             gemm->rhs.first, type, (int32_t)gemm->rhs.leading, gemm->rhs.batch_stride, gemm->lhs.first, type,
             (int32_t)gemm->lhs.leading, gemm->lhs.batch_stride, beta, gemm->dst, type, gemm->n, dst_stride, gemm->dst,
             type, gemm->n, dst_stride, gemm->batch, compute_type, ROCBLAS_GEMM_STANDARD, 0,
             ROCBLAS_FLAGS_NONE) == ROCBLAS_SUCCESS;
}

const crk_blas_library_t crk_priv_rocblas = {"rocBLAS", rocblas_load, rocblas_create, rocblas_destroy,
                                             rocblas_multiply};
