/* Numbers of 16 bits, for the doubles that compute with them: f16 has a mantissa of 10 bits, bf16 one of 7. */
#ifndef HALF_H
#define HALF_H

#include <math.h>
#include <stdint.h>

/* The value of a 16-bit float with this many bits of mantissa. */
static inline double half_value(uint16_t code, int mantissa) {
  const int exponents = 15 - mantissa, bias = (1 << (exponents - 1)) - 1;
  const int exponent = code >> mantissa & ((1 << exponents) - 1), fraction = code & ((1 << mantissa) - 1);
  const double sign = code >> 15 != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponents) - 1) {
    return fraction != 0 ? NAN : sign * INFINITY;
  }
  const double significand = exponent == 0 ? fraction : fraction + (1 << mantissa);
  return sign * ldexp(significand, (exponent == 0 ? 1 : exponent) - bias - mantissa);
}

/* A 16-bit float with this many bits of mantissa, rounded to nearest even. */
static inline uint16_t half_code(double value, int mantissa) {
  const int exponents = 15 - mantissa, bias = (1 << (exponents - 1)) - 1;
  const uint16_t sign = signbit(value) ? 0x8000 : 0, infinity = (uint16_t)(((1 << exponents) - 1) << mantissa);
  if (isnan(value)) {
    return (uint16_t)(infinity | 1 << (mantissa - 1));
  }
  int exponent = 0;
  frexp(value, &exponent); /* of a number from 0.5 to 1 */
  exponent = value == 0.0 || exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
  if (isinf(value) || exponent > bias) {
    return sign | infinity;
  }
  const double steps = nearbyint(ldexp(fabs(value), mantissa - exponent));
  const uint32_t code = (uint32_t)((exponent + bias - 1) << mantissa) + (uint32_t)steps;
  return sign | (uint16_t)(code < infinity ? code : infinity);
}

#endif
