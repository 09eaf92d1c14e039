/* Arguments of the kernels that convolve on matrix cores, and the tile sizes that launcher and kernels share. Plain C;
 * csrc/launch/conv_cores.c fills the structs in, kernels/conv/conv_cores.h, window_copy.h and pixels.h read them.
 *
 * A convolution is the product dst[m][n] = weights[m][k] * windows[k][n] for each image of the batch. m counts output
 * channels, n the positions of the window, k the numbers in a window: rows of the window, then columns, then channels.
 * Images and weights are therefore needed with channels last, in whole pieces of CRK_CONV_PIECE channels. */
#ifndef CRK_WINDOWS_CALL_H
#define CRK_WINDOWS_CALL_H

#include <stdint.h>

#include "call/matmul_call.h"

/* XX(rows, columns, threads on NVIDIA GPUs, threads elsewhere, cost): tiles of dst, channels x positions, the largest
 * first. A smaller tile reads its operands more often. `cost` is the time that an H200's multiprocessor takes for
 * 2^-16 of a number of dst and one number along k: 20 are 0.64 ps. */
#define CRK_CONV_TILES(XX)   \
  XX(128, 128, 128, 256, 20) \
  XX(128, 64, 128, 128, 23)  \
  XX(64, 64, 128, 128, 29)

/* Numbers along k per step, on NVIDIA GPUs; others take CRK_MATMUL_DEPTH. With 64, four blocks of the smallest tile fit
 * on a multiprocessor. */
#define CRK_CONV_CUDA_DEPTH                64
#define CRK_CONV_CUDA_BYTES(rows, columns) (CRK_MATMUL_CUDA_SLOTS * ((rows) + (columns)) * CRK_CONV_CUDA_DEPTH * 2)

enum {
  CRK_CONV_PIECE = 8, /* channels in 16 bytes */
  CRK_CONV_PART_STEP = 64, /* a part of k is a multiple of this, and so a whole number of every tile's steps */
  CRK_CONV_CHUNK = 64 /* pixels whose channels are copied at about the same time */
};

/* How the kernel reads the windows of an image. The channels of a pixel are neighbours in memory. An offset within an
 * image fits in 32 bits. */
typedef struct crk_windows {
  crk_divisor_t positions; /* narrow: positions of the window in a row of dst */
  crk_divisor_t channels; /* narrow: channels of a pixel, a multiple of CRK_CONV_PIECE */
  crk_divisor_t columns; /* narrow: columns of the window */
  uint32_t last; /* positions of the window in an image, less 1 */
  uint32_t height, width; /* of the image */
  uint32_t row_bytes, pixel_bytes; /* from one row, and from one pixel, to the next */
  uint32_t stride, dilation, h_padding, w_padding;
  uint32_t x_bits; /* bits that hold each x * stride; the other bits of 32 hold each y * stride */
} crk_windows_t;

typedef struct crk_conv_cores {
  /* lhs are the weights. Operand 1 of the batch are the images; the strides and `way` of rhs are 0. */
  crk_matmul_t product;
  crk_windows_t windows;
} crk_conv_cores_t;

/* A copy of (b, c, h, w) images with channels last, and 0 in the channels that are missing to a multiple of
 * CRK_CONV_PIECE. A thread writes a piece. Threads count `near` pieces of a pixel, then the pixels of a chunk, then the
 * other pieces, then the chunks of an image, then the images. So reads are runs of pixels, writes are runs of `near`
 * pieces, and the rest of a cache line is written soon. */
typedef struct crk_pixels {
  uint64_t src_strides[4]; /* b, c, h, w; in elements */
  crk_divisor_t chunk, groups, chunks, width; /* narrow: pixels of a chunk, pieces / near, chunks, pixels in a row */
  uint32_t pixels; /* of an image */
  uint32_t channels; /* of src */
  uint32_t threads; /* below 2^31 */
  uint32_t log2_near; /* 1 where a pixel has an even number of pieces, else 0 */
  uint32_t blocks; /* blocks that the copy takes */
  uint32_t unused; /* padding */
} crk_pixels_t;

/* A copy of the images and a copy of the weights. A copy that is not needed has no blocks. */
typedef struct crk_pixels_launch {
  crk_pixels_t images, weights;
  uint64_t first_block; /* number of this launch's first block */
} crk_pixels_launch_t;

#endif
