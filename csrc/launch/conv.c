/* Launchers of convolutions. conv_cores.c and conv_columns.c compute most as matrix products; this file those with
 * windows of one element, and the rest by kernels/conv/convolution.h and grouped.h. */
#include "call/launch_threads.h"
#include "launch/convolution.h"

crk_status_t crk_conv_size(size_t size, size_t window, size_t stride, size_t padding, size_t dilation, size_t *result) {
  CRK_REFUSE_IF(result == NULL, "crk_conv_size: result is NULL");
  const crk_window_t w = {"crk_conv_size", "size", "window", size, window, stride, padding, dilation};
  return crk_priv_window_count(&w, result);
}

crk_status_t crk_conv_transpose_size(size_t size, size_t window, size_t stride, size_t padding, size_t output_padding,
                                     size_t dilation, size_t *result) {
  CRK_REFUSE_IF(result == NULL, "crk_conv_transpose_size: result is NULL");
  const crk_window_t w = {"crk_conv_transpose_size", "size", "window", size, window, stride, padding, dilation};
  return crk_priv_window_reach(&w, output_padding, result);
}

typedef struct conv_call {
  const char *where;
  uint32_t rank;
  bool transposed;
  crk_dtype_t dtype;
  const crk_layout_t *src_layout;
  crk_const_view_t src;
  const crk_layout_t *kernel_layout;
  crk_const_view_t kernel;
  crk_view_t dst;
  size_t stride, padding, output_padding, dilation, groups;
} conv_call_t;

/* The size of dim 2 or 3 of dst. */
static crk_status_t output_size(const conv_call_t *call, uint32_t dim, size_t *size) {
  static const char *const sizes[] = {"src_layout.dims[2]", "src_layout.dims[3]"};
  static const char *const windows[] = {"kernel_layout.dims[2]", "kernel_layout.dims[3]"};
  const crk_window_t w = {
      call->where,  sizes[dim - 2], windows[dim - 2], call->src_layout->dims[dim], call->kernel_layout->dims[dim],
      call->stride, call->padding,  call->dilation};
  return call->transposed ? crk_priv_window_reach(&w, call->output_padding, size) : crk_priv_window_count(&w, size);
}

/* Launches the kernel that computes each output by itself. Without groups. */
static crk_status_t launch_directly(crk_device_t self, const crk_convolution_t *convolution) {
  const crk_conv_t *shape = &convolution->shape;
  const bool transposed = convolution->transposed;
  crk_function_t function;
  const uint32_t slot = transposed ? CRK_SLOT_CONV_TRANSPOSE : CRK_SLOT_CONV;
  CRK_TRY(CRK_KERNEL_GET(self, slot + (uint32_t)convolution->dtype, CRK_MODULE_CONV, &function,
                         transposed ? "conv_transpose_%s_direct" : "conv_%s_direct",
                         crk_dtype_name(convolution->dtype)));
  crk_conv_launch_t launch = {.shape = *shape};
  const uint64_t pieces = (shape->h_out * shape->w_out - 1) / CRK_LAUNCHED_THREADS + 1;
  const uint64_t channels = CRK_CONV_CHANNELS(transposed), bundles = (shape->c_out - 1) / channels + 1;
  crk_priv_divisor_init(&launch.pieces, pieces, true);
  crk_priv_divisor_init(&launch.bundles, bundles, true);
  crk_priv_divisor_init(&launch.w_out, shape->w_out, true);
  crk_priv_divisor_init(&launch.by_stride, shape->stride, true);
  const void *args[] = {&launch, &convolution->src, &convolution->kernel, &convolution->dst.ptr};
  return crk_priv_launch_all_blocks(self, function, pieces * bundles * convolution->batch, CRK_LAUNCHED_THREADS, 0,
                                    &launch.first_block, args);
}

/* ---- groups */

