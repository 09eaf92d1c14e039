/* Attention for few queries, as in decoding. The keys of a sequence are cut into parts; a block computes one part of
 * one kv head, for all query rows of that kv head, so each key and value is read once. A row is one query of one head.
 * A second kernel, `attention_combine`, adds up the parts, always in the same order.
 *
 * With matrix cores (platform/stream.h), f16 and bf16 go from global memory into their operands
 * (attention_split_cores.h). Everything else multiplies in the lanes (attention_split_lanes.h). This file holds what
 * both share.
 *
 * Scores are kept as exponents of 2. A row has a `top`, the largest score so far, and weights 2^(score - base). For f16
 * the base is 12 below the top, so that more small weights are normal numbers of f16. */
#ifndef CRK_ATTENTION_SPLIT_H
#define CRK_ATTENTION_SPLIT_H

#include "attention/attention_scores.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

inline constexpr float log2_of_e_inverse = 0x1.62e43p-1f;

/* Waves of 32 or 64 lanes per block. On the CPU a block is smaller, because each thread costs a stack. */
inline constexpr uint32_t split_waves = 4;
inline constexpr uint32_t split_threads = on_host ? 64 : split_waves * most_lanes;
inline constexpr uint32_t split_most_waves = on_host ? 2 : split_waves;

/* Parts begin at multiples of this many keys. */
inline constexpr uint32_t split_step = 64;

template <class T>
inline constexpr float weight_bias = same<T, f16> ? 12.0f : 0.0f;
/* The base of a row's weights. */
template <class T>
CRK_FN float weight_base(float top) {
  return top == no_score ? 0.0f : top - weight_bias<T>;
}

/* ---- The work of a block ---- */

/* The kv head of a block, its query rows, and its part of the keys: from `begin` up to `end`. */
struct split_work {
  uint32_t part, kv_head;
  attention_sequence sequence;
  uint32_t rows, begin, end;

  CRK_FN explicit split_work(const crk_attention_call_t &call)
      : split_work(call, static_cast<uint32_t>(call.first_block) + block_index().x) {}

  /* The query and the head of a row. */
  CRK_FN void find_row(const crk_attention_call_t &call, uint32_t row, uint32_t &query, uint32_t &head) const {
    query = row;
    const uint32_t member = take_coordinate(query, call.group);
    head = kv_head * static_cast<uint32_t>(call.group.size) + member;
  }

 private:
  CRK_FN split_work(const crk_attention_call_t &call, uint32_t block)
      : part(take_coordinate(block, call.parts)),
        kv_head(take_coordinate(block, call.kv_heads)),
        sequence(call, block),
        rows(sequence.queries * static_cast<uint32_t>(call.group.size)) {
    /* The first query sees the first of the keys that any query sees, the last query the last key. Prefixes may show
     * any key. */
    const uint32_t keys = sequence.keys, hidden = attention_window(call, sequence, 0).first;
    const uint32_t seen = call.prefix_count != 0 ? 0 : hidden < keys ? hidden : keys;
    const uint32_t count = keys - seen, parts = static_cast<uint32_t>(call.parts.size);
    const uint32_t share = (divide(call.parts, count + parts - 1) + split_step - 1) / split_step * split_step;
    const uint32_t length = share > call.part_keys ? share : call.part_keys;
    const uint64_t first = static_cast<uint64_t>(part) * length;
    begin = first < count ? seen + static_cast<uint32_t>(first) : keys;
    end = keys - begin > length ? begin + length : keys;
  }
};

/* The first element of a row of q or dst. */
CRK_FN uint64_t row_offset(const attention_sequence &sequence, const crk_attention_strides_t &strides, uint32_t query,
                           uint32_t head) {
  return sequence.number * strides.sequence + head * strides.head +
         (static_cast<uint64_t>(sequence.first_query) + query) * strides.row;
}

/* The scores of a row, as exponents of 2. `sees` and `score` are for keys below work.end. A row beyond the last one sees
 * no key. */
template <class T, bool General>
struct split_row {
  float factor;
  attention_window window;

  CRK_FN split_row(const crk_attention_call_t &call, const split_work &work, uint32_t row)
      : factor(call.scale * log2_of_e), window(call, work.sequence, row_query(call, work, row)) {
    window.count = row < work.rows ? window.count : 0;
  }
  CRK_FN float score(float dot, uint32_t key, bool checked) const {
    return !checked || window.has(key) ? dot * factor : no_score;
  }

 private:
  CRK_FN static uint32_t row_query(const crk_attention_call_t &call, const split_work &work, uint32_t row) {
    uint32_t query, head;
    work.find_row(call, row, query, head);
    return query;
  }
};
template <class T>
struct split_row<T, true> {
  attention_query<T> query;
  bool exists;

