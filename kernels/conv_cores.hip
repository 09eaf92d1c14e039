/* Kernels of the module `conv_cores`: convolutions of f16, bf16 and f32 as products on matrix cores
 * (conv/conv_cores.h), and the copies that they may need (conv/pixels.h). GPUs without such cores for f32 have no
 * kernels for it. This file only names the instances. */
#include "conv/conv_cores.h"
#include "conv/pixels.h"
#include "elementwise/instances.h"

/* Two waves per SIMD unit, as in matmul.hip. */
#if defined(__CUDACC__) && !defined(__HIP__)
#define CRK_CONV_CORES_OF(root, call_t, T, rows, columns, cuda_threads, threads) \
  CRK_COOPERATIVE(root##_##rows##x##columns##_cores, cuda_threads,               \
                  (call_t call, const T *weights, const T *images, T *dst)) {    \
    crk::conv_cores<T, rows, columns, cuda_threads>(call, weights, images, dst); \
  }
#else
#define CRK_CONV_CORES_OF(root, call_t, T, rows, columns, cuda_threads, threads)             \
  CRK_STREAMING(root##_##rows##x##columns##_cores, threads, 2,                               \
                (call_t call, const T *weights, const T *images, T *dst)) {                  \
    crk::conv_cores<T, rows, columns, threads>(CRK_ND_ARGUMENT(call), weights, images, dst); \
  }
#endif
#define CRK_CONV_CORES_PLAIN(rows, columns, cuda_threads, threads, cost)                          \
  CRK_CONV_CORES_OF(conv_bf16, crk_conv_cores_t, crk::bf16, rows, columns, cuda_threads, threads) \
  CRK_CONV_CORES_OF(conv_f16, crk_conv_cores_t, crk::f16, rows, columns, cuda_threads, threads)
#define CRK_CONV_CORES_BOTH(suffix, T, ...)                          \
  CRK_CONV_CORES_OF(conv_##suffix, crk_conv_cores_t, T, __VA_ARGS__) \
  CRK_CONV_CORES_OF(conv_transpose_##suffix, crk_conv_phases_t, T, __VA_ARGS__)
#define CRK_CONV_CORES_HALVES(rows, columns, cuda_threads, threads, cost)    \
  CRK_CONV_CORES_BOTH(bf16, crk::bf16, rows, columns, cuda_threads, threads) \
  CRK_CONV_CORES_BOTH(f16, crk::f16, rows, columns, cuda_threads, threads)
#if CRK_HALF_CORES && CRK_LARGE_SHARED
CRK_CONV_WIDE_TILE(CRK_CONV_CORES_PLAIN)
#endif
CRK_CONV_TALL_TILE(CRK_CONV_CORES_PLAIN)
CRK_CONV_TILES(CRK_CONV_CORES_HALVES)

#define CRK_CONV_PIXELS(bits)                                                                       \
  CRK_KERNEL(conv_b##bits##_pixels, CRK_LAUNCHED_THREADS,                                           \
             (crk_pixels_launch_t launch, const uint##bits##_t *images, uint##bits##_t *images_dst, \
              const uint##bits##_t *weights, uint##bits##_t *weights_dst)) {                        \
    crk::copy_pixels(CRK_ND_ARGUMENT(launch), images, images_dst, weights, weights_dst);            \
  }
CRK_CONV_PIXELS(16)

#if CRK_FLOAT_CORES || CRK_SPLIT_CORES || !(defined(__HIP__) || defined(__CUDACC__))
/* A thread of NVIDIA GPUs has at most 64 sums, since each float of an operand takes two registers. */
#define CRK_CONV_CORES_F32(rows, columns, cuda_threads, threads, cost) \
  CRK_CONV_CORES_BOTH(f32, float, rows, columns, ((rows) * (columns) > 4096 ? 256 : 128), threads)
CRK_CONV_TILES(CRK_CONV_CORES_F32)
CRK_CONV_PIXELS(32)
#endif

CRK_MODULE(conv_cores)
