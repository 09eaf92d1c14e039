/* Attention for few queries without matrix cores (attention_split.h). A team of n lanes holds a key: each lane has
 * every n-th pack of 16 bytes of it. A wave takes `tile` keys per team at a time. The lanes of a team exchange the
 * parts of the dot products so that each lane ends with the score of one row and one key. It computes that score's
 * weight once, and gives it to the other lanes of the team. Each lane adds up the columns of the values that it loads.
 */
#ifndef CRK_ATTENTION_SPLIT_LANES_H
#define CRK_ATTENTION_SPLIT_LANES_H

#include "attention/attention_combine.h"
#include "attention/attention_split.h"
#include "numbers/dot_half.h"
#include "numbers/wave.h"

namespace crk {
namespace {

/* The lanes of a team that share `packs` packs: eight, which load a line of 128 bytes, or more where a lane would have
 * more than two packs; fewer if `packs` has no such divisor. */
constexpr int team_lanes(int packs) {
  int team = (packs & -packs) < 8 ? (packs & -packs) : 8;
  while (packs / team > 2 && packs % (2 * team) == 0 && team < 32) {
    team *= 2;
  }
  return team;
}

/* Rows that a wave computes at once, if there are several. */
template <class T, int Width>
inline constexpr int lanes_rows = half<T> && Width % 96 == 0 ? 2 : 4;

template <class T, int Width, bool General, int Rows>
struct split_lanes {
  /* Numbers per pack, packs per key, lanes per team, packs per lane, keys of a team per tile. */
  static constexpr int E = 16 / static_cast<int>(sizeof(T)), packs = Width / E, team = team_lanes(packs),
                       mine = packs / team;
  static constexpr int tile = (Rows == 1 ? 2 : 1) * (mine > 3 ? 1 : mine > 2 || (half<T> && mine > 1) ? 2 : 4);
  /* Scores of a team per tile; neighbouring lanes that have different scores; scores per lane. Score i belongs to key
   * i / Rows and row i % Rows. Lane l has those with i % owners == l % owners. */
  static constexpr int scores = Rows * tile, most = team < 8 ? team : 8, owners = scores < most ? scores : most,
                       own = scores / owners;
  static_assert(owners % Rows == 0, "a lane has the scores of one row");
  static constexpr uint32_t all_seen = (1u << scores) - 1;
  static constexpr int columns = Rows, numbers = mine * E;
  /* A pack, and a tile's packs in this lane. */
  using part = choose<same<T, float>, float_pair, uint32_t>;
  struct piece {
    part v[16 / sizeof(part)];
  };
  struct packs_of_keys {
    piece x[tile][mine];
  };

  const crk_attention_call_t &call;
  const split_work &work;
  uint32_t first_row;
  piece query[Rows][mine];
  attention_rows<T> key_rows, value_rows;
  split_row<T, false> own_row; /* of this lane's scores */
  float factor, base, limit, sum; /* the last three: of own_row */
  float_pair sums[Rows][numbers / 2]; /* number p * E + e: of the lane's pack p */
  int first_sum, kept; /* the sums that this lane has after join_teams() */
  float total[Rows], bases[Rows]; /* after join_teams() */

  CRK_FN static uint32_t place() { return lane() % team; }
  CRK_FN static uint32_t teams() { return wave_size() / team; }
  /* Keys of a wave per tile. */
  CRK_FN static uint32_t tile_keys() { return teams() * tile; }

  CRK_FN split_lanes(const crk_attention_call_t &call, const split_work &work, uint32_t first_row)
      : call(call),
        work(work),
        first_row(first_row),
        key_rows(call, work.sequence, call.k, call.k_strides, work.kv_head),
        value_rows(call, work.sequence, call.v, call.v_strides, work.kv_head),
        own_row(call, work, first_row + lane() % Rows),
        factor(General ? 1.0f : call.scale * log2_of_e),
        base(0.0f),
        limit(no_score),
        sum(0.0f),
        first_sum(0),
        kept(numbers) {
    CRK_UNROLL
    for (int r = 0; r < Rows; r++) {
      const bool exists = first_row + r < work.rows;
      uint32_t number, head;
      work.find_row(call, exists ? first_row + r : 0, number, head);
      const T *from = static_cast<const T *>(call.q) + row_offset(work.sequence, call.q_strides, number, head);
      CRK_UNROLL
      for (int p = 0; p < mine; p++) {
        query[r][p] = {};
        if (exists && first_number(p) < call.d) {
          query[r][p] = load_any(from + first_number(p));
        }
      }
      CRK_UNROLL
      for (int i = 0; i < numbers / 2; i++) {
        sums[r][i] = pair_of(0.0f, 0.0f);
      }
    }
  }

