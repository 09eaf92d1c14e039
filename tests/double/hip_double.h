/* The test double of libamdhip64: what its two files share, and what it exports beside HIP's own calls. */
#ifndef HIP_DOUBLE_H
#define HIP_DOUBLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/host_abi.h"

#define HIP_DOUBLE_EXPORT __attribute__((visibility("default")))

/* A code object for the kernels of a host module: a valid AMD ELF of `architecture` (features may follow it, as in
 * "gfx90a:sramecc+:xnack-") with the metadata that a compiler would write, and no machine code. Returns 0, or -1 for an
 * unknown module or architecture. Free `data` with hip_double_code_object_free. Works before anything else was called.
 */
HIP_DOUBLE_EXPORT int hip_double_code_object(const char *module, const char *architecture, void **data, size_t *bytes);
HIP_DOUBLE_EXPORT void hip_double_code_object_free(void *data);

/* From the next call of `call` on, makes the `nth` (1 is the next; 0 is every one) answer `code` without doing
 * anything, or, where the code is negative, begin -`code` milliseconds later. A code of 0 takes the rule back. Returns -1 for a name of no call. The environment variable HIP_DOUBLE_FAIL
 * gives such rules too: "hipMalloc:3=2,hipEventQuery:0=600". */
HIP_DOUBLE_EXPORT int hip_double_fail(const char *call, uint64_t nth, int code);

/* How often a call was made since the library was loaded; of no call, -1. */
HIP_DOUBLE_EXPORT int64_t hip_double_calls(const char *call);

/* How many objects of a kind there are: "allocations", "host allocations", "coherent host allocations", "streams", "events", "modules", "graphs",
 * "executables", "BLAS handles"; of an unknown kind, -1. */
HIP_DOUBLE_EXPORT int64_t hip_double_alive(const char *kind);

/* The names of the calls since the last hip_double_trace (the latest 1024 of them), a line each. */
HIP_DOUBLE_EXPORT void hip_double_trace(char *text, size_t size);

/* The kernels that were launched since the last hip_double_launches, a line each: its name and the number of blocks. As many of
 * them as 4096 bytes have room for. */
HIP_DOUBLE_EXPORT void hip_double_launches(char *text, size_t size);

/* The rest is for the doubles of librocblas and libhipblaslt, which play on the same GPU. Begins a call that the list of calls has:
 * counts it, and gives a rule's answer, else 0. */
int hip_double_begin(const char *call);
/* Returns a rule's answer from the function that is the call. */
#define HIP_DOUBLE_BEGIN(name)                   \
  do {                                           \
    const int answer_ = hip_double_begin(#name); \
    if (answer_ != 0) {                          \
      return answer_;                            \
    }                                            \
  } while (0)

/* Does what a live stream of the current device has collected; false where there is none, or it is being captured. */
bool hip_double_finish(void *stream);

/* Whether a handle is NULL or a live stream's. */
bool hip_double_is_stream(void *stream);

/* Waits for the current device, which spoils every capture on it. */
void hip_double_wait(void);

/* The bytes of the allocation that `ptr` is the beginning of; 0 where it is of none. */
size_t hip_double_bytes(const void *ptr);

/* Device memory that a library takes and gives back on its own, which no rule for hipMalloc and hipFree is about; NULL
 * where there is not enough. */
void *hip_double_allocate(size_t bytes);
void hip_double_release(void *ptr);

/* How many handles of BLAS libraries there are. */
extern atomic_int hip_double_blas_handles;

enum { HIP_DOUBLE_F16, HIP_DOUBLE_BF16, HIP_DOUBLE_F32, HIP_DOUBLE_F64 };

/* A batch of matrices that lie column by column, in elements. */
typedef struct hip_double_matrix {
  const void *first;
  bool is_transposed;
  int64_t leading, stride;
} hip_double_matrix_t;

/* d = a * b, matrices of m x k and k x n elements; alpha must be 1, beta 0. False where the stream is none that can be used. */
bool hip_double_multiply(void *stream, int type, int64_t m, int64_t n, int64_t k, int64_t batch, const void *alpha,
                         const hip_double_matrix_t *a, const hip_double_matrix_t *b, const void *beta, void *d,
                         int64_t ldd, int64_t d_stride);

/* The module of a name among the kernels for the CPU, or NULL. */
const crk_host_module_t *hip_double_host_module(const char *name);

#endif
