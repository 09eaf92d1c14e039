/* Attention for many queries: a block computes a tile of queries of one head, and walks over the keys that they see.
 * docs/attention.md explains the method (Dao, "FlashAttention-2", 2023). Main function: attention_tile.
 *
 * A team of lanes has 16 or 32 queries. Their scores, weights and sums stay in its registers; the scores of a step
 * become the left operand of the second product there. Keys and values come through shared memory, which all teams of
 * the block share. The values of a step are loaded while its scores are computed, and the keys of the next step while
 * its values are used. There are two barriers per step. */
#ifndef CRK_ATTENTION_TILE_H
#define CRK_ATTENTION_TILE_H

#include "attention/attention_copy.h"
#include "attention/attention_store.h"
#include "numbers/cache_order.h"
#include "numbers/dot.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

template <class T, int Width, int Rows, int Threads>
struct attention_shape {
  using core = choose<Width <= 256, near_core<T>, square_core<T>>; /* of f32, NVIDIA GPUs have no room for more */
  static constexpr bool has_cores = !same<core, plain_core<T>>;
  static constexpr int span = static_cast<int>(core::span);
  /* Teams that share their queries: each computes all scores, and its part of the width of dst. */
  static constexpr int split = Width > 256 ? 2 : 1, own_width = Width / split;
  static constexpr int teams = Threads / static_cast<int>(core::team), tall = Rows * split / (teams * 16);
  static_assert(tall * 16 * teams == Rows * split && tall >= 1, "whole squares per team");

  /* Copies straight to shared memory: NVIDIA GPUs, which also have room for the queries there. */
  static constexpr bool is_direct = core::template tile<64, Width, false>::copies_pieces;
  /* 16 keys per step where sums take most of the registers, or these and the pieces of a copy, as in small tiles on
   * GPUs whose operands are in both halves of a wave. */
  static constexpr int most_width = !has_cores || sizeof(T) == 4 ? 128 : Threads < 256 ? 96 : 192;
  static constexpr int keys = is_direct                          ? CRK_ATTENTION_CUDA_KEYS(sizeof(T), Width)
                              : span == 16 && Width > most_width ? 16
                                                                 : 32;
  using key_tile = typename core::template tile<keys, Width, false>;
  using value_tile = typename core::template tile<Width, keys, true>;
  using query_tile = typename core::template tile<Rows, Width, false>;
  static constexpr uint32_t key_words = key_tile::words, value_words = value_tile::words;
  /* Beyond 32 KiB, the values take the place of the keys, after a third barrier: so a compute unit has two blocks. */
  static constexpr bool takes_turns = !is_direct && key_words + value_words > 8192;
  static constexpr uint32_t words =
      takes_turns ? (key_words > value_words ? key_words : value_words) : key_words + value_words;
  static_assert(!is_direct || (query_tile::words + words) * 4 == CRK_ATTENTION_CUDA_BYTES(sizeof(T), Width, Rows),
                "as launched");
  /* Whether the queries stay in registers. Elsewhere they are read again in each step: from shared memory, or through
   * the cache. */
  static constexpr bool keeps_queries =
      !is_direct && has_cores && (Width <= 128 || (core::team == 64 && Width * tall <= 256));

  /* Whether the steps along d are unrolled. Not where queries are loaded in each step: the compiler would load those of
   * all steps before the first. */
  static constexpr bool unrolls_steps = keeps_queries || (is_direct && sizeof(T) == 2);
  /* Else, so many at once: as registers allow. */
  static constexpr int steps_together = is_direct && tall == 1 ? 2 : 1;
  /* Whether the queries of a step are loaded while the step before is computed. */
  static constexpr bool loads_ahead = has_cores && sizeof(T) == 4 && !is_direct;

  /* RDNA 3 and 4, halves: the values of a product, and the keys where steps are unrolled, are read while the product
   * before is computed. Else the compiler reads them only when their registers are free, and every product waits. Not
   * with heads of 128 on RDNA 3, whose operands take 8 registers: too few are left. */
  static constexpr bool reads_ahead =
      has_cores && !is_direct && sizeof(T) == 2 && span == 16 && (Width != 128 || sizeof(typename core::right) <= 16);

