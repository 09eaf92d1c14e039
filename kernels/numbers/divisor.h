/* Division by a number that the host has prepared (crk_divisor_t of call/sliding.h). It takes a multiplication, an
 * addition and a shift. For every kernel. Main functions: divide, take_coordinate; quotient for a number that is not
 * prepared. */
#ifndef CRK_DIVISOR_H
#define CRK_DIVISOR_H

#include "call/sliding.h"
#include "platform/platform.h"

namespace crk {

/* n / by.size. I is uint32_t for a narrow divisor, uint64_t for a wide one. */
template <class I>
CRK_FN I divide(const crk_divisor_t &by, I n) {
  return (mulhi(n, static_cast<I>(by.mul)) + n) >> by.shift;
}

/* Returns element % dim.size, the coordinate in the innermost dim, and divides `element` by dim.size. */
template <class I>
CRK_FN I take_coordinate(I &element, const crk_divisor_t &dim) {
  const I rest = divide(dim, element), coordinate = element - rest * static_cast<I>(dim.size);
  element = rest;
  return coordinate;
}

/* a / b for a number that is not prepared, in 32-bit arithmetic if both fit. */
CRK_FN uint64_t quotient(uint64_t a, uint64_t b) {
  return (a | b) >> 32 == 0 ? static_cast<uint32_t>(a) / static_cast<uint32_t>(b) : a / b;
}

}  // namespace crk

#endif
