//! What the tests over doubles of libraries (tests/double) share: compiling one, and a process in which nothing was opened yet.
#![allow(dead_code)]
use std::ffi::OsStr;
use std::process::Command;

/// The C compiler of this build, which may be one behind another program: "ccache gcc"; with a sanitizer's flags, as the archive has.
pub fn compiler() -> Command {
    let named = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut words = named.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("cc"));
    command.args(words).args(["-std=c11", "-g", "-fPIC", "-Wall", "-Wextra", "-shared"]);
    command.args(std::env::var("CFLAGS").unwrap_or_default().split_whitespace());
    command
}

/// Compiles one of tests/double into a library of its own.
pub fn compile(source: &str, flags: &[&str], library: impl AsRef<OsStr>) {
    let status = compiler()
        .args(["-D_GNU_SOURCE", "-O1", "-Werror"])
        .arg(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/double").join(source))
        .args(flags)
        .arg("-o")
        .arg(library)
        .args(["-ldl", "-lpthread"])
        .status();
    assert!(status.expect("a C compiler").success(), "the double does not compile");
}

const ALONE: &str = "CANDLE_ROCM_TEST_ALONE";

/// Whether this is the process that `alone` made for a test.
pub fn is_alone(test: &str) -> bool {
    std::env::var(ALONE).is_ok_and(|name| name == test)
}

/// Runs `body` in a process of its own: a library is opened once in a process, and found through the environment. `test` is the name of
/// the test that calls this.
pub fn alone(test: &str, environment: &[(&str, &str)], body: fn()) {
    if is_alone(test) {
        return body();
    }
    let output = Command::new(std::env::current_exe().expect("this test's path"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env_remove("CANDLE_ROCM_DEVICE")
        .envs(environment.iter().copied())
        .env(ALONE, test)
        .output()
        .expect("the test's own process");
    let text =
        [&output.stdout[..], &output.stderr[..]].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    assert!(output.status.success(), "{}\n{text}", output.status);
    assert!(text.contains("1 passed"), "{test} did not run:\n{text}");
}
