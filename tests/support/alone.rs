//! Runs a test in a process that has not opened any library yet.
use std::process::Command;

const ALONE: &str = "CANDLE_ROCM_TEST_ALONE";

/// Whether this is the process that `alone` started for the test.
pub fn is_alone(test: &str) -> bool {
    std::env::var(ALONE).is_ok_and(|name| name == test)
}

/// Runs `body` in a process of its own. A process opens a library once and finds it through the environment. `test` is
/// the name of the calling test. `CANDLE_ROCM_DEVICE` is not passed on.
pub fn alone(test: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    if is_alone(test) {
        return body();
    }
    let output = Command::new(std::env::current_exe().expect("this test's path"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env_remove("CANDLE_ROCM_DEVICE")
        // The diagnosis would take the machine for a container.
        .env_remove("KUBERNETES_SERVICE_HOST")
        .envs(environment.iter().copied())
        .env(ALONE, test)
        .output()
        .expect("the test's own process");
    let text =
        [&output.stdout[..], &output.stderr[..]].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    assert!(output.status.success(), "{}\n{text}", output.status);
    assert!(text.contains("1 passed"), "{test} did not run:\n{text}");
}
