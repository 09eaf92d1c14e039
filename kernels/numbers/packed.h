/* packed<T, V>: V elements of T that a kernel holds in registers as 32-bit words, 16 bytes by default. For every
 * kernel. Words save registers: a compiler would give each half or byte one of its own. Main functions: load, of, at,
 * all. */
#ifndef CRK_PACKED_H
#define CRK_PACKED_H

#include "numbers/element_types.h"

namespace crk {

/* `of` makes it from a pack, `all` gives the pack back. */
template <class T, int V = 16 / static_cast<int>(sizeof(T))>
struct packed {
  static constexpr int bytes = V * static_cast<int>(sizeof(T));
  pack<uint32_t, (bytes + 3) / 4> word;

  CRK_FN static packed of(const pack<T, V> &x) {
    if constexpr (bytes % 4 == 0) {
      return {bit_cast<pack<uint32_t, (bytes + 3) / 4>>(x)};
    } else {
      return {{bit_cast<bits_of<pack<T, V>>>(x)}};
    }
  }
  /* Loads from an address that is aligned to the pack, or to 16 bytes if the pack is longer. It loads words: clang
   * would read halves a second time if they are used in different places. */
  CRK_FN static packed load(const T *src) {
    if constexpr (sizeof(T) > 1 && bytes % 4 == 0) {
      return {load_aligned<uint32_t, bytes / 4>(reinterpret_cast<const uint32_t *>(src))};
    } else {
      return of(load_aligned<T, V>(src));
    }
  }
  /* All elements are `with`. */
  CRK_FN static packed filled(T with) {
    pack<T, V> x;
    CRK_UNROLL
    for (int j = 0; j < V; j++) {
      x.v[j] = with;
    }
    return of(x);
  }
  /* Element j; j must be a constant once loops are unrolled. */
  CRK_FN T at(int j) const {
    using C = bits_of<T>;
    if constexpr (sizeof(T) == 8) {
      return bit_cast<T>(static_cast<C>(word.v[2 * j] | static_cast<uint64_t>(word.v[2 * j + 1]) << 32));
    } else {
      constexpr int each = 4 / static_cast<int>(sizeof(T));
      return bit_cast<T>(static_cast<C>(word.v[j / each] >> 8 * static_cast<int>(sizeof(T)) * (j % each)));
    }
  }
  /* Makes the compiler forget how the words were computed. It then keeps the words in registers, not their sources. */
  CRK_FN void forget() {
    CRK_UNROLL
    for (int j = 0; j < (bytes + 3) / 4; j++) {
      word.v[j] = opaque(word.v[j]);
    }
  }
  CRK_FN pack<T, V> all() const {
    pack<T, V> x;
    CRK_UNROLL
    for (int j = 0; j < V; j++) {
      x.v[j] = at(j);
    }
    return x;
  }
};

}  // namespace crk

#endif
