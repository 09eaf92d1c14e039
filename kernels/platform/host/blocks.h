/* platform/blocks.h for the CPU. */
#ifndef CRK_PLATFORM_HOST_BLOCKS_H
#define CRK_PLATFORM_HOST_BLOCKS_H

namespace crk {

template <int V>
CRK_FN void store_passed(float *dst, const pack<float, V> &values) {
  store_pack<float, V>(dst, values);
}
template <int V>
CRK_FN pack<float, V> load_passed(const float *src) {
  return load_pack<float, V>(src);
}

CRK_FN bool last_of_blocks(uint32_t *ticket, uint32_t blocks, float *word) {
  barrier();
  if (thread_index().x == 0) {
    const uint32_t before = __atomic_fetch_add(ticket, 1, __ATOMIC_ACQ_REL);
    if (before + 1 == blocks) {
      __atomic_store_n(ticket, 0, __ATOMIC_RELAXED);
    }
    *word = bit_cast<float>(before);
  }
  barrier();
  const bool is_last = bit_cast<uint32_t>(*word) + 1 == blocks;
  barrier();
  return is_last;
}

}  // namespace crk

#endif
