/* Products of quantized weights with four or eight columns of activations, for the launchers, on GPUs without
 * asynchronous copies; the entry point is mul_mat_vec_few. It gives the same bits as mul_mat_vec_tiles, which other
 * GPUs use (matvec_tile.h).
 *
 * With so many columns, arithmetic is the limit. A wave unpacks a piece of the weights once for all columns. It loads
 * its activations once for all rows of a tile, and keeps them in registers. So that even a block with four rows
 * occupies its waves without loading activations once per row, the waves share the chunks of the rows (vec_plan) rather
 * than the rows. Then each wave copies its own activations, and needs no barrier for them.
 *
 * A round is one chunk for each wave. After a round the block adds the sums of its chunks in their order. */
#ifndef CRK_MATVEC_FEW_H
#define CRK_MATVEC_FEW_H

#include "quantized/matvec_tile.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* The plan for a format and a number of columns; vec_plan has the chunks. */
template <class B, int Columns>
struct few_plan {
  using P = vec_plan<B, Columns>;
  static constexpr uint32_t groups = most_lanes / group_lanes;
  /* The most rows of a tile. A thread adds the sums of one row and column. */
  static constexpr uint32_t rows = 16;
  static_assert(rows * Columns <= CRK_VEC_WAVES * group_lanes, "a thread for each sum");
  /* `ahead`: a wave loads a chunk of each of so many rows at once, about 2 KiB. With waves of 64 lanes, shared memory
   * has room for five waves per SIMD unit (four columns), or for two. */
  static constexpr uint32_t row_room = room_of(P::most_chunk / P::pieces * sizeof(B), 2),
                            ahead = wide_waves ? (Columns == 8 && row_room <= 1280 ? 2 : 1) : 1 + 1450 / row_room;
  static constexpr uint32_t column_room = P::most_chunk * sizeof(block_q8_1);
  static constexpr uint32_t row_steps = (row_room + 16 * P::least_lanes - 1) / (16 * P::least_lanes),
                            column_steps = (column_room + 16 * P::least_lanes - 1) / (16 * P::least_lanes);
  /* With several rows, all lanes store in the last step of a row too, beyond its room. A condition on the lane would
   * make the compiler wait for the loads of all rows where it uses the registers of the first one again. */
  static constexpr bool runs_over = ahead > 1;
  static constexpr uint32_t whole_steps = (row_room + 16 * most_lanes - 1) / (16 * most_lanes) * (16 * most_lanes),
                            last_room = runs_over ? whole_steps : row_room,
                            rows_room = (ahead - 1) * row_room + last_room,
                            wave_room = rows_room > column_room ? rows_room : column_room;
  /* The sums of a round: for each wave, column, row and group of 32 lanes. */
  static constexpr uint32_t column_sums = rows * groups, wave_sums = Columns * column_sums;
};

/* How many of the block's waves share a row of `chunks` chunks, as a logarithm: as many as possible while at most a
 * quarter of them have nothing to do. */
CRK_FN uint32_t log2_waves_across(uint32_t chunks) {
  static_assert(CRK_VEC_WAVES == 4, "a logarithm of 2");
  uint32_t log2 = 2;
  while (log2 > 0 && chunks * 4 < ((chunks + (1u << log2) - 1) >> log2 << log2) * 3) {
    log2--;
  }
  return log2;
}

/* A wave's share of a block: chunks first_chunk, first_chunk + across, ... of rows first_row, first_row + down, ... */
struct few_share {
  uint32_t first_row, down, first_chunk, across;
  CRK_FN explicit few_share(uint32_t chunks) {
    const uint32_t log2 = log2_waves_across(chunks), wave = wave_in_block();
    across = 1u << log2;
    down = CRK_VEC_WAVES >> log2;
    first_row = wave >> log2;
    first_chunk = wave & (across - 1);
  }
};

/* Loads `count` blocks of each column to registers, through the wave's room in shared memory. The first column begins
 * at `from`. Columns from `columns` on repeat the last one. Lanes without a piece get zeros for scales and sums. */
