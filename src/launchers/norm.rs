//! Softmax and norms. The contracts are in `include/candle_rocm/launchers/norm.h`.
use crate::{Buffer, DType, Device, Layout, Result, View};

impl Device {
    /// Softmax over the last dim: `crk_softmax`.
    pub fn softmax(&self, dtype: DType, layout: &Layout, src: &Buffer, dst: &Buffer) -> Result<()> {
        launch!(self.crk_softmax(dtype, layout, src, dst))
    }

    /// `x / sqrt(mean(x^2) + eps) * alpha` over the last dim: `crk_rms_norm`.
    pub fn rms_norm(
        &self,
        dtype: DType,
        layout: &Layout,
        src: &Buffer,
        alpha: Option<View<'_>>,
        dst: &Buffer,
        eps: f32,
    ) -> Result<()> {
        launch!(self.crk_rms_norm(dtype, layout, src, alpha, dst, eps))
    }

    /// `sum = x + residual` and `dst = rms_norm(sum) * alpha`, of `rows` rows of `cols` elements; `residual` and `sum`
    /// may be absent. With `columns`, dst also becomes activations of a quantized product: `crk_add_rms_norm`.
    #[allow(clippy::too_many_arguments)]
    pub fn add_rms_norm<'a>(
        &self,
        dtype: DType,
        (rows, cols): (usize, usize),
        x: impl Into<View<'a>>,
        residual: Option<(View<'_>, &Buffer)>,
        alpha: Option<View<'_>>,
        dst: &Buffer,
        columns: Option<&Buffer>,
        eps: f32,
    ) -> Result<()> {
        let (residual, sum) = residual.unzip();
        launch!(self.crk_add_rms_norm(dtype, rows, cols, x, residual, alpha, sum, dst, columns, eps))
    }

    /// `sum = rms_norm(x) * x_alpha + residual`, and the rest as [`add_rms_norm`](Self::add_rms_norm):
    /// `crk_norm_add_rms_norm`.
    #[allow(clippy::too_many_arguments)]
    pub fn norm_add_rms_norm<'a>(
        &self,
        dtype: DType,
        (rows, cols): (usize, usize),
        (x, x_alpha): (impl Into<View<'a>>, Option<View<'_>>),
        (residual, sum): (View<'_>, &Buffer),
        alpha: Option<View<'_>>,
        dst: &Buffer,
        columns: Option<&Buffer>,
        eps: f32,
    ) -> Result<()> {
        launch!(self.crk_norm_add_rms_norm(dtype, rows, cols, x, x_alpha, residual, alpha, sum, dst, columns, eps))
    }

    /// `(x - mean) / sqrt(variance + eps) * alpha + beta` over the last dim: `crk_layer_norm`.
    #[allow(clippy::too_many_arguments)]
    pub fn layer_norm(
        &self,
        dtype: DType,
        layout: &Layout,
        src: &Buffer,
        alpha: Option<View<'_>>,
        beta: Option<View<'_>>,
        dst: &Buffer,
        eps: f32,
    ) -> Result<()> {
        launch!(self.crk_layer_norm(dtype, layout, src, alpha, beta, dst, eps))
    }
    /// `(x - mean) / sqrt(var + eps) * weight + bias`, with parameters for each channel, which dim 1 counts:
    /// `crk_batch_norm`. The weight or the bias may be absent.
    #[allow(clippy::too_many_arguments)]
    pub fn batch_norm<'a>(
        &self,
        dtype: DType,
        layout: &Layout,
        x: &Buffer,
        (mean, var): (impl Into<View<'a>>, impl Into<View<'a>>),
        (weight, bias): (Option<View<'_>>, Option<View<'_>>),
        dst: &Buffer,
        eps: f64,
    ) -> Result<()> {
        launch!(self.crk_batch_norm(dtype, layout, x, mean, var, weight, bias, dst, eps))
    }

    /// `(x - mean) / sqrt(variance + eps) * weight + bias`, with mean and variance of the channels of a group, which
    /// dim 1 counts; with `silu`, silu of that: `crk_group_norm`. The weight or the bias may be absent.
    #[allow(clippy::too_many_arguments)]
    pub fn group_norm(
        &self,
        dtype: DType,
        layout: &Layout,
        (groups, silu): (usize, bool),
        x: &Buffer,
        (weight, bias): (Option<View<'_>>, Option<View<'_>>),
        dst: &Buffer,
        eps: f64,
    ) -> Result<()> {
        launch!(self.crk_group_norm(dtype, layout, groups, silu, x, weight, bias, dst, eps))
    }
}
