/* Attention for few queries on matrix cores (attention_split.h). A wave takes 16 keys at a time. Keys are the rows of a
 * product, query rows its columns. The results have the layout of an operand, apart from RDNA 3 and NVIDIA GPUs. Plain
 * loads of keys and values take no vector instructions for addresses on AMD GPUs. */
#ifndef CRK_ATTENTION_SPLIT_CORES_H
#define CRK_ATTENTION_SPLIT_CORES_H

#include "attention/attention_combine.h"
#include "attention/attention_split.h"
#include "numbers/wave.h"

#if CRK_STREAM_CORES
namespace crk {
namespace {

/* The largest divisor of `count` up to `most`. */
constexpr int divisor_up_to(int count, int most) {
  int divisor = most < count ? most : count;
  while (divisor > 1 && count % divisor != 0) {
    divisor--;
  }
  return divisor < 1 ? 1 : divisor;
}

/* What a wave has of the query rows, and its sums. */
template <class T, int Width, bool General>
struct split_cores {
  using core = stream_core<T>;
  using results = typename core::results;
  using word4 = pack<uint32_t, 4>;
  static constexpr int tile = 16, columns = core::columns, tall = core::tall;
  /* The numbers of a key are loaded in chunks. A chunk has `key_packs` packs of 16 bytes of each key, and a lane loads
   * `packs` of them. */
  static constexpr int chunk_numbers = Width % 128 == 0 ? 128 : Width % 96 == 0 ? 96 : 64;
  static constexpr int chunks = Width / chunk_numbers, key_packs = chunk_numbers / 8;
  static constexpr int packs = tile * key_packs / static_cast<int>(most_lanes);
  static constexpr int steps = Width / core::step, chunk_steps = chunk_numbers / core::step;
  static constexpr int stage_pitch = chunk_numbers + core::padding,
                       stage_numbers = core::stages_keys ? tile * stage_pitch : 0;
  /* Spans of the values, and how many of them are loaded at once. A lane loads E numbers of a key in each span. */
  static constexpr int E = core::template value_numbers<Width>, span = E * core::value_lanes, spans = Width / span;
  static constexpr int some_spans = divisor_up_to(spans, core::most_values / core::value_keys),
                       products = core::template products<E>;
  using value_words = pack<uint32_t, E / 2>;
  /* Query rows with many numbers stay in shared memory. */
  static constexpr bool is_shared = steps * core::row_packs > 8;
  /* Whether there are registers for the keys of the next tile while the values of this one are used. */
  static constexpr bool is_ahead = Width <= core::most_ahead;
  /* Whether the first keys are requested before the query rows have arrived. */
  static constexpr bool requests_first = Width <= core::most_first;
  static_assert(core::most_first <= core::most_ahead, "keys that are requested first are those of a tile ahead");
  /* Where the operands would take pieces of lines, the block loads the query rows and passes them on in shared memory:
   * `row_threads` threads load a row, in `row_turns` turns. */
  static constexpr bool passes_rows = is_shared || core::stages_keys;
  static constexpr int row_threads = split_threads / core::rows,
                       row_turns = (Width / 8 + row_threads - 1) / row_threads;
  static constexpr int pitch = Width + core::padding;

  /* The tile of 16 keys from `key` on. The place is for Plain tiles. */
  struct key_tile {
    uint32_t key;
    typename attention_rows<T>::place place;
  };
  struct keys {
    word4 x[packs];
  };
  struct values {
    value_words x[some_spans][core::value_keys];
  };
  struct row_pieces {
    word4 x[passes_rows ? row_turns : 1];
  };

  const crk_attention_call_t &call;
  const split_work &work;
  const T *shared_rows;
  T *stage; /* of this wave */
  word4 query[is_shared ? 1 : steps][core::row_packs];
  attention_rows<T> key_rows, value_rows;
  split_row<T, General> row_of[columns];
  float factor, base[columns], limit[columns], total[columns];
  results sums[spans][products];

