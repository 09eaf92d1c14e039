//! AMD GPUs through `candle-rocm-sys`: the same kernels as the CUDA backend's, compiled ahead of time.
//!
//! A [`RocmStorage`] is a buffer of bytes and a dtype. Each op is a layout, one launcher of [`kernels`], and an error; which kernel
//! runs, and in which geometry, the launcher decides. The same backend runs on the kernels' builds for the CPU and for NVIDIA
//! GPUs, where `CANDLE_ROCM_DEVICE` names such a device ("cpu:32", "cpu:64", "cuda:0").
pub use candle_rocm_sys as kernels;

mod device;
mod error;
mod layout;
mod moe;
mod nn;
mod storage;

pub use device::{DeviceId, RocmDevice, RocmFunc};
pub use error::{RocmError, WrapErr};
pub use moe::{moe_gemm, moe_gemm_gguf};
pub use storage::RocmStorage;
