//! Runs Candle's own build script, which compiles CUDA kernels, only if the feature `cuda` is on. The kernels for AMD
//! GPUs are those of candle-rocm-sys.
#[cfg(feature = "cuda")]
mod cuda {
    include!("build.rs");
}

#[cfg(feature = "cuda")]
fn main() {
    if let Err(error) = cuda::main() {
        panic!("{error:?}");
    }
}

#[cfg(not(feature = "cuda"))]
fn main() {}
