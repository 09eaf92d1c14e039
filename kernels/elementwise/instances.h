/* The lists that instances are made from, and what every kernel file includes. */
#ifndef CRK_INSTANCE_H
#define CRK_INSTANCE_H

#include "elementwise/walk.h"

/* Threads of the largest block that Candle launches a kernel with. */
#define CRK_NAMED_THREADS 1024

/* XX(suffix of the name, type). The suffix of f8e4m3 is Candle's in all families but unary and where, which say fp8_e4m3. */
#define CRK_INTEGER_TYPES(XX) XX(u8, uint8_t) XX(u32, uint32_t) XX(i16, int16_t) XX(i32, int32_t) XX(i64, int64_t)
#define CRK_FLOAT_TYPES(XX)   XX(bf16, crk::bf16) XX(f16, crk::f16) XX(f32, float) XX(f64, double)
#define CRK_ALL_TYPES(XX)     CRK_INTEGER_TYPES(XX) CRK_FLOAT_TYPES(XX) XX(f8_e4m3, crk::f8e4m3)

/* XX(suffix, type): what moves the bits of any type of that width. */
#define CRK_BITS_TYPES(XX) XX(b8, uint8_t) XX(b16, uint16_t) XX(b32, uint32_t) XX(b64, uint64_t)

#endif
