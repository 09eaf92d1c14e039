/* The plan of the launchers' products of quantized weights with few columns (matvec_tile.h). vec_plan says how a row is
 * cut and where everything is in shared memory. vec_columns brings a chunk's activations to registers. */
#ifndef CRK_MATVEC_COLUMNS_H
#define CRK_MATVEC_COLUMNS_H

#include "call/quantized_call.h"
#include "quantized/matvec.h"
#include "quantized/matvec_staged.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* Half a block of activations without its codes: its scale, and the sum of its codes. */
struct alignas(8) half_head {
  float d;
  int32_t code_sum;
};

/* The plan for a format and a number of columns. A chunk is the part of a row that is multiplied at a time. It has as
 * many pieces as the registers can hold activations for. Without asynchronous copies it has at most 4 KiB of
 * weights. */
template <class B, int Columns>
struct vec_plan {
  using Q = quant<B>;
  static constexpr uint32_t pieces = Q::pieces, least_lanes = on_host ? 32 : most_lanes,
                            q8_blocks = block_elements<B> / 32;
  static constexpr uint32_t long_chunk = async_copies::present || 4096 * pieces / sizeof(B) >= 128 ? 128 : 64;
  static constexpr uint32_t most_chunk = Columns == 1 ? long_chunk : Columns <= 4 ? 64 : most_lanes;
  static constexpr uint32_t steps = Columns == 8 ? 1 : most_chunk / least_lanes; /* the most pieces per lane and
                                                                                  * chunk */

  /* Pieces of a chunk, for waves of `lanes` lanes. */
  CRK_FN static constexpr uint32_t chunk(uint32_t lanes) { return Columns == 8 ? lanes : most_chunk; }

  /* A wave has a whole chunk of a row in shared memory at a time. If shared memory has no room for this with eight
   * waves per SIMD unit, the wave takes the chunk in `parts`, one after the other. */
  static constexpr uint32_t chunk_room = room_of(most_chunk / pieces * sizeof(B), 2),
                            sums_room = CRK_VEC_ROWS * Columns * (most_lanes / group_lanes) * sizeof(float),
                            wide_room = (CRK_VEC_WIDE_BYTES - sums_room) / CRK_VEC_WAVES / 16 * 16;
  static constexpr uint32_t parts = wide_waves && chunk_room > wide_room ? steps : 1;
  CRK_FN static uint32_t part_blocks(uint32_t lanes) { return chunk(lanes) / parts / pieces; }

  /* block_of gives the block of a lane's piece t, part_of the piece's place in the block. With one column a lane takes
   * two pieces of a block of 256 together, which share their scales or the bytes of their codes. With several columns
   * it takes one piece at a time, because with eight columns there are registers for only one. A row of one chunk is
   * then added up in the same order for two columns as for eight, as Candle's tests require. */
  static constexpr uint32_t together =
      pieces == 8 && parts == 1 && most_chunk % (2 * most_lanes) == 0 && Columns == 1 ? 2 : 1;
  static constexpr bool in_place = pieces == 1 || together == 2; /* the compiler knows which bits are a piece's */

  /* Whether short rows, of at most half a chunk, may have code of their own. That code takes half of a lane's pieces.
   * The other half must belong to other blocks. */
  static constexpr bool has_short = steps >= 2 * together;
  CRK_FN static uint32_t half_blocks() { return chunk(wave_size()) / pieces / 2; }
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
  /* The alignment of blocks in shared memory. It is 2 if words can be read at any address, else the largest power of
   * two that divides the block's size. */
  static constexpr uint32_t alignment = words_anywhere ? 2 : sizeof(B) & (0 - sizeof(B));

  static constexpr uint32_t row_room = room_of(most_chunk / parts / pieces * sizeof(B), 2);
  /* The number of rows of which a wave has a chunk under way, at least one. The chunks take about 2 KiB. With waves of
   * 64 lanes they are as many as fit in wide_room. */
  static constexpr uint32_t rows = !wide_waves ? 1 + 1450 / row_room : row_room < wide_room ? wide_room / row_room : 1;
  static constexpr uint32_t wave_room = rows * row_room;
  static constexpr uint32_t column_room = room_of(most_chunk * sizeof(block_q8_1), 4);
  /* Whether activations are split into codes and heads in shared memory before lanes read them. This is for formats
   * where the lanes' reads, of four words each, would all fall on the same few banks. Half h of a chunk is then at
   * place_of_half(h), which spreads the reads over all banks. */
  static constexpr bool apart = Columns == 1 && pieces == 8 && !Q::shares_scales;
  static constexpr uint32_t half_places = apart ? most_chunk / 4 * 10 : 0;
  CRK_FN static constexpr uint32_t place_of_half(uint32_t h) { return h / 8 * 10 + h % 8; }
  static constexpr uint32_t halves_room = half_places * (sizeof(codes16) + sizeof(half_head));
  /* Stages that a wave has room for. With asynchronous copies, one or two stages are under way while the wave works on
   * another. */
  static constexpr uint32_t stages = !async_copies::present ? 1 : 3 * wave_room <= CRK_VEC_STAGED_BYTES ? 3 : 2;
  /* With asynchronous copies the weights' room is always in use. So the activations, and their split form, have rooms
   * of their own. */
  static constexpr bool own_rooms = async_copies::present;
  static constexpr uint32_t weights_room = CRK_VEC_WAVES * stages * wave_room, blocks_room = Columns * column_room;
  static constexpr uint32_t columns_at = own_rooms ? weights_room : 0;
  static constexpr uint32_t halves_at = columns_at + (own_rooms && apart ? blocks_room : 0);
  static constexpr uint32_t blocks_end = columns_at + blocks_room, halves_end = halves_at + halves_room;
  static constexpr uint32_t columns_end = blocks_end > halves_end ? blocks_end : halves_end;
  static constexpr uint32_t room = columns_end > weights_room ? columns_end : weights_room;
};