  CRK_FN split_cores(const crk_attention_call_t &call, const split_work &work, uint32_t first_row, T *room, T *stages)
      : split_cores(call, work, first_row, room, stages, typename make_indices<columns>::type()) {}
  template <int... C>
  CRK_FN split_cores(const crk_attention_call_t &call, const split_work &work, uint32_t first_row, T *room, T *stages,
                     indices<C...>)
      : call(call),
        work(work),
        shared_rows(room),
        stage(stages + wave_in_block() * stage_numbers),
        key_rows(call, work.sequence, call.k, call.k_strides, work.kv_head),
        value_rows(call, work.sequence, call.v, call.v_strides, work.kv_head),
        row_of{split_row<T, General>(call, work, first_row + core::result_row(C))...},
        factor(General ? 1.0f : call.scale * log2_of_e) {
    CRK_UNROLL
    for (int c = 0; c < columns; c++) {
      limit[c] = no_score;
      base[c] = total[c] = 0.0f;
    }
    CRK_UNROLL
    for (int s = 0; s < spans; s++) {
      CRK_UNROLL
      for (int j = 0; j < products; j++) {
        sums[s][j] = {};
      }
    }
  }

  /* A query row; NULL beyond the last one. */
  CRK_FN const T *find_query(uint32_t row) const {
    if (row >= work.rows) {
      return nullptr;
    }
    uint32_t query, head;
    work.find_row(call, row, query, head);
    return static_cast<const T *>(call.q) + row_offset(work.sequence, call.q_strides, query, head);
  }
  /* Eight numbers of a query row. */
  CRK_FN word4 load_query(const T *row, uint32_t number) const {
    word4 words = {};
    if (row != nullptr && number < call.d) {
      words = load_words<4, 16>(row + number);
    }
    return words;
  }
  /* Requests the query rows that are passed on. */
  CRK_FN void request_rows(row_pieces &pieces, uint32_t first_row) const {
    if constexpr (passes_rows) {
      const uint32_t row = first_row + thread_index().x / row_threads;
      uint32_t query, head;
      work.find_row(call, row < work.rows ? row : 0, query, head);
      const T *const from = static_cast<const T *>(call.q) + row_offset(work.sequence, call.q_strides, query, head);
      CRK_UNROLL
      for (int t = 0; t < row_turns; t++) {
        const uint32_t number = (thread_index().x % row_threads + t * row_threads) * 8;
        pieces.x[t] = {};
        if (row < work.rows && number < call.d) {
          pieces.x[t] = load_words<4, 16>(from + number);
        }
      }
    }
  }
  /* Loads the query rows, in part from the pieces, which go through `room` in shared memory. */
  CRK_FN void load_rows(const row_pieces &pieces, uint32_t first_row, T *room, bool is_plain) {
    if constexpr (passes_rows) {
      const uint32_t r = thread_index().x / row_threads;
      CRK_UNROLL
      for (int t = 0; t < row_turns; t++) {
        const uint32_t i = thread_index().x % row_threads + t * row_threads;
        if (Width / 8 % row_threads == 0 || i < Width / 8) {
          store_pack(reinterpret_cast<uint32_t *>(room + r * pitch + i * 8), pieces.x[t]);
        }
      }
      shared_barrier();
    }
    if constexpr (!is_shared) {
      const T *row = core::stages_keys ? nullptr : find_query(first_row + core::first_row());
      CRK_UNROLL
      for (int s = 0; s < steps; s++) {
        CRK_UNROLL
        for (int p = 0; p < core::row_packs; p++) {
          const uint32_t number = s * core::step + core::first_number() + core::next_number(p);
          if constexpr (core::stages_keys) {
            query[s][p] = load_aligned<uint32_t, 4>(
                reinterpret_cast<const uint32_t *>(room + core::first_row() * pitch + number));
          } else if (is_plain) { /* nothing waits for these loads */
            query[s][p] = {};
            if (row != nullptr) {
              query[s][p] = load_aligned<uint32_t, 4>(reinterpret_cast<const uint32_t *>(row + number));
            }
          } else {
            query[s][p] = load_query(row, number);
          }
        }
      }
      if constexpr (core::stages_keys) {
        shared_barrier(); /* the room becomes the waves' stages */
      }
    }
  }

