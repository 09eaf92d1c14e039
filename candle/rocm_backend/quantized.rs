//! Quantized weights on ROCm devices.
use super::{GgmlDType, QStorage, QuantizedType};
use crate::backend::{BackendDevice, BackendStorage};
use crate::rocm_backend::{
    BLOCK, Columns, Heads, Part, RocmDevice, RocmError, RocmStorage, WrapErr, columns_beside, elements, kernels,
};
use crate::{CpuStorage, DType, Layout, Result, Shape, Storage, Tensor, bail};
use candle_rocm_sys::Buffer;

/// Blocks of quantized weights, or plain floats, on a device.
#[derive(Debug)]
pub struct QRocmStorage {
    buffer: Buffer,
    dtype: GgmlDType,
    device: RocmDevice,
}

/// Rows of a quantized matrix.
#[derive(Debug, Clone, Copy)]
pub struct QRows<'a> {
    storage: &'a QRocmStorage,
    blocks: kernels::View<'a>,
    /// The number of rows, and the elements of a row.
    shape: (usize, usize),
}

impl QRows<'_> {
    /// The number of rows.
    pub fn count(&self) -> usize {
        self.shape.0
    }
}

/// Quantized columns that several products read.
struct Shared {
    dtype: kernels::DType,
    part: Part,
    kept: std::sync::Arc<Columns>,
}

/// If set, products of `QMatMul` dequantize their weights and multiply in floating point. Activations are then not
/// rounded to 8 bits. Products of experts stay as they are.
pub fn set_force_dmmv(force: bool) {
    FORCE_DMMV.store(force, std::sync::atomic::Ordering::Relaxed)
}
static FORCE_DMMV: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// The launchers' dtype for a float dtype.
fn float(dtype: DType) -> Option<kernels::DType> {
    match dtype {
        DType::F32 => Some(kernels::DType::F32),
        DType::F16 => Some(kernels::DType::F16),
        DType::BF16 => Some(kernels::DType::BF16),
        _ => None,
    }
}

impl QRocmStorage {
    /// A storage for `elem_count` elements with all bytes 0.
    pub fn zeros(device: &RocmDevice, elem_count: usize, dtype: GgmlDType) -> Result<Self> {
        let bytes = elem_count.div_ceil(dtype.block_size()).saturating_mul(dtype.type_size());
        let buffer = device.handle().alloc(bytes).w()?;
        buffer.fill_bytes(0).w()?;
        Ok(Self { buffer, dtype, device: device.clone() })
    }

    fn from_bytes(device: &RocmDevice, bytes: &[u8], dtype: GgmlDType) -> Result<Self> {
        Ok(Self { buffer: device.handle().upload(bytes).w()?, dtype, device: device.clone() })
    }

    /// The next `bytes` bytes of a file, as a tensor's elements. None, and nothing is read, for formats that files of
    /// weights do not have.
    pub fn read(
        device: &RocmDevice,
        dtype: GgmlDType,
        bytes: usize,
        reader: &mut impl std::io::Read,
    ) -> Result<Option<Self>> {
        if matches!(dtype, GgmlDType::Q8_1 | GgmlDType::Q8K) {
            return Ok(None);
        }
        Ok(Some(Self { buffer: device.read(bytes, reader)?, dtype, device: device.clone() }))
    }

    /// The format.
    pub fn dtype(&self) -> GgmlDType {
        self.dtype
    }

    /// The device that holds the blocks.
    pub fn device(&self) -> &RocmDevice {
        &self.device
    }

    /// The blocks.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The launchers' number of the format, which equals GGUF's. Fails for plain floats and for q8_1, which is no
    /// format for weights.
    pub fn quant(&self) -> Result<kernels::Quant> {
        if !self.has_blocks() {
            bail!("there is no kernel for quantized weights of {:?}", self.dtype)
        }
        Ok(kernels::sys::crk_quant(self.dtype.to_u32()))
    }

