/* Attention for few queries on matrix cores (attention_split.h). A wave takes 16 keys at a time. Their dot products
 * with the query rows have the layout of an operand, so weights go into the second product without shared memory. Rows
 * of k and v that are loaded plainly take no arithmetic on addresses in the vector units of AMD GPUs. */
#ifndef CRK_ATTENTION_SPLIT_CORES_H
#define CRK_ATTENTION_SPLIT_CORES_H

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

struct alignas(16) aligned_pack {
  uint32_t word[4];
};

/* What a wave has of the query rows, and its sums. */
template <class T, int Width, bool General>
struct split_cores {
  using core = stream_core<T>;
  using results = typename core::results;
  using word4 = pack<uint32_t, 4>;
  static constexpr int tile = 16, columns = core::columns, tall = core::tall;
  /* Steps of a product with keys, and how many of them are loaded at once. */
  static constexpr int steps = Width / core::step, some_steps = divisor_up_to(steps, core::chunk / core::key_packs);
  /* The same for spans of the values. A lane loads E numbers of a key in each span. */
  static constexpr int E = core::template value_numbers<Width>, span = E * core::value_lanes, spans = Width / span;
  static constexpr int some_spans = divisor_up_to(spans, core::chunk / core::value_keys),
                       products = core::template products<E>;
  using value_words = pack<uint32_t, E / 2>;
  /* Query rows with many numbers stay in shared memory. */
  static constexpr bool is_shared = steps * core::row_packs > 8;
  static constexpr int pitch = Width + 8;

  struct keys {
    word4 x[some_steps][core::key_packs];
  };
  struct values {
    value_words x[some_spans][core::value_keys];
  };

  const crk_attention_call_t &call;
  const split_work &work;
  const T *shared_rows;
  word4 query[is_shared ? 1 : steps][core::row_packs];
  attention_rows<T> key_rows, value_rows;
  split_row<T, General> row_of[columns];
  float top[columns], base[columns], total[columns];
  results sums[spans][products];

  CRK_FN split_cores(const crk_attention_call_t &call, const split_work &work, uint32_t first_row, T *room)
      : split_cores(call, work, first_row, room, typename make_indices<columns>::type()) {}
  template <int... C>
  CRK_FN split_cores(const crk_attention_call_t &call, const split_work &work, uint32_t first_row, T *room,
                     indices<C...>)
      : call(call),
        work(work),
        shared_rows(room),
        key_rows(call, work.sequence, call.k, call.k_strides, work.kv_head),
        value_rows(call, work.sequence, call.v, call.v_strides, work.kv_head),
        row_of{split_row<T, General>(call, work, first_row + core::result_row(C))...} {
    CRK_UNROLL
    for (int c = 0; c < columns; c++) {
      top[c] = no_score;
      base[c] = total[c] = 0.0f;
    }
    CRK_UNROLL
    for (int s = 0; s < spans; s++) {
      CRK_UNROLL
      for (int j = 0; j < products; j++) {
        sums[s][j] = {};
      }
    }
    load_rows(first_row, room);
  }

  CRK_FN word4 load_row(uint32_t i, uint32_t number) const {
    word4 words = {};
    if (i < work.rows && number < call.d) {
      uint32_t query, head;
      work.find_row(call, i, query, head);
      const uint64_t at = row_offset(work.sequence, call.q_strides, query, head);
      words = bit_cast<word4>(load_pack<T, 8>(static_cast<const T *>(call.q) + at + number));
    }
    return words;
  }
  CRK_FN void load_rows(uint32_t first_row, T *room) {
    if constexpr (is_shared) {
      for (uint32_t i = thread_index().x; i < core::rows * (Width / 8); i += split_threads) {
        const uint32_t r = i / (Width / 8), number = i % (Width / 8) * 8;
        store_pack(reinterpret_cast<uint32_t *>(room + r * pitch + number), load_row(first_row + r, number));
      }
      barrier();
    } else {
      CRK_UNROLL
      for (int s = 0; s < steps; s++) {
        CRK_UNROLL
        for (int p = 0; p < core::row_packs; p++) {
          query[s][p] =
              load_row(first_row + core::first_row(), s * core::step + core::first_number() + core::next_number(p));
        }
      }
    }
  }