  /* The row of this lane's scores. Found again in each tile if the call is General: all that its scores need would take
   * too many scalar registers. */
  CRK_FN split_row<T, General> find_own_row() const {
    if constexpr (General) {
      return split_row<T, General>(reread(call), work, opaque(first_row + lane() % Rows));
    } else {
      return own_row;
    }
  }

  /* The first number of this lane's pack p. */
  CRK_FN static uint32_t first_number(int p) { return (p * team + place()) * E; }
  /* A pack from any address. */
  CRK_FN static piece load_any(const T *from) {
    if constexpr (same<T, float>) {
      return bit_cast<piece>(load_pack<float, E>(from));
    } else {
      return bit_cast<piece>(load_words<4, 16>(from));
    }
  }

  /* The pack, or zeros. */
  CRK_FN static piece piece_if(bool wanted, const piece &from) {
    pack<uint32_t, 4> words = bit_cast<pack<uint32_t, 4>>(from);
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      words.v[i] = wanted ? words.v[i] : 0;
    }
    return bit_cast<piece>(words);
  }

  /* Loads the packs of the wave's keys from `key` on. Neighbouring teams have neighbouring keys. All keys are there,
   * they have Width numbers, and every address is aligned and near. */
  CRK_FN static void load_plain(packs_of_keys &to, const attention_rows<T> &rows, uint32_t key) {
    const uint32_t row_bytes = static_cast<uint32_t>(rows.row_stride * sizeof(T));
    const uint32_t offset = opaque(lane() / team * row_bytes + place() * 16);
    const char *row = reinterpret_cast<const char *>(rows.first + key * rows.row_stride);
    CRK_UNROLL
    for (int u = 0; u < tile; u++) {
      row = uniform_pointer(row + (u > 0 ? static_cast<uint64_t>(teams()) * row_bytes : 0));
      CRK_UNROLL
      for (int p = 0; p < mine; p++) {
        const char *from = row + offset + p * team * 16;
        to.x[u][p] = bit_cast<piece>(load_aligned<uint32_t, 4>(reinterpret_cast<const uint32_t *>(from)));
      }
    }
  }
  /* The same where some of the tile's keys are not there: the last key is loaded again in their place. */
  CRK_FN void load_near(packs_of_keys &to, const attention_rows<T> &rows, uint32_t key) const {
    CRK_UNROLL
    for (int u = 0; u < tile; u++) {
      const uint32_t number = opaque(key + u * teams() + lane() / team), last = work.end - 1;
      const T *from = rows.first + (number < last ? number : last) * rows.row_stride + first_number(0);
      CRK_UNROLL
      for (int p = 0; p < mine; p++) {
        to.x[u][p] =
            bit_cast<piece>(load_aligned<uint32_t, 4>(reinterpret_cast<const uint32_t *>(from + p * team * E)));
      }
    }
  }
  /* The same for any keys, in place of which the last one is loaded where there are no more, and for their values.
   * Numbers beyond d are 0. Those beyond dv are any, since their sums are not used. */
  CRK_FN void load_rest(packs_of_keys &k, packs_of_keys &v, uint32_t key) const {
    typename attention_rows<T>::place at[tile];
    key_rows.find(at, [&](int u) { return least(opaque(key + u * teams() + lane() / team), work.end - 1); });
    CRK_UNROLL
    for (int u = 0; u < tile; u++) {
      const T *const from_key = key_rows.at(at[u]), *const from_value = value_rows.at(at[u]);
      CRK_UNROLL
      for (int p = 0; p < mine; p++) {
        const bool has_key = first_number(p) < call.d, has_value = first_number(p) < call.dv;
        k.x[u][p] = piece_if(has_key, load_any(from_key + (has_key ? first_number(p) : 0)));
        v.x[u][p] = load_any(from_value + (has_value ? first_number(p) : 0));
      }
    }
  }

