/* platform/matrix.h's double_core for NVIDIA GPUs: none. */
#ifndef CRK_PLATFORM_CUDA_MATRIX_DOUBLE_H
#define CRK_PLATFORM_CUDA_MATRIX_DOUBLE_H

#define CRK_DOUBLE_CORES 0

#endif
