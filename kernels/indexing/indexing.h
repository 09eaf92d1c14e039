/* The launchers' indexing kernels (call/index_call.h), for kernels/indexing.hip. Main functions: index_select,
 * index_select_rows, gather, scatter, update_range.
 *
 * index_select writes dst in pieces of 16 aligned bytes, so it writes rows of any length without gaps. It reads an id
 * once per piece. gather accepts any strides.
 *
 * scatter, scatter_add and index_add update each element of dst in the order of the indexed dim, without atomics. An
 * element of dst belongs to one thread, and a thread takes its ids in order. A thread still has several updates under
 * way: it loads the elements of a few ids at once. If an id occurs twice among them, the later update uses the result
 * of the earlier one. */
#ifndef CRK_INDEXING_H
#define CRK_INDEXING_H

#include "call/index_call.h"
#include "indexing/index_named.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* ---- Ids ---- */

/* Calls f with a pointer to the ids in their own type and returns its result. */
template <class F>
CRK_FN auto with_ids(const crk_ids_t &ids, F f) {
  switch (ids.dtype) {
    case 0:
      return f(static_cast<const uint8_t *>(ids.ptr));
    case 1:
      return f(static_cast<const uint32_t *>(ids.ptr));
    case 2:
      return f(static_cast<const int16_t *>(ids.ptr));
    case 3:
      return f(static_cast<const int32_t *>(ids.ptr));
    default:
      return f(static_cast<const int64_t *>(ids.ptr));
  }
}

/* Functors for with_ids: read_one reads one id. */
struct read_one {
  uint64_t at;
  template <class I>
  CRK_FN int64_t operator()(const I *ids) const {
    return static_cast<int64_t>(ids[at]);
  }
};

CRK_FN int64_t read_id(const crk_ids_t &ids, uint64_t at) { return with_ids(ids, read_one{at}); }

/* Reads N ids; all loads come before the first use. */
template <int N>
struct read_each {
  uint64_t at[N];
  template <class I>
  CRK_FN pack<int64_t, N> operator()(const I *ids) const {
    I values[N];
    CRK_UNROLL
    for (int k = 0; k < N; k++) {
      values[k] = ids[at[k]];
    }
    pack<int64_t, N> wide;
    CRK_UNROLL
    for (int k = 0; k < N; k++) {
      wide.v[k] = static_cast<int64_t>(values[k]);
    }
    return wide;
  }
};

/* Reads one id for the whole wave: `at` is the same in all lanes. */
struct read_for_wave {
  uint64_t at;
  template <class I>
  CRK_FN int64_t operator()(const I *ids) const {
    return static_cast<int64_t>(load_uniform(ids + at));
  }
};

/* Reads V ids along the innermost dim of operand 1, from offset `at` on. */
template <int V>
struct read_nd {
  const crk_nd_t &nd;
  uint64_t at;
  template <class I>
  CRK_FN pack<int64_t, V> operator()(const I *ids) const {
    const pack<I, V> values = load_nd<V>(nd, 1, ids + at);
    pack<int64_t, V> wide;
    CRK_UNROLL
    for (int j = 0; j < V; j++) {
      wide.v[j] = static_cast<int64_t>(values.v[j]);
    }
    return wide;
  }
};

/* Whether an id is a position. An id that is neither a position nor the sentinel is reported. */
CRK_FN bool is_position(const crk_ids_t &ids, int64_t id) {
  if (static_cast<uint64_t>(id) < ids.limit) {
    return true;
  }
  if (id != ids.sentinel) {
    report(ids.fault, id);
  }
  return false;
}

/* ---- index_select ---- */

/* The number of the element of src with which row (l, n) of dst begins; no_row if the row of dst is zeros. It is not a
 * pointer: clang reads by flat instructions from a pointer that may be null. */
inline constexpr uint64_t no_row = static_cast<uint64_t>(-1);
CRK_FN uint64_t selected_row(const crk_index_select_t &s, uint64_t l, uint64_t n) {
  const int64_t id = read_id(s.ids, n * s.ids_stride);
  return is_position(s.ids, id) ? l * s.src_left + static_cast<uint64_t>(id) * s.src_row : no_row;
}

