//! What the benches and the program `candle-rocm` share: the timed cases, the tools that time them, and the report.
#![warn(clippy::undocumented_unsafe_blocks)]

pub mod cases;
pub mod measure;
#[path = "../examples/support/program.rs"]
pub mod program;
pub mod report;
#[path = "../tests/support/cases.rs"]
#[allow(dead_code)] // the tests use more of it
mod shapes;

/// The result of a measurement. An error is a sentence for the user.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
