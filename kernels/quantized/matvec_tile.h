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

/* A block's tile: `count` rows that follow each other. Each wave makes every CRK_VEC_WAVES-th row. */
template <class B, int Columns>
struct vec_tile {
  using P = vec_plan<B, Columns>;
  const unsigned char *weights;
  uint32_t row_bytes, count, blocks;
  uint32_t odd_first, odd_last; /* no byte before or after these rows may be read; `count`: no such row */
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
  CRK_FN uint32_t place(uint32_t row, uint32_t from) const {
    return askew ? 0
                 : (static_cast<uint32_t>(reinterpret_cast<uintptr_t>(weights)) + row * row_bytes +
                    from * static_cast<uint32_t>(sizeof(B))) %
                       line_bytes;
  }
  CRK_FN bool at_edge(uint32_t row) const { return row == odd_first || row == odd_last; }
  CRK_FN const unsigned char *begin(uint32_t row, uint32_t from) const {
    return weights + static_cast<uint64_t>(row) * row_bytes + from * static_cast<uint32_t>(sizeof(B));
  }
};

/* The stages of a wave's share of a tile, one after the other. A stage is one part of a chunk, for P::rows rows. First
 * come all parts for the first rows, then those for the next rows, then the next chunk of all rows. While the wave
 * works on one stage, the next ones are under way to its rooms. */
template <class B, int Columns, class Copies = async_copies>
struct vec_feed {
  using P = vec_plan<B, Columns>;
  static constexpr uint32_t block_bytes = sizeof(B);
  const vec_tile<B, Columns> &tile;
  unsigned char *rooms;
  uint32_t wave, lanes;
  uint32_t row, done, part; /* where the next stage to request begins; `part`: blocks from the chunk's beginning */
  uint32_t turn; /* number of the room that is taken next */
  under_way<P::row_room, P::least_lanes> bytes[P::rows];

