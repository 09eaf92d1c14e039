// x * FACTOR, in HIP.
#include <hip/hip_runtime.h>

extern "C" __global__ void scale(float *x, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    x[i] *= FACTOR;
  }
}