/* The elements of dst one by one, from element r of row (l, n) on; `row` is its selected_row. */
template <class T>
struct selected_elements {
  const crk_index_select_t &s;
  uint64_t l, n, r, row;

  CRK_FN T next() {
    if (r == s.right.size) {
      r = 0;
      n++;
      if (n == s.count.size) {
        n = 0;
        l++;
      }
      row = selected_row(s, l, n);
    }
    const T value = row != no_row ? static_cast<const T *>(s.src)[row + r] : T(0);
    r++;
    return value;
  }
};

/* The walk on the CPU over the elements `e` of dst: runs along its rows. */
template <class T, class Elements>
CRK_FN void select_runs(const crk_index_select_t &s, const Elements &e) {
  T *const dst = static_cast<T *>(s.dst);
  const uint64_t right = s.right.size;
  for (uint64_t i = e.first; i < e.end;) {
    const uint64_t row = i / right, r = i - row * right, l = row / s.count.size;
    const uint64_t first = selected_row(s, l, row - l * s.count.size);
    const T *src = first != no_row ? static_cast<const T *>(s.src) + first : nullptr;
    const uint64_t count = right - r < e.end - i ? right - r : e.end - i;
    for (uint64_t j = 0; j < count; j++) {
      dst[i + j] = src != nullptr ? src[r + j] : T(0);
    }
    i += count;
  }
}

/* dst[l, n, r] = src[l, ids[n], r], for rows of any length. */
template <class T>
CRK_FN void index_select(const crk_index_select_t &s, uint32_t threads) {
  T *const dst = static_cast<T *>(s.dst);
  const uint64_t right = s.right.size;
  if constexpr (on_host) {
    select_runs<T>(s, elements(s.numel, threads));
    return;
  }
  constexpr int V = 16 / sizeof(T);
  /* Piece 0 begins `lead` elements before dst, at a multiple of 16 bytes. */
  const uint64_t lead = reinterpret_cast<uintptr_t>(dst) % 16 / sizeof(T);
  const elements e((s.numel + lead + V - 1) / V, threads);
  for (uint64_t p = e.first; p < e.end; p += e.step) {
    const uint64_t i = p * V - lead, first = i < s.numel ? i : 0;
    const bool whole = i < s.numel && s.numel - i >= V;
    const uint64_t row = divide(s.right, s.wide != 0, first), r = first - row * right;
    const uint64_t l = divide(s.count, s.wide != 0, row), n = row - l * s.count.size;
    const uint64_t from_row = selected_row(s, l, n);
    if (whole && right - r >= V) {
      pack<T, V> values = {};
      if (from_row != no_row) {
        values = load_pack<T, V>(static_cast<const T *>(s.src) + (from_row + r));
      }
      store_pack(dst + i, values);
    } else {
      selected_elements<T> from = {s, l, n, r, from_row};
      if (whole) {
        pack<T, V> values;
        CRK_UNROLL
        for (int j = 0; j < V; j++) {
          values.v[j] = from.next();
        }
        store_pack(dst + i, values);
      } else {
        CRK_NO_UNROLL
        for (int j = 0; j < V; j++) {
          if (i + j < s.numel) {
            dst[i + j] = from.next();
          }
        }
      }
    }
  }
}

/* The content of piece p of dst. Rows of src and dst are whole pieces, and offsets in bytes fit in 32 bits. OneRow: all
 * pieces of a wave lie in one row. */
template <bool OneRow, class T>
CRK_FN pack<uint32_t, 4> selected_piece(const crk_index_select_t &s, uint32_t p) {
  constexpr int V = 16 / sizeof(T);
  const uint32_t row = divide(s.row_pieces, OneRow ? uniform(p) : p),
                 piece = p - row * static_cast<uint32_t>(s.row_pieces.size);
  uint32_t n = row, from = 0;
  if (s.left > 1) {
    const uint32_t l = divide(s.count, row);
    n = row - l * static_cast<uint32_t>(s.count.size);
    from = l * static_cast<uint32_t>(s.src_left);
  }
  using read = choose<OneRow, read_for_wave, read_one>;
  const int64_t id = with_ids(s.ids, read{n * static_cast<uint32_t>(s.ids_stride)});
  pack<uint32_t, 4> words = {};
  if (is_position(s.ids, id)) {
    from += static_cast<uint32_t>(id) * static_cast<uint32_t>(s.src_row);
    words = load_aligned<uint32_t, 4>(
        reinterpret_cast<const uint32_t *>(static_cast<const T *>(s.src) + (from + piece * V)));
  }
  return words;
}

