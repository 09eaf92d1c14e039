/* Launchers of im2col and col2im1d (kernels/conv/im2col.h). */
#include "launch/convolution.h"

/* The limit on the matrix elements of a tile is set so that each unit of the device gets TILES_PER_UNIT tiles. It is
 * never below LEAST_TILE_ELEMENTS. */
enum { TILES_PER_UNIT = 8, LEAST_TILE_ELEMENTS = 8192 };

/* A second limit, for elements of 4 bytes only. On an H200 such elements reach 0.86 of copy speed with it, 0.74 for a
 * quarter of the work, and 0.52 for odd dims. Without it they reach 0.85, 0.72 and 0.48. Elements of 2 bytes are slower
 * with it (0.58 instead of 0.73). Other sizes were not measured. */
enum { MOST_TILE_WORDS = 16384 };

/* A tile covers this many bytes of a matrix row, if the row is that long. On an H200, rows of 2304 bytes (64 channels
 * of f32, 3 x 3) reach 0.85 of copy speed whole, 0.81 cut in two, 0.77 cut in four. */
enum { RUN_BYTES = 2304 };

/* The most columns of a tile. The search for a better shape ends at FEW_COLUMNS. */
enum { MOST_COLUMNS = 512, FEW_COLUMNS = 8 };

enum {
  LINE_BYTES = 128, /* a memory line; writes of whole lines are fastest */
  SECTOR_BYTES = 32 /* the smallest read from memory */
};

typedef struct im2col_call {
  const char *where;
  uint32_t rank;
  crk_dtype_t dtype;
  const crk_layout_t *layout;
  crk_const_view_t src;
  crk_view_t dst;
  size_t h_k, w_k, stride, padding, dilation;
} im2col_call_t;

/* The least n for which n * bytes is a multiple of `unit`, a power of 2. */
static uint64_t whole_units(uint64_t bytes, uint64_t unit) {
  while (unit > 1 && bytes % 2 == 0) {
    bytes /= 2;
    unit /= 2;
  }
  return unit;
}

/* A tile: the windows of `c` channels at `h` x `w` positions, and the part of the image that they cover. In shared
 * memory the rows of that part are `pitch` elements apart, an odd number, so that they lie in different banks. */
typedef struct tile {
  uint64_t c, h, w;
  uint64_t image_h, image_w, pitch;
} tile_t;

/* Gives a tile of `c` channels and `w` columns the most rows that fit. Shared memory holds `elements` elements, and the
 * tile may have `most` elements of the matrix. Returns false if not even one row fits into shared memory. `spans` are
 * the window's height and width with the gaps of its dilation. */
static bool fill_tile(tile_t *tile, const crk_im2col_t *s, const uint64_t spans[2], uint64_t elements, uint64_t most) {
  tile->image_w = (tile->w - 1) * s->stride + spans[1];
  tile->pitch = tile->image_w | 1;
  if (tile->pitch > elements || tile->c * tile->pitch > elements || elements / (tile->c * tile->pitch) < spans[0]) {
    return false;
  }
  const uint64_t rows = (elements / (tile->c * tile->pitch) - spans[0]) / s->stride + 1;
  const uint64_t wanted = crk_priv_least(s->h_out, most / (tile->c * s->window * tile->w));
  tile->h = wanted == 0 ? 1 : crk_priv_least(rows, wanted);
  tile->image_h = (tile->h - 1) * s->stride + spans[0];
  return true;
}

/* Whether tile `a` loads fewer bytes per window than `b`. A row that begins inside a sector loads one sector more. */
static bool loads_less(const tile_t *a, const tile_t *b, uint64_t bytes) {
  const uint64_t of_a = a->image_h * (a->image_w * bytes + SECTOR_BYTES);
  const uint64_t of_b = b->image_h * (b->image_w * bytes + SECTOR_BYTES);
  return of_a * b->h * b->w < of_b * a->h * a->w;
}