/* The square windows of depthwise convolutions with kernels of their own. */
static const struct {
  uint32_t window, stride;
} depthwise[] = {
#define XX(window, stride) {window, stride},
    CRK_DEPTHWISE(XX)
#undef XX
};
enum { DEPTHWISE = sizeof depthwise / sizeof *depthwise };
_Static_assert((int)DEPTHWISE *(int)CRK_DTYPE_COUNT == CRK_SLOTS_OF(DEPTHWISE), "as the list of slots counts");

/* The runs of a channel, each a thread, and the blocks of all of them. */
static uint64_t count_runs(const crk_conv_t *s) { return crk_priv_ceil_div(s->h_out, CRK_DEPTHWISE_ROWS) * s->w_out; }
static uint64_t count_blocks(const crk_convolution_t *convolution) {
  const crk_conv_t *s = &convolution->shape;
  return crk_priv_ceil_div(count_runs(s), CRK_DEPTHWISE_THREADS) * s->c_out * convolution->groups * convolution->batch;
}

/* The kernel for a depthwise convolution; DEPTHWISE if it has none. */
static uint32_t find_depthwise(const crk_convolution_t *convolution) {
  const crk_conv_t *s = &convolution->shape;
  const uint64_t limit = INT32_MAX / 2, bytes = crk_dtype_size(convolution->dtype);
  const bool has_kernels = convolution->dtype == CRK_DTYPE_F16 || convolution->dtype == CRK_DTYPE_BF16 ||
                           convolution->dtype == CRK_DTYPE_F32;
  if (!has_kernels || convolution->transposed || s->c_in != 1 || s->dilation != 1 || s->h_padding > limit / 2 ||
      s->w_padding > limit / 2 || s->h_in + 2 * s->h_padding > limit || s->w_in + 2 * s->w_padding > limit ||
      s->h_out > limit || s->h_out + CRK_DEPTHWISE_ROWS > limit / s->w_out || s->h_in == 0 || s->w_in == 0 ||
      s->src_strides[2] > limit / bytes / s->h_in || s->src_strides[3] > limit / bytes / s->w_in ||
      s->c_out * convolution->groups > limit || count_blocks(convolution) > limit) {
    return DEPTHWISE;
  }
  uint32_t i = 0;
  while (i < DEPTHWISE &&
         !(s->h_k == depthwise[i].window && s->w_k == depthwise[i].window && s->stride == depthwise[i].stride)) {
    i++;
  }
  return i;
}

static crk_status_t launch_depthwise(crk_device_t self, const crk_convolution_t *convolution, uint32_t kind) {
  const crk_conv_t *s = &convolution->shape;
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_DEPTHWISE + kind * CRK_DTYPE_COUNT + (uint32_t)convolution->dtype,
                         CRK_MODULE_CONV, &function, "conv_%s_depthwise_%ux%u_stride%u",
                         crk_dtype_name(convolution->dtype), (unsigned)depthwise[kind].window,
                         (unsigned)depthwise[kind].window, (unsigned)depthwise[kind].stride));
  const uint64_t runs = count_runs(s), bytes = crk_dtype_size(convolution->dtype);
  crk_depthwise_t call = {.image_stride = s->src_strides[0],
                          .group_stride = s->src_strides[1],
                          .channel_stride = s->kernel_strides[0],
                          .tap_row_stride = s->kernel_strides[2],
                          .tap_stride = s->kernel_strides[3],
                          .threads = (uint32_t)runs,
                          .row_bytes = (uint32_t)(s->src_strides[2] * bytes),
                          .pixel_bytes = (uint32_t)(s->src_strides[3] * bytes),
                          .h_in = (uint32_t)s->h_in,
                          .w_in = (uint32_t)s->w_in,
                          .h_out = (uint32_t)s->h_out,
                          .h_padding = (uint32_t)s->h_padding,
                          .w_padding = (uint32_t)s->w_padding};
  crk_priv_divisor_init(&call.pieces, crk_priv_ceil_div(runs, CRK_DEPTHWISE_THREADS), false);
  crk_priv_divisor_init(&call.channels, convolution->groups * s->c_out, false);
  crk_priv_divisor_init(&call.c_out, s->c_out, false);
  crk_priv_divisor_init(&call.w_out, s->w_out, false);
  const void *args[] = {&call, &convolution->src, &convolution->kernel, &convolution->dst.ptr};
  return crk_priv_launch_all_blocks(self, function, count_blocks(convolution), CRK_DEPTHWISE_THREADS, 0,
                                    &call.first_block, args);
}

