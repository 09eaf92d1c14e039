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

namespace { /* keeps the array's key from adding a symbol to the archive */

CRK_FN uint32_t *last_of_blocks_room() {
  CRK_SHARED(uint32_t, room, 1);
  return room;
}

}  // namespace

CRK_FN bool last_of_blocks(uint32_t *ticket, uint32_t blocks) {
  uint32_t *const came_before = last_of_blocks_room();
  barrier();
  if (thread_index().x == 0) {
    came_before[0] = __atomic_fetch_add(ticket, 1, __ATOMIC_ACQ_REL);
    if (came_before[0] + 1 == blocks) {
      __atomic_store_n(ticket, 0, __ATOMIC_RELAXED);
    }
  }
  barrier();
  return came_before[0] + 1 == blocks;
}

}  // namespace crk

#endif
