/* Quantized weights times one to eight columns of activations, for the launchers: a block takes a tile of rows.
 *
 * Every byte of weights is read once, in whole lines: a wave copies a stage, so many pieces of each of a few rows, 16 bytes a
 * lane side by side, into its own part of shared memory, from where each lane takes its pieces, however the format aligns
 * them. While it works on a stage, the next one's bytes are on their way, in registers or by a copy that the GPU makes itself.
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
 * begin. Bytes of the room that nothing is loaded for may change too. */
template <uint32_t Room, uint32_t LeastLanes, class Copies = async_copies, bool Async = Copies::present>
struct under_way {
  static constexpr uint32_t steps = (Room + 16 * LeastLanes - 1) / (16 * LeastLanes);
  codes16 v[steps] = {};

  CRK_FN void begin(unsigned char *, const span16 &span, uint32_t lane, uint32_t lanes) {
    const unsigned char *from = span.line + lane * 16;
    CRK_UNROLL
    for (uint32_t i = 0; i < steps; i++) {
      const uint32_t at = (i * lanes + lane) * 16;
      if (i == 0 ? span.has(at) : at < span.end) { /* `first` is in the first line, or the next one's begin */
        v[i] = load_aligned16(reinterpret_cast<const uint32_t *>(from + i * lanes * 16));
      }
    }
  }
  CRK_FN void end(unsigned char *room, uint32_t lane, uint32_t lanes) const {
    CRK_UNROLL
    for (uint32_t i = 0; i < steps; i++) {
      const uint32_t at = (i * lanes + lane) * 16;
      if ((i + 1) * lanes * 16 <= Room || at < Room) {
        store_aligned16(reinterpret_cast<uint32_t *>(room + at), v[i]);
      }
    }
  }
};
/* Where the GPU copies by itself, no registers hold them. */
template <uint32_t Room, uint32_t LeastLanes, class Copies>
struct under_way<Room, LeastLanes, Copies, true> {
  CRK_FN void begin(unsigned char *room, const span16 &span, uint32_t lane, uint32_t lanes) {
    const Copies copies(room + lane * 16, span.line + lane * 16);
    CRK_UNROLL
    for (uint32_t i = 0; i * 16 * LeastLanes < Room; i++) {
      const uint32_t at = (i * lanes + lane) * 16;
      copies.begin16(i * lanes * 16, i == 0 ? span.has(at) : at < span.end);
    }
  }
  CRK_FN void end(unsigned char *, uint32_t, uint32_t) const {}
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

/* What half a block of activations has beside its codes: its scale, and the sum of codes. */
struct alignas(8) half_head {
  float d;
  int32_t code_sum;
};

/* How much of a row there is at a time, for a format and a number of columns: a chunk of pieces, as many as their
 * activations have registers, and at most 4 KiB. */
template <class B, int Columns>
struct vec_plan {
  using Q = quant<B>;
  static constexpr uint32_t pieces = Q::pieces, least_lanes = on_host ? 32 : most_lanes,
                            q8_blocks = block_elements<B> / 32;
  static constexpr uint32_t long_chunk = async_copies::present || 4096 * pieces / sizeof(B) >= 128 ? 128 : 64;
  static constexpr uint32_t most_chunk = Columns == 1 ? long_chunk : Columns <= 4 ? 64 : most_lanes;
  static constexpr uint32_t steps = Columns == 8 ? 1 : most_chunk / least_lanes; /* at most, each a piece a lane */

  /* Pieces of a chunk, for a wave of so many lanes. */
  CRK_FN static constexpr uint32_t chunk(uint32_t lanes) { return Columns == 8 ? lanes : most_chunk; }

