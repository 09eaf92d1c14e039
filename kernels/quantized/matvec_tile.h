/* Products of quantized weights with one to eight columns of activations, for the launchers; the entry point is
 * mul_mat_vec_tiles. Without asynchronous copies, matvec_few.h makes those with more than two columns. A block of
 * threads makes a tile of rows. matvec_columns.h has the plan, matvec_staged.h the copies.
 *
 * Reading the weights is the limit, so every byte of weights is read once, in whole lines. A stage is a fixed number of
 * pieces from each of a few rows. A wave copies it to its own part of shared memory, 16 bytes per lane side by side.
 * From there each lane takes its pieces, whatever the alignment of the format. While the wave works on one stage, the
 * bytes of the next are under way. They go through registers or by the GPU's asynchronous copies.
 *
 * All waves together read the activations in the same way, once per tile. Activations stay in registers for all rows of
 * the wave. So a row is cut into chunks, and a chunk has as many pieces as the registers hold activations for. */
#ifndef CRK_MATVEC_TILE_H
#define CRK_MATVEC_TILE_H

#include "numbers/store_as.h"
#include "quantized/matvec_columns.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* Sums each column over 32 lanes. Lane l returns the sum of column l % 32 / (32 / Columns). */
template <int Columns, int Mask = group_lanes / 2>
CRK_FN float sum_columns(const float (&sum)[Columns]) {
  if constexpr (Columns == 1) {
    return butterfly<2 * Mask>(sum[0], plus());
  } else {
    const uint32_t upper = lane() / Mask & 1;
    float half[Columns / 2];
    CRK_UNROLL
    for (int c = 0; c < Columns / 2; c++) {
      float mine = sum[c], other = sum[c + Columns / 2];
      swap_if(upper, mine, other);
      half[c] = mine + exchange<Mask>(other);
    }
    return sum_columns<Columns / 2, Mask / 2>(half);
  }
}

/* The sums of a block: one per row, column and group of 32 lanes. */
template <int Columns>
inline constexpr uint32_t vec_sums_room = CRK_VEC_ROWS * Columns * (most_lanes / group_lanes);

/* A block's tile: `count` rows, which follow each other. With two `Ways`, the first half of them follow each other in
 * one place, and the other half in another: in two matrices, or in two halves of a head. Each wave makes every
 * CRK_VEC_WAVES-th row. */
template <class B, int Columns, int Ways = 1>
struct vec_tile {
  using P = vec_plan<B, Columns>;
  const unsigned char *weights[Ways]; /* row r of the tile begins at weights[w] + r * row_bytes, in its matrix w */
  uint32_t row_bytes, count, blocks;
  uint32_t odd_first[Ways], odd_last[Ways]; /* no byte before or after these rows may be read; `count`: no such row */
  bool askew; /* weights are not aligned to P::alignment and are copied two bytes at a time; rare */

  /* Blocks in the chunk that begins with block `done`. */
  CRK_FN uint32_t left(uint32_t done) const {
    const uint32_t chunk = P::chunk(wave_size()) / P::pieces;
    return blocks - done < chunk ? blocks - done : chunk;
  }
  /* part_bytes gives the size of the part of a chunk that begins with block `from`. place gives the place of this part
   * of a row in its room. */
  CRK_FN uint32_t part_bytes(uint32_t from) const {
    constexpr uint32_t block_bytes = sizeof(B);
    if constexpr (P::parts == 1) {
      return left(from) * block_bytes;
    } else {
      const uint32_t part = P::part_blocks(wave_size());
      return from + part <= blocks ? part * block_bytes : from < blocks ? (blocks - from) * block_bytes : 0;
    }
  }
  /* A choice between two values: for an index, clang 15 would put the tile in memory. */
  CRK_FN const unsigned char *matrix_of(uint32_t row) const {
    const unsigned char *const first = weights[0], *const second = weights[Ways - 1];
    return Ways == 2 && row >= count / 2 ? second : first;
  }
  CRK_FN uint32_t place(uint32_t row, uint32_t from) const {
    return askew ? 0
                 : (static_cast<uint32_t>(reinterpret_cast<uintptr_t>(matrix_of(row))) + row * row_bytes +
                    from * static_cast<uint32_t>(sizeof(B))) %
                       line_bytes;
  }
  CRK_FN bool at_edge(uint32_t row) const {
    return row == odd_first[0] || row == odd_last[0] ||
           (Ways == 2 && (row == odd_first[Ways - 1] || row == odd_last[Ways - 1]));
  }
  CRK_FN const unsigned char *begin(uint32_t row, uint32_t from) const {
    return matrix_of(row) + static_cast<uint64_t>(row) * row_bytes + from * static_cast<uint32_t>(sizeof(B));
  }
};

