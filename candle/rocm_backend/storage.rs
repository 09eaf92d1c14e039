//! Tensors' memory, and the ops on it.
use super::{RocmDevice, RocmError, WrapErr, kernels};
use crate::backend::BackendStorage;
use crate::op::{BinaryOpT, CmpOp, ReduceOp, UnaryOpT};
use crate::scalar::Scalar;
use crate::{CpuStorage, DType, Error, Layout, Result, Shape, conv};
use candle_rocm_sys::sys::{crk_binary_op, crk_cmp_op, crk_pool_op, crk_reduce_op, crk_unary_op};
use candle_rocm_sys::{Buffer, Conv};

/// The memory of a tensor: bytes on a device, and what their elements are.
#[derive(Debug)]
pub struct RocmStorage {
    buffer: Buffer,
    dtype: DType,
    device: RocmDevice,
}

/// The dtype as launchers take it. Candle's formats of less than a byte have no kernels.
pub(super) fn dtype_of(dtype: DType, op: &'static str) -> Result<kernels::DType> {
    use kernels::DType as D;
    Ok(match dtype {
        DType::U8 => D::CRK_DTYPE_U8,
        DType::U32 => D::CRK_DTYPE_U32,
        DType::I16 => D::CRK_DTYPE_I16,
        DType::I32 => D::CRK_DTYPE_I32,
        DType::I64 => D::CRK_DTYPE_I64,
        DType::BF16 => D::CRK_DTYPE_BF16,
        DType::F16 => D::CRK_DTYPE_F16,
        DType::F32 => D::CRK_DTYPE_F32,
        DType::F64 => D::CRK_DTYPE_F64,
        DType::F8E4M3 => D::CRK_DTYPE_F8E4M3,
        DType::F6E2M3 | DType::F6E3M2 | DType::F4 | DType::F8E8M0 => Err(RocmError::UnsupportedDtype { dtype, op })?,
    })
}

/// The layout as launchers take it.
pub(super) fn layout_of(layout: &Layout) -> Result<kernels::Layout> {
    kernels::Layout::strided(layout.dims(), layout.stride(), layout.start_offset()).w()
}

fn f8_bits(value: float8::F8E4M3) -> u8 {
    value.to_bits()
}

/// Host memory as bytes.
pub(super) fn bytes_of<T: Copy>(values: &[T]) -> &[u8] {
    // SAFETY: elements of tensors are plain numbers without padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), std::mem::size_of_val(values)) }
}

impl RocmStorage {
    /// A buffer of `dtype` elements.
    pub fn new(buffer: Buffer, dtype: DType, device: RocmDevice) -> Self {
        Self { buffer, dtype, device }
    }

    /// The memory.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// A copy on another device.
    pub fn transfer_to_device(&self, device: &RocmDevice) -> Result<Self> {
        Ok(Self::new(device.handle().copy_from(&self.buffer).w()?, self.dtype, device.clone()))
    }

    /// Fails for a storage of another dtype.
    pub(crate) fn expect_dtype(&self, expected: DType, msg: &'static str) -> Result<()> {
        if self.dtype == expected {
            return Ok(());
        }
        Err(Error::UnexpectedDType { msg, expected, got: self.dtype }.bt())
    }

    /// The elements of a contiguous layout, for what is passed without one.
    pub(crate) fn contiguous(&self, layout: &Layout, op: &'static str) -> Result<kernels::View<'_>> {
        let (start, end) = layout.contiguous_offsets().ok_or_else(|| Error::RequiresContiguous { op }.bt())?;
        let size = dtype_of(self.dtype, op)?.size();
        self.buffer.range(start * size..end * size).w()
    }

    /// A result of `count` elements of `dtype` that `launch` fills.
    pub(super) fn produce(
        &self,
        count: usize,
        dtype: DType,
        launch: impl FnOnce(&kernels::Device, &Buffer) -> kernels::Result<()>,
    ) -> Result<Self> {
        let dst = self.device.empty_of(count, dtype)?;
        launch(self.device.handle(), &dst.buffer).w()?;
        Ok(dst)
    }

    /// A result with an element for each of `layout`, of the same dtype, of an op that has one source.
    fn map(
        &self,
        layout: &Layout,
        op: &'static str,
        launch: impl FnOnce(&kernels::Device, kernels::DType, &kernels::Layout, &Buffer) -> kernels::Result<()>,
    ) -> Result<Self> {
        self.map_to(layout, layout.shape().elem_count(), op, launch)
    }

    /// A copy with the elements one after the other.
    fn packed(&self, layout: &Layout) -> Result<Self> {
        let mut dst = self.device.empty(layout.shape(), self.dtype)?;
        self.copy_strided_src(&mut dst, 0, layout)?;
        Ok(dst)
    }
}

impl BackendStorage for RocmStorage {
    type Device = RocmDevice;

