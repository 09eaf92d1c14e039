//! The launcher of reductions on buffers of one handle. The contract is the header's.
use crate::{Buffer, DType, Device, Layout, Result, sys};

impl Device {
    /// The sum, the least, the largest, or the position of one of these over some dims: `crk_reduce`. `dst` is u32 for positions.
    pub fn reduce(
        &self,
        op: sys::crk_reduce_op_t,
        dtype: DType,
        layout: &Layout,
        src: &Buffer,
        reduced_dims: &[usize],
        dst: &Buffer,
    ) -> Result<()> {
        let (dims, count) = (reduced_dims.as_ptr(), reduced_dims.len());
        launch!(self.crk_reduce(op, dtype, layout, self.view(src)?, dims, count, self.view(dst)?))
    }
}
