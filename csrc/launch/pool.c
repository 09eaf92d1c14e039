/* Launchers of pools and upsampling (kernels/conv/pool.h). */
#include <math.h>

#include "launch/sliding.h"

CRK_OP_FROM_ROOT(crk_pool_op_from_root, crk_pool_op_t, roots, CRK_POOL_MAP)

/* A call. `images` is the kernel's argument that describes the images; each op adds its own numbers to it. */
typedef struct images_call {
  const char *where;
  crk_dtype_t dtype;
  const crk_layout_t *layout;
  crk_const_view_t src;
  crk_view_t dst;
  size_t h_out, w_out;
  const void *first; /* of src */
  size_t numel; /* of dst; 0: nothing to do */
  size_t last; /* the greatest offset in src */
  crk_images_t images;
} images_call_t;

static crk_status_t check_image_layout(const images_call_t *call, crk_extent_t *extent) {
  CRK_TRY(crk_priv_check_dtype(call->where, "dtype", call->dtype));
  return crk_priv_check_rank(call->where, "layout", call->layout, 4, extent);
}

static crk_status_t check_image_memory(images_call_t *call, const crk_extent_t *extent) {
  const crk_layout_t *layout = call->layout;
  const size_t dims[] = {layout->dims[0], layout->dims[1], call->h_out, call->w_out};
  CRK_TRY(crk_priv_dst_numel(call->where, dims, 4, &call->numel));
  if (call->numel == 0) {
    return CRK_OK;
  }
  const uint32_t bytes = (uint32_t)crk_dtype_size(call->dtype);
  const crk_tensor_t src = {"layout", "src", layout, call->src, bytes};
  CRK_TRY(crk_priv_check_dst(call->where, call->dst, call->numel, bytes));
  CRK_TRY(crk_priv_check_source(call->where, &src, extent, call->dst.ptr, &call->first));
  CRK_TRY(crk_priv_check_dst_apart(call->where, call->dst, call->numel, &src, extent, call->first));
  call->last = extent->last;
  call->images = (crk_images_t){.h_in = layout->dims[2], .w_in = layout->dims[3], .w_out = call->w_out};
  crk_priv_image_strides(layout, call->images.src_strides);
  return CRK_OK;
}

static crk_status_t launch_images(crk_device_t self, images_call_t *call, crk_function_t function, uint32_t vector) {
  crk_images_t *images = &call->images;
  const bool wide =
      call->numel > INT32_MAX || call->last > INT32_MAX || images->h_in > INT32_MAX || images->w_in > INT32_MAX;
  const size_t row_steps = call->w_out / vector;
  images->steps = call->numel / vector;
  images->wide = wide;
  images->vector = vector;
  crk_priv_divisor_init(&images->row_steps, row_steps, wide);
  crk_priv_divisor_init(&images->h_out, call->h_out, wide);
  crk_priv_divisor_init(&images->channels, call->layout->dims[1], wide);
  const void *args[4] = {images, &call->first, &call->dst.ptr};
  return crk_priv_launch_threads(self, function, images->steps, args, 3);
}

crk_status_t crk_pool2d(crk_device_t self, crk_pool_op_t op, crk_dtype_t dtype, const crk_layout_t *layout,
                        crk_const_view_t src, crk_view_t dst, size_t h_k, size_t w_k, size_t h_stride,
                        size_t w_stride) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_pool2d");
  CRK_REFUSE_IF((unsigned)op >= CRK_POOL_COUNT, "crk_pool2d: op %d is not a value of crk_pool_op_t", (int)op);
  images_call_t call = {.where = "crk_pool2d", .dtype = dtype, .layout = layout, .src = src, .dst = dst};
  crk_extent_t extent;
  CRK_TRY(check_image_layout(&call, &extent));
  CRK_REFUSE_IF(h_stride == 0, "crk_pool2d: h_stride is 0; it must be at least 1");
  CRK_REFUSE_IF(w_stride == 0, "crk_pool2d: w_stride is 0; it must be at least 1");
  const crk_window_t down = {"crk_pool2d", "layout.dims[2]", "h_k", layout->dims[2], h_k, h_stride, 0, 1};
  const crk_window_t across = {"crk_pool2d", "layout.dims[3]", "w_k", layout->dims[3], w_k, w_stride, 0, 1};
  CRK_TRY(crk_priv_window_count(&down, &call.h_out));
  CRK_TRY(crk_priv_window_count(&across, &call.w_out));
  CRK_TRY(check_image_memory(&call, &extent));
  if (call.numel == 0) {
    return CRK_OK;
  }
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_POOL2D + (uint32_t)op * CRK_DTYPE_COUNT + (uint32_t)dtype, CRK_MODULE_CONV,
                         &function, "%s_%s_rows", roots[op], crk_dtype_name(dtype)));
  const uint32_t pairs = 8 / (uint32_t)crk_dtype_size(dtype);
  const bool by_pairs = h_k == 2 && w_k == 2 && h_stride == 2 && w_stride == 2 && layout->strides[3] == 1 &&
                        call.w_out % pairs == 0 && (uintptr_t)dst.ptr % 8 == 0;
  call.images.h_k = h_k;
  call.images.w_k = w_k;
  call.images.h_stride = h_stride;
  call.images.w_stride = w_stride;
  call.images.pairs = by_pairs;
  return launch_images(self, &call, function, by_pairs ? pairs : 1);
}

