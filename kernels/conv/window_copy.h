/* Copies the windows of an image to a tile of numbers/square.h, as the right operand of a product: a row of the tile
 * per position of the window. For conv_cores.h. Main type: window_copy.
 *
 * A step along k is Depth numbers of each window. Channels are innermost, so 16 bytes along k are neighbouring channels
 * of one pixel. Pixels outside of the image are 0. Rows beyond the last position repeat it. */
#ifndef CRK_WINDOW_COPY_H
#define CRK_WINDOW_COPY_H

#include "call/windows_call.h"
#include "numbers/divisor.h"
#include "numbers/tile_pieces.h"

namespace crk {

/* Which pieces of the windows a thread copies. */
template <class T, int Rows, int Depth, int Threads>
struct window_steps {
  using tile = typename near_core<T>::template tile<Rows, Depth, false>;
  using P = tile_pieces<T, tile, Rows, Depth, Threads>;
  static constexpr int loads = P::loads, places = (P::loads + P::passes - 1) / P::passes;
  static_assert(P::together == 1 && P::piece == CRK_CONV_PIECE(sizeof(T)), "a piece has channels of one pixel");

  /* AMD GPUs find a pixel that all pieces of a step share in scalar registers. For NVIDIA GPUs nothing in the loop may
   * be a branch. */
  static constexpr bool shares_pixels = !tile::copies_pieces;

  const P own;
  const crk_windows_t &windows;
  const crk_divisor_t &columns; /* of the window */
  const unsigned char *image;
  uint32_t row_bytes, pixel_bytes, x_bits, dilation; /* as in crk_windows_t */
  uint32_t h_padding, w_padding;
  uint32_t k; /* where the step begins */
  bool is_whole; /* the pieces of a step belong to one pixel */
  /* Two coordinates in one word: y * 2^x_bits + x, where a negative x borrows from y. `signs` has the bits of their
   * signs, `last` is the last pixel of the image. A pixel p is in the image if neither p nor last - p has a sign. */
  uint32_t signs, last;
  uint32_t corner[P::passes], offset[P::passes]; /* of each row's window at the image's first pixel; in bytes too */

  /* The windows at `position` and after it, and their numbers from k on. `first` is the image. */
  CRK_FN window_steps(const T *first, const crk_windows_t &shape, uint32_t position, uint32_t first_k)
      : window_steps(first, shape, position, first_k, shape.columns, shape.h_padding, shape.w_padding) {}
  /* The same with other columns of the window, and other paddings, which may wrap below 0. */
  CRK_FN window_steps(const T *first, const crk_windows_t &shape, uint32_t position, uint32_t first_k,
                      const crk_divisor_t &its_columns, uint32_t its_h_padding, uint32_t its_w_padding)
      : windows(shape),
        columns(its_columns),
        image(reinterpret_cast<const unsigned char *>(first)),
        row_bytes(shape.row_bytes),
        pixel_bytes(shape.pixel_bytes),
        x_bits(shape.x_bits),
        dilation(shape.dilation),
        h_padding(its_h_padding),
        w_padding(its_w_padding),
        k(first_k),
        is_whole(shares_pixels && shape.channels.size % Depth == 0),
        signs(1u << 31 | 1u << (shape.x_bits - 1)),
        last(both(shape.height - 1, shape.width - 1)) {
    CRK_UNROLL
    for (int n = 0; n < P::passes; n++) {
      const uint32_t wanted = position + own.row + P::row_add(n);
      uint32_t y = wanted < shape.last ? wanted : shape.last;
      const uint32_t x = take_coordinate(y, shape.positions) * shape.stride;
      y *= shape.stride;
      corner[n] = both(y, x);
      offset[n] = y * row_bytes + x * pixel_bytes;
    }
  }

  CRK_FN uint32_t both(uint32_t y, uint32_t x) const { return (y << x_bits) + x; }

  /* Goes on by some steps, or back. */
  CRK_FN void advance(int steps = 1) { k += static_cast<uint32_t>(steps * Depth); }

