/* The module `sort`: for each row of a matrix, the positions of its elements in sorted order.
 *
 * With Candle's names, asort_asc_<type> and asort_desc_<type>: Candle's bitonic network on the positions of a row in
 * shared memory. It makes the same comparisons as Candle's kernel. So equal elements get the same order and NaN the
 * same places. It is not stable.
 *
 * For csrc/launch/sort.c, stable sorts by a total order. argsort_few_<type> and argsort_many_<type> sort rows, or tiles
 * of long rows, with few or many elements per thread. argsort_merge_b32 and _b64 merge the tiles; their keys have 32 or
 * 64 bits. */
/* On the CPU, sorts take twice as long where small functions are called. */
#define CRK_INLINE_ALWAYS 1

#include "call/sort_call.h"
#include "elementwise/instances.h"
#include "sort/sorting.h"

namespace {

/* ---- With Candle's names ---- */

/* One block per row, with 4 * padded bytes of dynamic shared memory. `padded` is a power of two; the places from
 * `columns` on come last in both orders. */
template <bool Ascending, class T>
CRK_FN void asort(const T *x, uint32_t *dst, int columns, int padded) {
  uint32_t *place = crk::dynamic_shared<uint32_t>();
  const uint64_t row = static_cast<uint64_t>(crk::block_index().x) * static_cast<uint64_t>(columns);
  const uint32_t thread = crk::thread_index().x, threads = crk::block_size().x;
  const uint32_t count = static_cast<uint32_t>(columns), all = static_cast<uint32_t>(padded);
  for (uint32_t i = thread; i < all; i += threads) {
    place[i] = i;
  }
  crk::barrier();
  for (uint32_t run = 2; run <= all && run != 0; run *= 2) {
    for (uint32_t distance = run / 2; distance > 0; distance /= 2) {
      for (uint32_t pair = thread; pair < all / 2; pair += threads) {
        const uint32_t low = 2 * pair - (pair & (distance - 1)), high = low + distance;
        const bool upwards = (low & run) == 0;
        const uint32_t first = upwards ? low : high, second = upwards ? high : low;
        const uint32_t a = place[first], b = place[second];
        bool swap = a >= count;
        if (!swap && b < count) {
          swap = Ascending ? x[row + a] > x[row + b] : x[row + a] < x[row + b];
        }
        if (swap) {
          place[first] = b;
          place[second] = a;
        }
      }
      crk::barrier();
    }
  }
  for (uint32_t i = thread; i < count; i += threads) {
    dst[row + i] = place[i];
  }
}

/* ---- Rows and tiles ---- */

/* The type of the keys that argsort writes and argsort_merge reads: u64 for elements of 8 bytes, else u32. */
template <class T>
using stored_key = crk::choose<sizeof(T) == 8, uint64_t, uint32_t>;

/* A unit of shared memory: the places of four items. */
struct alignas(16) shared_unit {
  crk::pack<uint32_t, 4> places;
};

/* The position of a unit in shared memory. In this order, threads that write their own places have no bank conflicts,
 * and neither have threads that read neighbouring places. */
CRK_FN uint32_t spread(uint32_t unit) { return unit ^ (unit >> 3 & 7); }

/* Loads `count` elements in 16-byte packs and makes E items per thread. Neighbouring threads load neighbouring packs.
 * So the packs of a thread are not neighbours in the row, and each item has its place with it. `member` is this
 * thread's number in its group of `group` threads. */
template <int E, class T>
CRK_FN void load_items(crk::item_of<T> (&v)[E], const T *src, uint32_t count, uint32_t member, uint32_t group,
                       crk::bits_of<T> flip) {
  constexpr int V = static_cast<int>(16 / sizeof(T)) < E ? static_cast<int>(16 / sizeof(T)) : E;
  CRK_UNROLL
  for (int i = 0; i < E; i += V) {
    const uint32_t first = (static_cast<uint32_t>(i / V) * group + member) * V;
    crk::pack<T, V> x = {};
    if (first + V <= count) {
      x = crk::load_pack<T, V>(src + first);
    } else {
      CRK_UNROLL
      for (int j = 0; j < V; j++) {
        if (first + j < count) {
          x.v[j] = src[first + j];
        }
      }
    }
    CRK_UNROLL
    for (int j = 0; j < V; j++) {
      const crk::bits_of<T> key = crk::order_key(x.v[j]) ^ flip;
      v[i + j] = crk::select(first + j < count, crk::make_item<T>(key, first + j), crk::last_item<T>());
    }
  }
}

/* Stores the first `count` of four values. */
template <class T>
CRK_FN void store_four(T *dst, const crk::pack<T, 4> &four, uint64_t count) {
  constexpr uintptr_t alignment = 4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16;
  if (count >= 4 && reinterpret_cast<uintptr_t>(dst) % alignment == 0) {
    crk::store_pack(dst, four);
  } else {
    CRK_UNROLL
    for (uint32_t j = 0; j < 4; j++) {
      if (j < count) {
        dst[j] = four.v[j];
      }
    }
  }
}

/* Sorts rows or tiles (crk_sort_rows_t), with E elements per thread. */
template <int E, class T>
CRK_FN void argsort(const crk_sort_rows_t &call) {
  using four = crk::pack<uint32_t, 4>;
  using K = stored_key<T>;
  const uint32_t thread = crk::thread_index().x, group = 1u << call.group_log2, member = thread & (group - 1);
  const uint32_t threads = CRK_SORT_BLOCK(group), rows_at_once = threads >> call.group_log2;
  const bool tiled = call.tiled != 0;
  const uint64_t begin = tiled ? static_cast<uint64_t>(crk::block_index().x) * group * E : 0;
  const uint64_t left = call.columns - begin;
  const uint32_t columns = left < group * E ? static_cast<uint32_t>(left) : group * E;
  const crk::bits_of<T> flip = static_cast<crk::bits_of<T>>(call.flip);
  shared_unit *shared = crk::dynamic_shared<shared_unit>();
  T *values = static_cast<T *>(call.values);
  K *keys = static_cast<K *>(call.keys);

  uint64_t first_row = static_cast<uint64_t>(tiled ? crk::block_index().y : crk::block_index().x) * rows_at_once;
  for (; first_row < call.rows; first_row += call.row_step) {
    const uint64_t row = first_row + (thread >> call.group_log2);
    const uint32_t count = row < call.rows ? columns : 0;
    const uint64_t base = row * call.columns + begin;
    const T *src = static_cast<const T *>(call.src) + base;
    crk::item_of<T> v[E];
    load_items<E>(v, src, count, member, group, flip);
    crk::sort_group(v, group, threads);

    CRK_UNROLL
    for (int i = 0; i < E; i += 4) {
      const four places = {
          {crk::place_of(v[i]), crk::place_of(v[i + 1]), crk::place_of(v[i + 2]), crk::place_of(v[i + 3])}};
      shared[spread(thread * (E / 4) + static_cast<uint32_t>(i / 4))].places = places;
    }
    crk::barrier();
    for (uint32_t i = member; 4 * i < count; i += group) {
      four places = shared[spread((thread - member) * (E / 4) + i)].places;
      const uint32_t rest = count - 4 * i;
      const uint64_t at = base + 4 * i;
      if (values != nullptr || keys != nullptr) {
        crk::pack<T, 4> x = {};
        CRK_UNROLL
        for (uint32_t j = 0; j < 4; j++) {
          if (j < rest) {
            x.v[j] = src[places.v[j]];
          }
        }
        if (values != nullptr) {
          store_four(values + at, x, rest);
        }
        if (keys != nullptr) {
          crk::pack<K, 4> key;
          CRK_UNROLL
          for (int j = 0; j < 4; j++) {
            key.v[j] = static_cast<crk::bits_of<T>>(crk::order_key(x.v[j]) ^ flip);
          }
          store_four(keys + at, key, rest);
        }
      }
      CRK_UNROLL
      for (int j = 0; j < 4; j++) {
        places.v[j] += static_cast<uint32_t>(begin);
      }
      store_four(call.indices + at, places, rest);
    }
    crk::barrier();
  }
}

/* ---- Merging ---- */

/* The number of ones below the lowest zero bit. */
CRK_FN uint32_t trailing_ones(uint64_t bits) {
  uint32_t count = 0;
  CRK_UNROLL
  for (uint32_t step = 32; step > 0; step /= 2) {
    const uint64_t ones = (uint64_t(1) << step) - 1;
    const bool whole = (bits & ones) == ones;
    bits = whole ? bits >> step : bits;
    count += whole ? step : 0;
  }
  return count + static_cast<uint32_t>(bits & 1);
}

/* Returns how many of the first `count` outputs of a merge come from `a`. If keys are equal, those of `a` come first.
 * The wave searches together: each lane tries one place per step. All lanes must call it. */
template <class K>
CRK_FN uint64_t split_of_wave(const K *a, uint64_t a_count, const K *b, uint64_t b_count, uint64_t count) {
  uint64_t low = count > b_count ? count - b_count : 0, high = count < a_count ? count : a_count;
  while (low < high) {
    const uint64_t step = (high - low + crk::wave_size() - 1) / crk::wave_size();
    const uint64_t at = low + crk::lane() * step;
    const bool taken = at < high && a[at] <= b[count - 1 - at];
    /* `taken` is true in the first lanes and false in all others. */
    const uint32_t yes = trailing_ones(crk::ballot(taken));
    const uint64_t next = low + yes * step;
    high = next < high ? next : high;
    low = yes == 0 ? low : low + (yes - 1) * step + 1;
  }
  return low;
}

/* The same for one thread, by bisection. */
template <class K>
CRK_FN uint32_t split_of_thread(const K *a, uint32_t a_count, const K *b, uint32_t b_count, uint32_t count) {
  uint32_t low = count > b_count ? count - b_count : 0, high = count < a_count ? count : a_count;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    const bool taken = a[middle] <= b[count - 1 - middle];
    low = taken ? middle + 1 : low;
    high = taken ? high : middle;
  }
  return low;
}