  /* A lane's piece t of a chunk is this piece of this block. Of a block of 256 a lane takes two that share their scales, or the
   * bytes of their codes; but of several columns one at a time, which is all that eight have registers for: so a row of one chunk is
   * added up the same way beside one other column as beside seven, as Candle's tests want. */
  static constexpr uint32_t together = pieces == 8 && most_chunk % (2 * most_lanes) == 0 && Columns == 1 ? 2 : 1;
  static constexpr bool in_place = pieces == 1 || together == 2; /* the compiler knows which bits are a piece's */
  CRK_FN static piece_place part_of(uint32_t t) {
    const uint32_t l = whole_word(lane() % (pieces / together));
    if constexpr (together == 2) {
      return Q::shares_scales ? piece_place{l >> 1, l & 1, t % 2} : piece_place{l >> 1, t % 2, l & 1};
    } else {
      return place_of_piece(l);
    }
  }
  CRK_FN static uint32_t first_block() { return lane() * together / pieces; }
  CRK_FN static uint32_t block_behind(uint32_t t, uint32_t lanes) { return t / together * (lanes * together / pieces); }
  CRK_FN static uint32_t block_of(uint32_t t, uint32_t lanes) { return block_behind(t, lanes) + first_block(); }
  /* What blocks are aligned to in shared memory: where words are not taken from anywhere, to all that their size allows. */
  static constexpr uint32_t alignment = words_anywhere ? 2 : sizeof(B) & (0 - sizeof(B));

  static constexpr uint32_t row_room = room_of(most_chunk / pieces * sizeof(B), 2);
  /* Rows whose chunks a wave has under way at once: one, or as many as make about 2 KiB. */
  static constexpr uint32_t rows = 1 + 1450 / row_room;
  static constexpr uint32_t wave_room = rows * row_room;
  static constexpr uint32_t column_room = room_of(most_chunk * sizeof(block_q8_1), 4);
  /* Whether activations are taken apart in shared memory before lanes read them: where all lanes would read the same few banks, four
   * words behind each other. Half h of a chunk is then in place place_of_half(h), so that lanes read every bank. */
  static constexpr bool apart = Columns == 1 && pieces == 8 && !Q::shares_scales;
  static constexpr uint32_t half_places = apart ? most_chunk / 4 * 10 : 0;
  CRK_FN static constexpr uint32_t place_of_half(uint32_t h) { return h / 8 * 10 + h % 8; }
  static constexpr uint32_t halves_room = half_places * (sizeof(codes16) + sizeof(half_head));
  /* Stages that a wave has room for. Where the GPU copies by itself one or two are under way while another is worked on. */
  static constexpr uint32_t stages = !async_copies::present ? 1 : 3 * wave_room <= CRK_VEC_STAGED_BYTES ? 3 : 2;
  static constexpr uint32_t weights_room = CRK_VEC_WAVES * stages * wave_room,
                            columns_room = Columns * column_room > halves_room ? Columns *column_room : halves_room;
  /* Then the activations cannot take the weights' place. */
  static constexpr uint32_t columns_at = async_copies::present ? weights_room : 0;
  static constexpr uint32_t room = columns_at + columns_room > weights_room ? columns_at + columns_room : weights_room;
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

/* Blocks of the columns on their way to the registers of all threads that want them, through the block's shared memory. */
template <class B, int Columns>
struct vec_columns {
  using P = vec_plan<B, Columns>;
  using Q = quant<B>;
  static constexpr uint32_t slots = P::column_room / 16, all = Columns * slots,
                            least_threads = CRK_VEC_WAVES * P::least_lanes,
                            steps = (all + least_threads - 1) / least_threads;
  const vec_product &p;
  const bool guarded; /* nothing around the columns may be read */
  codes16 loaded[steps];

  CRK_FN vec_columns(const vec_product &product, bool is_guarded) : p(product), guarded(is_guarded) {}
  CRK_FN const unsigned char *begin(uint32_t c, uint32_t first) const {
    return reinterpret_cast<const unsigned char *>(p.x + first) +
           (c < p.columns ? c : p.columns - 1) * p.x_stride * sizeof(block_q8_1);
  }