struct alignas(16) vec_bytes {
  unsigned char bytes[16];
};

/* The thread bound of a kernel. For nvcc it counts the threads of all blocks that should be on a multiprocessor at
 * once. nvcc then leaves registers for all of them. */
constexpr uint32_t vec_threads(uint32_t columns) {
  return (async_copies::present ? CRK_VEC_BLOCKS(columns) : 1) * CRK_VEC_WAVES * most_lanes;
}

/* Waves per SIMD unit that a kernel asks the compiler for; 1 asks for nothing. With waves of 64 lanes and two columns
 * they are as many as shared memory allows, at most eight. */
template <class B>
constexpr uint32_t vec_waves(uint32_t columns) {
  using P = vec_plan<B, 2>;
  const uint32_t blocks = 8 * CRK_VEC_WIDE_BYTES / (P::room + P::sums_room);
  return wide_waves && columns == 2 ? (blocks < 8 ? blocks : 8) : 1;
}

/* The activations for a lane's pieces of a chunk. */
template <class B, int Columns>
struct vec_activations {
  activations16 of[Columns][vec_plan<B, Columns>::steps][2];
};

/* The number of this thread. On GPUs with few registers it is opaque, so that the compiler computes nothing from it in
 * advance. Such values would occupy registers while rows are multiplied. */
CRK_FN uint32_t own_thread() { return wide_waves ? opaque(thread_index().x) : thread_index().x; }

/* Brings activations to the registers of all threads that need them. load() reads them from global memory, take()
 * passes them through the block's shared memory. */
template <class B, int Columns, class Of>
struct vec_columns {
  using P = vec_plan<B, Columns>;
  using Q = quant<B>;
  static constexpr uint32_t slots = P::column_room / 16, all = Columns * slots,
                            least_threads = CRK_VEC_WAVES * P::least_lanes,
                            steps = (all + least_threads - 1) / least_threads;
  const Of &of;
  const crk_vec_product_t &p;
  const bool guarded; /* no byte outside the columns may be read */
  codes16 loaded[steps];

  CRK_FN vec_columns(const Of &product, bool is_guarded) : of(product), p(product.product), guarded(is_guarded) {}
  CRK_FN const unsigned char *begin(uint32_t c, uint32_t first) const {
    const block_q8_1 *its = of.x() + first;
    if (Columns > 1) {
      its += (c < p.columns ? c : p.columns - 1) * p.x_stride;
    }
    return reinterpret_cast<const unsigned char *>(its);
  }

  /* Starts loading `count` blocks of each column, from block `first` on. */
  CRK_FN void load(uint32_t first, uint32_t count) {
    const uint32_t threads = CRK_VEC_WAVES * wave_size(), thread = own_thread();
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
  /* Passes the loaded blocks through shared memory to `x`. If they share the weights' room, all waves must have
   * finished with the weights. The room is free again at the end. */
  CRK_FN void take(vec_activations<B, Columns> &x, uint32_t first, uint32_t count, unsigned char *rooms) const {
    unsigned char *shared = rooms + P::columns_at, *halves = rooms + P::halves_at;
    const uint32_t lanes = wave_size(), threads = CRK_VEC_WAVES * lanes, thread = own_thread();
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
    shared_barrier();
    if constexpr (P::apart) {
      take_apart(shared, place_in_line(begin(0, first)), halves);
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
              const half_head head = heads(halves)[at];
              x.of[c][t][h] = {load_aligned16(codes(halves)[at].v), head.d, 0.0f, head.code_sum};
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
    if (!P::own_rooms) {
      shared_barrier();
    }
  }

  /* Split activations: all codes, then all heads. */
  CRK_FN static codes16 *codes(unsigned char *shared) { return reinterpret_cast<codes16 *>(shared); }
  CRK_FN static half_head *heads(unsigned char *shared) {
    return reinterpret_cast<half_head *>(codes(shared) + P::half_places);
  }
  /* Splits the activations of a chunk, which begin at `shared` + `place`. `halves` gets their codes and heads; it may
   * be the same memory. */
  CRK_FN static void take_apart(unsigned char *shared, uint32_t place, unsigned char *halves) {
    static_assert(P::most_chunk <= CRK_VEC_WAVES * P::least_lanes && !Q::vec_by_values, "a thread has a block");
    const uint32_t block = own_thread();
    const bool has = block < P::most_chunk;
    const shared_bytes<4> from(shared, place + (has ? block : 0) * static_cast<uint32_t>(sizeof(block_q8_1)));
    const uint32_t ds = from.template words<1>(0).v[0];
    const codes16 both[2] = {from.template words<4>(offsetof(block_q8_1, qs)),
                             from.template words<4>(offsetof(block_q8_1, qs) + 16)};
    if (!P::own_rooms) {
      shared_barrier();
    }
    if (has) {
      CRK_UNROLL
      for (uint32_t h = 0; h < 2; h++) {
        const uint32_t at = P::place_of_half(block * 2 + h);
        store_aligned16(codes(halves)[at].v, both[h]);
        heads(halves)[at] = {f16_low(ds), sum16(both[h])};
      }
    }
    shared_barrier();
  }
};

}  // namespace
}  // namespace crk

#endif