/* Chooses a tile of at most `most` elements of the matrix. It first chooses the channels: enough for RUN_BYTES of a
 * matrix row, rounded down to whole memory lines, or else to whole stores of 16 bytes. It then chooses the width and
 * height that load the fewest bytes. If no shape fits, it tries half the channels. Returns false if nothing fits. */
static bool plan_im2col_tile(tile_t *tile, const crk_im2col_t *s, const uint64_t spans[2], uint32_t bytes,
                             uint64_t most) {
  const uint64_t elements = CRK_IM2COL_BYTES / bytes, window = s->window;
  const uint64_t lines = whole_units(window * bytes, LINE_BYTES), stores = whole_units(window * bytes, 16);
  const uint64_t greatest = crk_priv_least(s->c, CRK_IM2COL_RUN / window);
  const uint64_t wanted = (RUN_BYTES - 1) / (window * bytes) + 1;
  uint64_t c = crk_priv_least(greatest, wanted < stores ? stores : wanted);
  for (;;) {
    const uint64_t unit = c == s->c ? 1 : c >= lines ? lines : c >= stores ? stores : 1;
    bool found = false;
    for (uint64_t parts = (s->w_out + MOST_COLUMNS - 1) / MOST_COLUMNS;; parts *= 2) {
      tile_t tried = {.c = c - c % unit, .w = (s->w_out + parts - 1) / parts};
      if (fill_tile(&tried, s, spans, elements, most) && (!found || loads_less(&tried, tile, bytes))) {
        *tile = tried;
        found = true;
      }
      if (tried.w == 1 || (found && tried.w <= FEW_COLUMNS)) {
        break;
      }
    }
    if (found || c == 1) {
      return found;
    }
    c = (c + 1) / 2;
  }
}

static crk_status_t launch_im2col_tiles(crk_device_t self, crk_im2col_t *s, const tile_t *tile, uint64_t batch,
                                        uint64_t h_k, uint64_t w_k, uint32_t bytes, const void *src, void *dst) {
  const uint32_t vector = 16 / bytes;
  const uint64_t run = tile->c * s->window;
  const bool whole = run % vector == 0 && s->c * s->window % vector == 0 && (uintptr_t)dst % 16 == 0;
  s->vector = whole ? vector : 1;
  s->tile_c = (uint32_t)tile->c;
  s->tile_h = (uint32_t)tile->h;
  s->pitch = (uint32_t)tile->pitch;
  const uint64_t line_windows = whole_units(run * bytes, LINE_BYTES);
  const uint32_t threads = CRK_IM2COL_WAVES * self->context->info.wave_size;
  uint64_t groups = threads / crk_priv_least(run / s->vector, threads);
  if (tile->c == s->c && groups > line_windows && groups <= tile->w) {
    groups -= groups % line_windows; /* neighbouring windows together write whole memory lines */
  }
  const uint64_t group_w = crk_priv_least(groups, tile->w);
  s->group_h = (uint32_t)(groups / group_w);
  crk_priv_divisor_init(&s->group_w, group_w, false);
  const uint64_t c_tiles = (s->c - 1) / tile->c + 1, w_tiles = (s->w_out - 1) / tile->w + 1;
  const uint64_t h_tiles = (s->h_out - 1) / tile->h + 1;
  crk_priv_divisor_init(&s->w_k, w_k, false);
  crk_priv_divisor_init(&s->h_k, h_k, false);
  crk_priv_divisor_init(&s->c_tiles, c_tiles, true);
  crk_priv_divisor_init(&s->w_tiles, w_tiles, true);
  crk_priv_divisor_init(&s->h_tiles, h_tiles, true);
  crk_priv_divisor_init(&s->tile_w, tile->w, false);
  crk_priv_divisor_init(&s->run, run / s->vector, false);
  crk_priv_divisor_init(&s->image_w, tile->image_w, false);
  crk_priv_divisor_init(&s->image_h, tile->image_h, false);
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_IM2COL_TILE + crk_priv_width_index(bytes), CRK_MODULE_CONV, &function,
                         "im2col_%s_tile", crk_priv_width_name(bytes)));
  const void *args[] = {s, &src, &dst};
  return crk_priv_launch_all_blocks(self, function, c_tiles * w_tiles * h_tiles * batch, threads, 0, &s->first_block,
                                    args);
}

