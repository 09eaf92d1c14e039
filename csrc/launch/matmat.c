/* Integer products of quantized weights with many columns. The kernels compute dst in tiles
 * (kernels/quantized/matmat.h). */
#include "launch/matmul.h"
#include "launch/mmq.h"
#include "launch/product.h"
#include "launch/sliding.h"

/* The kernels' tiles, the largest first. See has_wide_tiles for the first WIDE_TILES of them. */
typedef struct tile {
  uint32_t rows, columns;
} tile_t;
static const tile_t tiles[] = {
#define XX(rows, columns, ...) {rows, columns},
    CRK_MMQ_WIDE_TILES(XX, ) CRK_MMQ_TILES(XX, )
#undef XX
};
enum { TILES = sizeof(tiles) / sizeof(*tiles), WIDE_TILES = 0 CRK_MMQ_WIDE_TILES(CRK_COUNT_ONE, ) };
_Static_assert((int)TILES *(int)CRK_QUANT_COUNT == CRK_SLOTS_OF(MUL_MAT_TILES), "as the list of slots counts");

static uint64_t count_tiles(const tile_t *tile, uint64_t rows, uint64_t columns) {
  return crk_priv_ceil_div(rows, tile->rows) * crk_priv_ceil_div(columns, tile->columns);
}

/* AMD GPUs with waves of 64 lanes have no kernels for wide tiles (CRK_HAS_WIDE_MMQ). */
static bool has_wide_tiles(crk_device_t self) {
  return self->driver->backend == CRK_BACKEND_CUDA || self->context->info.wave_size == 32;
}

enum {
  PIECE_ELEMENTS = 32,
  SMALL_ROWS = 64, /* rows of small tiles */
  LEAST_LENGTH = 2 /* of a part, in blocks of CRK_MMQ_PART_PIECES pieces */
};

/* The blocks that a unit holds at once, and how often parts may fill these places. On an H200 a unit holds three blocks
 * with small tiles or two with large ones. AMD GPUs get two of both (not measured). Wide tiles have one part. */
typedef struct share {
  uint64_t held, times;
} share_t;

static share_t share_of_unit(crk_device_t self, uint32_t choice) {
  if (choice < WIDE_TILES) {
    return (share_t){1, 0};
  }
  switch (self->driver->backend) {
    case CRK_BACKEND_CPU:
      return (share_t){1, 2};
    case CRK_BACKEND_CUDA:
      return (share_t){tiles[choice].rows <= SMALL_ROWS ? 3 : 2, 3};
    default:
      return (share_t){2, 1};
  }
}

/* Estimates the time of `count` tiles. The sum over k has `blocks` blocks, and a part has `length` of them. A unit
 * of the device takes 20 for one block of one part alone. It takes 4 * (3 + 2 * n) for a block of each of n parts
 * at once. The sums of a part take 7. These numbers fit the times of 345 products on an H200 (docs/matmul.md,
 * "Parts of k"). */
static uint64_t estimate_time(uint64_t units, uint64_t held, uint64_t count, uint64_t blocks, uint64_t length) {
  const uint64_t parts = crk_priv_ceil_div(blocks, length);
  const uint64_t each = crk_priv_ceil_div(count * blocks, length * units); /* parts of a unit */
  const uint64_t rest = each % held;
  const uint64_t turns = each / held * (3 + 2 * held) + (rest != 0 ? 3 + 2 * rest : 0);
  return 4 * length * turns + (parts > 1 ? 7 * count * parts / units : 0);
}

/* The length of the parts into which the sums of `count` tiles over `blocks` blocks of k are cut. */
static uint64_t choose_length(crk_device_t self, uint32_t choice, uint64_t count, uint64_t blocks) {
  const share_t share = share_of_unit(self, choice);
  const uint64_t units = crk_priv_units(self), most = units * share.held * share.times / count;
  uint64_t best = blocks, least = UINT64_MAX, before = 0;
  for (uint64_t parts = 1; parts <= most; parts++) {
    const uint64_t length = crk_priv_ceil_div(blocks, parts);
    if (parts > 1 && length < LEAST_LENGTH) {
      break;
    }
    if (length == before) {
      continue;
    }
    before = length;
    const uint64_t time = estimate_time(units, share.held, count, blocks, length);
    if (time < least) {
      least = time;
      best = length;
    }
  }
  return best;
}

/* What a product is cut into: tiles, and parts of the sum over k. */
typedef struct plan {
  uint32_t choice; /* of a tile */
  uint64_t parts, part_blocks; /* and the length of a part, in blocks of CRK_MMQ_PART_PIECES pieces */
} plan_t;

/* The least number of blocks for which a tile size is used: two for three units on NVIDIA GPUs, by the times of an
 * H200, and one for two units elsewhere. With wide tiles, units without a block would leave more idle on AMD GPUs,
 * where a unit holds two or three such blocks (not measured). */
