/* The launcher of convolutions as matrix products (kernels/conv/conv_cores.h). */
#include "call/launch_threads.h"
#include "call/windows_call.h"
#include "launch/convolution.h"
#include "launch/matmul.h"

#include <string.h>

/* The most neighbouring numbers of dst that a lane stores at once (numbers/square.h, matmul/product_store.h). */
enum { STORED_TOGETHER = 8 };
/* A part of k has at least LEAST_STEPS times CRK_CONV_PART_STEP numbers. To write, read and add up one number of a part
 * costs SUM_COST, and the launch for it SUMS_COST: 1.3 ps and 3 us, in the unit of CRK_CONV_TILES. */
enum { LEAST_STEPS = 4, SUM_COST = 45, SUMS_COST = 106000000 };
/* A tile of f32 takes so many times as long: an H200 reaches 62 Tflop/s, and 420 in f16. */
enum { FLOAT_COST = 7 };

typedef struct tile {
  uint32_t rows, columns, cost;
  uint32_t cuda_bytes; /* of dynamic shared memory, on NVIDIA GPUs */
} tile_t;
static const tile_t tiles[] = {
#define XX(rows, columns, cuda_threads, threads, cost) {rows, columns, cost, CRK_CONV_CUDA_BYTES(rows, columns)},
    CRK_CONV_WIDE_TILE(XX) CRK_CONV_TALL_TILE(XX) CRK_CONV_TILES(XX)
#undef XX
};
enum { WIDE, TALL, LARGE, TILES = sizeof(tiles) / sizeof(*tiles) };
_Static_assert(2 * (int)TILES * (int)CRK_DTYPE_COUNT == CRK_SLOTS_OF(CONV_CORES), "as the list of slots counts");

/* The products of an image. A phase of a transposed convolution is a product; others are one. */
typedef struct work {
  uint64_t phases;
  uint64_t height, width; /* the most positions of the window, down and across */
  uint64_t k; /* the longest sum */
} work_t;

/* The bytes of an element, and the channels in 16 bytes. */
static uint64_t bytes_of(const crk_convolution_t *convolution) { return crk_dtype_size(convolution->dtype); }
static uint64_t piece_of(const crk_convolution_t *convolution) { return CRK_CONV_PIECE(bytes_of(convolution)); }

/* The channels of a group in memory: whole pieces. */
static uint64_t padded_channels(const crk_convolution_t *convolution) {
  return crk_priv_ceil_div(convolution->shape.c_in, piece_of(convolution)) * piece_of(convolution);
}

/* The bits that hold a coordinate along a dim, as a window has it: from its place before the image to its distance from
 * the image's other end, with a sign. */
static uint32_t coordinate_bits(const crk_convolution_t *convolution, bool is_across) {
  const crk_conv_t *s = &convolution->shape;
  return 1 + crk_priv_bits_of(convolution->transposed ? crk_priv_phases_farthest(s, is_across)
                              : is_across             ? s->w_in - 1 + s->w_padding
                                                      : s->h_in - 1 + s->h_padding);
}

/* The least c_in * c_out for which the convolution is a product. */
static uint64_t least_channels(const crk_convolution_t *convolution) {
  const crk_conv_t *s = &convolution->shape;
  const bool is_wide = s->h_k >= crk_priv_ceil_div(CRK_CONV_WIDE_WINDOW, s->w_k);
  const bool is_depthwise = s->c_in == 1 && convolution->groups > 1;
  const bool takes_few = bytes_of(convolution) == 2 && is_wide && !is_depthwise && !convolution->transposed;
  return takes_few ? CRK_CONV_LEAST_HALVES : CRK_CONV_LEAST_CHANNELS;
}

