/* Softmax, RMS norm and layer norm for the launchers, over rows that fit in a block's registers: softmax_held,
 * rms_norm_held and layer_norm_held. Statistics are in f32, for f64 rows in f64. norm_long.h has the longer rows.
 *
 * `width` threads share a row. `width` is a power of two: lanes of a group of 32, a wave of 64, or a block of whole
 * groups. Each thread holds up to P packs of 16 bytes of the row in registers (held_row). So the row is read from
 * memory only once. There are kernels for three forms of rows:
 *
 *   any_row    any length and address. Packs are aligned in dst; elements before the first and after the last pack are
 *              read and written one by one.
 *   even_row   the usual case: the row consists of whole packs, aligned in src, dst and the parameters.
 *   whole_row  an even row in which each thread has exactly P packs, so that no bounds are checked. */
#ifndef CRK_NORM_ROWS_H
#define CRK_NORM_ROWS_H

#include "call/norm_call.h"
#include "numbers/packed.h"
#include "numbers/wave.h"

namespace crk {
namespace {

CRK_FN float infinity() { return bit_cast<float>(0x7f800000u); }

enum row_form { any_row, even_row, whole_row };

/* ---- Threads and their rows ---- */

/* Reduces over the threads of a row; all of them get the result. If the row has more threads than a wave, it has the
 * block to itself and there is one barrier. `shared` has one place for each group and may be reused after the next
 * barrier. */
template <class A, class Op>
CRK_FN A row_reduce(A x, Op op, uint32_t width, A *shared) {
  x = lanes_reduce(x, op, width);
  if (width == 2 * group_lanes && width == wave_size()) {
    x = op(of_lane<0>(x), of_lane<group_lanes>(x));
  } else if (width > group_lanes) {
    const uint32_t thread = thread_index().x, groups = width / group_lanes;
    if (thread % group_lanes == 0) {
      shared[thread / group_lanes] = x;
    }
    shared_barrier();
    x = lanes_reduce(shared[thread & (groups - 1)], op, groups);
  }
  return x;
}

/* The rows of a launch: `cols` columns each, 2^log2_width threads per row. A block works on `beside` rows at once, the
 * whole grid on `step`. */
template <class T>
struct row_set {
  const T *src;
  T *dst;
  uint64_t rows, cols;
  uint32_t log2_width, beside, step;
};

/* The rows of a thread, one after the other: for (row_turns at(set); at.more(); at.next()). */
struct row_turns {
  uint64_t begin, step, rows;
  uint32_t own; /* number of this thread's row among the rows that the block has at once */
  uint32_t turn; /* alternates between 0 and 1: selects shared memory that no other thread still reads */

  template <class T>
  CRK_FN explicit row_turns(const row_set<T> &set)
      : begin(block_index().x * set.beside),
        step(set.step),
        rows(set.rows),
        own(thread_index().x >> set.log2_width),
        turn(0) {}
  CRK_FN bool more() const { return begin < rows; }
  CRK_FN void next() {
    begin += step;
    turn ^= 1;
  }
  /* Returns `rows` if this thread has no row in this turn, while other threads of its block have one. */
  CRK_FN uint64_t row() const { return begin + own < rows ? begin + own : rows; }
};

/* This thread's share of an even row: every width-th pack. */
template <class T>
struct even_share {
  static constexpr int V = 16 / static_cast<int>(sizeof(T));
  static constexpr bool has_edge = false;
  const T *src;
  T *dst;
  uint32_t packs, lane, width;