template <class B, int Columns>
CRK_FN void load_few_columns(vec_activations<B, Columns> &x, const block_q8_1 *from, uint64_t stride, uint32_t columns,
                             uint32_t count, unsigned char *room) {
  using P = vec_plan<B, Columns>;
  using F = few_plan<B, Columns>;
  using Q = quant<B>;
  const uint32_t lanes = wave_size(), last = count * static_cast<uint32_t>(sizeof(block_q8_1)) - 16;
  uint32_t at[F::column_steps];
  codes16 loaded[Columns][F::column_steps];
  CRK_UNROLL
  for (uint32_t i = 0; i < F::column_steps; i++) {
    /* Lanes beyond the end copy the last 16 bytes again. */
    const uint32_t place = (i * lanes + lane()) * 16;
    at[i] = place < last ? place : last;
  }
  CRK_UNROLL
  for (uint32_t c = 0; c < Columns; c++) {
    const unsigned char *column =
        uniform_pointer(reinterpret_cast<const unsigned char *>(from + (c < columns ? c : columns - 1) * stride));
    CRK_UNROLL
    for (uint32_t i = 0; i < F::column_steps; i++) {
      loaded[c][i] = load_pack<uint32_t, 4>(reinterpret_cast<const uint32_t *>(column + at[i]));
    }
  }
  CRK_UNROLL
  for (uint32_t c = 0; c < Columns; c++) {
    CRK_UNROLL
    for (uint32_t i = 0; i < F::column_steps; i++) {
      store_words(reinterpret_cast<uint32_t *>(room + at[i]), loaded[c][i]);
    }
    wave_barrier();
    CRK_UNROLL
    for (uint32_t t = 0; t < P::steps; t++) {
      if (t * lanes < P::chunk(lanes)) {
        const uint32_t half = Q::first(P::part_of(t)), first = P::block_of(t, lanes) * P::q8_blocks;
        const bool has = first < count;
        CRK_UNROLL
        for (uint32_t h = 0; h < 2; h++) {
          const uint32_t its = half + h * Q::distance;
          const shared_bytes<4> block(room, (first + its / 2) * static_cast<uint32_t>(sizeof(block_q8_1)));
          activations16 &half_block = x.of[c][t][h];
          half_block = activations_of<Q::vec_by_values>(
              block.template words<4>(offsetof(block_q8_1, qs) + 16 * (its % 2)), block.template words<1>(0).v[0]);
          half_block.d = has ? half_block.d : 0.0f;
          half_block.value_sum = has ? half_block.value_sum : 0.0f;
        }
      }
    }
    wave_barrier();
  }
}

/* The weights of a wave's share, one stage after the other: first the first chunk of all rows, then the next chunk. A
 * stage is a chunk of F::ahead rows. While the wave works on one stage, the next is under way in registers. */
template <class B, int Columns>
struct few_feed {
  using P = vec_plan<B, Columns>;
  using F = few_plan<B, Columns>;
  const vec_tile<B, Columns> &tile;
  unsigned char *room;
  const few_share &share;
  uint32_t row, done; /* where the next stage to request begins */
  codes16 bytes[F::ahead][F::row_steps];

