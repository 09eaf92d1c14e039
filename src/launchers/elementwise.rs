//! The launchers of the element-wise families on buffers of one handle. The contracts are the header's.
use crate::error::check;
use crate::{Buffer, DType, Device, Error, Layout, Pod, Result, Status, sys};

/// One method a launcher. Every buffer is checked to belong to the handle; layouts and sizes are checked below.
impl Device {
    /// `dst[i] = op(src[i])`: `crk_unary`.
    pub fn unary(
        &self,
        op: sys::crk_unary_op_t,
        dtype: DType,
        layout: &Layout,
        src: &Buffer,
        dst: &Buffer,
    ) -> Result<()> {
        let (src, dst) = (self.view(src)?, self.view(dst)?);
        // SAFETY: live handle, buffers of it, a live layout; so in every function below.
        check(unsafe { sys::crk_unary(self.raw(), op, dtype, layout, src, dst) })
    }

    /// ELU and POWF: `crk_unary_param`.
    pub fn unary_param(
        &self,
        op: sys::crk_unary_op_t,
        dtype: DType,
        layout: &Layout,
        src: &Buffer,
        dst: &Buffer,
        param: f64,
    ) -> Result<()> {
        let (src, dst) = (self.view(src)?, self.view(dst)?);
        // SAFETY: as in `unary`.
        check(unsafe { sys::crk_unary_param(self.raw(), op, dtype, layout, src, dst, param) })
    }

    /// `dst[i] = fma(src[i], mul, add)`: `crk_affine`.
    pub fn affine(&self, dtype: DType, layout: &Layout, src: &Buffer, dst: &Buffer, mul: f64, add: f64) -> Result<()> {
        let (src, dst) = (self.view(src)?, self.view(dst)?);
        // SAFETY: as in `unary`.
        check(unsafe { sys::crk_affine(self.raw(), dtype, layout, src, dst, mul, add) })
    }

    /// `dst[i] = lhs[i] op rhs[i]`: `crk_binary`.
    pub fn binary(
        &self,
        op: sys::crk_binary_op_t,
        dtype: DType,
        lhs: (&Layout, &Buffer),
        rhs: (&Layout, &Buffer),
        dst: &Buffer,
    ) -> Result<()> {
        let (l, r, dst) = (self.view(lhs.1)?, self.view(rhs.1)?, self.view(dst)?);
        // SAFETY: as in `unary`.
        check(unsafe { sys::crk_binary(self.raw(), op, dtype, lhs.0, l, rhs.0, r, dst) })
    }

    /// `dst[i] = lhs[i] op rhs[i] ? 1 : 0`, u8: `crk_cmp`.
    pub fn cmp(
        &self,
        op: sys::crk_cmp_op_t,
        dtype: DType,
        lhs: (&Layout, &Buffer),
        rhs: (&Layout, &Buffer),
        dst: &Buffer,
    ) -> Result<()> {
        let (l, r, dst) = (self.view(lhs.1)?, self.view(rhs.1)?, self.view(dst)?);
        // SAFETY: as in `unary`.
        check(unsafe { sys::crk_cmp(self.raw(), op, dtype, lhs.0, l, rhs.0, r, dst) })
    }

    /// `dst[i] = src[i]` converted: `crk_cast`.
    pub fn cast(&self, from: DType, to: DType, layout: &Layout, src: &Buffer, dst: &Buffer) -> Result<()> {
        let (src, dst) = (self.view(src)?, self.view(dst)?);
        // SAFETY: as in `unary`.
        check(unsafe { sys::crk_cast(self.raw(), from, to, layout, src, dst) })
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
        let (i, t, f) = (self.view(ids.1)?, self.view(on_true.1)?, self.view(on_false.1)?);
        let dst = self.view(dst)?;
        // SAFETY: as in `unary`.
        check(unsafe { sys::crk_where(self.raw(), ids_dtype, dtype, ids.0, i, on_true.0, t, on_false.0, f, dst) })
    }

    /// `dst[i] = value` for i below `numel`: `crk_fill`. `value` has the size of `dtype`.
    pub fn fill<T: Pod>(&self, dtype: DType, dst: &Buffer, numel: usize, value: T) -> Result<()> {
        let dst = self.view(dst)?;
        // SAFETY: as in `unary`; `value` was seen to be an element long.
        check(unsafe { sys::crk_fill(self.raw(), dtype, dst, numel, element(dtype, &value)?) })
    }

    /// Every element of `layout` becomes `value`: `crk_const_set`.
    pub fn const_set<T: Pod>(&self, dtype: DType, layout: &Layout, dst: &Buffer, value: T) -> Result<()> {
        let dst = self.view(dst)?;
        // SAFETY: as in `fill`.
        check(unsafe { sys::crk_const_set(self.raw(), dtype, layout, dst, element(dtype, &value)?) })
    }

    /// Copies `rows` rows of `cols`; `src` and `dst` each come with stride and offset in elements: `crk_copy2d`.
    pub fn copy2d(
        &self,
        dtype: DType,
        (rows, cols): (usize, usize),
        (src, src_stride, src_offset): (&Buffer, usize, usize),
        (dst, dst_stride, dst_offset): (&Buffer, usize, usize),
    ) -> Result<()> {
        let (src, dst) = (self.view(src)?, self.view(dst)?);
        // SAFETY: as in `unary`.
        check(unsafe {
            sys::crk_copy2d(self.raw(), dtype, rows, cols, src, src_stride, src_offset, dst, dst_stride, dst_offset)
        })
    }

    /// Makes a strided tensor contiguous, from element `dst_offset` on: `crk_copy_strided`.
    pub fn copy_strided(
        &self,
        dtype: DType,
        layout: &Layout,
        src: &Buffer,
        dst: &Buffer,
        dst_offset: usize,
    ) -> Result<()> {
        let (src, dst) = (self.view(src)?, self.view(dst)?);
        // SAFETY: as in `unary`.
        check(unsafe { sys::crk_copy_strided(self.raw(), dtype, layout, src, dst, dst_offset) })
    }
}

/// The address of a host value, which must be an element of `dtype` long.
fn element<T: Pod>(dtype: DType, value: &T) -> Result<*const std::ffi::c_void> {
    if dtype.size() == size_of::<T>() {
        return Ok(std::ptr::from_ref(value).cast());
    }
    let message = format!("value is {} bytes, an element of the dtype {}", size_of::<T>(), dtype.size());
    Err(Error::new(Status::CRK_INVALID_ARGUMENT, message))
}