  /* Whether the next keys are requested before the scores are made. Elsewhere, who waits for a mask would wait for the
   * keys too. Direct copies are not waited for, but wider heads were slower on an H200 (docs/tried.md). */
  static constexpr bool requests_first = is_direct && Width <= 64;

  /* Whether results go through shared memory, in the place of the queries: a lane has 4 bytes of a row at a time. */
  static constexpr bool passes_rows = is_direct && sizeof(T) == 2;

  static constexpr int squares = keys / span, steps = Width / span, across = own_width / span;
};

/* One step: `keys` keys and their values, for the `tall` squares of a team. */
template <class T, class S>
struct attention_team {
  using core = typename S::core;
  static constexpr int rows = core::rows, columns = core::columns;
  using square = float[rows][columns];

  square score[S::tall][S::squares];
  square sum[S::tall][S::across];
  float base[S::tall][rows]; /* subtracted from scores, in logarithms to base 2 */
  float weight[S::tall][rows]; /* this lane's part of the sum of weights */

  CRK_FN attention_team() {
    CRK_UNROLL
    for (int i = 0; i < S::tall; i++) {
      clear(sum[i]);
      CRK_UNROLL
      for (int r = 0; r < rows; r++) {
        base[i][r] = no_score;
        weight[i][r] = 0.0f;
      }
    }
  }

  /* score = the dot products of queries and keys. `query(step, i)` returns a left operand. */
  template <class Queries>
  CRK_FN void multiply_keys(const uint32_t *room, const Queries &query) {
    multiply_all_keys<false>(room, query);
    if constexpr (S::has_cores && loses_infinity<T>) { /* a NaN among the scores calls for the other products */
      float all = 0.0f;
      CRK_UNROLL
      for (int at = 0; at < S::tall * S::squares * rows * columns; at++) {
        all += score[at / (S::squares * rows * columns)][at / (rows * columns) % S::squares][at / columns % rows]
                    [at % columns];
      }
      if (any(!(all == all))) {
        multiply_all_keys<true>(room, query);
      }
    }
  }

  template <bool Infinite, class Queries>
  CRK_FN void multiply_all_keys(const uint32_t *room, const Queries &query) {
    CRK_UNROLL
    for (int i = 0; i < S::tall; i++) {
      clear(score[i]);
    }
    typename core::left left[S::tall];
    if constexpr (S::unrolls_steps && S::reads_ahead) {
      constexpr int count = S::steps * S::squares;
      const auto load = [&](int at) {
        return S::key_tile::load(room, static_cast<uint32_t>(at % S::squares * S::span),
                                 static_cast<uint32_t>(at / S::squares * S::span));
      };
      typename core::right right = load(0);
      CRK_UNROLL
      for (int at = 0; at < count; at++) {
        typename core::right next = right;
        if (at + 1 < count) {
          next = load(at + 1);
        }
        keep_order();
        if (at % S::squares == 0) {
          load_queries(query, at / S::squares, left);
        }
        CRK_UNROLL
        for (int i = 0; i < S::tall; i++) {
          core::multiply(left[i], right, score[i][at % S::squares]);
        }
        right = next;
      }
    } else if constexpr (S::unrolls_steps) {
      CRK_UNROLL
      for (int step = 0; step < S::steps; step++) {
        if (step % 2 == 0) {
          keep_order(); /* else the keys of too many steps are in registers at once */
        }
        load_queries(query, step, left);
        multiply_step<Infinite>(room, left, step);
      }
    } else if constexpr (S::loads_ahead) {
      load_queries(query, 0, left);
      CRK_NO_UNROLL
      for (int step = 0; step < S::steps; step++) {
        typename core::left next[S::tall];
        load_queries(query, step + 1, next); /* zeros after the last step */
        keep_order();
        multiply_step<Infinite>(room, left, step);
        CRK_UNROLL
        for (int i = 0; i < S::tall; i++) {
          left[i] = next[i];
        }
      }
    } else {
      CRK_NO_UNROLL
      for (int step = 0; step < S::steps; step += S::steps_together) {
        CRK_UNROLL
        for (int i = 0; i < S::steps_together; i++) {
          load_queries(query, step + i, left);
          multiply_step<Infinite>(room, left, step + i);
        }
      }
    }
  }

