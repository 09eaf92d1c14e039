/* platform/matrix.h for the CPU: none. */
#ifndef CRK_PLATFORM_HOST_MATRIX_H
#define CRK_PLATFORM_HOST_MATRIX_H

#define CRK_MATRIX_CORES 0

#endif
