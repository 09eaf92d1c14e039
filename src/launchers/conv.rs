//! Convolutions, pools and upsampling. The contracts are in `include/candle_rocm/launchers/conv.h`.
use crate::{Buffer, DType, Device, Layout, PoolOp, Result, sys};

/// How a convolution's window moves, in every dim, and its groups. [`Default`] is stride 1, no padding, dilation 1, one
/// group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv {
    /// The distance of windows, in elements.
    pub stride: usize,
    /// The number of zeros at both ends of each dim.
    pub padding: usize,
    /// The number of additional outputs at the end of each dim, for transposed convolutions only.
    pub output_padding: usize,
    /// The distance of a window's elements, in elements of the source.
    pub dilation: usize,
    /// The number of equal parts of the channels; each part of the outputs is computed from one part of the inputs.
    pub groups: usize,
}

impl Default for Conv {
    fn default() -> Conv {
        Conv { stride: 1, padding: 0, output_padding: 0, dilation: 1, groups: 1 }
    }
}

impl Conv {
    /// The output size of a dim: `crk_conv_size`.
    pub fn size(&self, size: usize, window: usize) -> Result<usize> {
        let mut result = 0;
        // SAFETY: a place for the result.
        crate::error::check(unsafe {
            sys::crk_conv_size(size, window, self.stride, self.padding, self.dilation, &mut result)
        })?;
        Ok(result)
    }

    /// The output size of a dim in a transposed convolution: `crk_conv_transpose_size`.
    pub fn transpose_size(&self, size: usize, window: usize) -> Result<usize> {
        let (mut result, c) = (0, self);
        // SAFETY: as in `size`.
        crate::error::check(unsafe {
            sys::crk_conv_transpose_size(size, window, c.stride, c.padding, c.output_padding, c.dilation, &mut result)
        })?;
        Ok(result)
    }
}

/// One method per launcher. A source and a kernel come with their layouts.
impl Device {
    /// The convolution of (b, c_in, l) with a kernel (c_out, c_in / groups, k): `crk_conv1d`.
    pub fn conv1d(
        &self,
        dtype: DType,
        src: (&Layout, &Buffer),
        kernel: (&Layout, &Buffer),
        dst: &Buffer,
        c: Conv,
    ) -> Result<()> {
        let (stride, padding, dilation) = (c.stride, c.padding, c.dilation);
        launch!(self.crk_conv1d(dtype, src.0, src.1, kernel.0, kernel.1, dst, stride, padding, dilation, c.groups))
    }

    /// The convolution of (b, c_in, h, w) with a kernel (c_out, c_in / groups, h_k, w_k): `crk_conv2d`.
    pub fn conv2d(
        &self,
        dtype: DType,
        src: (&Layout, &Buffer),
        kernel: (&Layout, &Buffer),
        dst: &Buffer,
        c: Conv,
    ) -> Result<()> {
        let (stride, padding, dilation) = (c.stride, c.padding, c.dilation);
        launch!(self.crk_conv2d(dtype, src.0, src.1, kernel.0, kernel.1, dst, stride, padding, dilation, c.groups))
    }

    /// The transposed convolution of (b, c_in, l) with a kernel (c_in, c_out / groups, k): `crk_conv_transpose1d`.
    pub fn conv_transpose1d(
        &self,
        dtype: DType,
        src: (&Layout, &Buffer),
        kernel: (&Layout, &Buffer),
        dst: &Buffer,
        c: Conv,
    ) -> Result<()> {
        let (stride, padding, dilation) = (c.stride, c.padding, c.dilation);
        launch!(self.crk_conv_transpose1d(
            dtype,
            src.0,
            src.1,
            kernel.0,
            kernel.1,
            dst,
            stride,
            padding,
            c.output_padding,
            dilation,
            c.groups
        ))
    }

    /// The transposed convolution of (b, c_in, h, w) with a kernel (c_in, c_out / groups, h_k, w_k):
    /// `crk_conv_transpose2d`.
    pub fn conv_transpose2d(
        &self,
        dtype: DType,
        src: (&Layout, &Buffer),
        kernel: (&Layout, &Buffer),
        dst: &Buffer,
        c: Conv,
    ) -> Result<()> {
        let (stride, padding, dilation) = (c.stride, c.padding, c.dilation);
        launch!(self.crk_conv_transpose2d(
            dtype,
            src.0,
            src.1,
            kernel.0,
            kernel.1,
            dst,
            stride,
            padding,
            c.output_padding,
            dilation,
            c.groups
        ))
    }

    /// The windows of (b, c, l) as rows of matrices: `crk_im2col1d`.
    pub fn im2col1d(&self, dtype: DType, layout: &Layout, src: &Buffer, dst: &Buffer, k: usize, c: Conv) -> Result<()> {
        launch!(self.crk_im2col1d(dtype, layout, src, dst, k, c.stride, c.padding, c.dilation))
    }

    /// The windows of (b, c, h, w), of `window` (h_k, w_k), as rows of matrices: `crk_im2col`.
    pub fn im2col(
        &self,
        dtype: DType,
        layout: &Layout,
        src: &Buffer,
        dst: &Buffer,
        window: (usize, usize),
        c: Conv,
    ) -> Result<()> {
        launch!(self.crk_im2col(dtype, layout, src, dst, window.0, window.1, c.stride, c.padding, c.dilation))
    }

    /// From (b, l_in, c, k) back to (b, c, l): `crk_col2im1d`.
    pub fn col2im1d(&self, dtype: DType, layout: &Layout, src: &Buffer, dst: &Buffer, stride: usize) -> Result<()> {
        launch!(self.crk_col2im1d(dtype, layout, src, dst, stride))
    }

    /// The average or the greatest element of each `window` (h_k, w_k), with windows `stride` apart: `crk_pool2d`.
    pub fn pool2d(
        &self,
        (op, dtype): (PoolOp, DType),
        layout: &Layout,
        src: &Buffer,
        dst: &Buffer,
        window: (usize, usize),
        stride: (usize, usize),
    ) -> Result<()> {
        launch!(self.crk_pool2d(op, dtype, layout, src, dst, window.0, window.1, stride.0, stride.1))
    }

    /// Resizes to `size` (h_out, w_out) by the nearest element: `crk_upsample_nearest2d`.
    pub fn upsample_nearest2d(
        &self,
        dtype: DType,
        layout: &Layout,
        src: &Buffer,
        dst: &Buffer,
        size: (usize, usize),
    ) -> Result<()> {
        launch!(self.crk_upsample_nearest2d(dtype, layout, src, dst, size.0, size.1))
    }

    /// Resizes to `size` (h_out, w_out) by interpolation: `crk_upsample_bilinear2d`. `factors` are Candle's scale
    /// factors, 0 for none.
    pub fn upsample_bilinear2d(
        &self,
        dtype: DType,
        layout: &Layout,
        (src, dst): (&Buffer, &Buffer),
        size: (usize, usize),
        align_corners: bool,
        factors: (f64, f64),
    ) -> Result<()> {
        launch!(self.crk_upsample_bilinear2d(
            dtype,
            layout,
            src,
            dst,
            size.0,
            size.1,
            align_corners,
            factors.0,
            factors.1
        ))
    }
}
