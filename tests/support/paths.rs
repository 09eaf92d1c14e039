//! Folders, as the build saw them (build.rs).

/// The project's folder.
pub const PROJECT: &str = env!("CANDLE_ROCM_PROJECT");
/// The folder where the library's build put libcandle_rocm.a.
pub const LIBRARY: &str = env!("CANDLE_ROCM_LIBRARY");
/// A folder for files that tests make. A build with other features or another profile has another one.
pub const SCRATCH: &str = env!("CANDLE_ROCM_SCRATCH");
/// The library's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
