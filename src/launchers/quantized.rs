//! Values of quantized weights. The contracts are in `include/candle_rocm/launchers/quantized.h`.
use crate::{Buffer, DType, Device, Quant, Result, View};

impl Device {
    /// `dst[i]` = the value of element `i` of `src`: `crk_dequantize`.
    pub fn dequantize(&self, quant: Quant, dtype: DType, numel: usize, src: &Buffer, dst: &Buffer) -> Result<()> {
        launch!(self.crk_dequantize(quant, dtype, numel, src, dst))
    }

    /// `dst[i]` = row `ids[i]` of a quantized table of `rows` rows of `hidden` elements, as f32: `crk_get_rows`.
    pub fn get_rows<'a>(
        &self,
        quant: Quant,
        (rows, hidden, src): (usize, usize, &Buffer),
        (count, ids): (usize, impl Into<View<'a>>),
        dst: &Buffer,
    ) -> Result<()> {
        launch_reporting!(self.crk_get_rows(quant, rows, hidden, count, src, ids, dst))
    }

    /// The same for a table of floats: `crk_get_rows_float`.
    pub fn get_rows_float<'a>(
        &self,
        dtype: DType,
        (rows, hidden, src): (usize, usize, &Buffer),
        (count, ids): (usize, impl Into<View<'a>>),
        dst: &Buffer,
    ) -> Result<()> {
        launch_reporting!(self.crk_get_rows_float(dtype, rows, hidden, count, src, ids, dst))
    }

    /// Quantizes rows of `k` activations to q8_1 blocks, in `crk_q8_1_bytes(rows, k)` bytes: `crk_quantize_q8_1`.
    pub fn quantize_q8_1(&self, dtype: DType, rows: usize, k: usize, x: &Buffer, dst: &Buffer) -> Result<()> {
        launch!(self.crk_quantize_q8_1(dtype, rows, k, x, dst))
    }

    /// `dst[i]` = the sum over j of `src[i][j] * y[j]`, in f32: `crk_dequantize_mul_mat_vec`.
    pub fn dequantize_mul_mat_vec<'a>(
        &self,
        quant: Quant,
        dtype: DType,
        (rows, k, src): (usize, usize, &Buffer),
        y: impl Into<View<'a>>,
        dst: &Buffer,
    ) -> Result<()> {
        launch!(self.crk_dequantize_mul_mat_vec(quant, dtype, rows, k, src, y, dst))
    }
}
