//! Products of quantized weights with few columns. The contracts are in `include/candle_rocm/launchers/quantized.h`.
use crate::{Buffer, DType, Device, GateOp, HeadWeights, Quant, Result, RopeKind, View, sys};

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
        launch!(self.crk_mul_mat_vec_q8_1(quant, dtype, rows, k, columns, weights, x, x_stride, dst, dst_stride))
    }

    /// Bytes of `columns` columns of `k` quantized activations: `crk_columns_bytes`.
    pub fn columns_bytes(columns: usize, k: usize) -> usize {
        // SAFETY: the function only computes with its arguments.
        unsafe { sys::crk_columns_bytes(columns, k) }
    }

    /// Quantizes activations that several products share: `crk_quantize_columns`.
    pub fn quantize_columns<'a>(
        &self,
        dtype: DType,
        (columns, k): (usize, usize),
        x: impl Into<View<'a>>,
        dst: &Buffer,
    ) -> Result<()> {
        launch!(self.crk_quantize_columns(dtype, columns, k, x, dst))
    }

    /// A gate whose result is quantized too: `crk_gate_columns`.
    #[allow(clippy::too_many_arguments)]
    pub fn gate_columns<'a>(
        &self,
        op: GateOp,
        dtype: DType,
        (columns, k): (usize, usize),
        gate: impl Into<View<'a>>,
        up: impl Into<View<'a>>,
        dst: &Buffer,
        blocks: &Buffer,
    ) -> Result<()> {
        launch!(self.crk_gate_columns(op, dtype, columns, k, gate, up, dst, blocks))
    }

    /// Up to three matrices (their rows, weights, results without gaps, and perhaps a bias) times the same columns:
    /// `crk_mul_mat_vec_grouped`.
    pub fn mul_mat_vec_grouped<'a>(
        &self,
        quant: Quant,
        dtype: DType,
        k: usize,
        columns: usize,
        products: &[(usize, impl Into<View<'a>> + Copy, &Buffer, Option<View<'_>>)],
        (x, x_stride): (&Buffer, usize),
    ) -> Result<()> {
        let launcher = "crk_mul_mat_vec_grouped";
        let products = products
            .iter()
            .map(|(rows, weights, dst, bias)| {
                Ok(sys::crk_grouped_product_t {
                    rows: *rows,
                    weights: self.view(launcher, "weights", *weights)?,
                    dst: self.view(launcher, "dst", *dst)?,
                    dst_stride: *rows,
                    bias: self.optional(launcher, "bias", *bias)?,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let (list, count) = (products.as_ptr(), products.len());
        launch!(self.crk_mul_mat_vec_grouped(quant, dtype, k, columns, list, count, x, x_stride))
    }

    /// The products and the gate of a feed-forward layer, also quantized if there are `blocks`: `crk_mul_mat_vec_gate`.
    #[allow(clippy::too_many_arguments)]
    pub fn mul_mat_vec_gate<'a>(
        &self,
        op: GateOp,
        quant: Quant,
        dtype: DType,
        (rows, k): (usize, usize),
        columns: usize,
        [gate, up]: [impl Into<View<'a>>; 2],
        x: &Buffer,
        dst: &Buffer,
        blocks: Option<&Buffer>,
    ) -> Result<()> {
        launch!(self.crk_mul_mat_vec_gate(op, quant, dtype, rows, k, columns, gate, up, x, dst, blocks))
    }

    /// The rotated heads of a token, of `d` elements and from one column of `k` activations: `crk_mul_mat_vec_rope`.
    pub fn mul_mat_vec_rope(
        &self,
        quant: Quant,
        kind: RopeKind,
        (d, k): (usize, usize),
        parts: &[HeadWeights<'_>],
        x: &Buffer,
        [cos, sin]: [View<'_>; 2],
    ) -> Result<()> {
        let list = self.head_weights("crk_mul_mat_vec_rope", parts)?;
        launch!(self.crk_mul_mat_vec_rope(quant, kind, d, k, list.as_ptr(), list.len(), x, cos, sin))
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
        launch!(self.crk_mul_mat(quant, dtype, rows, k, columns, weights, x, dst))
    }
}
