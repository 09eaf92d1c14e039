/* The lists of element types that a module's kernels are instantiated for. Every kernels/<stem>.hip includes this
 * header, directly or through a header of its op; it brings elementwise/walk.h with it. Main macros: CRK_INTEGER_TYPES,
 * CRK_FLOAT_TYPES, CRK_ALL_TYPES, CRK_BITS_TYPES. */
#ifndef CRK_INSTANCES_H
#define CRK_INSTANCES_H

#include "elementwise/walk.h"

/* Threads of the largest block that a kernel with Candle's name is launched with. */
#define CRK_NAMED_THREADS 1024

/* XX(suffix of the kernel's name, type). Suffixes are Candle's. The suffix of f8e4m3 is f8_e4m3. Only the unary and
 * where kernels say fp8_e4m3; their files list this type separately. */
#define CRK_INTEGER_TYPES(XX) XX(u8, uint8_t) XX(u32, uint32_t) XX(i16, int16_t) XX(i32, int32_t) XX(i64, int64_t)
#define CRK_FLOAT_TYPES(XX)   XX(bf16, crk::bf16) XX(f16, crk::f16) XX(f32, float) XX(f64, double)
#define CRK_ALL_TYPES(XX)     CRK_INTEGER_TYPES(XX) CRK_FLOAT_TYPES(XX) XX(f8_e4m3, crk::f8e4m3)

/* XX(suffix, type): for kernels that only move bits, one unsigned type per width. */
#define CRK_BITS_TYPES(XX) XX(b8, uint8_t) XX(b16, uint16_t) XX(b32, uint32_t) XX(b64, uint64_t)

#endif
