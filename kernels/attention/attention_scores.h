/* Which keys a query sees, and what its score becomes: windows, lengths, and in kernels with General also softcap,
 * ALiBi, masks and prefixes. For attention_tile.h and attention_split.h. Main types: attention_sequence,
 * attention_query. */
#ifndef CRK_ATTENTION_SCORES_H
#define CRK_ATTENTION_SCORES_H

#include "call/attention_call.h"
#include "numbers/divisor.h"
#include "numbers/element_types.h"

namespace crk {

inline constexpr float no_score = -__builtin_huge_valf();

CRK_FN uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* When a row's base is set, its largest weight is 2^weight_top. In f16, this keeps more of the small weights above the
 * smallest normal number: below it they lose bits, and the matrix cores of gfx90a take them for 0. */
template <class T>
inline constexpr float weight_top = same<T, f16> ? 6.0f : 0.0f;

/* The tokens of a sequence. */
struct attention_sequence {
  uint32_t number;
  uint32_t first_query, queries; /* first_query: its number among the tokens of q */
  uint32_t first_key, keys;

  CRK_FN attention_sequence(const crk_attention_call_t &call, uint32_t sequence)
      : number(sequence), first_query(0), queries(call.queries), first_key(0), keys(call.keys) {
    if (call.q_starts != nullptr) {
      first_query = load_uniform(call.q_starts + sequence);
      queries = load_uniform(call.q_starts + sequence + 1) - first_query;
      first_key = load_uniform(call.k_starts + sequence);
      keys = load_uniform(call.k_starts + sequence + 1) - first_key;
    }
  }

  /* A tensor's first element of a head. */
  template <class T>
  CRK_FN const T *head(const void *first, const crk_attention_strides_t &strides, uint32_t head,
                       uint32_t first_token) const {
    return static_cast<const T *>(first) + number * strides.sequence + head * strides.head + first_token * strides.row;
  }
};

/* The first element of a row of q or dst. */
CRK_FN uint64_t row_offset(const attention_sequence &sequence, const crk_attention_strides_t &strides, uint32_t query,
                           uint32_t head) {
  return sequence.number * strides.sequence + head * strides.head +
         (static_cast<uint64_t>(sequence.first_query) + query) * strides.row;
}

/* The keys that a query sees by its window: `count` keys from `first` on, up to before `end`. Both `first` and `end`
 * rise with the query. */
struct attention_window {
  uint32_t first, end, count;

  /* Tokens are at most 2^31 - 1, and so is a limit: 32 bits hold a place and its distance from a limit. */
  CRK_FN attention_window(const crk_attention_call_t &call, const attention_sequence &sequence, uint32_t query) {
    const int32_t left = static_cast<int32_t>(call.left), right = static_cast<int32_t>(call.right); /* -1: no limit */
    const int32_t place = static_cast<int32_t>(query + sequence.keys - sequence.queries);
    const int32_t after = static_cast<int32_t>(sequence.queries - 1 - query); /* keys after the place */
    const int32_t hidden = right >= 0 && after > right ? after - right : 0;
    const int32_t last = static_cast<int32_t>(sequence.keys) - hidden;
    first = left >= 0 && place > left ? static_cast<uint32_t>(place - left) : 0;
    end = last > 0 ? static_cast<uint32_t>(last) : 0;
    count = end > first ? end - first : 0;
  }
  CRK_FN bool has(uint32_t key) const { return key - first < count; }
};

/* The scores of a query in one head, with all that kernels with General allow. */
template <class T>
struct attention_query {
  const crk_attention_call_t &call;
  attention_window window;
  const int32_t *prefixes; /* of the sequence */
  const unsigned char *mask; /* the mask's first element of the sequence, the head and the query */
  int64_t place;
  float slope;
  uint32_t keys;

  CRK_FN attention_query(const crk_attention_call_t &all, const attention_sequence &sequence, uint32_t head,
                         uint32_t query)
      : call(all),
        window(all, sequence, query),
        prefixes(all.prefixes + static_cast<uint64_t>(sequence.number) * all.prefix_count * 2),
        place(static_cast<int64_t>(query) + sequence.keys - sequence.queries),
        slope(0.0f),
        keys(sequence.keys) {
    if (all.slopes != nullptr) {
      slope = all.slopes[sequence.number * all.slopes_sequence + head * all.slopes_head];
    }
    /* Without a mask all strides are 0. A pointer that may be NULL by a condition would be one to any memory. */
    const uint64_t at =
        sequence.number * all.mask_strides.sequence + head * all.mask_strides.head + query * all.mask_strides.row;
    const uint32_t bytes = all.mask_kind == CRK_ATTENTION_BYTE_MASK      ? 1
                           : all.mask_kind == CRK_ATTENTION_ADD_F32_MASK ? 4
                                                                         : static_cast<uint32_t>(sizeof(T));
    mask = static_cast<const unsigned char *>(all.mask) + at * bytes;
  }

