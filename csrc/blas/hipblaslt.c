/* AMD's other BLAS library, hipBLASLt, opened at run time. It has the faster kernels for the half types on the GPUs
 * that it supports, but supports less than rocBLAS. No header of ROCm is needed: the prototypes, numbers and the struct
 * below are those of the public API of ROCm 6.0 and later; before that, types had other numbers.
 *
 * hipBLASLt's choice of a kernel takes longer than a small product. So a hash table keeps each product with its kernel,
 * or with the answer that there is none. */
#include <stdlib.h>
#include <string.h>

#include "blas/blas.h"
#include "dtype.h"

/* XX(name, parameters). All return a hipblasStatus_t. */
#define CRK_HIPBLASLT_MAP(XX)                                                                                          \
  XX(hipblasLtCreate, (void **handle))                                                                                 \
  XX(hipblasLtDestroy, (void *handle))                                                                                 \
  XX(hipblasLtGetVersion, (void *handle, int *version))                                                                \
  XX(hipblasLtMatmulDescCreate, (void **operation, int compute_type, int scale_type))                                  \
  XX(hipblasLtMatmulDescDestroy, (void *operation))                                                                    \
  XX(hipblasLtMatmulDescSetAttribute, (void *operation, int attribute, const void *value, size_t bytes))               \
  XX(hipblasLtMatrixLayoutCreate, (void **layout, int type, uint64_t rows, uint64_t columns, int64_t leading))         \
  XX(hipblasLtMatrixLayoutDestroy, (void *layout))                                                                     \
  XX(hipblasLtMatrixLayoutSetAttribute, (void *layout, int attribute, const void *value, size_t bytes))                \
  XX(hipblasLtMatmulPreferenceCreate, (void **preference))                                                             \
  XX(hipblasLtMatmulPreferenceDestroy, (void *preference))                                                             \
  XX(hipblasLtMatmulPreferenceSetAttribute, (void *preference, int attribute, const void *value, size_t bytes))        \
  XX(hipblasLtMatmulAlgoGetHeuristic, (void *handle, void *operation, void *a, void *b, void *c, void *d,              \
                                       void *preference, int wanted, choice_t *choices, int *count))                   \
  XX(hipblasLtMatmul, (void *handle, void *operation, const void *alpha, const void *a, void *a_layout, const void *b, \
                       void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,       \
                       const void *algorithm, void *workspace, size_t bytes, void *stream))

/* The numbers of the API that are used here. */
enum {
  HIPBLAS_SUCCESS = 0,
  HIPBLAS_ALLOC_FAILED = 2,
  HIPBLAS_OP_N = 111,
  HIPBLAS_OP_T = 112,
  HIPBLAS_COMPUTE_F32 = 2,
  HIPBLAS_COMPUTE_F32_FAST_TF32 = 6,
  HIP_F32 = 0,
  HIP_F16 = 2,
  HIP_BF16 = 14,
  MATMUL_DESC_TRANSA = 0,
  MATMUL_DESC_TRANSB = 1,
  LAYOUT_BATCH_COUNT = 0,
  LAYOUT_BATCH_STRIDE = 1,
  PREFERENCE_WORKSPACE_BYTES = 1,
  VERSION_0_6 = 600 /* ROCm 6.0 */
};

static const int types[CRK_DTYPE_COUNT] = {
    [CRK_DTYPE_F16] = HIP_F16, [CRK_DTYPE_BF16] = HIP_BF16, [CRK_DTYPE_F32] = HIP_F32};

/* hipblasLtMatmulHeuristicResult_t */
typedef struct choice {
  uint64_t algorithm[3];
  uint64_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
} choice_t;
_Static_assert(sizeof(choice_t) == 56, "the size in the library");

static struct {
#define XX(name, params) int(*name) params;
  CRK_HIPBLASLT_MAP(XX)
#undef XX
} lt;

static const char *const symbols[] = {CRK_HIPBLASLT_MAP(CRK_SYMBOL) NULL};

enum {
  /* The most products that are kept. Beyond that, a new product replaces the least recently used one. A pass through a
   * model has tens to hundreds of products, and each new token of a text adds two, in attention. A product takes some
   * KiB of host memory, most of it in hipBLASLt. */
  MOST_PRODUCTS = 1024,
  BUCKETS = 1024
};

/* A product as the library describes it, without its pointers. */
enum { KEY_LENGTH = 10 };
typedef struct product {
  int64_t key[KEY_LENGTH];
  struct product *next; /* in its bucket */
  struct product *newer, *older; /* by last use */
  bool is_possible; /* whether the library has a kernel; if not, the members below are not set */
  void *operation, *a, *b, *d;
  uint64_t algorithm[3];
} product_t;

typedef struct context {
  void *handle, *preference, *workspace, *stream;
  size_t workspace_bytes;
  product_t *buckets[BUCKETS];
  product_t *newest, *oldest;
  size_t product_count;
} context_t;

