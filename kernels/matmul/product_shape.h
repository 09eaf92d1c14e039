/* The shape of a product's tile: which threads compute which part, and how much shared memory a step takes. Used by
 * matmul_cores.h, conv_cores.h and moe_tile.h. Main type: product_shape. */
#ifndef CRK_PRODUCT_SHAPE_H
#define CRK_PRODUCT_SHAPE_H

#include "call/matmul_call.h"
#include "numbers/dot.h"
#include "numbers/square.h"

namespace crk {
namespace { /* as in matmul_cores.h */

/* How `Threads` threads share a tile of Rows x Columns. */
template <class T, int Rows_, int Columns_, int Threads_>
struct product_shape {
  static constexpr int Rows = Rows_, Columns = Columns_, Threads = Threads_;
  using core = near_core<T>;
  static constexpr bool has_cores = !same<core, plain_core<T>>;
  static constexpr int span = static_cast<int>(core::span), teams = Threads / static_cast<int>(core::team);

  /* The teams across a tile: so that a team's part is as square as can be, and reads as few operands as can be. */
  CRK_FN static constexpr int edges(int across) {
    const int down = teams / across, rows = Rows / down, columns = Columns / across;
    return teams % across == 0 && rows % 16 == 0 && rows != 0 && columns % span == 0 && columns != 0 ? rows + columns
                                                                                                     : 1 << 20;
  }
  CRK_FN static constexpr int best_across() {
    int best = 1;
    for (int across = 2; across <= teams; across *= 2) {
      best = edges(across) < edges(best) ? across : best;
    }
    return best;
  }
  static constexpr int teams_across = best_across(), team_rows = Rows / (teams / teams_across),
                       team_columns = Columns / teams_across;
  static constexpr int tall = team_rows / 16, wide = team_columns / span;
  static_assert(tall >= 1 && wide >= 1 && tall * 16 * (teams / teams_across) == Rows, "whole squares per team");

  static constexpr bool is_direct = core::template tile<64, 64, false>::copies_pieces;
  /* Without matrix cores a tile in shared memory may hold floats. */
  static constexpr int depth = has_cores || on_host ? CRK_MATMUL_DEPTH(is_direct, CRK_LONG_STEPS, Rows, Columns) * 2 /
                                                          static_cast<int>(sizeof(T))
                                                    : 32;
  static constexpr int slots = is_direct ? CRK_MATMUL_CUDA_SLOTS : 1;
};

/* The words of a step in shared memory. A tile's size is the same for both orders of an operand. */
template <class S>
inline constexpr uint32_t step_words = S::core::template tile<S::Rows, S::depth, false>::words +
                                       S::core::template tile<S::Columns, S::depth, false>::words;

}  // namespace
}  // namespace crk

#endif