    /// Rows of a matrix of this shape (n, k).
    pub fn rows(&self, shape: &Shape, rows: std::ops::Range<usize>) -> Result<QRows<'_>> {
        let (n, k) = shape.dims2()?;
        if rows.start > rows.end || rows.end > n {
            bail!("rows: rows is {rows:?}, and the matrix has {n}")
        }
        let bytes = k / self.dtype.block_size() * self.dtype.type_size();
        let blocks = self.buffer.range(rows.start * bytes..rows.end * bytes).w()?;
        Ok(QRows { storage: self, blocks, shape: (rows.len(), k) })
    }

    /// The size of the blocks in bytes.
    pub fn storage_size_in_bytes(&self) -> usize {
        self.buffer.bytes()
    }

    /// A copy of the blocks on the host.
    pub fn data(&self) -> Result<Vec<u8>> {
        self.buffer.download().w()
    }

    /// The device address of the blocks.
    pub fn device_ptr(&self) -> Result<*const u8> {
        Ok(self.buffer.as_ptr().cast_const().cast())
    }

    /// The dtype of plain floats; `None` for quantized blocks.
    fn floats(&self) -> Option<DType> {
        match self.dtype {
            GgmlDType::F32 => Some(DType::F32),
            GgmlDType::F16 => Some(DType::F16),
            GgmlDType::BF16 => Some(DType::BF16),
            _ => None,
        }
    }

    /// Whether kernels for the format's blocks exist. There are none for q8_1.
    fn has_blocks(&self) -> bool {
        self.floats().is_none() && self.dtype != GgmlDType::Q8_1
    }

    /// Whether the format has integer products.
    fn has_products(&self) -> bool {
        self.has_blocks() && self.dtype != GgmlDType::Q8K
    }

    fn dequantize_to(&self, elem_count: usize, dtype: DType) -> Result<RocmStorage> {
        let to = float(dtype).ok_or(RocmError::UnsupportedDtype { dtype, op: "dequantize" })?;
        if self.has_blocks() {
            let dst = self.device.empty_of(elem_count, dtype)?;
            self.device.handle().dequantize(self.quant()?, to, elem_count, &self.buffer, dst.memory()).w()?;
            return Ok(dst);
        }
        let Some(floats) = self.floats() else {
            let Storage::Cpu(cpu) = self.on_cpu()?.dequantize(elem_count)? else {
                bail!("dequantize: the cpu's storage is not on the cpu")
            };
            return self.device.storage_from_cpu_storage(&cpu)?.to_dtype(&Layout::contiguous(elem_count), dtype);
        };
        let layout = kernels::Layout::contiguous(&[elem_count]).w()?;
        let from = float(floats).ok_or(RocmError::UnsupportedDtype { dtype: floats, op: "dequantize" })?;
        let dst = self.device.empty_of(elem_count, dtype)?;
        self.device.handle().cast(from, to, &layout, &self.buffer, dst.memory()).w()?;
        Ok(dst)
    }

    /// The elements as f32.
    pub fn dequantize(&self, elem_count: usize) -> Result<RocmStorage> {
        self.dequantize_to(elem_count, DType::F32)
    }

    /// The elements as f16.
    pub fn dequantize_f16(&self, elem_count: usize) -> Result<RocmStorage> {
        self.dequantize_to(elem_count, DType::F16)
    }

    /// The same blocks in the CPU backend.
    fn on_cpu(&self) -> Result<QStorage> {
        QStorage::from_data(self.data()?.into(), &crate::Device::Cpu, self.dtype)
    }

    /// Replaces the blocks with those that `quantize` makes from `src` on the CPU. The CUDA backend quantizes on the
    /// CPU too.
    fn quantize_on_cpu(
        &mut self,
        src: &CpuStorage,
        quantize: impl FnOnce(&mut dyn QuantizedType, &[f32]),
    ) -> Result<()> {
        let src = src.as_slice::<f32>()?;
        let mut blocks = self.dtype.cpu_zeros(src.len());
        quantize(blocks.as_mut(), src);
        // SAFETY: the blocks occupy this many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(blocks.as_ptr(), blocks.storage_size_in_bytes()) };
        *self = Self::from_bytes(&self.device, bytes, self.dtype)?;
        Ok(())
    }

    /// Replaces the blocks with `src` in quantized form; `src` is f32 on a device.
    pub fn quantize(&mut self, src: &RocmStorage) -> Result<()> {
        self.quantize_onto(&src.to_cpu_storage()?)
    }

    /// As [`Self::quantize`], with importance weights.
    pub fn quantize_imatrix(&mut self, src: &RocmStorage, imatrix: &[f32], n_per_row: usize) -> Result<()> {
        self.quantize_imatrix_onto(&src.to_cpu_storage()?, imatrix, n_per_row)
    }

    /// Replaces the blocks with `src` in quantized form; `src` is f32 on the CPU.
    pub fn quantize_onto(&mut self, src: &CpuStorage) -> Result<()> {
        self.quantize_on_cpu(src, |blocks, src| blocks.from_float(src))
    }

    /// As [`Self::quantize_onto`], with importance weights.
    pub fn quantize_imatrix_onto(&mut self, src: &CpuStorage, imatrix: &[f32], n_per_row: usize) -> Result<()> {
        self.quantize_on_cpu(src, |blocks, src| blocks.from_float_imatrix(src, imatrix, n_per_row))
    }

    /// The rows of the table that `ids` (u32) selects, as f32.
    pub fn embedding(&self, rows: usize, hidden: usize, ids: &RocmStorage, ids_l: &Layout) -> Result<RocmStorage> {
        ids.expect_dtype(DType::U32, "get_rows", "ids")?;
        let (count, places) = (elements(ids_l.dims()), ids.range(ids_l, "get_rows", "ids")?);
        let dst = self.device.empty_of(elements(&[count, hidden]), DType::F32)?;
        let (handle, table, ids) = (self.device.handle(), (rows, hidden, &self.buffer), (count, places));
        match self.floats().and_then(float) {
            Some(dtype) => handle.get_rows_float(dtype, table, ids, dst.memory()).w()?,
            None => handle.get_rows(self.quant()?, table, ids, dst.memory()).w()?,
        }
        Ok(dst)
    }

    /// `x` (.., k) times the transposed weights (n, k): a result (.., n) with the dtype of `x`.
    pub fn fwd(&self, self_shape: &Shape, x: &RocmStorage, layout: &Layout) -> Result<(RocmStorage, Shape)> {
        let (n, k) = self_shape.dims2()?;
        let mut dims = layout.dims().to_vec();
        match dims.pop() {
            Some(last) if last == k && !dims.is_empty() => {}
            _ => bail!("mul_mat: weights of {self_shape:?} do not go with x of {:?}", layout.shape()),
        }
        let columns = elements(&dims);
        dims.push(n);
        let forced = FORCE_DMMV.load(std::sync::atomic::Ordering::Relaxed);
        let dst = match float(x.dtype()) {
            Some(dtype) if self.has_products() && !forced => {
                let dst = self.device.empty_of(elements(&dims), x.dtype())?;
                self.multiply(dtype, (n, k, columns), (x, layout), dst.memory())?;
                dst
            }
            Some(dtype) if self.has_products() && columns == 1 => {
                let view = x.range(layout, "mul_mat", "x")?;
                let dst = self.device.empty_of(n, DType::F32)?;
                let table = (n, k, &self.buffer);
                self.device.handle().dequantize_mul_mat_vec(self.quant()?, dtype, table, view, dst.memory()).w()?;
                Self::rounded(dst, n, x.dtype())?
            }
            Some(_) => {
                let weights = self.dequantize_to(self_shape.elem_count(), x.dtype())?;
                let weights_l = Layout::contiguous((n, k)).transpose(0, 1)?;
                x.range(layout, "mul_mat", "x")?;
                let x_l = Layout::contiguous_with_offset((columns, k), layout.start_offset());
                x.matmul(&weights, (1, columns, n, k), &x_l, &weights_l)?
            }
            None => Err(RocmError::UnsupportedDtype { dtype: x.dtype(), op: "mul_mat" })?,
        };
        Ok((dst, dims.into()))
    }

    /// Integer products. The activations of few columns are kept with `x`, for other weights.
    fn multiply(
        &self,
        dtype: kernels::DType,
        (n, k, columns): (usize, usize, usize),
        (x, layout): (&RocmStorage, &Layout),
        dst: &Buffer,
    ) -> Result<()> {
        let (quant, handle) = (self.quant()?, self.device.handle());
        match Part::of(layout) {
            Some(part) => {
                let kept = x.columns(part, dtype)?;
                let blocks = (&*kept.blocks, k / BLOCK);
                handle.mul_mat_vec_q8_1(quant, dtype, (n, k), columns, &self.buffer, blocks, (dst, n)).w()
            }
            None => {
                let view = x.range(layout, "mul_mat", "x")?;
                handle.mul_mat(quant, dtype, (n, k), columns, &self.buffer, view, dst).w()
            }
        }
    }

    /// The quantized columns of `x` if products with all of `weights` take them: integer products of one to eight rows,
    /// each with an element for each of the weights' columns.
    fn shared_columns(weights: &[QRows<'_>], x: &RocmStorage, layout: &Layout) -> Result<Option<Shared>> {
        let (Some(dtype), Some(part)) = (float(x.dtype()), Part::of(layout)) else { return Ok(None) };
        let takes = |QRows { storage, shape, .. }: &QRows<'_>| {
            storage.has_products() && storage.device.same_device(x.device()) && shape.1 == part.k
        };
        if FORCE_DMMV.load(std::sync::atomic::Ordering::Relaxed) || !weights.iter().all(takes) {
            return Ok(None);
        }
        Ok(Some(Shared { dtype, part, kept: x.columns(part, dtype)? }))
    }

    /// The products of [`Self::fwd`] with several matrices, and with their biases (f32) added, as `to`. Those of one
    /// format are a launch. None where `x` or the weights are not what the launch takes.
    pub fn products(
        weights: &[QRows<'_>],
        biases: &[Option<kernels::View<'_>>],
        x: &RocmStorage,
        layout: &Layout,
        to: DType,
    ) -> Result<Option<Vec<RocmStorage>>> {
        if weights.len() != biases.len() {
            bail!("products: {} weights, and {} biases", weights.len(), biases.len())
        }
        let Some(dtype) = float(to) else { return Ok(None) };
        let Some(Shared { part, kept, .. }) = Self::shared_columns(weights, x, layout)? else { return Ok(None) };
        let results = weights
            .iter()
            .map(|rows| x.device().empty_of(elements(&[part.count, rows.count()]), to))
            .collect::<Result<Vec<_>>>()?;
        for (first, QRows { storage: its, .. }) in weights.iter().enumerate() {
            let same = |other: &QRows<'_>| other.storage.dtype == its.dtype;
            if weights[..first].iter().any(same) {
                continue;
            }
            let of_format: Vec<_> = weights[first..]
                .iter()
                .zip(&results[first..])
                .zip(&biases[first..])
                .filter(|((weights, _), _)| same(weights))
                .map(|((rows, dst), bias)| (rows.count(), rows.blocks, dst.memory(), *bias))
                .collect();
            for group in of_format.chunks(kernels::sys::CRK_MOST_GROUPED as usize) {
                let columns = (&*kept.blocks, part.k / BLOCK);
                let (quant, handle) = (its.quant()?, its.device.handle());
                handle.mul_mat_vec_grouped(quant, dtype, part.k, part.count, group, columns).w()?;
            }
        }
        Ok(Some(results))
    }

    /// The heads of a token of f32, with biases of f32: `crk_mul_mat_vec_rope`. Those of one format are a launch. None
    /// as for [`Self::products`] and [`Heads::make`].
    pub fn heads(
        weights: [QRows<'_>; 3],
        biases: [Option<kernels::View<'_>>; 3],
        token: &Tensor,
        heads: &Heads<'_>,
    ) -> Result<Option<[Tensor; 3]>> {
        let (storage, layout) = token.storage_and_layout();
        let x = RocmStorage::of(&storage, "heads", "token")?;
        let Some(Shared { part, kept, .. }) = Self::shared_columns(&weights, x, layout)? else { return Ok(None) };
        if part.count != 1 || x.dtype() != DType::F32 {
            return Ok(None);
        }
        heads.make(token, |device, places, angles| {
            let part_of = |i: usize| kernels::HeadWeights {
                heads: heads.counts[i],
                layout: None,
                weights: weights[i].blocks,
                bias: biases[i],
                dst: places[i],
                rotates: i < 2,
            };
            for (first, QRows { storage: its, .. }) in weights.iter().enumerate() {
                let same = |other: &QRows<'_>| other.storage.dtype == its.dtype;
                if weights[..first].iter().any(same) {
                    continue;
                }
                let parts: Vec<_> = (first..3).filter(|i| same(&weights[*i])).map(part_of).collect();
                let sizes = (heads.d, part.k);
                device.mul_mat_vec_rope(its.quant()?, heads.kind(), sizes, &parts, &kept.blocks, angles).w()?;
            }
            Ok(())
        })
    }

    /// `op(x * gate) * (x * up)`, with its columns for another product. None as for [`Self::products`], and for weights
    /// of two formats or sizes.
    pub fn gate(
        op: kernels::GateOp,
        [gate, up]: [QRows<'_>; 2],
        x: &RocmStorage,
        layout: &Layout,
    ) -> Result<Option<RocmStorage>> {
        if gate.storage.dtype != up.storage.dtype || gate.shape != up.shape {
            return Ok(None);
        }
        let Some(Shared { dtype, part, kept }) = Self::shared_columns(&[gate, up], x, layout)? else { return Ok(None) };
        let (n, k, device) = (gate.count(), part.k, x.device());
        let dst = device.empty_of(elements(&[part.count, n]), x.dtype())?;
        let made = columns_beside(device, true, x.dtype(), (part.count, n))?;
        let (weights, blocks) = ([gate.blocks, up.blocks], made.as_ref().map(|made| &*made.blocks));
        let (quant, shape, handle) = (gate.storage.quant()?, (n, k), device.handle());
        handle
            .mul_mat_vec_gate(op, quant, dtype, shape, part.count, weights, &kept.blocks, dst.memory(), blocks)
            .w()?;
        Ok(Some(dst.with_columns(made)))
    }

    /// The gates of the experts of some tokens, with the columns for the next product. The weights are (experts, n, k),
    /// `x` has rows of k f32. None as for [`Self::gate`].
    pub fn expert_gate(
        op: kernels::GateOp,
        [gate, up]: [(&Self, &Shape); 2],
        routes: kernels::Routes<'_>,
        x: &RocmStorage,
        layout: &Layout,
    ) -> Result<Option<RocmStorage>> {
        let (experts, n, k) = gate.1.dims3()?;
        let takes = gate.0.dtype == up.0.dtype
            && gate.1 == up.1
            && gate.0.has_products()
            && x.dtype() == DType::F32
            && layout.dims().last() == Some(&k)
            && n % BLOCK == 0
            && gate.0.device.same_device(x.device())
            && up.0.device.same_device(x.device());
        if !takes {
            return Ok(None);
        }
        let Some(columns) = x.columns_of(layout)? else { return Ok(None) };
        let (device, count) = (x.device(), routes.tokens);
        let dst = device.empty_of(elements(&[count, n]), DType::F32)?;
        let made = columns_beside(device, true, DType::F32, (count, n))?;
        let (weights, blocks) = ([&gate.0.buffer, &up.0.buffer], made.as_ref().map(|made| &*made.blocks));
        let shape = (experts, n, k);
        device
            .handle()
            .moe_gguf_gate(op, gate.0.quant()?, shape, routes, weights, &columns, dst.memory(), blocks)
            .w()?;
        Ok(Some(dst.with_columns(made)))
    }

    fn rounded(storage: RocmStorage, count: usize, dtype: DType) -> Result<RocmStorage> {
        if storage.dtype() == dtype {
            return Ok(storage);
        }
        storage.to_dtype(&Layout::contiguous(count), dtype)
    }

    /// `x` (batch, topk or 1, k) times the transposed weights of the experts that `ids` (batch, topk) selects. `self`
    /// holds the weights (experts, n, k); the result is (batch, topk, n).
    pub fn indexed_moe_forward(
        &self,
        self_shape: &Shape,
        x: &RocmStorage,
        x_l: &Layout,
        ids: &RocmStorage,
        ids_l: &Layout,
    ) -> Result<(RocmStorage, Shape)> {
        let (experts, n, k) = self_shape.dims3()?;
        let (batch, inputs, x_k) = x_l.shape().dims3()?;
        let (ids_batch, topk) = ids_l.shape().dims2()?;
        if x_k != k || ids_batch != batch {
            bail!(
                "indexed_moe: weights {self_shape:?}, x {:?} and ids {:?} do not go together",
                x_l.shape(),
                ids_l.shape()
            )
        }
        ids.expect_dtype(DType::U32, "indexed_moe", "ids")?;
        let dtype = float(x.dtype()).ok_or(RocmError::UnsupportedDtype { dtype: x.dtype(), op: "indexed_moe" })?;
        let (view, places) = (x.range(x_l, "indexed_moe", "x")?, ids.range(ids_l, "indexed_moe", "ids")?);
        let dst = self.device.empty_of(elements(&[batch, topk, n]), x.dtype())?;
        let (shape, tokens, weights) = ((experts, n, k), (batch, topk, inputs), &self.buffer);
        self.device
            .handle()
            .indexed_moe(self.quant()?, dtype, shape, tokens, weights, view, places, dst.memory())
            .w()?;
        Ok((dst, (batch, topk, n).into()))
    }
}

impl super::QTensor {
    /// The storage of a tensor that is on a ROCm device.
    pub fn rocm_storage(&self) -> Result<&QRocmStorage> {
        match &self.storage {
            QStorage::Rocm(storage) => Ok(storage),
            _ => bail!("the quantized tensor is on {:?}, not on a rocm device", self.device()),
        }
    }
}

/// Blocks of `T` on a device.
pub fn load_quantized<T: super::GgmlType + Send + Sync + 'static>(device: &RocmDevice, data: &[T]) -> Result<QStorage> {
    // SAFETY: blocks are plain numbers without padding.
    let bytes = unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), std::mem::size_of_val(data)) };
    Ok(QStorage::Rocm(QRocmStorage::from_bytes(device, bytes, T::DTYPE)?))
}

