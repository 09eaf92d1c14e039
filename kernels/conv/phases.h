/* The phases of a transposed convolution (crk_phases_t). For conv_cores.h and pixels.h. Main functions: phase_of,
 * place_of_tap. */
#ifndef CRK_PHASES_H
#define CRK_PHASES_H

#include "call/windows_call.h"
#include "numbers/divisor.h"

namespace crk {

/* A phase along one dim, as a convolution of stride 1. */
struct phase {
  uint32_t first; /* its first output */
  uint32_t taps;
  uint32_t before; /* taps of the phases before it */
  uint32_t padding; /* wraps if it is below 0 */
};

/* Taps of the phase whose first tap is `first`. */
CRK_FN uint32_t taps_of(const crk_phases_t &all, uint32_t first) { return all.taps + (first < all.longer ? 1 : 0); }

/* Taps of the phases before that one. */
CRK_FN uint32_t taps_before(const crk_phases_t &all, uint32_t first) {
  return first * all.taps + (first < all.longer ? first : all.longer);
}

/* Phase i. The phases from `apart` on have no taps: they count the outputs between those of the others. `dilation` is
 * that of the phases. */
CRK_FN phase phase_of(const crk_phases_t &all, uint32_t i, uint32_t dilation) {
  uint32_t at = i * all.dilation + divide(all.apart, i) + all.beyond;
  const uint32_t first = take_coordinate(at, all.stride);
  const uint32_t taps = i < static_cast<uint32_t>(all.apart.size) ? taps_of(all, i) : 0;
  return {first, taps, taps_before(all, i), (taps - 1) * dilation + at - all.skipped};
}

/* The place of tap (y, x) in a row of weights. A phase has its taps in reverse order. */
CRK_FN uint32_t place_of_tap(const crk_phases_t &down, const crk_phases_t &across, uint32_t y, uint32_t x) {
  const uint32_t first_y = take_coordinate(y, down.apart), first_x = take_coordinate(x, across.apart);
  const uint32_t rows = taps_of(down, first_y), columns = taps_of(across, first_x);
  return taps_before(down, first_y) * across.window + rows * taps_before(across, first_x) + (rows - 1 - y) * columns +
         (columns - 1 - x);
}

}  // namespace crk

#endif