  /* Asks for `count` blocks of each column, from block `first` on. */
  CRK_FN void load(uint32_t first, uint32_t count) {
    const uint32_t threads = CRK_VEC_WAVES * wave_size(), thread = thread_index().x;
    CRK_UNROLL
    for (uint32_t i = 0; i < steps; i++) {
      loaded[i] = {};
    }
    if (guarded) {
      return;
    }
    CRK_UNROLL
    for (uint32_t i = 0; i < steps; i++) {
      const uint32_t slot = i * threads + thread, c = Columns == 1 ? 0 : slot / slots;
      if ((i + 1) * threads <= all || slot < all) {
        const span16 column(begin(c, first), count * static_cast<uint32_t>(sizeof(block_q8_1)), false);
        const uint32_t at = (slot - c * slots) * 16;
        if (column.has(at)) {
          loaded[i] = load_aligned16(reinterpret_cast<const uint32_t *>(column.line + at));
        }
      }
    }
  }
  /* Takes them. The shared memory is free again at the end. */
  CRK_FN void take(vec_activations<B, Columns> &x, uint32_t first, uint32_t count, unsigned char *shared) const {
    const uint32_t lanes = wave_size(), threads = CRK_VEC_WAVES * lanes, thread = thread_index().x;
    if (!guarded) {
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
        const unsigned char *column = begin(c, first);
        copy_halves(shared + c * P::column_room + place_in_line(column), column,
                    count * static_cast<uint32_t>(sizeof(block_q8_1)), thread, threads);
      }
    }
    barrier();
    if constexpr (P::apart) {
      take_apart(shared, place_in_line(begin(0, first)));
    }
    CRK_UNROLL
    for (uint32_t c = 0; c < Columns; c++) {
      const uint32_t place = place_in_line(begin(c, first));
      CRK_UNROLL
      for (uint32_t t = 0; t < P::steps; t++) {
        if (t * lanes < P::chunk(lanes)) {
          const uint32_t half = Q::first(P::part_of(t)), blocks = P::block_of(t, lanes) * P::q8_blocks;
          CRK_UNROLL
          for (uint32_t h = 0; h < 2; h++) {
            const uint32_t its = half + h * Q::distance;
            if constexpr (P::apart) {
              const uint32_t at = P::place_of_half(blocks * 2 + its);
              const half_head head = heads(shared)[at];
              x.of[c][t][h] = {load_aligned16(codes(shared)[at].v), head.d, 0.0f, head.code_sum};
            } else {
              const shared_bytes<4> block(shared + c * P::column_room,
                                          place + (blocks + its / 2) * static_cast<uint32_t>(sizeof(block_q8_1)));
              x.of[c][t][h] = activations_of<Q::vec_by_values>(
                  block.template words<4>(offsetof(block_q8_1, qs) + 16 * (its % 2)), block.template words<1>(0).v[0]);
            }
          }
        }
      }
    }
    barrier();
  }

  /* Activations taken apart: all codes, then all heads. */
  CRK_FN static codes16 *codes(unsigned char *shared) { return reinterpret_cast<codes16 *>(shared); }
  CRK_FN static half_head *heads(unsigned char *shared) {
    return reinterpret_cast<half_head *>(codes(shared) + P::half_places);
  }
  /* Puts them into the stead of a chunk's blocks, which begin `place` bytes behind `shared`. */
  CRK_FN static void take_apart(unsigned char *shared, uint32_t place) {
    static_assert(P::most_chunk <= CRK_VEC_WAVES * P::least_lanes && !Q::vec_by_values, "a thread has a block");
    const uint32_t block = thread_index().x;
    const bool has = block < P::most_chunk;
    const shared_bytes<4> from(shared, place + (has ? block : 0) * static_cast<uint32_t>(sizeof(block_q8_1)));
    const uint32_t ds = from.template words<1>(0).v[0];
    const codes16 halves[2] = {from.template words<4>(offsetof(block_q8_1, qs)),
                               from.template words<4>(offsetof(block_q8_1, qs) + 16)};
    barrier();
    if (has) {
      CRK_UNROLL
      for (uint32_t h = 0; h < 2; h++) {
        const uint32_t at = P::place_of_half(block * 2 + h);
        store_aligned16(codes(shared)[at].v, halves[h]);
        heads(shared)[at] = {f16_low(ds), sum16(halves[h])};
      }
    }
    barrier();
  }
};

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
  bool askew; /* not aligned to P::alignment, to which a copy is made by halves: rare */

  /* Blocks of the chunk that begins with block `done`. */
  CRK_FN uint32_t left(uint32_t done) const {
    const uint32_t chunk = P::chunk(wave_size()) / P::pieces;
    return blocks - done < chunk ? blocks - done : chunk;
  }
  /* Where a row's chunk lies in its room. */
  CRK_FN uint32_t place(uint32_t row, uint32_t done) const {
    return askew ? 0
                 : (static_cast<uint32_t>(reinterpret_cast<uintptr_t>(weights)) + row * row_bytes +
                    done * static_cast<uint32_t>(sizeof(B))) %
                       line_bytes;
  }
  CRK_FN bool at_edge(uint32_t row) const { return row == odd_first || row == odd_last; }
  CRK_FN const unsigned char *begin(uint32_t row, uint32_t done) const {
    return weights + static_cast<uint64_t>(row) * row_bytes + done * static_cast<uint32_t>(sizeof(B));
  }
};