  CRK_FN even_share(const row_set<T> &set, uint64_t row) {
    width = 1u << set.log2_width;
    lane = thread_index().x & (width - 1);
    const bool live = row < set.rows;
    const uint64_t begin = live ? row * set.cols : 0;
    packs = live ? static_cast<uint32_t>(set.cols) / V : 0;
    src = set.src + begin;
    dst = set.dst + begin;
  }
  CRK_FN bool has(uint32_t p) const { return lane + p * width < packs; }
  CRK_FN bool stores(uint32_t p) const { return has(p); }
  CRK_FN uint32_t column(uint32_t p) const { return (lane + p * width) * V; }
  CRK_FN packed<T> load(const T *from, uint32_t p, T outside) const {
    if (has(p)) {
      return packed<T>::load(from + column(p));
    }
    return packed<T>::filled(outside);
  }
  CRK_FN T load_edge(const T *, T outside) const { return outside; }
};

/* This thread's share of a whole row, without bounds checks. A thread without a row computes on the last row but does
 * not store it. */
template <class T>
struct whole_share : even_share<T> {
  using share = even_share<T>;
  bool live;

  CRK_FN whole_share(const row_set<T> &set, uint64_t row)
      : share(set, row < set.rows ? row : set.rows - 1), live(row < set.rows) {}
  CRK_FN bool has(uint32_t) const { return true; }
  CRK_FN bool stores(uint32_t) const { return live; }
  CRK_FN packed<T> load(const T *from, uint32_t p, T) const { return packed<T>::load(from + share::column(p)); }
};

/* This thread's share of any row. The row's packs are 16 bytes each, aligned in dst; the thread has every width-th one.
 * It also has at most one of the edge elements before the first and after the last pack. A row with edge elements has
 * at least 2 (V - 1) threads, one for each. */
template <class T, class I>
struct row_share {
  static constexpr int V = 16 / static_cast<int>(sizeof(T));
  const T *src;
  T *dst;
  I head, packs; /* elements before the packs; number of packs */
  I edge; /* column of this thread's edge element */
  uint32_t lane, width;
  bool has_edge;

  CRK_FN row_share(const row_set<T> &set, uint64_t row) {
    width = 1u << set.log2_width;
    lane = thread_index().x & (width - 1);
    const bool live = row < set.rows;
    const uint64_t begin = live ? row * set.cols : 0;
    const I cols = live ? static_cast<I>(set.cols) : 0;
    src = set.src + begin;
    dst = set.dst + begin;
    const I to_aligned = static_cast<I>((0 - reinterpret_cast<uintptr_t>(dst)) % 16 / sizeof(T));
    head = to_aligned < cols ? to_aligned : cols;
    packs = (cols - head) / V;
    edge = lane < head ? lane : packs * V + lane;
    has_edge = edge < cols;
  }
  /* Whether this thread has a p-th pack, which is pack lane + p * width of the row. column(p) is the pack's first
   * column. */
  CRK_FN bool has(I p) const { return lane + p * width < packs; }
  CRK_FN bool stores(I p) const { return has(p); }
  CRK_FN I column(I p) const { return head + (lane + p * width) * V; }

  CRK_FN packed<T> load(const T *from, I p, T outside) const {
    packed<T> x = packed<T>::filled(outside);
    if (has(p)) {
      x = packed<T>::of(load_pack<T, V>(from + column(p)));
      x.forget();
    }
    return x;
  }
  CRK_FN T load_edge(const T *from, T outside) const { return has_edge ? from[edge] : outside; }
};

/* ---- Rows that are held in registers ---- */

/* P packs of a row or of its parameters, and one edge element, which only any_row uses. */
template <class T, int P, row_form Form>
struct held_values {
  static constexpr int V = 16 / static_cast<int>(sizeof(T)), count = P * V + (Form == any_row ? 1 : 0);
  packed<T> piece[P];
  T edge;

  CRK_FN wide<T> at(int k) const { return convert<wide<T>>(k < P * V ? piece[k / V].at(k % V) : edge); }
  /* Makes the compiler forget values computed from these elements, so that it computes them again instead of keeping
   * them. Registers limit how many threads have loads under way. */
  CRK_FN void forget() {
    if constexpr (sizeof(T) < 4) {
      CRK_UNROLL
      for (int i = 0; i < P; i++) {
        piece[i].forget();
      }
    }
  }
};

template <class T, int P, row_form Form>
struct held_row {
  using values = held_values<T, P, Form>;
  using A = wide<T>;
  static constexpr int V = values::V, count = values::count;
  choose<Form == any_row, row_share<T, uint32_t>, choose<Form == even_row, even_share<T>, whole_share<T>>> share;
  values x;

