/* A libhipblaslt for the GPU that hip_double.c simulates, in the same library. It has the few calls that the crate
 * makes. They are checked as the real ones are, and are counted, made to fail and traced like HIP's. There is no kernel
 * for f64, none for a k that is a multiple of 13, and none in TF32 for a multiple of 11. For all other products the
 * kernel's number tells which operands are transposed: 1 for none, and so on. hipblasLtMatmul must be given the right
 * number. */
#include <stdlib.h>
#include <string.h>

#include "hip_double.h"

#define API HIP_DOUBLE_EXPORT int

enum { SUCCESS = 0, INVALID_VALUE = 3, INTERNAL_ERROR = 6, NOT_SUPPORTED = 7 };
enum { HANDLE = 0x6c740001, OPERATION, LAYOUT, PREFERENCE };
enum { OP_N = 111, OP_T = 112 };

typedef struct object {
  int magic;
} object_t;

typedef struct operation {
  object_t object;
  bool is_tf32;
  int32_t transposed[2];
} operation_t;

typedef struct layout {
  object_t object;
  int type;
  int64_t rows, columns, leading, stride;
  int32_t batch;
} layout_t;

typedef struct preference {
  object_t object;
  uint64_t bytes;
} preference_t;

typedef struct algorithm {
  int32_t kernel;
  char rest[20];
} algorithm_t;

typedef struct choice {
  algorithm_t algorithm;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
} choice_t;

static bool is_live(const void *object, int magic) {
  return object != NULL && ((const object_t *)object)->magic == magic;
}

static int create(void **object, size_t size, int magic) {
  object_t *self = calloc(1, size);
  self->magic = magic;
  hip_double_blas_handles++;
  *object = self;
  return SUCCESS;
}

static int destroy(void *object, int magic) {
  if (!is_live(object, magic)) {
    return INVALID_VALUE;
  }
  ((object_t *)object)->magic = 0;
  hip_double_blas_handles--;
  free(object);
  return SUCCESS;
}

/* Creating or destroying a handle waits for the device. No capture on it survives that. */
API hipblasLtCreate(void **handle) {
  HIP_DOUBLE_BEGIN(hipblasLtCreate);
  hip_double_wait();
  return create(handle, sizeof(object_t), HANDLE);
}

API hipblasLtDestroy(void *handle) {
  HIP_DOUBLE_BEGIN(hipblasLtDestroy);
  hip_double_wait();
  return destroy(handle, HANDLE);
}

API hipblasLtGetVersion(void *handle, int *version) {
  HIP_DOUBLE_BEGIN(hipblasLtGetVersion);
  const char *told = getenv("HIPBLASLT_DOUBLE_VERSION");
  *version = told != NULL ? atoi(told) : 1000;
  return is_live(handle, HANDLE) ? SUCCESS : INVALID_VALUE;
}

API hipblasLtMatmulDescCreate(void **operation, int compute_type, int scale_type) {
  HIP_DOUBLE_BEGIN(hipblasLtMatmulDescCreate);
  if ((compute_type != 2 && compute_type != 6) || scale_type != 0) { /* f32 or TF32; f32 */
    return NOT_SUPPORTED;
  }
  create(operation, sizeof(operation_t), OPERATION);
  ((operation_t *)*operation)->is_tf32 = compute_type == 6;
  ((operation_t *)*operation)->transposed[0] = ((operation_t *)*operation)->transposed[1] = OP_N;
  return SUCCESS;
}

API hipblasLtMatmulDescDestroy(void *operation) {
  HIP_DOUBLE_BEGIN(hipblasLtMatmulDescDestroy);
  return destroy(operation, OPERATION);
}

API hipblasLtMatmulDescSetAttribute(void *operation, int attribute, const void *value, size_t bytes) {
  HIP_DOUBLE_BEGIN(hipblasLtMatmulDescSetAttribute);
  if (!is_live(operation, OPERATION) || attribute < 0 || attribute > 1 || bytes != sizeof(int32_t)) {
    return INVALID_VALUE;
  }
  int32_t *to = &((operation_t *)operation)->transposed[attribute];
  memcpy(to, value, bytes);
  return *to == OP_N || *to == OP_T ? SUCCESS : INVALID_VALUE;
}

API hipblasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  HIP_DOUBLE_BEGIN(hipblasLtMatrixLayoutCreate);
  create(layout, sizeof(layout_t), LAYOUT);
  layout_t *self = *layout;
  self->type = type == 0 ? HIP_DOUBLE_F32 : type == 2 ? HIP_DOUBLE_F16 : type == 14 ? HIP_DOUBLE_BF16 : HIP_DOUBLE_F64;
  self->rows = (int64_t)rows;
  self->columns = (int64_t)columns;
  self->leading = leading;
  self->batch = 1;
  return SUCCESS;
}