/* The stages of a wave's part of a tile, one after the other: the chunks of P::rows of its rows, those of the next rows, then the
 * next chunks of all. The next stages are on their way to the wave's rooms while it works on one. */
template <class B, int Columns, class Copies = async_copies>
struct vec_feed {
  using P = vec_plan<B, Columns>;
  static constexpr uint32_t block_bytes = sizeof(B);
  const vec_tile<B, Columns> &tile;
  unsigned char *rooms;
  uint32_t wave, lanes;
  uint32_t row, done; /* where the stage begins that is asked for next */
  uint32_t turn; /* the room that is taken next */
  under_way<P::row_room, P::least_lanes> bytes[P::rows];

  CRK_FN vec_feed(const vec_tile<B, Columns> &its_tile, unsigned char *its_rooms, uint32_t its_wave)
      : tile(its_tile), rooms(its_rooms), wave(its_wave), lanes(wave_size()), row(its_wave), done(0), turn(0) {
    begin(0);
    CRK_UNROLL
    for (uint32_t i = 1; i + 1 < P::stages; i++) {
      begin(i);
    }
  }
  CRK_FN void begin(uint32_t room) {
    if (done < tile.blocks) {
      CRK_UNROLL
      for (uint32_t r = 0; r < P::rows; r++) {
        const uint32_t its = row + r * CRK_VEC_WAVES;
        if (its < tile.count && !tile.askew) {
          const span16 span(tile.begin(its, done), tile.left(done) * block_bytes, tile.at_edge(its));
          bytes[r].begin(rooms + room * P::wave_room + r * P::row_room, span, lane(), lanes);
        }
      }
      row += P::rows * CRK_VEC_WAVES;
      if (row >= tile.count) {
        row = wave;
        done += P::chunk(lanes) / P::pieces;
      }
    }
    if constexpr (P::stages > 1) {
      Copies::end_group();
    }
  }
  /* The room that has the next stage, with the chunk from block `now` on of the rows from `first` on, until the one after it is
   * taken. */
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
        copy_halves(to, tile.begin(its, now), tile.left(now) * block_bytes, lane(), lanes);
      }
    }
    wave_barrier();
    begin(turn == 0 ? P::stages - 1 : turn - 1);
    turn = turn + 1 == P::stages ? 0 : turn + 1;
    return room;
  }
};

/* Adds a row's sums, of the lanes that have one, to what `to` has for the row, or puts them there: one a column and group of lanes. */
template <int Columns>
CRK_FN void put_sums(float *to, const float (&sum)[Columns], bool first) {
  constexpr uint32_t sum_lanes = group_lanes / Columns; /* that have one sum */
  const float whole = sum_columns(sum);
  if (lane() % sum_lanes == 0) {
    const uint32_t c = lane() % group_lanes / sum_lanes, group = lane() / group_lanes;
    float *its = to + c * CRK_VEC_ROWS * (most_lanes / group_lanes) + group;
    *its = first ? whole : *its + whole;
  }
}

/* Adds the chunk from block `done` on to the sums of the wave's rows, from row `wave` on. `sums` has a sum a column, row and group
 * of 32 lanes; in the first chunk they begin. `next` has the first stage of the chunk, and then that of the next chunk. */
