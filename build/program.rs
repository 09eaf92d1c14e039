//! The flags for a program's own sources. The tests of `kernels/cuda_port` take them too.
use std::ffi::OsString;
use std::path::Path;

/// The flags that do not depend on the compiler's version. These sources use HIP's headers, and with `cuda` CUDA's
/// names in `cuda_port` of the folder `kernels`.
pub fn flags(kernels: &Path, arch: &str, cuda: bool) -> Vec<OsString> {
    let fixed = ["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-std=c++17", "-O3"];
    let mut flags: Vec<OsString> = fixed.map(OsString::from).into();
    flags.extend([format!("--offload-arch={arch}").into(), "-I".into(), kernels.into()]);
    if cuda {
        flags.extend(["-I".into(), kernels.join("cuda_port").into()]);
        flags.extend(["-include", "cuda_port/detail/port.h"].map(OsString::from));
    }
    flags
}