/// The CUDA backend's unit tests of quantized products, run on this backend.
#[cfg(test)]
mod test {
    use super::*;
    use crate::quantized::{QMatMul, QTensor};
    use crate::{Device, Module, Tensor};

    fn ramp(device: &RocmDevice, count: usize, step: f32) -> Result<RocmStorage> {
        let values: Vec<f32> = (0..count).map(|i| i as f32 * step).collect();
        device.storage_from_cpu_storage(&CpuStorage::F32(values))
    }

    fn product(shape: (usize, usize), step: f32, columns: usize) -> Result<Vec<f32>> {
        let (n, k) = shape;
        let device = RocmDevice::new(0)?;
        let x = ramp(&device, n.max(columns) * k, step)?;
        let mut weights = QRocmStorage::zeros(&device, n * k, GgmlDType::Q4_0)?;
        weights.quantize(&ramp(&device, n * k, step)?)?;
        let (dst, shape) = weights.fwd(&(n, k).into(), &x, &Layout::contiguous((columns, k)))?;
        assert_eq!(shape.dims(), [columns, n]);
        let CpuStorage::F32(values) = dst.to_cpu_storage()? else { bail!("a product of f32 is not of f32") };
        Ok(values)
    }

    #[test]
    fn rocm_quantize_q8_1() -> Result<()> {
        let device = RocmDevice::new(0)?;
        let x = ramp(&device, 256, 1.0)?;
        // SAFETY: the function only computes a byte count from its arguments.
        let bytes = unsafe { kernels::sys::crk_q8_1_bytes(1, 256) };
        let blocks = device.handle().alloc(bytes).w()?;
        device.handle().quantize_q8_1(kernels::DType::F32, 1, 256, x.buffer(), &blocks).w()?;
        let blocks: Vec<i8> = blocks.download().w()?;
        // A block's scale and sum come before its 32 codes. The largest number of the block has code 127.
        assert_eq!((blocks[4], blocks[4 + 31]), (0, 127));
        Ok(())
    }