  CRK_FN held_row(const row_set<T> &set, uint64_t row, T outside) : share(set, row), x(load(share.src, outside)) {}
  /* Only sets up the positions of the first row's packs; reads nothing. */
  CRK_FN explicit held_row(const row_set<T> &set) : share(set, 0), x() {}

  CRK_FN values load(const T *from, T outside) const {
    values to;
    CRK_UNROLL
    for (int i = 0; i < P; i++) {
      to.piece[i] = share.load(from, static_cast<uint32_t>(i), outside);
    }
    to.edge = share.load_edge(from, outside);
    return to;
  }
  /* Loads the same columns of a parameter. If `from` is null, every element is `absent`. */
  CRK_FN values load_parameter(const T *from, float absent) const {
    if (from != nullptr) {
      return load(from, T(absent));
    }
    values to;
    CRK_UNROLL
    for (int i = 0; i < P; i++) {
      to.piece[i] = packed<T>::filled(T(absent));
    }
    to.edge = T(absent);
    return to;
  }
  CRK_FN A at(int k) const { return x.at(k); }
  /* Whether element k belongs to the row. Either all elements of a pack do or none. */
  CRK_FN bool inside(int k) const { return k < P * V ? share.has(static_cast<uint32_t>(k / V)) : share.has_edge; }
  /* dst = f(k) for every element k of the thread. Halves are unpacked word by word (in_turn); otherwise the compiler
   * would unpack all of them at once and need too many registers. */
  template <class F>
  CRK_FN void store(F f) {
    CRK_UNROLL
    for (int i = 0; i < P; i++) {
      pack<T, V> y;
      CRK_UNROLL
      for (int j = 0; j < V; j++) {
        const int k = i * V + j;
        y.v[j] = convert<T>(f(k));
        if constexpr (sizeof(T) == 2) {
          if (j % 2 == 1 && k + 1 < P * V) {
            uint32_t &next = x.piece[(k + 1) / V].word.v[(k + 1) % V / 2];
            next = in_turn(next, pack<T, 2>{{y.v[j - 1], y.v[j]}});
          }
        }
      }
      if (share.stores(static_cast<uint32_t>(i))) {
        store_pack(share.dst + share.column(static_cast<uint32_t>(i)), y);
      }
    }
    if constexpr (Form == any_row) {
      if (share.has_edge) {
        share.dst[share.edge] = convert<T>(f(P * V));
      }
    }
  }
};

/* A thread's share of a parameter. For even and whole rows it is read once. For any_row it is read again when a row's
 * packs start at another column than those of the row before. */
template <class T, int P, row_form Form>
struct held_parameter {
  const T *from;
  float absent;
  uint32_t head;
  held_values<T, P, Form> x;