  CRK_FN few_feed(const vec_tile<B, Columns> &its_tile, unsigned char *its_room, const few_share &its_share)
      : tile(its_tile),
        room(its_room),
        share(its_share),
        row(its_share.first_row),
        done(its_share.first_chunk * P::chunk(wave_size()) / P::pieces) {
    if constexpr (on_host) { /* gcc warns of rows that are stored and never loaded; nothing reads them */
      for (auto &of_row : bytes) {
        for (codes16 &some : of_row) {
          some = {};
        }
      }
    }
    begin();
  }
  CRK_FN void begin() {
    if (done >= tile.blocks) {
      return;
    }
    const uint32_t lanes = wave_size();
    CRK_UNROLL
    for (uint32_t r = 0; r < F::ahead; r++) {
      const uint32_t its = row + r * share.down;
      if (its < tile.count && !tile.at_edge(its)) {
        const span16 span(tile.begin(its, done), tile.part_bytes(done), false);
        const unsigned char *line = uniform_pointer(span.line);
        CRK_UNROLL
        for (uint32_t i = 0; i < F::row_steps; i++) {
          /* Lanes outside the row load its first or last 16 bytes. Where they store them, nothing is read. */
          uint32_t at = (i * lanes + lane()) * 16;
          at = i == 0 && at < span.first ? span.first : at;
          at = at < span.end - 16 ? at : span.end - 16;
          bytes[r][i] = load_aligned16(reinterpret_cast<const uint32_t *>(line + at));
        }
      }
    }
    row += F::ahead * share.down;
    if (row >= tile.count) {
      row = share.first_row;
      done += share.across * P::chunk(lanes) / P::pieces;
    }
  }
  /* Copies the rows of a stage that begin() leaves out: two bytes at a time, and no byte outside. */
  CRK_FN void copy_edges(uint32_t first, uint32_t now) {
    CRK_NO_UNROLL
    for (uint32_t r = 0; r < F::ahead; r++) {
      const uint32_t its = first + r * share.down;
      if (its < tile.count && tile.at_edge(its)) {
        const unsigned char *from = tile.begin(its, now);
        copy_halves(room + r * F::row_room + place_in_line(from), from, tile.part_bytes(now), lane(), wave_size());
      }
    }
    wave_barrier();
  }
  /* Brings the next stage to the room: the chunk from block `now` on, of the rows from `first` on. It stays there until
   * the next call. */
  CRK_FN void take(uint32_t first, uint32_t now) {
    const uint32_t lanes = wave_size();
    wave_barrier(); /* the room is free */
    CRK_UNROLL
    for (uint32_t r = 0; r < F::ahead; r++) {
      unsigned char *to = room + r * F::row_room;
      CRK_UNROLL
      for (uint32_t i = 0; i < F::row_steps; i++) {
        const uint32_t at = (i * lanes + lane()) * 16;
        if (F::runs_over ? i * lanes * 16 < F::row_room : (i + 1) * lanes * 16 <= F::row_room || at < F::row_room) {
          store_aligned16(reinterpret_cast<uint32_t *>(to + at), bytes[r][i]);
        }
      }
      wave_barrier(); /* the next row comes over the end of this one */
    }
    if (tile.odd_first[0] != tile.count || tile.odd_last[0] != tile.count) {
      copy_edges(first, now);
    }
    begin();
  }
};

/* Stores the sums of the chunk from block `done` on, for the wave's rows, in `sums`: one per column, row and group of
 * 32 lanes. */
template <class B, int Columns>
CRK_FN void multiply_few(const vec_activations<B, Columns> &x, const vec_tile<B, Columns> &tile, uint32_t done,
                         const few_share &share, few_feed<B, Columns> &feed, float *sums) {
  using P = vec_plan<B, Columns>;
  using F = few_plan<B, Columns>;
  using Q = quant<B>;
  constexpr uint32_t block_bytes = sizeof(B), sum_lanes = group_lanes / Columns;
  const uint32_t lanes = wave_size(), left = tile.left(done), own = P::first_block() * block_bytes;
  float *to = sums + lane() % group_lanes / sum_lanes * F::column_sums + lane() / group_lanes;
  for (uint32_t first = share.first_row; first < tile.count; first += F::ahead * share.down) {
    feed.take(first, done);
    CRK_NO_UNROLL
    for (uint32_t r = 0; r < F::ahead; r++) {
      const uint32_t row = first + r * share.down;
      if (row >= tile.count) {
        break;
      }
      const uint32_t place = tile.place(row, done) + r * F::row_room + own;
      float sum[Columns] = {};
      CRK_UNROLL
      for (uint32_t t = 0; t < P::steps; t++) {
        if (t * lanes < P::chunk(lanes)) {
          const shared_bytes<P::alignment> blocks(feed.room, t > 0 ? in_turn(place, sum[Columns - 1]) : place);
          crk::piece w =
              Q::template load<P::in_place>(blocks.behind(P::block_behind(t, lanes) * block_bytes), P::part_of(t));
          const bool has = P::block_of(t, lanes) < left;
          w.d = has ? w.d : 0.0f;
          w.dmin = has ? w.dmin : 0.0f;
          CRK_UNROLL
          for (int c = 0; c < Columns; c++) {
            sum[c] = dot_piece<B, Q::vec_by_values>(w, x.of[c][t], sum[c]);
          }
        }
      }
      to[row * F::groups] = sum_columns(sum); /* sum_lanes lanes store the same */
    }
  }
}

