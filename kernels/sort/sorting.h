/* Sorting in registers, for kernels/sort.hip. Main functions: order_key, make_item, sort_group. An element becomes an
 * unsigned key with the same order. Key and position together are an item. No two items are equal, so that a network
 * that is not stable sorts them stably.
 *
 * The network is bitonic (Batcher, "Sorting networks and their applications", 1968). In the form used here, a merge
 * begins by comparing each item with its mirror image. The smaller of two items always goes to the lower place. Item i
 * of a row is item i % E of thread i / E. Near comparisons stay in a thread, farther ones in a wave, and only the
 * farthest go through shared memory. */
#ifndef CRK_SORTING_H
#define CRK_SORTING_H

#include "call/sort_call.h"
#include "numbers/element_types.h"

namespace crk {

/* ---- Keys ---- */

/* The bits, without the sign, of the largest value that is not NaN: infinity, or 448 for f8e4m3. */
template <class T>
inline constexpr bits_of<T> largest_code = 0;
template <>
inline constexpr uint8_t largest_code<f8e4m3> = 0x7e;
template <>
inline constexpr uint16_t largest_code<f16> = 0x7c00;
template <>
inline constexpr uint16_t largest_code<bf16> = 0x7f80;
template <>
inline constexpr uint32_t largest_code<float> = 0x7f800000u;
template <>
inline constexpr uint64_t largest_code<double> = 0x7ff0000000000000u;

/* The key of x: keys compare as elements do. -0 and +0 have the same key. All NaN have the same key, which is the
 * largest. */
template <class T>
CRK_FN bits_of<T> order_key(T x) {
  using K = bits_of<T>;
  constexpr K sign = static_cast<K>(K(1) << (8 * sizeof(K) - 1)), ones = static_cast<K>(~K(0));
  const K code = bit_cast<K>(x);
  if constexpr (floating<T>) {
    const K magnitude = static_cast<K>(code & ~sign);
    const K key = static_cast<K>(code == magnitude || magnitude == 0 ? magnitude | sign : ~code);
    return magnitude > largest_code<T> ? ones : key;
  } else {
    return is_signed<T> ? static_cast<K>(code ^ sign) : code;
  }
}

/* ---- Items ---- */

/* The item of 8-byte elements. Narrower elements have the key in the upper and the place in the lower half of an
 * integer. */
struct wide_item {
  uint64_t key;
  uint32_t place;
};

/* A place is an element's position in its row or tile, below 2^16. */
template <class T>
using item_of = choose<sizeof(T) <= 2, uint32_t, choose<sizeof(T) == 4, uint64_t, wide_item>>;

template <class T>
CRK_FN item_of<T> make_item(bits_of<T> key, uint32_t place) {
  if constexpr (sizeof(T) <= 2) {
    return static_cast<uint32_t>(key) << 16 | place;
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<uint64_t>(key) << 32 | place;
  } else {
    return {key, place};
  }
}

/* An item that comes after all others: it fills up incomplete tiles. */
template <class T>
CRK_FN item_of<T> last_item() {
  return make_item<T>(static_cast<bits_of<T>>(~bits_of<T>(0)), 0xffff);
}

CRK_FN uint32_t place_of(uint32_t item) { return item & 0xffff; }
CRK_FN uint32_t place_of(uint64_t item) { return static_cast<uint32_t>(item); }
CRK_FN uint32_t place_of(wide_item item) { return item.place; }

CRK_FN bool before(uint32_t a, uint32_t b) { return a < b; }
CRK_FN bool before(uint64_t a, uint64_t b) { return a < b; }
CRK_FN bool before(wide_item a, wide_item b) {
  return static_cast<bool>((a.key < b.key) | ((a.key == b.key) & (a.place < b.place)));
}

/* yes ? a : b, member by member: a compiler may turn a choice between structs into one between their addresses. */
CRK_FN uint32_t select(bool yes, uint32_t a, uint32_t b) { return yes ? a : b; }
CRK_FN uint64_t select(bool yes, uint64_t a, uint64_t b) { return yes ? a : b; }
CRK_FN wide_item select(bool yes, wide_item a, wide_item b) {
  return {select(yes, a.key, b.key), select(yes, a.place, b.place)};
}

/* The `item` of lane `source`. All live lanes of the wave must call it. */
CRK_FN uint32_t item_of_lane(uint32_t item, uint32_t source) { return shuffle(item, source); }
CRK_FN uint64_t item_of_lane(uint64_t item, uint32_t source) { return shuffle(item, source); }
CRK_FN wide_item item_of_lane(wide_item item, uint32_t source) {
  return {shuffle(item.key, source), shuffle(item.place, source)};
}

/* The `item` of the lane whose number differs in the bit Mask, 1 to 16. */
template <int Mask>
CRK_FN uint32_t item_across(uint32_t item) {
  return exchange_xor<Mask>(item);
}
template <int Mask>
CRK_FN uint64_t item_across(uint64_t item) {
  return exchange_xor<Mask>(item);
}
template <int Mask>
CRK_FN wide_item item_across(wide_item item) {
  return {exchange_xor<Mask>(item.key), exchange_xor<Mask>(item.place)};
}

/* `count` items in shared memory. The two members of wide items lie in separate arrays. */
template <class Item>
struct shared_items {
  Item *items;

