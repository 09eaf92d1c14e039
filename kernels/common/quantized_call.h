/* How much the launchers' kernels of quantized weights do in a block of threads. Plain C: csrc/launch/quantized.c counts blocks by
 * it. */
#ifndef CRK_QUANTIZED_CALL_H
#define CRK_QUANTIZED_CALL_H

/* Packs of 16 bytes that a thread dequantizes. */
#define CRK_DEQUANTIZE_STEPS 8

/* Threads that quantize 512 activations. */
#define CRK_QUANTIZE_THREADS 128

/* Rows that 32 lanes multiply with a vector at once, so that its elements are loaded once for all of them. */
#define CRK_VECTOR_ROWS 2

/* The waves of a block that multiplies rows with one to eight columns, and the most rows that it makes at a time. */
#define CRK_VEC_WAVES 4
#define CRK_VEC_ROWS  32

#endif
