//! The families of the bench, one row per case.
use super::private::clean;
use super::{Depth, progress};
use crate::Result;
use crate::cases::{self, Case, Size};
use crate::measure::Clock;
use crate::measure::row::{Bench, Row};
use candle_rocm_sys::{Device, DeviceInfo};
use serde::Serialize;

#[derive(Serialize)]
pub struct Measured {
    pub family: &'static str,
    pub op: String,
    pub dims: Vec<usize>,
    /// Bytes that must be read and written once.
    pub bytes: usize,
    pub time_us: f64,
    pub spread_percent: f64,
    /// For a case whose limit is memory.
    pub gb_per_s: Option<f64>,
    pub share_of_copy: Option<f64>,
    /// For a case whose limit is arithmetic.
    pub gflop_per_s: Option<f64>,
}

#[derive(Serialize)]
pub struct Families {
    pub elements: usize,
    pub rows: Vec<Measured>,
    /// A case that could not be run, and why.
    pub failures: Vec<String>,
}

/// All cases, or the first of each family.
fn chosen(depth: Depth, elements: usize) -> Vec<Case> {
    let mut cases = cases::all(Size { elements, odd: false });
    if depth == Depth::Quick {
        const EACH: usize = 3;
        let mut taken = std::collections::HashMap::new();
        cases.retain(|case| {
            let count: &mut usize = taken.entry(case.op.family()).or_default();
            *count += 1;
            *count <= EACH
        });
    }
    cases
}

/// `copy_speed` is in bytes per second.
pub fn measure(
    device: &Device,
    info: &DeviceInfo,
    clock: Clock<'_>,
    (depth, elements, beyond): (Depth, usize, usize),
    copy_speed: f64,
) -> Result<Families> {
    let mut bench = Bench {
        device,
        clock,
        compute_units: info.compute_units,
        copy_speed,
        bare: None,
        other: None,
        torch: None,
        beyond,
    };
    let cases = chosen(depth, elements);
    let bar = progress::bar("ops", cases.len());
    let mut families = Families { elements, rows: Vec::new(), failures: Vec::new() };
    for case in &cases {
        bar.set_message(case.name.clone());
        match Row::measure(&mut bench, case) {
            Ok(row) => families.rows.push(measured(case, &row, copy_speed)),
            Err(error) => families.failures.push(clean(&format!("{}: {error}", case.name))),
        }
        bar.inc(1);
    }
    bar.finish_with_message("");
    Ok(families)
}

fn measured(case: &Case, row: &Row, copy_speed: f64) -> Measured {
    let time = row.time();
    let (speed, operations) = (case.moved as f64 / time.median, row.operations());
    Measured {
        family: case.op.family(),
        op: case.name.clone(),
        dims: case.dims.clone(),
        bytes: case.moved,
        time_us: time.median * 1e6,
        spread_percent: time.spread() * 100.0,
        gb_per_s: operations.is_none().then_some(speed * 1e-9),
        share_of_copy: operations.is_none().then_some(speed / copy_speed),
        gflop_per_s: operations.map(|count| count as f64 / time.median * 1e-9),
    }
}
