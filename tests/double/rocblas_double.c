/* A librocblas for the GPU that hip_double.c simulates, in the same library. It has the few calls that the crate makes.
 * They are checked as the real ones are, and are counted, made to fail and traced like HIP's. A handle has device
 * memory of its own, which it replaces when a product needs more. Once it has been given a workspace, it uses only
 * that. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hip_double.h"

#define API HIP_DOUBLE_EXPORT int

enum {
  SUCCESS = 0,
  INVALID_HANDLE = 1,
  NOT_IMPLEMENTED = 2,
  INVALID_POINTER = 3,
  INVALID_SIZE = 4,
  MEMORY_ERROR = 5,
  INTERNAL_ERROR = 6,
  INVALID_VALUE = 11
};
enum { NONE = 111, TRANSPOSE = 112 };
enum { F16 = 150, F32 = 151, F64 = 152, BF16 = 168 };
enum { MAGIC = 0x626c6173 };
enum {
  OWN_BYTES = 32 << 20, /* the memory of a new handle */
  LONG_K = 1000,        /* products with at least this k compute their sums in parts */
  PARTS_BYTES = 40 << 20
};

typedef struct handle {
  int magic;
  void *stream, *memory;
  size_t bytes;
  bool is_given; /* `memory` is a workspace */
} handle_t;

static handle_t *live(void *handle) {
  handle_t *self = handle;
  return self != NULL && self->magic == MAGIC ? self : NULL;
}

/* Creating or destroying a handle waits for the device. No capture on it survives that. */
API rocblas_create_handle(void **handle) {
  HIP_DOUBLE_BEGIN(rocblas_create_handle);
  hip_double_wait();
  handle_t *self = handle != NULL ? calloc(1, sizeof *self) : NULL;
  if (self == NULL) {
    return handle == NULL ? INVALID_POINTER : MEMORY_ERROR;
  }
  self->memory = hip_double_allocate(OWN_BYTES);
  if (self->memory == NULL) {
    free(self);
    return MEMORY_ERROR;
  }
  self->bytes = OWN_BYTES;
  self->magic = MAGIC;
  hip_double_blas_handles++;
  *handle = self;
  return SUCCESS;
}

API rocblas_destroy_handle(void *handle) {
  HIP_DOUBLE_BEGIN(rocblas_destroy_handle);
  handle_t *self = live(handle);
  if (self == NULL) {
    return INVALID_HANDLE;
  }
  hip_double_wait();
  if (!self->is_given) {
    hip_double_release(self->memory);
  }
  self->magic = 0;
  hip_double_blas_handles--;
  free(self);
  return SUCCESS;
}

API rocblas_set_stream(void *handle, void *stream) {
  HIP_DOUBLE_BEGIN(rocblas_set_stream);
  handle_t *self = live(handle);
  if (self == NULL) {
    return INVALID_HANDLE;
  }
  /* The call asks whether either stream is being captured. */
  if (!hip_double_is_stream(self->stream) || !hip_double_is_stream(stream)) {
    return INVALID_VALUE;
  }
  self->stream = stream;
  return SUCCESS;
}

API rocblas_set_atomics_mode(void *handle, int mode) {
  HIP_DOUBLE_BEGIN(rocblas_set_atomics_mode);
  return live(handle) == NULL ? INVALID_HANDLE : mode == 0 || mode == 1 ? SUCCESS : INVALID_VALUE;
}

API rocblas_set_workspace(void *handle, void *workspace, size_t bytes) {
  HIP_DOUBLE_BEGIN(rocblas_set_workspace);
  handle_t *self = live(handle);
  if (self == NULL) {
    return INVALID_HANDLE;
  }
  if (bytes == 0 || hip_double_bytes(workspace) < bytes) {
    return INVALID_VALUE;
  }
  if (!self->is_given) {
    hip_double_release(self->memory);
  }
  self->memory = workspace;
  self->bytes = bytes;
  self->is_given = true;
  return SUCCESS;
}

/* Replaces the handle's own memory if a product needs more; this waits for the device. Returns false if the handle's
 * memory no longer exists. */
static bool has_memory(handle_t *self, size_t bytes) {
  if (!self->is_given && self->bytes < bytes) {
    hip_double_wait();
    hip_double_release(self->memory);
    self->memory = hip_double_allocate(bytes);
    self->bytes = self->memory != NULL ? bytes : 0;
  }
  return self->bytes != 0 && hip_double_bytes(self->memory) >= self->bytes;
}

/* The type's number in hip_double.h, or -1. */
static int kind_of(int type) {
  return type == F16    ? HIP_DOUBLE_F16
         : type == BF16 ? HIP_DOUBLE_BF16
         : type == F32  ? HIP_DOUBLE_F32
         : type == F64  ? HIP_DOUBLE_F64
                        : -1;
}

/* Matrices are column-major: op(a) is m x k, op(b) is k x n, d is m x n. */
API rocblas_gemm_strided_batched_ex(void *handle, int a_operation, int b_operation, int32_t m, int32_t n, int32_t k,
                                    const void *alpha, const void *a, int a_type, int32_t lda, int64_t a_stride,
                                    const void *b, int b_type, int32_t ldb, int64_t b_stride, const void *beta,
                                    const void *c, int c_type, int32_t ldc, int64_t c_stride, void *d, int d_type,
                                    int32_t ldd, int64_t d_stride, int32_t batch, int compute_type, int algorithm,
                                    int32_t solution, uint32_t flags) {
  HIP_DOUBLE_BEGIN(rocblas_gemm_strided_batched_ex);
  handle_t *self = live(handle);
  if (self == NULL) {
    return INVALID_HANDLE;
  }
  if ((a_operation != NONE && a_operation != TRANSPOSE) || (b_operation != NONE && b_operation != TRANSPOSE) ||
      algorithm != 0 || solution != 0 || flags != 0) {
    return INVALID_VALUE;
  }
  if (kind_of(a_type) < 0 || b_type != a_type || c_type != a_type || d_type != a_type ||
      compute_type != (a_type == F64 ? F64 : F32)) {
    return NOT_IMPLEMENTED;
  }
  if (m <= 0 || n <= 0 || k <= 0 || batch <= 0 || lda < (a_operation == NONE ? m : k) ||
      ldb < (b_operation == NONE ? k : n) || ldc < m || ldd != ldc || d_stride != c_stride ||
      (batch > 1 && d_stride < (int64_t)ldd * n)) {
    return INVALID_SIZE;
  }
  if (alpha == NULL || beta == NULL || a == NULL || b == NULL || c != d || d == NULL) {
    return INVALID_POINTER;
  }
  if (!has_memory(self, k < LONG_K ? 0 : PARTS_BYTES)) {
    return MEMORY_ERROR;
  }
  const hip_double_matrix_t left = {a, a_operation == TRANSPOSE, lda, a_stride};
  const hip_double_matrix_t right = {b, b_operation == TRANSPOSE, ldb, b_stride};
  return hip_double_multiply(self->stream, kind_of(a_type), m, n, k, batch, alpha, &left, &right, beta, d, ldd,
                             d_stride)
             ? SUCCESS
             : INTERNAL_ERROR;
}
