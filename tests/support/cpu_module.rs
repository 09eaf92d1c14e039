//! Compiles modules for the CPU device.
use crate::support::paths::{PROJECT, SCRATCH};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Compiles a C++ source to a shared object in this process's own folder, and returns its bytes. The compiler is `CXX`
/// (`c++` otherwise), with the flags in `CXXFLAGS`.
pub fn compile(source: &Path, name: &str) -> Result<Vec<u8>, String> {
    let root = Path::new(PROJECT);
    let folder = PathBuf::from(SCRATCH).join(format!("probe-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let output = folder.join(name);
    let words = |variable: &str, otherwise: &str| -> Vec<String> {
        let value = std::env::var(variable).unwrap_or_else(|_| otherwise.into());
        value.split_whitespace().map(String::from).collect()
    };
    let compiler = words("CXX", "c++");
    let (program, first) = compiler.split_first().ok_or("CXX is empty")?;
    let mut command = Command::new(program);
    command.args(first).args(["-x", "c++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC"]);
    command.args(["-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-ffp-contract=off"]);
    command.args(words("CXXFLAGS", ""));
    command.arg("-I").arg(root.join("kernels")).arg(source).arg("-o").arg(&output);
    let answer = command.output().map_err(|error| format!("{program}: {error}"))?;
    if !answer.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&answer.stderr)));
    }
    let image = std::fs::read(&output).map_err(|error| error.to_string());
    let _ = std::fs::remove_dir_all(&folder);
    image
}

/// The bytes of tests/probe/probe.hip for the CPU: the file that `CANDLE_ROCM_CPU_PROBE` names, or compiled once.
pub fn probe() -> Result<&'static [u8], String> {
    static IMAGE: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let source = Path::new(PROJECT).join("tests/probe/probe.hip");
    let image = || match std::env::var_os("CANDLE_ROCM_CPU_PROBE") {
        Some(path) => std::fs::read(&path).map_err(|error| format!("{path:?}: {error}")),
        None => compile(&source, "probe.so"),
    };
    IMAGE.get_or_init(image).as_deref().map_err(Clone::clone)
}