  /* Makes scores, as logarithms to base 2, of dot products of the query and keys. Number i belongs to key `key(i)`.
   * Each condition stands outside of the loop over the numbers, which is unrolled. */
  template <int Count, class Key>
  CRK_FN void make_scores(float (&score)[Count], const Key &key) const {
    const float unit = call.softcap != 0.0f ? 1.0f : log2_of_e;
    each(score, [&](float s, uint32_t) { return s * (call.scale * unit); }, key);
    if (call.softcap != 0.0f) {
      const float outer = call.softcap * log2_of_e;
      if constexpr (same<T, float>) {
        each(score, [&](float s, uint32_t) { return outer * tanh(s / call.softcap); }, key);
      } else {
        /* tanh x = 1 - 2 / (e^2x + 1). The error is 2^-22 of the cap, far below a half's. */
        const float inner = 2.0f * log2_of_e / call.softcap;
        each(
            score,
            [&](float s, uint32_t) { return outer - 2.0f * outer * reciprocal_near(exp2_near(s * inner) + 1.0f); },
            key);
      }
    }
    if (call.mask_kind == CRK_ATTENTION_BYTE_MASK) {
      add_mask<unsigned char>(score, key);
    } else if (call.mask_kind == CRK_ATTENTION_ADD_F32_MASK) {
      add_mask<float>(score, key);
    } else if (call.mask_kind == CRK_ATTENTION_ADD_MASK) {
      add_mask<T>(score, key);
    }
    if (call.slopes != nullptr) {
      const float fall = slope * log2_of_e;
      each(
          score,
          [&](float s, uint32_t k) {
            const int64_t distance = place - k;
            return s - fall * static_cast<float>(static_cast<uint32_t>(distance < 0 ? -distance : distance));
          },
          key);
    }
    if (call.prefix_count == 0) {
      each(score, [&](float s, uint32_t k) { return window.has(k) ? s : no_score; }, key);
    } else {
      leave_unseen(score, key);
    }
  }

  /* The same for one key. */
  CRK_FN float score(float dot, uint32_t key) const {
    float one[1] = {dot};
    make_scores(one, [key](int) { return key; });
    return one[0];
  }