/* The stages of a wave's share of a tile, one after the other. A stage is one part of a chunk, for P::rows rows. First
 * come all parts for the first rows, then those for the next rows, then the next chunk of all rows. Short rows have one
 * part. While the wave works on one stage, the next ones are under way to its rooms. */
template <class B, int Columns, int Ways, bool Short, class Copies = async_copies>
struct vec_feed {
  using P = vec_plan<B, Columns>;
  static constexpr uint32_t block_bytes = sizeof(B);
  const vec_tile<B, Columns, Ways> &tile;
  unsigned char *rooms;
  uint32_t wave, lanes;
  uint32_t row, done, part; /* where the next stage to request begins; `part`: blocks from the chunk's beginning */
  uint32_t turn; /* number of the room that is taken next */
  under_way<P::row_room, P::least_lanes> bytes[P::rows];

  CRK_FN vec_feed(const vec_tile<B, Columns, Ways> &its_tile, unsigned char *its_rooms, uint32_t its_wave)
      : tile(its_tile), rooms(its_rooms), wave(its_wave), lanes(wave_size()), row(its_wave), done(0), part(0), turn(0) {
    begin(0);
    CRK_UNROLL
    for (uint32_t i = 1; i + 1 < P::stages; i++) {
      begin(i);
    }
  }
  CRK_FN void begin(uint32_t room) {
    if (done < tile.blocks) {
      const uint32_t from = done + part;
      const bool none = P::parts > 1 && from >= tile.blocks; /* behind a row, which may be the last in memory */
      CRK_UNROLL
      for (uint32_t r = 0; r < P::rows; r++) {
        const uint32_t its = row + r * CRK_VEC_WAVES;
        if (its < tile.count && !tile.askew && !none) {
          const span16 span(tile.begin(its, from), tile.part_bytes(from), tile.at_edge(its));
          bytes[r].begin(rooms + room * P::wave_room + r * P::row_room, span, lane(), lanes);
        }
      }
      part += P::parts > 1 ? P::part_blocks(lanes) : 0;
      if (P::parts == 1 || Short || part == P::chunk(lanes) / P::pieces) {
        part = 0;
        row += P::rows * CRK_VEC_WAVES;
      }
      if (row >= tile.count) {
        row = wave;
        done += P::chunk(lanes) / P::pieces;
      }
    }
    if constexpr (P::stages > 1) {
      Copies::end_group();
    }
  }
  /* Returns the room with the next stage: the part from block `now` on, of the rows from `first` on. It is valid until
   * the next call. */
  CRK_FN unsigned char *take(uint32_t first, uint32_t now) {
    unsigned char *room = rooms + turn * P::wave_room;
    if constexpr (P::stages > 1) {
      Copies::template wait<P::stages - 2>();
    } else {
      wave_barrier(); /* the room is free */
    }
    CRK_UNROLL
    for (uint32_t r = 0; r < P::rows; r++) {
      const uint32_t its = first + r * CRK_VEC_WAVES;
      unsigned char *to = room + r * P::row_room;
      bytes[r].end(to, lane(), lanes);
      if (tile.askew && its < tile.count) {
        copy_halves(to, tile.begin(its, now), tile.part_bytes(now), lane(), lanes);
      }
    }
    wave_barrier();
    begin(turn == 0 ? P::stages - 1 : turn - 1);
    turn = turn + 1 == P::stages ? 0 : turn + 1;
    return room;
  }
};

