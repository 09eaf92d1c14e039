/* Kernels of the module `conv_cores`: convolutions of f16 and bf16 as products on matrix cores (conv/conv_cores.h), and
 * the copies that they may need (conv/pixels.h). This file only names the instances. */
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
#define CRK_CONV_CORES(rows, columns, cuda_threads, threads, cost)                                           \
  CRK_CONV_CORES_OF(conv_bf16, crk_conv_cores_t, crk::bf16, rows, columns, cuda_threads, threads)            \
  CRK_CONV_CORES_OF(conv_f16, crk_conv_cores_t, crk::f16, rows, columns, cuda_threads, threads)              \
  CRK_CONV_CORES_OF(conv_transpose_bf16, crk_conv_phases_t, crk::bf16, rows, columns, cuda_threads, threads) \
  CRK_CONV_CORES_OF(conv_transpose_f16, crk_conv_phases_t, crk::f16, rows, columns, cuda_threads, threads)
CRK_CONV_TILES(CRK_CONV_CORES)

CRK_KERNEL(conv_b16_pixels, CRK_LAUNCHED_THREADS,
           (crk_pixels_launch_t launch, const uint16_t *images, uint16_t *images_dst, const uint16_t *weights,
            uint16_t *weights_dst)) {
  crk::copy_pixels(CRK_ND_ARGUMENT(launch), images, images_dst, weights, weights_dst);
}

CRK_MODULE(conv_cores)