 private:
  template <int Count, class Change, class Key>
  CRK_FN static void each(float (&score)[Count], const Change &change, const Key &key) {
    CRK_UNROLL
    for (int i = 0; i < Count; i++) {
      if (i % 4 == 0) {
        keep_order(); /* else conditions of all numbers are live at once */
      }
      score[i] = change(score[i], key(i));
    }
  }
  /* Up to 16 numbers of the mask are requested before one of them is used. Waves of 32 lanes have registers for four,
   * unless keys and values reach shared memory without registers. */
  template <class M, int Count, class Key>
  CRK_FN void add_mask(float (&score)[Count], const Key &key) const {
    constexpr int most = most_lanes == 64 || async_copies::present ? 16 : 4;
    constexpr int at_once = Count % most == 0 ? most : Count % (most / 2) == 0 ? most / 2 : Count;
    CRK_UNROLL
    for (int first = 0; first < Count; first += at_once) {
      keep_order();
      M value[at_once];
      CRK_UNROLL
      for (int i = 0; i < at_once; i++) {
        value[i] = reinterpret_cast<const M *>(mask)[least(key(first + i), keys - 1) * call.mask_column];
      }
      CRK_UNROLL
      for (int i = 0; i < at_once; i++) {
        float &s = score[first + i];
        if constexpr (same<M, unsigned char>) {
          s = value[i] != 0 ? s : no_score;
        } else {
          s = fma(static_cast<float>(value[i]), log2_of_e, s);
        }
      }
    }
  }
  /* Leaves out the scores of keys that are neither in the window nor in a prefix with this place. */
  template <int Count, class Key>
  CRK_FN void leave_unseen(float (&score)[Count], const Key &key) const {
    static_assert(Count <= 32, "a bit per number");
    uint32_t seen = in_range<Count>(window.first, window.first + window.count, key);
    for (uint32_t i = 0; i < call.prefix_count; i++) {
      const int64_t begin = prefixes[2 * i], end = prefixes[2 * i + 1];
      if (begin <= place && place < end) {
        const uint32_t first = static_cast<uint32_t>(begin < 0 ? 0 : begin);
        seen |= in_range<Count>(first, end < keys ? static_cast<uint32_t>(end) : keys, key);
      }
    }
    CRK_UNROLL
    for (int i = 0; i < Count; i++) {
      score[i] = (seen >> i & 1) != 0 ? score[i] : no_score;
    }
  }
  /* Bit i says whether key(i) is in [first, end). */
  template <int Count, class Key>
  CRK_FN static uint32_t in_range(uint32_t first, uint32_t end, const Key &key) {
    uint32_t bits = 0;
    CRK_UNROLL
    for (int i = 0; i < Count; i++) {
      bits |= static_cast<uint32_t>(first <= key(i) && key(i) < end) << i;
    }
    return bits;
  }
};

/* Rows per kv head of the longest sequence. A row is one query of one head: query * heads per kv head + head. */
CRK_FN uint32_t most_rows(const crk_attention_call_t &call) {
  return call.queries * static_cast<uint32_t>(call.group.size);
}

/* A row's number among the rows of all kv heads and sequences. */
CRK_FN uint64_t row_number(const crk_attention_call_t &call, const attention_sequence &sequence, uint32_t kv_head,
                           uint32_t row) {
  return (sequence.number * call.kv_heads.size + kv_head) * most_rows(call) + row;
}

/* A row's place in scratch memory, where the parts of a row lie one after the other. */
CRK_FN uint64_t scratch_row(const crk_attention_call_t &call, const attention_sequence &sequence, uint32_t kv_head,
                            uint32_t row) {
  return row_number(call, sequence, kv_head, row) * call.parts.size;
}

/* Rows of keys or values of one head: in a tensor, or in the blocks of a cache. */
template <class T>
struct attention_rows {
  const crk_attention_call_t &call;
  const T *first;
  uint64_t row_stride, block_stride;
  uint32_t sequence;
  bool has_blocks;

  CRK_FN attention_rows(const crk_attention_call_t &all, const attention_sequence &of, const void *tensor,
                        const crk_attention_strides_t &strides, uint32_t kv_head)
      : call(all),
        row_stride(strides.row),
        block_stride(strides.sequence),
        sequence(of.number),
        has_blocks(all.block_table != nullptr) {
    first = static_cast<const T *>(tensor) + kv_head * strides.head;
    if (!has_blocks) {
      first += of.number * strides.sequence + of.first_key * strides.row;
    }
  }
  /* The block and the row of a key, which are the same among keys and among values. */
  struct place {
    uint32_t block, row;
  };
  /* The places of the keys key(i). The table is asked for all of them at once, and all answers are there at the end:
   * else the loads that follow would wait for each other. */
  template <int Count, class Key>
  CRK_FN void find(place (&to)[Count], const Key &key) const {
    if (!has_blocks) {
      CRK_UNROLL
      for (int i = 0; i < Count; i++) {
        to[i] = {0, key(i)};
      }
      return;
    }
    const crk_attention_call_t &again = reread(call);
    const uint32_t *const table = again.block_table + sequence * again.block_table_row;
    CRK_UNROLL
    for (int i = 0; i < Count; i++) {
      uint32_t number = key(i);
      const uint32_t row = take_coordinate(number, again.block);
      to[i] = {table[number], row};
    }
    CRK_UNROLL
    for (int i = 0; i < Count; i++) {
      to[i].block = opaque(to[i].block);
    }
  }
  /* The place of a key that is the same in all lanes of the wave. */
  CRK_FN place find_uniform(uint32_t key) const {
    if (!has_blocks) {
      return {0, key};
    }
    const crk_attention_call_t &again = reread(call);
    const uint32_t row = take_coordinate(key, again.block);
    return {load_uniform(again.block_table + sequence * again.block_table_row + key), row};
  }
  CRK_FN const T *at(place place) const { return first + place.block * block_stride + place.row * row_stride; }
};

}  // namespace crk

#endif
