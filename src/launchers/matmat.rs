//! The launchers of products with mmq blocks on buffers of one handle. The contracts are the header's.
use crate::{Buffer, DType, Device, Result, View, sys};

impl Device {
    /// Rows of activations, or those that `ids` name, as columns of mmq blocks, in `crk_mmq_bytes(rows)` bytes:
    /// `crk_quantize_mmq`.
    pub fn quantize_mmq(
        &self,
        layout: sys::crk_mmq_t,
        dtype: DType,
        rows: &sys::crk_mmq_rows_t,
        x: &Buffer,
        ids: Option<&Buffer>,
        dst: &Buffer,
    ) -> Result<()> {
        let ids = self.optional(ids.map(View::from))?;
        launch!(self.crk_quantize_mmq(layout, dtype, rows, self.view(x)?, ids, self.view(dst)?))
    }

    /// Rows of weights, `weight_stride` blocks apart, times columns of mmq blocks, to columns of dst that are `dst_stride`
    /// elements apart: `crk_mul_mat_mmq`.
    #[allow(clippy::too_many_arguments)]
    pub fn mul_mat_mmq(
        &self,
        quant: sys::crk_quant_t,
        dtype: DType,
        (rows, k): (usize, usize),
        columns: usize,
        (weights, weight_stride): (&Buffer, usize),
        y: &Buffer,
        (dst, dst_stride): (&Buffer, usize),
    ) -> Result<()> {
        let (weights, y, dst) = (self.view(weights)?, self.view(y)?, self.view(dst)?);
        launch!(self.crk_mul_mat_mmq(quant, dtype, rows, k, columns, weights, weight_stride, y, dst, dst_stride))
    }
}
