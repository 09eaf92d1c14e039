/* Softmax, RMS norm and layer norm for the launchers, over rows too long for a block's registers: softmax_long,
 * rms_norm_long and layer_norm_long. Shorter rows are in norm_rows.h.
 *
 * A block has one row. It keeps the end of the row in registers and reads the rest from memory again for each step.
 * Softmax and RMS norm have two steps. Layer norm has three, because its variance needs the mean first. Each step reads
 * in the direction opposite to the step before, because a cache still holds the elements that were read last.
 *
 * On an H200, softmax of f32 rows of 40000, 65536 and 131072 elements reaches 0.77, 0.71 and 0.67 of the copy speed.
 * Without packs in registers it reaches 0.70, 0.66 and 0.63. If all steps also read in the same direction, it reaches
 * 0.62 to 0.60. */
#ifndef CRK_NORM_LONG_H
#define CRK_NORM_LONG_H

#include "reduce/norm_rows.h"

namespace crk {
namespace {

/* Packs that a thread holds in registers. The number leaves registers for two blocks per multiprocessor of an H200, and
 * for eight waves per SIMD unit of CDNA. A pack of halves or of f64 takes more registers, so there is only one. */
template <class T>
inline constexpr int long_packs = sizeof(T) == 4 ? CRK_NORM_PACKS(wide_waves) : 1;

template <class A, int N>
CRK_FN constexpr int length_of(const pack<A, N> &) {
  return N;
}

enum direction { forward, backward };

/* A thread's share of a long row has three parts. Chunks of P packs are read again for each step. H packs from the end
 * of the row stay in registers. The third part is at most one edge element. */
template <class T, int P, int H>
struct long_row : row_share<T, uint64_t> {
  using share = row_share<T, uint64_t>;
  using share::V;
  using A = wide<T>;
  static_assert(P <= H, "all threads have all of a chunk that is followed by H packs");

  uint64_t count; /* of chunks, the same for all threads */
  packed<T> held[H]; /* the packs from number count * P on; for some threads the last ones are outside the row */

  CRK_FN long_row(const row_set<T> &set, uint64_t row, T outside) : share(set, row) {
    const uint64_t turns = (share::packs + share::width - 1) >> set.log2_width;
    count = turns > H ? (turns - H + P - 1) / P : 0;
    CRK_UNROLL
    for (uint32_t i = 0; i < H; i++) {
      held[i] = share::load(share::src, count * P + i, outside);
    }
  }

  /* Calls f(values, inside) for each chunk, for the held packs and for the edge element. The values are in A. inside(k)
   * says whether value k belongs to the row; if not, the value is `outside`. */
  template <direction Way, class F>
  CRK_FN void each(T outside, F f) const {
    chunks<Way>([&](uint64_t p) {
      pack<A, P * V> x;
      CRK_UNROLL
      for (uint32_t i = 0; i < P; i++) {
        const pack<T, V> piece = load_pack<T, V>(share::src + share::column(p + i));
        CRK_UNROLL
        for (int j = 0; j < V; j++) {
          x.v[i * V + j] = convert<A>(piece.v[j]);
        }
      }
      f(x, [](int) { return true; });
    });
    pack<A, H * V> rest;
    CRK_UNROLL
    for (int k = 0; k < H * V; k++) {
      rest.v[k] = convert<A>(held[k / V].at(k % V));
    }
    f(rest, [&](int k) { return share::has(count * P + static_cast<uint32_t>(k / V)); });
    const pack<A, 1> x = {convert<A>(share::load_edge(share::src, outside))};
    f(x, [&](int) { return share::has_edge; });
  }

  /* dst = f(src, alpha, beta), all in A. A null alpha counts as 1, a null beta as 0. */
  template <direction Way, class F>
  CRK_FN void map(const T *alpha, const T *beta, F f) const {
    const auto put = [&](uint64_t p, auto x) {
      const uint64_t at = share::column(p);
      const pack<T, V> a = parameter(alpha, at, 1.0f), b = parameter(beta, at, 0.0f);
      pack<T, V> y;
      CRK_UNROLL
      for (int j = 0; j < V; j++) {
        y.v[j] = convert<T>(f(convert<A>(x(j)), convert<A>(a.v[j]), convert<A>(b.v[j])));
      }
      store_pack(share::dst + at, y);
    };
    CRK_UNROLL
    for (uint32_t i = 0; i < H; i++) {
      if (share::has(count * P + i)) {
        put(count * P + i, [&](int j) { return held[i].at(j); });
      }
    }
    chunks<Way>([&](uint64_t p) {
      pack<T, V> x[P];
      CRK_UNROLL
      for (uint32_t i = 0; i < P; i++) {
        x[i] = load_pack<T, V>(share::src + share::column(p + i));
      }
      CRK_UNROLL
      for (uint32_t i = 0; i < P; i++) {
        put(p + i, [&](int j) { return x[i].v[j]; });
      }
    });
    if (share::has_edge) {
      const uint64_t at = share::edge;
      const A a = alpha != nullptr ? convert<A>(alpha[at]) : A(1), b = beta != nullptr ? convert<A>(beta[at]) : A(0);
      share::dst[at] = convert<T>(f(convert<A>(share::src[at]), a, b));
    }
  }

