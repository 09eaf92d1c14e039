/* Attention for few queries, as in decoding. The keys of a sequence are cut into parts; a block computes one part of
 * one kv head, for all query rows of that kv head, so each key and value is read once. A row is one query of one head.
 * A second kernel, `attention_combine`, adds up the parts, always in the same order.
 *
 * With matrix cores (platform/stream.h), f16 and bf16 go from global memory into their operands
 * (attention_split_cores.h). Everything else multiplies in the lanes (attention_split_lanes.h). This file holds what
 * both share.
 *
 * Scores are kept as exponents of 2. A row has a base, and weights 2^(score - base). The base follows the largest score
 * only if that has grown by more than `weight_room`, since then all sums must be scaled. */
#ifndef CRK_ATTENTION_SPLIT_H
#define CRK_ATTENTION_SPLIT_H

#include "attention/attention_scores.h"
#ifndef JOIN_AT_ONCE
#define JOIN_AT_ONCE 8
#endif
#ifndef SPLIT_WAVES
#define SPLIT_WAVES 4
#endif

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

inline constexpr float log2_of_e_inverse = 0x1.62e43p-1f;

/* Waves of 32 or 64 lanes per block. On the CPU a block is smaller, because each thread costs a stack. */
inline constexpr uint32_t split_waves = SPLIT_WAVES;
inline constexpr uint32_t split_threads = on_host ? 64 : split_waves * most_lanes;
inline constexpr uint32_t split_most_waves = on_host ? 2 : split_waves;

/* Parts begin at multiples of this many keys. */
inline constexpr uint32_t split_step = 64;

/* The largest score is at most 2^weight_room times the weight 1, and weight_top times when the base is set. With f16,
 * such weights are below the largest number, and most small ones above the smallest normal number. */
inline constexpr float weight_room = 14.0f;
template <class T>
inline constexpr float weight_top = same<T, f16> ? 6.0f : 0.0f;

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

/* The scores of a row: dot products, which become exponents of 2 by multiplication with log2(e) and the scale, a
 * positive number. Scores of a General call are these exponents already. The score of a key that the row does not see
 * is no_score; a row beyond the last one sees none. */
template <class T, bool General>
struct split_row {
  attention_window window;

