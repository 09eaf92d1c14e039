//! Candle's launches with the outputs of Candle's CUDA kernels: tests/golden/README.md.
//!
//! A trial is a launch on a device: `golden/cpu:32/unary/uneg_f32/0-contiguous`. `cargo test --test golden -- FILTER` runs
//! some of them. `CANDLE_ROCM_GOLDEN=DIR` reads another folder, `CANDLE_ROCM_DEVICE=cuda:0` picks one device.
mod support;

use candle_rocm_sys::{ALL_IDS, Arg, Launch};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use support::bounds::{close, root_of};
use support::compare::{Close, compare};
use support::number::Type;
use support::quantized::{Given, compare_output};
use support::sums::compare_atomic;
use support::{Guarded, Target};

/// The files of a module's tensors.
struct Data {
    bytes: Vec<u8>,
    /// Where each tensor lies in `bytes`.
    tensors: HashMap<String, (usize, usize)>,
}

impl Data {
    fn tensor(&self, name: &str) -> Result<&[u8], String> {
        let (begin, end) = self.tensors.get(name).ok_or_else(|| format!("the file has no tensor {name}"))?;
        Ok(&self.bytes[*begin..*end])
    }
}

/// The folder of the golden files: named by the environment, in the crate, or below where the program runs.
fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("CANDLE_ROCM_GOLDEN") {
        return folder.into();
    }
    let crates = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"));
    if crates.is_dir() { crates } else { "tests/golden".into() }
}

/// Reads a safetensors file: its tensors and its cases.
fn read(path: &PathBuf) -> Result<(Data, Vec<Value>), String> {
    let fail = |what: &str| format!("{}: {what}", path.display());
    let bytes = std::fs::read(path).map_err(|error| fail(&error.to_string()))?;
    let length = bytes.first_chunk::<8>().ok_or_else(|| fail("too short"))?;
    let start = 8 + u64::from_le_bytes(*length) as usize;
    let header = bytes.get(8..start).ok_or_else(|| fail("the header is cut off"))?;
    let header: Value = serde_json::from_slice(header).map_err(|error| fail(&error.to_string()))?;
    let cases = header["__metadata__"]["cases"].as_str().ok_or_else(|| fail("no cases"))?;
    let cases = serde_json::from_str(cases).map_err(|error| fail(&error.to_string()))?;
    let mut tensors = HashMap::new();
    for (name, tensor) in header.as_object().into_iter().flatten().filter(|(name, _)| *name != "__metadata__") {
        let offset = |i: usize| tensor["data_offsets"][i].as_u64().map(|offset| start + offset as usize);
        let (begin, end) = offset(0).zip(offset(1)).ok_or_else(|| fail("a tensor without offsets"))?;
        if begin > end || end > bytes.len() {
            return Err(fail("a tensor beyond the end"));
        }
        tensors.insert(name.clone(), (begin, end));
    }
    Ok((Data { bytes, tensors }, cases))
}

/// One argument, on the device.
enum Argument {
    Scalar { bits: u64, bytes: u32 },
    Null,
    Buffer { memory: Guarded, before: Vec<u8>, t: Option<Type>, expect: Option<String> },
}

impl Argument {
    fn given(&self) -> Given<'_> {
        match self {
            Argument::Scalar { bits, .. } => Given::Scalar(*bits),
            Argument::Null => Given::Scalar(0),
            Argument::Buffer { before, .. } => Given::Bytes(before),
        }
    }
}

fn hex(value: &Value) -> Result<u64, String> {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x")).ok_or("no hexadecimal number")?;
    u64::from_str_radix(digits, 16).map_err(|error| error.to_string())
}

fn size_of_type(name: &str) -> Result<usize, String> {
    match Type::named(name) {
        Some(t) => Ok(t.bytes),
        None if name == "u64" => Ok(8),
        None if name == "bytes" => Ok(1),
        None => Err(format!("unknown type {name}")),
    }
}

