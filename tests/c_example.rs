//! examples/c: compiled against the header, linked with the static library, and run.
use candle_rocm_sys_tests::support::compiler;
#[cfg(all(target_os = "linux", feature = "cpu"))]
use candle_rocm_sys_tests::support::hip_double;
use candle_rocm_sys_tests::support::paths::{LIBRARY, PROJECT};

use compiler::{check_first, compiler, run, scratch};
use std::path::Path;
use std::process::Command;

#[test]
fn first() {
    let folder = scratch("c_example");
    let program = folder.join("first").with_extension(std::env::consts::EXE_EXTENSION);
    let tool = compiler(false);
    let mut command = tool.to_command();
    let source = Path::new(PROJECT).join("examples/c/first.c");
    if tool.is_like_msvc() {
        command.args(["/std:c11", "/W4", "/WX"]).arg(source).arg(format!("/Fe{}", program.display()));
        command.arg(format!("/Fo{}\\", folder.display()));
        command.arg("/link").args(["candle_rocm.lib", "zstd.lib"].map(|name| Path::new(LIBRARY).join(name)));
    } else {
        command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]).arg(source).arg("-o").arg(&program);
        command.arg(format!("-L{LIBRARY}")).args(["-lcandle_rocm", "-lzstd", "-lpthread", "-lm"]);
        if cfg!(target_os = "linux") {
            command.arg("-ldl");
        }
    }
    // The library's additional compiler flags, above all a sanitizer's, are needed for the program too.
    command.args(std::env::var("CFLAGS").unwrap_or_default().split_whitespace());
    run(&mut command);
    check_first(Command::new(&program).current_dir(&folder));
    assert!(run(Command::new(&program).arg("--help")).starts_with("usage: first [DEVICE]\n"));
    for arguments in [&["--nonsense"] as &[&str], &["cpu:32", "cpu:64"]] {
        let output = Command::new(&program).args(arguments).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    let output = Command::new(&program).arg("tpu").output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("name is 'tpu'; understood are hip"), "{text}");
    #[cfg(all(target_os = "linux", feature = "cpu"))]
    refuses_the_cpu(&program);
}

/// With code for AMD GPUs and a runtime without a GPU, the program ends with the diagnosis. Where the CPU is asked for,
/// it runs.
#[cfg(all(target_os = "linux", feature = "cpu"))]
fn refuses_the_cpu(program: &Path) {
    let mut command = Command::new(program);
    command.envs(hip_double::environment("gfx1100", 6)).env("HIP_DOUBLE_DEVICES", "0").env("CANDLE_ROCM_DEVICE", "");
    let output = command.output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for words in ["problem  hip_devices   ", "problem  choice        ", " -> ", "only the CPU can be used"] {
        assert!(text.contains(words), "'{words}' is not in: {text}");
    }
    let text = run(command.env("CANDLE_ROCM_DEVICE", "cpu:64"));
    assert!(text.contains(", waves of 64: the CPU device"), "{text}");
}