template <class B, int Columns>
CRK_FN void multiply_chunk(const vec_activations<B, Columns> &x, const vec_tile<B, Columns> &tile, uint32_t done,
                           uint32_t wave, vec_feed<B, Columns> &feed, float *sums) {
  using P = vec_plan<B, Columns>;
  using Q = quant<B>;
  constexpr uint32_t stage_rows = P::rows * CRK_VEC_WAVES, block_bytes = sizeof(B);
  const uint32_t lanes = wave_size(), left = tile.left(done), own = P::first_block() * block_bytes;
  for (uint32_t first = wave; first < tile.count; first += stage_rows) {
    unsigned char *room = feed.take(first, done);
    CRK_NO_UNROLL
    for (uint32_t r = 0; r < P::rows; r++) {
      const uint32_t row = first + r * CRK_VEC_WAVES;
      if (row >= tile.count) {
        break;
      }
      unsigned char *bytes = room + r * P::row_room;
      if (tile.at_edge(row)) {
        copy_ends(bytes, tile.begin(row, done), left * block_bytes, lane());
        wave_barrier();
      }
      const shared_bytes<P::alignment> blocks(bytes, tile.place(row, done) + own);
      float sum[Columns] = {};
      CRK_UNROLL
      for (uint32_t t = 0; t < P::steps; t++) {
        if (t * lanes < P::chunk(lanes)) {
          const crk::piece w =
              Q::template load<P::in_place>(blocks.behind(P::block_behind(t, lanes) * block_bytes), P::part_of(t));
          CRK_UNROLL
          for (int c = 0; c < Columns; c++) {
            const float with = dot_piece<B, Q::vec_by_values>(w, x.of[c][t], sum[c]);
            sum[c] = P::block_of(t, lanes) < left ? with : sum[c];
          }
        }
      }
      put_sums(sums + row * (most_lanes / group_lanes), sum, done == 0);
    }
  }
}

/* dst[c][row] = the sum over k of weights[row][k] * activations[c][k], for c below p.columns: by blocks of CRK_VEC_WAVES waves, each
 * of which makes `block_rows` rows that follow each other, the first `larger` of them one more, at most CRK_VEC_ROWS at a time. */
template <class B, int Columns>
CRK_FN void mul_mat_vec_tiles(const vec_product &p, uint32_t block_rows, uint32_t larger) {
  using P = vec_plan<B, Columns>;
  constexpr uint32_t groups = most_lanes / group_lanes;
  CRK_SHARED(vec_bytes, shared, P::room / 16);
  CRK_SHARED(float, sums, CRK_VEC_ROWS *Columns *groups);
  const uint32_t lanes = wave_size(), wave = wave_in_block();
  unsigned char *rooms = reinterpret_cast<unsigned char *>(shared), *room = rooms + wave * P::stages * P::wave_room;
  const uint32_t row_bytes = p.row_blocks * static_cast<uint32_t>(sizeof(B));
  const block_q8_1 *x_end = p.x + (p.columns - 1) * p.x_stride + p.row_blocks * P::q8_blocks;
  const bool odd_x = odd_place(p.x) || odd_place(x_end);
  const bool askew = P::alignment > 2 && reinterpret_cast<uintptr_t>(p.weights) % P::alignment != 0;
  const bool odd_begin = odd_place(p.weights), odd_end = odd_place(p.weights + p.rows * row_bytes);
  const uint32_t block = block_index().x;
  uint64_t row = static_cast<uint64_t>(block) * block_rows + (block < larger ? block : larger);
  uint32_t rest = block_rows + (block < larger ? 1 : 0);
  for (uint32_t count; rest > 0; rest -= count, row += count) {
    count = rest < CRK_VEC_ROWS ? rest : CRK_VEC_ROWS;
    const vec_tile<B, Columns> tile = {p.weights + row * row_bytes,
                                       row_bytes,
                                       count,
                                       p.row_blocks,
                                       odd_begin && !askew && row == 0 ? 0 : count,
                                       odd_end && !askew && p.rows - row == count ? count - 1 : count,
                                       askew};
    vec_columns<B, Columns> columns(p, odd_x);
    /* Activations that are asked for behind weights come late, but registers that had to hold both would be too many. */
    constexpr bool columns_first = async_copies::present;
    if (columns_first) {
      columns.load(0, tile.left(0) * P::q8_blocks);
    }
    vec_feed<B, Columns> feed(tile, room, wave);
    CRK_NO_UNROLL
    for (uint32_t done = 0; done < p.row_blocks; done += P::chunk(lanes) / P::pieces) {
      vec_activations<B, Columns> x;
      barrier(); /* the shared memory is free */
      if (!columns_first) {
        columns.load(done * P::q8_blocks, tile.left(done) * P::q8_blocks);
      }
      columns.take(x, done * P::q8_blocks, tile.left(done) * P::q8_blocks, rooms + P::columns_at);
      const uint32_t next = done + P::chunk(lanes) / P::pieces;
      if (columns_first && next < p.row_blocks) {
        columns.load(next * P::q8_blocks, tile.left(next) * P::q8_blocks);
      }
      multiply_chunk<B, Columns>(x, tile, done, wave, feed, sums);
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
