/* platform/matrix.h's double_core for the CPU: none. */
#ifndef CRK_PLATFORM_HOST_MATRIX_DOUBLE_H
#define CRK_PLATFORM_HOST_MATRIX_DOUBLE_H

#define CRK_DOUBLE_CORES 0

#endif
