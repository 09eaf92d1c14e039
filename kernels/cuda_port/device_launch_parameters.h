/* A name of CUDA's. cuda_port/port.h has all of its contents that kernels use. */
#include "cuda_port/port.h"
