/* Runs a launch of a host kernel (kernels/platform/host_abi.h) on the calling thread and those of the pool. */
#ifndef CRK_CPU_EXEC_H
#define CRK_CPU_EXEC_H

#include "candle_rocm.h"
#include "platform/host_abi.h"

#define CRK_CPU_BLOCK_THREADS 1024u
#define CRK_CPU_UNIT_THREADS  2048u /* the threads per unit that the device reports, as most GPUs do */
#define CRK_CPU_SHARED_BYTES  65536u /* of a block, static and dynamic together */

/* Runs a launch to its end. args[i] points at argument i. The threads run in an order that this function chooses.
 *
 * Fails with CRK_INVALID_ARGUMENT for a geometry beyond the bounds above or the kernel's max_threads, and with
 * CRK_OUT_OF_MEMORY if there is no memory for stacks. Fails with CRK_DEVICE in three cases: threads wait for each other
 * for ever, threads of a kernel that is not cooperative synchronise, or shared memory is too small. The kernel's output
 * is then undefined. A thread that spins until another thread of its block changes memory hangs, as it may on a
 * GPU. */
crk_status_t crk_priv_cpu_execute(const crk_host_kernel_t *kernel, uint32_t wave_size, crk_dim3_t grid,
                                  crk_dim3_t block, uint32_t shared_bytes, void *const *args);

#endif
