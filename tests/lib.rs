//! The suites of kernels (suites/) and what all tests share (support/). The test program `suites` runs them, and so do
//! other programs that check a device.

// The arguments of the macro `call` are those of one call of C, and belong to its unsafe block.
#![allow(clippy::macro_metavars_in_unsafe)]

// The calls that benches time; the suite `timed` tests their results.
#[path = "../benches/cases/mod.rs"]
pub mod cases;
pub mod suites;
pub mod support;

use support::cases as shapes;
