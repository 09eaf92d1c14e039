/* From block to block of one launch: the last of several blocks goes on with what all of them have stored.
 *
 * Kernels that do this include it beside platform/platform.h. The definitions are in platform/hip/blocks.h,
 * platform/cuda/blocks.h and platform/host/blocks.h.
 *
 *   store_passed(results + .., numbers);
 *   if (last_of_blocks(ticket, blocks, word)) {
 *     .. load_passed(results + ..) ..
 *   } */
#ifndef CRK_PLATFORM_BLOCKS_H
#define CRK_PLATFORM_BLOCKS_H

#include "platform/platform.h"

namespace crk {

/* Stores V numbers, 1, 2 or 4, for another block of the launch. `dst` is aligned to the pack. */
template <int V>
CRK_FN void store_passed(float *dst, const pack<float, V> &values);

/* Loads what another block stored by store_passed. */
template <int V>
CRK_FN pack<float, V> load_passed(const float *src);

/* True in all threads of the last block to come here, of `blocks` blocks of the launch. The block may then load what
 * all these blocks stored before they came. Only for cooperative kernels; all threads of the block come. `ticket` is in
 * global memory; it is 0 before the launch and again after it. `word` is in shared memory. Other threads may
 * still use it before they come; after the call nobody does. */
CRK_FN bool last_of_blocks(uint32_t *ticket, uint32_t blocks, float *word);

}  // namespace crk

#if defined(__HIP__)
#include "platform/hip/blocks.h"
#elif defined(__CUDACC__)
#include "platform/cuda/blocks.h"
#else
#include "platform/host/blocks.h"
#endif

#endif
