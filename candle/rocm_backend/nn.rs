//! Ops outside the backend trait: candle-nn's custom ops, and argsort.
use super::columns::{Columns, Part};
use super::layout::{OfAnyRank, Source, layout_of};
use super::storage::dtype_of;
use super::{RocmDevice, RocmStorage, WrapErr, elements, kernels};
use crate::backend::BackendStorage;
use crate::{DType, Layout, Result, Shape};
use candle_rocm_sys::Buffer;

type Pair<'a> = (&'a Buffer, &'a Buffer);
type Stored<'a> = (&'a RocmStorage, &'a Layout);

/// Memory for the activations of a result of `rows` rows of `cols` elements, if they are wanted and few enough to be
/// kept, and if products take its dtype.
pub(crate) fn columns_beside(
    device: &RocmDevice,
    wanted: bool,
    dtype: DType,
    (rows, cols): (usize, usize),
) -> Result<Option<Columns>> {
    let wanted = wanted && matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    let part = Part::of(&Layout::contiguous((rows, cols))).filter(|_| wanted);
    part.map(|part| Columns::empty(device.handle(), part)).transpose()
}

/// Checks that another operand has the dims of `x`.
fn expect_dims(other: &Layout, x: &Layout, op: &'static str) -> Result<()> {
    if other.dims() != x.dims() {
        let (lhs, rhs) = (x.shape().clone(), other.shape().clone());
        Err(crate::Error::ShapeMismatchBinaryOp { lhs, rhs, op }.bt())?
    }
    Ok(())
}

