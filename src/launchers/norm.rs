//! Softmax and norms. The contracts are in `include/candle_rocm/launchers/norm.h`.
use crate::{Buffer, DType, Device, Layout, Result, View};

impl Device {
    /// Softmax over the last dim: `crk_softmax`.
    pub fn softmax(&self, dtype: DType, layout: &Layout, src: &Buffer, dst: &Buffer) -> Result<()> {
        launch!(self.crk_softmax(dtype, layout, self.view(src)?, self.view(dst)?))
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
        let alpha = self.optional(alpha)?;
        launch!(self.crk_rms_norm(dtype, layout, self.view(src)?, alpha, self.view(dst)?, eps))
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
        let (alpha, beta) = (self.optional(alpha)?, self.optional(beta)?);
        launch!(self.crk_layer_norm(dtype, layout, self.view(src)?, alpha, beta, self.view(dst)?, eps))
    }
}