/* Copies CRK_INDEX_PIECES pieces per thread. All loads of a thread come before its stores. */
template <bool OneRow, class T>
CRK_FN void select_pieces(const crk_index_select_t &s) {
  constexpr int N = CRK_INDEX_PIECES;
  const uint32_t first = block_index().x * (N * CRK_INDEX_THREADS) + thread_index().x;
  pack<uint32_t, 4> pieces[N];
  CRK_UNROLL
  for (int k = 0; k < N; k++) {
    const uint32_t p = first + k * CRK_INDEX_THREADS;
    if (p < s.pieces) {
      pieces[k] = selected_piece<OneRow, T>(s, p);
    }
  }
  CRK_UNROLL
  for (int k = 0; k < N; k++) {
    const uint32_t p = first + k * CRK_INDEX_THREADS;
    if (p < s.pieces) {
      store_pack(reinterpret_cast<uint32_t *>(static_cast<char *>(s.dst) + p * 16), pieces[k]);
    }
  }
}

/* The same as index_select, for rows of whole pieces (call/index_call.h). If all pieces of a wave lie in one row, the
 * wave finds the row and its id once. */
template <class T>
CRK_FN void index_select_rows(const crk_index_select_t &s) {
  if constexpr (on_host) {
    select_runs<T>(s, named_elements(s.numel));
  } else if (s.row_pieces.size % wave_size() == 0) {
    select_pieces<true, T>(s);
  } else {
    select_pieces<false, T>(s);
  }
}

/* ---- gather ---- */

/* gather for the elements from `begin` on: `steps` steps of V elements each. */
template <int V, class T>
CRK_FN void gather_steps(const crk_nd_t &nd, uint32_t threads, const crk_gather_t &g, uint64_t begin, uint64_t steps) {
  const T *const src = static_cast<const T *>(g.src);
  T *const dst = static_cast<T *>(g.dst);
  const uint64_t stride = nd.rank == 0 ? 0 : nd.strides[0][0];
  const elements e(steps, threads);
  for (uint64_t s = e.first; s < e.end; s += e.step) {
    const uint64_t i = walked(nd, begin + s * V);
    uint64_t at[2];
    locate(nd, i, at);
    const pack<int64_t, V> ids = with_ids(g.ids, read_nd<V>{nd, at[1]});
    pack<T, V> values;
    CRK_UNROLL
    for (int j = 0; j < V; j++) {
      values.v[j] = T(0);
      if (is_position(g.ids, ids.v[j])) {
        values.v[j] = src[at[0] + j * stride + static_cast<uint64_t>(ids.v[j]) * g.src_stride];
      }
    }
    if constexpr (V == 1) {
      dst[i] = values.v[0];
    } else {
      store_pack(dst + i, values);
    }
  }
}

/* dst[i] = src[i, with the id in place of the indexed coordinate], or 0 if the id is no position. */
template <class T>
CRK_FN void gather(const crk_nd_t &nd, uint32_t threads, const crk_gather_t &g) {
  if constexpr (on_host) {
    gather_steps<1, T>(nd, threads, g, 0, nd.numel);
  } else {
    constexpr int V = CRK_GATHER_ELEMENTS(sizeof(T));
    const bool packs = (nd.flags & CRK_ND_VECTOR) != 0 && reinterpret_cast<uintptr_t>(g.dst) % (V * sizeof(T)) == 0;
    const uint64_t steps = packs ? nd.numel / V : 0;
    gather_steps<V, T>(nd, threads, g, 0, steps);
    gather_steps<1, T>(nd, threads, g, steps * V, nd.numel - steps * V);
  }
}

/* ---- Updates ---- */

/* Makes N updates in order, of V elements each: dst[to[i]] = op(dst[to[i]], src[from[i]]) if use[i]. No other thread
 * may write these elements of dst. */
