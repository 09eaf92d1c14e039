//! The C and C++ compilers of this machine, as the cc crate finds them (CC, CXX, else the system's).
use crate::support::paths::{PROJECT, SCRATCH, VERSION};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The host's name, as rustc spells it.
fn host() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host").to_owned()
}

/// A compiler command with the project's header in its path and without a build script's flags.
pub fn compiler(cpp: bool) -> cc::Tool {
    let host = host();
    let mut build = cc::Build::new();
    build.cargo_metadata(false).warnings(false).cpp(cpp).target(&host).host(&host).opt_level(1).debug(false);
    build.include(Path::new(PROJECT).join("include"));
    build.get_compiler()
}

/// An empty folder for a test's files.
pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(SCRATCH).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// Runs a command that must succeed, and returns what it printed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}\n{errors}", output.status);
    text
}

/// Runs examples/c/first.c's program and checks what it prints. A build for GPUs does not take the CPU unasked, so the
/// device is named.
pub fn check_first(program: &mut Command) {
    let device = cfg!(feature = "cpu").then_some("cpu:32");
    let text = run(program.args(device));
    assert_eq!(device.is_some(), text.contains(", waves of 32: the CPU device, the reference\n"), "{text}");
    assert_eq!(text.matches("  ok\n").count(), 2, "{text}");
    assert!(text.contains("CRK_OUT_OF_BOUNDS: crk_affine: "), "{text}");
    assert!(text.starts_with(&format!("candle_rocm {VERSION} on ")), "{text}");
}

/// Compiles one source to an object, with every warning as an error. `standard` is a name such as "c11".
pub fn compile(source: &Path, standard: &str) {
    let cpp = standard.starts_with("c++");
    let tool = compiler(cpp);
    let mut command = tool.to_command();
    if tool.is_like_msvc() {
        command.arg(format!("/std:{standard}")).args(["/W4", "/WX", "/c"]).arg(source);
        command.arg(format!("/Fo{}", source.with_extension("obj").display()));
    } else {
        command.arg(format!("-std={standard}")).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-c"]).arg(source);
        command.arg("-o").arg(source.with_extension("o"));
    }
    run(&mut command);
}

/// The preprocessor's output for a C file.
pub fn preprocess(source: &Path) -> String {
    let tool = compiler(false);
    let flags: &[&str] = if tool.is_like_msvc() { &["/EP"] } else { &["-E", "-P"] };
    run(tool.to_command().args(flags).arg(source))
}
