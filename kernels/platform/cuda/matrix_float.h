/* platform/matrix.h's float_core for NVIDIA GPUs: none. */
#ifndef CRK_PLATFORM_CUDA_MATRIX_FLOAT_H
#define CRK_PLATFORM_CUDA_MATRIX_FLOAT_H

#define CRK_FLOAT_CORES 0

#endif
