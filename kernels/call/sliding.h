/* Arguments of convolutions, im2col, col2im1d, pools and upsampling; crk_divisor_t, the division that these and other
 * kernels use; and crk_cache_order_t, the order of tiles. Plain C; csrc/launch/conv.c, im2col.c and pool.c fill the
 * structs in, kernels/conv reads them. matmul_call.h and moe_call.h include this file for crk_divisor_t. Sizes and
 * strides are in elements.
 *
 * A 1-D op is a 2-D one whose images and windows are 1 high and have no padding above and below. */
#ifndef CRK_SLIDING_H
#define CRK_SLIDING_H

#include <stdint.h>

/* im2col by tiles. */
enum {
  CRK_IM2COL_BYTES = 16384, /* shared memory per block, for a piece of the images */
  CRK_IM2COL_WAVES = 8, /* waves per block: four blocks of 64-lane waves fill a compute unit and its shared memory */
  CRK_IM2COL_RUN = 2048 /* most elements of a row of the matrix that a tile has */
};

/* Output channels per thread of a convolution without groups: as many as the scalar registers allow. */
#define CRK_CONV_CHANNELS(is_transposed) ((is_transposed) ? 2 : 4)

/* Division by `size`: n / size == (mulhi(n, mul) + n) >> shift. A narrow divisor is for n < 2^31: mulhi is the upper
 * half of the 32 x 32 bit product. A wide divisor is for n < 2^63: mulhi is the upper half of the 64 x 64 bit product.
 *
 *   shift = ceil(log2(size)), mul = floor(2^32 * (2^shift - size) / size) + 1, or with 2^64 if wide
 *
 * (Granlund and Montgomery, "Division by invariant integers using multiplication", 1994, figure 4.1).
 * crk_priv_divisor_init of csrc/launch/sliding.c computes mul and shift; `divide` of kernels/numbers/divisor.h uses
 * them. */
typedef struct crk_divisor {
  uint64_t size; /* the divisor, at least 1 */
  uint64_t mul; /* the multiplier of the formula; 32 bits if narrow */
  uint32_t shift; /* the shift of the formula */
  uint32_t unused; /* padding */
} crk_divisor_t;

/* An order of blocks for GPUs with several L2 caches, which serve the launched blocks in turn. Each cache gets `blocks`
 * blocks that follow each other in the order; the last blocks of a launch, fewer than there are caches, stay in their
 * places. If all fields are 0, all blocks do (kernels/numbers/cache_order.h). */
typedef struct crk_cache_order {
  crk_divisor_t caches; /* the number of caches; as wide as the numbers of blocks */
  uint64_t blocks;
} crk_cache_order_t;

/* The shape of a convolution or a transposed one. c_in and c_out are the channels of a group. */
typedef struct crk_conv {
  uint64_t c_in, h_in, w_in, c_out, h_out, w_out; /* channels, height and width of the input and of the output */
  uint64_t h_k, w_k; /* height and width of the window */
  uint64_t stride, h_padding, w_padding, dilation; /* the same stride and dilation down and across */
  uint64_t src_strides[4]; /* b, c_in, h, w */
  uint64_t kernel_strides[4]; /* c_out, c_in, h, w; in this order for transposed convolutions too */
} crk_conv_t;

/* Arguments of the convolution kernels. A thread computes one position of an output image in a bundle of
 * CRK_CONV_CHANNELS channels. A block computes a piece: CRK_LAUNCHED_THREADS neighbouring positions. Blocks count the
 * pieces of an image fastest, then the bundles of channels, then the batch. */
typedef struct crk_conv_launch {
  crk_conv_t shape; /* sizes of the whole call */
  uint64_t first_block; /* number of this launch's first block: a large output takes several launches */
  crk_divisor_t pieces, bundles, w_out, by_stride; /* wide: pieces and bundles per image, shape.w_out, shape.stride */
} crk_conv_launch_t;

/* Arguments of the kernels of grouped convolutions, one thread per output. */
typedef struct crk_conv_groups {
  crk_conv_t shape;
  uint64_t first_block; /* number of this launch's first block */
  uint64_t numel; /* of dst */
  uint64_t src_group, kernel_group; /* from one group to the next, in elements of src and of the kernel */
  crk_divisor_t w_out, h_out, c_out, groups; /* shape.w_out, shape.h_out, shape.c_out, groups; wide if `wide` */
  crk_divisor_t by_stride; /* wide: shape.stride, for transposed convolutions */
  uint32_t wide, unused; /* wide: 1 if `numel` may reach 2^31 */
} crk_conv_groups_t;

/* XX(window, stride): the square windows of depthwise convolutions with kernels of their own. Models of
 * candle-transformers have these windows. */
