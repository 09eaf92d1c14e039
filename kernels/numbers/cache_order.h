/* The order in which blocks work (crk_cache_order_t of call/sliding.h). For the tiles of products, convolutions and
 * attention. Main function: place_in_order. */
#ifndef CRK_CACHE_ORDER_H
#define CRK_CACHE_ORDER_H

#include "numbers/divisor.h"

namespace crk {

/* Returns the place of block `number` of a call in the order. Blocks i, i + caches, i + 2 * caches, .. share a cache,
 * and get neighbouring places. I is uint32_t for narrow divisors, uint64_t for wide ones. */
template <class I>
CRK_FN I place_in_order(const crk_cache_order_t &order, I number) {
#if CRK_SEVERAL_CACHES
  const I blocks = static_cast<I>(order.blocks);
  if (number < blocks * static_cast<I>(order.caches.size)) {
    const I cache = take_coordinate(number, order.caches);
    return cache * blocks + number;
  }
#endif
  return number;
}

}  // namespace crk

#endif
