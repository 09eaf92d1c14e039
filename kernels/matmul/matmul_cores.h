/* Matrix products on matrix cores: a block makes a tile of dst. For matmul.hip. Main function: matmul_cores.
 *
 * A block copies a step along k of both operands to shared memory and multiplies from there. Its teams
 * (numbers/square.h) share the tile. A team keeps its sums in registers, in f32, or in f64 for f64. While a step is
 * multiplied, the next ones are under way: straight to further slots of shared memory where the GPU can copy so, else
 * to registers. */
#ifndef CRK_MATMUL_CORES_H
#define CRK_MATMUL_CORES_H

#include "matmul/matmul_place.h"
#include "matmul/operand_copy.h"
#include "matmul/product_shape.h"
#include "matmul/product_store.h"

namespace crk {
namespace { /* keeps templates with shared memory from adding symbols to the archive */

/* The sums of a team, and how a step is added to them. Infinite: by multiply_infinite (numbers/square.h). A lane has
 * the operands of up to AtOnce times `span` numbers along k in registers. */
template <class S, class Left, class Right, bool Infinite = false, int AtOnce = 2>
struct product_team {
  using core = typename S::core;
  static constexpr int rows = core::rows, columns = core::columns, span = S::span, steps = S::depth / span;
  using total = typename core::total;
  total sum[S::tall][S::wide][rows][columns];
  uint32_t first_row, first_column; /* of the team's part of the tile */

  CRK_FN product_team() {
    const uint32_t team = thread_index().x / core::team;
    first_row = team / S::teams_across * S::team_rows;
    first_column = team % S::teams_across * S::team_columns;
    CRK_UNROLL
    for (int i = 0; i < S::tall; i++) {
      CRK_UNROLL
      for (int n = 0; n < S::wide; n++) {
        CRK_UNROLL
        for (int r = 0; r < rows; r++) {
          CRK_UNROLL
          for (int c = 0; c < columns; c++) {
            sum[i][n][r][c] = 0;
          }
        }
      }
    }
  }

  /* The operands of span numbers along k. */
  struct operands {
    typename core::left left[S::tall];
    typename core::right right[S::wide];
    CRK_FN void load(const product_team &team, const uint32_t *left_room, const uint32_t *right_room, int step) {
      const uint32_t k = static_cast<uint32_t>(step * span);
      CRK_UNROLL
      for (int i = 0; i < S::tall; i++) {
        left[i] = Left::tile::load_rows(left_room, team.first_row + static_cast<uint32_t>(i) * 16, k);
      }
      CRK_UNROLL
      for (int n = 0; n < S::wide; n++) {
        right[n] = Right::tile::load(right_room, team.first_column + static_cast<uint32_t>(n * span), k);
      }
    }
  };
  CRK_FN void multiply(const operands &some) {
    CRK_UNROLL
    for (int i = 0; i < S::tall; i++) {
      CRK_UNROLL
      for (int n = 0; n < S::wide; n++) {
        if constexpr (Infinite) {
          core::multiply_infinite(some.left[i], some.right[n], sum[i][n]);
        } else {
          core::multiply(some.left[i], some.right[n], sum[i][n]);
        }
      }
    }
  }

  CRK_FN bool has_nan() const {
    total all = 0;
    CRK_UNROLL
    for (int i = 0; i < S::tall; i++) {
      CRK_UNROLL
      for (int n = 0; n < S::wide; n++) {
        CRK_UNROLL
        for (int r = 0; r < rows; r++) {
          CRK_UNROLL
          for (int c = 0; c < columns; c++) {
            all += sum[i][n][r][c];
          }
        }
      }
    }
    return !(all == all);
  }

  /* Rest: a step of add_rest. It takes the fewest registers, for it should not decide how many blocks a unit holds. */
  template <bool Rest = false>
  CRK_FN void add_step(const uint32_t *left_room, const uint32_t *right_room) {
    constexpr bool is_lean = Rest && S::has_cores; /* without matrix cores all steps are of add_rest */
    constexpr int together = is_lean ? 1 : AtOnce;
    CRK_UNROLL
    for (int step = 0; step < steps; step++) {
      if (step != 0 && step % together == 0) {
        keep_order(); /* else the operands of all steps are in registers at once */
      }
      operands some;
      some.load(*this, left_room, right_room, step);
      if (core::team == 64 && !is_lean) {
        keep_order(); /* else clang loads some between the products, and each wave waits again before the barrier */
      }
      multiply(some);
    }
  }

