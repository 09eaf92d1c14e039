//! Products of quantized weights with many columns. The contracts are in `include/candle_rocm/launchers/quantized.h`.
use crate::{Buffer, DType, Device, MmqLayout, MmqRows, Quant, Result};

impl Device {
    /// Quantizes rows of activations to columns of mmq blocks, in `crk_mmq_bytes(rows)` bytes: `crk_quantize_mmq`.
    /// `ids` selects rows.
    pub fn quantize_mmq(
        &self,
        layout: MmqLayout,
        dtype: DType,
        rows: &MmqRows,
        x: &Buffer,
        ids: Option<&Buffer>,
        dst: &Buffer,
    ) -> Result<()> {
        launch_reporting!(self.crk_quantize_mmq(layout, dtype, rows, x, ids, dst))
    }

    /// Rows of weights times columns of mmq blocks: `crk_mul_mat_mmq`. Rows of weights are `weight_stride` blocks
    /// apart, columns of dst `dst_stride` elements.
    #[allow(clippy::too_many_arguments)]
    pub fn mul_mat_mmq(
        &self,
        quant: Quant,
        dtype: DType,
        (rows, k): (usize, usize),
        columns: usize,
        (weights, weight_stride): (&Buffer, usize),
        y: &Buffer,
        (dst, dst_stride): (&Buffer, usize),
    ) -> Result<()> {
        launch!(self.crk_mul_mat_mmq(quant, dtype, rows, k, columns, weights, weight_stride, y, dst, dst_stride))
    }
}