/* Launches a kernel that computes each output of groups by itself. */
static crk_status_t launch_groups(crk_device_t self, const crk_convolution_t *convolution) {
  const uint32_t kind = find_depthwise(convolution);
  if (kind != DEPTHWISE) {
    return launch_depthwise(self, convolution, kind);
  }
  const crk_conv_t *s = &convolution->shape;
  const bool transposed = convolution->transposed;
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_CONV_GROUPS + transposed * CRK_DTYPE_COUNT + (uint32_t)convolution->dtype,
                         CRK_MODULE_CONV, &function, transposed ? "conv_transpose_%s_groups" : "conv_%s_groups",
                         crk_dtype_name(convolution->dtype)));
  crk_conv_groups_t call = {.shape = *s,
                            .numel = crk_priv_convolution_numel(convolution),
                            .src_group = convolution->src_group,
                            .kernel_group = convolution->kernel_group};
  call.wide = call.numel > INT32_MAX;
  crk_priv_divisor_init(&call.w_out, s->w_out, call.wide);
  crk_priv_divisor_init(&call.h_out, s->h_out, call.wide);
  crk_priv_divisor_init(&call.c_out, s->c_out, call.wide);
  crk_priv_divisor_init(&call.groups, convolution->groups, call.wide);
  crk_priv_divisor_init(&call.by_stride, s->stride, true);
  const void *args[] = {&call, &convolution->src, &convolution->kernel, &convolution->dst.ptr};
  return crk_priv_launch_all_blocks(self, function, crk_priv_ceil_div(call.numel, CRK_LAUNCHED_THREADS),
                                    CRK_LAUNCHED_THREADS, 0, &call.first_block, args);
}

/* ---- 1 x 1 windows */

/* A product of the kernel with the images as they are, (b, groups, c_in, h * w). False if the strides allow none that
 * is fast: rows of pixels or of channels that are neighbours and begin at multiples of 16 bytes. */
static bool describe_pointwise(const crk_convolution_t *convolution, crk_layout_t *kernel, crk_layout_t *images) {
  const crk_conv_t *s = &convolution->shape;
  const uint64_t piece = CRK_CONV_PIECE(crk_dtype_size(convolution->dtype));
  const uint64_t pixels = s->h_in * s->w_in, pixel_stride = s->src_strides[3], channel_stride = s->src_strides[1];
  const bool follow = s->h_in == 1 || s->src_strides[2] == s->w_in * pixel_stride;
  const bool across = pixel_stride == 1 && channel_stride % piece == 0;
  const bool along = channel_stride == 1 && pixel_stride % piece == 0;
  const bool covers = s->h_out == s->h_in && s->w_out == s->w_in; /* no padding of the output */
  if (s->h_k != 1 || s->w_k != 1 || s->stride != 1 || s->h_padding != 0 || s->w_padding != 0 || !covers || !follow ||
      (!across && !along) || s->src_strides[0] % piece != 0 ||
      (convolution->groups > 1 && convolution->src_group % piece != 0) || (uintptr_t)convolution->src % 16 != 0 ||
      pixels % piece != 0) {
    return false;
  }
  const uint64_t batch = convolution->batch, groups = convolution->groups;
  *kernel = (crk_layout_t){.rank = 4,
                           .dims = {batch, groups, s->c_out, s->c_in},
                           .strides = {0, convolution->kernel_group, s->kernel_strides[0], s->kernel_strides[1]}};
  *images = (crk_layout_t){.rank = 4,
                           .dims = {batch, groups, s->c_in, pixels},
                           .strides = {s->src_strides[0], convolution->src_group, channel_stride, pixel_stride}};
  return true;
}

/* ---- any convolution */

