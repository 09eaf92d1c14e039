//! Rotary embeddings. The contract is in `include/candle_rocm/launchers/rope.h`.
use crate::{Buffer, DType, Device, Layout, Result, RopeKind};

impl Device {
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
