//! Sorts. The contract is in `include/candle_rocm/launchers/sort.h`.
use crate::{Buffer, DType, Device, Layout, Result};

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
        launch!(self.crk_argsort(dtype, layout, src, ascending, dst, values))
    }
}
