//! AMD GPUs through `candle-rocm-sys`: the same kernels as the CUDA backend's, compiled ahead of time.
//!
//! A [`RocmStorage`] is a buffer of bytes and a dtype. Each op converts its layouts, calls one launcher of [`kernels`]
//! and converts the error. The launcher chooses the kernel and its geometry. With the feature `rocm-backend` the same
//! backend runs the kernels' CPU and NVIDIA builds if `CANDLE_ROCM_DEVICE` names such a device ("cpu:32", "cpu:64",
//! "cuda:0"): [`RocmDevice::replaced_by`].
pub use candle_rocm_sys as kernels;

mod attention;
mod columns;
mod device;
mod error;
mod grow;
mod heads;
mod launch;
mod layout;
mod load;
mod map;
mod nn;
mod prepare;
#[cfg(feature = "rccl")]
pub mod rccl;
mod slice;
mod storage;

pub use attention::{AttentionOperands, Scoring, SideTensor, side_tensor};
pub(crate) use columns::{BLOCK, Columns, Part};
pub use device::{DeviceId, RocmDevice};
pub use error::{RocmError, WrapErr};
pub use grow::{Caches, HeadNorm, grow, norm_rope_grow, rope_grow};
pub use heads::Heads;
pub use launch::{KernelArg, LaunchArgs, LaunchConfig, RocmFunc};
pub(crate) use layout::elements;
pub use layout::layout_of;
pub use map::{Map1, Map1Any, Map2, Map2Any, Map2InPlace, Map3};
pub(crate) use nn::columns_beside;
pub use prepare::finish_preparing;
pub use slice::ValidAsZeroBits;
pub use slice::{
    DeviceRepr, DeviceSlice, DeviceSliceMut, RocmDType, RocmSlice, RocmStorageSlice, RocmView, RocmViewMut,
};
pub(crate) use storage::takes_groups;
pub use storage::{RocmStorage, dtype_of};

/// The name of Candle's kernel for a dtype, such as `kernel_name::<f32>("uneg")`.
pub fn kernel_name<T: crate::WithDType>(root: &str) -> String {
    format!("{root}_{}", T::DTYPE.as_str())
}

/// Whether matrix products of f32 may round their operands to TF32: [`kernels::Device::is_tf32_allowed`].
pub fn gemm_reduced_precision_f32() -> bool {
    kernels::Device::is_tf32_allowed()
}

/// Sets whether matrix products of f32 may round their operands to TF32. It has an effect on products of BLAS libraries
/// that have TF32 for the GPU: [`kernels::Device::allow_tf32`].
pub fn set_gemm_reduced_precision_f32(allowed: bool) {
    kernels::Device::allow_tf32(allowed);
}

macro_rules! kept_setting {
    ($($dtype:literal $allowed:ident $get:ident $set:ident,)*) => {$(
        static $allowed: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

        #[doc = concat!("Whether matrix products of ", $dtype, " may sum in 16 bits.")]
        ///
        /// The setting has no effect; docs/matmul.md of candle-rocm-sys says why.
        pub fn $get() -> bool {
            $allowed.load(std::sync::atomic::Ordering::Relaxed)
        }

        #[doc = concat!("Sets whether matrix products of ", $dtype, " may sum in 16 bits.")]
        ///
        /// It exists for programs that set this on every backend. It has no effect here: products sum in f32.
        pub fn $set(allowed: bool) {
            $allowed.store(allowed, std::sync::atomic::Ordering::Relaxed);
        }
    )*};
}
kept_setting! {
    "f16" REDUCED_F16 gemm_reduced_precision_f16 set_gemm_reduced_precision_f16,
    "bf16" REDUCED_BF16 gemm_reduced_precision_bf16 set_gemm_reduced_precision_bf16,
}
