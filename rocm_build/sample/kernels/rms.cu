// Divides each row by its root mean square. One block per row.
#include <cuda_fp16.h>

extern "C" __global__ void rms_f16(const __half *__restrict__ src, __half *__restrict__ dst, int columns, float eps) {
  __shared__ float sums[32];
  const __half *row = src + blockIdx.x * columns;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    const float x = __half2float(row[i]);
    sum += x * x;
  }
  for (int mask = 16; mask > 0; mask >>= 1) {
    sum += __shfl_xor_sync(0xffffffff, sum, mask);
  }
  if (threadIdx.x % 32 == 0) {
    sums[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  sum = 0.0f;
  for (unsigned i = 0; i < blockDim.x / 32; i++) {
    sum += sums[i];
  }
  const float scale = rsqrtf(sum / columns + eps);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    dst[blockIdx.x * columns + i] = __float2half(__half2float(row[i]) * scale);
  }
}