  CRK_FN shared_items(void *memory, uint32_t) : items(static_cast<Item *>(memory)) {}
  CRK_FN void put(uint32_t i, Item item) const { items[i] = item; }
  CRK_FN Item get(uint32_t i) const { return items[i]; }
};
template <>
struct shared_items<wide_item> {
  uint64_t *keys;
  uint32_t *places;

  CRK_FN shared_items(void *memory, uint32_t count)
      : keys(static_cast<uint64_t *>(memory)), places(reinterpret_cast<uint32_t *>(keys + count)) {}
  CRK_FN void put(uint32_t i, wide_item item) const {
    keys[i] = item.key;
    places[i] = item.place;
  }
  CRK_FN wide_item get(uint32_t i) const { return {keys[i], places[i]}; }
};

/* ---- In one thread ---- */

template <class Item>
CRK_FN void put_in_order(Item &a, Item &b) {
  const bool swap = before(b, a);
  const Item first = select(swap, b, a), second = select(swap, a, b);
  a = first;
  b = second;
}

/* Batcher's odd-even merge of the items Low, Low + Step, ... below Low + Count. Both halves of them must be in
 * order. */
template <int Low, int Count, int Step, int E, class Item>
CRK_FN void merge_odd_even(Item (&v)[E]) {
  if constexpr (2 * Step < Count) {
    merge_odd_even<Low, Count, 2 * Step>(v);
    merge_odd_even<Low + Step, Count, 2 * Step>(v);
    CRK_UNROLL
    for (int i = Low + Step; i + Step < Low + Count; i += 2 * Step) {
      put_in_order(v[i], v[i + Step]);
    }
  } else {
    put_in_order(v[Low], v[Low + Step]);
  }
}

/* Sorts the items from Low to below Low + Count, a power of two. */
template <int Low, int Count, int E, class Item>
CRK_FN void sort_items(Item (&v)[E]) {
  if constexpr (Count > 1) {
    sort_items<Low, Count / 2>(v);
    sort_items<Low + Count / 2, Count / 2>(v);
    merge_odd_even<Low, Count, 1>(v);
  }
}

/* Sorts each sequence of 2 * Distance neighbouring items. Each must be bitonic. */
template <int Distance, int E, class Item>
CRK_FN void merge_bitonic(Item (&v)[E]) {
  if constexpr (Distance > 0) {
    CRK_UNROLL
    for (int i = 0; i < E; i++) {
      if ((i & Distance) == 0) {
        put_in_order(v[i], v[i + Distance]);
      }
    }
    merge_bitonic<Distance / 2>(v);
  }
}

/* ---- In a group of threads ---- */

/* Keeps the smaller of two items if `smaller`, else the larger. */
template <class Item>
CRK_FN void keep(Item &mine, Item other, bool smaller) {
  mine = select(before(other, mine) == smaller, other, mine);
}

/* Compares the items of this thread with those of the thread whose number differs in the bits `mask`, in the same wave.
 * Item i meets item i there, or its mirror image E - 1 - i if Mirror. All lanes of the wave must call it. */
template <bool Mirror, int E, class Item>
CRK_FN void exchange_in_wave(Item (&v)[E], uint32_t mask, bool smaller) {
  const uint32_t source = lane() ^ mask;
  CRK_UNROLL
  for (int i = 0; i < E / 2; i++) {
    Item &a = v[i], &b = v[E - 1 - i];
    const Item x = item_of_lane(v[Mirror ? E - 1 - i : i], source), y = item_of_lane(v[Mirror ? i : E - 1 - i], source);
    keep(a, x, smaller);
    keep(b, y, smaller);
  }
}

/* The same without Mirror, for a mask that the compiler knows: the exchange stays in registers if the machine can do
 * so. */
template <int Mask, int E, class Item>
CRK_FN void exchange_across(Item (&v)[E], bool smaller) {
  CRK_UNROLL
  for (int i = 0; i < E; i++) {
    keep(v[i], item_across<Mask>(v[i]), smaller);
  }
}

/* Items that a thread exchanges through shared memory at once: they fit CRK_SORT_SHARED_BYTES. */
template <class Item, int E>
inline constexpr int exchanged = sizeof(Item) > 8 ? 4
                                 : E < 8          ? E
                                                  : 8;

/* The same through shared memory, for threads of different waves. `threads` are all threads of the block, and all must
 * call it. Each round exchanges `exchanged` items per thread and holds two barriers. */
template <bool Mirror, int E, class Item>
CRK_FN void exchange_in_block(Item (&v)[E], uint32_t mask, bool smaller, uint32_t threads) {
  constexpr int at_once = exchanged<Item, E>;
  static_assert(
      at_once * (sizeof(Item) > 8 ? 12 : sizeof(Item)) <= CRK_SORT_SHARED_BYTES && E * 4 <= CRK_SORT_SHARED_BYTES,
      "shared memory is for so many items");
  const uint32_t thread = thread_index().x, partner = thread ^ mask;
  const shared_items<Item> shared(dynamic_shared<uint64_t>(), threads * at_once);
  CRK_UNROLL
  for (int first = 0; first < E / 2; first += at_once / 2) {
    CRK_UNROLL
    for (int i = 0; i < at_once / 2; i++) {
      shared.put(2 * i * threads + thread, v[first + i]);
      shared.put((2 * i + 1) * threads + thread, v[E - 1 - first - i]);
    }
    shared_barrier();
    CRK_UNROLL
    for (int i = 0; i < at_once / 2; i++) {
      keep(v[first + i], shared.get((2 * i + Mirror) * threads + partner), smaller);
      keep(v[E - 1 - first - i], shared.get((2 * i + !Mirror) * threads + partner), smaller);
    }
    shared_barrier();
  }
}

/* Compares each item with its mirror image in the thread whose number differs in the bits `mask`. All threads of the
 * block call it. */
template <int E, class Item>
CRK_FN void exchange_mirrored(Item (&v)[E], uint32_t mask, bool smaller, uint32_t threads) {
  if (mask < wave_size()) {
    exchange_in_wave<true>(v, mask, smaller);
  } else {
    exchange_in_block<true>(v, mask, smaller, threads);
  }
}

/* Compares each item with the same item of the thread whose number differs in the bit `mask`. All threads of the block
 * call it. */
template <int E, class Item>
CRK_FN void exchange(Item (&v)[E], uint32_t mask, bool smaller, uint32_t threads) {
  switch (mask) {
    case 1:
      exchange_across<1>(v, smaller);
      break;
    case 2:
      exchange_across<2>(v, smaller);
      break;
    case 4:
      exchange_across<4>(v, smaller);
      break;
    case 8:
      exchange_across<8>(v, smaller);
      break;
    case 16:
      exchange_across<16>(v, smaller);
      break;
    default:
      if (mask < wave_size()) {
        exchange_in_wave<false>(v, mask, smaller);
      } else {
        exchange_in_block<false>(v, mask, smaller, threads);
      }
  }
}

/* Sorts the items of each group of `group` threads, a power of two. Afterwards thread t of a group has
 * E neighbouring items of the sorted order, from item t * E on. All `threads` threads of the block must call it. */
template <int E, class Item>
CRK_FN void sort_group(Item (&v)[E], uint32_t group, uint32_t threads) {
  const uint32_t thread = thread_index().x;
  sort_items<0, E>(v);
  CRK_NO_UNROLL
  for (uint32_t span = 2; span <= group; span *= 2) {
    exchange_mirrored(v, span - 1, (thread & (span / 2)) == 0, threads);
    CRK_NO_UNROLL
    for (uint32_t mask = span / 4; mask > 0; mask /= 2) {
      exchange(v, mask, (thread & mask) == 0, threads);
    }
    merge_bitonic<E / 2>(v);
  }
}

}  // namespace crk

#endif