API hipblasLtMatrixLayoutDestroy(void *layout) {
  HIP_DOUBLE_BEGIN(hipblasLtMatrixLayoutDestroy);
  return destroy(layout, LAYOUT);
}

API hipblasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes) {
  HIP_DOUBLE_BEGIN(hipblasLtMatrixLayoutSetAttribute);
  layout_t *self = layout;
  if (!is_live(layout, LAYOUT) || bytes != (attribute == 0 ? sizeof self->batch : sizeof self->stride) ||
      attribute > 1) {
    return INVALID_VALUE;
  }
  memcpy(attribute == 0 ? (void *)&self->batch : &self->stride, value, bytes);
  return SUCCESS;
}

API hipblasLtMatmulPreferenceCreate(void **preference) {
  HIP_DOUBLE_BEGIN(hipblasLtMatmulPreferenceCreate);
  return create(preference, sizeof(preference_t), PREFERENCE);
}

API hipblasLtMatmulPreferenceDestroy(void *preference) {
  HIP_DOUBLE_BEGIN(hipblasLtMatmulPreferenceDestroy);
  return destroy(preference, PREFERENCE);
}

API hipblasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes) {
  HIP_DOUBLE_BEGIN(hipblasLtMatmulPreferenceSetAttribute);
  if (!is_live(preference, PREFERENCE) || attribute != 1 || bytes != sizeof(uint64_t)) {
    return INVALID_VALUE;
  }
  memcpy(&((preference_t *)preference)->bytes, value, bytes);
  return SUCCESS;
}

/* The number of the kernel for a product; 0 if there is none. */
static int32_t kernel_for(const operation_t *operation, const layout_t *a, const layout_t *b, const layout_t *c,
                          const layout_t *d) {
  if (!is_live(operation, OPERATION) || !is_live(a, LAYOUT) || !is_live(b, LAYOUT) || c != d || !is_live(d, LAYOUT)) {
    return 0;
  }
  const bool a_turned = operation->transposed[0] == OP_T, b_turned = operation->transposed[1] == OP_T;
  const int64_t m = a_turned ? a->columns : a->rows, k = a_turned ? a->rows : a->columns;
  const int64_t n = b_turned ? b->rows : b->columns;
  const bool fits = k == (b_turned ? b->columns : b->rows) && m == d->rows && n == d->columns &&
                    a->leading >= a->rows && b->leading >= b->rows && d->leading >= d->rows &&
                    a->batch == d->batch && b->batch == d->batch && a->type == d->type && b->type == d->type;
  if (operation->is_tf32 && (k % 11 == 0 || d->type != HIP_DOUBLE_F32)) {
    return 0;
  }
  return fits && k % 13 != 0 && d->type != HIP_DOUBLE_F64 ? 1 + a_turned + 2 * b_turned : 0;
}

API hipblasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d, void *preference,
                                    int wanted, choice_t *choices, int *count) {
  HIP_DOUBLE_BEGIN(hipblasLtMatmulAlgoGetHeuristic);
  if (!is_live(handle, HANDLE) || !is_live(preference, PREFERENCE) || wanted != 1) {
    return INVALID_VALUE;
  }
  const int32_t kernel = kernel_for(operation, a, b, c, d);
  *count = kernel != 0;
  if (kernel != 0) {
    *choices = (choice_t){.algorithm = {.kernel = kernel}, .workspace = ((preference_t *)preference)->bytes};
  }
  return SUCCESS;
}

API hipblasLtMatmul(void *handle, void *operation, const void *alpha, const void *a, void *a_layout, const void *b,
                    void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                    const void *algorithm, void *workspace, size_t bytes, void *stream) {
  HIP_DOUBLE_BEGIN(hipblasLtMatmul);
  const int32_t kernel = kernel_for(operation, a_layout, b_layout, c_layout, d_layout);
  if (!is_live(handle, HANDLE) || kernel == 0 || ((const algorithm_t *)algorithm)->kernel != kernel || c != d ||
      bytes == 0 || hip_double_bytes(workspace) < bytes) {
    return INVALID_VALUE;
  }
  const operation_t *turn = operation;
  const layout_t *at = a_layout, *bt = b_layout, *to = d_layout;
  const hip_double_matrix_t left = {a, turn->transposed[0] == OP_T, at->leading, at->stride};
  const hip_double_matrix_t right = {b, turn->transposed[1] == OP_T, bt->leading, bt->stride};
  const int type = turn->is_tf32 ? HIP_DOUBLE_TF32 : to->type;
  return hip_double_multiply(stream, type, to->rows, to->columns, left.is_transposed ? at->rows : at->columns,
                             to->batch, alpha, &left, &right, beta, d, to->leading, to->stride)
             ? SUCCESS
             : INTERNAL_ERROR;
}