  /* Makes scores of the dot products, by the rules of `query(i, r)`. */
  template <class Query>
  CRK_FN void make_scores(uint32_t first_key, const Query &query) {
    CRK_UNROLL
    for (int i = 0; i < S::tall; i++) {
      CRK_UNROLL
      for (int r = 0; r < rows; r++) {
        float row[S::squares * columns];
        CRK_UNROLL
        for (int at = 0; at < S::squares * columns; at++) {
          row[at] = score[i][at / columns][r][at % columns];
        }
        const uint32_t lane_key = first_key + core::column(0);
        query(i, r).make_scores(row, [lane_key](int at) { return lane_key + key_of(at / columns, at % columns); });
        CRK_UNROLL
        for (int at = 0; at < S::squares * columns; at++) {
          score[i][at / columns][r][at % columns] = row[at];
        }
      }
    }
  }

  /* Leaves out the scores of keys outside of row r's window, which `window(i, r)` returns. Without Left, no window of
   * this team begins behind first_key. */
  template <bool Left, class Window>
  CRK_FN void mask_scores(uint32_t first_key, const Window &window) {
    CRK_UNROLL
    for (int i = 0; i < S::tall; i++) {
      CRK_UNROLL
      for (int r = 0; r < rows; r++) {
        const attention_window seen = window(i, r);
        const int32_t end = static_cast<int32_t>(seen.end - first_key - core::column(0));
        const int32_t begin = static_cast<int32_t>(seen.first - first_key - core::column(0));
        CRK_UNROLL
        for (int n = 0; n < S::squares; n++) {
          CRK_UNROLL
          for (int c = 0; c < columns; c++) {
            const int32_t key = static_cast<int32_t>(key_of(n, c));
            if (key >= end || (Left && key < begin)) {
              score[i][n][r][c] = no_score;
            }
          }
        }
      }
    }
  }

  /* Makes weights of the scores: 2^(scale * score - base). When the base of a row is set, its largest weight becomes
   * 2^weight_top. The base is set again where a weight would be larger than 2^8 times that, and then the sums are
   * scaled. So most steps do not touch the sums. */
  CRK_FN void weigh(float scale) {
    const auto larger = [](float a, float b) { return max_number(a, b); };
    float factor[S::tall][rows]; /* at first the lane's largest number: a row rises where one of its lanes does */
    bool rises = false;
    CRK_UNROLL
    for (int i = 0; i < S::tall; i++) {
      CRK_UNROLL
      for (int r = 0; r < rows; r++) {
        float most = score[i][0][r][0];
        CRK_UNROLL
        for (int n = 0; n < S::squares; n++) {
          CRK_UNROLL
          for (int c = 0; c < columns; c++) {
            most = max_number(most, score[i][n][r][c]);
          }
        }
        if constexpr (!half<T>) {
          most = core::combine(most, larger); /* below, gfx942 has no registers left for this */
        }
        factor[i][r] = most * scale - weight_top<T>;
        rises |= factor[i][r] > base[i][r] + 8.0f;
      }
    }
    if (any(rises)) {
      CRK_UNROLL
      for (int i = 0; i < S::tall; i++) {
        CRK_UNROLL
        for (int r = 0; r < rows; r++) {
          const float most = half<T> ? core::combine(factor[i][r], larger) : factor[i][r];
          const float next = most > base[i][r] + 8.0f ? most : base[i][r];
          factor[i][r] = next == base[i][r] ? 1.0f : exp2_near(base[i][r] - next);
          base[i][r] = next;
          weight[i][r] *= factor[i][r];
        }
        CRK_UNROLL
        for (int n = 0; n < S::across; n++) {
          CRK_UNROLL
          for (int r = 0; r < rows; r++) {
            CRK_UNROLL
            for (int c = 0; c < columns; c++) {
              sum[i][n][r][c] *= factor[i][r];
            }
          }
        }
      }
    }
    CRK_UNROLL
    for (int i = 0; i < S::tall; i++) {
      CRK_UNROLL
      for (int r = 0; r < rows; r++) {
        const float subtracted = base[i][r] == no_score ? 0.0f : base[i][r]; /* else -infinity minus itself: NaN */
        CRK_UNROLL
        for (int n = 0; n < S::squares; n++) {
          CRK_UNROLL
          for (int c = 0; c < columns; c++) {
            float &s = score[i][n][r][c];
            s = exp2_near(fma(s, scale, -subtracted));
            weight[i][r] += s;
          }
        }
      }
    }
  }

