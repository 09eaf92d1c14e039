// warp 64
extern "C" __global__ void sum(float *x) {
  float v = x[threadIdx.x];
  v += __shfl_xor_sync(0xffffffff, v, 16); // error: this mask has 32 bits
  v += __shfl_xor_sync(0xffffffffffffffffull, v, 32);
  x[threadIdx.x] = v;
}
