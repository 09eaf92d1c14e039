/* Convolutions of f16, bf16 and f32 as matrix products, without a matrix of windows in memory. The engine is that of
 * matmul/matmul_cores.h. Its right operand is made of the windows (conv/window_copy.h). A transposed convolution has
 * one such product for each phase (conv/phases.h). For conv_cores.hip. Main function: conv_cores. */
#ifndef CRK_CONV_CORES_H
#define CRK_CONV_CORES_H

#include "conv/phases.h"
#include "conv/window_copy.h"
#include "matmul/matmul_cores.h"

namespace crk {
namespace { /* as in matmul_cores.h */

/* Without matrix cores a step is short: its code is long, and its tiles in shared memory may hold floats. */
template <class T, int Rows, int Columns, int Threads>
struct conv_shape : product_shape<T, Rows, Columns, Threads> {
  using base = product_shape<T, Rows, Columns, Threads>;
  static constexpr bool is_plain = same<typename base::core, plain_core<T>>;
  static constexpr int depth = base::is_direct ? CRK_CONV_CUDA_STEP / static_cast<int>(sizeof(T))
                               : is_plain      ? 16
                                               : base::depth;
  /* RDNA 3 has no registers for the operands of two steps in a tile of 160 x 128. */
  static constexpr int at_once =
      base::tall * sizeof(typename base::core::left) + base::wide * sizeof(typename base::core::right) > 200 ? 1 : 2;
};

/* Returns whether the tile must be computed again (must_repeat). */
template <class S, bool Infinite, class T>
CRK_FN bool try_conv_tile(const crk_conv_cores_t &call, const T *weights, const T *images, T *dst, uint32_t *room) {
  using left_copy = operand_copy<T, S::Rows, S::depth, S::Threads, false>;
  using right_copy = window_copy<T, S::Columns, S::depth, S::Threads>;
  const crk_matmul_t &product = call.product;
  const matmul_place place(product, S::Rows, S::Columns);
  left_copy left(weights + place.lhs, product.lhs, place.rows);
  right_copy right(images + place.rhs, call.windows, static_cast<uint32_t>(place.column),
                   static_cast<uint32_t>(place.first));
  product_team<S, left_copy, right_copy, Infinite, S::at_once> team;
  add_products<S>(team, left, right, room, place.k);
  if (must_repeat<T, Infinite>(team)) {
    return true;
  }
  const crk_matmul_t &last = reread(call).product; /* nothing of this waits in registers */
  store_product<S>(last, matmul_place(last, S::Rows, S::Columns), team, dst, room);
  return false;
}

/* Which phase of a transposed convolution a block computes. */
struct phase_place {
  phase down, across;

  /* Takes the phase out of the number of a block: the rest is its number in the phase. */
  CRK_FN phase_place(const crk_conv_phases_t &call, uint64_t &block) {
    uint32_t y = static_cast<uint32_t>(take_coordinate(block, call.phases));
    const uint32_t x = take_coordinate(y, call.across.stride), dilation = call.most.windows.dilation;
    down = phase_of(call.down, y, dilation);
    across = phase_of(call.across, x, dilation);
  }
};

/* Stores the sums of a team in every stride-th row and column of an image of dst, or in scratch memory if k has several
 * parts. */
template <class Team, class T>
CRK_FN void store_phase(const crk_conv_phases_t &call, const phase_place &at, const matmul_place &place,
                        const Team &team, T *dst) {
  const uint32_t height = call.down.size, width = call.across.size;
  const uint32_t down = static_cast<uint32_t>(call.down.stride.size);
  const uint32_t across = static_cast<uint32_t>(call.across.stride.size);
  const uint64_t size = static_cast<uint64_t>(height) * width;
  const bool has_parts = call.most.product.parts.size > 1;
  const uint64_t first = (place.matrix * call.most.product.lhs.rows + place.row) * size;
  team.store_columns([&](uint32_t column) {
    uint32_t y = static_cast<uint32_t>(place.column) + column;
    const uint32_t x = take_coordinate(y, call.most.windows.positions) * across + at.across.first;
    y = y * down + at.down.first;
    const uint32_t rows = column < place.columns && y < height && x < width ? place.rows : 0, pixel = y * width + x;
    return [=](uint32_t row, auto sum) {
      if (row < rows) {
        const uint64_t to = first + (row * size + pixel);
        if (has_parts) {
          reinterpret_cast<wide<T> *>(dst)[to] = sum;
        } else {
          dst[to] = convert<T>(sum);
        }
      }
    };
  });
}

template <class S, bool Infinite, class T>
CRK_FN bool try_conv_tile(const crk_conv_phases_t &call, const T *weights, const T *images, T *dst, uint32_t *room) {
  using left_copy = operand_copy<T, S::Rows, S::depth, S::Threads, false>;
  using right_copy = window_copy<T, S::Columns, S::depth, S::Threads>;
  const crk_matmul_t &product = call.most.product;
  uint64_t block = place_in_order(product.order, call.first_block + block_index().x);
  const phase_place at(call, block);
  const matmul_place place(product, S::Rows, S::Columns, block);
  const crk_windows_t &windows = call.most.windows;
  const crk_divisor_t &columns = at.across.taps > call.across.taps ? windows.columns : call.fewer_columns;
  const uint64_t channels = windows.channels.size;
  /* The range of k that is the phase, and where the part of the longest phase would end in it. */
  const uint64_t before = static_cast<uint64_t>(at.down.before) * call.across.window + at.down.taps * at.across.before;
  const uint64_t k = at.down.taps * at.across.taps * channels, end = place.first + place.k;
  left_copy left(weights + (place.lhs + before * channels), product.lhs, place.rows);
  right_copy right(images + place.rhs, windows, static_cast<uint32_t>(place.column), static_cast<uint32_t>(place.first),
                   columns, at.down.padding, at.across.padding);
  product_team<S, left_copy, right_copy, Infinite, S::at_once> team;
  add_products<S>(team, left, right, room, k < place.first ? 0 : (k < end ? k : end) - place.first);
  if (must_repeat<T, Infinite>(team)) {
    return true;
  }
  const crk_conv_phases_t &last = reread(call); /* nothing of this waits in registers */
  block = place_in_order(last.most.product.order, last.first_block + settled(block_index().x));
  const phase_place last_at(last, block);
  const matmul_place last_place(last.most.product, S::Rows, S::Columns, block);
  store_phase(last, last_at, last_place, team, dst);
  return false;
}

template <class S, class Call, class T>
CRK_FN void conv_cores_tile(const Call &call, const T *weights, const T *images, T *dst, uint32_t *room) {
  const bool again = try_conv_tile<S, false>(call, weights, images, dst, room);
  if constexpr (loses_infinity<T>) {
    if (again) {
      try_conv_tile<S, true>(call, weights, images, dst, room);
    }
  }
}

/* dst = weights * windows in tiles of Rows x Columns, one per block. Call is crk_conv_cores_t or crk_conv_phases_t. */
template <class T, int Rows, int Columns, int Threads, class Call>
CRK_FN void conv_cores(const Call &call, const T *weights, const T *images, T *dst) {
  using S = conv_shape<T, Rows, Columns, Threads>;
  if constexpr (S::is_direct) {
    conv_cores_tile<S>(call, weights, images, dst, dynamic_shared<uint32_t>());
  } else {
    CRK_SHARED(aligned_codes16, room, step_words<S> / 4);
    conv_cores_tile<S>(call, weights, images, dst, reinterpret_cast<uint32_t *>(room));
  }
}

}  // namespace
}  // namespace crk

#endif
