//! Rotary embeddings. The contract is in `include/candle_rocm/launchers/rope.h`.
use crate::{Buffer, DType, Device, Layout, Result, RopeKind, Strided, sys};

impl Device {
    /// Rotated queries and keys, and copied values, each from one layout to another: `crk_rope_qkv`.
    pub fn rope_qkv(
        &self,
        kind: RopeKind,
        dtype: DType,
        rows: [(Strided<'_>, Strided<'_>); 3],
        cos: Strided<'_>,
        sin: Strided<'_>,
    ) -> Result<()> {
        let row = |(src, dst): (Strided<'_>, Strided<'_>)| {
            Ok(sys::crk_rope_rows_t {
                src_layout: src.layout,
                src: self.view(src.view)?,
                dst_layout: dst.layout,
                dst: self.view(dst.view)?,
            })
        };
        let [q, k, v] = rows;
        let rows = [row(q)?, row(k)?, row(v)?];
        let (cos_view, sin_view) = (self.view(cos.view)?, self.view(sin.view)?);
        launch!(self.crk_rope_qkv(kind, dtype, rows.as_ptr(), cos.layout, cos_view, sin.layout, sin_view))
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
        launch!(self.crk_rope(
            kind,
            dtype,
            src.0,
            self.view(src.1)?,
            cos.0,
            self.view(cos.1)?,
            sin.0,
            self.view(sin.1)?,
            self.view(dst)?
        ))
    }
}