bool crk_priv_convolves_by_products(crk_device_t self, const crk_convolution_t *convolution) {
  const crk_conv_t *s = &convolution->shape;
  const uint64_t limit = INT32_MAX;
  const bool has_kernels = convolution->dtype == CRK_DTYPE_F16 || convolution->dtype == CRK_DTYPE_BF16 ||
                           (convolution->dtype == CRK_DTYPE_F32 && self->context->has_float_cores);
  if (!has_kernels || s->c_in == 0 || s->h_in == 0 || s->w_in == 0 || s->c_in > limit / 2 || s->c_out > limit ||
      s->c_in * s->c_out < least_channels(convolution) || convolution->groups > limit || convolution->batch > limit) {
    return false;
  }
  const uint64_t channels = padded_channels(convolution), pieces = channels / piece_of(convolution);
  const uint64_t images = convolution->batch * convolution->groups, rows = s->c_out * convolution->groups;
  /* The kernel reads the weights as it reads the left matrix of a product. Offsets within their tile have 32 bits. */
  if (s->h_in > limit / bytes_of(convolution) / channels / s->w_in ||
      s->h_k > CRK_MATMUL_MOST_STRIDE / channels / s->w_k || s->h_out > limit / s->w_out ||
      s->h_in * s->w_in * pieces > limit / 2 / images || s->h_k * s->w_k * pieces > limit / 2 / rows) {
    return false;
  }
  /* Sizes with padding, and so strides that lead to a second position, are below 2^30. */
  const bool fits = convolution->transposed
                        ? crk_priv_phases_fit(s)
                        : s->h_in + 2 * s->h_padding <= limit / 2 && s->w_in + 2 * s->w_padding <= limit / 2;
  return fits && coordinate_bits(convolution, false) + coordinate_bits(convolution, true) <= 32;
}

/* ---- operands with channels last */

/* A tensor (n, m, c, h, w), and how the product reads it: in place, or a copy. Images are (batch, groups, c, h, w), the
 * kernel is (groups, c_out, c, h, w). */
typedef struct pixels {
  const void *src;
  uint64_t n, m, height, width;
  uint64_t strides[5]; /* of the copy, if it is copied */
  crk_pixels_t copy; /* of no block, if the product reads it in place */
  size_t copy_bytes;
} pixels_t;

/* `strides` has the strides of n, m, c, h and w. `packed`: pixels must follow each other without gaps. `ordered`:
 * pixels lie in the order of the product. */
static void describe_pixels(pixels_t *p, const crk_convolution_t *convolution, const uint64_t strides[5], bool packed,
                            bool ordered) {
  const uint64_t channels = padded_channels(convolution), row = p->width * channels;
  const uint64_t piece = piece_of(convolution), bytes = bytes_of(convolution);
  const uint64_t most = INT32_MAX / bytes; /* elements from the first pixel to the last */
  bool in_place = ordered && channels == convolution->shape.c_in && strides[2] == 1 && (uintptr_t)p->src % 16 == 0;
  in_place = in_place && (p->n == 1 || strides[0] % piece == 0) && (p->m == 1 || strides[1] % piece == 0);
  in_place = in_place && (p->height == 1 || strides[3] % piece == 0) && (p->width == 1 || strides[4] % piece == 0);
  if (packed) {
    in_place = in_place && (p->m == 1 || strides[1] <= CRK_MATMUL_MOST_STRIDE) &&
               (p->height == 1 || strides[3] == row) && (p->width == 1 || strides[4] == channels);
  } else {
    in_place = in_place && strides[3] <= most / p->height && strides[4] <= most / p->width &&
               (p->height - 1) * strides[3] + (p->width - 1) * strides[4] + channels <= most;
  }
  if (in_place) {
    memcpy(p->strides, strides, sizeof p->strides);
    return;
  }
  crk_pixels_t *copy = &p->copy;
  const uint64_t pieces = channels / piece, pixels = p->height * p->width;
  const uint64_t chunk = crk_priv_least(pixels, CRK_CONV_CHUNK), chunks = crk_priv_ceil_div(pixels, chunk);
  memcpy(copy->src_strides, strides, sizeof copy->src_strides);
  copy->pixels = (uint32_t)pixels;
  copy->channels = (uint32_t)convolution->shape.c_in;
  copy->threads = (uint32_t)(p->n * p->m * chunks * chunk * pieces);
  copy->log2_near = pieces % 2 == 0;
  copy->blocks = (uint32_t)crk_priv_ceil_div(copy->threads, CRK_LAUNCHED_THREADS);
  crk_priv_divisor_init(&copy->chunk, chunk, false);
  crk_priv_divisor_init(&copy->sets, pieces >> copy->log2_near, false);
  crk_priv_divisor_init(&copy->chunks, chunks, false);
  crk_priv_divisor_init(&copy->width, p->width, false);
  crk_priv_divisor_init(&copy->m, p->m, false);
  p->copy_bytes = p->n * p->m * pixels * channels * bytes;
  const uint64_t packed_strides[5] = {p->m * p->height * row, p->height * row, 1, row, channels};
  memcpy(p->strides, packed_strides, sizeof p->strides);
}

