/* float_pair as two floats. A part of maths.h of platform/cuda, platform/hip and platform/host. */
#ifndef CRK_PLATFORM_GENERIC_FLOAT_PAIR_H
#define CRK_PLATFORM_GENERIC_FLOAT_PAIR_H

namespace crk {

struct float_pair {
  float x[2];
  CRK_FN float &operator[](int i) { return x[i]; }
  CRK_FN float operator[](int i) const { return x[i]; }
};
CRK_FN float_pair pair_of(float a, float b) { return {{a, b}}; }
CRK_FN float_pair fma(float_pair a, float_pair b, float_pair c) {
  return pair_of(fma(a[0], b[0], c[0]), fma(a[1], b[1], c[1]));
}

}  // namespace crk

#endif
