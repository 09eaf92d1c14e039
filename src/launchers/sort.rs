//! Sorts. The contract is in `include/candle_rocm/launchers/sort.h`.
use crate::{Buffer, DType, Device, Layout, Result, View};

impl Device {
    /// The positions of each row of the last dim in sorted order: `crk_argsort`. `dst` is u32. `values` takes the
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
