/* Quantized weights times one to eight columns of activations, for the launchers: a block takes a tile of rows.
 *
 * Every byte of weights is read once, in whole lines: a wave copies a stage, so many pieces of each of a few rows, 16 bytes a
 * lane side by side, into its own part of shared memory, from where each lane takes its pieces, however the format aligns
 * them. While it works on a stage, the next one's bytes are on their way; the first one's are before anything else.
 * Activations are read once a tile, the same way but by all waves, and stay in registers for all rows of the wave; so a row
 * is worked through in chunks, of as many pieces as the registers hold. */
#ifndef CRK_MATVEC_TILE_H
#define CRK_MATVEC_TILE_H

#include "matvec.h"
#include "quantized_call.h"
#include "store_as.h"

namespace crk {
namespace { /* a template with shared memory would have a symbol of its own in the archive */

/* Memory is read in lines, of which a wave's read touches as few as it can where it begins at one. */
inline constexpr uint32_t line_bytes = 128;
CRK_FN uint32_t place_in_line(const unsigned char *at) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at) % line_bytes);
}
CRK_FN bool odd_place(const void *at) { return reinterpret_cast<uintptr_t>(at) % 16 != 0; }

/* What `bytes` bytes of an alignment need in shared memory, where they lie as far behind a line's begin as they do in
 * global memory. */
constexpr uint32_t room_of(uint32_t bytes, uint32_t alignment) {
  return (line_bytes - alignment + bytes + 15) / 16 * 16;
}

/* The aligned 16 bytes that hold `bytes` bytes, as distances from the begin of the first one's line: from `first` up to `end`.
 * `within`: nothing around the bytes may be read, so those that hold nothing else. */
struct span16 {
  const unsigned char *line;
  uint32_t first, end;
  CRK_FN span16(const unsigned char *from, uint32_t bytes, bool within) {
    const uint32_t begin = place_in_line(from), before = within ? 15 : 0;
    line = from - begin;
    first = (begin + before) & ~15u;
    end = (begin + bytes + 15 - before) & ~15u;
  }
  CRK_FN bool has(uint32_t at) const { return at >= first && at < end; }
};

/* Up to `Room` bytes on their way into a room in shared memory, 16 a lane and step, at the same places as behind a line's
 * begin. */
template <uint32_t Room, uint32_t LeastLanes>
struct under_way {
  static constexpr uint32_t steps = (Room + 16 * LeastLanes - 1) / (16 * LeastLanes);
  codes16 v[steps] = {};

  CRK_FN void load(const span16 &span, uint32_t lane, uint32_t lanes) {
    const unsigned char *from = span.line + lane * 16;
    CRK_UNROLL
    for (uint32_t i = 0; i < steps; i++) {
      const uint32_t at = (i * lanes + lane) * 16;
      if (i == 0 ? span.has(at) : at < span.end) { /* `first` is in the first line, or the next one's begin */
        v[i] = load_aligned16(reinterpret_cast<const uint32_t *>(from + i * lanes * 16));
      }
    }
  }
  /* Bytes of the room that nothing was loaded for change too. */
  CRK_FN void store(unsigned char *room, uint32_t lane, uint32_t lanes) const {
    CRK_UNROLL
    for (uint32_t i = 0; i < steps; i++) {
      const uint32_t at = (i * lanes + lane) * 16;
      if ((i + 1) * lanes * 16 <= Room || at < Room) {
        store_aligned16(reinterpret_cast<uint32_t *>(room + at), v[i]);
      }
    }
  }
};

/* What is outside the span within `bytes` bytes, which are aligned to 2, into the same room: by all lanes of the wave that stored
 * the span. */
