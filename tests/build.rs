//! Tells the tests where the project, the library and a folder for their files are.
use std::env::var;
use std::path::Path;

fn main() {
    let package = var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let project = Path::new(&package).parent().expect("the project's folder").display();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=CANDLE_ROCM_PROJECT={project}");
    println!("cargo::rustc-env=CANDLE_ROCM_LIBRARY={}", var("DEP_CANDLE_ROCM_LIBRARY").expect("the library's build"));
    println!("cargo::rustc-env=CANDLE_ROCM_SCRATCH={}", var("OUT_DIR").expect("cargo sets it"));
}
