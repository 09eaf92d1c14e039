// 16-bit floats in CUDA's form. tests/cuda_port.rs computes the same rows with the crate half.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ __half from_float(float x) {
  return __float2half(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float(float x) {
  return __float2bfloat16(x);
}
__device__ __forceinline__ __half2 join(__half a, __half b) { return __halves2half2(a, b); }
__device__ __forceinline__ __nv_bfloat162 join(__nv_bfloat16 a, __nv_bfloat16 b) { return __halves2bfloat162(a, b); }

template <typename T>
__device__ void rows(const float *in, float *out, T *sum) {
  const unsigned t = threadIdx.x, n = blockDim.x;
  const T a = from_float<T>(in[t]), b = from_float<T>(in[n + t]);
  const auto pair = __hfma2(join(a, b), join(b, a), join(b, b));
  unsigned row = 0;
  const auto put = [&](float value) { out[n * row++ + t] = value; };
  put(a);
  put(a + b);
  put(__hsub(a, b));
  put(a * b);
  put(__hdiv(a, b));
  put(__hfma(a, b, a));
  put(pair.x);
  put(__high2float(__hadd2(join(a, b), join(a, b))));
  put(__hmax(a, b));
  put(__habs(-a));
  put(a < b ? 1.0f : 0.0f);
  put(__heq(a, a) && !__hisnan(a));
  put(hsqrt(__habs(a)));
  put((float)a * 2.0f + (float)b);
  T c = a;
  c += b;
  put(c);
  put(__shfl_xor_sync(0xffffffff, a, 1));
  atomicAdd(sum, from_float<T>(0.5f));
}
extern "C" __global__ void rows_f16(const float *in, float *out, half *sum) { rows(in, out, sum); }
extern "C" __global__ void rows_bf16(const float *in, float *out, nv_bfloat16 *sum) { rows(in, out, sum); }