  /* The pixels of this step's pieces, as in corner[] and offset[]. */
  struct pixels {
    uint32_t at[places], offset[places];
  };
  CRK_FN pixels find_pixels() const {
    pixels found;
    if constexpr (shares_pixels) { /* in scalar registers */
      uint32_t bytes;
      const uint32_t pixel = find_pixel(k, bytes);
      CRK_UNROLL
      for (int n = 0; n < places; n++) {
        found.at[n] = pixel;
        found.offset[n] = bytes + own_part(n) * static_cast<uint32_t>(sizeof(T));
      }
    }
    if (!is_whole) {
      CRK_UNROLL
      for (int n = 0; n < places; n++) {
        found.at[n] = find_pixel(k + own_part(n), found.offset[n]);
      }
    }
    return found;
  }
  /* The numbers along k before this thread's pieces, in a step. */
  CRK_FN uint32_t own_part(int n) const { return (own.part + P::part_add(n * P::passes)) * P::piece; }
  /* The pixel and the byte of number `at` along k. */
  CRK_FN uint32_t find_pixel(uint32_t at, uint32_t &bytes) const {
    const uint32_t channel = take_coordinate(at, windows.channels);
    const uint32_t x = take_coordinate(at, columns) * dilation - w_padding, y = at * dilation - h_padding;
    bytes = y * row_bytes + (x * pixel_bytes + channel * static_cast<uint32_t>(sizeof(T)));
    return both(y, x);
  }
  /* Whether piece n lies in the image, and then its offset, in bytes. */
  CRK_FN bool find(const pixels &found, int n, uint32_t &bytes) const {
    const uint32_t pixel = corner[n % P::passes] + found.at[n / P::passes];
    bytes = offset[n % P::passes] + found.offset[n / P::passes];
    return ((pixel | (last - pixel)) & signs) == 0; /* no branch */
  }

  /* Whether begin() can copy a whole step. */
  CRK_FN bool by_pieces() const { return true; }

  /* Copies a step of which `left` numbers along k exist. */
  CRK_FN void copy_some(uint32_t *room, uint64_t left) const {
    const pixels found = find_pixels();
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      const uint32_t part = own.part + P::part_add(n);
      uint32_t bytes;
      typename P::pieces some[1] = {};
      if (find(found, n, bytes) && part * P::piece < left) {
        some[0] = load(bytes);
      }
      own.put(room, n, some);
    }
  }
  CRK_FN typename P::pieces load(uint32_t bytes) const {
    return load_aligned<T, P::piece>(reinterpret_cast<const T *>(image + bytes));
  }
};

/* Copies through registers, as held_copy does. */
template <class T, int Rows, int Depth, int Threads>
struct held_windows : window_steps<T, Rows, Depth, Threads> {
  using base = window_steps<T, Rows, Depth, Threads>;
  using base::base;
  using P = typename base::P;
  static constexpr bool is_direct = false;
  static constexpr int loads = base::loads;
  using words = pack<uint32_t, 4>;
  words held[loads];
  bool present[loads];

  CRK_FN void begin() {
    const typename base::pixels found = this->find_pixels();
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      uint32_t bytes;
      present[n] = this->find(found, n, bytes);
      bytes = present[n] ? bytes : 0;
      held[n] = load_aligned<uint32_t, 4>(reinterpret_cast<const uint32_t *>(this->image + bytes));
    }
  }
  CRK_FN void finish(uint32_t *room) const {
    CRK_UNROLL
    for (int n = 0; n < loads; n++) {
      words bits = held[n];
      CRK_UNROLL
      for (int i = 0; i < 4; i++) {
        bits.v[i] = present[n] ? bits.v[i] : 0;
      }
      const typename P::pieces some[1] = {bit_cast<typename P::pieces>(bits)};
      this->own.put(room, n, some);
    }
  }
};

/* Copies straight to the tile, as direct_copy does. */
template <class T, int Rows, int Depth, int Threads>
struct direct_windows : window_steps<T, Rows, Depth, Threads> {
  using base = window_steps<T, Rows, Depth, Threads>;
  using base::base;
  using P = typename base::P;
  using copies = choose<base::tile::copies_pieces, async_copies, void>;
  static_assert(P::is_even, "every thread has every piece");

  static constexpr bool is_direct = true;

  CRK_FN void begin(uint32_t *room, bool wanted) const {
    const copies mine(base::tile::address(room, this->own.row, this->own.part), this->image);
    const typename base::pixels found = this->find_pixels();
    CRK_UNROLL
    for (int n = 0; n < P::loads; n++) {
      uint32_t bytes;
      const bool present = this->find(found, n, bytes);
      mine.begin16_or_zeros(base::tile::distance(P::row_add(n), P::part_add(n)), bytes, present && wanted);
    }
  }
};

template <class T, int Rows, int Depth, int Threads>
using window_copy = choose<near_core<T>::template tile<Rows, Depth, false>::copies_pieces,
                           direct_windows<T, Rows, Depth, Threads>, held_windows<T, Rows, Depth, Threads>>;

}  // namespace crk

#endif