  /* sum += weights * values, for the columns from first_column on. */
  CRK_FN void multiply_values(const uint32_t *room, uint32_t first_column) {
    CRK_UNROLL
    for (int k = 0; k < S::squares; k++) {
      typename core::left left[S::tall];
      CRK_UNROLL
      for (int i = 0; i < S::tall; i++) {
        left[i] = core::as_left(score[i][k]);
      }
      const auto load = [&](int n) {
        return S::value_tile::load(room, first_column + static_cast<uint32_t>(n * S::span),
                                   static_cast<uint32_t>(k * S::span));
      };
      typename core::right right;
      if (S::reads_ahead) {
        keep_order();
        right = load(0);
      }
      CRK_UNROLL
      for (int n = 0; n < S::across; n++) {
        if (S::reads_ahead || n % 4 == 0) {
          keep_order();
        }
        if (!S::reads_ahead) {
          right = load(n);
        }
        typename core::right next = right;
        if (S::reads_ahead && n + 1 < S::across) {
          next = load(n + 1);
          keep_order();
        }
        CRK_UNROLL
        for (int i = 0; i < S::tall; i++) {
          core::multiply(left[i], right, sum[i][n]);
        }
        right = next;
      }
    }
  }

 private:
  template <class Queries>
  CRK_FN static void load_queries(const Queries &query, int step, typename core::left (&left)[S::tall]) {
    CRK_UNROLL
    for (int i = 0; i < S::tall; i++) {
      left[i] = query(step, i);
    }
  }
  template <bool Infinite>
  CRK_FN void multiply_step(const uint32_t *room, const typename core::left (&left)[S::tall], int step) {
    CRK_UNROLL
    for (int n = 0; n < S::squares; n++) {
      const auto right =
          S::key_tile::load(room, static_cast<uint32_t>(n * S::span), static_cast<uint32_t>(step * S::span));
      CRK_UNROLL
      for (int i = 0; i < S::tall; i++) {
        if constexpr (Infinite) {
          core::multiply_infinite(left[i], right, score[i][n]);
        } else {
          core::multiply(left[i], right, score[i][n]);
        }
      }
    }
  }
  CRK_FN static constexpr uint32_t key_of(int n, int c) {
    return static_cast<uint32_t>(n * S::span) + core::next_column(static_cast<uint32_t>(c));
  }
  template <int Count>
  CRK_FN static void clear(square (&squares)[Count]) {
    CRK_UNROLL
    for (int n = 0; n < Count; n++) {
      CRK_UNROLL
      for (int r = 0; r < rows; r++) {
        CRK_UNROLL
        for (int c = 0; c < columns; c++) {
          squares[n][r][c] = 0.0f;
        }
      }
    }
  }
};

/* What a block computes. Blocks are numbered over the parts of the keys first, then over the heads of a run, then along
 * the queries, then over the runs of heads of all sequences. The last queries come first: with a causal window they see
 * the most keys. In runs of several heads, the launch ends with blocks that have little to do.
 *
 * With paired_units, all blocks run at once. The device places the blocks of a run on the units of a cache in turn.
 * Tiles at the same queries then follow each other, and the second round of blocks goes the other way. So in a causal
 * call the block with the most keys shares its unit with the one that has the fewest. */
struct tile_place {
  uint32_t part, tile, head, sequence;

  CRK_FN explicit tile_place(const crk_attention_call_t &call) {
    const uint32_t tiles = static_cast<uint32_t>(call.tiles.size), heads = static_cast<uint32_t>(call.run.size);
    uint32_t number = place_in_order(call.order, static_cast<uint32_t>(call.first_block + block_index().x));
    part = take_coordinate(number, call.parts);
    uint32_t of_run = take_coordinate(number, call.run), turn = take_coordinate(number, call.tiles);
    const uint32_t units = call.paired_units, place = turn * heads + of_run;
    if (units != 0 && place >= units) {
      turn = tiles * heads - 1 - (place - units);
      of_run = take_coordinate(turn, call.run);
    }
    tile = tiles - 1 - turn;
    number = number * heads + of_run;
    head = take_coordinate(number, call.heads);
    sequence = number;
  }
};

/* Stores a tile whose rows pass through shared memory, `room`, in a call without a log-sum-exp and without parts of the
 * keys. `first` is the team's first row of the tile. */