template <int N, int V, class Op, class T>
CRK_FN void update(T *dst, const uint64_t (&to)[N], const T *src, const uint64_t (&from)[N], const bool (&use)[N]) {
  constexpr bool reads = !same<Op, set_op>;
  const Op op;
  pack<T, V> sums[N], terms[N];
  /* Initialises the values for compilers that do not see that unused values are never read. Compilers for AMD GPUs
   * would keep such values from step to step. This takes a third more registers, and loads would wait for them. */
  CRK_UNROLL
  for (int i = 0; i < N; i++) {
    sums[i] = terms[i] = {};
  }
  CRK_UNROLL
  for (int i = 0; i < N; i++) {
    if (use[i]) {
      terms[i] = load_pack<T, V>(src + from[i]);
      if constexpr (reads) {
        sums[i] = load_pack<T, V>(dst + to[i]);
      }
    }
  }
  CRK_UNROLL
  for (int i = 0; i < N; i++) {
    if (use[i]) {
      if constexpr (reads) {
        CRK_UNROLL
        for (int before = 0; before < i; before++) {
          if (use[before] && to[before] == to[i]) {
            sums[i] = sums[before];
          }
        }
        CRK_UNROLL
        for (int j = 0; j < V; j++) {
          sums[i].v[j] = op(sums[i].v[j], terms[i].v[j]);
        }
        store_pack(dst + to[i], sums[i]);
      } else {
        store_pack(dst + to[i], terms[i]);
      }
    }
  }
}

/* ---- One thread per column ---- */

/* dst[l, id, r] = op(dst[l, id, r], src[l, n, r]) with id = ids[l, n, r], for n = 0, 1, ... in order. */
template <class Op, class T>
CRK_FN void scatter(const crk_scatter_t &s) {
  const T *const src = static_cast<const T *>(s.src);
  T *const dst = static_cast<T *>(s.dst);
  const uint64_t right = s.right.size;
  const elements e(s.columns, s.threads, s.block);
  if constexpr (on_host) {
    /* The loop over columns is the inner one, so that memory is read in order. */
    const Op op;
    for (uint64_t i = e.first; i < e.end;) {
      const uint64_t l = i / right, r = i - l * right;
      const uint64_t count = right - r < e.end - i ? right - r : e.end - i;
      for (uint64_t n = 0; n < s.count; n++) {
        for (uint64_t j = 0; j < count; j++) {
          const uint64_t from = (l * s.count + n) * right + r + j;
          const int64_t id = read_id(s.ids, from);
          if (is_position(s.ids, id)) {
            T *to = dst + ((l * s.dst_dim + static_cast<uint64_t>(id)) * right + r + j);
            *to = op(*to, src[from]);
          }
        }
      }
      i += count;
    }
    return;
  }
  /* Ids at once: fewer with 64-lane waves, where a lane has half as many registers. */
  constexpr int N = most_lanes == 64 || same<T, f8e4m3> ? 4 : 8;
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    const uint64_t l = divide(s.right, s.wide != 0, i), r = i - l * right;
    const uint64_t first = l * s.count * right + r, base = l * s.dst_dim * right + r;
    const auto place = [&](uint64_t n) { return first + (n < s.count ? n : 0) * right; };
    const auto read = [&](uint64_t n) {
      read_each<N> each;
      CRK_UNROLL
      for (int k = 0; k < N; k++) {
        each.at[k] = place(n + k);
      }
      return with_ids(s.ids, each);
    };
    pack<int64_t, N> ids = read(0);
    for (uint64_t n = 0; n < s.count; n += N) {
      const pack<int64_t, N> next = read(n + N); /* the next ids are loaded during this step's updates */
      uint64_t from[N], to[N];
      bool use[N];
      CRK_UNROLL
      for (int k = 0; k < N; k++) {
        use[k] = n + k < s.count && is_position(s.ids, ids.v[k]);
        from[k] = place(n + k);
        to[k] = base + static_cast<uint64_t>(ids.v[k]) * right;
      }
      update<N, 1, Op>(dst, to, src, from, use);
      ids = next;
    }
  }
}

/* ---- A block per some columns ---- */

/* The same with several owners per column: owner k makes the updates of the rows of dst whose number is k modulo their
 * count. The block brings some rows of ids and of src to shared memory at a time. For dst_dim below 2^32 - 1. All
 * threads of the block must call it. */
