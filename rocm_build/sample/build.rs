//! Compiles the program's kernels.

fn main() {
    candle_rocm_build::Kernels::new().source("kernels/rms.cu").source("kernels/scale.hip").flag("-DFACTOR=3").build();
}
