/* platform/blocks.h for NVIDIA GPUs. */
#ifndef CRK_PLATFORM_CUDA_BLOCKS_H
#define CRK_PLATFORM_CUDA_BLOCKS_H

namespace crk {

template <int V>
CRK_FN void store_passed(float *dst, const pack<float, V> &values) {
  store_pack<float, V>(dst, values);
}
/* Loads from the L2 cache: the L1 cache of this unit may be older than another block's stores. The compiler does not
 * move these loads, so several are under way before the first result is used. */
template <int V>
CRK_FN pack<float, V> load_passed(const float *src) {
  const uint64_t from = __cvta_generic_to_global(src);
  pack<float, V> values;
  if constexpr (V == 1) {
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(values.v[0]) : "l"(from) : "memory");
  } else if constexpr (V == 2) {
    asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];"
                 : "=f"(values.v[0]), "=f"(values.v[1])
                 : "l"(from)
                 : "memory");
  } else {
    static_assert(V == 4, "1, 2 or 4 numbers");
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(values.v[0]), "=f"(values.v[1]), "=f"(values.v[2]), "=f"(values.v[3])
                 : "l"(from)
                 : "memory");
  }
  return values;
}

/* The first thread's atomic operation releases and acquires; the barriers carry its order to the block's threads. */
CRK_FN bool last_of_blocks(uint32_t *ticket, uint32_t blocks, float *word) {
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t seen;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(seen)
                 : "l"(__cvta_generic_to_global(ticket))
                 : "memory");
    if (seen + 1 == blocks) {
      *ticket = 0;
    }
    *word = bit_cast<float>(seen);
  }
  __syncthreads();
  const bool is_last = bit_cast<uint32_t>(*word) + 1 == blocks;
  __syncthreads();
  return is_last;
}

}  // namespace crk

#endif