  /* The lane's pack p of a chunk of keys: of key first + next, from number `number` of the chunk on. `next` is the same
   * in all lanes. */
  struct key_pack {
    uint32_t first, next, number;
  };
  CRK_FN static key_pack find_pack(int p) {
    if constexpr (!core::stages_keys) {
      return {core::first_key(), core::next_key(p % core::key_packs),
              core::first_number() + p / core::key_packs * core::step};
    } else if constexpr (most_lanes % key_packs == 0) {
      return {lane() / key_packs, p * (most_lanes / key_packs), lane() % key_packs * 8};
    } else {
      return {(p * most_lanes + lane()) / key_packs, 0, (p * most_lanes + lane()) % key_packs * 8};
    }
  }

  CRK_FN key_tile find_tile(uint32_t key) const { return {key, key_rows.find_uniform(key)}; }

  /* Prefetches the keys and values of a tile. They lie in no blocks of a cache. */
  CRK_FN void prefetch_tile(uint32_t first_key) const {
    if constexpr (has_prefetch) {
      constexpr uint32_t line = prefetched_line / sizeof(T);
      CRK_UNROLL
      for (uint32_t i = 0; i < tile * Width / line; i += most_lanes) {
        const uint32_t at = (i + lane()) * line, key = first_key + at / Width, number = at % Width;
        if (at < tile * Width) {
          prefetch(key_rows.at({0, key}) + number);
          prefetch(value_rows.at({0, key}) + number);
        }
      }
      wave_barrier(); /* else nvcc may leave lanes apart, and products need them together */
    }
  }