  CRK_FN held_parameter(const row_set<T> &set, const T *from_, float absent_)
      : from(from_), absent(absent_), head(~0u), x() {
    if constexpr (Form != any_row) {
      x = held_row<T, P, Form>(set).load_parameter(from, absent);
    }
  }
  CRK_FN void follow(const held_row<T, P, Form> &row) {
    if constexpr (Form == any_row) {
      if (row.share.head != head) {
        head = row.share.head;
        x = row.load_parameter(from, absent);
      }
    }
    x.forget();
  }
  CRK_FN wide<T> at(int k) const { return x.at(k); }
};

/* dst = exp(src - max) / sum; everything is in A and rounded once. */
template <int P, row_form Form, class T>
CRK_FN void softmax_held(const row_set<T> &set) {
  using A = wide<T>;
  constexpr int count = held_row<T, P, Form>::count;
  CRK_SHARED(A, maxima, group_lanes);
  CRK_SHARED(A, sums, group_lanes);
  const uint32_t width = 1u << set.log2_width;
  for (row_turns at(set); at.more(); at.next()) {
    held_row<T, P, Form> held(set, at.row(), convert<T>(-infinity()));
    A largest = held.at(0);
    CRK_UNROLL
    for (int k = 1; k < count; k++) {
      largest = max_number(largest, held.at(k));
    }
    if (wide_waves) {
      held.x.forget();
    }
    largest = row_reduce(largest, larger(), width, maxima);
    A power[count], sum = 0;
    CRK_UNROLL
    for (int k = 0; k < count; k++) {
      power[k] = exp(held.at(k) - largest);
      sum += power[k];
    }
    const A scale = A(1) / row_reduce(sum, plus(), width, sums);
    held.store([&](int k) { return power[k] * scale; });
  }
}

/* 1 / sqrt(mean(row^2) + eps) of the row that the block holds. `sums` is shared memory for group_lanes numbers. */
template <int P, row_form Form, class T>
CRK_FN wide<T> rms_scale(held_row<T, P, Form> &held, const row_set<T> &set, wide<T> *sums, float eps) {
  using A = wide<T>;
  A squares = 0;
  CRK_UNROLL
  for (int k = 0; k < held_row<T, P, Form>::count; k++) {
    squares = fma(held.at(k), held.at(k), squares);
  }
  held.x.forget();
  squares = row_reduce(squares, plus(), 1u << set.log2_width, sums);
  return rsqrt(squares / static_cast<A>(set.cols) + static_cast<A>(eps));
}

/* dst = src / sqrt(mean(src^2) + eps) * alpha */
template <int P, row_form Form, class T>
CRK_FN void rms_norm_held(const row_set<T> &set, const T *alpha, float eps) {
  using A = wide<T>;
  CRK_SHARED(A, sums, 2 * group_lanes);
  held_parameter<T, P, Form> a(set, alpha, 1.0f);
  for (row_turns at(set); at.more(); at.next()) {
    held_row<T, P, Form> held(set, at.row(), T(0.0f));
    a.follow(held);
    const A scale = rms_scale(held, set, sums + at.turn * group_lanes, eps);
    held.store([&](int k) { return product(held.at(k) * scale, a.at(k)); });
  }
}

/* dst = (src - mean) / sqrt(mean((src - mean)^2) + eps) * alpha + beta */
template <int P, row_form Form, class T>
CRK_FN void layer_norm_held(const row_set<T> &set, const T *alpha, const T *beta, float eps) {
  using A = wide<T>;
  constexpr int count = held_row<T, P, Form>::count, V = held_row<T, P, Form>::V;
  CRK_SHARED(A, sums, group_lanes);
  CRK_SHARED(A, squares_sums, group_lanes);
  const uint32_t width = 1u << set.log2_width;
  held_parameter<T, P, Form> a(set, alpha, 1.0f), b(set, beta, 0.0f);
  for (row_turns at(set); at.more(); at.next()) {
    held_row<T, P, Form> held(set, at.row(), T(0.0f));
    a.follow(held);
    b.follow(held);
    A sum = 0, squares = 0;
    CRK_UNROLL
    for (int k = 0; k < count; k++) {
      sum += held.at(k);
    }
    held.x.forget();
    const A mean = row_reduce(sum, plus(), width, sums) / static_cast<A>(set.cols);
    CRK_UNROLL
    for (int k = 0; k < count; k += V) {
      if (held.inside(k)) {
        CRK_UNROLL
        for (int j = k; j < k + V && j < count; j++) {
          const A away = held.at(j) - mean;
          squares = fma(away, away, squares);
        }
      }
    }
    held.x.forget();
    squares = row_reduce(squares, plus(), width, squares_sums);
    const A scale = rsqrt(squares / static_cast<A>(set.cols) + static_cast<A>(eps));
    held.store([&](int k) { return fma((held.at(k) - mean) * scale, a.at(k), b.at(k)); });
  }
}

}  // namespace
}  // namespace crk

#endif
