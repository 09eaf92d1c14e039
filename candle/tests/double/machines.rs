//! Machines that lack something: a GPU, kernels for the one they have. Each is a process of its own, whose errors say what to do.
use candle_core::rocm_backend::RocmDevice;
use candle_core::rocm_backend::kernels::UNARY;
use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_tests::says;

#[path = "../../../tests/support/double.rs"]
mod double;

pub fn without_a_gpu() -> Result<()> {
    double::alone("without_a_gpu", &[("HIP_DOUBLE_DEVICES", "0")], || {
        says!(Device::new_rocm(0), "CRK_NO_DEVICE", "0 device(s)", "CANDLE_ROCM_DEVICE=cpu:32");
        assert_eq!(RocmDevice::count().expect("a number"), 0);
    });
    Ok(())
}

/// An op on the device that there is.
fn exp() -> Result<Tensor> {
    Tensor::zeros(4, DType::F32, &Device::new_rocm(0)?)?.exp()
}

pub fn with_a_gpu_of_another_architecture() -> Result<()> {
    double::alone("with_a_gpu_of_another_architecture", &[("HIP_DOUBLE_ARCH", "gfx90a:sramecc+:xnack-")], || {
        says!(
            exp(),
            "CRK_WRONG_ARCHITECTURE",
            "gfx1100",
            "needs code for gfx90a",
            "build with CANDLE_ROCM_ARCHS=gfx90a"
        );
    });
    Ok(())
}

pub fn with_a_build_that_has_no_kernels() -> Result<()> {
    if UNARY.hsaco().is_empty() {
        double::alone("with_a_build_that_has_no_kernels", &[("CANDLE_ROCM_HSACO_DIR", "")], || {
            says!(exp(), "CRK_NO_RUNTIME", "this build has no kernels", "the crate's feature 'rocm'");
        });
    }
    Ok(())
}
