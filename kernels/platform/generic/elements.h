/* crk::elements for GPUs: neighbouring threads have neighbouring elements. A part of platform/hip/threads.h and
 * platform/cuda/threads.h. */
#ifndef CRK_PLATFORM_GENERIC_ELEMENTS_H
#define CRK_PLATFORM_GENERIC_ELEMENTS_H

namespace crk {

struct elements {
  uint64_t first, end, step;

  CRK_FN elements(uint64_t count, uint32_t threads, uint32_t block = CRK_LAUNCHED_THREADS)
      : first(block_index().x * block + thread_index().x), end(count), step(threads) {}
};

}  // namespace crk

#endif
