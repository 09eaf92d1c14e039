/* A name of CUDA's. cuda_port/detail/port.h has all of its contents that kernels use. */
#include "cuda_port/detail/port.h"
