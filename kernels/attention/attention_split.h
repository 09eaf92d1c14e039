/* Attention for few queries, as in decoding. The keys of a sequence are cut into parts; a block computes one part of
 * one kv head, for up to 16 query rows of that kv head, and reads each key and value of the part once. A row is one
 * query of one head. The last block of a row to finish adds up the parts (attention_combine.h), always in the same
 * order.
 *
 * With matrix cores (platform/stream.h), values in f16 and bf16 go from global memory into their operands, and so do
 * keys on NVIDIA GPUs (attention_split_cores.h). Everything else multiplies in the lanes (attention_split_lanes.h).
 * This file holds what both share.
 *
 * Scores are kept as exponents of 2. A row has a base, and weights 2^(score - base). The base follows the largest score
 * only if that has grown by more than `weight_room`, since then all sums must be scaled. */
#ifndef CRK_ATTENTION_SPLIT_H
#define CRK_ATTENTION_SPLIT_H

#include "attention/attention_scores.h"
#include "platform/blocks.h"
#include "quantized/q8_1.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* A block has at most `split_most_waves` waves; on the CPU it has half as many if waves have 64 lanes. It is small
 * there, because each thread costs a stack. */
inline constexpr uint32_t split_threads = on_host ? 64 : stream_waves * most_lanes;
inline constexpr uint32_t split_most_waves = on_host ? 2 : stream_waves;

/* The largest weight is at most 2^weight_room; 2^weight_top when the base is set. */
inline constexpr float weight_room = 14.0f;

/* ---- The work of a block ---- */

/* The kv head of a block, its query rows, and the keys that any of them sees: from `begin` up to `end`. The waves of
 * all parts take tiles of keys in turn: first one wave of each part, then the next one. So all blocks read close to
 * each other, no part has many tiles more than another, and a wave has at most one more. */
struct split_work {
  uint32_t part, kv_head;
  attention_sequence sequence;
  uint32_t rows, begin, end;

  CRK_FN explicit split_work(const crk_attention_call_t &call) : split_work(call, part_and_head(call)) {}
  /* `head` counts kv heads, then sequences. */
  CRK_FN split_work(const crk_attention_call_t &call, uint32_t part, uint32_t head)
      : part(part),
        kv_head(take_coordinate(head, call.kv_heads)),
        sequence(call, head),
        rows(sequence.queries * static_cast<uint32_t>(call.group.size)),
        begin(0),
        end(sequence.keys) {
    /* The first query sees the first of the keys that any query sees, the last query the last key. Prefixes may show
     * any key. */
    if (call.left != UINT32_MAX && call.prefix_count == 0) {
      const uint32_t first = attention_window(call, sequence, 0).first;
      begin = first < end ? first : end;
    }
  }

  /* The first key of this thread's wave, and the distance to its next one, if a wave takes `tile` keys at a time. */
  CRK_FN uint32_t first_key(const crk_attention_call_t &call, uint32_t tile) const {
    return begin + (wave_in_block() * static_cast<uint32_t>(call.parts.size) + part) * tile;
  }
  CRK_FN static uint32_t next_key(const crk_attention_call_t &call, uint32_t tile) {
    return static_cast<uint32_t>(call.parts.size) * (split_threads / wave_size()) * tile;
  }

  /* The query and the head of a row. */
  CRK_FN void find_row(const crk_attention_call_t &call, uint32_t row, uint32_t &query, uint32_t &head) const {
    query = row;
    const uint32_t member = take_coordinate(query, call.group);
    head = kv_head * static_cast<uint32_t>(call.group.size) + member;
  }

 private:
  struct part_head {
    uint32_t part, head;
  };
  CRK_FN split_work(const crk_attention_call_t &call, part_head of) : split_work(call, of.part, of.head) {}
  CRK_FN static part_head part_and_head(const crk_attention_call_t &call) {
    uint32_t head = static_cast<uint32_t>(call.first_block) + block_index().x;
    const uint32_t part = take_coordinate(head, call.parts);
    return {part, head};
  }
};

/* The largest distance between rows, in elements, with which the offset of a lane's row fits in 32 bits. */
inline constexpr uint64_t split_most_row = 1 << 24;

/* Whether the rows of keys and values are as wide as the kernel, aligned, and near each other (in blocks of a cache:
 * near the others of their block). */
template <int Width>
CRK_FN bool has_plain_rows(const crk_attention_call_t &call) {
  return call.by_vectors != 0 && call.d == Width && call.dv == Width && call.k_strides.row < split_most_row &&
         call.v_strides.row < split_most_row;
}