template <class T, class S>
CRK_FN void store_tile(const crk_attention_call_t &call, const attention_team<T, S> &mine, const result_rows &results,
                       uint32_t *room, uint32_t first, uint32_t first_column) {
  using core = typename S::core;
  const uint32_t count = results.count;
  CRK_UNROLL
  for (int i = 0; i < S::tall; i++) {
    CRK_UNROLL
    for (int r = 0; r < core::rows; r++) {
      const uint32_t row = first + static_cast<uint32_t>(i) * 16 + core::row(static_cast<uint32_t>(r));
      const float weight = core::combine(mine.weight[i][r], [](float a, float b) { return a + b; });
      const float factor = weight == 0.0f ? 0.0f : reciprocal_near(weight);
      CRK_UNROLL
      for (int n = 0; n < S::across; n++) {
        put_row<T, S>(mine.sum[i][n][r], factor, room, row, first_column + static_cast<uint32_t>(n * S::span));
      }
    }
  }
  wave_barrier();
  store_rows<T, S>(room, static_cast<T *>(call.dst) + results.first, results.row_stride, first, count, first_column,
                   call.dv, call.by_vectors != 0);
}

/* A block computes Rows queries of a head. */
template <class T, int Width, int Rows, int Threads, bool General>
CRK_FN void attention_tile(const crk_attention_call_t &call) {
  using S = attention_shape<T, Width, Rows, Threads>;
  using core = typename S::core;
  constexpr uint32_t step_keys = S::keys, team_rows = S::tall * 16;
  const tile_place place(call);
  const uint32_t head = place.head, first_row = place.tile * Rows;
  const attention_sequence sequence(call, place.sequence);
  if (first_row >= sequence.queries) {
    return;
  }
  uint32_t *query_room = nullptr, *key_room;
  if constexpr (S::is_direct) {
    query_room = dynamic_shared<uint32_t>();
    key_room = query_room + S::query_tile::words;
  } else {
    CRK_SHARED(aligned_codes16, room, S::words / 4);
    key_room = reinterpret_cast<uint32_t *>(room);
  }
  result_rows *results = nullptr;
  if constexpr (S::passes_rows) {
    CRK_SHARED(result_rows, waiting, 1);
    results = waiting;
  }
  uint32_t *const value_room = S::takes_turns ? key_room : key_room + S::key_words;

  /* The rows of this team, and of all teams of its wave. */
  const uint32_t team = thread_index().x / core::team;
  const uint32_t team_row = first_row + team / S::split * team_rows, first_column = team % S::split * S::own_width;
  const uint32_t teams_of_wave = wave_size() / core::team;
  const uint32_t wave_row = first_row + wave_in_block() * teams_of_wave / S::split * team_rows;
  const uint32_t wave_rows = (teams_of_wave + S::split - 1) / S::split * team_rows;
  const uint32_t last_query = sequence.queries - 1;
  const auto clamped = [last_query](uint32_t row) { return row < last_query ? row : last_query; };
  /* The limits are read again: kept, they would take scalar registers that the widest kernels have not. */
  const auto window_of = [&](uint32_t row) { return attention_window(reread(call), sequence, row); };
  const attention_window of_block[] = {window_of(first_row), window_of(clamped(first_row + Rows - 1))};
  const attention_window of_wave[] = {window_of(clamped(wave_row)), window_of(clamped(wave_row + wave_rows - 1))};
  const bool sees_all = General && call.prefix_count != 0;
  const uint32_t wave_first = sees_all ? 0 : of_wave[0].first, wave_end = sees_all ? sequence.keys : of_wave[1].end;
  uint32_t begin = sees_all ? 0 : of_block[0].first / step_keys * step_keys;
  uint32_t end = sees_all ? sequence.keys : of_block[1].end;
  if (call.parts.size > 1 && begin < end) {
    const uint32_t steps = (end - begin + step_keys - 1) / step_keys;
    const uint32_t share = divide(call.parts, steps + static_cast<uint32_t>(call.parts.size) - 1) * step_keys;
    begin += place.part * share;
    end = begin < end && end - begin > share ? begin + share : end;
  }

  const uint32_t kv_head = divide(call.group, head);
  const attention_rows<T> key_rows(call, sequence, call.k, call.k_strides, kv_head);
  const attention_rows<T> value_rows(call, sequence, call.v, call.v_strides, kv_head);
  const T *q = sequence.head<T>(call.q, call.q_strides, head, sequence.first_query);
  const bool by_vectors = call.by_vectors != 0;
  tile_copy<T, typename S::key_tile, S::keys, Width, Threads> keys(key_rows);
  tile_copy<T, typename S::value_tile, S::keys, Width, Threads> values(value_rows);

  const T *from[S::tall][core::rows];
  CRK_UNROLL
  for (int i = 0; i < S::tall; i++) {
    CRK_UNROLL
    for (int r = 0; r < core::rows; r++) {
      const uint32_t row = team_row + static_cast<uint32_t>(i) * 16 + core::row(static_cast<uint32_t>(r));
      from[i][r] = q + clamped(row) * call.q_strides.row;
    }
  }
  typename core::left queries[S::keeps_queries ? S::tall : 1][S::keeps_queries ? S::steps : 1];
  if constexpr (S::keeps_queries) {
    CRK_UNROLL
    for (int i = 0; i < S::tall; i++) {
      CRK_UNROLL
      for (int step = 0; step < S::steps; step++) {
        queries[i][step] = core::load_left(from[i], static_cast<uint32_t>(step * S::span), call.d);
      }
    }
  } else if constexpr (S::is_direct) {
    attention_rows<T> query_rows = key_rows;
    query_rows.first = q;
    query_rows.row_stride = call.q_strides.row;
    query_rows.has_blocks = false;
    tile_copy<T, typename S::query_tile, Rows, Width, Threads> copy(query_rows);
    copy.clear(query_room, call.d);
    copy.begin(query_room, query_rows, first_row, sequence.queries, call.d, by_vectors);
  }
  const auto query = [&](int step, int i) {
    if constexpr (S::keeps_queries) {
      return queries[i][step];
    } else if constexpr (S::is_direct) {
      return S::query_tile::load_rows(query_room, team_row - first_row + static_cast<uint32_t>(i) * 16,
                                      static_cast<uint32_t>(step * S::span));
    } else {
      return core::load_left(from[i], static_cast<uint32_t>(step * S::span), call.d);
    }
  };

  /* All queries of the block see all keys of a step that begins at first_plain or one of the next plain_keys - 1 keys.
   */
  const uint32_t first_plain = settled(of_block[1].first);
  const uint32_t plain_keys =
      settled(of_block[0].end < first_plain + step_keys ? 0 : of_block[0].end - first_plain - step_keys + 1);

  attention_team<T, S> mine;
  const auto is_plain = [&](uint32_t key) { return key - first_plain < plain_keys; };
  const auto is_needed = [&](uint32_t key) {
    return (!General && is_plain(key)) || (key < wave_end && key + step_keys > wave_first);
  };
  const auto row_of = [&](int i, int r) {
    return clamped(team_row + static_cast<uint32_t>(i) * 16 + core::row(static_cast<uint32_t>(r)));
  };
  const auto make_scores = [&](uint32_t key) {
    mine.make_scores(key, [&](int i, int r) { return attention_query<T>(reread(call), sequence, head, row_of(i, r)); });
  };
  const auto add_step = [&](uint32_t key) {
    if constexpr (General) {
      mine.weigh(1.0f);
    } else {
      const auto window = [&](int i, int r) { return attention_window(call, sequence, row_of(i, r)); };
      if (!is_plain(key)) {
        if (key < of_wave[1].first) {
          mine.template mask_scores<true>(key, window);
        } else if (key + step_keys > of_wave[0].end) {
          mine.template mask_scores<false>(key, window);
        }
      }
      mine.weigh(call.scale * log2_of_e);
    }
    mine.multiply_values(value_room, first_column);
  };
  keys.clear(key_room, call.d);
  if (begin < end) {
    keys.begin(key_room, key_rows, begin, sequence.keys, call.d, by_vectors);
  }
  if constexpr (S::passes_rows) {
    if (thread_index().x == 0) {
      *results = {row_offset(sequence, call.dst_strides, first_row, head), call.dst_strides.row,
                  sequence.queries - first_row};
    }
    if (begin >= end) { /* no step waits until the queries are there, and results take their place */
      keys.finish(key_room);
      shared_barrier();
    }
  }
  CRK_NO_UNROLL
  for (uint32_t key = begin; key < end; key += step_keys) {
    if constexpr (S::takes_turns) {
      shared_barrier();
    }
    keys.finish(key_room);
    shared_barrier();
    values.begin(value_room, value_rows, key, sequence.keys, call.dv, by_vectors);
    if (is_needed(key)) {
      mine.multiply_keys(key_room, query);
    }
    if constexpr (S::takes_turns) {
      shared_barrier();
    }
    values.finish(value_room);
    shared_barrier();
    if constexpr (General && !S::requests_first) {
      if (is_needed(key)) {
        make_scores(key);
      }
    }
    if (key + step_keys < end) {
      keys.begin(key_room, key_rows, key + step_keys, sequence.keys, call.d, by_vectors);
    }
    if (is_needed(key)) {
      if constexpr (General && S::requests_first) {
        make_scores(key);
      }
      add_step(key);
    }
  }

  if constexpr (S::passes_rows) {
    if (call.parts.size == 1 && call.lse == nullptr) {
      store_tile<T, S>(call, mine, *results, query_room, team_row - first_row, first_column);
      return;
    }
  }
  const crk_attention_call_t &last = reread(call); /* nothing of this waits in registers */
  const tile_place here(last);
  const attention_sequence own(last, here.sequence);
  T *dst = const_cast<T *>(own.head<T>(last.dst, last.dst_strides, here.head, own.first_query));
  CRK_UNROLL
  for (int i = 0; i < S::tall; i++) {
    CRK_UNROLL
    for (int r = 0; r < core::rows; r++) {
      const uint32_t row = team_row + static_cast<uint32_t>(i) * 16 + core::row(static_cast<uint32_t>(r));
      const float weight = core::combine(mine.weight[i][r], [](float a, float b) { return a + b; });
      if (row < own.queries && last.parts.size > 1) {
        uint32_t own_kv_head = here.head;
        const uint32_t member = take_coordinate(own_kv_head, last.group);
        const uint32_t scratch = row * static_cast<uint32_t>(last.group.size) + member;
        const uint64_t at = scratch_row(last, own, own_kv_head, scratch) + here.part;
        float *const to = last.sums + at * last.dv;
        CRK_UNROLL
        for (int n = 0; n < S::across; n++) {
          store_row<float, S>(mine.sum[i][n][r], 1.0f, to, first_column + static_cast<uint32_t>(n * S::span), last.dv,
                              true);
        }
        if (first_column == 0 && core::column(0) == 0) {
          last.weights[2 * at] = mine.base[i][r];
          last.weights[2 * at + 1] = weight;
        }
      } else if (S::passes_rows || row < own.queries) {
        const float factor = weight == 0.0f ? 0.0f : half<T> ? reciprocal_near(weight) : 1.0f / weight;
        if constexpr (S::passes_rows) {
          CRK_UNROLL
          for (int n = 0; n < S::across; n++) {
            put_row<T, S>(mine.sum[i][n][r], factor, query_room, row - first_row,
                          first_column + static_cast<uint32_t>(n * S::span));
          }
        } else {
          T *const to = dst + row * last.dst_strides.row;
          if (by_vectors && last.dv == Width) {
            CRK_UNROLL
            for (int n = 0; n < S::across; n++) {
              store_row<T, S>(mine.sum[i][n][r], factor, to, first_column + static_cast<uint32_t>(n * S::span), Width,
                              true);
            }
          } else {
            CRK_UNROLL
            for (int n = 0; n < S::across; n++) {
              store_row<T, S>(mine.sum[i][n][r], factor, to, first_column + static_cast<uint32_t>(n * S::span), last.dv,
                              by_vectors);
            }
          }
        }
        if (last.lse != nullptr && row < own.queries && first_column == 0 && core::column(0) == 0) {
          last.lse[own.number * last.lse_sequence + here.head * last.lse_head + own.first_query + row] =
              weight == 0.0f ? no_score : mine.base[i][r] * log2_of_e_inverse + log(weight);
        }
      }
    }
  }
  if constexpr (S::passes_rows) {
    if (last.parts.size == 1) {
      wave_barrier();
      store_rows<T, S>(query_room, dst + first_row * last.dst_strides.row, last.dst_strides.row, team_row - first_row,
                       own.queries - first_row, first_column, last.dv, by_vectors);
    }
  }
}

}  // namespace
}  // namespace crk

#endif
