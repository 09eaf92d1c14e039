/* Attention for few queries without matrix cores (attention_split.h). A team of lanes holds a key: each lane has every
 * so-manieth pack of 16 bytes of it. A team takes `tile` keys at a time. The dot products are then exchanged so that
 * each lane has the scores of one key. The weights go through shared memory to all lanes of the team. */
#ifndef CRK_ATTENTION_SPLIT_LANES_H
#define CRK_ATTENTION_SPLIT_LANES_H

#include "attention/attention_split.h"
#include "numbers/dot_half.h"
#include "numbers/wave.h"

namespace crk {
namespace {

template <class T, int Width, bool General>
struct split_lanes {
  /* Numbers per pack, packs per key, lanes per team, packs per lane, keys per tile. */
  static constexpr int E = 16 / static_cast<int>(sizeof(T)), packs = Width / E,
                       team = (packs & -packs) < 32 ? (packs & -packs) : 32;
  static constexpr int mine = packs / team, tile = team < 8 || mine > 2 ? 4 : 8;
  /* Rows at once. Halves become floats in many registers. */
  static constexpr int rows = half<T> && mine > 1 ? 2 : 4, columns = rows;
  /* Keys whose loads are on the way at once. */
  static constexpr int at_once = mine > 2 ? 2 : 4;
  static_assert(team >= tile, "a lane for each key of a tile");
  using words = pack<uint32_t, 4>;

  const crk_attention_call_t &call;
  const split_work &work;
  uint32_t first_row;
  float *weights; /* of this team: tile * rows */
  uint32_t *seen_keys; /* of this team: tile; whether any row sees the key */
  words query[rows][mine];
  attention_rows<T> key_rows, value_rows;
  float factor, base[rows], limit[rows], total[rows];
  float sums[rows][mine][E];

  CRK_FN static uint32_t place() { return lane() % team; }

  CRK_FN split_lanes(const crk_attention_call_t &call, const split_work &work, uint32_t first_row, float *weights,
                     uint32_t *seen_keys)
      : call(call),
        work(work),
        first_row(first_row),
        weights(weights),
        seen_keys(seen_keys),
        key_rows(call, work.sequence, call.k, call.k_strides, work.kv_head),
        value_rows(call, work.sequence, call.v, call.v_strides, work.kv_head),
        factor(General ? 1.0f : call.scale * log2_of_e) {
    CRK_UNROLL
    for (int r = 0; r < rows; r++) {
      limit[r] = no_score;
      base[r] = total[r] = 0.0f;
      const T *from = nullptr;
      if (first_row + r < work.rows) {
        uint32_t number, head;
        work.find_row(call, first_row + r, number, head);
        from = static_cast<const T *>(call.q) + row_offset(work.sequence, call.q_strides, number, head);
      }
      CRK_UNROLL
      for (int p = 0; p < mine; p++) {
        query[r][p] = load(from, p, call.d);
        CRK_UNROLL
        for (int e = 0; e < E; e++) {
          sums[r][p][e] = 0.0f;
        }
      }
    }
  }

  /* This lane's pack p of a row of `count` numbers; zeros beyond them, and if there is no row. */
  CRK_FN static words load(const T *from, int p, uint32_t count) {
    const uint32_t number = (p * team + place()) * E;
    words loaded = {};
    if (from != nullptr && number < count) {
      if constexpr (same<T, float>) {
        loaded = bit_cast<words>(load_pack<float, E>(from + number));
      } else {
        loaded = load_words<4, 16>(from + number);
      }
    }
    return loaded;
  }

  CRK_FN static float number_of(const words &from, int e) {
    if constexpr (same<T, float>) {
      return bit_cast<float>(from.v[e]);
    } else {
      return e % 2 == 0 ? low_number(T(), from.v[e / 2]) : high_number(T(), from.v[e / 2]);
    }
  }

  CRK_FN static float add_products(const words &a, const words &b, float sum) {
    CRK_UNROLL
    for (int i = 0; i < 4; i++) {
      if constexpr (same<T, float>) {
        sum = fma(bit_cast<float>(a.v[i]), bit_cast<float>(b.v[i]), sum);
      } else {
        sum = dot2<T>(a.v[i], b.v[i], sum);
      }
    }
    return sum;
  }

