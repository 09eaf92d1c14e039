/* number.h: integer arithmetic for the whole core. */
#ifndef CRK_NUMBER_H
#define CRK_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint64_t crk_priv_least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static inline uint64_t crk_priv_greatest(uint64_t a, uint64_t b) { return a > b ? a : b; }

static inline uint64_t crk_priv_ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

/* `value` rounded up to a multiple of `unit`. */
static inline uint64_t crk_priv_round_up(uint64_t value, uint64_t unit) {
  return crk_priv_ceil_div(value, unit) * unit;
}

/* Whether size_t holds the product. Compilers turn this test into the product's overflow flag. crk_priv_product_fits
 * divides, which takes nanoseconds of a launch. */
static inline bool crk_priv_multiply(size_t a, size_t b, size_t *product) {
  *product = a * b;
  return a == 0 || *product / a == b;
}

/* Whether a * b is at most `limit`; the product itself may overflow. */
static inline bool crk_priv_product_fits(uint64_t a, uint64_t b, uint64_t limit) { return b == 0 || a <= limit / b; }

/* ceil(log2(value)); 0 for 0. */
static inline uint32_t crk_priv_log2_ceil(uint64_t value) {
  uint32_t log2 = 0;
  while (log2 < 64 && value > (uint64_t)1 << log2) {
    log2++;
  }
  return log2;
}

/* floor(2^64 * rest / size) for rest < size; 2^64 - 1 for rest == size. Long division, as C has no 128-bit integers. */
static inline uint64_t crk_priv_wide_quotient(uint64_t rest, uint64_t size) {
  uint64_t quotient = 0;
  for (int i = 0; i < 64; i++) {
    const bool carry = rest >> 63 != 0;
    rest <<= 1;
    quotient <<= 1;
    if (carry || rest >= size) {
      rest -= size;
      quotient |= 1;
    }
  }
  return quotient;
}

#endif
