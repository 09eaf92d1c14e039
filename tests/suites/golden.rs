//! Candle's launches with the outputs of Candle's CUDA kernels, see tests/golden/README.md.
//!
//! A trial is a launch on a device: `golden/cpu:32/unary/uneg_f32/0-contiguous`. `cargo test --test suites -- FILTER`
//! runs some of them. `CANDLE_ROCM_GOLDEN=DIR` selects another folder, `CANDLE_ROCM_DEVICE=cuda:0` one device.

use crate::support;
use crate::support::Target;
use crate::support::bounds::{self, close, root_of};
use crate::support::compare::{Close, compare, compare_within};
use crate::support::golden::{Argument, Data, folder, prepare, read};
use crate::support::quantized::{Given, compare_output};
use crate::support::sums::compare_atomic;
use candle_rocm_sys::{ALL_IDS, Arg, Launch};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use std::sync::Arc;

fn three(value: &Value) -> [u32; 3] {
    std::array::from_fn(|i| value[i].as_u64().map_or(1, |number| number as u32))
}

/// Makes the launch of a case, and compares every buffer that it could have written.
fn run(target: &Target, module: &str, data: &Data, case: &Value) -> Result<(), String> {
    let kernel = case["kernel"].as_str().ok_or("a case without a kernel")?;
    let args = case["args"].as_array().ok_or("a case without arguments")?;
    let held = args.iter().map(|arg| prepare(target, data, arg)).collect::<Result<Vec<_>, _>>()?;
    let passed: Vec<Arg> = held
        .iter()
        .map(|arg| match arg {
            Argument::Scalar { bits, bytes } => Arg::bits(*bits, *bytes),
            Argument::Null => Arg::ptr(std::ptr::null()),
            Argument::Scratch(memory) => Arg::ptr(memory.ptr()),
            Argument::Buffer { memory, .. } => Arg::ptr(memory.ptr()),
        })
        .collect();
    let shared_bytes = case["shared"].as_u64().unwrap_or(0) as u32;
    let launch = Launch { grid: three(&case["grid"]), block: three(&case["block"]), shared_bytes };
    let function = target.device.function_named(module, kernel).map_err(|error| error.to_string())?;
    // SAFETY: the arguments are those that Candle passes, with buffers of the same lengths.
    unsafe { function.launch(launch, &passed) }.map_err(|error| error.to_string())?;

    let given: Vec<Given> = held.iter().map(Argument::given).collect();
    for (index, arg) in held.iter().enumerate() {
        let Argument::Buffer { memory, before, t, expect } = arg else { continue };
        let after = memory.read().map_err(|error| format!("argument {index}: {error}"))?;
        let outcome = match (expect, t) {
            (Some(tensor), _) if module == "quantized" => compare_output(kernel, &given, &after, data.tensor(tensor)?),
            (Some(tensor), Some(t)) => {
                let (root, _) = root_of(kernel).ok_or("a kernel without a dtype")?;
                let theirs = data.tensor(tensor)?;
                match bounds::expected(root, *t, &given)? {
                    _ if root == "sum" => compare_atomic(*t, &given, &after, theirs),
                    Some(expected) => compare_within(*t, &expected, &after, theirs),
                    None => compare(*t, close(root, *t), &after, theirs),
                }
            }
            (Some(_), None) => Err("an output of no element type".into()),
            (None, _) => compare(support::number::U8, Close::Bits, &after, before)
                .map_err(|difference| format!("an input was changed: {difference}")),
        };
        outcome.map_err(|difference| format!("argument {index}: {difference}"))?;
    }
    Ok(())
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let folder = folder();
    let mut trials = Vec::new();
    for module in ALL_IDS.map(|id| id.module().name()) {
        let path = folder.join(format!("{module}.safetensors"));
        if std::env::var_os("CANDLE_ROCM_GOLDEN").is_some() && !path.exists() {
            continue;
        }
        let (data, cases) = read(&path).unwrap_or_else(|error| panic!("{error}"));
        let data = Arc::new(data);
        for target in targets {
            for case in &cases {
                let name = format!("golden/{}/{module}/{}", target.name, case["id"].as_str().unwrap_or("?"));
                let (data, case, trial) = (data.clone(), case.clone(), name.clone());
                trials.push(Trial::test(name, move || {
                    run(target, module, &data, &case).map_err(|difference| {
                        let line = support::repeat_line(&target.name, &trial, "");
                        Failed::from(format!("{difference}\n{line}"))
                    })
                }));
            }
        }
    }
    assert!(!trials.is_empty(), "{}: no golden cases for any device", folder.display());
    trials
}