  CRK_FN split_row(const crk_attention_call_t &call, const split_work &work, uint32_t row)
      : window(call, work.sequence, row_query(call, work, row)) {
    window.count = row < work.rows ? window.count : 0;
  }
  CRK_FN float score(float dot, uint32_t key, bool checked) const {
    return !checked || window.has(key) ? dot : no_score;
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

/* Rows that the waves of a block join at once. */
inline constexpr uint32_t join_rows = 4;
template <int Width>
inline constexpr uint32_t join_numbers = split_most_waves *join_rows *Width > 6 * split_threads
                                             ? split_most_waves * join_rows * Width
                                             : 6 * split_threads;

/* 2^(base - to); 0 if a row has no base. */
CRK_FN float base_scale(float base, float to) { return base == no_score ? 0.0f : exp2_near(base - to); }

/* Rows per kv head of the longest sequence. */
CRK_FN uint32_t most_rows(const crk_attention_call_t &call) {
  return call.queries * static_cast<uint32_t>(call.group.size);
}
/* The number of a row in scratch memory, where the parts of a row lie one after the other. */
CRK_FN uint64_t scratch_row(const crk_attention_call_t &call, const split_work &work, uint32_t row) {
  return (work.sequence.number * call.kv_heads.size + work.kv_head) * most_rows(call) + row;
}

/* Four numbers of a row, summed up over some parts. */
struct part_sum {
  float base = no_score, total = 0.0f, sums[4] = {};

  CRK_FN void raise(float to) {
    const float scale = base_scale(base, to);
    base = to;
    total *= scale;
    CRK_UNROLL
    for (int j = 0; j < 4; j++) {
      sums[j] *= scale;
    }
  }
  CRK_FN void add(float part_base, float part_total, const pack<float, 4> &part) {
    const float scale = base_scale(part_base, base);
    total = fma(part_total, scale, total);
    CRK_UNROLL
    for (int j = 0; j < 4; j++) {
      sums[j] = scale == 0.0f ? sums[j] : fma(part.v[j], scale, sums[j]); /* without keys, a part has no sums */
    }
  }
};

/* Adds up all parts of `rows` rows, and stores the results in dst. A thread takes four neighbouring numbers of a row.
 * Groups of threads share the parts, if there are enough threads. */
template <int Width, class T>
CRK_FN void join_parts(const crk_attention_call_t &call, const split_work &work, uint32_t first_row, uint32_t rows,
                       float *room, T *dst) {
  constexpr uint32_t columns = Width / 4;
  constexpr int at_once = JOIN_AT_ONCE; /* parts whose loads are on the way */
  const uint32_t parts = static_cast<uint32_t>(call.parts.size), dv = call.dv, items = rows * columns;
  uint32_t log2_groups = 0;
  while (items << (log2_groups + 1) <= split_threads && 1u << log2_groups < parts) {
    log2_groups++;
  }
  const uint32_t places = split_threads >> log2_groups, groups = 1u << log2_groups;
  const uint32_t place = thread_index().x & (places - 1), group = thread_index().x / places;
  CRK_NO_UNROLL
  for (uint32_t item = place; item < items || item == place; item += places) {
    const uint32_t row = item / columns, number = item % columns * 4;
    const bool exists = item < items && number < dv;
    part_sum sum;
    if (exists) {
      const uint64_t first = scratch_row(call, work, first_row + row) * parts;
      const float *const weights = call.weights + 2 * first, *const sums = call.sums + first * dv + number;
      CRK_NO_UNROLL
      for (uint32_t part = group; part < parts; part += groups * at_once) {
        pack<float, 2> weight[at_once];
        pack<float, 4> some[at_once];
        float base = sum.base;
        CRK_UNROLL
        for (int i = 0; i < at_once; i++) {
          const uint32_t number_of = part + i * groups, at = number_of < parts ? number_of : part;
          weight[i] = load_aligned<float, 2>(weights + 2 * at);
          some[i] = load_aligned<float, 4>(sums + static_cast<uint64_t>(at) * dv);
          weight[i].v[0] = number_of < parts ? weight[i].v[0] : no_score;
        }
        CRK_UNROLL
        for (int i = 0; i < at_once; i++) {
          base = max_number(base, weight[i].v[0]);
        }
        sum.raise(base);
        CRK_UNROLL
        for (int i = 0; i < at_once; i++) {
          sum.add(weight[i].v[0], weight[i].v[1], some[i]);
        }
      }
    }
    if (groups > 1) {
      float *const mine = room + thread_index().x;
      mine[0] = sum.base;
      mine[split_threads] = sum.total;
      CRK_UNROLL
      for (int j = 0; j < 4; j++) {
        mine[(2 + j) * split_threads] = sum.sums[j];
      }
      barrier();
      if (group == 0) {
        for (uint32_t g = 1; g < groups; g++) {
          const float *const other = mine + g * places;
          sum.raise(max_number(sum.base, other[0]));
          sum.add(other[0], other[split_threads], {{other[2 * split_threads], other[3 * split_threads],
                                                    other[4 * split_threads], other[5 * split_threads]}});
        }
      }
    }
    if (exists && group == 0) {
      uint32_t query, head;
      work.find_row(call, first_row + row, query, head);
      T *to = dst + row_offset(work.sequence, call.dst_strides, query, head) + number;
      const float scale = sum.total == 0.0f ? 0.0f : 1.0f / sum.total;
      pack<T, 4> result;
      CRK_UNROLL
      for (int j = 0; j < 4; j++) {
        result.v[j] = convert<T>(sum.sums[j] * scale);
      }
      if (call.by_vectors != 0) {
        store_pack<T, 4>(to, result);
      } else {
        CRK_UNROLL
        for (int j = 0; j < 4; j++) {
          to[j] = result.v[j];
        }
      }
      if (number == 0) {
        store_lse(call, work.sequence, query, head, sum.base, sum.total);
      }
    }
  }
}

/* Adds up what the waves of a block have for Rows rows, and stores it: in scratch memory, or in dst if there is one
 * part. `room` is shared memory for join_numbers<Width> numbers, and may be in use before. `Part` is the wave's share:
 *
 *   bool owns(int c)           whether this lane gives base and total of its c-th row
 *   uint32_t row(int c)        that row, below Rows
 *   float base_of(int c), total[columns]
 *   void each(int c, F f)      calls f(number, value) for each sum of that row in this lane */
template <int Rows, int Width, class T, class Part>
CRK_FN void store_part(const crk_attention_call_t &call, const split_work &work, uint32_t first_row, const Part &part,
                       float *room, T *dst) {
  CRK_SHARED(float, bases, split_most_waves *Rows);
  CRK_SHARED(float, totals, split_most_waves *Rows);
  const uint32_t wave = wave_in_block(), waves = split_threads / wave_size();
  const uint32_t dv = call.dv, parts = static_cast<uint32_t>(call.parts.size);
  const uint32_t rows = work.rows - first_row < Rows ? work.rows - first_row : Rows;
  CRK_UNROLL
  for (int c = 0; c < Part::columns; c++) {
    if (part.owns(c)) {
      bases[wave * Rows + part.row(c)] = part.base_of(c);
      totals[wave * Rows + part.row(c)] = part.total[c];
    }
  }
  CRK_NO_UNROLL
  for (uint32_t first = 0; first < rows; first += join_rows) {
    barrier();
    CRK_UNROLL
    for (int c = 0; c < Part::columns; c++) {
      const uint32_t place = part.row(c) - first;
      if (place < join_rows) {
        float *to = room + (wave * join_rows + place) * Width;
        part.each(c, [&](uint32_t number, float value) { to[number] = value; });
      }
    }
    barrier();
    /* A wave takes a row. */
    CRK_NO_UNROLL
    for (uint32_t r = first + wave; r < rows && r < first + join_rows; r += waves) {
      float base = no_score, total = 0.0f, scales[split_most_waves];
      CRK_UNROLL
      for (uint32_t w = 0; w < split_most_waves; w++) {
        base = w < waves ? max_number(base, bases[w * Rows + r]) : base;
      }
      CRK_UNROLL
      for (uint32_t w = 0; w < split_most_waves; w++) {
        if (w < waves) {
          scales[w] = base_scale(bases[w * Rows + r], base);
          total += totals[w * Rows + r] * scales[w];
        }
      }
      const auto number_of = [&](uint32_t i) {
        float sum = 0.0f;
        CRK_UNROLL
        for (uint32_t w = 0; w < split_most_waves; w++) {
          sum = w < waves ? fma(room[(w * join_rows + r - first) * Width + i], scales[w], sum) : sum;
        }
        return sum;
      };
      uint32_t query, head;
      work.find_row(call, first_row + r, query, head);
      if (parts == 1) {
        T *to = dst + row_offset(work.sequence, call.dst_strides, query, head);
        const float scale = total == 0.0f ? 0.0f : 1.0f / total;
        for (uint32_t i = lane(); i < dv; i += wave_size()) {
          to[i] = convert<T>(number_of(i) * scale);
        }
        if (lane() == 0) {
          store_lse(call, work.sequence, query, head, base, total);
        }
      } else {
        const uint64_t at = scratch_row(call, work, first_row + r) * parts + work.part;
        if (base != no_score) {
          float *to = call.sums + at * dv;
          for (uint32_t i = lane(); i < dv; i += wave_size()) {
            to[i] = number_of(i);
          }
        }
        if (lane() == 0) {
          store_pack<float, 2>(call.weights + 2 * at, {{base, total}});
        }
      }
    }
  }
  if (parts > 1) {
    const uint32_t groups = (most_rows(call) + Rows - 1) / Rows;
    const uint32_t number = (work.sequence.number * static_cast<uint32_t>(call.kv_heads.size) + work.kv_head) * groups;
    if (last_of_blocks(call.counters + number + first_row / Rows, parts)) {
      join_parts<Width>(call, work, first_row, rows, room, dst);
    }
  }
}

}  // namespace
}  // namespace crk

#endif
