/* platform/matrix.h's half_core for the CPU: none. */
#ifndef CRK_PLATFORM_HOST_MATRIX_HALF_H
#define CRK_PLATFORM_HOST_MATRIX_HALF_H

#define CRK_HALF_CORES 0

#endif
