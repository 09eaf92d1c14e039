/* platform/matrix.h's float_core and split_core for the CPU: none. */
#ifndef CRK_PLATFORM_HOST_MATRIX_FLOAT_H
#define CRK_PLATFORM_HOST_MATRIX_FLOAT_H

#define CRK_FLOAT_CORES 0
#define CRK_SPLIT_CORES 0

#endif