fn prepare(target: &Target, data: &Data, arg: &Value) -> Result<Argument, String> {
    if arg["null"] == true {
        return Ok(Argument::Null);
    }
    if let Some(name) = arg["scalar"].as_str() {
        return Ok(Argument::Scalar { bits: hex(&arg["bits"])?, bytes: size_of_type(name)? as u32 });
    }
    let name = arg["buffer"].as_str().ok_or("an argument of no known form")?;
    let bytes = arg["len"].as_u64().ok_or("a buffer without a length")? as usize * size_of_type(name)?;
    let before = match arg["init"].as_str() {
        Some(tensor) => data.tensor(tensor)?.to_vec(),
        None => vec![hex(&arg["fill"])? as u8; bytes],
    };
    if before.len() != bytes {
        return Err(format!("a buffer of {bytes} bytes from a tensor of {}", before.len()));
    }
    let memory = Guarded::new(&target.device, &before, 0).map_err(|error| error.to_string())?;
    let expect = arg["expect"].as_str().map(str::to_owned);
    Ok(Argument::Buffer { memory, before, t: Type::named(name), expect })
}

fn three(value: &Value) -> [u32; 3] {
    std::array::from_fn(|i| value[i].as_u64().map_or(1, |number| number as u32))
}

/// Makes the launch of a case and compares everything that it could have written.
fn run(target: &Target, module: &str, data: &Data, case: &Value) -> Result<(), String> {
    let kernel = case["kernel"].as_str().ok_or("a case without a kernel")?;
    let args = case["args"].as_array().ok_or("a case without arguments")?;
    let held = args.iter().map(|arg| prepare(target, data, arg)).collect::<Result<Vec<_>, _>>()?;
    let passed: Vec<Arg> = held
        .iter()
        .map(|arg| match arg {
            Argument::Scalar { bits, bytes } => Arg::bits(*bits, *bytes),
            Argument::Null => Arg::ptr(std::ptr::null()),
            Argument::Buffer { memory, .. } => Arg::ptr(memory.ptr()),
        })
        .collect();
    let shared_bytes = case["shared"].as_u64().unwrap_or(0) as u32;
    let launch = Launch { grid: three(&case["grid"]), block: three(&case["block"]), shared_bytes };
    let function = target.device.function_named(module, kernel).map_err(|error| error.to_string())?;
    // SAFETY: the arguments are those that Candle gives this kernel, in buffers as long as Candle's.
    unsafe { function.launch(launch, &passed) }.map_err(|error| error.to_string())?;

    let given: Vec<Given> = held.iter().map(Argument::given).collect();
    for (index, arg) in held.iter().enumerate() {
        let Argument::Buffer { memory, before, t, expect } = arg else { continue };
        let after = memory.read().map_err(|error| format!("argument {index}: {error}"))?;
        let outcome = match (expect, t) {
            (Some(tensor), _) if module == "quantized" => compare_output(kernel, &given, &after, data.tensor(tensor)?),
            (Some(tensor), Some(t)) => {
                let (root, _) = root_of(kernel).ok_or("a kernel without a dtype")?;
                let expected = data.tensor(tensor)?;
                match root {
                    "sum" => compare_atomic(*t, &given, &after, expected),
                    _ => compare(*t, close(root, *t), &after, expected),
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

fn main() {
    let arguments = Arguments::from_args();
    let folder = folder();
    let mut trials = Vec::new();
    for module in ALL_IDS.map(|id| id.module().name()) {
        let path = folder.join(format!("{module}.safetensors"));
        if std::env::var_os("CANDLE_ROCM_GOLDEN").is_some() && !path.exists() {
            continue;
        }
        let (data, cases) = read(&path).unwrap_or_else(|error| panic!("{error}"));
        let data = Arc::new(data);
        for target in support::targets() {
            for case in &cases {
                let name = format!("golden/{}/{module}/{}", target.name, case["id"].as_str().unwrap_or("?"));
                let (data, case, trial) = (data.clone(), case.clone(), name.clone());
                trials.push(Trial::test(name, move || {
                    run(target, module, &data, &case).map_err(|difference| {
                        let line = support::repeat_line(&target.name, "golden", &trial, "");
                        Failed::from(format!("{difference}\n{line}"))
                    })
                }));
            }
        }
    }
    assert!(!trials.is_empty(), "{}: no golden cases for any device", folder.display());
    support::conclude(&arguments, trials);
}