    fn try_clone(&self, _: &Layout) -> Result<Self> {
        let buffer = self.device.handle().alloc(self.buffer.bytes()).w()?;
        self.device.handle().copy(&buffer, &self.buffer).w()?;
        Ok(Self::new(buffer, self.dtype, self.device.clone()))
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn device(&self) -> &RocmDevice {
        &self.device
    }

    fn to_cpu_storage(&self) -> Result<CpuStorage> {
        macro_rules! storage {
            // SAFETY: the elements of each are plain numbers, of which any bytes are values.
            ($($dtype:ident)*) => { match self.dtype {
                $(DType::$dtype => CpuStorage::$dtype(unsafe { self.buffer.download_as() }.w()?),)*
            } };
        }
        Ok(storage!(U8 U32 I16 I32 I64 BF16 F16 F32 F64 F8E4M3 F6E2M3 F6E3M2 F4 F8E8M0))
    }

    fn affine(&self, layout: &Layout, mul: f64, add: f64) -> Result<Self> {
        self.map(layout, "affine", |device, dtype, l, dst| device.affine(dtype, l, &self.buffer, dst, mul, add))
    }

    fn powf(&self, layout: &Layout, exponent: f64) -> Result<Self> {
        self.map(layout, "powf", |device, dtype, l, dst| {
            device.unary_param(crk_unary_op::CRK_UNARY_POWF, dtype, l, &self.buffer, dst, exponent)
        })
    }

    fn elu(&self, layout: &Layout, alpha: f64) -> Result<Self> {
        self.map(layout, "elu", |device, dtype, l, dst| {
            device.unary_param(crk_unary_op::CRK_UNARY_ELU, dtype, l, &self.buffer, dst, alpha)
        })
    }

    fn reduce_op(&self, op: ReduceOp, layout: &Layout, dims: &[usize]) -> Result<Self> {
        let (op, gives) = match op {
            ReduceOp::Sum => (crk_reduce_op::CRK_REDUCE_SUM, self.dtype),
            ReduceOp::Min => (crk_reduce_op::CRK_REDUCE_MIN, self.dtype),
            ReduceOp::Max => (crk_reduce_op::CRK_REDUCE_MAX, self.dtype),
            ReduceOp::ArgMin => (crk_reduce_op::CRK_REDUCE_ARGMIN, DType::U32),
            ReduceOp::ArgMax => (crk_reduce_op::CRK_REDUCE_ARGMAX, DType::U32),
        };
        if op != crk_reduce_op::CRK_REDUCE_SUM && layout.shape().elem_count() == 0 {
            Err(Error::EmptyTensor { op: "reduce" }.bt())?
        }
        let kept = layout.dims().iter().enumerate().filter(|(i, _)| !dims.contains(i)).map(|(_, dim)| dim);
        let (dtype, l) = (dtype_of(self.dtype, "reduce")?, layout_of(layout)?);
        self.produce(kept.product(), gives, |device, dst| device.reduce(op, dtype, &l, &self.buffer, dims, dst))
    }

    fn cmp(&self, op: CmpOp, rhs: &Self, lhs_l: &Layout, rhs_l: &Layout) -> Result<Self> {
        let op = match op {
            CmpOp::Eq => crk_cmp_op::CRK_CMP_EQ,
            CmpOp::Ne => crk_cmp_op::CRK_CMP_NE,
            CmpOp::Le => crk_cmp_op::CRK_CMP_LE,
            CmpOp::Ge => crk_cmp_op::CRK_CMP_GE,
            CmpOp::Lt => crk_cmp_op::CRK_CMP_LT,
            CmpOp::Gt => crk_cmp_op::CRK_CMP_GT,
        };
        rhs.expect_dtype(self.dtype, "cmp")?;
        let (dtype, lhs, rhs_layout) = (dtype_of(self.dtype, "cmp")?, layout_of(lhs_l)?, layout_of(rhs_l)?);
        self.produce(lhs_l.shape().elem_count(), DType::U8, |device, dst| {
            device.cmp(op, dtype, (&lhs, &self.buffer), (&rhs_layout, &rhs.buffer), dst)
        })
    }

    fn to_dtype(&self, layout: &Layout, dtype: DType) -> Result<Self> {
        let (from, to, l) = (dtype_of(self.dtype, "to_dtype")?, dtype_of(dtype, "to_dtype")?, layout_of(layout)?);
        self.produce(layout.shape().elem_count(), dtype, |device, dst| device.cast(from, to, &l, &self.buffer, dst))
    }

    fn unary_impl<U: UnaryOpT>(&self, layout: &Layout) -> Result<Self> {
        let op = crk_unary_op::from_root(U::KERNEL).w()?;
        self.map(layout, U::NAME, |device, dtype, l, dst| device.unary(op, dtype, l, &self.buffer, dst))
    }

    fn binary_impl<B: BinaryOpT>(&self, rhs: &Self, lhs_l: &Layout, rhs_l: &Layout) -> Result<Self> {
        let op = crk_binary_op::from_root(B::KERNEL).w()?;
        rhs.expect_dtype(self.dtype, B::NAME)?;
        let rhs_layout = layout_of(rhs_l)?;
        self.map(lhs_l, B::NAME, |device, dtype, lhs, dst| {
            device.binary(op, dtype, (lhs, &self.buffer), (&rhs_layout, &rhs.buffer), dst)
        })
    }

    fn where_cond(&self, layout: &Layout, t: &Self, t_l: &Layout, f: &Self, f_l: &Layout) -> Result<Self> {
        f.expect_dtype(t.dtype, "where")?;
        let (condition, dtype) = (dtype_of(self.dtype, "where")?, dtype_of(t.dtype, "where")?);
        let (l, t_l, f_l) = (layout_of(layout)?, layout_of(t_l)?, layout_of(f_l)?);
        self.produce(layout.shape().elem_count(), t.dtype, |device, dst| {
            let (condition_of, on_true, on_false) = ((&l, &self.buffer), (&t_l, &t.buffer), (&f_l, &f.buffer));
            device.where_cond(condition, dtype, condition_of, on_true, on_false, dst)
        })
    }

    fn conv1d(&self, l: &Layout, kernel: &Self, kernel_l: &Layout, p: &conv::ParamsConv1D) -> Result<Self> {
        let c = Conv { stride: p.stride, padding: p.padding, dilation: p.dilation, ..Conv::default() };
        if !self.multiplies(kernel)? {
            let (dtype, src, k) = (dtype_of(self.dtype, "conv1d")?, layout_of(l)?, layout_of(kernel_l)?);
            return self.produce(p.out_dims().iter().product(), self.dtype, |device, dst| {
                device.conv1d(dtype, (&src, &self.buffer), (&k, &kernel.buffer), dst, c)
            });
        }
        let (b, m, k) = (p.b_size, p.l_out(), p.c_in * p.k_size);
        let columns = self.map_to(l, b * m * k, "conv1d", |device, dtype, l, dst| {
            device.im2col1d(dtype, l, &self.buffer, dst, p.k_size, c)
        })?;
        kernel.times_columns(kernel_l, &columns, (b, p.c_out, m, k))
    }

    fn conv2d(&self, l: &Layout, kernel: &Self, kernel_l: &Layout, p: &conv::ParamsConv2D) -> Result<Self> {
        let c = Conv { stride: p.stride, padding: p.padding, dilation: p.dilation, ..Conv::default() };
        if !self.multiplies(kernel)? {
            let (dtype, src, k) = (dtype_of(self.dtype, "conv2d")?, layout_of(l)?, layout_of(kernel_l)?);
            return self.produce(p.out_dims().iter().product(), self.dtype, |device, dst| {
                device.conv2d(dtype, (&src, &self.buffer), (&k, &kernel.buffer), dst, c)
            });
        }
        let (b, m, k) = (p.b_size, p.out_h() * p.out_w(), p.c_in * p.k_h * p.k_w);
        let columns = self.map_to(l, b * m * k, "conv2d", |device, dtype, l, dst| {
            device.im2col(dtype, l, &self.buffer, dst, (p.k_h, p.k_w), c)
        })?;
        kernel.times_columns(kernel_l, &columns, (b, p.c_out, m, k))
    }

    fn conv_transpose1d(
        &self,
        l: &Layout,
        kernel: &Self,
        kernel_l: &Layout,
        p: &conv::ParamsConvTranspose1D,
    ) -> Result<Self> {
        kernel.expect_dtype(self.dtype, "conv_transpose1d")?;
        let (dtype, src, k) = (dtype_of(self.dtype, "conv_transpose1d")?, layout_of(l)?, layout_of(kernel_l)?);
        let (stride, padding, output_padding, dilation) = (p.stride, p.padding, p.output_padding, p.dilation);
        let c = Conv { stride, padding, output_padding, dilation };
        self.produce(p.out_dims().iter().product(), self.dtype, |device, dst| {
            device.conv_transpose1d(dtype, (&src, &self.buffer), (&k, &kernel.buffer), dst, c)
        })
    }

    fn conv_transpose2d(
        &self,
        l: &Layout,
        kernel: &Self,
        kernel_l: &Layout,
        p: &conv::ParamsConvTranspose2D,
    ) -> Result<Self> {
        kernel.expect_dtype(self.dtype, "conv_transpose2d")?;
        let (dtype, src, k) = (dtype_of(self.dtype, "conv_transpose2d")?, layout_of(l)?, layout_of(kernel_l)?);
        let (stride, padding, output_padding, dilation) = (p.stride, p.padding, p.output_padding, p.dilation);
        let c = Conv { stride, padding, output_padding, dilation };
        self.produce(p.out_dims().iter().product(), self.dtype, |device, dst| {
            device.conv_transpose2d(dtype, (&src, &self.buffer), (&k, &kernel.buffer), dst, c)
        })
    }

    fn avg_pool2d(&self, l: &Layout, window: (usize, usize), stride: (usize, usize)) -> Result<Self> {
        self.pool2d(crk_pool_op::CRK_POOL_AVG, l, window, stride)
    }

    fn max_pool2d(&self, l: &Layout, window: (usize, usize), stride: (usize, usize)) -> Result<Self> {
        self.pool2d(crk_pool_op::CRK_POOL_MAX, l, window, stride)
    }

    fn upsample_nearest1d(&self, l: &Layout, size: usize) -> Result<Self> {
        // A signal is an image of one row.
        let ((b, c, width), stride) = (l.shape().dims3()?, l.stride());
        let image = Layout::new((b, c, 1, width).into(), vec![stride[0], stride[1], 0, stride[2]], l.start_offset());
        self.upsample_nearest2d(&image, 1, size)
    }

    fn upsample_nearest2d(&self, l: &Layout, height: usize, width: usize) -> Result<Self> {
        let (b, c, _, _) = l.shape().dims4()?;
        self.map_to(l, b * c * height * width, "upsample_nearest2d", |device, dtype, l, dst| {
            device.upsample_nearest2d(dtype, l, &self.buffer, dst, (height, width))
        })
    }

    fn upsample_bilinear2d(
        &self,
        l: &Layout,
        height: usize,
        width: usize,
        align_corners: bool,
        scale_h: Option<f64>,
        scale_w: Option<f64>,
    ) -> Result<Self> {
        let (b, c, _, _) = l.shape().dims4()?;
        let factors = (scale_h.unwrap_or(0.0), scale_w.unwrap_or(0.0));
        self.map_to(l, b * c * height * width, "upsample_bilinear2d", |device, dtype, l, dst| {
            device.upsample_bilinear2d(dtype, l, (&self.buffer, dst), (height, width), align_corners, factors)
        })
    }

    fn gather(&self, l: &Layout, ids: &Self, ids_l: &Layout, dim: usize) -> Result<Self> {
        let (ids_dtype, places) = (dtype_of(ids.dtype, "gather")?, layout_of(ids_l)?);
        self.map_to(l, ids_l.shape().elem_count(), "gather", |device, dtype, l, dst| {
            device.gather(dtype, (l, &self.buffer), (ids_dtype, &places, &ids.buffer), dim, dst)
        })
    }

    fn scatter_set(
        &mut self,
        l: &Layout,
        ids: &Self,
        ids_l: &Layout,
        src: &Self,
        src_l: &Layout,
        dim: usize,
    ) -> Result<()> {
        self.write_by(("scatter", kernels::Device::scatter), l, (ids, ids_l), (src, src_l), dim)
    }

    fn scatter_add_set(
        &mut self,
        l: &Layout,
        ids: &Self,
        ids_l: &Layout,
        src: &Self,
        src_l: &Layout,
        dim: usize,
    ) -> Result<()> {
        self.write_by(("scatter-add", kernels::Device::scatter_add), l, (ids, ids_l), (src, src_l), dim)
    }

    fn index_select(&self, ids: &Self, l: &Layout, ids_l: &Layout, dim: usize) -> Result<Self> {
        let (ids_dtype, places) = (dtype_of(ids.dtype, "index-select")?, layout_of(ids_l)?);
        let rest = l.dims().iter().enumerate().filter(|(i, _)| *i != dim).map(|(_, dim)| dim);
        let count = ids_l.shape().elem_count() * rest.product::<usize>();
        self.map_to(l, count, "index-select", |device, dtype, l, dst| {
            device.index_select(dtype, (l, &self.buffer), (ids_dtype, &places, &ids.buffer), dim, dst)
        })
    }

    fn index_add(
        &self,
        l: &Layout,
        ids: &Self,
        ids_l: &Layout,
        src: &Self,
        src_l: &Layout,
        dim: usize,
    ) -> Result<Self> {
        let sum = self.packed(l)?;
        let sum_l = Layout::contiguous(l.shape());
        sum.write_by(("index-add", kernels::Device::index_add), &sum_l, (ids, ids_l), (src, src_l), dim)?;
        Ok(sum)
    }

    fn matmul(
        &self,
        rhs: &Self,
        (b, m, n, _): (usize, usize, usize, usize),
        lhs_l: &Layout,
        rhs_l: &Layout,
    ) -> Result<Self> {
        rhs.expect_dtype(self.dtype, "matmul")?;
        let (dtype, lhs, rhs_layout) = (dtype_of(self.dtype, "matmul")?, layout_of(lhs_l)?, layout_of(rhs_l)?);
        self.produce(b * m * n, self.dtype, |device, dst| {
            device.matmul(dtype, (&lhs, &self.buffer), (&rhs_layout, &rhs.buffer), dst)
        })
    }

    fn copy_strided_src(&self, dst: &mut Self, dst_offset: usize, src_l: &Layout) -> Result<()> {
        dst.expect_dtype(self.dtype, "copy_strided")?;
        let (dtype, l) = (dtype_of(self.dtype, "copy_strided")?, layout_of(src_l)?);
        self.device.handle().copy_strided(dtype, &l, &self.buffer, &dst.buffer, dst_offset).w()
    }

    fn copy2d(
        &self,
        dst: &mut Self,
        rows: usize,
        cols: usize,
        src_stride: usize,
        dst_stride: usize,
        src_offset: usize,
        dst_offset: usize,
    ) -> Result<()> {
        dst.expect_dtype(self.dtype, "copy2d")?;
        let dtype = dtype_of(self.dtype, "copy2d")?;
        let (from, to) = ((&self.buffer, src_stride, src_offset), (&dst.buffer, dst_stride, dst_offset));
        self.device.handle().copy2d(dtype, (rows, cols), from, to).w()
    }

    fn const_set(&mut self, value: Scalar, layout: &Layout) -> Result<()> {
        let l = layout_of(layout)?;
        let (device, dtype) = (self.device.handle(), dtype_of(self.dtype, "const_set")?);
        macro_rules! set {
            ($($dtype:ident $bits:expr,)*) => {
                match value { $(Scalar::$dtype(value) => device.const_set(dtype, &l, &self.buffer, $bits(value)),)* }
            };
        }
        set!(
            U8 std::convert::identity,
            U32 std::convert::identity,
            I16 std::convert::identity,
            I32 std::convert::identity,
            I64 std::convert::identity,
            BF16 half::bf16::to_bits,
            F16 half::f16::to_bits,
            F32 std::convert::identity,
            F64 std::convert::identity,
            F8E4M3 f8_bits,
        )
        .w()
    }
}

/// A launcher that writes into a tensor at the places that ids name: of a dtype, ids, a source, a dim and a destination.
type WriteBy = fn(
    &kernels::Device,
    kernels::DType,
    (kernels::DType, &kernels::Layout, &Buffer),
    (&kernels::Layout, &Buffer),
    usize,
    (&kernels::Layout, &Buffer),
) -> kernels::Result<()>;

/// What several ops share.
impl RocmStorage {
    fn write_by(
        &self,
        (op, launch): (&'static str, WriteBy),
        l: &Layout,
        (ids, ids_l): (&Self, &Layout),
        (src, src_l): (&Self, &Layout),
        dim: usize,
    ) -> Result<()> {
        src.expect_dtype(self.dtype, op)?;
        let (dtype, ids_dtype) = (dtype_of(self.dtype, op)?, dtype_of(ids.dtype, op)?);
        let (l, ids_l, src_l) = (layout_of(l)?, layout_of(ids_l)?, layout_of(src_l)?);
        let (places, from, to) = ((ids_dtype, &ids_l, &ids.buffer), (&src_l, &src.buffer), (&l, &self.buffer));
        launch(self.device.handle(), dtype, places, from, dim, to).w()
    }

    /// A result of `count` elements of the same dtype, of an op that has one source.
    fn map_to(
        &self,
        layout: &Layout,
        count: usize,
        op: &'static str,
        launch: impl FnOnce(&kernels::Device, kernels::DType, &kernels::Layout, &Buffer) -> kernels::Result<()>,
    ) -> Result<Self> {
        let (dtype, l) = (dtype_of(self.dtype, op)?, layout_of(layout)?);
        self.produce(count, self.dtype, |device, dst| launch(device, dtype, &l, dst))
    }

    fn pool2d(&self, op: crk_pool_op, l: &Layout, window: (usize, usize), stride: (usize, usize)) -> Result<Self> {
        let (b, c, h, w) = l.shape().dims4()?;
        let size = |size, window, stride| Conv { stride, ..Conv::default() }.size(size, window).w();
        let (h_out, w_out) = (size(h, window.0, stride.0)?, size(w, window.1, stride.1)?);
        self.map_to(l, b * c * h_out * w_out, "pool2d", |device, dtype, l, dst| {
            device.pool2d((op, dtype), l, &self.buffer, dst, window, stride)
        })
    }

    /// Whether a convolution with this kernel is made as a matrix product, which the dtypes with a product are.
    fn multiplies(&self, kernel: &Self) -> Result<bool> {
        kernel.expect_dtype(self.dtype, "conv")?;
        Ok(matches!(self.dtype, DType::BF16 | DType::F16 | DType::F32 | DType::F64))
    }

    /// The kernel (n, k) of a convolution times its windows (b, m, k), as (b, n, m).
    fn times_columns(
        &self,
        layout: &Layout,
        columns: &Self,
        (b, n, m, k): (usize, usize, usize, usize),
    ) -> Result<Self> {
        let packed = if layout.is_contiguous() { None } else { Some(self.packed(layout)?) };
        let (kernel, offset) = match &packed {
            Some(kernel) => (kernel, 0),
            None => (self, layout.start_offset()),
        };
        let kernel_l = Layout::new((b, n, k).into(), vec![0, k, 1], offset);
        let columns_l = Layout::contiguous(Shape::from((b, m, k))).transpose(1, 2)?;
        kernel.matmul(columns, (b, n, m, k), &kernel_l, &columns_l)
    }
}