  /* Loads some steps of the keys from `key` on. Plain: all keys are there, and every address is aligned and near. */
  template <bool Plain>
  CRK_FN void load_keys(keys &to, uint32_t key, int some) const {
    const uint32_t row_bytes = static_cast<uint32_t>(key_rows.row_stride * sizeof(T));
    CRK_UNROLL
    for (int p = 0; p < core::key_packs; p++) {
      const uint32_t number = core::first_number() + core::next_number(p);
      if constexpr (Plain) {
        const char *from = reinterpret_cast<const char *>(key_rows.first + key * key_rows.row_stride);
        const uint32_t mine = core::first_key() * row_bytes + number * static_cast<uint32_t>(sizeof(T));
        from += core::next_key(p) * row_bytes;
        CRK_UNROLL
        for (int s = 0; s < some_steps; s++) {
          to.x[s][p] = load_aligned<uint32_t, 4>(
              reinterpret_cast<const uint32_t *>(from + mine + (some * some_steps + s) * core::step * sizeof(T)));
        }
      } else {
        const uint32_t mine = key + core::first_key() + core::next_key(p);
        const T *from = mine < work.end ? key_rows.at(mine) : nullptr;
        CRK_UNROLL
        for (int s = 0; s < some_steps; s++) {
          const uint32_t at = (some * some_steps + s) * core::step + number;
          to.x[s][p] = {};
          if (from != nullptr && at < call.d) {
            to.x[s][p] = bit_cast<word4>(load_pack<T, 8>(from + at));
          }
        }
      }
    }
  }
  template <bool Plain>
  CRK_FN void load_values(values &to, uint32_t key, int some) const {
    const uint32_t row_bytes = static_cast<uint32_t>(value_rows.row_stride * sizeof(T));
    CRK_UNROLL
    for (int i = 0; i < core::value_keys; i++) {
      if constexpr (Plain) {
        const char *from = reinterpret_cast<const char *>(value_rows.first + key * value_rows.row_stride);
        const uint32_t mine =
            core::first_value_key() * row_bytes + core::value_lane() * static_cast<uint32_t>(E * sizeof(T));
        from += core::next_value_key(i) * row_bytes;
        CRK_UNROLL
        for (int s = 0; s < some_spans; s++) {
          to.x[s][i] = load_aligned<uint32_t, E / 2>(
              reinterpret_cast<const uint32_t *>(from + mine + (some * some_spans + s) * span * sizeof(T)));
        }
      } else {
        const uint32_t mine = key + core::first_value_key() + core::next_value_key(i);
        const T *from = mine < work.end ? value_rows.at(mine) : nullptr;
        CRK_UNROLL
        for (int s = 0; s < some_spans; s++) {
          CRK_UNROLL
          for (int w = 0; w < E / 2; w++) {
            const uint32_t at = (some * some_spans + s) * span + core::value_lane() * E + 2 * w;
            to.x[s][i].v[w] = from != nullptr && at < call.dv ? bit_cast<uint32_t>(load_pack<T, 2>(from + at)) : 0;
          }
        }
      }
    }
  }

  CRK_FN void add_scores(const keys &from, int some, results &scores) const {
    CRK_UNROLL
    for (int s = 0; s < some_steps; s++) {
      const int step = some * some_steps + s;
      if constexpr (is_shared) {
        word4 row[core::row_packs];
        CRK_UNROLL
        for (int p = 0; p < core::row_packs; p++) {
          const T *at =
              shared_rows + core::first_row() * pitch + step * core::step + core::first_number() + core::next_number(p);
          row[p] = load_aligned<uint32_t, 4>(reinterpret_cast<const uint32_t *>(at));
        }
        core::add_scores(from.x[s], row, scores);
      } else {
        core::add_scores(from.x[s], query[step], scores);
      }
    }
  }