static uint64_t least_blocks(crk_device_t self, uint32_t choice) {
  const uint64_t units = crk_priv_units(self);
  if (self->driver->backend == CRK_BACKEND_CUDA) {
    return units * 2 / 3;
  }
  return choice < WIDE_TILES && self->driver->backend == CRK_BACKEND_HIP ? units : units / 2;
}

/* Chooses the largest tile for which there are at least that many blocks. Chooses a smaller one if that also holds all
 * columns. With `is_whole` the sum over k has one part. */
static plan_t make_plan(crk_device_t self, const crk_quant_info_t *info, const crk_mmq_product_t *product,
                        bool is_whole) {
  const uint64_t pieces = (uint64_t)product->row_blocks * (info->elements / PIECE_ELEMENTS);
  const uint64_t blocks = crk_priv_greatest(crk_priv_ceil_div(pieces, CRK_MMQ_PART_PIECES), 1);
  for (uint32_t choice = has_wide_tiles(self) ? 0 : WIDE_TILES;; choice++) {
    if (choice + 1 < TILES && product->columns <= tiles[choice + 1].columns) {
      continue;
    }
    const uint64_t count = count_tiles(&tiles[choice], product->rows, product->columns);
    const uint64_t length = is_whole ? blocks : choose_length(self, choice, count, blocks);
    const uint64_t parts = crk_priv_ceil_div(blocks, length);
    if (choice + 1 == TILES || count * parts >= least_blocks(self, choice)) {
      return (plan_t){choice, parts, length};
    }
  }
}

/* Scales and minima of a row per 128 elements. */
static uint32_t numbers_of_quant(crk_quant_t quant) {
  switch (quant) {
#define XX(format, type, name, numbers) \
  case CRK_QUANT_##format:              \
    return numbers;
    CRK_MMQ_FORMATS(XX)
#undef XX
    default:
      return 0;
  }
}

/* Launches the blocks of a plan. With several parts, dst is scratch memory for them. */
static crk_status_t launch_mmq_plan(crk_device_t self, crk_quant_t quant, const crk_quant_info_t *info,
                                    const plan_t *plan, const crk_mmq_product_t *product, const void *weights,
                                    const void *y, void *dst) {
  const tile_t *tile = &tiles[plan->choice];
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MUL_MAT_TILES + info->index * TILES + plan->choice, CRK_MODULE_QUANTIZED_MAT,
                         &function, "mul_mat_%s_%ux%u_tiles", info->name, (unsigned)tile->rows,
                         (unsigned)tile->columns));
  const uint64_t most = self->context->info.max_grid_threads / CRK_MMQ_THREADS / plan->parts;
  crk_mmq_product_t shape = *product;
  shape.part_blocks = (uint32_t)plan->part_blocks;
  shape.blocks_x = crk_priv_grid_blocks(self, crk_priv_ceil_div(product->columns, tile->columns), CRK_MMQ_THREADS);
  shape.blocks_y = (uint32_t)crk_priv_least(crk_priv_ceil_div(product->rows, tile->rows),
                                            crk_priv_least(most / shape.blocks_x, CRK_MOST_GRID_YZ));
  crk_priv_divisor_init(&shape.across, shape.blocks_x, false);
  crk_priv_cache_order_init(&shape.order, self->context->info.l2_caches, (uint64_t)shape.blocks_x * shape.blocks_y,
                            false);
  const uint32_t shared_bytes = self->driver->backend == CRK_BACKEND_CUDA
                                    ? 2 * 4 * CRK_MMQ_STEP_WORDS(tile->rows, tile->columns, numbers_of_quant(quant)) +
                                          CRK_MMQ_STAGED_BYTES(tile->rows, tile->columns, info->elements, info->bytes)
                                    : 0;
  const void *args[] = {&weights, &y, &dst, &shape};
  const crk_dim3_t grid = {shape.blocks_x, shape.blocks_y, (uint32_t)plan->parts};
  return crk_priv_launch_blocks(self, function, grid, (crk_dim3_t){CRK_MMQ_THREADS, 1, 1}, shared_bytes, args);
}

/* Launches the product. Several parts are added up into dst, which has no gaps. */
static crk_status_t launch_mmq_parts(crk_device_t self, crk_quant_t quant, const crk_quant_info_t *info,
                                     crk_dtype_t dtype, const crk_mmq_product_t *product, const void *weights,
                                     const void *y, void *dst) {
  const plan_t plan = make_plan(self, info, product, false);
  if (plan.parts == 1) {
    return launch_mmq_plan(self, quant, info, &plan, product, weights, y, dst);
  }
  const uint64_t count = product->rows * product->columns;
  crk_mmq_product_t shape = *product;
  shape.dtype = 0;
  shape.part_stride = count;
  void *sums;
  CRK_TRY(crk_alloc(self, plan.parts * count * sizeof(float), &sums));
  crk_status_t status = launch_mmq_plan(self, quant, info, &plan, &shape, weights, y, sums);
  if (status == CRK_OK) {
    status = crk_priv_matmul_add_parts(self, dtype, sums, plan.parts, count, dst);
  }
  return crk_priv_free_after(self, status, sums);
}

