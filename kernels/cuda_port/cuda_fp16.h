/* CUDA's f16: types and conversions. Arithmetic is in cuda_port/detail/narrow.h. */
#ifndef CRK_CUDA_PORT_FP16_H
#define CRK_CUDA_PORT_FP16_H

#include "cuda_port/detail/conversions.h"

typedef crk::port::narrow<crk::f16> crk_port_half;
typedef crk::port::pair<crk::f16> crk_port_half2;

/* HIP's own names may be there already, so these are macros. */
#define __half  crk_port_half
#define half    crk_port_half
#define __half2 crk_port_half2
#define half2   crk_port_half2

#define make_half2        crk_port_half2
#define __float2half      ::crk::port::encode<crk::f16>
#define __float2half_rn   ::crk::port::encode<crk::f16>
#define __double2half     ::crk::port::encode<crk::f16>
#define __int2half_rn     ::crk::port::encode<crk::f16>
#define __uint2half_rn    ::crk::port::encode<crk::f16>
#define __short2half_rn   ::crk::port::encode<crk::f16>
#define __ushort2half_rn  ::crk::port::encode<crk::f16>
#define __ll2half_rn      ::crk::port::encode<crk::f16>
#define __half2float      ::crk::port::decode<crk::f16>
#define __half2int_rn     ::crk::port::nearest_int<crk::f16>
#define __half2int_rz     ::crk::port::to_int<crk::f16>
#define __half2uint_rz    ::crk::port::to_unsigned<crk::f16>
#define __half_as_ushort  ::crk::port::code_of<crk::f16>
#define __half_as_short   ::crk::port::code_of<crk::f16>
#define __ushort_as_half  ::crk::port::of_code<crk::f16>
#define __short_as_half   ::crk::port::of_code<crk::f16>
#define __halves2half2    ::crk::port::join_pair<crk::f16>
#define __float2half2_rn  ::crk::port::twice<crk::f16>
#define __half2half2      ::crk::port::twice<crk::f16>
#define __floats2half2_rn ::crk::port::join_pair<crk::f16>
#define __float22half2_rn ::crk::port::pair_of_floats<crk::f16>
#define __half22float2    ::crk::port::floats_of_pair<crk::f16>
#define __low2half        ::crk::port::low<crk::f16>
#define __high2half       ::crk::port::high<crk::f16>
#define __low2half2       ::crk::port::both_low<crk::f16>
#define __high2half2      ::crk::port::both_high<crk::f16>

#endif
