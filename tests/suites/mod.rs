//! Suites of trials, each of which runs a part of the kernels on a device and compares the results.

mod attention;
mod batch_norm;
mod bounds;
mod comm;
mod conv;
mod ffi;
mod fused;
mod golden;
mod group_norm;
mod heads;
mod indexing;
mod matmat;
mod matmul;
mod matmul_wide;
mod matvec;
mod moe;
mod norm;
mod probe;
mod properties;
mod quantized;
mod random;
mod reduce;
mod rope;
mod sort;
mod timed;

use crate::support::Target;
use libtest_mimic::Trial;

/// The trials of one part of the kernels. Their names begin with the suite's, then the device's: `sort/cpu:32/graph`.
pub struct Suite {
    pub name: &'static str,
    make: fn(&'static [Target]) -> Vec<Trial>,
}

impl Suite {
    pub fn trials(&self, targets: &'static [Target]) -> Vec<Trial> {
        (self.make)(targets)
    }
}

macro_rules! suites {
    ($($name:ident)*) => { &[$(Suite { name: stringify!($name), make: $name::trials }),*] };
}

/// All suites. Those whose trials take longest come first, so that no thread is left with one at the end.
pub const SUITES: &[Suite] = suites!(
    attention sort moe reduce properties bounds golden random timed indexing conv ffi matmat matvec matmul matmul_wide
    quantized norm rope fused heads comm probe
);
