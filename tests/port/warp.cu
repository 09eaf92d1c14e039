// CUDA source as programs have it: literal masks, lanes by `% 32`, sections, warps and lanes that go different ways.
// tests/cuda_port.rs computes the same rows for warps of 32 lanes.
#include <cuda_runtime.h>
#include <stdint.h>

#define ALL 0xffffffff

extern "C" __global__ void warps(const int *__restrict__ in, unsigned *__restrict__ out) {
  const unsigned t = threadIdx.x, lane = threadIdx.x & 0x1f, warp = threadIdx.x >> 5;
  const int v = __ldg(in + t);
  unsigned row = 0;
  const auto put = [&](unsigned value) { out[blockDim.x * row++ + t] = value; };
  put(__shfl_sync(ALL, v, 5));
  put(__shfl_sync(ALL, v, lane + 3));
  put(__shfl_sync(ALL, v, 9, 8));
  put(__shfl_up_sync(ALL, v, 2));
  put(__shfl_up_sync(ALL, v, 3, 16));
  put(__shfl_down_sync(ALL, v, 7));
  put(__shfl_down_sync(ALL, v, 1, 4));
  put(__shfl_xor_sync(ALL, v, 16));
  put(__shfl_xor_sync(ALL, v, 5, 8));
  put(__shfl_xor_sync(ALL, v, 16, 8));
  put(__ballot_sync(ALL, v & 1));
  put(__ballot_sync(0x0000ffff, v & 1));
  put(__any_sync(ALL, v == 7));
  put(__all_sync(ALL, v < 90));
  put(__match_any_sync(ALL, v & 3));
  put(__reduce_add_sync(ALL, v));
  put(__reduce_max_sync(ALL, v));
  put(__popc(__activemask()));
  put(__shfl_down_sync(ALL, v * 0.5, 1) * 2);
  put(__shfl_xor_sync(ALL, static_cast<short>(v), 1));
  put(__syncthreads_count(v & 1));
  // Warps of one wave.
  unsigned one = 0;
  if (warp % 2 == 1) {
    one = __shfl_sync(ALL, v, 1) + __ballot_sync(ALL, v & 2);
  }
  put(one);
  // Lanes of one warp.
  unsigned some;
  if (lane < 16) {
    some = __shfl_xor_sync(0x0000ffff, v, 1) + __ballot_sync(0x0000ffff, v & 1);
  } else {
    some = __ballot_sync(0xffff0000, v & 4);
  }
  __syncwarp();
  put(some);
  put(warpSize);
}
