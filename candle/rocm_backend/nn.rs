//! Ops that are not the backend trait's: candle-nn's, and argsort.
use super::storage::{dtype_of, layout_of};
use super::{RocmStorage, kernels};
use crate::backend::BackendStorage;
use crate::{DType, Layout, Result, Shape};
use candle_rocm_sys::Buffer;
use candle_rocm_sys::sys::{crk_rope_kind, crk_unary_op};

impl RocmStorage {
    /// A result of the same dtype and shape, of an op that has one source with a layout.
    fn same_shape(
        &self,
        layout: &Layout,
        op: &'static str,
        launch: impl FnOnce(&kernels::Device, kernels::DType, &kernels::Layout, &Buffer) -> kernels::Result<()>,
    ) -> Result<(Self, Shape)> {
        let (dtype, l, shape) = (dtype_of(self.dtype(), op)?, layout_of(layout)?, layout.shape());
        let dst = self.produce(shape.elem_count(), self.dtype(), |device, dst| launch(device, dtype, &l, dst))?;
        Ok((dst, shape.clone()))
    }

    /// `1 / (1 + exp(-x))`.
    pub fn sigmoid(&self, layout: &Layout) -> Result<(Self, Shape)> {
        self.same_shape(layout, "sigmoid", |device, dtype, l, dst| {
            device.unary(crk_unary_op::CRK_UNARY_SIGMOID, dtype, l, self.buffer(), dst)
        })
    }

    /// Softmax over the last dim of a contiguous tensor.
    pub fn softmax_last_dim(&self, layout: &Layout) -> Result<(Self, Shape)> {
        self.same_shape(layout, "softmax", |device, dtype, l, dst| device.softmax(dtype, l, self.buffer(), dst))
    }

    /// `x / sqrt(mean(x^2) + eps) * alpha` over the last dim; both contiguous.
    pub fn rms_norm(&self, layout: &Layout, alpha: &Self, alpha_l: &Layout, eps: f32) -> Result<(Self, Shape)> {
        alpha.expect_dtype(self.dtype(), "rms-norm alpha")?;
        let alpha = Some(alpha.contiguous(alpha_l, "rms-norm")?);
        self.same_shape(layout, "rms-norm", |device, dtype, l, dst| {
            device.rms_norm(dtype, l, self.buffer(), alpha, dst, eps)
        })
    }

    /// `(x - mean) / sqrt(variance + eps) * alpha + beta` over the last dim; all contiguous.
    pub fn layer_norm(
        &self,
        layout: &Layout,
        alpha: &Self,
        alpha_l: &Layout,
        beta: &Self,
        beta_l: &Layout,
        eps: f32,
    ) -> Result<(Self, Shape)> {
        alpha.expect_dtype(self.dtype(), "layer-norm alpha")?;
        beta.expect_dtype(self.dtype(), "layer-norm beta")?;
        let (alpha, beta) = (alpha.contiguous(alpha_l, "layer-norm")?, beta.contiguous(beta_l, "layer-norm")?);
        self.same_shape(layout, "layer-norm", |device, dtype, l, dst| {
            device.layer_norm(dtype, l, self.buffer(), Some(alpha), Some(beta), dst, eps)
        })
    }

    /// Rotary embeddings of (batch, heads, tokens, d), an element paired with the one half a row further.
    pub fn rope(&self, l: &Layout, cos: &Self, cos_l: &Layout, sin: &Self, sin_l: &Layout) -> Result<(Self, Shape)> {
        self.rope_kind(crk_rope_kind::CRK_ROPE_KIND_ROPE, l, (cos, cos_l), (sin, sin_l))
    }

    /// The same, neighbours paired.
    pub fn rope_i(&self, l: &Layout, cos: &Self, cos_l: &Layout, sin: &Self, sin_l: &Layout) -> Result<(Self, Shape)> {
        self.rope_kind(crk_rope_kind::CRK_ROPE_KIND_ROPE_I, l, (cos, cos_l), (sin, sin_l))
    }

    /// As [`RocmStorage::rope`], of (batch, tokens, heads, d).
    pub fn rope_thd(
        &self,
        l: &Layout,
        cos: &Self,
        cos_l: &Layout,
        sin: &Self,
        sin_l: &Layout,
    ) -> Result<(Self, Shape)> {
        self.rope_kind(crk_rope_kind::CRK_ROPE_KIND_ROPE_THD, l, (cos, cos_l), (sin, sin_l))
    }

    fn rope_kind(
        &self,
        kind: crk_rope_kind,
        layout: &Layout,
        (cos, cos_l): (&Self, &Layout),
        (sin, sin_l): (&Self, &Layout),
    ) -> Result<(Self, Shape)> {
        cos.expect_dtype(self.dtype(), "rope cos")?;
        sin.expect_dtype(self.dtype(), "rope sin")?;
        let (cos_l, sin_l) = (layout_of(cos_l)?, layout_of(sin_l)?);
        self.same_shape(layout, "rope", |device, dtype, l, dst| {
            device.rope(kind, dtype, (l, self.buffer()), (&cos_l, cos.buffer()), (&sin_l, sin.buffer()), dst)
        })
    }

    /// The positions that sort each row of the last dim of a contiguous tensor, as u32.
    pub fn arg_sort(&self, layout: &Layout, ascending: bool) -> Result<(Self, Shape)> {
        let (dtype, l, shape) = (dtype_of(self.dtype(), "argsort")?, layout_of(layout)?, layout.shape());
        let dst = self.produce(shape.elem_count(), DType::U32, |device, dst| {
            device.argsort(dtype, &l, self.buffer(), ascending, dst, None)
        })?;
        Ok((dst, shape.clone()))
    }
}