#define CRK_DEPTHWISE(XX)     XX(3, 1) XX(3, 2) XX(5, 1) XX(5, 2) XX(7, 1) XX(7, 2) XX(9, 1)
#define CRK_DEPTHWISE_THREADS 64 /* of a block: small, since a block has one channel */
#define CRK_DEPTHWISE_ROWS    4 /* neighbouring rows of an output column that a thread computes */

/* Arguments of those kernels. A thread computes a run of CRK_DEPTHWISE_ROWS rows of a column of dst. Threads count the
 * columns first, then the runs; blocks count the pieces of a channel, then the channels of dst, then the batch. The
 * image of a channel is below 2^31 bytes. */
typedef struct crk_depthwise {
  crk_divisor_t pieces, channels, c_out; /* narrow: blocks of a channel, channels of dst, channels of a group of dst */
  crk_divisor_t w_out; /* narrow: columns of dst */
  uint64_t image_stride, group_stride; /* of src, in elements */
  uint64_t channel_stride, tap_row_stride, tap_stride; /* of the kernel, in elements */
  uint64_t first_block; /* number of this launch's first block */
  uint32_t threads; /* runs of a channel */
  uint32_t row_bytes, pixel_bytes; /* from one row, and from one pixel, to the next */
  uint32_t h_in, w_in, h_out, h_padding, w_padding; /* sizes with padding are below 2^30 */
} crk_depthwise_t;

/* Arguments of im2col: the windows of images as the rows of a matrix. dst is (b, h_out, w_out, c, h_k, w_k),
 * contiguous. There are two kernels, one by elements and one by tiles. */
typedef struct crk_im2col {
  /* numel: elements of dst. h_in, w_in: size of an image. h_out, w_out: windows down and across. c: channels. */
  uint64_t numel, h_in, w_in, h_out, w_out, c;
  uint64_t stride, h_padding, w_padding, dilation; /* of the windows; the same stride and dilation down and across */
  uint64_t src_strides[4]; /* b, c, h, w */
  /* w_k and h_k serve both kernels and are narrow for tiles; the others serve the kernel by elements. They divide by
   * the dims of dst, from the last one on: w_k, h_k, c, w_out, h_out. */
  crk_divisor_t w_k, h_k, channels, columns, rows;
  uint32_t wide; /* by elements: 1 if these divisors are wide */

  /* The kernel by tiles. A tile is tile_c channels of tile_h x tile_w windows. A block copies the part of the image
   * that they cover to shared memory, then writes the windows. Blocks count tiles of channels fastest, then tiles of
   * columns, of rows, then the batch. */
  uint32_t vector; /* elements per store */
  uint32_t tile_c, tile_h, window; /* channels per tile; rows of windows per tile; elements of a window, h_k * w_k */
  uint32_t pitch; /* elements of shared memory from one row of the image to the next */
  uint64_t first_block; /* number of this launch's first block */
  crk_divisor_t c_tiles, w_tiles, h_tiles; /* wide: tiles along the channels, the columns, the rows */
  /* All narrow. tile_w: windows across a tile. run: stores per row of the matrix in a tile. image_w, image_h: size of
   * the piece of the image that a tile covers. */
  crk_divisor_t tile_w, run, image_w, image_h;
  /* group_h x group_w groups of threads, each of which writes one row of the matrix at a time. group_w is narrow. */
  crk_divisor_t group_w;
  uint32_t group_h;
} crk_im2col_t;

/* Arguments of col2im1d: src is (b, l_in, c, k), dst (b, c, l_out), contiguous. */
typedef struct crk_col2im {
  uint64_t numel, l_in, k; /* elements of dst; positions; length of a window */
  uint64_t src_strides[4]; /* b, l_in, c, k */
  crk_divisor_t l_out, channels, by_stride; /* elements per row of dst, its channels, the windows' stride */
  uint32_t wide, unused; /* wide: 1 if the divisors are wide */
} crk_col2im_t;

/* Arguments of pools and upsampling of (b, c, h, w) images. A step is `vector` neighbouring elements of an output
 * row. */
typedef struct crk_images {
  uint64_t steps; /* steps of the whole output */
  uint64_t h_in, w_in, w_out; /* height and width of the input, width of the output */
  uint64_t src_strides[4]; /* b, c, h, w */
  crk_divisor_t row_steps, h_out, channels; /* steps per output row, rows per output image, channels; wide if `wide` */
  uint32_t wide; /* 1: a step or an offset may reach 2^31, so that arithmetic is in 64 bits */
  uint32_t vector; /* elements per step */
  /* 1: rows of src have no gaps and are read in packs. Pools use it for windows of 2 x 2 in steps of 2. Nearest
   * upsampling uses it if dst has twice the columns of src. */
  uint32_t pairs;
  uint32_t align_corners; /* bilinear: 1 if the first and last elements of src and dst coincide */
  uint64_t h_k, w_k, h_stride, w_stride; /* pools: the window, and its steps */
  double h_step, w_step; /* upsampling: elements of src per element of dst */
} crk_images_t;

#endif