/* Adds a row's sums to `to`, or stores them there if `first`: one sum per column and group of 32 lanes. */
template <int Columns>
CRK_FN void put_sums(float *to, const float (&sum)[Columns], bool first) {
  constexpr uint32_t sum_lanes = group_lanes / Columns; /* lanes that have the same sum */
  const float whole = sum_columns(sum);
  if (lane() % sum_lanes == 0) {
    const uint32_t c = lane() % group_lanes / sum_lanes, group = lane() / group_lanes;
    float *its = to + c * CRK_VEC_ROWS * (most_lanes / group_lanes) + group;
    *its = first ? whole : *its + whole;
  }
}

/* Adds the chunk from block `done` on to the sums of the wave's rows, which begin with row `wave`. `sums` has one sum
 * per column, row and group of 32 lanes; the first chunk initialises them. `feed` supplies the stages of this chunk and
 * afterwards those of the next. */
template <class B, int Columns, int Ways, bool Short>
CRK_FN void multiply_chunk(const vec_activations<B, Columns> &x, const vec_tile<B, Columns, Ways> &tile, uint32_t done,
                           uint32_t wave, vec_feed<B, Columns, Ways, Short> &feed, float *sums) {
  using P = vec_plan<B, Columns>;
  using Q = quant<B>;
  constexpr uint32_t stage_rows = P::rows * CRK_VEC_WAVES, block_bytes = sizeof(B), parts = Short ? 1 : P::parts,
                     steps = P::steps / (Short ? 2 : parts);
  static_assert(P::parts <= 2, "a short row is in one part");
  static_assert(P::parts == 1 || P::rows == 1, "a row's sums stay in registers from part to part");
  const uint32_t lanes = wave_size(), left = tile.left(done), own = P::first_block() * block_bytes;
  for (uint32_t first = wave; first < tile.count; first += stage_rows) {
    float sum[Columns] = {};
    CRK_UNROLL
    for (uint32_t part = 0; part < parts; part++) {
      const uint32_t from = done + part * P::part_blocks(lanes);
      unsigned char *room = feed.take(first, from);
      CRK_NO_UNROLL
      for (uint32_t r = 0; r < P::rows; r++) {
        const uint32_t row = first + r * CRK_VEC_WAVES;
        if (row >= tile.count) {
          break;
        }
        unsigned char *bytes = room + r * P::row_room;
        if (tile.at_edge(row)) {
          copy_ends(bytes, tile.begin(row, from), tile.part_bytes(from), lane());
          wave_barrier();
        }
        CRK_UNROLL
        for (uint32_t i = 0; i < steps; i++) {
          const uint32_t t = part * steps + i;
          if (t * lanes < P::chunk(lanes)) {
            const uint32_t place = tile.place(row, from) + own;
            const shared_bytes<P::alignment> blocks(bytes, i > 0 ? in_turn(place, sum[Columns - 1]) : place);
            const crk::piece w =
                Q::template load<P::in_place>(blocks.behind(P::block_behind(i, lanes) * block_bytes), P::part_of(i));
            CRK_UNROLL
            for (int c = 0; c < Columns; c++) {
              const float with = dot_piece<B, Q::vec_by_values>(w, x.of[c][t], sum[c]);
              sum[c] = P::block_of(t, lanes) < left ? with : sum[c];
            }
          }
        }
        if (part + 1 == parts) {
          put_sums(sums + row * (most_lanes / group_lanes), sum, done == 0);
          CRK_UNROLL
          for (int c = 0; c < Columns; c++) {
            sum[c] = 0.0f;
          }
        }
      }
    }
  }
}

/* Rows `first` to `end` - 1 of a product: those of one matrix. */
struct vec_rows {
  const unsigned char *weights;
  uint64_t first, end;
};

/* Where the sums of a tile go: row r and column c of the product to dst[skipped + r + c * stride], times `scale`, and
 * bias[skipped + r] more unless `bias` is NULL. */
struct vec_sums {
  void *dst;
  uint64_t skipped, stride;
  float scale;
  const float *bias;
  CRK_FN float of(uint64_t row, float sum) const {
    const float scaled = scale * sum;
    return bias == nullptr ? scaled : scaled + bias[skipped + row];
  }
  CRK_FN void store(uint32_t dtype, uint64_t at, float value) const { store_as(dst, dtype, at, value); }
};