  /* Loads a chunk of the keys of a tile. Plain: all keys are there, every address is aligned, and those of a tile are
   * near each other. */
  template <bool Plain>
  CRK_FN void load_keys(keys &to, const key_tile &tile, int chunk) const {
    const uint32_t row_bytes = static_cast<uint32_t>(key_rows.row_stride * sizeof(T));
    const char *row = Plain ? reinterpret_cast<const char *>(key_rows.at(tile.place) + chunk * chunk_numbers) : nullptr;
    uint32_t at = 0;
    typename attention_rows<T>::place places[Plain ? 1 : packs];
    bool exists[Plain ? 1 : packs];
    const auto key_of = [&](int p) {
      const key_pack mine = find_pack(p);
      return opaque(tile.key + mine.first + mine.next);
    };
    if constexpr (!Plain) {
      key_rows.find(places, [&](int p) { return least(key_of(p), work.end - 1); });
    }
    CRK_UNROLL
    for (int p = 0; p < packs; p++) {
      const key_pack mine = find_pack(p);
      if constexpr (Plain) {
        row = uniform_pointer(row + static_cast<int32_t>(mine.next - at) * static_cast<int64_t>(row_bytes));
        at = mine.next;
        const uint32_t offset = opaque(mine.first * row_bytes + mine.number * static_cast<uint32_t>(sizeof(T)));
        to.x[p] = load_streamed<uint32_t, 4>(reinterpret_cast<const uint32_t *>(row + offset));
      } else {
        const uint32_t number = chunk * chunk_numbers + mine.number;
        const bool has_number = number < call.d;
        exists[p] = has_number && key_of(p) < work.end;
        to.x[p] = load_words<4, 16>(key_rows.at(places[p]) + (has_number ? number : 0));
      }
    }
    if constexpr (!Plain) {
      CRK_UNROLL
      for (int p = 0; p < packs; p++) {
        to.x[p] = exists[p] ? to.x[p] : word4{};
      }
    }
  }
  /* Puts a chunk of keys into shared memory. */
  CRK_FN void stage_keys(const keys &from) const {
    wave_barrier();
    CRK_UNROLL
    for (int p = 0; p < packs; p++) {
      const key_pack mine = find_pack(p);
      T *const to = stage + mine.first * stage_pitch + mine.number;
      store_pack(reinterpret_cast<uint32_t *>(to + mine.next * stage_pitch), from.x[p]);
    }
    wave_barrier();
  }
  /* E numbers of a value from `number` on; zeros beyond the last number, and unless the value exists. */
  CRK_FN value_words load_some(const T *from, uint32_t number, bool exists) const {
    value_words words;
    constexpr int count = E % 4 == 0 ? E / 2 : 1, usual = E % 4 == 0 ? 16 : 2; /* words and alignment of a load */
    CRK_UNROLL
    for (int w = 0; w < E / 2; w += count) {
      const bool here = number + 2 * w < call.dv;
      const auto loaded = load_words<count, usual>(from + (here ? number + 2 * w : 0));
      CRK_UNROLL
      for (int i = 0; i < count; i++) {
        words.v[w + i] = here && exists ? loaded.v[i] : 0;
      }
    }
    return words;
  }
  template <bool Plain>
  CRK_FN void load_values(values &to, const key_tile &tile, int some) const {
    const uint32_t row_bytes = static_cast<uint32_t>(value_rows.row_stride * sizeof(T));
    const uint32_t offset =
        opaque(core::first_value_key() * row_bytes + core::value_lane() * static_cast<uint32_t>(E * sizeof(T)));
    const char *row = Plain ? reinterpret_cast<const char *>(value_rows.at(tile.place)) : nullptr;
    uint32_t at = 0;
    constexpr int together = 4; /* there are registers for the places of four keys */
    typename attention_rows<T>::place places[together];
    static_assert(core::value_keys % together == 0, "whole groups");
    CRK_UNROLL
    for (int i = 0; i < core::value_keys; i++) {
      if constexpr (Plain) {
        row =
            uniform_pointer(row + static_cast<int32_t>(core::next_value_key(i) - at) * static_cast<int64_t>(row_bytes));
        at = core::next_value_key(i);
        CRK_UNROLL
        for (int s = 0; s < some_spans; s++) {
          to.x[s][i] = load_streamed<uint32_t, E / 2>(
              reinterpret_cast<const uint32_t *>(row + offset + (some * some_spans + s) * span * sizeof(T)));
        }
      } else {
        const auto key_of = [&](int n) {
          return opaque(tile.key + core::first_value_key() + core::next_value_key(i / together * together + n));
        };
        if (i % together == 0) {
          keep_order();
          value_rows.find(places, [&](int n) { return least(key_of(n), work.end - 1); });
        }
        CRK_UNROLL
        for (int s = 0; s < some_spans; s++) {
          const uint32_t number = (some * some_spans + s) * span + core::value_lane() * E;
          to.x[s][i] = load_some(value_rows.at(places[i % together]), number, key_of(i % together) < work.end);
        }
      }
    }
  }

  CRK_FN void add_scores(const keys &from, int chunk, results &scores) const {
    CRK_UNROLL
    for (int s = 0; s < chunk_steps; s++) {
      const int step = chunk * chunk_steps + s;
      word4 key[core::key_packs], row[core::row_packs];
      CRK_UNROLL
      for (int p = 0; p < core::key_packs; p++) {
        if constexpr (core::stages_keys) {
          const T *at =
              stage + core::first_key() * stage_pitch + s * core::step + core::first_number() + core::next_number(p);
          key[p] = load_aligned<uint32_t, 4>(reinterpret_cast<const uint32_t *>(at));
        } else {
          key[p] = from.x[s * core::key_packs + p];
        }
      }
      CRK_UNROLL
      for (int p = 0; p < core::row_packs; p++) {
        if constexpr (is_shared) {
          const T *at =
              shared_rows + core::first_row() * pitch + step * core::step + core::first_number() + core::next_number(p);
          row[p] = load_aligned<uint32_t, 4>(reinterpret_cast<const uint32_t *>(at));
        } else {
          row[p] = query[step][p];
        }
      }
      core::add_scores(key, row, scores);
      if (!is_ahead) {
        keep_order(); /* there are no registers for the operands of many steps */
      }
    }
  }