/* Destroys the library's objects for a product. */
static void destroy_description(product_t *self) {
  if (self->operation != NULL) {
    lt.hipblasLtMatmulDescDestroy(self->operation);
  }
  void **const layouts[] = {&self->a, &self->b, &self->d};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    if (*layouts[i] != NULL) {
      lt.hipblasLtMatrixLayoutDestroy(*layouts[i]);
      *layouts[i] = NULL;
    }
  }
  self->operation = NULL;
}

static void destroy_hipblaslt(void *handle) {
  context_t *self = handle;
  for (product_t *product = self->newest, *older; product != NULL; product = older) {
    older = product->older;
    destroy_description(product);
    free(product);
  }
  if (self->preference != NULL) {
    lt.hipblasLtMatmulPreferenceDestroy(self->preference);
  }
  if (self->handle != NULL) {
    lt.hipblasLtDestroy(self->handle);
  }
  free(self);
}

static crk_status_t create_hipblaslt(void *workspace, size_t bytes, void **handle) {
  context_t *self = calloc(1, sizeof *self);
  if (self == NULL) {
    return CRK_OUT_OF_MEMORY;
  }
  const uint64_t most_bytes = bytes;
  int version = 0;
  self->workspace = workspace;
  self->workspace_bytes = bytes;
  const int status = lt.hipblasLtCreate(&self->handle);
  if (status != HIPBLAS_SUCCESS || lt.hipblasLtGetVersion(self->handle, &version) != HIPBLAS_SUCCESS ||
      version < VERSION_0_6 || lt.hipblasLtMatmulPreferenceCreate(&self->preference) != HIPBLAS_SUCCESS ||
      lt.hipblasLtMatmulPreferenceSetAttribute(self->preference, PREFERENCE_WORKSPACE_BYTES, &most_bytes,
                                               sizeof most_bytes) != HIPBLAS_SUCCESS) {
    destroy_hipblaslt(self);
    return status == HIPBLAS_ALLOC_FAILED ? CRK_OUT_OF_MEMORY : CRK_NOT_FOUND;
  }
  *handle = self;
  return CRK_OK;
}

static bool set_hipblaslt_stream(void *handle, void *stream) {
  ((context_t *)handle)->stream = stream;
  return true;
}

/* Describes a batch of matrices as they lie in memory: `lines` lines of `length` elements. */
static bool describe_matrix(void **layout, const crk_gemm_t *gemm, uint64_t length, uint64_t lines, uint64_t leading,
                            int64_t batch_stride) {
  const int32_t batch = gemm->batch;
  return lt.hipblasLtMatrixLayoutCreate(layout, types[gemm->dtype], length, lines, (int64_t)leading) ==
             HIPBLAS_SUCCESS &&
         lt.hipblasLtMatrixLayoutSetAttribute(*layout, LAYOUT_BATCH_COUNT, &batch, sizeof batch) == HIPBLAS_SUCCESS &&
         lt.hipblasLtMatrixLayoutSetAttribute(*layout, LAYOUT_BATCH_STRIDE, &batch_stride, sizeof batch_stride) ==
             HIPBLAS_SUCCESS;
}

static bool describe_operand(void **layout, const crk_gemm_t *gemm, const crk_gemm_operand_t *operand, int32_t rows) {
  const uint64_t length = (uint64_t)(operand->along_k ? gemm->k : rows),
                 lines = (uint64_t)(operand->along_k ? rows : gemm->k);
  return describe_matrix(layout, gemm, length, lines, operand->leading, operand->batch_stride);
}

/* Describes the product to the library and asks for a kernel. False where it has none. */
static bool choose_algorithm(const context_t *self, product_t *product, const crk_gemm_t *gemm) {
  const int32_t a_operation = gemm->rhs.along_k ? HIPBLAS_OP_T : HIPBLAS_OP_N;
  const int32_t b_operation = gemm->lhs.along_k ? HIPBLAS_OP_N : HIPBLAS_OP_T;
  const int compute_type = gemm->is_tf32 ? HIPBLAS_COMPUTE_F32_FAST_TF32 : HIPBLAS_COMPUTE_F32;
  choice_t choice = {.status = -1};
  int count = 0;
  if (lt.hipblasLtMatmulDescCreate(&product->operation, compute_type, HIP_F32) != HIPBLAS_SUCCESS ||
      lt.hipblasLtMatmulDescSetAttribute(product->operation, MATMUL_DESC_TRANSA, &a_operation, sizeof a_operation) !=
          HIPBLAS_SUCCESS ||
      lt.hipblasLtMatmulDescSetAttribute(product->operation, MATMUL_DESC_TRANSB, &b_operation, sizeof b_operation) !=
          HIPBLAS_SUCCESS ||
      !describe_operand(&product->a, gemm, &gemm->rhs, gemm->n) ||
      !describe_operand(&product->b, gemm, &gemm->lhs, gemm->m) ||
      !describe_matrix(&product->d, gemm, (uint64_t)gemm->n, (uint64_t)gemm->m, (uint64_t)gemm->n,
                       (int64_t)gemm->m * gemm->n) ||
      lt.hipblasLtMatmulAlgoGetHeuristic(self->handle, product->operation, product->a, product->b, product->d,
                                         product->d, self->preference, 1, &choice, &count) != HIPBLAS_SUCCESS) {
    return false;
  }
  memcpy(product->algorithm, choice.algorithm, sizeof choice.algorithm);
  return count == 1 && choice.status == HIPBLAS_SUCCESS && choice.workspace_bytes <= self->workspace_bytes;
}

