// Blocks without their first threads, and blocks that pass data on during one launch. tests/cuda_port.rs computes the
// same rows.
#include <cuda_fp16.h>

// Every 37th thread returns first, thread 0 too, and all threads of the third and fourth warp, one wave of 64.
extern "C" __global__ void counts(const int *in, int *out) {
  const int t = threadIdx.x, v = in[t];
  if (t % 37 == 0 || t / 64 == 1) {
    return;
  }
  int *row = out + 4 * t;
  row[0] = __syncthreads_count(v & 1);
  row[1] = __syncthreads_count(v & 2);
  row[2] = __syncthreads_or(v == in[0]);
  row[3] = __syncthreads_and(v != in[0]);
}

// Each thread's place for a value of type T in a block's memory. Every place has 16 bytes.
template <class T>
__device__ T *place(char *rows, int block, int type) {
  return reinterpret_cast<T *>(rows + ((block * 7 + type) * blockDim.x + threadIdx.x) * 16);
}

// Loads of constants go the same way.
__device__ const int ones[] = {1, 1, 1};

// Each block adds 1 to the values of the block before it.
extern "C" __global__ void relay(const int *in, char *rows, int *flags, int *out) {
  const int t = threadIdx.x, block = blockIdx.x, from = block - 1;
  signed char c = static_cast<signed char>(in[t]);
  short s = c;
  int i = c;
  long long l = c;
  double d = c;
  float4 f = make_float4(c, c, c, c);
  half2 h = __floats2half2_rn(c, c);
  if (block > 0) {
    if (t == 0) {
      while (__ldcv(flags + from) == 0) {
      }
    }
    __syncthreads();
    c = __ldcg(place<signed char>(rows, from, 0)) + 1;
    s = __ldcg(place<short>(rows, from, 1)) + 1;
    i = __ldcv(place<int>(rows, from, 2)) + __ldcg(ones + block % 3);
    l = __ldcv(place<long long>(rows, from, 3)) + 1;
    d = __ldcg(place<double>(rows, from, 4)) + 1;
    f = __ldcg(place<float4>(rows, from, 5));
    f = make_float4(f.x + 1, f.y + 1, f.z + 1, f.w + 1);
    h = __hadd2(__ldcg(place<half2>(rows, from, 6)), __float2half2_rn(1.0f));
  }
  __stcg(place<signed char>(rows, block, 0), c);
  __stcg(place<short>(rows, block, 1), s);
  __stcg(place<int>(rows, block, 2), i);
  __stcg(place<long long>(rows, block, 3), l);
  __stwt(place<double>(rows, block, 4), d);
  __stcg(place<float4>(rows, block, 5), f);
  __stwt(place<half2>(rows, block, 6), h);
  __threadfence();
  __syncthreads();
  if (t == 0) {
    __stcg(flags + block, 1);
  }
  const float sum = f.x + f.y + f.z + f.w + __low2float(h) + __high2float(h);
  out[block * blockDim.x + t] = c + s + i + static_cast<int>(l) + static_cast<int>(d) + static_cast<int>(sum);
}
