// Uses each name of cuda_fp16.h and cuda_bf16.h once, and what of CUDA the other programs leave out. Compiled, not run.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <device_launch_parameters.h>
#include <vector_functions.h>
#include <vector_types.h>

#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define ONE(name) r += (float)name(a);
#define TWO(name) r += (float)name(a, b);
#define PAIR1(name) p = name(p);
#define PAIR2(name) p = name(p, q);
#define TEST(name) r += name(a, b) ? 1.0f : 0.0f;

template <typename T, typename T2>
__device__ float both(T a, T b, T2 p, T2 q, T *sum, T2 *sum2) {
  float r = 0.0f;
  TWO(__hadd) TWO(__hsub) TWO(__hmul) TWO(__hdiv) TWO(__hadd_rn) TWO(__hsub_rn) TWO(__hmul_rn)
  TWO(__hmax) TWO(__hmin) TWO(__hmax_nan) TWO(__hmin_nan)
  ONE(__hneg) ONE(__habs) ONE(__hisnan) ONE(__hisinf)
  TEST(__heq) TEST(__hne) TEST(__hlt) TEST(__hle) TEST(__hgt) TEST(__hge)
  ONE(hexp) ONE(hexp2) ONE(hexp10) ONE(hlog) ONE(hlog2) ONE(hlog10) ONE(hsin) ONE(hcos) ONE(htanh) ONE(hsqrt)
  ONE(hrsqrt) ONE(hrcp) ONE(hceil) ONE(hfloor) ONE(hrint) ONE(htrunc)
  PAIR2(__hadd2) PAIR2(__hsub2) PAIR2(__hmul2) PAIR2(__h2div) PAIR2(__hmax2) PAIR2(__hmin2)
  PAIR2(__heq2) PAIR2(__hne2) PAIR2(__hlt2) PAIR2(__hle2) PAIR2(__hgt2) PAIR2(__hge2)
  PAIR1(__hneg2) PAIR1(__habs2)
  PAIR1(h2exp) PAIR1(h2exp2) PAIR1(h2log) PAIR1(h2log2) PAIR1(h2sin) PAIR1(h2cos) PAIR1(h2tanh) PAIR1(h2sqrt)
  PAIR1(h2rsqrt) PAIR1(h2rcp) PAIR1(h2ceil) PAIR1(h2floor)
  p = __hfma2(p, q, p) + q * -p / q;
  a -= b;
  a *= 2.0f;
  a /= b;
  a += 1;
  const T whole = 3, from_double = 0.5;
  atomicAdd(sum, __hfma(a, whole, from_double));
  atomicAdd(sum2, p);
  r += static_cast<int>(a) + static_cast<float>(b) + __low2float(p) + __high2float(p);
  r += a <= b || a >= b || a != b ? 1.0f : 0.0f;
  return r;
}

extern "C" __global__ void names(float *out, int n, half *h_sum, half2 *h2_sum, nv_bfloat16 *b_sum,
                                 nv_bfloat162 *b2_sum, const __grid_constant__ int constant) {
  const __half h = __float2half_rn(out[0]), k = __double2half(0.25);
  __half2 h2 = __halves2half2(h, k);
  float r = both<__half, __half2>(h, k, h2, make_half2(k, h), h_sum, h2_sum);
  r += __half2float(__int2half_rn(n)) + __half2float(__uint2half_rn(3u)) + __half2float(__short2half_rn(short(4)));
  r += __half2float(__ushort2half_rn(static_cast<unsigned short>(5))) + __half2float(__ll2half_rn(6ll));
  r += __half2int_rn(h) + __half2int_rz(h) + __half2uint_rz(k) + __half_as_ushort(h) + __half_as_short(k);
  r += __half2float(__ushort_as_half(15360)) + __half2float(__short_as_half(15360));
  h2 = __hadd2(__float2half2_rn(1.0f), __half2half2(k));
  h2 = __hadd2(h2, __floats2half2_rn(1.0f, 2.0f)) + __float22half2_rn(make_float2(1.0f, 2.0f));
  h2 = __low2half2(h2) + __high2half2(h2) + __lowhigh2highlow(h2);
  r += __half22float2(h2).x + __half2float(__low2half(h2)) + __half2float(__high2half(h2));

  const __nv_bfloat16 b = __float2bfloat16_rn(out[1]), c = __double2bfloat16(0.25);
  __nv_bfloat162 b2 = __halves2bfloat162(b, c);
  r += both<__nv_bfloat16, __nv_bfloat162>(b, c, b2, make_bfloat162(c, b), b_sum, b2_sum);
  r += __bfloat162float(__int2bfloat16_rn(n)) + __bfloat162float(__uint2bfloat16_rn(3u));
  r += __bfloat162float(__short2bfloat16_rn(short(4)));
  r += __bfloat162float(__ushort2bfloat16_rn(static_cast<unsigned short>(5)));
  r += __bfloat162float(__ll2bfloat16_rn(6ll)) + __bfloat162int_rn(b) + __bfloat162int_rz(b) + __bfloat162uint_rz(c);
  r += __bfloat16_as_ushort(b) + __bfloat16_as_short(c) + __bfloat162float(__ushort_as_bfloat16(16256));
  r += __bfloat162float(__short_as_bfloat16(16256));
  b2 = __hadd2(__float2bfloat162_rn(1.0f), __bfloat162bfloat162(c));
  b2 = __hadd2(b2, __floats2bfloat162_rn(1.0f, 2.0f)) + __float22bfloat162_rn(make_float2(1.0f, 2.0f));
  b2 = __low2bfloat162(b2) + __high2bfloat162(b2) + __lowhigh2highlow(b2);
  r += __bfloat1622float2(b2).y + __bfloat162float(__low2bfloat16(b2)) + __bfloat162float(__high2bfloat16(b2));

  float4 four = make_float4(1.0f, 2.0f, 3.0f, 4.0f);
  four.x += __ldca(out) + __ldcg(out) + __ldcs(out) + __ldlu(out) + __ldcv(out);
  __stcg(out + 2, four.x);
  __stcs(out + 3, four.y);
  __stwb(out + 4, four.z);
  __stwt(out + 5, four.w);
  r += __dp4a(1u, 2u, 3u) + __dp4a(1, 2u, 3) + __dp2a_lo(1, 2, 3) + __dp2a_hi(1u, 2u, 3u);
  r += __shfl(r, 0) + __shfl_up(r, 1) + __shfl_down(r, 1) + __shfl_xor(r, 1) + __ballot(n) + __any(n) + __all(n);
  int all_same;
  r += __match_all_sync(0xffffffff, n, &all_same) + __reduce_min_sync(0xffffffff, n);
  r += __reduce_and_sync(0xffffffff, n) + __reduce_or_sync(0xffffffff, n) + __reduce_xor_sync(0xffffffff, n);
  r += __syncthreads_or(n) + __syncthreads_and(n) + all_same + constant;
  __threadfence();
  __threadfence_block();
  __threadfence_system();
  __syncwarp(0xffffffff);
  assert(n > 0);
  out[6] = r + FLT_MAX + CHAR_BIT + INFINITY + rsqrtf(r) + fmaxf(r, 1.0f) + __expf(r) + __fdividef(r, 2.0f);
  out[7] = __int_as_float(__popc(n)) + __clz(n) + __ffs(n) + __brev(n) + max(n, 1) + min(n, 2) + __umulhi(n, 3u);
#if __CUDA_ARCH__ < 800 || !defined(CANDLE_ROCM)
#error "the port says that it is a GPU with bf16"
#endif
}
