/* Copies of images with channels last, in whole pieces of 16 bytes. For conv_cores.hip. Main function: copy_pixels. */
#ifndef CRK_PIXELS_H
#define CRK_PIXELS_H

#include "conv/phases.h"
#include "elementwise/instances.h"
#include "numbers/divisor.h"

namespace crk {

/* Thread `index` of a copy. place_of(y, x, pixel) is the place of a pixel among those of its image. */
template <class T, class F>
CRK_FN void copy_piece(const crk_pixels_t &copy, uint32_t index, const T *src, T *dst, const F &place_of) {
  constexpr uint32_t piece = CRK_CONV_PIECE(sizeof(T));
  uint32_t rest = index >> copy.log2_near;
  const uint32_t in_chunk = take_coordinate(rest, copy.chunk), set = take_coordinate(rest, copy.sets);
  const uint32_t pixel = take_coordinate(rest, copy.chunks) * static_cast<uint32_t>(copy.chunk.size) + in_chunk;
  if (pixel >= copy.pixels) {
    return;
  }
  uint32_t y = pixel;
  const uint32_t x = take_coordinate(y, copy.width);
  const uint32_t part = set << copy.log2_near | (index & ((1u << copy.log2_near) - 1)), channel = part * piece;
  const uint32_t parts = static_cast<uint32_t>(copy.sets.size) << copy.log2_near;
  const uint64_t image = rest, stride = copy.src_strides[2];
  const uint32_t in_m = take_coordinate(rest, copy.m);
  src += rest * copy.src_strides[0] + in_m * copy.src_strides[1] + channel * stride + y * copy.src_strides[3] +
         x * copy.src_strides[4];
  pack<T, piece> some;
  CRK_UNROLL
  for (uint32_t i = 0; i < piece; i++) {
    const bool exists = channel + i < copy.channels;
    const T value = src[exists ? i * stride : 0];
    some.v[i] = exists ? value : 0;
  }
  const uint32_t place = place_of(y, x, pixel);
  store_pack(dst + ((image * copy.pixels + place) * parts + part) * piece, some);
}

/* T is an unsigned number of the elements' size. */
template <class T>
CRK_FN void copy_pixels(const crk_pixels_launch_t &launch, const T *images, T *images_dst, const T *weights,
                        T *weights_dst) {
  uint32_t block = static_cast<uint32_t>(launch.first_block) + block_index().x;
  const bool is_weight = block >= launch.images.blocks;
  const crk_pixels_t &copy = is_weight ? launch.weights : launch.images;
  block -= is_weight ? launch.images.blocks : 0;
  const uint32_t index = block * CRK_LAUNCHED_THREADS + thread_index().x;
  if (index < copy.threads) {
    copy_piece(copy, index, is_weight ? weights : images, is_weight ? weights_dst : images_dst,
               [&](uint32_t y, uint32_t x, uint32_t pixel) {
                 return is_weight && launch.by_phases != 0 ? place_of_tap(launch.down, launch.across, y, x) : pixel;
               });
  }
}

}  // namespace crk

#endif