static product_t **bucket_of(context_t *self, const int64_t *key) {
  uint64_t hash = 0;
  for (size_t i = 0; i < KEY_LENGTH; i++) {
    hash = (hash ^ (uint64_t)key[i]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return &self->buckets[hash % BUCKETS];
}

static void list_newest(context_t *self, product_t *product) {
  product->newer = NULL;
  product->older = self->newest;
  *(self->newest != NULL ? &self->newest->newer : &self->oldest) = product;
  self->newest = product;
}

static void unlist(context_t *self, product_t *product) {
  *(product->newer != NULL ? &product->newer->older : &self->newest) = product->older;
  *(product->older != NULL ? &product->older->newer : &self->oldest) = product->newer;
}

/* An empty product in no list: a new one, or the least recently used one. NULL without host memory. */
static product_t *take_product(context_t *self) {
  if (self->product_count < MOST_PRODUCTS) {
    product_t *fresh = calloc(1, sizeof *fresh);
    self->product_count += fresh != NULL;
    return fresh;
  }
  product_t *oldest = self->oldest;
  product_t **link = bucket_of(self, oldest->key);
  while (*link != oldest) {
    link = &(*link)->next;
  }
  *link = oldest->next;
  unlist(self, oldest);
  destroy_description(oldest);
  return oldest;
}

/* The kept product for `gemm`. Its first use asks the library for a kernel. NULL without host memory. */
static const product_t *find_product(context_t *self, const crk_gemm_t *gemm) {
  const int64_t key[KEY_LENGTH] = {gemm->dtype,
                                   gemm->m,
                                   gemm->n,
                                   gemm->k,
                                   gemm->batch,
                                   gemm->lhs.along_k + 2 * gemm->rhs.along_k + 4 * gemm->is_tf32,
                                   (int64_t)gemm->lhs.leading,
                                   (int64_t)gemm->rhs.leading,
                                   gemm->lhs.batch_stride,
                                   gemm->rhs.batch_stride};
  product_t **bucket = bucket_of(self, key), *product = *bucket;
  while (product != NULL && memcmp(product->key, key, sizeof key) != 0) {
    product = product->next;
  }
  if (product != NULL) {
    unlist(self, product);
  } else {
    product = take_product(self);
    if (product == NULL) {
      return NULL;
    }
    memcpy(product->key, key, sizeof key);
    product->is_possible = choose_algorithm(self, product, gemm);
    if (!product->is_possible) {
      destroy_description(product);
    }
    product->next = *bucket;
    *bucket = product;
  }
  list_newest(self, product);
  return product;
}

static bool multiply_by_hipblaslt(void *handle, const crk_gemm_t *gemm) {
  context_t *self = handle;
  if (gemm->dtype == CRK_DTYPE_F64) {
    return false;
  }
  const product_t *product = find_product(self, gemm);
  if (gemm->is_tf32 && product != NULL && !product->is_possible) {
    crk_gemm_t exact = *gemm;
    exact.is_tf32 = false;
    product = find_product(self, &exact);
  }
  return product != NULL && product->is_possible &&
         lt.hipblasLtMatmul(self->handle, product->operation, crk_gemm_factor(gemm, 1), gemm->rhs.first, product->a,
                            gemm->lhs.first, product->b, crk_gemm_factor(gemm, 0), gemm->dst, product->d, gemm->dst,
                            product->d, product->algorithm, self->workspace, self->workspace_bytes,
                            self->stream) == HIPBLAS_SUCCESS;
}

crk_blas_library_t crk_priv_hipblaslt = {.name = "hipBLASLt",
                                         .stem = "hipblaslt",
                                         .symbols = symbols,
                                         .functions = &lt,
                                         .kernels_variable = "HIPBLASLT_TENSILE_LIBPATH",
                                         .kernels_folder = "hipblaslt",
                                         .takes_workspace = true,
                                         .create = create_hipblaslt,
                                         .destroy = destroy_hipblaslt,
                                         .set_stream = set_hipblaslt_stream,
                                         .multiply = multiply_by_hipblaslt};