crk_status_t crk_priv_product_by_tiles(crk_device_t self, const crk_product_t *product) {
  const crk_quant_info_t *info;
  crk_mmq_t layout;
  CRK_TRY(crk_priv_mmq_of_quant(product->where, product->quant, &info, &layout));
  crk_mmq_rows_t rows = {
      .k = product->k, .row_stride = product->k, .columns = product->columns, .channels = 1, .samples = 1};
  CRK_TRY(crk_priv_mmq_padded(product->where, product->k, &rows.padded_k));
  const size_t bytes = crk_mmq_bytes(&rows);
  if (bytes == 0) {
    return crk_priv_error(CRK_OUT_OF_BOUNDS,
                          "%s: scratch memory for %zu columns of k %zu would need more than %zu bytes", product->where,
                          product->columns, product->k, (size_t)SIZE_MAX);
  }
  void *y;
  CRK_TRY(crk_alloc(self, bytes, &y));
  crk_status_t status = crk_priv_quantize_mmq(self, layout, product->dtype, &rows, product->columns, CRK_SUM_OF_CODES,
                                              product->x, NULL, y);
  if (status == CRK_OK) {
    const crk_mmq_product_t shape = {.rows = product->rows,
                                     .columns = product->columns,
                                     .weight_stride = product->k / info->elements,
                                     .dst_stride = product->rows,
                                     .row_blocks = (uint32_t)(product->k / info->elements),
                                     .dtype = product->dtype_index};
    status = launch_mmq_parts(self, product->quant, info, product->dtype, &shape, product->weights, y, product->dst);
  }
  return crk_priv_free_after(self, status, y);
}

crk_status_t crk_mul_mat_mmq(crk_device_t self, crk_quant_t quant, crk_dtype_t dtype, size_t rows, size_t k,
                             size_t columns, crk_const_view_t weights, size_t weight_stride, crk_const_view_t y,
                             crk_view_t dst, size_t dst_stride) {
  static const char where[] = "crk_mul_mat_mmq";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  const crk_quant_info_t *info;
  crk_mmq_t layout;
  uint32_t type;
  CRK_TRY(crk_priv_mmq_of_quant(where, quant, &info, &layout));
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  CRK_TRY(crk_priv_check_blocks(where, "k", k, info));
  CRK_TRY(crk_priv_check_count(where, "k", k));
  CRK_REFUSE_IF(dst_stride < rows && columns > 1, "%s: dst_stride is %zu, less than rows, which is %zu", where,
                dst_stride, rows);
  if (rows == 0 || columns == 0) {
    return CRK_OK;
  }
  const size_t row_blocks = k / info->elements, element_bytes = crk_dtype_size(dtype);
  size_t weight_blocks, y_blocks, dst_elements, weight_bytes;
  CRK_TRY(crk_priv_strided_extent(where, "blocks of weights", rows, weight_stride, row_blocks, &weight_blocks));
  CRK_TRY(crk_priv_checked_product(where, "blocks of y", crk_priv_ceil_div(k, CRK_MMQ_ELEMENTS), columns, &y_blocks));
  CRK_TRY(crk_priv_strided_extent(where, "elements of dst", columns, dst_stride, rows, &dst_elements));
  if (k != 0) {
    CRK_TRY(crk_priv_checked_product(where, "elements of weights", weight_blocks, info->elements, &weight_bytes));
    CRK_TRY(crk_priv_check_weights(where, "weights", weights, 1, weight_bytes, info, &weight_bytes));
    CRK_TRY(crk_priv_checked_product(where, "words of y", y_blocks, CRK_MMQ_WORDS, &y_blocks));
    CRK_TRY(crk_priv_check_elements(where, "y", y, y_blocks, 4));
  }
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), dst_elements, (uint32_t)element_bytes));
  const size_t dst_bytes = dst_elements * element_bytes;
  if (k != 0) {
    CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, dst_bytes, "weights", weights.ptr, weight_bytes));
    CRK_TRY(crk_priv_check_apart(where, "dst", dst.ptr, dst_bytes, "y", y.ptr, y_blocks * 4));
  }
  const crk_mmq_product_t shape = {.rows = rows,
                                   .columns = columns,
                                   .weight_stride = weight_stride,
                                   .dst_stride = dst_stride,
                                   .row_blocks = (uint32_t)row_blocks,
                                   .dtype = type};
  const plan_t plan = make_plan(self, info, &shape, true);
  return launch_mmq_plan(self, quant, info, &plan, &shape, weights.ptr, y.ptr, dst.ptr);
}