/* Whether some rows of a sequence may see fewer keys than others. */
CRK_FN bool has_windows(const crk_attention_call_t &call, const split_work &work) {
  return work.sequence.queries > 1 && (call.left != UINT32_MAX || call.right != UINT32_MAX);
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
  CRK_FN float score(float dot, uint32_t key) const { return window.has(key) ? dot : no_score; }

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
  CRK_FN float score(float dot, uint32_t key) const { return exists ? query.score(dot, key) : no_score; }

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

/* 2^(base - to); 0 if a row has no base. */
CRK_FN float base_scale(float base, float to) { return base == no_score ? 0.0f : exp2_near(base - to); }

/* Four neighbouring numbers of a row: sums over some keys. */
struct split_sums {
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
  /* Adds the sums over other keys. Their base is at most this one; without a base they are not used. */
  CRK_FN void add(float other_base, float other_total, const pack<float, 4> &other) {
    const float scale = base_scale(other_base, base);
    total = fma(other_total, scale, total);
    CRK_UNROLL
    for (int j = 0; j < 4; j++) {
      sums[j] = other_base == no_score ? sums[j] : fma(other.v[j], scale, sums[j]);
    }
  }
};

/* Stores a row's numbers from `number` on in dst, and the row's lse. All lanes of a wave come; those with `exists` have
 * numbers. Eight lanes in a row have numbers of one block of call.columns. */
template <class T>
CRK_FN void store_result(const crk_attention_call_t &call, const split_work &work, uint32_t row, uint32_t number,
                         bool exists, const split_sums &from) {
  uint64_t at = 0;
  pack<T, 4> result = {};
  if (exists) {
    uint32_t query, head;
    work.find_row(call, row, query, head);
    at = row_offset(work.sequence, call.dst_strides, query, head) + number;
    T *to = static_cast<T *>(call.dst) + at;
    const float inverse = half<T> ? reciprocal_near(from.total) : 1.0f / from.total;
    const float scale = from.total == 0.0f ? 0.0f : inverse;
    CRK_UNROLL
    for (int j = 0; j < 4; j++) {
      result.v[j] = convert<T>(from.sums[j] * scale);
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
      store_lse(call, work.sequence, query, head, from.base, from.total);
    }
  }
  void *const columns = reread(call).columns;
  if (columns != nullptr) {
    const q8_1_share<4> share = quantize_share(result, CRK_SUM_OF_CODES);
    if (exists) {
      share.store(static_cast<block_q8_1 *>(columns), at);
    }
  }
}

/* The waves of a block join join_rows rows at once. A row takes join_pitch numbers of shared memory, so that lanes
 * that store together reach different banks. All these rows of all waves take join_numbers numbers. */
template <int Width>
inline constexpr uint32_t join_rows = Width * split_most_waves > 2048 ? 2 : 4;
template <int Width>
inline constexpr uint32_t join_pitch = Width + 8;
template <int Width>
inline constexpr uint32_t join_numbers = split_most_waves * join_rows<Width> * join_pitch<Width>;

/* Numbers of shared memory for store_part, and for combine_last after it. */
template <int Width>
inline constexpr uint32_t split_numbers =
    join_numbers<Width> > 6 * split_threads ? join_numbers<Width> : 6 * split_threads;

/* That shared memory is an array of these. */
struct alignas(16) aligned_pack {
  uint32_t word[4];
};

CRK_FN void store_joined(float *to, float value) { *to = value; }
template <int V>
CRK_FN void store_joined(float *to, const pack<float, V> &values) {
  store_pack<float, V>(to, values);
}

/* Adds up what the waves of a block have for Rows rows, and stores it: in scratch memory, or in dst if there is one
 * part. `room` is shared memory for join_numbers<Width> numbers, aligned to 16 bytes. If RoomInUse, other threads may
 * still use it before they come. `Part` is the wave's share:
 *
 *   bool owns(int c)           whether this lane gives base and total of its c-th row
 *   uint32_t row(int c)        that row, below Rows
 *   float base_of(int c), total[columns]
 *   void each(int c, F f)      calls f(number, value) for each sum of that row in this lane. The value may be a pack of
 *                              neighbouring sums, aligned to its size */
template <int Rows, int Width, bool RoomInUse, class T, class Part>
CRK_FN void store_part(const crk_attention_call_t &call, const split_work &work, uint32_t first_row, const Part &part,
                       float *room) {
  constexpr uint32_t columns = Width / 4;
  let_next_launch_begin(); /* memory is idle from here on */
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
  for (uint32_t first = 0; first < rows; first += join_rows<Width>) {
    if (RoomInUse || first > 0) {
      shared_barrier();
    }
    CRK_UNROLL
    for (int c = 0; c < Part::columns; c++) {
      const uint32_t place = part.row(c) - first;
      if (place < join_rows<Width>) {
        float *to = room + (wave * join_rows<Width> + place) * join_pitch<Width>;
        part.each(c, [&](uint32_t number, const auto &value) { store_joined(to + number, value); });
      }
    }
    shared_barrier();
    const uint32_t here = rows - first < join_rows<Width> ? rows - first : join_rows<Width>;
    CRK_NO_UNROLL
    for (uint32_t begin = 0; begin < here * columns; begin += split_threads) {
      const uint32_t item = begin + thread_index().x, place = item / columns, row = first + place;
      const uint32_t number = item % columns * 4;
      const bool exists = item < here * columns && number < dv;
      split_sums sum;
      if (exists) {
        CRK_UNROLL
        for (uint32_t w = 0; w < split_most_waves; w++) {
          sum.base = w < waves ? max_number(sum.base, bases[w * Rows + row]) : sum.base;
        }
        CRK_UNROLL
        for (uint32_t w = 0; w < split_most_waves; w++) {
          if (w < waves) {
            sum.add(bases[w * Rows + row], totals[w * Rows + row],
                    load_aligned<float, 4>(room + (w * join_rows<Width> + place) * join_pitch<Width> + number));
          }
        }
        if (parts > 1) {
          const uint64_t at = scratch_row(call, work.sequence, work.kv_head, first_row + row) + work.part;
          if (sum.base != no_score) {
            store_passed<4>(call.sums + at * dv + number, {{sum.sums[0], sum.sums[1], sum.sums[2], sum.sums[3]}});
          }
          if (number == 0) {
            store_passed<2>(call.weights + 2 * at, {{sum.base, sum.total}});
          }
        }
      }
      if (parts == 1) {
        store_result<T>(call, work, first_row + row, number, exists, sum);
      }
    }
  }
}

}  // namespace
}  // namespace crk

#endif
