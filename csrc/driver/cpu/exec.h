/* Runs one launch of a host kernel (kernels/platform/host_abi.h) to its end, on the calling thread and the pool's. */
#ifndef CRK_CPU_EXEC_H
#define CRK_CPU_EXEC_H

#include "candle_rocm.h"
#include "platform/host_abi.h"

#define CRK_CPU_BLOCK_THREADS 1024u
#define CRK_CPU_UNIT_THREADS  2048u /* counted for each CPU thread: what most GPUs hold per unit */
#define CRK_CPU_SHARED_BYTES  65536u /* of a block, static and dynamic together */

/* `args[i]` points at argument i. The result is that of the kernel's threads running in an order of this function's
 * choice.
 *
 * Fails with CRK_INVALID_ARGUMENT for a geometry beyond the bounds above or the kernel's max_threads, CRK_OUT_OF_MEMORY
 * where there are no stacks to be had, and with CRK_DEVICE where threads wait for each other for ever, threads of a
 * kernel that is not cooperative synchronise, or shared memory does not suffice; the kernel's output is then undefined.
 * A thread that spins on memory until another thread of its block changes it hangs, as it may on a GPU. */
crk_status_t crk_priv_cpu_execute(const crk_host_kernel_t *kernel, uint32_t wave_size, crk_dim3_t grid,
                                  crk_dim3_t block, uint32_t shared_bytes, void *const *args);

#endif