CRK_FN void copy_ends(unsigned char *room, const unsigned char *from, uint32_t bytes, uint32_t lane) {
  const uint32_t begin = place_in_line(from), end = begin + bytes;
  const uint32_t at = ((lane & 8) == 0 ? begin & ~15u : (end - 1) & ~15u) + lane % 8 * 2;
  if (at >= begin && at < end) {
    *reinterpret_cast<uint16_t *>(room + at) = *reinterpret_cast<const uint16_t *>(from - begin + at);
  }
}

/* Copies what is aligned to 2 bytes, and reads nothing else. Rare: the loop is to stay as short as it is. */
CRK_FN void copy_halves(unsigned char *to, const unsigned char *from, uint32_t bytes, uint32_t thread,
                        uint32_t threads) {
  CRK_NO_UNROLL
  for (uint32_t i = thread; i < bytes / 2; i = opaque(i + threads)) {
    reinterpret_cast<uint16_t *>(to)[i] = reinterpret_cast<const uint16_t *>(from)[i];
  }
}

/* How much of a row there is at a time, for a format and a number of columns: a chunk of pieces, as many as their
 * activations have registers, and at most 4 KiB. */
template <class B, int Columns>
struct vec_plan {
  using Q = quant<B>;
  static constexpr uint32_t pieces = Q::pieces, least_lanes = on_host ? 32 : most_lanes,
                            q8_blocks = block_elements<B> / 32;
  static constexpr uint32_t long_chunk = 4096 * pieces / sizeof(B) >= 128 ? 128 : 64;
  static constexpr uint32_t most_chunk = Columns == 1 ? long_chunk : Columns <= 4 ? 64 : most_lanes;
  static constexpr uint32_t steps = Columns == 8 ? 1 : most_chunk / least_lanes; /* at most, each a piece a lane */

  /* Pieces of a chunk, for a wave of so many lanes. */
  CRK_FN static constexpr uint32_t chunk(uint32_t lanes) { return Columns == 8 ? lanes : most_chunk; }

  /* A lane's piece t of a chunk is this piece of this block. Two neighbouring pieces of a block of 256 share scales. */
  static constexpr uint32_t together = pieces == 8 && most_chunk % (2 * most_lanes) == 0 && Columns < 8 ? 2 : 1;
  CRK_FN static uint32_t part_of(uint32_t t) {
    return whole_word(lane() % (pieces / together)) * together + t % together;
  }
  CRK_FN static uint32_t block_of(uint32_t t, uint32_t lanes) {
    return t / together * (lanes * together / pieces) + lane() * together / pieces;
  }

  static constexpr uint32_t row_room = room_of(most_chunk / pieces * sizeof(B), 2);
  /* Rows whose chunks a wave has under way at once: one, or as many as make about 2 KiB. */
  static constexpr uint32_t rows = 1 + 1450 / row_room;
  static constexpr uint32_t wave_room = rows * row_room;
  static constexpr uint32_t column_room = room_of(most_chunk * sizeof(block_q8_1), 4);
  static constexpr uint32_t room =
      CRK_VEC_WAVES * wave_room > Columns *column_room ? CRK_VEC_WAVES *wave_room : Columns *column_room;
};

struct alignas(16) vec_bytes {
  unsigned char bytes[16];
};

/* A product: `columns` columns of activations, at most as many as the kernel is made for; `x` blocks from one to the next. */
struct vec_product {
  const unsigned char *weights;
  const block_q8_1 *x;
  void *dst;
  uint32_t dtype, columns;
  uint32_t row_blocks;
  uint64_t rows, x_stride, dst_stride;
};

/* The activations of a lane's pieces of a chunk. */
template <class B, int Columns>
struct vec_activations {
  activations16 of[Columns][vec_plan<B, Columns>::steps][2];
};

/* Takes `count` blocks of each column, from block `first` on, through the block's shared memory, which is free again at the
 * end. `guarded`: nothing around the columns may be read. */