    /// The same product on Candle's CPU device.
    fn on_cpu((n, k): (usize, usize), step: f64, columns: usize) -> Result<Vec<f32>> {
        let ramp = |rows: usize| (Tensor::arange(0f32, (rows * k) as f32, &Device::Cpu)? * step)?.reshape((rows, k));
        let weights = QTensor::quantize(&ramp(n)?, GgmlDType::Q4_0)?;
        QMatMul::from_qtensor(weights)?.forward(&ramp(columns)?)?.flatten_all()?.to_vec1()
    }

    /// CUDA's products of these numbers are up to 5e-4 of them away.
    fn is_as_on_cpu(shape: (usize, usize), step: f32, columns: usize) -> Result<()> {
        let (values, expected) = (product(shape, step, columns)?, on_cpu(shape, step.into(), columns)?);
        for (at, (value, expected)) in values.iter().zip(&expected).enumerate() {
            assert!((value - expected).abs() <= 2e-4 * expected, "{columns} columns, {at}: {value} is not {expected}");
        }
        Ok(())
    }

    #[test]
    fn rocm_mmv_q8_1() -> Result<()> {
        is_as_on_cpu((1, 256), 1.0, 1)
    }

    #[test]
    fn rocm_mm_q8_1() -> Result<()> {
        is_as_on_cpu((4, 256), 0.25, 4)?;
        is_as_on_cpu((4, 256), 0.25, 16)
    }

    #[test]
    fn rocm_mm_q8_1_pad() -> Result<()> {
        // A row length that is not a multiple of the block of 32 cannot be quantized. These are the shortest valid
        // rows, with many columns.
        assert_eq!(product((4, 32), 1.0 / 256.0, 2048)?.len(), 4 * 2048);
        Ok(())
    }
}
