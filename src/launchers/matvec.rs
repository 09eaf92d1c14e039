//! Products of quantized weights with few columns. The contracts are in `include/candle_rocm/launchers/quantized.h`.
use crate::{Buffer, DType, Device, Quant, Result, View};

impl Device {
    /// Rows of weights times one to eight columns: `crk_mul_mat_vec`.
    #[allow(clippy::too_many_arguments)]
    pub fn mul_mat_vec<'a>(
        &self,
        quant: Quant,
        dtype: DType,
        (rows, k): (usize, usize),
        columns: usize,
        weights: &Buffer,
        x: impl Into<View<'a>>,
        dst: &Buffer,
    ) -> Result<()> {
        let (weights, x, dst) = (self.view(weights)?, self.view(x)?, self.view(dst)?);
        launch!(self.crk_mul_mat_vec(quant, dtype, rows, k, columns, weights, x, dst))
    }

    /// The same for activations in q8_1 blocks, with columns `x_stride` blocks apart: `crk_mul_mat_vec_q8_1`.
    #[allow(clippy::too_many_arguments)]
    pub fn mul_mat_vec_q8_1(
        &self,
        quant: Quant,
        dtype: DType,
        (rows, k): (usize, usize),
        columns: usize,
        weights: &Buffer,
        (x, x_stride): (&Buffer, usize),
        (dst, dst_stride): (&Buffer, usize),
    ) -> Result<()> {
        let (weights, x, dst) = (self.view(weights)?, self.view(x)?, self.view(dst)?);
        launch!(self.crk_mul_mat_vec_q8_1(quant, dtype, rows, k, columns, weights, x, x_stride, dst, dst_stride))
    }

    /// Rows of weights times any number of columns: `crk_mul_mat`.
    #[allow(clippy::too_many_arguments)]
    pub fn mul_mat<'a>(
        &self,
        quant: Quant,
        dtype: DType,
        (rows, k): (usize, usize),
        columns: usize,
        weights: &Buffer,
        x: impl Into<View<'a>>,
        dst: &Buffer,
    ) -> Result<()> {
        let (weights, x, dst) = (self.view(weights)?, self.view(x)?, self.view(dst)?);
        launch!(self.crk_mul_mat(quant, dtype, rows, k, columns, weights, x, dst))
    }
}
