/* Division by what the host has prepared: crk_divisor_t of sliding.h. */
#ifndef CRK_DIVISOR_H
#define CRK_DIVISOR_H

#include "call/sliding.h"
#include "platform/platform.h"

namespace crk {

/* n / size, by the divisor's multiplication. */
template <class I>
CRK_FN I divide(const crk_divisor_t &by, I n) {
  return (mulhi(n, static_cast<I>(by.mul)) + n) >> by.shift;
}

/* Takes the last coordinate, of a dim of the divisor's size, off an element's number. */
template <class I>
CRK_FN I take_coordinate(I &element, const crk_divisor_t &dim) {
  const I rest = divide(dim, element), coordinate = element - rest * static_cast<I>(dim.size);
  element = rest;
  return coordinate;
}

}  // namespace crk

#endif