/* A product as the launcher passed it. */
struct whole_product {
  static constexpr int ways = 1;
  static constexpr bool finishes = false, are_short = false;
  const crk_vec_product_t &product;

  CRK_FN static uint32_t part_of(const crk_vec_product_t &p, uint64_t row) {
    return (row >= p.parts[0].end ? 1 : 0) + (row >= p.parts[1].end ? 1 : 0);
  }
  CRK_FN static uint64_t begin_of(const crk_vec_product_t &p, uint32_t part) {
    return part > 0 ? p.parts[part - 1].end : 0;
  }
  CRK_FN uint32_t grain() const { return 1; } /* rows that block_rows and larger count as one */
  /* The rows of the matrix that has row `row`. */
  CRK_FN vec_rows rows(uint64_t row, int) const {
    const uint32_t part = part_of(product, row);
    return {static_cast<const unsigned char *>(product.parts[part].weights), begin_of(product, part),
            product.parts[part].end};
  }
  CRK_FN const block_q8_1 *x() const { return static_cast<const block_q8_1 *>(product.x); }
  CRK_FN vec_sums sums(uint64_t row) const {
    const crk_vec_product_t &p = reread(product);
    const uint32_t part = part_of(p, row);
    return {p.parts[part].dst, 0 - begin_of(p, part), p.parts[part].dst_stride, 1.0f, p.parts[part].bias};
  }
};

/* The sum of a row and a column, from those of its groups of 32 lanes. */
CRK_FN float whole_sum(const float *groups) { return wave_size() == 64 ? groups[0] + groups[1] : groups[0]; }

/* Stores the sums of `count` rows from `row` on. A wave stores the sums of its own rows. */
template <class Sums>
CRK_FN void store_sums(const Sums &to, const crk_vec_product_t &p, const float *sums, uint64_t row, uint32_t count) {
  constexpr uint32_t groups = most_lanes / group_lanes;
  for (uint32_t r = wave_in_block() + lane() * CRK_VEC_WAVES; r < count; r += wave_size() * CRK_VEC_WAVES) {
    const float *part = sums + r * groups;
    uint64_t at = to.skipped + row + r;
    CRK_NO_UNROLL
    for (uint32_t c = 0; c < p.columns; c++, part += CRK_VEC_ROWS * groups, at += to.stride) {
      to.store(p.dtype, at, to.of(row + r, whole_sum(part)));
    }
  }
}

