/* Mixtures of experts in floating point: moe_tiles multiplies the tokens of a run with an expert's weights, on matrix
 * cores where there are any (matmul/matmul_cores.h). Both operands are f16 or bf16 in the tiles (quantized weights
 * become numbers on the way), sums are f32. */
#ifndef CRK_MOE_TILE_H
#define CRK_MOE_TILE_H

#include "matmul/matmul_cores.h"
#include "moe/moe_copy.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* Weights that are numbers of T, in rows of k. */
template <class T>
struct number_weights {
  static constexpr int at_once = 2;
  template <class S>
  using copy = operand_copy<T, S::Columns, S::depth, S::Threads, false>;
  template <class S>
  CRK_FN static copy<S> rows_of(const crk_moe_tiles_t &call, uint32_t expert, uint32_t row) {
    const crk_moe_t &shape = call.shape;
    const T *const from = static_cast<const T *>(call.weights) +
                          (static_cast<uint64_t>(expert - call.first_expert) * shape.rows + row) * shape.k;
    const crk_matmul_operand_t operand = {shape.rows, shape.k, 1, call.way,
                                          reinterpret_cast<uintptr_t>(call.weights) % 16 == 0};
    return copy<S>(from, operand, rows_left(shape.rows, row, S::Columns));
  }
};

/* Weights in quantized blocks, which become numbers of T. */
template <class B, class T>
struct block_weights {
  static constexpr int at_once = 1; /* blocks on their way take the registers of a second step */
  template <class S>
  using copy = block_copy<B, T, S::Columns, S::depth, S::Threads>;
  template <class S>
  CRK_FN static copy<S> rows_of(const crk_moe_tiles_t &call, uint32_t expert, uint32_t row) {
    const crk_moe_t &shape = call.shape;
    const uint32_t blocks = shape.k / block_elements<B>;
    const B *const from = static_cast<const B *>(call.weights) +
                          (static_cast<uint64_t>(expert - call.first_expert) * shape.rows + row) * blocks;
    return copy<S>(from, rows_left(shape.rows, row, S::Columns), blocks);
  }
};

CRK_FN routes routes_of(const crk_moe_tiles_t &call) { return {call.tokens, call.experts, call.scales}; }

/* Multiplies a run's tokens with some rows of its expert's weights. Tokens beyond the run repeat its first or are
 * zeros, and their results are not stored. */
template <class S, class Weights, class T, class U>
CRK_FN void moe_tile(const crk_moe_tiles_t &call, run run, uint32_t at, uint32_t *room) {
  using right_copy = typename Weights::template copy<S>;
  using left_copy = token_copy<T, S::Rows, S::depth, S::Threads, right_copy::is_direct>;
  const T *const x = static_cast<const T *>(call.x);
  left_copy left(x, call.shape.input_stride, run.count, [&](uint32_t c) {
    const uint32_t token = token_at(routes_of(call), call.shape, at + (c < run.count ? c : 0), call.fault, false);
    return input_of(call.shape, token);
  });
  right_copy right = Weights::template rows_of<S>(call, run.expert, block_index().x * S::Columns);
  product_team<S, left_copy, right_copy, false, Weights::at_once> team;
  add_products<S>(team, left, right, room, call.shape.k);
  const crk_moe_tiles_t &last = reread(call); /* nothing of this waits in registers */
  const routes r = routes_of(last);
  const auto store = [&](uint32_t c, uint32_t column, const auto &sums) {
    constexpr int count = static_cast<int>(sizeof(sums.v) / sizeof(sums.v[0]));
    const uint32_t row = block_index().x * S::Columns + column;
    if (c < run.count && row < last.shape.rows) {
      const uint32_t token = token_at(r, last.shape, at + c, last.fault, row == 0);
      if (token < last.shape.positions) {
        U *const to = static_cast<U *>(last.dst) + static_cast<uint64_t>(token) * last.shape.rows + row;
        pack<U, count> values;
        CRK_UNROLL
        for (int j = 0; j < count; j++) {
          values.v[j] = convert<U>(scaled(r, token, sums.v[j]));
        }
        if (last.by_vectors != 0) {
          store_pack(to, values);
        } else {
          CRK_UNROLL
          for (int j = 0; j < count; j++) {
            if (row + static_cast<uint32_t>(j) < last.shape.rows) {
              to[j] = values.v[j];
            }
          }
        }
      }
    }
  };
  if constexpr (S::is_direct) {
    const result_tile<S, float> results(room);
    results.put(team);
    results.for_pieces(store);
  } else {
    team.store(store);
  }
}

