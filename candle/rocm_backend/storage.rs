//! The memory of tensors, and the ops of the backend trait.
use super::columns::Kept;
use super::grow::Room;
use super::layout::{OfAnyRank, Operand, Source, fits, layout_of, parts};
use super::{RocmDevice, RocmError, WrapErr, elements, kernels};
use crate::backend::BackendStorage;
use crate::op::{BinaryOpT, CmpOp, ReduceOp, UnaryOpT};
use crate::scalar::Scalar;
use crate::{CpuStorage, DType, Error, Layout, Result, Tensor, conv};
use candle_rocm_sys::{Buffer, Conv};

/// The memory of a tensor: bytes on a device, and their dtype.
#[derive(Debug)]
pub struct RocmStorage {
    buffer: Buffer,
    dtype: DType,
    device: RocmDevice,
    pub(super) kept: Kept,
    pub(super) room: Option<Room>,
}

/// The launchers' dtype. Candle's formats with elements smaller than a byte have no kernels, nor has F8E8M0.
pub fn dtype_of(dtype: DType, op: &'static str) -> Result<kernels::DType> {
    use kernels::DType as D;
    Ok(match dtype {
        DType::U8 => D::U8,
        DType::U32 => D::U32,
        DType::I16 => D::I16,
        DType::I32 => D::I32,
        DType::I64 => D::I64,
        DType::BF16 => D::BF16,
        DType::F16 => D::F16,
        DType::F32 => D::F32,
        DType::F64 => D::F64,
        DType::F8E4M3 => D::F8E4M3,
        DType::F6E2M3 | DType::F6E3M2 | DType::F4 | DType::F8E8M0 => Err(RocmError::UnsupportedDtype { dtype, op })?,
    })
}

/// Whether one call convolves all groups. Gradients of such a call are not known, so tracked tensors take Candle's way.
/// So do tensors without channels, which Candle refuses.
pub(crate) fn takes_groups(src: &Tensor, kernel: &Tensor) -> bool {
    let has_channels = src.dims().get(1).is_some_and(|channels| *channels != 0);
    has_channels && src.device().is_rocm() && !src.track_op() && !kernel.track_op()
}

/// The number of groups: `l.dims()[1]` channels, `c_in` in each.
fn groups(l: &Layout, c_in: usize) -> usize {
    l.dims()[1].checked_div(c_in).unwrap_or(1)
}

/// A launcher of convolutions: its dtype, images, kernel, result and numbers.
type Convolve = fn(&kernels::Device, kernels::DType, Source<'_>, Source<'_>, &Buffer, Conv) -> kernels::Result<()>;

/// Unwraps the launchers' op for one of Candle's ops at compile time.
const fn found<T: Copy>(op: Option<T>) -> T {
    match op {
        Some(op) => op,
        None => panic!("an op of Candle's that has no kernel"),
    }
}

fn f8_bits(value: float8::F8E4M3) -> u8 {
    value.to_bits()
}

/// Host memory as bytes.
///
/// # Safety
/// The type has no padding.
pub(super) unsafe fn bytes_of<T: Copy>(values: &[T]) -> &[u8] {
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), std::mem::size_of_val(values)) }
}

impl RocmStorage {
    /// A buffer of `dtype` elements.
    pub fn new(buffer: Buffer, dtype: DType, device: RocmDevice) -> Self {
        Self { buffer, dtype, device, kept: Kept::default(), room: None }
    }

    /// The device memory. A program may write to it at any time, so the storage keeps no activations of quantized
    /// products from then on.
    pub fn buffer(&self) -> &Buffer {
        self.kept.lend();
        &self.buffer
    }

    /// The same for ops of the backend, which write only to storages that they have made or called `written` for.
    pub(crate) fn memory(&self) -> &Buffer {
        &self.buffer
    }

    /// The tensor with this memory and this layout.
    pub(super) fn with<'a>(&'a self, layout: &'a Layout) -> Operand<'a> {
        Operand { storage: self, layout }
    }

    /// The device memory, for views to write to.
    pub(super) fn buffer_mut(&mut self) -> &mut Buffer {
        self.written();
        &mut self.buffer
    }