 private:
  /* Calls f(p) with the number of the first pack of each chunk. */
  template <direction Way, class F>
  CRK_FN void chunks(F f) const {
    CRK_NO_UNROLL
    for (uint64_t n = 0; n < count; n++) {
      f((Way == forward ? n : count - 1 - n) * P);
    }
  }

  CRK_FN static pack<T, V> parameter(const T *from, uint64_t at, float absent) {
    pack<T, V> values;
    if (from != nullptr) {
      values = load_pack<T, V>(from + at);
    } else {
      CRK_UNROLL
      for (int j = 0; j < V; j++) {
        values.v[j] = T(absent);
      }
    }
    return values;
  }
};

/* dst = exp(src - max) / sum. One pass finds both the maximum and the sum. A thread's sum is relative to its own
 * maximum so far and is rescaled when this maximum grows. While the maximum is still -inf, the differences use 0
 * instead. A row with only -inf becomes NaN, as in the other softmax kernels. */
template <int P, int H, class T>
CRK_FN void softmax_long(const row_set<T> &set) {
  using A = wide<T>;
  CRK_SHARED(A, maxima, group_lanes);
  CRK_SHARED(A, sums, group_lanes);
  const uint32_t width = 1u << set.log2_width;
  const A lowest = -infinity();
  for (row_turns at(set); at.more(); at.next()) {
    const long_row<T, P, H> row(set, at.row(), convert<T>(-infinity()));
    A largest = lowest, sum = 0;
    row.template each<forward>(convert<T>(-infinity()), [&](const auto &x, auto) {
      A top = largest;
      CRK_UNROLL
      for (int k = 0; k < length_of(x); k++) {
        top = max_number(top, x.v[k]);
      }
      const A base = top == lowest ? A(0) : top;
      sum *= exp(largest - base);
      CRK_UNROLL
      for (int k = 0; k < length_of(x); k++) {
        sum += exp(x.v[k] - base);
      }
      largest = top;
    });
    const A top = row_reduce(largest, larger(), width, maxima);
    sum *= exp(largest - (top == lowest ? A(0) : top));
    const A scale = A(1) / row_reduce(sum, plus(), width, sums);
    row.template map<backward>(nullptr, nullptr, [=](A x, A, A) { return exp(x - top) * scale; });
  }
}

template <int P, int H, class T>
CRK_FN void rms_norm_long(const row_set<T> &set, const T *alpha, float eps) {
  using A = wide<T>;
  CRK_SHARED(A, sums, 2 * group_lanes);
  const uint32_t width = 1u << set.log2_width;
  for (row_turns at(set); at.more(); at.next()) {
    const long_row<T, P, H> row(set, at.row(), T(0.0f));
    A squares = 0;
    row.template each<forward>(T(0.0f), [&](const auto &x, auto) {
      CRK_UNROLL
      for (int k = 0; k < length_of(x); k++) {
        squares = fma(x.v[k], x.v[k], squares);
      }
    });
    squares = row_reduce(squares, plus(), width, sums + at.turn * group_lanes);
    const A scale = rsqrt(squares / static_cast<A>(set.cols) + static_cast<A>(eps));
    row.template map<backward>(alpha, nullptr, [=](A x, A a, A) { return product(x * scale, a); });
  }
}

template <int P, int H, class T>
CRK_FN void layer_norm_long(const row_set<T> &set, const T *alpha, const T *beta, float eps) {
  using A = wide<T>;
  CRK_SHARED(A, sums, group_lanes);
  CRK_SHARED(A, squares_sums, group_lanes);
  const uint32_t width = 1u << set.log2_width;
  for (row_turns at(set); at.more(); at.next()) {
    const long_row<T, P, H> row(set, at.row(), T(0.0f));
    A sum = 0, squares = 0;
    row.template each<forward>(T(0.0f), [&](const auto &x, auto) {
      CRK_UNROLL
      for (int k = 0; k < length_of(x); k++) {
        sum += x.v[k];
      }
    });
    const A mean = row_reduce(sum, plus(), width, sums) / static_cast<A>(set.cols);
    row.template each<backward>(T(0.0f), [&](const auto &x, auto inside) {
      CRK_UNROLL
      for (int k = 0; k < length_of(x); k++) {
        const A away = inside(k) ? x.v[k] - mean : A(0);
        squares = fma(away, away, squares);
      }
    });
    squares = row_reduce(squares, plus(), width, squares_sums);
    const A scale = rsqrt(squares / static_cast<A>(set.cols) + static_cast<A>(eps));
    row.template map<forward>(alpha, beta, [=](A x, A a, A b) { return fma((x - mean) * scale, a, b); });
  }
}

}  // namespace
}  // namespace crk

#endif