  CRK_FN split_row(const crk_attention_call_t &call, const split_work &work, uint32_t row)
      : query(make(call, work, row < work.rows ? row : 0)), exists(row < work.rows) {}
  CRK_FN float score(float dot, uint32_t key, bool) const { return exists ? query.score(dot, key) : no_score; }

 private:
  CRK_FN static attention_query<T> make(const crk_attention_call_t &call, const split_work &work, uint32_t row) {
    uint32_t number, head;
    work.find_row(call, row, number, head);
    return attention_query<T>(call, work.sequence, head, number);
  }
};

/* ---- Results of a part ---- */

/* Stores the logarithm of a row's sum of weights. */
CRK_FN void store_lse(const crk_attention_call_t &call, const attention_sequence &sequence, uint32_t query,
                      uint32_t head, float base, float total) {
  if (call.lse != nullptr) {
    const uint64_t at = sequence.number * call.lse_sequence + head * call.lse_head + sequence.first_query + query;
    call.lse[at] = total == 0.0f ? no_score : base * log2_of_e_inverse + log(total);
  }
}

/* Adds up what the waves of a block have for Rows rows, and stores it: in scratch memory, or in dst if there is one
 * part. `Part` is the wave's share, and `merged`
 * shared memory for Rows * Width numbers, which may be in use until the first barrier:
 *
 *   static bool owns(int c)          whether this lane gives the numbers of its c-th row to `top` and `total`
 *   uint32_t row(int c)              the row, below Rows
 *   float top[columns], total[columns]
 *   void each(F f)                   calls f(c, number, value) for each sum of this lane */
template <class T, int Rows, int Width, class Part>
CRK_FN void store_part(const crk_attention_call_t &call, const split_work &work, uint32_t first_row, const Part &part,
                       float *merged) {
  CRK_SHARED(float, tops, split_most_waves *Rows);
  CRK_SHARED(float, totals, split_most_waves *Rows);
  const uint32_t wave = wave_in_block(), waves = split_threads / wave_size();
  CRK_UNROLL
  for (int c = 0; c < Part::columns; c++) {
    if (part.owns(c)) {
      tops[wave * Rows + part.row(c)] = part.top[c];
      totals[wave * Rows + part.row(c)] = part.total[c];
    }
  }
  barrier();
  float share[Part::columns];
  CRK_UNROLL
  for (int c = 0; c < Part::columns; c++) {
    float top = no_score;
    for (uint32_t w = 0; w < waves; w++) {
      top = max_number(top, tops[w * Rows + part.row(c)]);
    }
    share[c] = part.top[c] == no_score ? 0.0f : exp2_near(weight_base<T>(part.top[c]) - weight_base<T>(top));
  }
  CRK_NO_UNROLL
  for (uint32_t w = 0; w < waves; w++) {
    if (wave == w) {
      const auto place = [&](int c, uint32_t number) { return part.row(c) * Width + number; };
      if (w == 0) {
        part.each([&](int c, uint32_t number, float value) { merged[place(c, number)] = value * share[c]; });
      } else {
        part.each([&](int c, uint32_t number, float value) { merged[place(c, number)] += value * share[c]; });
      }
    }
    barrier();
  }
  const uint32_t dv = call.dv, parts = static_cast<uint32_t>(call.parts.size);
  const uint32_t rows = work.rows - first_row < Rows ? work.rows - first_row : Rows;
  CRK_NO_UNROLL
  for (uint32_t r = 0; r < rows; r++) {
    uint32_t query, head;
    work.find_row(call, first_row + r, query, head);
    float top = no_score, total = 0.0f;
    for (uint32_t w = 0; w < waves; w++) {
      top = max_number(top, tops[w * Rows + r]);
    }
    const float base = weight_base<T>(top);
    for (uint32_t w = 0; w < waves; w++) {
      const float other = tops[w * Rows + r];
      const float scale = other == no_score ? 0.0f : exp2_near(weight_base<T>(other) - base);
      total += totals[w * Rows + r] * scale;
    }
    if (parts == 1) {
      T *dst = static_cast<T *>(call.dst) + row_offset(work.sequence, call.dst_strides, query, head);
      const float scale = total == 0.0f ? 0.0f : 1.0f / total;
      for (uint32_t i = thread_index().x; i < dv; i += split_threads) {
        dst[i] = convert<T>(merged[r * Width + i] * scale);
      }
      if (thread_index().x == 0) {
        store_lse(call, work.sequence, query, head, base, total);
      }
    } else {
      const uint64_t at = ((static_cast<uint64_t>(work.part) * call.sequences + work.sequence.number) *
                               (call.kv_heads.size * call.group.size) +
                           head) *
                              call.queries +
                          query;
      for (uint32_t i = thread_index().x; i < dv; i += split_threads) {
        call.sums[at * dv + i] = merged[r * Width + i];
      }
      if (thread_index().x == 0) {
        call.weights[2 * at] = top;
        call.weights[2 * at + 1] = total;
      }
    }
  }
}

}  // namespace
}  // namespace crk

#endif
