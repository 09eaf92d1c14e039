//! Compiles the doubles of libraries (tests/double).
pub use super::alone::{alone, is_alone};
use crate::support::paths::PROJECT;
use std::ffi::OsStr;
use std::process::Command;

/// The C compiler of this build. `CC` may name it behind another program, as in "ccache gcc". `CFLAGS` adds a
/// sanitizer's flags, which the archive was compiled with too. As in a real library, functions are not checked for the
/// type that their caller declares: pointers to a runtime's objects have other names there.
pub fn compiler() -> Command {
    let named = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut words = named.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("cc"));
    command.args(words).args(["-std=c11", "-g", "-fPIC", "-Wall", "-Wextra", "-shared"]);
    let flags = std::env::var("CFLAGS").unwrap_or_default();
    command.args(flags.split_whitespace());
    if flags.contains("undefined") {
        command.arg("-fno-sanitize=function");
    }
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
        .args(["-ldl", "-lpthread", "-lm"])
        .status();
    assert!(status.expect("a C compiler").success(), "the double does not compile");
}