/* values[to] = src[from]. */
template <class T>
CRK_FN void gather_value(void *values, uint64_t to, const void *src, uint64_t from) {
  static_cast<T *>(values)[to] = static_cast<const T *>(src)[from];
}

/* One pass of merges (crk_sort_merge_t) by merge path (Green, McColl and Bader, "GPU merge path", 2012). Two waves find
 * the parts of both runs that make the block's tile of the output. Each thread then finds the parts that make its share
 * of the tile. */
template <class K>
CRK_FN void argsort_merge(const crk_sort_merge_t &call) {
  constexpr uint32_t share = CRK_MERGE_TILE / CRK_MERGE_THREADS;
  using places = crk::pack<uint16_t, share>;
  CRK_SHARED(K, keys, CRK_MERGE_TILE);
  CRK_SHARED(places, taken, CRK_MERGE_THREADS);
  CRK_SHARED(uint64_t, cuts, 2);
  const uint32_t thread = crk::thread_index().x, wave = thread / crk::wave_size();
  const uint64_t row = crk::block_index().y * call.columns;
  const uint64_t out = static_cast<uint64_t>(crk::block_index().x) * CRK_MERGE_TILE;
  const uint64_t pair = out & ~(2 * call.run - 1), left = call.columns - pair;
  const uint64_t a_count = left < call.run ? left : call.run;
  const uint64_t b_count = left - a_count < call.run ? left - a_count : call.run;
  const K *a = static_cast<const K *>(call.keys) + row + pair, *b = a + a_count;
  const uint64_t begin = out - pair, rest = a_count + b_count - begin;
  const uint32_t count = rest < CRK_MERGE_TILE ? static_cast<uint32_t>(rest) : CRK_MERGE_TILE;

  if (wave < 2) {
    const uint64_t cut = split_of_wave(a, a_count, b, b_count, begin + wave * count);
    if (crk::lane() == 0) {
      cuts[wave] = cut;
    }
  }
  crk::barrier();
  const uint64_t a_begin = cuts[0], b_begin = begin - a_begin;
  const uint32_t from_a = static_cast<uint32_t>(cuts[1] - a_begin), from_b = count - from_a;
  for (uint32_t i = thread; i < count; i += CRK_MERGE_THREADS) {
    keys[i] = i < from_a ? a[a_begin + i] : b[b_begin + (i - from_a)];
  }
  crk::barrier();

  const uint32_t mine = thread * share < count ? thread * share : count;
  uint32_t at_a = split_of_thread(keys, from_a, keys + from_a, from_b, mine), at_b = mine - at_a;
  /* At the end of a run any key of the tile is read instead: it is not used. */
  K key_a = keys[at_a < from_a ? at_a : 0], key_b = keys[at_b < from_b ? from_a + at_b : 0];
  places order;
  CRK_UNROLL
  for (uint32_t i = 0; i < share; i++) {
    const bool take_a = at_b >= from_b || (at_a < from_a && key_a <= key_b);
    order.v[i] = static_cast<uint16_t>(take_a ? at_a : from_a + at_b);
    at_a += take_a ? 1 : 0;
    at_b += take_a ? 0 : 1;
    const uint32_t next = take_a ? at_a : from_a + at_b;
    const K key = keys[next < count ? next : 0];
    key_a = take_a ? key : key_a;
    key_b = take_a ? key_b : key;
  }
  taken[thread] = order;
  crk::barrier();

  const uint16_t *taken_place = reinterpret_cast<const uint16_t *>(taken);
  for (uint32_t i = thread; i < count; i += CRK_MERGE_THREADS) {
    const uint32_t place = taken_place[i];
    const uint64_t from = place < from_a ? a_begin + place : a_count + b_begin + (place - from_a);
    const uint32_t index = call.indices[row + pair + from];
    const uint64_t to = row + out + i;
    call.merged_indices[to] = index;
    if (call.merged_keys != nullptr) {
      static_cast<K *>(call.merged_keys)[to] = keys[place];
    }
    if (call.values != nullptr) {
      switch (call.element_bytes) {
        case 1:
          gather_value<uint8_t>(call.values, to, call.src, row + index);
          break;
        case 2:
          gather_value<uint16_t>(call.values, to, call.src, row + index);
          break;
        case 4:
          gather_value<uint32_t>(call.values, to, call.src, row + index);
          break;
        default:
          gather_value<uint64_t>(call.values, to, call.src, row + index);
          break;
      }
    }
  }
}

}  // namespace