/* Checks the layouts, and describes the shape. */
static crk_status_t describe_shape(const conv_call_t *call, crk_conv_t *shape, crk_extent_t *src_extent,
                                   crk_extent_t *kernel_extent) {
  const char *where = call->where;
  const crk_layout_t *src_layout = call->src_layout, *kernel_layout = call->kernel_layout;
  CRK_TRY(crk_priv_check_rank(where, "src_layout", src_layout, call->rank, src_extent));
  CRK_TRY(crk_priv_check_rank(where, "kernel_layout", kernel_layout, call->rank, kernel_extent));
  const bool transposed = call->transposed;
  const uint32_t in = transposed ? 0 : 1, out = 1 - in, last = call->rank - 1;
  const size_t channels = src_layout->dims[1], groups = call->groups;
  CRK_REFUSE_IF(groups == 0 || channels % groups != 0, "%s: groups is %zu; it must divide src_layout.dims[1], %zu",
                where, groups, channels);
  CRK_REFUSE_IF(!transposed && kernel_layout->dims[0] % groups != 0,
                "%s: groups is %zu; it must divide kernel_layout.dims[0], %zu", where, groups, kernel_layout->dims[0]);
  CRK_REFUSE_IF(kernel_layout->dims[in] != (transposed ? channels : channels / groups),
                "%s: kernel_layout.dims[%u] is %zu, but src_layout.dims[1] is %zu%s", where, (unsigned)in,
                kernel_layout->dims[in], channels,
                transposed || groups == 1 ? "; they must be equal" : ", which is not `groups` times as many");
  const bool flat = call->rank == 3;
  size_t h_out = 1, w_out;
  CRK_TRY(output_size(call, 2, flat ? &w_out : &h_out));
  if (!flat) {
    CRK_TRY(output_size(call, 3, &w_out));
  }
  *shape = (crk_conv_t){.c_in = channels / groups,
                        .h_in = flat ? 1 : src_layout->dims[2],
                        .w_in = src_layout->dims[last],
                        .c_out = transposed ? kernel_layout->dims[out] : kernel_layout->dims[out] / groups,
                        .h_out = h_out,
                        .w_out = w_out,
                        .h_k = flat ? 1 : kernel_layout->dims[2],
                        .w_k = kernel_layout->dims[last],
                        .stride = call->stride,
                        .h_padding = flat ? 0 : call->padding,
                        .w_padding = call->padding,
                        .dilation = call->dilation};
  crk_priv_image_strides(src_layout, shape->src_strides);
  crk_priv_image_strides(kernel_layout, shape->kernel_strides);
  if (transposed) {
    shape->kernel_strides[0] = kernel_layout->strides[1];
    shape->kernel_strides[1] = kernel_layout->strides[0];
  }
  return CRK_OK;
}

/* Checks the views, and finds the first elements of the sources. dst has `numel` elements. */
static crk_status_t check_views(const conv_call_t *call, size_t numel, const crk_extent_t *src_extent,
                                const crk_extent_t *kernel_extent, const void **first, const void **weights) {
  const char *where = call->where;
  const uint32_t bytes = (uint32_t)crk_dtype_size(call->dtype);
  const crk_tensor_t src = {"src_layout", "src", call->src_layout, call->src, bytes};
  const crk_tensor_t kernel = {"kernel_layout", "kernel", call->kernel_layout, call->kernel, bytes};
  CRK_TRY(crk_priv_check_dst(where, call->dst, numel, bytes));
  CRK_TRY(crk_priv_check_source(where, &src, src_extent, call->dst.ptr, first));
  CRK_TRY(crk_priv_check_source(where, &kernel, kernel_extent, call->dst.ptr, weights));
  CRK_TRY(crk_priv_check_dst_apart(where, call->dst, numel, &src, src_extent, *first));
  return crk_priv_check_dst_apart(where, call->dst, numel, &kernel, kernel_extent, *weights);
}

