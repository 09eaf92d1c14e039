/* platform/blocks.h for AMD GPUs. */
#ifndef CRK_PLATFORM_HIP_BLOCKS_H
#define CRK_PLATFORM_HIP_BLOCKS_H

namespace crk {

/* Atomic accesses go past the caches that only some units of the GPU share: the L0 and L1 caches, and on MI300 the L2
 * caches, of which there are several. So these accesses need no write-back and no invalidation of a cache. */
template <int V>
CRK_FN void store_passed(float *dst, const pack<float, V> &values) {
  if constexpr (V == 1) {
    __hip_atomic_store(dst, values.v[0], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    return;
  }
  CRK_UNROLL
  for (int i = 0; i < V; i += 2) {
    __hip_atomic_store(reinterpret_cast<uint64_t *>(dst + i),
                       bit_cast<uint64_t>(pack<float, 2>{{values.v[i], values.v[i + 1]}}), __ATOMIC_RELAXED,
                       __HIP_MEMORY_SCOPE_AGENT);
  }
}
template <int V>
CRK_FN pack<float, V> load_passed(const float *src) {
  pack<float, V> values;
  if constexpr (V == 1) {
    return {{__hip_atomic_load(src, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)}};
  }
  CRK_UNROLL
  for (int i = 0; i < V; i += 2) {
    const uint64_t bits =
        __hip_atomic_load(reinterpret_cast<const uint64_t *>(src + i), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    const pack<float, 2> two = bit_cast<pack<float, 2>>(bits);
    values.v[i] = two.v[0];
    values.v[i + 1] = two.v[1];
  }
  return values;
}

CRK_FN bool last_of_blocks(uint32_t *ticket, uint32_t blocks, float *word) {
  wait_for_stores();
  barrier();
  if (thread_index().x == 0) {
    const uint32_t before = atomic_add(ticket, 1u);
    if (before + 1 == blocks) {
      __hip_atomic_store(ticket, 0u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
    *word = bit_cast<float>(before);
  }
  barrier();
  const bool is_last = uniform(bit_cast<uint32_t>(*word)) + 1 == blocks;
  shared_barrier();
  return is_last;
}

}  // namespace crk

#endif
