// Source for waves of 64 lanes, compiled with CRK_CUDA_WARP=64.
#define ALL 0xffffffffffffffffull

extern "C" __global__ void wide(const int *in, unsigned long long *out) {
  const unsigned t = threadIdx.x, lane = t % warpSize;
  int v = in[t];
  out[2 * t + 1] = __ballot_sync(ALL, v & 1);
  for (int mask = warpSize / 2; mask > 0; mask /= 2) {
    v += __shfl_xor_sync(ALL, v, mask);
  }
  out[2 * t] = static_cast<unsigned long long>(__shfl_sync(ALL, v, 63 - lane));
}
