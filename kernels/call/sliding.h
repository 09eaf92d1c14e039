/* What slides over what: the shapes of convolutions, pools and upsampling, by value to the launchers' kernels, and how these
 * share the work. Plain C: csrc/launch/conv.c, im2col.c and pool.c fill them in, convolution.h, im2col.h and pool.h read them.
 * Sizes and strides are in elements.
 *
 * A 1-D op is a 2-D one whose images and windows are 1 high, without padding above and below. */
#ifndef CRK_SLIDING_H
#define CRK_SLIDING_H

#include <stdint.h>

enum {
  CRK_IM2COL_BYTES = 16384, /* of images in shared memory */
  CRK_IM2COL_WAVES = 8, /* of a block: of wide waves four blocks fill a compute unit, and have its shared memory */
  CRK_IM2COL_RUN = 2048 /* the most elements of a row of the matrix that a block has */
};

/* Output channels that a thread of a convolution has: as many as there are scalar registers for. */
#define CRK_CONV_CHANNELS(is_transposed) ((is_transposed) ? 2 : 4)

/* Division by `size`, at least 1: n / size == (mulhi(n, mul) + n) >> shift, where mulhi is the upper half of the 32 x 32 bit
 * product for n below 2^31, or of the 64 x 64 bit product for n below 2^63 (wide). shift = ceil(log2(size)) and
 * mul = floor(2^32 * (2^shift - size) / size) + 1, or with 2^64 (Granlund and Montgomery, "Division by invariant integers
 * using multiplication", 1994, figure 4.1). */
typedef struct crk_divisor {
  uint64_t size;
  uint64_t mul;
  uint32_t shift;
  uint32_t unused;
} crk_divisor_t;

/* A convolution or a transposed one. */
typedef struct crk_conv {
  uint64_t c_in, h_in, w_in, c_out, h_out, w_out;
  uint64_t h_k, w_k; /* the window */
  uint64_t stride, h_padding, w_padding, dilation;
  uint64_t src_strides[4]; /* b, c_in, h, w */
  uint64_t kernel_strides[4]; /* c_out, c_in, h, w, whatever the order of the dims is */
} crk_conv_t;

/* A thread has one position of an image in some channels. A block has a piece of an image's positions, one after
 * the other; the pieces of an image follow each other, then the groups of channels, then the batch. */
typedef struct crk_conv_launch {
  crk_conv_t shape;
  uint64_t first_block; /* of this launch */
  crk_divisor_t pieces, groups, w_out, by_stride; /* wide */
} crk_conv_launch_t;

/* The windows of images as rows of a matrix: dst is (b, h_out, w_out, c, h_k, w_k). */
typedef struct crk_im2col {
  uint64_t numel, h_in, w_in, h_out, w_out, c;
  uint64_t stride, h_padding, w_padding, dilation;
  uint64_t src_strides[4];
  crk_divisor_t w_k, h_k, channels, columns, rows; /* for the kernel without tiles; wide where `wide` */
  uint32_t wide;

  /* A tile is `tile_c` channels of `tile_h` x `tile_w` windows; what they cover of the images goes through shared memory, rows
   * `pitch` elements apart. Blocks go by channels, columns, rows, batch. */
  uint32_t vector; /* elements a store */
  uint32_t tile_c, tile_h, window; /* window: h_k * w_k */
  uint32_t pitch;
  uint64_t first_block;
  crk_divisor_t c_tiles, w_tiles, h_tiles; /* wide */
  crk_divisor_t tile_w, run, image_w, image_h; /* narrow; run: stores of a tile's row of the matrix */
  crk_divisor_t group_w; /* narrow; group_h x group_w groups of threads each have a row of the matrix at a time */
  uint32_t group_h;
} crk_im2col_t;

/* col2im1d: src is (b, l_in, c, k), dst (b, c, l_out). */
typedef struct crk_col2im {
  uint64_t numel, l_in, k;
  uint64_t src_strides[4];
  crk_divisor_t l_out, channels, by_stride; /* wide where it says so */
  uint32_t wide, unused;
} crk_col2im_t;

/* Pools and upsampling of (b, c, h, w). A thread has `vector` elements of an output row, one after the other. */
typedef struct crk_images {
  uint64_t steps; /* of all threads */
  uint64_t h_in, w_in, w_out;
  uint64_t src_strides[4];
  crk_divisor_t row_steps, h_out, channels; /* wide where it says so */
  uint32_t wide; /* 64-bit arithmetic: a step or an offset may reach 2^31 */
  uint32_t vector;
  uint32_t pairs; /* a pool of 2 x 2 in steps of 2, or twice the columns, along rows without gaps: vectors are read */
  uint32_t align_corners;
  uint64_t h_k, w_k, h_stride, w_stride; /* pools */
  double h_step, w_step; /* upsampling: source elements an output element */
} crk_images_t;

#endif