  /* Adds up `count` numbers over lanes: of each pair, a lane keeps one, and gives the other to its neighbour. In the
   * end it has the sum whose number is its place in the tile. */
  template <int Mask, int Count>
  CRK_FN static float exchange_sums(float (&x)[tile]) {
    if constexpr (Count > 1) {
      const bool odd = (lane() & Mask) != 0;
      CRK_UNROLL
      for (int i = 0; i < Count / 2; i++) {
        /* Opaque, since clang would choose between the addresses of the two, and put the array into memory. */
        const float even_one = bit_cast<float>(opaque(bit_cast<uint32_t>(x[2 * i])));
        const float odd_one = bit_cast<float>(opaque(bit_cast<uint32_t>(x[2 * i + 1])));
        const float kept = odd ? odd_one : even_one, given = odd ? even_one : odd_one;
        x[i] = kept + exchange<Mask>(given);
      }
      return exchange_sums<2 * Mask, Count / 2>(x);
    } else if constexpr (Mask < static_cast<int>(team)) {
      x[0] += exchange<Mask>(x[0]);
      return exchange_sums<2 * Mask, 1>(x);
    } else {
      return x[0];
    }
  }

  /* Raises the base to `least`, unless that is no_score. Returns the factor for the sums. The base is not computed from
   * the limit: the weight of a row's only key is 1, and its value the result, without rounding. */
  CRK_FN float move_base(int r, float least) {
    const float before = base_of(r), to = max_number(before, least);
    limit[r] = to + weight_room;
    base[r] = to == no_score ? 0.0f : to;
    return before == no_score ? 1.0f : exp2_near(before - base[r]);
  }

  /* Joins x over the lanes of a tile. */
  template <class Op>
  CRK_FN static float over_tile(float x, Op op) {
    return butterfly<tile>(x, op);
  }

  /* Takes the tile of this wave's teams from `key` on. Neighbouring teams have neighbouring keys. */
  CRK_FN void take(uint32_t key) {
    const uint32_t teams = wave_size() / team, first = key + lane() / team;
    float dots[rows][tile];
    CRK_UNROLL
    for (int some = 0; some < tile; some += at_once) {
      words loaded[at_once][mine];
      CRK_UNROLL
      for (int u = 0; u < at_once; u++) {
        const uint32_t at = opaque(first + (some + u) * teams);
        const T *from = at < work.end ? key_rows.at(at) : nullptr;
        CRK_UNROLL
        for (int p = 0; p < mine; p++) {
          loaded[u][p] = load(from, p, call.d);
        }
      }
      CRK_UNROLL
      for (int r = 0; r < rows; r++) {
        if (mine > 1) {
          keep_order();
        }
        CRK_UNROLL
        for (int u = 0; u < at_once; u++) {
          float dot = 0.0f;
          CRK_UNROLL
          for (int p = 0; p < mine; p++) {
            dot = add_products(loaded[u][p], query[r][p], dot);
          }
          dots[r][some + u] = dot;
        }
      }
    }
    const uint32_t mine_key = first + lane() % tile * teams;
    bool any_row = false;
    wave_barrier(); /* the weights of the tile before this one have been read */
    CRK_UNROLL
    for (int r = 0; r < rows; r++) {
      const float dot = exchange_sums<1, tile>(dots[r]);
      /* Found again in each tile if the call is General: all rows at once would take too many scalar registers. */
      const split_row<T, General> row(General ? reread(call) : call, work,
                                      General ? opaque(first_row + r) : first_row + r);
      float score = mine_key < work.end ? row.score(dot, mine_key, true) : no_score;
      const bool seen = score != no_score;
      any_row = any_row || seen;
      score = seen ? score * factor : no_score;
      if (any(score > limit[r])) {
        const float scale = move_base(r, over_tile(score, larger()) - weight_top<T>);
        total[r] *= scale;
        CRK_UNROLL
        for (int p = 0; p < mine; p++) {
          CRK_UNROLL
          for (int e = 0; e < E; e++) {
            sums[r][p][e] *= scale;
          }
        }
      }
      const float weight = exp2_near(score - base[r]);
      total[r] += weight;
      if (place() < tile) {
        weights[place() * rows + r] = weight;
      }
    }
    if (place() < tile) {
      seen_keys[place()] = any_row;
    }
    wave_barrier();
    CRK_UNROLL
    for (int u = 0; u < tile; u++) {
      if (u % at_once == 0) {
        keep_order();
      }
      const uint32_t at = opaque(first + u * teams);
      const T *from = seen_keys[u] != 0 ? value_rows.at(at) : nullptr;
      CRK_UNROLL
      for (int p = 0; p < mine; p++) {
        const words loaded = load(from, p, call.dv);
        CRK_UNROLL
        for (int e = 0; e < E; e++) {
          const float value = number_of(loaded, e);
          CRK_UNROLL
          for (int r = 0; r < rows; r++) {
            sums[r][p][e] = fma(weights[u * rows + r], value, sums[r][p][e]);
          }
        }
      }
    }
  }