  /* Turns dot products into weights, and scales the sums if a row's top has grown. Returns the bits of the keys that any
   * row sees; all bits unless the call is General. */
  CRK_FN uint32_t weigh(results &scores, uint32_t key, bool checked) {
    float most[columns];
    uint32_t seen_keys = General ? 0 : 0xffff;
    bool grows = false;
    CRK_UNROLL
    for (int c = 0; c < columns; c++) {
      most[c] = no_score;
    }
    CRK_UNROLL
    for (int k = 0; k < tall; k++) {
      const uint32_t place = key + core::result_key(k);
      bool any_row = false;
      CRK_UNROLL
      for (int c = 0; c < columns; c++) {
        float score = row_of[c].score(scores.at(k, c), place, checked);
        score = !checked || place < work.end ? score : no_score;
        any_row = any_row || score != no_score;
        scores.set(k, c, score);
        most[c] = max_number(most[c], score);
      }
      if constexpr (General) {
        seen_keys |= core::keys_of(k, ballot(any_row));
      }
    }
    CRK_UNROLL
    for (int c = 0; c < columns; c++) {
      grows = grows || most[c] > top[c];
    }
    if (any(grows)) {
      CRK_UNROLL
      for (int c = 0; c < columns; c++) {
        const float next = max_number(top[c], core::over_keys(most[c], larger()));
        const float next_base = weight_base<T>(next);
        const float scale = top[c] == no_score ? 1.0f : exp2_near(base[c] - next_base);
        top[c] = next;
        base[c] = next_base;
        total[c] *= scale;
        CRK_UNROLL
        for (int s = 0; s < spans; s++) {
          CRK_UNROLL
          for (int j = 0; j < products; j++) {
            CRK_UNROLL
            for (int k = 0; k < tall; k++) {
              sums[s][j].set(k, c, sums[s][j].at(k, c) * scale);
            }
          }
        }
      }
    }
    CRK_UNROLL
    for (int k = 0; k < tall; k++) {
      CRK_UNROLL
      for (int c = 0; c < columns; c++) {
        const float weight = exp2_near(scores.at(k, c) - base[c]);
        total[c] += weight;
        scores.set(k, c, weight);
      }
    }
    return seen_keys;
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

  /* Takes every `step`-th key from `key` up to `end`, 16 at a time. While it waits for the keys of a tile, the values of
   * that tile are on their way; while it computes with the values, the keys of the next tile are. */
  template <bool Plain>
  CRK_FN uint32_t take(uint32_t key, uint32_t end, uint32_t step, bool checked) {
    if (key >= end) {
      return key;
    }
    keys k;
    values v;
    load_keys<Plain>(k, key, 0);
    CRK_NO_UNROLL
    while (true) {
      load_values<Plain>(v, key, 0);
      results scores = {};
      CRK_UNROLL
      for (int some = 0; some < steps / some_steps; some++) {
        if (some > 0) {
          load_keys<Plain>(k, key, some);
        }
        add_scores(k, some, scores);
      }
      const uint32_t now = key;
      key += step;
      if (key < end) {
        load_keys<Plain>(k, key, 0);
      }
      const uint32_t seen_keys = weigh(scores, now, checked);
      const typename core::weights weights = core::to_weights(scores);
      CRK_UNROLL
      for (int some = 0; some < spans / some_spans; some++) {
        if (some > 0) {
          load_values<Plain>(v, now, some);
        }
        add_values(v, some, weights, seen_keys);
      }
      if (key >= end) {
        return key;
      }
    }
  }

  /* For store_part. */
  CRK_FN static bool owns(int c) { return core::result_key(0) == 0; }
  CRK_FN static uint32_t row(int c) { return core::result_row(c); }
  template <class F>
  CRK_FN void each(F f) const {
    CRK_UNROLL
    for (int s = 0; s < spans; s++) {
      CRK_UNROLL
      for (int j = 0; j < products; j++) {
        CRK_UNROLL
        for (int k = 0; k < tall; k++) {
          CRK_UNROLL
          for (int c = 0; c < columns; c++) {
            f(c, s * span + core::template value_number<E>(k) + j, sums[s][j].at(k, c));
          }
        }
      }
    }
  }
};

/* The largest distance between rows, in elements, with which the offset of a lane's row fits in 32 bits. */
inline constexpr uint64_t split_most_row = 1 << 24;

template <class T, int Width, bool General>
CRK_FN void attention_split_cores(const crk_attention_call_t &call) {
  using cores = split_cores<T, Width, General>;
  using core = stream_core<T>;
  CRK_SHARED(aligned_pack, packs, cores::is_shared ? core::rows * cores::pitch / 8 : 1);
  T *const room = reinterpret_cast<T *>(packs);
  const split_work work(call);
  const uint32_t step = split_waves * cores::tile, begin = work.begin + wave_in_block() * cores::tile;
  const bool is_plain = call.by_vectors != 0 && call.block_table == nullptr && call.d == Width && call.dv == Width &&
                        call.k_strides.row < split_most_row && call.v_strides.row < split_most_row;
  const bool has_window = work.sequence.queries > 1 && (call.left != UINT32_MAX || call.right != UINT32_MAX);
  CRK_NO_UNROLL
  for (uint32_t first = 0; first < work.rows; first += core::rows) {
    cores wave(call, work, first, room);
    uint32_t key = begin;
    if (is_plain && work.end - work.begin >= cores::tile) {
      key = wave.template take<true>(key, work.end - cores::tile + 1, step, General || has_window);
    }
    wave.template take<false>(key, work.end, step, true);
    CRK_UNROLL
    for (int c = 0; c < cores::columns; c++) {
      wave.total[c] = core::over_keys(wave.total[c], plus());
    }
    store_part<T, core::rows, Width>(call, work, first, wave);
  }
}

}  // namespace
}  // namespace crk
#endif

#endif