template <class B, int Columns>
CRK_FN void take_activations(vec_activations<B, Columns> &x, const vec_product &p, uint32_t first, uint32_t count,
                             bool guarded, unsigned char *shared) {
  using P = vec_plan<B, Columns>;
  using Q = quant<B>;
  constexpr uint32_t slots = P::column_room / 16, all = Columns * slots;
  constexpr uint32_t steps = (all + CRK_VEC_WAVES * P::least_lanes - 1) / (CRK_VEC_WAVES * P::least_lanes);
  const uint32_t lanes = wave_size(), threads = CRK_VEC_WAVES * lanes, thread = thread_index().x;
  const uint32_t bytes = count * static_cast<uint32_t>(sizeof(block_q8_1));
  const unsigned char *from = reinterpret_cast<const unsigned char *>(p.x + first);
  const uint64_t stride = p.x_stride * sizeof(block_q8_1);
  if (!guarded) {
    codes16 loaded[steps] = {};
    CRK_UNROLL
    for (uint32_t i = 0; i < steps; i++) {
      const uint32_t slot = i * threads + thread, c = Columns == 1 ? 0 : slot / slots;
      if ((i + 1) * threads <= all || slot < all) {
        const span16 column(from + (c < p.columns ? c : p.columns - 1) * stride, bytes, false);
        const uint32_t at = (slot - c * slots) * 16;
        if (column.has(at)) {
          loaded[i] = load_aligned16(reinterpret_cast<const uint32_t *>(column.line + at));
        }
      }
    }
    CRK_UNROLL
    for (uint32_t i = 0; i < steps; i++) {
      const uint32_t slot = i * threads + thread;
      if ((i + 1) * threads <= all || slot < all) {
        store_aligned16(reinterpret_cast<uint32_t *>(shared + slot * 16), loaded[i]);
      }
    }
  } else {
    CRK_NO_UNROLL
    for (uint32_t c = 0; c < p.columns; c++) {
      const unsigned char *column = from + c * stride;
      copy_halves(shared + c * P::column_room + place_in_line(column), column, bytes, thread, threads);
    }
  }
  barrier();
  CRK_UNROLL
  for (uint32_t c = 0; c < Columns; c++) {
    const uint32_t place = place_in_line(from + (c < p.columns ? c : p.columns - 1) * stride);
    CRK_UNROLL
    for (uint32_t t = 0; t < P::steps; t++) {
      if (t * lanes < P::chunk(lanes)) {
        const uint32_t half = Q::first(P::part_of(t)), block = P::block_of(t, lanes) * P::q8_blocks;
        const q8_1_row row = {reinterpret_cast<const block_q8_1 *>(shared + c * P::column_room + place) + block};
        x.of[c][t][0] = load_activations<Q::vec_by_values>(row, half);
        x.of[c][t][1] = load_activations<Q::vec_by_values>(row, half + Q::distance);
      }
    }
  }
  barrier();
}

/* A sum a column over each 32 lanes: lane l has that of column l % 32 / (32 / Columns). Lanes choose by masks: of a condition nvcc
 * makes a branch with exchanges on both its sides. */
template <int Columns, int Mask = group_lanes / 2>
CRK_FN float sum_columns(const float (&sum)[Columns]) {
  if constexpr (Columns == 1) {
    return butterfly<2 * Mask>(sum[0], plus());
  } else {
    const uint32_t upper = 0u - (lane() / Mask & 1);
    float half[Columns / 2];
    CRK_UNROLL
    for (int c = 0; c < Columns / 2; c++) {
      const uint32_t a = bit_cast<uint32_t>(sum[c]), b = bit_cast<uint32_t>(sum[c + Columns / 2]),
                     swap = (a ^ b) & upper;
      half[c] = bit_cast<float>(a ^ swap) + exchange<Mask>(bit_cast<float>(b ^ swap));
    }
    return sum_columns<Columns / 2, Mask / 2>(half);
  }
}