/* Copies what the product cannot read in place to `scratch`. `images` and `kernel` then begin there. `phases` is NULL
 * unless the convolution is transposed. */
static crk_status_t copy_pixels(crk_device_t self, const crk_convolution_t *convolution, pixels_t *images,
                                pixels_t *kernel, const crk_conv_phases_t *phases, char *scratch) {
  const bool is_float = convolution->dtype == CRK_DTYPE_F32;
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_CONV_PIXELS + is_float, CRK_MODULE_CONV_CORES, &function, "conv_b%d_pixels",
                         is_float ? 32 : 16));
  crk_pixels_launch_t call = {.images = images->copy, .weights = kernel->copy, .by_phases = phases != NULL};
  if (phases != NULL) {
    call.down = phases->down;
    call.across = phases->across;
  }
  void *images_dst = scratch, *kernel_dst = scratch + images->copy_bytes;
  const void *args[] = {&call, &images->src, &images_dst, &kernel->src, &kernel_dst};
  CRK_TRY(crk_priv_launch_all_blocks(self, function, (uint64_t)images->copy.blocks + kernel->copy.blocks,
                                     CRK_LAUNCHED_THREADS, 0, &call.first_block, args));
  images->src = images->copy.blocks != 0 ? images_dst : images->src;
  kernel->src = kernel->copy.blocks != 0 ? kernel_dst : kernel->src;
  return CRK_OK;
}

/* ---- the product */

/* How the blocks share the work. */
typedef struct plan {
  uint32_t choice; /* of the tile */
  uint64_t tiles, parts; /* blocks per part of k, parts of k */
} plan_t;

/* Whether there is a kernel for the tile. Some NVIDIA GPUs have too little shared memory for the first two. */
static bool has_tile(crk_device_t self, const crk_convolution_t *convolution, uint32_t choice) {
  const bool is_cuda = self->driver->backend == CRK_BACKEND_CUDA;
  return choice >= LARGE || (convolution->dtype != CRK_DTYPE_F32 && !convolution->transposed &&
                             (is_cuda ? tiles[choice].cuda_bytes <= self->context->info.shared_bytes : choice == TALL));
}

/* The plan with which the device is done first. The busiest unit has to compute rounds * rows * columns numbers of dst.
 * Parts of k fill the device where tiles are few, but they must be added up. */
static plan_t make_plan(crk_device_t self, const crk_convolution_t *convolution, const work_t *work) {
  const crk_conv_t *s = &convolution->shape;
  const bool is_float = convolution->dtype == CRK_DTYPE_F32;
  const uint64_t factor = is_float ? FLOAT_COST : 1;
  const uint64_t positions = work->height * work->width, numel = crk_priv_convolution_numel(convolution);
  const uint64_t steps = crk_priv_ceil_div(work->k, CRK_CONV_PART_STEP);
  plan_t best = {0};
  double least = 0;
  for (uint32_t i = 0; i < TILES; i++) {
    const tile_t *tile = &tiles[i];
    if (!has_tile(self, convolution, i)) {
      continue;
    }
    const uint64_t count = crk_priv_ceil_div(s->c_out, tile->rows) * crk_priv_ceil_div(positions, tile->columns) *
                           convolution->batch * convolution->groups * work->phases;
    const uint64_t most = crk_priv_least(crk_priv_ceil_div(2 * crk_priv_units(self), count), steps / LEAST_STEPS);
    for (uint64_t parts = 1; parts == 1 || parts <= most; parts++) {
      const uint64_t rounds = crk_priv_ceil_div(count * parts, crk_priv_units(self));
      const uint64_t each = crk_priv_ceil_div(steps, parts) * CRK_CONV_PART_STEP;
      const double sums = parts == 1 ? 0.0 : (double)numel * (double)parts * SUM_COST + SUMS_COST;
      const double cost = (double)(rounds * tile->rows * tile->columns) * (double)(each * tile->cost * factor) + sums;
      if (least == 0 || cost < least) {
        least = cost;
        best = (plan_t){i, count, parts};
      }
    }
  }
  return best;
}