    /// Called before something is written to the storage of a tensor.
    pub(crate) fn written(&mut self) {
        self.kept.forget();
    }

    /// A copy on another device.
    pub fn transfer_to_device(&self, device: &RocmDevice) -> Result<Self> {
        Ok(Self::new(device.handle().copy_from(&self.buffer).w()?, self.dtype, device.clone()))
    }

    /// Fails if the storage has another dtype.
    pub fn expect_dtype(&self, expected: DType, op: &'static str, argument: &'static str) -> Result<()> {
        if self.dtype == expected {
            return Ok(());
        }
        Err(RocmError::WrongDtype { op, argument, expected, got: self.dtype })?
    }

    /// The range of a contiguous layout, for arguments that launchers take without a layout. As [`Self::buffer`], it
    /// may be written to.
    pub fn contiguous(&self, layout: &Layout, op: &'static str, argument: &'static str) -> Result<kernels::View<'_>> {
        self.kept.lend();
        self.range(layout, op, argument)
    }

    /// The same for ops of the backend, as [`Self::memory`].
    pub(crate) fn range(&self, layout: &Layout, op: &'static str, argument: &'static str) -> Result<kernels::View<'_>> {
        let refused = || RocmError::NotContiguous { op, argument, layout: layout.clone() };
        let (start, end) = layout.contiguous_offsets().ok_or_else(refused)?;
        let size = dtype_of(self.dtype, op)?.size();
        self.buffer.range(start * size..end * size).w()
    }

    /// Allocates a result of `count` elements of `dtype` and fills it with `launch`.
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

    /// As [`Self::produce`], from tensors. The result has `count` elements of `gives`; `launch` also gets the dtype of
    /// the first tensor.
    pub(super) fn compute<const N: usize>(
        op: &'static str,
        tensors: [Operand<'_>; N],
        (count, gives): (usize, DType),
        launch: impl FnOnce(&kernels::Device, kernels::DType, [Source<'_>; N], &Buffer) -> kernels::Result<()>,
    ) -> Result<Self> {
        let first = tensors[0].storage;
        let dtype = dtype_of(first.dtype, op)?;
        let tensors = OfAnyRank::new(tensors, &[])?;
        first.produce(count, gives, |device, dst| launch(device, dtype, tensors.sources(), dst))
    }

    /// A convolution of the first tensor, this one, by the second. `dst` are the dims of the result.
    fn convolve(
        &self,
        op: &'static str,
        [src, kernel]: [Operand<'_>; 2],
        dst: &[usize],
        launch: Convolve,
        conv: Conv,
    ) -> Result<Self> {
        kernel.storage.expect_dtype(self.dtype, op, "kernel")?;
        Self::compute(op, [src, kernel], (elements(dst), self.dtype), |device, dtype, [src, kernel], dst| {
            launch(device, dtype, src, kernel, dst, conv)
        })
    }

    /// As [`Self::compute`], for an op with one source and a result of the same dtype.
    pub(super) fn map_to(
        &self,
        layout: &Layout,
        count: usize,
        op: &'static str,
        launch: impl FnOnce(&kernels::Device, kernels::DType, Source<'_>, &Buffer) -> kernels::Result<()>,
    ) -> Result<Self> {
        Self::compute(op, [self.with(layout)], (count, self.dtype), |device, dtype, [src], dst| {
            launch(device, dtype, src, dst)
        })
    }

    /// As [`Self::map_to`], with as many elements as the source.
    pub(super) fn map(
        &self,
        layout: &Layout,
        op: &'static str,
        launch: impl FnOnce(&kernels::Device, kernels::DType, Source<'_>, &Buffer) -> kernels::Result<()>,
    ) -> Result<Self> {
        self.map_to(layout, elements(layout.dims()), op, launch)
    }

    /// A contiguous copy.
    pub(super) fn packed(&self, layout: &Layout) -> Result<Self> {
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
            // SAFETY: the elements of each dtype are plain numbers, for which every bit pattern is valid.
            ($($dtype:ident)*) => { match self.dtype {
                $(DType::$dtype => CpuStorage::$dtype(unsafe { self.buffer.download_as() }.w()?),)*
            } };
        }
        Ok(storage!(U8 U32 I16 I32 I64 BF16 F16 F32 F64 F8E4M3 F6E2M3 F6E3M2 F4 F8E8M0))
    }

    fn affine(&self, layout: &Layout, mul: f64, add: f64) -> Result<Self> {
        self.map(layout, "affine", |device, dtype, (l, src), dst| device.affine(dtype, l, src, dst, mul, add))
    }

    fn powf(&self, layout: &Layout, exponent: f64) -> Result<Self> {
        self.map(layout, "powf", |device, dtype, (l, src), dst| {
            device.unary_param(kernels::UnaryOp::Powf, dtype, l, src, dst, exponent)
        })
    }

    fn elu(&self, layout: &Layout, alpha: f64) -> Result<Self> {
        self.map(layout, "elu", |device, dtype, (l, src), dst| {
            device.unary_param(kernels::UnaryOp::Elu, dtype, l, src, dst, alpha)
        })
    }

    fn reduce_op(&self, op: ReduceOp, layout: &Layout, dims: &[usize]) -> Result<Self> {
        if !fits(layout) && dims.len() > 1 {
            // One reduction over a matrix row: chained reductions would round every partial sum.
            let (reduced, kept): (Vec<usize>, Vec<usize>) = (0..layout.dims().len()).partition(|i| dims.contains(i));
            let rows = layout.permute(&[&kept[..], &reduced].concat())?;
            let count = |of: &[usize]| elements(of.iter().map(|i| &layout.dims()[*i]));
            return self.packed(&rows)?.reduce_op(op, &Layout::contiguous((count(&kept), count(&reduced))), &[1]);
        }
        let (op, gives) = match op {
            ReduceOp::Sum => (kernels::ReduceOp::Sum, self.dtype),
            ReduceOp::Min => (kernels::ReduceOp::Min, self.dtype),
            ReduceOp::Max => (kernels::ReduceOp::Max, self.dtype),
            ReduceOp::ArgMin => (kernels::ReduceOp::Argmin, DType::U32),
            ReduceOp::ArgMax => (kernels::ReduceOp::Argmax, DType::U32),
        };
        if op != kernels::ReduceOp::Sum && layout.dims().contains(&0) {
            Err(Error::EmptyTensor { op: "reduce" }.bt())?
        }
        let dtype = dtype_of(self.dtype, "reduce")?;
        let kept = layout.dims().iter().enumerate().filter(|(i, _)| !dims.contains(i)).map(|(_, dim)| dim);
        let tensors = OfAnyRank::new([self.with(layout)], dims)?;
        let [(l, src)] = tensors.sources();
        self.produce(elements(kept), gives, |device, dst| device.reduce(op, dtype, l, src, tensors.apart(), dst))
    }

    fn cmp(&self, op: CmpOp, rhs: &Self, lhs_l: &Layout, rhs_l: &Layout) -> Result<Self> {
        let op = match op {
            CmpOp::Eq => kernels::CmpOp::Eq,
            CmpOp::Ne => kernels::CmpOp::Ne,
            CmpOp::Le => kernels::CmpOp::Le,
            CmpOp::Ge => kernels::CmpOp::Ge,
            CmpOp::Lt => kernels::CmpOp::Lt,
            CmpOp::Gt => kernels::CmpOp::Gt,
        };
        rhs.expect_dtype(self.dtype, "cmp", "rhs")?;
        let gives = (elements(lhs_l.dims()), DType::U8);
        Self::compute("cmp", [self.with(lhs_l), rhs.with(rhs_l)], gives, |device, dtype, [lhs, rhs], dst| {
            device.cmp(op, dtype, lhs, rhs, dst)
        })
    }

    fn to_dtype(&self, layout: &Layout, dtype: DType) -> Result<Self> {
        let to = dtype_of(dtype, "to_dtype")?;
        let gives = (elements(layout.dims()), dtype);
        Self::compute("to_dtype", [self.with(layout)], gives, |device, from, [(l, src)], dst| {
            device.cast(from, to, l, src, dst)
        })
    }

    fn unary_impl<U: UnaryOpT>(&self, layout: &Layout) -> Result<Self> {
        let op = const { found(kernels::UnaryOp::from_root(U::KERNEL)) };
        self.map(layout, U::NAME, |device, dtype, (l, src), dst| device.unary(op, dtype, l, src, dst))
    }

    fn binary_impl<B: BinaryOpT>(&self, rhs: &Self, lhs_l: &Layout, rhs_l: &Layout) -> Result<Self> {
        let op = const { found(kernels::BinaryOp::from_root(B::KERNEL)) };
        rhs.expect_dtype(self.dtype, B::NAME, "rhs")?;
        let gives = (elements(lhs_l.dims()), self.dtype);
        Self::compute(B::NAME, [self.with(lhs_l), rhs.with(rhs_l)], gives, |device, dtype, [lhs, rhs], dst| {
            device.binary(op, dtype, lhs, rhs, dst)
        })
    }

    fn where_cond(&self, layout: &Layout, t: &Self, t_l: &Layout, f: &Self, f_l: &Layout) -> Result<Self> {
        f.expect_dtype(t.dtype, "where_cond", "on_false")?;
        let dtype = dtype_of(t.dtype, "where_cond")?;
        let (tensors, gives) = ([self.with(layout), t.with(t_l), f.with(f_l)], (elements(layout.dims()), t.dtype));
        Self::compute("where_cond", tensors, gives, |device, condition, [ids, on_true, on_false], dst| {
            device.where_cond(condition, dtype, ids, on_true, on_false, dst)
        })
    }

    fn conv1d(&self, l: &Layout, kernel: &Self, kernel_l: &Layout, p: &conv::ParamsConv1D) -> Result<Self> {
        let groups = groups(l, p.c_in);
        let c = Conv { stride: p.stride, padding: p.padding, dilation: p.dilation, groups, ..Conv::default() };
        let dst = [p.b_size, p.c_out, c.size(p.l_in, p.k_size).w()?];
        self.convolve("conv1d", [self.with(l), kernel.with(kernel_l)], &dst, kernels::Device::conv1d, c)
    }

    fn conv2d(&self, l: &Layout, kernel: &Self, kernel_l: &Layout, p: &conv::ParamsConv2D) -> Result<Self> {
        let groups = groups(l, p.c_in);
        let c = Conv { stride: p.stride, padding: p.padding, dilation: p.dilation, groups, ..Conv::default() };
        let dst = [p.b_size, p.c_out, c.size(p.i_h, p.k_h).w()?, c.size(p.i_w, p.k_w).w()?];
        self.convolve("conv2d", [self.with(l), kernel.with(kernel_l)], &dst, kernels::Device::conv2d, c)
    }

    fn conv_transpose1d(
        &self,
        l: &Layout,
        kernel: &Self,
        kernel_l: &Layout,
        p: &conv::ParamsConvTranspose1D,
    ) -> Result<Self> {
        let c = Conv {
            stride: p.stride,
            padding: p.padding,
            output_padding: p.output_padding,
            dilation: p.dilation,
            groups: groups(l, p.c_in),
        };
        let dst = [p.b_size, p.c_out, c.transpose_size(p.l_in, p.k_size).w()?];
        let tensors = [self.with(l), kernel.with(kernel_l)];
        self.convolve("conv_transpose1d", tensors, &dst, kernels::Device::conv_transpose1d, c)
    }

    fn conv_transpose2d(
        &self,
        l: &Layout,
        kernel: &Self,
        kernel_l: &Layout,
        p: &conv::ParamsConvTranspose2D,
    ) -> Result<Self> {
        let c = Conv {
            stride: p.stride,
            padding: p.padding,
            output_padding: p.output_padding,
            dilation: p.dilation,
            groups: 1,
        };
        let dst = [p.b_size, p.c_out, c.transpose_size(p.i_h, p.k_h).w()?, c.transpose_size(p.i_w, p.k_w).w()?];
        let tensors = [self.with(l), kernel.with(kernel_l)];
        self.convolve("conv_transpose2d", tensors, &dst, kernels::Device::conv_transpose2d, c)
    }

    fn avg_pool2d(&self, l: &Layout, window: (usize, usize), stride: (usize, usize)) -> Result<Self> {
        self.pool2d(kernels::PoolOp::Avg, l, window, stride)
    }

    fn max_pool2d(&self, l: &Layout, window: (usize, usize), stride: (usize, usize)) -> Result<Self> {
        self.pool2d(kernels::PoolOp::Max, l, window, stride)
    }

    fn upsample_nearest1d(&self, l: &Layout, size: usize) -> Result<Self> {
        // A signal is an image with one row.
        let ((b, c, width), stride) = (l.shape().dims3()?, l.stride());
        let image = Layout::new((b, c, 1, width).into(), vec![stride[0], stride[1], 0, stride[2]], l.start_offset());
        self.upsample_nearest2d(&image, 1, size)
    }

    fn upsample_nearest2d(&self, l: &Layout, height: usize, width: usize) -> Result<Self> {
        let (b, c, _, _) = l.shape().dims4()?;
        self.map_to(l, elements(&[b, c, height, width]), "upsample_nearest2d", |device, dtype, (l, src), dst| {
            device.upsample_nearest2d(dtype, l, src, dst, (height, width))
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
        self.map_to(l, elements(&[b, c, height, width]), "upsample_bilinear2d", |device, dtype, (l, src), dst| {
            device.upsample_bilinear2d(dtype, l, (src, dst), (height, width), align_corners, factors)
        })
    }

    fn gather(&self, l: &Layout, ids: &Self, ids_l: &Layout, dim: usize) -> Result<Self> {
        let (dtype, ids_dtype) = (dtype_of(self.dtype, "gather")?, dtype_of(ids.dtype, "gather")?);
        // Ids select from `dim` only, so the other dims are cut to the size of `ids`. Then only `dim` differs between
        // both tensors.
        let mut l = l.clone();
        for (i, size) in ids_l.dims().iter().enumerate().filter(|(i, _)| *i != dim) {
            l = l.narrow(i, 0, *size)?;
        }
        let dim = [dim];
        let tensors = OfAnyRank::new([self.with(&l), ids.with(ids_l)], &dim)?;
        let [src, (places, ids)] = tensors.sources();
        self.produce(elements(ids_l.dims()), self.dtype, |device, dst| {
            device.gather(dtype, src, (ids_dtype, places, ids), tensors.apart()[0], dst)
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
        self.written();
        self.scatter("scatter", kernels::Device::scatter, l, ids.with(ids_l), src.with(src_l), dim)
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
        self.written();
        self.scatter("scatter_add", kernels::Device::scatter_add, l, ids.with(ids_l), src.with(src_l), dim)
    }

    fn index_select(&self, ids: &Self, l: &Layout, ids_l: &Layout, dim: usize) -> Result<Self> {
        let (dtype, ids_dtype) = (dtype_of(self.dtype, "index_select")?, dtype_of(ids.dtype, "index_select")?);
        let places = layout_of(ids_l)?;
        let rest = l.dims().iter().enumerate().filter(|(i, _)| *i != dim).map(|(_, dim)| dim);
        let count = elements(ids_l.dims().iter().chain(rest));
        let dim = [dim];
        let tensors = OfAnyRank::new([self.with(l)], &dim)?;
        let [src] = tensors.sources();
        self.produce(count, self.dtype, |device, dst| {
            device.index_select(dtype, src, (ids_dtype, &places, &ids.buffer), tensors.apart()[0], dst)
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
        src.expect_dtype(self.dtype, "index_add", "src")?;
        let (dtype, ids_dtype) = (dtype_of(self.dtype, "index_add")?, dtype_of(ids.dtype, "index_add")?);
        let places = layout_of(ids_l)?;
        let (sum, sum_l) = (self.packed(l)?, Layout::contiguous(l.shape()));
        let dim = [dim];
        let tensors = OfAnyRank::new([sum.with(&sum_l), src.with(src_l)], &dim)?;
        let ([to, from], dim) = (tensors.sources(), tensors.apart()[0]);
        self.device.handle().index_add(dtype, (ids_dtype, &places, &ids.buffer), from, dim, to).w()?;
        drop(tensors);
        Ok(sum)
    }

    fn matmul(
        &self,
        rhs: &Self,
        (b, m, n, _): (usize, usize, usize, usize),
        lhs_l: &Layout,
        rhs_l: &Layout,
    ) -> Result<Self> {
        rhs.expect_dtype(self.dtype, "matmul", "rhs")?;
        let dtype = dtype_of(self.dtype, "matmul")?;
        let [.., _, _] = lhs_l.dims() else {
            crate::bail!("matmul: lhs has the dims {:?}, it must have two at least", lhs_l.dims())
        };
        let rank = lhs_l.dims().len();
        let matrices = [rank - 2, rank - 1];
        let tensors = OfAnyRank::new([self.with(lhs_l), rhs.with(rhs_l)], &matrices)?;
        let [lhs, rhs] = tensors.sources();
        self.produce(elements(&[b, m, n]), self.dtype, |device, dst| device.matmul(dtype, lhs, rhs, dst))
    }

    fn copy_strided_src(&self, dst: &mut Self, dst_offset: usize, src_l: &Layout) -> Result<()> {
        dst.expect_dtype(self.dtype, "copy_strided", "dst")?;
        dst.written();
        let dtype = dtype_of(self.dtype, "copy_strided")?;
        parts(src_l, dst_offset, &mut |l, first| {
            self.device.handle().copy_strided(dtype, l, &self.buffer, &dst.buffer, first).w()
        })
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
        dst.expect_dtype(self.dtype, "copy2d", "dst")?;
        dst.written();
        let dtype = dtype_of(self.dtype, "copy2d")?;
        let (from, to) = ((&self.buffer, src_stride, src_offset), (&dst.buffer, dst_stride, dst_offset));
        self.device.handle().copy2d(dtype, (rows, cols), from, to).w()
    }

    fn const_set(&mut self, value: Scalar, layout: &Layout) -> Result<()> {
        self.written();
        if value.dtype() != self.dtype {
            crate::bail!("const_set: the tensor is of {:?}, the value of {:?}", self.dtype, value.dtype());
        }
        let (device, dtype) = (self.device.handle(), dtype_of(self.dtype, "const_set")?);
        macro_rules! set {
            ($($dtype:ident $bits:expr,)*) => { match value {
                $(Scalar::$dtype(value) => parts(layout, 0, &mut |l, _| {
                    device.const_set(dtype, l, &self.buffer, $bits(value)).w()
                }),)*
            } };
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
    }
}

/// A launcher that writes `src` to the positions in `dst` that ids select. Arguments: device, dtype, ids, src, dim,
/// dst.
type Scatter = fn(
    &kernels::Device,
    kernels::DType,
    (kernels::DType, &kernels::Layout, &Buffer),
    Source<'_>,
    usize,
    Source<'_>,
) -> kernels::Result<()>;

/// Code that several ops share.
impl RocmStorage {
    fn scatter(
        &self,
        op: &'static str,
        launch: Scatter,
        l: &Layout,
        ids: Operand<'_>,
        src: Operand<'_>,
        dim: usize,
    ) -> Result<()> {
        src.storage.expect_dtype(self.dtype, op, "src")?;
        if !fits(l) {
            self.range(l, op, "dst")?;
        }
        let (dtype, ids_dtype) = (dtype_of(self.dtype, op)?, dtype_of(ids.storage.dtype, op)?);
        let dim = [dim];
        let tensors = OfAnyRank::new([self.with(l), ids, src], &dim)?;
        let [to, (places, ids), from] = tensors.sources();
        launch(self.device.handle(), dtype, (ids_dtype, places, ids), from, tensors.apart()[0], to).w()
    }

    fn pool2d(&self, op: kernels::PoolOp, l: &Layout, window: (usize, usize), stride: (usize, usize)) -> Result<Self> {
        let (b, c, h, w) = l.shape().dims4()?;
        let size = |size, window, stride| Conv { stride, ..Conv::default() }.size(size, window).w();
        let (h_out, w_out) = (size(h, window.0, stride.0)?, size(w, window.1, stride.1)?);
        self.map_to(l, elements(&[b, c, h_out, w_out]), "pool2d", |device, dtype, (l, src), dst| {
            device.pool2d((op, dtype), l, src, dst, window, stride)
        })
    }
}
