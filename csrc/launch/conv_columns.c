/* Convolutions by columns: the windows are written as the rows of matrices, and the kernel is multiplied by them. For
 * f32 and f64 where conv_cores.c has no kernels. */
#include "launch/convolution.h"

/* The most bytes of windows in memory at a time: enough work to keep any GPU busy. */
enum { MOST_BYTES = 256 << 20 };

bool crk_priv_convolves_by_columns(const crk_convolution_t *convolution) {
  const crk_conv_t *s = &convolution->shape;
  const bool is_float = convolution->dtype == CRK_DTYPE_F32 || convolution->dtype == CRK_DTYPE_F64;
  return is_float && !convolution->transposed && s->h_in != 0 && s->w_in != 0 && s->c_in <= INT32_MAX &&
         s->c_out <= INT32_MAX && s->c_in * s->c_out >= CRK_CONV_LEAST_CHANNELS &&
         s->h_k * s->w_k <= INT32_MAX / s->c_in && s->w_out <= INT32_MAX / s->c_in / (s->h_k * s->w_k);
}

/* How the windows are cut: whole images, or the images of some groups, or rows of windows of one image of a group. */
typedef struct pieces {
  uint64_t images, groups, rows; /* of a piece; of images and groups one is 1 */
  uint64_t taps; /* elements of a window */
  uint64_t windows_bytes, product_bytes, kernel_bytes; /* of scratch memory; 0 for what is not needed */
} pieces_t;

static pieces_t cut(const crk_convolution_t *convolution, uint64_t bytes) {
  const crk_conv_t *s = &convolution->shape;
  const uint64_t groups = convolution->groups;
  pieces_t p = {.images = 1, .groups = 1, .taps = s->c_in * s->h_k * s->w_k};
  const uint64_t row = s->w_out * p.taps * bytes, fitting = MOST_BYTES / row == 0 ? 1 : MOST_BYTES / row;
  p.rows = crk_priv_least(s->h_out, fitting);
  if (p.rows == s->h_out && groups == 1) {
    p.images = crk_priv_least(convolution->batch, fitting / s->h_out);
  } else if (p.rows == s->h_out) {
    p.groups = crk_priv_least(groups, fitting / s->h_out);
  }
  p.windows_bytes = p.images * p.groups * p.rows * row;
  p.product_bytes = p.rows < s->h_out ? s->c_out * p.rows * s->w_out * bytes : 0;
  p.kernel_bytes = convolution->kernel_is_contiguous ? 0 : groups * s->c_out * p.taps * bytes;
  return p;
}

/* Copies the kernel to `dst`, contiguous. */
static crk_status_t pack_kernel(crk_device_t self, const crk_convolution_t *convolution, crk_view_t dst) {
  const crk_conv_t *s = &convolution->shape;
  crk_layout_t layout = {.rank = 4, .dims = {convolution->groups * s->c_out, s->c_in, s->h_k, s->w_k}};
  for (int i = 0; i < 4; i++) {
    layout.strides[i] = s->kernel_strides[i];
  }
  return crk_copy_strided(self, convolution->dtype, &layout, (crk_const_view_t){convolution->kernel, SIZE_MAX}, dst, 0);
}

/* Computes a piece: the outputs from that image, that group and that row on. `kernel` is contiguous. */
static crk_status_t compute_piece(crk_device_t self, const crk_convolution_t *convolution, const pieces_t *p,
                                  const char *kernel, char *scratch, uint64_t image, uint64_t group, uint64_t row) {
  const crk_conv_t *s = &convolution->shape;
  const uint32_t bytes = (uint32_t)crk_dtype_size(convolution->dtype);
  const bool has_groups = convolution->groups > 1;
  const uint64_t count = has_groups ? crk_priv_least(p->groups, convolution->groups - group)
                                    : crk_priv_least(p->images, convolution->batch - image);
  const uint64_t rows = crk_priv_least(p->rows, s->h_out - row), windows = rows * s->w_out;
  const uint64_t of_image = s->h_out * s->w_out;
  crk_im2col_t call = {.h_in = s->h_in,
                       .w_in = s->w_in,
                       .h_out = rows,
                       .w_out = s->w_out,
                       .c = s->c_in,
                       .stride = s->stride,
                       .h_padding = s->h_padding - row * s->stride,
                       .w_padding = s->w_padding,
                       .dilation = s->dilation,
                       .src_strides = {has_groups ? convolution->src_group : s->src_strides[0], s->src_strides[1],
                                       s->src_strides[2], s->src_strides[3]}};
  const uint64_t first = image * s->src_strides[0] + group * convolution->src_group;
  const char *src = (const char *)convolution->src + first * bytes;
  CRK_TRY(crk_priv_im2col(self, &call, count, s->h_k, s->w_k, bytes, src, scratch));

  const uint64_t of_group = s->c_out * p->taps;
  const crk_layout_t weights = {
      .rank = 3, .dims = {count, s->c_out, p->taps}, .strides = {has_groups ? of_group : 0, p->taps, 1}};
  const crk_layout_t columns = {
      .rank = 3, .dims = {count, p->taps, windows}, .strides = {windows * p->taps, 1, p->taps}};
  const crk_const_view_t kernel_view = {kernel + group * of_group * bytes, SIZE_MAX};
  const crk_const_view_t windows_view = {scratch, p->windows_bytes};
  const uint64_t to = (image * convolution->groups + group) * s->c_out * of_image;
  char *dst = (char *)convolution->dst.ptr + to * bytes;
  crk_view_t product = {dst, count * s->c_out * of_image * bytes};
  if (p->product_bytes != 0) {
    product = (crk_view_t){scratch + p->windows_bytes, p->product_bytes};
  }
  CRK_TRY(crk_matmul(self, convolution->dtype, &weights, kernel_view, &columns, windows_view, product));
  if (p->product_bytes == 0) {
    return CRK_OK;
  }
  const crk_view_t whole = {dst, s->c_out * of_image * bytes};
  return crk_copy2d(self, convolution->dtype, s->c_out, windows, crk_const(product), windows, 0, whole, of_image,
                    row * s->w_out);
}

crk_status_t crk_priv_convolve_by_columns(crk_device_t self, const crk_convolution_t *convolution) {
  const pieces_t p = cut(convolution, crk_dtype_size(convolution->dtype));
  void *given;
  CRK_TRY(crk_alloc(self, p.windows_bytes + p.product_bytes + p.kernel_bytes, &given));
  char *scratch = given;
  const void *kernel = convolution->kernel;
  crk_status_t status = CRK_OK;
  if (p.kernel_bytes != 0) {
    const crk_view_t packed = {scratch + p.windows_bytes + p.product_bytes, p.kernel_bytes};
    status = pack_kernel(self, convolution, packed);
    kernel = packed.ptr;
  }
  for (uint64_t image = 0; image < convolution->batch && status == CRK_OK; image += p.images) {
    for (uint64_t group = 0; group < convolution->groups && status == CRK_OK; group += p.groups) {
      for (uint64_t row = 0; row < convolution->shape.h_out && status == CRK_OK; row += p.rows) {
        status = compute_piece(self, convolution, &p, kernel, scratch, image, group, row);
      }
    }
  }
  return crk_priv_free_after(self, status, given);
}