#define CRK_SORT(suffix, T)                                                                                           \
  CRK_COOPERATIVE(asort_asc_##suffix, CRK_NAMED_THREADS, (const T *x, uint32_t *dst, int ncols, int padded)) {        \
    asort<true>(x, dst, ncols, padded);                                                                               \
  }                                                                                                                   \
  CRK_COOPERATIVE(asort_desc_##suffix, CRK_NAMED_THREADS, (const T *x, uint32_t *dst, int ncols, int padded)) {       \
    asort<false>(x, dst, ncols, padded);                                                                              \
  }                                                                                                                   \
  CRK_COOPERATIVE(argsort_few_##suffix, CRK_SORT_THREADS, (crk_sort_rows_t call)) { argsort<CRK_SORT_FEW, T>(call); } \
  CRK_COOPERATIVE(argsort_many_##suffix, CRK_SORT_THREADS, (crk_sort_rows_t call)) {                                  \
    argsort<CRK_SORT_MANY(sizeof(T)), T>(call);                                                                       \
  }
CRK_ALL_TYPES(CRK_SORT)

CRK_COOPERATIVE(argsort_merge_b32, CRK_MERGE_THREADS, (crk_sort_merge_t call)) { argsort_merge<uint32_t>(call); }
CRK_COOPERATIVE(argsort_merge_b64, CRK_MERGE_THREADS, (crk_sort_merge_t call)) { argsort_merge<uint64_t>(call); }

CRK_MODULE(sort)