/* The positions of a slot at which runs of this launch's experts begin: bit i is position first + i. A wave's lanes
 * read a position each. Wrong ids begin no run, and the lanes with `teller` report them. */
template <uint32_t Most>
CRK_FN uint32_t run_begins(const crk_moe_tiles_t &call, uint32_t first, bool teller) {
  const routes r = routes_of(call);
  const uint32_t own = opaque(lane()), at = first + own;
  bool begins = false;
  if (own < call.slot && at < call.shape.positions) {
    begins = at % Most == 0 || r.experts[at - 1] != r.experts[at];
    if (begins) {
      const uint32_t expert = expert_at(r, call.shape, at, call.fault, teller);
      begins = expert < call.shape.experts && expert - call.first_expert < call.expert_count;
    }
  }
  return static_cast<uint32_t>(ballot(begins));
}

/* The run that begins at a position, whose expert is valid. */
template <uint32_t Most>
CRK_FN run whole_run(const crk_moe_tiles_t &call, uint32_t at) {
  const int32_t *const experts = call.experts + at;
  const int32_t id = experts[0];
  const uint32_t left = call.shape.positions - at, most = left < Most - at % Most ? left : Most - at % Most;
  uint32_t count = 0;
  for (uint32_t first = 0; first < most && count == first; first += wave_size()) {
    const uint32_t place = first + opaque(lane());
    const uint64_t of_run = ballot(place < most && experts[place] == id);
    count += popcount(of_run & ~(of_run + 1)); /* the first lanes */
  }
  return {static_cast<uint32_t>(id), count};
}

/* dst[token][row] = scale * the sum over k of the weights times x[input][k], as U. Block (x, y, z) has `Columns` rows
 * of weights. Of the runs that begin in slots y, y + blocks_y and so on of call.slot positions, it makes number z,
 * z + call.turns and so on. A run has up to `Tokens` tokens. */
template <int Tokens, int Columns, int Threads, class Weights, class T, class U>
CRK_FN void moe_tiles(const crk_moe_tiles_t &call) {
  using S = product_shape<T, Tokens, Columns, Threads>;
  uint32_t *room;
  if constexpr (S::is_direct) {
    room = dynamic_shared<uint32_t>();
  } else {
    CRK_SHARED(aligned_codes16, own_room, step_words<S> / 4);
    room = reinterpret_cast<uint32_t *>(own_room);
  }
  for (uint32_t first = block_index().y * call.slot; first < call.shape.positions;
       first += call.shape.blocks_y * call.slot) {
    const bool teller = block_index().x == 0 && block_index().z == 0 && wave_in_block() == 0;
    uint32_t turn = block_index().z;
    CRK_NO_UNROLL
    for (uint32_t begins = run_begins<Tokens>(reread(call), first, teller); begins != 0; begins &= begins - 1) {
      if (turn == 0) {
        const uint32_t at = first + popcount((begins - 1) & ~begins);
        moe_tile<S, Weights, T, U>(call, whole_run<Tokens>(reread(call), at), at, room);
        shared_barrier(); /* the next run's first step takes the place of this one's last, or of its results */
        turn = call.turns;
      }
      turn--;
    }
  }
}

}  // namespace
}  // namespace crk

#endif
