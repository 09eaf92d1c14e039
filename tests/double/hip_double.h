/* The test double of libamdhip64: declarations that its files share, and its exports other than HIP's own calls. */
#ifndef HIP_DOUBLE_H
#define HIP_DOUBLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/host_abi.h"

#if defined(_WIN32)
#define HIP_DOUBLE_EXPORT __declspec(dllexport)
#else
#define HIP_DOUBLE_EXPORT __attribute__((visibility("default")))
#endif

/* Makes a code object with the kernels of a host module: a valid AMD ELF of `architecture` with the metadata that a
 * compiler would write, and no machine code. Features may follow the architecture, as in "gfx90a:sramecc+:xnack-".
 * Returns 0, or -1 for an unknown module or architecture. Free `data` with hip_double_code_object_free. May be called
 * before anything else. */
HIP_DOUBLE_EXPORT int hip_double_code_object(const char *module, const char *architecture, void **data, size_t *bytes);
HIP_DOUBLE_EXPORT void hip_double_code_object_free(void *data);

/* From now on, makes the `nth` call of `call` (1 is the next; 0 is every one) return `code` without doing anything. A
 * negative code instead delays the call by -`code` milliseconds. A code of 0 removes the rule. Returns -1 if there is
 * no such call. The environment variable HIP_DOUBLE_FAIL sets rules too: "hipMalloc:3=2,hipEventQuery:0=600". */
HIP_DOUBLE_EXPORT int hip_double_fail(const char *call, uint64_t nth, int code);

/* How often a call was made since the library was loaded; -1 if there is no such call. */
HIP_DOUBLE_EXPORT int64_t hip_double_calls(const char *call);

/* The number of live objects of a kind: "allocations", "host allocations", "coherent host allocations", "streams",
 * "events", "modules", "graphs", "executables", "nodes", "BLAS handles"; -1 for an unknown kind. */
HIP_DOUBLE_EXPORT int64_t hip_double_alive(const char *kind);

/* The names of the calls since the last hip_double_trace (at most the latest 1024), one per line. */
HIP_DOUBLE_EXPORT void hip_double_trace(char *text, size_t size);

/* The kernels launched since the last hip_double_launches, one per line, each with its number of blocks. Only as many
 * as fit into 4096 bytes. */
HIP_DOUBLE_EXPORT void hip_double_launches(char *text, size_t size);

/* The following declarations are for the doubles of librocblas and libhipblaslt, which use the same GPU. Begins a call
 * of the list of calls: counts it, and returns a rule's code, or 0. */
int hip_double_begin(const char *call);
/* Begins the enclosing call, and returns from it if a rule gives a code. */
#define HIP_DOUBLE_BEGIN(name)                   \
  do {                                           \
    const int answer_ = hip_double_begin(#name); \
    if (answer_ != 0) {                          \
      return answer_;                            \
    }                                            \
  } while (0)

/* Does the pending work of a live stream of the current device. Returns false if it is no such stream or is being
 * captured. */
bool hip_double_finish(void *stream);

/* Whether a handle is NULL or belongs to a live stream. */
bool hip_double_is_stream(void *stream);

/* Waits for the current device. This spoils every capture on it. */
void hip_double_wait(void);

/* The size of the allocation that begins at `ptr`; 0 if none does. */
size_t hip_double_bytes(const void *ptr);

/* Device memory that a library allocates and frees by itself; rules for hipMalloc and hipFree do not apply. Returns
 * NULL if there is not enough. */
void *hip_double_allocate(size_t bytes);
void hip_double_release(void *ptr);

/* The number of live handles of BLAS libraries. */
extern atomic_int hip_double_blas_handles;

/* TF32 is F32 whose operands are rounded to 10 bits of mantissa. */
enum { HIP_DOUBLE_F16, HIP_DOUBLE_BF16, HIP_DOUBLE_F32, HIP_DOUBLE_TF32, HIP_DOUBLE_F64 };

/* A batch of column-major matrices; strides count elements. */
typedef struct hip_double_matrix {
  const void *first;
  bool is_transposed;
  int64_t leading, stride;
} hip_double_matrix_t;

/* d = a * b for matrices of m x k and k x n elements. alpha must be 1 and beta 0. Returns false if the stream cannot be
 * used. */
bool hip_double_multiply(void *stream, int type, int64_t m, int64_t n, int64_t k, int64_t batch, const void *alpha,
                         const hip_double_matrix_t *a, const hip_double_matrix_t *b, const void *beta, void *d,
                         int64_t ldd, int64_t d_stride);

/* The module with this name among the kernels for the CPU, or NULL. */
const crk_host_module_t *hip_double_host_module(const char *name);

#endif
