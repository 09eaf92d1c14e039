/* Sizes by which the launcher of softmax, rms_norm and layer_norm cuts rows for its kernels. Plain C;
 * csrc/launch/norm.c and kernels/reduce/norm_rows.h include it. A pack is 16 bytes of a row. */
#ifndef CRK_NORM_CALL_H
#define CRK_NORM_CALL_H

/* Packs of a row that a thread holds in registers. `few` is true for rms_norm and layer_norm on a GPU with waves of 64
 * lanes. These norms hold parameters too. With eight waves per SIMD unit, a lane of such a GPU has at most 64
 * registers. The kernels ask crk::wide_waves, the launcher asks the driver for the wave size; both must agree. */
#define CRK_NORM_PACKS(few) ((few) ? 2 : 4)

/* The longest row that one block holds, in packs, and the threads of the block that holds it. There are two kinds of
 * kernels, ROW and WIDE. A ROW kernel has smaller blocks, so nvcc gives its threads more registers. */
#define CRK_NORM_ROW_PACKS         1024
#define CRK_NORM_WIDE_PACKS        2048
#define CRK_NORM_ROW_THREADS(few)  (CRK_NORM_ROW_PACKS / CRK_NORM_PACKS(few))
#define CRK_NORM_WIDE_THREADS(few) (CRK_NORM_WIDE_PACKS / CRK_NORM_PACKS(few))

/* Threads per block of the kernel for few rows of up to CRK_NORM_ROW_PACKS packs, one pack each. */
#define CRK_NORM_FEW_THREADS CRK_NORM_ROW_PACKS

/* Threads per block for rows that are longer than that. */
#define CRK_NORM_LONG_THREADS 512

#endif