  /* Two numbers of a pack. */
  CRK_FN static float_pair numbers_of(const piece &from, int i) {
    if constexpr (same<T, float>) {
      return from.v[i];
    } else {
      return pair_of(low_number(T(), from.v[i]), high_number(T(), from.v[i]));
    }
  }
  /* The dot product of this lane's packs. Two sums have half of the numbers each. */
  CRK_FN static float add_products(const piece (&a)[mine], const piece (&b)[mine]) {
    float_pair sum = pair_of(0.0f, 0.0f);
    CRK_UNROLL
    for (int p = 0; p < mine; p++) {
      CRK_UNROLL
      for (int i = 0; i < static_cast<int>(16 / sizeof(part)); i++) {
        if constexpr (!same<T, float>) {
          sum[i % 2] = dot2<T>(a[p].v[i], b[p].v[i], sum[i % 2]);
        } else if (p + i == 0) {
          sum = pair_of(a[p].v[i][0] * b[p].v[i][0], a[p].v[i][1] * b[p].v[i][1]);
        } else {
          sum = fma(a[p].v[i], b[p].v[i], sum);
        }
      }
    }
    return sum[0] + sum[1];
  }

  /* Returns the x of lane() ^ Mask. */
  template <int Mask>
  CRK_FN static float other(float x) {
    if constexpr (Mask <= 16) {
      return exchange<Mask>(x);
    } else {
      return shuffle_xor(x, Mask);
    }
  }
  /* Sets `kept` to a and `given` to b, or the other way round if `swap` has all bits. Compilers know nothing about
   * `swap`: they would branch, or choose between addresses of a and b, which puts an array into memory. */
  CRK_FN static void deal(uint32_t swap, float a, float b, float &kept, float &given) {
    const uint32_t x = bit_cast<uint32_t>(a), y = bit_cast<uint32_t>(b);
    kept = bit_cast<float>((x & ~swap) | (y & swap));
    given = bit_cast<float>((y & ~swap) | (x & swap));
  }
  CRK_FN static uint32_t swap_mask(int mask) { return opaque((lane() & mask) != 0 ? ~0u : 0u); }

  /* Adds up `Count` numbers over the lanes of a team: of each pair, a lane keeps one, and gives the other to the lane
   * that differs in the bit Mask. In the end lane l has x[s], which is the sum of number s * owners + l % owners. */
  template <int Mask, int Count>
  CRK_FN static void exchange_sums(float *x) {
    if constexpr (Mask < owners) {
      const uint32_t swap = swap_mask(Mask);
      CRK_UNROLL
      for (int i = 0; i < Count / 2; i++) {
        float kept, given;
        deal(swap, x[2 * i], x[2 * i + 1], kept, given);
        x[i] = kept + exchange<Mask>(given);
      }
      exchange_sums<2 * Mask, Count / 2>(x);
    } else if constexpr (Mask < team) {
      CRK_UNROLL
      for (int i = 0; i < own; i++) {
        x[i] += exchange<Mask>(x[i]);
      }
      exchange_sums<2 * Mask, Count>(x);
    }
  }

  /* Joins x over all lanes of the wave that have different scores of one row. */
  template <int Mask = Rows, class Op>
  CRK_FN static float over_row(float x, Op op) {
    if constexpr (Mask < static_cast<int>(most_lanes)) {
      if constexpr (Mask < owners || Mask >= team) {
        if (static_cast<uint32_t>(Mask) < wave_size()) {
          x = op(x, other<Mask>(x));
        }
      }
      return over_row<2 * Mask>(x, op);
    } else {
      return x;
    }
  }
  /* The x of row r's lanes. */
  template <int R = 0>
  CRK_FN static void of_rows(float x, float (&to)[Rows]) {
    if constexpr (R < Rows) {
      to[R] = of_group<owners, R>(x);
      of_rows<R + 1>(x, to);
    }
  }

  /* Raises the base of this lane's row to `least`. It is not computed from the limit: the weight of a row's only key is
   * 1, and its value the result, without rounding. */
  CRK_FN void move_base(float least) {
    const float before = limit == no_score ? no_score : base, to = max_number(before, least);
    limit = to + weight_room;
    base = to == no_score ? 0.0f : to;
    const float scale = before == no_score ? 1.0f : exp2_near(before - base);
    sum *= scale;
    float scales[Rows];
    of_rows(scale, scales);
    CRK_UNROLL
    for (int r = 0; r < Rows; r++) {
      CRK_UNROLL
      for (int i = 0; i < numbers / 2; i++) {
        sums[r][i] = pair_of(sums[r][i][0] * scales[r], sums[r][i][1] * scales[r]);
      }
    }
  }

