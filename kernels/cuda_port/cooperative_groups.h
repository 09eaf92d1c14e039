/* CUDA's cooperative groups: the block, tiles of a warp, and the lanes that are active. A grid can be asked for its
 * places; it cannot wait. */
#ifndef CRK_CUDA_PORT_COOPERATIVE_GROUPS_H
#define CRK_CUDA_PORT_COOPERATIVE_GROUPS_H

#include "cuda_port/detail/port.h"

/* hipRTC has HIP's namespace of this name from the start. */
#define cooperative_groups crk_cooperative_groups

namespace cooperative_groups {

/* All threads of a block. */
class thread_block {
 public:
  CRK_FN static void sync() { crk::barrier(); }
  CRK_FN static unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
  CRK_FN static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
  CRK_FN static unsigned size() { return num_threads(); }
  CRK_FN static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  CRK_FN static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  CRK_FN static dim3 dim_threads() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  CRK_FN static dim3 group_dim() { return dim_threads(); }
};
CRK_FN thread_block this_thread_block() { return {}; }

/* All threads of a launch. */
class grid_group {
 public:
  __attribute__((device, unavailable("blocks cannot wait for each other here; make two launches"))) static void sync();
  CRK_FN static unsigned long long block_rank() {
    return blockIdx.x + static_cast<unsigned long long>(gridDim.x) *
                            (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z);
  }
  CRK_FN static unsigned long long num_blocks() {
    return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z;
  }
  CRK_FN static unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + thread_block::thread_rank();
  }
  CRK_FN static unsigned long long num_threads() { return num_blocks() * thread_block::size(); }
  CRK_FN static unsigned long long size() { return num_threads(); }
};
CRK_FN grid_group this_grid() { return {}; }

/* Size neighbouring lanes of a warp, a power of two. A block, or a larger tile, is divided into such
 * tiles. */
template <unsigned Size, class Parent = thread_block>
class thread_block_tile {
  static_assert(Size >= 1 && Size <= crk::port::warp_size && (Size & (Size - 1)) == 0,
                "a tile is a power of two of lanes, at most a warp (CRK_CUDA_WARP)");
  CRK_FN static unsigned first() { return crk::port::warp_lane() & ~(Size - 1); }
  CRK_FN static crk::port::warp_mask lanes() {
    return (crk::port::whole_warp >> (crk::port::warp_size - Size)) << first();
  }

 public:
  CRK_FN static void sync() { crk::port::syncwarp(); }
  CRK_FN static unsigned thread_rank() { return crk::port::warp_lane() & (Size - 1); }
  CRK_FN static constexpr unsigned num_threads() { return Size; }
  CRK_FN static constexpr unsigned size() { return Size; }
  CRK_FN static unsigned meta_group_rank() { return Parent::thread_rank() / Size; }
  CRK_FN static unsigned meta_group_size() { return (Parent::size() + Size - 1) / Size; }
  template <class T>
  CRK_FN T shfl(T value, int source) const {
    return crk::port::shfl_sync(lanes(), value, source, Size);
  }
  template <class T>
  CRK_FN T shfl_up(T value, unsigned distance) const {
    return crk::port::shfl_up_sync(lanes(), value, distance, Size);
  }
  template <class T>
  CRK_FN T shfl_down(T value, unsigned distance) const {
    return crk::port::shfl_down_sync(lanes(), value, distance, Size);
  }
  template <class T>
  CRK_FN T shfl_xor(T value, unsigned mask) const {
    return crk::port::shfl_xor_sync(lanes(), value, static_cast<int>(mask), Size);
  }
  CRK_FN crk::port::warp_mask ballot(int predicate) const {
    return crk::port::ballot_sync(lanes(), predicate) >> first();
  }
  CRK_FN int any(int predicate) const { return crk::port::any_sync(lanes(), predicate); }
  CRK_FN int all(int predicate) const { return crk::port::all_sync(lanes(), predicate); }
  template <class T>
  CRK_FN crk::port::warp_mask match_any(T value) const {
    return crk::port::match_any_sync(lanes(), value) >> first();
  }
};
template <unsigned Size, class Parent>
CRK_FN thread_block_tile<Size, Parent> tiled_partition(const Parent &) {
  return {};
}

/* The lanes of a warp that are active where the group is made. */
class coalesced_group {
  crk::port::warp_mask lanes;

 public:
  CRK_FN explicit coalesced_group(crk::port::warp_mask active) : lanes(active) {}
  CRK_FN void sync() const { crk::port::syncwarp(); }
  CRK_FN unsigned size() const { return crk::popcount(lanes); }
  CRK_FN unsigned num_threads() const { return size(); }
  CRK_FN unsigned thread_rank() const {
    const crk::port::warp_mask before = (static_cast<crk::port::warp_mask>(1) << crk::port::warp_lane()) - 1;
    return crk::popcount(lanes & before);
  }
  CRK_FN int any(int predicate) const { return crk::port::any_sync(lanes, predicate); }
  CRK_FN int all(int predicate) const { return crk::port::all_sync(lanes, predicate); }
  /* The value of the group's member of this rank. */
  template <class T>
  CRK_FN T shfl(T value, unsigned rank) const {
    crk::port::warp_mask rest = lanes;
    for (unsigned i = 0; i < rank; i++) {
      rest &= rest - 1;
    }
    return crk::port::shfl_sync(crk::port::whole_warp, value, static_cast<int>(crk::popcount((rest & -rest) - 1)));
  }
};
CRK_FN coalesced_group coalesced_threads() { return coalesced_group(crk::port::activemask()); }

template <class Group>
CRK_FN void sync(const Group &group) {
  group.sync();
}

}  // namespace cooperative_groups

#endif