static crk_status_t convolve(crk_device_t self, const conv_call_t *call) {
  CRK_TRY(crk_priv_check_dtype(call->where, "dtype", call->dtype));
  crk_conv_t shape;
  crk_extent_t extent, kernel_extent;
  CRK_TRY(describe_shape(call, &shape, &extent, &kernel_extent));
  const size_t batch = call->src_layout->dims[0], groups = call->groups;
  const size_t dims[] = {batch, groups, shape.c_out, shape.h_out, shape.w_out};
  size_t numel;
  CRK_TRY(crk_priv_dst_numel(call->where, dims, 5, &numel));
  if (numel == 0) {
    return CRK_OK;
  }
  const void *first, *weights;
  CRK_TRY(check_views(call, numel, &extent, &kernel_extent, &first, &weights));
  const crk_convolution_t convolution = {
      .where = call->where,
      .dtype = call->dtype,
      .transposed = call->transposed,
      .batch = batch,
      .groups = groups,
      .src_group = shape.c_in * shape.src_strides[1],
      .kernel_group = call->transposed ? shape.c_in * shape.kernel_strides[1] : shape.c_out * shape.kernel_strides[0],
      .src = first,
      .kernel = weights,
      .kernel_is_contiguous = kernel_extent.is_contiguous,
      .dst = call->dst,
      .shape = shape};
  const bool by_products = crk_priv_convolves_by_products(self, &convolution);
  if (!by_products && !crk_priv_convolves_by_columns(&convolution)) {
    return groups == 1 ? launch_directly(self, &convolution) : launch_groups(self, &convolution);
  }
  crk_layout_t weights_layout, images_layout;
  if (describe_pointwise(&convolution, &weights_layout, &images_layout)) {
    const crk_const_view_t whole_weights = {weights, SIZE_MAX}, whole_images = {first, SIZE_MAX};
    return crk_matmul(self, call->dtype, &weights_layout, whole_weights, &images_layout, whole_images, call->dst);
  }
  return by_products ? crk_priv_convolve_by_products(self, &convolution)
                     : crk_priv_convolve_by_columns(self, &convolution);
}

crk_status_t crk_conv1d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *src_layout, crk_const_view_t src,
                        const crk_layout_t *kernel_layout, crk_const_view_t kernel, crk_view_t dst, size_t stride,
                        size_t padding, size_t dilation, size_t groups) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_conv1d");
  const conv_call_t call = {"crk_conv1d", 3,   false,  dtype,   src_layout, src,      kernel_layout,
                            kernel,       dst, stride, padding, 0,          dilation, groups};
  return convolve(self, &call);
}

crk_status_t crk_conv2d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *src_layout, crk_const_view_t src,
                        const crk_layout_t *kernel_layout, crk_const_view_t kernel, crk_view_t dst, size_t stride,
                        size_t padding, size_t dilation, size_t groups) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_conv2d");
  const conv_call_t call = {"crk_conv2d", 4,   false,  dtype,   src_layout, src,      kernel_layout,
                            kernel,       dst, stride, padding, 0,          dilation, groups};
  return convolve(self, &call);
}

crk_status_t crk_conv_transpose1d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *src_layout,
                                  crk_const_view_t src, const crk_layout_t *kernel_layout, crk_const_view_t kernel,
                                  crk_view_t dst, size_t stride, size_t padding, size_t output_padding, size_t dilation,
                                  size_t groups) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_conv_transpose1d");
  const conv_call_t call = {
      "crk_conv_transpose1d", 3,        true,  dtype, src_layout, src, kernel_layout, kernel, dst, stride, padding,
      output_padding,         dilation, groups};
  return convolve(self, &call);
}

crk_status_t crk_conv_transpose2d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *src_layout,
                                  crk_const_view_t src, const crk_layout_t *kernel_layout, crk_const_view_t kernel,
                                  crk_view_t dst, size_t stride, size_t padding, size_t output_padding, size_t dilation,
                                  size_t groups) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_conv_transpose2d");
  const conv_call_t call = {
      "crk_conv_transpose2d", 4,        true,  dtype, src_layout, src, kernel_layout, kernel, dst, stride, padding,
      output_padding,         dilation, groups};
  return convolve(self, &call);
}