static crk_status_t launch_im2col_elements(crk_device_t self, crk_im2col_t *s, uint64_t h_k, uint64_t w_k,
                                           uint32_t bytes, const void *src, void *dst) {
  const bool wide = s->numel > INT32_MAX;
  s->wide = wide;
  crk_priv_divisor_init(&s->w_k, w_k, wide);
  crk_priv_divisor_init(&s->h_k, h_k, wide);
  crk_priv_divisor_init(&s->channels, s->c, wide);
  crk_priv_divisor_init(&s->columns, s->w_out, wide);
  crk_priv_divisor_init(&s->rows, s->h_out, wide);
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_IM2COL + crk_priv_width_index(bytes), CRK_MODULE_CONV, &function,
                         "im2col_%s_direct", crk_priv_width_name(bytes)));
  const void *args[4] = {s, &src, &dst};
  return crk_priv_launch_threads(self, function, s->numel, args, 3);
}

crk_status_t crk_priv_im2col(crk_device_t self, crk_im2col_t *s, uint64_t batch, uint64_t h_k, uint64_t w_k,
                             uint32_t bytes, const void *src, void *dst) {
  const uint64_t window = h_k * w_k;
  s->numel = batch * s->h_out * s->w_out * s->c * window;
  s->window = window <= CRK_IM2COL_RUN ? (uint32_t)window : 0;
  const uint64_t spans[2] = {(h_k - 1) * s->dilation + 1, (w_k - 1) * s->dilation + 1};
  tile_t tile = {.c = 0};
  const uint64_t share = s->numel / TILES_PER_UNIT / crk_priv_units(self);
  const uint64_t enough = share < LEAST_TILE_ELEMENTS ? LEAST_TILE_ELEMENTS : share;
  const uint64_t most = bytes == 4 ? crk_priv_least(enough, MOST_TILE_WORDS) : enough;
  if (s->window != 0 && plan_im2col_tile(&tile, s, spans, bytes, most)) {
    return launch_im2col_tiles(self, s, &tile, batch, h_k, w_k, bytes, src, dst);
  }
  return launch_im2col_elements(self, s, h_k, w_k, bytes, src, dst);
}

static crk_status_t im2col(crk_device_t self, const im2col_call_t *call) {
  const char *where = call->where;
  CRK_TRY(crk_priv_check_dtype(where, "dtype", call->dtype));
  const crk_layout_t *layout = call->layout;
  crk_extent_t extent;
  CRK_TRY(crk_priv_check_rank(where, "layout", layout, call->rank, &extent));
  const bool flat = call->rank == 3;
  const uint32_t last = call->rank - 1;
  const crk_window_t across = {where,
                               flat ? "layout.dims[2]" : "layout.dims[3]",
                               flat ? "k" : "w_k",
                               layout->dims[last],
                               call->w_k,
                               call->stride,
                               call->padding,
                               call->dilation};
  const crk_window_t down = {where,     "layout.dims[2]", "h_k",         layout->dims[2],
                             call->h_k, call->stride,     call->padding, call->dilation};
  size_t h_out = 1, w_out;
  if (!flat) {
    CRK_TRY(crk_priv_window_count(&down, &h_out));
  }
  CRK_TRY(crk_priv_window_count(&across, &w_out));
  const size_t batch = layout->dims[0], c = layout->dims[1], dims[] = {batch, h_out, w_out, c, call->h_k, call->w_k};
  size_t numel;
  CRK_TRY(crk_priv_dst_numel(where, dims, 6, &numel));
  if (numel == 0) {
    return CRK_OK;
  }
  const uint32_t bytes = (uint32_t)crk_dtype_size(call->dtype);
  const crk_tensor_t src = {"layout", "src", layout, call->src, bytes};
  const void *first;
  CRK_TRY(crk_priv_check_dst(where, call->dst, numel, bytes));
  CRK_TRY(crk_priv_check_source(where, &src, &extent, call->dst.ptr, &first));
  CRK_TRY(crk_priv_check_dst_apart(where, call->dst, numel, &src, &extent, first));

  crk_im2col_t s = {
      .h_in = flat ? 1 : layout->dims[2],
      .w_in = layout->dims[last],
      .h_out = h_out,
      .w_out = w_out,
      .c = c,
      .stride = call->stride,
      .h_padding = flat ? 0 : call->padding,
      .w_padding = call->padding,
      .dilation = call->dilation,
  };
  crk_priv_image_strides(layout, s.src_strides);
  return crk_priv_im2col(self, &s, batch, call->h_k, call->w_k, bytes, first, call->dst.ptr);
}

