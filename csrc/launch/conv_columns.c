/* Convolutions by columns: the windows are written as the rows of matrices, and the kernel is multiplied by them. For
 * f32 and f64 where conv_cores.c has no kernels. */
#include "launch/convolution.h"

/* The most bytes of windows in memory at a time: enough work to keep any GPU busy. */
enum { MOST_BYTES = 256 << 20 };

bool crk_priv_convolves_by_columns(const crk_convolution_t *convolution) {
  const crk_conv_t *s = &convolution->shape;
  const uint64_t groups = convolution->groups;
  const bool is_float = convolution->dtype == CRK_DTYPE_F32 || convolution->dtype == CRK_DTYPE_F64;
  return is_float && !convolution->transposed && s->h_in != 0 && s->w_in != 0 && s->c_in <= INT32_MAX &&
         s->c_out <= INT32_MAX && s->c_in * s->c_out >= CRK_CONV_LEAST_CHANNELS && s->c_in <= INT32_MAX / groups &&
         s->h_k * s->w_k <= INT32_MAX / s->c_in / groups &&
         s->w_out <= INT32_MAX / s->c_in / groups / (s->h_k * s->w_k);
}

/* How the windows are cut: whole images, or rows of windows of one image. */
typedef struct pieces {
  uint64_t images, rows; /* of a piece */
  uint64_t taps; /* elements of a window, in the channels of a group */
  uint64_t windows_bytes, product_bytes, kernel_bytes; /* of scratch memory; 0 for what is not needed */
} pieces_t;

static pieces_t cut(const crk_convolution_t *convolution, uint64_t bytes) {
  const crk_conv_t *s = &convolution->shape;
  const uint64_t groups = convolution->groups;
  pieces_t p = {.taps = s->c_in * s->h_k * s->w_k};
  const uint64_t row = s->w_out * groups * p.taps * bytes, fitting = MOST_BYTES / row == 0 ? 1 : MOST_BYTES / row;
  p.rows = crk_priv_least(s->h_out, fitting);
  p.images = p.rows < s->h_out ? 1 : crk_priv_least(convolution->batch, fitting / s->h_out);
  p.windows_bytes = p.images * p.rows * row;
  p.product_bytes = p.rows < s->h_out ? groups * s->c_out * p.rows * s->w_out * bytes : 0;
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

/* Computes the outputs of `images` images from `image` on, in `rows` rows from `row` on. */
static crk_status_t compute_piece(crk_device_t self, const crk_convolution_t *convolution, const pieces_t *p,
                                  const void *kernel, char *scratch, uint64_t image, uint64_t row) {
  const crk_conv_t *s = &convolution->shape;
  const uint32_t bytes = (uint32_t)crk_dtype_size(convolution->dtype);
  const uint64_t images = crk_priv_least(p->images, convolution->batch - image);
  const uint64_t rows = crk_priv_least(p->rows, s->h_out - row), windows = rows * s->w_out;
  const uint64_t of_image = s->h_out * s->w_out, groups = convolution->groups, taps = groups * p->taps;
  const uint64_t channels = groups * s->c_out;
  crk_im2col_t call = {.h_in = s->h_in,
                       .w_in = s->w_in,
                       .h_out = rows,
                       .w_out = s->w_out,
                       .c = groups * s->c_in,
                       .stride = s->stride,
                       .h_padding = s->h_padding - row * s->stride,
                       .w_padding = s->w_padding,
                       .dilation = s->dilation};
  for (int i = 0; i < 4; i++) {
    call.src_strides[i] = s->src_strides[i];
  }
  const char *src = (const char *)convolution->src + image * s->src_strides[0] * bytes;
  CRK_TRY(crk_priv_im2col(self, &call, images, s->h_k, s->w_k, bytes, src, scratch));

  const crk_layout_t weights = {
      .rank = 4, .dims = {images, groups, s->c_out, p->taps}, .strides = {0, s->c_out * p->taps, p->taps, 1}};
  const crk_layout_t columns = {
      .rank = 4, .dims = {images, groups, p->taps, windows}, .strides = {windows * taps, p->taps, 1, taps}};
  const crk_const_view_t kernel_view = {kernel, SIZE_MAX}, windows_view = {scratch, p->windows_bytes};
  char *dst = (char *)convolution->dst.ptr + image * channels * of_image * bytes;
  crk_view_t product = {dst, images * channels * of_image * bytes};
  if (p->product_bytes != 0) {
    product = (crk_view_t){scratch + p->windows_bytes, p->product_bytes};
  }
  CRK_TRY(crk_matmul(self, convolution->dtype, &weights, kernel_view, &columns, windows_view, product));
  if (p->product_bytes == 0) {
    return CRK_OK;
  }
  const crk_view_t whole = {dst, channels * of_image * bytes};
  return crk_copy2d(self, convolution->dtype, channels, windows, crk_const(product), windows, 0, whole, of_image,
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
    for (uint64_t row = 0; row < convolution->shape.h_out && status == CRK_OK; row += p.rows) {
      status = compute_piece(self, convolution, &p, kernel, scratch, image, row);
    }
  }
  return crk_priv_free_after(self, status, given);
}
