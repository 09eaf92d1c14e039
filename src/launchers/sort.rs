//! The launcher of sorts on buffers of one handle. The contract is the header's.
use crate::{Buffer, DType, Device, Layout, Result, View};

impl Device {
    /// The positions that put each row of the last dim in order: `crk_argsort`. `dst` is u32; `values`, where wanted, gets the
    /// sorted elements.
    pub fn argsort(
        &self,
        dtype: DType,
        layout: &Layout,
        src: &Buffer,
        ascending: bool,
        dst: &Buffer,
        values: Option<&Buffer>,
    ) -> Result<()> {
        let values = self.optional(values.map(View::from))?;
        launch!(self.crk_argsort(dtype, layout, self.view(src)?, ascending, self.view(dst)?, values))
    }
}