  CRK_FN vec_feed(const vec_tile<B, Columns> &its_tile, unsigned char *its_rooms, uint32_t its_wave)
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
      const bool none = P::parts > 1 && from >= tile.blocks; /* past a short row, which may be the last in memory */
      CRK_UNROLL
      for (uint32_t r = 0; r < P::rows; r++) {
        const uint32_t its = row + r * CRK_VEC_WAVES;
        if (its < tile.count && !tile.askew && !none) {
          const span16 span(tile.begin(its, from), tile.part_bytes(from), tile.at_edge(its));
          bytes[r].begin(rooms + room * P::wave_room + r * P::row_room, span, lane(), lanes);
        }
      }
      part += P::parts > 1 ? P::part_blocks(lanes) : 0;
      if (P::parts == 1 || part == P::chunk(lanes) / P::pieces) {
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
template <class B, int Columns>
CRK_FN void multiply_chunk(const vec_activations<B, Columns> &x, const vec_tile<B, Columns> &tile, uint32_t done,
                           uint32_t wave, vec_feed<B, Columns> &feed, float *sums) {
  using P = vec_plan<B, Columns>;
  using Q = quant<B>;
  constexpr uint32_t stage_rows = P::rows * CRK_VEC_WAVES, block_bytes = sizeof(B), steps = P::steps / P::parts;
  static_assert(P::parts == 1 || P::rows == 1, "a row's sums stay in registers from part to part");
  const uint32_t lanes = wave_size(), left = tile.left(done), own = P::first_block() * block_bytes;
  for (uint32_t first = wave; first < tile.count; first += stage_rows) {
    float sum[Columns] = {};
    CRK_UNROLL
    for (uint32_t part = 0; part < P::parts; part++) {
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
        if (part + 1 == P::parts) {
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

/* The destination of a product's sums: dst[first + row + c * dst_stride] = scale * sum. */
struct vec_sums {
  const crk_vec_product_t &product;
  uint64_t first;
  float scale;
};

/* A product as the launcher passed it. */
struct whole_product {
  const crk_vec_product_t &product;

  template <class B>
  CRK_FN const unsigned char *weights() const {
    return static_cast<const unsigned char *>(product.weights);
  }
  CRK_FN const block_q8_1 *x() const { return static_cast<const block_q8_1 *>(product.x); }
  CRK_FN vec_sums sums() const { return {reread(product), 0, 1.0f}; }
};

/* dst[c][row] = the sum over k of weights[row][k] * activations[c][k], for c below the product's number of columns.
 * Blocks have CRK_VEC_WAVES waves and make at most CRK_VEC_ROWS rows at a time. `of` is a whole_product, or a struct
 * with the same functions. */
template <class B, int Columns, class Of>
CRK_FN void mul_mat_vec_tiles(const Of &of) {
  using P = vec_plan<B, Columns>;
  const crk_vec_product_t &p = of.product;
  constexpr uint32_t groups = most_lanes / group_lanes;
  CRK_SHARED(vec_bytes, shared, P::room / 16);
  CRK_SHARED(float, sums, CRK_VEC_ROWS *Columns *groups);
  const uint32_t lanes = wave_size(), wave = wave_in_block();
  unsigned char *rooms = reinterpret_cast<unsigned char *>(shared), *room = rooms + wave * P::stages * P::wave_room;
  const uint32_t row_bytes = p.row_blocks * static_cast<uint32_t>(sizeof(B));
  const unsigned char *weights = of.template weights<B>();
  const uint64_t last_column = Columns > 1 ? (p.columns - 1) * p.x_stride : 0;
  const block_q8_1 *x_begin = of.x(), *x_end = x_begin + last_column + p.row_blocks * P::q8_blocks;
  const bool odd_x = odd_place(x_begin) || odd_place(x_end);
  const bool askew = P::alignment > 2 && reinterpret_cast<uintptr_t>(weights) % P::alignment != 0;
  const bool odd_begin = odd_place(weights), odd_end = odd_place(weights + p.rows * row_bytes);
  const uint32_t block = block_index().x;
  uint64_t row = static_cast<uint64_t>(block) * p.block_rows + (block < p.larger ? block : p.larger);
  uint32_t rest = p.block_rows + (block < p.larger ? 1 : 0);
  for (uint32_t count; rest > 0; rest -= count, row += count) {
    count = rest < CRK_VEC_ROWS ? rest : CRK_VEC_ROWS;
    const vec_tile<B, Columns> tile = {weights + row * row_bytes,
                                       row_bytes,
                                       count,
                                       p.row_blocks,
                                       odd_begin && !askew && row == 0 ? 0 : count,
                                       odd_end && !askew && p.rows - row == count ? count - 1 : count,
                                       askew};
    vec_columns<B, Columns, Of> columns(of, odd_x);
    /* With asynchronous copies, activations are requested before weights, since they would arrive late otherwise.
     * Without asynchronous copies, the registers could not hold activations and weights under way together. So
     * activations are requested later. */
    constexpr bool columns_first = async_copies::present;
    if (columns_first) {
      columns.load(0, tile.left(0) * P::q8_blocks);
    }
    vec_feed<B, Columns> feed(tile, room, wave);
    CRK_NO_UNROLL
    for (uint32_t done = 0; done < p.row_blocks; done += P::chunk(lanes) / P::pieces) {
      vec_activations<B, Columns> x;
      if (!P::own_rooms || !P::apart) {
        barrier(); /* the activations' room is free; with own rooms, take_apart has a barrier instead */
      }
      if (!columns_first) {
        columns.load(done * P::q8_blocks, tile.left(done) * P::q8_blocks);
      }
      columns.take(x, done * P::q8_blocks, tile.left(done) * P::q8_blocks, rooms);
      const uint32_t next = done + P::chunk(lanes) / P::pieces;
      if (columns_first && next < p.row_blocks) {
        columns.load(next * P::q8_blocks, tile.left(next) * P::q8_blocks);
      }
      multiply_chunk<B, Columns>(x, tile, done, wave, feed, sums);
    }
    wave_barrier();
    const vec_sums to = of.sums();
    for (uint32_t r = wave + lane() * CRK_VEC_WAVES; r < count; r += lanes * CRK_VEC_WAVES) {
      const float *part = sums + r * groups;
      uint64_t at = to.first + row + r;
      CRK_NO_UNROLL
      for (uint32_t c = 0; c < to.product.columns; c++, part += CRK_VEC_ROWS * groups, at += to.product.dst_stride) {
        const float sum = lanes == 64 ? part[0] + part[1] : part[0];
        store_as(to.product.dst, to.product.dtype, at, to.scale * sum);
      }
    }
  }
}

}  // namespace
}  // namespace crk

#endif
