/* Quantized weights times one to eight columns of activations, for the launchers: a block takes a tile of rows.
 *
 * Every byte of weights is read once, in whole lines: a wave copies a stage, so many pieces of one row, 16 bytes a lane
 * side by side, into its own part of shared memory, from where each lane takes its pieces, however the format aligns them.
 * While it works on a stage, the next one's bytes are on their way. Activations are read once a tile, the same way but by
 * all waves, and stay in registers for all rows of the wave; so a row is worked through in chunks, of as many pieces as the
 * registers hold. */
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

/* Of the `bytes` bytes from `from` on, and those of the first and last 16 aligned ones, the 16 that lie `at` bytes behind
 * the begin of from's line; elsewhere the nearest. */
CRK_FN codes16 load_near(const unsigned char *from, uint32_t bytes, uint32_t at) {
  const uint32_t begin = place_in_line(from), first = begin & ~15u, last = (begin + bytes - 1) & ~15u;
  at = at < first ? first : at;
  return load_aligned16(reinterpret_cast<const uint32_t *>(from - begin + (at < last ? at : last)));
}

/* Up to `Room` bytes on their way into a room in shared memory, 16 a lane and step, at the same places as behind a line's
 * begin. */
template <uint32_t Room, uint32_t LeastLanes>
struct under_way {
  static constexpr uint32_t steps = (Room + 16 * LeastLanes - 1) / (16 * LeastLanes);
  codes16 v[steps] = {};