/* Describes the work, and the call but for its product. */
static work_t describe_windows(crk_conv_phases_t *call, const crk_convolution_t *convolution, const pixels_t *images) {
  const crk_conv_t *s = &convolution->shape;
  const uint64_t channels = padded_channels(convolution), bytes = bytes_of(convolution);
  crk_windows_t *windows = &call->most.windows;
  *windows = (crk_windows_t){.height = (uint32_t)s->h_in,
                             .width = (uint32_t)s->w_in,
                             .row_bytes = (uint32_t)(images->strides[3] * bytes),
                             .pixel_bytes = (uint32_t)(images->strides[4] * bytes)};
  crk_priv_divisor_init(&windows->channels, channels, false);
  work_t work;
  if (convolution->transposed) {
    crk_priv_phases_init(call, s);
    const crk_phases_t *down = &call->down, *across = &call->across;
    const uint64_t rows = down->taps + (down->longer != 0), columns = across->taps + (across->longer != 0);
    work = (work_t){call->phases.size, crk_priv_ceil_div(s->h_out, down->stride.size),
                    crk_priv_ceil_div(s->w_out, across->stride.size), rows * columns * channels};
    crk_priv_divisor_init(&windows->columns, columns, false);
  } else {
    work = (work_t){1, s->h_out, s->w_out, s->h_k * s->w_k * channels};
    windows->stride = (uint32_t)s->stride;
    windows->dilation = s->h_k * s->w_k == 1 ? 1 : (uint32_t)s->dilation; /* any; it may have more bits */
    windows->h_padding = (uint32_t)s->h_padding;
    windows->w_padding = (uint32_t)s->w_padding;
    crk_priv_divisor_init(&windows->columns, s->w_k, false);
  }
  windows->last = (uint32_t)(work.height * work.width - 1);
  windows->x_bits = coordinate_bits(convolution, true);
  crk_priv_divisor_init(&windows->positions, work.width, false);
  return work;
}

static void describe_product(crk_matmul_t *product, const crk_convolution_t *convolution, const pixels_t *images,
                             const pixels_t *kernel, const work_t *work) {
  const crk_conv_t *s = &convolution->shape;
  const uint64_t positions = work->height * work->width;
  const size_t dims[] = {convolution->batch, convolution->groups};
  const size_t weights_strides[] = {0, kernel->strides[0]}, images_strides[] = {images->strides[0], images->strides[1]};
  const size_t *const strides[] = {weights_strides, images_strides};
  crk_priv_nd_init(&product->batch, dims[0] * dims[1], 2, dims, strides, 2, 1);
  product->lhs = (crk_matmul_operand_t){s->c_out, kernel->strides[1], 1, CRK_MATMUL_ALONG_K, 1};
  product->rhs = (crk_matmul_operand_t){positions, 0, 0, CRK_MATMUL_ANY, 0};
  product->k = work->k;
  product->first_block = 0;
  product->row_stride = positions;
  product->column_stride = 1;
  product->by_vectors = positions % STORED_TOGETHER == 0 && (uintptr_t)convolution->dst.ptr % 16 == 0;
}

