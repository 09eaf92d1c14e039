/* Arguments of the kernels that convolve on matrix cores, and the tile sizes that launcher and kernels share. Plain C;
 * csrc/launch/conv_cores.c and conv_phases.c fill the structs in, kernels/conv reads them.
 *
 * A convolution is the product dst[m][n] = weights[m][k] * windows[k][n] for each group of each image. m counts output
 * channels, n the positions of the window, k the numbers in a window: rows of the window, then columns, then channels.
 * Images and weights are therefore needed with channels last, in whole pieces of CRK_CONV_PIECE channels: 16 bytes.
 *
 * A transposed convolution is such a product for each phase of dst (crk_phases_t). */
#ifndef CRK_WINDOWS_CALL_H
#define CRK_WINDOWS_CALL_H

#include <stdint.h>

#include "call/matmul_call.h"

/* XX(rows, columns, threads on NVIDIA GPUs, threads elsewhere, cost): tiles of dst, channels x positions, the largest
 * first. A smaller tile reads its operands more often. f32 has up to twice the threads on NVIDIA GPUs (conv_cores.hip).
 * The wide tile is for NVIDIA GPUs, in f16 and bf16. The tall tile is for the channels of diffusion models, which are
 * multiples of 320. Transposed convolutions and f32 have neither: the tall tile would take too many registers in f32 on
 * NVIDIA GPUs and in transposed convolutions on RDNA 3. The last tile is for few output channels.
 * `cost` is the time that an H200's multiprocessor takes for a number of dst and one number along k, in units of 0.028
 * ps. */
#define CRK_CONV_WIDE_TILE(XX) XX(128, 256, 256, 0, 20)
#define CRK_CONV_TALL_TILE(XX) XX(160, 128, 256, 256, 23)
#define CRK_CONV_TILES(XX)   \
  XX(128, 128, 128, 256, 20) \
  XX(128, 64, 128, 128, 24)  \
  XX(64, 64, 128, 128, 29)   \
  XX(16, 128, 128, 128, 75)

/* Bytes along k per step, on NVIDIA GPUs; others take CRK_MATMUL_DEPTH. With 128, four blocks of the smallest tile fit
 * on a multiprocessor. */
#define CRK_CONV_CUDA_STEP                 128
#define CRK_CONV_CUDA_BYTES(rows, columns) (CRK_MATMUL_CUDA_SLOTS * ((rows) + (columns)) * CRK_CONV_CUDA_STEP)

#define CRK_CONV_PIECE(element_bytes) (16 / (element_bytes)) /* channels in 16 bytes */

enum {
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
  /* Bits that hold the column of each pixel that a window covers, and its distance to the last column, with a sign; the
   * other bits of 32 hold rows likewise. */
  uint32_t x_bits;
} crk_windows_t;

typedef struct crk_conv_cores {
  /* lhs are the weights. The batch are images and groups: operand 0 moves to the weights of a group, operand 1 to its
   * image. The strides and `way` of rhs are 0. */
  crk_matmul_t product;
  crk_windows_t windows;
} crk_conv_cores_t;

/* The phases of a transposed convolution along one dim. Phase r is every stride-th output from r on. Its outputs have
 * the same taps: every tap t with (r + padding - t * dilation) a multiple of the stride. So the phase is a convolution
 * of stride 1 with these taps, in reverse order.
 *
 * With g = gcd(stride, dilation), the taps of a phase are stride / g apart, and neighbouring ones read inputs that are
 * dilation / g apart. Phases are numbered by their first tap, from 0 to stride / g - 1; the other phases have no
 * tap. */
typedef struct crk_phases {
  crk_divisor_t stride; /* narrow: the number of phases */
  crk_divisor_t apart; /* narrow: from a tap to the next one of its phase */
  uint32_t window; /* all taps */
  uint32_t taps, longer; /* taps of a phase; the first `longer` phases have one more */
  uint32_t dilation; /* of the whole window */
  /* Whole strides that cover the padding: their number, and what they have beyond the padding. */
  uint32_t skipped, beyond;
  uint32_t size; /* of dst */
  uint32_t unused; /* padding */
} crk_phases_t;

/* A transposed convolution. A row of weights has the taps of phase 0, then those of phase 1, and so on; phases across
 * are counted first. Blocks count the phases first, then as crk_matmul_t says. */
typedef struct crk_conv_phases {
  /* The product of the phase with the most taps and positions. `columns` is for the phases across with the most taps.
   * The product's first_block is 0, and its order that of all blocks. Its strides of dst and the paddings do not
   * count. */
  crk_conv_cores_t most;
  crk_divisor_t fewer_columns; /* narrow: columns of the window in the phases that have one tap less, or 1 */
  crk_phases_t down, across;
  crk_divisor_t phases; /* wide: phases down times phases across */
  uint64_t first_block; /* number of this launch's first block */
} crk_conv_phases_t;

/* A copy of (n, m, c, h, w) images with channels last, and 0 in the channels that are missing to a multiple of
 * CRK_CONV_PIECE. A thread writes a piece. Threads count the `near` pieces of a set, then the pixels of a chunk, then
 * the sets, then the chunks of an image, then the images: m, then n. So reads are runs of pixels, writes are runs of
 * `near` pieces, and the rest of a cache line is written soon. */
typedef struct crk_pixels {
  uint64_t src_strides[5]; /* n, m, c, h, w; in elements */
  /* All narrow: pixels of a chunk, sets of a pixel, chunks, pixels in a row, images of an n. */
  crk_divisor_t chunk, sets, chunks, width, m;
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
  crk_phases_t down, across; /* of the weights, if by_phases is 1: their pixels are taps, in the order of the phases */
  uint32_t by_phases, unused;
  uint64_t first_block; /* number of this launch's first block */
} crk_pixels_launch_t;

#endif