  CRK_FN void load(const unsigned char *from, uint32_t bytes, uint32_t lane, uint32_t lanes) {
    CRK_UNROLL
    for (uint32_t i = 0; i < steps; i++) {
      const uint32_t at = (i * lanes + lane) * 16;
      /* The last step is often beyond the end. */
      if (i + 1 < steps || at < place_in_line(from) + bytes) {
        v[i] = load_near(from, bytes, at);
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

  CRK_FN static constexpr uint32_t bytes(uint32_t count) { return count / pieces * static_cast<uint32_t>(sizeof(B)); }
  /* Pieces of a chunk, for a wave of so many lanes. */
  CRK_FN static constexpr uint32_t chunk(uint32_t lanes) { return Columns == 8 ? lanes : most_chunk; }

  static constexpr uint32_t row_room = room_of(most_chunk / pieces * sizeof(B), 2);
  static constexpr uint32_t column_room = room_of(most_chunk * sizeof(block_q8_1), 4);
  static constexpr uint32_t room =
      CRK_VEC_WAVES * row_room > Columns *column_room ? CRK_VEC_WAVES *row_room : Columns *column_room;
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
      if (i + 1 < steps || slot < all) {
        loaded[i] = load_near(from + (c < p.columns ? c : p.columns - 1) * stride, bytes, (slot - c * slots) * 16);
      }
    }
    CRK_UNROLL
    for (uint32_t i = 0; i < steps; i++) {
      const uint32_t slot = i * threads + thread;
      if (slot < all) {
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
  const uint32_t half = Q::first(whole_word(lane() % P::pieces));
  CRK_UNROLL
  for (uint32_t c = 0; c < Columns; c++) {
    const uint32_t place = place_in_line(from + (c < p.columns ? c : p.columns - 1) * stride);
    CRK_UNROLL
    for (uint32_t t = 0; t < P::steps; t++) {
      if (t * lanes < P::chunk(lanes)) {
        const uint32_t block = (t * (lanes / P::pieces) + lane() / P::pieces) * P::q8_blocks;
        const q8_1_row row = {reinterpret_cast<const block_q8_1 *>(shared + c * P::column_room + place) + block};
        x.of[c][t][0] = load_activations<Q::vec_by_values>(row, half);
        x.of[c][t][1] = load_activations<Q::vec_by_values>(row, half + Q::distance);
      }
    }
  }
  barrier();
}

/* Adds a chunk's share to the sums of the wave's rows: every CRK_VEC_WAVES-th from `row` on of `count` rows that begin `row_bytes`
 * apart and have `left` pieces of the chunk, the first at `weights`. `sums` has a sum a column, row and group of 32 lanes; in the
 * first chunk they begin. `guarded`: nothing around the rows may be read. */
template <class B, int Columns>
CRK_FN void multiply_chunk(const vec_activations<B, Columns> &x, const unsigned char *weights, uint32_t row,
                           uint32_t row_bytes, uint32_t count, uint32_t left, bool begins, bool guarded,
                           unsigned char *room, float *sums) {
  using P = vec_plan<B, Columns>;
  using Q = quant<B>;
  const uint32_t lanes = wave_size(), in_wave = lane(), bytes = P::bytes(left);
  const uint64_t step = static_cast<uint64_t>(row_bytes) * CRK_VEC_WAVES;
  const unsigned char *from = weights + static_cast<uint64_t>(row) * row_bytes;
  under_way<P::row_room, P::least_lanes> next;
  if (row < count && !guarded) {
    next.load(from, bytes, in_wave, lanes);
  }
  for (; row < count; row += CRK_VEC_WAVES, from += step) {
    const B *here = reinterpret_cast<const B *>(room + place_in_line(from));
    if (guarded) {
      copy_halves(room + place_in_line(from), from, bytes, in_wave, lanes);
    } else {
      next.store(room, in_wave, lanes);
    }
    wave_barrier();
    if (row + CRK_VEC_WAVES < count && !guarded) {
      next.load(from + step, bytes, in_wave, lanes);
    }
    float sum[Columns] = {};
    CRK_UNROLL
    for (uint32_t t = 0; t < P::steps; t++) {
      if (t * lanes < P::chunk(lanes)) {
        const uint32_t place = t * lanes + in_wave;
        const crk::piece w =
            Q::load(here + t * (lanes / P::pieces) + in_wave / P::pieces, whole_word(in_wave % P::pieces));
        CRK_UNROLL
        for (int c = 0; c < Columns; c++) {
          const float more = dot_piece<B, Q::vec_by_values>(w, x.of[c][t], sum[c]);
          sum[c] = place < left ? more : sum[c];
        }
      }
    }
    wave_barrier();
    CRK_UNROLL
    for (int c = 0; c < Columns; c++) {
      sum[c] = butterfly<group_lanes>(sum[c], plus());
    }
    if (in_wave % group_lanes == 0) {
      CRK_UNROLL
      for (int c = 0; c < Columns; c++) {
        float *to = sums + (c * CRK_VEC_ROWS + row) * (most_lanes / group_lanes) + in_wave / group_lanes;
        const float before = *to;
        *to = (begins ? 0.0f : before) + sum[c];
      }
    }
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
  unsigned char *room = shared->bytes + wave * P::row_room;
  const uint32_t row_bytes = p.row_blocks * static_cast<uint32_t>(sizeof(B)), pieces = p.row_blocks * P::pieces;
  const block_q8_1 *x_end = p.x + (p.columns - 1) * p.x_stride + p.row_blocks * P::q8_blocks;
  const bool odd_x = odd_place(p.x) || odd_place(x_end);
  const bool odd_begin = odd_place(p.weights), odd_end = odd_place(p.weights + p.rows * row_bytes);
  for (uint64_t row = static_cast<uint64_t>(block_index().x) * tile_rows; row < p.rows;
       row += static_cast<uint64_t>(blocks) * tile_rows) {
    const uint32_t count = p.rows - row < tile_rows ? static_cast<uint32_t>(p.rows - row) : tile_rows;
    const bool guarded = (odd_begin && row == 0) || (odd_end && p.rows - row <= tile_rows);
    const unsigned char *from = p.weights + row * row_bytes;
    CRK_NO_UNROLL
    for (uint32_t done = 0; done < pieces; done += P::chunk(lanes)) {
      const uint32_t left = pieces - done < P::chunk(lanes) ? pieces - done : P::chunk(lanes);
      vec_activations<B, Columns> x;
      barrier(); /* the shared memory is free */
      take_activations<B, Columns>(x, p, done / P::pieces * P::q8_blocks, left / P::pieces * P::q8_blocks, odd_x,
                                   shared->bytes);
      multiply_chunk<B, Columns>(x, from + P::bytes(done), wave, row_bytes, count, left, done == 0, guarded, room,
                                 sums);
    }
    barrier();
    if (thread < count) {
      const float *part = sums + thread * groups;
      uint64_t at = row + thread;
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