  /* The `x` of the same lane of another team, `distance` lanes away. */
  CRK_FN static float other_team(float x, uint32_t distance) { return shuffle_xor(x, distance); }

  /* Adds up the teams of the wave. */
  CRK_FN void join_teams() {
    CRK_UNROLL
    for (int r = 0; r < rows; r++) {
      total[r] = over_tile(total[r], plus());
    }
    CRK_NO_UNROLL
    for (uint32_t distance = team; distance < wave_size(); distance *= 2) {
      CRK_UNROLL
      for (int r = 0; r < rows; r++) {
        const float scale = move_base(r, other_team(base_of(r), distance));
        total[r] *= scale;
        total[r] += other_team(total[r], distance);
        CRK_UNROLL
        for (int p = 0; p < mine; p++) {
          keep_order();
          CRK_UNROLL
          for (int e = 0; e < E; e++) {
            sums[r][p][e] *= scale;
            sums[r][p][e] += other_team(sums[r][p][e], distance);
          }
        }
      }
    }
  }

  /* For store_part. */
  CRK_FN static bool owns(int) { return lane() == 0; }
  CRK_FN static uint32_t row(int c) { return static_cast<uint32_t>(c); }
  CRK_FN float base_of(int c) const { return limit[c] == no_score ? no_score : base[c]; }
  template <class F>
  CRK_FN void each(int c, F f) const {
    if (lane() < team) {
      CRK_UNROLL
      for (int p = 0; p < mine; p++) {
        CRK_UNROLL
        for (int e = 0; e < E; e++) {
          f((p * team + place()) * E + e, sums[c][p][e]);
        }
      }
    }
  }
};

template <class T, int Width, bool General>
CRK_FN void attention_split_lanes(const crk_attention_call_t &call) {
  using lanes = split_lanes<T, Width, General>;
  constexpr uint32_t most_teams = split_threads / lanes::team;
  CRK_SHARED(float, weights, most_teams *lanes::tile *lanes::rows);
  CRK_SHARED(uint32_t, seen_keys, most_teams *lanes::tile);
  CRK_SHARED(aligned_pack, room, join_numbers<Width> / 4);
  const split_work work(call);
  const uint32_t team = thread_index().x / lanes::team, tile = wave_size() / lanes::team * lanes::tile;
  const uint32_t step = work.next_key(call, tile);
  const uint32_t block_row = block_index().y * CRK_ATTENTION_SPLIT_ROWS;
  CRK_NO_UNROLL
  for (uint32_t first = block_row; first < block_row + CRK_ATTENTION_SPLIT_ROWS && first < work.rows;
       first += lanes::rows) {
    lanes wave(call, work, first, weights + team * (lanes::tile * lanes::rows), seen_keys + team * lanes::tile);
    CRK_ONE_BY_ONE
    for (uint32_t key = work.first_key(tile); key < work.end; key += step) {
      wave.take(key);
    }
    wave.join_teams();
    store_part<lanes::rows, Width, T>(reread(call), work, first, wave, reinterpret_cast<float *>(room));
    if (lanes::rows < CRK_ATTENTION_SPLIT_ROWS) {
      barrier();
    }
  }
}

}  // namespace
}  // namespace crk

#endif