impl RocmStorage {
    /// An op on the last dim. Its result has dtype `gives` and the shape of the source.
    fn map_rows(
        &self,
        layout: &Layout,
        op: &'static str,
        gives: DType,
        launch: impl FnOnce(&kernels::Device, kernels::DType, Source<'_>, &Buffer) -> kernels::Result<()>,
    ) -> Result<(Self, Shape)> {
        let (dtype, shape) = (dtype_of(self.dtype(), op)?, layout.shape());
        let last = [shape.rank().saturating_sub(1)];
        let tensors = OfAnyRank::new([self.with(layout)], &last)?;
        let [src] = tensors.sources();
        let dst = self.produce(elements(shape.dims()), gives, |device, dst| launch(device, dtype, src, dst))?;
        Ok((dst, shape.clone()))
    }

    /// `1 / (1 + exp(-x))`.
    pub fn sigmoid(&self, layout: &Layout) -> Result<(Self, Shape)> {
        let dst = self.map(layout, "sigmoid", |device, dtype, (l, src), dst| {
            device.unary(kernels::UnaryOp::Sigmoid, dtype, l, src, dst)
        })?;
        Ok((dst, layout.shape().clone()))
    }

    /// Softmax over the last dim of a contiguous tensor.
    pub fn softmax_last_dim(&self, layout: &Layout) -> Result<(Self, Shape)> {
        self.map_rows(layout, "softmax", self.dtype(), |device, dtype, (l, src), dst| {
            device.softmax(dtype, l, src, dst)
        })
    }

    /// `x / sqrt(mean(x^2) + eps) * alpha` over the last dim. Both tensors are contiguous.
    pub fn rms_norm(&self, layout: &Layout, alpha: &Self, alpha_l: &Layout, eps: f32) -> Result<(Self, Shape)> {
        alpha.expect_dtype(self.dtype(), "rms_norm", "alpha")?;
        let alpha = Some(alpha.range(alpha_l, "rms_norm", "alpha")?);
        self.map_rows(layout, "rms_norm", self.dtype(), |device, dtype, (l, src), dst| {
            device.rms_norm(dtype, l, src, alpha, dst, eps)
        })
    }

    /// `x + residual` and its `rms_norm`, in one launch; without a residual, the norm of `x`. With weights
    /// beside the residual, the norm of `x` by them takes the place of `x`. All tensors are contiguous.
    /// `for_products`: the last norm is the input of quantized products, so its activations are made with it.
    pub fn add_rms_norm<'a>(
        &'a self,
        layout: &Layout,
        residual: Option<(Stored<'a>, Option<Stored<'a>>)>,
        alpha: Stored<'a>,
        eps: f32,
        for_products: bool,
    ) -> Result<(Option<Self>, Self)> {
        let op = "add_rms_norm";
        let dtype = dtype_of(self.dtype(), op)?;
        let count = elements(layout.dims());
        let cols = layout.dims().last().copied().unwrap_or(1);
        let view = |(storage, layout): Stored<'a>, name| {
            storage.expect_dtype(self.dtype(), op, name)?;
            storage.range(layout, op, name)
        };
        let (x, alpha) = (self.range(layout, op, "x")?, Some(view(alpha, "alpha")?));
        let (device, rows) = (self.device(), count.checked_div(cols).unwrap_or(0));
        let (residual, x_alpha) = residual.unzip();
        let x_alpha = x_alpha.flatten().map(|x_alpha| view(x_alpha, "x_alpha")).transpose()?;
        let residual = residual.map(|residual| {
            expect_dims(residual.1, layout, op)?;
            view(residual, "residual")
        });
        let residual = residual.transpose()?;
        let sum = residual.map(|_| device.empty_of(count, self.dtype())).transpose()?;
        let normed = device.empty_of(count, self.dtype())?;
        let columns = columns_beside(device, for_products, self.dtype(), (rows, cols))?;
        let operands = residual.zip(sum.as_ref().map(Self::memory));
        let (size, dst, blocks) = ((rows, cols), normed.memory(), columns.as_ref().map(|columns| &*columns.blocks));
        match operands.filter(|_| x_alpha.is_some()) {
            Some(operands) => {
                device.handle().norm_add_rms_norm(dtype, size, (x, x_alpha), operands, alpha, dst, blocks, eps)
            }
            None => device.handle().add_rms_norm(dtype, size, x, operands, alpha, dst, blocks, eps),
        }
        .w()?;
        Ok((sum, normed.with_columns(columns)))
    }

    /// `activation(self) * up`, in one launch. `for_products`: as in [`RocmStorage::add_rms_norm`].
    pub fn gate(
        &self,
        activation: kernels::GateOp,
        layout: &Layout,
        (up, up_l): (&Self, &Layout),
        for_products: bool,
    ) -> Result<Self> {
        let op = "gate";
        up.expect_dtype(self.dtype(), op, "up")?;
        expect_dims(up_l, layout, op)?;
        let (rows, cols) = match layout.dims().split_last() {
            Some((cols, rows)) => (elements(rows), *cols),
            None => (1, 1),
        };
        let wanted = for_products && layout.is_contiguous() && up_l.is_contiguous();
        if let Some(columns) = columns_beside(self.device(), wanted, self.dtype(), (rows, cols))? {
            let dtype = dtype_of(self.dtype(), op)?;
            let (gate, up) = (self.range(layout, op, "gate")?, up.range(up_l, op, "up")?);
            let dst = self.device().empty_of(elements(layout.dims()), self.dtype())?;
            let handle = self.device().handle();
            handle.gate_columns(activation, dtype, (rows, cols), gate, up, dst.memory(), &columns.blocks).w()?;
            return Ok(dst.with_columns(Some(columns)));
        }
        let gives = (elements(layout.dims()), self.dtype());
        Self::compute(op, [self.with(layout), up.with(up_l)], gives, |device, dtype, [gate, up], dst| {
            device.gate(activation, dtype, gate, up, dst)
        })
    }

    /// The products of a row, all elements of `layout`, with weights (n, k) transposed, and with their biases added:
    /// `crk_matmul_grouped`. There are one to three weights, of the row's dtype.
    pub fn row_products(
        &self,
        layout: &Layout,
        weights: &[(&Self, &Layout)],
        biases: &[Option<kernels::View<'_>>],
    ) -> Result<Vec<Self>> {
        let op = "row_products";
        if weights.len() != biases.len() {
            crate::bail!("{op}: {} weights, and {} biases", weights.len(), biases.len())
        }
        let (x, k) = (self.range(layout, op, "x")?, elements(layout.dims()));
        let layouts = weights.iter().map(|(_, layout)| layout_of(layout)).collect::<Result<Vec<_>>>()?;
        let results = weights
            .iter()
            .map(|(weights, layout)| {
                weights.expect_dtype(self.dtype(), op, "weights")?;
                self.device().empty_of(layout.shape().dims2()?.0, self.dtype())
            })
            .collect::<Result<Vec<_>>>()?;
        let products: Vec<_> = weights
            .iter()
            .zip(&layouts)
            .zip(&results)
            .zip(biases)
            .map(|((((weights, _), layout), dst), bias)| {
                ((layout, weights.memory()).into(), dst.memory().into(), *bias)
            })
            .collect();
        self.device().handle().matmul_grouped(dtype_of(self.dtype(), op)?, k, x, &products).w()?;
        Ok(results)
    }

    /// `activation(gate * row) * (up * row)` of such products: `crk_matmul_gate`.
    pub fn row_gate(
        &self,
        activation: kernels::GateOp,
        layout: &Layout,
        (gate, gate_l): (&Self, &Layout),
        (up, up_l): (&Self, &Layout),
    ) -> Result<Self> {
        let op = "row_gate";
        gate.expect_dtype(self.dtype(), op, "gate")?;
        up.expect_dtype(self.dtype(), op, "up")?;
        let (x, k) = (self.range(layout, op, "x")?, elements(layout.dims()));
        let dst = self.device().empty_of(gate_l.shape().dims2()?.0, self.dtype())?;
        let (gate_layout, up_layout) = (layout_of(gate_l)?, layout_of(up_l)?);
        let (gate, up) = ((&gate_layout, gate.memory()).into(), (&up_layout, up.memory()).into());
        let dtype = dtype_of(self.dtype(), op)?;
        self.device().handle().matmul_gate(activation, dtype, k, x, gate, up, dst.memory()).w()?;
        Ok(dst)
    }

    /// The choice of experts by their logits, (tokens, experts) and contiguous: weights (tokens, topk), and the experts
    /// and results in the order of the experts.
    pub fn route(
        &self,
        layout: &Layout,
        (experts, tokens, topk): (usize, usize, usize),
        normalise: bool,
    ) -> Result<[Self; 3]> {
        self.expect_dtype(DType::F32, "route", "logits")?;
        let logits = self.range(layout, "route", "logits")?;
        self.routes(elements(&[tokens, topk]), |device, results, lists| {
            device.moe_route((experts, tokens, topk), normalise, logits, results, lists)
        })
    }

    /// The same of a row and the matrix (experts, k) that gives its logits, which is contiguous and of the row's dtype.
    pub fn row_route(
        &self,
        layout: &Layout,
        (weights, weights_l): (&Self, &Layout),
        topk: usize,
        normalise: bool,
    ) -> Result<[Self; 3]> {
        let op = "route";
        weights.expect_dtype(self.dtype(), op, "weights")?;
        let (x, matrix) = (self.range(layout, op, "x")?, weights.range(weights_l, op, "weights")?);
        let (dtype, (experts, k)) = (dtype_of(self.dtype(), op)?, weights_l.shape().dims2()?);
        self.routes(topk, |device, results, lists| {
            device.moe_router(dtype, (experts, k, topk), normalise, matrix, x, results, lists)
        })
    }

    /// The results of `launch`, of `count` numbers each.
    fn routes(
        &self,
        count: usize,
        launch: impl FnOnce(&kernels::Device, Pair<'_>, Option<Pair<'_>>) -> kernels::Result<()>,
    ) -> Result<[Self; 3]> {
        let empty = |dtype| self.device().empty_of(count, dtype);
        let (weights, ids) = (empty(DType::F32)?, empty(DType::U32)?);
        let (sorted, of) = (empty(DType::U32)?, empty(DType::U32)?);
        let (results, lists) = ((weights.memory(), ids.memory()), (sorted.memory(), of.memory()));
        launch(self.device().handle(), results, Some(lists)).w()?;
        Ok([weights, of, sorted])
    }

    /// `(x - mean) / sqrt(variance + eps) * alpha + beta` over the last dim. All tensors are contiguous.
    pub fn layer_norm(
        &self,
        layout: &Layout,
        alpha: &Self,
        alpha_l: &Layout,
        beta: &Self,
        beta_l: &Layout,
        eps: f32,
    ) -> Result<(Self, Shape)> {
        alpha.expect_dtype(self.dtype(), "layer_norm", "alpha")?;
        beta.expect_dtype(self.dtype(), "layer_norm", "beta")?;
        let alpha = Some(alpha.range(alpha_l, "layer_norm", "alpha")?);
        let beta = Some(beta.range(beta_l, "layer_norm", "beta")?);
        self.map_rows(layout, "layer_norm", self.dtype(), |device, dtype, (l, src), dst| {
            device.layer_norm(dtype, l, src, alpha, beta, dst, eps)
        })
    }

    /// A parameter of an op on this tensor: contiguous, and of the same dtype.
    fn parameter<'a>(
        &self,
        (storage, layout): (&'a Self, &Layout),
        op: &'static str,
        argument: &'static str,
    ) -> Result<kernels::View<'a>> {
        storage.expect_dtype(self.dtype(), op, argument)?;
        storage.range(layout, op, argument)
    }

    /// `(x - mean) / sqrt(var + eps) * weight + bias` of (batch, channels, ..), with the mean and the variance of each
    /// channel, and perhaps its weight and bias. All tensors are contiguous.
    pub fn batch_norm(
        &self,
        layout: &Layout,
        statistics: [(&Self, &Layout); 2],
        affine: Option<[(&Self, &Layout); 2]>,
        eps: f64,
    ) -> Result<Self> {
        let op = "batch_norm";
        let ([mean, var], dims) = (statistics, layout.dims());
        let [batch, channels, rest @ ..] = dims else {
            crate::bail!("{op}: x has the dims {dims:?}, it must have two at least")
        };
        let (mean, var) = (self.parameter(mean, op, "mean")?, self.parameter(var, op, "var")?);
        let (weight, bias) = match affine {
            Some([weight, bias]) => {
                (Some(self.parameter(weight, op, "weight")?), Some(self.parameter(bias, op, "bias")?))
            }
            None => (None, None),
        };
        // The call fails where x is not contiguous.
        self.range(layout, op, "x")?;
        // The dims after the channels are joined, so that any rank is allowed.
        let images = Layout::contiguous_with_offset((*batch, *channels, elements(rest)), layout.start_offset());
        let (dtype, images) = (dtype_of(self.dtype(), op)?, layout_of(&images)?);
        self.produce(elements(dims), self.dtype(), |device, dst| {
            device.batch_norm(dtype, &images, self.memory(), (mean, var), (weight, bias), dst, eps)
        })
    }

    /// `(x - mean) / sqrt(variance + eps) * weight + bias` of (batch, channels, ..), with mean and variance of each
    /// group of channels of an image. With `silu`, silu of that. All tensors are contiguous.
    pub fn group_norm(
        &self,
        layout: &Layout,
        (groups, silu): (usize, bool),
        [weight, bias]: [(&Self, &Layout); 2],
        eps: f64,
    ) -> Result<Self> {
        let (op, dims) = ("group_norm", layout.dims());
        let [batch, channels, rest @ ..] = dims else {
            crate::bail!("{op}: x has the dims {dims:?}, it must have two at least")
        };
        let (weight, bias) = (self.parameter(weight, op, "weight")?, self.parameter(bias, op, "bias")?);
        // The call fails where x is not contiguous.
        self.range(layout, op, "x")?;
        // The dims after the channels are joined, so that any rank is allowed.
        let images = Layout::contiguous_with_offset((*batch, *channels, elements(rest)), layout.start_offset());
        let (dtype, images) = (dtype_of(self.dtype(), op)?, layout_of(&images)?);
        self.produce(elements(dims), self.dtype(), |device, dst| {
            let affine = (Some(weight), Some(bias));
            device.group_norm(dtype, &images, (groups, silu), self.memory(), affine, dst, eps)
        })
    }

    /// Rotary embeddings of (batch, heads, tokens, d). Element i of a row is paired with element i + d/2.
    pub fn rope(&self, l: &Layout, cos: &Self, cos_l: &Layout, sin: &Self, sin_l: &Layout) -> Result<(Self, Shape)> {
        self.rope_kind(kernels::RopeKind::Rope, l, (cos, cos_l), (sin, sin_l))
    }

    /// Rotary embeddings of (batch, heads, tokens, d). Neighbouring elements of a row are paired.
    pub fn rope_i(&self, l: &Layout, cos: &Self, cos_l: &Layout, sin: &Self, sin_l: &Layout) -> Result<(Self, Shape)> {
        self.rope_kind(kernels::RopeKind::RopeI, l, (cos, cos_l), (sin, sin_l))
    }

    /// Rotary embeddings of (batch, tokens, heads, d). Elements are paired as in [`RocmStorage::rope`].
    pub fn rope_thd(
        &self,
        l: &Layout,
        cos: &Self,
        cos_l: &Layout,
        sin: &Self,
        sin_l: &Layout,
    ) -> Result<(Self, Shape)> {
        self.rope_kind(kernels::RopeKind::RopeThd, l, (cos, cos_l), (sin, sin_l))
    }

    fn rope_kind(
        &self,
        kind: kernels::RopeKind,
        layout: &Layout,
        (cos, cos_l): (&Self, &Layout),
        (sin, sin_l): (&Self, &Layout),
    ) -> Result<(Self, Shape)> {
        cos.expect_dtype(self.dtype(), "rope", "cos")?;
        sin.expect_dtype(self.dtype(), "rope", "sin")?;
        let tensors = [self.with(layout), cos.with(cos_l), sin.with(sin_l)];
        let gives = (elements(layout.dims()), self.dtype());
        let dst = Self::compute("rope", tensors, gives, |device, dtype, [src, cos, sin], dst| {
            device.rope(kind, dtype, src, cos, sin, dst)
        })?;
        Ok((dst, layout.shape().clone()))
    }

    /// For each row (last dim) of a contiguous tensor, the positions of its elements in sorted order, as u32.
    pub fn arg_sort(&self, layout: &Layout, ascending: bool) -> Result<(Self, Shape)> {
        self.map_rows(layout, "argsort", DType::U32, |device, dtype, (l, src), dst| {
            device.argsort(dtype, l, src, ascending, dst, None)
        })
    }
}