/* Source elements per output element. */
static double plain_step(size_t in, size_t out) { return (double)in / (double)out; }

static crk_status_t check_upsampling(images_call_t *call) {
  crk_extent_t extent;
  CRK_TRY(check_image_layout(call, &extent));
  CRK_TRY(check_image_memory(call, &extent));
  for (uint32_t i = 2; i < 4 && call->numel != 0; i++) {
    CRK_REFUSE_IF(call->layout->dims[i] == 0, "%s: layout.dims[%u] is 0; it must be at least 1", call->where,
                  (unsigned)i);
  }
  return CRK_OK;
}

crk_status_t crk_upsample_nearest2d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout,
                                    crk_const_view_t src, crk_view_t dst, size_t h_out, size_t w_out) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_upsample_nearest2d");
  images_call_t call = {.where = "crk_upsample_nearest2d",
                        .dtype = dtype,
                        .layout = layout,
                        .src = src,
                        .dst = dst,
                        .h_out = h_out,
                        .w_out = w_out};
  CRK_TRY(check_upsampling(&call));
  if (call.numel == 0) {
    return CRK_OK;
  }
  const uint32_t bytes = (uint32_t)crk_dtype_size(dtype), vector = 16 / bytes;
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_UPSAMPLE_NEAREST2D + crk_priv_width_index(bytes), CRK_MODULE_CONV, &function,
                         "upsample_nearest2d_%s_rows", crk_priv_width_name(bytes)));
  call.images.h_step = plain_step(layout->dims[2], h_out);
  call.images.w_step = plain_step(layout->dims[3], w_out);
  call.images.pairs = w_out / 2 == layout->dims[3] && w_out % 2 == 0 && call.images.src_strides[3] == 1;
  return launch_images(self, &call, function, w_out % vector == 0 && (uintptr_t)dst.ptr % 16 == 0 ? vector : 1);
}

/* The step as in PyTorch. With align_corners the first and the last elements of source and output coincide. Otherwise a
 * factor other than 0 takes precedence over the quotient of the sizes. */
static double bilinear_step(size_t in, size_t out, bool align_corners, double factor) {
  if (align_corners) {
    return out > 1 ? plain_step(in - 1, out - 1) : 0.0;
  }
  return factor != 0.0 ? 1.0 / factor : plain_step(in, out);
}

crk_status_t crk_upsample_bilinear2d(crk_device_t self, crk_dtype_t dtype, const crk_layout_t *layout,
                                     crk_const_view_t src, crk_view_t dst, size_t h_out, size_t w_out,
                                     bool align_corners, double h_factor, double w_factor) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_upsample_bilinear2d");
  CRK_REFUSE_IF(!(h_factor >= 0.0) || isinf(h_factor),
                "crk_upsample_bilinear2d: h_factor is %g; it must be finite and at least 0", h_factor);
  CRK_REFUSE_IF(!(w_factor >= 0.0) || isinf(w_factor),
                "crk_upsample_bilinear2d: w_factor is %g; it must be finite and at least 0", w_factor);
  images_call_t call = {.where = "crk_upsample_bilinear2d",
                        .dtype = dtype,
                        .layout = layout,
                        .src = src,
                        .dst = dst,
                        .h_out = h_out,
                        .w_out = w_out};
  CRK_TRY(check_upsampling(&call));
  if (call.numel == 0) {
    return CRK_OK;
  }
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_UPSAMPLE_BILINEAR2D + (uint32_t)dtype, CRK_MODULE_CONV, &function,
                         "upsample_bilinear2d_%s_rows", crk_dtype_name(dtype)));
  call.images.align_corners = align_corners;
  call.images.h_step = bilinear_step(layout->dims[2], h_out, align_corners, h_factor);
  call.images.w_step = bilinear_step(layout->dims[3], w_out, align_corners, w_factor);
  return launch_images(self, &call, function, 1);
}
