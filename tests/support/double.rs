//! Code that the tests with doubles of libraries (tests/double) share: it compiles a double, and it runs a test in a
//! process that has not opened any library yet.
use crate::support::paths::PROJECT;
use std::ffi::OsStr;
use std::process::Command;

/// The C compiler of this build. `CC` may name it behind another program, as in "ccache gcc". `CFLAGS` adds a
/// sanitizer's flags, which the archive was compiled with too.
pub fn compiler() -> Command {
    let named = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut words = named.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("cc"));
    command.args(words).args(["-std=c11", "-g", "-fPIC", "-Wall", "-Wextra", "-shared"]);
    command.args(std::env::var("CFLAGS").unwrap_or_default().split_whitespace());
    command
}

/// Compiles one source of tests/double into a library.
pub fn compile(source: &str, flags: &[&str], library: impl AsRef<OsStr>) {
    let status = compiler()
        .args(["-D_GNU_SOURCE", "-O1", "-Werror"])
        .arg(std::path::Path::new(PROJECT).join("tests/double").join(source))
        .args(flags)
        .arg("-o")
        .arg(library)
        .args(["-ldl", "-lpthread"])
        .status();
    assert!(status.expect("a C compiler").success(), "the double does not compile");
}

const ALONE: &str = "CANDLE_ROCM_TEST_ALONE";

/// Whether this is the process that `alone` started for the test.
pub fn is_alone(test: &str) -> bool {
    std::env::var(ALONE).is_ok_and(|name| name == test)
}

/// Runs `body` in a process of its own. A process opens a library once and finds it through the environment. `test` is
/// the name of the calling test.
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