  /* Turns this lane's dot products into weights. Returns the bits of the team's scores that no window or mask hides;
   * all bits unless `checked`. */
  CRK_FN uint32_t weigh(float (&x)[scores], uint32_t key, bool checked) {
    uint32_t seen = all_seen;
    if (checked) {
      const split_row<T, General> row = find_own_row();
      seen = 0;
      CRK_UNROLL
      for (int s = 0; s < own; s++) {
        const uint32_t at = key + (s * (owners / Rows) + lane() % owners / Rows) * teams() + lane() / team;
        x[s] = at < work.end ? row.score(x[s], at) : no_score;
        seen |= team_bits(ballot(x[s] != no_score)) << s * owners;
      }
    }
    float most = no_score;
    CRK_UNROLL
    for (int s = 0; s < own; s++) {
      x[s] *= factor;
      most = max_number(most, x[s]);
    }
    if (any(most > limit)) {
      move_base(over_row(most, larger()) - weight_top<T>);
    }
    CRK_UNROLL
    for (int s = 0; s < own; s++) {
      x[s] = exp2_near(x[s] - base);
      sum += x[s];
    }
    return seen;
  }
  CRK_FN static uint32_t team_bits(uint64_t lanes) {
    return static_cast<uint32_t>(lanes >> (lane() / owners * owners)) & ((1u << owners) - 1);
  }

  /* Sets the values of keys that no row sees to 0. */
  CRK_FN static void hide(packs_of_keys &from, uint32_t seen) {
    CRK_UNROLL
    for (int u = 0; u < tile; u++) {
      const bool is_seen = (seen >> u * Rows & ((1u << Rows) - 1)) != 0;
      CRK_UNROLL
      for (int p = 0; p < mine; p++) {
        from.x[u][p] = piece_if(is_seen, from.x[u][p]);
      }
    }
  }
  /* Adds the values of key U and those after it. */
  template <int U = 0>
  CRK_FN void add_values(const float (&weights)[scores], const packs_of_keys &from) {
    if constexpr (U < tile) {
      float weight[Rows];
      key_weights<U>(weights, weight);
      CRK_UNROLL
      for (int p = 0; p < mine; p++) {
        CRK_UNROLL
        for (int r = 0; r < Rows; r++) {
          CRK_UNROLL
          for (int i = 0; i < E / 2; i++) {
            float_pair &to = sums[r][p * (E / 2) + i];
            to = fma(pair_of(weight[r], weight[r]), numbers_of(from.x[U][p], i), to);
          }
        }
      }
      add_values<U + 1>(weights, from);
    }
  }
  template <int U, int R = 0>
  CRK_FN static void key_weights(const float (&weights)[scores], float (&to)[Rows]) {
    if constexpr (R < Rows) {
      constexpr int i = U * Rows + R;
      to[R] = of_group<owners, i % owners>(weights[i / owners]);
      key_weights<U, R + 1>(weights, to);
    }
  }

  /* Takes the tile from `key` on. Its keys are in `k` and its values in `v`, or their loads are under way.
   *
   * With HasNext, the step also loads the tile from `next` on. The next keys arrive while this tile's values are used.
   * The next values arrive while the next scores are computed. No other condition guards a load, so the compiler knows
   * how many loads are under way. Loads of values stand at the end of a step: nvcc would move them from its beginning
   * to behind its products. */
  template <bool HasNext>
  CRK_FN void take_tile(packs_of_keys &k, packs_of_keys &v, uint32_t key, uint32_t next, bool checked) {
    float x[scores];
    CRK_UNROLL
    for (int u = 0; u < tile; u++) {
      CRK_UNROLL
      for (int r = 0; r < Rows; r++) {
        x[u * Rows + r] = add_products(k.x[u], query[r]);
      }
    }
    keep_order();
    if constexpr (HasNext) {
      load_plain(k, key_rows, next);
    }
    keep_order();
    exchange_sums<1, scores>(x);
    const uint32_t seen = weigh(x, key, checked);
    if (checked && any(seen != all_seen)) {
      hide(v, seen);
    }
    add_values(x, v);
    if constexpr (HasNext) {
      keep_order();
      load_plain(v, value_rows, next);
    }
  }

  /* Takes the tiles at every `step`-th key from `key` on. Tiles that begin before `whole_end` have all their keys, and
   * load_plain takes them. With `is_near`, load_near takes the others, else load_rest. There is one piece of code for
   * all tiles that no other follows: the instructions of a short launch must first come from memory, too. */
  CRK_FN void take_tiles(uint32_t key, uint32_t whole_end, uint32_t step, bool is_near, bool checked) {
    packs_of_keys k, v;
    bool is_loaded = key < whole_end;
    if (is_loaded) {
      load_plain(k, key_rows, key);
      load_plain(v, value_rows, key);
      CRK_ONE_BY_ONE
      for (; whole_end - key > step; key += step) {
        take_tile<true>(k, v, key, key + step, checked);
      }
    }
    CRK_ONE_BY_ONE
    for (; key < work.end; key += step) {
      if (!is_loaded) {
        if (is_near) {
          load_near(k, key_rows, key);
          load_near(v, value_rows, key);
        } else {
          load_rest(k, v, key);
        }
      }
      keep_order();
      take_tile<false>(k, v, key, 0, checked || !is_loaded);
      is_loaded = false;
    }
  }