template <class Op, class T>
CRK_FN void scatter_shared(const crk_scatter_t &s) {
  constexpr uint32_t width = CRK_SCATTER_COLUMNS, owners = CRK_SCATTER_OWNERS, rows = 64, none = 0xffffffff;
  constexpr int share = rows / owners, N = 4;
  CRK_SHARED(uint32_t, ids, rows *width);
  CRK_SHARED(T, values, rows * width);
  const T *const src = static_cast<const T *>(s.src);
  T *const dst = static_cast<T *>(s.dst);
  const uint32_t c = thread_index().x % width, owner = thread_index().x / width;
  for (uint64_t tile = block_index().x; tile * width < s.columns; tile += s.threads / CRK_INDEX_THREADS) {
    const uint64_t i = tile * width + c, right = s.right.size;
    const bool here = i < s.columns;
    const uint64_t l = divide(s.right, s.wide != 0, here ? i : 0), r = (here ? i : 0) - l * right;
    const uint64_t first = l * s.count * right + r, base = l * s.dst_dim * right + r;
    pack<int64_t, share> next_ids;
    T next_values[share];
    /* Row k of the thread's share is row owner + k * owners of the step. Rows behind the last one repeat the first. */
    const auto load = [&](uint64_t step) {
      read_each<share> each;
      CRK_UNROLL
      for (int k = 0; k < share; k++) {
        const uint64_t n = step + owner + static_cast<uint32_t>(k) * owners;
        each.at[k] = first + (n < s.count ? n : 0) * right;
        next_values[k] = src[each.at[k]];
      }
      next_ids = with_ids(s.ids, each);
    };
    load(0);
    for (uint64_t step = 0; step < s.count; step += rows) {
      CRK_UNROLL
      for (int k = 0; k < share; k++) {
        const uint32_t row = owner + static_cast<uint32_t>(k) * owners, at = row * width + c;
        const bool is_update = here && step + row < s.count && is_position(s.ids, next_ids.v[k]);
        ids[at] = is_update ? static_cast<uint32_t>(next_ids.v[k]) : none;
        values[at] = next_values[k];
      }
      shared_barrier();
      if (step + rows < s.count) {
        load(step + rows); /* on its way during this step's updates */
      }
      uint64_t mine = 0; /* bit k: row k of the step */
      CRK_UNROLL
      for (uint32_t row = 0; row < rows; row++) {
        const uint32_t id = ids[row * width + c];
        mine |= static_cast<uint64_t>(id != none && id % owners == owner) << row;
      }
      while (mine != 0) {
        uint64_t from[N], to[N];
        bool use[N];
        CRK_UNROLL
        for (int k = 0; k < N; k++) {
          use[k] = mine != 0;
          from[k] = (use[k] ? popcount((mine - 1) & ~mine) : 0) * width + c;
          to[k] = base + static_cast<uint64_t>(ids[from[k]]) * right;
          mine &= mine - 1;
        }
        update<N, 1, Op>(dst, to, &values[0], from, use);
      }
      shared_barrier();
    }
  }
}

/* ---- One block per range of rows of dst ---- */

/* An update that a block has to make. `from`: the row of src, counted from the first id of the list. `to`: the row of
 * dst, counted from the first row of the block's range. */
struct list_entry {
  uint32_t from, to;
};

/* Makes the updates of the list that belong to the rows of this thread's group, in order: V elements of each row. `src`
 * and `dst` point to the thread's column in the first row of each. */
template <int V, class Op, class T>
CRK_FN void update_from_list(const crk_index_update_t &u, const list_entry *list, uint32_t length, uint32_t group,
                             const T *src, T *dst) {
  /* More updates of 16 bytes at once would take registers of other waves; more additions of f8e4m3 would spill. */
  constexpr int N = same<T, f8e4m3> ? 1 : V > 1 ? 2 : 4;
  const uint32_t mask = (static_cast<uint32_t>(CRK_INDEX_THREADS) >> u.lanes_log2) - 1;
  for (uint32_t k = 0; k < length;) {
    uint64_t from[N], to[N];
    bool use[N];
    CRK_UNROLL
    for (int i = 0; i < N; i++) {
      list_entry entry = {0, 0};
      use[i] = false;
      while (k < length && !use[i]) {
        entry = list[k++];
        use[i] = (entry.to & mask) == group;
      }
      from[i] = entry.from * u.right;
      to[i] = entry.to * u.right;
    }
    update<N, V, Op>(dst, to, src, from, use);
  }
}