/* A block's rows: `count` that follow each other, of which each wave makes every CRK_VEC_WAVES-th. */
template <class B, int Columns>
struct vec_tile {
  using P = vec_plan<B, Columns>;
  const unsigned char *weights;
  uint32_t row_bytes, count, blocks;
  uint32_t odd_first, odd_last; /* rows before which, or behind which, nothing may be read; or no rows */

  /* Blocks of the chunk that begins with block `done`. */
  CRK_FN uint32_t left(uint32_t done) const {
    const uint32_t chunk = P::chunk(wave_size()) / P::pieces;
    return blocks - done < chunk ? blocks - done : chunk;
  }
  CRK_FN bool at_edge(uint32_t row) const { return row == odd_first || row == odd_last; }
  CRK_FN const unsigned char *begin(uint32_t row, uint32_t done) const {
    return weights + static_cast<uint64_t>(row) * row_bytes + done * static_cast<uint32_t>(sizeof(B));
  }
};

/* A stage of a wave: the chunks of P::rows of its rows, on their way from global memory to the wave's part of shared memory. */
template <class B, int Columns>
struct vec_stage {
  using P = vec_plan<B, Columns>;
  under_way<P::row_room, P::least_lanes> row[P::rows];

  /* From row `first` and block `done` on, both of the tile. */
  CRK_FN void load(const vec_tile<B, Columns> &tile, uint32_t first, uint32_t done, uint32_t lanes) {
    const uint32_t bytes = tile.left(done) * static_cast<uint32_t>(sizeof(B));
    CRK_UNROLL
    for (uint32_t r = 0; r < P::rows; r++, first += CRK_VEC_WAVES) {
      if (first < tile.count) {
        row[r].load(span16(tile.begin(first, done), bytes, tile.at_edge(first)), lane(), lanes);
      }
    }
  }
  CRK_FN void store(unsigned char *room, uint32_t lanes) const {
    CRK_UNROLL
    for (uint32_t r = 0; r < P::rows; r++) {
      row[r].store(room + r * P::row_room, lane(), lanes);
    }
  }
};

/* Adds the chunk from block `done` on to the sums of the wave's rows, from row `wave` on. `sums` has a sum a column, row and group
 * of 32 lanes; in the first chunk they begin. `next` has the first stage of the chunk, and then that of the next chunk. */
template <class B, int Columns>
CRK_FN void multiply_chunk(const vec_activations<B, Columns> &x, const vec_tile<B, Columns> &tile, uint32_t done,
                           uint32_t wave, vec_stage<B, Columns> &next, unsigned char *room, float *sums) {
  using P = vec_plan<B, Columns>;
  using Q = quant<B>;
  constexpr uint32_t stage_rows = P::rows * CRK_VEC_WAVES, sum_lanes = group_lanes / Columns; /* that have one sum */
  const uint32_t lanes = wave_size(), in_wave = lane(), left = tile.left(done);
  for (uint32_t first = wave; first < tile.count; first += stage_rows) {
    next.store(room, lanes);
    wave_barrier();
    const bool more = first + stage_rows < tile.count;
    const uint32_t then = more ? done : done + P::chunk(lanes) / P::pieces;
    if (then < tile.blocks) {
      next.load(tile, more ? first + stage_rows : wave, then, lanes);
    }
    CRK_NO_UNROLL
    for (uint32_t r = 0; r < P::rows; r++) {
      const uint32_t row = first + r * CRK_VEC_WAVES;
      if (row >= tile.count) {
        break;
      }
      const unsigned char *from = tile.begin(row, done);
      unsigned char *bytes = room + r * P::row_room;
      if (tile.at_edge(row)) {
        copy_ends(bytes, from, left * static_cast<uint32_t>(sizeof(B)), in_wave);
        wave_barrier();
      }
      const B *blocks = reinterpret_cast<const B *>(bytes + place_in_line(from));
      float sum[Columns] = {};
      CRK_UNROLL
      for (uint32_t t = 0; t < P::steps; t++) {
        if (t * lanes < P::chunk(lanes)) {
          const uint32_t block = P::block_of(t, lanes);
          const crk::piece w = Q::load(blocks + block, P::part_of(t));
          CRK_UNROLL
          for (int c = 0; c < Columns; c++) {
            const float with = dot_piece<B, Q::vec_by_values>(w, x.of[c][t], sum[c]);
            sum[c] = block < left ? with : sum[c];
          }
        }
      }
      const float whole = sum_columns(sum);
      if (in_wave % sum_lanes == 0) {
        const uint32_t c = in_wave % group_lanes / sum_lanes, group = in_wave / group_lanes;
        float *to = sums + (c * CRK_VEC_ROWS + row) * (most_lanes / group_lanes) + group;
        *to = done == 0 ? whole : *to + whole;
      }
    }
    wave_barrier();
  }
}