  /* Adds up the teams of the wave. From step to step, a lane keeps half as many sums, and gives the other ones away. */
  CRK_FN void join_teams() {
    of_rows(over_row(sum, plus()), total);
    of_rows(limit == no_score ? no_score : base, bases);
    join<team, numbers>();
  }
  template <int Distance, int Count>
  CRK_FN void join() {
    if constexpr (Distance < static_cast<int>(most_lanes)) {
      constexpr int left = Count % 2 == 0 ? Count / 2 : Count;
      if (static_cast<uint32_t>(Distance) < wave_size()) {
        const uint32_t swap = swap_mask(Distance);
        CRK_UNROLL
        for (int r = 0; r < Rows; r++) {
          CRK_UNROLL
          for (int i = 0; i < left; i++) {
            if constexpr (left < Count) {
              float mine, given;
              deal(swap, sums[r][i / 2][i % 2], sums[r][(i + left) / 2][(i + left) % 2], mine, given);
              sums[r][i / 2][i % 2] = mine + other<Distance>(given);
            } else {
              sums[r][i / 2][i % 2] += other<Distance>(sums[r][i / 2][i % 2]);
            }
          }
        }
        kept = left;
        first_sum += left < Count && (lane() & Distance) != 0 ? left : 0;
        join<2 * Distance, left>();
      }
    }
  }

  /* For store_part. Lanes that have the same sums store the same numbers. */
  CRK_FN static bool owns(int) { return lane() == 0; }
  CRK_FN static uint32_t row(int c) { return static_cast<uint32_t>(c); }
  CRK_FN float base_of(int c) const { return bases[c]; }
  template <class F>
  CRK_FN void each(int c, F f) const {
    CRK_UNROLL
    for (int i = 0; i < numbers; i++) {
      if (i < kept) {
        const uint32_t number = static_cast<uint32_t>(first_sum + i);
        f((number / E * team + place()) * E + number % E, sums[c][i / 2][i % 2]);
      }
    }
  }
};

template <int Rows, class T, int Width, bool General>
CRK_FN void split_rows(const crk_attention_call_t &call, const split_work &work, uint32_t first_row, float *room) {
  using lanes = split_lanes<T, Width, General, Rows>;
  const uint32_t tile = lanes::tile_keys(), step = work.next_key(call, tile);
  lanes wave(call, work, first_row);
  const bool is_near = call.block_table == nullptr && has_plain_rows<Width>(call);
  const uint32_t whole_end = is_near && work.end - work.begin >= tile ? work.end - tile + 1 : 0;
  wave.take_tiles(work.first_key(call, tile), whole_end, step, is_near, General || has_windows(call, work));
  wave.join_teams();
  store_part<Rows, Width, false, T>(reread(call), work, first_row, wave, room);
}

template <class T, int Width, bool General>
CRK_FN void attention_split_lanes(const crk_attention_call_t &call) {
  constexpr int rows = lanes_rows<T, Width>;
  CRK_SHARED(aligned_pack, room_packs, split_numbers<Width> / 4);
  float *const room = reinterpret_cast<float *>(room_packs);
  split_work work(call);
  /* The compiler then knows that these are the same in all lanes. */
  work.rows = of_lane<0>(work.rows);
  work.begin = of_lane<0>(work.begin);
  work.end = of_lane<0>(work.end);
  const uint32_t block_row = block_index().y * CRK_ATTENTION_SPLIT_ROWS;
  if (block_row >= work.rows) {
    return;
  }
  const bool is_single = !General && work.rows == 1; /* both would be too much code */
  if constexpr (!General) {
    if (is_single) {
      split_rows<1, T, Width, General>(call, work, 0, room);
    }
  }
  CRK_NO_UNROLL
  for (uint32_t first = block_row; !is_single && first < block_row + CRK_ATTENTION_SPLIT_ROWS && first < work.rows;
       first += rows) {
    split_rows<rows, T, Width, General>(reread(call), work, first, room);
    if (rows < CRK_ATTENTION_SPLIT_ROWS) {
      shared_barrier();
    }
  }
  combine_last<CRK_ATTENTION_SPLIT_ROWS, Width, T, General>(reread(call), work, block_row, room);
}

}  // namespace
}  // namespace crk

#endif