/* dst[c][row] = the sum over k of weights[row][k] * activations[c][k], for c below the product's number of columns.
 * Blocks have CRK_VEC_WAVES waves and make at most few_plan::rows rows at a time. */
template <class B, int Columns>
CRK_FN void mul_mat_vec_few(const crk_vec_product_t &p) {
  using P = vec_plan<B, Columns>;
  using F = few_plan<B, Columns>;
  CRK_SHARED(vec_bytes, shared, CRK_VEC_WAVES * F::wave_room / 16);
  CRK_SHARED(float, sums, CRK_VEC_WAVES *F::wave_sums);
  const uint32_t lanes = wave_size(), chunk = P::chunk(lanes) / P::pieces;
  unsigned char *room = reinterpret_cast<unsigned char *>(shared) + wave_in_block() * F::wave_room;
  const uint32_t row_bytes = p.row_blocks * static_cast<uint32_t>(sizeof(B));
  const whole_product of = {p};
  const few_share share((p.row_blocks + chunk - 1) / chunk);
  const uint32_t block = block_index().x;
  uint64_t row = static_cast<uint64_t>(block) * p.block_rows + (block < p.larger ? block : p.larger);
  uint32_t rest = p.block_rows + (block < p.larger ? 1 : 0);
  for (uint32_t count; rest > 0; rest -= count, row += count) {
    const vec_rows rows = of.rows(row, 0);
    const uint64_t left = rows.end - row;
    count = rest <= F::rows ? rest : rest < 2 * F::rows ? (rest + 1) / 2 : F::rows;
    count = count < left ? count : static_cast<uint32_t>(left);
    const bool odd_begin = odd_place(rows.weights),
               odd_end = odd_place(rows.weights + (rows.end - rows.first) * row_bytes);
    const vec_tile<B, Columns> tile = {{rows.weights + (row - rows.first) * row_bytes},
                                       row_bytes,
                                       count,
                                       p.row_blocks,
                                       {odd_begin && row == rows.first ? 0 : count},
                                       {odd_end && left == count ? count - 1 : count},
                                       false};
    few_feed<B, Columns> feed(tile, room, share);
    const uint32_t thread = own_thread(), its_row = thread % F::rows, its_column = thread / F::rows;
    float total[F::groups] = {};
    CRK_NO_UNROLL
    for (uint32_t round = 0; round < p.row_blocks; round += share.across * chunk) {
      const uint32_t done = round + share.first_chunk * chunk;
      if (done < p.row_blocks) {
        vec_activations<B, Columns> x;
        load_few_columns<B, Columns>(x, static_cast<const block_q8_1 *>(p.x) + done * P::q8_blocks, p.x_stride,
                                     p.columns, tile.left(done) * P::q8_blocks, room);
        multiply_few<B, Columns>(x, tile, done, share, feed, sums + share.first_chunk * F::wave_sums);
      }
      shared_barrier();
      if (its_column < Columns) {
        const float *part = sums + its_column * F::column_sums + its_row * F::groups;
        for (uint32_t n = 0; n < share.across && round + n * chunk < p.row_blocks; n++, part += F::wave_sums) {
          CRK_UNROLL
          for (uint32_t g = 0; g < F::groups; g++) {
            total[g] = round + n == 0 ? part[g] : total[g] + part[g];
          }
        }
      }
      shared_barrier();
    }
    if (its_row < count && its_column < reread(p).columns) {
      const vec_sums to = of.sums(row);
      const float sum = lanes == 64 ? total[0] + total[F::groups - 1] : total[0];
      store_as(to.dst, reread(p).dtype, to.skipped + its_column * to.stride + row + its_row, to.of(row + its_row, sum));
    }
  }
}

/* The launchers' kernel for a number of columns. */
template <class B, int Columns>
CRK_FN void mul_mat_vec_launched(const crk_vec_product_t &p) {
  if constexpr (Columns >= 4 && !async_copies::present) {
    mul_mat_vec_few<B, Columns>(p);
  } else {
    CRK_SHARED(float, sums, vec_sums_room<Columns>);
    mul_mat_vec_tiles<B, Columns>(whole_product{p}, sums);
  }
}

}  // namespace
}  // namespace crk

#endif