crk_status_t crk_im2col1d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_const_view_t src,
                          crk_view_t dst, size_t k, size_t stride, size_t padding, size_t dilation) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_im2col1d");
  const im2col_call_t call = {"crk_im2col1d", 3, dtype, layout, src, dst, 1, k, stride, padding, dilation};
  return im2col(self, &call);
}

crk_status_t crk_im2col(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_const_view_t src,
                        crk_view_t dst, size_t h_k, size_t w_k, size_t stride, size_t padding, size_t dilation) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_im2col");
  const im2col_call_t call = {"crk_im2col", 4, dtype, layout, src, dst, h_k, w_k, stride, padding, dilation};
  return im2col(self, &call);
}

crk_status_t crk_col2im1d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout, crk_const_view_t src,
                          crk_view_t dst, size_t stride) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_col2im1d");
  CRK_TRY(crk_priv_check_dtype("crk_col2im1d", "dtype", dtype));
  crk_extent_t extent;
  CRK_TRY(crk_priv_check_rank("crk_col2im1d", "layout", layout, 4, &extent));
  const crk_window_t window = {
      "crk_col2im1d", "layout.dims[1]", "layout.dims[3]", layout->dims[1], layout->dims[3], stride, 0, 1};
  size_t l_out, numel;
  CRK_TRY(crk_priv_window_reach(&window, 0, &l_out));
  const size_t c = layout->dims[2], dims[] = {layout->dims[0], c, l_out};
  CRK_TRY(crk_priv_dst_numel("crk_col2im1d", dims, 3, &numel));
  if (numel == 0) {
    return CRK_OK;
  }
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype);
  const crk_tensor_t source = {"layout", "src", layout, src, bytes};
  const void *first;
  CRK_TRY(crk_priv_check_dst("crk_col2im1d", dst, numel, bytes));
  CRK_TRY(crk_priv_check_source("crk_col2im1d", &source, &extent, dst.ptr, &first));
  CRK_TRY(crk_priv_check_dst_apart("crk_col2im1d", dst, numel, &source, &extent, first));
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_COL2IM1D + (uint32_t)dtype, CRK_MODULE_CONV, &function, "col2im1d_%s_direct",
                         crk_dtype_name(dtype)));
  const bool wide = numel > INT32_MAX || stride > INT32_MAX;
  crk_col2im_t shape = {.numel = numel, .l_in = layout->dims[1], .k = layout->dims[3], .wide = wide};
  crk_priv_image_strides(layout, shape.src_strides);
  crk_priv_divisor_init(&shape.l_out, l_out, wide);
  crk_priv_divisor_init(&shape.channels, c, wide);
  crk_priv_divisor_init(&shape.by_stride, stride, wide);
  const void *args[4] = {&shape, &first, &dst.ptr};
  return crk_priv_launch_threads(self, function, numel, args, 3);
}
