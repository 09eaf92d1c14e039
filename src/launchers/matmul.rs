//! Matrix products. The contract is in `include/candle_rocm/launchers/matmul.h`.
use crate::error::{check, static_text};
use crate::{Buffer, DType, Device, GateOp, HeadWeights, Layout, Result, RopeKind, Strided, View, sys};

impl Device {
    /// `dst = lhs * rhs` for each pair of matrices of a batch, in any layout: `crk_matmul`.
    pub fn matmul(&self, dtype: DType, lhs: (&Layout, &Buffer), rhs: (&Layout, &Buffer), dst: &Buffer) -> Result<()> {
        launch!(self.crk_matmul(dtype, lhs.0, lhs.1, rhs.0, rhs.1, dst))
    }

    /// A row of `k` elements times one to three matrices of weights (n, k). Each has the place of its n results, and
    /// perhaps a bias: `crk_matmul_grouped`.
    pub fn matmul_grouped<'a>(
        &self,
        dtype: DType,
        k: usize,
        x: impl Into<View<'a>>,
        weights: &[(Strided<'_>, View<'_>, Option<View<'_>>)],
    ) -> Result<()> {
        let launcher = "crk_matmul_grouped";
        let mut all = [sys::crk_matmul_weights_t::default(); sys::CRK_MOST_GROUPED as usize];
        for (to, (weights, dst, bias)) in all.iter_mut().zip(weights) {
            to.layout = weights.layout;
            to.weights = self.view(launcher, "weights", weights.view)?;
            to.dst = self.view(launcher, "dst", *dst)?;
            to.bias = self.optional(launcher, "bias", *bias)?;
        }
        // The launcher refuses a larger count.
        launch!(self.crk_matmul_grouped(dtype, k, x, all.as_ptr(), weights.len()))
    }

    /// `dst = op(gate * x) * (up * x)` for a row of `k` elements and weights (n, k): `crk_matmul_gate`.
    #[allow(clippy::too_many_arguments)]
    pub fn matmul_gate<'a>(
        &self,
        op: GateOp,
        dtype: DType,
        k: usize,
        x: impl Into<View<'a>>,
        gate: Strided<'_>,
        up: Strided<'_>,
        dst: impl Into<View<'a>>,
    ) -> Result<()> {
        launch!(self.crk_matmul_gate(op, dtype, k, x, gate.layout, gate.view, up.layout, up.view, dst))
    }

    /// The rotated heads of a token, of `d` elements and from a row of `k` elements: `crk_matmul_rope`.
    pub fn matmul_rope<'a>(
        &self,
        dtype: DType,
        kind: RopeKind,
        (d, k): (usize, usize),
        x: impl Into<View<'a>>,
        parts: &[HeadWeights<'_>],
        [cos, sin]: [View<'_>; 2],
    ) -> Result<()> {
        let list = self.head_weights("crk_matmul_rope", parts)?;
        launch!(self.crk_matmul_rope(dtype, kind, d, k, x, list.as_ptr(), list.len(), cos, sin))
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
