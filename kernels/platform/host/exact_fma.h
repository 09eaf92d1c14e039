/* exact_fma(a, b, c): a * b + c in f64, rounded once. For the CPU's kernels with mingw-w64, whose own fma has errors of
 * one unit and more. platform/host/maths.h includes this file after bit_cast.
 *
 * The product is exact in 128 bits. The addend with the smaller exponent is shifted to the exponent of the other one;
 * its last bit stands for all bits that were shifted out. */
#ifndef CRK_PLATFORM_HOST_EXACT_FMA_H
#define CRK_PLATFORM_HOST_EXACT_FMA_H

namespace crk {
namespace host {

struct parts {
  uint64_t mantissa; /* has its highest bit at bit 52 */
  int32_t exponent; /* of bit 0 */
};

CRK_FN parts parts_of(double x) {
  const uint64_t word = bit_cast<uint64_t>(x) & ~(1ull << 63), fraction = word & ((1ull << 52) - 1);
  const int32_t exponent = static_cast<int32_t>(word >> 52);
  if (exponent != 0) {
    return {fraction | 1ull << 52, exponent - 1075};
  }
  const int32_t shift = __builtin_clzll(fraction) - 11;
  return {fraction << shift, -1074 - shift};
}

using wide = unsigned __int128;

CRK_FN wide shifted(wide value, int32_t by) {
  return by == 0 ? value : by > 127 ? 1 : value >> by | static_cast<wide>((value << (128 - by)) != 0);
}

inline double exact_fma(double a, double b, double c) {
  const double product = a * b, infinity = bit_cast<double>(0x7ffull << 52);
  const double sizes[] = {__builtin_fabs(a), __builtin_fabs(b), __builtin_fabs(c)};
  if (!(sizes[0] < infinity && sizes[1] < infinity) || a == 0.0 || b == 0.0) {
    return product + c;
  }
  if (!(sizes[2] < infinity)) {
    return c;
  }
  if (c == 0.0) {
    return product;
  }
  const parts pa = parts_of(a), pb = parts_of(b), pc = parts_of(c);
  wide x = static_cast<wide>(pa.mantissa) * pb.mantissa << 20, y = static_cast<wide>(pc.mantissa) << 73;
  const int32_t ex = pa.exponent + pb.exponent - 20, ey = pc.exponent - 73, exponent = ex > ey ? ex : ey;
  x = shifted(x, exponent - ex);
  y = shifted(y, exponent - ey);
  const uint64_t top = 1ull << 63, sign_x = (bit_cast<uint64_t>(a) ^ bit_cast<uint64_t>(b)) & top;
  const uint64_t sign_y = bit_cast<uint64_t>(c) & top;
  const wide sum = sign_x == sign_y ? x + y : x > y ? x - y : y - x;
  if (sum == 0) {
    return 0.0;
  }
  const uint64_t high = static_cast<uint64_t>(sum >> 64), low = static_cast<uint64_t>(sum);
  const int32_t highest = high != 0 ? 127 - __builtin_clzll(high) : 63 - __builtin_clzll(low);
  /* The exponent of the result's last bit, and the bits of the sum below it. */
  const int32_t last = exponent + highest - 52 > -1074 ? exponent + highest - 52 : -1074, below = last - exponent;
  uint64_t rounded = 0;
  if (below <= 0) {
    rounded = static_cast<uint64_t>(sum << -below);
  } else if (below < 128) {
    const wide half = static_cast<wide>(1) << (below - 1), rest = sum & (half + (half - 1));
    rounded = static_cast<uint64_t>(sum >> below);
    rounded += rest > half || (rest == half && (rounded & 1) != 0);
  }
  /* Bit 52 of the mantissa adds 1 to the exponent's field. */
  const uint64_t bits = rounded + (static_cast<uint64_t>(last + 1074) << 52), most = 0x7ffull << 52;
  return bit_cast<double>((x > y ? sign_x : sign_y) | (bits < most ? bits : most));
}

}  // namespace host
}  // namespace crk

#endif
