//! Rotary embeddings. The contract is in `include/candle_rocm/launchers/rope.h`.
use crate::{Buffer, DType, Device, Layout, Result, RopeKind, Strided, View, sys};

/// The heads of queries, keys or values, and how a product makes them: `crk_head_weights_t`.
#[derive(Debug, Clone, Copy)]
pub struct HeadWeights<'a> {
    /// The number of heads.
    pub heads: usize,
    /// The layout of dense weights; None for quantized ones.
    pub layout: Option<&'a Layout>,
    /// A row for each element of each head.
    pub weights: View<'a>,
    /// A number for each row, added to its product.
    pub bias: Option<View<'a>>,
    /// Where the first head begins, and the elements from one head to the next.
    pub dst: (View<'a>, usize),
    /// Whether the heads are rotated.
    pub rotates: bool,
}

impl Device {
    /// The parts of a call that makes heads; a launcher refuses more than three.
    pub(super) fn head_weights(
        &self,
        launcher: &str,
        parts: &[HeadWeights<'_>],
    ) -> Result<Vec<sys::crk_head_weights_t>> {
        let one = |part: &HeadWeights<'_>| {
            Ok(sys::crk_head_weights_t {
                heads: part.heads,
                layout: part.layout.map_or(std::ptr::null(), std::ptr::from_ref),
                weights: self.view(launcher, "weights", part.weights)?,
                bias: self.optional(launcher, "bias", part.bias)?,
                dst: self.view(launcher, "dst", part.dst.0)?,
                head_stride: part.dst.1,
                rotates: part.rotates,
            })
        };
        parts.iter().map(one).collect()
    }

    /// Rotated queries and keys, and copied values, each from one layout to another: `crk_rope_qkv`.
    pub fn rope_qkv(
        &self,
        kind: RopeKind,
        dtype: DType,
        rows: [(Strided<'_>, Strided<'_>); 3],
        cos: Strided<'_>,
        sin: Strided<'_>,
    ) -> Result<()> {
        let rows = self.rope_rows("crk_rope_qkv", rows)?;
        launch!(self.crk_rope_qkv(kind, dtype, rows.as_ptr(), cos.layout, cos.view, sin.layout, sin.view))
    }

    /// The same where queries and keys are RMS norms first, with factors and an epsilon: `crk_norm_rope_qkv`.
    pub fn norm_rope_qkv(
        &self,
        (src_dtype, dtype): (DType, DType),
        rows: [(Strided<'_>, Strided<'_>); 3],
        ([q_alpha, k_alpha], eps): ([View<'_>; 2], f32),
        cos: Strided<'_>,
        sin: Strided<'_>,
    ) -> Result<()> {
        let rows = self.rope_rows("crk_norm_rope_qkv", rows)?;
        let list = rows.as_ptr();
        launch!(self.crk_norm_rope_qkv(
            src_dtype, dtype, list, q_alpha, k_alpha, eps, cos.layout, cos.view, sin.layout, sin.view
        ))
    }

    fn rope_rows(
        &self,
        launcher: &str,
        [q, k, v]: [(Strided<'_>, Strided<'_>); 3],
    ) -> Result<[sys::crk_rope_rows_t; 3]> {
        let row = |(src, dst): (Strided<'_>, Strided<'_>)| {
            Ok(sys::crk_rope_rows_t {
                src_layout: src.layout,
                src: self.view(launcher, "src", src.view)?,
                dst_layout: dst.layout,
                dst: self.view(launcher, "dst", dst.view)?,
            })
        };
        Ok([row(q)?, row(k)?, row(v)?])
    }

    /// Rotates each pair of a token by its angle: `crk_rope`.
    pub fn rope(
        &self,
        kind: RopeKind,
        dtype: DType,
        src: (&Layout, &Buffer),
        cos: (&Layout, &Buffer),
        sin: (&Layout, &Buffer),
        dst: &Buffer,
    ) -> Result<()> {
        launch!(self.crk_rope(kind, dtype, src.0, src.1, cos.0, cos.1, sin.0, sin.1, dst))
    }
}
