//! Element-wise functions, casts, fills and copies. The contracts are in `include/candle_rocm/launchers/elementwise.h`.
use crate::{BinaryOp, Buffer, CmpOp, DType, Device, Error, GateOp, Layout, Pod, Result, Status, UnaryOp, View};

/// One method per launcher. Each checks that its buffers belong to the handle. The C core checks layouts and sizes.
impl Device {
    /// `dst[i] = op(src[i])`: `crk_unary`.
    pub fn unary(&self, op: UnaryOp, dtype: DType, layout: &Layout, src: &Buffer, dst: &Buffer) -> Result<()> {
        launch!(self.crk_unary(op, dtype, layout, src, dst))
    }

    /// ELU and POWF: `crk_unary_param`.
    pub fn unary_param(
        &self,
        op: UnaryOp,
        dtype: DType,
        layout: &Layout,
        src: &Buffer,
        dst: &Buffer,
        param: f64,
    ) -> Result<()> {
        launch!(self.crk_unary_param(op, dtype, layout, src, dst, param))
    }

    /// `dst[i] = fma(src[i], mul, add)`: `crk_affine`.
    pub fn affine(&self, dtype: DType, layout: &Layout, src: &Buffer, dst: &Buffer, mul: f64, add: f64) -> Result<()> {
        launch!(self.crk_affine(dtype, layout, src, dst, mul, add))
    }

    /// `dst[i] = lhs[i] op rhs[i]`: `crk_binary`.
    pub fn binary(
        &self,
        op: BinaryOp,
        dtype: DType,
        lhs: (&Layout, &Buffer),
        rhs: (&Layout, &Buffer),
        dst: &Buffer,
    ) -> Result<()> {
        launch!(self.crk_binary(op, dtype, lhs.0, lhs.1, rhs.0, rhs.1, dst))
    }

    /// `dst[i] = lhs[i] op rhs[i] ? 1 : 0`, u8: `crk_cmp`.
    pub fn cmp(
        &self,
        op: CmpOp,
        dtype: DType,
        lhs: (&Layout, &Buffer),
        rhs: (&Layout, &Buffer),
        dst: &Buffer,
    ) -> Result<()> {
        launch!(self.crk_cmp(op, dtype, lhs.0, lhs.1, rhs.0, rhs.1, dst))
    }

    /// `dst[i] = op(gate[i]) * up[i]`: `crk_gate`.
    pub fn gate<'a>(
        &self,
        op: GateOp,
        dtype: DType,
        gate: (&Layout, impl Into<View<'a>>),
        up: (&Layout, impl Into<View<'a>>),
        dst: &Buffer,
    ) -> Result<()> {
        launch!(self.crk_gate(op, dtype, gate.0, gate.1, up.0, up.1, dst))
    }

    /// `dst[i] = src[i]` converted: `crk_cast`.
    pub fn cast(&self, from: DType, to: DType, layout: &Layout, src: &Buffer, dst: &Buffer) -> Result<()> {
        launch!(self.crk_cast(from, to, layout, src, dst))
    }

    /// `dst[i] = ids[i] != 0 ? on_true[i] : on_false[i]`: `crk_where`.
    pub fn where_cond(
        &self,
        ids_dtype: DType,
        dtype: DType,
        ids: (&Layout, &Buffer),
        on_true: (&Layout, &Buffer),
        on_false: (&Layout, &Buffer),
        dst: &Buffer,
    ) -> Result<()> {
        launch!(self.crk_where(ids_dtype, dtype, ids.0, ids.1, on_true.0, on_true.1, on_false.0, on_false.1, dst))
    }

    /// `dst[i] = value` for i below `numel`: `crk_fill`. `value` has the size of `dtype`.
    pub fn fill<T: Pod>(&self, dtype: DType, dst: &Buffer, numel: usize, value: T) -> Result<()> {
        // SAFETY of the pointer: `element` checks that `value` is one element.
        launch!(self.crk_fill(dtype, dst, numel, element(dtype, &value)?))
    }

    /// Sets every element of `layout` to `value`: `crk_const_set`.
    pub fn const_set<T: Pod>(&self, dtype: DType, layout: &Layout, dst: &Buffer, value: T) -> Result<()> {
        // SAFETY of the pointer: as in `fill`.
        launch!(self.crk_const_set(dtype, layout, dst, element(dtype, &value)?))
    }

    /// Copies `rows` rows of `cols` elements: `crk_copy2d`. `src` and `dst` each come with stride and offset in
    /// elements.
    pub fn copy2d(
        &self,
        dtype: DType,
        (rows, cols): (usize, usize),
        (src, src_stride, src_offset): (&Buffer, usize, usize),
        (dst, dst_stride, dst_offset): (&Buffer, usize, usize),
    ) -> Result<()> {
        launch!(self.crk_copy2d(dtype, rows, cols, src, src_stride, src_offset, dst, dst_stride, dst_offset))
    }

    /// Copies a strided tensor to a contiguous one that begins at element `dst_offset`: `crk_copy_strided`.
    pub fn copy_strided(
        &self,
        dtype: DType,
        layout: &Layout,
        src: &Buffer,
        dst: &Buffer,
        dst_offset: usize,
    ) -> Result<()> {
        launch!(self.crk_copy_strided(dtype, layout, src, dst, dst_offset))
    }
}

/// The address of a host value, whose size must be that of an element of `dtype`.
fn element<T: Pod>(dtype: DType, value: &T) -> Result<*const std::ffi::c_void> {
    if dtype.size() == size_of::<T>() {
        return Ok(std::ptr::from_ref(value).cast());
    }
    let message = format!("value has {} bytes, but an element of the dtype has {}", size_of::<T>(), dtype.size());
    Err(Error::new(Status::InvalidArgument, message))
}