/* dst[c][row] = the sum over k of weights[row][k] * activations[c][k], for c below p.columns: by `blocks` blocks of
 * CRK_VEC_WAVES waves, each of which makes `tile_rows` rows at a time, at most CRK_VEC_ROWS. */
template <class B, int Columns>
CRK_FN void mul_mat_vec_tiles(const vec_product &p, uint32_t tile_rows, uint32_t blocks) {
  using P = vec_plan<B, Columns>;
  constexpr uint32_t groups = most_lanes / group_lanes;
  CRK_SHARED(vec_bytes, shared, P::room / 16);
  CRK_SHARED(float, sums, CRK_VEC_ROWS *Columns *groups);
  const uint32_t lanes = wave_size(), thread = thread_index().x, wave = uniform(thread / lanes);
  unsigned char *room = shared->bytes + wave * P::wave_room;
  const uint32_t row_bytes = p.row_blocks * static_cast<uint32_t>(sizeof(B));
  const block_q8_1 *x_end = p.x + (p.columns - 1) * p.x_stride + p.row_blocks * P::q8_blocks;
  const bool odd_x = odd_place(p.x) || odd_place(x_end);
  const bool odd_begin = odd_place(p.weights), odd_end = odd_place(p.weights + p.rows * row_bytes);
  for (uint64_t row = static_cast<uint64_t>(block_index().x) * tile_rows; row < p.rows;
       row += static_cast<uint64_t>(blocks) * tile_rows) {
    const uint32_t count = p.rows - row < tile_rows ? static_cast<uint32_t>(p.rows - row) : tile_rows;
    const vec_tile<B, Columns> tile = {p.weights + row * row_bytes,
                                       row_bytes,
                                       count,
                                       p.row_blocks,
                                       odd_begin && row == 0 ? 0 : count,
                                       odd_end && p.rows - row == count ? count - 1 : count};
    /* The first weights are on their way before anything else. */
    vec_stage<B, Columns> next;
    next.load(tile, wave, 0, lanes);
    CRK_NO_UNROLL
    for (uint32_t done = 0; done < p.row_blocks; done += P::chunk(lanes) / P::pieces) {
      vec_activations<B, Columns> x;
      barrier(); /* the shared memory is free */
      take_activations<B, Columns>(x, p, done * P::q8_blocks, tile.left(done) * P::q8_blocks, odd_x, shared->bytes);
      multiply_chunk<B, Columns>(x, tile, done, wave, next, room, sums);
    }
    wave_barrier();
    for (uint32_t r = wave + lane() * CRK_VEC_WAVES; r < count; r += lanes * CRK_VEC_WAVES) {
      const float *part = sums + r * groups;
      uint64_t at = row + r;
      CRK_NO_UNROLL
      for (uint32_t c = 0; c < p.columns; c++, part += CRK_VEC_ROWS * groups, at += p.dst_stride) {
        store_as(p.dst, p.dtype, at, lanes == 64 ? part[0] + part[1] : part[0]);
      }
    }
  }
}

}  // namespace
}  // namespace crk

#endif
