/* How the launchers of softmax and norms cut rows for their kernels. Plain C: csrc/launch/norm.c, kernels/reduce.hip. */
#ifndef CRK_NORM_CALL_H
#define CRK_NORM_CALL_H

/* Packs of a row that a thread holds in registers; `few` of a norm, whose parameters it holds too, on a GPU whose waves have 64 lanes,
 * where eight on a SIMD unit have 64 registers a lane at most. The kernels' crk::wide_waves, and the same of what the driver tells. */
#define CRK_NORM_PACKS(few) ((few) ? 2 : 4)

/* The longest row that a block holds, in packs, and so the largest block: of two kinds of kernels, since nvcc leaves the first one more
 * registers. */
#define CRK_NORM_ROW_PACKS         1024
#define CRK_NORM_WIDE_PACKS        2048
#define CRK_NORM_ROW_THREADS(few)  (CRK_NORM_ROW_PACKS / CRK_NORM_PACKS(few))
#define CRK_NORM_WIDE_THREADS(few) (CRK_NORM_WIDE_PACKS / CRK_NORM_PACKS(few))

/* A block of a longer one. */
#define CRK_NORM_LONG_THREADS 512

#endif
