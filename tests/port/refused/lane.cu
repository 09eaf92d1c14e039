// warp 64
extern "C" __global__ void first(float *x, float *y) {
  if (threadIdx.x % 32 == 0) { // error: this names half of one
    y[threadIdx.x / 64] = x[threadIdx.x];
  }
}
