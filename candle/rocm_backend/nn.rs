//! Ops outside the backend trait: candle-nn's custom ops, and argsort.
use super::layout::{OfAnyRank, Source};
use super::storage::dtype_of;
use super::{RocmStorage, elements, kernels};
use crate::backend::BackendStorage;
use crate::{DType, Layout, Result, Shape};
use candle_rocm_sys::Buffer;

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
        let alpha = Some(alpha.contiguous(alpha_l, "rms_norm", "alpha")?);
        self.map_rows(layout, "rms_norm", self.dtype(), |device, dtype, (l, src), dst| {
            device.rms_norm(dtype, l, src, alpha, dst, eps)
        })
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
        let alpha = Some(alpha.contiguous(alpha_l, "layer_norm", "alpha")?);
        let beta = Some(beta.contiguous(beta_l, "layer_norm", "beta")?);
        self.map_rows(layout, "layer_norm", self.dtype(), |device, dtype, (l, src), dst| {
            device.layer_norm(dtype, l, src, alpha, beta, dst, eps)
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
