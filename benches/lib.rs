//! What the benches and the program `candle-rocm` share: the timed cases, the tools that time them, and the report.
#![warn(clippy::undocumented_unsafe_blocks)]

pub mod measure;
#[path = "../examples/support/program.rs"]
pub mod program;
pub mod report;

/// The timed cases (cases/). The tests check the results of the same calls, so the module is in their library.
pub use candle_rocm_sys_tests::cases;
use candle_rocm_sys_tests::support::cases as shapes;

/// The result of a measurement. An error is a sentence for the user.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A number such as "300" or "2^20".
pub fn number_of_text(text: &str) -> Option<usize> {
    match text.split_once('^') {
        Some((base, exponent)) => base.parse::<usize>().ok()?.checked_pow(exponent.parse().ok()?),
        None => text.parse().ok(),
    }
}
