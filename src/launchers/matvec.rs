//! The launchers of products with quantized weights on buffers of one handle. The contracts are the header's.
use crate::{Buffer, DType, Device, Result, View, sys};

impl Device {
    /// Rows of weights times one to eight columns: `crk_mul_mat_vec`.
    #[allow(clippy::too_many_arguments)]
    pub fn mul_mat_vec<'a>(
        &self,
        quant: sys::crk_quant_t,
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

    /// The same of activations in q8_1 blocks, `x_stride` blocks a column: `crk_mul_mat_vec_q8_1`.
    #[allow(clippy::too_many_arguments)]
    pub fn mul_mat_vec_q8_1(
        &self,
        quant: sys::crk_quant_t,
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
        quant: sys::crk_quant_t,
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