  /* Turns dot products into weights, and scales the sums if a row's base moves. Returns the bits of the keys that any
   * row sees; all bits unless the call is General. */
  CRK_FN uint32_t weigh(results &scores, uint32_t key, bool checked) {
    float most[columns];
    uint32_t seen_keys = General ? 0 : 0xffff;
    if constexpr (General) {
      CRK_UNROLL
      for (int c = 0; c < columns; c++) {
        float score[tall];
        CRK_UNROLL
        for (int k = 0; k < tall; k++) {
          score[k] = scores.at(k, c);
        }
        row_of[c].query.make_scores(score, [key](int k) { return key + core::result_key(k); });
        CRK_UNROLL
        for (int k = 0; k < tall; k++) {
          scores.set(k, c, row_of[c].exists && key + core::result_key(k) < work.end ? score[k] : no_score);
        }
      }
      CRK_UNROLL
      for (int k = 0; k < tall; k++) {
        bool any_row = false;
        CRK_UNROLL
        for (int c = 0; c < columns; c++) {
          any_row = any_row || scores.at(k, c) != no_score;
        }
        seen_keys |= core::keys_of(k, ballot(any_row));
      }
    } else if (checked) {
      CRK_UNROLL
      for (int k = 0; k < tall; k++) {
        const uint32_t place = key + core::result_key(k);
        CRK_UNROLL
        for (int c = 0; c < columns; c++) {
          scores.set(k, c, place < work.end ? row_of[c].score(scores.at(k, c), place) : no_score);
        }
      }
    }
    bool grows = false;
    CRK_UNROLL
    for (int c = 0; c < columns; c++) {
      most[c] = scores.at(0, c);
      CRK_UNROLL
      for (int k = 1; k < tall; k++) {
        most[c] = max_number(most[c], scores.at(k, c));
      }
      most[c] *= factor;
      grows = grows || most[c] > limit[c];
    }
    if (any(grows)) {
      move_bases(most);
    }
    CRK_UNROLL
    for (int k = 0; k < tall; k++) {
      CRK_UNROLL
      for (int c = 0; c < columns; c++) {
        const float score = scores.at(k, c);
        const float weight = exp2_near(General ? score - base[c] : fma(score, factor, -base[c]));
        total[c] += weight;
        scores.set(k, c, weight);
      }
    }
    return seen_keys;
  }
  CRK_FN void move_bases(const float (&most)[columns]) {
    float scale[columns];
    bool had_base = false;
    CRK_UNROLL
    for (int c = 0; c < columns; c++) {
      const float limit_before = limit[c], base_before = base[c];
      limit[c] = max_number(limit_before, core::over_keys(most[c], larger()) - weight_top<T> + weight_room);
      /* to_weights rounds to nearest or toward 0. In the latter case it gets weights that are larger by a half-unit. */
      base[c] = limit[c] == no_score ? 0.0f : limit[c] - (weight_room + core::log2_gain);
      scale[c] = limit_before == no_score ? 1.0f : exp2_near(base_before - base[c]);
      had_base = had_base || limit_before != no_score;
    }
    if (any(had_base)) {
      CRK_UNROLL
      for (int c = 0; c < columns; c++) {
        total[c] *= scale[c];
        CRK_UNROLL
        for (int s = 0; s < spans; s++) {
          CRK_UNROLL
          for (int j = 0; j < products; j++) {
            CRK_UNROLL
            for (int k = 0; k < tall; k++) {
              sums[s][j].set(k, c, sums[s][j].at(k, c) * scale[c]);
            }
          }
        }
      }
    }
  }