/* The sums of mul_mat_vec_tiles for rows that are all Short, or none. `rooms` is shared memory for P::room bytes. */
template <class B, int Columns, bool Short, class Of>
CRK_FN void make_vec_tiles(const Of &of, unsigned char *rooms, float *sums) {
  using P = vec_plan<B, Columns>;
  constexpr int Ways = Of::ways;
  const crk_vec_product_t &p = of.product;
  constexpr uint32_t most_rows = CRK_VEC_ROWS / Ways;
  const uint32_t lanes = wave_size(), wave = wave_in_block();
  unsigned char *room = rooms + wave * P::stages * P::wave_room;
  const uint32_t row_bytes = p.row_blocks * static_cast<uint32_t>(sizeof(B));
  const uint64_t last_column = Columns > 1 ? (p.columns - 1) * p.x_stride : 0;
  const block_q8_1 *x_begin = of.x(), *x_end = x_begin + last_column + p.row_blocks * P::q8_blocks;
  const bool odd_x = odd_place(x_begin) || odd_place(x_end);
  const uint32_t block = block_index().x, grain = of.grain();
  uint64_t row = (static_cast<uint64_t>(block) * p.block_rows + (block < p.larger ? block : p.larger)) * grain;
  uint32_t rest = (p.block_rows + (block < p.larger ? 1 : 0)) * grain;
  for (uint32_t count; rest > 0; rest -= count, row += count) {
    const vec_rows rows[2] = {of.rows(row, 0), of.rows(row, Ways - 1)};
    const uint64_t left = rows[0].end - row;
    count = rest < most_rows ? rest : most_rows;
    count = count < left ? count : static_cast<uint32_t>(left);
    vec_tile<B, Columns, Ways> tile = {{}, row_bytes, Ways * count, p.row_blocks, {}, {}, false};
    CRK_UNROLL
    for (int w = 0; w < Ways; w++) {
      tile.askew = tile.askew || (P::alignment > 2 && reinterpret_cast<uintptr_t>(rows[w].weights) % P::alignment != 0);
    }
    CRK_UNROLL
    for (int w = 0; w < Ways; w++) {
      const uint32_t before = w * count; /* rows of the tile */
      const int64_t first = static_cast<int64_t>(row - rows[w].first) - before;
      tile.weights[w] = rows[w].weights + first * row_bytes;
      const bool odd_begin = odd_place(rows[w].weights),
                 odd_end = odd_place(rows[w].weights + (rows[w].end - rows[w].first) * row_bytes);
      tile.odd_first[w] = odd_begin && !tile.askew && row == rows[w].first ? before : tile.count;
      tile.odd_last[w] = odd_end && !tile.askew && left == count ? before + count - 1 : tile.count;
    }
    vec_columns<B, Columns, Of> columns(of, odd_x);
    /* With asynchronous copies, activations are requested before weights, since they would arrive late otherwise.
     * Without asynchronous copies, the registers could not hold activations and weights under way together. So
     * activations are requested later. */
    constexpr bool columns_first = async_copies::present;
    if (columns_first) {
      columns.load(0, tile.left(0) * P::q8_blocks);
    }
    vec_feed<B, Columns, Ways, Short> feed(tile, room, wave);
    CRK_NO_UNROLL
    for (uint32_t done = 0; done < p.row_blocks; done += P::chunk(lanes) / P::pieces) {
      vec_activations<B, Columns> x;
      if (!P::own_rooms || !P::apart) {
        shared_barrier(); /* the activations' room is free; with own rooms, take_apart has a barrier instead */
      }
      if (!columns_first) {
        columns.load(done * P::q8_blocks, tile.left(done) * P::q8_blocks);
      }
      columns.take(x, done * P::q8_blocks, tile.left(done) * P::q8_blocks, rooms);
      const uint32_t next = done + P::chunk(lanes) / P::pieces;
      if (columns_first && next < p.row_blocks) {
        columns.load(next * P::q8_blocks, tile.left(next) * P::q8_blocks);
      }
      multiply_chunk(x, tile, done, wave, feed, sums);
    }
    if constexpr (!Of::finishes) {
      wave_barrier();
      store_sums(of.sums(row), reread(p), sums, row, count);
    } else {
      shared_barrier();
      of.finish(sums, row, count);
      shared_barrier(); /* the sums are read */
    }
  }
}

/* Sums of the rows that a block makes: for c below the product's number of columns, the sum over k of
 * weights[row][k] * activations[c][k]. Blocks have CRK_VEC_WAVES waves and make at most CRK_VEC_ROWS rows at a time.
 * `of` is a whole_product, or a struct with the same functions. With two `ways`, it has rows(row, way) for two places.
 * `are_short`: most products have short rows.
 * If it `finishes`, it has finish(sums, row, count) for the sums of `count` rows of each. `sums` is shared memory for
 * vec_sums_room<Columns> numbers. */
template <class B, int Columns, class Of>
CRK_FN void mul_mat_vec_tiles(const Of &of, float *sums) {
  using P = vec_plan<B, Columns>;
  CRK_SHARED(vec_bytes, shared, P::room / 16);
  unsigned char *const rooms = reinterpret_cast<unsigned char *>(shared);
  /* On NVIDIA GPUs the code of short rows makes kernels slower whose rows are long: docs/tried.md. */
  constexpr bool has_short = P::has_short && (Of::are_short || !async_copies::present);
  if (has_short && of.product.row_blocks <= P::half_blocks()) {
    keep_order(); /* what both branches compute stays in them; before them, it would take scalar registers */
    make_vec_tiles<B, Columns, has_short>(of, rooms, sums);
  } else {
    make_vec_tiles<B, Columns, false>(of, rooms, sums);
  }
}

}  // namespace
}  // namespace crk

#endif