/* Launches the product. `sums` is scratch memory for the parts of k, if there are several. */
static crk_status_t launch_product(crk_device_t self, const crk_convolution_t *convolution, crk_conv_phases_t *call,
                                   const plan_t *plan, const pixels_t *images, const pixels_t *kernel, void *sums) {
  const tile_t *tile = &tiles[plan->choice];
  const char *dtype = crk_dtype_name(convolution->dtype);
  crk_matmul_t *product = &call->most.product;
  crk_function_t function;
  const bool transposed = convolution->transposed;
  const uint32_t kind = (transposed ? TILES : 0) + plan->choice;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_CONV_CORES + kind * CRK_DTYPE_COUNT + (uint32_t)convolution->dtype,
                         CRK_MODULE_CONV_CORES, &function, "conv%s_%s_%ux%u_cores", transposed ? "_transpose" : "",
                         dtype, (unsigned)tile->rows, (unsigned)tile->columns));
  uint32_t threads;
  CRK_TRY(crk_priv_block_threads(function, &threads));
  const uint64_t parts = product->parts.size;
  crk_priv_matmul_tiles_init(product, crk_priv_ceil_div(product->rhs.rows, tile->columns),
                             crk_priv_ceil_div(product->lhs.rows, tile->rows), true);
  crk_priv_cache_order_init(&product->order, self->context->info.l2_caches, plan->tiles * parts, true);
  const bool is_cuda = self->driver->backend == CRK_BACKEND_CUDA;
  const void *dst = parts > 1 ? sums : convolution->dst.ptr;
  const void *args[] = {call, &kernel->src, &images->src, &dst};
  CRK_TRY(crk_priv_launch_all_blocks(self, function, plan->tiles * parts, threads, is_cuda ? tile->cuda_bytes : 0,
                                     transposed ? &call->first_block : &product->first_block, args));
  if (parts == 1) {
    return CRK_OK;
  }
  return crk_priv_matmul_add_parts(self, convolution->dtype, sums, parts, crk_priv_convolution_numel(convolution),
                                   convolution->dst.ptr);
}

crk_status_t crk_priv_convolve_by_products(crk_device_t self, const crk_convolution_t *convolution) {
  const crk_conv_t *s = &convolution->shape;
  const uint64_t *from = s->src_strides, *taps = s->kernel_strides, batch = convolution->batch;
  const uint64_t images_strides[] = {from[0], convolution->src_group, from[1], from[2], from[3]};
  const uint64_t kernel_strides[] = {convolution->kernel_group, taps[0], taps[1], taps[2], taps[3]};
  pixels_t images = {
      .src = convolution->src, .n = batch, .m = convolution->groups, .height = s->h_in, .width = s->w_in};
  pixels_t kernel = {
      .src = convolution->kernel, .n = convolution->groups, .m = s->c_out, .height = s->h_k, .width = s->w_k};
  const bool transposed = convolution->transposed;
  describe_pixels(&images, convolution, images_strides, false, true);
  describe_pixels(&kernel, convolution, kernel_strides, true, !transposed);
  crk_conv_phases_t call;
  const work_t work = describe_windows(&call, convolution, &images);
  crk_matmul_t *product = &call.most.product;
  describe_product(product, convolution, &images, &kernel, &work);
  const plan_t plan = make_plan(self, convolution, &work);
  product->part_k =
      crk_priv_ceil_div(crk_priv_ceil_div(product->k, CRK_CONV_PART_STEP), plan.parts) * CRK_CONV_PART_STEP;
  const size_t parts = crk_priv_ceil_div(product->k, product->part_k);
  crk_priv_divisor_init(&product->parts, parts, true);

  const size_t copied = images.copy_bytes + kernel.copy_bytes;
  const size_t summed = parts > 1 ? parts * crk_priv_convolution_numel(convolution) * 4 : 0;
  char *scratch = NULL;
  if (copied + summed != 0) {
    void *given;
    CRK_TRY(crk_alloc(self, copied + summed, &given));
    scratch = given;
  }
  crk_status_t status =
      copied == 0 ? CRK_OK : copy_pixels(self, convolution, &images, &kernel, transposed ? &call : NULL, scratch);
  if (status == CRK_OK) {
    char *sums = summed == 0 ? NULL : scratch + copied;
    status = launch_product(self, convolution, &call, &plan, &images, &kernel, sums);
  }
  return scratch == NULL ? status : crk_priv_free_after(self, status, scratch);
}