/* One block updates a range of rows of dst (crk_index_update_t). It reads all ids, `listed` at a time. It lists the ids
 * of its own rows in order, then makes the updates of the list. All threads of the block must call it. */
template <class Op, class T>
CRK_FN void update_range(const crk_index_update_t &u) {
  constexpr int V = CRK_UPDATE_ELEMENTS(sizeof(T));
  /* On GPUs with 64-lane waves, `list` and `found` together take 8 KiB. A compute unit then has room for the eight
   * blocks that fill it. */
  constexpr uint32_t most = CRK_INDEX_THREADS * CRK_INDEX_IDS, listed = most_lanes == 64 ? most - 4 : most;
  CRK_SHARED(list_entry, list, listed);
  CRK_SHARED(uint32_t, found, CRK_INDEX_THREADS / 32); /* entries that each wave has found */
  const uint32_t thread = thread_index().x, wave = thread / wave_size(), waves = CRK_INDEX_THREADS / wave_size();
  const uint64_t below = (static_cast<uint64_t>(1) << lane()) - 1; /* mask of the lanes before this one */
  const uint32_t group = thread >> u.lanes_log2, lanes = 1u << u.lanes_log2;
  const uint64_t width = u.packs ? V : 1;
  for (uint64_t b = block_index().x; b < u.blocks; b += u.step) {
    const uint64_t strip = divide(u.tiles, true, b), l = divide(u.ranges, true, strip);
    const uint64_t column = ((b - strip * u.tiles.size) * lanes + (thread & (lanes - 1))) * width;
    const uint64_t first_row = (strip - l * u.ranges.size) * u.range;
    const T *const src = static_cast<const T *>(u.src) + (l * u.src_left + column);
    T *const dst = static_cast<T *>(u.dst) + (l * u.dst_left + first_row * u.right + column);
    for (uint64_t base = 0; base < u.count; base += listed) {
      const uint64_t end = listed < most && u.count - base > listed ? base + listed : u.count;
      read_each<CRK_INDEX_IDS> each;
      bool mine[CRK_INDEX_IDS];
      uint32_t place = 0, all = 0;
      CRK_UNROLL
      for (int k = 0; k < CRK_INDEX_IDS; k++) {
        const uint64_t n = base + thread * CRK_INDEX_IDS + k;
        mine[k] = n < end;
        each.at[k] = l * u.ids_left + (mine[k] ? n : base) * u.ids_stride;
      }
      const pack<int64_t, CRK_INDEX_IDS> ids = with_ids(u.ids, each);
      CRK_UNROLL
      for (int k = 0; k < CRK_INDEX_IDS; k++) {
        mine[k] = mine[k] && is_position(u.ids, ids.v[k]) && static_cast<uint64_t>(ids.v[k]) - first_row < u.range;
        const uint64_t votes = ballot(mine[k]);
        place += popcount(votes & below);
        all += popcount(votes);
      }
      if (lane() == 0) {
        found[wave] = all;
      }
      barrier();
      uint32_t length = 0;
      for (uint32_t w = 0; w < waves; w++) {
        place += w < wave ? found[w] : 0;
        length += found[w];
      }
      CRK_UNROLL
      for (int k = 0; k < CRK_INDEX_IDS; k++) {
        if (mine[k]) {
          list[place++] = {thread * CRK_INDEX_IDS + k,
                           static_cast<uint32_t>(static_cast<uint64_t>(ids.v[k]) - first_row)};
        }
      }
      barrier();
      if (column < u.right) {
        const T *const rows = src + base * u.right;
        if (u.packs) {
          update_from_list<V, Op>(u, list, length, group, rows, dst);
        } else {
          update_from_list<1, Op>(u, list, length, group, rows, dst);
        }
      }
    }
  }
}

}  // namespace
}  // namespace crk

#endif
