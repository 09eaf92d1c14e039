//! Reductions. The contract is in `include/candle_rocm/launchers/reduce.h`.
use crate::{Buffer, DType, Device, Layout, ReduceOp, Result};

impl Device {
    /// The sum, the least or the largest element, or the position of one, over some dims: `crk_reduce`. For positions
    /// `dst` is u32.
    pub fn reduce(
        &self,
        op: ReduceOp,
        dtype: DType,
        layout: &Layout,
        src: &Buffer,
        reduced_dims: &[usize],
        dst: &Buffer,
    ) -> Result<()> {
        let (dims, count) = (reduced_dims.as_ptr(), reduced_dims.len());
        launch!(self.crk_reduce(op, dtype, layout, src, dims, count, dst))
    }
}