  CRK_FN void add_values(values &from, int some, const typename core::weights &weights, uint32_t seen_keys) {
    if (General && seen_keys != 0xffff) {
      CRK_UNROLL
      for (int i = 0; i < core::value_keys; i++) {
        const bool seen = (seen_keys >> (core::first_value_key() + core::next_value_key(i)) & 1) != 0;
        CRK_UNROLL
        for (int s = 0; s < some_spans; s++) {
          CRK_UNROLL
          for (int w = 0; w < E / 2; w++) {
            from.x[s][i].v[w] = seen ? from.x[s][i].v[w] : 0;
          }
        }
      }
    }
    CRK_UNROLL
    for (int s = 0; s < some_spans; s++) {
      core::template add_values<E>(from.x[s], weights, sums[some * some_spans + s]);
    }
  }

  /* Takes a tile, and returns the next one, from `next_key` on, if there is one. If is_ahead, the tile's first chunk is
   * in `k`, and the next tile's first chunk is loaded into `k`. It is on the way while this tile's values are used. No
   * other condition guards a load, so the compiler knows how many loads are on the way. The next tile is not found
   * earlier: kernels for gfx11-generic would lack registers. */
  template <bool Plain, bool HasNext>
  CRK_FN key_tile take_tile(keys &k, const key_tile &tile, uint32_t next_key, bool checked) {
    key_tile next = {};
    if constexpr (!is_ahead || !Plain) {
      load_keys<Plain>(k, tile, 0);
    }
    values v;
    if constexpr (Plain) {
      load_values<Plain>(v, tile, 0);
    }
    results scores = {};
    CRK_UNROLL
    for (int chunk = 0; chunk < chunks; chunk++) {
      if constexpr (core::stages_keys) {
        stage_keys(k);
      } else {
        add_scores(k, chunk, scores);
      }
      if (chunk + 1 < chunks) {
        load_keys<Plain>(k, tile, chunk + 1);
      } else if constexpr (HasNext && is_ahead) {
        next = find_tile(next_key);
        load_keys<Plain>(k, next, 0);
      }
      if constexpr (core::stages_keys) {
        add_scores(k, chunk, scores);
      }
      if (chunks > 1) {
        keep_order();
      }
    }
    const uint32_t seen_keys = weigh(scores, tile.key, checked);
    const typename core::weights weights = core::to_weights(scores, stage);
    CRK_UNROLL
    for (int some = 0; some < spans / some_spans; some++) {
      if (some > 0) {
        keep_order();
      }
      if (!Plain || some > 0) {
        load_values<Plain>(v, tile, some);
      }
      add_values(v, some, weights, seen_keys);
    }
    if constexpr (HasNext && !is_ahead) {
      next = find_tile(next_key);
    }
    return next;
  }

  /* Takes the tiles at every `step`-th key from `tile` on that begin before `end`, and returns the next key. The first
   * keys are in `k` if requests_first. */
  CRK_FN uint32_t take_plain(keys &k, key_tile tile, uint32_t end, uint32_t step, bool checked) {
    if (tile.key >= end) {
      return tile.key;
    }
    if constexpr (is_ahead && !requests_first) {
      load_keys<true>(k, tile, 0);
    }
    CRK_ONE_BY_ONE
    while (end - tile.key > step) {
      tile = take_tile<true, true>(k, tile, tile.key + step, checked);
    }
    take_tile<true, false>(k, tile, 0, checked);
    return tile.key + step;
  }
  CRK_FN void take_rest(uint32_t key, uint32_t step) {
    CRK_ONE_BY_ONE
    for (; key < work.end; key += step) {
      keys k;
      take_tile<false, false>(k, {key, {}}, 0, true);
    }
  }

  CRK_FN void end() {
    CRK_UNROLL
    for (int c = 0; c < columns; c++) {
      total[c] = core::over_keys(total[c], plus()) * (1.0f / core::gain);
    }
  }

