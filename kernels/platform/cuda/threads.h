/* platform/threads.h for NVIDIA GPUs. */
#ifndef CRK_PLATFORM_CUDA_THREADS_H
#define CRK_PLATFORM_CUDA_THREADS_H

namespace crk {

CRK_FN uint3 thread_index() { return threadIdx; }
CRK_FN uint3 block_index() { return blockIdx; }
CRK_FN dim3 block_size() { return blockDim; }
CRK_FN dim3 grid_size() { return gridDim; }

struct named_elements {
  uint64_t first, end, step;

  CRK_FN explicit named_elements(uint64_t count)
      : first(static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x),
        end(count),
        step(static_cast<uint64_t>(gridDim.x) * blockDim.x) {}
};

inline constexpr uint32_t most_lanes = 32;
CRK_FN constexpr uint32_t wave_size() { return most_lanes; }
CRK_FN uint32_t uniform(uint32_t word) { return word; }
/* From this shuffle, nvcc knows that all lanes have the same number. */
CRK_FN uint32_t wave_in_block() { return __shfl_sync(0xffffffffu, threadIdx.x / most_lanes, 0); }
CRK_FN uint32_t lane() {
  uint32_t id;
  asm("mov.u32 %0, %%laneid;" : "=r"(id));
  return id;
}
CRK_FN uint64_t ballot(bool predicate) { return __ballot_sync(0xffffffffu, predicate); }
CRK_FN bool any(bool predicate) { return __any_sync(0xffffffffu, predicate); }
CRK_FN bool all(bool predicate) { return __all_sync(0xffffffffu, predicate); }
CRK_FN void barrier() { __syncthreads(); }
CRK_FN void shared_barrier() { __syncthreads(); }
CRK_FN void wave_barrier() { __syncwarp(); }

template <class T>
CRK_FN T shuffle(T value, uint32_t source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  using bits = choose<sizeof(T) == 4, unsigned, unsigned long long>;
  return bit_cast<T>(__shfl_sync(0xffffffffu, bit_cast<bits>(value), static_cast<int>(source < 32 ? source : lane())));
}
template <class T>
CRK_FN T shuffle_xor(T value, uint32_t mask) {
  using bits = choose<sizeof(T) == 4, unsigned, unsigned long long>;
  return bit_cast<T>(__shfl_xor_sync(0xffffffffu, bit_cast<bits>(value), static_cast<int>(mask)));
}
template <class T>
CRK_FN T shuffle_up(T value, uint32_t distance) {
  using bits = choose<sizeof(T) == 4, unsigned, unsigned long long>;
  return bit_cast<T>(__shfl_up_sync(0xffffffffu, bit_cast<bits>(value), distance));
}
template <class T>
CRK_FN T shuffle_down(T value, uint32_t distance) {
  using bits = choose<sizeof(T) == 4, unsigned, unsigned long long>;
  return bit_cast<T>(__shfl_down_sync(0xffffffffu, bit_cast<bits>(value), distance));
}

template <uint32_t Lane, class T>
CRK_FN T of_lane(T value) {
  return shuffle(value, Lane);
}

template <int Width, int Index, class T>
CRK_FN T of_group(T value) {
  static_assert(sizeof(T) == 4 && Index < Width, "a word of a lane in the group");
  return bit_cast<T>(__shfl_sync(0xffffffffu, bit_cast<unsigned>(value), Index, Width));
}

template <int Mask, class T>
CRK_FN T exchange_xor(T value) {
  return shuffle_xor(value, Mask);
}

CRK_FN void wait_for_launch_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
CRK_FN void let_next_launch_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

CRK_FN bool last_of_launch(uint32_t *ticket, uint32_t threads) {
  __syncthreads();
  if (threadIdx.x != 0) {
    return false;
  }
  __threadfence();
  if (atomicAdd(ticket, 1u) + 1 != threads / CRK_LAUNCHED_THREADS) {
    return false;
  }
  *ticket = 0;
  return true;
}

}  // namespace crk

/* Needs thread_index and block_index. */
#include "platform/generic/elements.h"

#endif