  /* Calls store(row, column, values) for the sums of the team: `values` are neighbours along the tile's columns. */
  template <class Store>
  CRK_FN void store(const Store &store_some) const {
    constexpr bool neighbours = core::next_column(columns - 1) == columns - 1;
    constexpr int together = neighbours ? static_cast<int>(columns) : 2;
    CRK_UNROLL
    for (int i = 0; i < S::tall; i++) {
      CRK_UNROLL
      for (int r = 0; r < rows; r++) {
        const uint32_t row = first_row + static_cast<uint32_t>(i) * 16 + core::row(static_cast<uint32_t>(r));
        CRK_UNROLL
        for (int n = 0; n < S::wide; n++) {
          CRK_UNROLL
          for (int c = 0; c < columns; c += together) {
            pack<total, together> values;
            CRK_UNROLL
            for (int j = 0; j < together; j++) {
              values.v[j] = sum[i][n][r][c + j];
            }
            store_some(row, first_column + static_cast<uint32_t>(n * span) + core::column(static_cast<uint32_t>(c)),
                       values);
          }
        }
      }
    }
  }

  /* The same column by column: calls at_column(column)(row, sum) for each sum. */
  template <class AtColumn>
  CRK_FN void store_columns(const AtColumn &at_column) const {
    CRK_UNROLL
    for (int n = 0; n < S::wide; n++) {
      CRK_UNROLL
      for (int c = 0; c < columns; c++) {
        const auto store_one =
            at_column(first_column + static_cast<uint32_t>(n * span) + core::column(static_cast<uint32_t>(c)));
        CRK_UNROLL
        for (int i = 0; i < S::tall; i++) {
          CRK_UNROLL
          for (int r = 0; r < rows; r++) {
            store_one(first_row + static_cast<uint32_t>(i) * 16 + core::row(static_cast<uint32_t>(r)), sum[i][n][r][c]);
          }
        }
      }
    }
  }
};

/* Adds the products of `steps` whole steps to the sums of `team`. Copies go straight to shared memory: S::slots - 1
 * steps are under way. The operands of a product are loaded before the product before begins, also those of the first
 * product of the next step. Nothing in the loop is a branch, so that the compiler can mix all of it. */
template <class S, class Team, class Left, class Right>
CRK_FN void add_direct_steps(Team &team, Left &left, Right &right, uint32_t *room, uint32_t steps) {
  using copies = choose<Left::is_direct, async_copies, void>; /* a dependent type: not every platform has its members */
  constexpr uint32_t left_words = Left::tile::words, words = left_words + Right::tile::words, slots = S::slots;
  constexpr int parts = Team::steps;
  static_assert(parts % 2 == 0, "the operands of each step begin in the same place");
  const auto begin = [&](uint32_t *slot, bool wanted) {
    left.begin(slot, wanted);
    right.begin(slot + left_words, wanted);
    copies::end_group();
    left.advance();
    right.advance();
  };
  CRK_UNROLL
  for (uint32_t i = 0; i + 1 < slots; i++) {
    begin(room + i * words, i < steps);
  }
  typename Team::operands some[2];
  uint32_t *slot = room, *last = room + (slots - 1) * words;
  copies::template wait<static_cast<int>(slots) - 2>();
  shared_barrier();
  some[0].load(team, room, room + left_words, 0);
  CRK_NO_UNROLL
  for (uint32_t step = 0; step < steps; step++) {
    CRK_UNROLL
    for (int part = 0; part < parts; part++) {
      if (part + 1 == parts) {
        copies::template wait<static_cast<int>(slots) - 2>();
        shared_barrier();
        last = slot;
        slot = slot + words == room + slots * words ? room : slot + words;
      }
      some[(part + 1) % 2].load(team, slot, slot + left_words, (part + 1) % parts);
      if (part == 0) {
        begin(last, step + slots - 1 < steps);
      }
      team.multiply(some[part % 2]);
    }
  }
  copies::template wait<0>(); /* what follows writes to the same slots */
  left.advance(1 - S::slots);
  right.advance(1 - S::slots);
}

/* The same where copies go through registers: while a step is multiplied, the next one is on its way to them. */
template <class Team, class Left, class Right>
CRK_FN void add_held_steps(Team &team, Left &left, Right &right, uint32_t *room, uint32_t steps) {
  const auto begin = [&](uint32_t step) {
    if (step < steps) {
      left.begin();
      right.begin();
    }
  };
  begin(0);
  CRK_NO_UNROLL
  for (uint32_t step = 0; step < steps; step++) {
    left.finish(room);
    right.finish(room + Left::tile::words);
    shared_barrier();
    left.advance();
    right.advance();
    begin(step + 1);
    team.add_step(room, room + Left::tile::words);
    shared_barrier();
  }
}

/* Adds a step that those two cannot copy. `rest` numbers along k are left. */
template <class Team, class Left, class Right>
CRK_FN void add_rest(Team &team, Left &left, Right &right, uint32_t *room, uint64_t rest) {
  shared_barrier();
  left.copy_some(room, rest);
  right.copy_some(room + Left::tile::words, rest);
  if constexpr (Left::is_direct || Right::is_direct) {
    using copies = choose<Left::is_direct || Right::is_direct, async_copies, void>; /* as in add_direct_steps */
    copies::end_group();
    copies::template wait<0>();
  }
  shared_barrier();
  team.template add_step<true>(room, room + Left::tile::words);
  left.advance();
  right.advance();
}

/* Adds the products of k numbers to the sums of `team`. */
template <class S, class Team, class Left, class Right>
CRK_FN void add_products(Team &team, Left &left, Right &right, uint32_t *room, uint64_t k) {
  uint64_t done = 0;
  if constexpr (S::has_cores) {
    /* For a single step add_direct_steps would fill its other slots with zeros first. */
    const bool is_short = Left::is_direct && Right::is_direct && k <= S::depth;
    const uint32_t whole = left.by_pieces() && right.by_pieces() && !is_short ? static_cast<uint32_t>(k / S::depth) : 0;
    if constexpr (Left::is_direct && Right::is_direct) {
      if (whole != 0) {
        add_direct_steps<S>(team, left, right, room, whole);
      }
    } else {
      add_held_steps(team, left, right, room, whole);
    }
    done = static_cast<uint64_t>(whole) * S::depth;
  }
  /* Without matrix cores all steps are such steps: two copies of the code of a step would not fit into the instruction
   * cache, and other waves use the time of a copy. */
  CRK_NO_UNROLL
  for (; done < k; done += S::depth) {
    add_rest(team, left, right, room, k - done);
  }
}

/* Whether a sum of the tile is NaN although a number may be right (near_core): then the tile is computed again. All
 * threads of the block must call it. */
template <class T, bool Infinite, class Team>
CRK_FN bool must_repeat(const Team &team) {
  if constexpr (loses_infinity<T> && !Infinite) {
    CRK_SHARED(uint32_t, nan_found, 1);
    if (thread_index().x == 0) {
      nan_found[0] = 0;
    }
    shared_barrier();
    if (team.has_nan()) {
      nan_found[0] = 1;
    }
    shared_barrier();
    return nan_found[0] != 0;
  }
  return false;
}

/* Returns whether the tile must be computed again. Then nothing is stored. */
template <class S, bool Across, bool Infinite, class T>
CRK_FN bool try_tile(const crk_matmul_t &call, const T *lhs, const T *rhs, T *dst, uint32_t *room) {
  using left_copy = operand_copy<T, S::Rows, S::depth, S::Threads, false>;
  using right_copy = operand_copy<T, S::Columns, S::depth, S::Threads, Across>;
  const matmul_place place(call, S::Rows, S::Columns);
  left_copy left(lhs + place.lhs, call.lhs, place.rows);
  right_copy right(rhs + place.rhs, call.rhs, place.columns);
  product_team<S, left_copy, right_copy, Infinite> team;
  add_products<S>(team, left, right, room, place.k);
  if (must_repeat<T, Infinite>(team)) {
    return true;
  }
  /* Nothing of this waits in registers. */
  const crk_matmul_t &last = reread(call);
  const uint64_t number = number_of_tile(last, settled(block_index().x));
  store_product<S>(last, matmul_place(last, S::Rows, S::Columns, number), team, dst, room);
  return false;
}

template <class S, bool Across, class T>
CRK_FN void matmul_cores_tile(const crk_matmul_t &call, const T *lhs, const T *rhs, T *dst, uint32_t *room) {
  const bool again = try_tile<S, Across, false>(call, lhs, rhs, dst, room);
  if constexpr (loses_infinity<T>) {
    if (again) {
      try_tile<S, Across, true>(call, lhs, rhs, dst, room);
    }
  }
}

/* dst = lhs * rhs in tiles of Rows x Columns, one per block. */
template <class T, int Rows, int Columns, int Threads>
CRK_FN void matmul_cores(const crk_matmul_t &call, const T *lhs, const T *rhs, T *dst) {
  using S = product_shape<T, Rows, Columns, Threads>;
  if constexpr (S::is_direct) {
    uint32_t *const room = dynamic_shared<uint32_t>();
    if (call.rhs.way == CRK_MATMUL_ALONG_ROWS) {
      matmul_cores_tile<S, true>(call, lhs, rhs, dst, room);
    } else {
      matmul_cores_tile<S, false>(call, lhs, rhs, dst, room);
    }
  } else {
    CRK_SHARED(aligned_codes16, room, step_words<S> / 4);
    matmul_cores_tile<S, false>(call, lhs, rhs, dst, reinterpret_cast<uint32_t *>(room));
  }
}

}  // namespace
}  // namespace crk

#endif