  /* For store_part. */
  CRK_FN static bool owns(int) { return core::result_key(0) == 0; }
  CRK_FN static uint32_t row(int c) { return core::result_row(c); }
  CRK_FN float base_of(int c) const { return limit[c] == no_score ? no_score : limit[c] - weight_room; }
  template <class F>
  CRK_FN void each(int c, F f) const {
    constexpr int at_once = products % 4 == 0 ? 4 : 2;
    CRK_UNROLL
    for (int s = 0; s < spans; s++) {
      CRK_UNROLL
      for (int k = 0; k < tall; k++) {
        CRK_UNROLL
        for (int first = 0; first < products; first += at_once) {
          pack<float, at_once> values;
          CRK_UNROLL
          for (int j = 0; j < at_once; j++) {
            values.v[j] = sums[s][first + j].at(k, c);
          }
          f(s * span + core::template value_number<E>(k) + first, values);
        }
      }
    }
  }
};

/* The fewest tiles of a wave with which the first one is prefetched. Shorter calls were only timed without that. */
inline constexpr uint32_t worth_prefetching = 3;

template <class T, int Width, bool General>
CRK_FN void attention_split_cores(const crk_attention_call_t &call) {
  using cores = split_cores<T, Width, General>;
  using core = stream_core<T>;
  /* Staged keys, in whose place the sums of the waves are joined in the end; then the query rows. */
  constexpr uint32_t staged = stream_waves * cores::stage_numbers * sizeof(T);
  constexpr uint32_t joined = split_numbers<Width> * sizeof(float), first_row = staged > joined ? staged : joined;
  CRK_SHARED(aligned_pack, room, (first_row + (cores::is_shared ? core::rows * cores::pitch * sizeof(T) : 0)) / 16);
  static_assert(cores::is_shared || core::rows * cores::pitch * sizeof(T) <= first_row, "room for the rows at first");
  T *const rows = reinterpret_cast<T *>(room + first_row / 16), *const stages = reinterpret_cast<T *>(room);
  if (General || call.q_starts != nullptr) {
    wait_for_launch_before(); /* slopes, prefixes and lengths are in memory */
  }
  const split_work work(call);
  const uint32_t step = work.next_key(call, cores::tile);
  /* A tile of a cache in blocks has one place. */
  const bool has_places =
      call.block_table == nullptr || (static_cast<uint32_t>(call.block.size) | work.begin) % cores::tile == 0;
  const bool is_plain = has_plain_rows<Width>(call) && has_places, is_checked = General || has_windows(call, work);
  const uint32_t first = block_index().y * core::rows;
  if (first >= work.rows) {
    return;
  }
  cores wave(call, work, first, rows, stages);
  typename cores::keys keys;
  uint32_t key = work.first_key(call, cores::tile);
  const uint32_t plain_end = is_plain && work.end - work.begin >= cores::tile ? work.end - cores::tile + 1 : 0;
  typename cores::key_tile tile = {key, {}};
  /* The launch before may still store keys, so they are not loaded yet. */
  if (!General && is_plain && call.q_starts == nullptr && key < plain_end &&
      work.end - work.begin >= worth_prefetching * step) {
    wave.prefetch_tile(key);
  }
  wait_for_launch_before();
  typename cores::row_pieces pieces;
  wave.request_rows(pieces, first);
  if (key < plain_end) {
    tile = wave.find_tile(key);
    if constexpr (cores::requests_first) {
      wave.template load_keys<true>(keys, tile, 0);
    }
  }
  wave.load_rows(pieces, first, cores::is_shared ? rows : stages, is_plain);
  key = wave.take_plain(keys, tile, plain_end, step, is_checked);
  wave.take_rest(key, step);
  wave.end();
  /* General kernels find their work again. Keeping it takes more scalar registers than they have. */
  const split_work own = General ? split_work(reread(call)) : work;
  store_part<core::rows, Width, core::stages_keys, T>(reread(call), own, first, wave, reinterpret_cast<float *>(room));
  combine_last<core::rows, Width, T, General>(reread(call), own, first, reinterpret_cast<float *>(room));
}

}  // namespace
}  // namespace crk
#endif

#endif
