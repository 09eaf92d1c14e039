/* CUDA's bf16: types and conversions. Arithmetic is in cuda_port/detail/narrow.h. */
#ifndef CRK_CUDA_PORT_BF16_H
#define CRK_CUDA_PORT_BF16_H

#include "cuda_port/detail/conversions.h"

typedef crk::port::narrow<crk::bf16> crk_port_bfloat16;
typedef crk::port::pair<crk::bf16> crk_port_bfloat162;

/* HIP's own names may be there already, so these are macros. */
#define __nv_bfloat16  crk_port_bfloat16
#define nv_bfloat16    crk_port_bfloat16
#define __nv_bfloat162 crk_port_bfloat162
#define nv_bfloat162   crk_port_bfloat162

#define make_bfloat162        crk_port_bfloat162
#define __float2bfloat16      ::crk::port::encode<crk::bf16>
#define __float2bfloat16_rn   ::crk::port::encode<crk::bf16>
#define __double2bfloat16     ::crk::port::encode<crk::bf16>
#define __int2bfloat16_rn     ::crk::port::encode<crk::bf16>
#define __uint2bfloat16_rn    ::crk::port::encode<crk::bf16>
#define __short2bfloat16_rn   ::crk::port::encode<crk::bf16>
#define __ushort2bfloat16_rn  ::crk::port::encode<crk::bf16>
#define __ll2bfloat16_rn      ::crk::port::encode<crk::bf16>
#define __bfloat162float      ::crk::port::decode<crk::bf16>
#define __bfloat162int_rn     ::crk::port::nearest_int<crk::bf16>
#define __bfloat162int_rz     ::crk::port::to_int<crk::bf16>
#define __bfloat162uint_rz    ::crk::port::to_unsigned<crk::bf16>
#define __bfloat16_as_ushort  ::crk::port::code_of<crk::bf16>
#define __bfloat16_as_short   ::crk::port::code_of<crk::bf16>
#define __ushort_as_bfloat16  ::crk::port::of_code<crk::bf16>
#define __short_as_bfloat16   ::crk::port::of_code<crk::bf16>
#define __halves2bfloat162    ::crk::port::join_pair<crk::bf16>
#define __float2bfloat162_rn  ::crk::port::twice<crk::bf16>
#define __bfloat162bfloat162  ::crk::port::twice<crk::bf16>
#define __floats2bfloat162_rn ::crk::port::join_pair<crk::bf16>
#define __float22bfloat162_rn ::crk::port::pair_of_floats<crk::bf16>
#define __bfloat1622float2    ::crk::port::floats_of_pair<crk::bf16>
#define __low2bfloat16        ::crk::port::low<crk::bf16>
#define __high2bfloat16       ::crk::port::high<crk::bf16>
#define __low2bfloat162       ::crk::port::both_low<crk::bf16>
#define __high2bfloat162      ::crk::port::both_high<crk::bf16>

#endif
