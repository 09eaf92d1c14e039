//! Matrix products. The contract is in `include/candle_rocm/launchers/matmul.h`.
use crate::error::{check, static_text};
use crate::{Buffer, DType, Device, Layout, Result, sys};

impl Device {
    /// `dst = lhs * rhs` for each pair of matrices of a batch, in any layout: `crk_matmul`.
    pub fn matmul(&self, dtype: DType, lhs: (&Layout, &Buffer), rhs: (&Layout, &Buffer), dst: &Buffer) -> Result<()> {
        launch!(self.crk_matmul(dtype, lhs.0, self.view(lhs.1)?, rhs.0, self.view(rhs.1)?, self.view(dst)?))
    }

    /// Allows a BLAS library to round the operands of f32 products to TF32, in the whole process:
    /// `crk_matmul_allow_tf32`.
    pub fn allow_tf32(allowed: bool) {
        // SAFETY: any value is allowed.
        unsafe { sys::crk_matmul_allow_tf32(allowed) }
    }

    /// Whether it is allowed.
    pub fn is_tf32_allowed() -> bool {
        // SAFETY: reads a setting.
        unsafe { sys::crk_matmul_is_tf32_allowed() }
    }

    /// The library that [`Device::matmul`] uses where the layouts allow: `"hipBLASLt"`, `"rocBLAS"`, `"cuBLAS"` or
    /// `"own kernels"`.
    pub fn blas(&self) -> Result<&'static str> {
        let mut name = std::ptr::null();
        // SAFETY: a live handle; `name` is written on success.
        check(unsafe { sys::crk_device_blas(self.raw(), &mut name) })?;
        // SAFETY: static, NUL-terminated text.
        Ok(unsafe { static_text(name) }.unwrap_or("?"))
    }
}
